#!/usr/bin/env bash
# Files of mixtures of experts: tandem synth makes them, inspect describes them,
# convert packs them, and verify finds a damaged expert.
. "$(dirname "$0")/lib.sh"

model=$tmp/moe.gguf image=$tmp/moe.tdm
run_ok "$TANDEM" synth --like tiny-moe --seed 3 -o "$model"
run_ok "$TANDEM" synth --like tiny-moe --seed 3 -o "$tmp/again.gguf"
cmp -s "$model" "$tmp/again.gguf" || fail 'the same seed gives another file'
run_ok "$TANDEM" synth --like tiny-moe --seed 4 -o "$tmp/again.gguf"
cmp -s "$model" "$tmp/again.gguf" && fail 'another seed gives the same file'

# shown FILE: the line about experts.
shown() {
  run_ok "$TANDEM" inspect "$1"
  shown=$(grep '^experts ' <<<"$out" | tr -s ' ')
}
shown "$model"
check_eq 'the experts' "$shown" \
  'experts 16 in each layer, 4 for each token, 26.2 KiB each, 89.9 % of all weights'
run_ok "$TANDEM" inspect "$model" --json
check_has 'the experts in JSON' "$out" \
  '"experts":{"count":16,"used":4,"bytes":26880,"bytes_of_all":1720320}'
shown "$tmp/again.gguf"

run_ok "$TANDEM" synth --like tiny-moe --layers 2 --experts 6 --used 3 \
  -o "$tmp/few.gguf"
shown "$tmp/few.gguf"
check_has 'fewer experts' "$shown" 'experts 6 in each layer, 3 for each token'
check_has 'fewer layers' "$out" ' 2 layers'
run_ok "$TANDEM" synth --like tiny --experts 8 -o "$tmp/mixtral.gguf"
shown "$tmp/mixtral.gguf"
check_has 'experts in a llama' "$shown" 'experts 8 in each layer, 4 for each'
run_ok "$TANDEM" inspect "$tmp/mixtral.gguf"
check_has 'its architecture' "$out" 'architecture  llama'

run_ok "$TANDEM" synth --like qwen1.5-moe-a2.7b --layers 1 --experts 4 -o "$tmp/q.gguf"
run_ok "$TANDEM" inspect "$tmp/q.gguf"
check_has 'a shared expert' "$out" \
  'expert_shared_feed_forward_length u32             5632'
check_has 'its type' "$out" 'blk.0.ffn_down_shexp.weight      q8_0   5632 x 2048'
check_has 'its factor' "$out" 'blk.0.ffn_gate_inp_shexp.weight  f32    2048 '

# ---- what does not fit together ----------------------------------------------
misuse "$TANDEM" synth --like tiny-moe --experts 3 -o "$tmp/x.gguf"
check_has 'too few experts' "$err" 'cannot use 4 of 3 experts'
misuse "$TANDEM" synth --like tiny-moe --used 17 -o "$tmp/x.gguf"
check_has 'too many used' "$err" 'cannot use 17 of 16 experts'
misuse "$TANDEM" synth --like tiny --used 2 -o "$tmp/x.gguf"
check_has 'a dense shape' "$err" 'cannot use 2 of 0 experts'
misuse "$TANDEM" synth --like qwen2.5-0.5b --experts 8 -o "$tmp/x.gguf"
check_has 'an architecture without experts' "$err" 'have none'
misuse "$TANDEM" synth --grow target --layers 2 -o "$tmp/x.gguf"
check_has 'layers of no shape' "$err" '--layers needs --like'
misuse "$TANDEM" run --as tiny-moe --clock soc:sd8gen3 -p x
run "$TANDEM" synth --like tiny-moe --grow "$model" -o "$tmp/x.gguf"
check_eq 'status of growing a mixture' "$status" 1
check_has stderr "$err" 'it has experts'
run "$TANDEM" run -p x --method chain --draft "$model"
check_eq 'status with a mixture as draft' "$status" 1

# ---- growing -----------------------------------------------------------------
run_ok "$TANDEM" synth --grow draft --experts 3 --used 2 -o "$tmp/grown.gguf"
shown "$tmp/grown.gguf"
check_has 'a grown mixture' "$shown" 'experts 3 in each layer, 2 for each token'
run_ok "$TANDEM" inspect draft
layers=$(grep '^shape ' <<<"$out")
run_ok "$TANDEM" inspect "$tmp/grown.gguf"
check_has 'its shape' "$out" "$layers"

# ---- images ------------------------------------------------------------------
for more in '' '--zstd 3'; do
  # shellcheck disable=SC2086 # words
  run_ok "$TANDEM" convert "$model" "$image" --layout super --type q4_0 $more
  run_ok "$TANDEM" verify "$image"
  check_has 'verify' "$out" ' 71 extents'
done
shown "$image"
check_has 'the experts of an image' "$shown" '16 in each layer, 4 for each token'
check_has 'the other experts' "$out" 'and 63 more experts'
check_has 'the table' "$(tr -s ' ' <<<"$out")" \
  ' blk.1.ffn_gate_exps.weight q4_0 super-q4_0 96 128 expert 16 0'
run_ok "$TANDEM" convert "$model" "$tmp/q8.gguf" --type q8_0 --json
check_has 'the report' "$out" '"name":"blk.3.ffn_up_exps.weight","from":"q4_0"'
check_lacks 'the report' "$out" ffn_gate_inp
run_ok "$TANDEM" convert "$model" "$image"
at=$("$TANDEM" inspect "$image" --json |
  sed -E 's/.*"expert 37","offset":([0-9]+).*/\1/')
printf 'x' | dd of="$image" bs=1 seek=$((at + 100)) conv=notrunc 2>"$tmp/dd"
run "$TANDEM" verify "$image"
check_eq 'status of a damaged expert' "$status" 1
check_has 'the damaged expert' "$out$err" 'expert 37'
finish
