/*
 * The options of a session and of a decoding method, shared by all commands
 * that open one, so that they are said once. A command puts
 * SESSION_OPTIONS(args) among its rows, with `args` a struct session_args of
 * its own that starts as SESSION_ARGS_DEFAULT; METHOD_OPTIONS likewise.
 */
#ifndef HOST_API_OPTIONS_H
#define HOST_API_OPTIONS_H

#include "base/opt.h"
#include "base/workers.h"
#include "flash/stream.h"
#include "host/tree/tree.h"
#include "host/tree/tree_cost.h"
#include "ipc/wire.h"
#include "shm/coherence.h"
#include "shm/doorbell.h"
#include "tensor/layout.h"
#include "tensor/soc.h"

#include <stdint.h>

struct decoder;
struct decoder_files;
struct err;
struct method;
struct session_opts;

/* As the option parser wants them; session_defaults where not said. */
struct session_args {
	int64_t threads, prefill_chunk, context;
	int precision; /* enum wire_precision */
	int layout;    /* enum layout */
	int coherence, doorbell;
	uint64_t va_window;
	int64_t va_slots, evict_seed, spin_us;
	double device_timeout; /* seconds */
	const char *device;
	const char *dram_budget; /* NULL: all */
	int64_t stage_slots;
	int flash_io; /* enum flash_io */
	const char *flash_fault;
	const char *clock; /* NULL: wall */
	struct soc soc;    /* the profile that it names, once applied */
};

enum flash_io { FLASH_DIRECT, FLASH_BUFFERED, FLASH_THREAD };
extern const char *const flash_io_names[];

/* "f32", "f16-kv16", "f16", "int8", "npu", NULL: in the wire's order. */
extern const char *const precision_names[];

#define SESSION_ARGS_DEFAULT                                      \
	{                                                         \
		.precision = WIRE_INT8, .layout = LAYOUT_UNSAID,  \
		.prefill_chunk = 128, .va_window = 3584ull << 20, \
		.va_slots = 16, .evict_seed = 1, .spin_us = -1,   \
		.device_timeout = 30, .stage_slots = 3,           \
	}

/* clang-format off */
#define SESSION_OPTIONS(a)                                                    \
	{ .type = OPT_GROUP, .name = "The pair" },                            \
	{ OPT_INT, 't', "threads", &(a).threads, "N",                         \
		"threads of the host and of the device, each (0: one a "      \
		"processor)", 0, WORKERS_MAX },                               \
	{ OPT_INT, 0, "prefill-chunk", &(a).prefill_chunk, "ROWS",            \
		"rows of the prefill graph (128); a shorter rest is padded",  \
		1, WIRE_MAX_ROWS },                                           \
	{ OPT_INT, 0, "ctx", &(a).context, "N",                               \
		"token positions of the key-value cache (0: what is needed, " \
		"up to the model's context)", 0, 1 << 26 },                   \
	{ OPT_CHOICE, 0, "precision", &(a).precision, NULL,                   \
		"of the device: activations in fp16 with keys and values in " \
		"float32 (f16), the same but int8 where they meet Q4_0 and "  \
		"Q8_0 weights in tiles (int8, the default and the fastest), " \
		"both in fp16 (f16-kv16: half the cache, less exact), "       \
		"fp16 throughout with exponentials from a table, as a "       \
		"phone's NPU has it (npu), all in float32 (f32: the "         \
		"reference)", .choices = precision_names },                   \
	{ OPT_CHOICE, 0, "layout", &(a).layout, NULL,                         \
		"of the weights in memory (a flash image has its own): as "   \
		"in the model file (rows), in "  \
		"the matrix engine's tiles without loss (tiles, the "         \
		"default), requantized to tile groups (groups) or "           \
		"super-groups (super)", .choices = layout_names },            \
	{ OPT_CHOICE, 0, "coherence", &(a).coherence, NULL,                   \
		"what a forgotten cache upkeep does: nothing (off, the "      \
		"default), wrong results (strict), or a report as well and "  \
		"exit status 1 (check)", .choices = coherence_names },        \
	{ OPT_CHOICE, 0, "doorbell", &(a).doorbell, NULL,                     \
		"how a sleeping side is woken (poll: spin, then futex)",      \
		.choices = doorbell_names },                                  \
	{ OPT_SIZE, 0, "va-window", &(a).va_window, "SIZE",                   \
		"the device's address window (3.5G), 16M or more",            \
		(double)WIRE_WINDOW_MIN, (double)WIRE_WINDOW_MAX },           \
	{ OPT_INT, 0, "va-slots", &(a).va_slots, "N",                         \
		"buffers the window can map at a time (16), 3 or more",       \
		3, 256 },                                                     \
	{ OPT_INT, 0, "evict-seed", &(a).evict_seed, "N",                     \
		"seed of the device cache's early write-backs with strict "   \
		"and check (1; 0: none)", 0, INT32_MAX },                     \
	{ OPT_INT, 0, "spin", &(a).spin_us, "USEC",                           \
		"spin so long before sleeping, with doorbell poll (-1: by "   \
		"the processors at hand)", -1, 10000000 },                    \
	{ OPT_STRING, 0, "dram-budget", &(a).dram_budget, "SHARE|SIZE",       \
		"of the layers of a flash image so many stay in memory, the " \
		"first ones, and the rest is streamed from flash in every "   \
		"pass: 0% to 100% (the default), or a size" },                \
	{ OPT_INT, 0, "stage-slots", &(a).stage_slots, "N",                   \
		"buffers that layers are streamed through (3)",               \
		2, STREAM_SLOTS },                                            \
	{ OPT_CHOICE, 0, "flash-io", &(a).flash_io, NULL,                     \
		"how: past the page cache by io_uring (direct, the default, " \
		"falling back where the system refuses), through the page "   \
		"cache (buffered), or by a thread that reads (thread)",       \
		.choices = flash_io_names },                                  \
	{ OPT_STRING, 0, "flash-fault", &(a).flash_fault, "PLAN",             \
		"inject faults into these reads, for tests: eio@3 (the "      \
		"third fails), short@5, flip@2, stall@4, shrink@6; with a + " \
		"behind it, all later ones too", .hidden = true },            \
	{ OPT_STRING, 0, "clock", &(a).clock, "wall|soc:NAME",                \
		"whose time is told: this machine's alone (wall, the "        \
		"default), or beside it what a phone would take, by a "       \
		"profile: sd8gen2, sd8gen3, sd8elite or a file" },            \
	{ OPT_STRING, 0, "device", &(a).device, "PATH",                       \
		"connect to a device that listens at this socket (see "       \
		"tandem-npu --listen) instead of starting one" },             \
	{ OPT_FLOAT, 0, "device-timeout", &(a).device_timeout, "SECONDS",     \
		"give up a device that makes no progress for so long (30; "   \
		"0: never)", 0, 86400 }
/* clang-format on */

struct method_args {
	const char *method;
	const char *draft; /* NULL: what comes with the program */
	const char *exit;  /* likewise */
	int64_t draft_length, block_length;
	int64_t block_steps; /* 0: as many as a block has positions */
	int64_t tree_rows, tree_depth, candidates;
	int draft_on; /* 0: host, 1: device */
	int64_t draft_batch, draft_seed;
	double draft_temperature, prune_threshold;
	bool prune_always, no_shadow, no_safeguards, stop_rule;
};

#define METHOD_ARGS_DEFAULT                                               \
	{                                                                 \
		.method = "autoregressive", .draft_length = 8,            \
		.block_length = 32, .tree_rows = 64, .tree_depth = 12,    \
		.candidates = 8, .draft_seed = 1, .draft_temperature = 1, \
		.prune_threshold = -1,                                    \
	}

extern const char *const draft_places[];

/* clang-format off */
#define METHOD_OPTIONS(a)                                                     \
	{ .type = OPT_GROUP, .name = "Decoding" },                            \
	{ OPT_STRING, 0, "method", &(a).method, "NAME",                       \
		"autoregressive (the default: one token a pass), flash-ar "   \
		"(the same of a model on flash), llada (a diffusion model, "  \
		"block by block); and those that verify what a draft model "  \
		"guesses, many tokens in a pass: chain (one behind the "      \
		"other), specinfer (a tree of a fixed shape), opt-tree (the " \
		"tree of the largest expected length), eagle2-tree (the "     \
		"likeliest, layer by layer), edgellm (as far as it is "       \
		"likely), lever (by gain over cost, pruned half-way)" },      \
	{ OPT_STRING, 0, "draft", &(a).draft, "FILE|oracle:P",                \
		"the draft model of a method that has one (the one that "     \
		"comes with the program); oracle:P simulates one that agrees "\
		"with the model in a share P of the tokens" },                \
	{ OPT_CHOICE, 0, "draft-on", &(a).draft_on, NULL,                     \
		"where the draft model runs", .choices = draft_places },      \
	{ OPT_INT, 0, "draft-batch", &(a).draft_batch, "N",                   \
		"nodes drafted together where possible (0: 1 on the host, 8 " \
		"on the device)", 0, 64 },                                    \
	{ OPT_FLOAT, 0, "draft-temp", &(a).draft_temperature, "T",            \
		"temperature of the draft's probabilities (1)", 0.05, 10 },   \
	{ OPT_INT, 0, "draft-seed", &(a).draft_seed, "N",                     \
		"seed of draft oracle:P (1)", 0, INT32_MAX },                 \
	{ OPT_INT, 0, "draft-len", &(a).draft_length, "N",                    \
		"tokens of a drafted chain (8)", 1, WIRE_MAX_ROWS - 1 },      \
	{ OPT_INT, 0, "tree-rows", &(a).tree_rows, "N",                       \
		"rows of a drafted tree at most, its root among them (64)",   \
		2, COST_ROWS },                                               \
	{ OPT_INT, 0, "tree-depth", &(a).tree_depth, "N",                     \
		"depth of a drafted tree at most (12)", 1, COST_ROWS },       \
	{ OPT_INT, 0, "candidates", &(a).candidates, "N",                     \
		"tokens considered behind each node of a tree (8)",           \
		1, TREE_CANDIDATES },                                         \
	{ OPT_FLAG, 0, "stop-rule", &(a).stop_rule, NULL,                     \
		"with lever: stop a tree where the paper does, not at its "   \
		"best prefix" },                                              \
	{ OPT_STRING, 0, "exit", &(a).exit, "FILE|none",                      \
		"with lever: the exit predictor of the model (the one that "  \
		"comes with the program, where it fits), or none" },          \
	{ OPT_FLOAT, 0, "prune-threshold", &(a).prune_threshold, "P",         \
		"with lever: what an edge must be likely for to stay (one "   \
		"over twice the candidates)", 0, 1 },                        \
	{ OPT_FLAG, 0, "prune-always", &(a).prune_always, NULL,               \
		"with lever: prune also where it saves less time than it "    \
		"loses tokens" },                                             \
	{ OPT_FLAG, 0, "no-shadow", &(a).no_shadow, NULL,                     \
		"with lever: predict among a node's children alone" },        \
	{ OPT_FLAG, 0, "no-safeguards", &(a).no_safeguards, NULL,             \
		"with lever: prune whatever is below the threshold" },        \
	{ OPT_INT, 0, "block", &(a).block_length, "N",                        \
		"positions a diffusion model fills at a time (32)",           \
		1, WIRE_MAX_ROWS },                                           \
	{ OPT_INT, 0, "block-steps", &(a).block_steps, "N",                   \
		"passes it takes for a block at most (0: as many as the "     \
		"block has positions)", 0, WIRE_MAX_ROWS }
/* clang-format on */

/*
 * The method these options name; into *d go its lengths, its drafting and
 * whether to prune, and into *files the draft and the exit predictor. -EINVAL
 * for a name that is none, with those that are, and for what the method has no
 * use for.
 */
int method_args_apply(const struct method_args *, const struct method **,
	struct decoder *d, struct decoder_files *files, struct err *);

/*
 * *opts as these options ask; what they do not say is session_defaults. It
 * borrows from the arguments. -errno where --clock names no profile.
 */
int session_args_apply(
	struct session_args *, struct session_opts *opts, struct err *);

#endif
