#!/usr/bin/env bash
# Methods that choose one of many samples: the samples are those of plain
# decoding with the same random numbers, and another program makes the same
# choice from the reported scores.
. "$(dirname "$0")/lib.sh"

export TANDEM_MODELS=$root/flash/models
for name in small target reward-small; do
  [ -e "$TANDEM_MODELS/$name.gguf" ] || skip "no flash/models/$name.gguf"
done
command -v python3 >/dev/null || skip 'no python3'

problem='Problem: George has 7 boxes with 16 eggs in each. Later he sells half of the eggs. He puts the eggs into 8 bowls, the same number in each. How many eggs are in each bowl?
Solution:'
choose() { # OPTION...
  run_ok "$TANDEM" run -m small -p "$problem" -n 80 --temp 0.8 -t 1 --json "$@"
}

run_ok "$TANDEM" run -m small -p "$problem" -n 80
plain=$out
methods=(vote self-certainty mean-logprob best-of-n weighted-vote)
for method in sample "${methods[@]}"; do
  choose --method $method -N 6
  printf '%s\n' "$out" >"$tmp/$method"
done
for method in "${methods[@]}"; do
  # One sample is plain decoding, the default.
  run_ok "$TANDEM" run -m small -p "$problem" -n 80 --method $method -N 1
  check_eq "one sample of $method" "$out" "$plain"
done
for how in min prod; do
  choose --method best-of-n -N 6 --aggregate $how
  printf '%s\n' "$out" >"$tmp/$how"
done
choose --method vote -N 12 --early-stop --confidence-keep 0 --consensus 2
check_has 'the samples of early stop' "$out" '"state":"cut"'
printf '%s\n' "$out" >"$tmp/early"
# The same text, although some samples are cut.
many=8
! full || many=12
for method in 'vote --parallel 3' 'best-of-n --temp 1.5' \
  'best-of-n --temp 1.5 --aggregate prod --step-tokens 4'; do
  # shellcheck disable=SC2086 # a method and its options
  choose --method $method -N $many --seed 7
  all=$(jq -r .text <"$tmp/out")
  # shellcheck disable=SC2086
  choose --method $method -N $many --seed 7 --stop-decided
  check_has "samples of $method" "$out" '"state":"cut"'
  check_eq "the text of $method" "$(jq -r .text <"$tmp/out")" "$all"
  check_eq "cut samples of $method" \
    "$(jq '.sampling.cut == ([.samples[] | select(.state == "cut")] | length)' \
      <"$tmp/out")" true
done

# What another program makes of them.
checks=$((checks + 1))
python3 - "$tmp" "${methods[@]}" >"$tmp/wrong" 2>&1 <<'PY' ||
import json, math, re, sys

def read(name):
    return json.load(open(f"{sys.argv[1]}/{name}"))

def ids(o):
    return [s["ids"] for s in o["samples"]]

def recount(how, o):
    samples = [s for s in o["samples"] if s["state"] == "ended"]
    chosen = [s for s in o["samples"] if s["chosen"]]
    assert len(chosen) == 1 and chosen[0]["text"] == o["text"], chosen
    def last(s):
        return re.findall(r"\d+", s["text"])[-1]
    def score(s):
        return s["steps"][-1]["score"]
    weight = {"vote": lambda s: 1, "weighted-vote": score,
              "self-certainty": lambda s: None}.get(how)
    if how in ("vote", "weighted-vote"):
        sums = {}
        for s in samples:
            assert s["answer"] == last(s), s
            sums[last(s)] = sums.get(last(s), 0) + weight(s)
        best = max(sums.values())
        assert abs(sums[last(chosen[0])] - best) < 1e-5, (sums, chosen)
        assert abs(o["answers"][0]["weight"] - best) < 1e-5, o["answers"]
        assert sum(a["votes"] for a in o["answers"]) == len(samples)
    elif how == "self-certainty":
        order = sorted(samples, key=lambda s: -s["certainty"])
        sums = {}
        for rank, s in enumerate(order):
            sums[last(s)] = sums.get(last(s), 0) + (len(order) - rank) ** .5
        assert abs(sums[last(chosen[0])] - max(sums.values())) < 1e-6, sums
    elif how == "mean-logprob":
        mean = lambda s: s["logprob"] / len(s["ids"])
        assert mean(chosen[0]) == max(map(mean, samples))
    else:
        assert score(chosen[0]) == max(map(score, samples)), samples
        assert all(0 <= t["score"] <= 1 for s in samples for t in s["steps"])

plain = ids(read("sample"))
assert len(plain) == 6
for method in sys.argv[2:]:
    o = read(method)
    assert ids(o) == plain, ("other samples", method)
    recount(method, o)
for how, f in ("min", min), ("prod", math.prod):
    o = read(how)
    value = [f(t["score"] for t in s["steps"]) for s in o["samples"]]
    got = [s["score"] for s in o["samples"]]
    assert all(abs(a - b) < 1e-5 for a, b in zip(value, got)), (value, got)
    assert o["samples"][got.index(max(got))]["chosen"]
o = read("early")
assert all(s["state"] == "ended" for s in o["samples"][:4]), o
assert sum(a["votes"] for a in o["answers"]) == \
    sum(s["state"] == "ended" for s in o["samples"])
PY
  fail "$(<"$tmp/wrong")"

# ---- conflicting options ----------------------------------------------------
misuse "$TANDEM" run -p x --method vote --aggregate min
check_has 'the reason' "$err" 'weighted-vote'
misuse "$TANDEM" run -p x --method chain -N 4
misuse "$TANDEM" run -p x --method weighted-vote --stop-decided
check_has 'the reason' "$err" 'try --method with one of: best-of-n, vote'
run "$TANDEM" run -m small -p x --method vote --stop-decided --early-stop
check_has 'the reason' "$err" 'exclude each other'
run "$TANDEM" eval math -m small --items 1 --method best-of-n --reward exact \
  --stop-decided
check_has 'the reason' "$err" 'try --aggregate min or prod'
run "$TANDEM" run -m small -p x --method vote --answer first
check_has 'the reason' "$err" 'last-number, boxed'
run "$TANDEM" run -m small -p x --method vote --answer 'regex:a('
check_has 'the reason' "$err" 'at character'
finish
