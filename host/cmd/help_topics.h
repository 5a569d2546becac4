/*
 * What `tandem help TOPIC` lists, one line each: decoding methods, drafters,
 * tasks, shapes, clocks and bundled models.
 */
#ifndef HOST_CMD_HELP_TOPICS_H
#define HOST_CMD_HELP_TOPICS_H

#include <stdio.h>

struct help_topic {
	const char *name;
	void (*print)(FILE *);
};

/* Ends with a name of NULL. */
extern const struct help_topic help_topics[];

#endif
