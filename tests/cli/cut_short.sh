#!/usr/bin/env bash
# Model files that change while in use: a truncated model file ends the program
# with a message; an image's host tensors are copied and checked, so that a
# change of the file cannot change a text.
. "$(dirname "$0")/lib.sh"
need_plain_library # sanitizers keep SIGBUS to themselves

made=$tmp/made.gguf model=$tmp/m.gguf
run_ok "$TANDEM" synth --like tiny --quant q8_0 -o "$made"

# start FILE OPTION...: start an endless text; returns when it has begun.
start() {
  local file=$1
  shift
  rm -f "$tmp/text"
  "$TANDEM" run -m "$file" -p x -n -1 --ignore-eos --ctx 20000 "$@" \
    >"$tmp/text" 2>"$tmp/said" &
  host=$!
  for _ in $(seq 1000); do
    [ ! -s "$tmp/text" ] || break
    sleep 0.02
  done
}

# ---- a model file ------------------------------------------------------------
cp "$made" "$model"
start "$model"
: >"$model"
status=0
wait $host || status=$?
check_eq 'status when the file is cut short' "$status" 1
check_has 'the message' "$(cat "$tmp/said")" \
  "tandem: '$model' can no longer be read: the file was truncated"
check_eq 'lines of the message' "$(grep -c 'no longer be read' "$tmp/said")" 1

# ---- an image ----------------------------------------------------------------
# Streamed: all but the layers is overwritten while the text is written.
image=$tmp/m.tdm
run_ok "$TANDEM" convert "$made" "$image"
run_ok "$TANDEM" run -m "$image" -p x -n 400 --ignore-eos --dram-budget 0% --ids
want=$out
layers=$("$TANDEM" inspect "$image" | awk '/^  layer 0 / { print $3 }')
mkfifo "$tmp/ids"
"$TANDEM" run -m "$image" -p x -n 400 --ignore-eos --dram-budget 0% --ids \
  >"$tmp/ids" 2>"$tmp/said" &
host=$!
exec 3<"$tmp/ids"
IFS= read -r -n 8 -u 3 begun
head -c "$layers" /dev/zero | tr '\0' U |
  dd of="$image" bs="$layers" conv=notrunc status=none
got=$begun$(cat <&3)
exec 3<&-
status=0
wait $host || status=$?
check_eq 'status when an image is overwritten' "$status" 0
check_eq 'sum of the ids when an image is overwritten' "$(cksum <<<"$got")" \
  "$(cksum <<<"$want")"
check_eq 'the message then' "$(cat "$tmp/said")" ''
finish
