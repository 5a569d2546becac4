/*
 * Tests the device's run loop in a separate process with the seccomp filter.
 * The test acts as the host.
 */
#include "tests/device/served.h"

#include "shm/buffer.h"
#include "shm/doorbell.h"
#include "tests/device/raw_host.h"
#include "tests/device/rig.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static void ends_after_a_goodbye(void **state)
{
	for (uint32_t bell = 0; bell < DOORBELL_COUNT; bell++) {
		struct wire_hello h = usual_hello;
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

/* The number after `name` in /proc/PID/status. */
static long status_number(const char *text, const char *name)
{
	const char *line = strstr(text, name);

	assert_non_null(line);
	return strtol(line + strlen(name), NULL, 10);
}

/* The filter is installed (/proc reports 2: a filter), and a program that the
 * device started could not gain rights. */
static void is_confined(void **state)
{
	char path[64], *text;
	struct err e = { 0 };
	struct pair p;
	size_t len;

	if (harness_sanitized())
		skip();
	pair_open(&p, &usual_hello, NULL);
	snprintf(path, sizeof(path), "/proc/%d/status", (int)p.pid);
	assert_ok(fd_read_file(path, 1 << 20, &text, &len, &e), &e);
	assert_int_equal(status_number(text, "\nSeccomp:"), 2);
	assert_int_equal(status_number(text, "\nNoNewPrivs:"), 1);
	free(text);
	channel_bye(p.channel);
	channel_close(p.channel);
	assert_int_equal(outcome(p.pid), 0);
}

/* In the device's process: waits for a byte, then makes a forbidden call. */
static void *break_out(void *arg)
{
	int *go = arg;
	char byte;

	if (read(*go, &byte, 1) == 1)
		(void)!open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	return NULL;
}

/* The thread that runs break_out belongs to a device that serves a host. The
 * thread is started before the sandbox. */
static void a_forbidden_call_kills_the_process(void **state)
{
	struct err e = { 0 };
	pthread_t thread;
	struct pair p;
	int fd[2], go[2];

	if (harness_sanitized())
		skip();
	assert_ok(link_pair(fd, &e), &e);
	assert_int_equal(pipe(go), 0);
	p.pid = fork();
	if (!p.pid) {
		fd_close(&fd[0]);
		fd_close(&go[1]);
		if (pthread_create(&thread, NULL, break_out, &go[0]))
			_exit(90);
		_exit(child(fd[1], NULL, true, NULL));
	}
	fd_close(&fd[1]);
	fd_close(&go[0]);
	assert_ok(channel_connect(
			  &p.channel, fd[0], &usual_hello, &p.welcome, &e),
		&e);
	assert_int_equal(nop(&p), 0);
	assert_int_equal(write(go[1], "x", 1), 1);
	assert_int_equal(outcome(p.pid), 1000 + SIGSYS);
	assert_int_equal(nop(&p), -EPIPE);
	channel_close(p.channel);
	fd_close(&go[1]);
}

/* Share and map a buffer. Returns its device address. */
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

/* The rig's model gives the same bytes in a confined device process as in the
 * process of the test. */
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

	pair_open(&p, &usual_hello, NULL);
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
	rig_write(&r, RIG_OUT_OFF, in, sizeof(in)); /* overwrite the output */
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

/* A map right after the share of its buffer succeeds; a map of a buffer that
 * was never shared fails. */
static void maps_what_was_shared(void **state)
{
	struct wire_map map = { WIRE_MAP, 3, 0, 0 };
	struct wire_simple unmap = { WIRE_UNMAP, 0 };
	struct buffer *b;
	struct wire_done done;
	struct err e = { 0 };
	struct pair p;

	pair_open(&p, &usual_hello, NULL);
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

	pair_open(&p, &usual_hello, NULL);
	assert_int_equal(nop(&p), 0);
	began = clock_ns();
	channel_close(p.channel); /* no goodbye: as if killed */
	assert_int_equal(outcome(p.pid), 3);
	assert_in_range((clock_ns() - began) / 1000000, 0, LOST_WITHIN_MS);
}

/* If the doorbell is closed, the host counts as lost, even if its link is still
 * open. */
static void doorbell_lost(void **state)
{
	struct wire_hello h = usual_hello;
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

/* The request never ends, so the device's watcher thread ends the process when
 * the host is gone. */
static void host_lost_while_busy(void **state)
{
	struct wire_simple s = { WIRE_NOP, 0 };
	struct pair p;
	uint64_t began;

	pair_open(&p, &usual_hello, "hang-after:2");
	assert_int_equal(nop(&p), 0);
	channel_send(p.channel, NULL, 0, &s, sizeof(s), NULL, NULL);
	usleep(50000);
	began = clock_ns();
	channel_close(p.channel);
	assert_int_equal(outcome(p.pid), 3);
	assert_in_range((clock_ns() - began) / 1000000, 0, LOST_WITHIN_MS);
}

static void a_planned_fault_ends_it(void **state)
{
	struct pair p;

	pair_open(&p, &usual_hello, "die-after:3");
	assert_int_equal(nop(&p), 0);
	assert_int_equal(nop(&p), 0);
	assert_int_equal(nop(&p), -EPIPE);
	channel_close(p.channel);
	assert_int_equal(outcome(p.pid), 1000 + SIGKILL);
}

static void ends_on_signal(void **state)
{
	struct pair p;

	pair_open(&p, &usual_hello, NULL);
	assert_int_equal(nop(&p), 0);
	kill(p.pid, SIGTERM);
	assert_int_equal(outcome(p.pid), 100 + SIGTERM);
	channel_close(p.channel);
}

static void refuses_unusable_configurations(void **state)
{
	struct wire_hello h = usual_hello;
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

/* ---- false messages of a host ------------------------------------------- */

/* Send a share (a message that shares a buffer) with a descriptor that does not
 * match the message. The share fails, and the device continues. */
static void lie(struct pair *p, int fd, uint64_t bytes, const char *says)
{
	struct wire_share s = { .op = WIRE_SHARE, .buffer = 6, .bytes = bytes };
	struct wire_map map = { WIRE_MAP, 6, 0, 0 };
	struct wire_done done;
	struct err e = { 0 };

	memcpy(s.name, "x\x1b[2J", 6);
	assert_ok(link_send(p->link, &s, sizeof(s), &fd, fd >= 0, &e), &e);
	assert_int_equal(request(p, &map, sizeof(map), &done), 0);
	assert_int_equal(done.status, -EINVAL);
	if (!strstr(done.text, says) || !strstr(done.text, "(x?[2J)"))
		fail_msg("'%s' does not say '%s'", done.text, says);
	assert_int_equal(nop(p), 0);
}

static void survives_false_shares(void **state)
{
	struct wire_map map = { WIRE_MAP, 5000, 0, 0 };
	struct wire_share far = { .op = WIRE_SHARE, .buffer = 5000 };
	struct wire_done done;
	struct err e = { 0 };
	struct buffer *b;
	struct pair p;
	int unsealed = memfd_create("unsealed", MFD_CLOEXEC);
	int plain = open("/dev/null", O_RDONLY | O_CLOEXEC);

	pair_open(&p, &usual_hello, NULL);
	assert_ok(buffer_create(&b, "some", 8192, 0, &e), &e);
	assert_int_equal(ftruncate(unsealed, 8192), 0);
	lie(&p, unsealed, 8192, "not sealed against shrinking");
	lie(&p, plain, 4096, "not a memfd");
	lie(&p, buffer_fd(b), 8193, "8192 bytes, but the peer announced 8193");
	lie(&p, buffer_fd(b), 0, "0 bytes, must have 1 to");
	lie(&p, buffer_fd(b), BUFFER_MAX + 1, "1073741825 bytes, must have");
	lie(&p, -1, 4096, "its descriptor did not arrive");
	assert_ok(link_send(p.link, &far, sizeof(far), &plain, 1, &e), &e);
	assert_int_equal(request(&p, &map, sizeof(map), &done), 0);
	assert_string_equal(
		done.text, "map: buffer number 5000 must be below 1024");
	give(&p, 6, b); /* the id can still be used */
	channel_bye(p.channel);
	channel_close(p.channel);
	buffer_close(b);
	fd_close(&unsealed);
	fd_close(&plain);
	assert_int_equal(outcome(p.pid), 0);
}

/* Start a device and do the handshake as a raw_host, with doorbells of the kind
 * `bell`. */
static void raw_pair(struct raw_host *h, pid_t *pid, uint32_t bell, int *bells)
{
	struct wire_hello like = usual_hello;
	struct err e = { 0 };
	int fd[2];

	like.doorbell = bell;
	assert_ok(link_pair(fd, &e), &e);
	*pid = start(fd[1], fd[0], NULL, NULL);
	fd_close(&fd[1]);
	raw_open(h, fd[0], &like, bells);
	if (h->welcome.status)
		fail_msg("%s", h->welcome.text);
}

static void raw_taken(struct raw_host *h, uint32_t number)
{
	struct wire_done done;
	uint32_t seq;

	assert_int_equal(raw_take(h, &seq, &done, 20000), 0);
	assert_int_equal(seq, number);
	assert_int_equal(done.op, WIRE_NOP);
	assert_int_equal(done.status, 0);
}

static void raw_nop(struct raw_host *h, uint32_t number)
{
	assert_int_equal(raw_simple(h, number, WIRE_NOP, 0), 0);
	raw_taken(h, number);
}

/* The host clears O_NONBLOCK of the doorbells after the device has checked this
 * flag. */
static void doorbell_made_to_block(void **state)
{
	int bells[2], pair[2];
	struct raw_host h;
	pid_t pid;

	for (uint32_t k = DOORBELL_EVENTFD; k < DOORBELL_COUNT; k++) {
		if (k == DOORBELL_SOCKET) {
			assert_int_equal(
				socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK,
					0, pair),
				0);
			memcpy(bells, pair, sizeof(bells));
		} else {
			bells[0] = eventfd(0, EFD_NONBLOCK);
			bells[1] = eventfd(0, EFD_NONBLOCK);
		}
		raw_pair(&h, &pid, k, bells);
		assert_int_equal(fcntl(bells[0], F_SETFL, 0), 0);
		assert_int_equal(fcntl(bells[1], F_SETFL, 0), 0);
		/* The device must find the request without a ring of the
		 * doorbell. */
		for (uint32_t i = 1; i <= 20; i++)
			raw_nop(&h, i);
		raw_close(&h);
		assert_int_equal(outcome(pid), 3);
		close(bells[0]);
		close(bells[1]);
	}
}

/* ---- an eventfd counter that is full ------------------------------------- */

static void fill_up(int fd)
{
	const uint64_t most = UINT64_MAX - 1;

	assert_int_equal(write(fd, &most, sizeof(most)), sizeof(most));
}

/* The counter of the eventfd that the device would ring is full before the
 * first request. The device notices this before it writes. */
static void doorbell_filled(void **state)
{
	int bells[2] = { eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK) };
	struct raw_host h;
	pid_t pid;

	raw_pair(&h, &pid, DOORBELL_EVENTFD, bells);
	assert_int_equal(fcntl(bells[1], F_SETFL, 0), 0);
	fill_up(bells[1]);
	for (uint32_t i = 1; i <= 20; i++)
		raw_nop(&h, i);
	raw_close(&h);
	assert_int_equal(outcome(pid), 3);
	close(bells[0]);
	close(bells[1]);
}

/* Let the process run to its next system call. Returns whether this call rings
 * the doorbell. */
static bool comes_to_ring(pid_t pid)
{
	struct __ptrace_syscall_info info = { 0 };
	int status;

	assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	if (!WIFSTOPPED(status))
		fail_msg("the device ended: status 0x%x", status);
	assert_true(
		ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0);
	return info.op == PTRACE_SYSCALL_INFO_ENTRY &&
		info.entry.nr == SYS_write && info.entry.args[2] == 8;
}

/* The counter of the eventfd is filled after the device has checked the
 * counter, but before the device writes to the eventfd. */
static void doorbell_filled_meanwhile(void **state)
{
	int bells[2] = { eventfd(0, EFD_NONBLOCK), eventfd(0, EFD_NONBLOCK) };
	uint64_t rung;
	const struct iovec left = { &rung, sizeof(rung) };
	struct raw_host h;
	int status;
	pid_t pid;

	raw_pair(&h, &pid, DOORBELL_EVENTFD, bells);
	assert_int_equal(fcntl(bells[1], F_SETFL, 0), 0);
	raw_nop(&h, 1);
	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD)) {
		print_message("skipped: no tracing here\n");
		skip();
	}
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_int_equal(raw_simple(&h, 2, WIRE_NOP, 0), 0);
	while (!comes_to_ring(pid))
		;
	(void)!preadv2(bells[1], &left, 1, -1, RWF_NOWAIT);
	fill_up(bells[1]);
	assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
	raw_taken(&h, 2);
	/* The counter is full from here on. */
	for (uint32_t i = 3; i <= 20; i++)
		raw_nop(&h, i);
	raw_close(&h);
	assert_int_equal(outcome(pid), 3);
	close(bells[0]);
	close(bells[1]);
}

/* Writing to a pipe without a reader does not end the device by SIGPIPE. */
static void doorbell_without_reader(void **state)
{
	int in[2], out[2], bells[2];
	struct raw_host h;
	pid_t pid;

	assert_int_equal(pipe2(in, O_NONBLOCK | O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_NONBLOCK | O_CLOEXEC), 0);
	bells[0] = in[0];
	bells[1] = out[1];
	raw_pair(&h, &pid, DOORBELL_EVENTFD, bells);
	close(out[0]);
	for (uint32_t i = 1; i <= 20; i++)
		raw_nop(&h, i);
	raw_close(&h);
	assert_int_equal(outcome(pid), 3);
	close(in[0]);
	close(in[1]);
	close(out[1]);
}

/* Writing to a closed standard error does not end the device, either. */
static void survives_a_closed_standard_error(void **state)
{
	struct err e = { 0 };
	int fd[2], said[2];
	struct pair p;

	assert_ok(link_pair(fd, &e), &e);
	assert_int_equal(pipe(said), 0);
	p.pid = fork();
	if (!p.pid) {
		fd_close(&fd[0]);
		dup2(said[1], STDERR_FILENO);
		fd_close(&said[0]);
		fd_close(&said[1]);
		_exit(child(fd[1], NULL, true, "hang-after:2"));
	}
	fd_close(&fd[1]);
	fd_close(&said[0]);
	fd_close(&said[1]);
	assert_ok(channel_connect(
			  &p.channel, fd[0], &usual_hello, &p.welcome, &e),
		&e);
	assert_int_equal(nop(&p), 0);
	channel_send(p.channel, NULL, 0, &(struct wire_simple){ WIRE_NOP, 0 },
		sizeof(struct wire_simple), NULL, NULL);
	usleep(50000);
	/* the device's watcher thread prints a message and ends the process */
	channel_close(p.channel);
	assert_int_equal(outcome(p.pid), 3);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(ends_after_a_goodbye),
	cmocka_unit_test(is_confined),
	cmocka_unit_test(a_forbidden_call_kills_the_process),
	cmocka_unit_test(maps_what_was_shared),
	cmocka_unit_test(runs_a_graph),
	cmocka_unit_test(host_lost),
	cmocka_unit_test(doorbell_lost),
	cmocka_unit_test(host_lost_while_busy),
	cmocka_unit_test(a_planned_fault_ends_it),
	cmocka_unit_test(ends_on_signal),
	cmocka_unit_test(refuses_unusable_configurations),
	cmocka_unit_test(survives_false_shares),
	cmocka_unit_test(doorbell_made_to_block),
	cmocka_unit_test(doorbell_filled),
	cmocka_unit_test(doorbell_filled_meanwhile),
	cmocka_unit_test(doorbell_without_reader),
	cmocka_unit_test(survives_a_closed_standard_error),
};

TEST_FILE(tests)
