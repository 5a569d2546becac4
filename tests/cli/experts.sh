#!/usr/bin/env bash
# Mixtures of experts whose experts are partly on flash: the same ids for every
# budget, method and way of running, counted reads, and one sentence for each
# combination that is refused.
. "$(dirname "$0")/lib.sh"

run_ok "$TANDEM" synth --grow target --experts 8 -o "$tmp/m.gguf"
run_ok "$TANDEM" convert "$tmp/m.gguf" "$tmp/m.tdm"

# generate MODEL OPTION...: $out, and the ids in $it
tokens=8
! full || tokens=24
generate() {
  run_ok "$TANDEM" run -m "$1" --json -n $tokens "${@:2}" 'One day a dog'
  member ids
}

# ---- the same text -------------------------------------------------------------
generate "$tmp/m.gguf"
want=$it
for options in '--dram-budget 50%' '--dram-budget 20% --method lever' \
  '--dram-budget 0% --experts-ahead 0 --threads 1' \
  '--dram-budget 20% --method chain --coherence check' \
  '--dram-budget 30% --method sdnpu --doorbell eventfd' \
  '--dram-budget 30% --flash-io thread --coherence strict' \
  '--dram-budget 20% --fault die@run#99 --restarts 1' \
  '--dram-budget 90% --va-window 24M --va-extended 64M' \
  '--dram-budget 20% --clock soc:sd8gen3'; do
  # shellcheck disable=SC2086
  generate "$tmp/m.tdm" $options
  check_eq "ids with $options" "$it" "$want"
done
(($(json wait_ps) > 0)) || fail 'the phone does not wait for experts'
(($(json read_ahead) > 0)) || fail 'nothing is read ahead'
run_ok "$TANDEM" run -m "$tmp/m.tdm" --dram-budget 20% --stats -n 8 'One day'
check_has 'statistics' "$err" 'experts      19 of 96 in memory'

# ---- a shared expert -----------------------------------------------------------
tokens=24
run_ok "$TANDEM" synth --like tiny-shared -o "$tmp/s.gguf"
run_ok "$TANDEM" convert "$tmp/s.gguf" "$tmp/s.tdm"
generate "$tmp/s.gguf"
want=$it
draft="--draft $tmp/s.gguf --draft-on device"
for options in '--dram-budget 100%' '--dram-budget 50% --coherence strict' \
  '--dram-budget 20% --coherence check --experts-ahead 0' \
  "--dram-budget 20% --method chain $draft" \
  "--dram-budget 50% --method lever $draft" \
  '--dram-budget 20% --fault die@run#99 --restarts 1' \
  '--dram-budget 20% --clock soc:sd8gen3'; do
  # shellcheck disable=SC2086
  generate "$tmp/s.tdm" $options
  check_eq "ids of a shared expert with $options" "$it" "$want"
done

# ---- diffusion -----------------------------------------------------------------
run_ok "$TANDEM" synth --like tiny-llada-moe -o "$tmp/d.gguf"
run_ok "$TANDEM" convert "$tmp/d.gguf" "$tmp/d.tdm"
generate "$tmp/d.gguf" --method fast-dllm
want=$it
generate "$tmp/d.tdm" --method fast-dllm --dram-budget 20%
check_eq 'ids of a diffusion model' "$it" "$want"
generate "$tmp/d.tdm" --method llada-npu --refresh none --dram-budget 50%
run "$TANDEM" run -m "$tmp/d.tdm" --method llada-npu --refresh host -n 8 'One day'
check_has 'refresh with experts' "$err" 'try --refresh none'

# ---- refusals ------------------------------------------------------------------
refused() { # MESSAGE OPTION...
  local message=$1
  shift
  run "$TANDEM" run -n 4 "$@" 'One day'
  [ "$status" != 0 ] || fail "not refused: $*"
  check_has "refusal of ${*:2}" "$err" "$message"
}
refused 'needs a flash image' -m "$tmp/m.gguf" --dram-budget 50%
refused 'weights other than experts' -m "$tmp/m.tdm" --dram-budget 1M
refused 'graph-switch' -m "$tmp/m.tdm" --graph-switch sync
refused 'read into memory when they are used' -m "$tmp/m.tdm" --placement swap
refused 'neither this model' -m "$tmp/m.tdm" --clock soc:sd8gen3 --as qwen2.5-3b
refused 'do not fit into the window' -m "$tmp/m.tdm" --va-window 24M
finish
