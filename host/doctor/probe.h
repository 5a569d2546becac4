/*
 * The probes of `tandem doctor`, which check what the system provides. Each
 * probe is a function with a row in the table PROBES, in the order of the
 * report. A probe tries the real operation if possible (it maps a window,
 * registers buffers, or reads with O_DIRECT). The result of this operation
 * decides the state of the finding; kernel settings and limits only explain the
 * state. A probe releases everything that it creates and changes no settings.
 *
 * Probes do not print and cannot fail: an error is the result of the probe.
 */
#ifndef HOST_DOCTOR_PROBE_H
#define HOST_DOCTOR_PROBE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum probe_state {
	PROBE_OK,
	PROBE_LIMITED, /* works, but with reduced speed or function */
	PROBE_MISSING,
	PROBE_STATE_COUNT
};

struct finding {
	enum probe_state state;
	char found[384]; /* what was found, with numbers */
	char means[384]; /* the consequence for the user, as a sentence */
	/* a shell command that improves the situation, or "" */
	char fix[256];
	json_t *numbers; /* the numbers in `found`, as a JSON object */
};

struct probe {
	/* such as "io_uring"; must not change, because scripts use it */
	const char *name;
	bool required; /* `tandem run` does not work without it */
	void (*look)(struct finding *);
};

/*
 * The probes in the order of the report: name, `required`, function. Files that
 * define the functions: probe_system.c from "processor" to "huge-pages";
 * probe_kernel.c from "futex" to "seccomp", and "strace" and "perf";
 * probe_uring.c from "io_uring" to "locked-memory"; probe_around.c all other
 * functions.
 */
#define PROBES(X)                                      \
	X("device", true, probe_device)                \
	X("processor", true, probe_processor)          \
	X("cores", false, probe_cores)                 \
	X("memory", false, probe_memory)               \
	X("address-space", true, probe_address_space)  \
	X("memfd", true, probe_memfd_seals)            \
	X("huge-pages", false, probe_huge_pages)       \
	X("futex", true, probe_futex)                  \
	X("pidfd", false, probe_pidfd)                 \
	X("seccomp", false, probe_seccomp)             \
	X("io_uring", false, probe_io_uring)           \
	X("direct-read", false, probe_direct_read)     \
	X("locked-memory", false, probe_locked_memory) \
	X("strace", false, probe_strace)               \
	X("perf", false, probe_perf)                   \
	X("gnuplot", false, probe_gnuplot)             \
	X("session-bus", false, probe_session_bus)     \
	X("system-bus", false, probe_system_bus)       \
	X("libraries", false, probe_libraries)

#define X(name, required, look) void look(struct finding *);
PROBES(X)
#undef X

extern const struct probe probes[];
extern const size_t n_probes;

const char *probe_state_name(enum probe_state);

/* Run one probe. The caller releases the finding with finding_release(). */
void probe_look(const struct probe *, struct finding *);
void finding_release(struct finding *);

/* ---- helpers of the probes ----------------------------------------------- */

void finding_is(struct finding *, enum probe_state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Append to the text `found`. */
void finding_also(struct finding *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void finding_means(struct finding *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void finding_fix(struct finding *, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static inline void finding_number(
	struct finding *f, const char *key, int64_t value)
{
	json_object_set_new(f->numbers, key, json_integer(value));
}

/* Format a size as "8 MiB", "3.5 GiB", or "unlimited" for UINT64_MAX. Returns
 * `buf`. */
const char *probe_bytes(char buf[24], uint64_t bytes);

/* probe_line() reads the first line of a small file, without the newline.
 * probe_number() reads a number from a file. Both functions return false if
 * reading fails. */
bool probe_line(const char *path, char *buf, size_t size);
bool probe_number(const char *path, int64_t *out);
/* Read the number after "KEY:" in a file such as /proc/self/status. Returns
 * false if the file has no such number. */
bool probe_field(const char *path, const char *key, int64_t *out);

/* Find the full path of a program in PATH. Returns false if there is none. */
bool probe_program(const char *name, char *buf, size_t size);

/* Return "sudo ", or "" if the user is root, because sudo may not be
 * installed. */
const char *probe_sudo(void);

/* Create a memfd of `bytes` bytes and map it shared. Returns the mapping and
 * sets *fd to the descriptor. Returns NULL and sets errno on failure. */
void *probe_memfd(size_t bytes, unsigned flags, int *fd);

#endif
