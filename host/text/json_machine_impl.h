/*
 * What the files of the automaton share (json_machine.h): each kind of value
 * steps by a byte, and what it comes to is put into the front. A frame is a
 * copy, of a cell that lies within `up`.
 */
#ifndef HOST_TEXT_JSON_MACHINE_IMPL_H
#define HOST_TEXT_JSON_MACHINE_IMPL_H

#include "host/text/json_machine.h"

#include <stdbool.h>
#include <stdint.h>

enum text_state { TEXT_BEFORE, TEXT_BEHIND };
enum object_state {
	OPENED,
	IN_KEY,
	COLON_DUE,
	VALUE_DUE,
	VALUE_BEHIND,
	KEY_DUE
};
enum array_state { ARRAY_OPENED, ITEM_DUE, ITEM_BEHIND };
/* A number may end in the last four of them. */
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

/* Of strings, and of keys. */
enum lex {
	PLAIN,
	ESCAPE,          /* behind a \ */
	HEX1,            /* four digits due ... */
	HEX4 = HEX1 + 3, /* one */
	LOW,             /* the \ of a low surrogate due */
	LOW_U,           /* its u */
	LOW1,            /* its digits */
	LOW4 = LOW1 + 3,
	MORE1, /* one byte of a character due */
	MORE2,
	MORE3,
	BROKEN
};

static inline const struct json_node *machine_node_of(
	const struct json_machine *m, const struct json_frame *f)
{
	return &m->nodes->node[f->node];
}

/* Counts go as far as they matter, so that equal places are equal cells. */
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

/* ---- cells, and what values have in common: json_machine.c ---- */

/* The cell's number; 0 with m->failed where there is no memory. */
uint32_t machine_cell_of(
	struct json_machine *, const struct json_frame *, uint32_t up);
/* Beyond FRONT_CELLS a text is held to what is there already. */
void machine_put(struct json_machine *, const struct json_frame *, uint32_t up,
	struct json_front *out);
void machine_put_space(struct json_machine *, struct json_frame, uint32_t up,
	struct json_front *out);
/* Within the cell whose frame is given, which waits for it. */
void machine_begin_value(struct json_machine *, const struct json_frame *,
	uint32_t up, uint32_t node, unsigned char byte, struct json_front *out);
void machine_end_value(
	struct json_machine *, uint32_t up, struct json_front *out);
/* Whether a value of the node can be whole below that level. */
bool machine_fits(const struct json_machine *, uint32_t node, uint8_t level);

/* ---- words, strings and numbers: json_machine_words.c ---- */

/* Those of lo .. hi that go on with the byte; no name begins another one. */
void machine_narrow(
	const struct json_machine *, struct json_frame *, unsigned char byte);
bool machine_is_named(const struct json_machine *, const struct json_frame *);
void machine_step_text(struct json_machine *, struct json_frame, uint32_t up,
	unsigned char byte, struct json_front *out);
/* The next state; PLAIN where the byte ends a character. */
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
