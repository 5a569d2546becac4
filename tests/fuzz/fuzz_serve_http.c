/*
 * Sends arbitrary bytes from a client through libmicrohttpd, the access checks,
 * the routes, and the parsing of bodies and prompts, up to the generation of
 * text. The response must be HTTP with one of the server's status codes.
 */
#include "tests/fuzz/fuzz.h"

#include "base/checked.h"
#include "base/clock.h"
#include "host/api/tandem.h"
#include "host/serve/server_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SENT_MAX (32u << 10)

static struct server server;

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void begin(void)
{
	static const struct engine_offer offer = { .model = "target",
		.method = "autoregressive",
		.clock = "wall",
		.precision = "int8" };
	struct tandem_options o;
	struct tandem *tandem;

	tandem_options_init(&o, sizeof(o));
	o.model = "flash/models/target.gguf";
	if (tandem_open(&tandem, &o)) {
		fprintf(stderr, "%s\n", tandem_error(NULL));
		exit(1);
	}
	server.options =
		(struct server_options){ .offer = offer, .body_max = 8 << 10 };
	server.listening.loopback = true;
	server.began_ns = clock_ns();
	server.ending = true; /* so that no generation begins */
	snprintf(server.listening.url, sizeof(server.listening.url),
		"http://127.0.0.1:8080");
	check(!httpd_load(NULL));
	check(!pthread_mutex_init(&server.lock, NULL));
	check(!engines_open(&server, tandem, 0, NULL));
	engines_first(&server)->context = 1024;
	server.http = httpd.start_daemon(MHD_USE_NO_LISTEN_SOCKET, 0, NULL,
		NULL, exchange_handle, &server, MHD_OPTION_NOTIFY_COMPLETED,
		exchange_completed, &server, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)16 << 10, MHD_OPTION_END);
	check(server.http != NULL);
}

/* Check a response such as "HTTP/1.1 400 ": its status must be one that the
 * server or libmicrohttpd uses. */
static void check_answer(const char *text, size_t len)
{
	static const int known[] = { 100, 200, 400, 401, 403, 404, 405, 411,
		413, 414, 431, 500, 501, 503, 505 };
	int status = 0;
	bool is = false;

	check(len < 13 || sscanf(text, "HTTP/1.%*1d %d ", &status) == 1);
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		is |= status == known[i];
	check(len < 13 || is);
}

/* Read responses until the server closes the connection. */
static void converse(int fd)
{
	char first[64] = "", rest[4096];
	size_t n = 0;
	ssize_t got = 0;

	for (int i = 0; i < 100000; i++) {
		MHD_run(server.http);
		got = recv(fd, n < 63 ? first + n : rest,
			n < 63 ? 63 - n : sizeof(rest), MSG_DONTWAIT);
		if (got == 0 || (got < 0 && errno != EAGAIN))
			break;
		if (got > 0 && n < 63)
			n += (size_t)got;
	}
	check(got == 0 || errno == ECONNRESET);
	check_answer(first, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct sockaddr a = { .sa_family = AF_UNIX };
	int fd[2];

	if (!server.http)
		begin();
	if (len > SENT_MAX)
		return 0;
	check(!socketpair(
		AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd));
	check(send(fd[0], data, len, MSG_NOSIGNAL) == (ssize_t)len);
	shutdown(fd[0], SHUT_WR);
	check(MHD_add_connection(server.http, fd[1], &a, sizeof(a)) == MHD_YES);
	converse(fd[0]);
	close(fd[0]);
	MHD_run(server.http);
	return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const char *const seeds[] = {
		"GET /health HTTP/1.1\r\nHost: localhost:8080\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: "
		"Bearer x\r\n\r\nGET /state HTTP/1.0\r\n\r\n",
		"HEAD / HTTP/1.1\r\nHost: localhost\r\nOrigin: "
		"http://localhost\r\nConnection: close\r\n\r\n",
		"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
		"Content-Length: 43\r\n\r\n{\"prompt\":\"Once upon a time\","
		"\"max_tokens\":8}",
		"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
		"Transfer-Encoding: chunked\r\n\r\n9\r\n{\"prompt\"\r\n6\r\n"
		":\"ab\"}\r\n0\r\n\r\n",
		"POST /detokenize HTTP/1.1\r\nHost: localhost\r\n"
		"Content-Length: 20\r\n\r\n{\"tokens\":[72,73,74]}",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
		"Content-Length: 60\r\nExpect: 100-continue\r\n\r\n"
		"{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
		"\"stream\":true}  ",
		"PUT /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
	};
	size_t n = i < ARRAY_LEN(seeds) ? strlen(seeds[i]) : 0;

	if (!n || n > cap)
		return 0;
	memcpy(buf, seeds[i], n);
	return n;
}
