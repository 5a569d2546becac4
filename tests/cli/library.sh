#!/usr/bin/env bash
# The library as installed, in a prefix that is not the build's and was moved:
# the examples, the exported symbols, and the search for bundled files.
. "$(dirname "$0")/lib.sh"

need_plain_library
build=$(dirname "$TANDEM")
unset MAKEFLAGS MFLAGS MAKELEVEL TANDEM_MODELS TANDEM_SOC

# ---- installing ------------------------------------------------------------
# The build is up to date and must not be rebuilt with other flags, as others
# may use it. LIBDIR is that of a distribution.
folder=${build#"$root"/}
made=$(stat -c %y "$build"/libtandem.*)
install_as() { # make's goal
  run_ok make -s -o "$folder/flags" O="$folder" DESTDIR="$tmp/stage" \
    PREFIX=/opt/tandem LIBDIR=/opt/tandem/lib/here "$1"
}
install_as install
check_eq 'when the library was made' "$(stat -c %y "$build"/libtandem.*)" \
  "$made"
run_ok mv "$tmp/stage/opt/tandem" "$tmp/moved"
prefix=$tmp/moved
lib=$prefix/lib/here
export PKG_CONFIG_PATH=$lib/pkgconfig
: "${CC:=cc}"
mkdir "$tmp/made"
cp "$prefix"/share/doc/tandem/docs/examples/*.* "$tmp/made"

flags=$(pkg-config --cflags --libs tandem)
strict='-Wall -Wextra -Werror -pedantic -Wno-unused-parameter'

# Nothing of the build or of this test's environment shall help.
alone() {
  env -u TANDEM_NPU LD_LIBRARY_PATH="$lib" "$@"
}

# ---- the examples ----------------------------------------------------------
wanted=$(alone "$prefix/bin/tandem" run -n 32 'Once upon a time')
cat=$(alone "$prefix/bin/tandem" run -n 32 'The cat')
check_eq 'the text of tandem run is some' "${wanted:+yes}" yes
# shellcheck disable=SC2086 # words
run_ok $CC -std=c99 $strict -o "$tmp/made/complete" "$tmp/made/complete.c" \
  $flags
run_ok alone "$tmp/made/complete"
check_eq 'the text of complete.c' "$out" "$wanted"
run_ok alone "$tmp/made/complete" 'The cat'
check_eq 'its text of a prompt' "$out" "$cat"
# shellcheck disable=SC2086
run_ok $CC -std=c99 $strict -o "$tmp/made/texts" "$tmp/made/texts.c" \
  $flags
run_ok alone "$tmp/made/texts" 'Once upon a time' 'The cat'
check_eq 'the texts of texts.c' "$out" "$wanted
$cat"
if command -v python3 >/dev/null; then
  run_ok alone python3 "$tmp/made/complete.py"
  check_eq 'the text of complete.py' "$out" "$wanted"
else
  echo 'not checked: there is no python3'
fi
check_eq 'complete.c has 30 lines' "$(wc -l <"$tmp/made/complete.c")" 30

if command -v g++ >/dev/null; then
  printf '#include <tandem.h>\nint main() { tandem_request r; %s }\n' \
    'tandem_request_init(&r, sizeof r); return r.max_tokens != 256;' \
    >"$tmp/made/plus.cc"
  # shellcheck disable=SC2086
  run_ok g++ -std=c++11 $strict -o "$tmp/made/plus" "$tmp/made/plus.cc" \
    $flags
  run_ok alone "$tmp/made/plus"
else
  echo 'not checked: there is no g++'
fi

# ---- where the device and the models are -----------------------------------
mv "$prefix/bin/tandem-npu" "$prefix/kept"
cp "$prefix/kept" "$tmp/made/tandem-npu" # beside the program: not its home
run alone "$tmp/made/complete"
check_has 'without a device program' "$err" \
  "cannot start the device program 'tandem-npu'"
run_ok env TANDEM_NPU="$prefix/kept" LD_LIBRARY_PATH="$lib" \
  "$tmp/made/complete"
mv "$prefix/kept" "$lib/tandem-npu"
run_ok alone "$tmp/made/complete" # beside the library
mv "$lib/tandem-npu" "$prefix/bin/tandem-npu"
mv "$prefix/share/tandem/models" "$tmp/made/models"
run alone "$tmp/made/complete"
check_eq 'status without models' "$status" 1
check_has 'without models' "$err" "'target.gguf' was not found in"
check_has 'where they were looked for' "$err" "$prefix/share/tandem/models"
check_lacks 'where they were looked for' "$err" "$tmp/made"
mv "$tmp/made/models" "$prefix/share/tandem/models"

# ---- the static library ----------------------------------------------------
static=$(pkg-config --static --cflags --libs tandem)
# shellcheck disable=SC2086
run_ok $CC -std=c99 -o "$tmp/made/static" "$tmp/made/complete.c" \
  ${static/-ltandem/-l:libtandem.a}
run ldd "$tmp/made/static"
check_lacks 'what the static program needs' "$out" libtandem
run_ok env TANDEM_NPU="$prefix/bin/tandem-npu" \
  TANDEM_MODELS="$prefix/share/tandem/models" "$tmp/made/static"
check_eq 'its text' "$out" "$wanted"
run alone "$tmp/made/static"
check_has 'it has no home' "$err" "'target.gguf' was not found in any folder"

# ---- libtandem-coherence ----------------------------------------------------
demos=$prefix/share/doc/tandem/docs/examples/coherence
flags=$(pkg-config --cflags --libs tandem-coherence)
sdk=-I$(pkg-config --variable=hexagon tandem-coherence)
# shellcheck disable=SC2086
run_ok $CC -std=c99 $strict -D_GNU_SOURCE -o "$tmp/made/polling" \
  "$demos/polling.c" $flags
run alone "$tmp/made/polling"
check_eq 'status of polling.c' "$status" 1
check_has 'what polling.c reports' "$out" 'missing: invalidate of demo [0, 4)'
# shellcheck disable=SC2086
run_ok $CC -std=c11 $strict -o "$tmp/made/runtime" \
  "$demos/hexagon_runtime.c" "$sdk" $flags -lm
run alone "$tmp/made/runtime"
check_has 'what the Hexagon runtime reports' "$out" \
  'missing: invalidate of rpcmem:2 [0, 1024) before add'
run_ok alone "$tmp/made/runtime" right
static=$(pkg-config --static --cflags --libs tandem-coherence)
# shellcheck disable=SC2086
run_ok $CC -std=c11 -o "$tmp/made/runtime" "$demos/hexagon_runtime.c" "$sdk" \
  ${static/-ltandem-coherence/-l:libtandem-coherence.a} -lm
run ldd "$tmp/made/runtime"
check_lacks 'what the static program needs' "$out" libtandem
run_ok "$tmp/made/runtime" right
if command -v g++ >/dev/null; then
  {
    printf '#include <%s>\n' tandem_coherence.h
    find "$prefix/include/tandem-hexagon" -name '*.h' -printf '#include <%f>\n'
    echo 'int main() { return tandem_hexagon_open(nullptr) == 0; }'
  } >"$tmp/made/hexagon.cc"
  # shellcheck disable=SC2086
  run_ok g++ -std=c++11 $strict -c -o "$tmp/made/hexagon.o" \
    "$tmp/made/hexagon.cc" "$sdk" $flags
fi
declared=$({
  echo coherence_names
  grep -hoE '\<coherence_[a-z_]+\(' "$prefix/include/tandem_coherence.h"
  grep -hoE '\<(rpcmem|dspqueue|qurt|HAP|Q6|fastrpc|tandem_hexagon)_\w+\(' \
    "$prefix"/include/tandem-hexagon/*.h
} | tr -d '(' | LC_ALL=C sort -u)
for made in "-D $lib/libtandem-coherence.so" "-g $lib/libtandem-coherence.a"; do
  # shellcheck disable=SC2086
  check_eq "what nm $made exports" "$(nm --defined-only $made |
    awk 'NF == 3 { print $3 }' | LC_ALL=C sort)" "$declared"
done

# ---- exported symbols -------------------------------------------------------
declared=$(grep -o '\<tandem_[a-z_]*(' "$prefix/include/tandem.h" |
  tr -d '(' | sort -u)
check_has 'what tandem.h declares' "$declared" tandem_generate
check_eq 'what the shared library exports' \
  "$(nm -D --defined-only "$lib/libtandem.so" | awk '{ print $3 }' | sort)" \
  "$declared"
check_eq 'what the static library exports' \
  "$(nm -g --defined-only "$lib/libtandem.a" | awk 'NF == 3 { print $3 }' |
    sort)" "$declared"
# What prints, ends the process, handles a signal or starts a shell.
forbidden='_*(v|f|vf|d|vd)?printf(_chk)?|f?put[cs]|putchar|fwrite|perror'
forbidden+='|stdout|stderr|_?exit|abort|v?syslog|signal|sigaction|system|popen'
check_eq 'what it calls that it must not' \
  "$(nm -D --undefined-only "$lib/libtandem.so" |
    awk '{ sub(/@.*/, "", $2); print $2 }' | grep -xE "$forbidden")" ''
check_eq 'the name programs are linked to' \
  "$(objdump -p "$lib/libtandem.so" | awk '$1 == "SONAME" { print $2 }')" \
  libtandem.so.0
check_eq 'its version' "$(pkg-config --modversion tandem)" \
  "$("$TANDEM" --version | sed 's/tandem //')"
check_eq 'looks at the executable' \
  "$(grep -c /proc/self/exe "$lib/libtandem.so" "$lib/libtandem.a" |
    sed 's/.*://' | tr -d '\n')" 00

# ---- removing --------------------------------------------------------------
mkdir -p "$tmp/stage/opt"
mv "$prefix" "$tmp/stage/opt/tandem"
install_as uninstall
check_eq 'what make uninstall leaves' \
  "$(find "$tmp/stage/opt/tandem" ! -type d)" ''

finish
