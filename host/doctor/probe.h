/*
 * The probes of `tandem doctor`: one function and one table row each, in the
 * order of the report. A probe tries the real operation where possible (maps a
 * window, registers buffers, reads with O_DIRECT) and inspects kernel settings
 * only if that failed: a limit that has no effect is not reported. It cleans up
 * and changes nothing.
 *
 * Probes never print and never fail: an error is the finding.
 */
#ifndef HOST_DOCTOR_PROBE_H
#define HOST_DOCTOR_PROBE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum probe_state {
	PROBE_OK,
	PROBE_LIMITED, /* works, with less than would be possible */
	PROBE_MISSING,
	PROBE_STATE_COUNT
};

struct finding {
	enum probe_state state;
	char found[384]; /* the fact, with its numbers */
	char means[384]; /* consequence for the user: a sentence */
	char fix[256];   /* a shell command that improves it, or "" */
	json_t *numbers; /* object: the same numbers for programs */
};

struct probe {
	const char *name; /* "io_uring": stable, since scripts use it */
	bool required;    /* `tandem run` cannot work without it */
	void (*look)(struct finding *);
};

extern const struct probe probes[];
extern const size_t n_probes;

const char *probe_state_name(enum probe_state);

/* Run one probe; finding_release afterwards. */
void probe_look(const struct probe *, struct finding *);
void finding_release(struct finding *);

/* ---- helpers of the probes ----------------------------------------------- */

void finding_is(struct finding *, enum probe_state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Append to the facts found. */
void finding_also(struct finding *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void finding_means(struct finding *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void finding_fix(struct finding *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void finding_number(struct finding *, const char *key, int64_t);

/* "8 MiB", "3.5 GiB", "unlimited" (UINT64_MAX); into a buffer of 24. */
const char *probe_bytes(char buf[24], uint64_t bytes);

/* First line of a small file, without the newline: false when unreadable. */
bool probe_line(const char *path, char *buf, size_t size);
bool probe_number(const char *path, int64_t *out);
/* The number after "KEY:" in a file such as /proc/self/status. */
bool probe_field(const char *path, const char *key, int64_t *out);

/* The full path of a program in PATH; false if there is none. */
bool probe_program(const char *name, char *buf, size_t size);

/* "sudo ", or "" for root, whose system may lack sudo. */
const char *probe_sudo(void);

/* A memfd of `bytes`, mapped shared; NULL with errno on failure. */
void *probe_memfd(size_t bytes, unsigned flags, int *fd);

/* probe_system.c */
void probe_processor(struct finding *);
void probe_cores(struct finding *);
void probe_memory(struct finding *);
void probe_address_space(struct finding *);
void probe_memfd_seals(struct finding *);
void probe_huge_pages(struct finding *);

/* probe_kernel.c */
void probe_futex(struct finding *);
void probe_pidfd(struct finding *);
void probe_seccomp(struct finding *);
void probe_strace(struct finding *);
void probe_perf(struct finding *);

/* probe_uring.c */
void probe_io_uring(struct finding *);
void probe_direct_read(struct finding *);
void probe_locked_memory(struct finding *);

/* probe_around.c */
void probe_gnuplot(struct finding *);
void probe_session_bus(struct finding *);
void probe_system_bus(struct finding *);
void probe_libraries(struct finding *);
void probe_device(struct finding *);

#endif
