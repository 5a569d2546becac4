/*
 * What a conversion did, for people (text) and for programs (JSON): each
 * matrix with its types and its error against the model file.
 */
#ifndef HOST_CMD_CONVERT_REPORT_H
#define HOST_CMD_CONVERT_REPORT_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

struct conversion;
struct image;

/* A ratio to conventional groups above this is worth a mark. */
#define CONVERT_WORSE 1.05

struct convert_report {
	const char *source, *path;
	const char *layout;
	uint64_t source_bytes;
	const struct image *image; /* as written */
	const struct conversion *done;
};

void convert_print(const struct convert_report *, FILE *);

/* {"version": 1, "command": "convert", ...}; NULL without memory. */
json_t *convert_json(const struct convert_report *);

#endif
