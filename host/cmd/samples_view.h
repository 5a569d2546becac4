/*
 * Many samples of a prompt, as text and JSON: progress on a terminal while they
 * are generated, each under a heading, and a summary.
 */
#ifndef HOST_CMD_SAMPLES_VIEW_H
#define HOST_CMD_SAMPLES_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct tandem;
struct tandem_report;

/* For tandem_watch_samples: draw a line on standard error, if that is a
 * terminal, once generation takes long. progress_report(&cmd_progress, NULL, 0,
 * 0) erases the line. */
void samples_draw(const char *line, uint32_t over, uint32_t of);

/* Print the n samples of the last request; with `ids` their ids instead of
 * their text. 0, or -EIO with errno set. */
int samples_print(const struct tandem *, uint32_t n, bool ids, FILE *);

/* Report each failed one of n samples on standard error. */
void samples_warn(const struct tandem *, uint32_t n);

/* Print the summary of samples that took so many seconds from the start of the
 * prompt. */
void samples_report(const struct tandem *, const struct tandem_report *,
	double seconds, FILE *);

/* Add "samples", a list, and "sampling", a summary; nothing without samples. */
void samples_json(json_t *, const struct tandem *, const struct tandem_report *,
	double seconds);

#endif
