#!/usr/bin/env bash
# --as and --draft-as: one model runs and another shape is priced. Priced as
# its own shape a run takes the same time to the last picosecond; priced as
# another shape the text is unchanged, the time is reproducible, and every
# report begins with the priced shape.
. "$(dirname "$0")/lib.sh"

tiny=$tmp/tiny.gguf
draft=$tmp/draft.gguf
llada=$tmp/llada.gguf
run_ok "$TANDEM" synth --like tiny -o "$tiny"
run_ok "$TANDEM" synth --like tiny --seed 9 --quant q4_0 -o "$draft"
run_ok "$TANDEM" synth --like tiny-llada -o "$llada"
clock=(--clock soc:sd8gen2)
n=8 # tokens of a text

generate() { # OPTION...: leaves $essence, $phone and $total, its picoseconds
  run_ok "$TANDEM" run -p 'Once upon a time there was' -n $n --ignore-eos \
    -t 1 --spin 0 --json "${clock[@]}" "$@"
  essence
  [[ $out =~ '"decode_rows":'[^}]* ]]
  essence+=${BASH_REMATCH[0]}
  [[ $out =~ '"phone":'.*'"total_ps":'([0-9]*).*'}}' ]]
  phone=${BASH_REMATCH[0]} total=${BASH_REMATCH[1]}
}
loads() { # microseconds
  [[ $out =~ '"graph_switch":{'[^}]*'"load_s":'([0-9]*)'.'([0-9]*) ]]
  local micros=${BASH_REMATCH[2]}000000
  echo $((10#${BASH_REMATCH[1]}${micros:0:6}))
}

# ---- the same shape ----------------------------------------------------------
same() { # AS OPTION...
  local as=$1 want
  shift
  generate "$@"
  check_lacks "without --as: $*" "$out" priced_as
  want=$phone
  check_has "the phone of $*" "$want" total_ps
  local text=$essence
  # shellcheck disable=SC2086
  generate "$@" $as
  check_eq "the phone with $as of $*" "$phone" "$want"
  check_eq "the text with $as of $*" "$essence" "$text"
}
for precision in f32 int8 npu; do
  same '--as tiny' -m "$tiny" --precision $precision
done
same '--as tiny' -m "$tiny" --layout super
# Graphs change places, and their loads are priced.
for plan in sync greedy best; do
  same '--as tiny' -m "$tiny" --prefill-chunk 4 --graph-rows 2 \
    --graph-switch $plan
done
# Blocks come and go.
same '--as tiny' -m "$tiny" --va-slots 4
# Packets of the rings have the size that they have.
for contract in 1 2; do
  same '--as tiny' -m "$tiny" --va-slots 4 --coherence-ctrl on \
    --contract $contract
done
same '--as tiny' -m "$tiny" --method chain --draft "$draft"
same '--as tiny --draft-as tiny' -m "$tiny" --method chain --draft "$draft"
same '--as tiny --draft-as tiny' -m "$tiny" --method lever --draft "$draft" \
  --draft-on device
same '--draft-as tiny' -m "$tiny" --method specinfer --draft "$draft"
same '--as tiny-llada' -m "$llada" --method llada

# ---- another -----------------------------------------------------------------
generate -m "$tiny" --method chain --draft "$draft"
text=$essence
last=0
for shape in qwen2.5-0.5b llama3.2-1b qwen2.5-1.5b llama3.2-3b qwen3-4b \
  llama3.1-8b qwen3-14b; do
  generate -m "$tiny" --method chain --draft "$draft" --as $shape
  check_eq "the text as $shape" "$essence" "$text"
  checks=$((checks + 1))
  [ "$total" -gt "$last" ] || fail "$shape takes $total, no more than $last"
  last=$total
done
# Passes of a diffusion model, which has as many whatever it is priced as.
masks=(-m "$llada" --method llada --block 8 --block-steps 4)
generate "${masks[@]}"
text=$essence
last=0
for shape in qwen2.5-1.5b dream-7b llada-8b; do
  generate "${masks[@]}" --as $shape
  check_eq "the text as $shape" "$essence" "$text"
  checks=$((checks + 1))
  [ "$total" -gt "$last" ] || fail "$shape takes $total, no more than $last"
  last=$total
done
generate -m "$tiny" --method chain --draft "$draft" --as qwen3-14b
text=$essence
last=$total
for more in '--threads 2' '--doorbell eventfd' '--coherence strict'; do
  # shellcheck disable=SC2086
  generate -m "$tiny" --method chain --draft "$draft" --as qwen3-14b $more
  check_eq "time with $more" "$total" "$last"
done
# A load takes the time of the shape's weights.
generate -m "$tiny" --prefill-chunk 4 --graph-rows 2 --graph-switch sync
small=$(loads)
generate -m "$tiny" --prefill-chunk 4 --graph-rows 2 --graph-switch sync \
  --as qwen2.5-1.5b
checks=$((checks + 1))
[ "$(loads)" -gt $((20 * small)) ] ||
  fail "loads take $(loads) as a 1.5B, and $small as tiny"
# What drafts is priced by itself: on the host, and on the device.
for on in host device; do
  generate -m "$tiny" --method chain --draft "$draft" --draft-on $on \
    --as qwen2.5-1.5b
  alone=$total
  generate -m "$tiny" --method chain --draft "$draft" --draft-on $on \
    --as qwen2.5-1.5b --draft-as qwen3-0.6b
  check_eq "the text with a larger draft on the $on" "$essence" "$text"
  checks=$((checks + 1))
  [ "$total" -gt "$alone" ] ||
    fail "with a larger draft on the $on it takes $total, not over $alone"
done

# ---- the window --------------------------------------------------------------
placed() { # NAME: a number of the member "placement"
  [[ $out =~ '"placement":{'[^}]*'"'$1'":'([0-9]*) ]]
  echo "${BASH_REMATCH[1]}"
}
# An 8B model of 4 bits has 3.7 GiB of weights, which 2 GiB do not hold.
eight=(-m "$tiny" --as llama3.1-8b --as-type q4_0 --ctx 512)
generate "${eight[@]}" --va-window 2G --va-extended 14G
text=$essence
whole=$total
check_eq 'copies in 16 GiB' "$(placed copies)" 0
check_has 'maps in 16 GiB' "$out" '"remaps":0,'
check_has 'bytes beside the window' "$out" '"extended_bytes":'
for way in belady paging drop-all swap; do
  generate "${eight[@]}" --va-window 2G --placement $way
  check_eq "the text with $way" "$essence" "$text"
  checks=$((checks + 1))
  [ "$total" -gt "$whole" ] || fail "$way takes $total, no more than $whole"
  last=$(placed copies)
  if [ $way = swap ]; then
    check_has 'maps with swap' "$out" '"remaps":0,'
    checks=$((checks + 1))
    [ "$last" -gt $((10 * n)) ] || fail "$last copies in $n passes of 8B"
  else
    check_lacks "maps with $way" "$out" '"remaps":0,'
    check_eq "copies with $way" "$last" 0
  fi
done
# By default, the weights of a shape that does not fit are swapped, unless
# that is not possible; weights that fit are mapped.
generate "${eight[@]}" --va-window 2G
check_eq 'the text by default' "$essence" "$text"
check_has 'the placement of 8B' "$out" '"placement":{"policy":"swap"'
generate "${eight[@]}" --va-window 2G --prefill-chunk 64 --graph-switch best
check_has 'the placement with switching' "$out" '"placement":{"policy":"belady"'
generate -m "$tiny" --as qwen2.5-0.5b --as-type q4_0 --ctx 512
check_has 'the placement of 0.5B' "$out" '"placement":{"policy":"belady"'
# The layers to copy are chosen so that even passes of few rows hide the copies.
generate -m "$llada" --method llada --as llada-8b --as-type q4_0-all \
  --ctx 512 --va-window 3200M
checks=$((checks + 1))
[ "$(placed copies)" -gt 0 ] || fail 'no layer of LLaDA 8B is copied in 3.1 GiB'
check_eq 'picoseconds of waiting for copies' "$(placed stall_ps)" 0
run "$TANDEM" run "${eight[@]}" "${clock[@]}" -p Hi --placement fixed
check_eq 'status with all mapped' "$status" 1
check_has 'stderr with all mapped' "$err" 'try --placement swap'
run "$TANDEM" run "${eight[@]}" "${clock[@]}" -p Hi --va-window 200M
check_eq 'status in 200 MiB' "$status" 1
check_has 'stderr in 200 MiB' "$err" 'key-value cache of 512 tokens 64.0 MiB'

# ---- reports begin with the priced shape ------------------------------------
says='qwen2.5-1.5b on sd8gen2; the model that runs is tiny.gguf'
as=(-m "$tiny" "${clock[@]}" --as qwen2.5-1.5b -t 1 --spin 0)
both="qwen2.5-1.5b, the draft model as qwen2.5-0.5b, on sd8gen2; the model \
that runs is tiny.gguf, its drafter draft.gguf"
first() { # WHAT FILE WANT
  check_eq "the first line of $1" "$(head -n 1 "$2")" "$3"
}
first_member() { # WHAT
  check_eq "the first member of $1" "$(head -c $((${#says} + 14)) "$tmp/out")" \
    "{\"priced_as\":\"$says"
}
run_ok "$TANDEM" run "${as[@]}" -p Hi -n 2 --stats
first 'run --stats' "$tmp/err" "priced as $says"
run_ok "$TANDEM" run "${as[@]}" -p Hi -n 2 --stats --method chain \
  --draft "$draft" --draft-as qwen2.5-0.5b
first 'run --stats with a draft' "$tmp/err" "priced as $both"
run_ok "$TANDEM" run "${as[@]}" -p Hi -n 2 --stats --method chain \
  --draft "$draft"
first 'run --stats with a draft as it is' "$tmp/err" \
  "priced as ${both/qwen2.5-0.5b/its own shape}"
run_ok "$TANDEM" run -m "$tiny" "${clock[@]}" -p Hi -n 2 --stats \
  --method chain --draft "$draft" --draft-as qwen2.5-0.5b
first 'run --stats of a draft alone' "$tmp/err" \
  "priced as ${both/qwen2.5-1.5b/its own shape}"
run_ok "$TANDEM" run "${as[@]}" -p Hi -n 2 --json
first_member 'run --json'
printf '%s\n' 'Read: Anna has a red cup.' >"$tmp/mine.txt"
run_ok "$TANDEM" eval "${as[@]}" "$tmp/mine.txt" -n 4
first eval "$tmp/out" "priced as $says"
run_ok "$TANDEM" eval "${as[@]}" "$tmp/mine.txt" -n 4 --json
first_member 'eval --json'
run_ok "$TANDEM" perplexity "${as[@]}" "$tmp/mine.txt"
first perplexity "$tmp/out" "priced as $says"
run_ok "$TANDEM" perplexity "${as[@]}" "$tmp/mine.txt" --json
first_member 'perplexity --json'
bench=(bench methods --prompts "$tmp/mine.txt" -n 4)
run_ok "$TANDEM" "${bench[@]}" "${as[@]}" --methods autoregressive
first 'bench methods' "$tmp/out" "priced as $says"
check_has 'a single run' "$out" 'not checked: texts, because no two runs must generate'
run_ok "$TANDEM" "${bench[@]}" "${as[@]}" --methods autoregressive --json
first_member 'bench methods --json'
run_ok "$TANDEM" "${bench[@]}" "${as[@]}" --methods autoregressive --csv
check_eq 'the first line of CSV after the head' "$(sed -n 2p "$tmp/out")" \
  "run,,,priced_as,\"$says\""
# Sets of shards name it too.
run_ok "$TANDEM" "${bench[@]}" -m "$tiny" "${clock[@]}" \
  --methods autoregressive --sets 'as=qwen3-4b;as=qwen2.5-1.5b'
first 'bench methods with sets' "$tmp/out" \
  "priced as qwen3-4b on sd8gen2; the model that runs is tiny.gguf"
check_eq 'the second line' "$(sed -n 2p "$tmp/out")" "priced as $says"

# ---- errors -----------------------------------------------------------------
misuse "$TANDEM" run -m "$tiny" -p Hi "${clock[@]}" --as gpt-17
for name in qwen2.5-0.5b qwen2.5-3b llama3.2-3b llama3.1-8b qwen3-14b; do
  check_has 'stderr of a shape that is none' "$err" $name
done
misuse "$TANDEM" run -m "$tiny" -p Hi --as tiny
check_has 'stderr without a phone' "$err" '--clock soc:'
misuse "$TANDEM" run -m "$tiny" -p Hi --method chain --draft "$draft" \
  --draft-as tiny
check_has 'stderr of a draft without a phone' "$err" '--clock soc:'
misuse "$TANDEM" run -m "$tiny" -p Hi "${clock[@]}" --draft-as tiny
check_has 'stderr of a draft for a method without' "$err" chain
misuse "$TANDEM" run -m "$tiny" -p Hi "${clock[@]}" --draft-as tiny \
  --method chain --draft pld
check_has 'stderr of a drafter without a shape' "$err" pld
misuse "$TANDEM" run -m "$tiny" -p Hi "${clock[@]}" --as tiny --as-type q5_1
check_has 'stderr of a type that is none' "$err" q4_0

# ---- an oracle ---------------------------------------------------------------
# A draft model costs nothing, or the time of the given shape.
bench=(bench methods --prompts "$tmp/mine.txt" -n 8 -m "$tiny" "${clock[@]}"
  --methods chain --draft oracle:0.8 --json)
seconds() {
  sed -n 's/.*"tokens_per_s":\([0-9.e+]*\).*/\1/p' "$tmp/out"
}
run_ok "$TANDEM" "${bench[@]}" --as qwen3-8b
free=$(seconds)
run_ok "$TANDEM" "${bench[@]}" --as qwen3-8b --draft-as qwen3-0.6b
check_has 'the priced shape' "$out" 'the draft model as qwen3-0.6b'
small=$(seconds)
run_ok "$TANDEM" "${bench[@]}" --as qwen3-8b --draft-as qwen3-0.6b --as-type f16
wide=$(seconds)
checks=$((checks + 1))
awk "BEGIN { exit !($free > $small && $small > $wide) }" ||
  fail "an oracle that is free writes $free tokens/s, one of 0.6B $small, in \
16 bits $wide"

# ---- streamed ----------------------------------------------------------------
run_ok "$TANDEM" convert "$tiny" "$tmp/tiny.tdm"
flash=(-m "$tmp/tiny.tdm" --method flash-ar)
budgets='0 50'
! full || budgets='0 25 50 75'
for budget in $budgets; do
  same '--as tiny' "${flash[@]}" --dram-budget $budget%
done
# A pass is as long as its reads at least: 5.10 G weights by 18 bytes in 32 and
# 1.88 G of FFN-down by 34 at 4 GB/s are 1216 ms; and half of that where half is
# kept.
for budget in 0 50; do
  generate "${flash[@]}" --as llama3.1-8b --as-type q4_0 \
    --dram-budget $budget% --clock soc:sd8gen3
  checks=$((checks + 1))
  awk "BEGIN { ms = $total / ${n}e9; whole = 1216 * (1 - $budget / 100)
    exit !(ms > whole && ms < 1.15 * whole + 30) }" ||
    fail "a token of 8B with $budget % in memory takes $total / $n ps"
  last=$total
  generate "${flash[@]}" --as llama3.1-8b --as-type q8_0 \
    --dram-budget $budget% --clock soc:sd8gen3
  checks=$((checks + 1))
  awk "BEGIN { r = $total / $last; exit !(r > 1.47 && r < 1.55) }" ||
    fail "in 8 bits it takes $total, in 4 $last"
done
# An image all in memory is as good as its file.
same '--as tiny' -m "$tmp/tiny.tdm"

finish
