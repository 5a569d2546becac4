/*
 * Sequences: timelines of cached tokens that share what they have in common.
 * Each has a length and a table of the runs that its slots are in
 * (host/memory/kv_pool.h): the token at position p is in the p'th slot of that
 * table, wherever this lies in memory. A fork takes its parent's runs by
 * reference; whoever is about to write into a shared run gets a copy of its
 * own first (sequences_claim), so a fork that is never written costs nothing,
 * and one that goes on behind what it shares copies one run at most.
 *
 * This knows the bytes of the cache but neither a device nor a model: it is
 * used by sessions, and can be used on any buffer. The buffer is borrowed, and
 * what is written into it is bracketed. One thread.
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

/* A cache as struct wire_row has it: of each layer the keys of all slots, then
 * the values. */
struct kv_memory {
	struct buffer *buffer;
	uint32_t layers, slots, stride; /* bytes a slot, of keys or of values */
};

enum kv_half { KV_KEYS, KV_VALUES };

/*
 * For `most` sequences at a time. With more than one the slots are whole runs
 * of KV_RUN: a short one would only do at a sequence's end.
 */
int sequences_open(struct sequences **out, const struct kv_memory *,
	uint32_t most, struct err *);
void sequences_close(struct sequences *);

/*
 * Ids must be those of open sequences where nothing else is said.
 *
 * An empty sequence, or one that holds what `parent` does; the lowest id that
 * is free. -ENOSPC when there are too many. No slot is taken.
 */
int sequence_open(struct sequences *, uint32_t *id, struct err *);
int sequence_fork(
	struct sequences *, uint32_t parent, uint32_t *id, struct err *);
void sequence_close(struct sequences *, uint32_t id);

/*
 * It is there for whoever may want to fork it, and gives way where a claim or
 * an opening wants room: closed is the one that became spare first. Nobody
 * claims in it. Becoming spare anew makes it the last again. Returns when it
 * did, which no other has, and sequence_spared of its id tells until it is
 * closed; of what is not spare 0.
 */
uint64_t sequence_spare(struct sequences *, uint32_t id);
uint64_t sequence_spared(const struct sequences *, uint32_t id);

bool sequence_is_open(const struct sequences *, uint32_t id);
uint32_t sequence_length(const struct sequences *, uint32_t id);
/* All but the first `length` tokens are forgotten, and what was claimed. */
void sequence_truncate(struct sequences *, uint32_t id, uint32_t length);

/* Positions [from, to) of a sequence that are going to be written, from at most
 * its length; `whole`: every one of them. No two of the same sequence. */
struct claim {
	uint32_t sequence, from, to;
	bool whole;
};

/*
 * Slots for n claims, of which no other sequence sees one: runs are taken, and
 * what is shared is copied as far as it is not going to be written. All or
 * nothing: -ENOSPC with numbers before anything is changed, or -ENOMEM.
 */
int sequences_claim(
	struct sequences *, const struct claim *, uint32_t n, struct err *);

/* Whether there are slots for them, once spare ones have given way. */
bool sequences_have_room(struct sequences *, const struct claim *, uint32_t n);

/* Where a claim ended that was neither settled nor kept; 0: nowhere. */
uint32_t sequence_claimed(const struct sequences *, uint32_t id);
/* Gives back what was claimed and not kept. */
void sequence_settle(struct sequences *, uint32_t id);

/*
 * Keep n claimed tokens: what is at position from[k] moves, in layers [begin,
 * end), to the k'th position behind the length; from[] ascends. sequence_grow
 * then makes it the sequence's, and settles. Returns how many did not lie there
 * yet.
 */
uint32_t sequence_move(struct sequences *, uint32_t id, const uint32_t *from,
	uint32_t n, uint32_t begin, uint32_t end);
void sequence_grow(struct sequences *, uint32_t id, uint32_t length);

/*
 * When the bytes of a position were claimed or written last, as a number that
 * only grows and is never 0. Where two positions at the same place, whatever
 * their sequences, have the same, they have the same bytes.
 */
uint64_t sequence_written(const struct sequences *, uint32_t id, uint32_t at);

/* The slot of a position that is cached or claimed. */
uint32_t sequence_slot(const struct sequences *, uint32_t id, uint32_t at);
/* Positions [0, end) in order, as spans of slots; how many, of which the first
 * `room` are in span[]. */
uint32_t sequence_spans(const struct sequences *, uint32_t id, uint32_t end,
	struct wire_span *span, uint32_t room);

/*
 * What is cached of positions [at, at + n): [n][stride] bytes of a layer's keys
 * or values. -EINVAL beyond the length; writing may be -ENOSPC as a claim is.
 */
int sequence_read(struct sequences *, uint32_t id, uint32_t layer, enum kv_half,
	uint32_t at, uint32_t n, void *to, struct err *);
int sequence_write(struct sequences *, uint32_t id, uint32_t layer,
	enum kv_half, uint32_t at, uint32_t n, const void *from, struct err *);

/* Runs copied so far, whole or in part. */
uint64_t sequences_copied(const struct sequences *);
/* Slots that no sequence has. */
uint32_t sequences_free(const struct sequences *);

#endif
