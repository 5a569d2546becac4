/*
 * A server whose clients write raw requests: large requests beside small
 * requests, and paths with a NUL byte. The order of answers shows that no
 * client waits for another client; no test depends on the time that a step
 * takes.
 */
#include "host/serve/server.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "tests/harness.h"
#include "tests/host/serve/started_model.h"

#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Bytes of a prompt that takes about a second to tokenize. */
#define LARGE ((size_t)4 << 20)

struct serving {
	struct server *server;
};

static void serve(struct serving *v)
{
	char where[200];
	const struct server_options o = {
		.listen = where,
		.offer = { .model = "m",
			.method = "autoregressive",
			.clock = "wall",
			.precision = "int8" },
		.texts = 2,
		.queue = 2,
		.connections = 16,
		.idle_s = 600,
		.body_max = 2 * LARGE,
		.header_max = 64 << 10,
	};
	struct err e = { 0 };

	snprintf(where, sizeof(where), "unix:%s/socket", harness_tmp());
	assert_ok(server_open(&v->server, &o, started("texts=2"), 0, &e), &e);
}

static void end(struct serving *v)
{
	struct err e = { 0 };

	assert_ok(server_close(v->server, &e), &e);
}

/* ---- a client ------------------------------------------------------------ */

static int dial(const struct serving *v)
{
	const char *path = server_url(v->server) + strlen("unix:");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	assert_true(fd >= 0);
	assert_int_equal(
		connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static void put(int fd, const char *bytes, size_t n)
{
	while (n) {
		ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);

		assert_true(sent > 0);
		bytes += sent;
		n -= (size_t)sent;
	}
}

/* Send the last byte of a request, and wait until the server has read this
 * byte. The connection thread then handles the request before it reads from any
 * other connection. */
static void put_last(int fd, const struct strbuf *request)
{
	int unread = 1;

	put(fd, request->data + request->len - 1, 1);
	while (unread) {
		assert_int_equal(ioctl(fd, SIOCOUTQ, &unread), 0);
		usleep(100);
	}
}

/* Append a POST request to *out whose prompt is n spaces. */
static void add_spaces(struct strbuf *out, const char *path, size_t n)
{
	char block[4096];

	memset(block, ' ', sizeof(block));
	strbuf_addf(out,
		"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
		"Content-Length: %zu\r\n\r\n{\"prompt\":\"",
		path, n + 13);
	for (size_t k; n; n -= k) {
		k = n < sizeof(block) ? n : sizeof(block);
		strbuf_add(out, block, k);
	}
	strbuf_add(out, "\"}", 2);
	assert_false(out->failed);
}

/* Whether the server has sent any byte that the client has not read. */
static bool is_answered(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Read the answer until the server closes the connection. */
static void get(int fd, struct strbuf *answer)
{
	char block[4096];
	ssize_t n;

	while ((n = recv(fd, block, sizeof(block), 0)) > 0)
		strbuf_add(answer, block, (size_t)n);
	strbuf_add(answer, "", 0);
	close(fd);
}

static void expect(int fd, const char *status, const char *part)
{
	struct strbuf answer = STRBUF_INIT;

	get(fd, &answer);
	if (strncmp(answer.data, status, strlen(status)) != 0 ||
		!strstr(answer.data, part))
		fail_msg("not '%s' with '%s', but '%.400s'", status, part,
			answer.data);
	strbuf_release(&answer);
}

/* Send a GET request. Returns the socket. */
static int get_path(const struct serving *v, const char *path)
{
	struct strbuf request = STRBUF_INIT;
	int fd = dial(v);

	strbuf_addf(&request,
		"GET %s HTTP/1.1\r\nHost: localhost\r\n"
		"Connection: close\r\n\r\n",
		path);
	put(fd, request.data, request.len);
	strbuf_release(&request);
	return fd;
}

static void check_health(const struct serving *v)
{
	expect(get_path(v, "/health"), "HTTP/1.1 200", "\"ok\"");
}

/* ---- tests --------------------------------------------------------------- */

/* Small requests that arrive after a large request are answered before the
 * large request. */
static void small_requests_do_not_wait_for_a_large_one(void **state)
{
	struct strbuf large = STRBUF_INIT;
	struct serving v;
	int fd;

	serve(&v);
	add_spaces(&large, "/tokenize", LARGE);
	fd = dial(&v);
	put(fd, large.data, large.len - 1);
	put_last(fd, &large);
	for (int i = 0; i < 5; i++)
		check_health(&v);
	assert_false(is_answered(fd));
	expect(fd, "HTTP/1.1 200", "\"tokens\":[");
	strbuf_release(&large);
	end(&v);
}

/*
 * From the bytes of a prompt the server computes the smallest number of tokens
 * that the prompt can have. It counts 64 bytes per token, because no token of
 * this model is longer. A prompt with one byte more than 511 tokens of 64 bytes
 * is refused before it is tokenized, so the error states only bounds of the
 * number of tokens. Without this byte the prompt is tokenized and the error has
 * the exact number.
 */
static void a_prompt_is_refused_by_its_bytes(void **state)
{
	static const char *const why[] = {
		"room for 512 tokens; the prompt has at least 512 and up to 1",
		"room for 512 tokens; the prompt has ",
	};
	struct serving v;

	serve(&v);
	for (size_t i = 0; i < 2; i++) {
		struct strbuf request = STRBUF_INIT;
		struct strbuf answer = STRBUF_INIT;
		int fd = dial(&v);

		add_spaces(&request, "/v1/completions",
			(STARTED_CONTEXT - 1) * 64 + 1 - i);
		put(fd, request.data, request.len);
		get(fd, &answer);
		assert_non_null(strstr(answer.data, "HTTP/1.1 400"));
		assert_non_null(
			strstr(answer.data, "\"context_length_exceeded\""));
		assert_non_null(strstr(answer.data, "\"param\":\"prompt\""));
		if (!strstr(answer.data, why[i]))
			fail_msg("no '%s' in '%s'", why[i], answer.data);
		assert_int_equal(!strstr(answer.data, "at least"), i);
		strbuf_release(&request);
		strbuf_release(&answer);
	}
	end(&v);
}

/* Requests that a background thread has begun to handle get their answer; the
 * others are refused. */
static void closing_answers_large_requests(void **state)
{
	struct strbuf large = STRBUF_INIT;
	struct serving v;
	int fd[8];

	serve(&v);
	add_spaces(&large, "/tokenize", LARGE / 64);
	for (int i = 0; i < 8; i++) {
		fd[i] = dial(&v);
		put(fd[i], large.data, large.len - 1);
	}
	for (int i = 0; i < 8; i++)
		put_last(fd[i], &large);
	end(&v);
	for (int i = 0; i < 8; i++) {
		struct strbuf answer = STRBUF_INIT;

		get(fd[i], &answer);
		if (strncmp(answer.data, "HTTP/1.1 200", 12) != 0 &&
			!strstr(answer.data, "\"stopping\""))
			fail_msg("answer %d is '%.400s'", i, answer.data);
		strbuf_release(&answer);
	}
	strbuf_release(&large);
}

/* "%00" in a path stands for a NUL byte, which would end the string of the
 * path. */
static void a_path_with_a_nul_is_unknown(void **state)
{
	static const char *const paths[] = { "/state%00", "/state%00x",
		"/%73tate%00", "/%00/state", "/state%00?a=b" };
	struct serving v;

	serve(&v);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		int fd = get_path(&v, paths[i]);

		expect(fd, "HTTP/1.1 404", "\"not_found\"");
	}
	/* Other escapes in a path, and a NUL byte in the query, are allowed. */
	expect(get_path(&v, "/%73tate"), "HTTP/1.1 200", "{");
	expect(get_path(&v, "/state?a=%00"), "HTTP/1.1 200", "{");
	end(&v);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_path_with_a_nul_is_unknown),
	cmocka_unit_test(small_requests_do_not_wait_for_a_large_one),
	cmocka_unit_test(a_prompt_is_refused_by_its_bytes),
	cmocka_unit_test(closing_answers_large_requests),
};
TEST_FILE(tests)
