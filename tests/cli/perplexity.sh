#!/usr/bin/env bash
# tandem perplexity: the figures of another program from the same logits,
# the same however the pair is run, and near in every precision and layout.
. "$(dirname "$0")/lib.sh"

model=$tmp/tiny.gguf
run_ok "$TANDEM" synth --like tiny -o "$model"

# total NAME: that member of the total.
total() {
  local out=${out#*'"total":'}
  json "$1"
}

check_near() { # WHAT GOT WANT BOUND: within the relative bound
  checks=$((checks + 1))
  awk -v a="$2" -v b="$3" -v bound="$4" 'BEGIN {
    d = a - b; if (d < 0) d = -d
    if (b < 0) b = -b
    exit !(a ~ /^[-+.0-9e]+$/ && b + 0 > 0 && d <= bound * b)
  }' || fail "$1 is '$2', not within $4 of '$3'"
}
check_far() { # WHAT A B BOUND: further apart than the relative bound
  checks=$((checks + 1))
  awk -v a="$2" -v b="$3" -v bound="$4" 'BEGIN {
    d = a - b; if (d < 0) d = -d
    exit !(d > bound * b)
  }' || fail "$1: '$2' and '$3' are within $4"
}

# nll_in LOGITS IDS FIRST: from a file of logits after each id: the number of
# ids from FIRST (0, 1, ..) on, the sum of their nll, and the sum of its
# squares.
nll_in() {
  local rows
  rows=$(($(wc -w <<<"$2") - 1))
  od -An -v -t f4 -w$(($(stat -c %s "$1") / rows)) "$1" |
    awk -v ids="$2" -v first="$3" '
      BEGIN { split(ids, id, " ") }
      NR >= first {
        most = $1
        for (v = 2; v <= NF; v++)
          if ($v > most)
            most = $v
        sum = 0
        for (v = 1; v <= NF; v++)
          sum += exp($v - most)
        nll = log(sum) + most - $(id[NR + 1] + 1)
        count++
        all += nll
        squares += nll * nll
      }
      END { printf "%d %.12g %.12g\n", count, all, squares }'
}

# nll_of IDS FIRST: the same from the output of tandem logits.
nll_of() {
  "$TANDEM" logits -m "$model" --ids "${1% *}" --precision f32 \
    --layout rows -o "$tmp/logits" && nll_in "$tmp/logits" "$1" "$2"
}

# ---- a text, compared with another program ----------------------------------
text=$tmp/story.txt
echo 'Once upon a time a dog saw 12 cats; one of them was red.' >"$text"
read -ra id < <("$TANDEM" tokenize -m "$model" --bos <"$text" | xargs)
bos=$("$TANDEM" tokenize -m "$model" --bos </dev/null | xargs)
n=${#id[@]}
checks=$((checks + 1))
[ "$n" -gt 30 ] || fail "the text has only $n tokens"

ppl() { # OPERAND OPTION...
  local operand=$1
  shift
  run_ok "$TANDEM" perplexity "$operand" -m "$model" --json -t 1 "$@"
}

windows() { # SIZE: what the windows of that size give by the logits
  local size=$1 at window
  for ((at = 0; at + size <= n; at += size)); do
    window=${id[*]:at:size}
    [ -z "$bos" ] || window="$bos ${window#* }"
    nll_of "$window" $((size / 2 + 1))
  done | awk '{ n += $1; s += $2; q += $3 }
    END { printf "%d %.12g %.12g\n", n, s, q }'
}

for size in 9 14 "$n"; do
  read -r count sum squares < <(windows "$size")
  many=$((n / size))
  ppl "$text" --window "$size" --precision f32 --layout rows
  is "tokens in windows of $size" tokens "$count"
  check_eq "tokens there should be in windows of $size" "$count" \
    $((many * (size - size / 2 - 1)))
  check_near "sum in windows of $size" "$(json nll_sum)" "$sum" 1e-6
  check_near "mean in windows of $size" "$(json nll_mean)" \
    "$(awk -v n="$count" -v s="$sum" 'BEGIN { print s / n }')" 1e-5
  check_near "perplexity in windows of $size" "$(json perplexity)" \
    "$(awk -v n="$count" -v s="$sum" 'BEGIN { print exp(s / n) }')" 1e-4
  is "passages of $size" passages $many
  is "tokens read in windows of $size" read_tokens \
    $((many * (size - 1)))
  is window window "$size"
done
# The interval of the last one.
bounds=$(awk -v n="$count" -v s="$sum" -v q="$squares" 'BEGIN {
  half = 1.959963984540054 * sqrt((q / n - s * s / n / n) / (n - 1))
  printf "%.4f %.4f", exp(s / n - half), exp(s / n + half)
}')
check_near 'low' "$(json interval_95 | tr -d '[]' | cut -d , -f 1)" \
  "${bounds% *}" 1e-4
check_near 'high' "$(json interval_95 | tr -d '[]' | cut -d , -f 2)" \
  "${bounds#* }" 1e-4
whole_sum=$(json nll_sum) whole_hash=$(json logits_hash)
# The context is longer than the text: one window, and all tokens are read.
ppl "$text" --precision f32 --layout rows
is 'sum without --window' nll_sum "$whole_sum"
is 'hash without --window' logits_hash "$whole_hash"
ppl "$text" --window 9 --items 1 --precision f32 --layout rows
is 'passages with --items 1' passages 1
ppl "$text" --ctx 24 --precision f32
is 'window with --ctx 24' window 24
# shellcheck disable=SC2016 # the inner shell's own $
run_ok bash -c '"$0" perplexity - -m "$1" --json <"$2"' \
  "$TANDEM" "$model" "$text"
is 'tokens of standard input' tokens "$count"

# ---- items, likewise --------------------------------------------------------
items=$tmp/qa.jsonl
: >"$items"
item() { # ID PROMPT ANSWER
  printf '{"id":"%s","prompt":"%s","answer":"%s","check":"text"}\n' "$@" \
    >>"$items"
}
item qa-0 'Hello world' ' of cats'
item qa-1 'A dog' ' x'
item qa-2 'A dog sat on the red moon' ' and it was 12 feet'
ids_of() { # FLAG TEXT
  printf %s "$2" | "$TANDEM" tokenize -m "$model" ${1:+"$1"} | xargs
}
# The id of the end token, as the model's file has it.
run_ok "$TANDEM" inspect "$model"
eos=$(awk '$1 == "tokenizer.ggml.eos_token_id" { print $3 }' <<<"$out")
checks=$((checks + 1))
[ -n "$eos" ] || fail 'the model has no end token'
while IFS='|' read -r prompt answer; do
  head=$(ids_of --bos "$prompt")
  both=$(ids_of --bos "$prompt$answer")
  nll_of "$both $eos" "$(wc -w <<<"$head")"
done >"$tmp/nll" <<'END'
Hello world| of cats
A dog| x
A dog sat on the red moon| and it was 12 feet
END
check_eq 'items computed' "$(wc -l <"$tmp/nll")" 3
ppl "$items" --precision f32 --layout rows
is 'tokens of the items' tokens \
  "$(awk '{ n += $1 } END { print n }' "$tmp/nll")"
check_near 'sum of the items' "$(json nll_sum)" \
  "$(awk '{ s += $2 } END { printf "%.12g", s }' "$tmp/nll")" 1e-6
is text text '"qa"'
is window window null
is complete complete true
is error error null
is 'version' version 1
check_eq 'total of one row' "$(total nll_sum)" "$(json nll_sum)"
want=$(json nll_sum)
ppl "$items" --items 2 --precision f32 --layout rows
check_near 'sum of two items' "$(json nll_sum)" \
  "$(awk 'NR < 3 { s += $2 } END { printf "%.12g", s }' "$tmp/nll")" 1e-6
is 'passages' passages 2

# ---- the same however it is run ---------------------------------------------
same() { # OPTION...
  ppl "$items" --precision f32 --layout rows "$@"
  is "sum with $*" nll_sum "$want"
}
same --threads 1 --coherence strict
same --threads 3 --coherence check
same --prefill-chunk 2 --doorbell eventfd --ctx 64
tac "$items" >"$tmp/back.jsonl"
ppl "$tmp/back.jsonl" --precision f32 --layout rows
check_near 'sum in another order' "$(json nll_sum)" "$want" 1e-12

# Weights that tiles hold without loss give the same but for rounding; the
# others are near, and not the same.
ppl "$text" --precision f32 --layout rows
want=$(json nll_mean)
is layout layout '"rows"'
ppl "$text" --precision f32 --layout tiles
check_near 'mean with f32 in tiles' "$(json nll_mean)" "$want" 1e-4
is layout layout '"tiles"'
for precision in f16-kv16 f16 int8 npu; do
  for layout in rows tiles groups super; do
    ppl "$text" --precision $precision --layout $layout
    check_near "mean with $precision in $layout" "$(json nll_mean)" "$want" \
      0.1
    is precision precision "\"$precision\""
    [ $precision-$layout != int8-tiles ] ||
      check_far 'means with int8 and f32' "$(json nll_mean)" "$want" 1e-9
  done
done

# ---- the table --------------------------------------------------------------
run_ok "$TANDEM" perplexity "$items" -m "$model" --precision f32
check_eq 'lines of the table' "$(wc -l <<<"$out")" 2
check_has 'the table' "$(tr -s ' ' <<<"$out")" 'qa '
check_lacks 'the table' "$out" total
check_eq stderr "$err" ''
item qa-3 'A dog' ' x'
head -n 1 "$items" >"$tmp/one.jsonl"
mkdir -p "$tmp/models/tasks"
for task in summary qa ui reply math code {summary,qa,ui,reply}-long \
  story report email program chat; do
  cp "$tmp/one.jsonl" "$tmp/models/tasks/$task.jsonl"
done
cp "$items" "$tmp/models/tasks/qa.jsonl"
cp "$model" "$tmp/models/target.gguf"
export TANDEM_MODELS=$tmp/models
run_ok "$TANDEM" perplexity all --precision f32
check_eq 'lines of the table of all' "$(wc -l <<<"$out")" 17
check_has 'the table of all' "$out" $'\ntotal '
run_ok "$TANDEM" perplexity all --precision f32 --json
check_eq 'tokens of all' "$(total tokens)" \
  "$(grep -oE '"passages":[0-9]+,"tokens":[0-9]+' <<<"$out" |
    awk -F: '{ n += $3 } END { print n }')"
check_near 'sum of all' "$(total nll_sum)" \
  "$(grep -oE '"nll_sum":[-+.0-9e]+' <<<"${out%%'"total"'*}" |
    awk -F: '{ s += $2 } END { printf "%.17g", s }')" 1e-12
run_ok "$TANDEM" perplexity qa --json
is 'passages of a task' passages 4
if command -v python3 >/dev/null; then
  cp "$tmp/out" "$tmp/object"
  run_ok python3 -c '
import json, sys
o = json.load(open(sys.argv[1]))
row = o["rows"][0]
assert o["command"] == "perplexity" and o["precision"] == "int8"
assert o["layout"] == "tiles" and len(o["rows"]) == 1
assert abs(row["nll_sum"] / row["tokens"] - row["nll_mean"]) < 1e-12
assert row["interval_95"][0] < row["perplexity"] < row["interval_95"][1]
' "$tmp/object"
fi
unset TANDEM_MODELS

# ---- errors -----------------------------------------------------------------
misuse "$TANDEM" perplexity
check_has stderr "$err" summary
misuse "$TANDEM" perplexity qa ui
misuse "$TANDEM" perplexity qa --window 16
check_has stderr "$err" --window
misuse "$TANDEM" perplexity "$items" --window 16
misuse "$TANDEM" perplexity "$text" --window 1
check_has stderr "$err" '2 or more'
refuse() { # PART OPERAND OPTION...
  local part=$1
  shift
  run "$TANDEM" perplexity "$@"
  check_eq "status of: $*" "$status" 1
  check_eq "stdout of: $*" "$out" ''
  check_has "stderr of: $*" "$err" "$part"
}
refuse 'no task of that name' no-such-task -m "$model"
refuse none.txt "$tmp/none.txt" -m "$model"
refuse none.jsonl "$tmp/none.jsonl" -m "$model"
: >"$tmp/empty.txt"
refuse 'too short' "$tmp/empty.txt" -m "$model"
refuse "'qa-2'" "$items" -m "$model" --ctx 16
refuse --window "$text" -m "$model" --window 40 --ctx 20
echo '{"id":"x"}' >"$tmp/bad.jsonl"
refuse "bad.jsonl', line 1" "$tmp/bad.jsonl" -m "$model"
run_ok "$TANDEM" synth --like tiny-llada -o "$tmp/llada.gguf"
refuse 'is a diffusion model' "$items" -m "$tmp/llada.gguf"
check_lacks stderr "$err" --method
if [ -w /dev/full ]; then
  # shellcheck disable=SC2016 # the inner shell's own $
  run bash -c '"$0" perplexity "$1" -m "$2" >/dev/full' \
    "$TANDEM" "$items" "$model"
  check_eq 'status of a table to a full disk' "$status" 1
fi

# ---- ended early ------------------------------------------------------------
lines=$(<"$items")
for _ in {1..150}; do printf '%s\n' "$lines"; done >"$tmp/long.jsonl"
# interrupt COMMAND...: SIGINT once a terminal shows how far it is, so that some
# items are done. They come slowly and the 40th never, so that it is at work
# then however busy the machine is.
interrupt() {
  run python3 -c '
import os, pty, subprocess, sys
terminal, end = pty.openpty()
p = subprocess.Popen(sys.argv[1:], stderr=end)
os.close(end)
said = b""
while True:
    try:
        said += os.read(terminal, 4096)
    except OSError: # it has ended
        break
    if said.startswith(b"\rlong "):
        p.send_signal(2)
        said = b" " + said
os.write(2, said)
sys.exit(p.wait())
' "$@" --fault late=100@run#1+,hang@run#40 --device-timeout 0
}
for form in '' --json; do
  # shellcheck disable=SC2086 # an option, or none
  interrupt "$TANDEM" perplexity "$tmp/long.jsonl" -m "$model" -t 1 $form
  check_eq 'status after Ctrl-C' "$status" 130
  check_has 'stderr after Ctrl-C' "$err" 'interrupted after'
  if [ -z "$form" ]; then
    check_has 'stdout after Ctrl-C' "$out" 'long '
    check_lacks 'stdout after Ctrl-C' "$out" total
  else
    is 'complete' complete false
    check_lacks 'tokens after Ctrl-C' "$out" '"tokens":0,'
  fi
done
TANDEM_NPU_FAULT=die-after:300 run "$TANDEM" perplexity "$tmp/long.jsonl" \
  -m "$model" --restarts 0 -t 1
check_eq 'status when the device dies' "$status" 3
check_has 'stdout when the device dies' "$out" 'long '

# ---- models that know something -------------------------------------------
# A text in one window, its logits by another program.
golden=${TANDEM_DATA:-}/golden/llama2c
if [ -e "$golden/greedy_0.ids" ]; then
  model=$TANDEM_DATA/models/stories260K-f32.gguf
  stories=(0)
  ! full || stories+=(2)
  for i in "${stories[@]}"; do
    ids="1 $(sed -n 's/^next_tokens: //p' "$golden/greedy_$i.ids" | xargs)"
    n=$(wc -w <<<"$ids")
    head -c -1 "$golden/greedy_$i.txt" >"$text"
    read -r count sum squares < <(nll_in "$golden/greedy_$i.logits.f32" \
      "$ids" $((n / 2 + 1)))
    for layout in rows tiles; do
      ppl "$text" --precision f32 --layout $layout
      is "tokens of story $i" tokens "$count"
      check_near "sum of story $i" "$(json nll_sum)" "$sum" 1e-4
    done
  done
fi

export TANDEM_MODELS=$root/flash/models
if [ -e "$TANDEM_MODELS/target.gguf" ]; then
  low() { # MODEL: check that the perplexity is that of a trained model
    checks=$((checks + 1))
    awk -v p="$(total perplexity)" 'BEGIN { exit !(p > 1 && p < 2) }' ||
      fail "perplexity of $1 is '$(total perplexity)'"
  }
  # The long texts are read by the small model, and by both in the full test.
  some=(-m small --items 1)
  ! full || some=(--items 5)
  run_ok "$TANDEM" perplexity all "${some[@]}" --json
  check_eq 'rows of all' "$(grep -o '"nll_mean"' <<<"$out" | wc -l)" 16
  low "all with ${some[*]}"
  run_ok "$TANDEM" perplexity qa --items 2 --json
  low 'the target'
fi
finish
