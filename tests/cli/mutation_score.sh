#!/usr/bin/env bash
# A sample of the full scripts/mutation-score: maintenance calls are left out
# one at a time, and the checker names each or shows that it was unnecessary;
# without omissions it names none.
. "$(dirname "$0")/lib.sh"

command -v python3 >/dev/null || skip 'no python3'
export TANDEM_MODELS=$root/flash/models

score() { # OPTION...
  run scripts/mutation-score "$@"
  check_eq "status of mutation-score $*" "$status" 0
  check_eq "stderr of mutation-score $*" "$err" ''
  [ "$status" -eq 0 ] || cat "$tmp/out"
}
few='autoregressive;autoregressive, cached rings;autoregressive, swap'
few="$few;flash-ar, streamed"
sample=6 seeds=1
! full || sample=16 seeds=2
score --cases "$few" --sample $sample
check_has 'the score' "$out" "$sample of $sample calls left out: "
check_lacks 'the score' "$out" ' 0 named'
score --cases "$few" --evict-seeds $seeds
check_has 'false alarms' "$out" "0 false alarms in $((4 * seeds)) runs"

# A checker that is silent has no score: every call is missed.
cat >"$tmp/deaf" <<END
#!/bin/sh
unset TANDEM_NPU_FAULT
exec "$TANDEM_NPU" "\$@"
END
chmod +x "$tmp/deaf"
run env TANDEM_NPU="$tmp/deaf" scripts/mutation-score --cases autoregressive \
  --sample 2
check_eq 'status of a score of nothing' "$status" 1
check_has 'stdout' "$out" '0 of 2 calls left out'
run scripts/mutation-score --cases none
check_eq 'status of no such case' "$status" 2
finish
