/*
 * Sequences of cached tokens that share common prefixes. Each has a length and
 * a table of runs of cache slots (host/memory/kv_pool.h): the token at position
 * p is in the p'th slot of the table, wherever its run is in memory. A fork
 * takes references to its parent's runs; before a sequence writes into a shared
 * run it gets its own copy (sequences_claim: copy on write), so a fork that is
 * never written costs nothing, and one that continues after the shared prefix
 * copies one run at most.
 *
 * Independent of devices and models: any buffer can hold the cache. The buffer
 * is borrowed; writes to it are bracketed. One thread.
 */
#ifndef HOST_SESSION_SEQUENCE_H
#define HOST_SESSION_SEQUENCE_H

#include "ipc/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer;
struct err;
struct sequences;

/* A cache in the layout of struct wire_row: for each layer the keys of all
 * slots, then the values. */
struct kv_memory {
	struct buffer *buffer;
	/* bytes of a slot's keys, or of its values */
	uint32_t layers, slots, stride;
};

enum kv_half { KV_KEYS, KV_VALUES };

/*
 * For up to `most` sequences at a time. With more than one the cache consists
 * of whole runs of KV_RUN slots: a short run could only be used at a sequence's
 * end.
 */
int sequences_open(struct sequences **out, const struct kv_memory *,
	uint32_t most, struct err *);
void sequences_close(struct sequences *);

/*
 * Ids must be of open sequences unless stated otherwise.
 *
 * Open an empty sequence, or one with the contents of `parent`, under the
 * lowest free id. -ENOSPC when there are too many. Takes no slot.
 */
int sequence_open(struct sequences *, uint32_t *id, struct err *);
int sequence_fork(
	struct sequences *, uint32_t parent, uint32_t *id, struct err *);
void sequence_close(struct sequences *, uint32_t id);

/*
 * Mark a sequence as spare: it can be forked, but is closed when a claim or an
 * opening needs room, the one that has been spare for longest first. A spare
 * sequence must not be written. Marking it again makes it the newest. Returns a
 * number that is unique to this marking; sequence_spared returns the same
 * number until the sequence is closed, and 0 if it is not spare.
 */
uint64_t sequence_spare(struct sequences *, uint32_t id);
uint64_t sequence_spared(const struct sequences *, uint32_t id);

bool sequence_is_open(const struct sequences *, uint32_t id);
uint32_t sequence_length(const struct sequences *, uint32_t id);
/* Drop all but the first `length` tokens, and all claims. */
void sequence_truncate(struct sequences *, uint32_t id, uint32_t length);

/* Positions [from, to) of a sequence that will be written, from at most its
 * length; `whole`: every one of them. At most one per sequence. */
struct claim {
	uint32_t sequence, from, to;
	bool whole;
};

/*
 * Provide slots for n claims that no other sequence uses: takes runs, and
 * copies the part of shared runs that will not be written. All or nothing:
 * -ENOSPC with numbers before anything is changed, or -ENOMEM.
 */
int sequences_claim(
	struct sequences *, const struct claim *, uint32_t n, struct err *);

/* Whether there are slots for the claims, after spare sequences were closed. */
bool sequences_have_room(struct sequences *, const struct claim *, uint32_t n);

/* End of a claim that was neither settled nor kept; 0: none. */
uint32_t sequence_claimed(const struct sequences *, uint32_t id);
/* Give back slots that were claimed but not kept. */
void sequence_settle(struct sequences *, uint32_t id);

/*
 * Keep n claimed tokens: move the data at position from[k], in layers [begin,
 * end), to the k'th position after the length; from[] ascends. sequence_grow
 * then extends the length, and settles the rest. Returns the number of tokens
 * that had to move.
 */
uint32_t sequence_move(struct sequences *, uint32_t id, const uint32_t *from,
	uint32_t n, uint32_t begin, uint32_t end);
void sequence_grow(struct sequences *, uint32_t id, uint32_t length);

/*
 * A number that grows with every claim or write of a position, never 0. Two
 * positions at the same index, of any sequences, with the same number have the
 * same bytes.
 */
uint64_t sequence_written(const struct sequences *, uint32_t id, uint32_t at);

/* The slot of a cached or claimed position. */
uint32_t sequence_slot(const struct sequences *, uint32_t id, uint32_t at);
/* List positions [0, end) in order, as spans of slots; returns their number, of
 * which the first `room` are in span[]. */
uint32_t sequence_spans(const struct sequences *, uint32_t id, uint32_t end,
	struct wire_span *span, uint32_t room);

/*
 * Read or write the keys or values of a layer at positions [at, at + n):
 * [n][stride] bytes. -EINVAL beyond the length; writing can fail like a claim.
 */
int sequence_read(struct sequences *, uint32_t id, uint32_t layer, enum kv_half,
	uint32_t at, uint32_t n, void *to, struct err *);
int sequence_write(struct sequences *, uint32_t id, uint32_t layer,
	enum kv_half, uint32_t at, uint32_t n, const void *from, struct err *);

/* Runs copied so far, in whole or in part. */
uint64_t sequences_copied(const struct sequences *);
/* Slots that no sequence has. */
uint32_t sequences_free(const struct sequences *);

#endif
