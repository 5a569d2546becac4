# shellcheck shell=bash
# What the tests of diffusion methods share. The test says how ids are written:
# ids [OPTION...], after which $out holds them.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# number_of_ids N: of what all others must be.
number_of_ids() {
  ids
  want=$out
  check_eq 'number of ids' "$(wc -w <<<"$want")" "$1"
}

same() { # OPTION...
  ids "$@"
  check_eq "ids with $*" "$out" "$want"
}

same_whatever_the_pair() {
  local coherence threads
  for coherence in strict check; do
    same --coherence $coherence
  done
  for threads in 1 2 3; do
    same --threads $threads --va-window 16M
  done
  same --prefill-chunk 1 --doorbell eventfd
  same --va-slots 3 --coherence check
  same --ctx 512
}
