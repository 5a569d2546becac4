/*
 * The file of a profile (host/api/profile.h): its key and the measured costs,
 * as JSON. Times are in nanoseconds.
 */
#ifndef HOST_API_PROFILE_FILE_H
#define HOST_API_PROFILE_FILE_H

#include <jansson.h>
#include <stdbool.h>

struct pass_cost;

/* Read a profile into *cost. False, and *cost unchanged, if there is no file or
 * it is damaged or has another key. */
bool profile_recall(
	const char *path, const json_t *key, struct pass_cost *cost);

/* Write a profile, completely or not at all; failures are ignored. Many
 * processes may do so at once. */
void profile_keep(const char *path, json_t *key, struct pass_cost *cost);

#endif
