/*
 * Channels between two processes: the test is the host and forks a device,
 * or the other way round where it is the host that dies.
 */
#include "tests/harness.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/rng.h"
#include "ipc/channel.h"
#include "ipc/channel_impl.h"
#include "ipc/link.h"
#include "shm/buffer.h"
#include "shm/coherence.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000000ull

static struct wire_hello hello_of(enum doorbell_kind kind)
{
	return (struct wire_hello){
		.doorbell = (uint32_t)kind,
		.coherence = COHERENCE_STRICT,
		.threads = 1,
		.va_slots = 16,
		.va_window = 64 << 20,
		.spin_us = 50,
	};
}

/* ---- the other process --------------------------------------------- */

struct peer {
	pid_t pid;
	int link; /* our end */
};

/* Fork fn(link, arg); what it returns is the exit status. */
static struct peer peer_start(int (*fn)(int link, int arg), int arg)
{
	struct err e = { 0 };
	struct peer p;
	int l[2];

	assert_ok(link_pair(l, &e), &e);
	p.pid = fork();
	assert_true(p.pid >= 0);
	if (!p.pid) {
		close(l[0]);
		_exit(fn(l[1], arg));
	}
	close(l[1]);
	p.link = l[0];
	return p;
}

static int peer_wait(const struct peer *p)
{
	int status = -1;

	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	return status;
}

static struct channel *connect_to(const struct peer *p, enum doorbell_kind kind)
{
	struct wire_hello h = hello_of(kind);
	struct wire_welcome w;
	struct channel *c = NULL;
	struct err e = { 0 };

	assert_ok(channel_connect(&c, p->link, &h, &w, &e), &e);
	assert_int_equal(w.status, 0);
	assert_int_equal(w.device_pid, p->pid);
	channel_watch_pid(c, p->pid);
	return c;
}

static struct channel *accept_from(int link)
{
	struct wire_welcome w = { .threads = 1 };
	struct channel *c;
	struct wire_hello h;

	if (channel_accept(&c, link, &h, NULL) || channel_welcome(c, &w, NULL))
		_exit(90);
	return c;
}

static int echo(int link, int count)
{
	struct channel *c = accept_from(link);
	struct wire_share s;
	struct packet p;
	int fd;

	for (int n = 0; n != count;) {
		int ret = channel_recv(c, &p, -1, NULL);

		if (ret == -EAGAIN)
			ret = channel_next_share(c, &s, &fd, NULL);
		else if (!ret && ++n)
			ret = channel_send(c, p.refs, p.n_refs, p.msg, p.len,
				&p.seq, NULL);
		if (ret == -ECONNRESET)
			break;
		if (ret < 0)
			return 91;
	}
	channel_close(c);
	return 0;
}

/* ---- packets there and back ---------------------------------------- */

#define PACKETS 10000u
#define BODY    9000u
#define WINDOW  5u

static uint32_t draw(uint64_t seed, uint64_t n)
{
	uint32_t w[4];

	rng_words(seed, 0x6368, n, w);
	return w[0];
}

/* The message of packet n: its length and its bytes follow from n. */
static size_t message(uint64_t seed, uint64_t n, uint8_t *out)
{
	uint32_t w = draw(seed, n);
	size_t len = w % 7 ? 8 + w % 200 : 8 + w % (BODY - 8);

	for (size_t i = 0; i < len; i++)
		out[i] = (uint8_t)(w + i * 3);
	/* Often with zeros at the end: they are not sent. */
	if (w & 1 << 20)
		memset(out + len / 2, 0, len - len / 2);
	return len;
}

static void expect_echo(struct channel *c, uint64_t seed, uint32_t n)
{
	static uint8_t want[BODY + 512];
	struct wire_ref ref = { .addr = n, .len = 1, .cpu_seq = n };
	struct err e = { 0 };
	struct packet p;
	size_t len;

	memset(want, 0, sizeof(want));
	len = message(seed, n, want);
	assert_ok(channel_recv(c, &p, 5000, &e), &e);
	assert_int_equal(p.seq, n + 1);
	assert_int_equal(p.n_refs, n % 3 == 0);
	if (p.n_refs)
		assert_memory_equal(p.refs, &ref, sizeof(ref));
	assert_true(p.len >= len || p.n_refs == 0);
	assert_true(p.len >= sizeof(struct wire_done));
	assert_memory_equal(p.msg, want, p.len);
	for (size_t i = p.len; i < len; i++)
		assert_int_equal(want[i], 0);
}

static void exchange(enum doorbell_kind kind)
{
	uint64_t seed = harness_seed();
	struct peer peer = peer_start(echo, -1);
	struct channel *c = connect_to(&peer, kind);
	struct channel_stats stats;
	static uint8_t msg[BODY];
	struct err e = { 0 };

	for (uint32_t n = 0; n < PACKETS + WINDOW; n++) {
		struct wire_ref ref = { .addr = n, .len = 1, .cpu_seq = n };
		uint32_t seq;

		if (n >= WINDOW)
			expect_echo(c, seed, n - WINDOW);
		if (n >= PACKETS)
			continue;
		assert_ok(channel_send(c, &ref, n % 3 == 0, msg,
				  message(seed, n, msg), &seq, &e),
			&e);
		assert_int_equal(seq, n + 1);
	}
	channel_stats(c, &stats);
	assert_int_equal(stats.sent, PACKETS);
	assert_int_equal(stats.received, PACKETS);
	channel_bye(c);
	assert_int_equal(peer_wait(&peer), 0);
	channel_close(c);
}

static void test_exchange_poll(void **state)
{
	exchange(DOORBELL_POLL);
}

static void test_exchange_eventfd(void **state)
{
	exchange(DOORBELL_EVENTFD);
}

static void test_exchange_socket(void **state)
{
	exchange(DOORBELL_SOCKET);
}

static void test_message_sizes(void **state)
{
	struct peer peer = peer_start(echo, -1);
	struct channel *c = connect_to(&peer, DOORBELL_POLL);
	static uint8_t big[CHANNEL_RING_BYTES];
	size_t most = CHANNEL_RING_BYTES / 2 - sizeof(struct wire_header);
	struct wire_ref refs[WIRE_MAX_REFS + 1] = { 0 };
	struct err e = { 0 };
	struct packet p;

	memset(big, 0x5a, sizeof(big));
	assert_int_equal(channel_send(c, NULL, 0, big, 3, NULL, &e), -EMSGSIZE);
	assert_int_equal(
		channel_send(c, NULL, 0, big, most + 1, NULL, &e), -EMSGSIZE);
	assert_int_equal(
		channel_send(c, refs, 1, big, most, NULL, &e), -EMSGSIZE);
	assert_int_equal(
		channel_send(c, refs, WIRE_MAX_REFS + 1, big, 8, NULL, &e),
		-EMSGSIZE);
	assert_ok(channel_send(c, NULL, 0, big, most, NULL, &e), &e);
	assert_ok(channel_recv(c, &p, 5000, &e), &e);
	assert_int_equal(p.len, most);
	assert_memory_equal(p.msg, big, most);
	assert_ok(channel_send(c, refs, WIRE_MAX_REFS, big, 8, NULL, &e), &e);
	assert_ok(channel_recv(c, &p, 5000, &e), &e);
	assert_int_equal(p.n_refs, WIRE_MAX_REFS);
	channel_bye(c);
	assert_int_equal(peer_wait(&peer), 0);
	channel_close(c);
}

static void test_recv_limits(void **state)
{
	struct peer peer = peer_start(echo, -1);
	struct channel *c = connect_to(&peer, DOORBELL_EVENTFD);
	uint64_t began = clock_ns();
	struct err e = { 0 };
	struct packet p;

	assert_int_equal(channel_recv(c, &p, 0, &e), -EAGAIN);
	assert_int_equal(channel_recv(c, &p, 120, &e), -EAGAIN);
	assert_in_range(clock_ns() - began, 119 * MS, 2000 * MS);
	channel_bye(c);
	assert_int_equal(peer_wait(&peer), 0);
	channel_close(c);
}

/* ---- no system call on the data path ------------------------------- */

#define QUIET_PACKETS 2000

/* From here on any system call but the last is this process's death. */
static void be_quiet(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(99);
}

/* Without what a sanitizer does at an ordinary end. */
static void quiet_exit(int status)
{
	syscall(SYS_exit_group, status);
}

static int quiet_echo(int link, int arg)
{
	struct channel *c = accept_from(link);
	struct packet p;
	int ret = 0;

	be_quiet();
	for (int n = 0; n < QUIET_PACKETS && !ret; n++) {
		ret = channel_recv(c, &p, -1, NULL);
		if (!ret)
			ret = channel_send(
				c, NULL, 0, p.msg, p.len, &p.seq, NULL);
	}
	quiet_exit(ret != 0);
	return 1;
}

static int quiet_clock(int link, int arg)
{
	be_quiet();
	quiet_exit(clock_ns() == 0);
	return 1;
}

/* The filter does kill. */
static int quiet_sleep(int link, int arg)
{
	be_quiet();
	usleep(1);
	quiet_exit(0);
	return 0;
}

static bool quiet_try(void)
{
	struct peer peer = peer_start(quiet_echo, 0);
	struct wire_hello h = hello_of(DOORBELL_POLL);
	struct wire_simple nop = { WIRE_NOP, 0 };
	struct wire_welcome w;
	struct err e = { 0 };
	struct channel *c;
	struct packet p;
	int ret = 0;

	h.spin_us = 5000000;
	assert_ok(channel_connect(&c, peer.link, &h, &w, &e), &e);
	for (int n = 0; n < QUIET_PACKETS && !ret; n++) {
		ret = channel_send(c, NULL, 0, &nop, sizeof(nop), NULL, &e);
		if (!ret)
			ret = channel_recv(c, &p, -1, &e);
	}
	channel_close(c);
	return !peer_wait(&peer) && !ret;
}

static void test_poll_makes_no_system_call(void **state)
{
	struct peer peer = peer_start(quiet_sleep, 0);
	int tries = 0;

	close(peer.link);
	assert_true(WIFSIGNALED(peer_wait(&peer)));
	peer = peer_start(quiet_clock, 0);
	close(peer.link);
	if (peer_wait(&peer)) {
		print_message("skipped: the clock needs a system call here\n");
		skip();
	}
	/* A peer off its processor for 50 ms is looked after: try again. */
	while (!quiet_try())
		assert_true(++tries < 5);
}

/* ---- death --------------------------------------------------------- */

static int dies_at_once(int link, int arg)
{
	return 0;
}

static int dies_after_hello(int link, int arg)
{
	struct wire_hello h;
	struct channel *c;

	return channel_accept(&c, link, &h, NULL) ? 1 : 0;
}

/* Answers `count` packets, then is killed while the host waits. */
static int dies_waiting(int link, int count)
{
	struct channel *c = accept_from(link);
	struct packet p;

	for (int i = 0; i < count; i++)
		if (channel_recv(c, &p, -1, NULL) ||
			channel_send(c, NULL, 0, p.msg, p.len, &p.seq, NULL))
			return 92;
	usleep(30000);
	raise(SIGKILL);
	return 93;
}

static void test_device_dies_in_handshake(void **state)
{
	int (*const fn[])(int, int) = { dies_at_once, dies_after_hello };

	for (size_t i = 0; i < 2; i++) {
		struct peer peer = peer_start(fn[i], 0);
		struct wire_hello h = hello_of(DOORBELL_EVENTFD);
		uint64_t began = clock_ns();
		struct channel *c = NULL;
		struct wire_welcome w;
		struct err e = { 0 };

		assert_int_equal(
			channel_connect(&c, peer.link, &h, &w, &e), -EPIPE);
		assert_null(c);
		assert_non_null(strstr(e.text, "handshake"));
		assert_true(clock_ns() - began < 1000 * MS);
		assert_int_equal(peer_wait(&peer), 0);
		assert_int_equal(fcntl(peer.link, F_GETFD), -1);
	}
}

static void test_device_dies_while_awaited(void **state)
{
	for (int k = 0; k < DOORBELL_COUNT; k++) {
		struct peer peer = peer_start(dies_waiting, 0);
		struct channel *c = connect_to(&peer, (enum doorbell_kind)k);
		uint64_t began = clock_ns();
		struct err e = { 0 };
		char says[64];
		struct packet p;

		assert_int_equal(channel_recv(c, &p, -1, &e), -EPIPE);
		assert_true(clock_ns() - began < 1000 * MS);
		snprintf(says, sizeof(says), "(pid %d) died", (int)peer.pid);
		assert_non_null(strstr(e.text, says));
		assert_true(WIFSIGNALED(peer_wait(&peer)));
		channel_close(c);
	}
}

/* What it answered before it died is received first. */
static void test_last_words(void **state)
{
	for (int k = 0; k < DOORBELL_COUNT; k++) {
		struct peer peer = peer_start(dies_waiting, 3);
		struct channel *c = connect_to(&peer, (enum doorbell_kind)k);
		struct wire_simple nop = { WIRE_NOP, 0 };
		struct err e = { 0 };
		struct packet p;

		for (int i = 0; i < 3; i++)
			assert_ok(channel_send(c, NULL, 0, &nop, sizeof(nop),
					  NULL, &e),
				&e);
		assert_true(WIFSIGNALED(peer_wait(&peer)));
		for (uint32_t i = 1; i <= 3; i++) {
			assert_ok(channel_recv(c, &p, -1, &e), &e);
			assert_int_equal(p.seq, i);
		}
		assert_int_equal(channel_recv(c, &p, -1, &e), -EPIPE);
		channel_close(c);
	}
}

/* The ring is full because it reads nothing, and then it dies. */
static void test_device_dies_ring_full(void **state)
{
	for (int k = 0; k < DOORBELL_COUNT; k++) {
		struct peer peer = peer_start(dies_waiting, 0);
		struct channel *c = connect_to(&peer, (enum doorbell_kind)k);
		uint64_t began = clock_ns();
		struct err e = { 0 };
		uint8_t msg[8000] = { 1 };
		int ret = 0, sent = 0;

		while (!ret && sent < 100) {
			ret = channel_send(
				c, NULL, 0, msg, sizeof(msg), NULL, &e);
			sent += !ret;
		}
		assert_int_equal(ret, -EPIPE);
		assert_int_equal(sent, 8);
		assert_true(clock_ns() - began < 1000 * MS);
		peer_wait(&peer);
		channel_close(c);
	}
}

static int slow_reader(int link, int count)
{
	struct channel *c = accept_from(link);
	struct packet p;

	usleep(80000);
	for (int i = 0; i < count; i++)
		if (channel_recv(c, &p, 2000, NULL) || p.seq != (uint32_t)i + 1)
			return 94;
	return 0;
}

/* A full ring makes the sender wait, and room wakes it. */
static void test_waits_for_room(void **state)
{
	for (int k = 0; k < DOORBELL_COUNT; k++) {
		struct peer peer = peer_start(slow_reader, 60);
		struct channel *c = connect_to(&peer, (enum doorbell_kind)k);
		uint64_t began = clock_ns();
		uint8_t msg[8000] = { 1 };
		struct err e = { 0 };

		for (int i = 0; i < 60; i++)
			assert_ok(channel_send(c, NULL, 0, msg, sizeof(msg),
					  NULL, &e),
				&e);
		/* Not one slice of waiting for each packet. */
		assert_true(clock_ns() - began < 1000 * MS);
		assert_int_equal(peer_wait(&peer), 0);
		channel_close(c);
	}
}

/* Connects as the host, sends one packet, and is killed. */
static int dying_host(int link, int kind)
{
	struct wire_hello h = hello_of((enum doorbell_kind)kind);
	struct wire_simple nop = { WIRE_NOP, 0 };
	struct wire_welcome w;
	struct channel *c;

	if (channel_connect(&c, link, &h, &w, NULL) ||
		channel_send(c, NULL, 0, &nop, sizeof(nop), NULL, NULL))
		return 95;
	usleep(30000);
	raise(SIGKILL);
	return 96;
}

static void test_host_dies(void **state)
{
	for (int k = 0; k < DOORBELL_COUNT; k++) {
		struct peer peer = peer_start(dying_host, k);
		struct channel *c = accept_from(peer.link);
		uint64_t began = clock_ns();
		struct err e = { 0 };
		struct packet p;

		assert_ok(channel_recv(c, &p, -1, &e), &e);
		assert_int_equal(p.len, sizeof(struct wire_simple));
		assert_int_equal(channel_recv(c, &p, -1, &e), -EPIPE);
		assert_string_equal(e.text, "the host is gone");
		assert_true(clock_ns() - began < 1000 * MS);
		peer_wait(&peer);
		channel_close(c);
	}
}

static void test_host_dies_before_hello(void **state)
{
	struct peer peer = peer_start(dies_at_once, 0);
	struct channel *c = NULL;
	struct wire_hello h;
	struct err e = { 0 };

	assert_int_equal(channel_accept(&c, peer.link, &h, &e), -EPIPE);
	assert_non_null(strstr(e.text, "before its hello"));
	peer_wait(&peer);
}

/* Shares a buffer, reads nothing, and is killed. */
static int dying_sharer(int link, int kind)
{
	struct wire_hello h = hello_of((enum doorbell_kind)kind);
	struct wire_welcome w;
	struct channel *c;
	struct buffer *b;

	if (channel_connect(&c, link, &h, &w, NULL) ||
		buffer_create(&b, "late", 4096, 0, NULL) ||
		channel_share(c, 0, b, NULL))
		return 95;
	usleep(100000);
	raise(SIGKILL);
	return 96;
}

/* What lies unread on the link must not hide from one who waits for room
 * that nobody will make any. */
static void test_host_dies_ring_full(void **state)
{
	for (int k = 0; k < DOORBELL_COUNT; k++) {
		struct peer peer = peer_start(dying_sharer, k);
		struct channel *c = accept_from(peer.link);
		uint64_t began = clock_ns();
		uint8_t msg[8000];
		struct err e = { 0 };
		uint32_t seq = 1;
		int ret = 0;

		memset(msg, 1, sizeof(msg));
		for (int i = 0; !ret && i < 100; i++)
			ret = channel_send(
				c, NULL, 0, msg, sizeof(msg), &seq, &e);
		assert_int_equal(ret, -EPIPE);
		assert_true(clock_ns() - began < 1000 * MS);
		peer_wait(&peer);
		channel_close(c);
	}
}

/* ---- a device that hangs ------------------------------------------- */

/* Beats for `ms`, then answers. */
static int busy_device(int link, int ms)
{
	struct channel *c = accept_from(link);
	struct packet p;

	if (channel_recv(c, &p, -1, NULL))
		return 97;
	for (int t = 0; t < ms; t += 10) {
		channel_beat(c);
		usleep(10000);
	}
	return channel_send(c, NULL, 0, p.msg, p.len, &p.seq, NULL) ? 98 : 0;
}

static int silent_device(int link, int arg)
{
	accept_from(link);
	for (;;)
		pause();
	return 0;
}

static void test_stall(void **state)
{
	for (int k = 0; k < DOORBELL_COUNT; k++) {
		struct peer peer = peer_start(silent_device, 0);
		struct channel *c = connect_to(&peer, (enum doorbell_kind)k);
		struct wire_simple nop = { WIRE_NOP, 0 };
		struct err e = { 0 };
		uint64_t began, took;
		struct packet p;

		channel_set_stall_ms(c, 150);
		assert_ok(channel_send(c, NULL, 0, &nop, sizeof(nop), NULL, &e),
			&e);
		began = clock_ns();
		assert_int_equal(channel_recv(c, &p, -1, &e), -ETIMEDOUT);
		took = clock_ns() - began;
		assert_in_range(took, 140 * MS, 1000 * MS);
		assert_non_null(strstr(e.text, "--device-timeout"));
		/* Many short waits add up to a long one. */
		assert_ok(channel_send(c, NULL, 0, &nop, sizeof(nop), NULL, &e),
			&e);
		began = clock_ns();
		while (channel_recv(c, &p, 10, &e) == -EAGAIN)
			assert_true(clock_ns() - began < 1000 * MS);
		assert_int_equal(e.code, -ETIMEDOUT);
		kill(peer.pid, SIGKILL);
		peer_wait(&peer);
		channel_close(c);
	}
}

static void test_beat_is_no_stall(void **state)
{
	struct peer peer = peer_start(busy_device, 500);
	struct channel *c = connect_to(&peer, DOORBELL_POLL);
	struct wire_simple nop = { WIRE_NOP, 0 };
	struct err e = { 0 };
	struct packet p;

	channel_set_stall_ms(c, 200);
	assert_ok(channel_send(c, NULL, 0, &nop, sizeof(nop), NULL, &e), &e);
	assert_ok(channel_recv(c, &p, -1, &e), &e);
	assert_int_equal(peer_wait(&peer), 0);
	channel_close(c);
}

static int patient_host(int link, int stall_ms)
{
	struct wire_hello h = hello_of(DOORBELL_POLL);
	struct wire_simple nop = { WIRE_NOP, 0 };
	struct wire_welcome w;
	struct channel *c;
	struct packet p;

	if (channel_connect(&c, link, &h, &w, NULL))
		return 95;
	channel_set_stall_ms(c, (unsigned)stall_ms);
	if (channel_send(c, NULL, 0, &nop, sizeof(nop), NULL, NULL))
		return 96;
	return channel_recv(c, &p, -1, NULL) ? 97 : 0;
}

/* As by ^Z in a shell: the time in which the host was stopped itself is not
 * held against the device. */
static void test_stopped_host_is_no_stall(void **state)
{
	struct peer peer = peer_start(patient_host, 1000);
	struct channel *c = accept_from(peer.link);
	struct wire_done done = { .op = WIRE_NOP };
	struct err e = { 0 };
	struct packet p;
	uint32_t seq;

	assert_ok(channel_recv(c, &p, 5000, &e), &e);
	seq = p.seq;
	usleep(200000);
	assert_int_equal(kill(peer.pid, SIGSTOP), 0);
	usleep(1200000);
	assert_int_equal(kill(peer.pid, SIGCONT), 0);
	usleep(200000);
	channel_send(c, NULL, 0, &done, sizeof(done), &seq, &e);
	assert_int_equal(peer_wait(&peer), 0);
	channel_close(c);
}

/* ---- hellos that are refused --------------------------------------- */

/* A control memfd made by hand. */
static int control_fd(const struct wire_control *w, size_t bytes, int seals)
{
	int fd = memfd_create("control", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint8_t *p;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	memcpy(p, w, sizeof(*w));
	ring_format((struct ring_shared *)(p + 256), 4096, 0);
	ring_format((struct ring_shared *)(p + 8192), 4096, 0);
	munmap(p, bytes);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static const struct wire_control good_control = { .magic = WIRE_MAGIC,
	.version = WIRE_VERSION,
	.request_offset = 256,
	.request_room = 7936,
	.completion_offset = 8192,
	.completion_room = 8192 };

/*
 * Send a hello and see what both sides get: the device the error, the host
 * a welcome with the same text.
 */
static void hello_case(
	const struct wire_hello *h, size_t len, int control, const char *says)
{
	struct channel *c = NULL;
	struct wire_welcome w;
	struct wire_hello got;
	uint8_t buf[LINK_MAX_MSG] = { 0 };
	struct err e = { 0 };
	unsigned n;
	size_t n_bytes;
	int l[2];

	assert_ok(link_pair(l, &e), &e);
	memset(e.text, '#', sizeof(e.text)); /* nobody's business */
	memcpy(buf, h, sizeof(*h));
	assert_ok(link_send(l[0], buf, len, &control, control >= 0, &e), &e);
	if (!says) {
		assert_ok(channel_accept(&c, l[1], &got, &e), &e);
		channel_close(c);
		fd_close(&l[0]);
		return;
	}
	assert_int_equal(channel_accept(&c, l[1], &got, &e), -EPROTO);
	assert_null(c);
	if (!strstr(e.text, says))
		fail_msg("'%s' does not say '%s'", e.text, says);
	assert_ok(link_recv(l[0], &w, sizeof(w), &n_bytes, NULL, 0, &n, 0, &e),
		&e);
	assert_int_equal(w.status, -EPROTO);
	assert_non_null(strstr(w.text, says));
	assert_null(memchr(w.text, '#', sizeof(w.text)));
	fd_close(&l[0]);
}

static struct wire_hello full_hello(void)
{
	struct wire_hello h = hello_of(DOORBELL_POLL);

	h.op = WIRE_HELLO;
	h.magic = WIRE_MAGIC;
	h.version = WIRE_VERSION;
	return h;
}

static void test_hello_refusals(void **state)
{
	static const struct {
		const char *says;
		size_t at, size;
		uint64_t value;
	} bad[] = {
		{ "does not speak", offsetof(struct wire_hello, magic), 4, 1 },
		{ "does not speak", offsetof(struct wire_hello, op), 4,
			WIRE_BYE },
		{ "the host version 2", offsetof(struct wire_hello, version), 4,
			2 },
		{ "features 0x8", offsetof(struct wire_hello, features), 4, 8 },
		{ "doorbell is 3", offsetof(struct wire_hello, doorbell), 4,
			3 },
		{ "1 descriptors, must have 3",
			offsetof(struct wire_hello, doorbell), 4,
			DOORBELL_SOCKET },
		{ "coherence is 77", offsetof(struct wire_hello, coherence), 4,
			77 },
		{ "va_slots is 0", offsetof(struct wire_hello, va_slots), 4,
			0 },
		{ "va_window is 16777215",
			offsetof(struct wire_hello, va_window), 8,
			WIRE_WINDOW_MIN - 1 },
		{ "va_window is 18446744073709551615",
			offsetof(struct wire_hello, va_window), 8, UINT64_MAX },
	};
	int control = control_fd(&good_control, 16384, F_SEAL_SHRINK);
	struct wire_hello h = full_hello();

	hello_case(&h, sizeof(h), control, NULL);
	hello_case(&h, sizeof(h), -1, "0 descriptors");
	hello_case(&h, sizeof(h) - 4, control, "52 bytes");
	hello_case(&h, sizeof(h) + 8, control, "64 bytes");
	hello_case(&h, 3, control, "does not speak");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		h = full_hello();
		memcpy((char *)&h + bad[i].at, &bad[i].value, bad[i].size);
		hello_case(&h, sizeof(h), control, bad[i].says);
	}
	/* A longer hello of another version is told about the version. */
	h.va_window = 64 << 20;
	h.version = 9;
	hello_case(&h, sizeof(h) + 40, control, "the host version 9");
	fd_close(&control);
}

static void test_control_refusals(void **state)
{
	static const struct {
		const char *says;
		size_t at;
		uint32_t value;
	} bad[] = {
		{ "control.magic", offsetof(struct wire_control, magic), 0 },
		{ "version 2", offsetof(struct wire_control, version), 2 },
		{ "request_offset 128",
			offsetof(struct wire_control, request_offset), 128 },
		{ "request_offset 260",
			offsetof(struct wire_control, request_offset), 260 },
		{ "request_offset 16384",
			offsetof(struct wire_control, request_offset), 16384 },
		{ "request_offset 4294967168",
			offsetof(struct wire_control, request_offset),
			UINT32_MAX - 127 },
		{ "room 4294967295",
			offsetof(struct wire_control, completion_room),
			UINT32_MAX },
		{ "room 8193", offsetof(struct wire_control, completion_room),
			8193 },
		{ "overlap", offsetof(struct wire_control, request_room),
			7937 },
		{ "no ring fits in 4735",
			offsetof(struct wire_control, request_room), 4736 - 1 },
		{ "no ring fits", offsetof(struct wire_control, request_room),
			0 },
		{ "capacity 0",
			offsetof(struct wire_control, completion_offset),
			8192 + 1024 },
	};
	struct wire_hello h = full_hello();
	int fd;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct wire_control w = good_control;

		memcpy((char *)&w + bad[i].at, &bad[i].value, 4);
		if (!strcmp(bad[i].says, "capacity 0"))
			w.completion_room = 16384 - (8192 + 1024);
		fd = control_fd(&w, 16384, F_SEAL_SHRINK);
		hello_case(&h, sizeof(h), fd, bad[i].says);
		fd_close(&fd);
	}
	fd = control_fd(&good_control, 16384, 0);
	hello_case(&h, sizeof(h), fd, "not sealed");
	fd_close(&fd);
	fd = control_fd(
		&good_control, CHANNEL_CONTROL_MAX + 4096, F_SEAL_SHRINK);
	hello_case(&h, sizeof(h), fd, "at most");
	fd_close(&fd);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	hello_case(&h, sizeof(h), fd, "not a memfd");
	fd_close(&fd);
}

/* A doorbell that would block is refused. */
static void test_blocking_doorbell(void **state)
{
	struct wire_hello h = full_hello();
	struct channel *c = NULL;
	struct err e = { 0 };
	int l[2], fds[3];

	h.doorbell = DOORBELL_EVENTFD;
	fds[0] = control_fd(&good_control, 16384, F_SEAL_SHRINK);
	assert_int_equal(pipe2(fds + 1, O_CLOEXEC), 0);
	assert_ok(link_pair(l, &e), &e);
	assert_ok(link_send(l[0], &h, sizeof(h), fds, 3, &e), &e);
	assert_int_equal(channel_accept(&c, l[1], &h, &e), -EPROTO);
	assert_non_null(strstr(e.text, "not non-blocking"));
	for (int i = 0; i < 3; i++)
		fd_close(&fds[i]);
	fd_close(&l[0]);
}

/* ---- welcomes that the host refuses -------------------------------- */

static int answers_version(int link, int version)
{
	struct wire_welcome w = { .op = WIRE_WELCOME,
		.magic = WIRE_MAGIC,
		.version = (uint32_t)version };

	return link_send(link, &w, sizeof(w), NULL, 0, NULL) ? 1 : 0;
}

/* A later version's welcome may be longer than ours. */
static int answers_longer(int link, int version)
{
	struct wire_welcome w[2] = { { .op = WIRE_WELCOME,
		.magic = WIRE_MAGIC,
		.version = (uint32_t)version } };

	return link_send(link, w, sizeof(w[0]) + 40, NULL, 0, NULL) ? 1 : 0;
}

static int answers_nonsense(int link, int arg)
{
	return link_send(link, "go away", 7, NULL, 0, NULL) ? 1 : 0;
}

static int answers_no(int link, int status)
{
	struct wire_welcome w = { .status = status, .text = "no TCM left" };
	struct wire_hello h;
	struct channel *c;

	if (channel_accept(&c, link, &h, NULL))
		return 1;
	return channel_welcome(c, &w, NULL) ? 1 : 0;
}

static void test_welcome_refusals(void **state)
{
	static const struct {
		int (*fn)(int, int);
		int arg, code;
		const char *says;
	} bad[] = {
		{ answers_version, 2, -EPROTO, "the device version 2" },
		{ answers_longer, 2, -EPROTO, "the device version 2" },
		{ answers_nonsense, 0, -EPROTO, "as a tandem-npu" },
		{ answers_no, -ENOMEM, -ENOMEM, "refused: no TCM left" },
		{ answers_no, -EPIPE, -EPROTO, "refused: no TCM left" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct peer peer = peer_start(bad[i].fn, bad[i].arg);
		struct wire_hello h = hello_of(DOORBELL_POLL);
		struct channel *c = NULL;
		struct wire_welcome w;
		struct err e = { 0 };

		assert_int_equal(channel_connect(&c, peer.link, &h, &w, &e),
			bad[i].code);
		if (!strstr(e.text, bad[i].says))
			fail_msg("'%s' does not say '%s'", e.text, bad[i].says);
		peer_wait(&peer);
	}
}

/* ---- bad packets, bad shares --------------------------------------- */

/* Both ends in this process: a thread shakes hands for the host. */
struct ends {
	struct channel *host, *device;
};

struct connect_args {
	int link;
	enum doorbell_kind kind;
	struct channel *out;
};

static void *connect_thread(void *arg)
{
	struct connect_args *a = arg;
	struct wire_hello h = hello_of(a->kind);
	struct wire_welcome w;

	if (channel_connect(&a->out, a->link, &h, &w, NULL))
		a->out = NULL;
	return NULL;
}

static void ends_open(struct ends *x, enum doorbell_kind kind)
{
	struct connect_args a = { .kind = kind };
	struct err e = { 0 };
	pthread_t t;
	int l[2];

	assert_ok(link_pair(l, &e), &e);
	a.link = l[0];
	assert_int_equal(pthread_create(&t, NULL, connect_thread, &a), 0);
	x->device = accept_from(l[1]);
	pthread_join(t, NULL);
	x->host = a.out;
	assert_non_null(x->host);
}

static void ends_close(struct ends *x)
{
	channel_close(x->host);
	channel_close(x->device);
}

static void test_malformed_packet_is_answered(void **state)
{
	struct wire_header h = { .length8 = 2, .flags = 1, .seq = 42 };
	struct wire_simple nop = { WIRE_NOP, 0 };
	struct err e = { 0 };
	struct ends x;
	struct packet p;
	void *at;

	ends_open(&x, DOORBELL_POLL);
	assert_int_equal(ring_reserve(&x.host->tx, 16, &at), 0);
	memcpy(at, &h, sizeof(h));
	ring_publish(&x.host->tx);
	assert_ok(
		channel_send(x.host, NULL, 0, &nop, sizeof(nop), NULL, &e), &e);
	assert_int_equal(channel_recv(x.device, &p, 1000, &e), -EBADMSG);
	assert_int_equal(p.seq, 42);
	assert_non_null(strstr(e.text, "flags"));
	/* The ring is sound: the next one comes through. */
	assert_ok(channel_recv(x.device, &p, 1000, &e), &e);
	assert_int_equal(p.seq, 1);
	/* An absurd index is the end. */
	atomic_fetch_add(&x.device->rx.shared->tail, 3);
	assert_int_equal(channel_recv(x.device, &p, 1000, &e), -EPROTO);
	assert_int_equal(channel_recv(x.device, &p, 1000, &e), -EPROTO);
	ends_close(&x);
}

static void test_absurd_head_ends_sending(void **state)
{
	struct wire_simple nop = { WIRE_NOP, 0 };
	struct err e = { 0 };
	struct ends x;
	int ret = 0;

	ends_open(&x, DOORBELL_EVENTFD);
	atomic_store(&x.host->tx.shared->head, 0x77777778);
	for (int i = 0; i < 100000 && !ret; i++)
		ret = channel_send(
			x.host, NULL, 0, &nop, sizeof(nop), NULL, &e);
	assert_int_equal(ret, -EPROTO);
	assert_non_null(strstr(e.text, "absurd"));
	ends_close(&x);
}

static void test_share_and_goodbye(void **state)
{
	struct err e = { 0 };
	struct wire_share s;
	struct buffer *b;
	struct packet p;
	struct ends x;
	int fd;

	ends_open(&x, DOORBELL_EVENTFD);
	assert_int_equal(channel_next_share(x.device, &s, &fd, &e), 0);
	assert_ok(buffer_create(&b, "kv", 4096, BUFFER_DMA, &e), &e);
	assert_ok(channel_share(x.host, 3, b, &e), &e);
	assert_int_equal(channel_share(x.host, 1024, b, &e), -EINVAL);
	/* The link's news end a wait. */
	assert_int_equal(channel_recv(x.device, &p, -1, &e), -EAGAIN);
	assert_int_equal(channel_next_share(x.device, &s, &fd, &e), 1);
	assert_int_equal(s.buffer, 3);
	assert_int_equal(s.bytes, 4096);
	assert_int_equal(s.flags, WIRE_SHARE_DMA);
	assert_int_equal(s.generation, buffer_generation(b));
	assert_string_equal(s.name, "tandem:kv");
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	fd_close(&fd);
	channel_bye(x.host);
	assert_int_equal(channel_recv(x.device, &p, -1, &e), -EAGAIN);
	assert_int_equal(
		channel_next_share(x.device, &s, &fd, &e), -ECONNRESET);
	channel_close(x.host);
	x.host = NULL;
	assert_int_equal(channel_next_share(x.device, &s, &fd, &e), -EPIPE);
	ends_close(&x);
	buffer_close(b);
}

static void test_share_refusals(void **state)
{
	static const struct {
		const char *says;
		size_t at, size;
		uint64_t value;
	} bad[] = {
		{ "op 9", offsetof(struct wire_share, op), 4, 9 },
		{ "share.buffer is 1024", offsetof(struct wire_share, buffer),
			4, 1024 },
		{ "share.flags 0x3", offsetof(struct wire_share, flags), 4, 3 },
		{ "8192 were announced", offsetof(struct wire_share, bytes), 8,
			8192 },
		{ "0 bytes", offsetof(struct wire_share, bytes), 8, 0 },
		{ "1073741825", offsetof(struct wire_share, bytes), 8,
			BUFFER_MAX + 1 },
		{ "share.name", offsetof(struct wire_share, name) + 31, 1, 1 },
	};
	struct err e = { 0 };
	struct buffer *b;
	struct ends x;

	assert_ok(buffer_create(&b, "kv", 4096, 0, &e), &e);
	for (size_t i = 0; i < 9; i++) {
		struct wire_share s = { .op = WIRE_SHARE, .bytes = 4096 }, got;
		size_t len = sizeof(s);
		int mine = buffer_fd(b), fd;
		const char *says;

		memset(s.name, 'x', 31);
		if (i < 7)
			memcpy((char *)&s + bad[i].at, &bad[i].value,
				bad[i].size);
		if (i == 8)
			len -= 8;
		says = i < 7     ? bad[i].says
			: i == 7 ? "without a descriptor"
				 : "48 bytes";
		ends_open(&x, DOORBELL_POLL);
		assert_ok(link_send(x.host->link, &s, len, &mine, i != 7, &e),
			&e);
		assert_int_equal(
			channel_next_share(x.device, &got, &fd, &e), -EPROTO);
		assert_int_equal(fd, -1);
		if (!strstr(e.text, says))
			fail_msg("'%s' does not say '%s'", e.text, says);
		ends_close(&x);
	}
	buffer_close(b);
}

/* A device has nothing to say over the link once it is welcome. */
static void test_device_must_not_use_link(void **state)
{
	struct err e = { 0 };
	struct packet p;
	struct ends x;

	ends_open(&x, DOORBELL_POLL);
	assert_ok(link_send(x.device->link, "hello?", 6, NULL, 0, &e), &e);
	assert_int_equal(channel_recv(x.host, &p, 1000, &e), -EPROTO);
	ends_close(&x);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_exchange_poll),
	cmocka_unit_test(test_exchange_eventfd),
	cmocka_unit_test(test_exchange_socket),
	cmocka_unit_test(test_message_sizes),
	cmocka_unit_test(test_recv_limits),
	cmocka_unit_test(test_poll_makes_no_system_call),
	cmocka_unit_test(test_device_dies_in_handshake),
	cmocka_unit_test(test_device_dies_while_awaited),
	cmocka_unit_test(test_last_words),
	cmocka_unit_test(test_device_dies_ring_full),
	cmocka_unit_test(test_waits_for_room),
	cmocka_unit_test(test_host_dies),
	cmocka_unit_test(test_host_dies_ring_full),
	cmocka_unit_test(test_host_dies_before_hello),
	cmocka_unit_test(test_stall),
	cmocka_unit_test(test_beat_is_no_stall),
	cmocka_unit_test(test_stopped_host_is_no_stall),
	cmocka_unit_test(test_hello_refusals),
	cmocka_unit_test(test_control_refusals),
	cmocka_unit_test(test_blocking_doorbell),
	cmocka_unit_test(test_welcome_refusals),
	cmocka_unit_test(test_malformed_packet_is_answered),
	cmocka_unit_test(test_absurd_head_ends_sending),
	cmocka_unit_test(test_share_and_goodbye),
	cmocka_unit_test(test_share_refusals),
	cmocka_unit_test(test_device_must_not_use_link),
};

TEST_MAIN(tests)
