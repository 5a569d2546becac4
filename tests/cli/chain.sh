#!/usr/bin/env bash
# A chain drafted by a small model and verified in one pass: the ids, and the
# logits they were drawn from, are those of plain decoding, however the pair
# is run; and it takes fewer passes.
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
# What must be the same, however the tokens came about.
essence() {
  grep -oE '"(stop|logits_hash)":"[^"]*|"ids":[^]]*|"logits_rows":[0-9]+' \
    "$tmp/out" | tr -d '\n"'
}
rows() { # KEY: of what the rows of passes behind the prompt came to
  sed -n "s/.*\"decode_rows\":{[^}]*\"$1\":\([0-9]*\).*/\1/p" "$tmp/out"
}
count() { # KEY
  sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$tmp/out"
}

same() { # OPTION...
  generate --json --method chain "$@"
  check_eq "the text with chain $*" "$(essence)" "$want"
}

# ---- the model drafts for itself: nine tokens a pass -------------------------
# In float32, which is how it drafts: fp16 may decide a close race otherwise.
generate --json --precision f32
want=$(essence)
check_has 'what is compared' "$want" logits_rows:91
check_has 'what is compared' "$want" ids:
same --draft "$target" --precision f32
check_eq 'tokens drafted' "$(count drafted_tokens)" 80
check_eq 'tokens accepted' "$(count accepted_tokens)" 80
check_eq 'cycles' "$(count draft_cycles)" 10
check_eq 'passes, that of the prompt among them' "$(count passes)" 11
check_eq 'valid rows: all tokens but the first' "$(rows valid)" 90
check_eq 'wasted rows of a draft that is right' "$(rows wasted)" 0

# ---- another model drafts ----------------------------------------------------
generate --json
want=$(essence)
for length in 1 2 3 5 8 16; do
  same --draft "$other" --draft-len $length
  check_eq "tokens of length $length" \
    $(($(count accepted_tokens) + $(count draft_cycles))) 90
  check_eq "valid rows of length $length" "$(rows valid)" 90
  check_eq "wasted rows of length $length" "$(rows wasted)" \
    $(($(count drafted_tokens) - $(count accepted_tokens)))
  check_eq "rows of the graphs of length $length" "$(rows graph)" \
    $((90 + $(rows wasted) + $(rows underutilized)))
done
for coherence in strict check; do
  same --draft "$other" --coherence $coherence --evict-seed 5
done
same --draft "$other" --threads 1
same --draft "$other" --threads 3 --doorbell socket
same --draft "$other" --prefill-chunk 4
same --draft "$other" --va-slots 3 --doorbell eventfd
TANDEM_CPU=base same --draft "$other"

# ---- sampled ------------------------------------------------------------------
for seed in 1 2; do
  generate --json --temp 0.7 --seed $seed
  want=$(essence)
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
else
  echo 'not there, not tried: flash/models/target.gguf and draft.gguf'
fi
finish
