#!/usr/bin/env bash
# A chain drafted by a small model and verified in one pass: ids and logits
# equal those of plain decoding with all settings of the pair, in fewer passes.
. "$(dirname "$0")/lib.sh"

prompt='Once upon a time, there was a little girl named Lily. She loved to'
target=$tmp/target.gguf
other=$tmp/other.gguf
if [ -n "${TANDEM_DATA:-}" ]; then
  target=$TANDEM_DATA/models/stories260K-f32.gguf
  other=$TANDEM_DATA/models/stories260K-pad192-q4_0.gguf
else
  run_ok "$TANDEM" synth --like tiny -o "$target"
  run_ok "$TANDEM" synth --like tiny --seed 9 -o "$other"
fi

generate() { # OPTION...: 91 ids
  run_ok "$TANDEM" run -m "$target" -p "$prompt" -n 91 --ignore-eos "$@"
}
rows() { # KEY: into $it, a count of rows in the passes after the prompt
  it=
  [[ $out =~ \"decode_rows\":\{[^}]*\"$1\":([0-9]+) ]] && it=${BASH_REMATCH[1]}
}
# rows_are WHAT KEY WANT, and in $it
rows_are() {
  rows "$2"
  check_eq "$1" "$it" "$3"
}

same() { # OPTION...
  generate --json --method chain "$@"
  essence
  check_eq "the text with chain $*" "$essence" "$want"
  is "rows of logits with chain $*" logits_rows 91
}

# ---- the model drafts for itself: nine tokens a pass -------------------------
# In float32, which is how it drafts: fp16 may decide a close race otherwise.
generate --json --precision f32
essence
want=$essence
check_has 'the compared output' "$want" ids:[
is 'rows of logits' logits_rows 91
same --draft "$target" --precision f32
is 'tokens drafted' drafted_tokens 80
is 'tokens accepted' accepted_tokens 80
is 'tokens drafted by the model' drafted_model 80
is 'tokens accepted from the model' accepted_model 80
is 'cycles' draft_cycles 10
is 'passes, that of the prompt among them' passes 11
rows_are 'valid rows: all tokens but the first' valid 90
rows_are 'wasted rows of a draft that is right' wasted 0

# ---- another model drafts ----------------------------------------------------
generate --json
essence
want=$essence
is 'rows of logits' logits_rows 91
for length in 1 2 3 5 8 16; do
  same --draft "$other" --draft-len $length
  member draft_cycles
  cycles=$it
  member drafted_tokens
  drafted=$it
  is "tokens of length $length" accepted_tokens $((90 - cycles))
  rows_are "valid rows of length $length" valid 90
  rows_are "wasted rows of length $length" wasted \
    $((drafted - 90 + cycles))
  wasted=$it
  rows underutilized
  rows_are "rows of the graphs of length $length" graph \
    $((90 + wasted + it))
done
# Each way once, two or three together.
same --draft "$other" --coherence strict --evict-seed 5 --threads 1
same --draft "$other" --coherence check --evict-seed 5 --prefill-chunk 4
same --draft "$other" --threads 3 --doorbell socket
TANDEM_CPU=base same --draft "$other" --va-slots 3 --doorbell eventfd

# ---- sampled ------------------------------------------------------------------
for seed in 1 2; do
  generate --json --temp 0.7 --seed $seed
  essence
  want=$essence
  same --temp 0.7 --seed $seed --draft "$other"
done

# ---- the end ------------------------------------------------------------------
for n in 1 2 3 11; do
  run_ok "$TANDEM" run -m "$target" -p "$prompt" -n $n --ids
  want=$out
  run_ok "$TANDEM" run -m "$target" -p "$prompt" -n $n --ids \
    --method chain --draft "$target"
  check_eq "$n ids" "$out" "$want"
done
run_ok "$TANDEM" run -m "$target" -p "$prompt" --ctx 60 -n -1 --ids
want=$out
run_ok "$TANDEM" run -m "$target" -p "$prompt" --ctx 60 -n -1 --ids \
  --method chain --draft "$target"
check_eq 'ids up to the end of the context' "$out" "$want"

# ---- refusals -----------------------------------------------------------------
run "$TANDEM" run -m "$target" -p "$prompt" --method chain \
  --draft "$tmp/none.gguf"
check_eq 'status without such a draft' "$status" 1
check_has stderr "$err" none.gguf

# ---- the models that come with the program ----------------------------------
if [ -e flash/models/target.gguf ] && [ -e flash/models/draft.gguf ]; then
  run_ok "$TANDEM" run -p "$prompt" -n 60 --ids
  want=$out
  run_ok "$TANDEM" run -p "$prompt" -n 60 --ids --method chain
  check_eq 'ids of the models that come with it' "$out" "$want"
  # Without --draft a model with another vocabulary gets the bundled draft.
  run "$TANDEM" run -m "$target" -p "$prompt" --method chain
  check_eq 'status with the draft of another vocabulary' "$status" 1
  for part in /draft.gguf\' 'the default for --draft' '--draft sam'; do
    check_has stderr "$err" "$part"
  done
else
  echo 'not there, not tried: flash/models/target.gguf and draft.gguf'
fi
finish
