/*
 * The automaton of a JSON Schema's nodes over bytes. A cell is where a text may
 * stand in one value, and the cell of what it is within; cells are numbers, the
 * same for the same. A front is all cells that a text may stand at: a byte
 * takes it to another, and one without cells is no beginning of any text that
 * fits. Every cell can be gone on from to a whole text: what no level is left
 * for, or no digit, is not begun.
 *
 * White space may stand where JSON allows it, in runs of up to 20 bytes, and
 * not behind the text. One thread.
 */
#ifndef HOST_TEXT_JSON_MACHINE_H
#define HOST_TEXT_JSON_MACHINE_H

#include "host/text/json_nodes.h"

#include <stdbool.h>
#include <stdint.h>

#define FRONT_CELLS      64
#define JSON_TOKEN_BYTES 250 /* at most, of what json_alone is asked about */
#define JSON_FLOOR       UINT32_MAX /* below a cell that is looked at by itself */

/* All of it, with no gaps: frames are compared as bytes. */
struct json_frame {
	uint32_t node;   /* JSON_NONE: the whole text */
	uint8_t state;   /* by the kind of node */
	uint8_t lex;     /* of a string; of others the white space behind it */
	uint8_t level;   /* of objects and arrays that are open */
	uint8_t minus;   /* of a number */
	uint16_t lo, hi; /* the names that the text may be, of its node */
	uint32_t at;     /* bytes of them that it has */
	uint32_t count;  /* characters, items, digits; the property's place */
	uint32_t code;   /* of a character's escape or bytes */
	uint64_t bits;   /* properties that were; a number without its point */
};
_Static_assert(sizeof(struct json_frame) == 32, "a gap");

struct json_cell {
	struct json_frame frame;
	uint32_t up; /* JSON_FLOOR, or the cell that it is in */
};

struct json_front {
	uint32_t cell[FRONT_CELLS];
	unsigned n;
	bool left; /* a value that stood on the floor ended with this byte */
};

struct json_machine {
	const struct json_nodes *nodes;
	struct json_cell *cell;
	uint32_t n, cap;
	uint32_t *slot; /* of a table by contents */
	uint32_t mask;
	bool failed; /* no memory: what comes is not to be used */
};

int json_machine_init(struct json_machine *, const struct json_nodes *);
void json_machine_release(struct json_machine *);

/* Where a text begins. */
void json_begin(struct json_machine *, struct json_front *out);
/* One byte further; `out` is another than `from`. */
void json_step(struct json_machine *, const struct json_front *from,
	unsigned char byte, struct json_front *out);
/* The cell by itself, or one from which the same tokens go on, for who asks
 * what may follow whatever it is in. */
uint32_t json_alone(struct json_machine *, uint32_t cell);
/* Where the text stands when the value at the cell has ended. */
void json_after(struct json_machine *, uint32_t cell, struct json_front *out);
/* The text is whole here; nothing can follow it. */
bool json_is_whole(const struct json_machine *, const struct json_front *);
bool json_is_over(const struct json_machine *, const struct json_front *);

#endif
