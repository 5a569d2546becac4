/* Tests a channel between two processes: packets, buffers that are shared over
 * the link (a Unix socket), and errors of a peer. */
#include "tests/ipc/peer.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/rng.h"
#include "ipc/channel_impl.h"
#include "shm/buffer.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* ---- packets in both directions ------------------------------------- */

#define PACKETS 10000u
#define BODY    9000u
#define WINDOW  5u

static uint32_t draw(uint64_t seed, uint64_t n)
{
	uint32_t w[4];

	rng_words(seed, 0x6368, n, w);
	return w[0];
}

/* Make the message of packet n. Its length and its bytes are a function of
 * `seed` and n. */
static size_t message(uint64_t seed, uint64_t n, uint8_t *out)
{
	uint32_t w = draw(seed, n);
	size_t len = w % 7 ? 8 + w % 200 : 8 + w % (BODY - 8);

	for (size_t i = 0; i < len; i++)
		out[i] = (uint8_t)(w + i * 3);
	/* Many messages end with zeros, which the channel does not send. */
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

static void exchange_with(const struct wire_hello *hello, uint32_t packets)
{
	uint64_t seed = harness_seed();
	struct peer peer = peer_start(echo, -1);
	struct channel *c = connect_with(&peer, hello);
	struct channel_stats stats;
	static uint8_t msg[BODY];
	struct err e = { 0 };

	for (uint32_t n = 0; n < packets + WINDOW; n++) {
		struct wire_ref ref = { .addr = n, .len = 1, .cpu_seq = n };
		uint32_t seq;

		if (n >= WINDOW)
			expect_echo(c, seed, n - WINDOW);
		if (n >= packets)
			continue;
		assert_ok(channel_send(c, &ref, n % 3 == 0, msg,
				  message(seed, n, msg), &seq, &e),
			&e);
		assert_int_equal(seq, n + 1);
	}
	channel_stats(c, &stats);
	assert_int_equal(stats.sent, packets);
	assert_int_equal(stats.received, packets);
	channel_bye(c);
	assert_int_equal(peer_wait(&peer), 0);
	channel_close(c);
}

static void exchange(enum doorbell_kind kind)
{
	struct wire_hello h = hello_of(kind);

	exchange_with(&h, PACKETS);
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

/* The peer fails if the coherence checker reports a broken rule. */
static void test_exchange_with_cached_rings(void **state)
{
	for (unsigned i = 0; i < 2 * DOORBELL_COUNT; i++) {
		struct wire_hello h = hello_of(i / 2);

		h.features = WIRE_FEATURE_CACHED_RINGS;
		h.coherence = COHERENCE_CHECK;
		h.contract = COHERENCE_ONE_LEVEL + i % 2;
		h.evict_seed = i;
		exchange_with(&h, harness_full() ? PACKETS : PACKETS / 4);
	}
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
	assert_in_range(clock_ns() - began, 119 * MS, 20000 * MS);
	channel_bye(c);
	assert_int_equal(peer_wait(&peer), 0);
	channel_close(c);
}

/* ---- no system call on the data path ------------------------------- */

#define QUIET_PACKETS 2000

/* After this call any system call except exit kills this process. */
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

/* Exit without the work that a sanitizer does at exit. */
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

/* A process that sleeps after be_quiet(). The test checks that the filter kills
 * it. */
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
	/* If the peer does not run for 50 ms, the host checks by a system call
	 * whether the peer is alive: try again. */
	while (!quiet_try())
		assert_true(++tries < 5);
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

/* If the ring is full, the sender waits, and free space in the ring wakes the
 * sender. */
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
		/* Free space must wake the sender at once. The sender would
		 * take too long if it slept for a whole time slice for each
		 * packet. */
		assert_true(clock_ns() - began < 10000 * MS);
		assert_int_equal(peer_wait(&peer), 0);
		channel_close(c);
	}
}

/* ---- bad packets, bad shares --------------------------------------- */

/* Both ends of a channel in this process. A thread does the host's
 * handshake. */
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
	/* The ring is still valid: the next packet is received. */
	assert_ok(channel_recv(x.device, &p, 1000, &e), &e);
	assert_int_equal(p.seq, 1);
	/* An impossible index ends the channel. */
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
	assert_non_null(strstr(e.text, "impossible"));
	ends_close(&x);
}

static void test_share_and_goodbye(void **state)
{
	struct err e = { 0 };
	struct wire_share s;
	struct buffer *b;
	struct pollfd bell = { .events = POLLIN };
	struct packet p;
	struct ends x;
	int fd;

	ends_open(&x, DOORBELL_EVENTFD);
	assert_int_equal(channel_next_share(x.device, &s, &fd, &e), 0);
	assert_ok(buffer_create(&b, "kv", 4096, BUFFER_DMA, &e), &e);
	assert_ok(channel_share(x.host, 3, b, &e), &e);
	assert_int_equal(channel_share(x.host, 1024, b, &e), -EINVAL);
	/* A message on the link ends a wait of the device. */
	assert_int_equal(channel_recv(x.device, &p, -1, &e), -EAGAIN);
	assert_int_equal(channel_next_share(x.device, &s, &fd, &e), 1);
	assert_int_equal(s.buffer, 3);
	assert_int_equal(s.bytes, 4096);
	assert_int_equal(s.flags, WIRE_SHARE_DMA);
	assert_int_equal(s.generation, buffer_generation(b));
	assert_string_equal(s.name, "tandem:kv");
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	fd_close(&fd);
	bell.fd = x.device->rx_bell.fd;
	assert_int_equal(poll(&bell, 1, 0), 0);
	channel_bye(x.host);
	/* The goodbye wakes a device that sleeps. */
	assert_int_equal(poll(&bell, 1, 0), 1);
	assert_int_equal(channel_recv(x.device, &p, -1, &e), -EAGAIN);
	assert_int_equal(
		channel_next_share(x.device, &s, &fd, &e), -ECONNRESET);
	channel_close(x.host);
	x.host = NULL;
	assert_int_equal(channel_next_share(x.device, &s, &fd, &e), -EPIPE);
	ends_close(&x);
	buffer_close(b);
}

/* A message that is not a share (a message that shares a buffer) is an error.
 * channel_next_share does not check the fields of a share. */
static void test_not_a_share(void **state)
{
	static const struct {
		const char *says;
		uint32_t op;
		size_t len;
	} bad[] = {
		{ "56 bytes with op 9", 9, sizeof(struct wire_share) },
		{ "48 bytes with op 3", WIRE_SHARE, 48 },
		{ "56 bytes with op 4", WIRE_BYE, sizeof(struct wire_share) },
	};
	struct err e = { 0 };
	struct buffer *b;
	struct ends x;

	assert_ok(buffer_create(&b, "kv", 4096, 0, &e), &e);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct wire_share s = { .op = bad[i].op }, got;
		int mine = buffer_fd(b), fd;

		ends_open(&x, DOORBELL_POLL);
		assert_ok(link_send(x.host->link, &s, bad[i].len, &mine, 1, &e),
			&e);
		assert_int_equal(
			channel_next_share(x.device, &got, &fd, &e), -EPROTO);
		assert_int_equal(fd, -1);
		if (!strstr(e.text, bad[i].says))
			fail_msg("'%s' does not say '%s'", e.text, bad[i].says);
		ends_close(&x);
	}
	buffer_close(b);
}

/* A share arrives without a descriptor, because none was sent or because this
 * process has reached its limit of open files. */
static void test_share_without_descriptor(void **state)
{
	struct wire_share s = { .op = WIRE_SHARE, .buffer = 5 }, got;
	struct rlimit was, full;
	struct err e = { 0 };
	struct ends x;
	int fd, mine, ret;

	ends_open(&x, DOORBELL_POLL);
	assert_ok(link_send(x.host->link, &s, sizeof(s), NULL, 0, &e), &e);
	assert_int_equal(channel_next_share(x.device, &got, &fd, &e), 1);
	assert_int_equal(fd, -1);
	assert_int_equal(got.buffer, 5);
	mine = dup(0);
	assert_ok(link_send(x.host->link, &s, sizeof(s), &mine, 1, &e), &e);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	full = was;
	full.rlim_cur = (rlim_t)mine + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &full), 0);
	ret = channel_next_share(x.device, &got, &fd, &e);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(ret, 1);
	assert_int_equal(fd, -1);
	assert_int_equal(got.buffer, 5);
	close(mine);
	ends_close(&x);
}

/* A device must not send over the link after its welcome. */
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
	cmocka_unit_test(test_exchange_with_cached_rings),
	cmocka_unit_test(test_message_sizes),
	cmocka_unit_test(test_recv_limits),
	cmocka_unit_test(test_poll_makes_no_system_call),
	cmocka_unit_test(test_waits_for_room),
	cmocka_unit_test(test_malformed_packet_is_answered),
	cmocka_unit_test(test_absurd_head_ends_sending),
	cmocka_unit_test(test_share_and_goodbye),
	cmocka_unit_test(test_not_a_share),
	cmocka_unit_test(test_share_without_descriptor),
	cmocka_unit_test(test_device_must_not_use_link),
};

TEST_FILE(tests)
