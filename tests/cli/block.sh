#!/usr/bin/env bash
# A block diffusion model with random weights: its description, the same text
# with all settings of the pair, and conflicting options.
. "$(dirname "$0")/diffusion_lib.sh"

model=$tmp/block.gguf other=$tmp/llada.gguf
run_ok "$TANDEM" synth --like tiny-block -o "$model"
run_ok "$TANDEM" synth --like tiny-llada -o "$other"
run_ok "$TANDEM" inspect "$model"
check_has 'the description' "$out" 'in blocks of 32 tokens'
run_ok "$TANDEM" inspect "$other"
check_lacks 'the description of another model' "$out" 'in blocks'
prompt='the tea in the inn'

ids() { # OPTION...
  run_ok "$TANDEM" run -m "$model" --method block -p "$prompt" -n 70 \
    --ignore-eos --block-steps 8 --ids "$@"
}

number_of_ids 70
same_whatever_the_pair
same --block 32

# The cache is exact: without it every pass computes the text from its beginning.
same --no-cache --coherence check --threads 1
run_ok "$TANDEM" run -m "$model" --method block -p a -n 64 --ignore-eos --json \
  --no-cache
is 'passes without a cache' passes $((32 + 32))

# Also from a flash image, and with half of it streamed.
run_ok "$TANDEM" convert "$model" "$tmp/block.tdm" --layout tiles
same -m "$tmp/block.tdm"
same -m "$tmp/block.tdm" --dram-budget 50%

# Graphs change places while a prompt is read, as for any that is a chain.
numbers=$(seq -s ' ' 1 80)
ids -p "$numbers"
plain=$out
for chunk in 48 64; do
  ids -p "$numbers" --graph-switch best --prefill-chunk $chunk
  check_eq "ids with graphs of $chunk rows switched" "$out" "$plain"
done

# A shorter text is the beginning of a longer one, whatever it is to blocks.
for n in 1 31 32 33 64; do
  ids -n $n
  check_eq "$n ids" "$out" "${all[*]:0:n}"
done

# One pass a position, and one to keep a block that another follows.
run_ok "$TANDEM" run -m "$model" --method block -p a -n 64 --ignore-eos --json
is passes passes $((1 + 32 + 1 + 32))
is 'rows of logits' logits_rows $((33 * 32))
# No pass follows that in which the last token becomes known.
run_ok "$TANDEM" run -m "$model" --method block -p a -n 33 --ignore-eos --json
member passes
checks=$((checks + 1))
[ "$it" -lt $((1 + 32 + 1 + 32)) ] || fail "$it passes for 33 tokens"

# Noise: drawn, and by the seed alone.
ids --temp 1 --seed 7
drawn=$out
ids --temp 1 --seed 7 --coherence check --threads 1
check_eq 'ids drawn again' "$out" "$drawn"
ids --temp 1 --seed 8
checks=$((checks + 1))
[ "$out" != "$drawn" ] || fail 'another seed draws the same ids'

# Text up to the context, and no further.
run_ok "$TANDEM" run -m "$model" --method block -p a -n -1 --ignore-eos \
  --block-steps 4 --ctx 50 --json
check_eq 'ids in all' $(($(json prompt_tokens) + $(json generated_tokens))) 50
check_has 'why it ends' "$out" '"stop":"context"'

refused() { # WHAT COMMAND...: a sentence with WHAT in it
  local what=$1
  shift
  run "$TANDEM" "$@"
  check_eq "status of $*" "$status" 1
  check_has "stderr of $*" "$err" "$what"
}
refused 'try --method block' run -m "$model" -p a
refused 'try --method block' run -m "$model" -p a --method llada
refused 'try --method llada' run -m "$other" -p a --method block
refused 'blocks of 32' run -m "$model" -p a --method block --block 16
refused 'method block draws' run -m "$model" -p a --method block --top-k 5
refused 'where the prompt ends' logits -m "$model" --ids '1 2' -o "$tmp/logits"
run "$TANDEM" bench methods -m "$model" --methods block,llada --items 1
check_eq 'status of two kinds of diffusion' "$status" 2
check_has 'stderr of two kinds of diffusion' "$err" 'no model can run both'
finish
