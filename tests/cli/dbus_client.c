/*
 * A client of the service on the session bus, for tests/cli/dbus.sh. The client
 * stays connected while the service generates the text; command-line tools for
 * D-Bus do not.
 *
 *   dbus_client OUT PROMPT MAX_TOKENS
 *
 * writes the path of the D-Bus object and a newline to OUT, the generated text
 * to standard output, and why the text ended and its number of tokens ("length
 * 8") to standard error. After an error the client writes the name and the
 * message of the error to standard error, and exits with status 1.
 */
#include <dbus/dbus.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NAME "dev.tandem.Engine1"

static int fail(DBusError *e)
{
	fprintf(stderr, "%s: %s\n", e->name, e->message);
	return 1;
}

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

static DBusMessage *request(const char *prompt, dbus_int32_t tokens)
{
	DBusMessage *m = dbus_message_new_method_call(
		NAME, "/dev/tandem/engine", NAME, "Generate");
	DBusMessageIter at, list;

	dbus_message_iter_init_append(m, &at);
	dbus_message_iter_open_container(&at, DBUS_TYPE_ARRAY, "{sv}", &list);
	put(&list, "prompt", DBUS_TYPE_STRING, &prompt);
	put(&list, "max_tokens", DBUS_TYPE_INT32, &tokens);
	dbus_message_iter_close_container(&at, &list);
	return m;
}

static void copy(int pipe)
{
	char buf[4096];
	ssize_t n;

	while ((n = read(pipe, buf, sizeof(buf))) > 0) {
		fwrite(buf, 1, (size_t)n, stdout);
		fflush(stdout);
	}
	close(pipe);
}

static int wait_end(DBusConnection *c, const char *path, DBusError *e)
{
	DBusMessage *m = dbus_message_new_method_call(
		NAME, path, "dev.tandem.Text1", "Wait");
	dbus_uint64_t tokens;
	const char *stop;

	m = dbus_connection_send_with_reply_and_block(c, m, 60000, e);
	if (!m ||
		!dbus_message_get_args(m, e, DBUS_TYPE_STRING, &stop,
			DBUS_TYPE_UINT64, &tokens, DBUS_TYPE_INVALID))
		return fail(e);
	fprintf(stderr, "%s %llu\n", stop, (unsigned long long)tokens);
	return 0;
}

int main(int argc, char **argv)
{
	DBusError e = DBUS_ERROR_INIT;
	DBusConnection *c = dbus_bus_get(DBUS_BUS_SESSION, &e);
	const char *path;
	FILE *out;
	int pipe;
	DBusMessage *m;

	if (argc != 4)
		return 2;
	if (!c)
		return fail(&e);
	m = dbus_connection_send_with_reply_and_block(c,
		request(argv[2], (dbus_int32_t)strtol(argv[3], NULL, 10)),
		60000, &e);
	if (!m ||
		!dbus_message_get_args(m, &e, DBUS_TYPE_OBJECT_PATH, &path,
			DBUS_TYPE_UNIX_FD, &pipe, DBUS_TYPE_INVALID))
		return fail(&e);
	out = fopen(argv[1], "w");
	fprintf(out, "%s\n", path);
	fclose(out);
	copy(pipe);
	return wait_end(c, path, &e);
}
