# shellcheck shell=bash
# Shared by the tests of diffusion methods. The test defines how ids are written:
# ids [OPTION...], after which $out holds them.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# number_of_ids N: check the number; all other runs are compared with it.
number_of_ids() {
  ids
  want=$out
  read -ra all <<<"$want"
  check_eq 'number of ids' ${#all[@]} "$1"
}

same() { # OPTION...
  ids "$@"
  check_eq "ids with $*" "$out" "$want"
}

same_whatever_the_pair() { # each way once, some together
  same --coherence strict --threads 1 --va-window 16M
  same --coherence check --threads 2 --va-slots 3
  same --threads 3 --va-window 16M --ctx 512
  same --prefill-chunk 1 --doorbell eventfd
}
