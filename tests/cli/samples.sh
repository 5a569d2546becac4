#!/usr/bin/env bash
# Many samples of one prompt: each equals the text of a run of its own, for any
# number of samples and any number in a pass; all are reported; interrupted
# ones are marked.
. "$(dirname "$0")/lib.sh"
export TANDEM_MODELS=$root/flash/models
[ -e "$TANDEM_MODELS/small.gguf" ] || skip 'no flash/models/small.gguf'

question='Read: Tom has 3 apples and buys 4.'
tokens=20
! full || tokens=30
write() { # OPTION...: with many ways to go on
  run_ok "$TANDEM" run -m small "$question" -n $tokens --temp 0.9 --seed 3 "$@"
}
same() { # WHAT WANT: ids of the samples, a line each
  local rest=$out ids=
  while [[ $rest == *'"ids":['* ]]; do
    rest=${rest#*'"ids":['}
    ids+=$'\n'${rest%%]*}
  done
  ids=${ids%$'\n'*} # the last are those of the text
  ids=${ids//,/ }
  check_eq "$1" "${ids#?}" "$2"
}
has() { # WHAT JQ_CONDITION: of $tmp/out
  checks=$((checks + 1))
  jq -e "$2" "$tmp/out" >"$tmp/jq" 2>&1 || fail "$1: $(<"$tmp/jq") of $out"
}
alone=
for i in 0 1 2 3 4 5; do
  write --ids --stream $i
  alone+=$out$'\n'
done
alone=${alone%$'\n'}
check_eq 'texts that differ' "$(sort -u <<<"$alone" | wc -l)" 6

# ---- a sample does not depend on the others ---------------------------------
for how in '' '--parallel 1' '--parallel 4 --coherence check' \
  '--prefill-chunk 4 --parallel 5 --threads 1' '--slots 128'; do
  # shellcheck disable=SC2086 # options, or none
  write -N 6 --json $how
  same "samples with '$how'" "$alone"
done
has 'some are paused' '.sampling.pauses > 0'
write -N 3 --json
first=${alone%$'\n'*$'\n'*$'\n'*}
same 'the first of six' "$first"
has 'the text, states, how many ended' '.text == .samples[0].text and
  .text != "" and
  ([.samples[].state] == ["ended", "ended", "ended"]) and
  .sampling.ended == 3'
read -rd '' -a words <<<"$first"
has tokens ".sampling.tokens == ${#words[@]}"
write -N 2 --json --slots 32
has 'why a text ends that has no room alone' \
  '.samples[0].stop == "context" and .stop == "context"'

# ---- drafts do not change samples -------------------------------------------
for draft in pld recycle model sam+model 'model --draft-on device'; do
  write -N 6 --json --draft $draft --tree-rows 20
  same "samples with --draft $draft" "$alone"
done
has 'a draft was right' '.accepted_tokens > 0'
write -N 6 --json --draft recycle+model --slots 128 --parallel 3
same 'samples with drafts and a full cache' "$alone"
misuse "$TANDEM" run -N 2 --draft oracle:0.8 hello
check_has 'a draft that needs a text' "$err" 'it knows the text of only one'

# ---- as people see them ------------------------------------------------------
write -N 2 --ids
check_eq headings "$(grep -c '^== sample [12] of 2: .* tokens, log-' "$tmp/out")" 2
check_eq ids "$(grep -v '^==' "$tmp/out")" "$(head -n 2 <<<"$alone")"
write
plain=$out
write -N 1
check_eq 'one sample' "$out" "$plain"
write -N 1 --method sample
check_eq 'one sample by its method' "$out" "$plain"
write -N 3 --stats
check_has 'the first of three' "$out" "$plain"
check_has stats "$err" 'samples      3: 3 ended, 0 cut, 0 failed, 0 incomplete'
run_ok "$TANDEM" run -m small "$question" -n 5 -N 2
check_has 'the warning about greedy samples' "$err" 'have the same text'

# ---- steps -------------------------------------------------------------------
write -N 4 --json --step-end ' '
has steps '([.samples[] | .steps | length] | add) > 8'
has 'steps that go on from one another to the end' '[.samples[] |
  [.steps[].tokens] == ([.steps[].tokens] | unique) and
  ([.steps[].tokens] | max // 0) <= (.ids | length)] | all'

# ---- the phone's time --------------------------------------------------------
priced() { # N: picoseconds of so many samples, all as long
  write -N "$1" --json --clock soc:sd8gen3 --ignore-eos
  member total_ps
}
priced 1
one=$it
priced 8
eight=$it
checks=$((checks + 2))
[ "$eight" -gt "$one" ] || fail "8 samples take no longer than one: $eight"
[ "$eight" -lt $((4 * one)) ] || fail "8 samples take $eight, one $one"

# ---- conflicting options ----------------------------------------------------
misuse "$TANDEM" run -N 2 --method chain hello
check_has 'a method of one text' "$err" 'method chain, which does not use samples'
misuse "$TANDEM" run -N 0 hello
misuse "$TANDEM" run -N 2 --parallel 65 hello
misuse "$TANDEM" run --show-samples hello
check_has 'samples of one text' "$err" 'try -N 8'

# ---- broken off --------------------------------------------------------------
set -m # so that a program in the background heeds SIGINT
"$TANDEM" run -m small "$question" -N 40 --parallel 4 -n 400 --temp 0.9 \
  --ignore-eos --json >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
# It sleeps, and has worked for a fifth of a second.
ticks=0 state=
until [[ $state = S && $ticks -gt 20 ]]; do
  sleep 0.02
  read -r _ _ state _ _ _ _ _ _ _ _ _ _ user system _ <"/proc/$pid/stat" ||
    break
  ticks=$((user + system))
done 2>/dev/null
kill -INT $pid
status=0
wait $pid || status=$?
set +m
check_eq 'status when interrupted' "$status" 130
out=$(<"$tmp/out")
has 'why it ended, and what the samples are' '.stop == "interrupted" and
  (.samples | length) == 40 and .sampling.incomplete > 0 and
  ([.samples[].state] | unique - ["ended", "incomplete"]) == []'
finish
