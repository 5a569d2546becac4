/*
 * Options of llama.cpp's programs that Tandem does not have. Their users type
 * them out of habit, so the error gives Tandem's option for the same purpose,
 * or the reason why there is none.
 */
#include "base/opt_impl.h"

#include <string.h>

const struct opt_foreign opt_foreign_rows[] = {
	/* where the model runs */
	{ "-ngl --gpu-layers --n-gpu-layers -sm --split-mode -ts "
	  "--tensor-split -mg --main-gpu -dev --list-devices -fit --fit -ot "
	  "--override-tensor -cmoe --cpu-moe -ncmoe --n-cpu-moe -nkvo "
	  "--no-kv-offload --op-offload --no-op-offload -ngld "
	  "--gpu-layers-draft --n-gpu-layers-draft -devd --device-draft",
		"Tandem does not use a GPU, so leave it out; '--threads N' "
		"sets the CPU threads" },
	{ "--rpc",
		"a model runs on one machine; '--device PATH' connects to a "
		"tandem-npu that listens there" },
	{ "-tb --threads-batch -td --threads-draft",
		"'--threads N' is for prompts and generation" },
	{ "-C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll",
		"'--threads N' sets the threads, and taskset their CPUs" },
	{ "--mlock --mmap --no-mmap -dio --direct-io --numa -lm --load-mode "
	  "--repack -nr --no-repack --no-host",
		"leave it out; '--dram-budget SIZE' limits the weights in "
		"memory" },

	/* sizes */
	{ "-c --ctx-size", "the context is '--ctx N'" },
	{ "-b --batch-size -ub --ubatch-size",
		"the rows of a prompt in a pass are '--prefill-chunk ROWS'" },
	{ "-np", "requests at a time are '--texts N' of 'tandem serve'" },
	{ "-cb --cont-batching -nocb --no-cont-batching -kvu --kv-unified "
	  "--no-kv-unified",
		"requests always share passes and the cache; '--texts N' of "
		"'tandem serve' limits their number" },
	{ "-ctk --cache-type-k -ctv --cache-type-v -ctkd --cache-type-k-draft "
	  "-ctvd --cache-type-v-draft",
		"keys and values cannot be quantized; '--precision' chooses "
		"fp16 (int8, the default) or float32 (f32), and '--ctx N' "
		"limits their number" },
	{ "-fa --flash-attn",
		"attention is always computed without storing all scores, so "
		"leave it out" },
	{ "--context-shift --no-context-shift --keep -dt --defrag-thold "
	  "--swa-full",
		"a text ends when the context is full; '--ctx N' makes it "
		"longer" },
	{ "--prompt-cache --prompt-cache-all --prompt-cache-ro "
	  "--slot-save-path -cram --cache-ram --cache-reuse",
		"caches are not written to files; '--keep N' of 'tandem serve' "
		"keeps those of finished requests" },

	/* what is changed in the model, or added to it */
	{ "--lora --lora-scaled",
		"LoRA adapters are not supported; merge the adapter into the "
		"model, and use the merged GGUF file" },
	{ "--control-vector --control-vector-scaled "
	  "--control-vector-layer-range",
		"control vectors are not supported; leave it out" },
	{ "-mm --mmproj -mmu --mmproj-url --no-mmproj --mmproj-offload "
	  "--no-mmproj-offload --image --audio --video",
		"images and sound are not supported; use the language model "
		"without its projector" },
	{ "--override-kv --rope-scaling --rope-scale --rope-freq-base "
	  "--rope-freq-scale --yarn-orig-ctx --yarn-ext-factor "
	  "--yarn-attn-factor --yarn-beta-slow --yarn-beta-fast",
		"the keys of the model file decide; change them there" },
	{ "-hf -hfr --hf-repo -hff --hf-file -hft --hf-token -mu --model-url "
	  "-dr --docker-repo --offline",
		"Tandem downloads nothing; get the file and give it with "
		"'--model FILE'" },

	/* prompts and texts */
	{ "--n-predict", "the number of tokens is '--predict N'" },
	{ "-s", "the seed is '--seed S'" },
	{ "-r --reverse-prompt", "the text to stop at is '--stop TEXT'" },
	{ "-sys --system-prompt -sysf --system-prompt-file",
		"the system's turn is '--system TEXT', with '--chat'" },
	{ "-cnv --conversation -no-cnv --no-conversation -i --interactive -if "
	  "--interactive-first -st --single-turn -mli --multiline-input",
		"'tandem chat' is for conversations, 'tandem run' for one "
		"text" },
	{ "--jinja --no-jinja --chat-template --chat-template-file "
	  "--chat-template-kwargs",
		"'--chat' uses the chat template of the model file; change it "
		"there" },
	{ "--in-prefix --in-suffix --in-prefix-bos",
		"put this text into the prompt, '--prompt TEXT'" },
	{ "-e --escape --no-escape",
		"backslashes stay as they are; most shells read $'\\n' as a "
		"line feed" },
	{ "-j -jf --json-schema-file", "a schema is '--json-schema FILE'" },
	{ "--grammar --grammar-file",
		"GBNF grammars are not supported; '--json-schema FILE' "
		"constrains the text to JSON" },
	{ "--repeat-last-n", "the number of tokens is '--repeat-last N'" },
	{ "-l --logit-bias --presence-penalty --frequency-penalty",
		"this is a member of a request to 'tandem serve'" },
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
		"leave it out; the text alone goes to standard output" },

	/* drafts */
	{ "-md --model-draft", "the draft model is '--draft FILE'" },
	{ "--draft-max --draft-n --draft-min --draft-p-min",
		"the length of drafts is '--draft-len N', with '--method "
		"chain'" },

	/* the server */
	{ "--host", "the address is '--listen HOST:PORT' of 'tandem serve'" },
	{ "--api-key",
		"keys are in a file: '--api-key-file FILE' of 'tandem "
		"serve'" },
	{ "--ssl-key-file --ssl-cert-file",
		"the server does not encrypt; use a proxy that does" },
	{ "-a --alias", "the name is '--name NAME' of 'tandem serve'" },
	{ "--models-dir", "the folder is '--models DIR' of 'tandem serve'" },
	{ "--models-max",
		"'--memory SIZE' of 'tandem serve' limits the loaded models" },
	{ "--embedding --embeddings",
		"leave it out; 'tandem serve' answers /v1/embeddings with "
		"every model that is not a diffusion model" },
	{ "--rerank --reranking",
		"ranking is not supported; 'tandem score' scores texts" },
	{ "--metrics --no-slots --props --ui --no-ui --webui "
	  "--no-webui",
		"leave it out; 'tandem serve' always has /metrics and a page" },
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
