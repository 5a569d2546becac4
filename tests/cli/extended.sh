#!/usr/bin/env bash
# The extended region, which only DMA reaches: the same text with weights in it,
# in every window, under every placement and by every kind of decoding; nothing
# is mapped anew; nothing of it is mapped in the device; what is shown and told
# of it; and its price on the phone, computed here again.
. "$(dirname "$0")/lib.sh"

tiny=$tmp/tiny.gguf
large=$tmp/large.gguf
llada=$tmp/llada.gguf
run_ok "$TANDEM" synth --like tiny -o "$tiny"
run_ok "$TANDEM" synth --like tiny --quant f32 -o "$large"
run_ok "$TANDEM" synth --like tiny-llada -o "$llada"

generate() { # OPTION...
  run_ok "$TANDEM" run -p 'Once upon a time there was' -n 16 --ignore-eos \
    --json "$@"
}
essence() {
  grep -oE '"(stop|logits_hash)":"[^"]*|"ids":\[[^]]*' "$tmp/out"
}
number() { # KEY
  grep -o "\"$1\":[0-9]*" "$tmp/out" | head -n 1 | cut -d : -f 2
}
above() { # WHAT MORE LESS
  checks=$((checks + 1))
  [ "$2" -gt "$3" ] || fail "$1: $2 is not above $3"
}

# ---- the same text -----------------------------------------------------------
# Windows that hold the cache and a few blocks of the twelve.
generate --ctx 128
want=$(essence)
i=0
for window in 5M 8M; do
  for region in 2M 16M; do
    for placement in belady paging drop-all swap fixed; do
      i=$((i + 1))
      levels=(off strict check)
      what="$placement, window $window, region $region"
      set -- --ctx 128 --va-window $window --va-slots 5 --va-extended $region \
        --placement $placement --coherence "${levels[i % 3]}" \
        --threads $((1 + i % 2))
      if [ $placement = fixed ] && [ $region = 2M ]; then
        run "$TANDEM" run -p Hi -n 4 "$@"
        check_eq "status of $what" "$status" 1
        check_has "refusal of $what" "$err" \
          'MiB of the extended region are free; try a larger --va-window, --va-'
        continue
      fi
      generate "$@"
      check_eq "the text of $what" "$(essence)" "$want"
      check_eq "violations of $what" "$(number violations)" 0
      above "bytes there of $what" "$(number extended_bytes)" 1000000
      above "bytes read there of $what" "$(number extended_read)" \
        "$(number extended_bytes)"
      [ $region = 16M ] || continue
      check_eq "unmaps of $what" "$(number unmaps)" 0
      check_eq "copies of $what" "$(number copies)" 0
      # Of those that map when they need it, what the first pass mapped.
      checks=$((checks + 1))
      [ "$(number remaps)" -le 3 ] || fail "remaps of $what: $(number remaps)"
    done
  done
done

# The least window: cache and activations, and not one block of weights.
generate --ctx 128 --va-window 2M --va-slots 3 --va-extended 16M
check_eq 'the text with all weights beside the window' "$(essence)" "$want"
check_eq 'bytes beside the window' "$(number extended_buffers)" \
  "$(number blocks)"
check_eq 'maps' "$(number maps)" 2

# Other ways to decode, to hold a model, and to be brought to a device.
same() { # OPTION...: with weights in the region, what it is without
  local want
  generate "$@"
  want=$(essence)
  generate "$@" --va-slots 3 --va-extended 64M
  check_eq "the text of $*" "$(essence)" "$want"
  above "bytes there of $*" "$(number extended_bytes)" 100000
}
same -m "$large" --method opt-tree --draft "$tiny"
same -m "$llada" --method llada --ctx 480
same -m "$large" --layout rows --precision f32 --temp 1 --seed 3
same -m "$large" --prefill-chunk 4 --graph-rows 2 --graph-switch sync
run_ok "$TANDEM" convert "$large" "$tmp/large.tdm"
generate -m "$tmp/large.tdm"
want=$(essence)
for placement in belady swap; do
  generate -m "$tmp/large.tdm" --dram-budget 50% --stage-slots 2 \
    --va-slots 3 --va-extended 64M --placement $placement
  check_eq "the text with half streamed, $placement" "$(essence)" "$want"
  above "staged bytes there, $placement" "$(number extended_bytes)" 100000
done
# Two models on one device, where the window alone has no slots for them.
two=(-m "$large" --method chain --draft "$tiny" --draft-on device --ctx 512)
generate "${two[@]}" --va-slots 16
want=$(essence)
run "$TANDEM" run "${two[@]}" -p Hi -n 4 --va-slots 8
check_eq 'status of two models in the window alone' "$status" 1
generate "${two[@]}" --va-slots 8 --va-extended 64M
check_eq 'the text of two models' "$(essence)" "$want"
above 'bytes there of two models' "$(number extended_bytes)" 100000
# A device that dies is followed by one that is given the same places.
generate --ctx 128
want=$(essence)
for placement in belady swap; do
  generate --ctx 128 --va-window 5M --va-slots 5 --va-extended 16M \
    --placement $placement --fault die@run#20
  check_eq "the text behind a loss, $placement" "$(essence)" "$want"
  check_eq "restarts, $placement" "$(number restarts)" 1
  check_eq "unmaps behind a loss, $placement" "$(number unmaps)" 0
done

# ---- what is shown and told --------------------------------------------------
mkfifo "$tmp/text"
exec 9<>"$tmp/text"
"$TANDEM" run -p 'Once upon a time' -n -1 --ctx 1000 --ignore-eos \
  --va-window 64M --va-slots 3 --va-extended 64M --va-hard >"$tmp/text" \
  2>"$tmp/said" 9<&- &
host=$!
head -c 1 <&9 >"$tmp/first"
npu=$(pgrep -P $host tandem-npu)
run_ok "$TANDEM" inspect --window $host
check_has 'the drawing' "$out" '3 of 3 slots used'
check_has 'the drawing' "$out" \
  'extended region, which only DMA reaches: 64.0 MiB, 5 buffers in it'
check_has 'the drawing' "$out" tandem:weights5
run_ok "$TANDEM" inspect --window $host --json
python3 - "$tmp/out" <<'PY' || fail 'the JSON is not as it must be'
import json, sys
x = json.load(open(sys.argv[1]))["extended"]
assert x["bytes"] == 64 << 20 and x["buffers"] == len(x["shown"]) == 5, x
at = 0
for b in x["shown"]:
    assert b["at"] == at and at % 4096 == 0, b
    at += (b["bytes"] + 4095) // 4096 * 4096
assert x["free"] == x["bytes"] - at
PY
# No address of the device leads to what lies there, and it has it all the same.
check_eq 'weights mapped in the device' \
  "$(grep -c tandem:weights "/proc/$npu/maps")" 1
above 'descriptors of weights in the device' \
  "$(find "/proc/$npu/fd" -lname '*tandem:weights*' | wc -l)" 5
kill -9 $host
wait $host 2>/dev/null
exec 9>&-

run_ok "$TANDEM" run -p Hi -n 4 --va-slots 3 --va-extended 64M --stats
check_has 'the statistics' "$err" 'extended     10.0 of 64.0 MiB beside'
run "$TANDEM" run -p Hi -n 4 --ctx 128 --va-window 2M --va-slots 3 \
  --va-extended 512K --verbose
check_eq 'status of a region that is too small' "$status" 1
check_has 'the drawing of a refusal' "$err" \
  'extended region, which only DMA reaches: 0.5 MiB, 0 buffers in it, free 0.5'
check_has 'a refusal' "$err" '0.5 of 0.5 MiB of the extended region are free'
misuse "$TANDEM" run -p x --va-extended 65G
run "$TANDEM" run -p x --va-extended 1M --device "$tmp/nobody"
check_eq 'status of a region for a device that runs' "$status" 2
check_has stderr "$err" 'give it to tandem-npu --listen'
# One that listens says by itself what it has.
"$TANDEM_NPU" --listen "$tmp/npu" --once --va-extended 64M 2>"$tmp/said" &
listens=$!
for ((try = 0; try < 100; try++)); do
  [ ! -S "$tmp/npu" ] || break
  sleep 0.05
done
generate --ctx 128 --va-window 5M --va-slots 5 --device "$tmp/npu"
check_eq 'the text with a device that listens' "$(essence)" "$want"
above 'bytes there' "$(number extended_bytes)" 1000000
wait $listens

# ---- the phone ---------------------------------------------------------------
# What a pass costs more: each vector of weights in the region by a descriptor of
# its own, as host/soc/sd8elite.soc prices it. Of the model that comes with the
# program: 12 layers of width 384 with rotated heads of 64, in 6 blocks, of which
# 4 slots leave 4 to the region. The blocks are the same in both.
phone() { # OPTION...
  generate --clock soc:sd8elite --ctx 128 "$@"
}
phone
cp "$tmp/out" "$tmp/window.json"
phone --va-slots 4 --va-extended 64M
check_eq 'blocks of the model beside the window' "$(number extended_buffers)" 4
python3 - "$tmp/window.json" "$tmp/out" host/soc/sd8elite.soc <<'PY' ||
import json, sys
window, beside = (json.load(open(f)) for f in sys.argv[1:3])
soc = dict(l.split()[:2] for l in open(sys.argv[3]) if l[:1].islower())
rate, each = float(soc["dma_bytes_per_s"]), float(soc["dma_descriptor_s"])
vectors = 4 * [4 * 32] + 4 * 2 * 2 * [4 * 384] # rope; two norms a layer
ps = sum(round((b / rate + each) * 1e12) for b in vectors)
passes = window["passes"]
assert passes == beside["passes"] > 10
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
priced() { # OPTION...
  phone --va-slots 3 --va-extended 64M "$@"
  above "bytes there of $*" "$(number extended_bytes)" 1000
  grep -o '"phone":.*}}' "$tmp/out"
}
dream=$tmp/dream.gguf # its layers have biases
run_ok "$TANDEM" synth --like tiny-dream -o "$dream"
for of in "tiny $tiny autoregressive" "tiny-dream $dream dream"; do
  read -r as model method <<<"$of"
  check_eq "the phone with --as $as" \
    "$(priced -m "$model" --method "$method" --as "$as")" \
    "$(priced -m "$model" --method "$method")"
done
finish
