#include "host/text/json_machine_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define SPACES_MAX 20

/* ---- cells --------------------------------------------------------------- */

static uint32_t hash(const struct json_frame *f, uint32_t up)
{
	return (uint32_t)XXH3_64bits_withSeed(f, sizeof(*f), up);
}

static int make_room(struct json_machine *m)
{
	uint32_t cap = m->cap ? m->cap * 2 : 1024, mask = cap * 2 - 1;
	struct json_cell *cell =
		cap ? reallocarray(m->cell, cap, sizeof(*cell)) : NULL;
	uint32_t *slot;

	if (!cell)
		return -ENOMEM;
	m->cell = cell;
	slot = malloc((mask + (size_t)1) * sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	memset(slot, 0xff, (mask + (size_t)1) * sizeof(*slot));
	for (uint32_t i = 0; i < m->n; i++) {
		uint32_t at = hash(&cell[i].frame, cell[i].up) & mask;

		while (slot[at] != UINT32_MAX)
			at = (at + 1) & mask;
		slot[at] = i;
	}
	free(m->slot);
	m->slot = slot;
	m->mask = mask;
	m->cap = cap;
	return 0;
}

/* Returns the number of the cell with the frame *f and the enclosing cell `up`.
 * Adds the cell if it does not exist yet. If memory runs out, sets m->failed
 * and returns 0. */
static uint32_t machine_cell_of(
	struct json_machine *m, const struct json_frame *f, uint32_t up)
{
	uint32_t at;

	if (m->failed || (m->n == m->cap && make_room(m))) {
		m->failed = true;
		return 0;
	}
	at = hash(f, up) & m->mask;
	for (; m->slot[at] != UINT32_MAX; at = (at + 1) & m->mask)
		if (m->cell[m->slot[at]].up == up &&
			!memcmp(&m->cell[m->slot[at]].frame, f, sizeof(*f)))
			return m->slot[at];
	m->cell[m->n] = (struct json_cell){ *f, up };
	m->slot[at] = m->n;
	return m->n++;
}

void machine_put(struct json_machine *m, const struct json_frame *f,
	uint32_t up, struct json_front *out)
{
	uint32_t cell = machine_cell_of(m, f, up);

	for (unsigned i = 0; i < out->n; i++)
		if (out->cell[i] == cell)
			return;
	if (out->n < FRONT_CELLS)
		out->cell[out->n++] = cell;
}

/* ---- the end of a value -------------------------------------------------- */

void machine_end_value(
	struct json_machine *m, uint32_t up, struct json_front *out)
{
	struct json_frame f;
	const struct json_node *n;

	if (up == JSON_FLOOR) {
		out->left = true;
		return;
	}
	f = m->cell[up].frame;
	f.lex = 0;
	if (f.node == JSON_NONE) {
		f.state = TEXT_AFTER;
	} else if ((n = machine_node_of(m, &f))->kind == FORM_OBJECT) {
		if (f.count < n->n)
			f.bits |= 1ull << f.count;
		f.count = 0;
		f.state = VALUE_AFTER;
	} else if (n->kind == FORM_SEQUENCE) {
		if (++f.count == n->n) {
			machine_end_value(m, m->cell[up].up, out);
			return;
		}
	} else {
		uint32_t min = n->min > n->n ? n->min : n->n;

		f.count = machine_one_more(f.count, min, n->max);
		f.state = ITEM_AFTER;
	}
	machine_put(m, &f, m->cell[up].up, out);
}

/* ---- the beginning of a value -------------------------------------------- */

static void begin_leaf(struct json_machine *m, uint32_t leaf, uint8_t level,
	uint32_t up, unsigned char byte, struct json_front *out)
{
	const struct json_node *n = &m->nodes->node[leaf];
	struct json_frame f = { .node = leaf };

	switch (n->kind) {
	case FORM_TEXT:
		f.hi = (uint16_t)n->n;
		/* If a value follows the literal, the frame needs the number
		 * of open objects and arrays. */
		if (n->n && m->nodes->name[n->first].node != JSON_NONE)
			f.level = level;
		machine_step_text(m, f, up, byte, out);
		break;
	case FORM_STRING:
		if (byte == '"')
			machine_put(m, &f, up, out);
		break;
	case FORM_OBJECT:
	case FORM_ARRAY:
		f.level = level + 1;
		if (byte == (n->kind == FORM_OBJECT ? '{' : '['))
			machine_put(m, &f, up, out);
		break;
	default:
		f.state = SIGN;
		f.minus = byte == '-';
		if (f.minus)
			machine_put_number(m, &f, up, out);
		else
			machine_step_number(m, f, up, byte, out);
	}
}

bool machine_fits(const struct json_machine *m, uint32_t node, uint8_t level)
{
	return node != JSON_NONE &&
		m->nodes->node[node].height <= (uint32_t)(JSON_LEVELS - level);
}

void machine_begin_value(struct json_machine *m, const struct json_frame *f,
	uint32_t up, uint32_t node, unsigned char byte, struct json_front *out)
{
	const struct json_node *n = &m->nodes->node[node];
	uint32_t within = machine_cell_of(m, f, up);

	for (uint32_t i = 0; i < n->n_leaves; i++) {
		uint32_t leaf = m->nodes->leaf[n->leaf + i];

		if (machine_fits(m, leaf, f->level))
			begin_leaf(m, leaf, f->level, within, byte, out);
	}
}

void machine_put_space(struct json_machine *m, struct json_frame f, uint32_t up,
	struct json_front *out)
{
	if (f.lex++ < SPACES_MAX)
		machine_put(m, &f, up, out);
}

/* ---- advancing by a byte ------------------------------------------------- */

uint32_t json_match_on(const char *literal, uint32_t n, unsigned char byte)
{
	while (n && (unsigned char)literal[n] != byte) {
		uint32_t shorter = n - 1;

		while (memcmp(literal, literal + n - shorter, shorter))
			shorter--;
		n = shorter;
	}
	return n + ((unsigned char)literal[n] == byte);
}

/* Advance by a byte that is not part of any value. */
static void step_outside(struct json_machine *m, struct json_frame f,
	uint32_t up, unsigned char byte, struct json_front *out)
{
	const char *literal = f.state == TEXT_AGAIN || f.state == TEXT_AFTER
		? m->nodes->again
		: m->nodes->marker;
	uint32_t was = f.at;

	if (f.state == TEXT_BEFORE) {
		if (machine_is_space(byte)) {
			machine_put_space(m, f, up, out);
			return;
		}
		f.lex = 0;
		machine_begin_value(m, &f, up, m->nodes->root, byte, out);
		return;
	}
	if (f.state == TEXT_AFTER) {
		if (!literal)
			return;
		f.state = TEXT_AGAIN;
	}
	if (f.state != TEXT_PLAIN) {
		f.at = json_match_on(literal, was, byte);
		if (f.at != was + 1 && f.state == TEXT_EITHER)
			f = (struct json_frame){ .node = JSON_NONE,
				.state = TEXT_PLAIN };
		else if (f.at != was + 1 && f.state != TEXT_FREE)
			return;
		else if (!literal[f.at])
			f = (struct json_frame){ .node = JSON_NONE };
	}
	machine_put(m, &f, up, out);
}

void json_step(struct json_machine *m, const struct json_front *from,
	unsigned char byte, struct json_front *out)
{
	out->n = 0;
	out->left = false;
	for (unsigned i = 0; i < from->n; i++) {
		struct json_frame f = m->cell[from->cell[i]].frame;
		uint32_t up = m->cell[from->cell[i]].up;
		const struct json_node *n;

		if (f.node == JSON_NONE) {
			step_outside(m, f, up, byte, out);
			continue;
		}
		n = machine_node_of(m, &f);
		switch (n->kind) {
		case FORM_SEQUENCE:
			machine_begin_value(m, &f, up,
				m->nodes->kid[n->first + f.count], byte, out);
			break;
		case FORM_TEXT:
			machine_step_text(m, f, up, byte, out);
			break;
		case FORM_STRING:
			machine_step_string(m, f, up, byte, out);
			break;
		case FORM_OBJECT:
			machine_step_object(m, f, up, byte, out);
			break;
		case FORM_ARRAY:
			machine_step_array(m, f, up, byte, out);
			break;
		default:
			machine_step_number(m, f, up, byte, out);
		}
	}
}

void json_begin(struct json_machine *m, struct json_front *out)
{
	static const uint8_t state[] = {
		[JSON_START_VALUE] = TEXT_BEFORE,
		[JSON_START_MARKED] = TEXT_MARKED,
		[JSON_START_FREE] = TEXT_FREE,
		[JSON_START_EITHER] = TEXT_EITHER,
	};
	const struct json_frame f = { .node = JSON_NONE,
		.state = state[m->nodes->start] };

	out->n = 0;
	out->left = false;
	machine_put(m, &f, JSON_FLOOR, out);
}

uint32_t json_alone(struct json_machine *m, uint32_t cell)
{
	struct json_frame f = m->cell[cell].frame;
	const uint32_t far = JSON_TOKEN_BYTES + 1;
	const struct json_node *n;

	/* A token has fewer than `far` bytes. If a string's minimum or maximum
	 * length is more than `far` characters away from the present count, no
	 * token can reach this length, so all such counts allow the same
	 * tokens. Replace them by one count, at the distance `far`, so that
	 * they share a cell. */
	if (f.node != JSON_NONE &&
		(n = machine_node_of(m, &f))->kind == FORM_STRING) {
		if (f.count < n->min && n->min - f.count > far)
			f.count = n->min - far;
		else if (f.count >= n->min && n->max != UINT32_MAX &&
			n->max - f.count > far)
			f.count = n->max - far;
	}
	return machine_cell_of(m, &f, JSON_FLOOR);
}

void json_after(struct json_machine *m, uint32_t cell, struct json_front *out)
{
	out->n = 0;
	out->left = false;
	machine_end_value(m, m->cell[cell].up, out);
}

static bool is_after(const struct json_machine *m, uint32_t cell)
{
	const struct json_frame *f = &m->cell[cell].frame;

	return f->node == JSON_NONE && f->state == TEXT_AFTER;
}

bool json_is_free(const struct json_machine *m, uint32_t cell)
{
	const struct json_frame *f = &m->cell[cell].frame;

	return f->node == JSON_NONE &&
		(f->state == TEXT_FREE || f->state == TEXT_EITHER ||
			f->state == TEXT_PLAIN);
}

bool json_is_whole(const struct json_machine *m, const struct json_front *f)
{
	for (unsigned i = 0; i < f->n; i++)
		if (is_after(m, f->cell[i]) || json_is_free(m, f->cell[i]))
			return true;
	return false;
}

bool json_is_over(const struct json_machine *m, const struct json_front *f)
{
	for (unsigned i = 0; i < f->n; i++)
		if (!is_after(m, f->cell[i]))
			return false;
	return f->n && !m->nodes->again;
}

int json_machine_init(struct json_machine *m, const struct json_nodes *nodes)
{
	*m = (struct json_machine){ .nodes = nodes };
	return make_room(m);
}

void json_machine_release(struct json_machine *m)
{
	free(m->cell);
	free(m->slot);
}
