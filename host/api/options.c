#include "host/api/options.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fault_plan.h"
#include "base/workers.h"
#include "host/api/profile.h"
#include "host/method/choosing.h"
#include "host/method/methods.h"
#include "host/model/shape_type.h"
#include "host/model/shapes.h"
#include "host/session/rows.h"
#include "host/shipped/soc_file.h"
#include "host/text/history.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const precision_names[] = { "f32", "f16-kv16", "f16", "int8", "npu",
	NULL };
_Static_assert(ARRAY_LEN(precision_names) == WIRE_PRECISION_COUNT + 1,
	"each has a name");

static const char *const flash_io_names[] = { "direct", "buffered", "thread",
	NULL };

static const char *const off_on[] = { "off", "on", NULL };

const char *const clock_names[] = { "wall", "soc:sd8gen2", "soc:sd8gen2-sdnpu",
	"soc:sd8gen3", "soc:sd8gen3-lever", "soc:sd8elite", "soc:sd8elite5",
	NULL };

/* ---- host and device processes ------------------------------------------- */

/* An option of type OPT_CHOICE stores its value as an int, so each of these
 * enums must have the size of an int. */
_Static_assert(sizeof(enum wire_precision) == sizeof(int) &&
		sizeof(enum layout) == sizeof(int) &&
		sizeof(enum graph_switch) == sizeof(int) &&
		sizeof(enum placement_policy) == sizeof(int) &&
		sizeof(enum coherence) == sizeof(int) &&
		sizeof(enum doorbell_kind) == sizeof(int),
	"an enum of another size");

/* The names that --va-window accepts besides a size: each NPU generation with
 * the size of its address window. docs/window.md has the sources. */
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

/* clang-format off */
#define IN(field) OPT_IN(pair_options, field)
static const struct opt pair_rows[] = {
	{ OPT_UINT, 't', "threads", IN(session.threads), "N",
		"compute threads of each process (0: one for each CPU)", 0, WORKERS_MAX },
	{ OPT_UINT, 0, "ctx", IN(session.context), "N",
		"token positions of the key-value cache (0: as needed); never "
		"more than the model's context", 0, 1 << 26 },
	{ OPT_CHOICE, 0, "precision", IN(session.precision), NULL,
		"precision of the device's arithmetic (int8); f16-kv16: fp16 "
		"activations, keys and values; int8: like f16-kv16, but int8 "
		"activations for Q4_0 and Q8_0 weights in tiles (see "
		"--layout); npu: fp16 throughout with exponentials from a "
		"table, as on a phone; f16: fp16 activations, float32 keys "
		"and values; f32: float32 throughout, the reference", .choices = precision_names },
	{ OPT_CHOICE, 0, "layout", IN(session.layout), NULL,
		"layout of the weights in memory (tiles); rows: as in the "
		"model file; tiles: in tiles of 32 by 32 weights, as the "
		"matrix engine reads them, values unchanged; groups: in "
		"tiles, and quantized again with one scale for each 32 "
		"adjacent weights of a tile; super: as groups, with 8 groups "
		"stored together. A flash image keeps its own layout", .choices = layout_names },
	{ OPT_UINT, 0, "prefill-chunk", IN(session.prefill_chunk), "ROWS",
		"rows of the prefill graph, which computes the prompt in "
		"chunks of this size ({}); a shorter last chunk is padded",
		1, WIRE_MAX_ROWS },
	{ OPT_FLAG, 0, "one-graph", IN(session.one_graph), NULL,
		"use only the prefill graph; decoding passes are padded to "
		"its number of rows" },
	{ OPT_CHOICE, 0, "graph-switch", IN(session.graph_switch), NULL,
		"when the device replaces the prefill graph of a block of "
		"layers by its decode graph, to hold only one graph of each "
		"block ({}). off: never, both stay loaded; sync: after the "
		"prompt; async: after the block's last part of the prompt; "
		"greedy: when other work hides the loading completely; "
		"partial: when other work hides at least a part of the "
		"loading; best: at the times that let prompt and loading "
		"finish earliest", .choices = graph_switch_names },
	{ OPT_UINT, 0, "graph-blocks", IN(session.graph_blocks), "N",
		"smallest number of blocks into which the layers are divided "
		"with --graph-switch ({})",
		1, SWITCH_BLOCKS },
	{ OPT_UINT, 0, "graph-rows", IN(session.graph_rows), "ROWS",
		"rows of the decode graph with --graph-switch ({}); more "
		"where the method needs more", 1, WIRE_MAX_ROWS },
	{ OPT_FLAG, 0, "attend-apart", IN(session.attend_apart), NULL,
		"read shared keys and values again for each row of a pass that "
		"attends to them; slower, with the same result, for "
		"comparison" },
	{ OPT_CHOICE, 0, "doorbell", IN(session.doorbell), NULL,
		"how host and device wake each other (poll: spin, then futex)",
		.choices = doorbell_names },
	{ OPT_INT, 0, "spin", IN(session.spin_us), "USEC",
		"time that a waiting process spins before it sleeps, with "
		"--doorbell poll ({}: chosen by the number of CPUs)", -1, 10000000 },
	{ OPT_STRING, 0, "device", IN(session.device), "PATH",
		"connect to a device at this socket instead of starting one; "
		"see tandem-npu --listen" },
	{ OPT_FLOAT, 0, "device-timeout", IN(device_timeout), "SECONDS",
		"give up on a device that makes no progress for this long "
		"({}; 0: never)", 0, 86400 },
	{ OPT_UINT, 0, "restarts", IN(restarts), "N",
		"replace a lost device and continue the request, at most N "
		"times in a minute ({}; 0: exit with status 3 at once)",
		0, SESSION_RESTARTS_MAX },
	{ OPT_STRING, 0, "fault", IN(session.fault), "PLAN",
		"for tests: inject faults into the device, its messages and "
		"flash, such as die@run#3, seq@5, eio@3, or @FILE; 'tandem "
		"help faults' lists them" },

	{ .type = OPT_GROUP, .name = "coherence" },
	{ OPT_CHOICE, 0, "coherence", IN(session.coherence), NULL,
		"simulate a device cache without hardware coherence ({}); off: "
		"no device cache; strict: missing cache maintenance gives "
		"wrong data; check: as strict, but each violation is also "
		"reported, and then the exit status is 1",
		.choices = coherence_names },
	{ OPT_UINT, 0, "contract", IN(session.contract), "1|2",
		"rules for the device's cache; 1: a clean or invalidate of an "
		"address range is enough; 2: only a clean or flush of the "
		"whole cache reaches memory (default: the rules of --clock's "
		"phone, else 1)",
		0, COHERENCE_TWO_LEVELS },
	{ OPT_CHOICE, 0, "coherence-ctrl", IN(session.coherence_ctrl), NULL,
		"on: the device also accesses the rings of requests and "
		"answers (the buffer tandem:ctrl) through its simulated "
		"cache ({})",
		.choices = off_on },
	{ OPT_STRING, 0, "coherence-report", IN(session.coherence_report),
		"FILE",
		"append the reports of --coherence check to FILE; one JSON "
		"object a line (docs/coherence.md)" },
	{ OPT_STRING, 0, "coherence-suppress", IN(session.coherence_suppress),
		"FILE",
		"leave out reports of --coherence check that match a pattern "
		"in FILE" },
	{ OPT_INT, 0, "evict-seed", IN(session.evict_seed), "N",
		"seed of the device cache's random early write-backs, with "
		"--coherence strict or check ({}; 0: none)", 0, INT32_MAX },

	{ .type = OPT_GROUP, .name = "window" },
	{ OPT_SIZE, 0, "va-window", IN(session.va_window), "SIZE",
		"size of the device's address window ({}); 1M or more, or the "
		"name of an NPU generation:",
		(double)WIRE_WINDOW_MIN, (double)WIRE_WINDOW_MAX,
		.words = window_word },
	{ OPT_UINT, 0, "va-slots", IN(session.va_slots), "N",
		"buffers that the device's address window can map at a time "
		"({}); 3 or more",
		3, 256 },
	{ OPT_SIZE, 0, "va-extended", IN(session.va_extended), "SIZE",
		"size of a second memory region that only DMA can read (0: "
		"none); weights that do not fit into the address window are "
		"placed there", 0, (double)WIRE_EXTENDED_MAX },
	{ OPT_UINT, 0, "va-defer", IN(session.va_defer), "N",
		"unmap a buffer only after N more map requests, as some "
		"firmware does ({})",
		0, WIRE_DEFER_MAX },
	{ OPT_UINT, 0, "va-map-us", IN(session.va_map_us), "USEC",
		"least time to map or unmap a buffer, in microseconds of the "
		"wall clock ({})",
		0, WIRE_MAP_US_MAX },
	{ OPT_FLAG, 0, "va-hard", IN(session.va_hard), NULL,
		"limit the device process's address space, with RLIMIT_AS, to "
		"its size after the start plus 256 MiB" },
	{ OPT_CHOICE, 0, "placement", IN(session.placement), NULL,
		"which weights stay in the address window if not all fit "
		"({}). auto: with a phone's clock swap, if that is possible; "
		"otherwise belady. To make room for a block of layers, belady "
		"evicts the block whose next use is furthest away, paging "
		"evicts the least recently used block, and drop-all evicts all "
		"other blocks. With swap some layers stay, and the others are "
		"copied into two buffers of the window before they are needed. "
		"fixed fails unless all weights fit",
		.choices = placement_names },
	{ OPT_FLAG, 0, "swap-poison", IN(session.swap_poison), NULL,
		"for tests: overwrite a slot of --placement swap after the "
		"device has used the weights in it", .hidden = true },

	{ .type = OPT_GROUP, .name = "flash" },
	{ OPT_STRING, 0, "dram-budget", IN(dram_budget), "SHARE|SIZE",
		"weights that stay in memory, as a share or a size (100%); "
		"other layers are read from flash in every pass. A share is a "
		"percentage of the layers, or of the experts of a mixture of "
		"experts; a size includes the buffers of --stage-slots. Needs "
		"a flash image (tandem convert)" },
	{ OPT_UINT, 0, "experts-ahead", IN(session.experts_ahead), "N",
		"for a streamed mixture of experts: number of experts of the "
		"next layer that are predicted to be used and read ahead from "
		"flash for each row ({}; 0: none)", 0, WIRE_MAX_EXPERTS },
	{ OPT_UINT, 0, "resident-runs", IN(session.resident_runs), "N",
		"divide the layers that stay in memory into N groups of "
		"adjacent layers, with streamed layers between the groups (0: "
		"6 groups; 1: the first layers stay)",
		0, SESSION_RESIDENT_RUNS },
	{ OPT_UINT, 0, "stage-slots", IN(session.stage_slots), "N",
		"number of staging slots, buffers into which streamed layers "
		"are read ({}); fewer where --dram-budget is a size with no "
		"room for them",
		2, STREAM_SLOTS },
	{ OPT_UINT, 0, "stage-parts", IN(session.stage_parts), "N",
		"divide each layer into N parts for streaming (1: whole "
		"layers; {}: whole layers, or quarters where memory is short)",
		0, SESSION_STAGE_PARTS },
	{ OPT_CHOICE, 0, "flash-io", IN(flash_io), NULL,
		"how flash is read (direct); direct: io_uring with O_DIRECT; "
		"buffered: io_uring through the page cache; thread: pread by "
		"a thread. Falls back to what the system allows",
		.choices = flash_io_names },
	{ OPT_STRING, 0, "flash-fault", IN(session.flash_fault), "PLAN",
		"for tests: inject faults into reads from flash, such as eio@3 "
		"(the third read fails); 'tandem help faults' lists them",
		.hidden = true },

	{ .type = OPT_GROUP, .name = "clock" },
	{ OPT_STRING, 0, "clock", IN(clock), "wall|soc:NAME",
		"also compute the time that the phone NAME would take (wall: "
		"do not); benchmarks then report only the phone's time; "
		"'tandem help clocks' lists phones and shows how to change one",
		.choices = clock_names },
	{ OPT_CHOICE, 0, "as", IN(as), "SHAPE",
		"compute phone times for a model of this shape; a shape is the "
		"number and sizes of a model's layers ('tandem help shapes'); "
		"the model that runs stays the same. With --clock soc:NAME",
		.choices = dense_shape_names },
	{ OPT_CHOICE, 0, "as-type", IN(as_type), NULL,
		"type of the matrices with --as or --draft-as (the type of the "
		"model that runs; q8_0 for --draft oracle); with q4_0 the FFN "
		"down matrices are q8_0; with q4_0-all all matrices are q4_0",
		.choices = shape_type_names },

	{ .type = OPT_GROUP, .name = "trace" },
	{ OPT_STRING, 0, "trace", IN(session.trace), "FILE",
		"write a timeline of host, device, flash and phone to FILE; "
		"for ui.perfetto.dev and 'tandem trace'" },
	{ OPT_SIZE, 0, "trace-limit", IN(session.trace_limit), "SIZE",
		"keep at most this much of the timeline, the newest part, in "
		"FILE and FILE.1 (no limit; tandem serve: 256M)", 1 << 20,
		(double)((uint64_t)1 << 40) },
};
#undef IN
/* clang-format on */

const struct opt_table pair_table = {
	.heading = "device",
	.rows = pair_rows,
	.n = ARRAY_LEN(pair_rows),
	.defaults = &(const struct pair_options){ .session = SESSION_DEFAULTS,
		.device_timeout = SESSION_STALL / 1000.0,
		.restarts = 3,
		.as = -1,
		.as_type = -1 },
	.size = sizeof(struct pair_options),
};

/* Apply --clock: "wall", or "soc:NAME", optionally followed by changes to the
 * phone's profile. For "soc:NAME", load the profile into *soc. */
static int apply_clock(const struct pair_options *a, struct session_opts *opts,
	struct soc *soc, struct err *e)
{
	/* a->clock up to its first comma, without the changes; a text that is
	 * longer than the array is cut off, and matches no name */
	char phone[64];
	const char *near;
	int ret;

	if (!a->clock || !strcmp(a->clock, "wall"))
		return 0;
	snprintf(phone, sizeof(phone), "%.*s", (int)strcspn(a->clock, ","),
		a->clock);
	near = strpbrk(phone, "/.") ? NULL : opt_nearest(phone, clock_names);
	if (near && strcmp(near, phone))
		return err_set(e, EINVAL,
			"--clock '%s': no such phone; did you mean '%s'? "
			"'tandem help clocks' lists all",
			phone, near);
	if (strncmp(a->clock, "soc:", 4) || !a->clock[4])
		return err_set(e, EINVAL,
			"--clock '%s' is neither wall nor soc:NAME; try "
			"soc:sd8gen3",
			a->clock);
	ret = soc_file_load(soc, a->clock + 4, e);
	if (!ret && opts->contract)
		soc->cache_levels = opts->contract;
	opts->soc = ret ? NULL : soc;
	opts->clock = a->clock;
	return ret;
}

int pair_apply(const struct opt_values *values, struct session_opts *opts,
	struct soc *soc, struct err *e)
{
	const struct pair_options *a = opt_values_of(values, &pair_table);
	struct fault_plan plan, device;
	const char *what;
	int ret;

	*opts = a->session;
	opts->stall_ms = (unsigned)ceil(a->device_timeout * 1000);
	opts->restarts = a->restarts;
	opts->stream.stall_ms = opts->stall_ms;
	opts->stream.buffered = a->flash_io == FLASH_BUFFERED;
	opts->stream.threaded = a->flash_io == FLASH_THREAD;
	if (a->as_type >= 0)
		opts->as_type = shape_type_at((unsigned)a->as_type);
	if (a->as >= 0)
		opts->as = &shapes[a->as];
	if (a->dram_budget) {
		char *end;
		double share = strtod(a->dram_budget, &end);

		if (end > a->dram_budget && !strcmp(end, "%") && share >= 0 &&
			share <= 100)
			opts->dram_share = share / 100;
		else if (opt_size(a->dram_budget, &opts->dram_bytes))
			return err_set(e, EINVAL,
				"--dram-budget '%s' is neither 0%% to 100%% "
				"nor a size like 1.5G",
				a->dram_budget);
		else if (!opts->dram_bytes)
			opts->dram_share = 0;
	}
	ret = apply_clock(a, opts, soc, e);
	if (ret)
		return ret;
	/* Check the options that are arguments of the device program. These
	 * options would have no effect on a device that is already running
	 * (--device). */
	what = opts->coherence_report      ? "coherence-report"
		: opts->coherence_suppress ? "coherence-suppress"
					   : NULL;
	if (what && opts->coherence != COHERENCE_CHECK)
		return err_set(e, EINVAL, "--%s needs --coherence check", what);
	what = what                 ? what
		: opts->va_extended ? "va-extended"
		: opts->va_defer    ? "va-defer"
		: opts->va_map_us   ? "va-map-us"
				    : NULL;
	if (opts->device && what)
		return err_set(e, EINVAL,
			"--%s cannot be set here: the device at '%s' already "
			"runs; give the option to its tandem-npu --listen",
			what, opts->device);
	if (opts->fault) {
		if (fault_plan_parse(&plan, opts->fault, e))
			return err_in(e, "--fault");
		fault_plan_share(&plan, false, &device);
		if (plan.n != device.n && opts->flash_fault)
			return err_set(e, EINVAL,
				"--fault and --flash-fault both plan faults of "
				"flash; give one of them");
		if (device.n && opts->device)
			return err_set(e, EINVAL,
				"--fault cannot be set here: the device at "
				"'%s' already runs; give the option to its "
				"tandem-npu --listen",
				opts->device);
	}
	if (opts->as && !opts->soc)
		return err_set(e, EINVAL,
			"--as %s needs a phone's clock; add --clock soc:NAME, "
			"like soc:sd8gen2",
			opts->as->name);
	return 0;
}

const struct opt_table *pair_tables(size_t i)
{
	return i ? NULL : &pair_table;
}

/* ---- decoding ------------------------------------------------------------ */

static bool method_word(size_t i, struct opt_word *w)
{
	const struct method *m = methods[i];

	if (m)
		*w = (struct opt_word){ m->name, NULL, m->summary };
	return m;
}

bool method_facts(size_t i, struct method_facts *out)
{
	const struct method *m = methods[i];

	if (!m)
		return false;
	*out = (struct method_facts){ .name = m->name,
		.method = m,
		.lossless = m->lossless,
		.drafts = m->needs_draft,
		.diffusion = m->diffusion,
		.many = method_uses(m, &samples_table),
		.scores = method_uses(m, &aggregate_table),
		.runs = method_runs(m) };
	return true;
}

bool method_takes(const char *name, const struct opt_table *t)
{
	const struct opt_table *of;

	for (size_t i = 0; (of = method_table(i)); i++)
		if (of == t)
			return method_uses(method_find(name), t);
	return true;
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
		"decoding method ({}); 'tandem help methods' lists all:", .words = method_word },
	{ OPT_STRING, 0, "history", IN(history), "FILE",
		"keep finished answers with their prompts in FILE, for "
		"drafters to copy from; FILE is created with mode 0600 (tandem "
		"history)" },
	{ OPT_SIZE, 0, "history-max", IN(history_max), "SIZE",
		"size limit of the file of --history ({}); the oldest answers "
		"are dropped", 4096,
		(double)((uint64_t)1 << 40) },
	{ OPT_FLAG, 0, "history-frozen", IN(history_frozen), NULL,
		"draft from the file of --history, but add nothing to it" },
	{ OPT_CHOICE, 0, "profile", IN(profile), "WHAT",
		"how the methods lever and sdnpu get the time of a pass ({}); "
		"remember: by one measurement, kept in a file in "
		"$XDG_CACHE_HOME/tandem; probe: by a measurement before the "
		"first request; learn: by measuring the passes of requests",
		.choices = profile_uses },
};
#undef IN
/* clang-format on */

const struct opt_table decoding_table = {
	.heading = "methods",
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

/* ---- several requests ---------------------------------------------------- */

/* clang-format off */
#define IN(field) OPT_IN(texts_options, field)
static const struct opt texts_rows[] = {
	{ OPT_UINT, 0, "texts", IN(texts), "N",
		"requests that are decoded at the same time, in shared passes "
		"({}); further requests wait",
		1, ROWS_SEQUENCES },
	{ OPT_UINT, 0, "keep", IN(keep), "N",
		"number of finished requests whose keys and values are kept "
		"({}); a prompt that begins like a kept or running request "
		"reuses its keys and values",
		0, 1024 },
	{ OPT_UINT, 0, "text-slots", IN(slots), "N",
		"token positions of the key-value cache for all requests "
		"together (0: as many as needed); requests wait while it is "
		"full",
		0, 1 << 26 },
};
#undef IN
/* clang-format on */

const struct opt_table texts_table = {
	.heading = "requests",
	.rows = texts_rows,
	.n = ARRAY_LEN(texts_rows),
	.defaults = &(const struct texts_options){ .texts = 1 },
	.size = sizeof(struct texts_options),
};

const struct opt_table *library_tables(size_t i)
{
	return i ? decoder_tables(i - 1) : &texts_table;
}
