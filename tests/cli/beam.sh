#!/usr/bin/env bash
# Beam search and diverse verifier tree search with the bundled models and
# rewards: the beams kept, forked and chosen are those that another program
# derives from the reported scores; one beam is plain decoding; and without
# --temp samples are drawn at the default temperature.
. "$(dirname "$0")/lib.sh"

export TANDEM_MODELS=$root/flash/models
for name in small target reward-small; do
  [ -e "$TANDEM_MODELS/$name.gguf" ] || skip "no flash/models/$name.gguf"
done
command -v python3 >/dev/null || skip 'no python3'

problem='Problem: A shop has 29 cups. It gets 11 new cups. Bella buys 23 cups. How many cups does the shop have now?
Solution:'
write() { # OPTION...
  run_ok "$TANDEM" run -m small -p "$problem" -n 80 -t 1 "$@"
}
search() { # OPTION...
  write --json "$@"
  printf '%s\n' "$out" >"$tmp/object"
}

# All beams in the order of their beginning: those of the first round, then the
# forks of each round.
recount() { # N WIDTH METHOD
  run_ok python3 -c '
import json, sys
n, width, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
o = json.load(open(sys.argv[4]))
beams = o["samples"]
tree = n if how == "beam" else width
keep = n // width if how == "beam" else 1
value = lambda b: -b["score"] if b["score"] is not None else 1
active, made, finished, rounds = list(range(n)), n, [], 0
score_at = lambda b, k: b["steps"][k]["score"]
while active:
    left = []
    for t in range(0, len(active), tree):
        of = [beams[i] for i in active[t:t + tree]]
        place = {i: t + k for k, i in enumerate(active[t:t + tree])}
        done = [b for b in of
                if b["state"] == "ended" and len(b["steps"]) == rounds + 1]
        if how == "beam":
            finished += done
            of = [b for b in of if b not in done]
        of.sort(key=lambda b: (-score_at(b, rounds), place[b["index"]]))
        for b in of[keep:]:
            assert b in done or (b["state"] == "cut" and
                                 len(b["steps"]) == rounds + 1), b
        kept = []
        for b in of[:keep]:
            (finished if b in done else kept).append(b)
        stay = len(kept)
        for j in range(stay, tree if kept else 0):
            fork = beams[made]
            origin = kept[j % stay]
            at = origin["steps"][rounds]["tokens"]
            assert fork["index"] == made
            assert fork["stream"] == n * (1 + rounds * n + j // stay) + (
                place[origin["index"]])
            assert fork["parent"] == origin["index"], (made, fork["parent"])
            assert fork["ids"][:at] == origin["ids"][:at]
            kept.append(fork)
            made += 1
        left += [b["index"] for b in kept]
    active = left
    rounds += 1
assert made == len(beams), (made, len(beams))
best = min(finished, key=value)
assert [b["index"] for b in beams if b["chosen"]] == [best["index"]]
assert best["text"] == o["text"]
assert all(0 <= s["score"] <= 1 for b in beams for s in b["steps"]
           if s["score"] is not None)
' "$1" "$2" "$3" "$tmp/object"
}

write
plain=$out
for method in beam dvts; do
  search --method $method -N 8
  recount 8 4 $method
  search --method $method -N 6 --beam-width 3 --temp 1.2 --seed 3
  recount 6 3 $method
  # One beam is plain decoding, the default.
  write --method $method -N 1
  check_eq "one beam of $method" "$out" "$plain"
done

texts() { # into $texts, each sample's parent, state, score and text
  texts=$(jq -c '[.samples[] | [.parent, .state, .score, .text]]' "$tmp/object")
}

# The same whatever the width of a pass, and whether or not something drafts.
search --method beam -N 8 --parallel 8
texts
want=$texts
search --method beam -N 8 --parallel 3 --draft pld
texts
check_eq 'the beams of narrow passes' "$texts" "$want"
# Beams that begin their next step while others end theirs: the same text.
write --method beam -N 8 --temp 1.5
want=$out
write --method beam -N 8 --temp 1.5 --beam-ahead --stats
check_eq 'the text of beams that go ahead' "$out" "$want"
check_has 'statistics' "$err" ' early continuations used'
write --method beam -N 8 --stats
check_has 'the speed of beams' "$err" ' tokens/s, prompt included'
check_has 'statistics' "$err" ' forks, '
check_has 'statistics' "$err" ' tokens computed for a text of '

# ---- the default temperature ------------------------------------------------
search --method vote -N 4
texts
want=$texts
search --method vote -N 4 --temp 0.8
texts
check_eq 'the texts of samples without --temp' "$texts" "$want"

run_ok "$TANDEM" eval math -m small --method beam -N 4 --items 2 --json -t 1
check_has 'the temperature of eval' "$out" '"temperature":0.8'

# ---- conflicting options ----------------------------------------------------
run "$TANDEM" run -m small -p x --method beam -N 6
check_eq 'status of 6 beams by 4' "$status" 1
check_has 'the reason' "$err" '-N 6 is not a multiple of --beam-width 4'
misuse "$TANDEM" run -p x --method vote --beam-width 2
finish
