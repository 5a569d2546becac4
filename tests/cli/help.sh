#!/usr/bin/env bash
# Every command explains itself, and misuse points to the explanation.
. "$(dirname "$0")/lib.sh"

commands='run chat serve eval score perplexity logits tokenize detokenize inspect convert verify
  synth history bench merge trace doctor'

mkdir "$tmp/helps" "$tmp/pages"
check_help() { # WHAT: $out is a help text of it; whether it fits is seen below
  printf '%s\n' "$out" >"$tmp/helps/$1"
  check_eq "status of $1" "$status" 0
  check_eq "stderr of $1" "$err" ''
  check_has "stdout of $1" "$out" 'Usage: '
  check_has "stdout of $1" "$out" '--help'
}

run "$TANDEM" --help
check_help 'tandem --help'
for c in $commands; do
  check_has 'tandem --help' "$out" " $c "
done
whole=$out
run "$TANDEM" help
check_help 'tandem help'
check_eq 'tandem help' "$out" "$whole"

for c in $commands; do
  run "$TANDEM" "$c" --help
  check_help "tandem $c --help"
  check_has "tandem $c --help" "$out" "Usage: tandem $c"
  one=$out
  run "$TANDEM" help "$c"
  check_help "tandem help $c"
  check_eq "tandem help $c" "$out" "$one"
  run "$TANDEM" "$c" -h
  check_eq "tandem $c -h" "$out" "$one"

  run_ok "$TANDEM" "$c" --help all
  check_help "tandem $c --help all"
  misuse "$TANDEM" "$c" --no-such-option
  check_has "stderr of tandem $c --no-such-option" "$err" "'--no-such-option'"
done

run_ok "$TANDEM" --version
check_has 'tandem --version' "$out" 'tandem '
version=$out
run_ok "$TANDEM" -v
check_eq 'tandem -v' "$out" "$version"
run_ok "$TANDEM_NPU" --version
version=$out
run_ok "$TANDEM_NPU" -v
check_eq 'tandem-npu -v' "$out" "$version"
run_ok "$tandem_stress" --version
check_eq 'tandem-stress --version' "$out" "${version/npu/stress}"

# All options are in --help all: those that are completed.
run_ok "$TANDEM" help --completion
for c in run serve chat eval 'bench methods'; do
  options=$(sed -n "s/^\t${c/ /-}:\*) options=' \([^']*\)'.*/\1/p" "$tmp/out")
  check_has "options of $c" "$options" --va-window
  # shellcheck disable=SC2086 # words
  "$TANDEM" $c --help all >"$tmp/all"
  # Each is there once, in the left column.
  check_eq "options that tandem $c --help all does not have once" \
    "$(awk -v options="$options" '
      { match($0, /^ */); left = RLENGTH; sub(/^ *(-., )?/, "") }
      left >= 2 && left <= 6 { n[$1]++ }
      END {
        count = split(options, option, " ")
        for (i = 1; i <= count; i++)
          if (option[i] ~ /^--/ && n[option[i]] != 1)
            print option[i], n[option[i]] + 0
      }' "$tmp/all")" ''
done
run_ok "$TANDEM" run --help window
check_has 'a group' "$out" --va-slots
check_lacks 'a group' "$out" --model
run_ok "$TANDEM" help run window
check_has 'a group' "$out" --va-slots
misuse "$TANDEM" run --help windw
check_has 'stderr' "$err" "'window'"
for topic in methods:llada-npu drafts:suffix tasks:qa-long shapes:llama3.1-8b \
  clocks:soc:sd8elite models:reward-small; do
  run_ok "$TANDEM" help "${topic%%:*}"
  check_has "help ${topic%%:*}" "$out" "  ${topic#*:} "
  check_eq "lines of help ${topic%%:*} wider than a terminal" \
    "$(awk 'length($0) > 80' "$tmp/out")" ''
done

misuse "$TANDEM"
misuse "$TANDEM" no-such-command
check_has 'stderr' "$err" no-such-command
misuse "$TANDEM" help no-such-command
misuse "$TANDEM" --no-such-option
misuse "$TANDEM" run --top-k
misuse "$TANDEM" run --top-k some
check_has 'stderr' "$err" "'some'"
misuse "$TANDEM" run --tmep 1 -m x -p y
check_has 'stderr' "$err" "'--temp'"

# Options that exclude each other, or lack something.
while IFS='|' read -r line message; do
  # shellcheck disable=SC2086 # words
  misuse "$TANDEM" $line
  check_has "stderr of tandem $line" "$err" "$message"
done <<'EOF'
run --system x hello|--system needs --chat
run --ids --json hello|--ids and --json exclude each other
run --top-p 0 hello|--top-p must be more than 0
chat --clock soc:nokia3310|nokia3310
serve --clock soc:nokia3310|nokia3310
serve --listen 127.0.0.1:0 --port 0|--listen and --port exclude each other
perplexity x.txt --clock soc:nokia3310|nokia3310
score x.jsonl --clock soc:nokia3310|nokia3310
score x.jsonl --step-end=|--step-end is empty
logits -o x|give either --ids or --ids-file
logits --ids 1 --ids-file x -o x|give either --ids or --ids-file
logits --ids 1|no output file
logits --ids 1 -o x --clock soc:nokia3310|nokia3310
synth -o x|no shape for the model
synth --like tiny|no file to write
synth --like tiny -o -|-o needs a file
eval qa --show 1 --shard 1/2|--show and --shard exclude each other
history forget|unknown action 'forget'
merge --json --csv x.json|--json and --csv exclude each other
bench --rounds 1 methods|options of 'methods' must come after its name
EOF

run "$TANDEM_NPU" --help
check_help 'tandem-npu --help'
misuse "$TANDEM_NPU" --no-such-option
run "$tandem_stress" --help
check_help 'tandem-stress --help'
misuse "$tandem_stress" --no-such-option
misuse "$TANDEM" stress ring
check_has stderr "$err" tandem-stress

# A page for each command, from the table that its help comes from.
check_page() { # NAME COMMAND...: what prints tandem-NAME(1)
  local name=$1
  run_ok "${@:2}"
  check_has "page $1" "$out" ".TH ${name^^} 1 "
  check_has "page $1" "$out" '
.SH OPTIONS'
  printf '%s\n' "$out" >"$tmp/pages/${name//\\/}.1"
}
run_ok "$TANDEM" help --man
cp "$tmp/out" "$tmp/overview"
check_has 'man page' "$out" '.TH TANDEM 1'
pages=$(sed -n 's/^\\fBtandem\\-\(.*\)\\fR(1)$/\1/p' "$tmp/overview" |
  tr -d '\\' | tr - ' ')
for c in $commands; do
  check_has 'the list of pages' "
$pages
" "
$c
"
done
check_has 'the list of pages' "$pages" 'history prune'
while read -r c; do
  # shellcheck disable=SC2086 # words
  check_page "tandem\\-${c// /\\-}" "$TANDEM" help --man $c
  [[ $c == *' '* ]] || continue # help of others is seen above
  # shellcheck disable=SC2086
  run "$TANDEM" help $c
  check_help "help of $c"
  check_has "help of $c" "$out" "Usage: tandem $c"
  # shellcheck disable=SC2086
  run "$TANDEM" $c --help all
  check_help "help of $c, all"
done <<<"$pages"
check_page 'tandem\-npu' "$TANDEM_NPU" --man
check_page 'tandem\-stress' "$tandem_stress" --man
if command -v mandoc >/dev/null; then
  check_eq 'errors in pages' \
    "$(mandoc -T lint -W warning "$tmp"/pages/* | grep -v 'missing date')" ''
else
  echo 'not checked: mandoc is not there'
fi
check_eq 'helps that do not fit 40 lines' \
  "$(wc -l "$tmp"/helps/* | awk '$1 > 40 && !/ total$/ && !/ all$/')" ''
check_eq 'lines of help wider than a terminal' \
  "$(awk 'length($0) > 80 { print FILENAME ": " $0 }' "$tmp"/helps/*)" ''
misuse "$TANDEM" help --man no-such-command

# Each option is named in a document and in a test: there as --NAME, NAME= or
# "NAME".
sed -nE 's/^ {2,6}(-., )?--([a-z][a-z0-9-]*).*/\2/p' "$tmp"/helps/* |
  LC_ALL=C sort -u >"$tmp/options"
unnamed() { # PATTERN FOLDER...: the options that no file there names
  grep -rIohE -e "$@" | sed -E 's/^(--|")//; s/[="]$//' | LC_ALL=C sort -u |
    LC_ALL=C comm -23 "$tmp/options" -
}
checks=$((checks + 1))
[ "$(wc -l <"$tmp/options")" -gt 200 ] || fail 'too few options in all help'
check_eq 'options that no document names' \
  "$(unnamed '--[a-z][a-z0-9-]*' docs README.md)" ''
check_eq 'options that no test names' \
  "$(unnamed '--[a-z][a-z0-9-]*|[a-z][a-z0-9-]*=|"[a-z][a-z0-9-]*"' tests)" ''

# An output that cannot be written is a failure, not a silence.
if [ -w /dev/full ]; then
  run bash -c '"$TANDEM" --help >/dev/full'
  check_eq 'status of help to a full disk' "$status" 1
fi
finish
