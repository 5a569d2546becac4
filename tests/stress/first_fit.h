/*
 * A simple model of an address range in pages. Each piece (the place of a
 * buffer) lies in the first hole that is large enough. The number of pieces is
 * limited. There are either no guard pages, or one before the first piece and
 * one after each piece. A removed piece keeps its place until `defer` further
 * requests have arrived, whether or not these succeed.
 *
 * The model shares no code with the device or the host, because the model is
 * compared with both the device and the host. The structs may be copied.
 */
#ifndef TESTS_STRESS_FIRST_FIT_H
#define TESTS_STRESS_FIRST_FIT_H

#include <stdbool.h>
#include <stdint.h>

#define FIRST_FIT_PIECES 256

struct first_fit_piece {
	uint64_t at, pages;
	unsigned buffer;
	/* if the piece is removed: number of requests until its place is free;
	 * else 0 */
	unsigned due;
};

struct first_fit {
	uint64_t pages;
	unsigned guard; /* guard pages between pieces: 1 or 0 */
	unsigned slots; /* largest number of pieces, at most FIRST_FIT_PIECES */
	unsigned defer;
	/* [n] sorted by address */
	struct first_fit_piece piece[FIRST_FIT_PIECES];
	unsigned n;
};

/* The result of a request. All sizes are in pages. */
struct first_fit_room {
	uint64_t free, largest;
	/* `used`: slots in use; `pending`: how many of these belong to removed
	 * pieces */
	unsigned used, pending;
	bool fits;
	uint64_t at; /* the address, if it fits */
	/* index at which the new piece is inserted into the list of pieces */
	unsigned before;
};

struct first_fit_room first_fit_room(const struct first_fit *, uint64_t pages);

/* Request a place for a buffer, and return the result. The request also reduces
 * by one the member `due` of all removed pieces. */
struct first_fit_room first_fit_ask(
	struct first_fit *, unsigned buffer, uint64_t pages);
/* Like first_fit_ask, but repeat a refused request as long as removed pieces
 * keep their places. */
struct first_fit_room first_fit_ask_on(
	struct first_fit *, unsigned buffer, uint64_t pages);

/* Remove piece number i. */
void first_fit_take(struct first_fit *, unsigned i);

/* Copy the model to *out as the host sees it: the places of all removed pieces
 * are free. */
void first_fit_settled(const struct first_fit *, struct first_fit *out);

/* The number of pieces that are not removed. */
unsigned first_fit_there(const struct first_fit *);
/* Whether [at, at + bytes) lies within the bytes of one piece that is not
 * removed. */
bool first_fit_holds(const struct first_fit *, uint64_t at, uint64_t bytes);

#endif
