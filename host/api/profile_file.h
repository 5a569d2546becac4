/*
 * The file of a profile (host/api/profile.h), as JSON: the key (everything that
 * the costs of passes depend on), the measured costs, the spread of repeated
 * measurements, and the CPU pressure during the measurement. Times are in
 * nanoseconds.
 */
#ifndef HOST_API_PROFILE_FILE_H
#define HOST_API_PROFILE_FILE_H

#include <jansson.h>
#include <stdbool.h>

struct pass_cost;

/* Read a profile into *cost and *pressure. Returns false, and leaves both
 * unchanged, if the file does not exist, is damaged, or has a different key. */
bool profile_recall(const char *path, const json_t *key, struct pass_cost *cost,
	double *pressure);

/* Write a profile. The file is replaced as a whole or not at all; errors are
 * ignored. Several processes may write the file at the same time. */
void profile_keep(
	const char *path, json_t *key, struct pass_cost *cost, double pressure);

/* Whether a profile was measured on a busy machine, at the CPU pressure `then`,
 * and the machine is idle now, at the pressure `now`. */
bool profile_was_disturbed(double then, double now);

/*
 * Whether the profile must be measured again, because passes take much less
 * time than the profile predicts. `was`: the costs in the profile. `is`: the
 * same costs after passes of requests have updated them. `now`: the CPU
 * pressure now, as returned by cpu_pressure().
 */
bool profile_misfits(
	const struct pass_cost *was, const struct pass_cost *is, double now);

#endif
