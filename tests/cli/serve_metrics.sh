#!/usr/bin/env bash
# Metrics of the server: format and values. And nothing is computed for clients
# that have gone.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/serve_lib.sh"
# shellcheck disable=SC2154 # code, out, server, url and tmp are theirs

# exposition <FILE: print violations of Prometheus' text format, one a line.
# HELP and TYPE precede the samples of their metric, which are consecutive; a
# sample occurs once; the names of counters end in _total.
exposition() {
  awk '
    function bad(what) { print NR ": " what ": " $0 }
    !length($0) { bad("empty line"); next }
    $1 == "#" && $2 == "HELP" {
      if ($3 in helped) bad("a second HELP")
      if (NF < 4) bad("HELP without words")
      helped[$3] = 1
      next
    }
    $1 == "#" && $2 == "TYPE" {
      if ($3 in type) bad("a second TYPE")
      if (!($3 in helped)) bad("TYPE without HELP")
      if ($4 !~ /^(counter|gauge|histogram)$/) bad("no type")
      if (($4 == "counter") != ($3 ~ /_total$/)) bad("name and type")
      type[$3] = $4
      now = $3
      next
    }
    /^#/ { bad("comment"); next }
    {
      if ($0 !~ /^[a-z_:][a-z0-9_:]*(\{([a-z_]+="[^"\\]*",?)+\})? -?[0-9.]+(e[-+]?[0-9]+)?$/)
        bad("no sample")
      name = $1
      sub(/\{.*/, "", name)
      if (type[now] == "histogram") {
        if (name == now "_bucket") {
          if ($2 < below) bad("fewer than in a smaller bucket")
          below = $2
        } else if (name == now "_count" && $2 != below)
          bad("not the number in the last bucket")
        else if (name == now "_count")
          below = 0
        sub(/_(bucket|sum|count)$/, "", name)
      }
      if (name != now) bad("not behind its TYPE")
      if ($1 in seen) bad("a second sample")
      if (type[name] == "counter" && $2 < 0) bad("a counter below 0")
      seen[$1] = 1
      n++
    }
    END {
      if (!n) print "nothing"
    }'
}
# The check finds planted violations.
for wrong in 'x 1' '# TYPE x_total counter' '# HELP x x
# TYPE x counter
x 1' '# HELP x x
# TYPE x gauge
x 1
x 2' '# HELP x x
# TYPE x gauge
x{a=b} 1' '# HELP x x
# TYPE x gauge
x one' '# HELP x x
# TYPE x histogram
x_bucket{le="1"} 2
x_bucket{le="+Inf"} 1' '# HELP x x
# TYPE x histogram
x_bucket{le="+Inf"} 1
x_count 2' ''; do
  checks=$((checks + 1))
  [ -n "$(exposition <<<"$wrong")" ] || fail "nothing is wrong with '$wrong'"
done

# check_format: of the current /metrics.
check_format() {
  get /metrics -D "$tmp/head"
  check_eq 'status of /metrics' "$code" 200
  check_has 'its type' "$(cat "$tmp/head")" 'text/plain; version=0.0.4'
  check_eq 'violations of the format' "$(exposition <"$tmp/body")" ''
  ! command -v promtool >/dev/null ||
    check_eq 'the output of promtool' "$(promtool check metrics <"$tmp/body" 2>&1)" ''
}

# at POSITION WHAT: tokens of drafts.
at() {
  sed -n "s/^tandem_$2_tokens_total{.*,position=\"$1\"} //p" "$tmp/body"
}

# ---- drafts -------------------------------------------------------------------
# An oracle is always right: after the token that comes with the prompt there
# are four passes of four drafted tokens and one more each.
serve --method chain --draft oracle:1 --draft-len 4
check_format
check_eq 'drafted before any text' "$(at 1 drafted)" 0
post /v1/completions '{"prompt":"Once upon a time","max_tokens":21}'
check_eq 'tokens' "$(member completion_tokens)" 21
check_format
for i in 1 2 3 4; do
  check_eq "drafted at $i" "$(at $i drafted)" 4
  check_eq "accepted at $i" "$(at $i accepted)" 4
done
check_eq 'drafted at 5' "$(at 5 drafted)" ''
get /state
check_has 'the state' "$out" '"drafted_tokens_total":[4,4,4,4]'
check_has 'the state' "$out" '"accepted_tokens_total":[4,4,4,4]'
ends TERM 0

# The metrics agree with the answers, also for a drafter that is often wrong.
serve --method chain --draft pld
asked='{"prompt":"one two three one two three one","max_tokens":40}'
post /v1/completions "$asked"
check_eq 'tokens of prompts' "$(metric rows_prompt_total)" \
  "$(member prompt_tokens)"
check_eq 'tokens' "$(metric tokens_total)" "$(member completion_tokens)"
check_eq 'drafted' "$(metric drafted_tokens_total)" "$(member draft_n)"
check_eq 'accepted' "$(metric accepted_tokens_total)" \
  "$(member draft_n_accepted)"
check_eq 'passes' "$(metric passes_total)" "$(member passes)"
check_format
for name in answers_total texts_waiting prompt_tokens_per_second \
  tokens_per_second rows_used_total rows_padded_total remaps_total \
  flash_bytes_total device_restarts_total clients_waiting \
  deadlines_missed_total 'refused_total{model=' \
  'queue_seconds_count{model=' 'first_token_seconds_count{model=' 'http_requests_total{path="/v1/comp'; do
  check_has 'the metrics' "$out" "
tandem_$name"
done
ends TERM 0

# ---- clients that have gone -------------------------------------------------
# While the device stands still readers leave, so that the passes before and
# after are known: one was under way, and not a second one follows.
serve --texts 1 "${slow[@]}"
device=$(pgrep -P "$server" | head -n 1)
long_stream "$tmp/long"
long=$!
kill -STOP "$device"
before=-1
until [ "$before" = "$(metric passes_total)" ]; do # the one that had ended
  before=$(metric passes_total)
  pause
done
read=$(metric rows_prompt_total)
curl -s "$url/v1/completions" -o /dev/null \
  -d '{"prompt":"Read all of this:","max_tokens":9}' &
queued=$!
metric_is texts_waiting 1
kill $long $queued
wait $long $queued 2>/dev/null
kill -CONT "$device"
metric_is texts_canceled_total 2
check_eq 'texts that are left' \
  "$(metric texts_waiting) $(metric texts_under_way)" '0 0'
checks=$((checks + 1))
after=$(metric passes_total)
[ $((after - before)) -le 2 ] ||
  fail "$((after - before)) passes for who had left"
check_eq 'prompts read, with that of one who left the queue' \
  "$(metric rows_prompt_total)" "$read"
post /v1/completions '{"prompt":"Read all of this:","max_tokens":9}'
check_eq 'passes of the next one' \
  "$(($(metric passes_total) - after))" 9
ends TERM 0
finish
