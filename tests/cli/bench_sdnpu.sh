#!/usr/bin/env bash
# tandem bench sdnpu: the tables of the papers on retrieval speculation.
# Conflicting options are refused; every row generates the same text; and
# figures are consistent with one another.
. "$(dirname "$0")/lib.sh"

export TMPDIR=$tmp
bench() { run "$TANDEM" bench sdnpu "$@"; }
phone=(-n 8 --items 1 --clock soc:sd8gen2 -t 1 --spin 0)

bench --help all
check_eq 'status of --help' "$status" 0
for option in --tables --tasks --prompts --clock --as --json --csv --plot; do
  check_has --help "$out" "$option"
done
run_ok "$TANDEM" bench --help
check_has 'tandem bench --help' "$out" '  sdnpu '

# ---- errors, before anything is opened --------------------------------------
refused() { # MESSAGE OPTION...
  local message=$1
  shift
  misuse env TANDEM_MODELS="$tmp/none" "$TANDEM" bench sdnpu "$@"
  check_has "stderr of $*" "$err" "$message"
}
refused "unknown 'speed'; choose from ablation, length," --tables speed
refused "'poetry'" --tasks qa,poetry
refused 'nothing to draft from' --tasks none
refused 'exclude' --json --csv
refused '--prompts and --tasks exclude each other' --prompts mine --tasks qa
refused '--method cannot be used with this benchmark' --method lever
refused '--draft cannot be used with this benchmark' --draft sam
refused "'--verify-rows'" --verify-rows 1
refused "'--paper'" --paper c
refused "'row_cost' needs a phone's clock" --tables cycles,row_cost
refused "'graphs' has no items" --tables graphs --shard 1/2
refused "'phones' needs a phone's clock" --tables phones
refused nothere --clock soc:nothere

# ---- the tables --------------------------------------------------------------
# Relations between figures hold for any model, so small ones are used.
models=$root/flash/models small=$tmp/models
[ -e "$models/target.gguf" ] || skip 'no models come with this tree'
mkdir "$small"
ln -s "$models/tasks" "$small"
run_ok "$TANDEM" synth --like tiny -o "$small/target.gguf"
ln -s target.gguf "$small/draft.gguf"
of_small() { TANDEM_MODELS=$small bench "${phone[@]}" "$@"; }

plot=()
! command -v gnuplot >/dev/null || plot=(--plot "$tmp/plots")
all=ablation,length,sources,cycles,overhead,row_cost,graphs
! full || all=all # and phones, which takes as long as the others together
of_small --tasks summary,qa --json --tables $all "${plot[@]}"
check_eq 'status with --json' "$status" 0
check_eq 'stderr with --json' "$err" ''
check_eq 'lines of --json' "$(wc -l <"$tmp/out")" 1
if command -v python3 >/dev/null; then
  cp "$tmp/out" "$tmp/object"
  run_ok python3 -c '
import json, sys
o = json.load(open(sys.argv[1]))
assert o["version"] == 1 and o["bench"] == "sdnpu" and o["items"] == 2
graphs = {r["plan"]: r for r in o["tables"].pop("graphs")}
phones = o["tables"].pop("phones", None)
tables = {t: {r["row"]: r for r in rows} for t, rows in o["tables"].items()}
assert set(tables) == {"ablation", "decoding", "energy", "gains", "length_pld",
                       "length_sam", "accepted", "drafted",
                       "cycles", "overhead", "row_cost"}, set(tables)
plans = ["sync", "async", "greedy", "partial", "best"]
assert list(graphs) == ["off"] + plans, graphs
for n in "tokens_256_s", "tokens_512_s":
    # No plan is faster than a run without loads, and none is faster than the
    # best plan, within the accuracy of planning.
    assert all(graphs["off"][n] <= graphs[p][n] for p in plans), graphs
    assert all(graphs["best"][n] < 1.02 * graphs[p][n] for p in plans), graphs
    assert graphs["sync"][n] > 1.2 * graphs["off"][n], graphs
# A graph for each of the blocks, and one that is loading at most.
assert len({graphs[p]["graphs_held"] for p in plans}) == 1, graphs
# Three models on three phones and two tasks, and the mean. These small models
# have no bundled head.
if phones is not None:
    assert len(phones) == 19 and not any(r["over_eagle2"] for r in phones), phones
    assert all(r["over_" + rival] > 0 for r in phones
               for rival in ("npu", "cpu", "sam", "cpu_sam"))
runs = sum(len(rows) for rows in tables.values()) + 7 * 9
# Rows that stand in several tables are one run.
assert o["checks"]["same_texts"] < 2 * runs, o["checks"]
def same(a, b):
    return abs(a / b - 1) < 1e-6
requests, decoding, energy = (tables[t] for t in ("ablation", "decoding",
                                                  "energy"))
assert list(requests) == list(decoding) == list(energy)
npu, sam = requests["NPU"], requests["+G+SD"]
for name, r in requests.items():
    for base, over in (npu, "over_npu"), (sam, "over_sam"):
        times = base["request_token_s"] / r["request_token_s"]
        assert same(r["request_" + over], times), r
    assert same(r["in_a_row_over_npu"],
                npu["in_a_row_token_s"] / r["in_a_row_token_s"]), r
    low, high = sorted((r["summary"], r["qa"]))
    assert low <= r["request_over_npu"] <= high, r
    # Only with two graphs, of which one is loaded, does it matter which of
    # them the last request left. A short prompt takes the decode graphs.
    loads = name not in ("NPU", "+SD") and "loaded" not in name
    assert (r["in_a_row_token_s"] != r["request_token_s"]) == loads, r
npu, sam = decoding["NPU"], decoding["+G+SD"]
assert npu["over_npu"] == 1 and npu["accepted_length"] == 1
for r in decoding.values():
    assert same(r["over_npu"], npu["token_s"] / r["token_s"]), r
    assert same(r["over_sam"], sam["token_s"] / r["token_s"]), r
    assert same(r["over_npu"], (r["summary"] * r["qa"]) ** 0.5), r
npu, sam = energy["NPU"], energy["+G+SD"]
for r in energy.values():
    assert same(r["npu_over"], npu["request_joules"] / r["request_joules"]), r
    assert same(r["sam_over"], sam["request_joules"] / r["request_joules"]), r
    # Seven tokens and a prompt.
    assert r["request_joules"] > 7 * r["joules_per_token"], r
for t in "length_pld", "length_sam":
    base = list(tables[t].values())[0]["mean"]
    for r in tables[t].values():
        assert abs(r["mean"] - (r["summary"] + r["qa"]) / 2) < 1e-6, r
        assert abs(r["over_first"] * base - r["mean"]) < 1e-6, r
sources = ["text", "history", "recycled", "reused", "calibrated", "model"]
for name, r in tables["accepted"].items():
    d = tables["drafted"][name]
    accepted = {s: r["accepted_" + s] for s in sources}
    drafted = {s: d["drafted_" + s] for s in sources}
    assert all(accepted[s] <= drafted[s] for s in sources), (r, d)
    assert same(1 + sum(accepted.values()), r["accepted_length"]), r
    assert same(1 + sum(drafted.values()), d["rows_per_pass"]), d
    has = {"text"} | {s for s, word in zip(sources[2:], (
        "recycle", "reuse", "calibration", "model")) if word in name}
    if name == "tree + both":
        has |= {"reused", "calibrated"}
    if "default" not in name:
        assert {s for s in sources if drafted[s]} <= has, d
    assert d["draft_s"] > 0, d
assert tables["drafted"]["default"]["drafted_recycled"] > 0
for r in tables["cycles"].values():
    assert abs(r["valid"] + r["wasted"] + r["underutilized"] - 1) < 1e-6, r
rows = tables["row_cost"]
assert list(rows["NPU"].values())[1:] == [1, 1, 1], rows["NPU"]
sam = [rows["+G+SD"]["row_weight_e13_%d" % n] for n in (0, 10, 32)]
assert sam[0] > sam[1] > sam[2] and same(sam[0], decoding["+G+SD"]["over_npu"])
over = tables["overhead"]
# Keeping rejected drafts takes a few look-ups, and no pass.
assert over["SAM"]["more"] == 1 and 1 <= over["reused"]["more"] < 1.0001, over
# The device predicts after every token, wherever drafts may begin.
calibrated, request = over["calibrated"]["more"], over["by the request"]["more"]
assert calibrated > 1 and abs(calibrated - request) < 1e-3, over
for name, r in tables["gains"].items():
    assert r["decoding_from"] <= r["decoding"] <= r["decoding_to"], r
    assert r["request_from"] <= r["request"] <= r["request_to"], r
# In a row, a short prompt takes the decode graphs that are there, as without
# switching.
assert all(abs(v - 1) < 1e-3 for n, v in
           tables["gains"]["graph switching"].items() if n != "row"), tables
gain = tables["gains"]["SAM"]["request"]
ratio = decoding["+G+SD"]["over_npu"]
assert 1 < gain < ratio * 1.01, (gain, ratio)
' "$tmp/object"
fi
for table in cycles graphs graphs_chart; do
  [ ${#plot[@]} -gt 0 ] || break
  check_has "the picture of $table" "$(<"$tmp/plots/$table.svg")" '<svg'
done

TANDEM_MODELS=$small bench --tasks qa -n 4 --items 1 --rounds 1 -t 1 \
  --spin 0 --tables ablation --csv
check_eq 'tables on this machine' \
  "$(awk -F, 'NR > 1 && /token_s/ && !n[$1]++ { print $1 }' "$tmp/out" | xargs)" \
  'ablation decoding'

of_small --tasks qa --tables cycles --as qwen2.5-1.5b
check_eq 'status with --as' "$status" 0
check_eq 'the first line with --as' "${out%%$'\n'*}" \
  'priced as qwen2.5-1.5b on sd8gen2; the model that runs is target.gguf'
check_has 'rows' "$out" 'ours, all rows'

# ---- the user's prompts -------------------------------------------------------
text='the cat sat on the mat and the dog sat on the mat'
printf '%s\n{"prompt": "%s and then"}\n' "$text" "$text" >"$tmp/mine.jsonl"
of_small --items 9 --prompts "$tmp/mine.jsonl" --tables length --csv
check_eq 'status with --prompts' "$status" 0
check_eq 'tasks with --prompts' "$(awk -F, '
  /^length_sam,SAM,/ { print $(NF - 1) }' "$tmp/out" | xargs)" \
  'mine mean over_first'
of_small --prompts "$tmp/mine.jsonl" --tables cycles --items 1
check_has '--items with --prompts' "$out" '1 task, 1 item in all'
run "$TANDEM" bench sdnpu --prompts "$tmp/none" --tables cycles
check_eq 'status without the file of prompts' "$status" 1
check_has 'stderr without the file of prompts' "$err" "$tmp/none"

# Something of the answers that a trained model gives stands in the prompts.
bench "${phone[@]}" --tasks qa --tables cycles,length --csv
# One of the 32 rows of the decode graph.
check_has 'CSV' "$out" 'cycles,+G,,valid,0.03125'
check_eq 'rows of 12 whose drafts are accepted' "$(awk -F, '
  /^length_/ && $(NF - 1) == "mean" { n++; far += $NF > 1.2 }
  END { print n, far }' "$tmp/out")" '12 12'

# Where drafts come from, without and with earlier answers.
drafted_by() { awk -F, -v row="$1" '
  $1 == "drafted" && $2 == row && /,drafted_/ && $NF > 0 {
    sub("drafted_", "", $4); print $4 }' "$tmp/out" | xargs; }
bench "${phone[@]}" -n 24 --tasks qa --tables sources --csv
check_eq 'sources of the automaton' "$(drafted_by +G+SD)" text
check_eq 'sources with reuse' "$(drafted_by 'tree + reuse')" 'text reused'
check_eq 'sources with calibration' \
  "$(drafted_by 'tree + calibration')" 'text calibrated'
check_eq 'sources with a model' "$(drafted_by 'tree + model')" 'text model'
# By a paper's parameters our rows equal the rows that always have them.
times_of() { # TABLE KEY: of the rows named without and with "paper"
  awk -F, -v table="$1" -v key="$2" '$1 == table && $4 == key {
    sub("tree", "", $2); ours = !sub("paper.s", "", $2); sub("calibr\\..*",
      "calibration", $2); gsub(" ", "", $2)
    if (ours) was[$2] = $NF; else now[$2] = $NF }
    END { for (row in now) print row, now[row] == was[row] }' "$tmp/out" |
    sort | xargs
}
bench "${phone[@]}" -n 8 --tasks qa --tables ablation --csv
check_eq 'rows of which the paper has the same' \
  "$(times_of ablation request_token_s)" '0 +both 0 +calibration 0 +reuse 0'
check_has 'a head of the bundled target' "$out" 'decoding,EAGLE-2,,token_s,'
if full; then
  bench "${phone[@]}" -n 8 --tasks qa --tables ablation --csv --paper a
  check_eq 'rows by --paper a of which the paper has the same' \
    "$(times_of ablation request_token_s)" '1 +both 1 +calibration 1 +reuse 1'
fi
for paper in 'a 2' 'b 1'; do
  bench "${phone[@]}" --tasks qa --tables overhead --csv --paper "${paper% *}"
  check_eq "times of a prompt with all anchors and with the last, --paper $paper" \
    "$(awk -F, '/,(calibrated|by the request),,prompt_token_s/ { n += !is[$NF]++ }
      END { print n }' "$tmp/out")" "${paper#* }"
done

run_ok "$TANDEM" history import "$tmp/answers" "$models/tasks/qa.jsonl"
bench "${phone[@]}" -n 24 --tasks qa --tables sources --csv \
  --history "$tmp/answers" --history-frozen
check_eq 'sources with a history' "$(drafted_by tree)" 'text history'

of_small --tables graphs
check_lacks 'a table without texts' "$out" 'items in all'
check_lacks 'a table without texts' "$out" 'the same text'

# ---- prompts of a trained model ----------------------------------------------
if full; then
  bench "${phone[@]}" --tasks qa --tables graphs --json
  cp "$tmp/out" "$tmp/object"
  run_ok python3 -c '
import json, sys
graphs = {r["plan"]: r for r in json.load(open(sys.argv[1]))["tables"]["graphs"]}
off, best, sync = graphs["off"], graphs["best"], graphs["sync"]
for n in "tokens_256_s", "tokens_512_s":
    for g in graphs.values():
        assert off[n] <= g[n] and (g is off or best[n] < 1.02 * g[n]), graphs
    assert sync[n] > 1.2 * off[n], graphs
' "$tmp/object"
fi
finish
