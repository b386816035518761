#!/usr/bin/env bash
# Starts, stops and watches a MetaQ broker in the background. `metaServer.sh help` shows how.

set -u

# Seconds after which `stop --force` kills.
KILL_AFTER=20

# Seconds within which a broker answers, or it hangs.
ANSWER_WITHIN=5

# Seconds after which `stop` says why it may take long.
SAY_WHY_AFTER=10

usage() {
  cat <<'TEXT'
Usage: metaServer.sh COMMAND

  start             start the broker and wait until it serves and is registered in ZooKeeper
  start local       start it for this machine only, with a ZooKeeper of its own
  stop              stop it; it serves on for zk.zkSyncTimeMs after it has left ZooKeeper
  stop --force      the same, but kill it if it has not ended after 20 s
  restart           stop it, start it again in the same mode and, unless METAQ_CONFIG is set, with the same file
  restart local     stop it, start it in local mode
  status            tell whether it runs, its addresses, registration and health
  reload            have it read its configuration file again, and tell what changed or why nothing did

  stats [ITEM]      what it counts; ITEM: topics, offsets, realtime, config, help, reset or a topic (also: -item ITEM)
  close-partitions -topic TOPIC -start FIRST -end LAST
                    close partitions for put and get, until they are opened or the broker is restarted
  open-partitions -topic TOPIC
                    open all partitions of a topic
  help              this text

Exit status: 0 done (status: running), 1 failed (status: stopped, or it does not answer).

  METAQ_CONFIG        configuration file          default: conf/server.ini
  METAQ_LOG_DIR       see below                   default: logs
  METAQ_BIN           the program metaq           default: bin/metaq, or what `cargo build --release` makes
  METAQ_ADMIN_TOKEN   token for changes, if the broker has one that is not in adminTokenFile
  METAQ_STOP_TIMEOUT  longest wait of stop, s     default: 120
  RUST_LOG            what is logged              default: info

In METAQ_LOG_DIR: metaServer.log, the log (logFileBytes and logFiles in [metaq] limit it); metaServer.out, what the present
broker says at its start; .run.pid and .run.state, which process it is;
.run.lock, held while one is started.

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
  # The state file has a line for each.
  case $config$log_dir in *$'\n'*) fail "A path must not contain a line break: set METAQ_CONFIG or METAQ_LOG_DIR to others." ;; esac
  log=$log_dir/metaServer.log
  # What it prints itself: where it listens, why it did not start, panics.
  out=$log_dir/metaServer.out
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
# there is no such process; one that has ended and only waits for its parent to notice counts as none. While threads of
# it are left it has not ended: its first one may be through while others still hold the ports and the data.
birth() {
  local stat rest
  case $1 in '' | *[!0-9]*) return 1 ;; esac
  if [ -r /proc/self/stat ]; then
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    read -r -a rest <<<"${stat##*) }"
    case ${rest[0]} in
      Z | X) [ "${rest[17]}" -gt 1 ] || return 1 ;;
    esac
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
  pid='' born='' mode='' address='' admin='' token_file='' config_used=''
  while IFS='=' read -r key value; do
    case $key in
      pid) pid=$value ;;
      born) born=$value ;;
      mode) mode=$value ;;
      address) address=$value ;;
      admin) admin=$value ;;
      token_file) token_file=$value ;;
      config) config_used=$value ;;
    esac
  done < <(cat "$state_file" 2>/dev/null)
  if ! { alive && ours; }; then find_by_number || return 1; fi
  # Whoever started it may not have waited for these.
  [ -n "$admin" ] || admin=$(told ADMIN)
  [ -n "$address" ] || address=$(told READY)
}

# If the state file is gone or damaged: a live process with the number of the pid file is ours if it was told to write
# our log. It tells the rest itself.
find_by_number() {
  local number start words i writes='' file='' how=cluster
  number=$(cat "$pid_file" 2>/dev/null) && start=$(birth "$number") || return 1
  { mapfile -d '' -t words <"/proc/$number/cmdline"; } 2>/dev/null || return 1
  for ((i = 0; i < ${#words[@]}; i++)); do
    case ${words[i]} in
      --log-file) writes=${words[i + 1]:-} ;;
      -f) file=${words[i + 1]:-} ;;
      -l) how=local ;;
    esac
  done
  [ "$writes" = "$log" ] || return 1
  pid=$number born=$start mode=$how address='' admin='' config_used=$file
  local binary=${words[0]} config=$file
  token_file=$(setting adminTokenFile)
}

# Whether the files tell of this broker and no later one.
ours() {
  [ "$(cat "$pid_file" 2>/dev/null)" = "$pid" ]
}

# Whether it was suspended by a signal or a debugger.
suspended() {
  local stat
  if [ -r "/proc/$pid/stat" ]; then
    { read -r stat <"/proc/$pid/stat"; } 2>/dev/null || return 1
    stat=${stat##*) }
  else
    stat=$(ps -o stat= -p "$pid")
  fi
  case $stat in T* | t*) return 0 ;; *) return 1 ;; esac
}

alive() {
  [ -n "$born" ] && [ "$(birth "$pid")" = "$born" ]
}

refuse_beside_ours() {
  find_broker || return 0
  if suspended; then refuse "Broker is running." "It is suspended: \`kill -CONT $pid\` lets it go on."; fi
  refuse "Broker is running."
}

how_to_wake() {
  printf '%s' "it is suspended: \`kill -CONT $pid\` lets it go on"
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
  printf '%s\n' "pid=$pid" "born=$born" "mode=$mode" "address=$address" "admin=$admin" "token_file=$token_file" \
    "config=$config" >"$state_file.new" && mv -f "$state_file.new" "$state_file" && printf '%s\n' "$pid" >"$pid_file"
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

# --- What it says -----------------------------------------------------------------------------------------------------

# told WORD: what stands behind the word in a line that the broker printed at its start.
told() {
  sed -n "s/^$1 //p" "$out" 2>/dev/null | head -n 1
}

# `setting KEY` tells a value of the configuration, as the broker understands it; nothing if it is not set.
setting() {
  local text='(([^"\]|\\.)*)'
  # What JSON escapes in a text, %b takes back; the quotation mark it does not know.
  printf '%b' "$("$binary" config show "$config" --output json 2>/dev/null |
    sed -nE -e "/\"$1\":null/d" -e "s/.*\"$1\":(\"$text\"|([^,\"}]*)).*/\2\4/" -e 't found' -e d \
      -e ':found' -e 's/\\\\/\\0134/g; s/\\"/\\0042/g; p')"
}

# Asks the broker by its HTTP interface.
ask() {
  local options=(--admin "$admin")
  if [ -n "$token_file" ]; then options+=(--token-file "$token_file"); fi
  "$binary" "$@" "${options[@]}"
}

# What it tells of itself; fails if it gives no answer.
report() {
  ask admin status --timeout-ms $((ANSWER_WITHIN * 1000))
}

# `line NAME` picks a line of such a report.
line() {
  sed -n "s/^$1  *//p"
}

# For a broker that has ended, which was a child of ours.
explain_end() {
  local status said
  wait "$pid"
  status=$?
  said=$(grep -v -e '^ADMIN ' -e '^READY ' "$out" | tail -n 50)
  forget
  [ -n "$said" ] || said=$(tail -n 5 "$log" 2>/dev/null)
  fail "${said:-It left no word.}" "Meta broker did not start (exit status $status); its log is $log"
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
  local options=(-f "$config" --log-file "$log") fd detach=nohup
  if [ "$mode" = local ]; then options+=(-l); fi
  if command -v setsid >/dev/null; then detach=setsid; fi
  (
    trap - TERM HUP
    # Whoever waits for the end of a pipe of ours must not wait for the broker.
    exec 9>&-
    for fd in /dev/fd/*; do
      fd=${fd##*/}
      case $fd in [3-9] | [1-9][0-9]*) eval "exec $fd>&-" ;; esac
    done
    exec "$detach" "$binary" broker "${options[@]}" </dev/null >>"$out" 2>&1
  ) &
  pid=$!
}

start() {
  local wanted=$1
  find_binary
  refuse_beside_ours
  if ! { mkdir -p "$log_dir" && : >>"$log" && : >>"$out"; }; then
    fail "Cannot write $log: set METAQ_LOG_DIR or run as another user."
  fi
  lock
  refuse_beside_ours
  refuse_beside_java
  : >"$out"
  mode=$wanted address='' admin='' token_file=$(setting adminTokenFile)
  # Whoever breaks the start off must not leave a broker behind that no file tells of.
  trap '' INT TERM HUP
  spawn
  # It may be gone already; then it is found so below.
  born=$(birth "$pid")
  if ! remember; then
    kill -KILL "$pid" 2>/dev/null
    rm -f "$state_file.new"
    fail "Cannot write $state_file: is the disk full? Meta broker was not started."
  fi
  unlock
  trap - INT TERM HUP
  wait_until_ready
  wait_until_registered
}

wait_until_ready() {
  begin_wait
  echo "Starting meta broker..."
  trap 'end_wait; fail "It goes on starting in the background, pid $pid; its log is $log"' INT
  while address=$(told READY) && [ -z "$address" ]; do
    if ! alive; then
      end_wait
      explain_end
    fi
    tick
  done
  trap - INT
  end_wait
  admin=$(told ADMIN)
  lock
  if ours; then remember; fi
  unlock
}

# The registration as the broker tells of it, empty if it gives no answer.
registration() {
  report 2>/dev/null | line registration
}

wait_until_registered() {
  local limit state=''
  state=$(registration)
  case $state in
    *'keeps away from ZooKeeper'*)
      running "not registered: zk.zkEnable=false"
      return
      ;;
  esac
  limit=$(setting 'zk\.zkConnectionTimeoutMs')
  limit=$(((${limit:-30000} + 999) / 1000))
  begin_wait
  trap 'end_wait; running "not registered yet: ${state#not registered: }"; exit 0' INT
  while [ "$state" != "registered in ZooKeeper" ] && [ $((SECONDS - waiting_since)) -le "$limit" ]; do
    if ! alive; then
      end_wait
      explain_end
    fi
    tick
    state=$(registration)
  done
  trap - INT
  end_wait
  if [ "$state" != "registered in ZooKeeper" ]; then
    state=${state:-it gives no answer at $admin}
    running "not registered: ${state#not registered: }"
  elif [ "$mode" = local ]; then
    running "in local mode, with a ZooKeeper of its own at $(report | line zookeeper)"
  else
    running "$state"
  fi
}

running() {
  printf '%s\n' "Meta broker is running, $1" "$address, pid $pid" "$admin for operators" "log $log"
}

stop() {
  find_broker || refuse "Broker is not running."
  end_broker "$1"
}

# Ends the broker that was found.
end_broker() {
  local force=$1 limit=${METAQ_STOP_TIMEOUT:-120} elapsed killed='' said=''
  case $limit in '' | *[!0-9]*) fail "METAQ_STOP_TIMEOUT: $limit is not a number of seconds." ;; esac
  kill -TERM "$pid" 2>/dev/null || ! alive || fail "Cannot stop pid $pid: run as its user or as root."
  echo "Stopping meta broker, pid $pid: clients leave it, then everything goes to the disk..."
  if suspended; then
    echo "It is suspended and cannot stop: \`kill -CONT $pid\` lets it go on, \`stop --force\` kills it after $KILL_AFTER s." >&2
  fi
  begin_wait
  while alive; do
    tick
    elapsed=$((SECONDS - waiting_since))
    if [ -n "$force" ] && [ "$elapsed" -ge "$KILL_AFTER" ]; then
      kill -KILL "$pid" 2>/dev/null && killed=yes
    elif [ -z "$force" ] && [ "$elapsed" -ge "$limit" ]; then
      end_wait
      fail "Meta broker is still stopping after $limit s, pid $pid: see $log, or use stop --force."
    elif [ -z "$force$said" ] && [ "$elapsed" -ge "$SAY_WHY_AFTER" ]; then
      said=yes
      echo " $log tells how far it is; another \`kill $pid\` ends the waiting for clients" >&2
    fi
  done
  end_wait
  forget
  if [ -n "$killed" ]; then echo "It had to be killed: the next start brings everything that was answered back." >&2; fi
  echo "Stop meta broker successfully."
}

restart() {
  local old_mode=${1:-}
  find_binary
  if find_broker; then
    # The same broker again, with the file it was started with, unless the operator names one.
    if [ -z "${METAQ_CONFIG:-}" ] && [ -n "$config_used" ]; then config=$config_used; fi
    # A running broker is worth more than none.
    "$binary" config check --start "$config" >/dev/null || fail "Meta broker was not restarted, it runs on as before."
    # Not `stop`, which refuses if it has ended meanwhile.
    end_broker ''
  fi
  start "${old_mode:-${mode:-cluster}}"
}

status() {
  local told_of_it
  if ! find_broker; then
    echo "Meta broker was stopped."
    exit 1
  fi
  find_binary
  if suspended; then
    told_of_it=$(how_to_wake)
  elif [ -z "$address" ]; then
    echo "Meta broker is starting."
    echo "pid $pid, not listening yet, log $log"
    return
  elif told_of_it=$(report 2>&1); then
    echo "Meta broker is running."
    printf '%s\n' "$told_of_it" "log            $log"
    return
  elif ! alive; then
    echo "Meta broker was stopped."
    exit 1
  fi
  does_not_answer "${told_of_it#metaq: }"
}

does_not_answer() {
  refuse "Meta broker does not answer: pid $pid${address:+, $address}" "$1" "log $log; \`stop --force\` kills it"
}

# --- Commands to a running broker -------------------------------------------------------------------------------------

require_broker() {
  find_broker || refuse "Broker is not running."
  # No need to wait for what cannot come.
  if suspended; then does_not_answer "$(how_to_wake)"; fi
  if [ -z "$address" ]; then fail "Meta broker is still starting, pid $pid: see $log"; fi
  find_binary
}

# The options of the Java tools begin with one dash, those of metaq with two. What each command needs is told here, in
# words of this script.
partition_options() {
  local use=$1 option topic='' start='' end=''
  shift
  while [ $# -gt 0 ]; do
    option=${1#-}
    case ${option#-} in
      topic) topic=${2:-} ;;
      start) start=${2:-} ;;
      end) end=${2:-} ;;
      *) wrong_use "$command does not know $1: $use" ;;
    esac
    [ $# -ge 2 ] || wrong_use "$1 has no value: $use"
    shift 2
  done
  [ -n "$topic" ] || wrong_use "The topic is missing: $use"
  arguments=("--topic=$topic")
  if [ "$command" = open-partitions ]; then
    [ -z "$start$end" ] || wrong_use "All partitions of a topic are opened at once: $use"
    return
  fi
  if [ -z "$start" ] || [ -z "$end" ]; then wrong_use "The first or the last partition is missing: $use"; fi
  arguments+=("--start=$start" "--end=$end")
}

reload() {
  require_broker
  echo "Reloading broker config..."
  ask admin reload
}

stats() {
  local item=''
  case ${1:-} in
    '') ;;
    -item | --item)
      [ $# -eq 2 ] || wrong_use "-item takes one item: stats -item ITEM"
      item=$2
      ;;
    -*) wrong_use "stats does not know $1: stats [ITEM]" ;;
    *)
      [ $# -eq 1 ] || wrong_use "stats takes one item: stats [ITEM]"
      item=$1
      ;;
  esac
  require_broker
  "$binary" stats --server "$address" -- "$item" || exit 1
}

partitions() {
  local action=$1 use=$2 arguments
  shift 2
  partition_options "$use" "$@"
  require_broker
  ask partitions "$action" "${arguments[@]}" || exit 1
}

wrong_use() {
  fail "$1" "\`metaServer.sh help\` lists the commands."
}

locate
command=${1:-}
if [ $# -gt 0 ]; then shift; fi
case "$command" in
  stats)
    stats "$@"
    exit
    ;;
  close-partitions)
    partitions close 'close-partitions -topic TOPIC -start FIRST -end LAST' "$@"
    exit
    ;;
  open-partitions)
    partitions open 'open-partitions -topic TOPIC' "$@"
    exit
    ;;
  slave-status | move-partitions | delete-partitions | query) fail "$command is not available in this release." ;;
  *)
    surplus="$*"
    [ $# -le 1 ] || wrong_use "$command takes less: $surplus"
    ;;
esac
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
  'reload ') reload || exit 1 ;;
  ' ')
    usage >&2
    exit 1
    ;;
  start\ * | stop\ * | restart\ * | status\ * | reload\ *) wrong_use "$command does not know $1." ;;
  *) wrong_use "There is no command $command." ;;
esac
