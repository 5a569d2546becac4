/* Creates an empty folder for temporary files below TMPDIR (default /tmp). */
#ifndef TESTS_STRESS_SCRATCH_H
#define TESTS_STRESS_SCRATCH_H

struct err;

#define SCRATCH_MAX 512

int scratch_make(char folder[SCRATCH_MAX], struct err *);
/* Removes the folder and the files in it. */
void scratch_remove(const char *folder);

#endif
