/*
 * The mappings of another process (/proc/PID/maps), copied, with look-up by
 * name and address; and its number of open descriptors. One thread.
 */
#ifndef TESTS_STRESS_VA_MAPS_H
#define TESTS_STRESS_VA_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct process_maps;

int process_maps_read(struct process_maps **out, pid_t, struct err *);
void process_maps_free(struct process_maps *); /* NULL too */

unsigned process_maps_fds(const struct process_maps *);

/* Address and length of the shared writable mapping of the memfd of this name.
 */
bool process_maps_find(const struct process_maps *, const char *name,
	uint64_t *at, uint64_t *bytes);
/* Mappings of memfds whose names begin like this. */
unsigned process_maps_count(const struct process_maps *, const char *prefix);
/* All of [at, at + bytes) is mapped, and nothing there can be read, written or
 * executed. */
bool process_maps_guards(
	const struct process_maps *, uint64_t at, uint64_t bytes);

#endif
