/* Steps of the JSON automaton (json_machine.h) within literals, strings and
 * numbers. */
#include "host/text/json_machine_impl.h"
#include "host/text/utf8.h"

#include <string.h>

/* ---- literals ------------------------------------------------------------ */

static unsigned char name_byte(
	const struct json_machine *m, const struct json_frame *f, uint32_t i)
{
	const struct json_node *n = machine_node_of(m, f);

	uint32_t at = m->nodes->name[n->first + i].at + f->at;

	return (unsigned char)m->nodes->text.data[at];
}

void machine_narrow(
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

bool machine_is_named(const struct json_machine *m, const struct json_frame *f)
{
	return f->lo < f->hi &&
		f->at ==
		m->nodes->name[machine_node_of(m, f)->first + f->lo].len;
}

void machine_step_text(struct json_machine *m, struct json_frame f, uint32_t up,
	unsigned char byte, struct json_front *out)
{
	uint32_t first = machine_node_of(m, &f)->first, next;

	machine_narrow(m, &f, byte);
	if (f.lo == f.hi)
		return;
	if (!machine_is_named(m, &f)) {
		machine_put(m, &f, up, out);
		return;
	}
	next = m->nodes->name[first + f.lo].node;
	if (next == JSON_NONE) {
		machine_end_value(m, up, out);
		return;
	}
	f = (struct json_frame){ .node = next, .level = f.level };
	machine_put(m, &f, up, out);
}

/* ---- strings ------------------------------------------------------------- */

static int hex(unsigned char byte)
{
	if (byte >= '0' && byte <= '9')
		return byte - '0';
	byte |= 0x20;
	return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Read a hex digit of \uXXXX. NUL and unpaired surrogates are refused. */
static uint8_t hex_digit(struct json_frame *f, unsigned char byte)
{
	int digit = hex(byte);
	uint32_t code = f->code << 4 | (uint32_t)(digit & 15);
	bool low = f->lex >= LOW1;

	if (digit < 0)
		return BROKEN;
	f->code = code;
	/* Refuse a digit after which no valid character is possible: a digit
	 * with which the second escape of a pair cannot be a low surrogate, a
	 * digit with which the first escape is a low surrogate, and the last
	 * zero of \u0000. */
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

uint8_t machine_lex_byte(struct json_frame *f, unsigned char byte)
{
	switch (f->lex) {
	case PLAIN:
		f->code = 0;
		if (byte < 0x20)
			return BROKEN;
		if (byte < 0x80)
			return byte == '\\' ? ESCAPE : PLAIN;
		if (byte < 0xc2 || byte > 0xf4)
			return BROKEN;
		f->code = byte;
		return byte < 0xe0 ? MORE1 : byte < 0xf0 ? MORE2 : MORE3;
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
		/* f->code is the first byte, or 0 after the second byte */
		if (!utf8_continues(f->code, byte))
			return BROKEN;
		f->code = 0;
		return f->lex == MORE1 ? PLAIN : f->lex - 1;
	default:
		return hex_digit(f, byte);
	}
}

void machine_step_string(struct json_machine *m, struct json_frame f,
	uint32_t up, unsigned char byte, struct json_front *out)
{
	const struct json_node *n = machine_node_of(m, &f);

	if (f.lex == PLAIN && byte == '"') {
		if (f.count >= n->min)
			machine_end_value(m, up, out);
		return;
	}
	if (f.lex == PLAIN && f.count >= n->max)
		return;
	f.lex = machine_lex_byte(&f, byte);
	if (f.lex == BROKEN)
		return;
	if (f.lex == PLAIN)
		f.count = machine_one_more(f.count, n->min, n->max);
	machine_put(m, &f, up, out);
}

/* ---- numbers ------------------------------------------------------------- */

/* Maximum number of digits of an integer. A FORM_NUMBER without bounds may have
 * this many digits before the point, and as many after the point. Integers of
 * 18 digits fit into 64 bits, and 17 digits identify any double. */
#define WHOLE_DIGITS 18
/* maximum numbers of digits of a FORM_NUMBER with bounds: BOUND_WHOLE before
 * the point, BOUND_PART after the point */
#define BOUND_WHOLE  9
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

/* Whether the digits read so far can be continued to a number within the
 * bounds. */
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

/* Returns the state after the byte, or -1 if the byte is not allowed. */
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

void machine_put_number(struct json_machine *m, const struct json_frame *f,
	uint32_t up, struct json_front *out)
{
	const struct json_node *n = machine_node_of(m, f);
	int64_t unit = n->kind == FORM_INTEGER ? 1 : JSON_MICRO, v;

	if (n->bounded && !may_reach(n, f))
		return;
	machine_put(m, f, up, out);
	if (f->state < ZERO)
		return;
	if (n->bounded) {
		/* Value of the digits read so far, in the unit of the node's
		 * bounds. */
		v = (int64_t)f->bits *
			(f->state == PART ? unit / tens[f->count] : unit);
		if (!meets(n, f->minus, v, v))
			return;
	}
	machine_end_value(m, up, out);
}

void machine_step_number(struct json_machine *m, struct json_frame f,
	uint32_t up, unsigned char byte, struct json_front *out)
{
	const struct json_node *n = machine_node_of(m, &f);
	int state = number_state(n, &f, byte);

	if (state < 0)
		return;
	if (byte >= '0' && byte <= '9') {
		f.count = f.state == state ? f.count + 1 : 1;
		if (n->bounded)
			f.bits = f.bits * 10 + (byte - '0');
	}
	f.state = (uint8_t)state;
	machine_put_number(m, &f, up, out);
}
