#!/usr/bin/env bash
# Starts, stops and watches a MetaQ broker in the background. `metaServer.sh help` shows how.

set -u

# Seconds after which `stop --force` kills.
KILL_AFTER=20

usage() {
  cat <<'TEXT'
Usage: metaServer.sh COMMAND

  start           start the broker and wait until it serves and is registered in ZooKeeper
  start local     start it for this machine only, with a ZooKeeper of its own
  stop            stop it; it serves on for zk.zkSyncTimeMs after it has left ZooKeeper
  stop --force    the same, but kill it if it has not ended after 20 s
  restart         stop it, start it again in the same mode and, unless METAQ_CONFIG is set, with the same file
  restart local   stop it, start it in local mode
  status          tell whether it runs, its address and since when
  help            this text

Exit status: 0 done (status: running), 1 failed (status: stopped).

  METAQ_CONFIG        configuration file          default: conf/server.ini
  METAQ_LOG_DIR       metaServer.log, .run.pid    default: logs
  METAQ_BIN           the program metaq           default: bin/metaq, or what `cargo build --release` makes
  METAQ_STOP_TIMEOUT  longest wait of stop, s     default: 120
  RUST_LOG            what is logged              default: info

Defaults, and relative paths in the configuration, start from the directory above this script's.
TEXT
}

# The texts that scripts written for the Java broker look for on standard output.
refuse() {
  printf '%s\n' "$@"
  exit 1
}

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# --- Where things are -------------------------------------------------------------------------------------------------

# The directory above the one that holds the real file behind any links.
base_directory() {
  local path=$1 target
  while [ -L "$path" ]; do
    target=$(readlink "$path")
    case $target in
      /*) path=$target ;;
      *) path=$(dirname "$path")/$target ;;
    esac
  done
  cd -P "$(dirname "$path")/.." && pwd
}

absolute() {
  case $1 in
    /*) printf '%s\n' "$1" ;;
    *) printf '%s\n' "$PWD/$1" ;;
  esac
}

locate() {
  base=$(CDPATH='' base_directory "${BASH_SOURCE[0]}") || exit 1
  config=$(absolute "${METAQ_CONFIG:-$base/conf/server.ini}")
  log_dir=$(absolute "${METAQ_LOG_DIR:-$base/logs}")
  binary=${METAQ_BIN:+$(absolute "$METAQ_BIN")}
  log=$log_dir/metaServer.log
  pid_file=$log_dir/.run.pid
  # What the pid file, whose form is the Java broker's, has no room for.
  state_file=$log_dir/.run.state
  # Relative paths in the configuration must not depend on where the operator happens to stand.
  cd "$base" || exit 1
}

find_binary() {
  if [ -n "$binary" ]; then
    if [ -f "$binary" ] && [ -x "$binary" ]; then return; fi
    fail "METAQ_BIN: $binary is not a program."
  fi
  binary=$base/bin/metaq
  [ -x "$binary" ] && return
  local target=${CARGO_TARGET_DIR:-target}
  binary=$(absolute "$target")/release/metaq
  [ -x "$binary" ] && return
  [ -f Cargo.toml ] || fail "There is no program $base/bin/metaq and no source to build it from: set METAQ_BIN."
  command -v cargo >/dev/null || fail "metaq is not built and cargo is not there: install Rust, or set METAQ_BIN."
  echo "Building metaq..." >&2
  cargo build --release --locked --bin metaq >&2 || fail "metaq could not be built."
  [ -x "$binary" ] || fail "cargo did not put metaq at $binary: set METAQ_BIN."
}

# --- Which process it is ----------------------------------------------------------------------------------------------

# Prints when a process began, in whatever form the system has: with the number it names one process for ever. Fails if
# there is no such process; one that has ended and only waits for its parent to notice counts as none.
birth() {
  local stat rest
  case $1 in '' | *[!0-9]*) return 1 ;; esac
  if [ -r /proc/self/stat ]; then
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    read -r -a rest <<<"${stat##*) }"
    case ${rest[0]} in Z | X) return 1 ;; esac
    printf '%s\n' "${rest[19]}"
  else
    stat=$(ps -o stat= -p "$1") && [ -n "$stat" ] || return 1
    case $stat in Z*) return 1 ;; esac
    ps -o lstart= -p "$1"
  fi
}

# Succeeds if the broker that the files name is alive, and sets what is known of it.
find_broker() {
  local key value
  pid='' born='' mode='' address='' started='' log_start='' config_used=''
  [ -f "$state_file" ] || return 1
  while IFS='=' read -r key value; do
    case $key in
      pid) pid=$value ;;
      born) born=$value ;;
      mode) mode=$value ;;
      address) address=$value ;;
      started) started=$value ;;
      log_start) log_start=$value ;;
      config) config_used=$value ;;
    esac
  done <"$state_file"
  case $started in '' | *[!0-9]*) started=$(date +%s) ;; esac
  case $log_start in '' | *[!0-9]*) log_start=0 ;; esac
  alive && ours
}

# Whether the files tell of this broker and no later one.
ours() {
  [ "$(cat "$pid_file" 2>/dev/null)" = "$pid" ]
}

alive() {
  [ -n "$born" ] && [ "$(birth "$pid")" = "$born" ]
}

# A Java broker that was started from this directory has its number in the same file.
refuse_beside_java() {
  local other
  other=$(cat "$pid_file" 2>/dev/null) && birth "$other" >/dev/null || return 0
  if { tr '\0' ' ' <"/proc/$other/cmdline" || ps -o args= -p "$other"; } 2>/dev/null |
    grep -q 'com\.taobao\.metamorphosis\.'; then
    refuse "Broker is running." "It is a Java broker, pid $other: stop it with its own script first."
  fi
}

remember() {
  printf '%s\n' "pid=$pid" "born=$born" "mode=$mode" "address=$address" "started=$started" "log_start=$log_start" \
    "config=$config" \
    >"$state_file.new" && mv -f "$state_file.new" "$state_file" && printf '%s\n' "$pid" >"$pid_file"
}

# Removes the files, unless they already tell of a later broker.
forget() {
  lock
  if ours; then rm -f "$pid_file" "$state_file"; fi
  unlock
}

# Two starts at once must not both find nobody. Where there is no flock, the broker's own lock on its data decides.
lock() {
  exec 9>>"$log_dir/.run.lock" || exit 1
  if command -v flock >/dev/null; then flock 9; fi
}

unlock() {
  exec 9>&-
}

# --- What its log says ------------------------------------------------------------------------------------------------

log_of_this_run() {
  tail -c "+$((log_start + 1))" "$log" 2>/dev/null
}

# Where the registration stands, in the words of the log.
registration() {
  log_of_this_run | sed -n \
    -e 's/^[^ ]* *[A-Z]* registration state=//p' \
    -e 's/^[^ ]* *[A-Z]* \(zookeeper cannot be reached\)/\1/p' | tail -n 1
}

setting() {
  "$binary" config show "$config" --output json 2>/dev/null | sed -n "s/.*\"$1\":\([a-z0-9]*\).*/\1/p"
}

# For a broker that has ended, which was a child of ours.
explain_end() {
  local status errors
  wait "$pid"
  status=$?
  forget
  errors=$(log_of_this_run | sed -n '/^[^ ]* *ERROR /,$p')
  [ -n "$errors" ] || errors=$(log_of_this_run | tail -n 20)
  fail "${errors:-It left no word.}" "Meta broker did not start (exit status $status); its log is $log"
}

# --- Commands ---------------------------------------------------------------------------------------------------------

# A wait shows one dot a second.
begin_wait() {
  waiting_since=$SECONDS
  dots=0
}

tick() {
  sleep 0.1
  while [ "$dots" -lt $((SECONDS - waiting_since)) ]; do
    printf '.'
    dots=$((dots + 1))
  done
}

end_wait() {
  if [ "$dots" -gt 0 ]; then echo; fi
}

spawn() {
  local options=(-f "$config") fd detach=nohup
  if [ "$mode" = local ]; then options+=(-l); fi
  if command -v setsid >/dev/null; then detach=setsid; fi
  # Whether it is registered must be logged, whatever else is to be.
  if [ -n "${RUST_LOG:-}" ]; then export RUST_LOG="$RUST_LOG,metaq::zk=info"; fi
  (
    # Whoever waits for the end of a pipe of ours must not wait for the broker.
    exec 9>&-
    for fd in /dev/fd/*; do
      fd=${fd##*/}
      case $fd in [3-9] | [1-9][0-9]*) eval "exec $fd>&-" ;; esac
    done
    exec "$detach" "$binary" broker "${options[@]}" </dev/null >>"$log" 2>&1
  ) &
  pid=$!
}

start() {
  local wanted=$1
  find_binary
  if find_broker; then refuse "Broker is running."; fi
  if ! { mkdir -p "$log_dir" && : >>"$log"; }; then
    fail "Cannot write $log: set METAQ_LOG_DIR or run as another user."
  fi
  lock
  if find_broker; then refuse "Broker is running."; fi
  refuse_beside_java
  mode=$wanted address='' started=$(date +%s) log_start=$(wc -c <"$log" | tr -d ' ')
  spawn
  # It may be gone already; then it is found so below.
  born=$(birth "$pid")
  if ! remember; then
    kill "$pid" 2>/dev/null
    fail "Cannot write $pid_file."
  fi
  unlock
  wait_until_ready
  wait_until_registered
}

wait_until_ready() {
  begin_wait
  echo "Starting meta broker..."
  trap 'end_wait; fail "It goes on starting in the background, pid $pid; its log is $log"' INT
  while address=$(log_of_this_run | sed -n 's/^READY //p' | head -n 1) && [ -z "$address" ]; do
    if ! alive; then
      end_wait
      explain_end
    fi
    tick
  done
  trap - INT
  end_wait
  lock
  if ours; then remember; fi
  unlock
}

wait_until_registered() {
  local limit reason
  if [ "$(setting 'zk\.zkEnable')" = false ]; then
    running "not registered: zk.zkEnable=false"
    return
  fi
  limit=$(setting 'zk\.zkConnectionTimeoutMs')
  limit=$(((${limit:-30000} + 999) / 1000))
  begin_wait
  trap 'end_wait; running "not registered yet: $(registration)"; exit 0' INT
  while [ $((SECONDS - waiting_since)) -le "$limit" ]; do
    if [ "$(registration)" = "registered in ZooKeeper" ]; then
      end_wait
      running "$(registered_where)"
      return
    elif ! alive; then
      end_wait
      explain_end
    fi
    tick
  done
  trap - INT
  end_wait
  reason=$(registration)
  reason=${reason:-no answer from ZooKeeper within zk.zkConnectionTimeoutMs}
  running "not registered: ${reason#not registered: }"
}

registered_where() {
  if [ "$mode" = local ]; then
    printf '%s\n' "in local mode, with a ZooKeeper of its own at $(local_zookeeper)"
  else
    echo "registered in ZooKeeper"
  fi
}

# What it listens on, as its log tells.
local_zookeeper() {
  log_of_this_run | sed -n 's/^[^ ]* *INFO zookeeper of local mode serves address=\([^ ]*\).*/\1/p' | head -n 1
}

running() {
  printf '%s\n' "Meta broker is running, $1" "$address, pid $pid, log $log"
}

stop() {
  local force=$1 limit=${METAQ_STOP_TIMEOUT:-120} elapsed killed=''
  find_broker || refuse "Broker is not running."
  case $limit in '' | *[!0-9]*) fail "METAQ_STOP_TIMEOUT: $limit is not a number of seconds." ;; esac
  kill -TERM "$pid" 2>/dev/null || ! alive || fail "Cannot stop pid $pid: run as its user or as root."
  begin_wait
  while alive; do
    tick
    elapsed=$((SECONDS - waiting_since))
    if [ -n "$force" ] && [ "$elapsed" -ge "$KILL_AFTER" ]; then
      kill -KILL "$pid" 2>/dev/null && killed=yes
    elif [ -z "$force" ] && [ "$elapsed" -ge "$limit" ]; then
      end_wait
      fail "Meta broker is still stopping after $limit s, pid $pid: see $log, or use stop --force."
    fi
  done
  end_wait
  forget
  if [ -n "$killed" ]; then echo "It had to be killed." >&2; fi
  echo "Stop meta broker successfully."
}

restart() {
  local old_mode=${1:-}
  find_binary
  if find_broker; then
    # The same broker again, with the file it was started with, unless the operator names one.
    if [ -z "${METAQ_CONFIG:-}" ] && [ -n "$config_used" ]; then config=$config_used; fi
    # A running broker is worth more than none.
    "$binary" config check "$config" >/dev/null || fail "Meta broker was not restarted, it runs on as before."
    stop ''
  fi
  start "${old_mode:-${mode:-cluster}}"
}

status() {
  local now seconds up reason
  find_broker || {
    echo "Meta broker was stopped."
    exit 1
  }
  now=$(date +%s)
  seconds=$((now - started))
  up=$(printf '%d d %02d:%02d:%02d' $((seconds / 86400)) $((seconds / 3600 % 24)) $((seconds / 60 % 60)) $((seconds % 60)))
  echo "Meta broker is running."
  echo "pid $pid, ${address:-not listening yet}, up $up"
  if [ "$(registration)" = "registered in ZooKeeper" ]; then
    registered_where
  else
    reason=$(registration)
    reason=${reason#not registered: }
    echo "not registered: ${reason:-no word from ZooKeeper (zk.zkEnable=false, or it has just started)}"
  fi
}

locate
command=${1:-}
if [ $# -gt 0 ]; then shift; fi
case "$command ${1:-}" in
  'start ') start cluster ;;
  'start local') start local ;;
  'start slave' | 'start samsa' | 'start gregor') fail "Replication ($1) is not available in this release." ;;
  'stop ') stop '' ;;
  'stop --force') stop force ;;
  'restart ') restart ;;
  'restart local') restart local ;;
  'status ') status ;;
  'help '* | '--help '* | '-h '*) usage ;;
  'reload '* | 'slave-status '* | 'stats '* | 'open-partitions '* | 'close-partitions '* | 'move-partitions '* | \
    'delete-partitions '* | 'query '*) fail "$command is not available in this release." ;;
  *)
    usage >&2
    exit 1
    ;;
esac
