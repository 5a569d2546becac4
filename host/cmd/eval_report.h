/*
 * The report of an evaluation: a text table, printed row by row as tasks end,
 * or one JSON object.
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

/* The subject and settings of an evaluation. Texts are borrowed. */
struct eval_subject {
	const char *model, *arch, *method, *precision;
	const char *draft_model, *drafter; /* NULL: without drafts */
	const char *clock;                 /* phone profile; NULL: none */
	double base_w;                     /* base power of the phone */
	char priced_as[TANDEM_PRICED_AS];  /* as in struct tandem_report */
	double temperature;
	uint64_t seed;
	uint32_t n_predict;
};

struct eval_report {
	struct eval_subject subject;
	struct eval_result *result; /* [n] */
	size_t n;
	bool complete;     /* all tasks ran to the end */
	const char *error; /* NULL: none */
	/* For a shard, the data that a merge needs; NULL: all items were
	 * run. */
	json_t *shard;
};

struct eval_subject eval_subject_of(
	const struct tandem_report *, const struct eval_opts *);

/* Print the head of the table; `marked`: items have answers, otherwise they are
 * prompts only. */
void eval_head_text(const struct eval_subject *, bool marked, FILE *);

/* Print a task's row, and one for each level if its items have levels. */
void eval_row_text(
	const struct eval_subject *, const struct eval_result *, FILE *);

/* Print the last row: the mean over the tasks, if there are several. For
 * prompts only, a note that nothing was scored. */
void eval_mean_text(const struct eval_report *, FILE *);

/* Print one line. 0, -ENOMEM or -EIO. */
int eval_json(const struct eval_report *, FILE *);

/*
 * Merge shards of `tandem eval`. The result borrows from them; the caller frees
 * result[]. -EINVAL if a shard is no report of an evaluation, or the shards
 * have different settings.
 */
int eval_report_merge(
	struct eval_report *, const struct shards *, struct err *);

#endif
