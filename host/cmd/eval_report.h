/*
 * The report of an evaluation: a text table, whose rows are printed as tasks
 * end, or one JSON object.
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

/* The models and settings of an evaluation. The strings belong to the
 * caller. */
struct eval_subject {
	const char *model, *arch, *method, *precision;
	const char *draft_model, *drafter; /* NULL if no drafts were used */
	/* phone profile; NULL if no phone is modeled */
	const char *clock;
	/* constant power of the phone in W; busy engines add their own power to
	 * it */
	double base_w;
	char priced_as[TANDEM_PRICED_AS]; /* as in struct tandem_report */
	double temperature;
	uint64_t seed;
	uint32_t n_predict;
};

struct eval_report {
	struct eval_subject subject;
	struct eval_result *result; /* [n] results of the tasks */
	size_t n;
	bool complete;     /* all tasks ran to the end */
	const char *error; /* NULL if there was no error */
	/* the member "shard" of the report of a shard (shard_json()); NULL if
	 * all items were run */
	json_t *shard;
};

struct eval_subject eval_subject_of(
	const struct tandem_report *, const struct eval_opts *);

/* Print the head of the table. `marked`: whether the items have expected
 * answers; items without expected answers are only prompts. */
void eval_head_text(const struct eval_subject *, bool marked, FILE *);

/* Print the row of a task. If its items have levels, also print a row for each
 * level. */
void eval_row_text(
	const struct eval_subject *, const struct eval_result *, FILE *);

/* If there are several tasks and all have ended, print the last row: the mean
 * over the tasks. If the items are only prompts, print a note that nothing was
 * scored. */
void eval_mean_text(const struct eval_report *, FILE *);

/* Print the report as one line of JSON. Returns 0, -ENOMEM or -EIO. */
int eval_json(const struct eval_report *, FILE *);

/*
 * Merge shards of `tandem eval` into one report. The report points into the
 * shards; the caller frees result[]. Returns 0 on success, -EINVAL if a shard
 * is not a report of an evaluation or if the shards have different settings, or
 * another negative errno.
 */
int eval_report_merge(
	struct eval_report *, const struct shards *, struct err *);

#endif
