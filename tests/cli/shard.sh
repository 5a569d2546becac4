#!/usr/bin/env bash
# --shard and tandem merge: the merged parts equal the whole measurement; other
# files are refused.
. "$(dirname "$0")/lib.sh"

model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny -o "$model"
items=$tmp/items.jsonl
for i in 1 2 3 4 5 6 7; do
  printf '{"id":"i-%s","prompt":"Item %s of","answer":" x","check":"facts","facts":["%s"],"level":%s}\n' \
    "$i" "$i" "$((i % 3))" "$((i % 2))"
done >"$items"

# Wall times differ from run to run; all else is compared to the last digit.
without_wall() {
  sed -E 's/"(total_s|tokens_per_s)":[0-9.e+-]+/"\1":0/' |
    sed -E 's/("generated_tokens":[^}]*\}),"total_s":[0-9.e+-]+,"tokens_per_s":[0-9.e+-]+/\1/'
}

# Every counter of the phone's clock, and texts drawn by random numbers, which
# go by an item's place among all.
ask=("$items" -m "$model" -n 6 --temp 0.9 --clock soc:sd8gen3
  --doorbell eventfd)
run_ok "$TANDEM" eval "${ask[@]}" --json --outputs "$tmp/whole.out"
whole=$(without_wall <<<"$out")
run_ok "$TANDEM" eval "${ask[@]}"
table=$(sed -E 's/ +/ /g' <<<"$out" | cut -d' ' -f1-10)
for i in 1 2 3; do
  run_ok "$TANDEM" eval "${ask[@]}" --shard $i/3 --outputs "$tmp/$i.out"
  printf '%s\n' "$out" >"$tmp/$i.json"
done
run_ok "$TANDEM" merge --json "$tmp/3.json" "$tmp/1.json" "$tmp/2.json"
check_eq 'an evaluation, merged' "$(without_wall <<<"$out")" "$whole"
check_eq 'its outputs' "$(sort "$tmp"/[123].out)" "$(sort "$tmp/whole.out")"
check_eq 'items of the second of three shards' "$(wc -l <"$tmp/2.out")" 2
run_ok "$TANDEM" merge "$tmp"/[123].json
check_eq 'the table' "$(sed -E 's/ +/ /g' <<<"$out" | cut -d' ' -f1-10)" "$table"
run bash -c '"$TANDEM" merge --json "$@" >/dev/full' - "$tmp"/[123].json
check_eq 'status of a full disk' $status 1
check_has 'a full disk' "$err" 'cannot write to standard output'
run_ok "$TANDEM" merge "$tmp"/[123].json
check_eq 'one from standard input' \
  "$("$TANDEM" merge - "$tmp"/[23].json <"$tmp/1.json")" "$out"

# ---- files that are no shards, or of another measurement --------------------
refused() { # WHAT MESSAGE FILE...
  local what=$1 message=$2
  shift 2
  run "$TANDEM" merge "$@"
  check_eq "status for $what" $status 1
  check_has "$what" "$err" "$message"
}

for option in --csv "--plot=$tmp/plots"; do
  misuse "$TANDEM" merge "$option" "$tmp"/[123].json
  check_has "$option" "$err" "${option%%=*} is only for benchmarks"
done
printf '%s\n' "$whole" >"$tmp/whole.json"
refused 'a whole' 'is not a shard' "$tmp/whole.json"
refused 'a missing shard' 'shard 2 of 3 is missing' "$tmp"/[13].json
refused 'one twice' 'both shard 1 of 3' "$tmp"/[123].json "$tmp/1.json"
run_ok "$TANDEM" eval "${ask[@]}" --seed 2 --shard 2/3
printf '%s\n' "$out" >"$tmp/other.json"
refused 'another seed' 'command lines differ' "$tmp"/[13].json "$tmp/other.json"
sed 's/"sums":{/"sums":{"tokens":-1},"was":{/' "$tmp/2.json" >"$tmp/bad.json"
refused 'damage' 'damaged shard' "$tmp"/[13].json "$tmp/bad.json"
for i in 1 2 3; do
  sed 's/"command":"eval"/"command":"run"/' "$tmp/$i.json" >"$tmp/run$i.json"
done
refused 'another command' 'is not a shard of an evaluation or a benchmark' \
  "$tmp"/run[123].json
head -c 300 "$tmp/2.json" >"$tmp/cut.json"
refused 'a cut one' 'cut.json' "$tmp"/[13].json "$tmp/cut.json"
sed 's/"complete":true/"complete":false/' "$tmp/2.json" >"$tmp/part.json"
refused 'an interrupted one' 'interrupted' "$tmp"/[13].json "$tmp/part.json"
refused 'no file' 'cannot open' "$tmp/none.json"
for said in 0/3 4/3 1 1/ /3 x/3 1/99999 ' 1/3' -1/3; do
  run "$TANDEM" eval "${ask[@]}" "--shard=$said"
  check_eq "status for --shard '$said'" $status 2
done

# ---- a benchmark -----------------------------------------------------------
bench=(methods -m "$model" --methods autoregressive,chain --draft pld --tasks qa,ui --items 3
  -n 8 --sets 'draft-len=3' --clock soc:sd8gen3 --doorbell eventfd)
run_ok "$TANDEM" bench "${bench[@]}" --json
whole=$out
run_ok "$TANDEM" bench "${bench[@]}" --csv
csv=$out
for i in 1 2; do
  run_ok "$TANDEM" bench "${bench[@]}" --shard $i/2
  printf '%s\n' "$out" >"$tmp/b$i.json"
done
run_ok "$TANDEM" merge --json "$tmp"/b[12].json
check_eq 'a benchmark, merged' "$out" "$whole"
run_ok "$TANDEM" merge --csv "$tmp"/b[12].json
check_eq 'its figures as CSV' "$out" "$csv"
run env PATH="$tmp" "$TANDEM" merge --plot "$tmp/plots" "$tmp"/b[12].json
check_eq 'status of its plots without gnuplot' $status 1
check_has 'its plots' "$err" '--plot needs the program gnuplot'
sed 's/"setting":\[/&"draft-len=9",/' "$tmp/b2.json" >"$tmp/b3.json"
refused 'other runs' 'does not contain the runs' "$tmp/b1.json" "$tmp/b3.json"
refused 'an evaluation among them' 'one of 3 shards' "$tmp/b1.json" "$tmp/other.json"
run "$TANDEM" bench "${bench[@]}" --shard 1/2 --csv
check_eq 'status of --shard with --csv' $status 2

finish
