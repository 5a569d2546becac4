#include "host/bench/bench_sdnpu.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/api/tandem_pass.h"
#include "host/bench/bench_sdnpu_graphs.h"
#include "host/bench/bench_table.h"
#include "host/bench/experiment_table.h"
#include "host/bench/run_options.h"
#include "host/model/shapes.h"
#include "host/shipped/shipped_models.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

struct sdnpu_spec {
	enum sdnpu_table_kind kind;
	struct table_spec table;
};

/* ---- tables of the sd.npu paper ------------------------------------------ */

const char *const sdnpu_table_names[SDNPU_TABLES] = { "ablation", "length",
	"sources", "cycles", "overhead", "row_cost", "phones", "graphs" };

/* A pass of the compute graph for decoding has 32 rows. A chain of 31 drafted
 * tokens and the token before them fill these rows, as do the trees that the
 * chain is compared with. */
#define CHAIN      "method=chain", "draft-len=31"
#define OURS       "method=sdnpu"
#define CALIBRATED "calibration=true"
#define REUSED     "reuse=true"

/* ---- gain of each technique ---------------------------------------------- */

/* ONE: a single compute graph for prompts and decoding. TWO: a graph for
 * prompts and a graph for decoding, between which the device switches. BOTH:
 * the same two graphs, which both stay loaded. */
#define ONE   "one-graph=true", "prefill-chunk=32"
#define TWO   "graph-switch=best", "prefill-chunk=256"
#define BOTH  "graph-switch=off", "prefill-chunk=256"

#define PLAIN "method=autoregressive"
#define TREE  OURS, "draft=sam", TWO

/* If costs are computed for another shape than that of the target model, the
 * costs of the draft model are computed for this small shape. */
#define AS_SMALL .as_option = "draft-as", .as_shape = "qwen2.5-0.5b"

/* The parameters of the sd.npu paper. Some values are assumed, because the
 * paper does not state them; the help of --paper lists these parameters. */
#define PAPER_REUSE REUSED, "sam-children=1", "reuse-checked=true"
#define PAPER_CALIBRATED                                 \
	CALIBRATED, "anchor-key=single", "successors=3", \
		"successor-share=0.9", "calibrated-depth=2"

#define NPU "NPU"
#define SAM "+G+SD"

static const struct table_variant ablation[] = {
	{ NPU, { PLAIN, ONE } },
	{ "+G", { PLAIN, TWO } },
	{ "+SD", { CHAIN, "draft=sam", ONE } },
	{ SAM, { CHAIN, "draft=sam", TWO } },
	/* A drafter that the phone must compute: an EAGLE head, which is as
	 * large as one layer of the target. */
	{ "EAGLE-2",
		{ "method=eagle2-tree", "draft=eagle", "tree-rows=32", TWO },
		.bundled = true, .as_option = "draft-as" },
	{ "tree", { TREE } },
	{ "tree + reuse", { TREE, REUSED } },
	{ "tree + calibration", { TREE, CALIBRATED } },
	{ "tree + both", { TREE, REUSED, CALIBRATED } },
	{ "default", { OURS, "draft=sam+recycle", TWO } },
	{ "default + reuse", { OURS, REUSED, TWO } },
	{ "default + both", { OURS, REUSED, CALIBRATED, TWO } },
	{ "paper's tree", { TREE, "sam-children=1" } },
	{ "paper's + reuse", { TREE, PAPER_REUSE } },
	{ "paper's + calibration",
		{ TREE, "sam-children=1", PAPER_CALIBRATED } },
	{ "paper's + both", { TREE, PAPER_REUSE, PAPER_CALIBRATED } },
	{ "+G, both loaded", { PLAIN, BOTH } },
	{ "reuse, both loaded", { OURS, REUSED, BOTH } },
};

/*
 * Pairs of rows, { NAME, WITH, WITHOUT }: the gain of technique NAME is the
 * time of row WITHOUT divided by the time of row WITH. The gain of the tree is
 * relative to a chain that the suffix automaton drafts.
 */
static const struct table_pair gains[] = {
	{ "graph switching", "+G", NPU },
	{ "SAM", SAM, "+G" },
	{ "tree", "tree", SAM },
	{ "reuse", "tree + reuse", "tree" },
	{ "calibration", "tree + calibration", "tree" },
	{ "both", "tree + both", "tree" },
	{ "recycle", "default", "tree" },
	{ "reuse with recycle", "default + reuse", "default" },
	{ "calibration with these", "default + both", "default + reuse" },
	{ "paper's reuse", "paper's + reuse", "paper's tree" },
	{ "paper's calibration", "paper's + calibration", "paper's tree" },
	{ "paper's both", "paper's + both", "paper's tree" },
	{ "both graphs loaded", "reuse, both loaded", "default + reuse" },
};

/* Columns with the ratio of a row's figure to the figure of row NPU (plain
 * decoding with one graph), and to the figure of row SAM (a chain that the
 * suffix automaton drafts, with graph switching). */
#define OVER(prefix, f)                                                    \
	{ prefix "over_npu", "over NPU", 2, 1, f, .against = COLUMN_SHARE, \
		.base = NPU },                                             \
	{                                                                  \
		prefix "over_sam", "over SAM", 2, 1, f,                    \
			.against = COLUMN_SHARE, .base = SAM               \
	}

static const struct column_spec request_columns[] = {
	{ "request_token_s", "ms/token", 2, 1e3, figure_request_s, .panel = 1 },
	OVER("request_", figure_request_tokens_per_s),
	{ "in_a_row_token_s", "in a row", 2, 1e3, figure_request_s, .panel = 1,
		.in_a_row = true },
	{ "in_a_row_over_npu", "over NPU", 2, 1, figure_request_tokens_per_s,
		.against = COLUMN_SHARE, .base = NPU, .in_a_row = true },
	{ "task", "", 2, 1, figure_request_tokens_per_s,
		.against = COLUMN_SHARE, .base = NPU,
		.each = COLUMN_EACH_TASK },
	{ 0 },
};

static const struct column_spec decoding_columns[] = {
	{ "token_s", "ms/token", 2, 1e3, figure_token_s, .panel = 1 },
	OVER("", figure_tokens_per_s),
	{ "task", "", 2, 1, figure_tokens_per_s, .against = COLUMN_SHARE,
		.base = NPU, .each = COLUMN_EACH_TASK },
	{ "accepted_length", "length", 2, 1, figure_length,
		.each = COLUMN_MEAN_TASK },
	{ 0 },
};

static const struct column_spec energy_columns[] = {
	{ "request_joules", "J/request", 2, 1, figure_request_joules,
		.panel = 1 },
	{ "npu_over", "over NPU", 2, 1, figure_request_joules,
		.against = COLUMN_OVER, .base = NPU },
	{ "sam_over", "over SAM", 2, 1, figure_request_joules,
		.against = COLUMN_OVER, .base = SAM },
	{ "task", "", 2, 1, figure_request_joules, .against = COLUMN_OVER,
		.base = NPU, .each = COLUMN_EACH_TASK },
	{ "joules_per_token", "mJ/tok", 2, 1e3, figure_joules, .panel = 2 },
	{ 0 },
};

/* ---- tokens that a pass emits -------------------------------------------- */

#define FULL OURS, "fill-rows=true"

/* clang-format off */
#define LENGTHS(name, of)                                                     \
	{ name, { CHAIN, "draft=" of } },                                     \
	{ name ", calibrated", { FULL, "draft=" of, CALIBRATED } },           \
	{ name ", reused", { FULL, REUSED, "draft=" of } },                   \
	{ name ", ours", { FULL, REUSED, "draft=" of, CALIBRATED } },         \
	{ "and recycled",                                                     \
		{ FULL, REUSED, "draft=" of "+recycle", CALIBRATED } },       \
	{ "not calibrated", { FULL, REUSED, "draft=" of "+recycle" } }
/* clang-format on */

static const struct table_variant of_pld[] = { LENGTHS("PLD", "pld") };
static const struct table_variant of_sam[] = { LENGTHS("SAM", "sam") };

static const struct column_spec length_columns[] = {
	{ "task", "", 2, 1, figure_length, .panel = 1,
		.each = COLUMN_EACH_TASK },
	{ "mean", "mean", 2, 1, figure_length, .panel = 1,
		.each = COLUMN_MEAN_TASK },
	{ "over_first", "times", 2, 1, figure_length, .against = COLUMN_SHARE,
		.each = COLUMN_MEAN_TASK },
	{ 0 },
};

/* ---- sources of drafts --------------------------------------------------- */

static const struct table_variant sources[] = {
	{ SAM, { CHAIN, "draft=sam", TWO } },
	{ "tree", { TREE } },
	{ "tree + reuse", { TREE, REUSED } },
	{ "tree + calibration", { TREE, CALIBRATED } },
	{ "tree + both", { TREE, REUSED, CALIBRATED } },
	{ "default", { OURS, "draft=sam+recycle", TWO } },
	{ "tree + model", { OURS, "draft=sam+model", TWO }, AS_SMALL },
	{ "default + reuse", { OURS, REUSED, TWO } },
	{ "default + both", { OURS, REUSED, CALIBRATED, TWO } },
};

#define ACCEPTED(id, name)                                          \
	{ "accepted_" #name, #name, 2, 1, figure_##name##_accepted, \
		.panel = 1 },
#define DRAFTED(id, name) \
	{ "drafted_" #name, #name, 2, 1, figure_##name##_rows, .panel = 1 },

static const struct column_spec accepted_columns[] = {
	DRAFT_SOURCES(ACCEPTED){
		"accepted_length", "length", 2, 1, figure_length },
	{ 0 },
};

static const struct column_spec drafted_columns[] = {
	DRAFT_SOURCES(DRAFTED){ "rows_per_pass", "rows", 2, 1, figure_rows },
	{ "draft_s", "drafting us", 1, 1e6, figure_draft_s },
	{ 0 },
};

/* ---- use of the rows of NPU passes --------------------------------------- */

/* The rows of this table use two graphs, as the paper does: a pass always runs
 * all rows of the decode graph, so its rows without a token count as
 * padding. */
static const struct table_variant cycles[] = {
	{ "+G+SD", { CHAIN, "draft=sam", TWO } },
	{ "+G", { "method=autoregressive", TWO } },
	{ "ours", { OURS, REUSED, "draft=sam", TWO } },
	{ "ours, all rows", { FULL, REUSED, "draft=sam", TWO } },
	{ "ours, recycled", { OURS, REUSED, "draft=sam+recycle", TWO } },
};

static const struct column_spec cycles_columns[] = {
	{ "valid", "valid%", 1, 100, figure_valid, .panel = 1 },
	{ "wasted", "wasted%", 1, 100, figure_wasted, .panel = 1 },
	{ "underutilized", "underutilized%", 1, 100, figure_underutilized,
		.panel = 1 },
	{ "lost_rows", "lost/tok", 2, 1, figure_lost_rows },
	{ "recovered", "recovered%", 1, 100, figure_lost_rows,
		.against = COLUMN_SAVED },
	{ "joules_per_token", "mJ/tok", 2, 1e3, figure_joules,
		.of_phone = true },
	{ 0 },
};

/* ---- overhead of the techniques ------------------------------------------ */

static const struct table_variant overheads[] = {
	{ "SAM", { CHAIN, "draft=sam" } },
	{ "calibrated", { OURS, "draft=sam", CALIBRATED } },
	{ "by the request",
		{ OURS, "draft=sam", CALIBRATED, "anchors=request" } },
	{ "reused", { OURS, REUSED, "draft=sam" } },
	{ "both", { OURS, REUSED, "draft=sam", CALIBRATED } },
};

static const struct column_spec overhead_columns[] = {
	{ "prompt_token_s", "us/prompt token", 2, 1e6, figure_prompt_token_s,
		.panel = 1 },
	{ "more", "times", 2, 1, figure_prompt_token_s,
		.against = COLUMN_SHARE },
	{ "draft_s", "drafting us/pass", 2, 1e6, figure_draft_s },
	{ "tokens_per_s", "tok/s", 2, 1, figure_tokens_per_s },
	{ 0 },
};

/* ---- the cost of a row --------------------------------------------------- */

static const struct table_variant row_costs[] = {
	{ NPU, { PLAIN, ONE } },
	{ SAM, { CHAIN, "draft=sam", TWO } },
	{ "tree", { TREE } },
	{ "paper's + both", { TREE, PAPER_REUSE, PAPER_CALIBRATED } },
	{ "default + reuse", { OURS, REUSED, TWO } },
};

static const struct column_spec row_cost_columns[] = {
	{ "level", "", 2, 1, figure_tokens_per_s, .panel = 1,
		.against = COLUMN_SHARE, .base = NPU,
		.each = COLUMN_EACH_LEVEL },
	{ 0 },
};

/*
 * Values of row_weight_s, a constant of a phone's profile, in 1e-13 s: 0 (rows
 * cost nothing), 10, and 32, the cost that figure 6 of the paper implies for a
 * pass of 32 rows.
 */
static const struct table_levels row_weights = {
	.unit = "e-13",
	.key = "row_weight_e13_",
	.head = "e-13 s",
	.value = { 0, 10, 32 },
	.n = 3,
};

/* ---- models and phones --------------------------------------------------- */

/* Hooks of table rows (table_variant.hook): a hook is called when the model of
 * the row's run is open. */
enum sdnpu_hook {
	/* compute costs as if the phone's CPU ran the decode passes (all passes
	 * that come after those of the prompt) */
	SDNPU_DECODING_BY_CPU = 1,
};

static int decode_by_cpu(void *arg, struct tandem *t, struct err *e)
{
	tandem_price_by_cpu(t, true);
	return 0;
}

static const struct setting_hook by_cpu = { .opened = decode_by_cpu };

/* The phones and models of the sd.npu paper. */
/* clang-format off */
#define ON_PHONE(shape, phone)                                                \
	{ shape ", " phone, { "draft=sam+recycle", TWO, "as=" shape,    \
				"clock=soc:" phone } }
#define ON_PHONES(shape)                                                      \
	ON_PHONE(shape, "sd8gen2"), ON_PHONE(shape, "sd8gen3"),               \
	ON_PHONE(shape, "sd8elite")
/* clang-format on */

static const struct table_variant phones[] = {
	ON_PHONES("qwen2.5-0.5b"),
	ON_PHONES("qwen2.5-1.5b"),
	ON_PHONES("llama3.2-3b"),
};

/* The methods with which the sd.npu paper compares its own method. On a CPU
 * each additional row makes a pass slower, so short drafts are best. */
/* clang-format off */
#define ON_CPU       .hook = SDNPU_DECODING_BY_CPU
#define SAM_OF(n)    "draft=sam", "draft-len=" #n
#define EAGLE_OF(n)  "draft=eagle", "tree-rows=" #n
#define HEAD         .bundled = true, .as_option = "draft-as"
#define FASTER(key, rival)                                                    \
	{ "over_" key, rival, 2, 1, figure_request_tokens_per_s,              \
		.against = COLUMN_SHARE, .base = rival }
#define LESS_ENERGY(key, rival)                                               \
	{ "joules_over_" key, "J: " rival, 2, 1, figure_request_joules,       \
		.against = COLUMN_OVER, .base = rival }
/* clang-format on */

static const struct table_variant phones_rivals[] = {
	{ "NPU", { TWO }, .method = "autoregressive" },
	{ "CPU", { BOTH }, ON_CPU, .method = "autoregressive" },
	{ "SAM", { SAM_OF(31), TWO }, .method = "chain" },
	{ "CPU SAM", { SAM_OF(2), BOTH }, ON_CPU, .method = "chain" },
	{ "CPU SAM", { SAM_OF(4), BOTH }, ON_CPU, .method = "chain" },
	{ "CPU SAM", { SAM_OF(8), BOTH }, ON_CPU, .method = "chain" },
	{ "EAGLE-2", { EAGLE_OF(8), TWO }, HEAD, .method = "eagle2-tree" },
	{ "EAGLE-2", { EAGLE_OF(32), TWO }, HEAD, .method = "eagle2-tree" },
	{ "CPU EAGLE-2", { EAGLE_OF(4), BOTH }, HEAD, ON_CPU,
		.method = "eagle2-tree" },
	{ "CPU EAGLE-2", { EAGLE_OF(8), BOTH }, HEAD, ON_CPU,
		.method = "eagle2-tree" },
};

static const struct column_spec phones_columns[] = {
	{ "request_token_s", "ms/token", 2, 1e3, figure_request_s, .panel = 1 },
	FASTER("npu", "NPU"),
	FASTER("cpu", "CPU"),
	FASTER("sam", "SAM"),
	FASTER("cpu_sam", "CPU SAM"),
	FASTER("eagle2", "EAGLE-2"),
	FASTER("cpu_eagle2", "CPU EAGLE-2"),
	LESS_ENERGY("npu", "NPU"),
	LESS_ENERGY("cpu", "CPU"),
	{ 0 },
};

/* ---- the paper's parameters ---------------------------------------------- */

/* the parameters that versions A and B of the sd.npu paper have in common */
/* clang-format off */
#define IN_PAPER                                                              \
	{ OURS, "sam-children=1" },                                           \
	{ REUSED, "reuse-checked=true" },                                     \
	{ REUSED, "reuse-room=32" },                                          \
	{ CALIBRATED, "anchor-key=single" },                                  \
	{ CALIBRATED, "successors=3" },                                       \
	{ CALIBRATED, "successor-share=0.9" },                                \
	{ CALIBRATED, "calibrated-depth=2" }
/* clang-format on */

/* Version A of the paper keeps rejected tokens until there are too many of
 * them, so reuse-age has its largest value. In version B, drafting by
 * calibration starts only at tokens of the user's request (anchors=request). */
static const struct table_preset paper_a[] = { IN_PAPER,
	{ REUSED, "reuse-age=64" }, { CALIBRATED, "anchors=context" }, { 0 } };
static const struct table_preset paper_b[] = { IN_PAPER,
	{ CALIBRATED, "anchors=request" }, { 0 } };

static const struct table_preset *const presets[] = {
	[SDNPU_PAPER_A] = paper_a, [SDNPU_PAPER_B] = paper_b
};

/* ---- all tables ---------------------------------------------------------- */

#define SPEC(k, variants, columns, ...)                                       \
	{                                                                     \
		k,                                                            \
		{                                                             \
			.variant = variants,                                  \
			.n_variants = ARRAY_LEN(variants), .method = "sdnpu", \
			.name_key = { "row" }, .column = columns, __VA_ARGS__ \
		}                                                             \
	}

static const struct sdnpu_spec specs[] = {
	SPEC(SDNPU_T_ABLATION, ablation, request_columns, .name = "ablation",
		.title = "What each technique adds: requests with their "
			 "prompts",
		.in_a_row = true,
		.note = "ms/token: time of all requests, with their prompts, "
			"divided by their tokens.\nover NPU, over SAM: speed "
			"divided by that of the row NPU or +G+SD; tasks: over\n"
			"NPU. in a row: each request starts directly after the "
			"previous one; for the\nother columns the device has "
			"loaded the prefill graphs before each request.",
		.plot = { .y = { "ms a token" } }),
	SPEC(SDNPU_T_ABLATION, ablation, decoding_columns, .name = "decoding",
		.title = "What each technique adds: decoding",
		.note = "ms/token: 1 / geometric mean of the tasks' tokens/s. "
			"tasks: speed divided by\nthat of the row NPU. length: "
			"tokens that a pass emits.",
		.plot = { .y = { "ms a token" } }),
	SPEC(SDNPU_T_ABLATION, ablation, energy_columns, .name = "energy",
		.title = "What each technique adds: energy", .of_phone = true,
		.note = "over NPU, over SAM: energy of the row NPU or +G+SD "
			"divided by the energy of this\nrow; tasks: over NPU. "
			"mJ/tok: for decoding alone.",
		.plot = { .y = { "J a request", "mJ a token" } }),
	SPEC(SDNPU_T_LENGTH, of_pld, length_columns, .name = "length_pld",
		.title = "Tokens that a pass emits: prompt lookup alone, and "
			 "with Tandem's drafters",
		.note = "If a pass has a draft, drafted tokens fill all rows "
			"of the decode graph.",
		.plot = { .y = { "tokens a pass" } }),
	SPEC(SDNPU_T_LENGTH, of_sam, length_columns, .name = "length_sam",
		.title = "Tokens that a pass emits: the suffix automaton "
			 "alone, and with Tandem's drafters",
		.plot = { .y = { "tokens a pass" } }),
	SPEC(SDNPU_T_SOURCES, sources, accepted_columns, .name = "accepted",
		.title = "Accepted tokens of a pass by the source of the draft",
		.note = "A token that several sources proposed counts for the "
			"leftmost of these columns.\nlength: tokens that a "
			"pass emits, including the target's own token.",
		.plot = { .y = { "tokens a pass" } }),
	SPEC(SDNPU_T_SOURCES, sources, drafted_columns, .name = "drafted",
		.title = "Drafted tokens of a pass by source",
		.note = "rows: rows of a pass, including the row of the last "
			"token of the text. drafting:\ntime of look-ups and of "
			"building the tree.",
		.plot = { .y = { "rows a pass" } }),
	SPEC(SDNPU_T_CYCLES, cycles, cycles_columns, .name = "cycles",
		.title = "Use of the rows of the NPU's graphs",
		.note = "Shares of all rows of the graphs. valid: rows whose "
			"token was kept. wasted: rows\ncomputed for rejected "
			"drafts. underutilized: padding rows. lost: wasted "
			"and\npadding rows per token. recovered: how much "
			"smaller 'lost' is than in the first\nrow of the "
			"table.",
		.plot = { .y = { "% of the rows" } }),
	SPEC(SDNPU_T_OVERHEAD, overheads, overhead_columns, .name = "overhead",
		.title = "Overhead",
		.note = "us/prompt token: time to the first token, divided by "
			"the tokens of the prompt.",
		.plot = { .y = { "us a prompt token" } }),
	SPEC(SDNPU_T_ROW_COST, row_costs, row_cost_columns, .name = "row_cost",
		.title = "Speed of decoding over NPU, by the time that each "
			 "row takes for each weight",
		.of_phone = true, .levels = 1,
		.note = "Each column adds this time for each weight and each "
			"row of a pass to the time of\nthe phone's engines "
			"(row_weight_s of its profile). Padding rows do not "
			"count.",
		.plot = { .y = { "times" } }),
	{ SDNPU_T_PHONES,
		{ .name = "phones",
			.title = "Requests by model, phone and task: speed and "
				 "energy over each rival",
			.note = "ms/token: time per token of the default "
				"method, with the prompt. Other columns:\n"
				"speed, or energy of a request (J), compared "
				"with a rival. NPU: plain decoding.\nCPU: the "
				"NPU computes the prompt, the phone's CPU "
				"everything else. NPU, SAM and\nEAGLE-2 switch "
				"graphs. CPU SAM and both EAGLE-2: the fastest "
				"of several draft sizes.",
			.name_key = { "model", "task" },
			.variant = phones,
			.n_variants = ARRAY_LEN(phones),
			.method = "sdnpu",
			.of_phone = true,
			.rival = phones_rivals,
			.n_rivals = ARRAY_LEN(phones_rivals),
			.mean = "geometric mean",
			.column = phones_columns,
			.plot = { .y = { "ms a token" } } } },
};

/* ---- the benchmark ------------------------------------------------------- */

struct bench_sdnpu {
	struct bench_run run;
	/* the setting from which all other settings start; it has no changes */
	struct setting usual;
	struct table_request request;
	struct table_levels row_weights;
	/* the option whose values are row_weights:
	 * "clock=soc:NAME,row_weight_s" */
	char *row_weight;
	struct table_plan plan[ARRAY_LEN(specs)];
	struct sdnpu_graphs graphs;
	struct method_facts method[32]; /* all decoding methods */
	/* the tables in specs[], "gains" and "graphs" */
	struct bench_table table[ARRAY_LEN(specs) + 2];
};

static int plan(
	struct bench_sdnpu *b, const struct bench_sdnpu_args *a, struct err *e)
{
	const struct run_options *run =
		opt_values_of(a->run.options, &run_table);
	const struct pair_options *pair =
		opt_values_of(a->run.options, &pair_table);
	char head[PATH_MAX];
	struct err none;
	unsigned n_methods = 0;
	int ret = 0;

	if (b->run.clock &&
		asprintf(&b->row_weight, "clock=%s,row_weight_s",
			b->run.clock) < 0)
		return err_set(
			e, ENOMEM, "no memory for the options of a table row");
	b->row_weights = row_weights;
	b->row_weights.option = b->row_weight;

	while (n_methods < ARRAY_LEN(b->method) &&
		method_facts(n_methods, &b->method[n_methods]))
		n_methods++;
	b->request = (struct table_request){ .usual = &b->usual,
		.method = b->method,
		.n_methods = n_methods,
		.hook = &by_cpu,
		.preset = presets[a->paper],
		.levels = &b->row_weights,
		.as = pair->as >= 0 ? shapes[pair->as].name : NULL,
		.bundled =
			!run->model && !models_find(MODEL_EAGLE, head, &none),
		.same_text = 1 };
	for (size_t i = 0; i < ARRAY_LEN(specs) && !ret; i++)
		if (a->table[specs[i].kind])
			ret = table_plan(&b->plan[i], &b->run.x,
				&specs[i].table, &b->request, e);
	return ret;
}

int bench_sdnpu(const struct bench_sdnpu_args *args, struct err *e)
{
	static const char *const titles[] = {
		[SDNPU_PAPER_NONE] = "Retrieval speculation",
		[SDNPU_PAPER_A] = "Retrieval speculation by --paper a",
		[SDNPU_PAPER_B] = "Retrieval speculation by --paper b",
	};
	struct bench_sdnpu *b = calloc(1, sizeof(*b));
	const struct bench_words words = { .name = "sdnpu",
		.title = titles[args->paper],
		.checked = "in every row" };
	char caption[BENCH_CAPTION];
	unsigned n = 0;
	int ret;

	if (!b)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	bench_run_set_up(&b->run, &args->run);
	ret = bench_run_prepare(&b->run, e);
	if (!ret)
		ret = plan(b, args, e);
	if (!ret)
		ret = bench_run_measure(&b->run, e);
	if (!ret && args->table[SDNPU_T_GRAPHS])
		ret = sdnpu_graphs_measure(&b->graphs, &b->run, e);
	for (size_t i = 0; i < ARRAY_LEN(specs) && !ret; i++)
		if (b->plan[i].n)
			table_fill(&b->table[n++], &b->run.x, &b->plan[i],
				&b->request);
	if (!ret && args->table[SDNPU_T_ABLATION])
		table_fill_gains(&b->table[n++], &b->run.x, &b->plan[0], gains,
			ARRAY_LEN(gains));
	if (!ret && b->graphs.n)
		sdnpu_graphs_fill(&b->graphs, &b->table[n++]);
	if (!ret)
		ret = bench_run_report(&b->run, &words, b->table, n, e);
	if (!ret && b->run.opts->plot) {
		report_caption(&b->run.x, b->run.pair.priced, b->run.pair.model,
			bench_run_clock(&b->run), false, caption);
		ret = sdnpu_graphs_plot(
			&b->graphs, caption, b->run.opts->plot, e);
	}
	sdnpu_graphs_release(&b->graphs);
	bench_run_release(&b->run);
	setting_release(&b->usual);
	free(b->row_weight);
	free(b);
	return ret;
}
