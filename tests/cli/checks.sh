#!/usr/bin/env bash
# Includes between rooms and references in documents: the checks pass, and find
# planted violations.
. "$(dirname "$0")/lib.sh"

for check in check-layers check-docs; do
  run_ok scripts/$check --self-test
  run_ok scripts/$check
done
finish
