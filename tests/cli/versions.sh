#!/usr/bin/env bash
# Versions: one release in all places, the numbers of docs/versions.md those of
# the source, and files of other versions refused with what to do.
. "$(dirname "$0")/lib.sh"

# ---- the release -------------------------------------------------------------
release=$(sed -n 's/^#define TANDEM_VERSION "\(.*\)"/\1/p' base/version.h)
for program in "$TANDEM" "$TANDEM_NPU" "$tandem_stress"; do
  run_ok "$program" --version
  check_eq 'a release' "$out" "$(basename "$program") $release"
done
check_eq 'the release in tandem.h' "$(sed -n \
  's/^#define TANDEM_VERSION_[MP][A-Z]* //p' host/api/tandem.h | paste -sd.)" \
  "$release"
check_has 'the newest of the changes' "$(grep -m 1 '^## ' CHANGELOG.md)" \
  " $release"

# ---- the page ----------------------------------------------------------------
n=0
while IFS='|' read -r _ _ number constant _; do
  read -r name _ file _ <<<"${constant//\`/ }"
  n=$((n + 1))
  check_eq "$name in docs/versions.md" "${number// /}" \
    "$(sed -nE "s/^#define $name +([0-9]+)u?( .*)?$/\1/p" "$file")"
done < <(grep -E '^\|.*`[A-Z_]+` in `' docs/versions.md)
check_eq 'rows of docs/versions.md' "$n" 11
# Each version that the source defines is one of the page.
check_eq 'versions that docs/versions.md lacks' "$(
  grep -rhoE '^#define [A-Z_]*VERSION +[0-9]+u?\>' base shm ipc tensor device \
    flash host | awk '{ print $2 }' | sort -u |
    while read -r name; do grep -q "\`$name\`" docs/versions.md || echo "$name"; done
)" ''
check_eq 'versions of the JSON of commands' "$(
  grep -rhoE '^#define JSON_VERSION .*' host tests/stress | sort -u
)" '#define JSON_VERSION 1'

# ---- files of other versions ---------------------------------------------------
model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny -o "$model"
run_ok "$TANDEM" convert "$model" "$tmp/tiny.tdm"
run_ok "$TANDEM" history import -m "$model" "$tmp/history" \
  <<<'{"prompt":"a","answer":"b"}'

# as_version FILE OFFSET VERSION: $tmp/other, with another byte at OFFSET.
as_version() {
  cp -p "$1" "$tmp/other"
  # shellcheck disable=SC2059 # an octal escape
  printf "\\$(printf %o "$3")" |
    dd of="$tmp/other" bs=1 seek="$2" conv=notrunc status=none
}
refused() { # WHAT SAYS COMMAND...
  run timeout 60 "${@:3}"
  check_eq "status of $1" "$status" 1
  check_has "stderr of $1" "$err" "$2"
  check_eq "lines about $1" "$(wc -l <<<"$err")" 1
}
for version in 0 3 255; do
  as_version "$tmp/tiny.tdm" 8 $version
  for command in 'run -p a -m' inspect verify; do
    # shellcheck disable=SC2086 # words
    refused "$command of an image of version $version" "version $version is \
not supported (1 to 2 are); convert the model again with this 'tandem convert'" \
      "$TANDEM" $command "$tmp/other"
  done
done
for version in 1 4 255; do
  as_version "$model" 4 $version
  refused "GGUF of version $version" \
    "version $version is not supported (2 and 3 are); convert the model again" \
    "$TANDEM" run -p a -m "$tmp/other"
done
for version in 0 2 9; do
  as_version "$tmp/history" 8 $version
  refused "a history of version $version" "format $version, but this \
program supports only format 1; list it as JSON with the version of tandem" \
    "$TANDEM" history stats "$tmp/other"
  refused "a run with a history of version $version" "format $version" \
    "$TANDEM" run -m "$model" -p a -n 1 --history "$tmp/other"
done
printf '{"version":2,"turns":[]}' >"$tmp/other"
refused 'a conversation of version 2' \
  'version 2; this program supports version 1; load it with the tandem' \
  "$TANDEM" chat -m "$model" --load "$tmp/other"
finish
