/*
 * The file of a profile (host/api/profile.h): whose it is, and what was found
 * out, as JSON that people can read. Times are in nanoseconds.
 */
#ifndef HOST_API_PROFILE_FILE_H
#define HOST_API_PROFILE_FILE_H

#include <jansson.h>
#include <stdbool.h>

struct pass_cost;

/* Whether there is one, of that key and whole, which goes to *cost; else that
 * stays as it is. */
bool profile_recall(
	const char *path, const json_t *key, struct pass_cost *cost);

/* In its place, whole or not at all; nobody is told which. Many may do so. */
void profile_keep(const char *path, json_t *key, struct pass_cost *cost);

#endif
