/*
 * Decoding methods. A method is one file here that reads like its algorithm,
 * standing on host/session.h; adding one touches that file, its test and one
 * row of the table in method.c.
 *
 * The generation is what a method produces into: it holds the prompt and all
 * tokens so far, draws from logits, prints, and knows when to stop. Methods
 * never see text, files or options.
 */
#ifndef HOST_METHOD_METHOD_H
#define HOST_METHOD_METHOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct draft_model;
struct err;
struct generation;
struct session;

/* Counted by methods that verify drafts. */
struct method_stats {
	uint64_t cycles;   /* verification passes */
	uint64_t drafted;  /* tokens proposed */
	uint64_t accepted; /* of them; emitted are accepted + cycles */
	uint64_t draft_ns;
};

/* Of the tokens proposed; 0 without any. */
static inline double method_acceptance(const struct method_stats *s)
{
	return s->drafted ? (double)s->accepted / (double)s->drafted : 0;
}

/* Mean of the tokens a cycle emits, the verifier's own one among them; 0
 * without cycles. */
static inline double method_accepted_length(const struct method_stats *s)
{
	return s->cycles ? (double)(s->accepted + s->cycles) / (double)s->cycles
			 : 0;
}

/* What a method works with beside the session. */
struct method_env {
	struct draft_model *draft; /* NULL unless needs_draft */
	uint32_t draft_length;     /* tokens of a drafted chain at most */
	uint32_t block_length;     /* positions of a diffusion block, >= 1 */
	uint32_t block_steps;      /* passes it takes at most; 0: one each */
	struct method_stats stats; /* added up over runs */
};

struct method {
	const char *name;    /* "autoregressive" */
	const char *summary; /* one line for --help */
	bool lossless;       /* same tokens as plain decoding */
	bool needs_draft;
	bool diffusion; /* runs models whose positions all see each other */
	/* Rows of the decode graph it wants. */
	uint32_t (*decode_rows)(const struct method_env *);
	int (*run)(struct session *, struct generation *, struct method_env *,
		struct err *);
};

/* The table, by name; NULL-terminated. */
extern const struct method *const methods[];
const struct method *method_find(const char *name);

extern const struct method method_autoregressive;
extern const struct method method_llada;
extern const struct method method_chain;

#endif
