/*
 * What an evaluation found: a table for people, row by row as tasks end, or
 * one JSON object for programs.
 */
#ifndef HOST_CMD_EVAL_REPORT_H
#define HOST_CMD_EVAL_REPORT_H

#include "host/api/report.h"
#include "host/eval/eval.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct err;
struct shards;

/* What was evaluated, and how. Text is borrowed. */
struct eval_subject {
	const char *model, *arch, *method, *precision;
	const char *draft_model, *drafter; /* NULL: nothing drafts */
	const char *clock;                 /* of a phone; NULL: none */
	double base_w;                     /* that the phone always draws */
	char priced_as[TANDEM_PRICED_AS];  /* of the report */
	double temperature;
	uint64_t seed;
	uint32_t n_predict;
};

struct eval_report {
	struct eval_subject subject;
	struct eval_result *result; /* [n] */
	size_t n;
	bool complete;     /* all of them, to the end */
	const char *error; /* NULL: none */
	/* Of a shard, what merging wants to know; NULL: of all items. */
	json_t *shard;
};

struct eval_subject eval_subject_of(
	const struct tandem_report *, const struct eval_opts *);

/* The line above the rows, of items that are marked or of prompts alone. */
void eval_head_text(const struct eval_subject *, bool marked, FILE *);

/* A task's row, and one for each level where its items have levels. */
void eval_row_text(
	const struct eval_subject *, const struct eval_result *, FILE *);

/* The last row, where there is more than one task: the mean of the tasks. Of
 * prompts alone: that nothing was marked. */
void eval_mean_text(const struct eval_report *, FILE *);

/* One line. 0, -ENOMEM or -EIO. */
int eval_json(const struct eval_report *, FILE *);

/*
 * What shards (of `tandem eval`) come to together, which borrows from them; the
 * caller frees result[]. -EINVAL where one says what no evaluation does, or
 * they are of different things.
 */
int eval_report_merge(
	struct eval_report *, const struct shards *, struct err *);

#endif
