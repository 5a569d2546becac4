#!/usr/bin/env bash
# Files of diffusion models: their description, also from a flash image;
# Dream's rows, which attend to one another and predict the next position; and
# files that are refused.
. "$(dirname "$0")/diffusion_lib.sh"

dream=$tmp/dream.gguf llada=$tmp/llada.gguf
run_ok "$TANDEM" synth --like tiny-dream -o "$dream"
run_ok "$TANDEM" synth --like tiny-llada -o "$llada"

# ---- descriptions -----------------------------------------------------------
shows() { # FILE LINE...
  local file=$1 line
  shift
  run_ok "$TANDEM" inspect "$file"
  for line; do
    check_has "the description of $(basename "$file")" "$out" "$line"
  done
}
both_ways='diffusion     all positions attend to one another'
of_dream='mask token    615 "<|mask|>", predicted by the row before it'
shows "$dream" 'architecture  dream' "$both_ways" "$of_dream" 'chat          chatml'
shows "$llada" 'architecture  llada' "$both_ways" \
  'mask token    594 "<|reserved_special_token_0|>", predicted by its own row'
run_ok "$TANDEM" inspect --json "$dream"
said='"diffusion":{"mask_token":615,"shift_logits":true,"block_length":0}'
check_has 'the description in JSON' "$out" "$said"
run_ok "$TANDEM" synth --like tiny -o "$tmp/tiny.gguf"
for form in --json ''; do
  # shellcheck disable=SC2086
  run_ok "$TANDEM" inspect $form "$tmp/tiny.gguf"
  check_lacks "the $form description of a causal model" "$out" diffusion
  check_lacks "the $form description of a causal model" "$out" 'mask token'
done

# ---- a flash image keeps it ----------------------------------------------------
ids() { # OPTION...
  run_ok "$TANDEM" run -m "$dream" --method llada -p 'the tea in the inn' \
    -n 24 --ignore-eos --block 8 --ids "$@"
}
number_of_ids 24
same_whatever_the_pair
for layout in groups tiles; do
  ids --layout $layout
  want=$out
  run_ok "$TANDEM" convert "$dream" "$tmp/$layout.tdm" --layout $layout
  shows "$tmp/$layout.tdm" 'architecture  dream' "$both_ways" "$of_dream"
  run_ok "$TANDEM" inspect --json "$tmp/$layout.tdm"
  check_has "the JSON description of $layout" "$out" "$said"
  same -m "$tmp/$layout.tdm"
  same -m "$tmp/$layout.tdm" --dram-budget 50%
done

# ---- Dream's rows --------------------------------------------------------------
logits() { # IDS: the first row's bytes, summed up, in $row
  run_ok "$TANDEM" logits -m "$dream" --ids "$1" -o "$tmp/logits"
  row=$(head -c $((640 * 4)) "$tmp/logits" | cksum)
}
logits '1 2 3'
first=$row
logits '1 2 4'
checks=$((checks + 1))
[ "$row" != "$first" ] || fail 'row 0 of a Dream model sees itself alone'

# The same weights without the shift are another model's: a text of one mask is
# predicted by the row before it, or by its own.
tokens() { # MODEL: what its first mask becomes
  run_ok "$TANDEM" run -m "$1" --method llada -p 'the tea' -n 1 --ignore-eos \
    --block 1 --ids
}
best() { # ROW: the token of the largest logit
  tail -c +$(($1 * 640 * 4 + 1)) "$tmp/logits" | head -c $((640 * 4)) |
    od -An -v -w4 -tfF | awk -v mask=615 'NR - 1 != mask && (!n++ || $1 > most) {
      most = $1; at = NR - 1 } END { print at }'
}
run_ok "$TANDEM" tokenize -m "$dream" -p 'the tea'
prompt=$out
run_ok "$TANDEM" logits -m "$dream" --ids "$prompt 615" -o "$tmp/logits"
last=$(wc -w <<<"$prompt")
tokens "$dream"
check_eq 'the prediction of the row before a mask' "$out" "$(best $((last - 1)))"
checks=$((checks + 1))
[ "$out" != "$(best "$last")" ] || fail 'both rows predict the same'

# ---- errors -----------------------------------------------------------------
refused() { # WHAT FILE OPTION...: a sentence with WHAT in it
  run "$TANDEM" run -p a -n 2 -m "$2" "${@:3}"
  check_eq "status of $*" "$status" 1
  check_has "stderr of $*" "$err" "$1"
}
sed 's/ggml\.mask_token_id/ggml.nask_token_id/' "$dream" >"$tmp/no-mask.gguf"
refused "'tokenizer.ggml.mask_token_id' is missing" "$tmp/no-mask.gguf" \
  --method llada
sed 's/tokenizer\.ggml\.eot_token_id/diffusion.canvas_length_too/' "$llada" \
  >"$tmp/canvas.gguf"
refused "'diffusion.canvas_length_too' is not known" "$tmp/canvas.gguf" \
  --method llada
refused 'is not a diffusion model' "$tmp/tiny.gguf" --method llada
refused 'is a diffusion model' "$dream"
refused 'is a diffusion model' "$dream" --method chain --draft "$tmp/tiny.gguf"
refused 'does not generate from left to right' "$tmp/tiny.gguf" --method chain \
  --draft "$llada"
run "$TANDEM" synth --like tiny-dream --grow "$tmp/tiny.gguf" -o "$tmp/x.gguf"
check_eq 'status of a causal model grown into Dream' "$status" 1
check_has 'stderr' "$err" 'it is causal, and the shape is not'
finish
