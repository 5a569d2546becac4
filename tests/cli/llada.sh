#!/usr/bin/env bash
# A diffusion model, of random weights: the same text however the pair is run.
. "$(dirname "$0")/diffusion_lib.sh"

model=$tmp/llada.gguf causal=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny-llada -o "$model"
run_ok "$TANDEM" synth --like tiny -o "$causal"
prompt='the tea in the inn'

ids() { # OPTION...
  run_ok "$TANDEM" run -m "$model" --method llada -p "$prompt" -n 24 \
    --ignore-eos --block 8 --ids "$@"
}

number_of_ids 24
same_whatever_the_pair

# A shorter text is the beginning of a longer one.
ids -n 7
check_eq 'ids of a shorter text' "$out" "$(cut -d ' ' -f -7 <<<"$want")"

# Passes, and logits of the masks that are left at each.
run_ok "$TANDEM" run -m "$model" --method llada -p a -n 20 --ignore-eos \
  --block 10 --block-steps 4 --json
is passes passes 8
is 'rows of logits' logits_rows $((2 * (10 + 7 + 4 + 2)))

# Noise: drawn, and by the seed alone.
ids --temp 1 --seed 7
drawn=$out
ids --temp 1 --seed 7 --coherence check --threads 1
check_eq 'ids drawn again' "$out" "$drawn"
ids --temp 1 --seed 8
checks=$((checks + 1))
[ "$out" != "$drawn" ] || fail 'another seed draws the same ids'
run "$TANDEM" run -m "$model" --method llada -p a --top-k 5
check_eq 'status with --top-k' "$status" 1
check_has 'stderr with --top-k' "$err" --top-k

# A model is run by its kind of method.
run "$TANDEM" run -m "$model" -p a
check_eq 'status of a diffusion model run one token a pass' "$status" 1
check_has stderr "$err" llada
run "$TANDEM" run -m "$causal" --method llada -p a
check_eq 'status of a causal model run by diffusion' "$status" 1
check_has stderr "$err" "$causal"

# Text up to the context, and no further.
run_ok "$TANDEM" run -m "$model" --method llada -p a -n -1 --ignore-eos \
  --ctx 50 --json
check_eq 'ids in all' $(($(json prompt_tokens) + $(json generated_tokens))) 50
check_has 'why it ends' "$out" '"stop":"context"'

# Each row sees all ids, whatever the chunk.
logits() { # MODEL IDS OPTION...: the first row's bytes, summed up, in $row
  run_ok "$TANDEM" logits -m "$1" --ids "$2" -o "$tmp/logits" "${@:3}"
  row=$(head -c $((608 * 4)) "$tmp/logits" | cksum)
}
logits "$model" '1 2 3'
first=$row
logits "$model" '1 2 3' --prefill-chunk 1
check_eq 'row 0 by small chunks' "$row" "$first"
logits "$model" '1 2 4'
checks=$((checks + 1))
[ "$row" != "$first" ] || fail 'row 0 of a diffusion model sees itself alone'
logits "$causal" '1 2 3'
first=$row
logits "$causal" '1 2 4'
check_eq 'row 0 of a causal model' "$row" "$first"
run "$TANDEM" logits -m "$model" --ids "$(seq -s ' ' 1 600) $(seq -s ' ' 1 500)" \
  --ctx 2000 -o "$tmp/logits"
check_eq 'status with more ids than a pass has rows' "$status" 1
check_has stderr "$err" '1100 ids'
# A larger context is no advice where the model was trained for none.
run "$TANDEM" run -m "$model" --method llada --ctx 2000 -n 4 \
  -p "$(seq -s ' ' 400)"
check_eq 'status of a prompt beyond a pass' "$status" 1
check_has 'stderr' "$err" 'try a shorter prompt'
check_lacks 'stderr' "$err" 'larger --ctx'
finish
