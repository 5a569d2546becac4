/*
 * Any bytes as a message that the bus hands to the service. What libdbus takes
 * for a message, and is a method call, is answered: with a reply or an error by
 * name that libdbus can send, and of a request with what ask_read says of it.
 */
#include "tests/fuzz/fuzz.h"

#include "base/checked.h"
#include "host/serve/bus_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct ask_offer offer = { .model = "m",
	.method = "chain",
	.draft = "pld",
	.clock = "wall",
	.precision = "int8" };

static const struct server_finding findings[] = { { .name = "io_uring",
	.state = "ok",
	.found = "it is there",
	.means = "files are read by it" } };

static void check(bool holds)
{
	if (!holds)
		abort();
}

static int refuse(struct bus *b, struct ask *ask,
	const struct answer_reader *reader, struct bus_text *t, struct fault *f)
{
	fuzz_got_past();
	check(ask->n == 1 && ask->n_prompts == 1 && !ask->wants_logprobs);
	return fault_set(f, 503, "queue_full", NULL, "nothing is computed");
}

/* It can be sent. */
static void check_reply(DBusMessage *m)
{
	int len;
	char *bytes;

	check(m != NULL);
	dbus_message_set_serial(m, 1);
	check(dbus_message_marshal(m, &bytes, &len));
	dbus_free(bytes);
	if (dbus_message_get_type(m) == DBUS_MESSAGE_TYPE_ERROR)
		check(dbus_validate_error_name(
			dbus_message_get_error_name(m), NULL));
	dbus_message_unref(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct bus b = { .begin = refuse,
		.offer = &offer,
		.context = 1024,
		.findings = findings,
		.n_findings = ARRAY_LEN(findings),
		.now = { .state = "ready" } };
	DBusMessage *m =
		dbus_message_demarshal((const char *)data, (int)len, NULL);

	if (!m)
		return 0;
	if (dbus_message_get_type(m) == DBUS_MESSAGE_TYPE_METHOD_CALL)
		check_reply(bus_reply(&b, m));
	check(!b.texts && !b.busy);
	dbus_message_unref(m);
	return 0;
}

/* ---- messages to begin with ---------------------------------------------- */

static void put(DBusMessageIter *list, const char *key, int type, const void *v)
{
	const char signature[] = { (char)type, '\0' };
	DBusMessageIter entry, value;

	dbus_message_iter_open_container(
		list, DBUS_TYPE_DICT_ENTRY, NULL, &entry);
	dbus_message_iter_append_basic(&entry, DBUS_TYPE_STRING, &key);
	dbus_message_iter_open_container(
		&entry, DBUS_TYPE_VARIANT, signature, &value);
	dbus_message_iter_append_basic(&value, type, v);
	dbus_message_iter_close_container(&entry, &value);
	dbus_message_iter_close_container(list, &entry);
}

static void put_request(DBusMessage *m)
{
	const char *prompt = "Hi";
	DBusMessageIter at, list;
	int32_t tokens = 5;
	double heat = 0.5;

	dbus_message_iter_init_append(m, &at);
	dbus_message_iter_open_container(&at, DBUS_TYPE_ARRAY, "{sv}", &list);
	put(&list, "prompt", DBUS_TYPE_STRING, &prompt);
	put(&list, "seed", DBUS_TYPE_INT32, &tokens);
	put(&list, "temperature", DBUS_TYPE_DOUBLE, &heat);
	dbus_message_iter_close_container(&at, &list);
}

static const struct seed {
	const char *path, *face, *member, *text[2];
} seeds[] = {
	{ BUS_ENGINE, BUS_NAME, "Generate", { NULL } },
	{ BUS_ENGINE, BUS_NAME, "Generate", { NULL } },
	{ BUS_ENGINE, DBUS_INTERFACE_PROPERTIES, "Get",
		{ BUS_NAME, "Findings" } },
	{ BUS_ENGINE, DBUS_INTERFACE_PROPERTIES, "GetAll", { BUS_NAME } },
	{ BUS_ENGINE, DBUS_INTERFACE_INTROSPECTABLE, "Introspect", { NULL } },
	{ BUS_ROOT, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects",
		{ NULL } },
	{ BUS_TEXTS "/1", BUS_TEXT_FACE, "Wait", { NULL } },
	{ "/", DBUS_INTERFACE_INTROSPECTABLE, "Introspect", { NULL } },
};

static DBusMessage *seed_message(const struct seed *s)
{
	DBusMessage *m = dbus_message_new_method_call(
		BUS_NAME, s->path, s->face, s->member);

	if (!strcmp(s->member, "Generate"))
		put_request(m);
	for (size_t i = 0; i < 2 && s->text[i]; i++)
		dbus_message_append_args(
			m, DBUS_TYPE_STRING, &s->text[i], DBUS_TYPE_INVALID);
	dbus_message_set_serial(m, 7);
	dbus_message_set_sender(m, ":1.5");
	return m;
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	DBusMessage *m;
	char *bytes;
	int len;

	if (i >= ARRAY_LEN(seeds))
		return 0;
	m = seed_message(&seeds[i]);
	dbus_message_marshal(m, &bytes, &len);
	check((size_t)len <= cap);
	memcpy(buf, bytes, (size_t)len);
	dbus_free(bytes);
	dbus_message_unref(m);
	return (size_t)len;
}

/* Letters and numbers are others; lengths, which libdbus checks, stay. */
size_t fuzz_mutate(
	uint8_t *buf, size_t len, size_t cap, const struct fuzz_draw *d)
{
	static const char types[] = "ybnqiuxtdsogavhr(){}";

	for (uint32_t n = 1 + d->below(d->arg, 3); len && n--;) {
		size_t at = d->below(d->arg, (uint32_t)len);

		if (buf[at] >= 'a' && buf[at] <= 'z')
			buf[at] = d->below(d->arg, 2)
				? (uint8_t)('a' + d->below(d->arg, 26))
				: (uint8_t)types[d->below(
					  d->arg, sizeof(types) - 1)];
		else if (at > 12)
			buf[at] = (uint8_t)fuzz_interesting(d);
	}
	return len;
}
