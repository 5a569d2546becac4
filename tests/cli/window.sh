#!/usr/bin/env bash
# The address window: the same text in every one that holds what must be there,
# a refusal with numbers before any token in those that do not, and what a
# running device shows of it. TANDEM_WINDOWS=300 for more of them.
. "$(dirname "$0")/lib.sh"

windows=${TANDEM_WINDOWS:-16}
seed=${TANDEM_SEED:-$((RANDOM * 32768 + RANDOM))}
RANDOM=$seed
echo "seed $seed"

text() { # OPTION...
  run "$TANDEM" run -p 'Once upon a time' -n 12 --ctx 128 "$@"
}

declare -A want=()
ran=0 refused=0
placements=(belady paging drop-all swap)
methods=(autoregressive chain sdnpu)
for ((i = 0; i < windows; i++)); do
  kib=$((1024 + RANDOM % 10240)) slots=$((3 + RANDOM % 14))
  placement=${placements[RANDOM % 4]} method=${methods[RANDOM % 3]}
  if [ -z "${want[$method]:-}" ]; then
    text --method "$method"
    want[$method]=$out
    check_eq "text of $method" "$out" "${want[autoregressive]:-$out}"
  fi
  hard=
  [ $((i % 3)) -ne 0 ] || hard=--va-hard
  # One that gives room back late is no smaller.
  [ $((i % 2)) -ne 0 ] || hard="$hard --va-defer $((1 + RANDOM % 8))"
  text --method "$method" --placement "$placement" --va-window "${kib}K" \
    --va-slots $slots $hard
  what="$method, $placement, $kib KiB, $slots slots $hard"
  if [ "$status" -eq 0 ]; then
    check_eq "text of $what" "$out" "${want[$method]}"
    ran=$((ran + 1))
  else
    check_eq "text of $what" "$out" ''
    check_has "refusal of $what" "$err" '--va-window'
    refused=$((refused + 1))
  fi
done
echo "$ran ran, $refused were refused"

# All of them hold, and nothing less does.
text --va-window 3M --va-slots 3
check_eq 'status with 3 MiB and 3 slots' "$status" 0
text --va-window 2M --va-slots 3
check_eq 'status with 2 MiB and 3 slots' "$status" 1
check_has stderr "$err" 'window of 2.0 MiB: 1.0 MiB asked, 0.3 MiB free'
misuse "$TANDEM" run -p x --va-window 1023K
check_lacks stderr "$err" tandem:kv
text --va-window 2M --va-slots 3 --verbose
check_has 'the drawing' "$err" 'window: 2.0 MiB in pages of 4 KiB, 2 of 3 slots'
check_has 'the drawing' "$err" '0.293 MiB  free'

# The least that holds all is as little where room comes back late: each way.
for placement in belady paging drop-all; do
  text --placement $placement --va-window 5M --va-slots 3
  want_late=$out
  for late in 1 5 64; do
    text --placement $placement --va-window 5M --va-slots 3 --va-defer $late
    check_eq "text of $placement, $late maps late" "$out" "$want_late"
  done
done
# And below it, what is refused is so for want of room, with nothing pending.
text --va-window 2M --va-slots 3 --va-defer 9
check_eq 'status with 2 MiB and late room' "$status" 1
check_has stderr "$err" 'window of 2.0 MiB: 1.0 MiB asked, 0.3 MiB free'
misuse "$TANDEM" run -p x --va-defer 65
run "$TANDEM" run -p x --va-defer 1 --device "$tmp/nobody"
check_eq 'status of late room for a device that runs' "$status" 2
check_has stderr "$err" 'give it to tandem-npu --listen'

# A map takes as long as it is told: three at least, and nothing else changes.
began=$(date +%s%N)
text --va-map-us 100000
took=$((($(date +%s%N) - began) / 1000000))
check_eq 'text with slow maps' "$out" "${want[autoregressive]}"
checks=$((checks + 1))
[ $took -ge 300 ] || fail "three maps of 100 ms each took $took ms in all"

# Windows by their names.
text --va-window v73 --json
check_eq 'window of v73' "$(jq .va_window "$tmp/out" 2>/dev/null ||
  grep -o '"va_window": *[0-9]*' "$tmp/out" | grep -o '[0-9]*$')" 2147483648
misuse "$TANDEM" run -p x --va-window v74

# A cap of the device's addresses is in force, and changes no text.
text --va-hard --va-window 16M
check_eq 'text with capped addresses' "$out" "${want[autoregressive]}"

text --va-hard --device "$tmp/nobody"
check_eq 'status of a cap for a device that listens' "$status" 1
check_has stderr "$err" 'prlimit --as'

# What is mapped again: belady never more than others, and less the more room
# there is.
run_ok scripts/stress-va --csv -n 8 --windows '5M 8M 12M 16M'
check_eq 'rows of stress-va' "$(grep -c , "$tmp/out")" 21
checks=$((checks + 1))
awk -F, 'NR > 1 && $4 != "refused" {
    if ($1 == "belady") {
      if (NR > 2 && $5 > before) { print "belady: more in", $2; exit 1 }
      before = belady[$2] = $5
    } else if ($1 != "swap" && $1 != "fixed" && $5 < belady[$2]) {
      print $1 ": less than belady in", $2; exit 1
    }
  }' "$tmp/out" || fail 'what is mapped again'
misuse_status=0
scripts/stress-va --widnows 5M 2>"$tmp/err" || misuse_status=$?
check_eq 'status of an unknown option' $misuse_status 2

# A pair that runs.
mkfifo "$tmp/text"
exec 9<>"$tmp/text"
"$TANDEM" run -p 'Once upon a time' -n -1 --ctx 1000 --ignore-eos \
  --va-window 16M --va-slots 6 --va-hard >"$tmp/text" 2>"$tmp/said" 9<&- &
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
  "window of tandem-npu (pid $npu): 16.0 MiB in pages of 4 KiB"
check_has 'the window' "$out" 'of 6 slots used'
check_has 'the window' "$out" tandem:kv
# It says what is there even where nobody would answer.
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
assert w["slots_used"] == len(w["mappings"]) <= w["slots"] == 6
assert w["maps"] - w["unmaps"] == w["slots_used"]
assert w["refused"] > 0 and w["refused_bytes"] > 0
PY
kill -CONT "$npu"
kill -9 $host
wait $host 2>/dev/null
exec 9>&-

run "$TANDEM" inspect --window $$
check_eq 'status of a process without one' "$status" 1
check_has stderr "$err" 'neither a device nor has started one'
run "$TANDEM" inspect --window 12x
check_has stderr "$err" "'12x' is no process id"
misuse "$TANDEM" inspect
finish
