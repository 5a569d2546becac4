/*
 * How much memory this process can still allocate before the kernel's OOM
 * killer ends a process: the minimum of the machine's available memory and of
 * the memory that the limit of each enclosing control group leaves. Reclaimable
 * page cache counts as available, and so does the free swap that the control
 * group may use. Memory in shared buffers (memfds) does not count as available.
 */
#ifndef BASE_MEMORY_LEFT_H
#define BASE_MEMORY_LEFT_H

#include <stdint.h>

struct memory_left {
	uint64_t bytes; /* UINT64_MAX if unknown */
	/* limit of the control group that `where` names, or the machine's
	 * memory */
	uint64_t limit;
	/* what has the limit that leaves the least memory: "the machine", or a
	 * control group such as "control group '/user.slice'" */
	char where[96];
};

/*
 * Find the memory left from the files below `proc` and `sys`, which are "/proc"
 * and "/sys" except in tests. Control groups of version 1 and 2 are supported.
 * If the control group of the process is not visible, as in some containers,
 * the root group is used. A file that cannot be read imposes no limit.
 */
void memory_left(struct memory_left *out, const char *proc, const char *sys);

#endif
