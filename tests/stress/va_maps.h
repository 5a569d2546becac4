/*
 * What another process has mapped, as the kernel says (/proc/PID/maps): a copy
 * of it, looked at by name and address; and how many descriptors it has open.
 * One thread.
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

/* The memfd of just that name, shared and writable: where, and its length. */
bool process_maps_find(const struct process_maps *, const char *name,
	uint64_t *at, uint64_t *bytes);
/* Mappings of memfds whose name begins so. */
unsigned process_maps_count(const struct process_maps *, const char *prefix);
/* Nothing in [at, at + bytes) can be read, written or run, and all of it is
 * taken. */
bool process_maps_guards(
	const struct process_maps *, uint64_t at, uint64_t bytes);

#endif
