/*
 * What a host under coherence level check tells its device beside the
 * requests, so that a report can name the CPU's side: the functions that write,
 * by number, and the brackets that are open just now. The tables lie in the
 * control memfd (struct wire_brackets).
 *
 * Nothing is decided by what stands there, and a reader believes none of it:
 * names are copied and made printable, numbers are checked. The host's half
 * may be called by any of its threads; it outlives the channels that it is
 * pointed at, one after another.
 */
#ifndef IPC_BRACKETS_H
#define IPC_BRACKETS_H

#include "ipc/wire.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer;

/* At `offset` of a control memfd of `bytes`, if it can be there; or NULL. */
struct wire_brackets *brackets_at(void *control, size_t bytes, uint32_t offset);

/* ---- the host ---- */

struct brackets {
	pthread_mutex_t lock;
	struct wire_brackets *to; /* NULL: nobody listens */
	const char *name[WIRE_NAMES];
	unsigned names;
};

void brackets_init(struct brackets *);
void brackets_release(struct brackets *);

/* Another listener, or none: it gets the names there are, and no brackets. */
void brackets_connect(struct brackets *, struct wire_brackets *);

/* The number of a function's name (which lives on), for wire_ref.by; 0 when
 * there are too many. */
uint16_t brackets_name(struct brackets *, const char *function);

/* Tell of this buffer's brackets. The buffer is closed before brackets_release.
 */
void brackets_watch(struct brackets *, struct buffer *);

/* ---- the device ---- */

/* Name `by` into `out`, "" when there is none. `from` may be NULL. */
void brackets_read_name(const struct wire_brackets *from, uint32_t by,
	char out[WIRE_NAME_BYTES]);

struct held { /* a bracket, as it was found */
	bool writing;
	uint32_t off, len, cpu_seq, by;
};
/*
 * Does the CPU hold bytes [from, to) of the buffer in an open bracket with one
 * of these kinds of access (enum buffer_access, or-ed)? *held is filled then.
 * What is found may have ended since.
 */
bool brackets_find(const struct wire_brackets *, uint32_t generation,
	uint64_t from, uint64_t to, unsigned access, struct held *);

#endif
