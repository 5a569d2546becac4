/* Steps of the JSON automaton (json_machine.h) within objects and arrays. */
#include "host/text/json_machine_impl.h"

/* Whether any of the names lo .. hi - 1 can still be used: the name is not
 * present yet, and its value can be completed. */
static bool may_be_named(const struct json_machine *m,
	const struct json_frame *f, uint32_t lo, uint32_t hi)
{
	const struct json_node *n = machine_node_of(m, f);

	for (uint32_t i = lo; i < hi; i++)
		if (!(f->bits >> i & 1) &&
			machine_fits(
				m, m->nodes->name[n->first + i].node, f->level))
			return true;
	return false;
}

/* Advance within a key. In keys each character can be written in one way only
 * (no \u and no \/); otherwise a key that the schema does not name, written
 * with escapes, could be equal to a named key. */
static void step_key(struct json_machine *m, struct json_frame f, uint32_t up,
	unsigned char byte, struct json_front *out)
{
	const struct json_node *n = machine_node_of(m, &f);
	bool open = machine_fits(m, n->rest, f.level);
	bool ends = f.lex == PLAIN && byte == '"';

	if (f.lo < f.hi)
		machine_narrow(m, &f, byte);
	if (ends) {
		bool named = machine_is_named(m, &f);

		if (named ? !may_be_named(m, &f, f.lo, f.lo + 1u) : !open)
			return;
		/* index of the property; n->n stands for a property that the
		 * schema does not name */
		f.count = named ? f.lo : n->n;
		f.state = COLON_DUE;
		f.lex = 0;
		f.lo = f.hi = 0;
		f.at = 0;
		machine_put(m, &f, up, out);
		return;
	}
	if (f.lex == ESCAPE && (byte == 'u' || byte == '/'))
		return;
	f.lex = machine_lex_byte(&f, byte);
	if (f.lex != BROKEN && (open || may_be_named(m, &f, f.lo, f.hi)))
		machine_put(m, &f, up, out);
}

void machine_step_object(struct json_machine *m, struct json_frame f,
	uint32_t up, unsigned char byte, struct json_front *out)
{
	const struct json_node *n = machine_node_of(m, &f);
	bool key = byte == '"' && (f.state == OPENED || f.state == KEY_DUE);

	if (f.state == IN_KEY) {
		step_key(m, f, up, byte, out);
	} else if (machine_is_space(byte)) {
		machine_put_space(m, f, up, out);
	} else if (byte == '}' &&
		(f.state == OPENED || f.state == VALUE_AFTER)) {
		if (!(n->required & ~f.bits))
			machine_end_value(m, up, out);
	} else if (key || (byte == ',' && f.state == VALUE_AFTER)) {
		f.state = key ? IN_KEY : KEY_DUE;
		/* In a key, 0 is the state PLAIN. Elsewhere f.lex is the length
		 * of a run of white space. */
		f.lex = 0;
		f.lo = 0;
		f.hi = key ? (uint16_t)n->n : 0;
		f.at = 0;
		/* A comma is allowed only if another property is possible. */
		if (machine_fits(m, n->rest, f.level) ||
			may_be_named(m, &f, 0, n->n))
			machine_put(m, &f, up, out);
	} else if (byte == ':' && f.state == COLON_DUE) {
		f.state = VALUE_DUE;
		f.lex = 0;
		machine_put(m, &f, up, out);
	} else if (f.state == VALUE_DUE) {
		f.lex = 0;
		machine_begin_value(m, &f, up,
			f.count < n->n ? m->nodes->name[n->first + f.count].node
				       : n->rest,
			byte, out);
	}
}

void machine_step_array(struct json_machine *m, struct json_frame f,
	uint32_t up, unsigned char byte, struct json_front *out)
{
	const struct json_node *n = machine_node_of(m, &f);
	uint32_t item =
		f.count < n->n ? m->nodes->kid[n->first + f.count] : n->rest;
	bool room = f.count < n->max && machine_fits(m, item, f.level);

	if (machine_is_space(byte)) {
		machine_put_space(m, f, up, out);
	} else if (byte == ']' && f.state != ITEM_DUE) {
		if (f.count >= n->min)
			machine_end_value(m, up, out);
	} else if (byte == ',' && f.state == ITEM_AFTER && room) {
		f.state = ITEM_DUE;
		f.lex = 0;
		machine_put(m, &f, up, out);
	} else if (f.state != ITEM_AFTER && room) {
		f.lex = 0;
		machine_begin_value(m, &f, up, item, byte, out);
	}
}
