#!/usr/bin/env bash
# Trees drafted and verified while the target streams from flash: ids and
# logits equal those of plain decoding for every drafter, every place of the
# draft, every budget and all pruning.
. "$(dirname "$0")/lever_lib.sh"

packed=$tmp/packed.tdm
run_ok "$TANDEM" convert "$model" "$packed" --zstd 3

same() { # OPTION...
  generate "$@"
  check_eq "the text with $*" "$essence" "$want"
}
# By an oracle: the hash is of the logits that it learnt the text from, too.
foretold() { # OPTION...
  generate "$@"
  check_eq "the text with $*" "${essence/logits_hash:+([^,])/}" \
    "${want/logits_hash:+([^,])/}"
  is 'that an oracle drafts' acceptance_simulated true
}
# The loop over budgets measures the costs of passes for lever; other cases
# measure them again only in the full test.
measured=(--profile learn)
! full || measured=()
lever() { # OPTION...
  same -m "$image" --method lever ${measured[@]+"${measured[@]}"} "$@"
}
shopt -s extglob

generate -m $model
want=$essence
check_has 'the compared output' "$want" logits_rows:$tokens
check_has 'the compared output' "$want" ids:

# ---- every method, budget and place -------------------------------------------
# Each method where layers are streamed, with both places by turns: 0% and 40%
# have them the other way round. All in memory is one case for all of them.
places=(host device) turn=0 full=
! full || full=yes
for budget in 0% 40% 100%; do
  same -m "$image" --method flash-ar --dram-budget $budget
  methods='chain specinfer opt-tree eagle2-tree edgellm lever'
  [ $budget != 100% ] || full || methods='chain edgellm lever'
  for method in $methods; do
    for place in "${places[turn++ % 2]}" ${full:+"${places[turn % 2]}"}; do
      same -m "$image" --method $method --dram-budget $budget --draft-on "$place"
      # What is drafted is accepted now and then, or nothing is tried here.
      take accepted_tokens draft_cycles
      check_eq "tokens with $method" \
        $((value[accepted_tokens] + value[draft_cycles])) $((tokens - 1))
    done
  done
  turn=$((turn + 1))
done
lever --dram-budget 40% --exit none
is 'that an oracle drafts' acceptance_simulated false
take accepted_tokens
checks=$((checks + 1))
[ "${value[accepted_tokens]}" -gt 0 ] || fail 'no draft was accepted'
same -m $model --method lever
lever --dram-budget 0% --prune-always --prune-threshold 1
lever --dram-budget 0% --prune-always --no-shadow --stop-rule
lever -m "$packed" --dram-budget 0%
same -m "$packed" --method edgellm --dram-budget 40% --draft-on device

# ---- however the pair and flash are run ------------------------------------------
for coherence in strict check; do
  lever --dram-budget 40% --coherence $coherence --evict-seed 5 \
    --draft-on device
done
lever --dram-budget 0% --threads 2 --stage-parts 4
lever --dram-budget 0% --threads 3 --stage-slots 2
for runs in 1 2 64; do
  same -m "$image" --method edgellm --dram-budget 60% --resident-runs $runs \
    --placement swap --stage-slots 2
done
if full; then
  for runs in 1 64; do
    lever --dram-budget 40% --resident-runs $runs
  done
  same -m "$image" --method edgellm --dram-budget 0% --coherence check
  lever --dram-budget 0% --flash-io direct
fi
lever --dram-budget 40% --resident-runs 2
same -m "$image" --method edgellm --dram-budget 40% --stage-parts 8 \
  --draft-on device --coherence check
lever --dram-budget 0% --stage-slots 12 --prefill-chunk 5
for io in direct buffered thread; do
  if [ $io = direct ] || full; then # which it is without
    same -m "$packed" --method flash-ar --dram-budget 40% --flash-io $io
  else
    same -m "$packed" --method chain --dram-budget 40% --flash-io $io
  fi
  [ $io = direct ] || lever --dram-budget 0% --flash-io $io
done
lever --dram-budget 0% --flash-fault eio@3,short@5,flip@2

# ---- an oracle --------------------------------------------------------------------
for p in 0.5 1; do
  foretold -m "$image" --method lever --dram-budget 0% --draft oracle:$p \
    ${measured[@]+"${measured[@]}"}
done
foretold -m $model --method chain --draft oracle:0.9
for method in chain lever; do
  foretold -m "$image" --method $method --draft oracle:0.9,0.5,0
done
run_ok "$TANDEM" run -m "$image" -p "$prompt" -n 4 --method lever --stats \
  --draft oracle:0.5
check_has 'stats with an oracle' "$err" 'acceptance is simulated'

# ---- sampled ------------------------------------------------------------------------
sampled='--temp 0.8 --seed 7 --repeat-penalty 1.1'
# shellcheck disable=SC2086 # several options
{
  generate -m $model $sampled
  plain=$want want=$essence
  checks=$((checks + 1))
  [ "$want" != "$plain" ] || fail 'sampling draws the greedy text'
  for method in chain specinfer opt-tree eagle2-tree edgellm; do
    same -m "$image" --method $method $sampled --dram-budget 40%
  done
  lever $sampled --dram-budget 0%
  lever $sampled --dram-budget 40% --draft-on device
  foretold -m "$image" --method lever $sampled --exit none --draft oracle:0.8
  want=$plain
}
finish
