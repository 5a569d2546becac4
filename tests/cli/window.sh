#!/usr/bin/env bash
# The address window: the same text with every window that is large enough, an
# error with numbers before any token with others, and the view of a running
# device's window. TANDEM_WINDOWS=300 for more sizes, TANDEM_SEED=N for others.
. "$(dirname "$0")/lib.sh"

windows=${TANDEM_WINDOWS:-12}
seed=${TANDEM_SEED:-1}
RANDOM=$seed
echo "seed $seed"

# 3 MiB of weights in 4 blocks, and half a MiB of the rest.
model=$tmp/model.gguf draft=$tmp/draft.gguf
run_ok "$TANDEM" synth --like tiny --quant f32 -o "$model"
run_ok "$TANDEM" synth --like tiny -o "$draft"
text() { # OPTION...
  run "$TANDEM" run -m "$model" -p 'Once upon a time' -n 8 --ignore-eos \
    -t 1 --ctx 256 "$@"
}

# check_advice METHOD PLACEMENT KIB SLOTS: the smallest window that the message
# in $err names works, and one that is a page smaller does not.
advice='The smallest sufficient window is( --va-window ([0-9]+)K)?( --va-slots ([0-9]+))?: '
check_advice() {
  check_has "refusal with $2, $3 KiB, $4 slots" "$err" 'sufficient window is --va-'
  [[ $err =~ $advice ]]
  local kib=${BASH_REMATCH[2]} slots=${BASH_REMATCH[4]:-$4}
  # shellcheck disable=SC2086 # words
  text --method $1 --placement "$2" --va-window "${kib:-$3}K" --va-slots "$slots"
  check_eq "text with $2, ${kib:-$3} KiB, $slots slots" "$out" "${want[$1]}"
  # shellcheck disable=SC2086 # words
  [ -z "$kib" ] || text --method $1 --placement "$2" \
    --va-window "$((kib - 4))K" --va-slots "$slots"
  [ -z "$kib" ] || check_has "refusal a page below $kib KiB" "$err" --va-window
}

declare -A want=()
ran=0 refused=0
placements=(belady paging drop-all swap)
methods=(autoregressive "chain --draft $draft" sdnpu)
for ((i = 0; i < windows; i++)); do
  kib=$((1024 + RANDOM % 3072)) slots=$((3 + RANDOM % 14))
  placement=${placements[i % 4]} method=${methods[i % 3]}
  if [ -z "${want[$method]:-}" ]; then
    # shellcheck disable=SC2086 # words
    text --method $method
    want[$method]=$out
    check_eq "text of $method" "$out" "${want[autoregressive]:-$out}"
  fi
  hard=
  [ $((i % 5)) -ne 0 ] || hard=--va-hard
  # One that gives room back late is no smaller.
  [ $((i % 2)) -ne 0 ] || hard="$hard --va-defer $((1 + RANDOM % 8))"
  # shellcheck disable=SC2086 # words
  text --method $method --placement "$placement" --va-window "${kib}K" \
    --va-slots $slots $hard
  what="$method, $placement, $kib KiB, $slots slots $hard"
  if [ "$status" -eq 0 ]; then
    check_eq "text of $what" "$out" "${want[$method]}"
    ran=$((ran + 1))
  else
    check_eq "text of $what" "$out" ''
    check_has "refusal of $what" "$err" '--va-window'
    check_advice "$method" "$placement" $kib $slots
    refused=$((refused + 1))
  fi
done
echo "$ran ran, $refused were refused"

# All of them hold, and nothing less does.
checks=$((checks + 1))
[[ $ran -gt 0 && $refused -gt 0 ]] || fail 'not both ran and were refused'
text --va-window 1200K --va-slots 3
check_eq 'status with 1200 KiB and 3 slots' "$status" 0
misuse "$TANDEM" run -p x --va-window 1023K
check_lacks stderr "$err" tandem:kv
text --va-window 1M --va-slots 3 --verbose
check_eq 'status with 1 MiB and 3 slots' "$status" 1
check_has stderr "$err" 'window of 1.0 MiB: 0.7 MiB free'
check_has 'the drawing' "$err" 'window: 1.0 MiB in pages of 4 KiB, 2 of 3 slots'
check_has 'the drawing' "$err" '0.668 MiB  free'

# The least that holds all is as little where room comes back late: each way.
for way in 'belady 1' 'belady 5' 'belady 64' 'paging 5' 'drop-all 64'; do
  read -r placement late <<<"$way"
  text --placement "$placement" --va-window 1200K --va-slots 3 \
    --va-defer "$late"
  check_eq "text of $placement, $late maps late" "$out" \
    "${want[autoregressive]}"
done
# Below it the error is a lack of room, with nothing pending.
text --va-window 1M --va-slots 3 --va-defer 9
check_eq 'status with 1 MiB and late room' "$status" 1
check_has stderr "$err" 'window of 1.0 MiB: 0.7 MiB free'
misuse "$TANDEM" run -p x --va-defer 65
run "$TANDEM" run -p x --va-defer 1 --device "$tmp/nobody"
check_eq 'status of late room for a device that runs' "$status" 2
check_has stderr "$err" 'give the option to its tandem-npu --listen'

# A map takes the requested time, at least three here, and nothing else
# changes.
began=$EPOCHREALTIME
text --va-map-us 100000
took=$(((${EPOCHREALTIME/./} - ${began/./}) / 1000))
check_eq 'text with slow maps' "$out" "${want[autoregressive]}"
checks=$((checks + 1))
[ $took -ge 300 ] || fail "three maps of 100 ms each took $took ms in all"

# Weights lie in huge pages wherever the window has them, but for the end of a
# buffer.
run "$TANDEM" doctor --json
if [[ $out == *'"name":"huge-pages","state":"ok"'* ]]; then
  for placement in belady swap; do
    run_ok "$TANDEM" run -p 'Once upon a time' -n 2 --placement $placement --json
    take huge_bytes weight_bytes
    huge=${value[huge_bytes]} weights=${value[weight_bytes]}
    checks=$((checks + 1))
    ((5 * huge >= 4 * weights && 4 * weights > 5 << 21)) ||
      fail "$placement: $huge bytes of $weights are in huge pages"
  done
else
  echo 'skipped: this system gives shared memory no huge pages'
fi

# Windows by their names.
text --va-window v73 --json
check_has 'window of v73' "$out" '"va_window":2147483648,'
misuse "$TANDEM" run -p x --va-window v74

# A cap of the device's addresses is in force, and changes no text.
text --va-hard --va-window 16M
check_eq 'text with capped addresses' "$out" "${want[autoregressive]}"

text --va-hard --device "$tmp/nobody"
check_eq 'status of a cap for a device that listens' "$status" 1
check_has stderr "$err" 'prlimit --as'

# What is mapped again: belady never more than others, and less the more room
# there is.
run_ok scripts/stress-va -m "$model" --ctx 256 --csv -n 4 \
  --windows '2M 4M'
check_eq 'rows of stress-va' "$(grep -c , "$tmp/out")" 11
checks=$((checks + 1))
awk -F, 'NR > 1 && $4 != "refused" {
    if ($1 == "belady") {
      if (NR > 2 && $5 > before) { print "belady: more in", $2; exit 1 }
      before = belady[$2] = $5
    } else if ($1 != "swap" && $1 != "fixed" && $5 < belady[$2]) {
      print $1 ": less than belady in", $2; exit 1
    }
  }' "$tmp/out" || fail 'mapped again'
misuse_status=0
scripts/stress-va --widnows 5M 2>"$tmp/err" || misuse_status=$?
check_eq 'status of an unknown option' $misuse_status 2

# A pair that runs.
mkfifo "$tmp/text"
exec 9<>"$tmp/text"
"$TANDEM" run -m "$model" -p 'Once upon a time' -n -1 --ctx 20000 \
  -t 1 --ignore-eos --va-window 41M --va-slots 5 --va-hard >"$tmp/text" 2>"$tmp/said" 9<&- &
host=$!
head -c 1 <&9 >"$tmp/first"
npu=$(pgrep -P $host tandem-npu)
cap=$(awk '/^Max address space/ { print $4 }' "/proc/$npu/limits")
has=$(($(cut -d' ' -f1 "/proc/$npu/statm") * $(getconf PAGESIZE)))
checks=$((checks + 1))
[ "$cap" != unlimited ] && [ "$has" -le "$cap" ] ||
  fail "addresses are capped at $cap, and $has are used"
run_ok "$TANDEM" inspect --window $host
check_has 'the window' "$out" \
  "window of tandem-npu (pid $npu): 41.0 MiB in pages of 4 KiB"
check_has 'the window' "$out" 'of 5 slots used'
check_has 'the window' "$out" tandem:kv
# It works even for a device that does not respond.
kill -STOP "$npu"
run_ok "$TANDEM" inspect --window "$npu" --json
python3 - "$tmp/out" <<'PY' || fail 'the JSON is not as it must be'
import json, sys
w = json.load(open(sys.argv[1]))
at = w["page"]
free = []
for m in w["mappings"]:
    assert m["address"] >= at and m["bytes"] <= m["span"], m
    assert m["address"] % w["page"] == 0 and m["span"] % w["page"] == 0, m
    free.append(m["address"] - at)
    at = m["address"] + m["span"] + w["page"]
free.append(w["window"] - at)
assert max(free) == w["largest_hole"] and sum(free) == w["free"], free
assert w["slots_used"] == len(w["mappings"]) <= w["slots"] == 5
assert w["maps"] - w["unmaps"] == w["slots_used"]
assert w["refused"] > 0 and w["refused_bytes"] > 0
PY
kill -CONT "$npu"
kill -9 $host
wait $host 2>/dev/null
exec 9>&-

run "$TANDEM" inspect --window $$
check_eq 'status of a process without one' "$status" 1
check_has stderr "$err" 'is not a device and has not started one'
run "$TANDEM" inspect --window 12x
check_has stderr "$err" "'12x' is not a process id"
misuse "$TANDEM" inspect
finish
