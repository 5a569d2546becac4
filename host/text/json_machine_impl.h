/*
 * Functions shared by the files of the automaton (json_machine.h). A step
 * function advances a cell in one kind of value by a byte, and adds the
 * resulting cells to a front. The frame argument is a copy of the cell's frame,
 * and `up` is the enclosing cell.
 */
#ifndef HOST_TEXT_JSON_MACHINE_IMPL_H
#define HOST_TEXT_JSON_MACHINE_IMPL_H

#include "host/text/json_machine.h"

#include <stdbool.h>
#include <stdint.h>

enum text_state {
	TEXT_BEFORE, /* a value must begin, after optional white space */
	TEXT_AFTER,
	/* In the next four states no value is open; the member `at` counts the
	 * bytes read of a literal that is not complete. MARKED: the marker of a
	 * tool call must follow. FREE: text may follow, and the marker may
	 * begin at any byte. EITHER: the marker or text may follow; no marker
	 * may follow text. AGAIN: the literal between two tool calls must
	 * follow. */
	TEXT_MARKED,
	TEXT_FREE,
	TEXT_EITHER,
	TEXT_AGAIN,
	TEXT_PLAIN, /* text follows until the end of the output, and no value */
};
enum object_state {
	OPENED,
	IN_KEY,
	COLON_DUE,
	VALUE_DUE,
	VALUE_AFTER,
	KEY_DUE
};
enum array_state { ARRAY_OPENED, ITEM_DUE, ITEM_AFTER };
/* The latest character read of a number. SIGN: the minus, or no character yet.
 * POINT: the point. EXPONENT: the e of the exponent. EXPONENT_SIGN: the sign of
 * the exponent. ZERO: a 0 as the first digit. WHOLE: a digit of an integer part
 * whose first digit is not 0. PART: a digit of the fraction. POWER: a digit of
 * the exponent. The number may end in the last four states. */
enum number_state {
	SIGN,
	POINT,
	EXPONENT,
	EXPONENT_SIGN,
	ZERO,
	WHOLE,
	PART,
	POWER
};

/* State of reading the characters of a string or key. */
enum lex {
	PLAIN,
	ESCAPE,          /* after a backslash */
	HEX1,            /* next: the four hex digits of a \u escape */
	HEX4 = HEX1 + 3, /* next: the last hex digit of a \u escape */
	/* next: the backslash of the \u escape of a low surrogate */
	LOW,
	LOW_U, /* next: the u of the \u escape of a low surrogate */
	LOW1,  /* next: the four hex digits of a low surrogate */
	LOW4 = LOW1 + 3,
	MORE1, /* next: the last byte of a UTF-8 character */
	MORE2,
	MORE3,
	BROKEN
};

static inline const struct json_node *machine_node_of(
	const struct json_machine *m, const struct json_frame *f)
{
	return &m->nodes->node[f->node];
}

/* Add 1 to a count, but stop at the number from which the count no longer
 * matters, so that equivalent positions are equal cells. */
static inline uint32_t machine_one_more(
	uint32_t count, uint32_t min, uint32_t max)
{
	uint32_t most = max == UINT32_MAX ? min : max;

	return count < most ? count + 1 : most;
}

static inline bool machine_is_space(unsigned char byte)
{
	return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* ---- cells, and steps of all kinds of values: json_machine.c ------------- */

/* Add a cell to the front. If the front already has FRONT_CELLS cells, the cell
 * is dropped; fewer texts are then accepted, but all accepted texts are valid.
 */
void machine_put(struct json_machine *, const struct json_frame *, uint32_t up,
	struct json_front *out);
void machine_put_space(struct json_machine *, struct json_frame, uint32_t up,
	struct json_front *out);
/* Begin a value of `node`, whose first byte is `byte`. The given frame is that
 * of the enclosing cell, which expects a value. */
void machine_begin_value(struct json_machine *, const struct json_frame *,
	uint32_t up, uint32_t node, unsigned char byte, struct json_front *out);
void machine_end_value(
	struct json_machine *, uint32_t up, struct json_front *out);
/* Whether a value of the node can be completed if `level` objects and arrays
 * are open and at most JSON_LEVELS may be open. */
bool machine_fits(const struct json_machine *, uint32_t node, uint8_t level);

/* ---- literals, strings and numbers: json_machine_words.c ---- */

/* Narrow the frame's range lo .. hi - 1 of names to those whose next byte is
 * `byte`. No name is a prefix of another name. */
void machine_narrow(
	const struct json_machine *, struct json_frame *, unsigned char byte);
bool machine_is_named(const struct json_machine *, const struct json_frame *);
void machine_step_text(struct json_machine *, struct json_frame, uint32_t up,
	unsigned char byte, struct json_front *out);
/* Advance the state of reading a string or key by a byte. Returns the new
 * state: PLAIN if the byte completes a character, BROKEN if the byte is not
 * allowed. */
uint8_t machine_lex_byte(struct json_frame *, unsigned char byte);
void machine_step_string(struct json_machine *, struct json_frame, uint32_t up,
	unsigned char byte, struct json_front *out);
void machine_put_number(struct json_machine *, const struct json_frame *,
	uint32_t up, struct json_front *out);
void machine_step_number(struct json_machine *, struct json_frame, uint32_t up,
	unsigned char byte, struct json_front *out);

/* ---- objects and arrays: json_machine_nested.c ---- */

void machine_step_object(struct json_machine *, struct json_frame, uint32_t up,
	unsigned char byte, struct json_front *out);
void machine_step_array(struct json_machine *, struct json_frame, uint32_t up,
	unsigned char byte, struct json_front *out);

#endif
