#!/usr/bin/env bash
# What mapping weights costs on the phone: the time of a run that maps them anew
# in every pass is that of one that need not, and counts times prices, which are
# read in the phone's profile and multiplied here.
. "$(dirname "$0")/lib.sh"

# 12 layers in 6 blocks of one size in both, as the windows are the same but for
# their slots: 3 leave one of them to weights.
phone() { # FILE PHONE OPTION...
  local file=$1 soc=$2
  shift 2
  run_ok "$TANDEM" run -p 'Once upon a time' -n 8 --ignore-eos --ctx 128 \
    --clock "soc:$soc" --json "$@"
  cp "$tmp/out" "$tmp/$file"
}
for soc in sd8gen2 sd8gen3 sd8elite; do
  phone all.json $soc
  for placement in belady paging drop-all; do
    for slots in 3 5; do
      phone some.json $soc --va-slots $slots --placement $placement
      python3 - "$tmp/all.json" "$tmp/some.json" "host/soc/$soc.soc" <<'PY' ||
import json, sys
every, some = (json.load(open(f)) for f in sys.argv[1:3])
soc = dict(l.split()[:2] for l in open(sys.argv[3]) if l[:1].islower())
map_s, rate, request = (float(soc[k]) for k in (
    "map_s", "map_bytes_per_s", "request_s"))
maps, size = some["remaps"], some["remap_bytes"]
assert every["remaps"] == 0 and maps > 8 and size > maps << 20
# Blocks are of one size, and each is priced to a whole picosecond.
assert size % maps == 0
one = round((map_s + size / maps / rate) * 1e12) + round(request * 1e12)
took = some["phone"]["total_ps"] - every["phone"]["total_ps"]
# What is neither map nor its price: the requests that found no room, and those
# that unmapped, which cost what a request does.
rest = took - maps * one
assert rest >= 0 and rest % round(request * 1e12) == 0, (took, maps, one)
others = rest // round(request * 1e12)
passes, unmaps = some["passes"], some["unmaps"]
assert unmaps <= others <= 2 * unmaps + passes, (others, unmaps, maps)
assert some["placement"]["stall_ps"] == took, (took, some["placement"])
PY
        fail "$placement in $slots slots on $soc"
    done
  done
done
# The statistics say so.
run_ok "$TANDEM" run -p Hi -n 4 --ctx 128 --va-slots 3 --clock soc:sd8gen3 \
  --stats
check_has 'the statistics' "$err" "ms of the phone's time a pass"
finish
