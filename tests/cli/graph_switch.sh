#!/usr/bin/env bash
# Graph switching: the text is that without it, for every plan and whatever the
# device is like; the device holds one graph a block; what it came to is told;
# what cannot be is refused.
. "$(dirname "$0")/lib.sh"

prompt=$(printf 'The quick brown fox jumps over the lazy dog. %.0s' $(seq 12))
generate() { # OPTION...
  run_ok "$TANDEM" run -p "$prompt" -n 12 --prefill-chunk 64 --spin 50 \
    --json "$@"
}
member() { # NAME: of the object on standard output
  python3 -c '
import json, sys
o = json.loads(sys.stdin.read())
for name in sys.argv[1].split("."):
    o = o[name]
print(o)' "$1" <<<"$out"
}

# ---- the same text --------------------------------------------------------------------
generate
hash=$(member logits_hash) ids=$(member ids) blocks=$(member blocks)
check_lacks 'JSON without switching' "$out" graph_switch
same() { # OPTION...
  generate "$@"
  [ "$status" -eq 0 ] || return
  check_eq "hash with $*" "$(member logits_hash)" "$hash"
  check_eq "ids with $*" "$(member ids)" "$ids"
  check_eq "violations with $*" "$(member violations)" 0
  check_eq "loads with $*" "$(member graph_switch.loads)" \
    "$(member graph_switch.blocks)"
  check_eq "graphs held with $*" "$(member graph_switch.most_graphs)" \
    "$(member graph_switch.blocks)"
}
plans='sync async greedy partial best'
! sanitized || plans='async best'
for plan in $plans; do
  same --graph-switch $plan --coherence check --graph-rows 16
  check_eq 'the plan told' "$(member graph_switch.plan)" $plan
  same --graph-switch $plan --clock soc:sd8gen2
  check_eq 'the clock told' "$(member graph_switch.clock)" soc:sd8gen2
done
check_eq 'blocks by default' "$(member graph_switch.blocks)" "$blocks"
check_eq 'rows of the decode graph' "$(member graph_switch.decode_rows)" 32
same --graph-switch best --threads 3 --coherence strict --doorbell eventfd
same --graph-switch partial --va-slots 4 --graph-blocks 3
check_eq 'blocks asked for' "$(member graph_switch.blocks)" 3

generate --precision f16 --layout rows
hash=$(member logits_hash) ids=$(member ids)
same --graph-switch greedy --precision f16 --layout rows --threads 2

# Drafts on the host, and on the device, which has graphs of its own.
generate --method chain
hash=$(member logits_hash) ids=$(member ids)
same --graph-switch best --method chain
generate --graph-switch greedy --method chain --draft-on device
check_eq 'ids with a draft on the device' "$(member ids)" "$ids"
generate --graph-switch greedy --method lever --exit flash/models/exit.gguf \
  --prefill-chunk 128
check_eq 'ids of lever' "$(member ids)" "$ids"

# One graph for both: all passes have its rows, the text is the same.
generate --one-graph --prefill-chunk 64 --clock soc:sd8gen2
check_eq 'ids with one graph' "$(member ids)" "$ids"
check_eq 'rows of its passes' "$(member decode_rows.graph)" \
  $((64 * $(member decode_rows.of_passes)))

# ---- what it came to ---------------------------------------------------------------------
# A load takes longer than any block of so small a model on a phone: what is
# planned best is as good as any.
phone() { # PLAN
  generate --graph-switch "$1" --clock soc:sd8gen2
  member graph_switch.prompt_s
}
best=$(phone best)
for plan in sync async greedy partial; do
  checks=$((checks + 1))
  took=$(phone $plan)
  awk -v a="$best" -v b="$took" 'BEGIN { exit !(a <= 1.02 * b) }' ||
    fail "best takes $best s, $plan $took s"
done
check_eq 'the same phone, the same time' "$(phone best)" "$best"
run_ok "$TANDEM" run -p "$prompt" -n 2 --prefill-chunk 64 --stats \
  --graph-switch best
check_has 'statistics' "$err" 'graphs       switched by best: '
check_has 'statistics' "$err" '(wall clock)'

# ---- what is refused ---------------------------------------------------------------------
refuse() { # SAYS OPTION...
  local says=$1
  shift
  run "$TANDEM" run -p x -n 2 --graph-switch best "$@"
  check_eq "status with $*" "$status" 1
  check_eq "stdout with $*" "$out" ''
  check_has "stderr with $*" "$err" "$says"
}
refuse 'no smaller than a prefill graph of 32' --prefill-chunk 32
refuse '--one-graph leaves one alone' --one-graph
refuse 'see one another both ways' --method llada -m flash/models/diffusion.gguf
run_ok "$TANDEM" convert flash/models/target.gguf "$tmp/target.tdm"
refuse 'layers are streamed' -m "$tmp/target.tdm" --dram-budget 50%
misuse "$TANDEM" run -p x --graph-switch never
misuse "$TANDEM" run -p x --graph-switch best --graph-blocks 0
finish
