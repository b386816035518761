#!/usr/bin/env bash
# Runs every test of the project: quiet when green, the output of what failed when red, a count at the end. Arguments go
# to `cargo test`, for example `tests/run.sh --test protocol`.

set -u

# A test that hangs must not hang the whole run.
TIME_LIMIT=20m

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

have() {
  command -v "$1" >/dev/null
}

# install PACKAGE WHAT-IS-SKIPPED: Debian's package, where that can be installed.
install() {
  if [ "$(id -u)" -eq 0 ] && have apt-get; then
    echo "installing $1" >&2
    if { apt-get -qq update && apt-get -qq install --no-install-recommends "$1"; } >"$log" 2>&1 </dev/null; then
      return
    fi
    tail -n 5 "$log" >&2
  fi
  echo "$1 is missing (apt-get install $1): $2 skipped" >&2
}

# The tests of ZooKeeper's side run against real servers; Debian's package brings a Java runtime with it.
prepare_zookeeper() {
  if [ -z "${METAQ_TEST_ZOOKEEPER_CLASSPATH:-}" ] && ! { [ -e /usr/share/java/zookeeper.jar ] && have java; }; then
    install zookeeper "its tests are"
  fi
}

prepare_valgrind() {
  if ! have valgrind; then install valgrind "the count of instructions is"; fi
}

prepare_interop() {
  if [ -d tests/interop ] && ! { have java && have mvn; }; then
    echo "Java or Maven is missing: the tests with Java clients are skipped" >&2
  fi
}

limited() {
  if have timeout; then timeout "$TIME_LIMIT" "$@"; else "$@"; fi
}

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
prepare_zookeeper
prepare_valgrind
prepare_interop

if ! cargo test --locked --no-run "$@" >"$log" 2>&1 </dev/null; then
  cat "$log"
  echo "the tests do not build"
  exit 1
fi

# What a test prints is kept also if it passes: there a test tells that it was skipped because something is missing.
limited cargo test --locked --no-fail-fast "$@" -- --show-output >"$log" 2>&1 </dev/null
status=$?

count() {
  sed -n "s/^test result: .* \([0-9][0-9]*\) $1;.*/\1/p" "$log" | awk '{ sum += $1 } END { print sum + 0 }'
}
missing=$(grep -c '^skipped: ' "$log")
passed=$(($(count passed) - missing))
failed=$(count failed)
skipped=$(($(count ignored) + missing))

if [ "$status" -ne 0 ]; then
  if [ "$failed" -gt 0 ]; then
    awk '/^ *Running |^ *Doc-tests /{ program = $0 }
         /^failures:$/{ if (!shown) print program; shown = 1 }
         shown
         /^test result: /{ shown = 0 }' "$log"
    # The names once more and last: of a long log often only the end is kept.
    sed -n 's/^test \(.*\) \.\.\. FAILED$/failed: \1/p' "$log"
  else
    tail -n 100 "$log"
    echo "a test program did not end as it should (exit status $status)"
  fi
elif [ "$missing" -gt 0 ]; then
  grep '^skipped: ' "$log" | sort | uniq -c
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$status" -eq 0 ]
