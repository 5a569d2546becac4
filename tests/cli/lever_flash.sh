#!/usr/bin/env bash
# Trees while the target streams from flash: the bytes read are reported
# exactly; read errors end the run with a message before any wrong text.
. "$(dirname "$0")/lever_lib.sh"

# ---- bytes read -------------------------------------------------------------
run_ok "$TANDEM" inspect "$image"
mapfile -t layer < <(awk '/^  layer [0-9]+ .* raw / { print $4 }' <<<"$out")
n=${#layer[@]}
at=$(awk '/^  layer 3 / { print $3 }' <<<"$out")
run_ok "$TANDEM" inspect $model --json
[[ $out =~ \"llama.block_count\"[^}]*\"value\":([0-9]*) ]]
check_eq 'layers of the image' $n "${BASH_REMATCH[1]}"
# read_of BUDGET OPTION...: the layers for which there is no room, once in each
# pass.
read_of() {
  local budget=$1 resident=0 bytes=0 i
  shift
  case $budget in
  *%) resident=$((${budget%\%} * n / 100)) ;;
  *M)
    # Includes three slots, each of a page and a layer in whole pages.
    for i in "${layer[@]}"; do
      ((i <= bytes)) || bytes=$i
    done
    bytes=$(((${budget%M} << 20) - 3 * (4096 + (bytes + 4095) / 4096 * 4096)))
    while ((resident < n && layer[resident] <= bytes)); do
      bytes=$((bytes - layer[resident++]))
    done
    bytes=0
    ;;
  esac
  for ((i = resident; i < n; i++)); do
    bytes=$((bytes + layer[i]))
  done
  set -- "$@" --dram-budget "$budget"
  generate -m "$image" -n 10 "$@"
  local it
  is "layers in memory with $*" resident_layers "$resident"
  is "bytes read in a pass with $*" bytes_per_pass $bytes.0
  member passes
  is "bytes read with $*" bytes_used $((bytes * it))
  is "layers read with $*" layers_used $(((n - resident) * it))
}
read_of 0% --method flash-ar
read_of 59% --method edgellm --draft-on device
read_of 5M --method lever --draft oracle:0.9
read_of 99% --method chain
read_of 40% --method lever --stage-parts 4
is 'parts of a layer' parts 4
generate -m "$image" -n 2 --method lever --dram-budget 100%
check_lacks 'JSON with all in memory' "$out" '"flash":'

# ---- errors -----------------------------------------------------------------
refuse() { # SAYS OPTION...
  local says=$1
  shift
  run "$TANDEM" run -p x -n 2 "$@"
  check_eq "status with $*" "$status" 1
  check_eq "stdout with $*" "$out" ''
  check_has "stderr with $*" "$err" "$says"
  check_lacks "stderr with $*" "$err" $'\n' # it is one line
}
refuse 'needs a flash image' -m $model --dram-budget 50%
refuse 'needs a flash image' -m $model --method flash-ar
refuse 'stage5' -m "$image" --dram-budget 0% --stage-slots 6 --va-slots 7
refuse 'drop@1' -m "$image" --dram-budget 0% --flash-fault drop@1
for budget in 101% -1% half; do
  misuse "$TANDEM" run -p x -m "$image" --dram-budget "$budget"
  check_has "stderr with budget $budget" "$err" "--dram-budget '$budget'"
done
misuse "$TANDEM" run -p x --method lever --prune-threshold -1
misuse "$TANDEM" run -p x --method lever --draft oracle:2
misuse "$TANDEM" run -p x --method lever --draft oracle:x
misuse "$TANDEM" run -p x --method lever --draft oracle:0.5,x
check_has 'stderr with a bad curve' "$err" "number 2, 'x'"
misuse "$TANDEM" run -p x --method chain --exit flash/models/exit.gguf
misuse "$TANDEM" run -p x --method lever --stage-slots 1
misuse "$TANDEM" run -p x --method lever --stage-parts 9
misuse "$TANDEM" run -p x --method lever --flash-io mmap
misuse "$TANDEM" run -p x --method lever --draft-on npu

# ---- read errors ------------------------------------------------------------
# It ends the text where it is met; nothing wrong is written before.
broken() { # SAYS OPTION...
  local says=$1
  shift
  run "$TANDEM" run -p "$prompt" -n 20 --ids --ignore-eos "$@"
  check_eq "status with $*" "$status" 1
  check_has "stderr with $*" "$err" "$says"
  checks=$((checks + 1))
  case "$ids " in
  "$out "*) ;;
  *) [ -z "$out" ] || fail "ids with $*: '$out', not '$ids'" ;;
  esac
}
run_ok "$TANDEM" run -p "$prompt" -n 20 --ids --ignore-eos
ids=$out
cp "$image" "$tmp/bad.tdm"
byte=$(od -An -tu1 -j $((at + 70000)) -N 1 "$tmp/bad.tdm")
# shellcheck disable=SC2059 # an octal escape
printf "\\$(printf %o $((byte ^ 1)))" |
  dd of="$tmp/bad.tdm" bs=1 seek=$((at + 70000)) conv=notrunc status=none
for budget in 0% 60% 80%; do
  broken 'layer 3' -m "$tmp/bad.tdm" --dram-budget $budget --method lever
  check_eq "ids of a damaged model, $budget" "$out" ''
done
broken 'layer 3 is damaged: checksum' -m "$tmp/bad.tdm" --dram-budget 0% \
  --method flash-ar --flash-io thread
broken 'layer ' -m "$image" --dram-budget 0% --flash-fault eio@9+
broken 'layer ' -m "$image" --dram-budget 0% --method lever \
  --flash-fault flip@30+ --draft-on device
checks=$((checks + 1))
[ -n "$out" ] || fail 'a fault that comes late leaves no text before it'
broken 'was not answered for 300 ms' -m "$image" --dram-budget 0% \
  --flash-fault stall@20 --device-timeout 0.3
head -c $((at + 100000)) "$image" >"$tmp/short.tdm"
broken 'truncated' -m "$tmp/short.tdm" --dram-budget 0%

# ---- the device dies in the middle ------------------------------------------------------------
for how in '--method flash-ar' '--method lever' \
  '--method edgellm --draft-on device'; do
  rm -f "$tmp/text" # or its end is taken for this one's beginning
  # shellcheck disable=SC2086 # several options
  "$TANDEM" run -m "$image" -p "$prompt" -n -1 --ignore-eos --ctx 20000 \
    --dram-budget 20% --restarts 0 $how >"$tmp/text" 2>"$tmp/said" &
  host=$!
  for _ in {1..500}; do
    [ ! -s "$tmp/text" ] || break
    sleep 0.03
  done
  npu=$(grep -ls "^PPid:[[:space:]]*$host\$" /proc/[0-9]*/status)
  npu=${npu#/proc/} npu=${npu%/status}
  kill -9 "$npu"
  for _ in {1..300}; do
    { read -r _ _ state _ </proc/$host/stat; } 2>/dev/null || break
    [ "$state" != Z ] || break
    sleep 0.01
  done
  kill -9 $host 2>/dev/null # which is no news to one that has ended
  status=0
  wait $host || status=$?
  check_eq "status of $how without a device" "$status" 3
  check_has "stderr of $how" "$(<"$tmp/said")" \
    "(pid $npu) died (killed by signal 9"
done
finish
