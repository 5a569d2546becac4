/*
 * Many samples of a prompt, as people and programs see them: how they stand
 * while they are written, on a terminal; each under a heading; what they came
 * to; and as JSON.
 */
#ifndef HOST_CMD_SAMPLES_VIEW_H
#define HOST_CMD_SAMPLES_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct decoder;
struct samples;

/* For a struct samples_sink: a line on standard error, where that is a
 * terminal, once it takes long. `arg` is the struct method_env. The second
 * wipes it. */
void samples_draw(void *arg, const struct samples *);
void samples_drawn(void);

/* All of them, with their ids where not their texts are wanted: 0 or -EIO, as
 * errno says. Nothing where the last run had none. */
int samples_print(const struct decoder *, bool ids, FILE *);

/* Each that failed is told of on standard error. */
void samples_warn(const struct decoder *);

/* What the samples came to in so many seconds, behind the prompt's begin. */
void samples_report(const struct decoder *, double seconds, FILE *);

/* "samples", a list, and "sampling", what they came to together; nothing where
 * there are none. */
void samples_json(json_t *, const struct decoder *, double seconds);

#endif
