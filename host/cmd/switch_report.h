/*
 * What graph switching came to (struct switch_stats), for people and for
 * programs. Nothing where it is off.
 */
#ifndef HOST_CMD_SWITCH_REPORT_H
#define HOST_CMD_SWITCH_REPORT_H

#include <jansson.h>
#include <stdio.h>

struct session_opts;
struct switch_stats;

void switch_text(
	const struct switch_stats *, const struct session_opts *, FILE *);

/* As `graph_switch` in *o. */
void switch_json(
	json_t *o, const struct switch_stats *, const struct session_opts *);

#endif
