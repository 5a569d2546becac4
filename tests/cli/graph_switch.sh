#!/usr/bin/env bash
# Graph switching: the text is the same as without it, for every plan and all
# settings of the device; the device holds one graph of each block; the results
# are reported; impossible settings are refused.
. "$(dirname "$0")/lib.sh"

# Three parts of the prefill graph, for 6 layers in as many blocks.
printf -v prompt 'The quick brown fox jumps over the lazy dog. %.0s' {1..8}
generate() { # OPTION...
  run_ok "$TANDEM" run -m small -p "$prompt" -n 6 --ignore-eos \
    --prefill-chunk 64 -t 1 --spin 50 --json "$@"
}
switched() { # NAME: of its report on graph switching, into $it
  it=
  [[ $out =~ \"graph_switch\":\{([^}]*,)?\"$1\":(\"[^\"]*\"|[^,}]*) ]] &&
    it=${BASH_REMATCH[2]}
}
it_is() { # WHAT WANT: what $it is
  check_eq "$1" "$it" "$2"
}
wanted() { # OPTION...: the hash and ids of other runs are those of this one
  generate "$@"
  member logits_hash
  hash=$it
  member ids
  ids=$it
  checks=$((checks + 1))
  [[ -n $hash && -n $ids ]] || fail "no hash and ids with $*"
}

# ---- the same text --------------------------------------------------------------------
wanted
member blocks
blocks=$it
check_lacks 'JSON without switching' "$out" graph_switch
same() { # OPTION...
  generate "$@"
  [ "$status" -eq 0 ] || return
  member logits_hash
  it_is "hash with $*" "$hash"
  member ids
  it_is "ids with $*" "$ids"
  member violations
  it_is "violations with $*" 0
  switched blocks
  held=$it
  switched loads
  it_is "loads with $*" "$held"
  switched most_graphs
  it_is "graphs held with $*" "$held"
}
declare -A prompt_s
for plan in sync async greedy partial best; do
  same --graph-switch $plan --clock soc:sd8gen2 --coherence check
  switched plan
  it_is 'the plan told' "\"$plan\""
  switched clock
  it_is 'the clock told' '"soc:sd8gen2"'
  switched prompt_s
  prompt_s[$plan]=$it
done
switched blocks
it_is 'blocks by default' "$blocks"
switched decode_rows
it_is 'rows of the decode graph' 32
# The plans by the time here, each with something else.
same --graph-switch best --threads 3 --coherence strict --doorbell eventfd
same --graph-switch sync --coherence check --graph-rows 16
same --graph-switch async --coherence check --graph-rows 8
same --graph-switch partial --va-slots 4 --graph-blocks 3
switched blocks
it_is 'blocks asked for' 3

wanted --precision f16 --layout rows
same --graph-switch greedy --precision f16 --layout rows --threads 2

# Drafts on the host, and on the device, which has graphs of its own.
wanted --method chain
same --graph-switch best --method chain
generate --graph-switch greedy --method chain --draft-on device
member ids
it_is 'ids with a draft on the device' "$ids"
# One graph for both: all passes have its rows, the text is the same.
generate --one-graph --clock soc:sd8gen2
member ids
it_is 'ids with one graph' "$ids"
[[ $out =~ \"decode_rows\":\{\"of_passes\":([0-9]+),\"graph\":([0-9]+) ]]
check_eq 'rows of its passes' "${BASH_REMATCH[2]:-none}" \
  $((64 * ${BASH_REMATCH[1]:-0}))
# The model that comes with an exit.
wanted -m target
generate -m target --graph-switch greedy --method lever \
  --exit flash/models/exit.gguf --prefill-chunk 128
member ids
it_is 'ids of lever' "$ids"

# ---- reported results -------------------------------------------------------
# On a phone a load takes longer than any block of so small a model: all good
# plans are equal.
for plan in sync async greedy partial; do
  checks=$((checks + 1))
  awk -v a="${prompt_s[best]}" -v b="${prompt_s[$plan]}" \
    'BEGIN { exit !(a > 0 && a <= 1.02 * b) }' ||
    fail "best takes ${prompt_s[best]} s, $plan ${prompt_s[$plan]} s"
done
run_ok "$TANDEM" run -m small -p "$prompt" -n 6 --ignore-eos --spin 50 \
  --prefill-chunk 64 --stats --json --graph-switch best --clock soc:sd8gen2
switched prompt_s
it_is 'the same phone, the same time' "${prompt_s[best]}"
check_has 'statistics' "$err" 'graphs       switched by best: '
run_ok "$TANDEM" run -m small -p 'Once upon a time' -n 2 --prefill-chunk 64 \
  --stats --graph-switch best
check_has 'statistics' "$err" 'graphs       switched by best: '
check_has 'statistics' "$err" '(wall clock)'

# ---- errors -----------------------------------------------------------------
refuse() { # SAYS OPTION...
  local says=$1
  shift
  run "$TANDEM" run -p x -n 2 --graph-switch best "$@"
  check_eq "status with $*" "$status" 1
  check_eq "stdout with $*" "$out" ''
  check_has "stderr with $*" "$err" "$says"
}
refuse 'not smaller than the prefill graph (32 rows)' --prefill-chunk 32
refuse 'with --one-graph there is only one' --one-graph
refuse 'also attend to later tokens' --method llada -m flash/models/diffusion.gguf
run_ok "$TANDEM" convert draft "$tmp/draft.tdm"
refuse 'layers are streamed' -m "$tmp/draft.tdm" --dram-budget 50%
misuse "$TANDEM" run -p x --graph-switch never
misuse "$TANDEM" run -p x --graph-switch best --graph-blocks 0
finish
