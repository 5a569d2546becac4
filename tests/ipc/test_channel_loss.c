/* Tests a peer that dies or hangs. The test is the host and forks a device; for
 * the death of a host, the test is the device and forks a host. */
#include "tests/ipc/peer.h"

#include "base/clock.h"
#include "shm/buffer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

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

/* A device that completes `count` packets and is then killed while the host
 * waits. */
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
		assert_int_equal(channel_loss(-EPIPE, &e), -ERR_DEVICE_LOST);
		assert_int_equal(channel_loss(-EPROTO, &e), -EPROTO);
		assert_int_equal(e.code, -ERR_DEVICE_LOST);
		assert_null(c);
		assert_non_null(strstr(e.text, "handshake"));
		assert_true(clock_ns() - began < 10000 * MS);
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
		assert_true(clock_ns() - began < 10000 * MS);
		snprintf(says, sizeof(says), "(pid %d) died", (int)peer.pid);
		assert_non_null(strstr(e.text, says));
		assert_true(WIFSIGNALED(peer_wait(&peer)));
		channel_close(c);
	}
}

/* Completions that the device sent before it died are received, and only then
 * the error. */
static void test_packets_before_death_are_received(void **state)
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

/* The ring is full because the device reads nothing; then the device dies. */
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
		assert_true(clock_ns() - began < 10000 * MS);
		peer_wait(&peer);
		channel_close(c);
	}
}

/* A host that connects, sends one packet, and is killed. */
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
		assert_true(clock_ns() - began < 10000 * MS);
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

/* A host that shares a buffer, reads nothing, and is killed. */
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

/* An unread message on the link must not hide the host's death from a device
 * that waits for space in the ring. */
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
		assert_true(clock_ns() - began < 10000 * MS);
		peer_wait(&peer);
		channel_close(c);
	}
}

/* ---- a device that hangs ------------------------------------------- */

/* A device that counts up its beat (the sign that it makes progress) for `ms`
 * milliseconds and then sends a completion. */
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
		assert_in_range(took, 140 * MS, 10000 * MS);
		assert_non_null(strstr(e.text, "--device-timeout"));
		/* The stall limit also applies to the sum of many short
		 * waits. */
		assert_ok(channel_send(c, NULL, 0, &nop, sizeof(nop), NULL, &e),
			&e);
		began = clock_ns();
		while (channel_recv(c, &p, 10, &e) == -EAGAIN)
			assert_true(clock_ns() - began < 10000 * MS);
		assert_int_equal(e.code, -ETIMEDOUT);
		assert_int_equal(channel_loss(e.code, &e), -ERR_DEVICE_LOST);
		assert_int_equal(e.code, -ERR_DEVICE_LOST);
		kill(peer.pid, SIGKILL);
		peer_wait(&peer);
		channel_close(c);
	}
}

/* A wait without a time limit ends when the caller sets the flag that was given
 * to channel_set_cancel. */
static void test_canceled(void **state)
{
	for (int k = 0; k < DOORBELL_COUNT; k++) {
		struct peer peer = peer_start(silent_device, 0);
		struct channel *c = connect_to(&peer, (enum doorbell_kind)k);
		volatile sig_atomic_t flag = 0;
		struct err e = { 0 };
		struct packet p;

		channel_set_stall_ms(c, 0);
		channel_set_cancel(c, &flag);
		assert_int_equal(channel_recv(c, &p, 120, &e), -EAGAIN);
		flag = 1;
		assert_int_equal(channel_recv(c, &p, -1, &e), -ECANCELED);
		assert_string_equal(e.text, "interrupted");
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

/* The host is stopped, as by ^Z in a shell. The time in which it was stopped
 * does not count as a stall of the device. */
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

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_device_dies_in_handshake),
	cmocka_unit_test(test_device_dies_while_awaited),
	cmocka_unit_test(test_packets_before_death_are_received),
	cmocka_unit_test(test_device_dies_ring_full),
	cmocka_unit_test(test_host_dies),
	cmocka_unit_test(test_host_dies_before_hello),
	cmocka_unit_test(test_host_dies_ring_full),
	cmocka_unit_test(test_stall),
	cmocka_unit_test(test_canceled),
	cmocka_unit_test(test_beat_is_no_stall),
	cmocka_unit_test(test_stopped_host_is_no_stall),
};

TEST_FILE(tests)
