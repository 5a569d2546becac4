/*
 * Many samples of a prompt, as people and programs see them: how they stand
 * while they are written, on a terminal; each under a heading; what they came
 * to; and as JSON.
 */
#ifndef HOST_CMD_SAMPLES_VIEW_H
#define HOST_CMD_SAMPLES_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct tandem;
struct tandem_report;

/* For tandem_watch_samples: a line on standard error, where that is a terminal,
 * once it takes long. The second wipes it. */
void samples_draw(const char *line, uint32_t over, uint32_t of);
void samples_drawn(void);

/* The n samples of the last text, with their ids where not their texts are
 * wanted: 0 or -EIO, as errno says. */
int samples_print(const struct tandem *, uint32_t n, bool ids, FILE *);

/* Each of n that failed is told of on standard error. */
void samples_warn(const struct tandem *, uint32_t n);

/* What the samples came to in so many seconds, behind the prompt's begin. */
void samples_report(const struct tandem *, const struct tandem_report *,
	double seconds, FILE *);

/* "samples", a list, and "sampling", what they came to together; nothing where
 * there are none. */
void samples_json(json_t *, const struct tandem *, const struct tandem_report *,
	double seconds);

#endif
