#!/usr/bin/env bash
# tandem bench kernels: that everything is measured and reported, and that
# phone time depends on nothing but the phone. How fast it is here depends on
# the machine, so no figure of the wall clock is judged.
. "$(dirname "$0")/lib.sh"

bench() { run_ok "$TANDEM" bench kernels --shapes tiny --rounds 1 "$@"; }

# Figures on the phone, and nothing else of an object.
phone() { grep -oE '"[a-z0-9_]*phone[a-z0-9_]*":[^,}]*' "$tmp/out"; }

bench
check_has 'table' "$out" "phone 'sd8gen3'"
for rows in 1 2 4 8 16 32 128 256; do
  checks=$((checks + 1))
  grep -qE "^ *$rows +[0-9.]+ +[0-9.]+ +[0-9]+ % +[0-9.]+ +[0-9]+ % " \
    "$tmp/out" || fail "no line for $rows rows: '$out'"
done
for layout in rows groups super tiles 'f16 tiles' 'bytes read'; do
  check_eq "lines of layout $layout" "$(grep -cE \
    " (1|32)  $layout +[0-9.]+ +[0-9.]+ x +[0-9.]+ +[0-9.]+ x$" \
    "$tmp/out")" 8
done
for length in 1024 4096 16384; do
  check_eq "lines of softmax of length $length" "$(grep -cE \
    "^ +(1|4|16) +$length +([0-9.]+ *){8}$" "$tmp/out")" 3
done
check_eq 'lines wider than 80' "$(awk 'length($0) > 80' "$tmp/out")" ''

# The peak is measured with twelve sums at once; the compiler may merge none.
for i in vnni:vpdpbusd avx512:vpmaddubsw avx2:vpmaddubsw; do
  object=${TANDEM%/*}/obj/tensor/kern_peak.${i%:*}.o
  if [ -e "$object" ] && command -v objdump >/dev/null; then
    check_eq "sums of ${i%:*}" "$(objdump -d "$object" | grep -c "${i#*:}")" 12
  fi
done

bench --json -t 1
check_eq 'lines of --json' "$(wc -l <"$tmp/out")" 1
for field in '"version":1' '"bench":"kernels"' '"phone":"sd8gen3"' \
  '"rounds":1' '"threads":1' '"shapes":"tiny"'; do
  check_has 'the object' "$out" "$field"
done
one=$(phone)
# 8 passes in two layouts, time and energy; 4 matrices at 2 row counts in 6
# layouts, in time and over rows; 9 softmaxes by 3 exponentials and two ratios;
# the phone's name.
check_eq 'figures on the phone' "$(wc -l <<<"$one")" $((32 + 96 + 45 + 1))
check_lacks 'figures on the phone' "$one" ':0'
if command -v python3 >/dev/null; then
  cp "$tmp/out" "$tmp/object"
  run_ok python3 -c '
import json, sys
o = json.load(open(sys.argv[1]))
[m] = o["models"]
assert [p["rows"] for p in m["matrices"]] == [1, 2, 4, 8, 16, 32, 128, 256]
# q, o 64 x 64 and k, v 32 x 64 and gate, up 128 x 64 by two; down 64 x 128
assert m["layer_weights"] == 2 * (4096 + 2048 + 8192) + 8192
assert m["layer_bytes"] == 2 * (4096 + 2048 + 8192) * 9 / 16 + 8192 * 17 / 16
for p in m["matrices"]:
    assert p["seconds"] > 0
    # A phone draws a watt at least, and not ten.
    assert 1 < p["tiles_phone_pj"] / p["tiles_phone_ps"] < 10
    assert 1 < p["super_phone_pj"] / p["super_phone_ps"] < 10
    got = p["weight_bytes_per_s"] * p["seconds"]
    assert abs(got / m["layer_bytes"] - 1) < 1e-4, got
    got = p["ops_per_s"] * p["seconds"]
    assert abs(got / (2 * p["rows"] * m["layer_weights"]) - 1) < 1e-4, got
layouts = m["layouts"]
assert len(layouts) == 48
for i, l in enumerate(layouts):
    rows = layouts[i - i % 6]
    assert l["seconds"] > 0 and rows["layout"] == "rows"
    assert abs(l["phone_times_rows"] * l["phone_ps"] / rows["phone_ps"] - 1) \
        < 1e-4
    assert abs(l["times_rows"] * l["seconds"] / rows["seconds"] - 1) < 1e-4
    assert l["type"].endswith(
        "f16" if l["layout"] == "f16 tiles"
        else "q8_0" if l["matrix"] == "down" else "q4_0"), l
assert len(m["softmax"]) == 9
assert all(s["attend_seconds"] > 0 and s["attend_table_seconds"] > 0
           for s in m["softmax"])
' "$tmp/object"
fi

bench --json -t 2
check_eq 'figures on the phone again' "$(phone)" "$one"
bench --json --clock soc:sd8elite
check_has 'the object' "$out" '"phone":"sd8elite"'
checks=$((checks + 1))
[ "$(phone | tail -n +2)" != "$(tail -n +2 <<<"$one")" ] ||
  fail 'two phones are as fast'

refused() { # SAYS OPTION VALUE
  run "$TANDEM" bench kernels --rounds 1 "${@:2}"
  check_eq "status of: ${*:2}" "$status" 1
  check_eq "stdout of: ${*:2}" "$out" ''
  check_has "stderr of: ${*:2}" "$err" "$1"
}
refused "'tin'; try tiny, " --shapes tin
refused "'tiny2'" --shapes tiny2
refused "''" --shapes ''
refused "''" --shapes tiny,
refused "'gpt'" --shapes tiny,gpt,qwen2.5-3b
refused "'all'" --shapes tiny,all
refused 'nokia3310' --shapes tiny --clock soc:nokia3310
refused 'soc:sd8gen3' --shapes tiny --clock sd8gen3
refused 'soc:sd8gen3' --shapes tiny --clock wall
refused 'soc:sd8gen3' --shapes tiny --clock soc:
finish
