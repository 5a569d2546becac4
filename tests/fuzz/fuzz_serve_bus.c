/*
 * Passes arbitrary bytes to the service as a message from the bus. Every valid
 * method call, except a call that waits for generated text, must be answered at
 * once by a reply or by a named error that libdbus can send. The error for an
 * invalid request must be that of api_request_read. Most inputs are mutated
 * messages (tests/fuzz/dbus_mutant.h), because random bytes are rarely a
 * message.
 */
#include "tests/fuzz/fuzz.h"

#include "base/checked.h"
#include "host/serve/bus_impl.h"
#include "tests/fuzz/dbus_mutant.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct engine_offer offer = { .model = "m",
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

static int refuse(struct bus *b, struct api_request *api,
	const struct answer_reader *reader, struct bus_text *t, struct fault *f)
{
	check(api->n == 1 && api->n_prompts == 1 && !api->wants_logprobs);
	return fault_set(f, 429, "queue_full", NULL, "nothing is computed");
}

/* Check that a reply can be sent. */
static void check_reply(DBusMessage *m)
{
	int len;
	char *bytes;

	dbus_message_set_serial(m, 1);
	check(dbus_message_marshal(m, &bytes, &len));
	dbus_free(bytes);
	if (dbus_message_get_type(m) == DBUS_MESSAGE_TYPE_ERROR)
		check(dbus_validate_error_name(
			dbus_message_get_error_name(m), NULL));
	dbus_message_unref(m);
}

/* Set up one request that has ended and one in progress, for calls that wait
 * for a request. */
static void put_texts(struct bus *b, struct bus_text text[2])
{
	for (unsigned i = 0; i < 2; i++) {
		text[i] = (struct bus_text){ .bus = b,
			.number = i + 1,
			.pipe = -1,
			.ended = !i,
			.tokens = 5,
			.stop = "",
			.state = "writing",
			.next = b->texts };
		snprintf(text[i].path, sizeof(text[i].path), BUS_TEXTS "/%u",
			i + 1);
		b->texts = &text[i];
	}
	snprintf(text[0].stop, sizeof(text[0].stop), "length");
	snprintf(text[0].state, sizeof(text[0].state), "ended");
}

/* Answer a call. bus_reply may return no reply only if the call waits for the
 * request in progress. */
static void answer(struct bus *b, DBusMessage *call)
{
	struct bus_text text[2];
	DBusMessage *reply;

	put_texts(b, text);
	reply = bus_reply(b, call);
	check(!reply == !!text[1].waiter[0]);
	check(!text[0].waiter[0] && !text[1].waiter[1]);
	if (reply)
		check_reply(reply);
	else
		dbus_message_unref(text[1].waiter[0]);
	check(b->texts == &text[1] && !b->busy);
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
	if (dbus_message_get_type(m) == DBUS_MESSAGE_TYPE_METHOD_CALL) {
		fuzz_got_past();
		answer(&b, m);
	}
	dbus_message_unref(m);
	return 0;
}

/* ---- seed messages ------------------------------------------------------- */

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

/* Append a list of chat messages with one message of the user. */
static void put_messages(DBusMessageIter *list)
{
	static const char *const turn[] = { "role", "user", "content", "Hi" };
	const char *key = "messages";
	DBusMessageIter entry, value, turns, members, member;

	dbus_message_iter_open_container(
		list, DBUS_TYPE_DICT_ENTRY, NULL, &entry);
	dbus_message_iter_append_basic(&entry, DBUS_TYPE_STRING, &key);
	dbus_message_iter_open_container(
		&entry, DBUS_TYPE_VARIANT, "aa{ss}", &value);
	dbus_message_iter_open_container(
		&value, DBUS_TYPE_ARRAY, "a{ss}", &turns);
	dbus_message_iter_open_container(
		&turns, DBUS_TYPE_ARRAY, "{ss}", &members);
	for (size_t i = 0; i < ARRAY_LEN(turn); i += 2) {
		dbus_message_iter_open_container(
			&members, DBUS_TYPE_DICT_ENTRY, NULL, &member);
		for (size_t k = 0; k < 2; k++)
			dbus_message_iter_append_basic(
				&member, DBUS_TYPE_STRING, &turn[i + k]);
		dbus_message_iter_close_container(&members, &member);
	}
	dbus_message_iter_close_container(&turns, &members);
	dbus_message_iter_close_container(&value, &turns);
	dbus_message_iter_close_container(&entry, &value);
	dbus_message_iter_close_container(list, &entry);
}

static void put_request(DBusMessage *m, bool chat)
{
	const char *prompt = "Hi";
	DBusMessageIter at, list;
	int32_t tokens = 5;
	double heat = 0.5;

	dbus_message_iter_init_append(m, &at);
	dbus_message_iter_open_container(&at, DBUS_TYPE_ARRAY, "{sv}", &list);
	if (chat)
		put_messages(&list);
	else
		put(&list, "prompt", DBUS_TYPE_STRING, &prompt);
	put(&list, "seed", DBUS_TYPE_INT32, &tokens);
	put(&list, "temperature", DBUS_TYPE_DOUBLE, &heat);
	dbus_message_iter_close_container(&at, &list);
}

static const struct seed {
	const char *path, *face, *member, *text[2];
	bool chat;
} seeds[] = {
	{ BUS_ENGINE, BUS_NAME, "Generate", { NULL } },
	{ BUS_ENGINE, BUS_NAME, "Generate", { NULL }, .chat = true },
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
		put_request(m, s->chat);
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

/* ---- mutations ----------------------------------------------------------- */

static const char *const paths[] = { BUS_ENGINE, BUS_ROOT, BUS_TEXTS,
	BUS_TEXTS "/1", BUS_TEXTS "/2", "/", "/dev", BUS_TEXTS "/3", NULL };
static const char *const faces[] = { BUS_ENGINE_FACE, BUS_TEXT_FACE,
	DBUS_INTERFACE_PROPERTIES, DBUS_INTERFACE_INTROSPECTABLE,
	"org.freedesktop.DBus.ObjectManager", DBUS_INTERFACE_PEER, NULL };
static const char *const members[] = { "Generate", "Wait", "Cancel", "Get",
	"GetAll", "Set", "Introspect", "GetManagedObjects", "Ping", NULL };
/* Names of properties and parameters, and values. */
static const char *const texts[] = { "prompt", "messages", "model", "n",
	"max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k",
	"min_p", "repeat_penalty", "repeat_last", "seed", "stop", "logprobs",
	"top_logprobs", "stream", "stream_options", "response_format", "type",
	"json_schema", "schema", "json_object", "role", "content", "user",
	"assistant", "system", "text", "method", "draft", "clock", "precision",
	"metadata", "logit_bias", "echo", "best_of", "suffix", "tools", "m",
	"chain", "pld", "wall", "int8", "none", "auto", "", "Hi", "State",
	"Texts", "Findings", "Context", "Stop", "Error", "Tokens",
	BUS_ENGINE_FACE, BUS_TEXT_FACE, "\xf0\x9f\x98\x80", "{\"a\":", NULL };
static const struct mutant_words words = { paths, faces, members, texts };

/* Change some bytes. Most results are not a valid message. */
static size_t change_bytes(uint8_t *buf, size_t len, const struct fuzz_draw *d)
{
	for (uint32_t n = 1 + d->below(d->arg, 3); len && n--;)
		buf[d->below(d->arg, (uint32_t)len)] =
			(uint8_t)fuzz_interesting(d);
	return len;
}

size_t fuzz_mutate(
	uint8_t *buf, size_t len, size_t cap, const struct fuzz_draw *d)
{
	const struct mutant m = { d, &words, 2 + d->below(d->arg, 12) };
	size_t n = d->below(d->arg, 64) ? mutant_bytes(&m, buf, len, cap) : 0;

	return n ? n : change_bytes(buf, len, d);
}
