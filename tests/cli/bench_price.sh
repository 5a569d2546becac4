#!/usr/bin/env bash
# tandem bench price: the price of a pass without running it. The terms are
# consistent with one another and with the phone's profile; passes recorded by
# a run are priced as the run was; and a changed constant changes the right
# terms, here and in all commands with a phone's clock.
. "$(dirname "$0")/lib.sh"

export TMPDIR=$tmp
price() { run "$TANDEM" bench price "$@"; }

price --help all
check_eq 'status of --help' "$status" 0
for option in --clock --as --draft-as --rows --from --vary --json; do
  check_has --help "$out" "$option"
done

refused() { # MESSAGE OPTION...
  local message=$1
  shift
  misuse "$TANDEM" bench price "$@"
  check_has "stderr of $*" "$err" "$message"
}
refused "'0'" --rows 1,0
refused 'soc:NAME' --clock wall
refused "'warp'" --as warp
refused '--from' --vary fitted
for value in 1 fited operator_s=0 operator_s=0:1:1 operator_s=0:1:81 \
  operator_s=0:1:x operator_s=0:1:; do
  refused "or KEY=A:B[:N]" --vary $value
done
refused "did you mean 'operator_s'" --vary opertor_s=0:1
refused "'1x' is not a number" --vary operator_s=0:1x
refused "'--upper-rows' takes" --upper-rows 0

failed() { # MESSAGE OPTION...
  local message=$1
  shift
  price "$@"
  check_eq "status of $*" "$status" 1
  check_has "stderr of $*" "$err" "$message"
}
failed 'No such file' --from "$tmp/none.json"
echo '{"tables":{"methods":[{"method":"lever","rows_per_pass":-1}]}}' \
  >"$tmp/odd.json"
failed 'no valid rows_per_pass' --from "$tmp/odd.json"
echo '{"tables":{}}' >"$tmp/empty.json"
failed "'tandem bench lever --json'" --from "$tmp/empty.json"
failed unknown --clock soc:unknown
failed "did you mean 'operator_s'" --clock soc:sd8gen3,opertor_s=0
failed 'is 1.5, not between 0 and 1' --vary operator_s=0:2
failed 'at most 19 passes' --vary operator_s=0:1 \
  --rows 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20

price --as qwen3-8b --draft-as qwen3-0.6b --length 3 --rows 1,9,17
check_eq 'status of a text' "$status" 0
check_has 'the text' "$out" 'Computed, not run: qwen3-8b, drafted by qwen3-0.6b'
check_has 'the text' "$out" '17 rows'

command -v python3 >/dev/null || finish
price --as qwen3-8b --draft-as qwen3-0.6b --length 3 --json --rows 1,9,17,65
check_eq 'lines of --json' "$(wc -l <"$tmp/out")" 1
cp "$tmp/out" "$tmp/flash.json"
price --as qwen3-8b --draft-as qwen3-0.6b --length 3 --json --rows 1,9,17,65 \
  --dram-budget 100
cp "$tmp/out" "$tmp/memory.json"
run_ok python3 -c '
import json, sys
flash, memory = [json.load(open(f))["tables"]["passes"] for f in sys.argv[1:]]
near = lambda a, b: abs(a - b) < 1e-7 * max(a, b, 1)
for p in flash + memory:
    rest = p["npu_s"] + p["draft_s"] + p["logits_s"]
    assert p["pass_s"] >= max(p["read_s"], rest) * (1 - 1e-9), p
    assert near(p["hidden_s"], p["read_s"] + rest - p["pass_s"]), p
    assert near(p["lost_s"], p["pass_s"] - max(p["read_s"], rest)), p
    assert near(p["tokens_per_s"] * p["pass_s"], 3), p
# This phone reads a layer when its turn has come: nothing is hidden.
assert all(p["hidden_s"] < 1e-3 for p in flash)
# An 8B model with 4.5 bits, and 8.5 in FFN-down, at 4 GB/s, nothing in memory; a
# row is 21 ms.
assert all(1.2 < p["read_s"] < 1.25 for p in flash)
assert all(p["read_s"] == 0 for p in memory)
row = (flash[3]["npu_s"] - flash[2]["npu_s"]) / 48
assert 0.018 < row < 0.030, row
npu = [p["npu_s"] for p in flash]
assert npu == sorted(npu) == [p["npu_s"] for p in memory]
' "$tmp/flash.json" "$tmp/memory.json"

# The passes of --vary are those of a phone changed by --clock.
price --rows 1,9 --json --vary row_weight_s=1e-12:16e-12:3
cp "$tmp/out" "$tmp/varied.json"
price --rows 1,9 --json --clock soc:sd8gen3-lever,row_weight_s=4e-12
cp "$tmp/out" "$tmp/changed.json"
run_ok python3 -c '
import json, sys
varied, changed = [json.load(open(f)) for f in sys.argv[1:]]
assert changed["clock"] == "soc:sd8gen3-lever,row_weight_s=4e-12"
assert "sensitivity" not in varied["tables"]
rows = varied["tables"]["pass_s"]
assert [r["constant"] for r in rows] == [
    "row_weight_s=1e-12", "row_weight_s=4e-12", "row_weight_s=1.6e-11"]
assert [r["value"] for r in rows] == [1e-12, 4e-12, 16e-12]
for p in changed["tables"]["passes"]:
    assert abs(rows[1][p["pass"]] / p["pass_s"] - 1) < 1e-8, (p, rows)
assert rows[0]["1 row"] == rows[2]["1 row"]
assert rows[0]["9 rows"] < rows[1]["9 rows"] < rows[2]["9 rows"]
' "$tmp/varied.json" "$tmp/changed.json"

# ---- a number of the phone, changed in other commands ------------------------
model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny -o "$model"
generate=(run -m "$model" -p 'Once upon a time' -n 8 -t 1 --spin 0 --json)
run_ok "$TANDEM" "${generate[@]}" --clock soc:sd8gen3
essence
text=$essence ps=$(json total_ps) launches=$(json launches)
clock=soc:sd8gen3,operator_s=0,flash_read_s=1e-3
run_ok "$TANDEM" "${generate[@]}" --clock $clock
essence
check_eq 'the text with another phone' "$essence" "$text"
check_eq 'launches' "$(json launches)" "$launches"
# An operator of sd8gen3 takes 2 us; nothing is read from flash.
check_eq 'time without that of launches' "$(json total_ps)" \
  $((ps - launches * 2000000))
check_has 'JSON of a run' "$out" "\"phone\":{\"clock\":\"$clock\""
run_ok "$TANDEM" "${generate[@]}" --clock $clock --stats
check_has '--stats' "$err" "$clock:"
run_ok "$TANDEM" "${generate[@]}" --clock $clock --as qwen2.5-1.5b
check_has 'JSON with --as' "$out" "qwen2.5-1.5b on ${clock#*:};"
misuse "$TANDEM" "${generate[@]}" --clock soc:sd8gen3,map_s=0,map_s=0
check_has 'stderr' "$err" 'map_s is given twice'
echo '{"id":"a","prompt":"Once","answer":"x","check":"exact"}' >"$tmp/a.jsonl"
run_ok "$TANDEM" eval "$tmp/a.jsonl" -m "$model" -n 4 --json --clock $clock
check_has 'JSON of eval' "$out" "\"phone\":{\"clock\":\"$clock\""
if command -v curl >/dev/null; then
  . "$(dirname "$0")/serve_lib.sh"
  serve -m "$model" --clock $clock
  get /v1/models
  check_has 'a model of a server' "$out" "\"clock\":\"$clock\""
  post /v1/completions "{\"prompt\":\"Once\",\"max_tokens\":4,
    \"clock\":\"$clock\"}"
  check_eq 'status of a completion' "$code" 200
  check_has 'settings of a completion' "$out" "\"clock\":\"$clock\""
  ends TERM 0
fi

# ---- recorded passes, and their prices --------------------------------------
run "$TANDEM" bench lever --tasks qa --items 1 -n 24 -t 1 --spin 0 \
  --tables methods --json --clock soc:sd8gen3-lever --as qwen3-8b --as-type q4_0 --draft-as qwen3-0.6b \
  --methods flash-ar,chain,lever
if [ "$status" -ne 0 ]; then
  grep -q 'no target model' "$tmp/err" || fail "a run: $err"
  finish
fi
cp "$tmp/out" "$tmp/run.json"
price --from "$tmp/run.json" --as qwen3-8b --draft-as qwen3-0.6b \
  --vary flash_bytes_per_s=2e9:6e9:3 --json
cp "$tmp/out" "$tmp/varied.json"
price --from "$tmp/run.json" --as qwen3-8b --draft-as qwen3-0.6b \
  --vary fitted --json
check_eq 'status of --from' "$status" 0
cp "$tmp/out" "$tmp/priced.json"
run_ok python3 -c '
import json, sys
told = json.load(open(sys.argv[1]))
ran = {r["method"]: r for r in told["tables"]["methods"]}
o = json.load(open(sys.argv[2]))["tables"]
priced = {r["pass"]: r for r in o["passes"]}
assert list(ran) == list(priced)
for m, r in ran.items():
    assert 0.85 < priced[m]["pass_s"] / r["pass_s"] < 1.15, (m, priced[m], r)
# Rows cost a fortieth of the read: more of them than the chain has pay.
assert ran["lever"]["rows_per_pass"] > 4
assert ran["lever"]["tokens_per_s"] > ran["chain"]["tokens_per_s"] * 0.95
# A layer of Qwen3-8B by hand: queries and outputs, keys and values, three
# feed-forward matrices; Q4_0 has 18 bytes for 32 weights, Q8_0, of the last
# matrix, 34; plus norms.
layer = (2 * 4096 * 4096 + 2 * 4096 * 1024 + 2 * 4096 * 12288) * 18 / 32
layer += 4096 * 12288 * 34 / 32
for r in told["tables"]["flash"]:
    assert 1 < r["bytes_per_pass"] / (36 * layer) < 1.001, r
    all = r["bytes_per_pass"] * ran[r["method"]]["passes"]
    assert abs(r["bytes"] / all - 1) < 1e-6, r
    # What runs is not a hundredth of that.
    assert 1e6 < r["bytes_per_pass_ran"] < r["bytes_per_pass"] / 100, r
    # All of the reading time is waited for: most of plain decoding.
    seconds = r["bytes_per_pass"] / told["plain_bytes_per_s"]
    assert abs(r["read_s"] / seconds - 1) < 1e-6, r
    assert r["read_s"] < r["pass_s"], r
    assert r["method"] != "flash-ar" or r["of_plain_reader"] > 0.85, r
assert told["checks"]["above_floor"] == 3, told["checks"]
v = {r["constant"]: r for r in o["sensitivity"]}
base = v["as it is"]
for m in ("flash-ar", "chain"):
    want = priced["lever"]["tokens_per_s"] / priced[m]["tokens_per_s"]
    assert abs(base[m] / want - 1) < 1e-6
# Slower flash and cheaper rows help methods that emit more tokens a read.
assert v["flash_bytes_per_s -30 %"]["flash-ar"] > base["flash-ar"]
assert v["flash_bytes_per_s +30 %"]["flash-ar"] < base["flash-ar"]
assert v["row_weight_s -30 %"]["flash-ar"] > base["flash-ar"]
assert v["row_weight_s +30 %"]["flash-ar"] < base["flash-ar"]
assert len(v) == 9
o = json.load(open(sys.argv[3]))["tables"]
assert [r["constant"] for r in o["sensitivity"]] == [
    r["constant"] for r in o["pass_s"]] == [
    "flash_bytes_per_s=%de+09" % n for n in (2, 4, 6)]
for times, gains in zip(o["pass_s"], o["sensitivity"]):
    length = {m: r["accepted_length"] for m, r in priced.items()}
    rate = {m: length[m] / times[m] for m in priced}
    for m in ("flash-ar", "chain"):
        assert abs(gains[m] * rate[m] / rate["lever"] - 1) < 1e-6
' "$tmp/run.json" "$tmp/priced.json" "$tmp/varied.json"
finish
