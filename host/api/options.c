#include "host/api/options.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fault_plan.h"
#include "base/workers.h"
#include "host/api/profile.h"
#include "host/method/method.h"
#include "host/model/shapes.h"
#include "host/shipped/soc_file.h"
#include "host/text/history.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const precision_names[] = { "f32", "f16-kv16", "f16", "int8", "npu",
	NULL };
_Static_assert(ARRAY_LEN(precision_names) == WIRE_PRECISION_COUNT + 1,
	"each has a name");

static const char *const flash_io_names[] = { "direct", "buffered", "thread",
	NULL };

const char *const clock_names[] = { "wall", "soc:sd8gen2", "soc:sd8gen3",
	"soc:sd8gen3-lever", "soc:sd8elite", NULL };

/* ---- the pair ------------------------------------------------------------ */

/* Choices are set as int. */
_Static_assert(sizeof(enum wire_precision) == sizeof(int) &&
		sizeof(enum layout) == sizeof(int) &&
		sizeof(enum graph_switch) == sizeof(int) &&
		sizeof(enum placement_policy) == sizeof(int) &&
		sizeof(enum coherence) == sizeof(int) &&
		sizeof(enum doorbell_kind) == sizeof(int),
	"an enum of another size");

/* Of the sources only the first names its generation (docs/window.md). */
static bool window_word(size_t i, struct opt_word *w)
{
	static const struct opt_word words[] = {
		{ "v73", NULL, "2 GiB, as in sd8gen2", 2048ull << 20 },
		{ "v75", NULL, "3.2 GiB, as in sd8gen3", 3277ull << 20 },
		{ "v79", NULL, "3.5 GiB, as in sd8elite", 3584ull << 20 },
	};

	if (i >= ARRAY_LEN(words))
		return false;
	*w = words[i];
	return true;
}

static const char *const as_types[] = { "q4_0", "q8_0", "f16", NULL };

/* clang-format off */
#define IN(field) OPT_IN(pair_options, field)
static const struct opt pair_rows[] = {
	{ OPT_UINT, 't', "threads", IN(session.threads), "N",
		"threads of the host and of the device, each (0: one a "
		"processor)", 0, WORKERS_MAX },
	{ OPT_UINT, 0, "prefill-chunk", IN(session.prefill_chunk), "ROWS",
		"rows of the prefill graph ({}); a shorter rest is padded",
		1, WIRE_MAX_ROWS },
	{ OPT_FLAG, 0, "one-graph", IN(session.one_graph), NULL,
		"no other graph: passes of decoding are padded to it as well" },
	{ OPT_CHOICE, 0, "graph-switch", IN(session.graph_switch), NULL,
		"the device holds one graph a block, and while a prompt is "
		"computed the prefill graphs give way to those of decoding: "
		"behind it (sync), each behind its block's last part (async), "
		"where the load is hidden (greedy) or hidden in part "
		"(partial), or by the plan that ends first (best); off, the "
		"default: both are there", .choices = graph_switch_names },
	{ OPT_UINT, 0, "graph-blocks", IN(session.graph_blocks), "N",
		"with it: blocks that the layers are cut into, at least ({})",
		1, SWITCH_BLOCKS },
	{ OPT_UINT, 0, "graph-rows", IN(session.graph_rows), "ROWS",
		"with it: rows of the decode graph, or as many more as the "
		"method wants ({})", 1, WIRE_MAX_ROWS },
	{ OPT_UINT, 0, "weight-buffers", IN(session.weight_buffers), "N",
		"without it: buffers that the layers are cut into, at least "
		"({}); a pass asks for each by a request", 1, 256 },
	{ OPT_UINT, 0, "ctx", IN(session.context), "N",
		"token positions of the key-value cache (0: what is needed, "
		"up to the model's context)", 0, 1 << 26 },
	{ OPT_FLAG, 0, "attend-apart", IN(session.attend_apart), NULL,
		"each row of a pass reads the keys and values that it attends "
		"to by itself, also those it shares with others: slower and "
		"the same text, for comparison" },
	{ OPT_CHOICE, 0, "precision", IN(session.precision), NULL,
		"of the device: activations in fp16 with keys and values in "
		"float32 (f16), the same but int8 where they meet Q4_0 and "
		"Q8_0 weights in tiles (int8, the default and the fastest), "
		"both in fp16 (f16-kv16: half the cache, less exact), "
		"fp16 throughout with exponentials from a table, as a "
		"phone's NPU has it (npu), all in float32 (f32: the "
		"reference)", .choices = precision_names },
	{ OPT_CHOICE, 0, "layout", IN(session.layout), NULL,
		"of the weights in memory (a flash image has its own): as in "
		"the model file (rows), in the matrix engine's tiles without "
		"loss (tiles, the default), requantized to tile groups "
		"(groups) or super-groups (super)", .choices = layout_names },
	{ OPT_CHOICE, 0, "coherence", IN(session.coherence), NULL,
		"what a forgotten cache upkeep does: nothing ({}, the "
		"default), wrong results (strict), or a report as well and "
		"exit status 1 (check)", .choices = coherence_names },
	{ OPT_STRING, 0, "coherence-report", IN(session.coherence_report),
		"FILE",
		"with check: add a JSON object a line to FILE for each report "
		"(docs/coherence.md)" },
	{ OPT_STRING, 0, "coherence-suppress", IN(session.coherence_suppress),
		"FILE", "with check: do not report what a pattern in FILE fits" },
	{ OPT_CHOICE, 0, "doorbell", IN(session.doorbell), NULL,
		"how a sleeping side is woken (poll: spin, then futex)",
		.choices = doorbell_names },
	{ OPT_SIZE, 0, "va-window", IN(session.va_window), "SIZE",
		"the device's address window ({}), 1M or more, or that of a "
		"generation of NPUs",
		(double)WIRE_WINDOW_MIN, (double)WIRE_WINDOW_MAX,
		.words = window_word },
	{ OPT_UINT, 0, "va-slots", IN(session.va_slots), "N",
		"buffers the window can map at a time ({}), 3 or more",
		3, 256 },
	{ OPT_SIZE, 0, "va-extended", IN(session.va_extended), "SIZE",
		"beside the window a region of so many bytes that only DMA "
		"reaches: weights that the window has no room for lie there "
		"({}; 0: none)", 0, (double)WIRE_EXTENDED_MAX },
	{ OPT_UINT, 0, "va-defer", IN(session.va_defer), "N",
		"what is unmapped leaves the window only behind N more "
		"requests to map, as with some firmware ({})",
		0, WIRE_DEFER_MAX },
	{ OPT_UINT, 0, "va-map-us", IN(session.va_map_us), "USEC",
		"mapping and unmapping take so long at least, by the wall's "
		"clock ({})",
		0, WIRE_MAP_US_MAX },
	{ OPT_FLAG, 0, "va-hard", IN(session.va_hard), NULL,
		"cap the addresses of the device process as well (RLIMIT_AS), "
		"behind its start, so that nothing outside the window can "
		"grow" },
	{ OPT_CHOICE, 0, "placement", IN(session.placement), NULL,
		"what of the weights lies in the window, where not all fit: "
		"blocks are mapped when they are needed, and the one whose "
		"next use is furthest away leaves (belady, the default), the "
		"one used longest ago (paging) or all others (drop-all); a "
		"plan says which stay, and the others are copied ahead into "
		"two slots (swap); all must fit (fixed)",
		.choices = placement_names },
	{ OPT_FLAG, 0, "swap-poison", IN(session.swap_poison), NULL,
		"with --placement swap, for tests: a slot that the device is "
		"done with is overwritten", .hidden = true },
	{ OPT_INT, 0, "evict-seed", IN(session.evict_seed), "N",
		"seed of the device cache's early write-backs with strict "
		"and check ({}; 0: none)", 0, INT32_MAX },
	{ OPT_INT, 0, "spin", IN(session.spin_us), "USEC",
		"spin so long before sleeping, with doorbell poll ({}: by "
		"the processors at hand)", -1, 10000000 },
	{ OPT_STRING, 0, "dram-budget", IN(dram_budget), "SHARE|SIZE",
		"of the layers of a flash image so many stay in memory, and "
		"the rest is streamed from flash in every pass: 0% to 100% "
		"(the default), beside which are the slots, or a size of all "
		"that weights take, slots and all" },
	{ OPT_UINT, 0, "resident-runs", IN(session.resident_runs), "N",
		"those that stay and those that come alternate in so many "
		"runs ({}: as there are --weight-buffers; 1: the first layers "
		"stay)",
		0, SESSION_RESIDENT_RUNS },
	{ OPT_UINT, 0, "stage-slots", IN(session.stage_slots), "N",
		"buffers that layers are streamed through ({}); a budget that "
		"is a size may hold fewer",
		2, STREAM_SLOTS },
	{ OPT_UINT, 0, "stage-parts", IN(session.stage_parts), "N",
		"each holds one of so many parts of a layer (1: a whole one; "
		"{}: a whole one, or a quarter where memory does not hold so "
		"many of those)",
		0, SESSION_STAGE_PARTS },
	{ OPT_CHOICE, 0, "flash-io", IN(flash_io), NULL,
		"how: past the page cache by io_uring ({}, the default, "
		"falling back where the system refuses), through the page "
		"cache (buffered), or by a thread that reads (thread)",
		.choices = flash_io_names },
	{ OPT_STRING, 0, "fault", IN(session.fault), "PLAN",
		"let device, channel and flash go wrong, for tests: "
		"die@run#3, seq@5, eio@3 ..., or @FILE; 'tandem help faults' "
		"lists them" },
	{ OPT_STRING, 0, "flash-fault", IN(session.flash_fault), "PLAN",
		"inject faults into these reads, for tests: eio@3 (the "
		"third fails), short@5, flip@2, stall@4, shrink@6; with a + "
		"behind it, all later ones too", .hidden = true },
	{ OPT_STRING, 0, "trace", IN(session.trace), "FILE",
		"write a timeline of host, device, flash and phone to FILE, "
		"for ui.perfetto.dev and 'tandem trace' (docs/trace.md)" },
	{ OPT_SIZE, 0, "trace-limit", IN(session.trace_limit), "SIZE",
		"of the timeline at most so much is kept, the newest, in FILE "
		"and FILE.1 (all; tandem serve: 256M)", 1 << 20,
		(double)((uint64_t)1 << 40) },
	{ OPT_STRING, 0, "clock", IN(clock), "wall|soc:NAME",
		"whose time is told: this machine's alone (wall, the "
		"default), or beside it what a phone would take, by a "
		"profile: sd8gen2, sd8gen3, sd8gen3-lever, sd8elite or a file",
		.choices = clock_names },
	{ OPT_CHOICE, 0, "as", IN(as), "SHAPE",
		"with --clock soc:NAME: passes are priced as those of a model "
		"of this shape; what runs, and what it accepts, stays the "
		"model", .choices = shape_names },
	{ OPT_CHOICE, 0, "as-type", IN(as_type), NULL,
		"with --as or --draft-as: the type of the matrices that are "
		"priced (that of what runs, of an oracle q8_0)",
		.choices = as_types },
	{ OPT_STRING, 0, "device", IN(session.device), "PATH",
		"connect to a device that listens at this socket (see "
		"tandem-npu --listen) instead of starting one" },
	{ OPT_FLOAT, 0, "device-timeout", IN(device_timeout), "SECONDS",
		"give up a device that makes no progress for so long ({}; "
		"0: never)", 0, 86400 },
	{ OPT_UINT, 0, "restarts", IN(restarts), "N",
		"a device that is lost is replaced, and the text goes on, so "
		"often within a minute ({}; 0: the first loss ends the "
		"program with 3)", 0, SESSION_RESTARTS_MAX },
};
#undef IN
/* clang-format on */

const struct opt_table pair_table = {
	.heading = "The pair",
	.rows = pair_rows,
	.n = ARRAY_LEN(pair_rows),
	.defaults = &(const struct pair_options){ .session = SESSION_DEFAULTS,
		.device_timeout = SESSION_STALL / 1000.0,
		.restarts = 3,
		.as = -1,
		.as_type = -1 },
	.size = sizeof(struct pair_options),
};

/* "40%" of the layers, or "1.5G". */
static int apply_budget(
	const char *text, struct session_opts *opts, struct err *e)
{
	char *end;
	double share = strtod(text, &end);

	if (end > text && !strcmp(end, "%") && share >= 0 && share <= 100) {
		opts->dram_share = share / 100;
		return 0;
	}
	if (opt_size(text, &opts->dram_bytes))
		return err_set(e, EINVAL,
			"--dram-budget '%s' is neither 0%% to 100%% nor a size "
			"like 1.5G",
			text);
	if (!opts->dram_bytes)
		opts->dram_share = 0;
	return 0;
}

static int apply_flash(
	const struct pair_options *a, struct session_opts *opts, struct err *e)
{
	opts->stream.stall_ms = opts->stall_ms;
	opts->stream.buffered = a->flash_io == FLASH_BUFFERED;
	opts->stream.threaded = a->flash_io == FLASH_THREAD;
	return a->dram_budget ? apply_budget(a->dram_budget, opts, e) : 0;
}

/* "wall", or "soc:NAME", whose profile is read. */
static int apply_clock(const struct pair_options *a, struct session_opts *opts,
	struct soc *soc, struct err *e)
{
	int ret;

	if (!a->clock || !strcmp(a->clock, "wall"))
		return 0;
	if (strncmp(a->clock, "soc:", 4) || !a->clock[4])
		return err_set(e, EINVAL,
			"--clock '%s' is neither wall nor soc:NAME; try "
			"soc:sd8gen3",
			a->clock);
	ret = soc_file_load(soc, a->clock + 4, e);
	opts->soc = ret ? NULL : soc;
	opts->clock = a->clock;
	return ret;
}

static int apply_shape(
	const struct pair_options *a, struct session_opts *opts, struct err *e)
{
	if (a->as_type >= 0)
		dtype_parse(as_types[a->as_type], &opts->as_type);
	if (a->as < 0)
		return 0;
	if (!opts->soc)
		return err_set(e, EINVAL,
			"--as %s prices passes for a phone, and no phone is "
			"named; add --clock soc:NAME, like soc:sd8gen2",
			shapes[a->as].name);
	opts->as = &shapes[a->as];
	return 0;
}

/* Where they go is the device's: of one that was started by hand too. */
static int check_reports(const struct session_opts *opts, struct err *e)
{
	const char *what = opts->coherence_report ? "report" : "suppress";

	if (!opts->coherence_report && !opts->coherence_suppress)
		return 0;
	if (opts->coherence != COHERENCE_CHECK)
		return err_set(e, EINVAL,
			"--coherence-%s is for what --coherence check finds; "
			"add that",
			what);
	if (opts->device)
		return err_set(e, EINVAL,
			"--coherence-%s is an option of the device, and the "
			"one at '%s' runs already; give it to tandem-npu "
			"--listen",
			what, opts->device);
	return 0;
}

/* What the hello does not say is said when a device is started. */
static int check_started(const struct session_opts *opts, struct err *e)
{
	const char *what = opts->va_extended ? "va-extended"
		: opts->va_defer             ? "va-defer"
		: opts->va_map_us            ? "va-map-us"
					     : NULL;

	if (!opts->device || !what)
		return 0;
	return err_set(e, EINVAL,
		"--%s: the device at '%s' runs already; give it to "
		"tandem-npu --listen",
		what, opts->device);
}

static int check_faults(const struct session_opts *opts, struct err *e)
{
	struct fault_plan plan, device;
	int ret;

	if (!opts->fault)
		return 0;
	ret = fault_plan_parse(&plan, opts->fault, e);
	if (ret)
		return err_in(e, "--fault");
	fault_plan_share(&plan, false, &device);
	if (plan.n != device.n && opts->flash_fault)
		return err_set(e, EINVAL,
			"faults of flash come by --fault or by --flash-fault");
	if (device.n && opts->device)
		return err_set(e, EINVAL,
			"--fault: the device at '%s' runs already; give it to "
			"tandem-npu --listen",
			opts->device);
	return 0;
}

int pair_apply(const struct opt_values *values, struct session_opts *opts,
	struct soc *soc, struct err *e)
{
	const struct pair_options *a = opt_values_of(values, &pair_table);
	int ret;

	*opts = a->session;
	opts->stall_ms = (unsigned)ceil(a->device_timeout * 1000);
	opts->restarts = a->restarts;
	ret = apply_flash(a, opts, e);
	if (!ret)
		ret = apply_clock(a, opts, soc, e);
	if (!ret)
		ret = check_reports(opts, e);
	if (!ret)
		ret = check_started(opts, e);
	if (!ret)
		ret = check_faults(opts, e);
	return ret ? ret : apply_shape(a, opts, e);
}

const struct opt_table *pair_tables(size_t i)
{
	return i ? NULL : &pair_table;
}

/* ---- decoding ------------------------------------------------------------ */

static bool method_word(size_t i, struct opt_word *w)
{
	const struct method *m = methods[i];

	*w = (struct opt_word){ 0 };
	if (m)
		*w = (struct opt_word){ m->name, NULL, m->summary };
	return m;
}

bool method_name_word(size_t i, struct opt_word *w)
{
	bool is = method_word(i, w);

	w->help = NULL;
	return is;
}

/* clang-format off */
#define IN(field) OPT_IN(decoding_options, field)
static const struct opt decoding_rows[] = {
	{ OPT_STRING, 0, "method", IN(method), "NAME",
		"how tokens come about ({}):", .words = method_word },
	{ OPT_STRING, 0, "history", IN(history), "FILE",
		"answers that came to their end, with their prompts, are kept "
		"in this file, and drafters may draw on it; it is made when "
		"there is none, and private (see tandem history)" },
	{ OPT_SIZE, 0, "history-max", IN(history_max), "SIZE",
		"of that file ({}); its oldest answers make room", 4096,
		(double)((uint64_t)1 << 40) },
	{ OPT_FLAG, 0, "history-frozen", IN(history_frozen), NULL,
		"only draw on it: nothing is added" },
	{ OPT_CHOICE, 0, "profile", IN(profile), "WHAT",
		"what a method that weighs passes knows of a model on flash "
		"before it writes: remember what was found out when the model "
		"was first opened ({}; in $XDG_CACHE_HOME/tandem), probe it "
		"anew and leave the file alone, or learn it of the text",
		.choices = profile_uses },
};
#undef IN
/* clang-format on */

const struct opt_table decoding_table = {
	.heading = "Decoding",
	.rows = decoding_rows,
	.n = ARRAY_LEN(decoding_rows),
	.defaults =
		&(const struct decoding_options){ .method = "autoregressive",
			.history_max = HISTORY_MAX_DEFAULT },
	.size = sizeof(struct decoding_options),
};

const struct opt_table *decoding_tables(size_t i)
{
	return i ? method_table(i - 1) : &decoding_table;
}

const struct opt_table *decoder_tables(size_t i)
{
	return i ? decoding_tables(i - 1) : &pair_table;
}

/* ---- several texts ------------------------------------------------------- */

/* clang-format off */
#define IN(field) OPT_IN(texts_options, field)
static const struct opt texts_rows[] = {
	{ OPT_UINT, 0, "texts", IN(texts), "N",
		"texts that are written at a time, in passes that they share "
		"({}); the others wait for their turn",
		1, ROWS_SEQUENCES },
	{ OPT_UINT, 0, "keep", IN(keep), "N",
		"texts that have ended whose keys and values stay until there "
		"is no room for them ({}): of a prompt that begins like one of "
		"them, or like one that is being written, only the rest is "
		"computed",
		0, 1024 },
	{ OPT_UINT, 0, "text-slots", IN(slots), "N",
		"tokens that all texts together have room for in the key-value "
		"cache (0: as many as they need and it holds); where it is full "
		"some wait until others have ended",
		0, 1 << 26 },
};
#undef IN
/* clang-format on */

const struct opt_table texts_table = {
	.heading = "Several texts",
	.rows = texts_rows,
	.n = ARRAY_LEN(texts_rows),
	.defaults = &(const struct texts_options){ .texts = 1 },
	.size = sizeof(struct texts_options),
};

const struct opt_table *texts_tables(size_t i)
{
	return i ? NULL : &texts_table;
}

const struct opt_table *library_tables(size_t i)
{
	return i ? decoder_tables(i - 1) : &texts_table;
}
