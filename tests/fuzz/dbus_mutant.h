/*
 * Mutates D-Bus messages so that the results are valid messages, too. A message
 * is read by libdbus, changed value by value, and written again. Names, paths
 * and signatures are valid in the format, but their meanings and the types of
 * values may be anything. For fuzz targets; one program includes this header
 * once.
 */
#ifndef TESTS_FUZZ_DBUS_MUTANT_H
#define TESTS_FUZZ_DBUS_MUTANT_H

#include "tests/fuzz/fuzz.h"

#include "base/checked.h"

#include <dbus/dbus.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MUTANT_DEPTH 6 /* largest depth of generated containers */

/* Words that a mutation may use in addition to the words of the message. Each
 * list ends with NULL. `faces` lists names of interfaces. */
struct mutant_words {
	const char *const *paths, *const *faces, *const *members, *const *texts;
};

struct mutant {
	const struct fuzz_draw *draw;
	const struct mutant_words *words;
	unsigned rate; /* one in `rate` values is changed */
};

static inline uint32_t mutant_below(const struct mutant *m, uint32_t n)
{
	return m->draw->below(m->draw->arg, n);
}

static inline bool mutant_changes(const struct mutant *m)
{
	return !mutant_below(m, m->rate);
}

static inline const char *mutant_word(
	const struct mutant *m, const char *const *words)
{
	uint32_t n = 0;

	while (words[n])
		n++;
	return words[mutant_below(m, n)];
}

/* Copy a string with letters exchanged, dropped or doubled, or only a part of
 * it. */
static inline void mutant_garble(
	const struct mutant *m, const char *from, char *out, size_t cap)
{
	static const char any[] = "abzAZ059_./:-~ \"\\{}[]%\x01\x7f";
	size_t n = strlen(from), at;

	n = n < cap - 2 ? n : cap - 2;
	memcpy(out, from, n);
	out[n] = '\0';
	for (uint32_t k = 1 + mutant_below(m, 3); k-- && n;) {
		at = mutant_below(m, (uint32_t)n);
		switch (mutant_below(m, 4)) {
		case 0:
			out[at] = any[mutant_below(m, sizeof(any) - 1)];
			break;
		case 1:
			memmove(out + at, out + at + 1, n - at);
			n--;
			break;
		case 2:
			if (n + 2 < cap) {
				memmove(out + at + 1, out + at, n - at + 1);
				n++;
			}
			break;
		default:
			out[n = at] = '\0';
		}
	}
}

/* ---- values -------------------------------------------------------------- */

static inline bool mutant_is_allowed(int type, const char *text)
{
	return type == DBUS_TYPE_OBJECT_PATH ? dbus_validate_path(text, NULL)
		: type == DBUS_TYPE_SIGNATURE
		? dbus_signature_validate(text, NULL)
		: dbus_validate_utf8(text, NULL);
}

static inline void mutant_string(const struct mutant *m, int type,
	const char *was, char *room, size_t cap)
{
	static const char *const kinds[] = { "s", "a{sv}", "", "aai", "(siv)",
		"a{sa{sv}}", NULL };
	const char *const *words = type == DBUS_TYPE_OBJECT_PATH
		? m->words->paths
		: type == DBUS_TYPE_STRING ? m->words->texts
					   : kinds;
	const char *text =
		was && mutant_below(m, 2) ? was : mutant_word(m, words);

	if (mutant_below(m, 2))
		mutant_garble(m, text, room, cap);
	else
		snprintf(room, cap, "%s", text);
	if (!mutant_is_allowed(type, room))
		snprintf(room, cap, "%s", mutant_word(m, words));
}

/*
 * Replace the value *v, which is the old value or zero. A number mostly becomes
 * an extreme number, such as one near a limit of an integer type, or NaN. A
 * string becomes a word or is garbled (mutant_garble).
 */
static inline void mutant_basic(const struct mutant *m, int type,
	DBusBasicValue *v, char *room, size_t cap)
{
	static const double doubles[] = { 0, -0.0, 1, 1e308, -1e308, 5e-324,
		0.5 };

	switch (type) {
	case DBUS_TYPE_STRING:
	case DBUS_TYPE_OBJECT_PATH:
	case DBUS_TYPE_SIGNATURE:
		mutant_string(m, type, v->str, room, cap);
		v->str = room;
		break;
	case DBUS_TYPE_BOOLEAN:
		v->bool_val = mutant_below(m, 2);
		break;
	case DBUS_TYPE_DOUBLE:
		switch (mutant_below(m, 4)) {
		case 0:
			v->dbl = mutant_below(m, 2) ? (double)NAN
						    : (double)INFINITY;
			break;
		case 1:
			v->dbl = (double)(int64_t)fuzz_interesting(m->draw);
			break;
		default:
			v->dbl = doubles[mutant_below(m, ARRAY_LEN(doubles))];
		}
		break;
	default:
		v->u64 = fuzz_interesting(m->draw);
	}
}

/* Choose the signature of a value. File descriptors are not generated. */
static inline const char *mutant_type(const struct mutant *m, unsigned depth)
{
	static const char *const types[] = { "s", "b", "y", "n", "q", "i", "u",
		"x", "t", "d", "o", "g", "v", "as", "av", "ai", "ay", "aas",
		"ad", "a{sv}", "a{ss}", "a{us}", "(si)", "(sv)", "a(ssss)",
		"a{sa{sv}}" };

	return types[mutant_below(
		m, depth < MUTANT_DEPTH ? ARRAY_LEN(types) : 12)];
}

static inline void mutant_make(const struct mutant *m, DBusMessageIter *to,
	DBusSignatureIter *type, unsigned depth);

static inline void mutant_make_all(const struct mutant *m, DBusMessageIter *to,
	DBusSignatureIter *types, unsigned depth)
{
	do
		mutant_make(m, to, types, depth);
	while (dbus_signature_iter_next(types));
}

static inline void mutant_make_any(
	const struct mutant *m, DBusMessageIter *to, unsigned depth)
{
	const char *type = mutant_type(m, depth);
	DBusSignatureIter types;

	dbus_signature_iter_init(&types, type);
	mutant_make(m, to, &types, depth);
}

static inline void mutant_make_variant(
	const struct mutant *m, DBusMessageIter *to, unsigned depth)
{
	const char *type = mutant_type(m, depth + 1);
	DBusSignatureIter types;
	DBusMessageIter in;

	dbus_signature_iter_init(&types, type);
	dbus_message_iter_open_container(to, DBUS_TYPE_VARIANT, type, &in);
	mutant_make(m, &in, &types, depth + 1);
	dbus_message_iter_close_container(to, &in);
}

static inline void mutant_make_container(const struct mutant *m,
	DBusMessageIter *to, DBusSignatureIter *type, unsigned depth)
{
	int kind = dbus_signature_iter_get_current_type(type);
	DBusSignatureIter inner;
	DBusMessageIter in;
	char *contained = NULL;
	uint32_t n = kind == DBUS_TYPE_ARRAY ? mutant_below(m, 4) : 1;

	dbus_signature_iter_recurse(type, &inner);
	if (kind == DBUS_TYPE_ARRAY)
		contained = dbus_signature_iter_get_signature(&inner);
	dbus_message_iter_open_container(to, kind, contained, &in);
	while (n--) {
		DBusSignatureIter each = inner;

		if (kind == DBUS_TYPE_ARRAY)
			mutant_make(m, &in, &each, depth + 1);
		else
			mutant_make_all(m, &in, &each, depth + 1);
	}
	dbus_message_iter_close_container(to, &in);
	dbus_free(contained);
}

/* Append a value of this type. */
static inline void mutant_make(const struct mutant *m, DBusMessageIter *to,
	DBusSignatureIter *type, unsigned depth)
{
	int kind = dbus_signature_iter_get_current_type(type);
	DBusBasicValue v = { 0 };
	char room[300];

	if (kind == DBUS_TYPE_VARIANT) {
		mutant_make_variant(m, to, depth);
	} else if (dbus_type_is_container(kind)) {
		mutant_make_container(m, to, type, depth);
	} else {
		mutant_basic(m, kind, &v, room, sizeof(room));
		dbus_message_iter_append_basic(to, kind, &v);
	}
}

/* ---- changing existing values -------------------------------------------- */

static inline void mutant_copy(
	const struct mutant *m, DBusMessageIter *from, DBusMessageIter *to);

static inline void mutant_copy_basic(
	const struct mutant *m, DBusMessageIter *from, DBusMessageIter *to)
{
	int type = dbus_message_iter_get_arg_type(from);
	DBusBasicValue v;
	char room[300];

	dbus_message_iter_get_basic(from, &v);
	if (mutant_changes(m))
		mutant_basic(m, type, &v, room, sizeof(room));
	dbus_message_iter_append_basic(to, type, &v);
}

/* Copy the elements of an array; some are dropped, doubled, or generated. */
static inline void mutant_copy_elements(const struct mutant *m,
	DBusMessageIter *from, DBusMessageIter *to, const char *type)
{
	DBusSignatureIter types;

	for (; dbus_message_iter_get_arg_type(from);
		dbus_message_iter_next(from)) {
		uint32_t times = mutant_changes(m) ? mutant_below(m, 3) : 1;

		while (times--)
			mutant_copy(m, from, to);
	}
	dbus_signature_iter_init(&types, type);
	if (mutant_changes(m))
		mutant_make(m, to, &types, 1);
}

static inline void mutant_copy_container(
	const struct mutant *m, DBusMessageIter *from, DBusMessageIter *to)
{
	int kind = dbus_message_iter_get_arg_type(from);
	DBusMessageIter in, out;
	char *contained = NULL;

	dbus_message_iter_recurse(from, &in);
	if (kind == DBUS_TYPE_VARIANT || kind == DBUS_TYPE_ARRAY)
		contained = dbus_message_iter_get_signature(&in);
	dbus_message_iter_open_container(to, kind, contained, &out);
	if (kind == DBUS_TYPE_ARRAY)
		mutant_copy_elements(m, &in, &out, contained);
	for (; kind != DBUS_TYPE_ARRAY && dbus_message_iter_get_arg_type(&in);
		dbus_message_iter_next(&in))
		mutant_copy(m, &in, &out);
	dbus_message_iter_close_container(to, &out);
	dbus_free(contained);
}

static inline void mutant_copy(
	const struct mutant *m, DBusMessageIter *from, DBusMessageIter *to)
{
	int type = dbus_message_iter_get_arg_type(from);

	if (type == DBUS_TYPE_VARIANT && mutant_changes(m))
		mutant_make_variant(m, to, 1);
	else if (dbus_type_is_container(type))
		mutant_copy_container(m, from, to);
	else if (type != DBUS_TYPE_UNIX_FD)
		mutant_copy_basic(m, from, to);
}

/* Copy the arguments of a message; some arguments are dropped, and new
 * arguments are inserted before or after the others. */
static inline void mutant_copy_arguments(
	const struct mutant *m, DBusMessage *from, DBusMessage *to)
{
	DBusMessageIter in, out;

	dbus_message_iter_init_append(to, &out);
	if (dbus_message_iter_init(from, &in))
		do {
			if (mutant_below(m, 16))
				mutant_copy(m, &in, &out);
			if (!mutant_below(m, 16))
				mutant_make_any(m, &out, 0);
		} while (dbus_message_iter_next(&in));
	else if (!mutant_below(m, 4))
		mutant_make_any(m, &out, 0);
}

/* ---- the header ---------------------------------------------------------- */

/* Choose a name for the header: mostly the old name, else one of the words. One
 * in 16 names is garbled, if the function `allowed` accepts the result. */
static inline const char *mutant_name(const struct mutant *m, const char *was,
	const char *const *words,
	dbus_bool_t (*allowed)(const char *, DBusError *), char *room,
	size_t cap)
{
	const char *name =
		was && mutant_below(m, 4) ? was : mutant_word(m, words);

	if (!mutant_below(m, 16)) {
		mutant_garble(m, name, room, cap);
		if (allowed(room, NULL))
			return room;
	}
	return name;
}

static inline void mutant_header(
	const struct mutant *m, DBusMessage *from, DBusMessage *to)
{
	char room[300], sender[32];

	dbus_message_set_path(to,
		mutant_name(m, dbus_message_get_path(from), m->words->paths,
			dbus_validate_path, room, sizeof(room)));
	dbus_message_set_interface(to,
		mutant_below(m, 8)
			? mutant_name(m, dbus_message_get_interface(from),
				  m->words->faces, dbus_validate_interface,
				  room, sizeof(room))
			: NULL);
	dbus_message_set_member(to,
		mutant_name(m, dbus_message_get_member(from), m->words->members,
			dbus_validate_member, room, sizeof(room)));
	snprintf(sender, sizeof(sender), ":1.%u", mutant_below(m, 4));
	dbus_message_set_sender(to, mutant_below(m, 8) ? sender : NULL);
	dbus_message_set_no_reply(to, !mutant_below(m, 8));
	dbus_message_set_auto_start(to, mutant_below(m, 8) != 0);
	dbus_message_set_serial(
		to, (dbus_uint32_t)fuzz_interesting(m->draw) | 1);
	if (!mutant_below(m, 16))
		dbus_message_set_reply_serial(to, 1 + mutant_below(m, 9));
}

/* Returns a new message that is a mutation of `from`. The caller unreferences
 * the new message. One in 32 mutations is not a method call. */
static inline DBusMessage *mutant_message(
	const struct mutant *m, DBusMessage *from)
{
	static const int others[] = { DBUS_MESSAGE_TYPE_SIGNAL,
		DBUS_MESSAGE_TYPE_METHOD_RETURN };
	DBusMessage *to = dbus_message_new(mutant_below(m, 32)
			? DBUS_MESSAGE_TYPE_METHOD_CALL
			: others[mutant_below(m, 2)]);

	if (dbus_message_get_type(to) == DBUS_MESSAGE_TYPE_METHOD_RETURN)
		dbus_message_set_reply_serial(to, 1);
	mutant_header(m, from, to);
	if (!dbus_message_get_interface(to) &&
		dbus_message_get_type(to) == DBUS_MESSAGE_TYPE_SIGNAL)
		dbus_message_set_interface(to, "a.b");
	mutant_copy_arguments(m, from, to);
	return to;
}

/* Mutate the bytes of a message in buf. Returns the new length, or 0 if the
 * bytes were not a message or the result does not fit. */
static inline size_t mutant_bytes(
	const struct mutant *m, uint8_t *buf, size_t len, size_t cap)
{
	DBusMessage *from =
		dbus_message_demarshal((const char *)buf, (int)len, NULL);
	DBusMessage *to = from ? mutant_message(m, from) : NULL;
	char *bytes = NULL;
	int n = 0;

	if (to && dbus_message_marshal(to, &bytes, &n) && (size_t)n <= cap)
		memcpy(buf, bytes, (size_t)n);
	else
		n = 0;
	dbus_free(bytes);
	if (from)
		dbus_message_unref(from);
	if (to)
		dbus_message_unref(to);
	return (size_t)n;
}

#endif
