/* Opens, runs and closes the server: HTTP (libmicrohttpd, loaded when it is
 * needed), D-Bus, signals, and the periodic work. */
#include "host/serve/server.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/serve/bus.h"
#include "host/serve/json_memory.h"
#include "host/serve/server_impl.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* File name of libmicrohttpd in its versions 0.9.34 to 1.0. */
#define LIBRARY  "libmicrohttpd.so.12"
#define PULSE_NS 250000000
/* Maximum time, in seconds, to send the last output of texts that were canceled
 * when the server ends: HURRIED_S after a second signal, otherwise PARTING_S.
 */
#define PARTING_S        1.0
#define HURRIED_S        0.05
#define PARTING_PULSE_NS 2000000

/* ---- opening ------------------------------------------------------------- */

struct httpd httpd;

int httpd_load(struct err *e)
{
	void *library = dlopen(LIBRARY, RTLD_NOW);

	if (!library)
		return err_set(e, ENOENT,
			"cannot load libmicrohttpd (is it installed?): %s",
			dlerror());
#define X(name)                                               \
	*(void **)&httpd.name = dlsym(library, "MHD_" #name); \
	if (!httpd.name)                                      \
		return err_set(e, ENOENT, "%s lacks MHD_" #name, LIBRARY);
	HTTPD_FUNCTIONS(X)
#undef X
	return 0;
}

/* Unescape a path or query. A text with "%00" is not changed, so that such a
 * path matches no route: as a C string the unescaped path would end at the NUL
 * byte, and "/state%00x" would be answered as "/state". */
static size_t unescape(void *server, struct MHD_Connection *c, char *s)
{
	return strstr(s, "%00") ? strlen(s) : httpd.http_unescape(s);
}

static int open_http(struct server *s, struct err *e)
{
	const struct server_options *o = &s->options;
	int ret = httpd_load(e);

	if (ret)
		return ret;
	s->http = httpd.start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0,
		NULL, NULL, exchange_handle, s, MHD_OPTION_LISTEN_SOCKET,
		s->listening.fd, MHD_OPTION_NOTIFY_COMPLETED,
		exchange_completed, s, MHD_OPTION_NOTIFY_CONNECTION,
		client_notify, s, MHD_OPTION_UNESCAPE_CALLBACK, unescape, s,
		MHD_OPTION_CONNECTION_LIMIT, o->connections,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, o->header_max,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	return s->http ? 0
		       : err_sys(e, errno ? errno : ENOMEM,
				 "cannot start the HTTP "
				 "server");
}

int server_open(struct server **out, const struct server_options *o,
	struct tandem *tandem, uint64_t need, struct err *e)
{
	struct server *s = calloc(1, sizeof(*s));
	struct err closing;
	int ret;

	*out = NULL;
	if (!s) {
		if (tandem)
			tandem_end(tandem, NULL);
		return err_set(e, ENOMEM, "no memory for the server");
	}
	json_set_alloc_funcs(json_memory_alloc, free);
	s->options = *o;
	s->created = time(NULL);
	s->began_ns = clock_ns();
	s->listening.fd = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->keys_lock, NULL);
	pthread_mutex_init(&s->background.lock, NULL);
	pthread_cond_init(&s->background.work, NULL);
	ret = engines_open(s, tandem, need, e);
	if (!ret && o->listen && o->key_file)
		ret = api_keys_read(&s->keys, o->key_file, e);
	if (!ret && o->listen)
		ret = listening_open(
			&s->listening, o->listen, o->key_file || o->no_key, e);
	if (!ret && response_store_open(&s->responses))
		ret = err_set(e, ENOMEM, "no memory for the server");
	if (!ret && o->listen)
		ret = background_open(s, e);
	if (!ret && o->listen)
		ret = open_http(s, e);
	if (!ret && o->bus != SERVER_BUS_NONE)
		ret = bus_open(&s->bus, s, o->bus, e);
	if (ret)
		server_close(s, &closing);
	else
		*out = s;
	return ret;
}

const char *server_url(const struct server *s)
{
	return s->listening.url;
}

/* ---- running ------------------------------------------------------------- */

/* Replace the server's API keys by the keys in the key file. If the file cannot
 * be read, the server keeps its old keys. */
static void read_keys_again(struct server *s)
{
	struct api_keys now, before;
	struct err e = { 0 };

	if (api_keys_read(&now, s->options.key_file, &e)) {
		s->options.keys_failed(e.text);
		return;
	}
	pthread_mutex_lock(&s->keys_lock);
	before = s->keys;
	s->keys = now;
	pthread_mutex_unlock(&s->keys_lock);
	api_keys_release(&before);
}

/* Wait for SIGINT or SIGTERM for up to `ns` nanoseconds, which must be less
 * than a second. Returns the signal's number, or 0 if none arrived. */
static int wait_signal(struct server *s, long ns)
{
	const struct timespec pulse = { .tv_nsec = ns };
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (s->options.key_file)
		sigaddset(&set, SIGHUP);
	sig = sigtimedwait(&set, NULL, &pulse);
	if (sig == SIGHUP) {
		read_keys_again(s);
		return 0;
	}
	return sig > 0 ? sig : 0;
}

/*
 * The periodic work: make streams without output send comment lines, and
 * enforce the time limits of requests and connections. Returns whether any
 * request is running, and sets *lost to whether the server must end because a
 * device is lost (engines_lost).
 */
static bool look_after(struct server *s, bool *lost)
{
	uint64_t now = clock_ns();
	bool busy;

	pthread_mutex_lock(&s->lock);
	for (const struct engine_entry *e = s->engines.first; e; e = e->next)
		if (e->engine)
			engine_refuse_late(e->engine, now);
	exchanges_break_silence(s, now);
	client_show_out(s, now, 2000000000ull * s->options.idle_s);
	engines_drop_gone(s);
	*lost = engines_lost(s);
	busy = s->first || bus_is_busy(s->bus);
	pthread_mutex_unlock(&s->lock);
	return busy;
}

/* Stop accepting connections and close the listening socket. Only the first
 * call has an effect. */
static void stop_accepting(struct server *s)
{
	s->ending = true;
	if (s->http && s->listening.fd >= 0)
		httpd.quiesce_daemon(s->http);
	listening_close(&s->listening);
}

/* Wait until no request is running, but at most `seconds`. A signal also ends
 * the wait. Returns the signal's number, or 0 if none arrived. */
static int wait_for_running(struct server *s, double seconds, long pulse_ns)
{
	uint64_t until = clock_ns() + (uint64_t)(seconds * 1e9);
	int sig = 0;
	bool lost;

	while (!sig && look_after(s, &lost) && clock_ns() < until)
		sig = wait_signal(s, pulse_ns);
	return sig;
}

int server_run(struct server *s, struct err *e)
{
	bool lost = false;

	/* A server without HTTP also ends when the connection to the bus is
	 * closed, because no request can arrive any more. */
	while (!lost && (s->http || !bus_is_gone(s->bus)) &&
		!wait_signal(s, PULSE_NS))
		look_after(s, &lost);
	stop_accepting(s);
	if (!lost)
		s->hurried = wait_for_running(s, s->options.grace_s, PULSE_NS);
	return lost
		? err_set(e, ERR_DEVICE_LOST,
			  "the device process is lost and cannot be restarted")
		: 0;
}

/* ---- closing ------------------------------------------------------------- */

int server_close(struct server *s, struct err *e)
{
	int ret;

	stop_accepting(s);
	engines_stop(s);
	/* stop_daemon aborts if a connection is suspended. No connection is
	 * suspended after engines_stop and background_close. */
	background_close(s);
	if (s->http) {
		wait_for_running(s, s->hurried ? HURRIED_S : PARTING_S,
			PARTING_PULSE_NS);
		httpd.stop_daemon(s->http);
	}
	bus_close(s->bus);
	ret = engines_close(s, e);
	response_store_close(s->responses);
	api_keys_release(&s->keys);
	pthread_mutex_destroy(&s->keys_lock);
	pthread_cond_destroy(&s->background.work);
	pthread_mutex_destroy(&s->background.lock);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return ret;
}
