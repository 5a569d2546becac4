#!/usr/bin/env bash
# Trees drafted and verified while the target streams from flash: the ids, and
# the logits they were drawn from, are those of plain decoding, whatever drafts,
# wherever it runs, whatever stays in memory and whatever is pruned; what is
# read is told to the byte; and what goes wrong is said.
. "$(dirname "$0")/lib.sh"

model=flash/models/target.gguf image=$tmp/target.tdm packed=$tmp/packed.tdm
for file in target draft exit; do
  [ -e flash/models/$file.gguf ] || skip "no flash/models/$file.gguf"
done
export XDG_CACHE_HOME=$tmp # where the probing of flash is remembered
prompt='Once upon a time, there was a little girl named Lily. She loved to'
run_ok "$TANDEM" convert $model "$image"
run_ok "$TANDEM" convert $model "$packed" --zstd 3

generate() { # OPTION...: 20 ids; the processors are shared with other tests
  run_ok "$TANDEM" run -p "$prompt" -n 20 --ignore-eos --json --spin 50 -t 1 "$@"
}
# What must be the same, however the tokens came about.
essence() {
  grep -oE '"(stop|logits_hash|text)":"[^"]*|"ids":[^]]*|"logits_rows":[0-9]+' \
    "$tmp/out" | tr -d '\n"'
}
count() { # KEY
  sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$tmp/out"
}
same() { # OPTION...
  generate "$@"
  check_eq "the text with $*" "$(essence)" "$want"
}
# By an oracle: the hash is of the logits that it learnt the text from, too.
without_hash() {
  sed -E 's/logits_hash:[0-9a-f]*//' <<<"$1"
}
foretold() { # OPTION...
  generate "$@"
  check_eq "the text with $*" "$(without_hash "$(essence)")" \
    "$(without_hash "$want")"
  check_has 'JSON with an oracle' "$(cat "$tmp/out")" \
    '"acceptance_simulated":true'
}

generate -m $model
want=$(essence)
check_has 'what is compared' "$want" logits_rows:20
check_has 'what is compared' "$want" ids:

# ---- every method, budget and place -------------------------------------------
for budget in 0% 40% 100%; do
  same -m "$image" --method flash-ar --dram-budget $budget
  for method in chain specinfer opt-tree eagle2-tree edgellm lever; do
    for place in host device; do
      same -m "$image" --method $method --dram-budget $budget --draft-on $place
      # What is drafted is accepted now and then, or nothing is tried here.
      check_eq "tokens with $method" \
        $(($(count accepted_tokens) + $(count draft_cycles))) 19
    done
  done
  same -m "$image" --method lever --dram-budget $budget --exit none
done
checks=$((checks + 1))
[ "$(count accepted_tokens)" -gt 0 ] || fail 'no draft was accepted'
same -m $model --method lever
same -m "$image" --method lever --dram-budget 0% --prune-always --prune-threshold 1 \
  --no-safeguards
same -m "$image" --method lever --dram-budget 0% --prune-always --no-shadow --stop-rule
same -m "$packed" --method lever --dram-budget 0%
same -m "$packed" --method edgellm --dram-budget 40% --draft-on device

# ---- however the pair and flash are run ------------------------------------------
for coherence in strict check; do
  same -m "$image" --method lever --dram-budget 40% --coherence $coherence \
    --evict-seed 5 --draft-on device
done
same -m "$image" --method edgellm --dram-budget 0% --coherence check
same -m "$image" --method lever --dram-budget 0% --threads 2
same -m "$image" --method lever --dram-budget 0% --threads 3 --stage-slots 2
same -m "$image" --method lever --dram-budget 0% --stage-slots 12 \
  --prefill-chunk 5
for io in direct buffered thread; do
  same -m "$image" --method lever --dram-budget 0% --flash-io $io
  same -m "$packed" --method flash-ar --dram-budget 40% --flash-io $io
done
same -m "$image" --method lever --dram-budget 0% --flash-fault \
  eio@3,short@5,flip@2

# ---- an oracle --------------------------------------------------------------------
for p in 0.5 1; do
  foretold -m "$image" --method lever --dram-budget 0% --draft oracle:$p
done
foretold -m $model --method chain --draft oracle:0.9
generate -m "$image" --method lever
check_has 'JSON without one' "$out" '"acceptance_simulated":false'
run_ok "$TANDEM" run -m "$image" -p "$prompt" -n 4 --method lever --stats \
  --draft oracle:0.5
check_has 'stats with an oracle' "$err" 'acceptance is simulated'

# ---- sampled ------------------------------------------------------------------------
sampled='--temp 0.8 --seed 7 --repeat-penalty 1.1'
# shellcheck disable=SC2086 # several options
{
  generate -m $model $sampled
  plain=$want want=$(essence)
  checks=$((checks + 1))
  [ "$want" != "$plain" ] || fail 'sampling draws the greedy text'
  for method in chain specinfer opt-tree eagle2-tree edgellm; do
    same -m "$image" --method $method $sampled --dram-budget 40%
  done
  same -m "$image" --method lever $sampled --dram-budget 0%
  same -m "$image" --method lever $sampled --dram-budget 40% --draft-on device
  foretold -m "$image" --method lever $sampled --exit none --draft oracle:0.8
  want=$plain
}

# ---- what is read ---------------------------------------------------------------------
run_ok "$TANDEM" inspect "$image"
mapfile -t layer < <(awk '/^  layer [0-9]+ .* raw / { print $4 }' <<<"$out")
check_eq 'layers of the image' ${#layer[@]} 5
# read_of RESIDENT OPTION...: the others, once in each pass.
read_of() {
  local resident=$1 bytes=0 i
  shift
  for ((i = resident; i < 5; i++)); do
    bytes=$((bytes + layer[i]))
  done
  generate -m "$image" "$@"
  check_eq "layers in memory with $*" "$(count resident_layers)" "$resident"
  check_eq "bytes read in a pass with $*" "$(count bytes_per_pass)" $bytes.0
  check_eq "bytes read with $*" "$(count bytes_used)" \
    $((bytes * $(count passes)))
  check_eq "layers read with $*" "$(count layers_used)" \
    $(((5 - resident) * $(count passes)))
}
read_of 0 --method flash-ar --dram-budget 0%
read_of 2 --method lever --dram-budget 40%
read_of 2 --method edgellm --draft-on device --dram-budget 59%
read_of 3 --method lever --draft oracle:0.9 --dram-budget 5M
read_of 4 --method chain --dram-budget 99%
generate -m "$image" --method lever --dram-budget 100%
check_lacks 'JSON with all in memory' "$out" '"flash":'

# ---- what is refused ---------------------------------------------------------------------
refuse() { # SAYS OPTION...
  local says=$1
  shift
  run "$TANDEM" run -p x -n 2 "$@"
  check_eq "status with $*" "$status" 1
  check_eq "stdout with $*" "$out" ''
  check_has "stderr with $*" "$err" "$says"
  check_eq "lines on stderr with $*" "$(wc -l <"$tmp/err")" 1
}
refuse 'no flash image' -m $model --dram-budget 50%
refuse 'streams a flash image' -m $model --method flash-ar
refuse 'stage5' -m "$image" --dram-budget 0% --stage-slots 6 --va-slots 7
refuse 'drop@1' -m "$image" --dram-budget 0% --flash-fault drop@1
for budget in 101% -1% half; do
  misuse "$TANDEM" run -p x -m "$image" --dram-budget "$budget"
  check_has "stderr with budget $budget" "$err" "--dram-budget '$budget'"
done
misuse "$TANDEM" run -p x --method lever --prune-threshold -1
misuse "$TANDEM" run -p x --method lever --draft oracle:2
misuse "$TANDEM" run -p x --method lever --draft oracle:x
misuse "$TANDEM" run -p x --method chain --exit flash/models/exit.gguf
misuse "$TANDEM" run -p x --method lever --stage-slots 1
misuse "$TANDEM" run -p x --method lever --flash-io mmap
misuse "$TANDEM" run -p x --method lever --draft-on npu

# ---- what cannot be read --------------------------------------------------------------------
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
run_ok "$TANDEM" inspect "$image"
at=$(awk '/^  layer 3 / { print $3 }' <<<"$out")
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
broken 'no answer for 300 ms' -m "$image" --dram-budget 0% \
  --flash-fault stall@20 --device-timeout 0.3
head -c $((at + 100000)) "$image" >"$tmp/short.tdm"
broken 'truncated' -m "$tmp/short.tdm" --dram-budget 0%

# ---- the device dies in the middle ------------------------------------------------------------
for how in '--method flash-ar' '--method lever' \
  '--method edgellm --draft-on device'; do
  # shellcheck disable=SC2086 # several options
  "$TANDEM" run -m "$image" -p "$prompt" -n -1 --ignore-eos --ctx 20000 \
    --dram-budget 20% $how >"$tmp/text" 2>"$tmp/said" &
  host=$!
  for _ in $(seq 1000); do
    [ ! -s "$tmp/text" ] || break
    sleep 0.01
  done
  npu=$(grep -ls "^PPid:[[:space:]]*$host\$" /proc/[0-9]*/status)
  npu=${npu#/proc/} npu=${npu%/status}
  kill -9 "$npu"
  for _ in $(seq 300); do
    grep -qs '^State:.Z' /proc/$host/status && break
    [ -e /proc/$host ] || break
    sleep 0.01
  done
  kill -9 $host 2>/dev/null # which is no news to one that has ended
  status=0
  wait $host || status=$?
  check_eq "status of $how without a device" "$status" 3
  check_has "stderr of $how" "$(cat "$tmp/said")" \
    "(pid $npu) died (killed by signal 9"
done
finish
