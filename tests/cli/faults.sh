#!/usr/bin/env bash
# Planned faults at each step of the protocol: the text of a run without
# faults, or a clear error within its time limit; and nothing is left over.
# TANDEM_PLANS=1000 for more random plans, TANDEM_SEED=N for others.
. "$(dirname "$0")/lib.sh"
without_leak_search

plans=12
! sanitized || full || plans=3
plans=${TANDEM_PLANS:-$plans}
seed=${TANDEM_SEED:-1}
RANDOM=$seed
echo "seed $seed"

model=$tmp/tiny.gguf
image=$tmp/tiny.tdm
run_ok "$TANDEM" synth --like tiny -o "$model"
run_ok "$TANDEM" convert "$model" "$image"

answer() { # OPTIONS
  run timeout 300 "$TANDEM" run -p 'Once upon a time' -n 12 --ignore-eos --ids \
    -t 1 --prefill-chunk 16 "$@"
}
answer -m "$model"
want=$out
answer -m "$image" --dram-budget 0%
check_eq 'ids of the image' "$out" "$want"

# ---- each step, with restarts: the same text ---------------------------------------
for plan in die@map#1 die@load#1 die-inside@load#1 die-answered@load#1 \
  die@run#1 die-inside@run#3 die-answered@run#5 die-after:9 \
  late=40@run#2 late=10@map#1 full=60@run#2 bell-drop@run#2 \
  bell-repeat@run#3 bell-merge@run#2 tear@map#1 tear@run#2 die@run#4,late=30@start#2; do
  for bell in poll eventfd socket; do
    case $plan in
    bell-* | die@run#1) ;;
    *) [ $bell = poll ] || continue ;;
    esac
    answer -m "$model" --fault "$plan" --doorbell $bell
    check_eq "status with $plan, $bell ($err)" "$status" 0
    check_eq "ids with $plan, $bell" "$out" "$want"
  done
done
# Waits that its clock must end; a machine that is busy may end more of them.
for plan in hang@run#2 hang-inside@run#3 hang-answered@run#3 seq@run#3; do
  answer -m "$model" --fault "$plan" --device-timeout 0.5 --restarts 100
  check_eq "status with $plan ($err)" "$status" 0
  check_eq "ids with $plan" "$out" "$want"
done

# ---- without restarts, or where none helps: a sentence ----------------------------
refused() { # STATUS SAYS PLAN [OPTIONS]
  local code=$1 says=$2 plan=$3
  shift 3
  answer -m "$model" --fault "$plan" "$@"
  check_eq "status with $plan" "$status" "$code"
  check_has "stderr with $plan" "$err" "$says"
}
refused 3 'died (killed by signal 9' die@run#2 --restarts 0
refused 3 'no progress for 0.5 s' hang@run#2 --restarts 0 --device-timeout 0.5
refused 3 'which is not in flight' seq@run#2 --restarts 0
refused 3 'damaged' tear@run#2 --restarts 0
refused 1 'memory' enomem@map#1 --restarts 0
refused 3 'died (killed' die@start#1
refused 3 'died (killed' die@run#2,die@start#2+ --restarts 2

# ---- flash --------------------------------------------------------------------------
for plan in eio@3 short@2 flip@4 slow=20@1 slow=3@2+,eio@5; do
  answer -m "$image" --dram-budget 0% --fault "$plan"
  check_eq "status with $plan ($err)" "$status" 0
  check_eq "ids with $plan" "$out" "$want"
done
answer -m "$image" --dram-budget 0% --fault die@run#3,eio@5
check_eq "ids with both" "$out" "$want"

# ---- faults that are never triggered -----------------------------------------------
for plan in drop-invalidate:io#4 drop-clean:tandem:io#400000 die@run#4000 \
  eio@3 late=5@start#2; do
  answer -m "$model" --fault "$plan"
  check_eq "status with $plan" "$status" 4
  check_eq "ids with $plan" "$out" "$want"
  check_has "stderr with $plan" "$err" "'$plan' was never triggered"
done
answer -m "$model" --fault drop-invalidate:io#4
check_has 'stderr without that buffer' "$err" 'buffers with such calls: tandem:io'
answer -m "$model" --fault drop-clean:tandem:kv#2
check_eq 'status of a left-out call without a cache' "$status" 0
check_has 'stderr' "$err" "'drop-clean:tandem:kv#2' has no effect with --coherence off"
TANDEM_NPU_FAULT=die@run#4000 answer -m "$model"
check_eq 'status by the environment' "$status" 4

# ---- bad plans ------------------------------------------------------------------------
for plan in explode@1 die die@run enomem@run#1 late@1 eio@run#1; do
  answer -m "$model" --fault "$plan"
  check_eq "status with $plan" "$status" 2
  check_has "stderr with $plan" "$err" "'tandem help faults'"
done
TANDEM_NPU_FAULT=explode@1 answer -m "$model"
check_eq 'status with a bad environment' "$status" 2
check_has stderr "$err" "TANDEM_NPU_FAULT: 'explode@1'"
answer -m "$model" --fault die@1 --device "$tmp/none.sock"
check_eq 'status with a device of another' "$status" 2
run "$TANDEM_NPU" --listen "$tmp/npu.sock" --fault eio@3
check_eq 'status of a device with a fault of flash' "$status" 2
run_ok "$TANDEM" help faults
for word in die-inside bell-merge drop-word slow=MS start#2; do
  check_has 'help' "$out" "$word"
done
printf '# slow, then gone\nlate=5@1\ndie@run#2\n' >"$tmp/plan"
answer -m "$model" --fault "@$tmp/plan"
check_eq "ids with a plan from a file ($err)" "$out" "$want"
check_has stderr "$err" 'took its place'

# ---- random plans -----------------------------------------------------------------------
verbs=(die die-inside die-answered hang hang-inside hang-answered late=15
  full=15 bell-drop bell-repeat bell-merge seq tear)
kinds=('' map# load# run# run# run#)
reads=(eio short flip slow=5)
declare -A ends
for ((i = 0; i < plans; i++)); do
  plan=''
  for ((k = RANDOM % 3; k >= 0; k--)); do
    if [ $((RANDOM % 4)) -eq 0 ]; then
      one=${reads[RANDOM % ${#reads[@]}]}@$((RANDOM % 40 + 1))
    else
      one=${verbs[RANDOM % ${#verbs[@]}]}@
      one+=${kinds[RANDOM % ${#kinds[@]}]}$((RANDOM % 12 + 1))
    fi
    plan+=${plan:+,}$one
  done
  answer -m "$image" --dram-budget 0% --fault "$plan" --device-timeout 0.5 \
    --restarts $((RANDOM % 3))
  checks=$((checks + 1))
  ends[$status]=$((${ends[$status]:-0} + 1))
  case $status in
  0 | 4) [ "$out" = "$want" ] || fail "another text with $plan: $out ($err)" ;;
  1 | 3) [ -n "$err" ] || fail "no word with $plan" ;;
  *) fail "status $status with $plan: $err" ;;
  esac
done
for status in "${!ends[@]}"; do
  echo "random plans that ended with $status: ${ends[$status]}"
done
nothing_left 'all of these'

finish
