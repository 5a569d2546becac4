# shellcheck shell=bash
# What tests of the server begin with, behind lib.sh: one that is started, asked
# by curl, and ended.
# shellcheck disable=SC2034,SC2154 # code is theirs; tmp and checks are lib.sh's

command -v curl >/dev/null || skip 'no curl'

server=
# serve OPTION...: start one, and wait until it says where: $url.
serve() {
  : >"$tmp/said" # of the one before
  "$TANDEM" serve --listen 127.0.0.1:0 -t 1 "$@" 2>"$tmp/said" &
  server=$!
  for _ in $(seq 1000); do
    url=$(sed -n 's/.* answers at //p' "$tmp/said")
    [ -z "$url" ] || return 0
    kill -0 $server 2>/dev/null || break
    sleep 0.02
  done
  fail "no server: $(cat "$tmp/said")"
  finish
}

# ends SIGNAL STATUS: the server does, by that signal.
ends() {
  kill -"$1" "$server"
  wait "$server"
  check_eq "status of a server behind SIG$1" $? "$2"
}

# get PATH [CURL OPTION...]: $code and $out.
get() {
  local path=$1
  shift
  : >"$tmp/body"
  code=$(curl -s -o "$tmp/body" -w '%{http_code}' "$@" "$url$path")
  out=$(cat "$tmp/body")
}

# post PATH JSON [CURL OPTION...]
post() {
  get "$1" --data-binary "$2" "${@:3}"
}

# member NAME: a string, number or word of the JSON in $out, the first.
member() {
  sed -nE "s/.*\"$1\":(\"(([^\"\\\\]|\\\\.)*)\"|([^,}]*)).*/\2\4/p" <<<"$out" |
    head -n 1
}

# metric NAME: as /metrics has it, sums of all that have labels.
metric() {
  curl -s "$url/metrics" |
    awk -v name="tandem_$1" '$1 == name || index($1, name "{") == 1 { n += $2 }
      END { print n + 0 }'
}

# metric_is NAME NUMBER: it becomes that soon.
metric_is() {
  local n
  for _ in $(seq 1000); do
    n=$(metric "$1")
    [ "$n" != "$2" ] || return 0
    sleep 0.02
  done
  fail "$1 is $n, not $2"
}
