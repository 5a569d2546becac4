#!/usr/bin/env bash
# tandem run --watch: the text of a diffusion model as it settles, on a
# terminal, in a pipe and as JSON; and the same text as without.
. "$(dirname "$0")/lib.sh"

model=$tmp/llada.gguf causal=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny-llada -o "$model"
run_ok "$TANDEM" synth --like tiny -o "$causal"
text=("$TANDEM" run -m "$model" -t 1 --spin 0 --method llada -p 'the tea' -n 24
  --ignore-eos --block 8 --block-steps 4)
passes=12 # three blocks of four
run_ok "${text[@]}"
want=$out

# ---- in a pipe: a line a pass, then the text ---------------------------------
run_ok "${text[@]}" --watch
check_eq 'lines of passes' "$(grep -ac '^pass [0-9]*: ' "$tmp/out")" $passes
check_eq 'lines with a mask' "$(grep -ac '^pass .*▢' "$tmp/out")" 9
check_has 'the first line' "$(head -n 1 "$tmp/out")" 'pass 1: '
check_eq 'masks in it' "$(head -n 1 "$tmp/out" | grep -o ▢ | wc -l)" 6
check_eq 'the text after the steps' "$(tail -n +$((passes + 1)) "$tmp/out")" "$want"
check_eq 'stderr' "$err" ''
check_lacks 'a pipe' "$out" $'\033'
checks=$((checks + 1))
"${text[@]}" --watch 2>"$tmp/err" | head -n 2 >"$tmp/out"
[ ! -s "$tmp/err" ] || fail "a reader that has enough: $(cat "$tmp/err")"

# ---- as JSON: an object a pass, then the run's --------------------------------
run_ok "${text[@]}" --watch --json
check_eq 'lines' "$(wc -l <"$tmp/out")" $((passes + 1))
mapfile -t lines <"$tmp/out"
part() { # STEP NAME: of that line, into $it
  out=${lines[$1 - 1]}
  member "$2"
}
number() { # WHAT CHARACTER N: so many of those are in $it
  local rest=${it//[!$2]/}
  check_eq "$1" ${#rest} "$3"
}
# A step has what follows the text: the block without the tokens at its
# beginning that were known before.
prompt=$(sed -n '$s/.*"prompt_tokens":\([0-9]*\).*/\1/p' "$tmp/out")
part $((passes + 1)) ids
ids=$it
for ((i = 1; i <= passes; i++)); do
  left=$((6 - (i - 1) % 4 * 2))
  part $i first
  known=$(((it - prompt) % 8))
  part $i marks
  is "the step of line $i" step $i
  number "masks of step $i" m $left
  number "others of step $i" s $((8 - left - known))
  part $i tokens
  number "tokens not there of step $i" u $left
  ((i % 4)) || check_has "the ids after step $i" "$ids" "${it//[][]/}"
done
part 4 first
check_eq 'the block of step 4' $(((it - prompt) / 8)) 0
part 9 first
check_eq 'where the third one begins' "$it" $((prompt + 16))
run_ok "${text[@]}" --json
check_eq 'lines without' "$(wc -l <"$tmp/out")" 1

# ---- runs without anything to watch -----------------------------------------
misuse "$TANDEM" run -m "$causal" -p a --watch
check_has 'stderr' "$err" '--watch cannot be used with method autoregressive'
check_has 'stderr' "$err" llada
misuse "${text[@]}" --watch --ids

# ---- on a terminal ------------------------------------------------------------
if ! command -v script >/dev/null; then
  echo 'not checked: there is no script(1) to make a terminal'
  finish
fi

# check_times WHAT PART N: it is so often in $shown.
check_times() {
  local rest=${shown//"$2"/}
  check_eq "$1" $(((${#shown} - ${#rest}) / ${#2})) "$3"
}
hide=$'\033[?25l' show=$'\033[?25h' wipe=$'\033[J'

# left_well: the cursor is visible, colours are reset, the last line has an
# end, and only text follows the last drawing.
left_well() {
  local last=${shown##*"$wipe"}
  local rest=${shown//"$hide"/}
  check_times 'the cursor comes back' "$show" \
    $(((${#shown} - ${#rest}) / ${#hide}))
  check_lacks 'the last output' "$last" $'\033'
  check_eq 'the last byte' "$(grep -av '^Script ' "$tmp/typescript" |
    tail -c 1 && echo .)" $'\n.'
}

on_terminal "${text[@]}" --watch </dev/null
check_eq 'status on a terminal' "$status" 0
check_times 'drawings' "$hide" $passes
check_eq 'lines about passes' "$(grep -aoc 'pass [0-9]*, ' <<<"$shown")" \
  $passes
check_has 'one of them' "$shown" 'pass 9, 6 masks left, 2.0 tokens a pass'
check_has 'the drawing' "$shown" $'\033[2m▢'
check_has 'the drawing' "$shown" $'\033[1m'
left_well
last=${shown##*"$wipe"}
check_has 'the text' "$want" "$(tail -n 1 <<<"$last")"

on_terminal NO_COLOR=1 "${text[@]}" --watch </dev/null
check_times 'drawings without colour' "$hide" $passes
check_eq 'colours with NO_COLOR' "$(grep -ac $'\033\[[0-9;]*m' <<<"$shown")" 0
check_has 'the drawing' "$shown" ▢
left_well

on_terminal TERM=dumb "${text[@]}" --watch </dev/null
check_lacks 'a dumb terminal' "$shown" $'\033'
check_eq 'its lines of passes' "$(grep -ac '^pass [0-9]*: ' <<<"$shown")" \
  $passes

# A device that dies.
on_terminal TANDEM_NPU_FAULT=die-after:55 "${text[@]}" --watch --restarts 0 \
  </dev/null
check_eq 'status with a device that dies' "$status" 3
check_has 'the message' "$shown" 'tandem: '
check_has 'the steps before' "$shown" 'pass 1, '
left_well

# Ctrl-C, typed on the terminal once something is drawn. In a pass is a time in
# which nothing runs: on a busy machine too the text is not at its end by then.
slow=(--va-window 2M --va-slots 3 --va-map-us 3000)
keys() { # [SECONDS]: after so many again
  until grep -aq 'pass 3, ' "$tmp/typescript" 2>/dev/null; do
    sleep 0.01
  done
  printf '\003'
  [ $# -eq 0 ] || { sleep "$1" && printf '\003'; }
  exec sleep 600 # the end of what is typed would be an end of the program's input
}
rm -f "$tmp/typescript"
exec 3< <(keys)
typist=$!
on_terminal "${text[@]}" "${slow[@]}" -n 400 --block-steps 0 --watch <&3
kill $typist
exec 3<&-
check_eq 'status after Ctrl-C' "$status" 130
left_well

# A second Ctrl-C before the first one has ended the text: the program ends at
# once, and the drawing is erased.
for wait in 0.002 0.01; do
  rm -f "$tmp/typescript"
  exec 3< <(keys $wait)
  typist=$!
  on_terminal "${text[@]}" -n 400 --block 400 --block-steps 400 --watch \
    --coherence check <&3
  kill $typist
  exec 3<&-
  check_eq 'status after two Ctrl-C' "$status" 130
  left_well
done
finish
