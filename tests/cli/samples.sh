#!/usr/bin/env bash
# Many samples of one prompt: each is the text that a run of its own has, however
# many there are and however many a pass computes; all are told; what was broken
# off is marked as such.
. "$(dirname "$0")/lib.sh"
export TANDEM_MODELS=$root/flash/models
[ -e "$TANDEM_MODELS/small.gguf" ] || skip 'no flash/models/small.gguf'

question='Question: Tom has 3 apples and buys 4. How many has he?'
write() { # OPTION...: with many ways to go on
  run_ok "$TANDEM" run -m small "$question" -n 30 --temp 0.9 --seed 3 "$@"
}
ids() { # what jq makes of every sample's ids, a line each
  jq -r '.samples[].ids | map(tostring) | join(" ")' "$tmp/out"
}
alone=
for i in 0 1 2 3 4 5; do
  write --ids --stream $i
  alone+=$out$'\n'
done
alone=${alone%$'\n'}
check_eq 'texts that differ' "$(sort -u <<<"$alone" | wc -l)" 6

# ---- the same samples, whatever is beside them -------------------------------
for how in '' '--parallel 1' '--parallel 4' '--slots 128' \
  '--coherence check' '--threads 1' '--prefill-chunk 4 --parallel 5'; do
  # shellcheck disable=SC2086 # options, or none
  write -N 6 --json $how
  check_eq "samples with '$how'" "$(ids)" "$alone"
done
write -N 3 --json
check_eq 'the first of six' "$(ids)" "$(head -n 3 <<<"$alone")"
check_eq 'the text' "$(jq -c .text <"$tmp/out")" \
  "$(jq -c '.samples[0].text' <"$tmp/out")"
check_eq 'states' "$(jq -r '.samples[].state' <"$tmp/out" | sort -u)" ended
check_eq 'all of them' "$(jq '.sampling.ended' <"$tmp/out")" 3
check_eq 'tokens' "$(jq '.sampling.tokens' <"$tmp/out")" \
  "$(head -n 3 <<<"$alone" | wc -w)"
write -N 6 --json --slots 128
[ "$(jq .sampling.pauses <"$tmp/out")" -gt 0 ] || fail 'nothing was paused'
write -N 2 --json --slots 64
check_eq 'why a text ends that has no room alone' \
  "$(jq -r '.samples[0].stop + " " + .stop' <"$tmp/out")" 'context context'

# ---- what drafts changes none of them ----------------------------------------
for draft in pld recycle model sam+model; do
  write -N 6 --json --draft $draft --tree-rows 20
  check_eq "samples with --draft $draft" "$(ids)" "$alone"
done
[ "$(jq .accepted_tokens <"$tmp/out")" -gt 0 ] || fail 'no draft was right'
write -N 6 --json --draft recycle+model --slots 128 --parallel 3
check_eq 'samples with drafts and a full cache' "$(ids)" "$alone"
misuse "$TANDEM" run -N 2 --draft oracle:0.8 hello
check_has 'a draft that is told a text' "$err" 'it is told one text'
misuse "$TANDEM" run -N 2 --draft model --draft-on device hello
check_has 'a draft on the device' "$err" 'the device holds one model'

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
check_has 'what is said of greedy samples' "$err" 'all the same text'

# ---- steps -------------------------------------------------------------------
write -N 4 --json --step-end ' '
steps=$(jq '[.samples[] | .steps | length] | add' <"$tmp/out")
[ "$steps" -gt 8 ] || fail "$steps steps"
check_eq 'steps that go on from one another to the end' "$(jq '[.samples[] |
  [.steps[].tokens] == ([.steps[].tokens] | unique) and
  ([.steps[].tokens] | max // 0) <= (.ids | length)] | all' <"$tmp/out")" true

# ---- the phone's time --------------------------------------------------------
priced() { # N: picoseconds of so many samples, all of 30 tokens
  write -N "$1" --json --clock soc:sd8gen3 --ignore-eos
  jq .phone.total_ps "$tmp/out"
}
one=$(priced 1) eight=$(priced 8)
[ "$eight" -gt "$one" ] || fail "8 samples take no longer than one: $eight"
[ "$eight" -lt $((4 * one)) ] || fail "8 samples take $eight, one $one"

# ---- what cannot be meant ----------------------------------------------------
misuse "$TANDEM" run -N 2 --method chain hello
check_has 'a method of one text' "$err" 'method chain, which has no use for samples'
misuse "$TANDEM" run -N 0 hello
misuse "$TANDEM" run -N 2 --parallel 65 hello
misuse "$TANDEM" run --show-samples hello
check_has 'samples of one text' "$err" 'ask for samples, like -N 8'

# ---- broken off --------------------------------------------------------------
set -m # so that a program in the background heeds SIGINT
"$TANDEM" run -m small "$question" -N 40 --parallel 4 -n 400 --temp 0.9 \
  --ignore-eos --json >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
until grep -qs '^State:.*S' "/proc/$pid/status" &&
  [ "$(awk '{ print $14 + $15 }' "/proc/$pid/stat" 2>/dev/null || echo 99)" -gt 20 ]; do
  kill -0 $pid 2>/dev/null || break
  sleep 0.02
done
kill -INT $pid
status=0
wait $pid || status=$?
set +m
check_eq 'status when interrupted' "$status" 130
check_eq 'why it ended' "$(jq -r .stop <"$tmp/out")" interrupted
check_eq 'samples told of' "$(jq '.samples | length' <"$tmp/out")" 40
[ "$(jq .sampling.incomplete <"$tmp/out")" -gt 0 ] || fail 'none is incomplete'
check_eq 'what they are' "$(jq -r '.samples[].state' <"$tmp/out" | sort -u |
  grep -cvE '^(ended|incomplete)$')" 0
finish
