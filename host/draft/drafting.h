/*
 * Who drafts for a decoder: a draft model on the host, the same on the device
 * beside the target, or an oracle that was told the text (host/draft/). Opened
 * by what the user asked for, for methods that have a use for it. One thread.
 */
#ifndef HOST_DRAFT_DRAFTING_H
#define HOST_DRAFT_DRAFTING_H

#include "base/opt.h"
#include "host/tree/drafter.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct draft_model;
struct err;
struct model;
struct session;
struct session_opts;

struct drafting_options {
	const char *draft; /* NULL: the model that comes with the program */
	int on_device;
	uint32_t batch;     /* nodes drafted together; 0: chosen */
	double temperature; /* of the draft's probabilities */
	uint32_t seed;      /* of the oracle */
};
extern const struct opt_table drafting_table;

struct drafting {
	struct drafting_options opts;
	double oracle;       /* its agreement, to 1; 0: a model drafts */
	char path[PATH_MAX]; /* "" without a draft model */
	struct model *file;
	struct draft_model *model; /* on the host */
	struct session *session;   /* on the device */
	struct drafter drafter;    /* begin NULL: none open */
	uint32_t n_vocab;
};

/* What is to draft; text in the options is borrowed. -EINVAL for what cannot
 * be meant. */
int drafting_ask(
	struct drafting *, const struct drafting_options *, struct err *);

/* Nothing but the draft model's file is opened, if there is one. -EINVAL when
 * its vocabulary is not the target's. */
int drafting_open_file(struct drafting *, const struct model *target,
	const char *target_path, struct err *);

/* Beside the target's session, whose options these were; trees have at most
 * `rows` rows. */
int drafting_open(struct drafting *, struct session *target,
	const struct session_opts *, uint32_t rows, struct err *);

/* The oracle learns the text, prompt and continuation. */
int drafting_tell(
	struct drafting *, const int32_t *text, size_t n, struct err *);

/* Whatever is open; before the target's session. */
void drafting_close(struct drafting *);

#endif
