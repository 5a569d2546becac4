/*
 * A pushdown automaton over bytes for the nodes of a JSON Schema
 * (json_nodes.h). A cell is a position within one value. Each cell is linked to
 * the cell of the enclosing value, so a cell stands for a whole stack. Equal
 * cells are stored once and have one number (hash consing). Choices in the
 * schema make the automaton nondeterministic: several cells may be possible
 * after some text. The set of all possible cells is called a front. A byte
 * leads from one front to another. An empty front means that no valid text
 * begins with the bytes read so far. From every cell the value can be
 * completed: a value is not begun if too few nesting levels or digits are left
 * for this value.
 *
 * White space is allowed where JSON allows it, in runs of up to 20 bytes, but
 * not after the end of the text. Not thread-safe.
 */
#ifndef HOST_TEXT_JSON_MACHINE_H
#define HOST_TEXT_JSON_MACHINE_H

#include "host/text/json_nodes.h"

#include <stdbool.h>
#include <stdint.h>

#define FRONT_CELLS 64
/* maximum length of a token, in bytes, for which json_alone is valid */
#define JSON_TOKEN_BYTES 250
/* value of `up` for a cell without enclosing value */
#define JSON_FLOOR UINT32_MAX

/* State of a cell. The struct must have no padding, because frames are compared
 * as bytes. */
struct json_frame {
	/* node that describes the value; JSON_NONE: outside of all values */
	uint32_t node;
	/* state within the value; its meaning depends on the kind of node */
	uint8_t state;
	/* In strings and keys, enum lex; elsewhere the length of the current
	 * run of white space. */
	uint8_t lex;
	uint8_t level; /* number of open objects and arrays */
	uint8_t minus; /* whether the number begins with a minus */
	/* In a key or literal: the names lo .. hi - 1 of the node are those
	 * that begin with the bytes read so far. */
	uint16_t lo, hi;
	/* number of bytes of the property name or literal that have been
	 * read */
	uint32_t at;
	/* number of characters, items or digits read so far; or the index of
	 * the current property */
	uint32_t count;
	/* in an escape \uXXXX, the value of the hex digits read so far; after
	 * the first byte of a UTF-8 character, this byte */
	uint32_t code;
	/* one bit for each property already present; or the digits of a number
	 * as an integer, without the point */
	uint64_t bits;
};
_Static_assert(sizeof(struct json_frame) == 32, "no padding");

struct json_cell {
	struct json_frame frame;
	uint32_t up; /* the enclosing cell, or JSON_FLOOR */
};

struct json_front {
	uint32_t cell[FRONT_CELLS];
	unsigned n;
	/* whether the last byte ended a value that has no enclosing value */
	bool left;
};

struct json_machine {
	const struct json_nodes *nodes;
	struct json_cell *cell;
	uint32_t n, cap;
	uint32_t *slot; /* hash table of cells, by contents */
	uint32_t mask;
	bool failed; /* whether memory ran out; results are then invalid */
};

int json_machine_init(struct json_machine *, const struct json_nodes *);
void json_machine_release(struct json_machine *);

/* Set *out to the front (set of possible cells) at the start of a text. */
void json_begin(struct json_machine *, struct json_front *out);
/* Advance by one byte; `out` must not be `from`. */
void json_step(struct json_machine *, const struct json_front *from,
	unsigned char byte, struct json_front *out);
/* Returns the cell without its enclosing cells, or a simpler cell that allows
 * the same tokens. The result is used to compute the allowed tokens
 * independently of the enclosing values. */
uint32_t json_alone(struct json_machine *, uint32_t cell);
/* Set *out to the front (set of possible cells) directly after the end of the
 * cell's value. */
void json_after(struct json_machine *, uint32_t cell, struct json_front *out);
/* json_is_whole: whether the text may end here. json_is_over: whether the text
 * must end here. */
bool json_is_whole(const struct json_machine *, const struct json_front *);
bool json_is_over(const struct json_machine *, const struct json_front *);
/* Whether the cell is in free text, where any token may follow, even a token
 * without bytes. */
bool json_is_free(const struct json_machine *, uint32_t cell);
/* Append `byte` to the first n bytes of `literal`. Return the length of the
 * longest prefix of `literal` with which the resulting string ends. The literal
 * has more than n bytes. */
uint32_t json_match_on(const char *literal, uint32_t n, unsigned char byte);

#endif
