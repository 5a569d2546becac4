# shellcheck shell=bash
# What tests of the server begin with, behind lib.sh: one that is started, asked
# by curl, and ended.
# shellcheck disable=SC2034,SC2154 # code is theirs; tmp and checks are lib.sh's

command -v curl >/dev/null || skip 'no curl'

# Passes take some hundredths of a second, in which little runs: a text of
# hundreds of tokens is under way for as long as a test looks at it, however busy
# the machine is.
slow=(--va-window 8M --va-slots 4 --va-map-us 3000)

# pause [SECONDS]: wait before the next poll, for longer if a poll takes much of
# a CPU. Starts no process, and gives up shortly before the time limit of
# tests/run.
exec {never}<> <(:)
# shellcheck disable=SC2120 # some tests pass it
pause() {
  read -rt "${1:-0.02}" -u "$never" || true
  [ $SECONDS -lt 500 ] || {
    fail "timed out: ${FUNCNAME[*]}"
    finish
  }
}

server=
# serve OPTION...: start a server, and wait until it prints its address: $url.
serve() {
  : >"$tmp/said" # of the one before
  "$TANDEM" serve --listen 127.0.0.1:0 -t 1 --spin 0 "$@" 2>"$tmp/said" &
  server=$!
  while kill -0 $server 2>/dev/null; do
    url=$(<"$tmp/said")
    url=${url##* answers at }
    [[ $url != http* && $url != unix:* ]] || return 0
    pause
  done
  fail "no server: $(cat "$tmp/said")"
  finish
}

# ends SIGNAL STATUS: the server does, by that signal.
ends() {
  kill -"$1" "$server"
  wait "$server"
  check_eq "status of a server after SIG$1" $? "$2"
}

# get PATH [CURL OPTION...]: $code and $out.
get() {
  local path=$1
  shift
  : >"$tmp/body"
  code=$(curl -s -o "$tmp/body" -w '%{http_code}' "$@" "$url$path")
  out=$(<"$tmp/body")
}

# post PATH JSON [CURL OPTION...]
post() {
  get "$1" --data-binary "$2" "${@:3}"
}

# member NAME: a string, number or word of the JSON in $out, the first.
member() {
  local value=".*\"$1\":(\"(([^\"\\\\]|\\\\.)*)\"|([^,}]*))"
  [[ $out =~ $value ]] &&
    printf '%s\n' "${BASH_REMATCH[2]}${BASH_REMATCH[4]}"
}

# metric NAME: as /metrics has it, sums of all that have labels.
metric() {
  curl -s "$url/metrics" |
    awk -v name="tandem_$1" '$1 == name || index($1, name "{") == 1 { n += $2 }
      END { print n + 0 }'
}

# metric_is NAME NUMBER: it becomes that.
metric_is() {
  local n=
  while kill -0 "$server" 2>/dev/null; do
    n=$(metric "$1")
    [ "$n" != "$2" ] || return 0
    pause
  done
  fail "$1 is $n, not $2, and the server has ended"
}

# long_stream FILE [CURL OPTION...]: a text of hundreds of tokens that is read
# to there; it is being written.
long_stream() {
  : >"$1"
  curl -sN "$url/v1/completions" -d '{"prompt":"Once","max_tokens":300,
    "temperature":2,"seed":1,"stream":true}' "${@:2}" >"$1" &
  until [[ $(<"$1") == *'data: {'* ]]; do
    kill -0 $! || break
    pause
  done
}
