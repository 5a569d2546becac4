/* Converts the request of a D-Bus client to JSON. */
#include "host/serve/bus_impl.h"
#include "host/serve/json_memory.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *value_of(DBusMessageIter *);

/* Returns `made` if `whole` is set (`made` is complete); otherwise releases
 * `made` and returns NULL. */
static json_t *if_whole(json_t *made, bool whole)
{
	if (whole)
		return made;
	json_decref(made);
	return NULL;
}

static json_t *list_of(DBusMessageIter *at)
{
	json_t *list = json_array();
	DBusMessageIter in;
	bool whole = list;

	dbus_message_iter_recurse(at, &in);
	for (; whole && dbus_message_iter_get_arg_type(&in);
		dbus_message_iter_next(&in))
		whole = !json_array_append_new(list, value_of(&in));
	return if_whole(list, whole);
}

/* Convert a dictionary. Returns NULL if a key is not a string, if a value has
 * no JSON value, or if memory is short. */
static json_t *object_of(DBusMessageIter *at)
{
	json_t *object = json_object();
	DBusMessageIter in, entry;
	bool whole = object;
	const char *key;

	dbus_message_iter_recurse(at, &in);
	for (; whole && dbus_message_iter_get_arg_type(&in);
		dbus_message_iter_next(&in)) {
		dbus_message_iter_recurse(&in, &entry);
		whole = dbus_message_iter_get_arg_type(&entry) ==
			DBUS_TYPE_STRING;
		if (!whole)
			break;
		dbus_message_iter_get_basic(&entry, &key);
		dbus_message_iter_next(&entry);
		whole = !json_object_set_new(object, key, value_of(&entry));
	}
	return if_whole(object, whole);
}

/* Returns the JSON value of the argument at the iterator; NULL for a D-Bus type
 * that has no JSON value. */
static json_t *value_of(DBusMessageIter *at)
{
	int type = dbus_message_iter_get_arg_type(at);
	DBusMessageIter in;
	DBusBasicValue v;

	switch (type) {
	case DBUS_TYPE_VARIANT:
		dbus_message_iter_recurse(at, &in);
		return value_of(&in);
	case DBUS_TYPE_STRUCT:
		return list_of(at);
	case DBUS_TYPE_ARRAY:
		return dbus_message_iter_get_element_type(at) ==
				DBUS_TYPE_DICT_ENTRY
			? object_of(at)
			: list_of(at);
	/* Bytes are refused: a text that is sent as an array of bytes would be
	 * mistaken for a list of token ids. */
	case DBUS_TYPE_BYTE:
	case DBUS_TYPE_UNIX_FD:
		return NULL;
	}
	dbus_message_iter_get_basic(at, &v);
	switch (type) {
	case DBUS_TYPE_STRING:
	case DBUS_TYPE_OBJECT_PATH:
	case DBUS_TYPE_SIGNATURE:
		return json_string(v.str);
	case DBUS_TYPE_BOOLEAN:
		return json_boolean(v.bool_val);
	case DBUS_TYPE_INT16:
		return json_integer(v.i16);
	case DBUS_TYPE_UINT16:
		return json_integer(v.u16);
	case DBUS_TYPE_INT32:
		return json_integer(v.i32);
	case DBUS_TYPE_UINT32:
		return json_integer(v.u32);
	case DBUS_TYPE_INT64:
		return json_integer(v.i64);
	case DBUS_TYPE_UINT64:
		return v.u64 > INT64_MAX ? NULL
					 : json_integer((json_int_t)v.u64);
	case DBUS_TYPE_DOUBLE:
		/* json_real() returns NULL for a number that is not finite */
		return json_real(v.dbl);
	default:
		return NULL;
	}
}

int bus_request_json(
	DBusMessage *call, char **json, enum api_kind *kind, struct fault *f)
{
	DBusMessageIter at;
	json_t *body;

	*json = NULL;
	if (!dbus_message_has_signature(call, "a{sv}"))
		return fault_set(f, 400, "invalid_type", NULL,
			"the argument of Generate must have the type a{sv}, "
			"not '%.64s'",
			dbus_message_get_signature(call));
	dbus_message_iter_init(call, &at);
	/* reset this thread's flag for failed allocations */
	json_memory_refused();
	body = object_of(&at);
	*kind = json_object_get(body, "messages") ? API_CHAT : API_COMPLETION;
	*json = body ? json_dumps(body, JSON_COMPACT) : NULL;
	json_decref(body);
	if (json_memory_refused() || (body && !*json)) {
		free(*json);
		*json = NULL;
		return fault_no_memory(f);
	}
	return *json ? 0
		     : fault_set(f, 400, "invalid_type", NULL,
			       "a value in the request has a D-Bus type, such "
			       "as byte, that requests cannot have");
}

void bus_error_name(const char *code, char *out, size_t cap)
{
	bool capital = true;
	size_t n;

	n = (size_t)snprintf(out, cap, "%s", BUS_ERRORS);
	for (code = code ? code : "failed"; *code && n + 1 < cap; code++) {
		if (*code != '_')
			out[n++] = (char)(capital ? toupper(*code) : *code);
		capital = *code == '_';
	}
	out[n] = '\0';
}
