/* The D-Bus objects of requests (interface dev.tandem.Text1). Each object
 * submits a request, writes the generated text to a pipe, and reports the
 * result. */
#include "host/serve/bus_impl.h"

#include "base/clock.h"
#include "base/fd.h"
#include "host/serve/client_id.h"
#include "host/serve/server_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- callbacks that the engine calls ------------------------------------- */

static void ring(void *arg)
{
	struct bus_text *t = arg;

	eventfd_write(t->bus->bell, 1);
}

static bool is_gone(void *arg)
{
	const struct bus_text *t = arg;

	return t->gone;
}

/* ---- adding and finding text objects ------------------------------------- */

static void text_free(struct bus_text *t)
{
	fd_close(&t->pipe);
	strbuf_release(&t->unsent);
	free(t->owner);
	free(t);
}

/* Returns a new text object with a pipe, and sets *out to the pipe's reading
 * end; the caller owns both. Returns NULL if there is no memory or no free
 * descriptor. `owner` is the client's connection name. */
static struct bus_text *text_new(struct bus *b, const char *owner, int *out)
{
	struct bus_text *t = calloc(1, sizeof(*t));
	int ends[2];

	if (!t)
		return NULL;
	t->bus = b;
	t->pipe = -1;
	t->owner = strdup(owner ? owner : "");
	if (!t->owner || pipe2(ends, O_CLOEXEC)) {
		text_free(t);
		return NULL;
	}
	*out = ends[0];
	t->pipe = ends[1];
	fcntl(t->pipe, F_SETFL, O_NONBLOCK);
	t->number = ++b->number;
	snprintf(t->path, sizeof(t->path), BUS_TEXTS "/%" PRIu64, t->number);
	snprintf(t->state, sizeof(t->state), "waiting");
	return t;
}

DBusMessage *bus_generate(struct bus *b, DBusMessage *call)
{
	struct answer_reader reader = { ring, is_gone, NULL };
	struct fault fault = { 0 };
	struct bus_text *t = NULL;
	struct api_request request = { 0 };
	enum api_kind kind;
	const char *path;
	DBusMessage *reply;
	char name[64], *json;
	int end = -1, ret = bus_request_json(call, &json, &kind, &fault);

	if (!ret)
		ret = api_request_read(
			&request, kind, json, strlen(json), &fault);
	free(json);
	if (!ret && request.n_prompts * (size_t)request.best_of != 1)
		ret = fault_set(&fault, 400, "invalid_value", "n",
			"Generate returns one text: give one prompt, and leave "
			"n and best_of at 1");
	if (!ret && request.wants_logprobs)
		ret = fault_set(&fault, 400, "unsupported_parameter",
			"logprobs",
			"logprobs are not supported on D-Bus, which returns "
			"only the generated text");
	if (!ret && !(t = text_new(b, dbus_message_get_sender(call), &end)))
		ret = fault_set(&fault, 503, "out_of_memory", NULL,
			"no memory or no file descriptor for the generated "
			"text");
	reader.arg = t;
	reader.client = t ? client_of_bytes(t->owner, strlen(t->owner)) : 0;
	if (!ret)
		ret = b->begin(b, &request, &reader, t, &fault);
	api_request_release(&request);
	if (ret) {
		if (t)
			text_free(t);
		fd_close(&end);
		bus_error_name(fault.code, name, sizeof(name));
		return dbus_message_new_error(call, name, fault.text);
	}
	reply = dbus_message_new_method_return(call);
	path = t->path;
	if (reply &&
		!dbus_message_append_args(reply, DBUS_TYPE_OBJECT_PATH, &path,
			DBUS_TYPE_UNIX_FD, &end, DBUS_TYPE_INVALID)) {
		dbus_message_unref(reply);
		reply = NULL;
	}
	fd_close(&end); /* the reply holds a duplicate of the descriptor */
	t->next = b->texts;
	b->texts = t;
	b->busy++;
	bus_texts_trim(b, BUS_ENDED_MAX);
	bus_report_added(t);
	return reply;
}

struct bus_text *bus_text_find(struct bus *b, const char *path)
{
	struct bus_text *t = b->texts;

	while (t && strcmp(t->path, path) != 0)
		t = t->next;
	return t;
}

/* ---- the end of a text, and replies to Wait calls ------------------------ */

/* Returns the reply to a Wait call on a text that has ended. */
static DBusMessage *outcome(const struct bus_text *t, DBusMessage *call)
{
	const char *stop = t->stop;
	dbus_uint64_t tokens = t->tokens;
	DBusMessage *reply;

	if (*t->error)
		return dbus_message_new_error(call, t->error, t->why);
	reply = dbus_message_new_method_return(call);
	if (reply)
		dbus_message_append_args(reply, DBUS_TYPE_STRING, &stop,
			DBUS_TYPE_UINT64, &tokens, DBUS_TYPE_INVALID);
	return reply;
}

DBusMessage *bus_text_wait(struct bus_text *t, DBusMessage *call)
{
	if (t->ended)
		return outcome(t, call);
	for (size_t i = 0; i < BUS_WAITERS; i++)
		if (!t->waiter[i]) {
			t->waiter[i] = dbus_message_ref(call);
			return NULL;
		}
	return dbus_message_new_error(call, DBUS_ERROR_LIMITS_EXCEEDED,
		"too many calls of Wait are pending for this text");
}

static void reply_to_waiters(struct bus_text *t)
{
	for (size_t i = 0; i < BUS_WAITERS; i++) {
		DBusMessage *reply =
			t->waiter[i] ? outcome(t, t->waiter[i]) : NULL;

		if (reply) {
			dbus_connection_send(t->bus->connection, reply, NULL);
			dbus_message_unref(reply);
		}
		if (t->waiter[i])
			dbus_message_unref(t->waiter[i]);
		t->waiter[i] = NULL;
	}
}

static void fail(struct bus_text *t, const char *code, const char *why)
{
	bus_error_name(code, t->error, sizeof(t->error));
	snprintf(t->why, sizeof(t->why), "%s", why);
}

/* Take new output from the answer, and set *state to the name of the text's
 * state. Returns true if the answer has ended, with t->stop or t->error set. */
static bool take(struct bus_text *t, const char **state)
{
	static const char *const stops[] = {
		[TANDEM_STOP_EOS] = "end",
		[TANDEM_STOP_STRING] = "string",
		[TANDEM_STOP_LENGTH] = "length",
		[TANDEM_STOP_CONTEXT] = "context",
	};
	const struct answer *r = t->answer;
	struct choice *c = &r->choice[0];
	unsigned stop;
	bool whole;

	pthread_mutex_lock(r->lock);
	whole = r->state == ANSWER_ENDED;
	*state = r->state == ANSWER_WAITING ? "waiting" : "writing";
	strbuf_add(&t->unsent, c->text.data, c->text.len);
	strbuf_reset(&c->text);
	t->tokens = c->tokens;
	stop = c->result.stop;
	if (*t->error)
		/* Keep this error. bus_text_advance has set it when it dropped
		 * the client, which did not read. */
		;
	else if (whole && r->fault.status)
		fail(t, r->fault.code, r->fault.text);
	else if (whole && c->ended && !c->status &&
		stop <= TANDEM_STOP_CONTEXT && stops[stop])
		snprintf(t->stop, sizeof(t->stop), "%s", stops[stop]);
	else if (whole)
		fail(t, "canceled", "the text was canceled");
	pthread_mutex_unlock(r->lock);
	return whole;
}

/* ---- writing output to the pipe ------------------------------------------ */

/* Write as much output as the pipe accepts. If the reading end is closed, the
 * text is canceled. */
static void pour(struct bus_text *t)
{
	while (t->pipe >= 0 && t->sent < t->unsent.len) {
		ssize_t n = write(t->pipe, t->unsent.data + t->sent,
			t->unsent.len - t->sent);

		if (n < 0 && errno == EAGAIN) {
			t->full_ns = t->full_ns ? t->full_ns : clock_ns();
			return;
		}
		if (n < 0 && errno != EINTR)
			bus_text_cancel(t);
		t->sent += n > 0 ? (size_t)n : 0;
		t->full_ns = 0;
	}
	strbuf_reset(&t->unsent);
	t->sent = 0;
}

void bus_text_cancel(struct bus_text *t)
{
	t->gone = true;
	fd_close(&t->pipe);
}

void bus_text_advance(struct bus_text *t)
{
	struct bus *b = t->bus;
	const char *state;
	bool whole;

	if (t->ended)
		return;
	whole = take(t, &state);
	if (t->unsent.failed)
		bus_text_cancel(t);
	/* Write before checking the time: the client may have read from the
	 * pipe while this thread was not scheduled. */
	pour(t);
	/* Drop a client that has read nothing from a full pipe for too long. */
	if (t->full_ns && t->pipe >= 0 &&
		clock_ns() - t->full_ns >= b->idle_ns) {
		snprintf(t->error, sizeof(t->error), BUS_ERRORS "Unread");
		snprintf(t->why, sizeof(t->why),
			"the pipe is full and the client has read nothing for "
			"%" PRIu64 " s (--idle)",
			b->idle_ns / 1000000000u);
		bus_text_cancel(t);
		pour(t);
		if (b->server) { /* NULL in tests */
			pthread_mutex_lock(&b->server->lock);
			b->server->dropped_unread++;
			pthread_mutex_unlock(&b->server->lock);
		}
	}
	if (whole && !t->unsent.len) {
		state = "ended";
		t->ended = true;
		fd_close(&t->pipe);
		b->busy--;
	}
	if (strcmp(state, t->state) != 0) {
		snprintf(t->state, sizeof(t->state), "%s", state);
		bus_report_text(t);
	}
	if (t->ended)
		reply_to_waiters(t);
}

/* ---- removing text objects ----------------------------------------------- */

static void text_remove(struct bus_text **at)
{
	struct bus_text *t = *at;

	*at = t->next;
	t->gone = true;
	if (!t->ended) {
		fail(t, "canceled", "the text was canceled");
		reply_to_waiters(t);
		t->bus->busy--;
	}
	engine_leave(t->answer);
	bus_report_removed(t);
	text_free(t);
}

void bus_texts_forget(struct bus *b, const char *owner)
{
	struct bus_text **at = &b->texts;

	while (*at)
		if (!strcmp((*at)->owner, owner))
			text_remove(at);
		else
			at = &(*at)->next;
}

/* The newest texts come first in the list, so the first `keep` ended texts of
 * the list remain. */
void bus_texts_trim(struct bus *b, unsigned keep)
{
	struct bus_text **at = &b->texts;
	unsigned ended = 0;

	while (*at)
		if (((*at)->ended && ++ended > keep) || !keep)
			text_remove(at);
		else
			at = &(*at)->next;
}
