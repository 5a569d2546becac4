/* Tests Tandem's versions of functions of the Hexagon SDK, and their effect on
 * the cache. */
#include "tests/harness.h"

#include "shm/coherence/hexagon/AEEStdErr.h"
#include "shm/coherence/hexagon/HAP_mem.h"
#include "shm/coherence/hexagon/HAP_vtcm_mgr.h"
#include "shm/coherence/hexagon/dspqueue.h"
#include "shm/coherence/hexagon/hexagon_protos.h"
#include "shm/coherence/hexagon/hexagon_types.h"
#include "shm/coherence/hexagon/qurt_memory.h"
#include "shm/coherence/hexagon/remote.h"
#include "shm/coherence/hexagon/rpcmem.h"
#include "shm/coherence/hexagon/tandem_hexagon.h"
#include "shm/coherence/tandem_coherence.h"

#include <stdio.h>
#include <string.h>

#define BYTES 8192

static char last[2048];

static void keep(void *arg, const char *text)
{
	snprintf(last, sizeof(last), "%s", text);
}

static uint8_t *open_one(enum coherence_contract contract)
{
	uint8_t *mem;

	last[0] = '\0';
	assert_int_equal(tandem_hexagon_open(&(struct coherence_config){
				 .level = COHERENCE_CHECK,
				 .contract = contract,
				 .report = keep }),
		0);
	mem = rpcmem_alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, BYTES);
	assert_non_null(mem);
	return mem;
}

/* Open both ends of a queue without callbacks. */
static void open_queue(dspqueue_t end[2])
{
	uint64_t id;

	assert_int_equal(dspqueue_create(CDSP_DOMAIN_ID, 0, 0, 0, NULL, NULL,
				 NULL, &end[0]),
		0);
	assert_int_equal(dspqueue_export(end[0], &id), 0);
	assert_int_equal(dspqueue_import(id, NULL, NULL, NULL, &end[1]), 0);
}

static void close_queue(dspqueue_t end[2])
{
	assert_int_equal(dspqueue_close(end[0]), AEE_EBADSTATE);
	assert_int_equal(dspqueue_close(end[1]), 0);
	assert_int_equal(dspqueue_close(end[0]), 0);
}

static int pass(dspqueue_t from, dspqueue_t to, struct dspqueue_buffer *b)
{
	uint32_t flags, buffers, bytes;
	uint8_t message = 0;
	int ret = dspqueue_write(
		from, 5, 1, b, 1, &(uint8_t){ 42 }, DSPQUEUE_TIMEOUT_NONE);

	if (ret)
		return ret;
	assert_int_equal(dspqueue_read(to, &flags, 1, &buffers, b, 1, &bytes,
				 &message, DSPQUEUE_TIMEOUT_NONE),
		0);
	assert_int_equal(flags, 5);
	assert_int_equal(buffers, 1);
	assert_int_equal(bytes, 1);
	assert_int_equal(message, 42);
	return 0;
}

static uint8_t read_byte(const uint8_t *at)
{
	return *(const uint8_t *)HEX_READ(at, 1);
}

static void test_message_flags_are_maintenance(void **state)
{
	uint8_t *mem = open_one(COHERENCE_ONE_LEVEL);
	struct dspqueue_buffer b = { .fd = (uint32_t)rpcmem_to_fd(mem),
		.offset = 64,
		.flags = DSPQUEUE_BUFFER_FLAG_FLUSH_SENDER |
			DSPQUEUE_BUFFER_FLAG_INVALIDATE_RECIPIENT };
	dspqueue_t end[2];

	open_queue(end);
	for (uint8_t n = 1; n < 4; n++) {
		mem[64] = n;
		b.ptr = NULL;
		b.size = 0;
		b.flags &= ~(uint32_t)DSPQUEUE_BUFFER_FLAG_DEREF;
		b.flags |= DSPQUEUE_BUFFER_FLAG_REF;
		assert_int_equal(pass(end[0], end[1], &b), 0);
		assert_ptr_equal(b.ptr, mem + 64);
		assert_int_equal(b.size, BYTES - 64);
		assert_int_equal(read_byte(b.ptr), n);
		memset(HEX_WRITE(mem + 128, 64), n, 64);
		assert_int_equal(mem[128], n - 1);
		b.flags ^=
			DSPQUEUE_BUFFER_FLAG_REF | DSPQUEUE_BUFFER_FLAG_DEREF;
		assert_int_equal(pass(end[1], end[0], &b), 0);
		assert_int_equal(mem[128], n); /* FLUSH_SENDER cleaned it */
	}
	/* refused: the message would remove the same reference again */
	assert_int_equal(pass(end[1], end[0], &b), AEE_EBADSTATE);
	b.offset = BYTES;
	assert_int_equal(pass(end[0], end[1], &b), AEE_EBADPARM);
	close_queue(end);
	assert_string_equal(last, "");
	assert_int_equal(tandem_hexagon_close(), 0);
}

static void test_missing_invalidate_is_reported(void **state)
{
	uint8_t *mem = open_one(COHERENCE_ONE_LEVEL);
	struct dspqueue_buffer b = { .fd = (uint32_t)rpcmem_to_fd(mem),
		.flags = DSPQUEUE_BUFFER_FLAG_FLUSH_SENDER };
	dspqueue_t end[2];

	open_queue(end);
	for (unsigned n = 0; n < 2; n++) {
		mem[0] = (uint8_t)(n + 1);
		assert_int_equal(pass(end[0], end[1], &b), 0);
		HEX_OPERATOR("sum", 3);
		assert_int_equal(read_byte(mem), 1);
		b.flags = 0;
		assert_int_equal(pass(end[1], end[0], &b), 0);
		b.flags = DSPQUEUE_BUFFER_FLAG_FLUSH_SENDER;
	}
	assert_non_null(strstr(last, "stale read: rpcmem:1 [0, 1) in sum"));
	assert_non_null(strstr(last, "the CPU, bracket 2, dspqueue_write"));
	assert_non_null(strstr(last, "missing: invalidate of rpcmem:1"));
	close_queue(end);
	assert_int_equal(tandem_hexagon_close(), 1);
}

static void test_reading_an_empty_queue_expires(void **state)
{
	dspqueue_t end[2];
	uint32_t n;
	uint8_t byte;

	open_one(COHERENCE_ONE_LEVEL);
	open_queue(end);
	assert_int_equal(
		dspqueue_read_noblock(end[1], &n, 0, &n, NULL, 1, &n, &byte),
		AEE_EWOULDBLOCK);
	assert_int_equal(
		dspqueue_read(end[1], &n, 0, &n, NULL, 1, &n, &byte, 1000),
		AEE_EEXPIRED);
	close_queue(end);
	tandem_hexagon_close();
}

/* With two cache levels a ranged flush does not reach memory. */
static void test_cache_operations(void **state)
{
	uint8_t *mem;

	for (unsigned contract = 1; contract <= 2; contract++) {
		mem = open_one(contract);
		memset(HEX_WRITE(mem, 64), 1, 64);
		qurt_mem_cache_clean((qurt_addr_t)mem, 64, QURT_MEM_CACHE_FLUSH,
			QURT_MEM_DCACHE);
		assert_int_equal(mem[0], contract == 1);
		qurt_mem_cache_clean(
			0, 0, QURT_MEM_CACHE_FLUSH_ALL, QURT_MEM_DCACHE);
		assert_int_equal(mem[0], 1);
		mem[0] = 2;
		qurt_mem_cache_clean((qurt_addr_t)mem, 64,
			QURT_MEM_CACHE_INVALIDATE, QURT_MEM_DCACHE);
		assert_int_equal(read_byte(mem), contract == 1 ? 2 : 1);
		qurt_mem_cache_clean(0, 0, QURT_MEM_CACHE_FLUSH_INVALIDATE_ALL,
			QURT_MEM_DCACHE);
		assert_int_equal(read_byte(mem), 2);
		memset(HEX_WRITE(mem + 64, 64), 3, 64);
		Q6_dccleaninva_A(mem + 64);
		assert_int_equal(mem[64], contract == 1 ? 3 : 0);
		tandem_hexagon_close();
	}
	assert_int_equal(qurt_mem_cache_clean(
				 0, 0, (qurt_mem_cache_op_t)9, QURT_MEM_DCACHE),
		QURT_EINVALID);
}

static void test_dma_moves_rows_until_the_wait(void **state)
{
	uint8_t *mem = open_one(COHERENCE_ONE_LEVEL);
	uint8_t *vtcm = HAP_request_VTCM(BYTES, 1);
	hexagon_udma_descriptor_type1_t back = { .desctype = 1,
		.src = vtcm,
		.dst = mem + 4096,
		.roiwidth = 16,
		.roiheight = 4,
		.srcstride = 16,
		.dststride = 16 };
	hexagon_udma_descriptor_type1_t fetch = { .next = &back,
		.desctype = 1,
		.src = mem,
		.dst = vtcm,
		.roiwidth = 16,
		.roiheight = 4,
		.srcstride = 64,
		.dststride = 16 };

	assert_non_null(vtcm);
	memset(vtcm, 0, BYTES);
	for (unsigned i = 0; i < 256; i++)
		mem[i] = (uint8_t)i;
	Q6_dmstart_A(&fetch);
	assert_int_equal(vtcm[16], 0);
	assert_int_equal(Q6_R_dmpoll(), 1);
	assert_int_equal(fetch.dstate, 0);
	assert_int_equal(Q6_R_dmpoll(), 1);
	assert_int_equal(fetch.dstate, 1);
	assert_int_equal(back.dstate, 0);
	assert_int_equal(read_byte(vtcm + 16), 64);
	assert_int_equal(Q6_R_dmwait(), 0);
	assert_int_equal(back.dstate, 1);
	assert_int_equal(mem[4096 + 63], 192 + 15);
	assert_string_equal(last, "");

	/* A transfer from a buffer to a buffer is done at once. */
	Q6_dmstart_A(&(hexagon_udma_descriptor_type0_t){
		.src = mem, .dst = mem + 1024, .length = 64 });
	assert_int_equal(mem[1024 + 63], 63);
	assert_int_equal(Q6_R_dmwait(), 0);
	HAP_release_VTCM(vtcm);
	assert_int_equal(tandem_hexagon_close(), 0);
}

static void test_buffers_are_found_by_address_and_number(void **state)
{
	uint8_t *mem = open_one(COHERENCE_ONE_LEVEL), other = 1;
	uint64_t physical = 0;
	void *at;

	assert_int_equal(tandem_hexagon_open(&(struct coherence_config){ 0 }),
		-16); /* EBUSY */
	assert_int_equal(HAP_mmap_get(rpcmem_to_fd(mem), &at, &physical), 0);
	assert_ptr_equal(at, mem);
	assert_int_equal(HAP_mmap_get(99, &at, NULL), AEE_EBADPARM);
	assert_int_equal(fastrpc_mmap(CDSP_DOMAIN_ID, rpcmem_to_fd(mem), mem, 0,
				 BYTES, FASTRPC_MAP_FD),
		0);
	assert_int_equal(rpcmem_to_fd(mem + 1), -1);
	assert_ptr_equal(HEX_READ(&other, 1), &other);
	rpcmem_free(mem);
	assert_int_equal(rpcmem_to_fd(mem), -1);
	tandem_hexagon_close();
	assert_null(rpcmem_alloc(0, 0, 64)); /* the cache is not open */
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_message_flags_are_maintenance),
	cmocka_unit_test(test_missing_invalidate_is_reported),
	cmocka_unit_test(test_reading_an_empty_queue_expires),
	cmocka_unit_test(test_cache_operations),
	cmocka_unit_test(test_dma_moves_rows_until_the_wait),
	cmocka_unit_test(test_buffers_are_found_by_address_and_number),
};

TEST_FILE(tests)
