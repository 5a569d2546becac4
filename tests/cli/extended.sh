#!/usr/bin/env bash
# The extended region, which only DMA reaches: the same text with weights in
# it, for every window, placement and kind of decoding; no weights are
# remapped; nothing of the region is mapped in the device; its description and
# reports; and its price on the phone, computed here again.
. "$(dirname "$0")/lib.sh"

tiny=$tmp/tiny.gguf
large=$tmp/large.gguf
llada=$tmp/llada.gguf
run_ok "$TANDEM" synth --like tiny -o "$tiny"
run_ok "$TANDEM" synth --like tiny --quant f32 -o "$large"
run_ok "$TANDEM" synth --like tiny-llada -o "$llada"

generate() { # OPTION...: leaves $essence, what must be the same
  run_ok "$TANDEM" run -m "$large" -p 'Once upon a time there was' -n 8 \
    --ignore-eos -t 1 --json "$@"
  essence
}
above() { # WHAT KEY LESS
  local it
  member "$2"
  checks=$((checks + 1))
  [ "${it:-0}" -gt "$3" ] || fail "$1: ${it:-nothing} is not above $3"
}

# ---- the same text -----------------------------------------------------------
# Windows that hold the cache and two of the four blocks, and a region for one of
# them and for all.
block=780000
generate --ctx 256
want=$essence plain=$want
i=0
for room in '2M 1M' '2560K 4M'; do
  read -r window region <<<"$room"
  for placement in belady paging drop-all swap fixed; do
    i=$((i + 1))
    levels=(off strict check)
    what="$placement, window $window, region $region"
    set -- --ctx 256 --va-window "$window" --va-slots 5 --va-extended "$region" \
      --placement $placement --coherence "${levels[i % 3]}" \
      --threads $((1 + i % 2))
    if [ $placement = fixed ] && [ "$region" = 1M ]; then
      run "$TANDEM" run -m "$large" -p Hi -n 4 "$@" --va-window 1536K
      check_eq "status of $what" "$status" 1
      check_has "refusal of $what" "$err" \
        'MiB of the extended region are free; try a larger --va-window, --va-'
      continue
    fi
    generate "$@"
    check_eq "the text of $what" "$essence" "$want"
    is "violations of $what" violations 0
    member extended_bytes
    bytes=$it
    above "bytes there of $what" extended_bytes $block
    above "bytes read there of $what" extended_read "$bytes"
    [ "$region" = 4M ] || continue
    is "unmaps of $what" unmaps 0
    is "copies of $what" copies 0
    # With mapping on demand: as many maps as in the first pass.
    checks=$((checks + 1))
    member remaps
    [ "${it:-4}" -le 3 ] || fail "remaps of $what: $it"
  done
done

# The least window: cache and activations, and not one block of weights.
generate --ctx 256 --va-window 1M --va-slots 3 --va-extended 4M
check_eq 'the text with all weights in the extended region' "$essence" "$want"
member blocks
is 'blocks beside the window' extended_buffers "$it"
is 'maps' maps 2

# Other ways to decode, to hold a model, and to be brought to a device.
same() { # OPTION...: with weights in the region, what it is without
  local want
  generate "$@"
  want=$essence
  generate "$@" --va-slots 3 --va-extended 64M
  check_eq "the text of $*" "$essence" "$want"
  above "bytes there of $*" extended_bytes 100000
}
same --method opt-tree --draft "$tiny"
same -m "$llada" --method llada --ctx 480
same --layout rows --precision f32 --temp 1 --seed 3
same --prefill-chunk 4 --graph-rows 2 --graph-switch sync
run_ok "$TANDEM" convert "$large" "$tmp/large.tdm"
generate -m "$tmp/large.tdm"
want=$essence
for placement in belady swap; do
  generate -m "$tmp/large.tdm" --dram-budget 50% --stage-slots 2 \
    --va-slots 3 --va-extended 64M --placement $placement
  check_eq "the text with half streamed, $placement" "$essence" "$want"
  above "staged bytes there, $placement" extended_bytes 100000
done
# Two models on one device, where the window alone has no slots for them.
two=(-m "$large" --method chain --draft "$tiny" --draft-on device --ctx 512)
generate "${two[@]}" --va-slots 16
want=$essence
run "$TANDEM" run "${two[@]}" -p Hi -n 4 --va-slots 8
check_eq 'status of two models in the window alone' "$status" 1
generate "${two[@]}" --va-slots 8 --va-extended 64M
check_eq 'the text of two models' "$essence" "$want"
above 'bytes there of two models' extended_bytes 100000
# A device that dies is followed by one that is given the same places.
want=$plain
for placement in belady swap; do
  generate --ctx 256 --va-window 2560K --va-slots 5 --va-extended 4M \
    --placement $placement --fault die@run#20
  check_eq "the text after a loss, $placement" "$essence" "$want"
  is "restarts, $placement" restarts 1
  is "unmaps after a loss, $placement" unmaps 0
done

# ---- descriptions and reports -----------------------------------------------
mkfifo "$tmp/text"
exec 9<>"$tmp/text"
"$TANDEM" run -m "$large" -p 'Once upon a time' -n -1 --ctx 20000 \
  -t 1 --ignore-eos --va-window 64M --va-slots 3 --va-extended 64M --va-hard >"$tmp/text" \
  2>"$tmp/said" 9<&- &
host=$!
head -c 1 <&9 >"$tmp/first"
npu=$(pgrep -P $host tandem-npu)
run_ok "$TANDEM" inspect --window $host
check_has 'the drawing' "$out" '3 of 3 slots used'
check_has 'the drawing' "$out" \
  'extended region, reached only by DMA: 64.0 MiB, 3 buffers'
check_has 'the drawing' "$out" tandem:weights3
run_ok "$TANDEM" inspect --window $host --json
python3 - "$tmp/out" <<'PY' || fail 'the JSON is not as it must be'
import json, sys
x = json.load(open(sys.argv[1]))["extended"]
assert x["bytes"] == 64 << 20 and x["buffers"] == len(x["shown"]) == 3, x
at = 0
for b in x["shown"]:
    assert b["at"] == at and at % 4096 == 0, b
    at += (b["bytes"] + 4095) // 4096 * 4096
assert x["free"] == x["bytes"] - at
PY
# The region has no device addresses, and its bytes are there all the same.
check_eq 'weights mapped in the device' \
  "$(grep -c tandem:weights "/proc/$npu/maps")" 1
checks=$((checks + 1))
[ "$(find "/proc/$npu/fd" -lname '*tandem:weights*' | wc -l)" -gt 3 ] ||
  fail 'the device has no descriptors of weights'
kill -9 $host
wait $host 2>/dev/null
exec 9>&-

run_ok "$TANDEM" run -m "$large" -p Hi -n 4 --va-slots 3 --va-extended 64M \
  --stats
check_has 'the statistics' "$err" 'extended     2.3 of 64.0 MiB of the extended region'
run "$TANDEM" run -m "$large" -p Hi -n 4 --ctx 256 --va-window 1M --va-slots 3 \
  --va-extended 512K --verbose
check_eq 'status of a region that is too small' "$status" 1
check_has 'the drawing of a refusal' "$err" \
  'extended region, reached only by DMA: 0.5 MiB, 0 buffers, free 0.5'
check_has 'a refusal' "$err" '0.5 of 0.5 MiB of the extended region are free'
misuse "$TANDEM" run -p x --va-extended 65G
run "$TANDEM" run -p x --va-extended 1M --device "$tmp/nobody"
check_eq 'status of a region for a device that runs' "$status" 2
check_has stderr "$err" 'give the option to its tandem-npu --listen'
# A listening device reports its region by itself.
"$TANDEM_NPU" --listen "$tmp/npu" --once --va-extended 64M 2>"$tmp/said" &
listens=$!
for ((try = 0; try < 6000; try++)); do
  [ ! -S "$tmp/npu" ] || break
  sleep 0.05
done
generate --ctx 256 --va-window 2M --va-slots 5 --device "$tmp/npu"
check_eq 'the text with a device that listens' "$essence" "$want"
above 'bytes there' extended_bytes $block
wait $listens

# ---- the phone ---------------------------------------------------------------
# What a pass costs more: each vector of weights in the region by a descriptor of
# its own, as tensor/soc/sd8elite.soc prices it. 4 layers of width 128 with rotated
# heads of 16, in 4 blocks, of which 4 slots leave 2 to the region. The blocks are
# the same in both.
phone() { # OPTION...
  generate --clock soc:sd8elite --ctx 256 "$@"
}
phone
cp "$tmp/out" "$tmp/window.json"
phone --va-slots 4 --va-extended 64M
is 'blocks of the model beside the window' extended_buffers 2
python3 - "$tmp/window.json" "$tmp/out" tensor/soc/sd8elite.soc <<'PY' ||
import json, sys
window, beside = (json.load(open(f)) for f in sys.argv[1:3])
soc = dict(l.split()[:2] for l in open(sys.argv[3]) if l[:1].islower())
rate, each = float(soc["dma_bytes_per_s"]), float(soc["dma_descriptor_s"])
vectors = 2 * [4 * 8] + 2 * 2 * [4 * 128] # rope; two norms a layer
ps = sum(round((b / rate + each) * 1e12) for b in vectors)
passes = window["passes"]
assert passes == beside["passes"] > 7
a, b = window["phone"], beside["phone"]
def more(of):
    return of(b) - of(a)
assert more(lambda p: p["total_ps"]) == passes * ps, (a, b, ps)
assert more(lambda p: p["dma_ps"]) == passes * ps
assert more(lambda p: p["counts"]["dma_bytes"]) == passes * sum(vectors)
assert more(lambda p: p["counts"]["dma_descriptors"]) == passes * len(vectors)
assert more(lambda p: p["vector_ps"]) == 0
PY
  fail 'the price of the region on the phone'
# The host prices the same shape as the device does.
priced() { # OPTION...: leaves $price
  price=
  phone --va-slots 3 --va-extended 64M "$@"
  above "bytes there of $*" extended_bytes 1000
  [[ $out =~ \"phone\":.*\}\} ]] && price=${BASH_REMATCH[0]}
}
dream=$tmp/dream.gguf # its layers have biases
run_ok "$TANDEM" synth --like tiny-dream -o "$dream"
for of in "tiny $tiny autoregressive" "tiny-dream $dream dream"; do
  read -r as model method <<<"$of"
  priced -m "$model" --method "$method"
  want=$price
  check_has "the phone's price of $as" "$want" total_ps
  priced -m "$model" --method "$method" --as "$as"
  check_eq "the phone with --as $as" "$price" "$want"
done
finish
