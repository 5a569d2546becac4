#!/usr/bin/env bash
# Who may include whom, and what documents refer to: as it should be, and the
# checks see what is not.
. "$(dirname "$0")/lib.sh"

for check in check-layers check-docs; do
  run_ok scripts/$check --self-test
  run_ok scripts/$check
done
finish
