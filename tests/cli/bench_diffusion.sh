#!/usr/bin/env bash
# tandem bench diffusion: tables of decoders of diffusion models. Conflicting
# options are refused; answers are scored as by tandem eval; texts that must be
# equal are; and figures are consistent with one another.
. "$(dirname "$0")/lib.sh"

export TMPDIR=$tmp
bench() { run "$TANDEM" bench diffusion "$@"; }
models=$root/flash/models
one=(--items 1 -t 1 --spin 0)
phone=("${one[@]}" --clock soc:sd8elite)

bench --help all
check_eq 'status of --help' "$status" 0
for option in --tables --tasks --windows --slots --clock --as --json --plot; do
  check_has --help "$out" "$option"
done
run_ok "$TANDEM" bench --help
check_has 'tandem bench --help' "$out" '  diffusion '

# ---- errors, before anything is opened --------------------------------------
refused() { # MESSAGE OPTION...
  local message=$1
  shift
  misuse env TANDEM_MODELS="$tmp/none" "$TANDEM" bench diffusion "$@"
  check_has "stderr of $*" "$err" "$message"
}
refused "unknown 'speed'; choose from decoders, blocks," --tables speed
refused "'poetry'" --tasks qa,poetry
refused "did you mean 'curve'" --tables curv
refused "did you mean 'summary'" --tasks sumary
refused 'exclude' --json --csv
refused '--method cannot be used with this benchmark' --method llada
refused '--windows' --windows 8
refused '--slots' --slots 2
refused nothere --clock soc:nothere

# ---- the tables --------------------------------------------------------------
# Relations between figures hold for any model: for small ones, priced as a
# large one. The model of blocks is the real one, for it must write from left to
# right too.
[ -e "$models/block.gguf" ] || skip 'no models come with this tree'
small=$tmp/models
mkdir "$small"
ln -s "$models"/{block.gguf,tasks} "$small"
run_ok "$TANDEM" synth --like tiny-llada -o "$small/diffusion.gguf"
run_ok "$TANDEM" synth --like tiny -o "$small/target.gguf"
ln -s target.gguf "$small/draft.gguf"
of_small() { TANDEM_MODELS=$small bench -n 8 "$@"; }

all=decoders,blocks,ablation,window,exact
! full || all+=,sensitivity # the same decoders with other parameters
of_small "${phone[@]}" --tasks ui --as llada-8b --json --tables $all
check_eq 'status with --json' "$status" 0
check_eq 'stderr with --json' "$err" ''
check_eq 'lines of --json' "$(wc -l <"$tmp/out")" 1
cp "$tmp/out" "$tmp/object"

# How often guesses are right, and how many stay at once, is known of a model
# that was trained.
plot=()
! command -v gnuplot >/dev/null || plot=(--plot "$tmp/plots")
bench "${phone[@]}" -n 32 --items 2 --tasks code --tables curve --json \
  "${plot[@]}"
check_eq 'status of the curve' "$status" 0
cp "$tmp/out" "$tmp/curve"
for method in fast-dllm llada-npu; do
  run_ok "$TANDEM" eval --method $method --json "${one[@]}" -n 32 --items 2 code
  cp "$tmp/out" "$tmp/$method"
done
if command -v python3 >/dev/null; then
  run_ok python3 -c '
import json, sys
o = json.load(open(sys.argv[1]))
assert o["priced_as"] and o["version"] == 1 and o["bench"] == "diffusion" and o["items"] == 1
tables = o["tables"]
assert set(tables) - {"lookahead", "widths", "thresholds"} == \
    {"decoders", "blocks", "ablation", "window", "exact"}, set(tables)
b = {r["decoder"]: r for r in tables["blocks"]}
for row, over in (("canvas", "over_canvas"), ("one a pass", "over_one"),
                  ("parallel", "over_parallel")):
    assert b[row][over] == 1, (row, b[row])
assert b["canvas"]["right"] == b["one a pass"]["right"], b
assert b["canvas"]["rows_per_pass"] > 2 * b["one a pass"]["rows_per_pass"], b
assert b["stages"]["tokens_per_pass"] > b["one a pass"]["tokens_per_pass"], b
d = {r["decoder"]: r for r in tables["decoders"]}
a = {r["row"]: r for r in tables["ablation"]}
for r in list(d.values()) + list(a.values()):
    assert r["right"] in (0, 1), r
    assert r["request_token_s"] > 0 and r["joules_per_token"] > 0, r
assert d["llada, canvas"]["over_first"] == 1
for row, over in (("one a pass, prefix", "over_one"),
                  ("parallel, prefix", "over_parallel")):
    assert d[row][over] == 1, (row, d[row])
    ratio = d["stages"][over] * d[row]["over_first"]
    assert abs(ratio / d["stages"]["over_first"] - 1) < 1e-6, ratio
# A cache leaves out rows: those before the block, those after it, too, or all
# final tokens.
for group in "one a pass", "parallel":
    rows = {k: d[f"{group}, {k}"]["rows_per_pass"]
            for k in ("prefix", "dual", "delayed")}
    assert rows["dual"] <= rows["prefix"], rows
    assert rows["delayed"] < d["llada, canvas"]["rows_per_pass"], rows
# A phone without an NPU: the same passes in another time, which is longer the
# more rows there are.
for row, on_cpu in (("NPU", "CPU"), ("+prefix", "CPU, +prefix"),
                    ("+block", "CPU, +block"),
                    ("autoregressive", "CPU, autoregressive")):
    for k in "passes", "rows_per_pass", "tokens_per_pass", "right":
        assert a[row][k] == a[on_cpu][k], (row, k)
assert a["CPU, +prefix"]["over_cpu_prefix"] == 1, a["CPU, +prefix"]
assert a["CPU, +block"]["over_cpu_block"] == 1, a["CPU, +block"]
for row in "NPU", "+prefix", "+block":
    on_cpu = a["CPU" if row == "NPU" else "CPU, " + row]
    assert a[row]["tokens_per_s"] > on_cpu["tokens_per_s"], row
cpu = [a[n]["tokens_per_pass"] / a[n]["tokens_per_s"]
       for n in ("CPU", "CPU, +prefix", "CPU, +block")]  # of a pass
assert cpu == sorted(cpu, reverse=True), cpu
# The same text by other means, in as many passes or fewer tokens a pass.
x = {r["decoder"]: r for r in tables["exact"]}
for one, other in (("block", "block, no cache"),
                   ("block, by 0.9", "block, by 0.9, no cache"),
                   ("block, by 0.9", "llada-npu, as these"),
                   ("blocks, plain", "linear-spec")):
    assert x[one]["right"] == x[other]["right"], (x[one], x[other])
for n in "block", "block, by 0.9":
    bare = x[n + ", no cache"]
    assert bare["rows_per_pass"] > 2 * x[n]["rows_per_pass"], (bare, x[n])
    assert bare["passes"] < x[n]["passes"], (bare, x[n])
# The reference decides a token a pass.
assert d["llada"]["tokens_per_pass"] <= 1, d["llada"]
# One setting in two tables is one run.
for row in "autoregressive", "chain":
    assert all(a[row][k] == v for k, v in d[row].items()
               if k != "decoder" and k[:5] != "over_"), (a[row], d[row])
assert a["+stages"]["tokens_per_s"] == d["stages, paper\u0027s"]["tokens_per_s"]
assert a["NPU"]["tokens_per_s"] == d["llada, canvas"]["tokens_per_s"]
# Laying out all masks costs rows.
assert d["llada, canvas"]["rows_per_pass"] >= d["llada"]["rows_per_pass"]
# Each of these computes less a pass than the one before it.
rows = [a[n]["rows_per_pass"] for n in ("NPU", "+prefix", "+block")]
assert rows[0] > rows[1] >= rows[2], rows
for n in "NPU", "+prefix":
    assert a[n]["skipped_per_pass"] == a[n]["revised"] == 0, a[n]
assert a["+stages"]["refreshed_per_pass"] == 0, a["+stages"]
# Placement: the same work, more slowly the more has to be mapped.
w = {(r["window"], r["placement"]): r for r in tables["window"]}
small = "3584 MiB, 4 buffers"
swap = w[small, "swap"]
assert swap["maps_per_pass"] == 0, swap
for p in "belady", "paging", "drop-all":
    assert w[small, p]["maps_per_pass"] > 1, w[small, p]
    assert w[small, p]["stall_s"] > swap["stall_s"], (w[small, p], swap)
    assert w[small, p]["tokens_per_s"] < swap["tokens_per_s"], w[small, p]
assert o["checks"]["same_texts"] >= 2 + 7 + 1 + 2 + 1, o["checks"]

# The curve has the accuracy of tandem eval at the default settings.
c = json.load(open(sys.argv[2]))["tables"]
points = {}
for r in c["curve"]:
    points.setdefault(r["method"], {})[r["thresholds"]] = r
assert set(points) == {"fast-dllm", "multi-block", "llada-npu", "block"}
for method, usual in ("fast-dllm", "0.9"), ("llada-npu", "0.7, 0.9"):
    e = json.loads(open(sys.argv[3] + "/" + method).readline())
    right = points[method][usual]["right"]
    (e,) = e["tasks"]
    assert e["right"] > 0, e
    assert abs(right - e["right"] / e["items"]) < 1e-9, (method, right, e)
for method, of in points.items():
    n = [r["tokens_per_pass"] for r in of.values()]
    assert n[0] < n[-1], (method, n)
areas = {r["method"]: r for r in c["areas"]}
for method, of in points.items():
    xs = sorted((r["tokens_per_pass"], r["right"]) for r in of.values())
    top, bottom = max(y for x, y in xs), min(y for x, y in xs)
    # Between the flat lines through the best and the worst point.
    wide = max(xs[-1][0] - 1, 0)
    area = areas[method]["area"]
    assert bottom * wide - 1e-6 <= area <= top * wide + 1e-6, (method, area)
# Guesses that need not be all but sure bring more of them.
of = points["llada-npu"]
assert of["0.7, 0.9"]["tokens_per_pass"] > \
    1.5 * of["0.99, 0.995"]["tokens_per_pass"], of
' "$tmp/object" "$tmp/curve" "$tmp"
fi
for table in curve areas; do
  [ ${#plot[@]} -gt 0 ] || break
  check_has "the picture of $table" "$(cat "$tmp/plots/$table.svg")" '<svg'
done
[ ${#plot[@]} -eq 0 ] ||
  check_has 'the curve' "$(cat "$tmp/plots/curve.svg")" 'tokens a pass'

# Phones and lengths: the longer a text, the more all its masks cost, and a
# phone whose NPU is slower takes longer. All models are small here.
run_ok "$TANDEM" synth --like tiny-block -o "$tmp/block.gguf"
for name in tasks target.gguf diffusion.gguf; do
  ln -s "$small/$name" "$tmp/$name"
done
TANDEM_MODELS=$tmp bench "${phone[@]}" --tasks ui --tables phones --json
check_eq 'status of the phones' "$status" 0
cp "$tmp/out" "$tmp/phones"
if command -v python3 >/dev/null; then
  run_ok python3 -c '
import json, sys
rows = json.load(open(sys.argv[1]))["tables"]["phones"]
of = {tuple(r["model, phone, tokens"].split(", ")): r for r in rows}
assert len(of) == 4 * 3, of.keys()
def ms(model, phone, n): return of[model, phone, str(n)]["request_token_s"]
for model, phone, n in of:
    r = of[model, phone, n]
    assert r["over_npu"] > r["over_npu_prefix"] > 0, r
    assert r["over_cpu"] > r["over_npu"], r
    assert r["joules_over_plain"] > 0, r
    if n != "128":
        more = of[model, phone, str(2 * int(n))]
        assert more["over_cpu"] > r["over_cpu"], (r, more)
for n in 32, 64, 128:
    assert ms("LLaDA 8B", "sd8gen3", n) > ms("LLaDA 8B", "sd8elite", n)
    assert ms("LLaDA 8B", "sd8elite", n) > ms("Dream 7B", "sd8elite", n)
' "$tmp/phones"
fi

window=("${phone[@]}" --tasks none --tables window --windows 24 --slots 16)
of_small "${window[@]}" --as llada-8b --windows 2048
check_eq 'status with --as' "$status" 0
check_has 'the first line with --as' "${out%%$'\n'*}" \
  'priced as llada-8b on sd8elite; the model that runs is diffusion.gguf'
check_has 'rows' "$out" 'swap'
of_small "${window[@]}" --csv
check_eq 'status with --tasks none' "$status" 0
check_has 'CSV' "$out" 'window,"24 MiB, 16 buffers",swap,maps_per_pass,0'
# A table that needs a phone is left out on this machine's clock.
of_small "${one[@]}" --tasks none --rounds 1 --tables ablation --csv
check_eq 'status by the wall clock' "$status" 0
check_has 'rows' "$out" '+later blocks'
check_lacks 'the wall clock' "$out" CPU
check_lacks 'the wall clock' "$out" over_cpu

# ---- all of them, of trained models ------------------------------------------
if full; then
  bench "${phone[@]}" -n 24 --items 2 --tasks qa,math --json
  check_eq 'status of all' "$status" 0
  cp "$tmp/out" "$tmp/all"
  run_ok python3 -c '
import json, sys
t = json.load(open(sys.argv[1]))["tables"]
assert {"decoders", "curve", "areas", "window", "exact"} < set(t), set(t)
a = {r["row"]: r["tokens_per_pass"] for r in t["ablation"]}
assert a["+stages"] > 2 * a["+block"], a
' "$tmp/all"
fi
finish
