/*
 * Options of llama.cpp's programs that Tandem does not have. Users of llama.cpp
 * type these options out of habit, so the error gives Tandem's option for the
 * same purpose, or the reason why Tandem has none.
 */
#include "base/opt_impl.h"

#include <string.h>

const struct opt_foreign opt_foreign_rows[] = {
	/* options that choose where the model runs */
	{ "-ngl --gpu-layers --n-gpu-layers -sm --split-mode -ts "
	  "--tensor-split -mg --main-gpu -dev --list-devices -fit --fit -ot "
	  "--override-tensor -cmoe --cpu-moe -ncmoe --n-cpu-moe -nkvo "
	  "--no-kv-offload --op-offload --no-op-offload -ngld "
	  "--gpu-layers-draft --n-gpu-layers-draft -devd --device-draft",
		"Tandem does not use a GPU, so leave the option out; "
		"'--threads N' sets the number of CPU threads" },
	{ "--rpc",
		"Tandem runs a model on one machine; '--device PATH' "
		"connects to a tandem-npu that listens at PATH" },
	{ "-tb --threads-batch -td --threads-draft",
		"'--threads N' sets the threads for prompts and for "
		"generation" },
	{ "-C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll",
		"'--threads N' sets the number of threads; taskset(1) "
		"chooses their CPUs" },
	{ "--mlock --mmap --no-mmap -dio --direct-io --numa -lm --load-mode "
	  "--repack -nr --no-repack --no-host",
		"leave the option out; '--dram-budget SIZE' limits the "
		"weights in memory" },

	/* options for the context, passes, concurrent requests and caches */
	{ "-c --ctx-size", "'--ctx N' sets the context length" },
	{ "-b --batch-size -ub --ubatch-size",
		"'--prefill-chunk ROWS' sets how many prompt tokens a pass "
		"processes" },
	{ "-np",
		"'--texts N' of 'tandem serve' sets how many requests run "
		"at a time" },
	{ "-cb --cont-batching -nocb --no-cont-batching -kvu --kv-unified "
	  "--no-kv-unified",
		"concurrent requests always share passes and the cache; "
		"'--texts N' of 'tandem serve' limits how many run at a time" },
	{ "-ctk --cache-type-k -ctv --cache-type-v -ctkd --cache-type-k-draft "
	  "-ctvd --cache-type-v-draft",
		"the KV cache cannot be quantized: it is fp16 with "
		"'--precision int8' (the default) and float32 with "
		"'--precision f32'; '--ctx N' limits its size" },
	{ "-fa --flash-attn",
		"leave the option out; attention is always computed without "
		"storing all scores" },
	{ "--context-shift --no-context-shift --keep -dt --defrag-thold "
	  "--swa-full",
		"generation ends when the context is full; '--ctx N' sets "
		"its length" },
	{ "--prompt-cache --prompt-cache-all --prompt-cache-ro "
	  "--slot-save-path -cram --cache-ram --cache-reuse",
		"KV caches are not written to files; '--keep N' of 'tandem "
		"serve' keeps the caches of finished requests in memory" },

	/* options that change the model or add parts to the model */
	{ "--lora --lora-scaled",
		"LoRA adapters are not supported; merge the adapter into the "
		"model, and use the merged GGUF file" },
	{ "--control-vector --control-vector-scaled "
	  "--control-vector-layer-range",
		"control vectors are not supported; leave the option out" },
	{ "-mm --mmproj -mmu --mmproj-url --no-mmproj --mmproj-offload "
	  "--no-mmproj-offload --image --audio --video",
		"images and sound are not supported; use the language model "
		"without its projector" },
	{ "--override-kv --rope-scaling --rope-scale --rope-freq-base "
	  "--rope-freq-scale --yarn-orig-ctx --yarn-ext-factor "
	  "--yarn-attn-factor --yarn-beta-slow --yarn-beta-fast",
		"Tandem uses the values in the model file; change the keys of "
		"the file instead" },
	{ "-hf -hfr --hf-repo -hff --hf-file -hft --hf-token -mu --model-url "
	  "-dr --docker-repo --offline",
		"Tandem downloads nothing; get the file and give it with "
		"'--model FILE'" },

	/* options for prompts and generated texts */
	{ "--n-predict",
		"'--predict N' sets the number of tokens to "
		"generate" },
	{ "-s", "'--seed S' sets the seed" },
	{ "-r --reverse-prompt", "'--stop TEXT' ends generation at TEXT" },
	{ "-sys --system-prompt -sysf --system-prompt-file",
		"'--system TEXT' with '--chat' sets the system prompt" },
	{ "-cnv --conversation -no-cnv --no-conversation -i --interactive -if "
	  "--interactive-first -st --single-turn -mli --multiline-input",
		"'tandem chat' holds a conversation, 'tandem run' continues "
		"one prompt" },
	{ "--jinja --no-jinja --chat-template --chat-template-file "
	  "--chat-template-kwargs",
		"'--chat' uses the chat template of the model file; change the "
		"file instead" },
	{ "--in-prefix --in-suffix --in-prefix-bos",
		"write this text into the prompt ('--prompt TEXT')" },
	{ "-e --escape --no-escape",
		"escapes such as \\n are not replaced; most shells read $'\\n' "
		"as a line feed" },
	{ "-j -jf --json-schema-file",
		"'--json-schema FILE' reads a JSON schema" },
	{ "--grammar --grammar-file",
		"GBNF grammars are not supported; '--json-schema FILE' "
		"constrains the text to JSON" },
	{ "--repeat-last-n",
		"'--repeat-last N' sets how many tokens the "
		"penalty covers" },
	{ "-l --logit-bias --presence-penalty --frequency-penalty",
		"only a request to 'tandem serve' can set this, in its JSON "
		"object" },
	{ "--samplers --sampler-seq --sampling-seq --mirostat --mirostat-lr "
	  "--mirostat-ent --typical --typical-p --xtc-probability "
	  "--xtc-threshold --top-nsigma --top-n-sigma --dynatemp-range "
	  "--dynatemp-exp --adaptive-target --adaptive-decay "
	  "--dry-multiplier --dry-base --dry-allowed-length "
	  "--dry-penalty-last-n --dry-sequence-breaker",
		"this sampler is not supported; use '--temp', '--top-k', "
		"'--top-p', '--min-p' or '--repeat-penalty'" },
	{ "-co --color -v --log-verbose -lv --verbosity "
	  "--log-verbosity --log-file --log-disable --log-colors "
	  "--log-prefix --log-timestamps --no-display-prompt --simple-io "
	  "--warmup --no-warmup --perf --no-perf --verbose-prompt",
		"leave the option out; standard output has only the "
		"generated text" },

	/* options for drafts */
	{ "-md --model-draft", "'--draft FILE' names the draft model" },
	{ "--draft-max --draft-n --draft-min --draft-p-min",
		"'--draft-len N' with '--method chain' sets the length of "
		"drafts" },

	/* options of the server */
	{ "--host", "'--listen HOST:PORT' of 'tandem serve' sets the address" },
	{ "--api-key",
		"'--api-key-file FILE' of 'tandem serve' reads API keys "
		"from a file" },
	{ "--ssl-key-file --ssl-cert-file",
		"the server does not encrypt; put a TLS proxy in front of it" },
	{ "-a --alias",
		"'--name NAME' of 'tandem serve' sets the name of the "
		"model" },
	{ "--models-dir",
		"'--models DIR' of 'tandem serve' names the folder "
		"with the models" },
	{ "--models-max",
		"'--memory SIZE' of 'tandem serve' limits the memory of the "
		"loaded models" },
	{ "--embedding --embeddings",
		"leave the option out; 'tandem serve' answers "
		"/v1/embeddings with every model that is not a diffusion "
		"model" },
	{ "--rerank --reranking",
		"ranking is not supported; 'tandem score' scores texts" },
	{ "--metrics --no-slots --props --ui --no-ui --webui "
	  "--no-webui",
		"leave the option out; 'tandem serve' always has /metrics "
		"and a web page" },
	{ NULL, NULL },
};

const char *opt_foreign_advice(const char *arg)
{
	size_t len = strcspn(arg, "=");

	for (const struct opt_foreign *r = opt_foreign_rows; r->names; r++)
		for (const char *at = r->names; *at; at += strspn(at, " ")) {
			size_t n = strcspn(at, " ");

			if (n == len && !memcmp(at, arg, n))
				return r->advice;
			at += n;
		}
	return NULL;
}
