#!/usr/bin/env bash
# tandem bench methods: methods and sets of options on prompts of one's own.
# What cannot be meant is refused before a model is opened; on a phone's clock
# every figure is always the same.
. "$(dirname "$0")/lib.sh"

export TMPDIR=$tmp
bench() { run "$TANDEM" bench methods "$@"; }
phone=(-n 12 --clock soc:sd8gen3 --spin 0)

bench --help all
check_eq 'status of --help' "$status" 0
for option in --methods --sets --prompts --tasks --clock --json --csv --plot; do
  check_has --help "$out" "$option"
done
run_ok "$TANDEM" bench --help
check_has 'tandem bench --help' "$out" '  methods '
run_ok "$TANDEM" help --completion
check_has 'the completion' "$out" '--sets'

# ---- errors, before anything is opened --------------------------------------
refused() { # MESSAGE OPTION...
  local message=$1
  shift
  misuse env TANDEM_MODELS="$tmp/none" "$TANDEM" bench methods "$@"
  check_has "stderr of $*" "$err" "$message"
  check_eq "lines of stderr of $*" "$(wc -l <"$tmp/err")" 2
}
refused "'warp'" --methods lever,warp
refused 'lists no method' --methods ,
refused "'poetry'" --tasks qa,poetry
refused 'exclude' --prompts x --tasks qa
refused 'exclude' --json --csv
refused "'3/2'" --shard 3/2
refused '--methods' --method lever
refused 'is empty' --sets 'tree-rows=8;;draft=oracle:0.8'
refused "'tree-rows' twice" --sets 'tree-rows=8 tree-rows=9'
refused "two sets have the name 'tree-rows=8'" --sets 'tree-rows=8;tree-rows=8'
refused "did you mean '--tree-rows'" --sets tree-row=8
refused "set 'tree-rows=x'" --sets tree-rows=x --methods lever
refused "'--tree-rows' takes" --sets 'tree-rows=1' --methods lever
refused "'--no-shadow' takes true or false" --sets no-shadow=maybe
refused 'oracle:0.8' --sets draft=oracle:2 --methods chain
refused 'oracle:0.8' --draft oracle:2 --methods chain
refused 'apply to none of the measured methods' --sets draft=oracle:0.8 --methods autoregressive
refused "set 'method=lever'" --sets method=lever
refused "cannot be compared" --sets clock=soc:sd8gen2
refused 'no model can run both' -m x.gguf --methods autoregressive,llada
refused 'nothere' --clock soc:nothere
refused 'at most 80 rows' --methods "chain, specinfer, opt-tree, lever" \
  --sets "$(for i in $(seq 2 25); do printf 'tree-rows=%d;' "$i"; done)"
misuse "$TANDEM" bench methods more
run "$TANDEM" bench methods --prompts "$tmp/absent"
check_eq 'status of a file that is not there' "$status" 1
check_has 'stderr of a file that is not there' "$err" absent

# ---- prompts of one's own, on a phone ----------------------------------------
printf '%s\n' 'Read: Anna has a red cup.' '' '2 + 3 =' >"$tmp/mine.txt"
printf '{"prompt": "%s"}\n' 'Read: Anna has a red cup.' '2 + 3 =' \
  >"$tmp/mine.jsonl"
bench "${phone[@]}" --prompts "$tmp/mine.txt" --methods \
  autoregressive,chain,lever --sets "draft-len=2; cut: tree-rows=8 prune-always"
grep -q 'no target model' "$tmp/err" && skip 'no models come with this tree'
check_eq 'status with --prompts' "$status" 0
check_eq 'stderr with --prompts' "$err" ''
check_has 'the text' "$out" '1 task, 2 items in all'
check_has 'the text' "$out" 'checked: all lossless methods generate the same text, 8 times'
check_eq 'rows' "$(awk '/^[a-z]+ .*[0-9]$/ { print $1, ($2 ~ /^[0-9]/ ? "" : $2) }' \
  "$tmp/out" | grep -v '^tok')" "$(for _ in methods rows; do printf '%s\n' \
    'autoregressive ' 'chain ' 'chain draft-len=2' 'lever ' 'lever cut'; done)"
cp "$tmp/out" "$tmp/first"
# A method that is listed twice is measured once.
bench "${phone[@]}" --prompts "$tmp/mine.jsonl" --methods \
  autoregressive,chain,chain,lever --sets \
  "draft-len=2; cut: tree-rows=8 prune-always" -t 1
checks=$((checks + 1))
cmp -s "$tmp/first" "$tmp/out" || fail 'lines and JSON lines differ'
check_eq 'status of standard input' "$("$TANDEM" bench methods "${phone[@]}" -t 1 \
  --prompts - --items 1 --methods chain --csv <"$tmp/mine.txt" |
  grep -c '^methods,chain,,tokens,')" 1

# Methods that choose among samples have nothing to choose from without -N.
bench "${phone[@]}" --prompts "$tmp/mine.txt" --methods vote,best-of-n,sample
check_has 'the text without -N' "$out" \
  'only one sample each (try -N 8): vote, best-of-n'
bench "${phone[@]}" --prompts "$tmp/mine.txt" --methods vote -N 2
check_lacks 'the text with -N' "$out" 'one sample each'

bench "${phone[@]}" -t 1 --tasks qa,math --items 1 --json --methods \
  autoregressive,lever --sets "few: tree-rows=5; draft=oracle:0.9; clock=soc:sd8gen2"
check_eq 'status with --json' "$status" 0
check_eq 'lines of --json' "$(wc -l <"$tmp/out")" 1
if command -v python3 >/dev/null; then
  cp "$tmp/out" "$tmp/object"
  run_ok python3 -c '
import json, sys
o = json.load(open(sys.argv[1]))
assert o["version"] == 1 and o["bench"] == "methods"
assert o["simulated_acceptance"] is True and o["items"] == 2
rows = {(r["method"], r["set"]): r for r in o["tables"]["methods"]}
gen2 = "clock=soc:sd8gen2"
plain = "autoregressive"
assert list(rows) == [(plain, ""), (plain, gen2), ("lever", ""),
                      ("lever", "few"), ("lever", "draft=oracle:0.9"),
                      ("lever", gen2)], rows
first = rows[plain, ""]
assert first["over_first"] == 1 and first["accepted_length"] == 1
for (m, s), r in rows.items():
    # Figures are consistent with one another.
    length = r["tokens"] / r["passes"]
    assert abs(r["accepted_length"] / length - 1) < 1e-6, r
    assert abs(r["pass_s"] * r["passes"] / r["seconds"] - 1) < 1e-6, r
    times = r["tokens_per_s"] / first["tokens_per_s"]
    assert abs(r["over_first"] / times - 1) < 1e-6, r
    watts = r["joules_per_token"] * r["tokens"] / r["seconds"]
    assert 1 < watts < 20, watts
    # Lossless: as many tokens, whatever the way.
    assert r["tokens"] == first["tokens"], r
kept = {(r["method"], r["set"]): r for r in o["tables"]["rows"]}
for k, r in kept.items():
    # A row of a graph is one of three, and each token but the first of an
    # item was one that is kept.
    all = r["valid"] + r["wasted"] + r["underutilized"]
    assert abs(all - 1) < 1e-6, r
    valid = r["valid"] * r["graph_rows"]
    assert abs(valid - rows[k]["tokens"]) < 1e-3, (r, rows[k])
    assert r["valid_of_tiles"] <= r["valid"], r
assert kept[plain, ""]["valid"] == 1, kept
# The older phone is slower, and an oracle that agrees more drafts better.
assert rows[plain, gen2]["tokens_per_s"] < first["tokens_per_s"]
assert rows["lever", "draft=oracle:0.9"]["accepted_length"] > 2
tasks = {(r["method"], r["set"]): r for r in o["tables"]["tasks"]}
for k, r in tasks.items():
    mean = (r["qa"] * r["math"]) ** 0.5
    assert abs(r["geometric_mean"] / mean - 1) < 1e-6, r
    assert abs(rows[k]["tokens_per_s"] / mean - 1) < 1e-6, r
' "$tmp/object"
fi

# With a diffusion method beside others each method has its own model.
bench "${phone[@]}" -t 1 --tasks qa --items 1 --methods autoregressive,llada \
  --block 8 --block-steps 4 --csv
check_eq 'status with llada' "$status" 0
check_has 'figures with llada' "$out" 'methods,llada,,tokens,12'
bench "${phone[@]}" -t 1 --tasks qa --items 1 --block 8 --block-steps 4 \
  --methods autoregressive,llada,best-of-n
check_eq 'status with three models' "$status" 0
check_eq 'models of the rows' "$(awk '$2 == "target" || $2 == "diffusion" {
  print $1, $2 }' "$tmp/out" | sort -u)" 'autoregressive target
best-of-n target
llada diffusion'
check_lacks 'the head' "$out" 'target.gguf'
# Of one sample that is chosen at the end a token takes a pass, as of plain text.
awk '$1 == "autoregressive" && $2 == "target" && !a { a = $3 }
  $1 == "best-of-n" && !b { b = $3 }
  END { exit !(b > a / 3 && b < a * 3) }' "$tmp/out" ||
  fail "best-of-n is not about as fast as plain decoding: $out"
checks=$((checks + 1))

# An oracle that drafts for a sample needs the text first.
bench "${phone[@]}" --tasks qa --items 1 --methods sample --draft oracle:0.9
check_eq 'status with an oracle for a sample' "$status" 0
check_has 'the text' "$out" 'Acceptance is simulated'
checks=$((checks + 1))
awk '$1 == "sample" && !seen++ { exit !($4 > 1.5) }' "$tmp/out" ||
  fail "the sample's accepted length is not above 1.5: $out"

# ---- on this machine's clock ------------------------------------------------
run_ok "$TANDEM" synth --like tiny -o "$tmp/tiny.gguf"
run_ok "$TANDEM" convert "$tmp/tiny.gguf" "$tmp/tiny.tdm"
bench -m "$tmp/tiny.tdm" --draft oracle:0.8 --tasks none --items 1 -n 12 --spin 0 \
  --methods autoregressive,chain --rounds 2 --csv --sets \
  "dram-budget=0%; precision=f32; quoted,so: predict=6"
check_eq 'status on an image' "$status" 0
check_has '--csv' "$out" 'run,,,simulated_acceptance,1'
# Of a kind of text three are compared with the first, and so again.
check_has '--csv' "$out" 'run,,,same_texts,14'
check_has '--csv' "$out" 'methods,chain,"quoted,so",tokens,10'
check_lacks '--csv without a phone' "$out" joules

# ---- plots -------------------------------------------------------------------
if command -v gnuplot >/dev/null; then
  bench "${phone[@]}" -t 1 --tasks qa,ui --items 1 --methods autoregressive,chain \
    --sets draft-len=2 --plot "$tmp/svg"
  check_eq 'status with --plot' "$status" 0
  check_eq 'stderr with --plot' "$err" ''
  check_eq 'plots' "$(cd "$tmp/svg" && echo *)" 'methods.svg rows.svg tasks.svg'
  check_has 'shares' "$(cat "$tmp/svg/rows.svg")" '> 100</'
  check_lacks 'shares' "$(cat "$tmp/svg/rows.svg")" '> 120</'
  for part in '</svg>' 'model target.gguf, clock soc:sd8gen3, 2 items of qa, ui' \
    'tokens/s' 'tokens a pass' 'mJ a token' 'chain draft-len=2'; do
    check_has 'a plot' "$(cat "$tmp/svg/methods.svg")" "$part"
  done
fi
finish
