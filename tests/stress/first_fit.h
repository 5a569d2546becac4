/*
 * A simple model of an address range in pages: each piece lies in the first
 * hole that holds it; the number of pieces is limited; there is a guard page
 * before the first piece and one after each, or none. With `defer` a removed
 * piece keeps its place until that many more requests have arrived, granted or
 * refused.
 *
 * It shares no code with the device or the host; their behaviour is compared
 * with the model's. Plain values.
 */
#ifndef TESTS_STRESS_FIRST_FIT_H
#define TESTS_STRESS_FIRST_FIT_H

#include <stdbool.h>
#include <stdint.h>

#define FIRST_FIT_PIECES 256

struct first_fit_piece {
	uint64_t at, pages;
	unsigned buffer;
	unsigned due; /* taken away: requests until it is gone; 0: it is there
		       */
};

struct first_fit {
	uint64_t pages;
	unsigned guard; /* pages: 1 or 0 */
	unsigned slots; /* FIRST_FIT_PIECES at most */
	unsigned defer;
	struct first_fit_piece piece[FIRST_FIT_PIECES]; /* [n] by place */
	unsigned n;
};

/* All in pages. */
struct first_fit_room {
	uint64_t free, largest;
	unsigned used, pending; /* slots, and those of what was taken away */
	bool fits;
	uint64_t at;     /* if it fits */
	unsigned before; /* it goes there in the list */
};

struct first_fit_room first_fit_room(const struct first_fit *, uint64_t pages);

/* Request a place: the result, and the effects of the request. */
struct first_fit_room first_fit_ask(
	struct first_fit *, unsigned buffer, uint64_t pages);
/* Repeat the request while deferred pieces remain. */
struct first_fit_room first_fit_ask_on(
	struct first_fit *, unsigned buffer, uint64_t pages);

/* Take piece number i away. */
void first_fit_take(struct first_fit *, unsigned i);

/* The view of the host: all removed pieces are gone. */
void first_fit_settled(const struct first_fit *, struct first_fit *out);

/* Pieces that are there. */
unsigned first_fit_there(const struct first_fit *);
/* Whether [at, at + bytes) lies in the bytes of one that is. */
bool first_fit_holds(const struct first_fit *, uint64_t at, uint64_t bytes);

#endif
