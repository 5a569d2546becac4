/*
 * The memory that this process can still allocate before the kernel's OOM
 * killer ends a process: the minimum of the machine's available memory and of
 * the rest of each enclosing control group's limit. Page cache that can be
 * reclaimed counts as available, and so does swap as far as a group may use it;
 * shared buffers do not.
 */
#ifndef BASE_MEMORY_LEFT_H
#define BASE_MEMORY_LEFT_H

#include <stdint.h>

struct memory_left {
	uint64_t bytes; /* UINT64_MAX: unknown */
	uint64_t limit; /* the group's limit, or the machine's memory */
	char where[96]; /* "the machine", "control group '/user.slice'" */
};

/*
 * From /proc and /sys, or folders in their place. Control groups of v1 and v2;
 * if the process's own group is not visible, as in some containers, the root
 * group. Files that cannot be read impose no limit.
 */
void memory_left(struct memory_left *out, const char *proc, const char *sys);

#endif
