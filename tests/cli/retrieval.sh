#!/usr/bin/env bash
# Drafters that look up earlier text: for chains and trees, greedy and sampled,
# texts and logits equal those of plain decoding; and some drafts are accepted.
. "$(dirname "$0")/lib.sh"

[ -e flash/models/small.gguf ] ||
  skip 'no flash/models/small.gguf'
export TANDEM_MODELS=$root/flash/models

# Of two texts one has much to copy: with 16 tokens every drafter finds some.
once=$(printf '%s ' {1..16})
long=$once$once$once$once
{
  head -n 1 flash/models/tasks/summary.jsonl
  printf '{"id":"numbers","prompt":"%s","answer":"1","check":"text"}\n' "$long"
} >"$tmp/items.jsonl"

evaluate() { # OPTION...: leaves $texts
  rm -f "$tmp/texts"
  run_ok "$TANDEM" eval "$@" -t 1 --json --outputs "$tmp/texts"
  read -rd '' texts <"$tmp/texts"
}
two() { # OPTION...
  evaluate "$tmp/items.jsonl" -m small -n 16 "$@"
}
total() { # NAME: into $total, over all tasks
  local rest=$out
  total=0
  while [[ $rest == *\"$1\":* ]]; do
    rest=${rest#*\"$1\":}
    total=$((total + ${rest%%[!0-9]*}))
  done
}
more() { # WHAT A B: A > B
  check_eq "$1: $2 above $3" "$(($2 > $3))" 1
}
# Options with which each of them finds short copies.
drafts=(pld sam
  'ngram-map --ngram-map-key 3 --ngram-map-length 16'
  'ngram-mod --ngram-mod-match 4 --ngram-mod-min 2 --ngram-mod-max 24'
  suffix 'suffix --suffix-factor 4 --suffix-offset 2'
  rest:flash/models/tasks/summary.jsonl
  recycle sam+recycle suffix+recycle)

# same_texts METHODS OPTION...: each draft with all methods, or with one: chains
# for every other draft, from the first (0) or the second (1) on, and trees, by
# turns, for the rest.
trees=(opt-tree eagle2-tree lever)
all=(chain "${trees[@]}")
same_texts() {
  local draft method methods=$1 turn=0
  shift
  two "$@"
  member logits_hash
  want=$it$texts
  for draft in "${drafts[@]}"; do
    case $methods in
    all) set_of=("${all[@]}") ;;
    0 | 1)
      set_of=(chain)
      [ $((turn++ % 2)) = "$methods" ] || set_of=("${trees[turn / 2 % 3]}")
      ;;
    esac
    for method in "${set_of[@]}"; do
      # shellcheck disable=SC2086 # the options of a draft
      two "$@" --method $method --draft $draft
      member logits_hash
      check_eq "texts of $method with $draft $*" "$it$texts" "$want"
      # lever compares costs of passes: unlikely drafts may not be worth them.
      total accepted_tokens
      [ "$method $draft" = 'lever recycle' ] ||
        more "accepted by $method with $draft" $total 0
    done
  done
}
# Each drafter has its own code for chains and for trees, which does not depend
# on the method that uses it.
if full; then
  same_texts all
  same_texts all --temp 0.8 --seed 3
else
  same_texts 0
  same_texts 1 --temp 0.8 --seed 3
fi

# Logits of all rows are others than plain decoding's; the texts are not.
recycle=(--draft recycle --recycle-rows all)
for options in '' '--temp 0.8 --seed 3'; do
  # shellcheck disable=SC2086 # options
  two $options
  want=$texts
  methods=(chain opt-tree)
  ! full || methods=("${all[@]}")
  for method in "${methods[@]}"; do
    # shellcheck disable=SC2086 # options
    two $options --method $method "${recycle[@]}"
    check_eq "texts of $method with all rows recycled $options" "$texts" "$want"
  done
done
replies=(reply -m small --items 2 -n 32 --method chain)
evaluate "${replies[@]}" --draft recycle
total accepted_tokens
way=$total
evaluate "${replies[@]}" "${recycle[@]}"
total accepted_tokens
more 'accepted with all rows recycled' $total $way

# ---- a chain is as long as its drafter's -------------------------------------
# What is copied is long: the whole of a text comes again.
for draft in pld:10 sam:39 ngram-map:48 suffix:32; do
  run_ok "$TANDEM" run -m small -p "$long" -n 60 --ignore-eos -t 1 --json \
    --method chain --draft "${draft%:*}"
  take drafted_tokens draft_cycles
  more "$draft, a cycle" "$((${draft#*:} + 1))" \
    $((value[drafted_tokens] / value[draft_cycles]))
  more "$draft, drafted" "${value[drafted_tokens]}" 8
done
run_ok "$TANDEM" run -m small -p "$long" -n 60 --ignore-eos -t 1 --json \
  --method chain --draft sam --draft-len 2
take drafted_tokens draft_cycles
more 'chains of 2' $((2 * value[draft_cycles] + 1)) "${value[drafted_tokens]}"

# ---- a history ---------------------------------------------------------------
kept=(summary -m small --items 4 --method chain --draft sam)
evaluate "${kept[@]}"
want=$texts
total draft_cycles
alone=$total
evaluate "${kept[@]}" --history "$tmp/history"
for draft in sam suffix rest; do
  for method in chain opt-tree; do
    evaluate "${kept[@]}" --history "$tmp/history" --history-frozen \
      --method $method --tree-rows 64 --draft $draft
    check_eq "texts of $method with $draft and a history" "$texts" "$want"
    total draft_cycles
    more "cycles without a history, and with $method and $draft" \
      $alone $((2 * total))
  done
done

# ---- help ----------------------------------------------------------------------
run_ok "$TANDEM" help drafts
for draft in oracle:P,... pld sam ngram-map ngram-mod calibrated reuse suffix rest \
  rest:FILE recycle; do
  check_has 'help drafts' "$out" "
  $draft  "
done
run "$TANDEM" run -p x --method chain --draft rest
check_eq 'status of a draft from nothing' "$status" 1
check_has 'the reason' "$err" 'or a file of text with rest:FILE'
misuse "$TANDEM" run -p x --method chain --draft rest:
check_has 'the reason' "$err" 'is missing after rest:'
run "$TANDEM" run -p x --method chain --draft rest:/nowhere
check_eq 'status of a file that is not there' "$status" 1
misuse "$TANDEM" run -p x --method chain --draft sam --sam-max 1
check_has 'the range' "$err" "'--sam-max' takes a whole number from 2"
run "$TANDEM" run -p x --method chain --draft ngram-mod --ngram-mod-max 9
check_eq 'status of a draft that can never be' "$status" 1
check_has 'the reason' "$err" '--ngram-mod-min 48 is more than'

# ---- options that change the drafts and not the text ---------------------------
printf '{"prompt":"15 16","answer":" 15 17 15 17 15 17"}\n' >"$tmp/pair.jsonl"
run_ok "$TANDEM" history import -m small "$tmp/pair" "$tmp/pair.jsonl"
essential=(stop ids)
copy=(run -m small -p "$long" -n 24 --ignore-eos -t 1 --json)
run_ok "$TANDEM" "${copy[@]}"
essence
plain=$essence
drafted() { # METHOD DRAFT OPTION...: the counters of a run, in $value
  run_ok "$TANDEM" "${copy[@]}" --method "$1" --draft "$2" "${@:3}"
  essence
  check_eq "text of $*" "$essence" "$plain"
  take draft_cycles drafted_tokens drafted_history
}
drafted chain sam --sam-alpha 0.1
more 'cycles with two tokens or fewer' \
  $((2 * value[draft_cycles] + 1)) "${value[drafted_tokens]}"
drafted chain sam --sam-alpha 0.1 --sam-min 10
more 'drafted with --sam-min' "${value[drafted_tokens]}" \
  $((4 * value[draft_cycles]))
drafted opt-tree sam
wide=${value[drafted_tokens]}
drafted opt-tree sam --sam-children 1
more 'drafted without --sam-children' "$wide" "${value[drafted_tokens]}"
drafted chain sam --history "$tmp/pair" --history-frozen --sam-bias 0
more 'drafted from the history' "${value[drafted_history]}" 0
drafted chain sam --history "$tmp/pair" --history-frozen --sam-bias 40
check_eq 'drafted from the history with --sam-bias 40' \
  "${value[drafted_history]:-0}" 0
drafted chain calibrated
more 'drafted without a depth' "${value[drafted_tokens]}" \
  $((2 * value[draft_cycles]))
drafted chain calibrated --calibrated-depth 1
more 'cycles with a token or none' $((value[draft_cycles] + 1)) \
  "${value[drafted_tokens]}"
finish
