/*
 * The run loop in a process of its own, seccomp filter and all, with a host
 * played by the test.
 */
#include "tests/harness.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sanitizer.h"
#include "device/fault.h"
#include "device/serve.h"
#include "ipc/channel.h"
#include "ipc/link.h"
#include "shm/buffer.h"
#include "shm/coherence.h"
#include "shm/doorbell.h"
#include "tests/device/rig.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* The host's death must show within a second; ThreadSanitizer sleeps one
 * more before it lets a process go. */
#if SANITIZER_THREAD
#define LOST_WITHIN_MS 3000
#else
#define LOST_WITHIN_MS 1000
#endif

static const struct wire_hello hello = {
	.coherence = COHERENCE_CHECK,
	.threads = 2,
	.va_slots = 4,
	.va_window = 32 << 20,
	.spin_us = 20,
};

/* In the child: what main does, less the options. */
static int child(int fd, const char *path, const char *what)
{
	struct serve_result result;
	struct fault fault;
	struct err e = { 0 };
	struct serve_opts opts = {
		.fd = fd,
		.listen = path,
		.fault = &fault,
		.sandbox = true,
	};
	int ret;

	if (fault_parse(&fault, what, &e))
		return 2;
	ret = serve(&opts, &result, &e);
	if (ret == -EPIPE)
		return 3;
	if (ret || result.violations)
		return 1;
	return result.signal ? 100 + result.signal : 0;
}

struct pair {
	pid_t pid;
	struct channel *channel;
	int link; /* a copy, to see or cause the hang-up */
	struct wire_welcome welcome;
};

static pid_t start(
	int device_fd, int host_fd, const char *path, const char *fault)
{
	pid_t pid = fork();

	if (!pid) {
		fd_close(&host_fd);
		_exit(child(device_fd, path, fault));
	}
	return pid;
}

static void pair_open(
	struct pair *p, const struct wire_hello *h, const char *fault)
{
	struct err e = { 0 };
	int fd[2];

	assert_ok(link_pair(fd, &e), &e);
	p->pid = start(fd[1], fd[0], NULL, fault);
	fd_close(&fd[1]);
	p->link = fd[0];
	assert_ok(channel_connect(&p->channel, fd[0], h, &p->welcome, &e), &e);
	channel_watch_pid(p->channel, p->pid);
}

/* The child's exit status, or 1000 + the signal that killed it. */
static int outcome(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 1000 + WTERMSIG(status);
}

static int request(
	struct pair *p, const void *msg, size_t len, struct wire_done *done)
{
	struct packet got;
	struct err e = { 0 };
	uint32_t seq;
	int ret = channel_send(p->channel, NULL, 0, msg, len, &seq, &e);

	if (!ret)
		ret = channel_recv(p->channel, &got, 5000, &e);
	if (ret)
		return ret;
	assert_int_equal(got.seq, seq);
	assert_true(got.len >= sizeof(*done));
	memcpy(done, got.msg, sizeof(*done));
	return 0;
}

static int nop(struct pair *p)
{
	struct wire_simple s = { WIRE_NOP, 0 };
	struct wire_done done;
	int ret = request(p, &s, sizeof(s), &done);

	if (!ret) {
		assert_int_equal(done.op, WIRE_NOP);
		assert_int_equal(done.status, 0);
	}
	return ret;
}

static void says_goodbye(void **state)
{
	for (uint32_t bell = 0; bell < DOORBELL_COUNT; bell++) {
		struct wire_hello h = hello;
		struct pair p;

		h.doorbell = bell;
		pair_open(&p, &h, NULL);
		assert_int_equal(p.welcome.status, 0);
		assert_int_equal(p.welcome.threads, 2);
		for (int i = 0; i < 100; i++)
			assert_int_equal(nop(&p), 0);
		channel_bye(p.channel);
		channel_close(p.channel);
		assert_int_equal(outcome(p.pid), 0);
	}
}

/* The filter is really there (2: a filter, in /proc's words). */
static void is_confined(void **state)
{
	char path[64], *text, *line;
	struct err e = { 0 };
	struct pair p;
	size_t len;

	if (SANITIZER_ADDRESS || SANITIZER_THREAD)
		skip();
	pair_open(&p, &hello, NULL);
	snprintf(path, sizeof(path), "/proc/%d/status", (int)p.pid);
	assert_ok(fd_read_file(path, 1 << 20, &text, &len, &e), &e);
	line = strstr(text, "\nSeccomp:");
	assert_non_null(line);
	assert_int_equal(strtol(line + 9, NULL, 10), 2);
	free(text);
	channel_bye(p.channel);
	channel_close(p.channel);
	assert_int_equal(outcome(p.pid), 0);
}

/* Share and map; returns the address. */
static uint32_t give(struct pair *p, uint32_t id, struct buffer *b)
{
	struct wire_map map = { WIRE_MAP, id, buffer_generation(b), 0 };
	struct wire_done done;
	struct err e = { 0 };

	assert_ok(channel_share(p->channel, id, b, &e), &e);
	assert_int_equal(request(p, &map, sizeof(map), &done), 0);
	if (done.status)
		fail_msg("map: %s", done.text);
	return done.arg[WIRE_MAP_ADDR];
}

/* The rig's model once more, in the confined process: the same bytes. */
static void runs_a_graph(void **state)
{
	struct rig_opts o = { .seed = harness_seed(),
		.precision = WIRE_F16_KV16 };
	struct wire_graph_run run = { WIRE_GRAPH_RUN, RIG_GRAPH, 8, 1, 1, 0 };
	float in[8 * 64], want[8 * 64];
	struct wire_ref ref[5 + 2 * BUFFER_RANGES];
	struct wire_done done;
	struct rig_batch b;
	struct packet got;
	struct err e = { 0 };
	struct pair p;
	struct rig r;
	unsigned n;

	pair_open(&p, &hello, NULL);
	rig_open(&r, &o);
	for (unsigned i = 0; i < ARRAY_LEN(in); i++)
		in[i] = rig_random(o.seed, 5, i);
	rig_chain(&b, 0, 8);
	assert_int_equal(rig_run(&r, &b, in, want), 0);
	r.weights_at = give(&p, 0, r.weights);
	r.kv_at = give(&p, 1, r.kv);
	r.io_at = give(&p, 2, r.io);
	assert_int_equal(request(&p, r.load, sizeof(r.load), &done), 0);
	if (done.status)
		fail_msg("load: %s", done.text);
	rig_write(&r, RIG_OUT_OFF, in, sizeof(in)); /* not left from before */
	rig_put(&r, &b, in);
	n = rig_refs(&r, ref);
	assert_ok(channel_send(p.channel, ref, n, &run, sizeof(run), NULL, &e),
		&e);
	assert_ok(channel_recv(p.channel, &got, 5000, &e), &e);
	memcpy(&done, got.msg, sizeof(done));
	if (done.status || done.text[0])
		fail_msg("run: %d %s", done.status, done.text);
	assert_memory_equal(
		buffer_begin(r.io, RIG_OUT_OFF, sizeof(want), BUFFER_READ),
		want, sizeof(want));
	channel_bye(p.channel);
	channel_close(p.channel);
	rig_close(&r);
	assert_int_equal(outcome(p.pid), 0);
}

/* A map right after its share; a buffer that never came. */
static void maps_what_was_shared(void **state)
{
	struct wire_map map = { WIRE_MAP, 3, 0, 0 };
	struct wire_simple unmap = { WIRE_UNMAP, 0 };
	struct buffer *b;
	struct wire_done done;
	struct err e = { 0 };
	struct pair p;

	pair_open(&p, &hello, NULL);
	assert_ok(buffer_create(&b, "some", 100000, 0, &e), &e);
	assert_ok(channel_share(p.channel, 3, b, &e), &e);
	map.generation = buffer_generation(b);
	assert_int_equal(request(&p, &map, sizeof(map), &done), 0);
	assert_int_equal(done.status, 0);
	unmap.arg = done.arg[WIRE_MAP_ADDR];
	assert_true(unmap.arg != 0);
	assert_int_equal(request(&p, &unmap, sizeof(unmap), &done), 0);
	assert_int_equal(done.status, 0);
	map.buffer = 4;
	assert_int_equal(request(&p, &map, sizeof(map), &done), 0);
	assert_int_equal(done.status, -ENOENT);
	assert_string_equal(done.text, "map: buffer 4 was never shared");
	channel_bye(p.channel);
	channel_close(p.channel);
	buffer_close(b);
	assert_int_equal(outcome(p.pid), 0);
}

static void host_lost(void **state)
{
	struct pair p;
	uint64_t began;

	pair_open(&p, &hello, NULL);
	assert_int_equal(nop(&p), 0);
	began = clock_ns();
	channel_close(p.channel); /* no goodbye: as if killed */
	assert_int_equal(outcome(p.pid), 3);
	assert_in_range((clock_ns() - began) / 1000000, 0, LOST_WITHIN_MS);
}

/* Only its doorbell is gone: an open link alone is no host. */
static void doorbell_lost(void **state)
{
	struct wire_hello h = hello;
	struct pair p;
	int link;

	h.doorbell = DOORBELL_SOCKET;
	pair_open(&p, &h, NULL);
	assert_int_equal(nop(&p), 0);
	link = dup(p.link);
	channel_close(p.channel);
	assert_int_equal(outcome(p.pid), 3);
	fd_close(&link);
}

/* The request never ends; the watcher sees to it. */
static void host_lost_while_busy(void **state)
{
	struct wire_simple s = { WIRE_NOP, 0 };
	struct pair p;
	uint64_t began;

	pair_open(&p, &hello, "hang-after:2");
	assert_int_equal(nop(&p), 0);
	channel_send(p.channel, NULL, 0, &s, sizeof(s), NULL, NULL);
	usleep(50000);
	began = clock_ns();
	channel_close(p.channel);
	assert_int_equal(outcome(p.pid), 3);
	assert_in_range((clock_ns() - began) / 1000000, 0, LOST_WITHIN_MS);
}

static void dies_on_order(void **state)
{
	struct pair p;

	pair_open(&p, &hello, "die-after:3");
	assert_int_equal(nop(&p), 0);
	assert_int_equal(nop(&p), 0);
	assert_int_equal(nop(&p), -EPIPE);
	channel_close(p.channel);
	assert_int_equal(outcome(p.pid), 1000 + SIGKILL);
}

static void ends_on_signal(void **state)
{
	struct pair p;

	pair_open(&p, &hello, NULL);
	assert_int_equal(nop(&p), 0);
	kill(p.pid, SIGTERM);
	assert_int_equal(outcome(p.pid), 100 + SIGTERM);
	channel_close(p.channel);
}

static void refuses_what_it_cannot_be(void **state)
{
	struct wire_hello h = hello;
	struct err e = { 0 };
	struct wire_welcome welcome;
	struct channel *c;
	int fd[2];
	pid_t pid;

	h.va_slots = 257;
	assert_ok(link_pair(fd, &e), &e);
	pid = start(fd[1], fd[0], NULL, NULL);
	fd_close(&fd[1]);
	assert_int_not_equal(channel_connect(&c, fd[0], &h, &welcome, &e), 0);
	if (!strstr(e.text, "257 mapping slots"))
		fail_msg("the refusal says '%s'", e.text);
	assert_int_equal(outcome(pid), 1);
}

static void wait_for_path(const char *path)
{
	struct stat st;

	for (int i = 0; i < 500 && stat(path, &st); i++)
		usleep(10000);
}

static void listens_once(void **state)
{
	struct err e = { 0 };
	struct stat st;
	struct pair p;
	char path[128];

	snprintf(path, sizeof(path), "%s/npu", harness_tmp());
	p.pid = start(-1, -1, path, NULL);
	wait_for_path(path);
	/* Who only looks, as another device does, is no host. */
	while (link_connect(path, &p.link, &e))
		usleep(1000);
	fd_close(&p.link);
	assert_ok(link_connect(path, &p.link, &e), &e);
	assert_ok(channel_connect(&p.channel, p.link, &hello, &p.welcome, &e),
		&e);
	assert_int_not_equal(stat(path, &st), 0);
	assert_int_equal(nop(&p), 0);
	channel_bye(p.channel);
	channel_close(p.channel);
	assert_int_equal(outcome(p.pid), 0);
}

static void listener_takes_its_path_along(void **state)
{
	struct stat st;
	char path[128];
	pid_t pid;

	snprintf(path, sizeof(path), "%s/npu", harness_tmp());
	pid = start(-1, -1, path, NULL);
	wait_for_path(path);
	kill(pid, SIGINT);
	assert_int_equal(outcome(pid), 100 + SIGINT);
	assert_int_not_equal(stat(path, &st), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(says_goodbye),
	cmocka_unit_test(is_confined),
	cmocka_unit_test(maps_what_was_shared),
	cmocka_unit_test(runs_a_graph),
	cmocka_unit_test(host_lost),
	cmocka_unit_test(doorbell_lost),
	cmocka_unit_test(host_lost_while_busy),
	cmocka_unit_test(dies_on_order),
	cmocka_unit_test(ends_on_signal),
	cmocka_unit_test(refuses_what_it_cannot_be),
	cmocka_unit_test(listens_once),
	cmocka_unit_test(listener_takes_its_path_along),
};

TEST_MAIN(tests)
