#include "host/text/json_machine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define SPACES_MAX 20

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

/* ---- cells --------------------------------------------------------------- */

static uint32_t hash(const struct json_frame *f, uint32_t up)
{
	return (uint32_t)XXH3_64bits_withSeed(f, sizeof(*f), up);
}

static bool is_cell(
	const struct json_cell *c, const struct json_frame *f, uint32_t up)
{
	return c->up == up && !memcmp(&c->frame, f, sizeof(*f));
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

/* The cell's number; 0 with m->failed where there is no memory. */
static uint32_t cell_of(
	struct json_machine *m, const struct json_frame *f, uint32_t up)
{
	uint32_t at;

	if (m->failed || (m->n == m->cap && make_room(m))) {
		m->failed = true;
		return 0;
	}
	at = hash(f, up) & m->mask;
	for (; m->slot[at] != UINT32_MAX; at = (at + 1) & m->mask)
		if (is_cell(&m->cell[m->slot[at]], f, up))
			return m->slot[at];
	m->cell[m->n] = (struct json_cell){ *f, up };
	m->slot[at] = m->n;
	return m->n++;
}

/* Beyond FRONT_CELLS a text is held to what is there already. */
static void put(struct json_machine *m, const struct json_frame *f, uint32_t up,
	struct json_front *out)
{
	uint32_t cell = cell_of(m, f, up);

	for (unsigned i = 0; i < out->n; i++)
		if (out->cell[i] == cell)
			return;
	if (out->n < FRONT_CELLS)
		out->cell[out->n++] = cell;
}

/* ---- a value ends -------------------------------------------------------- */

static const struct json_node *node_of(
	const struct json_machine *m, const struct json_frame *f)
{
	return &m->nodes->node[f->node];
}

/* Counts go as far as they matter, so that equal places are equal cells. */
static uint32_t one_more(uint32_t count, uint32_t min, uint32_t max)
{
	uint32_t most = max == UINT32_MAX ? min : max;

	return count < most ? count + 1 : most;
}

static void end_value(
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
		f.state = TEXT_BEHIND;
	} else if ((n = node_of(m, &f))->kind == FORM_OBJECT) {
		if (f.count < n->n)
			f.bits |= 1ull << f.count;
		f.count = 0;
		f.state = VALUE_BEHIND;
	} else {
		uint32_t min = n->min > n->n ? n->min : n->n;

		f.count = one_more(f.count, min, n->max);
		f.state = ITEM_BEHIND;
	}
	put(m, &f, m->cell[up].up, out);
}

/* ---- texts that are given ------------------------------------------------ */

static unsigned char name_byte(
	const struct json_machine *m, const struct json_frame *f, uint32_t i)
{
	const struct json_node *n = node_of(m, f);

	return (unsigned char)json_name_text(m->nodes, n->first + i)[f->at];
}

static uint32_t name_length(
	const struct json_machine *m, const struct json_frame *f, uint32_t i)
{
	return m->nodes->name[node_of(m, f)->first + i].len;
}

/* Those of lo .. hi that go on with the byte; no name begins another one. */
static void narrow(
	const struct json_machine *m, struct json_frame *f, unsigned char byte)
{
	while (f->lo < f->hi && name_byte(m, f, f->lo) != byte)
		f->lo++;
	while (f->lo < f->hi && name_byte(m, f, f->hi - 1u) != byte)
		f->hi--;
	f->at++;
	if (f->lo == f->hi)
		f->lo = f->hi = 0, f->at = 0;
}

static bool is_named(const struct json_machine *m, const struct json_frame *f)
{
	return f->lo < f->hi && f->at == name_length(m, f, f->lo);
}

static void step_text(struct json_machine *m, struct json_frame f, uint32_t up,
	unsigned char byte, struct json_front *out)
{
	narrow(m, &f, byte);
	if (f.lo == f.hi)
		return;
	if (is_named(m, &f))
		end_value(m, up, out);
	else
		put(m, &f, up, out);
}

/* ---- strings ------------------------------------------------------------- */

static int hex(unsigned char byte)
{
	if (byte >= '0' && byte <= '9')
		return byte - '0';
	byte |= 0x20;
	return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* The first byte behind a character's first: it rules out what is no UTF-8. */
static bool goes_on(uint32_t first, unsigned char byte)
{
	switch (first) {
	case 0xe0:
		return byte >= 0xa0 && byte <= 0xbf;
	case 0xed:
		return byte >= 0x80 && byte <= 0x9f;
	case 0xf0:
		return byte >= 0x90 && byte <= 0xbf;
	case 0xf4:
		return byte >= 0x80 && byte <= 0x8f;
	default:
		return byte >= 0x80 && byte <= 0xbf;
	}
}

static uint8_t begin_character(struct json_frame *f, unsigned char byte)
{
	f->code = 0;
	if (byte < 0x20)
		return BROKEN;
	if (byte < 0x80)
		return byte == '\\' ? ESCAPE : PLAIN;
	if (byte < 0xc2 || byte > 0xf4)
		return BROKEN;
	f->code = byte;
	return byte < 0xe0 ? MORE1 : byte < 0xf0 ? MORE2 : MORE3;
}

/* Of \uXXXX: a NUL is none, nor half a pair of surrogates. */
static uint8_t hex_digit(struct json_frame *f, unsigned char byte)
{
	int digit = hex(byte);
	uint32_t code = f->code << 4 | (uint32_t)(digit & 15);
	bool low = f->lex >= LOW1;

	if (digit < 0)
		return BROKEN;
	f->code = code;
	/* What is begun can be ended: a NUL's last zero, a low one's head. */
	if (low &&
		((f->lex == LOW1 && code != 0xd) ||
			(f->lex == LOW1 + 1 && (code & 0xf) < 0xc)))
		return BROKEN;
	if (!low && f->lex == HEX1 + 1 && code >= 0xdc && code <= 0xdf)
		return BROKEN;
	if (!low && f->lex == HEX4 && !code)
		return BROKEN;
	if (f->lex != HEX4 && f->lex != LOW4)
		return f->lex + 1;
	f->code = 0;
	return !low && code >= 0xd800 && code <= 0xdbff ? LOW : PLAIN;
}

/* The next state; PLAIN where the byte ends a character. */
static uint8_t lex_byte(struct json_frame *f, unsigned char byte)
{
	switch (f->lex) {
	case PLAIN:
		return begin_character(f, byte);
	case ESCAPE:
		if (byte == 'u')
			return HEX1;
		return byte && strchr("\"\\/bfnrt", byte) ? PLAIN : BROKEN;
	case LOW:
		return byte == '\\' ? LOW_U : BROKEN;
	case LOW_U:
		return byte == 'u' ? LOW1 : BROKEN;
	case MORE1:
	case MORE2:
	case MORE3:
		if (!goes_on(f->code, byte))
			return BROKEN;
		f->code = 0;
		return f->lex == MORE1 ? PLAIN : f->lex - 1;
	default:
		return hex_digit(f, byte);
	}
}

static void step_string(struct json_machine *m, struct json_frame f,
	uint32_t up, unsigned char byte, struct json_front *out)
{
	const struct json_node *n = node_of(m, &f);

	if (f.lex == PLAIN && byte == '"') {
		if (f.count >= n->min)
			end_value(m, up, out);
		return;
	}
	if (f.lex == PLAIN && f.count >= n->max)
		return;
	f.lex = lex_byte(&f, byte);
	if (f.lex == BROKEN)
		return;
	if (f.lex == PLAIN)
		f.count = one_more(f.count, n->min, n->max);
	put(m, &f, up, out);
}

/* ---- numbers ------------------------------------------------------------- */

#define WHOLE_DIGITS \
	18 /* as many as any double or 64-bit integer has room for */
#define BOUND_WHOLE  9 /* of numbers with bounds, and behind the point */
#define BOUND_PART   6
#define POWER_DIGITS 2

static const int64_t tens[] = { 1, 10, 100, 1000, 10000, 100000, 1000000,
	10000000, 100000000, 1000000000, 10000000000, 100000000000,
	1000000000000, 10000000000000, 100000000000000, 1000000000000000,
	10000000000000000, 100000000000000000, 1000000000000000000 };

static bool meets(
	const struct json_node *n, bool minus, int64_t least, int64_t most)
{
	int64_t lo = minus ? -most : least, hi = minus ? -least : most;

	return lo <= n->hi && hi >= n->lo;
}

/* The value as it stands, in the node's units. */
static bool in_bounds(const struct json_node *n, const struct json_frame *f)
{
	int64_t unit = n->kind == FORM_INTEGER ? 1 : JSON_MICRO;
	int64_t v = (int64_t)f->bits *
		(f->state == PART ? unit / tens[f->count] : unit);

	return meets(n, f->minus, v, v);
}

/* Some number that begins so is within the bounds. */
static bool may_reach(const struct json_node *n, const struct json_frame *f)
{
	bool integer = n->kind == FORM_INTEGER;
	uint32_t most = integer ? WHOLE_DIGITS : BOUND_WHOLE;
	int64_t unit = integer ? 1 : JSON_MICRO, v = (int64_t)f->bits;

	if (f->state == SIGN)
		return meets(n, f->minus, 0, INT64_MAX);
	if (f->state == POINT || f->state == PART) {
		uint32_t digits = f->state == PART ? f->count : 0;
		int64_t step = unit / tens[digits];

		return meets(n, f->minus, v * step, v * step + step - 1);
	}
	if (f->state == ZERO)
		return meets(n, f->minus, 0, unit - 1);
	for (uint32_t d = f->count; d <= most; d++) {
		int64_t step = tens[d - f->count] * unit;

		if (meets(n, f->minus, v * step, v * step + (step - 1)))
			return true;
	}
	return false;
}

/* The state behind the byte; -1: none. */
static int number_state(const struct json_node *n, const struct json_frame *f,
	unsigned char byte)
{
	bool digit = byte >= '0' && byte <= '9';
	bool integer = n->kind == FORM_INTEGER;
	uint32_t whole = n->bounded && !integer ? BOUND_WHOLE : WHOLE_DIGITS;
	uint32_t part = n->bounded ? BOUND_PART : WHOLE_DIGITS;

	switch (f->state) {
	case SIGN:
		return digit ? byte == '0' ? ZERO : WHOLE : -1;
	case WHOLE:
		if (digit)
			return f->count < whole ? WHOLE : -1;
		/* fall through */
	case ZERO:
		if (byte == '.' && !integer)
			return POINT;
		break;
	case POINT:
		return digit ? PART : -1;
	case PART:
		if (digit)
			return f->count < part ? PART : -1;
		break;
	case EXPONENT:
		if (byte == '+' || byte == '-')
			return EXPONENT_SIGN;
		/* fall through */
	case EXPONENT_SIGN:
		return digit ? POWER : -1;
	default:
		return digit && f->count < POWER_DIGITS ? POWER : -1;
	}
	return (byte | 0x20) == 'e' && !integer && !n->bounded ? EXPONENT : -1;
}

static void put_number(struct json_machine *m, const struct json_frame *f,
	uint32_t up, struct json_front *out)
{
	const struct json_node *n = node_of(m, f);

	if (n->bounded && !may_reach(n, f))
		return;
	put(m, f, up, out);
	if (f->state >= ZERO && (!n->bounded || in_bounds(n, f)))
		end_value(m, up, out);
}

static void step_number(struct json_machine *m, struct json_frame f,
	uint32_t up, unsigned char byte, struct json_front *out)
{
	const struct json_node *n = node_of(m, &f);
	int state = number_state(n, &f, byte);

	if (state < 0)
		return;
	if (byte >= '0' && byte <= '9') {
		f.count = f.state == state ? f.count + 1 : 1;
		if (n->bounded)
			f.bits = f.bits * 10 + (byte - '0');
	}
	f.state = (uint8_t)state;
	put_number(m, &f, up, out);
}

/* ---- a value begins ------------------------------------------------------ */

static void begin_leaf(struct json_machine *m, uint32_t leaf, uint8_t level,
	uint32_t up, unsigned char byte, struct json_front *out)
{
	const struct json_node *n = &m->nodes->node[leaf];
	struct json_frame f = { .node = leaf };

	switch (n->kind) {
	case FORM_TEXT:
		f.hi = (uint16_t)n->n;
		step_text(m, f, up, byte, out);
		break;
	case FORM_STRING:
		if (byte == '"')
			put(m, &f, up, out);
		break;
	case FORM_OBJECT:
	case FORM_ARRAY:
		f.level = level + 1;
		if (byte == (n->kind == FORM_OBJECT ? '{' : '['))
			put(m, &f, up, out);
		break;
	default:
		f.state = SIGN;
		f.minus = byte == '-';
		if (f.minus)
			put_number(m, &f, up, out);
		else
			step_number(m, f, up, byte, out);
	}
}

static bool fits(const struct json_machine *m, uint32_t node, uint8_t level)
{
	return node != JSON_NONE &&
		m->nodes->node[node].height <= (uint32_t)(JSON_LEVELS - level);
}

/* Within the cell whose frame is `f`, which waits for it. */
static void begin_value(struct json_machine *m, const struct json_frame *f,
	uint32_t up, uint32_t node, unsigned char byte, struct json_front *out)
{
	const struct json_node *n = &m->nodes->node[node];
	uint32_t within = cell_of(m, f, up);

	for (uint32_t i = 0; i < n->n_leaves; i++) {
		uint32_t leaf = m->nodes->leaf[n->leaf + i];

		if (fits(m, leaf, f->level))
			begin_leaf(m, leaf, f->level, within, byte, out);
	}
}

static bool is_space(unsigned char byte)
{
	return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

static void put_space(struct json_machine *m, struct json_frame f, uint32_t up,
	struct json_front *out)
{
	if (f.lex++ < SPACES_MAX)
		put(m, &f, up, out);
}

/* ---- objects and arrays -------------------------------------------------- */

/* One of the names that the key may be is yet to come, and has a value. */
static bool may_be_named(const struct json_machine *m,
	const struct json_frame *f, uint32_t lo, uint32_t hi)
{
	const struct json_node *n = node_of(m, f);

	for (uint32_t i = lo; i < hi; i++)
		if (!(f->bits >> i & 1) &&
			fits(m, m->nodes->name[n->first + i].node, f->level))
			return true;
	return false;
}

static bool takes_more(const struct json_machine *m, const struct json_frame *f)
{
	return fits(m, node_of(m, f)->rest, f->level) ||
		may_be_named(m, f, 0, node_of(m, f)->n);
}

static void begin_key(struct json_machine *m, struct json_frame f, uint32_t up,
	struct json_front *out)
{
	f.state = IN_KEY;
	f.lex = PLAIN;
	f.lo = 0;
	f.hi = (uint16_t)node_of(m, &f)->n;
	f.at = 0;
	if (takes_more(m, &f))
		put(m, &f, up, out);
}

/* `count` becomes the property's place; that of others is n. */
static void end_key(struct json_machine *m, struct json_frame f, uint32_t up,
	struct json_front *out)
{
	const struct json_node *n = node_of(m, &f);

	if (is_named(m, &f)) {
		if (!may_be_named(m, &f, f.lo, f.lo + 1u))
			return;
		f.count = f.lo;
	} else {
		if (!fits(m, n->rest, f.level))
			return;
		f.count = n->n;
	}
	f.state = COLON_DUE;
	f.lex = 0;
	f.lo = f.hi = 0;
	f.at = 0;
	put(m, &f, up, out);
}

/* In keys that no name is given for, characters are written in one way: else
 * one could be a name in disguise. */
static void step_key(struct json_machine *m, struct json_frame f, uint32_t up,
	unsigned char byte, struct json_front *out)
{
	bool open = fits(m, node_of(m, &f)->rest, f.level);
	bool ends = f.lex == PLAIN && byte == '"';

	if (f.lo < f.hi)
		narrow(m, &f, byte);
	if (ends) {
		end_key(m, f, up, out);
		return;
	}
	if (f.lex == ESCAPE && (byte == 'u' || byte == '/'))
		return;
	f.lex = lex_byte(&f, byte);
	if (f.lex != BROKEN && (open || may_be_named(m, &f, f.lo, f.hi)))
		put(m, &f, up, out);
}

static uint32_t property_node(
	const struct json_machine *m, const struct json_frame *f)
{
	const struct json_node *n = node_of(m, f);

	return f->count < n->n ? m->nodes->name[n->first + f->count].node
			       : n->rest;
}

static void step_object(struct json_machine *m, struct json_frame f,
	uint32_t up, unsigned char byte, struct json_front *out)
{
	uint64_t required = node_of(m, &f)->required;

	if (f.state == IN_KEY) {
		step_key(m, f, up, byte, out);
	} else if (is_space(byte)) {
		put_space(m, f, up, out);
	} else if (byte == '}' &&
		(f.state == OPENED || f.state == VALUE_BEHIND)) {
		if (!(required & ~f.bits))
			end_value(m, up, out);
	} else if (byte == '"' && (f.state == OPENED || f.state == KEY_DUE)) {
		begin_key(m, f, up, out);
	} else if (byte == ',' && f.state == VALUE_BEHIND) {
		f.state = KEY_DUE;
		f.lex = 0;
		if (takes_more(m, &f))
			put(m, &f, up, out);
	} else if (byte == ':' && f.state == COLON_DUE) {
		f.state = VALUE_DUE;
		f.lex = 0;
		put(m, &f, up, out);
	} else if (f.state == VALUE_DUE) {
		f.lex = 0;
		begin_value(m, &f, up, property_node(m, &f), byte, out);
	}
}

static uint32_t item_node(
	const struct json_machine *m, const struct json_frame *f)
{
	const struct json_node *n = node_of(m, f);

	return f->count < n->n ? m->nodes->kid[n->first + f->count] : n->rest;
}

static void step_array(struct json_machine *m, struct json_frame f, uint32_t up,
	unsigned char byte, struct json_front *out)
{
	const struct json_node *n = node_of(m, &f);
	bool room = f.count < n->max && fits(m, item_node(m, &f), f.level);

	if (is_space(byte)) {
		put_space(m, f, up, out);
	} else if (byte == ']' && f.state != ITEM_DUE) {
		if (f.count >= n->min)
			end_value(m, up, out);
	} else if (byte == ',' && f.state == ITEM_BEHIND && room) {
		f.state = ITEM_DUE;
		f.lex = 0;
		put(m, &f, up, out);
	} else if (f.state != ITEM_BEHIND && room) {
		f.lex = 0;
		begin_value(m, &f, up, item_node(m, &f), byte, out);
	}
}

/* ---- all of it ----------------------------------------------------------- */

static void step_whole(struct json_machine *m, struct json_frame f,
	unsigned char byte, uint32_t up, struct json_front *out)
{
	if (f.state == TEXT_BEHIND)
		return;
	if (is_space(byte)) {
		put_space(m, f, up, out);
		return;
	}
	f.lex = 0;
	begin_value(m, &f, up, m->nodes->root, byte, out);
}

static void step_cell(struct json_machine *m, uint32_t cell, unsigned char byte,
	struct json_front *out)
{
	struct json_frame f = m->cell[cell].frame;
	uint32_t up = m->cell[cell].up;

	if (f.node == JSON_NONE) {
		step_whole(m, f, byte, up, out);
		return;
	}
	switch (node_of(m, &f)->kind) {
	case FORM_TEXT:
		step_text(m, f, up, byte, out);
		break;
	case FORM_STRING:
		step_string(m, f, up, byte, out);
		break;
	case FORM_OBJECT:
		step_object(m, f, up, byte, out);
		break;
	case FORM_ARRAY:
		step_array(m, f, up, byte, out);
		break;
	default:
		step_number(m, f, up, byte, out);
	}
}

void json_step(struct json_machine *m, const struct json_front *from,
	unsigned char byte, struct json_front *out)
{
	out->n = 0;
	out->left = false;
	for (unsigned i = 0; i < from->n; i++)
		step_cell(m, from->cell[i], byte, out);
}

void json_begin(struct json_machine *m, struct json_front *out)
{
	const struct json_frame f = { .node = JSON_NONE };

	out->n = 0;
	out->left = false;
	put(m, &f, JSON_FLOOR, out);
}

/* Of a string no token comes near whose bounds: as if they were just beyond
 * its reach. */
static uint32_t count_that_matters(const struct json_node *n, uint32_t count)
{
	const uint32_t far = JSON_TOKEN_BYTES + 1;

	if (count < n->min)
		return n->min - count > far ? n->min - far : count;
	if (n->max == UINT32_MAX || n->max - count <= far)
		return count;
	return n->max - far;
}

uint32_t json_alone(struct json_machine *m, uint32_t cell)
{
	struct json_frame f = m->cell[cell].frame;

	if (f.node != JSON_NONE && node_of(m, &f)->kind == FORM_STRING)
		f.count = count_that_matters(node_of(m, &f), f.count);
	return cell_of(m, &f, JSON_FLOOR);
}

void json_after(struct json_machine *m, uint32_t cell, struct json_front *out)
{
	out->n = 0;
	out->left = false;
	end_value(m, m->cell[cell].up, out);
}

static bool is_behind(const struct json_machine *m, uint32_t cell)
{
	const struct json_frame *f = &m->cell[cell].frame;

	return f->node == JSON_NONE && f->state == TEXT_BEHIND;
}

bool json_is_whole(const struct json_machine *m, const struct json_front *f)
{
	for (unsigned i = 0; i < f->n; i++)
		if (is_behind(m, f->cell[i]))
			return true;
	return false;
}

bool json_is_over(const struct json_machine *m, const struct json_front *f)
{
	for (unsigned i = 0; i < f->n; i++)
		if (!is_behind(m, f->cell[i]))
			return false;
	return f->n;
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
