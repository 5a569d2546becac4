# shellcheck shell=bash disable=SC2086,SC2154
# (Words of options are expanded on purpose; names come from the caller.)
#
# The runs of scripts/record-outputs: what `add NAME KIND ARGUMENT...` names.
# A run's name is ROOM/WHAT; it must not change, since records are compared by
# it. The files that the runs work on are made first, by the same build.

prompt='Problem: Calculate 6 * 12 * 3 / 8.
Solution:'
story='Read: Nora was in the tower. Tom was at the zoo. Felix was in the park.
Question: Where is Nora?
Answer:'
once='Once upon a time, there was a little girl named Lily. She loved to'
soc='--clock soc:sd8gen3'

# ---- files --------------------------------------------------------------------
make_files() {
  local what item
  "$tandem" synth --like tiny -o tiny.gguf &&
    "$tandem" synth --like tiny --quant q8_0 --seed 2 -o tiny8.gguf &&
    "$tandem" synth --like tiny-llada -o fill.gguf &&
    "$tandem" synth --like tiny-block -o blocks.gguf &&
    "$tandem" convert tiny.gguf tiny.tdm || return
  seq 5 44 >ids
  printf '%s' "$story" >story
  item='{"id":"%s","prompt":"%s","answer":"%s","check":"%s","facts":[],'
  item+='"level":%d}\n'
  # shellcheck disable=SC2059 # a format
  printf "$item" a-0 'A dog' x text 0 a-1 'Two and two' ' 4' number 1 \
    >items.jsonl
  if [ $quick = yes ]; then
    target=tiny.gguf draft=tiny8.gguf fill=fill.gguf image=tiny.tdm
    block_model=blocks.gguf
    return
  fi
  target=$models/target.gguf draft=$models/draft.gguf
  fill=$models/diffusion.gguf image=target.tdm block_model=$models/block.gguf
  for what in target diffusion; do
    "$tandem" convert "$models/$what.gguf" $what.tdm || return
  done
  for what in rows groups super; do
    "$tandem" convert "$models/target.gguf" target-$what.tdm \
      --layout $what || return
  done
  "$tandem" convert "$models/target.gguf" packed.tdm --zstd 3 || return
  cp target.tdm damaged.tdm || return
  printf 'X' | dd of=damaged.tdm bs=1 seek=9000000 conv=notrunc status=none
  if [ -n "$data" ]; then
    head -c 6000 "$data/text/books/Aesop.md" >book.txt
    split_tokenizer_texts
  fi
}

# Each text between the lines that separate them, in a file of its own.
split_tokenizer_texts() {
  local name
  for name in llama-spm qwen2; do
    mkdir -p "texts/$name"
    awk -v dir="texts/$name" '
      /^__ggml_vocab_test__$/ { n++; begun = 0; next }
      { printf "%s%s", begun ? "\n" : "", $0 >(dir "/" sprintf("%02d", n))
        begun = 1 }' "$data/tokenizers/ggml-vocab-$name.gguf.inp"
  done
}

# ---- run ------------------------------------------------------------------------
generate() { # NAME OPTION...: 24 greedy tokens of the target, all counters
  local name=$1
  shift
  add "run/$name" json run -p "$prompt" -n 24 --json "$@"
}

drafting='chain specinfer opt-tree eagle2-tree edgellm lever'

# serve_items TEMPERATURE OPTION...: four prompts to one server, one after another,
# twice, then all at the same time; each text on a line, with its counts where no
# other request can have an influence on them.
serve_items() {
  local at=$work/server.$BASHPID server=0 n temperature=$1 asked=()
  local prompts=('Two and two' 'Two and three' 'Once upon a time' 'A')
  shift
  "$tandem" serve --listen "unix:$at" -t 1 --spin 0 $soc "$@" 2>"$at.said" &
  server=$!
  until [ -S "$at" ]; do
    kill -0 $server 2>/dev/null || { cat "$at.said" >&2 && return 1; }
    sleep 0.02
  done
  ask() { # NUMBER
    curl -s --unix-socket "$at" http://server/v1/completions --data-binary \
      "{\"prompt\":\"${prompts[$1]}\",\"max_tokens\":16,\"seed\":$1,
        \"temperature\":$temperature}" | sed -E \
      's/("[a-z]+_(ms|per_second)":)[0-9.]+/\1WALL/g' >"$at.$1"
  }
  for n in "${!prompts[@]}" "${!prompts[@]}"; do
    ask "$n"
    grep -o '"text":.*' "$at.$n" || cat "$at.$n"
  done
  for n in "${!prompts[@]}"; do
    ask "$n" &
    asked+=($!)
  done
  wait "${asked[@]}"
  for n in "${!prompts[@]}"; do
    grep -o '"text":.*"finish_reason":"[a-z]*"' "$at.$n" || cat "$at.$n"
  done
  kill $server
  wait $server
}

# add_items TEMPERATURE METHOD OPTION...: two items on one handle; where no reward
# needs their answers, also requests to a server.
add_items() {
  local temperature=$1 name=$2
  shift
  case $* in *"$block_model"*) name=blocks-$name ;; esac
  add "eval/items-$name" json eval items.jsonl -n 12 --json $soc \
    --temp "$temperature" --method "$@"
  case " $* " in
  *' --reward '*) ;;
  *) add_line "serve/items-$name" text "serve_items $temperature --method $*" ;;
  esac
}

# What every method does with one request after another, and with several.
runs_of_items() {
  local how
  add_items 0 autoregressive -m "$target"
  add_items 0 flash-ar -m "$image" --dram-budget 50%
  for how in $drafting; do
    add_items 0 $how -m "$target" --draft "$draft"
  done
  add_items 0 sdnpu -m "$target"
  for how in sample vote self-certainty mean-logprob; do
    add_items 0.8 $how -m "$target" -N 4
  done
  for how in best-of-n weighted-vote beam dvts; do
    add_items 0.8 $how -m "$target" -N 4 --reward exact
  done
  for how in llada dream fast-dllm multi-block llada-npu; do
    add_items 0 $how -m "$fill" --block 8 --block-steps 4
  done
  for how in block multi-block; do
    add_items 0 $how -m "$block_model" --block-steps 4
  done
}

runs_of_quick() {
  local how layout
  add files/tiny hash synth --like tiny --quant q8_0 --seed 3 -o MADE
  add files/image hash convert tiny.gguf MADE --layout groups --report
  add files/verify text verify tiny.tdm
  add files/inspect text inspect tiny.tdm
  for layout in rows tiles groups super; do
    generate layout-$layout -m tiny.gguf --layout $layout $soc
  done
  generate method-autoregressive -m tiny.gguf $soc
  for how in chain specinfer opt-tree eagle2-tree edgellm; do
    generate method-$how -m tiny.gguf --method $how --draft tiny8.gguf $soc
  done
  generate method-lever -m tiny.gguf --method lever --draft tiny8.gguf \
    --exit none $soc
  generate method-flash-ar -m tiny.tdm --method flash-ar --dram-budget 50% $soc
  generate method-llada -m fill.gguf --method llada $soc
  generate method-block -m blocks.gguf --method block --block-steps 4 $soc
  generate sampled -m tiny.gguf --temp 0.8 --top-p 0.9 --seed 7
  generate strict -m tiny.gguf --coherence strict --doorbell eventfd
  add run/text text run -m tiny.gguf -p "$once" -n 8
  add logits/tiny hash logits -m tiny.gguf --ids-file ids -o MADE
  add text/tokenize text tokenize -m tiny.gguf -p "$once"
  add text/detokenize text detokenize -m tiny.gguf --ids '40 41 42'
  add eval/items json eval items.jsonl -m tiny.gguf -n 8 --json $soc
  runs_of_items
  add perplexity/items json perplexity items.jsonl -m tiny.gguf --json
}

# The files of others, the model that comes with the program and synthesized
# ones: every precision and layout, the phones in turn.
runs_of_numbers() {
  local entry name model precision layout clock i=0
  local clocks=(wall soc:sd8gen2 soc:sd8gen3 soc:sd8elite)
  for entry in target="$target" diffusion="$fill" tiny=tiny.gguf \
    ${data:+"stories=$data/models/stories260K-f32.gguf" \
      "stories-f32=$data/models/stories260K-pad192-f32.gguf" \
      "stories-q8=$data/models/stories260K-pad192-q8_0.gguf" \
      "stories-q4=$data/models/stories260K-pad192-q4_0.gguf"}; do
    name=${entry%%=*} model=${entry#*=}
    for precision in f32 f16-kv16 f16 int8 npu; do
      for layout in rows tiles groups super; do
        clock=${clocks[$((i++ % 4))]}
        [ $((i % 4)) -gt 0 ] || i=$((i + 1))
        case $name in
        diffusion)
          [ $layout != rows ] || [ $precision = f32 ] || continue
          add run/diffusion-$precision-$layout json run -m "$model" \
            --method llada -p "$story" -n 16 --block 16 --block-steps 4 \
            --json --precision $precision --layout $layout --clock "$clock"
          ;;
        *)
          generate $name-$precision-$layout -m "$model" --ignore-eos \
            --precision $precision --layout $layout --clock "$clock"
          ;;
        esac
      done
    done
  done
  local kern
  for kern in ref base avx2 avx512 vnni; do
    add_line run/kernels-$kern json \
      "TANDEM_CPU=$kern \$tandem run -p '$once' -n 8 --json $soc"
  done
}

runs_of_methods() {
  local method budget where name
  for budget in 0% 20% 40% 60% 80% 100%; do
    generate flash-ar-$budget -m $image --method flash-ar $soc \
      --dram-budget $budget
    generate lever-$budget -m $image --method lever $soc --dram-budget $budget
  done
  for method in $drafting; do
    for where in host device oracle; do
      name=$method-$where
      case $where in
      oracle) where='--draft oracle:0.7 --draft-seed 3' ;;
      *) where="--draft-on $where" ;;
      esac
      generate $name --method $method $where $soc
      generate $name-streamed -m $image --method $method $where $soc \
        --dram-budget 40%
      # On the wall clock lever decides by measured times: compare the text
      # only.
      add run/$name-text text run -p "$story" -n 32 --ids -m $image \
        --method $method $where --dram-budget 0%
    done
    generate $method-sampled --method $method --temp 0.8 --seed 7 \
      --repeat-penalty 1.1 $soc
  done
  for budget in 0% 40% 100%; do
    for what in '' '--calibration' '--fill-rows' '--reuse' \
      '--temp 0.8 --seed 7' '--draft-on host --draft model'; do
      generate "sdnpu$(tr -s ' ' - <<<" ${what//--/} $budget")" --method sdnpu \
        -m $image --dram-budget $budget $soc $what
    done
  done
  for method in sample vote self-certainty mean-logprob best-of-n \
    weighted-vote beam dvts; do
    for what in '-N 4' '-N 8 --slots 300' '-N 4 --parallel 2' \
      '-N 4 --draft sam'; do
      case $method$what in
      beam*draft* | dvts*draft*) continue ;;
      esac
      add "run/$method$(tr -s ' -' - <<<" $what")" json run -p "$prompt" \
        -n 40 --json $soc --method $method --temp 0.8 --seed 3 $what
    done
  done
  for method in dream fast-dllm multi-block llada-npu; do
    for what in '' '--block 16 --block-steps 4' '--temp 0.7 --seed 5'; do
      add "run/$method$(tr -s ' -' - <<<" $what")" json run -p "$story" -n 32 \
        --json $soc --method $method $what
    done
  done
  for what in '--refresh host' '--refresh drift' '--no-revision' '--window 16' \
    '--cache-delay 2' '--prompt-chunks'; do
    method=llada-npu
    [ "$what" != '--cache-delay 2' ] || method=multi-block
    add "run/$method$(tr -s ' -' - <<<" $what")" json run -p "$story" -n 32 \
      --json $soc --method $method $what
  done
  for method in autoregressive block multi-block linear-spec; do
    add "run/blocks-$method" json run -m "$block_model" -p "$story" \
      -n 24 --json $soc --method $method
  done
  runs_of_items
  add_items 0 linear-spec -m "$block_model"
}

runs_of_options() {
  local what
  for what in --stop-rule '--exit none' '--prune-threshold 0.2' \
    --prune-always --no-shadow '--tree-rows 16' \
    '--tree-depth 4' '--candidates 4' '--draft-batch 2' '--draft-batch 16' \
    '--draft-temp 1.5' '--prune-always --prune-threshold 1'
  do
    generate "lever$(tr -s ' ' - <<<" ${what//--/}")" -m $image \
      --method lever $soc --dram-budget 20% $what
  done
  for what in 'specinfer --tree-rows 16' 'opt-tree --tree-depth 4' \
    'eagle2-tree --candidates 4' 'edgellm --tree-rows 20' \
    'chain --draft-len 4' 'chain --draft-len 1' \
    'opt-tree --draft-temp 0.5 --draft-on device'; do
    generate "$(tr -s ' -' - <<<"$what")" --method $what $soc
  done
  for what in '--top-k 5' '--top-p 0.9' '--min-p 0.05' \
    '--repeat-penalty 1.3 --repeat-last 8' '--seed 9'; do
    generate "sampled$(tr -s ' -' - <<<" $what")" --temp 0.9 $what
  done
  for what in '--block 8' '--block 64' '--block-steps 4' \
    '--block 16 --block-steps 2' '--temp 0.7 --seed 5 --block-steps 4' \
    '--coherence check --block-steps 2' '--threads 1 --block-steps 2' \
    '--doorbell socket --block-steps 2' '--va-slots 4 --block-steps 2'; do
    add "run/llada$(tr -s ' -' - <<<" $what")" json run --method llada \
      -p "$story" -n 32 --json $soc $what
  done
  for what in 0% 40% 100%; do
    add run/llada-streamed-$what json run --method llada -m diffusion.tdm \
      -p "$story" -n 16 --block 16 --block-steps 4 --json $soc \
      --dram-budget $what
  done
}

# However the pair is run.
runs_of_the_pair() {
  local method what doorbell level
  for method in autoregressive 'chain --draft-on device' 'lever --draft-on device' \
    "llada -m $fill --block 16 --block-steps 4"; do
    for level in strict check; do
      for doorbell in poll eventfd socket; do
        add run/${method%% *}-$level-$doorbell json run -p "$story" -n 16 \
          --json --method $method --coherence $level --doorbell $doorbell $soc
      done
    done
    for what in '--threads 1' '--threads 3' '--va-slots 3' '--va-slots 8' \
      '--va-slots 12' \
      '--va-window 16M' '--va-window 32M' '--prefill-chunk 1' \
      '--prefill-chunk 32' '--prefill-chunk 256' '--ctx 300'; do
      add "run/${method%% *}$(tr -s ' -' - <<<" $what")" json run \
        -p "$story" -n 16 --json --method $method $what $soc
    done
  done
  for what in '--evict-seed 0' '--evict-seed 99' '--spin 0' '--spin 2000'; do
    generate "strict$(tr -s ' -' - <<<" $what")" --coherence strict $what
  done
  for what in '--flash-io direct' '--flash-io buffered' '--flash-io thread' \
    '--stage-slots 2' '--stage-slots 6' '--prefill-chunk 5' \
    '--coherence check' '--va-slots 8' '--va-window 32M'; do
    generate "streamed$(tr -s ' -' - <<<" $what")" -m $image --method lever \
      $soc --dram-budget 20% $what
    generate "packed$(tr -s ' -' - <<<" $what")" -m packed.tdm \
      --method flash-ar $soc --dram-budget 40% $what
  done
  for what in rows groups super; do
    generate image-$what -m target-$what.tdm $soc --dram-budget 40% \
      --precision npu
    generate image-$what-lever -m target-$what.tdm $soc --dram-budget 0% \
      --method lever
  done
}

# What is printed without --json.
runs_of_text() {
  local name
  add run/text text run -p "$story" -n 40
  add run/ids text run -p "$story" -n 20 --ids
  add run/file text run -f story -n 20
  add_line run/stdin text "\$tandem run -f - -n 20 <story"
  add run/stop text run -p "$prompt" -n 60 --stop The
  add run/ignore-eos text run -p "$prompt" -n 60 --ignore-eos
  add run/to-the-end text run -p "$prompt" -n -1
  add run/special text run -p '<|im_start|>' -n 4 --special --ids
  add run/no-bos text run -p "$prompt" -n 8 --no-bos --ids
  add run/chat text run -m tiny.gguf --chat --system 'Be brief.' -p Hi -n 12
  add run/chat-json json run -m tiny.gguf --chat -p Hi -n 12 --json
  add run/stats stats run -p "$prompt" -n 8 --stats $soc
  add run/stats-lever stats run -m $image --dram-budget 0% --method lever \
    -p "$prompt" -n 8 --stats $soc
  add_line run/dies text \
    "TANDEM_NPU_FAULT=die-after:20 \$tandem run -p Hi -n 40"
  [ -z "$data" ] || for name in llama-spm qwen2; do
    runs_of_tokenizer $name "$data/tokenizers/ggml-vocab-$name.gguf"
  done
  add text/shipped text tokenize -p "$story"
  add text/shipped-json json tokenize -p "$story" --json --bos
  add text/detokenize text detokenize --ids '1 449 62 398 390 103 480'
}

runs_of_tokenizer() { # NAME MODEL
  local text
  for text in texts/"$1"/*; do
    add_line "text/$1-${text##*/}" text "\$tandem tokenize -m $2 -f $text |
      tee ids.$1-${text##*/} && \$tandem detokenize -m $2 --raw \
      -f ids.$1-${text##*/} | cmp - $text"
  done
  add_line "text/$1-special" text "\$tandem tokenize -m $2 --special --bos \
    -p '<|im_start|>user </s>'"
  add_line "text/$1-inspect" text "\$tandem inspect $2"
}

runs_of_tasks() {
  local task how
  for task in summary qa ui reply math code; do
    add eval/$task json eval $task --items 3 --json $soc
    add eval/$task-lever json eval $task --items 3 --json $soc --method lever \
      --draft-on device
  done
  for how in chain specinfer opt-tree eagle2-tree edgellm; do
    add eval/math-$how json eval math --items 3 --json --method $how $soc
  done
  add eval/llada json eval qa --items 2 --json --method llada \
    --block-steps 8 $soc
  add eval/streamed json eval qa --items 3 --json -m $image --dram-budget 20% \
    --method flash-ar $soc
  add eval/sampled json eval math --items 3 --json --temp 0.7 --seed 3
  add eval/precision json eval math --items 3 --json --precision npu \
    --layout super
  add_line eval/show text "\$tandem eval ui --items 3 --show 2 |
    sed -E 's/ +[0-9.]+\$/ WALL/'"
  add_line eval/outputs text "\$tandem eval math --items 2 --json \
    --outputs outputs >/dev/null && cat outputs"
  add eval/list text eval --list
  add eval/items json eval items.jsonl -m tiny.gguf -n 8 --json $soc
  for how in f32-rows int8-tiles int8-groups int8-super npu-super f16-tiles \
    f16-kv16-tiles; do
    add perplexity/$how json perplexity all --items 4 --json \
      --precision ${how%-*} --layout ${how##*-}
  done
  [ -z "$data" ] || for how in f32 q8_0 q4_0; do
    add perplexity/book-$how json perplexity book.txt --window 128 --json \
      -m "$data/models/stories260K-pad192-$how.gguf"
  done
  add_line perplexity/table text "\$tandem perplexity qa --items 2 |
    sed -E 's/ +[0-9.]+\$/ WALL/'"
}

runs_of_files() {
  local name layout type
  for name in target draft diffusion exit reward; do
    add files/$name-inspect text inspect "$models/$name.gguf"
    add_line files/$name-is text "cksum <$models/$name.gguf"
  done
  add files/target-inspect-json exact inspect --json "$models/target.gguf"
  add files/image-inspect text inspect target.tdm
  add files/image-inspect-json exact inspect --json packed.tdm
  for name in target packed damaged; do
    add files/$name-verify text verify $name.tdm
  done
  for layout in rows tiles groups super; do
    for type in keep q4_0 f16; do
      add files/convert-$layout-$type hash convert "$models/draft.gguf" MADE \
        --layout $layout --type $type --report
    done
  done
  add files/convert-down hash convert "$models/draft.gguf" MADE --zstd 3 \
    --layout super --type q4_0 --down q8_0 --report --json
  for type in q4_0 q8_0 f16 bf16 f32; do
    add files/synth-$type hash synth --like tiny --quant $type --seed 5 -o MADE
    add files/synth-llada-$type hash synth --like tiny-llada --quant $type \
      --ffn-down q8_0 -o MADE
  done
  add files/synth-qwen hash synth --like qwen2.5-0.5b -o MADE
  for name in target=$target draft=$draft fill=$fill image=packed.tdm \
    ${data:+"stories=$data/models/stories260K.gguf"}; do
    name=${name/260K.gguf/260K-pad192-q8_0.gguf}
    for type in f32 int8 npu; do
      add logits/${name%%=*}-$type hash logits -m "${name#*=}" \
        --ids-file ids -o MADE --precision $type
    done
  done
}

runs_of_benchmarks() {
  local tables
  for tables in methods prune budget length quality place logits size grid; do
    add bench/lever-$tables exact bench lever $soc --items 1 --tasks math \
      -n 16 --tables $tables --lengths 8,16 --budgets 0,40 --json -t 1
  done
  add bench/lever-csv text bench lever $soc --items 1 --tasks none -n 12 \
    --methods flash-ar,chain,lever --csv -t 1 --tables methods,logits
  add bench/lever-table text bench lever --clock soc:sd8elite --items 1 \
    --tasks qa -n 12 --methods flash-ar,edgellm,lever -t 1
  add bench/kernels json bench kernels --shapes tiny --rounds 1 --json
  add bench/decode keys bench decode -m tiny.gguf --rounds 1 --json
  add bench/ipc keys bench ipc --rounds 1 --json
  add_line bench/doctor text "\$tandem doctor --json |
    grep -oE '\"(name|required)\":(\"[^\"]*\"|[a-z]*)'"
}

# What is refused, and in which words.
runs_of_errors() {
  add error/no-command text
  add error/command text nonsense
  add error/option text run --nonsense
  add error/value text run -p x -n many
  add error/method text run -p x --method nonsense
  add error/no-model text run -m none.gguf -p x
  add error/no-gguf text run -m ids -p x
  add error/damaged text run -m damaged.tdm -p "$prompt" -n 4 --dram-budget 0%
  add error/budget text run -p x --dram-budget 50%
  add error/layout text run -m target-super.tdm -p x --layout rows
  add error/llada text run --method llada -m "$target" -p x
  add error/causal text run -m "$fill" -p x
  add error/window text run -p x --va-window 1M
  add error/slots text run -p x -m $image --dram-budget 0% --stage-slots 6 \
    --va-slots 7
  add error/context text run -p "$story" --ctx 8
  add error/fault text run -m $image -p x --dram-budget 0% \
    --flash-fault eio@9+ --method lever
  add error/task text eval nonsense
  add error/items text eval ids.jsonl
  add error/ids text logits -m "$target" --ids '1 9999' -o never
  add error/soc text run -p x --clock soc:none
  add error/draft text run -p x --method chain --draft none.gguf
}

runs_of_help() {
  local command
  for command in run eval score perplexity logits tokenize detokenize inspect \
    convert verify synth bench 'bench lever' doctor; do
    add "help/${command/ /-}" text $command --help
  done
  add help/tandem text --help
  add help/man text help --man
  add help/man-run text help --man run
  add help/completion text help --completion
  add_line help/npu text "\$tandem-npu --help"
  add_line help/npu-man text "\$tandem-npu --man"
}

list_runs() {
  if [ $quick = yes ]; then
    runs_of_quick
  else
    runs_of_benchmarks # the longest first
    runs_of_tasks
    runs_of_files
    runs_of_numbers
    runs_of_methods
    runs_of_options
    runs_of_the_pair
    runs_of_text
    runs_of_errors
  fi
  runs_of_help
}
