#!/usr/bin/env bash
# Drafters that look up what stood before: whatever they draft, for chains and
# for trees, greedy and sampled, the texts and the logits that they were drawn
# from are plain decoding's; and some of what they draft comes.
. "$(dirname "$0")/lib.sh"

[ -e flash/models/target.gguf ] ||
  skip 'no flash/models/target.gguf'

# With a sanitizer all is several times slower: one text, and not by every
# method.
tasks=short all='chain opt-tree eagle2-tree lever' sampled='chain lever'
! sanitized || tasks=summary all='chain lever' sampled=chain

evaluate() { # OPTION...
  run_ok "$TANDEM" eval $tasks --items 1 -n 32 -t 1 --json "$@"
}
hash_of() {
  grep -oE '"logits_hash":"[^"]*' "$tmp/out"
}
count() { # KEY, over all tasks
  grep -oE "\"$1\":[0-9]+" "$tmp/out" | awk -F: '{ n += $2 } END { print n }'
}
more() { # WHAT A B: A > B
  check_eq "$1: $2 above $3" "$(($2 > $3))" 1
}
# In one text not all of them find something.
more_in_all() { # WHAT A B
  [ $tasks != short ] || more "$@"
}

# Options with which each of them finds short copies.
drafts=(pld sam
  'ngram-map --ngram-map-key 3 --ngram-map-length 16'
  'ngram-mod --ngram-mod-match 4 --ngram-mod-min 2 --ngram-mod-max 24'
  suffix 'suffix --suffix-factor 4 --suffix-offset 2'
  rest:flash/models/tasks/summary.jsonl
  recycle sam+recycle suffix+recycle)

same_texts() { # METHODS OPTION...
  local draft method methods=$1
  shift
  evaluate --outputs "$tmp/want" "$@"
  want=$(hash_of)
  for draft in "${drafts[@]}"; do
    for method in $methods; do
      # shellcheck disable=SC2086 # the options of a draft
      evaluate --outputs "$tmp/got" "$@" --method $method --draft $draft
      check_eq "texts of $method with $draft $*" \
        "$(cmp "$tmp/got" "$tmp/want" && hash_of)" "$want"
      # lever goes by what passes cost: unlikely guesses may not be worth it.
      [ "$method $draft" = 'lever recycle' ] ||
        more_in_all "accepted by $method with $draft" "$(count accepted_tokens)" 0
    done
  done
}
same_texts "$all"
same_texts "$sampled" --temp 0.8 --seed 3

# Logits of all rows are others than plain decoding's; the texts are not.
recycle=(--draft recycle --recycle-rows all)
for options in '' '--temp 0.8 --seed 3'; do
  # shellcheck disable=SC2086 # options
  evaluate --outputs "$tmp/want" $options
  for method in chain opt-tree eagle2-tree lever; do
    # shellcheck disable=SC2086 # options
    evaluate --outputs "$tmp/got" $options --method $method "${recycle[@]}"
    check_eq "texts of $method with all rows recycled $options" \
      "$(cmp "$tmp/got" "$tmp/want" && echo same)" same
  done
done
evaluate --method chain --draft recycle
way=$(count accepted_tokens)
evaluate --method chain "${recycle[@]}"
more_in_all 'accepted with all rows recycled' "$(count accepted_tokens)" "$way"

# ---- a chain is as long as its drafter's -------------------------------------
# What is copied is long: the whole of a text comes again.
once=$(printf '%s ' {1..16})
long=$once$once$once$once
for draft in pld:10 sam:39 ngram-map:48 suffix:32; do
  run_ok "$TANDEM" run -p "$long" -n 60 --ignore-eos -t 1 --json \
    --method chain --draft "${draft%:*}"
  most=$(($(count drafted_tokens) / $(count draft_cycles)))
  more "$draft, a cycle" "$((${draft#*:} + 1))" "$most"
  more "$draft, drafted" "$(count drafted_tokens)" 8
done
run_ok "$TANDEM" run -p "$long" -n 60 --ignore-eos -t 1 --json \
  --method chain --draft sam --draft-len 2
more 'chains of 2' "$((2 * $(count draft_cycles) + 1))" \
  "$(count drafted_tokens)"

# ---- a history ---------------------------------------------------------------
kept=(summary --items 4 -t 1 --json --method chain --draft sam)
run_ok "$TANDEM" eval "${kept[@]}" --outputs "$tmp/want"
alone=$(count draft_cycles)
run_ok "$TANDEM" eval "${kept[@]}" --history "$tmp/history"
for draft in sam suffix rest; do
  for method in chain opt-tree; do
    run_ok "$TANDEM" eval "${kept[@]}" --history "$tmp/history" \
      --history-frozen --method $method --draft $draft --outputs "$tmp/got"
    check_eq "texts of $method with $draft and a history" \
      "$(cmp "$tmp/got" "$tmp/want" && echo same)" same
    more "cycles without a history, and of $method with $draft and its answers" \
      "$alone" $((2 * $(count draft_cycles)))
  done
done

# ---- what is said of them ----------------------------------------------------
run_ok "$TANDEM" run --help
help=$(tr -s ' \n' '  ' <"$tmp/out")
check_has help "$help" 'pld prompt lookup: what stood behind'
check_has help "$help" 'sam a suffix automaton: what stood behind'
check_has help "$help" 'ngram-map what stood behind the last 12 tokens'
check_has help "$help" 'ngram-mod what a table says of the hash'
check_has help "$help" 'suffix what came where'
check_has help "$help" 'rest what came most often'
check_has help "$help" 'rest:FILE the same'
check_has help "$help" 'recycle what the model would'
run "$TANDEM" run -p x --method chain --draft rest
check_eq 'status of a draft from nothing' "$status" 1
check_has 'the reason' "$err" 'or a file of text with rest:FILE'
misuse "$TANDEM" run -p x --method chain --draft rest:
check_has 'the reason' "$err" 'names a file'
run "$TANDEM" run -p x --method chain --draft rest:/nowhere
check_eq 'status of a file that is not there' "$status" 1
misuse "$TANDEM" run -p x --method chain --draft sam --sam-max 1
check_has 'the range' "$err" "'--sam-max' takes a whole number from 2"
run "$TANDEM" run -p x --method chain --draft ngram-mod --ngram-mod-max 9
check_eq 'status of a draft that can never be' "$status" 1
check_has 'the reason' "$err" '--ngram-mod-min 48 is more than'
finish
