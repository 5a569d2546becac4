#!/usr/bin/env bash
# Requests whose method draws several samples, from many concurrent clients:
# each answer equals that of a single client, and the samples of all requests
# share passes.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
# shellcheck disable=SC2154 # code, out, server, url, checks and tmp are theirs

# ask I: a request, in JSON.
ask() {
  echo "{\"prompt\":\"Problem: Calculate $1 * 12 * 3 / 8.\\nSolution:\"," \
    "\"max_tokens\":24,\"temperature\":0.8,\"seed\":$1}"
}

# answers OPTION...: of a server with these, four requests one after another and
# then each twice, by a client each.
answers() {
  local before alone all want i file n=0
  serve -m small --texts 8 --keep 0 --step-end ' ' "$@"
  before=$(metric passes_total)
  for i in 1 2 3 4; do
    post /v1/completions "$(ask "$i")"
    check_eq "status of $*" "$code" 200
    want[i]=$(member text)
  done
  alone=$(($(metric passes_total) - before))
  for i in 1 2 3 4 1 2 3 4; do
    echo next
    echo "url = \"$url/v1/completions\""
    echo "output = \"$tmp/answer.$((++n)).$i\""
    echo "data = \"$(ask "$i" | sed 's/[\\"]/\\&/g')\""
  done | tail -n +2 >"$tmp/asked"
  before=$(metric passes_total)
  curl -sZ --parallel-immediate -K "$tmp/asked" 2>"$tmp/progress"
  all=$(($(metric passes_total) - before))
  for file in "$tmp"/answer.*; do
    out=$(<"$file")
    i=${file##*.}
    check_eq "text of problem $i by $*" "$(member text)" "${want[i]}"
  done
  rm "$tmp"/answer.*
  checks=$((checks + 1))
  [ $all -lt $alone ] ||
    fail "eight requests took $all passes, four alone $alone: $*"
  ends INT 0
}

answers --method best-of-n -N 4
answers --method vote -N 4
answers --method beam -N 4 --beam-width 2
answers --method sample -N 3

finish
