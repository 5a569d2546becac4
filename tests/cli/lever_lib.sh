# shellcheck shell=bash
# What the tests of streamed trees share: an image of the target that comes with
# the program, and what a run of it gives.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

model=flash/models/target.gguf image=$tmp/target.tdm
for file in target draft exit; do
  [ -e flash/models/$file.gguf ] || skip "no flash/models/$file.gguf"
done
export XDG_CACHE_HOME=$tmp # where the tuning to flash, and passes, are remembered
prompt='Once upon a time, there was a little girl named Lily. She loved to'
run_ok "$TANDEM" convert $model "$image"

tokens=12
! full || tokens=20
generate() { # OPTION...: the CPUs are shared with other tests
  run_ok "$TANDEM" run -p "$prompt" -n $tokens --ignore-eos --json --spin 50 \
    -t 1 "$@"
  essence
}
essential+=(text logits_rows)
