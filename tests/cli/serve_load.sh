#!/usr/bin/env bash
# scripts/serve-load, for a short time: no text is wrong or lost under load.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip 'no python3'
run scripts/serve-load --program "$TANDEM" --clients 8 --seconds 2 --json \
  -- -m small -t 1 --spin 0
check_eq 'status' "$status" 0
for part in '"wrong": 0' '"lost": 0' '"descriptors_left": 0' '"passed": true'; do
  check_has 'the result' "$out" "$part"
done
run scripts/serve-load --program "$TANDEM" --seconds 1 --methods chain -- -m small -t 1
check_eq 'status with a method that the server does not allow' "$status" 1
check_has 'the message' "$err" not_offered
finish
