/*
 * A hostile device against the host's side of the protocol (host/npu, over a
 * channel). The device sends valid answers, valid answers with changed words,
 * repeated answers, answers to requests that never existed, and noise, and it
 * omits answers. In every second device life a third process (the scribbler)
 * also overwrites bytes of the control memfd: completions that are published
 * and not yet received, and rarely words of the rings. Each call must end
 * within its time limit, either with a valid answer or with an error and a
 * message. A device that has given an invalid answer must get no further
 * request.
 *
 * TANDEM_HOSTILE_ANSWERS sets the number of answers (2000); TANDEM_SEED repeats
 * a run.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/rng.h"
#include "host/npu/npu.h"
#include "ipc/link.h"
#include "shm/buffer.h"
#include "shm/doorbell.h"
#include "shm/ring.h"
#include "tests/harness.h"

#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIFE     400 /* maximum requests to one device */
#define BATCH    24u
#define STALL_MS 300
#define BOUND_MS 10000
#define BUFFERS  4u
#define WINDOW   (1u << 20)

/* Counts in memory that all processes share. The atomic counts belong to the
 * device and the scribbler, the others to the host. */
struct tally {
	_Atomic uint64_t answers, changed, scribbled;
	/* lied: invalid answers [without, with the scribbler] */
	uint64_t good, refused, lied[2], lost, lives;
};

struct draw {
	uint64_t seed, stream, at;
};

static uint32_t draw(struct draw *d, uint32_t below)
{
	uint32_t w[4];

	rng_words(d->seed, d->stream, d->at++, w);
	return w[0] % below;
}

static uint32_t draw_word(struct draw *d)
{
	switch (draw(d, 3)) {
	case 0:
		return draw(d, 70);
	case 1:
		return (1u << draw(d, 32)) + draw(d, 5) - 2;
	default:
		return draw(d, UINT32_MAX);
	}
}

/* ---- the device ------------------------------------------------------------
 */

struct device {
	struct draw draw;
	struct tally *tally;
	struct wire_hello hello;
	/* bell: eventfd that wakes the host; -1 if the host polls */
	int link, bell;
	uint8_t *map;
	size_t bytes;
	struct ring in, out;
};

static void shake_hands(struct device *d)
{
	struct wire_welcome w = { .op = WIRE_WELCOME,
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.threads = 1,
		.tcm_bytes = 1 << 20,
		.tcm_share = 1 << 20,
		.device_pid = (uint32_t)getpid(),
		.kern = "none" };
	int fd[WIRE_FD_COUNT] = { -1, -1, -1 };
	const struct wire_control *c;
	struct stat st;
	unsigned n;
	size_t len;

	if (link_recv(d->link, &d->hello, sizeof(d->hello), &len, fd,
		    WIRE_FD_COUNT, &n, 5000, NULL) ||
		fstat(fd[0], &st))
		_exit(1);
	d->bell = fd[WIRE_FD_COMPLETION_RING];
	d->bytes = (size_t)st.st_size;
	d->map = mmap(
		NULL, d->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd[0], 0);
	c = (const struct wire_control *)d->map;
	if (d->map == MAP_FAILED ||
		ring_attach(&d->in,
			(struct ring_shared *)(d->map + c->request_offset),
			c->request_room, RING_CONSUMER, NULL) ||
		ring_attach(&d->out,
			(struct ring_shared *)(d->map + c->completion_offset),
			c->completion_room, RING_PRODUCER, NULL) ||
		link_send(d->link, &w, sizeof(w), NULL, 0, NULL))
		_exit(1);
}

static void ring_bell(const struct device *d)
{
	uint64_t one = 1;

	if (d->hello.doorbell == DOORBELL_POLL)
		syscall(SYS_futex, &d->out.shared->tail, FUTEX_WAKE, 1, NULL,
			NULL, 0);
	else
		(void)!write(d->bell, &one,
			d->hello.doorbell == DOORBELL_EVENTFD ? 8 : 1);
}

struct answer {
	struct wire_header h;
	struct wire_done done;
	uint8_t more[64];
};

/* Write the answer that a correct device would give. Returns its length. */
static size_t answer_well(struct device *d, const uint8_t *p, struct answer *a)
{
	struct wire_header h;
	struct wire_map map = { .op = 0 };

	memcpy(&h, p, sizeof(h));
	memcpy(&map, p + sizeof(h) + h.n_refs * sizeof(struct wire_ref),
		sizeof(uint32_t));
	*a = (struct answer){ .h = { .seq = h.seq }, .done = { .op = map.op } };
	if (map.op == WIRE_MAP) {
		memcpy(&map, p + sizeof(h), sizeof(map));
		a->done.arg[WIRE_MAP_ADDR] = 4096 + map.buffer % 64 * 16384;
	} else if (!draw(&d->draw, 300)) {
		a->done.status = -EINVAL;
		snprintf(a->done.text, sizeof(a->done.text), "as ordered");
	}
	return sizeof(a->h) + sizeof(a->done);
}

/* Change one or two words of an answer, the answer's length, or its sequence
 * number. Returns the length. */
static size_t lie(struct device *d, struct answer *a, size_t len)
{
	uint32_t w = draw_word(&d->draw);

	switch (draw(&d->draw, 6)) {
	case 0:
		a->h.seq = draw(&d->draw, 2) ? a->h.seq - 1 : w;
		break;
	case 1:
		len = 8 * (size_t)draw(&d->draw, sizeof(*a) / 8 + 1);
		break;
	case 2:
		a->h.n_refs = (uint8_t)w;
		break;
	case 3:
		a->h.flags = (uint8_t)w;
		break;
	default:
		memcpy((uint8_t *)&a->done +
				4 * draw(&d->draw, sizeof(a->done) / 4),
			&w, sizeof(w));
	}
	return len < 16 ? 16 : len;
}

static void publish(struct device *d, struct answer *a, size_t len, bool torn)
{
	uint64_t until = clock_ns() + 1000000000ull;
	void *at;
	int ret;

	while ((ret = ring_reserve(&d->out, len, &at)) == -EAGAIN)
		if (clock_ns() > until || link_hung_up(d->link))
			_exit(0);
	if (ret)
		/* the scribbler damaged the ring that the device reads */
		_exit(0);
	a->h.length8 = (uint16_t)(torn ? draw_word(&d->draw) : len / 8);
	memcpy(at, a, len);
	ring_publish(&d->out);
	atomic_fetch_add(&d->tally->answers, 1);
}

static void answer(struct device *d, const uint8_t *request)
{
	struct answer a;
	size_t len = answer_well(d, request, &a);
	uint32_t how = draw(&d->draw, 400);
	bool torn = how == 0;

	if (how < 12)
		atomic_fetch_add(&d->tally->changed, 1);
	if (how == 1)
		return; /* omit the answer */
	if (how > 1 && how < 12)
		len = lie(d, &a, len);
	publish(d, &a, len, torn);
	if (how == 2) /* send the answer twice */
		publish(d, &a, len, false);
}

static void take_shares(struct device *d)
{
	struct wire_share share;
	int fd = -1;
	unsigned n;
	size_t len;

	while (!link_recv(
		d->link, &share, sizeof(share), &len, &fd, 1, &n, 0, NULL))
		fd_close(&fd);
}

/* Receive requests in batches, so that several answers wait in the ring.
 * Returns when the host closes the channel. */
static void serve(struct device *d)
{
	uint8_t request[BATCH][512];
	unsigned n = 0;

	for (;;) {
		const void *at;
		size_t len;
		int ret = ring_peek(&d->in, &at, &len);

		if (ret == 1 && n < BATCH) {
			memcpy(request[n++], at, len < 512 ? len : 512);
			ring_release(&d->in);
			continue;
		}
		if (ret < 0)
			_exit(0);
		for (unsigned i = 0; i < n; i++)
			answer(d, request[i]);
		if (n)
			ring_bell(d);
		n = 0;
		take_shares(d);
		if (link_hung_up(d->link))
			_exit(0);
	}
}

/* Overwrite bytes of completions that are published and not yet received, and
 * rarely a word of the rings. The heartbeat is left intact, because the host
 * uses it to see that there is no progress. */
static void scribble(struct device *d)
{
	struct ring_shared *in = d->in.shared, *out = d->out.shared;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	d->draw.stream += 1000000;
	for (;;) {
		uint32_t head = atomic_load(&out->head);
		uint32_t left = atomic_load(&out->tail) - head;
		volatile uint8_t *p;

		if (link_hung_up(d->link))
			_exit(0);
		if (!draw(&d->draw, 3000))
			p = (uint8_t *)(draw(&d->draw, 2) ? in : out) + 128 +
				draw(&d->draw, 512);
		else if (left && left <= d->out.bytes && !draw(&d->draw, 20))
			p = out->data +
				((head + draw(&d->draw, left)) & d->out.mask);
		else
			continue;
		*p = (uint8_t)draw_word(&d->draw);
		atomic_fetch_add(&d->tally->scribbled, 1);
	}
}

static void be_device(int listener, const struct draw *from, bool scribbled,
	struct tally *tally)
{
	struct device d = { .draw = *from, .tally = tally };
	pid_t other;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	if (link_accept(listener, &d.link, NULL))
		_exit(1);
	shake_hands(&d);
	other = scribbled ? fork() : 1;
	if (!other)
		scribble(&d);
	serve(&d);
}

/* ---- the host --------------------------------------------------------------
 */

struct life {
	struct draw draw;
	struct tally *tally;
	struct npu *npu;
	struct buffer *buffer[BUFFERS];
	uint32_t id[BUFFERS], at[BUFFERS]; /* at: address; 0 if not mapped */
	bool scribbled, over;
	int how; /* the error that ended this device life, and its message */
	char message[ERR_TEXT_MAX];
};

/* Count how a call ended. It must succeed, or fail with one of these errors and
 * a message. */
static void check_result(
	struct life *l, const char *what, int ret, const struct err *e)
{
	l->how = ret;
	memcpy(l->message, e->text, sizeof(l->message));
	switch (ret) {
	case 0:
		l->tally->good++;
		return;
	case -EIO:
	case -ENOSPC:
		l->tally->refused++;
		break;
	case -EPROTO:
		l->tally->lied[l->scribbled]++;
		l->over = true;
		break;
	case -ERR_DEVICE_LOST:
		l->tally->lost++;
		l->over = true;
		break;
	default:
		fail_msg("%s ends with %d: %s (life %llu)", what, ret, e->text,
			(unsigned long long)l->draw.stream);
	}
	if (strlen(e->text) < 10)
		fail_msg("%s ends with %d and '%s'", what, ret, e->text);
}

static void ask_nop(struct life *l)
{
	struct wire_simple msg = { .op = WIRE_NOP };
	struct wire_done done = { .op = 0 };
	struct err e = { 0 };
	int ret = npu_call(l->npu, &msg, sizeof(msg), &done, &e);

	if (!ret &&
		(done.op != WIRE_NOP || done.status > 0 ||
			done.status < -4095 ||
			!memchr(done.text, 0, sizeof(done.text))))
		fail_msg("op %u, status %d is no answer", done.op, done.status);
	check_result(l, "a call", ret, &e);
}

static void ask_map(struct life *l, unsigned b)
{
	uint64_t bytes = buffer_bytes(l->buffer[b]);
	struct err e = { 0 };
	uint32_t at = 0;
	int ret = npu_map(l->npu, l->id[b], &at, &e);

	for (unsigned i = 0; i < BUFFERS && !ret; i++)
		if (l->at[i] && at < l->at[i] + bytes && l->at[i] < at + bytes)
			fail_msg("mapped at 0x%x, over 0x%x", at, l->at[i]);
	if (!ret && (!at || at % 4096 || at + bytes > WINDOW))
		fail_msg("mapped at 0x%x", at);
	l->at[b] = ret ? 0 : at;
	check_result(l, "a map", ret, &e);
}

static void ask_unmap(struct life *l, unsigned b)
{
	struct err e = { 0 };
	int ret = npu_unmap(l->npu, l->id[b], &e);

	if (!ret)
		l->at[b] = 0;
	check_result(l, "an unmap", ret, &e);
}

static void ask_many(struct life *l)
{
	struct wire_simple msg = { .op = WIRE_NOP };
	uint32_t n = 1 + draw(&l->draw, BATCH);
	struct err e = { 0 };
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++)
		ret = npu_send(l->npu, NULL, 0, &msg, sizeof(msg), NULL, &e);
	if (!ret)
		ret = npu_drain(l->npu, 0, NULL, NULL, &e);
	check_result(l, "a batch", ret, &e);
	/* After a failure the device is not used again. */
	l->over |= ret != 0;
}

static void ask(struct life *l)
{
	uint64_t began = clock_ns();
	unsigned b = draw(&l->draw, BUFFERS);

	switch (draw(&l->draw, 4)) {
	case 0:
		ask_nop(l);
		break;
	case 1:
		l->at[b] ? ask_unmap(l, b) : ask_map(l, b);
		break;
	default:
		ask_many(l);
	}
	if (clock_ns() - began > BOUND_MS * 1000000ull)
		fail_msg("a call took %llu ms (life %llu)",
			(unsigned long long)(clock_ns() - began) / 1000000,
			(unsigned long long)l->draw.stream);
}

/* After an invalid answer, or after the device has refused a request that the
 * host sent without waiting (npu_send), each call returns the same error again,
 * and the device gets no further request. If the device was lost, as after a
 * timeout, the host may send requests. */
static void is_over(struct life *l)
{
	struct wire_simple msg = { .op = WIRE_NOP };
	struct wire_done done;
	struct err e = { 0 };
	int ret;

	if (l->how == -ERR_DEVICE_LOST)
		return;
	ret = npu_call(l->npu, &msg, sizeof(msg), &done, &e);
	if (ret != l->how || strcmp(e.text, l->message))
		fail_msg("after %d, '%s', it is %d, '%s'", l->how, l->message,
			ret, e.text);
}

static void live(struct life *l, const char *path, int listener)
{
	struct npu_opts o = { .socket = path,
		.stall_ms = STALL_MS,
		.hello = { .va_window = WINDOW,
			.va_slots = BUFFERS,
			.doorbell = draw(&l->draw, DOORBELL_COUNT),
			.spin_us = draw(&l->draw, 2) * 20 } };
	struct err e = { 0 };
	pid_t pid = fork();

	if (!pid)
		be_device(listener, &l->draw, l->scribbled, l->tally);
	assert_ok(npu_open(&l->npu, &o, &e), &e);
	for (unsigned i = 0; i < BUFFERS && !l->over; i++)
		check_result(l, "a share",
			npu_share(l->npu, l->buffer[i], &l->id[i], &e), &e);
	for (unsigned i = 0; i < LIFE && !l->over; i++)
		ask(l);
	if (l->over)
		is_over(l);
	npu_close(l->npu);
	/* The scribbler ends with the device process. */
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	l->tally->lives++;
}

static unsigned open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void a_hostile_device(void **state)
{
	const char *text = getenv("TANDEM_HOSTILE_ANSWERS");
	uint64_t want = text ? strtoull(text, NULL, 10) : 2000;
	struct tally *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t seed = harness_seed();
	struct buffer *buffer[BUFFERS];
	struct err e = { 0 };
	char path[256];
	unsigned before;
	int listener;

	assert_true(t != MAP_FAILED);
	signal(SIGPIPE, SIG_IGN);
	snprintf(path, sizeof(path), "%s/device", harness_tmp());
	assert_ok(link_listen(path, &listener, &e), &e);
	for (unsigned i = 0; i < BUFFERS; i++)
		assert_ok(buffer_create(&buffer[i], "b", 8192, 0, &e), &e);
	before = open_descriptors();
	for (uint64_t n = 0; atomic_load(&t->answers) < want; n++) {
		struct life l = { .draw = { .seed = seed, .stream = n },
			.scribbled = n % 2,
			.tally = t };

		memcpy(l.buffer, buffer, sizeof(buffer));
		live(&l, path, listener);
	}
	assert_int_equal(open_descriptors(), before);
	print_message("%llu answers in %llu lives, %llu not as they should be, "
		      "%llu bytes scribbled: %llu calls well, %llu refused, "
		      "%llu and %llu ends by a false answer, %llu by a loss\n",
		(unsigned long long)atomic_load(&t->answers),
		(unsigned long long)t->lives,
		(unsigned long long)atomic_load(&t->changed),
		(unsigned long long)atomic_load(&t->scribbled),
		(unsigned long long)t->good, (unsigned long long)t->refused,
		(unsigned long long)t->lied[0], (unsigned long long)t->lied[1],
		(unsigned long long)t->lost);
	assert_true(t->good && t->lied[0] && t->lied[1]);
	for (unsigned i = 0; i < BUFFERS; i++)
		buffer_close(buffer[i]);
	fd_close(&listener);
	munmap(t, sizeof(*t));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_hostile_device),
};

TEST_FILE(tests)
