/*
 * How much more memory can be taken before the kernel kills for it: the least
 * of what the machine has and of what each control group above this process
 * has left of its limit. Page cache that can be given up counts as left, and so
 * does swap as far as a group may use it; shared buffers do not.
 */
#ifndef BASE_MEMORY_LEFT_H
#define BASE_MEMORY_LEFT_H

#include <stdint.h>

struct memory_left {
	uint64_t bytes; /* UINT64_MAX: it is not known */
	uint64_t limit; /* of which that is left; of the machine: all it has */
	char where[96]; /* "the machine", "control group '/user.slice'" */
};

/*
 * As /proc and /sys say, or folders that stand for them. Control groups of both
 * kinds (v1, v2); where the process's own group is not to be seen, as in some
 * containers, the topmost. What cannot be read is no limit.
 */
void memory_left(struct memory_left *out, const char *proc, const char *sys);

#endif
