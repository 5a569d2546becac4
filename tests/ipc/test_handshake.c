/* Tests hellos that a device refuses and welcomes that a host refuses, each
 * with its reason. */
#include "tests/ipc/peer.h"

#include "base/fd.h"
#include "ipc/channel_impl.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

/* ---- hellos that are refused --------------------------------------- */

/* Create a control memfd with the given header. */
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

/* Send a hello and check the result on both ends: the device gets the error,
 * and the host gets a welcome with the same text. */
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
	/* filled, so that the test detects if a refusal sends bytes after the
	 * end of the text */
	memset(e.text, '#', sizeof(e.text));
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
		{ "is not a tandem host", offsetof(struct wire_hello, magic), 4,
			1 },
		{ "is not a tandem host", offsetof(struct wire_hello, op), 4,
			WIRE_BYE },
		{ "the host version 8", offsetof(struct wire_hello, version), 4,
			8 },
		{ "features 0x8", offsetof(struct wire_hello, features), 4, 8 },
		{ "1 descriptors, must have 2",
			offsetof(struct wire_hello, features), 4,
			WIRE_FEATURE_TRACE },
		{ "doorbell is 3", offsetof(struct wire_hello, doorbell), 4,
			3 },
		{ "1 descriptors, must have 3",
			offsetof(struct wire_hello, doorbell), 4,
			DOORBELL_SOCKET },
		{ "coherence is 77", offsetof(struct wire_hello, coherence), 4,
			77 },
		{ "va_slots is 0", offsetof(struct wire_hello, va_slots), 4,
			0 },
		{ "va_window is 1048575",
			offsetof(struct wire_hello, va_window), 8,
			WIRE_WINDOW_MIN - 1 },
		{ "contract is 3", offsetof(struct wire_hello, contract), 4,
			3 },
		{ "reserved is 1", offsetof(struct wire_hello, reserved), 4,
			1 },
		{ "va_window is 18446744073709551615",
			offsetof(struct wire_hello, va_window), 8, UINT64_MAX },
	};
	int control = control_fd(&good_control, 16384, F_SEAL_SHRINK);
	struct wire_hello h = full_hello();

	hello_case(&h, sizeof(h), control, NULL);
	hello_case(&h, sizeof(h), -1, "0 descriptors");
	hello_case(&h, sizeof(h) - 4, control, "60 bytes");
	hello_case(&h, sizeof(h) + 8, control, "72 bytes");
	hello_case(&h, 3, control, "is not a tandem host");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		h = full_hello();
		memcpy((char *)&h + bad[i].at, &bad[i].value, bad[i].size);
		hello_case(&h, sizeof(h), control, bad[i].says);
	}
	/* The error for a longer hello of another version must name the
	 * version. */
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
		{ "version 8", offsetof(struct wire_control, version), 8 },
		{ "request_offset 128",
			offsetof(struct wire_control, request_offset), 128 },
		{ "request_offset 260",
			offsetof(struct wire_control, request_offset), 260 },
		{ "request_offset 16384",
			offsetof(struct wire_control, request_offset), 16384 },
		{ "request_offset 4294967168",
			offsetof(struct wire_control, request_offset),
			UINT32_MAX - 127 },
		{ "a ring of 4294967295 bytes",
			offsetof(struct wire_control, completion_room),
			UINT32_MAX },
		{ "a ring of 8193 bytes",
			offsetof(struct wire_control, completion_room), 8193 },
		{ "overlap", offsetof(struct wire_control, request_room),
			7937 },
		{ "4735 bytes are too few for a ring",
			offsetof(struct wire_control, request_room), 4736 - 1 },
		{ "too few for a ring",
			offsetof(struct wire_control, request_room), 0 },
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

/* A doorbell whose descriptor is in blocking mode is refused. */
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
	assert_non_null(strstr(e.text, "must be non-blocking"));
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

/* The welcome of a later version may be longer than ours. */
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
		{ answers_version, 8, -EPROTO, "the device version 8" },
		{ answers_longer, 8, -EPROTO, "the device version 8" },
		{ answers_nonsense, 0, -EPROTO, "like a tandem-npu" },
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

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_hello_refusals),
	cmocka_unit_test(test_control_refusals),
	cmocka_unit_test(test_blocking_doorbell),
	cmocka_unit_test(test_welcome_refusals),
};

TEST_FILE(tests)
