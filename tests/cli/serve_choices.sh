#!/usr/bin/env bash
# Several texts for a prompt: they share the prompt's cache, and best_of returns
# those that the model finds likeliest.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
# shellcheck disable=SC2154 # code, out, url, checks and tmp are theirs

texts() { # of $out, one a line, in JSON
  grep -oE '"text":"([^"\\]|\\.)*"' <<<"$out"
}
means() { # of the log-probabilities of each of these texts
  grep -oE '"token_logprobs":\[[^]]*\]' <<<"$out" |
    sed -E 's/.*\[(.*)\]/\1/' |
    awk -F, '{ s = 0; for (i = 1; i <= NF; i++) s += $i
      printf "%.9f\n", s / NF }'
}

serve
prompt='Problem: Calculate 6 * 12 and then add the number of days in a week.'
drawn='"max_tokens":12,"temperature":1.5,"seed":3'
read_before=$(metric rows_prompt_total)
cached_before=$(metric prompt_cached_tokens_total)
post /v1/completions "{\"prompt\":\"$prompt\",$drawn,\"n\":4,\"logprobs\":0}"
check_eq 'status of n = 4' "$code" 200
tokens=$(member prompt_tokens)
check_eq 'rows of the prompt' \
  "$(($(metric rows_prompt_total) - read_before >= tokens + 4))" 0
check_eq 'tokens that three of the texts had cached' \
  "$(($(metric prompt_cached_tokens_total) - cached_before))" \
  $((3 * (tokens - 1)))
check_eq 'texts of n = 4' "$(texts | sort -u | wc -l)" 4
written=$(member completion_tokens)
want=$(paste <(means) <(texts) | sort -gr | head -n 2 | cut -f 2)

post /v1/completions "{\"prompt\":\"$prompt\",$drawn,\"n\":2,\"best_of\":4}"
check_eq 'the best two of four texts' "$(texts)" "$want"
check_eq 'tokens of all four' "$(member completion_tokens)" "$written"
check_has 'the settings' "$out" '"n":2,"best_of":4'
check_has 'the texts' "$out" '"index":1'
check_lacks 'the texts' "$out" '"index":2'
ends TERM 0

# A method that fills masks has no log-probabilities to choose by.
serve -m diffusion --method llada
post /v1/completions '{"prompt":"a","max_tokens":4,"best_of":2}'
check_eq 'status of best_of without log-probabilities' "$code" 400
check_eq 'its param' "$(member param)" best_of
ends TERM 0
finish
