#!/usr/bin/env bash
# scripts/figures knows every figure that the documents publish, finds a fast one
# as it is published, and reports a figure that differs, cannot be made or has no
# mark.
. "$(dirname "$0")/lib.sh"

command -v python3 >/dev/null || skip 'no python3'
! sanitized || skip 'the same figures as in the plain build'

run_ok scripts/figures --list
check_eq 'figures without a mark' "$err" ''
list=$out
for line in 'passes * phone ' 'published * phone ' 'trace.svg * picture ' \
  'lever-wall * by hand '; do
  checks=$((checks + 1))
  grep -q "^$line" <<<"$list" || fail "the list has no '$line'"
done
run_ok scripts/figures --check -j 2 front passes
check_has 'the front page' "$out" 'ok      README.md:'
check_has 'a fast figure' "$out" 'ok      docs/soc-clock.md:'

# A page whose command is a program of this test.
page=$tmp/page.md
cat >"$tmp/tandem" <<'FAKE'
#!/bin/sh
[ "$*" != 'bench broken' ] || { echo 'no such bench' >&2; exit 1; }
echo 'A title'
printf 'method  tok/s\n\nchain   1.25\n'
FAKE
chmod +x "$tmp/tandem"
publish() { # MARK COMMAND ROW
  printf '<!-- figure %s -->\n```\ntandem %s\n```\n\n```\n%s\n```\n' \
    "$1" "$2" $'method  tok/s\n\nchain   '"$3" >"$page"
}
figures() { run env TANDEM="$tmp/tandem" scripts/figures --page "$page" "$@"; }
publish speed 'bench --clock soc:x' 1.25
figures --check
check_eq 'status for a right figure' "$status" 0
figures speed
check_eq 'what makes a figure prints' "$out" $'method  tok/s\n\nchain   1.25'

publish speed 'bench --clock soc:x' 1.26
figures --check
check_eq 'status for a wrong figure' "$status" 1
check_has 'a wrong figure' "$out" '-chain   1.26'
check_has 'a wrong figure' "$out" '+chain   1.25'
check_has 'a wrong figure' "$err" 'page.md:1: speed: differs'
figures --write speed
check_eq 'status of --write' "$status" 0
check_has 'the page after --write' "$(cat "$page")" $'\nchain   1.25\n```'
figures --check
check_eq 'status after --write' "$status" 0

publish speed 'bench broken' 1.25
figures --check
check_eq 'status for a command that fails' "$status" 1
check_has 'a command that fails' "$err" 'exits with 1: no such bench'

# Times of this machine are not compared, and carry when and where.
publish 'speed wall' bench 1.26
figures --check
check_eq 'status for a figure of the wall clock' "$status" 0
figures --write speed
check_has 'a figure of the wall clock' "$(cat "$page")" \
  "($(date +%Y)-"

publish speed 'bench --clock soc:x' 1.25
sed -i 1d "$page"
figures --list
check_eq 'status for a block without a mark' "$status" 1
check_has 'a block without a mark' "$err" 'a figure without a mark'
printf '| a | b |\n|---|---|\n| x | 1.5 |\n| y | 2.5 %% |\n' >"$page"
figures --list
check_eq 'status for a small table' "$status" 0
printf '| z | 1.5 |\n| u | 2.5 %% |\n' >>"$page"
figures --list
check_has 'a table without a mark' "$err" 'page.md:1: a figure without a mark'
echo '<!-- figure lonely: true -->' >"$page"
figures --list
check_has 'a mark without a figure' "$err" 'no block, table or picture follows'

publish speed 'bench --clock soc:x' 1.25
figures sped
check_eq 'status for an unknown name' "$status" 1
check_has 'an unknown name' "$err" "no figure 'sped'; near: speed"
figures
check_eq 'status without a name' "$status" 2
finish
