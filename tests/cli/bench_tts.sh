#!/usr/bin/env bash
# tandem bench tts: accuracy and cost by the number of samples. The figures of
# a few items equal those of single runs, and the estimates follow from the
# counts.
. "$(dirname "$0")/lib.sh"
export TANDEM_MODELS=$root/flash/models
[ -e "$TANDEM_MODELS/small.gguf" ] || skip 'no flash/models/small.gguf'

pair=(-t 1 --spin 0)
tts() { # OPTION...
  run_ok "$TANDEM" bench tts -n 64 --models small --timed 1 "${pair[@]}" "$@"
}
tts --items 3 --at 1,4 --methods sample,vote --clock soc:sd8gen3 --json
check_eq rows "$(jq -c '[.tables.accuracy[] | [.how, .samples]]' <"$tmp/out")" \
  '[["small, greedy","1"],["small, sample","1"],["small, sample","4"],["small, vote","1"],["small, vote","4"]]'
holds() { # WHAT JQ_CONDITION
  checks=$((checks + 1))
  jq -e ".tables as {\$accuracy, \$pass, \$kernels, \$softmax} |
    def row(how; samples): \$accuracy[] |
      select(.how == \"small, \" + how and .samples == samples); $2" \
    <"$tmp/out" >"$tmp/jq" 2>&1 ||
    fail "$1: $(<"$tmp/jq") of $(jq -c .tables <"$tmp/out")"
}
holds 'one sample, whatever chooses; the same samples' '
  [row("vote"; "1") | .right, .tokens] == [row("sample"; "1") | .right, .tokens]
  and row("vote"; "4").tokens == row("sample"; "4").tokens'
holds 'shares in their intervals' \
  '[$accuracy[] | .low <= .right and .right <= .high] | all'
holds 'pass@4 is not below pass@1, and of four the share with a right one' '
  $pass[0].pass_at_1 <= $pass[0].pass_at_4
  and row("sample"; "4").right == $pass[0].pass_at_4'
holds 'four samples take less than four times one' \
  'row("vote"; "4").phone_s < 4 * row("vote"; "1").phone_s'
# Kernels by batch size: matrices hardly depend on it, softmax does; with one
# row their ratio is that of the paper, whose figures are printed too.
holds 'kernels by batch' '$kernels as $k | ($k[:5] | map(.samples)) ==
    ["1", "2", "4", "8", "16"]
  and ($k[5:] | map(.samples)) == ["paper, least", "paper, mean", "paper, most"]
  and ([$k[:5][] | .rows_s > .groups_s and .groups_s > .super_s
    and .super_s > .read_s] | all)
  and $k[4].super_s < 1.1 * $k[0].super_s
  and ($k[0].rows_to_super * $k[0].super_s / $k[0].rows_s - 1 | fabs) < 1e-6
  and $k[0].rows_to_super > $k[5].rows_to_super
  and $k[0].rows_to_super < $k[7].rows_to_super
  and $k[0].groups_to_super > $k[5].authors_to_super
  and $k[0].groups_to_super < $k[7].authors_to_super
  and $k[0].authors_s > $k[0].groups_s'
holds 'softmax by batch' '$softmax as $s | ($s[:15] | map([.samples, .positions])) ==
    [("1024", "4096", "16384") as $c | ("1", "2", "4", "8", "16") | [., $c]]
  and ([$s[:15][] | .f32_s > .f16_s and .f16_s > .table_s] | all)
  and $s[4].table_s > 4 * $s[0].table_s
  and $s[5].table_s > 2 * $s[0].table_s and $s[10].table_s > 2 * $s[5].table_s'

# The other tables are computed from shapes: nothing is decoded.
run_ok "$TANDEM" bench tts --json \
  --tables softmax,attention,batches,prompts,memory --models nowhere
check_eq tables "$(jq -c '.tables | keys' <"$tmp/out")" \
  '["attention","batches","memory","prompts","softmax"]'
of() { # WHAT JQ_CONDITION
  checks=$((checks + 1))
  jq -e ".tables as {\$softmax, \$attention, \$batches, \$prompts, \$memory} | $2" \
    <"$tmp/out" >"$tmp/jq" 2>&1 || fail "$1: $(<"$tmp/jq") of $(<"$tmp/out")"
}
of 'gathers in flight' '[$softmax[:15][] | .two_gathers < .f32_to_table
  and .f32_to_table < .four_gathers] | all'
of 'softmax grows with the queries, and reads hide it in ours' '
  [$attention[] | .all_s < .in_turn_s] | all
  and ($attention[4].softmax_share > 5 * $attention[0].softmax_share)'
of 'passes with more samples are faster, and less than in proportion' '
  [$batches[:20][] | select(.samples != "1") | 1 < .growth
    and .growth < (.samples | tonumber)] | all'
of 'the energy of eight samples of the small model, as in the paper' '
  $batches[3] | .samples == "8" and .of_3b < 1'
of 'longer prompts, slower' '[range(0; 16; 4) as $i |
  $prompts[$i].samples_1 > $prompts[$i + 3].samples_1
  and $prompts[$i + 3].samples_1 > 0.7 * $prompts[$i].samples_1] | all'
of memory '[$memory[] | .npu_ratio, .all_ratio | . > 0.9 and . < 1.1] | all'

# A choice among the first samples of the largest run, and its cost, equal
# those of the method run with that number of samples.
[ -e "$TANDEM_MODELS/reward-small.gguf" ] || skip 'no reward-small.gguf'
items=2
! full || items=6
plot=()
command -v gnuplot >/dev/null && plot=(--plot "$tmp/svg")
tts --items $items --at 1,3,8 --json \
  --methods vote,weighted-vote,best-of-n,best-of-n:min,self-certainty,beam \
  "${plot[@]}"
cp "$tmp/out" "$tmp/tts"
itself() { # NAME N OPTION...
  local name=$1 n=$2
  shift 2
  run_ok "$TANDEM" eval math --items $items -n 64 -m small "${pair[@]}" --temp 0.8 \
    --method "${name%:*}" -N "$n" --parallel 64 --clock soc:sd8gen3 --json "$@"
  jq -e --slurpfile tts "$tmp/tts" --arg how "small, $name" --arg n "$n" "
    def near(a; b): (a - b) * 1e7 | fabs <= (b | fabs);
    .tasks[0] as \$all | \$tts[0].tables.accuracy[] |
    select(.how == \$how and .samples == \$n) |
    near(.right * $items / 100; \$all.right)
    and near(.tokens * $items; \$all.sampled_tokens)
    and near(.phone_s * $items; \$all.phone.total_s)
    and near(.phone_j * $items; \$all.phone.energy_j)" \
    "$tmp/out" >"$tmp/jq" 2>&1 ||
    fail "$name of $n: $(<"$tmp/jq") by itself $out"
  checks=$((checks + 1))
}
itself vote 3
itself weighted-vote 8
itself best-of-n 3
itself best-of-n:min 8 --aggregate min
itself self-certainty 1
check_eq 'methods outside the groups' "$(jq -c '[.tables.accuracy[] |
  select(.how == "small, beam") | .samples]' <"$tmp/tts")" '["1","8"]'

# ---- pairs of models on phones -----------------------------------------------
if [ -e "$TANDEM_MODELS/reward.gguf" ]; then
  full && of=2 || of=1
  run_ok "$TANDEM" bench tts --tables accuracy,phones --items $of -n 16 --at 1,4 \
    --methods best-of-n --timed 0 "${pair[@]}" --json
  check_eq 'phones, pairs and numbers' \
    "$(jq '.tables.phones | length' <"$tmp/out")" 18
  jq -e '.tables as $t | $t.accuracy[2] as $four |
    [$t.phones[] | select(.samples == "4") | .right == $four.right
      and .p_value == $four.p_value and .time < 1 and .energy < 1
      and (.phone_s / .second_s / .time - 1 | fabs) < 1e-6] | all' \
    "$tmp/out" >"$tmp/jq" || fail "phones: $(<"$tmp/jq") $(<"$tmp/out")"
  checks=$((checks + 1))
fi
# Decided early: the same answers with fewer tokens. Methods that score all
# samples are not affected.
early() { # OPTION...
  tts --items 3 --at 8 --temp 1.5 --methods vote,best-of-n,weighted-vote \
    --tables accuracy --timed 0 --json "$@"
  jq -c '[.tables.accuracy[1:][] | [.right, .tokens, .phone_s]]' "$tmp/out"
}
all=$(early) cut=$(early --stop-decided)
check_eq 'decided early' "$(jq -n --argjson all "$all" --argjson cut "$cut" '
  [$all[][0]] == [$cut[][0]] and $all[2] == $cut[2]
  and $cut[0][1] < $all[0][1] and $cut[1][1] < $all[1][1]
  and $cut[1][2] < $all[1][2]')" true
# An option of one of the methods is taken.
tts --items 1 -n 8 --at 2 --methods vote,best-of-n --answer text --json
misuse "$TANDEM" bench tts --methods best-of-n --answer text
check_has 'no answers' "$err" '--answer cannot be used'
misuse "$TANDEM" bench tts --tables phones --models small
check_has 'one model' "$err" 'compares two models'
misuse "$TANDEM" bench tts --tables kernel
check_has 'nearest table' "$err" "did you mean 'kernels'?"

# ---- pictures ----------------------------------------------------------------
has_parts() { # SVG PART...: it is whole, and holds these
  local svg=$1 part text
  text=$(<"$tmp/svg/$svg.svg")
  shift
  for part in '</svg>' "$@"; do
    check_has "$svg" "$text" "$part"
  done
}
if [ ${#plot[@]} -gt 0 ]; then
  check_eq pictures "$(cd "$tmp/svg" && echo *)" \
    'energy.svg pass.svg throughput.svg time.svg'
  for svg in time energy; do
    # Of the methods the three that end best, and of each its numbers' points.
    has_parts $svg 'right, %' 'phone milli' 'small, greedy' \
      "$items items of math"
    check_eq "lines of $svg" "$(grep -o '>small, [^<]*' "$tmp/svg/$svg.svg" |
      sort -u | wc -l)" 4
  done
  has_parts pass 'one is right, %' '>samples<' '>small<'
  has_parts throughput 'tokens a second' '>samples<' '>small<'
fi

tts --items 1 -n 8 --at 2 --methods vote --csv
check_has csv "$out" 'accuracy,"small, vote",2,tokens,'
tts --items 1 -n 8 --at 2 --methods vote
check_has text "$out" 'small, vote'
check_has text "$out" 'pass@k'

misuse "$TANDEM" bench tts --methods chain
check_has 'a method of one text' "$err" 'chain, which does not use samples'
misuse "$TANDEM" bench tts --methods vote:min
check_has 'no reward, no aggregate' "$err" ':last, :min or :prod'
misuse "$TANDEM" bench tts --shapes qwen2.5-1.5b
check_has 'a shape for one of two' "$err" 'fewer shapes than there are models'
misuse "$TANDEM" bench tts --at 4,2
check_has 'numbers that fall' "$err" 'in ascending order'
misuse "$TANDEM" bench tts --task all
misuse "$TANDEM" bench tts --models a,b,c
while IFS='|' read -r option message; do
  # shellcheck disable=SC2086 # words
  misuse "$TANDEM" bench tts $option
  check_has "stderr of $option" "$err" "$message"
done <<'EOF'
--models ,|--models lists no model
--methods ,|--methods lists no method
--shapes gpt-17,gpt-18|no shape without experts has this name
--models small --shapes qwen2.5-1.5b,qwen2.5-3b|at most one shape for each
EOF
many=sample,vote,self-certainty,mean-logprob
for method in best-of-n weighted-vote; do
  many+=,$method,$method:last,$method:min,$method:prod
done
misuse "$TANDEM" bench tts --methods $many,beam
check_has 'thirteen methods' "$err" 'lists more than 12 methods'
finish
