/*
 * A copy of the mappings of another process (/proc/PID/maps), which can be
 * searched by name and by address, and the number of the process's open
 * descriptors. Only one thread may use a copy.
 */
#ifndef TESTS_STRESS_VA_MAPS_H
#define TESTS_STRESS_VA_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct process_maps;

int process_maps_read(struct process_maps **out, pid_t, struct err *);
void process_maps_free(struct process_maps *); /* NULL is allowed */

unsigned process_maps_fds(const struct process_maps *);

/* Find the shared writable mapping of the memfd of this name, and return its
 * address and length. */
bool process_maps_find(const struct process_maps *, const char *name,
	uint64_t *at, uint64_t *bytes);
/* The number of mappings of memfds whose names begin with `prefix`. */
unsigned process_maps_count(const struct process_maps *, const char *prefix);
/* Whether all of [at, at + bytes) is mapped and none of it can be read, written
 * or executed. */
bool process_maps_guards(
	const struct process_maps *, uint64_t at, uint64_t bytes);

#endif
