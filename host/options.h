/*
 * The options of a session and of a decoding method, shared by all commands
 * that open one, so that they are said once. A command puts
 * SESSION_OPTIONS(args) among its rows, with `args` a struct session_args of
 * its own that starts as SESSION_ARGS_DEFAULT; METHOD_OPTIONS likewise.
 */
#ifndef HOST_OPTIONS_H
#define HOST_OPTIONS_H

#include "base/opt.h"
#include "base/workers.h"
#include "host/layout.h"
#include "ipc/wire.h"
#include "shm/coherence.h"
#include "shm/doorbell.h"
#include "tensor/soc.h"

#include <stdint.h>

struct err;
struct method;
struct method_env;
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
	const char *clock; /* NULL: wall */
	struct soc soc;    /* the profile that it names, once applied */
};

/* "f32", "f16-kv16", "f16", "int8", "npu", NULL: in the wire's order. */
extern const char *const precision_names[];

#define SESSION_ARGS_DEFAULT                                      \
	{                                                         \
		.precision = WIRE_INT8, .layout = LAYOUT_UNSAID,  \
		.prefill_chunk = 128, .va_window = 3584ull << 20, \
		.va_slots = 16, .evict_seed = 1, .spin_us = -1,   \
		.device_timeout = 30,                             \
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
	const char *method,
		*draft; /* draft NULL: what comes with the program */
	int64_t draft_length, block_length;
	int64_t block_steps; /* 0: as many as a block has positions */
};

#define METHOD_ARGS_DEFAULT                                    \
	{                                                      \
		.method = "autoregressive", .draft_length = 8, \
		.block_length = 32,                            \
	}

/* clang-format off */
#define METHOD_OPTIONS(a)                                                     \
	{ .type = OPT_GROUP, .name = "Decoding" },                            \
	{ OPT_STRING, 0, "method", &(a).method, "NAME",                       \
		"autoregressive (the default: one token a pass), chain (a "   \
		"draft model guesses, the model verifies many guesses in a "  \
		"pass), llada (a diffusion model, block by block)" },         \
	{ OPT_STRING, 0, "draft", &(a).draft, "FILE",                         \
		"the draft model of a method that has one (the one that "     \
		"comes with the program)" },                                  \
	{ OPT_INT, 0, "draft-len", &(a).draft_length, "N",                    \
		"tokens the draft model guesses at a time (8)",               \
		1, WIRE_MAX_ROWS - 1 },                                       \
	{ OPT_INT, 0, "block", &(a).block_length, "N",                        \
		"positions a diffusion model fills at a time (32)",           \
		1, WIRE_MAX_ROWS },                                           \
	{ OPT_INT, 0, "block-steps", &(a).block_steps, "N",                   \
		"passes it takes for a block at most (0: as many as the "     \
		"block has positions)", 0, WIRE_MAX_ROWS }
/* clang-format on */

/*
 * The method these options name, and in *env its lengths. -EINVAL for a name
 * that is none, with those that are, and for a draft that it has no use for.
 */
int method_args_apply(const struct method_args *, const struct method **,
	struct method_env *env, struct err *);

/*
 * *opts as these options ask; what they do not say is session_defaults. It
 * borrows from the arguments. -errno where --clock names no profile.
 */
int session_args_apply(
	struct session_args *, struct session_opts *opts, struct err *);

#endif
