#!/usr/bin/env bash
# A trace read by code that protoc generates from a separate schema: every
# event has a track and a name, times nest, every request has a completion, and
# sums equal those of the run.
. "$(dirname "$0")/lib.sh"

command -v protoc >/dev/null || skip 'no protoc (protobuf-compiler)'
python3 -c 'import google.protobuf' 2>/dev/null ||
  /usr/bin/python3 -c 'import google.protobuf' 2>/dev/null ||
  skip 'no google.protobuf for python3 (python3-protobuf)'
python=python3
python3 -c 'import google.protobuf' 2>/dev/null || python=/usr/bin/python3
protoc -I tests/host/trace --python_out="$tmp" tests/host/trace/trace.proto ||
  skip 'protoc does not work'

decoded() { # NAME OPTIONS...
  local name=$1
  shift
  run_ok "$TANDEM" run --json --trace "$tmp/$name.pft" "$@"
  cp "$tmp/out" "$tmp/$name.json"
  run_ok "$python" tests/host/trace/decode.py "$tmp" "$tmp/$name.pft" \
    "$tmp/$name.json"
  [ "$status" -eq 0 ] || fail "$name: $out"
}

decoded plain -t 1 -p 'Once upon a time' -n 6 --clock soc:sd8gen3
decoded threads -t 3 -p 'Once upon a time' -n 6 --coherence strict
decoded drafted -t 2 -p 'Once upon a time' -n 6 --method chain --draft sam \
  --clock soc:sd8gen3 --va-slots 5
finish
