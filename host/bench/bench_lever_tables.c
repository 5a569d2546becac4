/* The tables of bench lever, as in section 5 of the Lever paper. */
#include "host/bench/bench_lever.h"

#include "base/checked.h"
#include "tensor/soc/price.h"
#include "tensor/soc/soc.h"

#include <math.h>
#include <string.h>

const char *const bench_lever_table_names[BENCH_LEVER_TABLES] = { "methods",
	"prune", "budget", "length", "quality", "place", "logits", "size",
	"grid", "cells", "phones" };

/* ---- all methods --------------------------------------------------------- */

static const struct column_spec methods_columns[] = {
	{ "tokens_per_s", "tok/s", 2, 1, figure_tokens_per_s, .panel = 1 },
	{ "accepted_length", "length", 2, 1, figure_length },
	{ "passes", "passes", 0, 1, figure_passes },
	{ "pass_s", "ms", 2, 1e3, figure_pass_s },
	{ "rows_per_pass", "rows", 1, 1, figure_rows },
	{ "logits_rows_per_pass", "logits", 2, 1, figure_logits_rows },
	{ "draft_share", "draft%", 1, 100, figure_draft_share },
	{ "verify_share", "verify%", 1, 100, figure_verify_share },
	{ "joules_per_token", "mJ", 2, 1e3, figure_joules },
	{ "upper_rows_per_pass", "", 2, 1, figure_upper_rows },
	{ "drafted_per_pass", "", 2, 1, figure_expanded },
	{ "tokens", "", 0, 1, figure_tokens },
	{ "logits_rows", "", 0, 1, figure_all_logits_rows },
	{ 0 },
};

static const struct column_spec flash_columns[] = {
	{ "bytes_per_pass", "MB", 3, 1e-6, figure_bytes },
	{ "bytes_per_pass_ran", "", 3, 1e-6, figure_bytes_ran },
	{ "read_s", "read ms", 2, 1e3, figure_read_s, .panel = 1 },
	{ "compute_s", "compute ms", 2, 1e3, figure_compute_s, .panel = 1 },
	{ "pass_s", "pass ms", 2, 1e3, figure_pass_s, .panel = 1 },
	{ "of_plain_reader", "of a plain reader%", 1, 100, figure_of_plain },
	{ "overlap", "overlap%", 1, 100, figure_overlap },
	{ "bytes", "", 0, 1, figure_all_bytes },
	{ 0 },
};

static const struct column_spec waits_columns[] = {
	{ "pass_s", "pass ms", 2, 1e3, figure_pass_s },
	{ "reading_s", "reading", 2, 1e3, figure_reading_s, .panel = 1 },
	{ "wait_s", "waiting", 2, 1e3, figure_wait_s, .panel = 1 },
	{ "check_s", "checks", 2, 1e3, figure_check_s },
	{ "logits_s", "logits", 2, 1e3, figure_logits_s, .panel = 1 },
	{ "draft_s", "drafts", 2, 1e3, figure_draft_s, .panel = 1 },
	{ "logits_rows_per_pass", "rows", 2, 1, figure_logits_rows },
	{ "logits_computed_per_pass", "computed", 2, 1,
		figure_logits_computed },
	{ 0 },
};

/* ---- pruning ------------------------------------------------------------- */

static const struct column_spec prune_columns[] = {
	{ "rows_kept", "kept%", 1, 100, figure_kept, .panel = 1 },
	{ "accepted_length", "length", 2, 1, figure_length, .panel = 2 },
	{ "accepted_retained", "retained%", 1, 100, figure_length, .panel = 1,
		.against = COLUMN_SHARE },
	{ "verify_s", "ms", 3, 1e3, figure_verify_s },
	{ "verify_saved", "saved%", 1, 100, figure_verify_s,
		.against = COLUMN_SAVED },
	{ "compute_s", "NPU ms", 3, 1e3, figure_compute_s },
	{ "compute_saved", "saved%", 1, 100, figure_compute_s,
		.against = COLUMN_SAVED },
	{ "tokens_per_s", "tok/s", 2, 1, figure_tokens_per_s },
	{ 0 },
};

static const struct table_variant prunings[] = {
	{ "not pruned", { "exit=none" }, BENCH_LEVER_FROZEN },
	{ "pruned", { "no-shadow=false" }, BENCH_LEVER_FROZEN },
	{ "no shadows", { "no-shadow=true" }, BENCH_LEVER_FROZEN },
};

/* ---- tables of the methods, memory budgets, draft lengths and drafters ----
 */

/* Whether figure 10 of the Lever paper shows the method. */
static bool is_main(const struct method_facts *m)
{
	static const char *const names[] = { "flash-ar", "chain", "edgellm",
		"lever", NULL };
	size_t i = 0;

	while (names[i] && strcmp(names[i], m->name))
		i++;
	return names[i];
}

static bool is_main_and_drafts(const struct method_facts *m)
{
	return is_main(m) && m->drafts;
}

static const struct column_spec levels_columns[] = {
	{ "level", "", 2, 1, figure_tokens_per_s, .panel = 1,
		.each = COLUMN_EACH_LEVEL },
	{ 0 },
};

/* The table "cells" uses only the first CELL_DRAFTS of these drafts. The last
 * draft is the EAGLE head with simulated costs of a larger head, as large as a
 * layer of qwen3-8b, a model of the paper. */
#define CELL_DRAFTS 4
static const struct table_variant drafts[] = {
	{ NULL, { NULL } },
	{ "oracle:0.6", { "draft=oracle:0.6" } },
	{ "oracle:0.8", { "draft=oracle:0.8" } },
	{ "oracle:0.9", { "draft=oracle:0.9" } },
	{ "model", { "draft=model" }, .bundled = true },
	{ "eagle", { "draft=eagle" }, .bundled = true },
	{ "eagle 8B", { "draft=eagle", "draft-as=qwen3-8b" },
		.as = "qwen3-8b" },
};

static const struct column_spec quality_columns[] = {
	{ "task", "", 2, 1, figure_tokens_per_s, .each = COLUMN_EACH_TASK },
	{ "geometric_mean", "mean", 2, 1, figure_tokens_per_s, .panel = 1 },
	{ "accepted_length", "length", 2, 1, figure_length },
	{ 0 },
};

static const struct table_variant places[] = {
	{ "host, one by one", { "draft-on=host", "draft-batch=1" } },
	{ "host, by eight", { "draft-on=host", "draft-batch=8" } },
	{ "device, one by one", { "draft-on=device", "draft-batch=1" } },
	{ "device, by eight", { "draft-on=device", "draft-batch=8" } },
};

static const struct column_spec places_columns[] = {
	{ "tokens_per_s", "tok/s", 2, 1, figure_tokens_per_s },
	{ "accepted_length", "length", 2, 1, figure_length },
	{ "draft_s", "draft ms", 3, 1e3, figure_draft_s, .panel = 1 },
	{ "expanded", "nodes", 2, 1, figure_expanded },
	{ "draft_share", "draft%", 1, 100, figure_draft_share },
	{ 0 },
};

/* ---- logits -------------------------------------------------------------- */

static const struct column_spec logits_columns[] = {
	{ "rows_per_pass", "rows", 2, 1 },
	{ "seconds", "ms", 3, 1e3, .panel = 1 },
	{ "of_pass", "of a pass%", 1, 100 },
	{ 0 },
};

/* Return the seconds that a pass spends on logits if it multiplies the output
 * matrix `times` times, each time with `rows` rows. */
static double logits_s(
	const struct bench_lever *b, bool npu, double rows, double times)
{
	const struct soc *phone = bench_lever_phone(b);
	struct price p = { 0 }, request = { 0 };
	uint64_t n = (uint64_t)ceil(rows);

	if (!npu) {
		price_cpu_matmul(
			phone, n, b->n_vocab, b->n_embd, b->output_type, &p);
	} else {
		price_matmul(
			phone, n, b->n_vocab, b->n_embd, b->output_type, &p);
		price_request(phone, &request);
	}
	return times * (double)(p.total_ps + request.total_ps) / 1e12;
}

static void fill_logits(const struct table_request *request,
	const struct run_summary *t, struct bench_table *out)
{
	static const struct {
		const char *name;
		bool npu, eager;
	} ways[] = { { "NPU, all rows", true, true },
		{ "NPU, on demand", true, false },
		{ "CPU, all rows", false, true },
		{ "CPU, on demand", false, false } };
	const struct bench_lever *b = request->arg;
	double all = figure_upper_rows(t), some = figure_logits_rows(t);

	if (!bench_lever_phone(b)) {
		out->note = "This table is computed only for a phone; add "
			    "--clock soc:NAME.";
		return;
	}
	for (unsigned i = 0; i < ARRAY_LEN(ways); i++) {
		double *v = table_add_row(out, ways[i].name, NULL)->value;
		double s = ways[i].eager ? logits_s(b, ways[i].npu, all, 1)
					 : logits_s(b, ways[i].npu, 1, some);

		v[0] = ways[i].eager ? all : some;
		v[1] = s;
		v[2] = t->seconds > 0 ? s * figure_passes(t) / t->seconds : 0;
	}
}

/* ---- methods that lever is compared with --------------------------------- */

/* clang-format off */
#define CHAIN(n) { "chain " #n, { "draft-len=" #n }, .method = "chain" }
#define TREE(name, n, levels)                                                 \
	{ name " " #n "x" #levels,                                            \
		{ "tree-rows=" #n, "tree-depth=" #levels }, .method = name }
#define TREES(name)                                                           \
	TREE(name, 8, 7), TREE(name, 16, 15), TREE(name, 24, 16),             \
	TREE(name, 32, 16), TREE(name, 48, 16), TREE(name, 64, 16)
#define FLAT_TREES(name)                                                      \
	TREE(name, 8, 6), TREE(name, 16, 6), TREE(name, 24, 6),               \
	TREE(name, 32, 6), TREE(name, 48, 6), TREE(name, 64, 6)
/* clang-format on */

/*
 * The methods that lever is compared with, most of them with several settings;
 * the last row is lever itself. A tree has at most 16 levels, and fewer levels
 * than rows. opt-tree stops adding levels when a level adds too few expected
 * tokens. edgellm stops when the probabilities of all nodes are below a
 * threshold. eagle2-tree always drafts all levels, so it is also measured with
 * six levels, the depth that its authors use.
 */
static const struct table_variant grid[] = {
	{ "flash-ar", .method = "flash-ar" },
	CHAIN(2),
	CHAIN(4),
	CHAIN(8),
	CHAIN(12),
	CHAIN(16),
	CHAIN(24),
	{ "specinfer", .method = "specinfer" },
	TREES("opt-tree"),
	TREES("eagle2-tree"),
	FLAT_TREES("eagle2-tree"),
	TREES("edgellm"),
	{ "lever", .method = "lever" },
};
_Static_assert(
	ARRAY_LEN(grid) - 1 <= TABLE_RIVALS, "all rivals fit into a table");

static const struct column_spec grid_columns[] = {
	{ "tokens_per_s", "tok/s", 2, 1, figure_tokens_per_s, .panel = 1 },
	{ "accepted_length", "length", 2, 1, figure_length },
	{ "pass_s", "ms", 2, 1e3, figure_pass_s },
	{ "rows_per_pass", "rows", 1, 1, figure_rows },
	{ 0 },
};

/* BEST_OF: the tokens/s of the fastest setting of `method`. OVER: lever's
 * tokens/s divided by that number. */
/* clang-format off */
#define BEST_OF(key, method)                                                  \
	{ key, "", 2, 1, figure_tokens_per_s, .against = COLUMN_BASE,         \
		.base = method }
#define OVER(key, method)                                                     \
	{ "over_" key, method, 2, 1, figure_tokens_per_s,                     \
		.against = COLUMN_SHARE, .base = method }
/* clang-format on */

static const struct column_spec cells_columns[] = {
	{ "lever", "lever", 2, 1, figure_tokens_per_s },
	{ "rival_tokens_per_s", "tok/s", 2, 1, figure_tokens_per_s,
		.against = COLUMN_BASE },
	{ "over_rival", "ratio", 3, 1, figure_tokens_per_s,
		.against = COLUMN_SHARE },
	{ "lost", "lost", 0, 1, figure_tokens_per_s, .against = COLUMN_BELOW },
	BEST_OF("flash_ar", "flash-ar"),
	BEST_OF("chain", "chain"),
	BEST_OF("specinfer", "specinfer"),
	BEST_OF("opt_tree", "opt-tree"),
	BEST_OF("eagle2_tree", "eagle2-tree"),
	BEST_OF("edgellm", "edgellm"),
	{ 0 },
};

/* ---- the paper's configurations ------------------------------------------ */

/*
 * The phones of the Lever paper. The vendor claims that the NPU of the second
 * and third phone is 1.45 times as fast as the NPU of the first phone. So the
 * times of computing (batch_weight_s, row_weight_s) of these two phones are the
 * times of the first phone divided by 1.45. The flash rates of these two phones
 * are the fitted rate of the first phone, scaled by the ratio of public
 * figures: 2.1 GB/s for UFS 3.1 and 4.3 GB/s for UFS 4.1, divided by 4.2 GB/s
 * for UFS 4.0.
 */
/* clang-format off */
#define ELITE                                                                 \
	"clock=soc:sd8elite,batch_weight_s=19.3e-12,row_weight_s=2.08e-12,"   \
	"flash_ahead=0,flash_bytes_per_s="
#define ON_PHONE(shape, phone, clock)                                         \
	{ shape ", " phone, { "as=" shape, "as-type=q4_0-all",                \
				"draft-as=qwen3-0.6b", clock } }
#define ON_PHONES(shape)                                                      \
	ON_PHONE(shape, "OnePlus 12", "clock=soc:sd8gen3-lever"),             \
	ON_PHONE(shape, "Honor 500 Pro", ELITE "2.0e9"),                      \
	ON_PHONE(shape, "Honor Magic V5", ELITE "4.1e9")
/* clang-format on */

static const struct table_variant phones[] = {
	ON_PHONES("llama3.1-8b"),
	ON_PHONES("qwen3-4b"),
	ON_PHONES("qwen3-8b"),
	ON_PHONES("qwen3-14b"),
};

static const struct table_variant phones_rivals[] = {
	{ "flash-ar", .method = "flash-ar" },
	{ "chain", .method = "chain" },
	{ "edgellm", .method = "edgellm" },
};

static const struct column_spec phones_columns[] = {
	BEST_OF("flash_ar", "flash-ar"),
	BEST_OF("chain", "chain"),
	BEST_OF("edgellm", "edgellm"),
	{ "lever", "lever", 2, 1, figure_tokens_per_s },
	OVER("flash_ar", "flash-ar"),
	OVER("chain", "chain"),
	OVER("edgellm", "edgellm"),
	{ 0 },
};

/* ---- sizes of trees ------------------------------------------------------ */

/* clang-format off */
#define ROWS(n) { #n " rows", { "tree-rows=" #n }, .method = "opt-tree" }
/* clang-format on */

static const struct table_variant sizes[] = {
	{ "1 row", .method = "flash-ar" },
	ROWS(2),
	ROWS(4),
	ROWS(8),
	ROWS(16),
	ROWS(24),
	ROWS(32),
	ROWS(48),
	ROWS(64),
};

static const struct column_spec sizes_columns[] = {
	{ "rows_per_pass", "rows", 1, 1, figure_rows },
	{ "read_s", "read ms", 2, 1e3, figure_read_s },
	{ "compute_s", "compute ms", 2, 1e3, figure_compute_s, .panel = 1 },
	{ "pass_s", "pass ms", 2, 1e3, figure_pass_s, .panel = 1 },
	{ "accepted_length", "length", 2, 1, figure_length, .panel = 2 },
	{ "tokens_per_s", "tok/s", 2, 1, figure_tokens_per_s, .panel = 3 },
	{ 0 },
};

/* ---- all tables ---------------------------------------------------------- */

const struct bench_lever_spec bench_lever_specs[BENCH_LEVER_SPECS] = {
	{ BENCH_LEVER_T_METHODS,
		{ .name = "methods",
			.title = "Methods",
			.note = "tok/s: geometric mean over the tasks. length: "
				"tokens that a pass emits. ms,\nrows, logits: "
				"per pass. draft%, verify%: shares of time. "
				"mJ: energy per token.",
			.name_key = { "method" },
			.column = methods_columns,
			.plot = { .y = { "tokens/s" } } } },
	{ BENCH_LEVER_T_METHODS,
		{ .name = "tasks",
			.title = "Tokens/s of each task",
			.name_key = { "method" },
			.column = table_tasks_columns,
			.plot = { .y = { "tokens/s" } } } },
	{ BENCH_LEVER_T_METHODS,
		{ .name = "flash",
			.title = "Flash: bytes that a pass reads, and times of "
				 "reading and computing",
			.note = "MB: megabytes that a pass of the priced model "
				"reads. read: time in which a\nprogram that "
				"only reads the layers (a plain reader) reads "
				"these bytes. compute:\ncomputing time of the "
				"device. pass: total time divided by the "
				"number of passes.\noverlap: the longer of "
				"read and compute, divided by pass.",
			.name_key = { "method" },
			.column = flash_columns,
			.plot = { .y = { "ms a pass" } } } },
	{ BENCH_LEVER_T_METHODS,
		{ .name = "waits",
			.title = "The host's time in a pass, by activity",
			.note = "reading: time with a read in flight; it "
				"overlaps the other columns. waiting:\ntime "
				"that the host waits for layers. checks: "
				"checksums of layers; some run while\nthe host "
				"waits or computes logits, but the columns "
				"waiting and logits do not\ninclude them. "
				"rows: rows of logits that were used. "
				"computed: rows that were\ncomputed",
			.name_key = { "method" },
			.column = waits_columns,
			.plot = { .y = { "ms a pass" } } } },
	{ BENCH_LEVER_T_PRUNE,
		{ .name = "prune",
			.title =
				"Pruning after the exit predictor, on the same "
				"trees",
			.note = "All rows verify the same trees: lever builds "
				"them with the costs and acceptance\nrates "
				"that a run without pruning has learned. ms: "
				"time of a verification. NPU\nms: the part of "
				"it that the NPU computes. kept: rows that "
				"pruning keeps.\nretained, saved: accepted "
				"tokens kept, and time saved, compared with no "
				"pruning.",
			.name_key = { "pruning" },
			.variant = prunings,
			.n_variants = ARRAY_LEN(prunings),
			.method = "lever",
			.column = prune_columns,
			.plot = { .y = { "%", "tokens a pass" } },
			.published = "prune_published" } },
	{ BENCH_LEVER_T_BUDGET,
		{ .name = "budget",
			.title = "Tokens/s by the share of layers that stay in "
				 "memory",
			.name_key = { "method" },
			.wanted = is_main,
			.levels = BENCH_LEVER_BUDGETS,
			.column = levels_columns,
			.plot = { .y = { "tokens/s" },
				.lines = true,
				.x = "layers in memory" },
			.published = "budget_published" } },
	{ BENCH_LEVER_T_LENGTH,
		{ .name = "length",
			.title = "Tokens/s by the maximum length of an output",
			.name_key = { "method" },
			.wanted = is_main,
			.levels = BENCH_LEVER_LENGTHS,
			.column = levels_columns,
			.plot = { .y = { "tokens/s" },
				.lines = true,
				.x = "tokens at most" },
			.published = "length_published" } },
	{ BENCH_LEVER_T_QUALITY,
		{ .name = "quality",
			.title = "Drafts of several qualities; oracles are "
				 "simulated",
			.name_key = { "draft", "method" },
			.variant = drafts,
			.n_variants = ARRAY_LEN(drafts),
			.wanted = is_main_and_drafts,
			.column = quality_columns,
			.plot = { .y = { "tokens/s" } },
			.published = "quality_published" } },
	{ BENCH_LEVER_T_PLACE,
		{ .name = "place",
			.title = "Drafting of lever on the host or the device, "
				 "with 1 or 8 nodes at a time",
			.note = "Per pass: time of drafting, and number of "
				"nodes whose children were drafted.",
			.name_key = { "place" },
			.variant = places,
			.n_variants = ARRAY_LEN(places),
			.method = "lever",
			.column = places_columns,
			.plot = { .y = { "ms a pass" } } } },
	{ BENCH_LEVER_T_LOGITS,
		{ .name = "logits",
			.title = "Logits of a pass of lever, on the phone",
			.note = "Only 'CPU, on demand' is run; the times of "
				"the other rows come from the cost\nmodel.",
			.name_key = { "logits" },
			.method = "lever",
			.column = logits_columns,
			.plot = { .y = { "ms a pass" } },
			.fill = fill_logits } },
	{ BENCH_LEVER_T_SIZE,
		{ .name = "size",
			.title = "Passes and tokens/s by the rows of a tree",
			.note = "1 row: method flash-ar. Other rows: method "
				"opt-tree with at most this many rows.",
			.name_key = { "tree" },
			.variant = sizes,
			.n_variants = ARRAY_LEN(sizes),
			.column = sizes_columns,
			.plot = { .y = { "ms a pass", "tokens a pass",
					  "tokens/s" } },
			.published = "size_published" } },
	{ BENCH_LEVER_T_GRID,
		{ .name = "grid",
			.title = "Each method at each setting of the grid",
			.note = "chain: tokens; trees: rows x levels, at "
				"most.",
			.name_key = { "setting" },
			.variant = grid,
			.n_variants = ARRAY_LEN(grid),
			.column = grid_columns,
			.plot = { .y = { "tokens/s" } } } },
	{ BENCH_LEVER_T_CELLS,
		{ .name = "cells",
			.title = "Lever and the fastest setting of the grid, "
				 "by draft and budget",
			.note = "The rival is the setting that is fastest on "
				"these same items. lost: 1 if\nlever is slower.",
			.name_key = { "cell", "rival" },
			.variant = drafts,
			.n_variants = CELL_DRAFTS,
			.method = "lever",
			.levels = BENCH_LEVER_BUDGETS,
			.level_rows = true,
			.rival = grid,
			.n_rivals = ARRAY_LEN(grid) - 1,
			.mean = "geometric mean",
			.column = cells_columns } },
	{ BENCH_LEVER_T_PHONES,
		{ .name = "phones",
			.title = "Lever's tokens/s, and its speed-up over each "
				 "rival, by model, phone and task",
			.note = "Tasks stand for the paper's data sets: code "
				"for HumanEval, program for MBPP,\nmath for "
				"GSM8K, story for MT-Bench. OnePlus 12: "
				"sd8gen3-lever; Honor: sd8elite\nwith the "
				"costs of rows of sd8gen3-lever divided by "
				"1.45, and flash of 2.0 (UFS\n3.1) and 4.1 "
				"GB/s (UFS 4.1).",
			.name_key = { "model", "task" },
			.variant = phones,
			.n_variants = ARRAY_LEN(phones),
			.method = "lever",
			.rival = phones_rivals,
			.n_rivals = ARRAY_LEN(phones_rivals),
			.mean = "geometric mean",
			.column = phones_columns,
			.published = "phones_published" } },
};
