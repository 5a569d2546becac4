#!/usr/bin/env bash
# What a program keeps that opens and closes the library many times: nothing.
# In another language where there is one: numbers of options have a point.
. "$(dirname "$0")/lib.sh"

need_plain_library
build=$(dirname "$TANDEM")
: "${CC:=cc}"
run_ok "$TANDEM" synth --like tiny -o "$tmp/tiny.gguf"
# shellcheck disable=SC2086 # words
run_ok $CC -O1 -D_GNU_SOURCE -pthread -Ihost/api -o "$tmp/soak" \
  tests/cli/library_soak.c -L"$build" -ltandem
rounds=56 # as many behind those that warm up as there are in these, and more
! full || rounds=1000
language=C
# With a small language only: the whole one takes seconds to make.
printf '%s\n' LC_NUMERIC 'copy "de_DE"' 'END LC_NUMERIC' >"$tmp/numbers"
localedef -c -i "$tmp/numbers" -f UTF-8 "$tmp/de_DE.UTF-8" >/dev/null 2>&1
point=$(LOCPATH=$tmp LC_ALL=de_DE.UTF-8 locale decimal_point 2>/dev/null)
if [ "$point" = , ]; then
  language=de_DE.UTF-8
else
  echo 'not checked: a language with another decimal point'
fi
run_ok env LD_LIBRARY_PATH="$build" LOCPATH="$tmp" LC_ALL=$language \
  "$tmp/soak" "$tmp/tiny.gguf" $rounds
check_eq 'what it printed' "$out$err" ''

finish
