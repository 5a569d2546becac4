#!/usr/bin/env bash
# The installed documents: every link leads to a file and a heading, and every
# runnable block runs from the installed prefix and prints the expected output.
# A block marked `sh` has commands; one marked `console` has commands after "$
# ", and their output. The scripts and the device of the documents work there
# too.
. "$(dirname "$0")/lib.sh"

need_plain_build
build=$(dirname "$TANDEM")
unset MAKEFLAGS MFLAGS MAKELEVEL TANDEM_NPU TANDEM_MODELS TANDEM_SOC
prefix=$tmp/prefix
run_ok make -s -o "${build#"$root"/}/flags" O="${build#"$root"/}" \
  PREFIX="$prefix" LIBDIR="$prefix/lib/here" install
docs=$prefix/share/doc/tandem
export PATH=$prefix/bin:$PATH PKG_CONFIG_PATH=$prefix/lib/here/pkgconfig

# ---- links -------------------------------------------------------------------
# Lines "page, tab, target" of all links that are no addresses.
links() {
  grep -roE --include='*.md' '\]\([^) ]+\)' . | sed -E 's/:\]\((.*)\)$/\t\1/' |
    grep -vE $'\t''(https?|mailto):'
}
# The anchors of a page, as sites make them of its headings.
anchors() { # PAGE
  sed -n 's/^##* //p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'
}
cd "$docs" || exit 1
n=0
declare -A anchors_of
while IFS=$'\t' read -r page target; do
  n=$((n + 1))
  file=${page%/*}/${target%%#*}
  [ "${target%%#*}" ] || file=$page
  [ -e "$file" ] || fail "$page: '$target' is not installed"
  case $target in
  *'#'*)
    : "${anchors_of[$file]:=$(anchors "$file")}"
    [[ $'\n'${anchors_of[$file]}$'\n' == *$'\n'${target#*#}$'\n'* ]] ||
      fail "$page: '$target': no such heading"
    ;;
  esac
done < <(links)
checks=$((checks + n))
[ $n -gt 100 ] || fail "only $n links"

# ---- blocks ------------------------------------------------------------------
# Into files PAGE.N.sh and, of a console, PAGE.N.want.
mkdir "$tmp/blocks" "$tmp/empty"
find . -name '*.md' | while read -r page; do
  awk -v out="$tmp/blocks/$(tr / . <<<"${page#./}")" '
    /^```/ && kind != "" { kind = ""; next }
    /^```(sh|console)$/ { kind = substr($0, 4); n++; next }
    kind == "sh" { print >(out "." n ".sh") }
    kind == "console" && (/^\$ / || more) {
      print $0 ~ /^\$ / ? substr($0, 3) : $0 >(out "." n ".sh")
      more = /\\$/
      next
    }
    kind == "console" { print >(out "." n ".want") }' "$page"
done
words() { tr -s ' \n' ' '; }
for block in "$tmp"/blocks/*.sh; do
  name=$(basename "$block" .sh)
  cd "$tmp/empty" || exit 1
  run timeout 120 bash -e "$block"
  want=${block%.sh}.want
  if [ -e "$want" ]; then
    check_has "what $name prints" "$(cat "$tmp/out" "$tmp/err" | words)" \
      "$(words <"$want" | sed 's/ $//')"
  else
    check_eq "status of $name: $err" "$status" 0
  fi
done
n=$(find "$tmp/blocks" -name '*.sh' | wc -l)
[ "$n" -ge 10 ] || fail "only $n blocks are runnable"

# ---- files used by the documents --------------------------------------------
cd "$docs" || exit 1
if command -v strace >/dev/null && strace -o "$tmp/trace" true 2>/dev/null; then
  run_ok scripts/strace-pair -- run -p 'Once upon a time' -n 2 -t 1
  check_has 'the story of a pair' "$out" 'device  exited with 0'
else
  echo 'not checked: strace-pair, without strace'
fi
if command -v python3 >/dev/null; then
  run_ok scripts/stress-va -m small -n 2 --windows '3M 24M'
  check_has 'windows' "$out" 'belady'
fi
run_ok "${CC:-cc}" -Wall -Werror -I. -o "$tmp/npu" docs/examples/npu_device.c
finish
