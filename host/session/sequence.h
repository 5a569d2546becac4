/*
 * Sequences of cached tokens that share common prefixes. Each sequence has a
 * length and a table of runs, which are groups of KV_RUN adjacent cache slots
 * (host/memory/kv_pool.h). The token at position p is in slot p % KV_RUN of the
 * run at index p / KV_RUN of the table. A run can be anywhere in the cache. A
 * fork takes references to its parent's runs. Before a sequence writes to a
 * shared run, the run is copied for this sequence (sequences_claim: copy on
 * write). So a fork that is never written costs nothing, and a fork that
 * continues after the shared prefix copies at most one run.
 *
 * The code is independent of devices and models: any buffer can hold the cache.
 * The caller keeps ownership of the buffer; every write to it is enclosed in
 * buffer_begin and buffer_end. All calls must be made on one thread.
 */
#ifndef HOST_SESSION_SEQUENCE_H
#define HOST_SESSION_SEQUENCE_H

#include "ipc/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct buffer;
struct err;
struct sequences;

/* A cache in the layout of struct wire_row: for each layer the keys of all
 * slots, followed by the values of all slots. */
struct kv_memory {
	struct buffer *buffer;
	/* stride: bytes of the keys (or of the values) of one slot in one
	 * layer */
	uint32_t layers, slots, stride;
};

enum kv_half { KV_KEYS, KV_VALUES };

/*
 * Create an empty table of up to `most` open sequences. If `most` is more than
 * 1, the number of slots must be a multiple of KV_RUN: otherwise the last run
 * of the cache would have fewer than KV_RUN slots, and could be used in the
 * middle of a sequence.
 */
int sequences_open(struct sequences **out, const struct kv_memory *,
	uint32_t most, struct err *);
void sequences_close(struct sequences *);

/*
 * Open an empty sequence, or fork one with the contents of `parent`. The new
 * sequence gets the lowest free id and takes no slot. Returns 0, -ENOSPC if too
 * many sequences are open, or -ENOMEM.
 *
 * Here and below, an id must be that of an open sequence unless stated
 * otherwise.
 */
int sequence_open(struct sequences *, uint32_t *id, struct err *);
int sequence_fork(
	struct sequences *, uint32_t parent, uint32_t *id, struct err *);
void sequence_close(struct sequences *, uint32_t id);

/*
 * Mark a sequence as spare: a spare sequence can be forked, but may be closed
 * when a claim or a new sequence needs its cache slots or its id. Spare
 * sequences are closed in the order in which they were marked. A spare sequence
 * must not be written. Marking a sequence again moves it to the end of this
 * order. sequence_spare returns a number that is unique to this call.
 * sequence_spared returns the number of the latest such call until the sequence
 * is closed, and 0 if the sequence is not spare.
 */
uint64_t sequence_spare(struct sequences *, uint32_t id);
uint64_t sequence_spared(const struct sequences *, uint32_t id);

bool sequence_is_open(const struct sequences *, uint32_t id);
uint32_t sequence_length(const struct sequences *, uint32_t id);
/* Drop all tokens after the first `length`, and end the sequence's claim. */
void sequence_truncate(struct sequences *, uint32_t id, uint32_t length);

/* Positions [from, to) of a sequence that the caller is about to write. `from`
 * is at most the sequence's length. `whole` promises that every one of these
 * positions will be written. A list of claims has at most one claim per
 * sequence. */
struct claim {
	uint32_t sequence, from, to;
	bool whole;
};

/*
 * For each of n claims, provide slots that no other sequence uses. The function
 * takes free runs, and replaces shared runs by copies; a run whose tokens will
 * all be overwritten is not copied. If the cache has too few slots, spare
 * sequences are closed; if that is not enough, no slot is claimed, and the
 * function returns -ENOSPC with a message that contains the numbers of needed
 * and free slots. Returns -ENOMEM if memory is short, else 0.
 */
int sequences_claim(
	struct sequences *, const struct claim *, uint32_t n, struct err *);

/* Whether there are enough slots for the claims. Closes spare sequences if that
 * is necessary. */
bool sequences_have_room(struct sequences *, const struct claim *, uint32_t n);

/* The end (`to`) of the sequence's claim, or 0 if the sequence has no claim.
 * sequence_settle, sequence_grow and sequence_truncate end a claim. */
uint32_t sequence_claimed(const struct sequences *, uint32_t id);
/* Free the claimed slots after the sequence's length, and end the claim. */
void sequence_settle(struct sequences *, uint32_t id);

/*
 * Accept n claimed tokens. sequence_move moves the keys and values at position
 * from[k] to position length + k, in layers [begin, end), where `length` is the
 * sequence's length; from[] must ascend. sequence_move returns the number of
 * tokens that had to be moved. sequence_grow then sets the new length and frees
 * the remaining claimed slots.
 */
uint32_t sequence_move(struct sequences *, uint32_t id, const uint32_t *from,
	uint32_t n, uint32_t begin, uint32_t end);
void sequence_grow(struct sequences *, uint32_t id, uint32_t length);

/*
 * A number that grows with every claim or write of the position, and is never
 * 0. If two sequences have the same number at the same position, the bytes of
 * both positions are the same.
 */
uint64_t sequence_written(const struct sequences *, uint32_t id, uint32_t at);

/*
 * Give each slot room for a state of `width` floats, initially 0. A slot's
 * state is copied together with its keys and values. sequence_state returns the
 * state of a cached or claimed position, or NULL if slots have no states; the
 * state is valid until the sequence is written. sequences_keep_states returns 0
 * or -ENOMEM.
 */
int sequences_keep_states(struct sequences *, uint32_t width, struct err *);
float *sequence_state(const struct sequences *, uint32_t id, uint32_t at);

/* The slot of a cached or claimed position. */
uint32_t sequence_slot(const struct sequences *, uint32_t id, uint32_t at);
/* List the slots of positions [0, end), in order, as spans of adjacent slots.
 * Returns the number of spans; span[] receives only the first `room` of
 * them. */
uint32_t sequence_spans(const struct sequences *, uint32_t id, uint32_t end,
	struct wire_span *span, uint32_t room);

/*
 * Read or write the keys or values of one layer at positions [at, at + n); the
 * data has the shape [n][stride] in bytes. Returns -EINVAL if at + n is greater
 * than the sequence's length. sequence_write can also return the errors of
 * sequences_claim.
 */
int sequence_read(struct sequences *, uint32_t id, uint32_t layer, enum kv_half,
	uint32_t at, uint32_t n, void *to, struct err *);
int sequence_write(struct sequences *, uint32_t id, uint32_t layer,
	enum kv_half, uint32_t at, uint32_t n, const void *from, struct err *);

/* Number of runs that have been copied, completely or in part, because several
 * sequences shared them. */
uint64_t sequences_copied(const struct sequences *);
/* Number of slots that belong to no sequence. */
uint32_t sequences_free(const struct sequences *);

#endif
