#include "host/bench/bench_diffusion.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/bench_table.h"
#include "host/bench/curve.h"
#include "host/bench/run_options.h"
#include "host/api/tandem_pass.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Groups of runs that must generate the same text. ANY: no group. CAUSAL: plain
 * and speculative decoding of the target model. BLOCKS: the block-diffusion
 * model with plain decoding and with method linear-spec. PLACED: method
 * llada-npu with every size of the NPU's address window and every placement of
 * the weights. CACHED: method block with and without a KV cache, if each pass
 * decides one token. CACHED_SURE: like CACHED, but each pass decides all tokens
 * whose probability reaches a threshold.
 */
enum diffusion_texts {
	DIFFUSION_ANY,
	DIFFUSION_CAUSAL,
	DIFFUSION_BLOCKS,
	DIFFUSION_PLACED,
	DIFFUSION_CACHED,
	DIFFUSION_CACHED_SURE
};

/* A part is a group of rows of a table; consecutive parts with the same table
 * name form one table. */
struct diffusion_part {
	enum diffusion_table_kind kind;
	enum diffusion_texts texts;
	struct table_spec table;
};

/* Hooks of table rows (table_variant.hook): a hook is called when the model of
 * the row's run is open. */
enum diffusion_hook {
	/* compute costs as if the phone's CPU ran the passes */
	DIFFUSION_BY_CPU = 1,
};

/* ---- tables -------------------------------------------------------------- */

const char *const diffusion_table_names[DIFFUSION_TABLES] = { "decoders",
	"blocks", "curve", "ablation", "sensitivity", "phones", "window",
	"exact" };

/*
 * The benchmark sets --canvas to the maximum number of tokens of an output, so
 * that the whole answer starts as mask tokens. Table rows with NO_CANVAS start
 * with the mask tokens of the current block only.
 */
#define NO_CANVAS "canvas=0"
#define FAST      "method=fast-dllm"
#define OURS      "method=llada-npu"
#define BLOCKS    "model=block"
#define TARGET    "model=target"
/* PAPER: the thresholds of the llada.cpp paper. AHEAD: a pass also has rows
 * (positions) for blocks after the current block, as in this paper. */
#define PAPER "visible=0.7", "stable=0.9"
#define AHEAD "window=32", "lookahead=4"

/* ---- decoders ------------------------------------------------------------ */

/*
 * SURE_SMALL: the threshold with which fast-dllm and the bundled model are
 * right about as often as with one token per pass. The row "edit" has the
 * editing of LLaDA2.1, which shows tokens at a threshold and changes them until
 * a pass changes none; "by drift" has the test of Elastic-Cache, which
 * refreshes the cache when the attention of the most attended token has
 * changed.
 */
#define ONE_TOKEN  "threshold=1"
#define SURE_SMALL "threshold=0.99"
#define DELAYED    "cache=delayed", "refresh-every=8"

static const struct table_variant masked_decoders[] = {
	{ "llada, canvas", { "method=llada" } },
	{ "llada", { "method=llada", NO_CANVAS } },
	{ "dream", { "method=dream" } },
	{ "one a pass, prefix", { FAST, ONE_TOKEN } },
	{ "one a pass, dual", { FAST, ONE_TOKEN, "cache=dual" } },
	{ "one a pass, delayed", { FAST, ONE_TOKEN, DELAYED } },
	{ "parallel, no cache", { FAST, SURE_SMALL, "cache=none" } },
	{ "parallel, prefix", { FAST, SURE_SMALL } },
	{ "parallel, dual", { FAST, SURE_SMALL, "cache=dual" } },
	{ "parallel, delayed", { FAST, SURE_SMALL, DELAYED } },
	{ "parallel, block", { FAST, SURE_SMALL, NO_CANVAS } },
	{ "multi-block", { "method=multi-block", SURE_SMALL } },
	{ "edit", { OURS, "visible=0.98", "stable=1", "settle=16" } },
	{ "stages", { OURS } },
	{ "by drift", { OURS, "refresh=drift" } },
	{ "stages, paper's", { OURS, PAPER, AHEAD } },
};

static const struct table_variant causal_decoders[] = {
	{ "autoregressive", { "method=autoregressive", TARGET } },
	{ "chain", { "method=chain", TARGET } },
};

/* clang-format off */
#define BEFORE_RATIOS                                                         \
	{ "right", "right%", 1, 100, figure_right, .panel = 3 },              \
	{ "tokens_per_s", "tok/s", 2, 1, figure_tokens_per_s, .panel = 1 },   \
	{ "over_first", "times", 2, 1, figure_tokens_per_s,                   \
		.against = COLUMN_SHARE }
#define AFTER_RATIOS                                                          \
	{ "request_token_s", "all ms/token", 3, 1e3, figure_request_s },      \
	{ "tokens_per_pass", "tok/pass", 2, 1, figure_length, .panel = 2 },   \
	{ "passes", "passes", 0, 1, figure_passes },                          \
	{ "rows_per_pass", "rows", 1, 1, figure_rows },                       \
	{ "logits_per_pass", "logits", 1, 1, figure_logits_rows },            \
	{ "skipped_per_pass", "skipped", 1, 1, figure_skipped },              \
	{ "revised", "revised%", 1, 1, figure_revised },                      \
	{ "refreshed_per_pass", "refreshed", 1, 1, figure_refreshed },        \
	{ "underutilized", "padding%", 1, 100, figure_underutilized },        \
	{ "joules_per_token", "mJ/tok", 2, 1e3, figure_joules,                \
		.of_phone = true },                                           \
	{ "watts", "W", 2, 1, figure_watts, .of_phone = true },               \
	{ 0 }
#define OVER(key, head, row)                                                  \
	{ key, head, 2, 1, figure_tokens_per_s, .against = COLUMN_SHARE,      \
		.base = row }
#define OVER_ON_PHONE(key, head, row)                                         \
	{ key, head, 2, 1, figure_tokens_per_s, .of_phone = true,             \
		.against = COLUMN_SHARE, .base = row }
/* clang-format on */

static const struct column_spec decoder_columns[] = { BEFORE_RATIOS,
	OVER("over_one", "of one a pass", "one a pass, prefix"),
	OVER("over_parallel", "of parallel", "parallel, prefix"),
	AFTER_RATIOS };

/* ---- decoders of one block diffusion model ------------------------------- */

/*
 * A run measures the first items of each task. The thresholds in
 * block_decoders[] were chosen on other items. Each threshold is the lowest
 * value at which the share of right outputs is at most one percent below the
 * share that is reached if each pass decides one token.
 */
static const struct table_variant one_by_one[] = {
	{ "canvas", { "method=block", "no-cache=true", BLOCKS } },
	{ "one a pass", { "method=block", BLOCKS } },
};

static const struct table_variant block_decoders[] = {
	{ "parallel", { "method=block", "threshold=0.998", BLOCKS } },
	{ "multi-block",
		{ "method=multi-block", "threshold=0.998", "add-block-at=0.9",
			BLOCKS } },
	{ "without stages",
		{ OURS, "visible=0.995", "no-revision=true", BLOCKS } },
	{ "stages", { OURS, BLOCKS } },
	{ "stages, ahead", { OURS, AHEAD, BLOCKS } },
	{ "refresh", { OURS, "refresh=host", BLOCKS } },
};

static const struct table_variant block_readers[] = {
	{ "blocks, plain", { "method=autoregressive", BLOCKS } },
	{ "linear-spec", { "method=linear-spec", BLOCKS } },
};

static const struct column_spec block_columns[] = {
	{ "right", "right%", 1, 100, figure_right, .panel = 3 },
	{ "tokens_per_s", "tok/s", 2, 1, figure_tokens_per_s, .panel = 1 },
	OVER("over_canvas", "of canvas", "canvas"),
	OVER("over_one", "of one a pass", "one a pass"),
	OVER("over_parallel", "of parallel", "parallel"), AFTER_RATIOS
};

/* ---- thresholds ---------------------------------------------------------- */

/* clang-format off */
#define THRESHOLD(option, t) { t, { option, "threshold=" t } }
#define THRESHOLDS(option)                                                    \
	THRESHOLD(option, "0.99"), THRESHOLD(option, "0.98"),                 \
	THRESHOLD(option, "0.95"), THRESHOLD(option, "0.9"),                  \
	THRESHOLD(option, "0.8"), THRESHOLD(option, "0.7")
/* clang-format on */

static const struct table_variant one_threshold[] = { THRESHOLDS(NO_CANVAS) };
static const struct table_variant of_blocks[] = { THRESHOLDS(BLOCKS) };

static const struct table_variant two_thresholds[] = {
	{ "0.99, 0.995", { "visible=0.99", "stable=0.995" } },
	{ "0.98, 0.99", { "visible=0.98", "stable=0.99" } },
	{ "0.95, 0.99", { "visible=0.95", "stable=0.99" } },
	{ "0.9, 0.99", { "visible=0.9", "stable=0.99" } },
	{ "0.8, 0.9", { "visible=0.8", "stable=0.9" } },
	{ "0.7, 0.9", { "visible=0.7", "stable=0.9" } },
};

static const struct column_spec curve_columns[] = {
	{ "right", "right%", 1, 100, figure_right, .panel = 1 },
	{ "tokens_per_pass", "tok/pass", 2, 1, figure_length, .panel = 2 },
	{ "tokens_per_s", "tok/s", 2, 1, figure_tokens_per_s },
	{ "passes", "passes", 0, 1, figure_passes },
	{ "rows_per_pass", "rows", 1, 1, figure_rows },
	{ "revised", "revised%", 1, 1, figure_revised },
	{ 0 },
};

/* ---- gain of each technique ---------------------------------------------- */

/* ONE_A_PASS: with a threshold of 1, each pass decides one token. SURE: with a
 * threshold of 0.9, each pass decides all tokens whose probability is 0.9 or
 * more. */
#define ONE_A_PASS "visible=1", "stable=1"
#define SURE       "visible=0.9", "stable=0.9"

/* A pass also has rows for later blocks if at most two tokens of the current
 * block are undecided. */
#define LATE "lookahead=2"
/* The NPU's address window has only 4 slots (it maps at most 4 buffers at the
 * same time), too few to map the weights of all layers at once. */
#define FEW_MAPS "va-slots=4"

static const struct table_variant ablation[] = {
	{ "NPU", { "method=llada" } },
	{ "+prefix", { FAST, "threshold=1", "cache=prefix" } },
	{ "+block", { OURS, ONE_A_PASS } },
	{ "+sure at once", { OURS, SURE } },
	{ "+later blocks", { OURS, SURE, AHEAD } },
	{ "+stages", { OURS, PAPER, AHEAD } },
	{ "+refresh", { OURS, PAPER, AHEAD, "refresh=host" } },
	{ "+refresh by drift", { OURS, PAPER, AHEAD, "refresh=drift" } },
	{ "+later blocks, late", { OURS, SURE, LATE } },
	{ "+stages, late", { OURS, PAPER, LATE } },
	{ "+prefix, mapped anew",
		{ FAST, "threshold=1", "cache=prefix", FEW_MAPS,
			"placement=drop-all" } },
	{ "+prefix, packed",
		{ FAST, "threshold=1", "cache=prefix", FEW_MAPS,
			"placement=swap" } },
};

/* The baselines of the llada.cpp paper on a phone's CPU. The paper does not
 * state which of its two methods with a KV cache ran on the CPU, so costs are
 * computed for both methods. */
static const struct table_variant cpu_rows[] = {
	{ "CPU", { "method=llada" }, DIFFUSION_BY_CPU },
	{ "CPU, +prefix", { FAST, "threshold=1", "cache=prefix" },
		DIFFUSION_BY_CPU },
	{ "CPU, +block", { OURS, ONE_A_PASS }, DIFFUSION_BY_CPU },
};

/*
 * Plain decoding uses the target model, which has 8-bit weights; the
 * masked-diffusion model has 4-bit weights. For a comparison at equal weight
 * sizes, these rows decode token by token with the block-diffusion model, which
 * also has 4-bit weights.
 */
static const struct table_variant plain_rows[] = {
	{ "autoregressive, 4 bits", { "method=autoregressive", BLOCKS } },
};

static const struct table_variant plain_cpu_rows[] = {
	{ "CPU, autoregressive, 4 bits", { "method=autoregressive", BLOCKS },
		DIFFUSION_BY_CPU },
};

static const struct table_variant causal_cpu_rows[] = {
	{ "CPU, autoregressive", { "method=autoregressive", TARGET },
		DIFFUSION_BY_CPU },
};

static const struct column_spec ablation_columns[] = { BEFORE_RATIOS,
	OVER_ON_PHONE("over_cpu_prefix", "of CPU+prefix", "CPU, +prefix"),
	OVER_ON_PHONE("over_cpu_block", "of CPU+block", "CPU, +block"),
	AFTER_RATIOS };

/* ---- texts that must be the same ----------------------------------------- */

static const struct table_variant cached[] = {
	{ "block", { "method=block", BLOCKS } },
	{ "block, no cache", { "method=block", "no-cache=true", BLOCKS } },
};

static const struct table_variant cached_sure[] = {
	{ "block, by 0.9", { "method=block", "threshold=0.9", BLOCKS } },
	{ "block, by 0.9, no cache",
		{ "method=block", "threshold=0.9", "no-cache=true", BLOCKS } },
	{ "llada-npu, as these",
		{ OURS, "visible=0.9", "no-revision=true", "window-from=block",
			BLOCKS } },
};

/* ---- settings ------------------------------------------------------------ */

#define TO_BLOCK_END "window=0"

static const struct table_variant lookaheads[] = {
	{ "0", { TO_BLOCK_END, "lookahead=0" } },
	{ "1", { TO_BLOCK_END, "lookahead=1" } },
	{ "2", { TO_BLOCK_END, "lookahead=2" } },
	{ "4", { TO_BLOCK_END, "lookahead=4" } },
	{ "8", { TO_BLOCK_END, "lookahead=8" } },
	{ "16", { TO_BLOCK_END, "lookahead=16" } },
	{ "32", { TO_BLOCK_END, "lookahead=32" } },
};

static const struct table_variant widths[] = {
	{ "0", { TO_BLOCK_END, "lookahead=0" } },
	{ "32", { "window=32", "lookahead=0" } },
	{ "64", { "window=64", "lookahead=0" } },
};

static const struct table_variant thresholds[] = {
	{ "0.5, 0.7", { "visible=0.5", "stable=0.7" } },
	{ "0.5, 0.9", { "visible=0.5", "stable=0.9" } },
	{ "0.5, 0.99", { "visible=0.5", "stable=0.99" } },
	{ "0.7, 0.7", { "visible=0.7", "stable=0.7" } },
	{ "0.7, 0.9", { "visible=0.7", "stable=0.9" } },
	{ "0.7, 0.99", { "visible=0.7", "stable=0.99" } },
	{ "0.9, 0.9", { "visible=0.9", "stable=0.9" } },
	{ "0.9, 0.99", { "visible=0.9", "stable=0.99" } },
};

static const struct column_spec setting_columns[] = {
	{ "right", "right%", 1, 100, figure_right, .panel = 2 },
	{ "tokens_per_s", "tok/s", 2, 1, figure_tokens_per_s, .panel = 1 },
	{ "tokens_per_pass", "tok/pass", 2, 1, figure_length },
	{ "passes", "passes", 0, 1, figure_passes },
	{ "pass_s", "ms", 2, 1e3, figure_pass_s },
	{ "rows_per_pass", "rows", 1, 1, figure_rows },
	{ "skipped_per_pass", "skipped", 1, 1, figure_skipped },
	{ "revised", "revised%", 1, 1, figure_revised },
	{ "unstable", "unstable%", 1, 1, figure_unstable },
	{ "tails", "tails%", 1, 100, figure_tails },
	{ "left_pass", "left", 2, 1, figure_left_pass },
	{ "right_pass", "right", 2, 1, figure_right_pass },
	{ "underutilized", "padding%", 1, 100, figure_underutilized },
	{ 0 },
};

/* ---- phones -------------------------------------------------------------- */

/*
 * The phones and lengths of figure 11 of the llada.cpp paper, and the model and
 * the lengths of figure 12. All models have 4-bit weights. Their passes are
 * those of the block diffusion model.
 */
/* clang-format off */
#define ON_PHONE(name, shape, phone, n)                                       \
	{ name ", " phone ", " #n, { BLOCKS, "as=" shape, "as-type=q4_0",     \
			"clock=soc:" phone, "predict=" #n, "canvas=" #n } }
#define LENGTHS(name, shape, phone)                                           \
	ON_PHONE(name, shape, phone, 32), ON_PHONE(name, shape, phone, 64),   \
	ON_PHONE(name, shape, phone, 128)
/* clang-format on */

static const struct table_variant phones[] = {
	LENGTHS("LLaDA 8B", "llada-8b", "sd8gen3"),
	LENGTHS("LLaDA 8B", "llada-8b", "sd8elite"),
	LENGTHS("LLaDA 8B", "llada-8b", "sd8elite5"),
	LENGTHS("Dream 7B", "dream-7b", "sd8elite"),
};

/* The baselines of the paper, one token a pass, and plain decoding by a model
 * of the size of Llama 3 8B. */
#define NO_CACHE "no-cache=true"
#define PLAIN_8B TARGET, "as=llama3.1-8b"

static const struct table_variant phones_rivals[] = {
	{ "CPU", { NO_CACHE }, DIFFUSION_BY_CPU, .method = "block" },
	{ "CPU, +prefix", { NULL }, DIFFUSION_BY_CPU, .method = "block" },
	{ "NPU", { NO_CACHE }, .method = "block" },
	{ "NPU, +prefix", { NULL }, .method = "block" },
	{ "CPU, plain", { PLAIN_8B }, DIFFUSION_BY_CPU,
		.method = "autoregressive" },
	{ "plain", { PLAIN_8B }, .method = "autoregressive" },
};

#define OVER_RIVAL(key, rival)                                         \
	{                                                              \
		"over_" key, rival, 2, 1, figure_request_tokens_per_s, \
			.against = COLUMN_SHARE, .base = rival         \
	}
#define ENERGY_OF_RIVAL(key, rival)                                           \
	{                                                                     \
		"joules_over_" key, "J: " rival, 2, 1, figure_request_joules, \
			.against = COLUMN_OVER, .base = rival                 \
	}

static const struct column_spec phones_columns[] = {
	{ "request_token_s", "ms/token", 2, 1e3, figure_request_s, .panel = 1 },
	OVER_RIVAL("cpu", "CPU"),
	OVER_RIVAL("cpu_prefix", "CPU, +prefix"),
	OVER_RIVAL("npu", "NPU"),
	OVER_RIVAL("npu_prefix", "NPU, +prefix"),
	OVER_RIVAL("cpu_plain", "CPU, plain"),
	OVER_RIVAL("plain", "plain"),
	ENERGY_OF_RIVAL("cpu_prefix", "CPU, +prefix"),
	ENERGY_OF_RIVAL("plain", "plain"),
	{ 0 },
};

/* ---- address windows ----------------------------------------------------- */

static const struct column_spec window_columns[] = {
	{ "maps_per_pass", "maps", 2, 1, figure_maps, .panel = 2 },
	{ "copied_bytes_per_pass", "copied MB", 3, 1e-6, figure_copied },
	{ "stall_s", "waited ms", 3, 1e3, figure_stall_s, .panel = 1 },
	{ "pass_s", "ms", 3, 1e3, figure_pass_s, .panel = 1 },
	{ "tokens_per_s", "tok/s", 2, 1, figure_tokens_per_s },
	{ 0 },
};

/* Each row combines a window size with a placement of the weights. */
static const struct table_spec window_table = { .name = "window",
	.title = "Small address windows, by the placement of the weights",
	.note = "Per pass of llada-npu: number of buffers that were mapped and "
		"unmapped, number\nof bytes copied into slots, and time that "
		"the NPU waited for weights. All\nplacements generate the same "
		"text.",
	.name_key = { "window", "placement" },
	.column = window_columns,
	.plot = { .y = { "ms a pass", "maps a pass" } } };

/* ---- all tables ---------------------------------------------------------- */

#define PART(k, same, variants, of, columns, ...)                        \
	{                                                                \
		k, same,                                                 \
		{                                                        \
			.variant = variants,                             \
			.n_variants = ARRAY_LEN(variants), .method = of, \
			.column = columns, __VA_ARGS__                   \
		}                                                        \
	}

static const char about_decoders[] =
	"tok/s: decoding speed, geometric mean over the tasks; for diffusion "
	"models the\ntime of the prompt is included. all ms/token: time per "
	"token with the prompt,\nfor all models. rows, logits, skipped, "
	"refreshed: per pass. skipped: rows\nwithout logits because their "
	"token is final. refreshed: rows that the host\ncomputed during the "
	"pass. revised%: share of the tokens that changed after they\nwere "
	"shown. times, of one a pass, of parallel: tok/s divided by those of "
	"the rows\n'llada, canvas' (as in the code of LLaDA's authors, every "
	"pass computes the whole\ntext and all masks of the answer), 'one a "
	"pass, prefix' and 'parallel, prefix'\n(fast-dllm). delayed: final "
	"tokens are cached a pass later, and refreshed every\n8 passes (dKV-"
	"Cache). block: without masks after the block. edit: shown tokens\n"
	"change until a pass changes none (LLaDA2.1). stages: llada-npu. by "
	"drift: with\nElastic-Cache's test of when to refresh. The last two "
	"rows decode the target\nmodel from left to right.";

static const char about_exact[] =
	"All rows of a group must generate the same text, or the run fails. "
	"'block, no\ncache' computes the whole text in every pass. llada-npu "
	"runs here without\nchanging shown tokens and without rows for later "
	"blocks. linear-spec verifies\nits own drafts.";

#define EXACT(same, variants)                                           \
	PART(DIFFUSION_T_EXACT, same, variants, "block", curve_columns, \
		.name = "exact", .title = "Texts that must be equal",   \
		.note = about_exact, .name_key = { "decoder" },         \
		.plot = { .y = { "right, %", "tokens a pass" } })

#define DECODERS(same, variants)                                             \
	PART(DIFFUSION_T_DECODERS, same, variants, "llada", decoder_columns, \
		.name = "decoders", .title = "Decoders",                     \
		.note = about_decoders, .name_key = { "decoder" },           \
		.plot = { .y = { "tokens/s", "tokens a pass", "right, %" } })

static const char about_blocks[] =
	"canvas: every pass computes the whole text and all masks of the "
	"answer. one a\npass: finished blocks are cached; a pass fixes one "
	"token. parallel: a pass fixes\nall tokens with a probability of at "
	"least 0.998; multi-block: in several blocks\nat once (d3LLM). Method "
	"llada-npu: without stages: tokens are final at 0.995.\nstages: tokens "
	"are shown, and final, at the thresholds of the model. ahead:\npasses "
	"have rows for the next block. refresh: the host recomputes shown "
	"tokens\nthat precede the block. blocks, plain and linear-spec decode "
	"from left to right.";

#define OF_BLOCKS(same, variants)                                        \
	PART(DIFFUSION_T_BLOCKS, same, variants, "block", block_columns, \
		.name = "blocks",                                        \
		.title = "Decoders of one block diffusion model",        \
		.note = about_blocks, .name_key = { "decoder" },         \
		.plot = { .y = { "tokens/s", "tokens a pass", "right, %" } })

#define CURVE(of, variants)                                                     \
	PART(DIFFUSION_T_CURVE, DIFFUSION_ANY, variants, of, curve_columns,     \
		.name = "curve", .title = "Accuracy by tokens per pass",        \
		.note = "Name of a row: its threshold; or two thresholds,\nat " \
			"which a token is shown and at which it is final.",     \
		.name_key = { "method", "thresholds" },                         \
		.plot = { .y = { "right, %" },                                  \
			.points = true,                                         \
			.x = "tokens a pass" })

static const char about_ablation[] =
	"NPU: every pass computes the whole text with all masks of the answer, "
	"and fixes\none token. Each of the next rows adds a technique. "
	"+prefix: tokens before the\nblock are cached. +block: there are no "
	"masks after the block, and logits of\nfinal tokens are not computed. "
	"+sure at once: a pass fixes all tokens with a\nprobability of 0.9 or more. "
	"+later blocks: passes have rows for later blocks.\n+stages: a token "
	"is shown at 0.7 and final at 0.9. +refresh: the host recomputes\n"
	"unstable tokens that precede the block. late: rows for later blocks "
	"only when a\nblock is nearly done. mapped anew, packed: in an address "
	"window of 4 buffers,\nwith --placement drop-all and swap. CPU: costs "
	"as if the phone's CPU ran all\npasses; a matrix takes the longer of "
	"its times for bytes and for products. of\nCPU...: tok/s divided by "
	"that of the CPU row. autoregressive and chain use the\ntarget model; "
	"4 bits: the block diffusion model, which has 4-bit weights like\nthe "
	"masked model.";

#define ABLATION(same, variants)                                              \
	PART(DIFFUSION_T_ABLATION, same, variants, "llada", ablation_columns, \
		.name = "ablation", .title = "Gain by each technique",        \
		.note = about_ablation, .name_key = { "row" },                \
		.plot = { .y = { "tokens/s", "tokens a pass", "right, %" } })

static const char about_phones[] =
	"ms/token: time per token of llada-npu, with the prompt. Other "
	"columns: speed, or\nenergy of an answer (J), compared with a rival. "
	"CPU, NPU: a pass computes the\nwhole text with all masks of the "
	"answer, and fixes one token; +prefix: tokens\nbefore the block are "
	"cached. plain: decoding from left to right with the layer\nsizes of "
	"Llama 3.1 8B. On the CPU all passes are computed by the phone's CPU.";

#define SETTINGS(variants, key, ...)                                        \
	PART(DIFFUSION_T_SENSITIVITY, DIFFUSION_ANY, variants, "llada-npu", \
		setting_columns, .name_key = { key },                       \
		.plot = { .y = { "tokens/s", "right, %" } }, __VA_ARGS__)

static const struct diffusion_part parts[] = {
	DECODERS(DIFFUSION_ANY, masked_decoders),
	DECODERS(DIFFUSION_CAUSAL, causal_decoders),
	OF_BLOCKS(DIFFUSION_CACHED, one_by_one),
	OF_BLOCKS(DIFFUSION_ANY, block_decoders),
	OF_BLOCKS(DIFFUSION_BLOCKS, block_readers),
	CURVE("fast-dllm", one_threshold),
	CURVE("multi-block", one_threshold),
	CURVE("llada-npu", two_thresholds),
	CURVE("block", of_blocks),
	ABLATION(DIFFUSION_ANY, ablation),
	ABLATION(DIFFUSION_CAUSAL, causal_decoders),
	ABLATION(DIFFUSION_ANY, cpu_rows),
	ABLATION(DIFFUSION_CAUSAL, causal_cpu_rows),
	ABLATION(DIFFUSION_BLOCKS, plain_rows),
	ABLATION(DIFFUSION_BLOCKS, plain_cpu_rows),
	SETTINGS(lookaheads, "lookahead", .name = "lookahead",
		.title = "llada-npu by the number of masks left when passes "
			 "begin to include later blocks",
		.note = "N: passes include later blocks when the current block "
			"has at most N masks left;\nbefore that, windows end "
			"with the block."),
	SETTINGS(widths, "window", .name = "widths",
		.title = "llada-npu by the rows of a pass",
		.note = "0: the window ends with the block. --lookahead is 0 "
			"in all rows."),
	SETTINGS(thresholds, "thresholds", .name = "thresholds",
		.title = "llada-npu by its thresholds",
		.note = "The two thresholds: probability at which a token is "
			"shown, and probability at\nwhich it is final. "
			"unstable%: share of the tokens that are not final "
			"when\ntheir block is finished. tails%: share of the "
			"passes that begin with 1 to 4\nmasks in the block. "
			"left, right: mean number of the block's pass that "
			"fills a\nmask in the block's left and right half."),
	PART(DIFFUSION_T_PHONES, DIFFUSION_ANY, phones, "llada-npu",
		phones_columns, .name = "phones",
		.title = "Whole answers by model, phone and length: speed and "
			 "energy over each rival",
		.note = about_phones, .name_key = { "model, phone, tokens" },
		.of_phone = true, .rival = phones_rivals,
		.n_rivals = ARRAY_LEN(phones_rivals),
		.plot = { .y = { "ms a token" } }),
	EXACT(DIFFUSION_CACHED, cached),
	EXACT(DIFFUSION_CACHED_SURE, cached_sure),
	EXACT(DIFFUSION_BLOCKS, block_readers),
};

/* ---- planning ------------------------------------------------------------ */

struct bench_diffusion {
	const struct bench_diffusion_args *args;
	struct bench_run run;
	struct setting usual;
	struct method_facts method[32]; /* all decoding methods */
	struct table_request request;
	struct table_plan plan[ARRAY_LEN(parts) + 1];
	unsigned n_plans;
	/* at most one table for each part, plus the tables of areas under the
	 * curves and of address windows */
	struct bench_table table[ARRAY_LEN(parts) + 2];
};

static int cost_by_cpu(void *arg, struct tandem *t, struct err *e)
{
	tandem_price_by_cpu(t, false);
	return 0;
}

/* The hook for DIFFUSION_BY_CPU, the only value of enum diffusion_hook. */
static const struct setting_hook by_cpu = { .opened = cost_by_cpu };

static int add_placed(struct bench_diffusion *b, struct table_plan *p,
	uint32_t window, uint32_t slots, const char *placement, struct err *e)
{
	char change[2][64], name[TABLE_NAME];
	struct setting s = { 0 };
	struct run *run;
	int ret = setting_change(&s, "method=llada-npu", e);

	snprintf(change[0], sizeof(change[0]), "va-window=%uM", window);
	snprintf(change[1], sizeof(change[1]), "va-slots=%u", slots);
	for (int i = 0; i < 2 && !ret; i++)
		ret = setting_change(&s, change[i], e);
	if (!ret)
		ret = setting_set(&s, "placement", placement, e);
	if (ret) {
		setting_release(&s);
		return ret;
	}
	ret = experiment_add(&b->run.x, &s, DIFFUSION_PLACED, &run, e);
	snprintf(name, sizeof(name), "%u MiB, %u buffers", window, slots);
	return ret ? ret : table_plan_row(p, run, name, placement, e);
}

static int plan(struct bench_diffusion *b, struct err *e)
{
	static const char *const placements[] = { "belady", "paging",
		"drop-all", "swap" };
	const struct bench_diffusion_args *a = b->args;
	struct table_plan *windows;
	unsigned n_methods = 0;
	char number[16];
	int ret = 0;

	while (n_methods < ARRAY_LEN(b->method) &&
		method_facts(n_methods, &b->method[n_methods]))
		n_methods++;

	/* Unless the user or a row sets another canvas, let the whole answer
	 * start as mask tokens. */
	snprintf(number, sizeof(number), "%u", b->run.n_predict);
	if (!run_option_is_set(a->run.options, "canvas"))
		ret = setting_set(&b->usual, "canvas", number, e);
	for (size_t i = 0; i < ARRAY_LEN(parts) && !ret; i++) {
		const struct diffusion_part *p = &parts[i];

		/* Table rows for the phone's CPU have modeled times, so these
		 * rows are left out if the other times are wall-clock times. */
		if (!a->table[p->kind] ||
			((p->table.variant->hook || p->table.of_phone) &&
				!b->run.clock))
			continue;
		if (!i || strcmp(p->table.name, p[-1].table.name))
			b->n_plans++;
		b->request = (struct table_request){ .usual = &b->usual,
			.method = b->method,
			.n_methods = n_methods,
			.hook = &by_cpu,
			.same_text = p->texts };
		ret = table_plan(&b->plan[b->n_plans - 1], &b->run.x, &p->table,
			&b->request, e);
	}
	if (ret || !a->table[DIFFUSION_T_WINDOW])
		return ret;
	windows = &b->plan[b->n_plans++];
	windows->spec = &window_table;
	for (unsigned w = 0; w < a->n_windows; w++)
		for (unsigned s = 0; s < a->n_slots; s++)
			for (size_t i = 0; i < ARRAY_LEN(placements) && !ret;
				i++)
				ret = add_placed(b, windows, a->window[w],
					a->slots[s], placements[i], e);
	return ret;
}

/* ---- areas under the curves ---------------------------------------------- */

static void fill_areas(const struct bench_run *r, const struct table_plan *p,
	struct bench_table *out)
{
	double best = 0;

	*out = (struct bench_table){ .name = "areas",
		.title = "Areas below the curves of accuracy",
		.note = "area: below the curve (trapezoidal rule), from 1 "
			"token per pass to the largest\nnumber that the method "
			"reached. weighted: from 0 tokens per pass, with "
			"accuracy\ny weighted by exp(-3 (1 - y/best)), without "
			"points that lose more than 5 points\nof accuracy "
			"(accuracy under parallelism, d3LLM).",
		.name_key = { "method" },
		.plot = { .y = { "accuracy (%) times tokens per pass" } } };
	table_add_column(out, "area", "area", 1, 100);
	table_add_column(out, "weighted_area", "weighted", 1, 100);
	out->column[0].panel = out->column[1].panel = 1;
	for (unsigned i = 0; i < p->n; i++) {
		const struct run_summary t =
			run_summary(&r->x, p->row[i].run[0]);

		best = fmax(best, figure_right(&t));
	}
	/* Consecutive rows with the same first name are points of one curve. */
	for (unsigned i = 0; i < p->n;) {
		const char *name = p->row[i].name[0];
		struct curve_point point[CURVE_POINTS];
		unsigned n = 0;
		double *v;

		for (; i < p->n && !strcmp(p->row[i].name[0], name); i++) {
			const struct run_summary t =
				run_summary(&r->x, p->row[i].run[0]);

			point[n++] = (struct curve_point){ figure_length(&t),
				figure_right(&t) };
		}
		v = table_add_row(out, name, NULL)->value;
		v[0] = curve_area(point, n);
		v[1] = curve_weighted_area(point, n, best);
	}
}

/* ---- the benchmark ------------------------------------------------------- */

int bench_diffusion(const struct bench_diffusion_args *args, struct err *e)
{
	struct bench_diffusion *b = calloc(1, sizeof(*b));
	const struct bench_words words = { .name = "diffusion",
		.title = "Decoders of diffusion models",
		.checked = "in all rows of a group" };
	unsigned n = 0;
	int ret;

	if (!b)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	b->args = args;
	bench_run_set_up(&b->run, &args->run);
	ret = bench_run_prepare(&b->run, e);
	if (!ret)
		ret = plan(b, e);
	if (!ret)
		ret = bench_run_measure(&b->run, e);
	for (unsigned i = 0; i < b->n_plans && !ret; i++) {
		table_fill(&b->table[n++], &b->run.x, &b->plan[i], &b->request);
		if (b->plan[i].spec->plot.points)
			fill_areas(&b->run, &b->plan[i], &b->table[n++]);
	}
	if (!ret)
		ret = bench_run_report(&b->run, &words, b->table, n, e);
	bench_run_release(&b->run);
	setting_release(&b->usual);
	free(b);
	return ret;
}
