#!/usr/bin/env bash
# tandem bench lever: on a phone's clock all figures are reproducible and
# consistent with one another; on this machine's clock only the form of the
# report is checked.
. "$(dirname "$0")/lib.sh"
export XDG_CACHE_HOME=$tmp/cache # where what passes take is remembered

export TMPDIR=$tmp # where the image is made
bench() { run "$TANDEM" bench lever "$@"; }
phone=(--items 1 -n 8 --methods "flash-ar,chain,lever" --clock soc:sd8gen3
  --spin 0 --tasks qa,ui)

bench --help all
check_eq 'status of --help' "$status" 0
for option in --methods --tasks --budgets --clock --json --csv --plot; do
  check_has --help "$out" "$option"
done
run_ok "$TANDEM" bench --help
check_has 'tandem bench --help' "$out" '  lever '

# ---- errors, before anything is opened --------------------------------------
refused() { # MESSAGE OPTION...
  local message=$1
  shift
  misuse "$TANDEM" bench lever "$@"
  check_has "stderr of $*" "$err" "$message"
  check_eq "lines of stderr of $*" "$(wc -l <"$tmp/err")" 2
}
refused "'poetry'" --tasks qa,poetry
refused "twice" --tasks qa,ui,qa
refused "'warp'" --methods lever,warp
refused "'llada'" --methods llada
refused "'101'" --budgets 0,101
refused "'4x'" --budgets 4x
refused "'1'" --lengths 32,1
refused "'tables'" --tables methods,tables
refused 'oracle:0.8' --draft oracle:2
refused '--budgets' --dram-budget 10%
refused '--methods' --method lever
refused 'exclude' --json --csv
misuse "$TANDEM" bench lever more

# ---- on a phone --------------------------------------------------------------
[ -e "$root/flash/models/target.gguf" ] || skip 'no models come with this tree'
bench "${phone[@]}" --tables methods,prune
check_eq 'status on a phone' "$status" 0
check_eq 'stderr on a phone' "$err" ''
for line in 'checked: every method gives the same text' \
  'reads the layers not in memory' \
  'checked: logits are computed only for accepted' \
  'checked: no text takes less time than flash needs for its bytes' \
  'lever over flash-ar ' ', over chain ' 'not pruned' 'no shadows'; do
  check_has 'the text' "$out" "$line"
done
check_lacks 'the text' "$out" simulated
check_eq 'lines of figures wider than 80' \
  "$(grep -v '^[a-z ]*/' "$tmp/out" | awk 'length($0) > 80')" ''
check_eq 'images left over' "$(ls "$tmp"/*.tdm 2>/dev/null)" ''

cp "$tmp/out" "$tmp/first"
bench "${phone[@]}" --tables methods,prune -t 1
checks=$((checks + 1))
cmp -s "$tmp/first" "$tmp/out" || fail 'two runs on a phone differ'

bench "${phone[@]}" --budgets 0,40,100 --lengths 4,8 -t 1 --json --tables \
  methods,prune,budget,length,quality,place,logits,size,grid
check_eq 'status with --json' "$status" 0
check_eq 'lines of --json' "$(wc -l <"$tmp/out")" 1
if command -v python3 >/dev/null; then
  cp "$tmp/out" "$tmp/object"
  run_ok python3 -c '
import json, sys
o = json.load(open(sys.argv[1]))
assert o["version"] == 1 and o["bench"] == "lever"
assert o["clock"] == "soc:sd8gen3" and o["items"] == 2 and o["rounds"] == 1
# The table of qualities has drafts that are simulated.
assert o["simulated_acceptance"] is True
t = o["tables"]
assert set(t) == {"methods", "tasks", "flash", "prune", "budget", "length",
                  "quality", "place", "logits", "size", "grid", "waits",
                  "prune_published"}, set(t)
by = {r["method"]: r for r in t["methods"]}
assert list(by) == ["flash-ar", "chain", "lever"]
flash = {r["method"]: r for r in t["flash"]}
tokens = by["flash-ar"]["tokens"]
for m, r in by.items():
    # The same text; a row of logits a token; the same bytes a pass.
    assert r["tokens"] == tokens == r["logits_rows"], m
    assert abs(r["accepted_length"] * r["passes"] - tokens) < 1e-6 * tokens, m
    assert flash[m]["bytes"] == flash["flash-ar"]["bytes"] * r["passes"] / \
        by["flash-ar"]["passes"], m
    assert 0 < flash[m]["of_plain_reader"] <= flash[m]["overlap"] <= 1, m
    assert flash[m]["bytes_per_pass_ran"] == flash[m]["bytes_per_pass"], m
    # Full slots at both ends: no pass is faster than flash gives its bytes.
    assert flash[m]["pass_s"] >= flash[m]["bytes_per_pass"] / 4e9, m
    # A phone draws a watt at least, and not twenty.
    watts = r["joules_per_token"] * tokens / (r["pass_s"] * r["passes"])
    assert 1 < watts < 20, watts
assert by["flash-ar"]["passes"] == tokens
assert by["flash-ar"]["rows_per_pass"] == 1
# Another program computes the geometric means, and compares the printed ones.
for r in t["tasks"]:
    each = [v for k, v in r.items() if k not in ("method", "geometric_mean")]
    mean = 1
    for v in each:
        mean *= v ** (1 / len(each))
    assert len(each) == 2 and abs(mean / r["geometric_mean"] - 1) < 1e-6
    assert abs(mean / by[r["method"]]["tokens_per_s"] - 1) < 1e-6
rate = {m: by[m]["tokens_per_s"] for m in by}
for m, v in o["lever_over"].items():
    assert abs(v / (rate["lever"] / rate[m]) - 1) < 1e-6
assert set(o["lever_over"]) == {"flash-ar", "chain"}
# A run that two tables have is the same run; with more of the layers in memory
# nothing becomes slower.
for r in t["budget"]:
    assert abs(r["budget_0"] / rate[r["method"]] - 1) < 1e-6
    assert r["budget_0"] <= r["budget_40"] * 1.05, r
    assert r["budget_0"] <= r["budget_100"] * 1.05, r
# The default chain has 8 tokens.
grid = {r["setting"]: r["tokens_per_s"] for r in t["grid"]}
assert list(grid) == ["flash-ar"] + ["chain %d" % n for n in
                                     (2, 4, 8, 12, 16, 24)] + ["lever"]
assert abs(grid["chain 8"] / rate["chain"] - 1) < 1e-6
best = max(v for k, v in grid.items() if k.startswith("chain"))
assert abs(o["lever_over_best"]["chain"] / (rate["lever"] / best) - 1) < 1e-6
assert [r["tree"] for r in t["size"]] == ["1 row"]
for r in t["prune_published"]:
    assert abs(r["ratio"] - r["ours"] / r["published"]) < 1e-6, r
for r in t["length"]:
    assert abs(r["tokens_8"] / rate[r["method"]] - 1) < 1e-6
full, pruned = t["prune"][:2]
assert full["rows_kept"] == 1 == full["accepted_retained"]
assert full["verify_saved"] == 0 and 0 < pruned["rows_kept"] <= 1
assert len(t["quality"]) == 12
better = [r["accepted_length"] for r in t["quality"]
          if r["method"] == "chain" and r["draft"].startswith("oracle")]
assert better == sorted(better) and better[0] < better[-1], better
assert t["logits"][2]["rows_per_pass"] > t["logits"][3]["rows_per_pass"]
' "$tmp/object"
fi

# Each cell has its fastest rival. A phone of the paper runs what it is priced
# for, and the last row is the mean.
bench "${phone[@]}" --methods flash-ar,specinfer,lever --budgets 0,100 -t 1 \
  --tables cells,phones --json
check_eq 'status of cells' "$status" 0
if command -v python3 >/dev/null; then
  cp "$tmp/out" "$tmp/object"
  run_ok python3 -c '
import json, math, sys
t = json.load(open(sys.argv[1]))["tables"]
cells, mean = t["cells"][:-1], t["cells"][-1]
assert [r["cell"] for r in cells] == [
    "%s, %d %%" % (d, b) for d in ("default", "oracle:0.6", "oracle:0.8",
                                   "oracle:0.9") for b in (0, 100)]
for r in cells:
    best = max(r["flash_ar"], r["specinfer"])
    assert r["rival_tokens_per_s"] == best == r[r["rival"].replace("-", "_")]
    assert abs(r["over_rival"] / (r["lever"] / best) - 1) < 1e-6, r
    assert r["lost"] == (r["lever"] < best) and r["edgellm"] is None, r
logs = sum(math.log(r["over_rival"]) for r in cells)
assert abs(mean["over_rival"] / math.exp(logs / len(cells)) - 1) < 1e-6
# flash-ar does not draft, so the draft does not matter.
assert len({r["flash_ar"] for r in cells}) == 2
phones, mean = t["phones"][:-1], t["phones"][-1]
assert len(phones) == 4 * 3 * 2 and phones[0]["task"] == "qa", phones[0]
by = {(r["model"], r["task"]): r for r in phones}
for phone in ("OnePlus 12", "Honor Magic V5"):
    a, b = (by["qwen3-%db, %s" % (n, phone), "ui"] for n in (4, 14))
    assert a["flash_ar"] > 2 * b["flash_ar"], (a, b)
figure, = t["phones_published"]
assert figure["ours"] == mean["over_flash_ar"] and figure["published"] == 2.93
' "$tmp/object"
fi
# Logits of a shape cost what its vocabulary costs.
bench "${phone[@]}" --tasks ui --methods lever -t 1 --tables logits --csv \
  --as qwen2.5-1.5b
check_eq 'logits of one row on the CPU, above 1 ms' "$(awk -F, \
  '/^logits,"CPU, on demand"/ && $5 == "seconds" { print ($6 > 1e-3) }' \
  "$tmp/out")" 1
bench --tables phones --methods flash-ar,lever --clock wall --items 1 -n 2 \
  --tasks ui
check_has 'phones by the wall clock' "$out" "needs a phone's clock"

# The tasks are six where none are named.
plot=()
! command -v gnuplot >/dev/null || plot=(--plot "$tmp/svg")
run "$TANDEM" bench lever --items 1 -n 8 --methods flash-ar,chain -t 1 --spin 0 \
  --clock soc:sd8gen3 --tables methods,budget --budgets 0,100 --csv \
  --draft oracle:0.8 "${plot[@]}"
check_eq 'status with --csv' "$status" 0
check_eq 'tasks' "$(awk -F, '$1 == "tasks" && $2 == "chain" { print $4 }' \
  "$tmp/out" | paste -sd ' ')" 'summary qa ui reply math code geometric_mean'
check_has '--csv' "$out" 'table,name,of,figure,value'
check_has '--csv' "$out" 'run,,,simulated_acceptance,1'
check_eq 'lines without five fields' "$(awk -F, 'NF != 5' "$tmp/out")" ''
bench "${phone[@]}" --tasks ui --methods chain -t 1 --tables methods \
  --draft oracle:0.8
check_has 'the text with an oracle' "$out" 'Acceptance is simulated'

# ---- whether to draft, with all layers in memory ------------------------------
# Whether lever is faster than $share times flash-ar and chain, for a shape with
# which a pass of two rows takes three times as long as a pass of one row.
faster() { # OPTION...
  bench --clock soc:sd8gen3-lever --as qwen3-8b --as-type q4_0-all \
    --draft-as qwen3-0.6b --tasks story --items 1 -n 160 --tables budget \
    --budgets 100 --methods flash-ar,chain,lever --csv "$@"
  awk -F, -v share=$share '$1 == "budget" && $4 == "budget_100" { v[$2] = $5 }
    END { best = v["flash-ar"] > v["chain"] ? v["flash-ar"] : v["chain"]
      print (v["lever"] > share * best) }' "$tmp/out"
}
# Drafts pay only in the predictable parts of this text.
check_eq 'lever is 1.1 times as fast as each other' "$(share=1.1 faster)" 1
# With this oracle no draft pays, and trials take almost no time.
check_eq 'lever is 0.99 times as fast as no draft' \
  "$(share=0.99 faster --draft oracle:0.6)" 1

# ---- on this machine's clock, with a model of random weights ----------------
run_ok "$TANDEM" synth --like tiny -o "$tmp/tiny.gguf"
# If other work disturbs the plain reader, a run looks faster than flash and the
# benchmark ends.
for _ in 1 2 3; do
  bench -m "$tmp/tiny.gguf" --draft oracle:0.8 --tasks none --items 1 -n 12 \
    --tables methods,prune --rounds 1 --methods flash-ar,lever --spin 0
  case $err in *'flash needs'*) ;; *) break ;; esac
done
check_eq 'status on a synthesized model' "$status" 0
check_has 'the text' "$out" 'a plain reader of the layers:'
check_has 'the text' "$out" 'checked: every method gives the same text'
check_has 'the text' "$out" 'no exit predictor'
case $out in
*"checked: the kernel's count of bytes is equal to within a layer, "*) ;;
*"not checked: the kernel's count of bytes ("*) ;;
*) fail "the report lacks the kernel's count of bytes" ;;
esac
checks=$((checks + 1))
check_has 'the text' "$out" simulated

# ---- plots -------------------------------------------------------------------
mkdir "$tmp/bin"
run env PATH="$tmp/bin" "$TANDEM" bench lever "${phone[@]}" --plot "$tmp/svg"
check_eq 'status without gnuplot' "$status" 1
check_has 'stderr without gnuplot' "$err" gnuplot-nox
if [ ${#plot[@]} -gt 0 ]; then
  check_eq 'plots' "$(cd "$tmp/svg" && echo *)" \
    'budget.svg flash.svg methods.svg tasks.svg waits.svg'
  check_has 'a plot' "$(cat "$tmp/svg/budget.svg")" '</svg>'
  check_has 'a plot' "$(cat "$tmp/svg/budget.svg")" 'flash-ar'
fi
finish
