#!/usr/bin/env bash
# --trace FILE and tandem trace: the counts equal those of --stats, and the
# times the phone's picoseconds.
. "$(dirname "$0")/lib.sh"

command -v jq >/dev/null || skip 'no jq'
same_counts='passes rows padded_rows round_trips dma_bytes invalidated_lines
  cleaned_lines evicted_lines violations'
same_ps='total_ps matrix_ps vector_ps dma_ps read_ps cpu_ps flash_ps'

# traced NAME "KEY..." OPTIONS...: a run into $tmp/NAME.json, its trace's sums
# into $tmp/NAME.sums; they must agree in counts, and in these times of the phone.
traced() {
  local name=$1 ps=$2 differ
  shift 2
  run_ok "$TANDEM" run -m small -t 1 --json --trace "$tmp/$name.pft" "$@"
  cp "$tmp/out" "$tmp/$name.json"
  run_ok "$TANDEM" trace --json "$tmp/$name.pft"
  cp "$tmp/out" "$tmp/$name.sums"
  differ=$(jq -nr --slurpfile sums "$tmp/$name.sums" \
    --slurpfile run "$tmp/$name.json" --arg counts "$same_counts" \
    --arg ps "$ps" '
      def words: [splits("[ \n]+") | select(. != "")];
      def differ(a; b):
        if a == b and a != null then empty else "\(.): \(a), not \(b)" end;
      $sums[0] as $s | $run[0] as $r |
      ($counts | words[] | differ($s[.]; $r[.])),
      ($ps | words[] | differ($s.phone[.]; $r.phone[.])),
      ("unanswered", "unfinished" | differ($s[.]; 0)),
      ("the CPU works or waits" | select($ps | words | length > 1) |
        differ($s.phone | .cpu_busy_ps + .cpu_wait_ps; $r.phone.total_ps))
    ' 2>&1)
  check_eq "what differs of $name" "$differ" ''
}

# Tracing does not change a run.
run_ok "$TANDEM" run -m small -t 1 --json -p 'Once upon a time' -n 8 --clock soc:sd8gen3
plain=$(jq '.logits_hash, .text, .phone' <<<"$out")
traced plain "$same_ps" -p 'Once upon a time' -n 8 --clock soc:sd8gen3
check_eq 'a traced run' "$(jq '.logits_hash, .text, .phone' "$tmp/plain.json")" \
  "$plain"
run_ok "$TANDEM" trace "$tmp/plain.pft"
for part in 'texts        1' 'bubbles ' 'overlap ' 'longest ' 'phone ' \
  'host       logits' 'operator   ' 'swiglu   '; do
  check_has 'the summary' "$out" "$part"
done

# Drafts, a small window, and layers from flash.
traced chain "$same_ps" -p 'Once upon a time' -n 8 --method chain --draft sam \
  --clock soc:sd8gen3 --va-slots 5
check_has 'kinds of work' "$(jq -r '.work[] | .kind' "$tmp/chain.sums")" draft
run_ok "$TANDEM" convert small "$tmp/m.tdm"
traced flash total_ps -m "$tmp/m.tdm" -p 'Once upon a time' -n 4 --dram-budget 25% \
  --clock soc:sd8gen3
check_eq 'reads of flash were seen' "$(jq '.flash_reads > 0' "$tmp/flash.sums")" true
run_ok "$TANDEM" trace "$tmp/flash.pft"
check_has 'the summary' "$out" 'that flash was read ('
check_has 'the summary' "$out" "); $(jq .flash_reads "$tmp/flash.sums") reads, "
check_has "the phone's flash" "$(grep '^phone ' <<<"$out")" ', flash '

# A device that is lost, and its successor.
run_ok "$TANDEM" run -m small -t 1 --trace "$tmp/lost.pft" -p 'Once upon a time' -n 6 \
  --fault die@run#20
text=$out
run_ok "$TANDEM" trace --json "$tmp/lost.pft"
check_eq 'losses' "$(jq -c '[.lost, .restarts]' <<<"$out")" '[1,1]'
check_eq 'the running work is reported as lost' \
  "$(jq '.unanswered > 0 and .unfinished == 0' <<<"$out")" true
unanswered=$(jq .unanswered <<<"$out")
run_ok "$TANDEM" trace "$tmp/lost.pft"
check_has 'the summary' "$out" "; $unanswered were never answered"
check_has 'the summary' "$out" \
  'restarts     1 losses of the device, 1 restarts'
run_ok "$TANDEM" logits -m small --ids '5 6 7' -o "$tmp/logits" --trace "$tmp/logits.pft"
run_ok "$TANDEM" trace "$tmp/logits.pft"
check_has 'no text' "$out" 'none; the lines below cover the whole trace'
run_ok "$TANDEM" run -m small -t 1 -p 'Once upon a time' -n 6
check_eq 'the text of a run that lost its device' "$text" "$out"

# The device's events are recorded up to its death; each of two devices has its
# own process. A violation is linked to the write that caused it.
work_of() { # FILE TRACK KIND: how often, of what was summed
  jq "[.work[] | select(.track == \"$2\" and .kind == \"$3\") | .times] | add // 0" "$1"
}
check_eq 'runs and other requests of the device' \
  "$(work_of "$tmp/plain.sums" device request)" \
  "$(jq .round_trips "$tmp/plain.json")"
check_eq 'operators computed' \
  "$(jq '[.work[] | select(.track == "device" and .kind == "compute")] | length' \
    "$tmp/plain.sums")" 1
check_eq 'runs of operators, by name' \
  "$(jq '[.operators[].times] | add' "$tmp/plain.sums")" \
  "$(work_of "$tmp/plain.sums" device compute)"
check_eq 'bytes by DMA, by operator' \
  "$(jq '[.operators[].dma_bytes] | add' "$tmp/plain.sums")" \
  "$(jq .dma_bytes "$tmp/plain.json")"
check_eq 'one attention a pass in each of the 6 layers' \
  "$(jq '.operators[] | select(.operator == "attention").times' "$tmp/plain.sums")" \
  "$(jq '6 * .passes' "$tmp/plain.json")"
check_eq 'the device works on a request before its completion' \
  "$(jq 'all(.longest[]; .busy_ns > 0 and .busy_ns <= .ns)' "$tmp/plain.sums")" true
check_eq 'more reads by DMA than passes' "$(($(work_of "$tmp/plain.sums" DMA dma) > \
  $(jq .passes "$tmp/plain.json")))" 1
check_eq 'events lost' "$(jq .events_lost "$tmp/plain.sums")" 0
run "$TANDEM" run -m small -t 2 --trace "$tmp/stale.pft" -p 'Once upon a time' -n 3 \
  --coherence check --fault drop-invalidate:tandem:io#3
check_eq 'status of a broken rule' "$status" 1
run_ok "$TANDEM" trace --json "$tmp/stale.pft"
check_eq 'violations on the timeline' "$(work_of "$tmp/out" device fault)" \
  "$(jq .violations "$tmp/out")"

# A benchmark's pairs have a file each.
echo 'Once upon a time' >"$tmp/prompts"
run_ok "$TANDEM" bench methods -m small -n 3 --rounds 1 --prompts "$tmp/prompts" --methods autoregressive,chain \
  --clock soc:sd8gen3 --trace "$tmp/b.pft"
for file in b.pft b.pft.2; do
  run_ok "$TANDEM" trace --json "$tmp/$file"
  check_eq "passes of $file" "$(jq '.passes > 0' <<<"$out")" true
done

# What cannot be written ends the trace, not the text.
run "$TANDEM" run -m small -t 1 --trace /dev/full -p 'Once upon a time' -n 6
check_eq 'status with a full disk' "$status" 1
check_eq 'the text with a full disk' "$out" "$text"
check_has 'the message' "$err" 'No space left'
run "$TANDEM" run -m small -t 1 --trace "$tmp/no/such" -p x -n 1
check_eq 'status without the folder' "$status" 1
check_has 'the message' "$err" "$tmp/no/such"

# Drawings: a picture and a page that load nothing from elsewhere.
run_ok "$TANDEM" trace "$tmp/lost.pft" --svg "$tmp/a.svg" --html "$tmp/a.html"
check_eq 'stdout with drawings' "$out" ''
for part in 'run loop' 'requests' 'device lost' '</svg>'; do
  check_has 'the picture' "$(cat "$tmp/a.svg")" "$part"
done
# Round numbers below the picture.
check_eq 'ticks that are no multiples of the first' "$(
  grep -oE '>[0-9.e-]+ ms<' "$tmp/a.svg" | tr -d '>< ms' |
    awk 'NR == 2 { step = $1 } NR > 2 && $1 / step != int($1 / step) ||
      NR == 2 && !/^[125]0*$|^0\.0*[125]$/'
)" ''
! command -v xmllint >/dev/null || run_ok xmllint --noout "$tmp/a.svg"
for part in 'const trace={' '"run loop"' '"device lost"' '</script>'; do
  check_has 'the page' "$(cat "$tmp/a.html")" "$part"
done
fetched=$(grep -oE '(src|href|url)[=(][^ ]*|https?://[^ "]*' "$tmp/a.html" "$tmp/a.svg" |
  grep -v 'http://www.w3.org/2000/svg' || true)
check_eq 'what the drawings fetch' "$fetched" ''
run "$TANDEM" trace "$tmp/lost.pft" --svg "$tmp/no/such.svg"
check_eq 'status without the folder' "$status" 1

# What is no trace of ours.
for file in "$tmp/plain.json" /dev/null "$tmp/m.tdm" "$tmp/none"; do
  run "$TANDEM" trace "$file"
  check_eq "status of trace $file" "$status" 1
  check_has "the message" "$err" "$file"
done
misuse "$TANDEM" trace
finish
