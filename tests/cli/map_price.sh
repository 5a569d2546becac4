#!/usr/bin/env bash
# The price of mapping weights on the phone: a run that remaps them in every
# pass takes the time of one that does not, plus counts times prices, which are
# read from the phone's profile and multiplied here.
. "$(dirname "$0")/lib.sh"

# 4 layers in 4 blocks of one size in both, as the windows are the same but for
# their slots: 3 leave one of them to weights, 5 three.
model=$tmp/model.gguf
run_ok "$TANDEM" synth --like tiny --quant f32 -o "$model"
generate=(run -m "$model" -n 8 -t 1 --ignore-eos --ctx 128 --prefill-chunk 8)
# What is written for a phone without mapping, and with: a line each, of the
# phone, the placement, the slots and the JSON.
phone() { # PHONE PLACEMENT SLOTS OPTION...
  run_ok "$TANDEM" "${generate[@]}" -p 'Once upon a time' --clock "soc:$1" \
    --json "${@:4}"
  printf '%s %s %s %s\n' "$1" "$2" "$3" "$out" >>"$tmp/runs"
}
# Each phone with each placement, every placement with both numbers of slots.
i=0
for soc in sd8gen2 sd8gen3 sd8elite; do
  phone $soc all 0
  for placement in belady paging drop-all; do
    some=$((3 + i++ % 2 * 2))
    ! full || some='3 5'
    for slots in $some; do
      phone $soc $placement $slots --va-slots $slots --placement $placement
    done
  done
done
checks=$((checks + 1))
compare=9
! full || compare=18
python3 - "$tmp/runs" $compare >"$tmp/wrong" 2>&1 <<'PY' ||
import json, sys, traceback

def check(soc, every, some):
    map_s, rate, request = (float(soc[k]) for k in (
        "map_s", "map_bytes_per_s", "request_s"))
    maps, size = some["remaps"], some["remap_bytes"]
    assert every["remaps"] == 0 and maps > 8 and size > maps << 18, (maps, size)
    # Blocks are of one size, and each is priced to a whole picosecond.
    assert size % maps == 0
    one = round((map_s + size / maps / rate) * 1e12) + round(request * 1e12)
    took = some["phone"]["total_ps"] - every["phone"]["total_ps"]
    # Not included: requests that found no room, and unmap requests, which cost
    # as much as any request.
    rest = took - maps * one
    assert rest >= 0 and rest % round(request * 1e12) == 0, (took, maps, one)
    others = rest // round(request * 1e12)
    passes, unmaps = some["passes"], some["unmaps"]
    assert unmaps <= others <= 2 * unmaps + passes, (others, unmaps, maps)
    assert some["placement"]["stall_ps"] == took, (took, some["placement"])

wrong = compared = 0
for line in open(sys.argv[1]):
    name, placement, slots, run = line.split(" ", 3)
    run = json.loads(run)
    if placement == "all":
        every = run
        soc = dict(l.split()[:2] for l in open(f"tensor/soc/{name}.soc")
                   if l[:1].islower())
        continue
    compared += 1
    try:
        check(soc, every, run)
    except AssertionError:
        print(placement, "in", slots, "slots on", name)
        traceback.print_exc()
        wrong += 1
sys.exit(wrong > 0 or compared != int(sys.argv[2]))
PY
  fail "$(<"$tmp/wrong")"
# The statistics agree.
run_ok "$TANDEM" "${generate[@]}" -p Hi --va-slots 3 --clock soc:sd8gen3 --stats
check_has 'the statistics' "$err" "ms of the phone's time a pass"
finish
