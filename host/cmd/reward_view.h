/*
 * What a run's reward came to, for reports: nothing where there was none. One
 * thread.
 */
#ifndef HOST_CMD_REWARD_VIEW_H
#define HOST_CMD_REWARD_VIEW_H

#include <jansson.h>
#include <stdio.h>

struct tandem_report;

/* A line, "reward ...". */
void reward_text_report(const struct tandem_report *, FILE *);

/* A member "reward". */
void reward_json(json_t *, const struct tandem_report *);

#endif
