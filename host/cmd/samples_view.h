/*
 * Shows many samples of one prompt as text and JSON: progress on a terminal
 * during generation, each sample under a heading, and a summary.
 */
#ifndef HOST_CMD_SAMPLES_VIEW_H
#define HOST_CMD_SAMPLES_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct tandem;
struct tandem_report;

/* A callback for tandem_watch_samples(): `line` describes the state of the
 * samples, `over` of `of` samples have ended. If generation takes long and
 * standard error is a terminal, the callback draws a progress line. Call
 * progress_report(&cmd_progress, NULL, 0, 0) to erase the line. */
void samples_draw(const char *line, uint32_t over, uint32_t of);

/* Print the n samples of the most recent request; if `ids`, print token ids
 * instead of text. Returns 0, or -EIO with errno set. */
int samples_print(const struct tandem *, uint32_t n, bool ids, FILE *);

/* Print to standard error which of the n samples have failed, and why. */
void samples_warn(const struct tandem *, uint32_t n);

/* Print the summary. `seconds` is the time from the start of the prompt to the
 * end of the samples. */
void samples_report(const struct tandem *, const struct tandem_report *,
	double seconds, FILE *);

/* Add the members "samples", a list, and "sampling", a summary. Adds nothing if
 * there are no samples. */
void samples_json(json_t *, const struct tandem *, const struct tandem_report *,
	double seconds);

#endif
