#!/usr/bin/env bash
# What bash offers on a line of tandem.
. "$(dirname "$0")/lib.sh"

run_ok "$TANDEM" help --completion
run_ok bash -n "$tmp/out"
"$TANDEM" help --completion >"$tmp/completion"
# shellcheck disable=SC1091 # made above
. "$tmp/completion"

# offers LINE: set $offered to the completions of LINE, with spaces between.
# Words are split as by readline.
offers() {
  local part
  COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=() COMPREPLY=()
  for part in $1; do
    while [[ $part == *[:=]* ]]; do
      [ -z "${part%%[:=]*}" ] || COMP_WORDS+=("${part%%[:=]*}")
      part=${part#"${part%%[:=]*}"}
      COMP_WORDS+=("${part:0:1}")
      part=${part:1}
    done
    [ -z "$part" ] || COMP_WORDS+=("$part")
  done
  [[ $1 != *' ' ]] || COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _tandem
  offered=${COMPREPLY[*]}
}
check_offers() { # LINE WHAT
  offers "$1"
  check_eq "completions of '$1'" "$offered" "$2"
}
check_offered() { # LINE PART...
  local part
  offers "$1"
  for part in "${@:2}"; do
    check_has "completions of '$1'" " $offered " " $part "
  done
}

check_offered 'tandem ' help --version run eval bench doctor
check_offers 'tandem ru' run
check_offered 'tandem help ' run eval
check_offers 'tandem help detok' detokenize
check_offers 'tandem help history pr' prune
check_offered 'tandem run -' --model -m --method --clock --help
check_offers 'tandem run --coherence-r' --coherence-report

# Words of options, from where they are defined.
methods=$("$TANDEM" help methods | sed -n 's/^  \([^ ]*\) .*/\1/p' | paste -sd' ')
check_offers 'tandem run --method ' "$methods"
check_offers 'tandem run --method=opt' opt-tree
check_offers 'tandem run -m x --method cha' chain
check_offers 'tandem run --coherence ' 'off strict check'
check_offers 'tandem bench lever --methods chain,op' chain,opt-tree
check_offers 'tandem bench methods --methods le' lever
check_offers 'tandem bench methods --tasks qa,ma' qa,math
check_offers 'tandem bench kernels --shapes tiny,llama3.2-3' tiny,llama3.2-3b
check_offered 'tandem bench ' ipc decode kernels lever methods
check_offered 'tandem history ' list stats prune import
check_offered 'tandem history prune --' --keep --max --older-than
check_offered 'tandem history import -' --text --model
check_offers 'tandem synth --like tiny-' 'tiny-llada tiny-block tiny-dream tiny-moe tiny-shared tiny-llada-moe'
check_offers 'tandem convert --type q8' q8_0
check_offers 'tandem run --threads ' ''
check_offers 'tandem run --seed ' ''

# All profiles are offered; bash restores the text before the colon.
for phone in tensor/soc/*.soc; do
  phone=$(basename "$phone" .soc)
  check_offered 'tandem run --clock soc:' "$phone"
  check_offered 'tandem run --clock ' "soc:$phone"
done
check_offered 'tandem run --clock=soc:sd8el' sd8elite
check_offers 'tandem run --clock soc:sd8gen3,' ''
check_offers 'tandem bench price --vary ' fitted

# Files, where a value or an operand is one.
mkdir "$tmp/here"
cd "$tmp/here" || exit 1
touch model.gguf
mkdir none-of-it plots
check_offers 'tandem run -m mod' model.gguf
check_offers 'tandem run --file=mod' model.gguf
check_offers 'tandem run --exit no' 'none none-of-it'
check_offers 'tandem inspect mo' model.gguf
check_offers 'tandem run --history mo' model.gguf
check_offers 'tandem history stats mo' model.gguf
check_offers 'tandem bench lever --plot pl' plots
check_offers 'tandem bench lever --plot mo' ''
check_offers 'tandem eval mo' model.gguf
check_offers 'tandem eval mat' math
check_offers 'tandem run mo' ''
finish
