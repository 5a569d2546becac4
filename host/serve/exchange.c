/*
 * One HTTP request and its answer (the exchange): checks the headers, reads the
 * body, calls the function of the route, and sends the answer as a whole or as
 * a stream.
 */
#include "base/checked.h"
#include "base/clock.h"
#include "host/serve/client_id.h"
#include "host/serve/reply_responses.h"
#include "host/serve/server_impl.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* After this time without output, a stream sends a comment line, so that the
 * client stays connected. */
#define SILENCE_NS 1000000000ull
#define BLOCK      16384
/* If a request is refused, at most REFUSED_MAX * body_max bytes of its body are
 * read. */
#define REFUSED_MAX 16

/* ---- callbacks of the engine, and waiting for an engine ------------------ */

/* Whether the connection can send something: the answer has ended, the response
 * is a stream or a stream can begin, or a comment line of a stream is due. */
static bool has_news(const struct exchange *x)
{
	const struct answer *r = x->answer;

	return r->state == ANSWER_ENDED || x->streaming || x->silent_long ||
		(r->request.stream && r->state == ANSWER_RUNNING);
}

static void resume(struct exchange *x)
{
	if (!x->suspended)
		return;
	x->suspended = false;
	httpd.resume_connection(x->connection);
}

static void wake_reader(void *arg)
{
	struct exchange *x = arg;

	if (x->suspended && !x->preparing && has_news(x))
		resume(x);
}

/* The callback `gone` of struct answer_reader. A client that has closed its
 * sending side counts as disconnected. */
static bool reader_gone(void *arg)
{
	const struct exchange *x = arg;
	struct pollfd p = { .fd = x->fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0;
}

struct answer_reader exchange_reader(struct exchange *x)
{
	return (struct answer_reader){ wake_reader, reader_gone, x, x->client };
}

static void suspend(struct exchange *x)
{
	x->suspended = true;
	httpd.suspend_connection(x->connection);
}

void exchange_set_preparing(struct exchange *x, bool preparing)
{
	pthread_mutex_lock(&x->server->lock);
	x->preparing = preparing;
	if (preparing)
		suspend(x);
	else
		resume(x);
	pthread_mutex_unlock(&x->server->lock);
}

void exchange_begin_waiting(struct exchange *x)
{
	x->waited = x->waiting = x->preparing = true;
	x->said_ns = clock_ns();
	if (!x->suspended)
		suspend(x);
}

void exchange_refuse_waiting(struct exchange *x, const struct fault *f)
{
	x->fault = *f;
	x->waiting = x->preparing = false;
	resume(x);
}

bool exchange_end_waiting(struct exchange *x)
{
	x->waiting = false;
	if (!x->streaming)
		x->said_ns = 0;
	x->goes_on = !x->suspended;
	return x->suspended;
}

bool exchange_call_route(struct exchange *x)
{
	do {
		x->must_wait = false;
		x->route->answer(x);
		if (x->must_wait && engines_wait(x))
			return false;
	} while (x->must_wait);
	engines_release(x);
	return true;
}

void exchanges_break_silence(struct server *s, uint64_t now)
{
	for (struct exchange *x = s->first; x; x = x->next) {
		bool queued =
			!x->streaming && x->answer && x->answer->request.stream;
		uint64_t since = queued ? x->answer->arrived_ns : x->said_ns;

		if (x->suspended &&
			(x->waiting ? x->wants_stream
				    : (queued || x->streaming) &&
						!x->preparing) &&
			now > since + SILENCE_NS) {
			x->silent_long = true;
			resume(x);
		}
	}
}

/* ---- sending a complete answer ------------------------------------------- */

static enum MHD_Result queue(
	struct exchange *x, int status, struct MHD_Response *r)
{
	enum MHD_Result ret;
	char seconds[16];

	if (!r)
		return MHD_NO;
	httpd.add_response_header(r, "Content-Type", x->type);
	if (x->server->ending || x->closes)
		httpd.add_response_header(r, "Connection", "close");
	if (status == 429 || status == 503) {
		snprintf(seconds, sizeof(seconds), "%u",
			x->fault.retry_s ? x->fault.retry_s : 1);
		httpd.add_response_header(r, "Retry-After", seconds);
	}
	if (status == 401)
		httpd.add_response_header(r, "WWW-Authenticate", "Bearer");
	x->status = status;
	ret = httpd.queue_response(x->connection, (unsigned)status, r);
	httpd.destroy_response(r);
	return ret;
}

/* Send x->out as the whole answer. The response takes ownership of the memory
 * of x->out. */
static enum MHD_Result send_out(struct exchange *x, int status)
{
	struct MHD_Response *r = x->out.failed
		? NULL
		: httpd.create_response_from_buffer(
			  x->out.len, x->out.data, MHD_RESPMEM_MUST_FREE);

	if (r)
		x->out = (struct strbuf)STRBUF_INIT;
	return queue(x, status, r);
}

static enum MHD_Result send_fault(struct exchange *x)
{
	strbuf_reset(&x->out);
	x->type = "application/json";
	reply_error(&x->fault, &x->out);
	return send_out(x, x->fault.status);
}

/* ---- sending a stream ---------------------------------------------------- */

static ssize_t read_stream(void *arg, uint64_t at, char *buf, size_t max)
{
	struct exchange *x = arg;
	const struct answer *r = x->answer;
	bool written = false, goes_on = false;
	size_t n;

	if (x->out_at == x->out.len && x->said_all)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (x->out_at == x->out.len) {
		strbuf_reset(&x->out);
		x->out_at = 0;
		pthread_mutex_lock(&x->server->lock);
		if (r) {
			/* All output was sent: take new output, or suspend the
			 * connection until the engine has new output. A comment
			 * line keeps a waiting client connected; parsers of
			 * event streams ignore comments. */
			for (size_t i = 0; x->said_ns && i < r->n_choices; i++)
				written |= r->choice[i].tokens > 0;
			if (x->silent_long || !x->said_ns)
				strbuf_addf(&x->out, ": %s\n\n",
					written ? "writing"
						: r->state == ANSWER_WAITING
						? "waiting"
						: "reading the prompt");
			x->said_all = reply_events(&x->reply, &x->out);
			if (x->out.len)
				x->said_ns = clock_ns();
			else if (!x->out.failed)
				suspend(x);
		} else if (x->fault.status) {
			/* The request was refused while it waited for its
			 * engine. */
			if (x->route->responses)
				response_error_event(&x->fault, &x->out);
			else
				reply_error_event(&x->fault, &x->out);
			x->said_all = true;
		} else if (x->silent_long) {
			strbuf_addf(&x->out, ": loading the model\n\n");
			x->said_ns = clock_ns();
		} else {
			goes_on = x->goes_on;
			x->goes_on = false;
			suspend(x);
		}
		x->silent_long = false;
		pthread_mutex_unlock(&x->server->lock);
	}
	if (goes_on)
		background_again(x);
	if (x->out.failed)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	n = x->out.len - x->out_at;
	if (n > max)
		n = max;
	memcpy(buf, x->out.data ? x->out.data + x->out_at : "", n);
	x->out_at += n;
	return (ssize_t)n;
}

static enum MHD_Result begin_stream(struct exchange *x)
{
	struct MHD_Response *stream = httpd.create_response_from_callback(
		MHD_SIZE_UNKNOWN, BLOCK, read_stream, x, NULL);

	x->type = "text/event-stream";
	if (stream) {
		httpd.add_response_header(stream, "Cache-Control", "no-cache");
		/* Without this header a proxy may buffer the tokens. */
		httpd.add_response_header(stream, "X-Accel-Buffering", "no");
	}
	return queue(x, MHD_HTTP_OK, stream);
}

/* ---- answering a complete request ---------------------------------------- */

/* Send the answer of the engine if there is something to send; otherwise
 * suspend the connection. */
static enum MHD_Result go_on(struct exchange *x)
{
	struct answer *r = x->answer;
	bool ready, whole = false;

	pthread_mutex_lock(&x->server->lock);
	ready = has_news(x);
	if (!ready)
		suspend(x);
	else if (r->fault.status)
		x->fault = r->fault;
	else if ((whole = !r->request.stream))
		reply_whole(&x->reply, &x->out);
	else
		x->streaming = true;
	pthread_mutex_unlock(&x->server->lock);
	if (!ready)
		return MHD_YES;
	if (x->fault.status && r->request.response)
		response_rename(&x->fault);
	if (x->fault.status)
		return send_fault(x);
	return whole ? send_out(x, MHD_HTTP_OK) : begin_stream(x);
}

/* Handle a complete request, or continue when its connection was resumed. */
static enum MHD_Result answer(struct exchange *x)
{
	bool waits;

	if (x->answer)
		return go_on(x);
	if (x->waited) {
		/* If the request still waits for its engine, the connection was
		 * resumed to begin a stream with a comment line. */
		pthread_mutex_lock(&x->server->lock);
		waits = x->waiting || x->goes_on;
		x->streaming |= waits;
		pthread_mutex_unlock(&x->server->lock);
		if (waits)
			return begin_stream(x);
	}
	if (!x->fault.status && !x->handled) {
		x->handled = true;
		if (x->body.len <= BODY_QUICK ||
			strcmp(x->route->method, "POST") != 0) {
			if (!exchange_call_route(x))
				return MHD_YES;
		} else if (background_add(x, true))
			return MHD_YES;
		else
			fault_stopping(&x->fault);
	}
	if (x->fault.status)
		return send_fault(x);
	return x->answer ? go_on(x) : send_out(x, MHD_HTTP_OK);
}

/* ---- checks of headers --------------------------------------------------- */

static const char *header(const struct exchange *x, const char *name)
{
	return httpd.lookup_connection_value(
		x->connection, MHD_HEADER_KIND, name);
}

/* Whether `host`, which may end with a port, is a name of this machine's
 * loopback interface. */
static bool is_local_host(const char *host)
{
	static const char *const names[] = { "localhost", "127.0.0.1",
		"[::1]" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t n = strlen(names[i]);

		if (!strncasecmp(host, names[i], n) &&
			(!host[n] || host[n] == ':'))
			return true;
	}
	return false;
}

/*
 * Refuse requests from pages of other web sites. Such a page, open in the
 * user's browser, can send requests to this machine. The owner of the site can
 * even let a host name of the site resolve to 127.0.0.1 (DNS rebinding).
 * Programs other than browsers send no Origin header. In requests from the
 * server's own page the Origin header has the server's address.
 */
static int check_origin(struct exchange *x)
{
	const char *host = header(x, "Host"), *origin = header(x, "Origin");
	const char *url = x->server->listening.url + strlen("http://");

	if (host && x->server->listening.loopback && !is_local_host(host) &&
		strcmp(host, url))
		return fault_set(&x->fault, 403, "host_refused", NULL,
			"this server's host name is localhost, not '%.100s'",
			host);
	if (origin && host &&
		(strncmp(origin, "http://", 7) || strcmp(origin + 7, host)))
		return fault_set(&x->fault, 403, "origin_refused", NULL,
			"web pages of '%.100s' may not send requests to this "
			"server",
			origin);
	return 0;
}

/* ---- connections --------------------------------------------------------- */

void client_notify(void *server, struct MHD_Connection *connection,
	void **client, enum MHD_ConnectionNotificationCode what)
{
	const union MHD_ConnectionInfo *fd;
	struct client *g = *client;
	struct server *s = server;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		fd = httpd.get_connection_info(
			connection, MHD_CONNECTION_INFO_CONNECTION_FD);
		/* If there is no memory for a struct client, the time of a
		 * request on this connection is not limited. */
		g = fd ? calloc(1, sizeof(*g)) : NULL;
		if (!g)
			return;
		pthread_mutex_lock(&s->lock);
		*g = (struct client){ .fd = fd->connect_fd,
			.begun = true,
			.since_ns = clock_ns(),
			.next = s->clients };
		if (g->next)
			g->next->prev = g;
		s->clients = *client = g;
		pthread_mutex_unlock(&s->lock);
	} else if (g) {
		pthread_mutex_lock(&s->lock);
		if (g->next)
			g->next->prev = g->prev;
		*(g->prev ? &g->prev->next : &s->clients) = g->next;
		pthread_mutex_unlock(&s->lock);
		free(g);
	}
}

/* Returns NULL if there was no memory for a struct client. */
static struct client *client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = httpd.get_connection_info(
		connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/* With `answered` true, record that the request of a connection is complete and
 * is being answered; with false, that the answer was sent and the next request
 * may arrive. */
static void client_answered(
	struct server *s, struct MHD_Connection *connection, bool answered)
{
	struct client *g = client_of(connection);

	/* libmicrohttpd checks its timeout before reading bytes that have
	 * already arrived, so it could close a connection whose request has
	 * already arrived. Use the timeout only while an answer is sent;
	 * client_show_out limits the time of requests. */
	httpd.set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
		answered ? s->options.idle_s : 0);
	if (!g)
		return;
	pthread_mutex_lock(&s->lock);
	g->answered = answered;
	g->begun = false;
	g->since_ns = clock_ns();
	pthread_mutex_unlock(&s->lock);
}

/* After shutdown() the HTTP thread reads an end of file from the connection and
 * closes the connection. */
void client_show_out(struct server *s, uint64_t now, uint64_t after)
{
	for (struct client *g = s->clients; g; g = g->next) {
		struct pollfd p = { .fd = g->fd, .events = POLLIN };
		bool late = !g->answered && !g->shut &&
			now > g->since_ns + after && poll(&p, 1, 0) <= 0;

		if (late && g->late) {
			shutdown(g->fd, SHUT_RDWR);
			g->shut = true;
			s->dropped_incomplete += g->begun;
		}
		g->late = late;
	}
}

/* ---- a request, from its headers to its end ------------------------------ */

/* Numbers of Content-Length headers (lengths) and Transfer-Encoding headers
 * (encodings), which define where a body ends. */
struct framing {
	unsigned lengths, encodings;
};

static enum MHD_Result count_framing(
	void *arg, enum MHD_ValueKind kind, const char *key, const char *value)
{
	struct framing *f = arg;

	f->lengths += !strcasecmp(key, "Content-Length");
	f->encodings += !strcasecmp(key, "Transfer-Encoding");
	return MHD_YES;
}

/* Whether a client with this value of the Authorization header is admitted. */
static bool admits(struct server *s, const char *key)
{
	bool admitted;

	pthread_mutex_lock(&s->keys_lock);
	admitted = api_keys_admit(&s->keys, key);
	pthread_mutex_unlock(&s->keys_lock);
	return admitted;
}

/* Called when the headers of a request are complete: create the exchange, and
 * check the parts of the request that precede the body. */
static enum MHD_Result begin(struct server *s, struct MHD_Connection *c,
	const char *url, const char *method, void **exchange)
{
	const union MHD_ConnectionInfo *fd =
		httpd.get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct client *g = client_of(c);
	struct exchange *x = calloc(1, sizeof(*x));
	const char *length, *allowed, *key;
	struct framing f = { 0 };

	if (!x || !fd) {
		free(x);
		return MHD_NO;
	}
	x->server = s;
	x->connection = c;
	x->fd = fd->connect_fd;
	x->type = "application/json";
	*exchange = x;
	pthread_mutex_lock(&s->lock);
	x->next = s->first;
	if (x->next)
		x->next->prev = x;
	s->first = x;
	if (g)
		g->begun = true;
	pthread_mutex_unlock(&s->lock);

	/* With two headers that define the length of the body, a proxy and this
	 * server may disagree where the body ends and the next request begins
	 * (request smuggling; RFC 9112, section 6.3). So read nothing more from
	 * this connection. */
	httpd.get_connection_values(c, MHD_HEADER_KIND, count_framing, &f);
	if (f.lengths + f.encodings > 1) {
		x->closes = true;
		fault_set(&x->fault, 400, "ambiguous_framing", NULL,
			"the request has %u Content-Length and %u "
			"Transfer-Encoding headers; send one of them",
			f.lengths, f.encodings);
		return send_fault(x);
	}
	length = header(x, "Content-Length");
	if (length && strtoull(length, NULL, 10) > s->options.body_max) {
		fault_set(&x->fault, 413, "body_too_large", NULL,
			"the body has %.20s bytes; this server's limit is %zu "
			"(--body-max)",
			length, s->options.body_max);
		/* A client that expects "100 Continue" has sent no body yet and
		 * is answered at once. Any other client reads the answer only
		 * after it has sent its body. */
		return header(x, "Expect") ? send_fault(x) : MHD_YES;
	}
	if (check_origin(x))
		return MHD_YES;
	key = header(x, "Authorization");
	x->route = route_find(method, url, &allowed);
	if (x->route)
		snprintf(x->name, sizeof(x->name), "%s",
			url + strlen(x->route->path));
	if (!x->route && allowed)
		fault_set(&x->fault, 405, "method_not_allowed", NULL,
			"'%.100s' accepts only the method %s", url, allowed);
	else if (!x->route)
		fault_set(&x->fault, 404, "not_found", NULL,
			"this server has no path '%.100s'", url);
	else if (!x->route->open && !admits(s, key))
		fault_set(&x->fault, 401, "invalid_api_key", NULL,
			"this server requires 'Authorization: Bearer KEY' with "
			"a key of its --api-key-file");
	else if (s->options.key_file && !x->route->open)
		x->client = client_of_bytes(key + strlen("Bearer "),
			strlen(key) - strlen("Bearer "));
	else
		x->client = client_of_socket(x->fd);
	return MHD_YES;
}

enum MHD_Result exchange_handle(void *server, struct MHD_Connection *c,
	const char *url, const char *method, const char *version,
	const char *data, size_t *size, void **exchange)
{
	struct exchange *x = *exchange;
	size_t n = *size, max;

	if (!x)
		return begin(server, c, url, method, exchange);
	if (!n) {
		client_answered(server, c, true);
		return answer(x);
	}
	/* Read the body even if the request is refused, up to a limit: a client
	 * that is still sending may otherwise not see the answer. */
	*size = 0;
	max = x->server->options.body_max;
	x->received += n;
	if (x->received > REFUSED_MAX * max)
		return MHD_NO;
	if (x->received > max && !x->fault.status)
		fault_set(&x->fault, 413, "body_too_large", NULL,
			"the body has more than %zu bytes, this server's limit "
			"(--body-max)",
			max);
	if (!x->fault.status)
		strbuf_add(&x->body, data, n);
	if (x->body.failed && !x->fault.status)
		fault_set(&x->fault, 503, "out_of_memory", NULL,
			"no memory for the body of the request");
	return MHD_YES;
}

void exchange_completed(void *server, struct MHD_Connection *c, void **exchange,
	enum MHD_RequestTerminationCode how)
{
	struct exchange *x = *exchange;
	struct server *s = server;

	if (!x)
		return;
	*exchange = NULL;
	if (how == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		client_answered(s, c, false);
	pthread_mutex_lock(&s->lock);
	if (how == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED)
		s->dropped_unread++;
	if (x->next)
		x->next->prev = x->prev;
	*(x->prev ? &x->prev->next : &s->first) = x->next;
	pthread_mutex_unlock(&s->lock);
	metrics_count(s, x->route, x->status);
	if (x->answer)
		engine_leave(x->answer);
	engines_leave(x);
	reply_release(&x->reply);
	strbuf_release(&x->body);
	strbuf_release(&x->out);
	free(x);
}
