/*
 * The brackets of CPU access that a host at coherence level check publishes to
 * its device, so that a report can name the CPU's side: the names of writing
 * functions, by number, and the brackets that are open now. The tables lie in
 * the control memfd (struct wire_brackets).
 *
 * They are used for reports only, and the device trusts none of the bytes:
 * names are copied and made printable, numbers are checked. Any thread of the
 * host may call the host's functions. A struct brackets outlives the channels
 * to which it is connected, one after another.
 */
#ifndef IPC_BRACKETS_H
#define IPC_BRACKETS_H

#include "ipc/wire.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer;

/* The tables at `offset` of a control memfd of `bytes`; NULL: invalid offset.
 */
struct wire_brackets *brackets_at(void *control, size_t bytes, uint32_t offset);

/* ---- the host ---- */

struct brackets {
	pthread_mutex_t lock;
	struct wire_brackets *to; /* NULL: not connected */
	const char *name[WIRE_NAMES];
	unsigned names;
};

void brackets_init(struct brackets *);
void brackets_release(struct brackets *);

/* Connect to other tables, or to none (NULL): names are copied, open brackets
 * are not. */
void brackets_connect(struct brackets *, struct wire_brackets *);

/* The number of a function's name, a static string, for wire_ref.by; 0 if there
 * are too many. */
uint16_t brackets_name(struct brackets *, const char *function);

/* Publish this buffer's brackets. Close the buffer before brackets_release. */
void brackets_watch(struct brackets *, struct buffer *);

/* ---- the device ---- */

/* Copy name number `by` to `out`, "" if there is none. `from` may be NULL. */
void brackets_read_name(const struct wire_brackets *from, uint32_t by,
	char out[WIRE_NAME_BYTES]);

struct held { /* a copy of an open bracket */
	bool writing;
	uint32_t off, len, cpu_seq, by;
};
/*
 * Find an open bracket that covers some of bytes [from, to) of the buffer, with
 * one of these kinds of access (enum buffer_access, or-ed): true and *held. The
 * bracket may have ended meanwhile.
 */
bool brackets_find(const struct wire_brackets *, uint32_t generation,
	uint64_t from, uint64_t to, unsigned access, struct held *);

#endif
