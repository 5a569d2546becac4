/*
 * Tables of open brackets, which a host at coherence level "check" publishes to
 * its device. A bracket is a pair of calls (buffer_begin, buffer_end) between
 * which the CPU may access some bytes of a shared buffer; between the two calls
 * the bracket is open. When the device reports a violation of the coherence
 * rules, the device finds the name of the host's function in the tables. The
 * host publishes the names of functions that write, each with a number, and the
 * brackets that are open. The tables lie in the control memfd (struct
 * wire_brackets).
 *
 * The tables are used for reports only, and the device does not trust their
 * bytes: the device copies names and makes the copies printable, and checks
 * numbers. Any thread of the host may call the functions of the host. A struct
 * brackets may be connected to several channels, one after another, and exists
 * longer than each of them.
 */
#ifndef IPC_BRACKETS_H
#define IPC_BRACKETS_H

#include "ipc/wire.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer;

/* Find the tables at `offset` of a control memfd of `bytes` bytes. Returns NULL
 * if the offset is invalid. */
struct wire_brackets *brackets_at(void *control, size_t bytes, uint32_t offset);

/* ---- the host ---- */

struct brackets {
	pthread_mutex_t lock;
	/* tables of the channel; NULL if not connected to a channel */
	struct wire_brackets *to;
	const char *name[WIRE_NAMES];
	unsigned names;
};

void brackets_init(struct brackets *);
void brackets_release(struct brackets *);

/* From now on publish brackets and names in these tables, or nowhere if the
 * pointer is NULL. The names that are already known are copied to the new
 * tables; brackets that are already open are not copied. */
void brackets_connect(struct brackets *, struct wire_brackets *);

/* Get the number under which a function's name is published, for wire_ref.by.
 * The name must be a static string. Returns 0 if the table of names is full. */
uint16_t brackets_name(struct brackets *, const char *function);

/* From now on publish all brackets of this buffer. The buffer must be closed
 * before brackets_release. */
void brackets_watch(struct brackets *, struct buffer *);

/* ---- the device ---- */

/* Copy name number `by` to `out`; "" if there is no such name. `from` may be
 * NULL. */
void brackets_read_name(const struct wire_brackets *from, uint32_t by,
	char out[WIRE_NAME_BYTES]);

struct held { /* a copy of a table entry, which is an open bracket */
	bool writing;
	uint32_t off, len, cpu_seq, by;
};
/*
 * Find an open bracket that covers some of the bytes [from, to) of the buffer
 * with this generation number. `access` has the kinds of access to look for
 * (enum buffer_access, combined by or). Returns true and fills *held if such a
 * bracket is found. The bracket may have ended in the meantime.
 */
bool brackets_find(const struct wire_brackets *, uint32_t generation,
	uint64_t from, uint64_t to, unsigned access, struct held *);

#endif
