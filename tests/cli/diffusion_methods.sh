#!/usr/bin/env bash
# Methods for diffusion models with the bundled models: complete answers, the
# same with all settings of the pair; a model that does not fit the method, or
# a context that is too small, is refused by name.
. "$(dirname "$0")/lib.sh"

export TANDEM_MODELS=$root/flash/models
for name in diffusion block target; do
  [ -e "$TANDEM_MODELS/$name.gguf" ] || skip "no flash/models/$name.gguf"
done
prompt='Read: The post office closes at 21:45. The museum closes at 17:45.
Question: When does the museum close?
Answer:'

answer() { # OPTION...
  run_ok "$TANDEM" run -p "$prompt" -n 64 -t 1 "$@"
}

# The pair's ways are nothing to each other: two of them are one run.
answers() { # METHOD OPTION...
  local want
  answer --method "$@" --json
  [[ $out =~ \"text\":\"([^\"]*) ]]
  want=${BASH_REMATCH[1]}
  check_has "the answer of $*" "$want" ' The museum closes'
  check_has "its end" "$want" '17:45.'
  check_has "why that of $* ends" "$out" '"stop":"eos"'
  answer --method "$@" --coherence check --doorbell eventfd --va-window 24M \
    --threads 2
  check_eq "that of $* with --coherence check in a small window" "$out" "$want"
}

# A step for each token, as by default, is what diffusion_trained.sh runs.
fewer=(--block-steps 16)
! full || fewer=()
sure="--visible 0.96 --stable 0.99"
answers llada -n 32 ${fewer[@]+"${fewer[@]}"}
answers dream -n 32 ${fewer[@]+"${fewer[@]}"}
answers dream --order entropy -n 32 ${fewer[@]+"${fewer[@]}"}
answers fast-dllm
answers fast-dllm --cache dual --threshold 0.97
answers fast-dllm --factor 0.1
answers multi-block --threshold 0.98
# shellcheck disable=SC2086 # several words
{
  answers llada-npu $sure
  answers llada-npu $sure --refresh host
  answers llada-npu $sure --refresh drift --prompt-chunks
  answers llada-npu $sure -m block
}
answers block --threshold 0.97
answers multi-block --threshold 0.98 -m block

# Speculation by a block diffusion model generates its plain text.
tokens=16
! full || tokens=40
for text in "$prompt" 'Once upon a time' 'Sum: 12 + 7 ='; do
  options=(-p "$text" -t 1 -n "$tokens")
  run_ok "$TANDEM" run -m block --method autoregressive "${options[@]}"
  plain=$out
  run_ok "$TANDEM" run --method linear-spec "${options[@]}"
  check_eq "linear-spec after '$text'" "$out" "$plain"
  options+=(--temp 0.8 --seed 3 --top-k 40)
  run_ok "$TANDEM" run -m block --method autoregressive "${options[@]}"
  plain=$out
  run_ok "$TANDEM" run --method linear-spec "${options[@]}" --coherence check
  check_eq "linear-spec after '$text', drawn" "$out" "$plain"
done

refuse() { # WORDS OPTION...
  local words=$1
  shift
  run "$TANDEM" run -p "$prompt" "$@"
  check_has "the message for $*" "$err" "$words"
  [ "$status" -eq 1 ] || [ "$status" -eq 2 ] || fail "status $status of $*"
}

refuse 'is not a diffusion model' --method dream -m target
refuse 'is not a diffusion model' --method linear-spec -m target
refuse 'is a diffusion model' --method linear-spec -m diffusion
refuse 'is a block diffusion model' --method fast-dllm -m block
refuse '--stable 0.5 is less than --visible 0.7' --method llada-npu \
  --visible 0.7 --stable 0.5
refuse 'blocks of 32' --method multi-block -m block --block 16
refuse '--top-k' --method multi-block --top-k 4
long=$(printf 'Anna has a red kite. %.0s' {1..70})
run "$TANDEM" run --method fast-dllm --ctx 256 -p "$long"
check_eq 'status of a prompt with no room' "$status" 1
check_has 'the message' "$err" 'shorten it'

# A block without masks is predicted again until nothing changes.
settled() { # N: into $it, the number of passes
  run_ok "$TANDEM" run -m block --method llada-npu -p 'Sum: 12 + 7 =' -n 32 -t 1 \
    --visible 0.5 --stable 0.9 --settle "$1" --json
  member passes
}
settled 0
once=$it
settled 8
checks=$((checks + 1))
[ "$it" -gt "$once" ] || fail "$it passes with --settle 8, $once with 0"
finish
