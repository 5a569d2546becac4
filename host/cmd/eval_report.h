/*
 * What an evaluation found: a table for people, row by row as tasks end, or
 * one JSON object for programs.
 */
#ifndef HOST_CMD_EVAL_REPORT_H
#define HOST_CMD_EVAL_REPORT_H

#include "host/eval/eval.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct decoder;

struct eval_report {
	const struct decoder *decoder;
	const struct eval_opts *opts;
	const struct eval_result *result;
	size_t n;          /* results */
	bool complete;     /* all of them, to the end */
	const char *error; /* NULL: none */
};

/* The line above the rows, of items that are marked or of prompts alone. */
void eval_head_text(const struct decoder *, bool marked, FILE *);

/* A task's row, and one for each level where its items have levels. */
void eval_row_text(const struct decoder *, const struct eval_result *, FILE *);

/* The last row, where there is more than one task: the mean of the tasks. Of
 * prompts alone: that nothing was marked. */
void eval_mean_text(const struct eval_report *, FILE *);

/* One line. 0, -ENOMEM or -EIO. */
int eval_json(const struct eval_report *, FILE *);

#endif
