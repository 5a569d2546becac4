/*
 * An empty folder below TMPDIR (/tmp) for files that are needed for a while.
 */
#ifndef TESTS_STRESS_SCRATCH_H
#define TESTS_STRESS_SCRATCH_H

struct err;

#define SCRATCH_MAX 512

int scratch_make(char folder[SCRATCH_MAX], struct err *);
/* With the files in it. */
void scratch_remove(const char *folder);

#endif
