# shellcheck shell=bash
# What every command-line test begins with:
#
#   . "$(dirname "$0")/lib.sh"
#
# A test is a bash script NAME.sh: exit status 0 passed, 77 skipped, else
# failed. tests/run starts it with TANDEM, TANDEM_NPU, TMPDIR and, where the
# data are there, TANDEM_DATA; by hand it runs on build/release. `NAME.sh
# --update` writes the golden files anew. Ends with `finish`.
set -u

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root" || exit 1
: "${TANDEM:=$root/build/release/tandem}"
: "${TANDEM_NPU:=$root/build/release/tandem-npu}"
tandem_stress=$(dirname "$TANDEM")/tandem-stress
if [ -z "${TANDEM_DATA:-}" ] && [ -d "$root/../shared/data" ]; then
  TANDEM_DATA=$(cd "$root/../shared/data" && pwd)
fi
export TANDEM TANDEM_NPU
[ -z "${TANDEM_DATA:-}" ] || export TANDEM_DATA
golden_dir=$root/tests/cli/golden
update=no
[ "${1:-}" != --update ] || update=yes

tmp=$(mktemp -d "${TMPDIR:-/tmp}/tandem-cli-XXXXXX") || exit 1
export XDG_STATE_HOME=$tmp/state # where the last error is kept
failures=0 checks=0 finished=no

# A script that ends before `finish` has failed, whatever its exit status.
at_exit() {
  local status=$?
  rm -rf "$tmp"
  if [ $finished = no ] && [ $status -eq 0 ]; then
    echo 'the test ended before its end' >&2
    exit 1
  fi
}
trap at_exit EXIT

finish() {
  finished=yes
  if [ $checks -eq 0 ]; then
    echo 'nothing was checked' >&2
    exit 1
  fi
  echo "$checks checks, $failures failed"
  [ $failures -eq 0 ]
  exit
}

skip() { # WHY
  finished=yes
  echo "skipped: $*"
  exit 77
}

need_data() { # FILE below the data folder; prints nothing, skips without it
  [ -n "${TANDEM_DATA:-}" ] && [ -e "$TANDEM_DATA/$1" ] ||
    skip "no ../shared/data/$1"
}

# A library with a sanitizer wants programs that have it too.
need_plain_library() {
  ! sanitized || skip 'the library is built with a sanitizer'
}

# make install links with the usual flags, which a build with a sanitizer or
# --coverage does not accept: programs that it cannot link again are deleted.
need_plain_build() {
  case $TANDEM in
  */coverage/*) skip 'make install builds without --coverage' ;;
  esac
  ! sanitized || skip 'make install builds without a sanitizer'
}

# on_terminal [NAME=VALUE...] COMMAND...: run it on a terminal of 40 columns
# (needs script(1)); $shown is the terminal's input, without carriage returns.
on_terminal() {
  status=0
  env -u NO_COLOR TERM=xterm SHELL=/bin/sh script -qefc \
    "stty cols 40 rows 10; exec env $(printf '%q ' "$@")" "$tmp/typescript" \
    >"$tmp/script.out" 2>&1 || status=$?
  shown=$(grep -av '^Script ' "$tmp/typescript" | tr -d '\r')
}

# With a sanitizer everything is several times slower. Results are the same as
# in other builds, where all cases are compared; here each code path needs to
# run only once.
sanitized() {
  case $TANDEM in
  *address* | *undefined* | *thread*) true ;;
  *) false ;;
  esac
}

# With TANDEM_TEST_FULL=yes, long tests run at their full size.
full() { [ "${TANDEM_TEST_FULL:-}" = yes ]; }

# For a script of many short runs: with a sanitizer, none searches for leaks,
# which takes as long as the run. A full test searches.
without_leak_search() {
  full || export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
}

fail() {
  failures=$((failures + 1))
  printf 'FAIL: %s\n' "$*"
}

check_eq() { # WHAT GOT WANT
  checks=$((checks + 1))
  [ "$2" = "$3" ] || fail "$1 is '$2', not '$3'"
}

check_has() { # WHAT TEXT PART
  checks=$((checks + 1))
  case $2 in
  *"$3"*) ;;
  *) fail "$1 does not hold '$3': '$2'" ;;
  esac
}

check_lacks() { # WHAT TEXT PART
  checks=$((checks + 1))
  case $2 in
  *"$3"*) fail "$1 holds '$3': '$2'" ;;
  esac
}

# run COMMAND...: leaves $status, $out and $err (without last newlines), and
# the exact bytes in $tmp/out and $tmp/err. Its standard input is empty.
run() {
  status=0
  "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || status=$?
  # Bash warns of the zero bytes that it leaves out.
  { out=$(<"$tmp/out") err=$(<"$tmp/err"); } 2>/dev/null
}

run_ok() { # COMMAND...: must end with status 0
  run "$@"
  checks=$((checks + 1))
  [ "$status" -eq 0 ] || fail "status $status of: $*: $err"
}

# misuse COMMAND...: refused with status 2, on stderr, naming --help.
misuse() {
  run "$@"
  check_eq "status of: $*" "$status" 2
  check_eq "stdout of: $*" "$out" ''
  check_has "stderr of: $*" "$err" --help
}

# member NAME: the first of that name in the JSON of $out, into $it: a number, a
# string with its quotes, or an array of numbers; empty, and 1, where none is.
member() {
  local value="\"$1\":(\[[^]]*\]|\"([^\"\\\\]|\\\\.)*\"|[^],}]*)"
  it=
  [[ $out =~ $value ]] && it=${BASH_REMATCH[1]}
}

# json NAME: that member, printed.
json() {
  local it
  member "$1" && printf '%s\n' "$it"
}

# is WHAT NAME WANT: that member.
is() {
  local it
  member "$2"
  check_eq "$1" "$it" "$3"
}

# essence: set $essence to the output that must be the same for every way of
# computing a text.
essential=(stop logits_hash ids)
essence() {
  local it name
  essence=
  for name in "${essential[@]}"; do
    member "$name"
    essence+=$name:$it,
  done
}

# take NAME...: those members, into $value[NAME].
declare -A value
take() {
  local it name
  for name; do
    member "$name"
    value[$name]=$it
  done
}

# nothing_left WHAT: check that no device of this script is running, with any
# parent, and no name is left in /dev/shm. A device whose host was killed has
# some time to notice.
export TANDEM_CLI_TEST=$tmp
began=$EPOCHSECONDS
nothing_left() {
  local left pid tries
  for ((tries = 0; tries < 200; tries++)); do
    left=
    for pid in $(pgrep -x tandem-npu); do
      ! grep -qszx "TANDEM_CLI_TEST=$tmp" "/proc/$pid/environ" || left+=" $pid"
    done
    [ -n "$left" ] || break
    sleep 0.05
  done
  check_eq "devices left by $1" "$left" ''
  check_eq "files left by $1" "$(find /dev/shm -maxdepth 1 -name '*tandem*' \
    -newermt "@$began" 2>/dev/null)" ''
}

# golden NAME COMMAND...: stdout, stderr and status are those kept in
# tests/cli/golden/NAME.{stdout,stderr,exit}. What differs from run to run is
# first replaced by the sed script in $golden_filter; the temporary folder
# and the checkout always read TMP and ROOT.
golden_filter=
golden() {
  local name=$1 part
  shift
  run "$@"
  echo "$status" >"$tmp/golden.exit"
  for part in out err; do
    sed -e "s|$tmp|TMP|g; s|$root|ROOT|g" -e "$golden_filter" \
      "$tmp/$part" >"$tmp/golden.std$part"
  done
  for part in stdout stderr exit; do
    if [ $update = yes ]; then
      mkdir -p "$golden_dir"
      cp "$tmp/golden.$part" "$golden_dir/$name.$part"
    fi
    checks=$((checks + 1))
    if ! diff -u "$golden_dir/$name.$part" "$tmp/golden.$part" \
      >"$tmp/golden.diff" 2>&1; then
      fail "$name.$part differs (right: what '$*' gives now)"
      cat "$tmp/golden.diff"
    fi
  done
}
