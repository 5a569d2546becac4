/* The file of a profile (host/api/profile.h): a key and the measured costs, as
 * JSON. Times are in nanoseconds. */
#ifndef HOST_API_PROFILE_FILE_H
#define HOST_API_PROFILE_FILE_H

#include <jansson.h>
#include <stdbool.h>

struct pass_cost;

/* Read a profile into *cost. Returns false, and leaves *cost unchanged, if the
 * file does not exist, is damaged, or has a different key. */
bool profile_recall(
	const char *path, const json_t *key, struct pass_cost *cost);

/* Write a profile. The file is replaced as a whole or not at all; errors are
 * ignored. Several processes may write the file at the same time. */
void profile_keep(const char *path, json_t *key, struct pass_cost *cost);

#endif
