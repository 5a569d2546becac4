#!/usr/bin/env bash
# The models and items that come with the program: where they are looked for,
# and that commands use them unasked.
. "$(dirname "$0")/lib.sh"

n=6 # tokens of an output
model=$tmp/models/target.gguf
tasks=$tmp/models/tasks
mkdir -p "$tasks"
run_ok "$TANDEM" synth --like tiny -o "$model"
cp "$model" "$tmp/models/draft.gguf"
run_ok "$TANDEM" run -m "$model" -p 'A dog' -n $n
want=$out
run_ok "$TANDEM" run -m "$model" -p 'A dog' -n $n --json
answer=$(sed -nE 's/.*"text":("([^"\\]|\\.)*").*/\1/p' <<<"$out")

# One item that is right, and in qa one more that is not.
for task in summary qa ui reply math code {summary,qa,ui,reply}-long \
  story report email program chat; do
  printf '{"id":"0","prompt":"A dog","answer":%s,"check":"text"}\n' \
    "$answer" >"$tasks/$task.jsonl"
done
echo '{"id":"1","prompt":"A dog","answer":"x","check":"text"}' \
  >>"$tasks/qa.jsonl"

export TANDEM_MODELS=$tmp/models
run_ok "$TANDEM" run -p 'A dog' -n $n
check_eq 'text of the default model' "$out" "$want"
run_ok "$TANDEM" run -p 'A dog' -n $n --method chain
check_eq 'text with the default draft' "$out" "$want"
run_ok "$TANDEM" logits -m "$model" --ids '5 6 7' -o "$tmp/want"
run_ok "$TANDEM" logits --ids '5 6 7' -o "$tmp/got"
checks=$((checks + 1))
[ -s "$tmp/got" ] && cmp -s "$tmp/got" "$tmp/want" ||
  fail 'logits of the default model differ'
cannot() { # MESSAGE OPTION...: logits cannot be written
  local message=$1
  shift
  run "$TANDEM" logits "$@"
  check_eq "status of logits $*" "$status" 1
  check_has "stderr of logits $*" "$err" "$message"
}
cannot 'the list of ids is empty' --ids ' ' -o "$tmp/got"
cannot "cannot create '$tmp/no/such'" --ids 5 -o "$tmp/no/such"
cannot "cannot write '/dev/full'" --ids 5 -o /dev/full
cannot "$tmp/none.gguf" -m "$tmp/none.gguf" --ids 5 -o "$tmp/got"
run_ok "$TANDEM" eval qa -n $n --method chain
check_has 'the table' "$(tr -s ' ' <<<"$out")" 'qa 1 / 2 50.0 % '
run_ok "$TANDEM" eval --list
check_has 'the list' "$(tr -s ' ' <<<"$out")" "qa 2 items $tasks/qa.jsonl"
check_eq 'lines of the list' "$(wc -l <<<"$out")" 15
run_ok "$TANDEM" eval all -n $n
check_has 'the table of all' "$(tr -s ' ' <<<"$out")" 'mean of 15 96.7 %'
check_has 'the table of all' "$(tr -s ' ' <<<"$out")" 'code 1 / 1 100.0 %'
run_ok "$TANDEM" eval all -n $n --json
check_has 'the object of all' "$out" '"mean_accuracy":0.966666'
run_ok "$TANDEM" eval short -n $n
check_has 'the table of the short ones' "$(tr -s ' ' <<<"$out")" \
  'mean of 6 91.7 %'
run_ok "$TANDEM" eval long -n $n
check_has 'the table of the long ones' "$(tr -s ' ' <<<"$out")" \
  'mean of 4 100.0 %'
run_ok "$TANDEM" eval answers -n $n
check_has 'the table of those with long answers' "$(tr -s ' ' <<<"$out")" \
  'mean of 4 100.0 %'
rm "$tasks/math.jsonl"
run "$TANDEM" eval all
check_eq 'status without a task' "$status" 1
check_has stderr "$err" tasks/math.jsonl
run "$TANDEM" run -p x --method llada
check_eq 'status without a diffusion model' "$status" 1
check_has stderr "$err" diffusion.gguf
TANDEM_MODELS=$tmp/no-such run "$TANDEM" run -p x
check_eq 'status without models' "$status" 1
check_has stderr "$err" "$tmp/no-such"
unset TANDEM_MODELS

# The places searched by default: next to the program, in its source tree, in
# the installation prefix.
default() { # PROGRAM FOLDER
  mkdir -p "$(dirname "$1")" "$2"
  cp "$TANDEM" "$1"
  mv "$tmp/models/target.gguf" "$2"
  run_ok "$1" run -p 'A dog' -n $n
  check_eq "text of the model in $2" "$out" "$want"
  mv "$2/target.gguf" "$tmp/models"
  run "$1" run -p 'A dog' -n $n
  check_eq "status without the model in $2" "$status" 1
  check_has stderr "$err" "'$2'"
}
default "$tmp/bin/tandem" "$tmp/bin/models"
mkdir "$tmp/host"
default "$tmp/build/release/tandem" "$tmp/flash/models"
default "$tmp/usr/bin/tandem" "$tmp/usr/share/tandem/models"
finish
