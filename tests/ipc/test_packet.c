#include "tests/harness.h"

#include "base/err.h"
#include "ipc/channel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A valid packet: two refs (ranges of buffers) and a message of 8 bytes. */
struct sample {
	struct wire_header h;
	struct wire_ref ref[2];
	struct wire_simple msg;
};

static struct sample sound(void)
{
	return (struct sample){
		.h = { .length8 = sizeof(struct sample) / 8,
			.n_refs = 2,
			.seq = 77 },
		.ref = { { .addr = 0x1000, .len = 64, .role = WIRE_REF_KV },
			{ .addr = 0xffffff00u,
				.len = 0xff,
				.role = WIRE_REF_ROWS,
				.flags = WIRE_REF_INVALIDATE,
				.cpu_seq = 9 } },
		.msg = { .op = WIRE_NOP, .arg = 5 },
	};
}

static void test_valid_packet_is_parsed(void **state)
{
	struct sample s = sound();
	struct err e = { 0 };
	struct packet p;

	assert_ok(packet_parse(&s, sizeof(s), &p, &e), &e);
	assert_int_equal(p.seq, 77);
	assert_int_equal(p.n_refs, 2);
	assert_ptr_equal(p.refs, s.ref);
	assert_ptr_equal(p.msg, &s.msg);
	assert_int_equal(p.len, 8);
}

static void test_no_refs(void **state)
{
	struct sample s = sound();
	struct err e = { 0 };
	struct packet p;

	s.h.n_refs = 0;
	assert_ok(packet_parse(&s, sizeof(s), &p, &e), &e);
	assert_int_equal(p.n_refs, 0);
	assert_int_equal(p.len, sizeof(s) - sizeof(s.h));
}

/* Each entry breaks one field, which the error must name. */
static const struct {
	const char *says;
	size_t cut; /* bytes cut off at the end */
	size_t at, size;
	uint32_t value;
} spoiled[] = {
	{ "0 bytes has no room for its header", sizeof(struct sample), 0, 0,
		0 },
	{ "length8 is 48 bytes, but the packet has 40 bytes", 8, 0, 0, 0 },
	{ "length8", 0, offsetof(struct sample, h.length8), 2, 0 },
	{ "length8", 0, offsetof(struct sample, h.length8), 2, 0xffff },
	{ "flags is 0x80", 0, offsetof(struct sample, h.flags), 1, 0x80 },
	{ "n_refs is 241", 0, offsetof(struct sample, h.n_refs), 1, 241 },
	{ "n_refs is 255", 0, offsetof(struct sample, h.n_refs), 1, 255 },
	{ "n_refs is 3, but so many", 0, offsetof(struct sample, h.n_refs), 1,
		3 },
	{ "n_refs is 240, but so many", 0, offsetof(struct sample, h.n_refs), 1,
		240 },
	{ "ref[0].role is 6", 0, offsetof(struct sample, ref[0].role), 1, 6 },
	{ "ref[1].role is 255", 0, offsetof(struct sample, ref[1].role), 1,
		255 },
	{ "ref[1].flags 0x5", 0, offsetof(struct sample, ref[1].flags), 1, 5 },
	{ "ref[0].by is 256", 0, offsetof(struct sample, ref[0].by), 2, 256 },
	{ "ref[1].len 256 at 0xffffff00", 0,
		offsetof(struct sample, ref[1].len), 4, 256 },
	{ "ref[0].len 4294967295", 0, offsetof(struct sample, ref[0].len), 4,
		UINT32_MAX },
};

static void test_malformed(void **state)
{
	for (size_t i = 0; i < sizeof(spoiled) / sizeof(spoiled[0]); i++) {
		struct sample s = sound();
		size_t len = sizeof(s) - spoiled[i].cut;
		struct err e = { 0 };
		struct packet p;

		memcpy((char *)&s + spoiled[i].at, &spoiled[i].value,
			spoiled[i].size);
		assert_int_equal(packet_parse(&s, len, &p, &e), -EBADMSG);
		if (!strstr(e.text, spoiled[i].says))
			fail_msg("row %zu: '%s' does not say '%s'", i, e.text,
				spoiled[i].says);
		/* The packet's number is returned, so that the receiver can
		 * answer the packet. */
		if (len >= sizeof(s.h))
			assert_int_equal(p.seq, 77);
		assert_null(p.msg);
	}
}

/* Every truncation of a valid packet is refused, no matter what its length
 * field states. */
static void test_cut_short(void **state)
{
	for (size_t len = 0; len < sizeof(struct sample); len++) {
		struct sample s = sound();
		struct packet p;

		if (len / 8 * 8 == len)
			s.h.length8 = (uint16_t)(len / 8);
		/* The last 8 bytes are the message, so without them there is no
		 * op. */
		assert_int_equal(packet_parse(&s, len, &p, NULL), -EBADMSG);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_valid_packet_is_parsed),
	cmocka_unit_test(test_no_refs),
	cmocka_unit_test(test_malformed),
	cmocka_unit_test(test_cut_short),
};

TEST_FILE(tests)
