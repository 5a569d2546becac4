#!/usr/bin/env bash
# tandem score: scores of given solutions, which do not depend on other
# solutions, and the summary of marked solutions.
. "$(dirname "$0")/lib.sh"

pencils='Problem: Victor starts the week with 4 pencils. He loses 3 pencils. Sara gives him 8 pencils. How many pencils does Victor have?\nSolution:'
eggs='Problem: There are 9 boxes with 12 eggs. 7 break.\nSolution:'

line() { # ID PROMPT SOLUTION MARKS
  printf '{"id": "%s", "prompt": "%s", "solution": "%s"%s}\n' "$1" "$2" "$3" \
    "${4:+, \"marks\": [$4]}"
}
{
  line a "$pencils" ' 4 - 3 = 1.\n1 + 8 = 9.\nThe answer is 9.' 'true, true, true'
  line b "$pencils" ' 4 - 3 = 1.\n1 + 8 = 19.\nThe answer is 19.' 'true, false, false'
  line c "$pencils" ' 4 * 3 = 12.\n12 + 8 = 10.\nThe answer is 10.' 'false, false, false'
  line d "$eggs" ' 9 * 12 = 96.\nThe answer is 96.' 'false, false'
} >"$tmp/marked.jsonl"

run_ok "$TANDEM" score "$tmp/marked.jsonl" -m small
whole=$out
check_has 'the sum' "$out" 'of 2 problems with 1 to 3 solutions each are solved'
check_has 'the sum' "$out" '50.0 % by the one whose last step scores best, 50.0 % by any'
check_has 'a score' "$out" 'a: 0.9'
check_eq 'solutions' "$(grep -c '^[abcd]:' <<<"$out")" 4

# Alone, in another order, by another number of threads: the same line.
grep '"id": "b"' "$tmp/marked.jsonl" >"$tmp/b.jsonl"
run_ok "$TANDEM" score "$tmp/b.jsonl" -m small --threads 1
check_eq 'alone' "$(grep '^b:' <<<"$out")" "$(grep '^b:' <<<"$whole")"
tac "$tmp/marked.jsonl" >"$tmp/other.jsonl"
run_ok "$TANDEM" score "$tmp/other.jsonl" -m small --coherence check
check_eq 'the other way round' "$(grep '^[abcd]:' <<<"$out" | sort)" \
  "$(grep '^[abcd]:' <<<"$whole")"

# An image, and Q4_0 in an image and in a model file: equal scores of equal
# types; also for samples, while layers are streamed.
scores() { # MODEL: the lines of the solutions
  run_ok "$TANDEM" score "$tmp/marked.jsonl" -m "$1" --reward reward-small
  scores=$(grep '^[abcd]:' <<<"$out")
}
run_ok "$TANDEM" convert small "$tmp/small.tdm"
scores "$tmp/small.tdm"
check_eq 'scores on an image' "$scores" "$(grep '^[abcd]:' <<<"$whole")"
for to in q4.gguf q4.tdm; do
  run_ok "$TANDEM" convert --type q4_0 small "$tmp/$to"
done
scores "$tmp/q4.gguf"
want=$scores
scores "$tmp/q4.tdm"
check_eq 'scores on an image of Q4_0' "$scores" "$want"
want=
for how in q4.gguf q4.tdm 'q4.tdm --dram-budget 40%'; do
  # shellcheck disable=SC2086 # words
  run_ok "$TANDEM" run --method best-of-n -N 3 --reward reward-small --json \
    -n 60 -p "$(printf '%b' "$eggs")" -m "$tmp/"$how
  samples=$(jq -c '.samples[] | [.ids, .steps]' <<<"$out")
  check_eq "samples of $how" "$samples" "${want:=$samples}"
done
check_eq 'samples with rewards' "$(grep -c '"score":[0-9]' <<<"$want")" 3

# For programs: a line each, and one for all.
run_ok "$TANDEM" score "$tmp/marked.jsonl" -m small --json --clock soc:sd8gen3
check_eq 'lines' "$(wc -l <<<"$out")" 5
for member in '"command":"score"' '"id":"a"' '"marks":[true,false,false]' \
  '"solutions":4' '"steps":11' '"area_under_curve":' '"problems":2' \
  '"solved_by_any":0.5' '"phone_s":'; do
  check_has json "$out" "$member"
done
run_ok "$TANDEM" score "$tmp/marked.jsonl" -m small --json --sum
check_eq 'lines of the sum' "$(wc -l <<<"$out")" 1

# Without marks there is nothing to compare; other steps are other scores.
sed 's/, "marks.*\]}/}/' "$tmp/marked.jsonl" >"$tmp/plain.jsonl"
run_ok "$TANDEM" score "$tmp/plain.jsonl" -m small --step-end .
check_has 'steps' "$out" '4 solutions, 11 steps'
check_eq 'no marks' "$(grep -c 'problems' <<<"$out")" 0

check_refused() { # STATUS TEXT ARGS...: it fails so, and says why
  local status_want=$1 text=$2
  shift 2
  run "$TANDEM" score "$@"
  check_eq "status of score $*" "$status" "$status_want"
  check_has "stderr of score $*" "$err" "$text"
}
check_refused 2 'no input'
check_refused 1 "made for another model" "$tmp/b.jsonl" -m target --reward reward-small
check_refused 1 'tandem-exit' "$tmp/b.jsonl" --reward exit
check_refused 2 'tandem eval' "$tmp/b.jsonl" --reward exact
run_ok "$TANDEM" synth --like tiny -o "$tmp/tiny.gguf"
check_refused 1 'no bundled reward model belongs to' "$tmp/b.jsonl" -m "$tmp/tiny.gguf"
line e "$eggs" ' 1.' 'true, false' >"$tmp/bad.jsonl"
check_refused 1 "'e' has 1 step but 2 marks" "$tmp/bad.jsonl"
line f "$eggs" '' >"$tmp/bad.jsonl"
check_refused 1 "member 'solution' is empty" "$tmp/bad.jsonl"
cat "$tmp/b.jsonl" "$tmp/plain.jsonl" >"$tmp/bad.jsonl"
check_refused 1 'has no marks' "$tmp/bad.jsonl"
echo '{"prompt": "x"}' >"$tmp/bad.jsonl"
check_refused 1 "member 'solution' is missing" "$tmp/bad.jsonl"
echo '{"id": "g", "prompt": "x", "solution": 1}' >"$tmp/bad.jsonl"
check_refused 1 "'g': member 'solution' is not a string" "$tmp/bad.jsonl"
echo '{"id": "g", "prompt": "x", "solution": "y", "marks": true}' \
  >"$tmp/bad.jsonl"
check_refused 1 "'g': member 'marks' is not a list" "$tmp/bad.jsonl"
line h "$eggs" ' 1.' 'true, 1' >"$tmp/bad.jsonl"
check_refused 1 "'h': member 'marks': element 2 is neither true nor false" \
  "$tmp/bad.jsonl"
cat "$tmp/plain.jsonl" "$tmp/b.jsonl" >"$tmp/bad.jsonl"
check_refused 1 'has marks, but the first solution has none' "$tmp/bad.jsonl"
finish
