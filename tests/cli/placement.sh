#!/usr/bin/env bash
# Placement of the weights in the device's window: the same text with every
# placement, window and method; errors for windows that are too small; the
# counters; and micro-batches that fit only if weights are remapped.
. "$(dirname "$0")/lib.sh"

tiny=$tmp/tiny.gguf
llada=$tmp/llada.gguf
large=$tmp/large.gguf
run_ok "$TANDEM" synth --like tiny -o "$tiny"
run_ok "$TANDEM" synth --like tiny-llada -o "$llada"
run_ok "$TANDEM" synth --like tiny --quant f32 -o "$large"

generate() { # OPTION...: leaves $essence, what must be the same
  run_ok "$TANDEM" run -p 'Once upon a time there was' -n 8 --ignore-eos \
    -t 1 --json "$@"
  essence
}
below() { # WHAT LESS MORE
  checks=$((checks + 1))
  [ "$2" -lt "$3" ] || fail "$1: $2 is not below $3"
}

# ---- the same text -----------------------------------------------------------
same() { # "PLACEMENT..." OPTION...: with these, and with swap
  local want placement placements=$1
  shift
  generate "$@"
  want=$essence
  for placement in $placements; do
    generate "$@" --placement "$placement" --va-slots 4
    check_eq "the text of $* with $placement" "$essence" "$want"
  done
  generate "$@" --placement swap --va-slots 5 --swap-poison \
    --coherence check
  check_eq "the text of $* with poisoned slots" "$essence" "$want"
  is "violations of $*" violations 0
}
# Of a window that the cache all but fills, so that not all weights fit.
room=(--va-window 16M --ctx 13600)
all='belady paging drop-all swap'
same "$all" -m "$large" "${room[@]}"
same drop-all -m "$large" "${room[@]}" --prefill-chunk 4 --threads 2
same "belady swap" -m "$large" "${room[@]}" --method opt-tree --draft "$tiny"
same paging -m "$large" "${room[@]}" --method lever --draft "$tiny"
same belady -m "$large" "${room[@]}" --temp 1 --seed 3 --doorbell eventfd
same "$all" -m "$llada" --method llada --ctx 480 --block-steps 8
run_ok "$TANDEM" convert "$large" "$tmp/large.tdm"
generate -m "$tmp/large.tdm"
want=$essence
for share in 25% 50% 75%; do
  generate -m "$tmp/large.tdm" --dram-budget $share --stage-slots 2 \
    --placement swap --va-slots 6 --swap-poison
  check_eq "the text with $share in memory" "$essence" "$want"
done

# ---- counters ----------------------------------------------------------------
# On the phone nothing is waited for so little as by a plan, and never longer in
# a larger window.
stall() { # PLACEMENT CONTEXT: into $it
  generate -m "$large" --clock soc:sd8elite --va-window 16M --ctx "$2" \
    --placement "$1"
  member stall_ps
}
contexts='12600 13800 14600'
! full || contexts='12600 13200 13800 14600'
last=0
for context in $contexts; do
  stall swap $context
  swapped=$it said=$out
  is "unmaps with swap and --ctx $context" unmaps 0
  [ "$swapped" = 0 ] || for other in belady paging drop-all; do
    stall $other $context
    below "stall of swap, $other, --ctx $context" "$swapped" "$it"
  done
  checks=$((checks + 1))
  [ "$swapped" -ge "$last" ] ||
    fail "with --ctx $context the device waits $swapped, before $last"
  last=$swapped
done
checks=$((checks + 1))
[ "$last" -gt 0 ] || fail 'no window was too small for all'
out=$said
is 'temporary blocks of a full window' temporary_blocks 4
is 'resident bytes of a full window' resident_bytes 0
check_has 'the report' "$out" '"placement":{"policy":"swap"'
member passes
is 'copies' copies $((4 * it))
stall swap 14600
check_eq 'the same stall again' "$it" "$last"
run_ok "$TANDEM" run -m "$large" -p Hi -n 4 "${room[@]}" --placement swap \
  --stats
check_has 'the statistics' "$err" 'placement    swap: '

# ---- micro-batches -----------------------------------------------------------
# A window for all weights and the activations of 128 rows, but not of 256 or
# 512: --ctx fills the remaining bytes with cache.
generate -m "$large" --va-window 16M --ctx 8000 --placement fixed
member bytes_mapped
left=$((16 * 1024 * 1024 - it - 8 * 4096))
context=$((8000 + left / 1024))
printf -v prompt 'one two three four %.0s' {1..53} # more than 512 tokens
batch() { # PLACEMENT ROWS
  run "$TANDEM" run -m "$large" -p "$prompt" -n 4 -t 1 --ignore-eos --ids \
    --va-window 16M --ctx "$context" --placement "$1" --prefill-chunk "$2"
}
batch fixed 128
check_eq 'status of 128 rows, all mapped' "$status" 0
ids=$out
for rows in 256 512; do
  batch fixed $rows
  check_eq "status of $rows rows, all mapped" "$status" 1
  check_eq "text of $rows rows, all mapped" "$out" ''
  check_has "stderr of $rows rows" "$err" '--placement fixed keeps all'
  check_has "stderr of $rows rows" "$err" 'MiB free'
  check_has "stderr of $rows rows" "$err" 'try --placement swap'
  batch swap $rows
  check_eq "status of $rows rows, swapped" "$status" 0
  check_eq "ids of $rows rows, swapped" "$out" "$ids"
done

# ---- mappings ----------------------------------------------------------------
# Two models in a window of few slots: blocks one by one take all of them, and
# packed ones leave some.
two=(-m "$large" --method chain --draft "$tiny" --draft-on device --ctx 512)
generate "${two[@]}" --va-slots 16
want=$essence
run "$TANDEM" run "${two[@]}" -p Hi -n 4 --va-slots 6
check_eq 'status of two models, block by block' "$status" 1
check_eq 'text of two models, block by block' "$out" ''
check_has 'stderr of two models, block by block' "$err" '6 of 6 slots used'
generate "${two[@]}" --va-slots 6 --placement swap
check_eq 'the text of two models, packed' "$essence" "$want"

# ---- errors -----------------------------------------------------------------
run "$TANDEM" run -m "$large" -p Hi --va-window 16M --ctx 15400 --placement swap
check_eq 'status below the smallest window' "$status" 1
check_eq 'text below the smallest window' "$out" ''
check_has 'stderr below the smallest window' "$err" 'two staging slots of 0.8'
check_has 'stderr below the smallest window' "$err" '--va-window'
run "$TANDEM" run -m "$tiny" -p Hi --placement swap --graph-switch sync \
  --graph-rows 4
check_eq 'status with --graph-switch' "$status" 1
check_has 'stderr with --graph-switch' "$err" 'needs weights that stay at their'
misuse "$TANDEM" run -m "$tiny" -p Hi --placement lru
check_has 'stderr of no placement' "$err" drop-all

finish
