/*
 * A pushdown automaton over bytes for the nodes of a JSON Schema
 * (json_nodes.h). A cell is a position within one value together with the cell
 * of the enclosing value, so a cell stands for a whole stack; equal cells are
 * stored once and have one number (hash consing). As choices make the automaton
 * nondeterministic, a text's state is a front: the set of all cells it may be
 * at. A byte leads from one front to another; an empty front means that no
 * valid text begins like this. Every cell has a valid completion: a value is
 * not begun if too few levels or digits are left for it.
 *
 * White space is allowed where JSON allows it, in runs of up to 20 bytes, and
 * not after the text. One thread.
 */
#ifndef HOST_TEXT_JSON_MACHINE_H
#define HOST_TEXT_JSON_MACHINE_H

#include "host/text/json_nodes.h"

#include <stdbool.h>
#include <stdint.h>

#define FRONT_CELLS      64
#define JSON_TOKEN_BYTES 250 /* longest token for which json_alone is used */
#define JSON_FLOOR       UINT32_MAX /* below an isolated cell */

/* Without padding: frames are compared as bytes. */
struct json_frame {
	uint32_t node; /* JSON_NONE: the whole text */
	uint8_t state; /* meaning by kind of node */
	/* of strings; in others the length of the white space so far */
	uint8_t lex;
	uint8_t level;   /* number of open objects and arrays */
	uint8_t minus;   /* of a number */
	uint16_t lo, hi; /* range of names that the text may still be */
	uint32_t at;     /* bytes of the name read so far */
	uint32_t count; /* characters, items, digits; or the property's index */
	uint32_t code;  /* of a character's escape or bytes */
	/* properties seen; or a number's digits without its point */
	uint64_t bits;
};
_Static_assert(sizeof(struct json_frame) == 32, "a gap");

struct json_cell {
	struct json_frame frame;
	uint32_t up; /* JSON_FLOOR, or the enclosing cell */
};

struct json_front {
	uint32_t cell[FRONT_CELLS];
	unsigned n;
	bool left; /* an isolated value ended with this byte */
};

struct json_machine {
	const struct json_nodes *nodes;
	struct json_cell *cell;
	uint32_t n, cap;
	uint32_t *slot; /* hash table by contents */
	uint32_t mask;
	bool failed; /* no memory: results are invalid */
};

int json_machine_init(struct json_machine *, const struct json_nodes *);
void json_machine_release(struct json_machine *);

/* The front at the beginning of a text. */
void json_begin(struct json_machine *, struct json_front *out);
/* Advance by one byte; `out` must not be `from`. */
void json_step(struct json_machine *, const struct json_front *from,
	unsigned char byte, struct json_front *out);
/* The cell without its enclosing cells, or a simpler one after which the same
 * tokens are allowed, for computing allowed tokens independently of the
 * enclosing values. */
uint32_t json_alone(struct json_machine *, uint32_t cell);
/* The front after the value at the cell has ended. */
void json_after(struct json_machine *, uint32_t cell, struct json_front *out);
/* Whether the text is complete here; whether nothing more can follow. */
bool json_is_whole(const struct json_machine *, const struct json_front *);
bool json_is_over(const struct json_machine *, const struct json_front *);

#endif
