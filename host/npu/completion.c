#include "host/npu/completion.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "host/npu/npu_log.h"
#include "ipc/channel.h"

#include <errno.h>
#include <string.h>

#define LOWEST_STATUS (-4095) /* lowest status that is a negated errno */
/* Busy times of up to SURELY_NS nanoseconds are accepted without reading the
 * clock: more time has certainly passed since the device was started. */
#define SURELY_NS 1000000ull

const char *completion_op(uint32_t op)
{
	static const char *const names[WIRE_OP_COUNT] = {
		[WIRE_NOP] = "nop",
		[WIRE_MAP] = "map",
		[WIRE_UNMAP] = "unmap",
		[WIRE_GRAPH_LOAD] = "graph load",
		[WIRE_GRAPH_DROP] = "graph drop",
		[WIRE_GRAPH_RUN] = "graph run",
		[WIRE_SOC] = "soc",
		[WIRE_UNMAP_EXTENDED] = "unmap extended",
	};

	return op < ARRAY_LEN(names) && names[op] ? names[op] : "?";
}

static int check_counters(
	const struct wire_counters *c, uint64_t opened_ns, struct err *e)
{
	const struct {
		const char *name;
		uint64_t value;
	} bounded[] = {
		{ "dma_bytes", c->dma_bytes },
		{ "invalidated_lines", c->invalidated_lines },
		{ "cleaned_lines", c->cleaned_lines },
		{ "evicted_lines", c->evicted_lines },
		{ "whole_calls", c->whole_calls },
	};
	uint64_t age;

	for (unsigned i = 0; i < ARRAY_LEN(bounded); i++)
		if (bounded[i].value > COMPLETION_MOST)
			return err_set(e, EPROTO,
				"the counter %s is %llu, more than one "
				"request can reach",
				bounded[i].name,
				(unsigned long long)bounded[i].value);
	if (c->busy_ns <= SURELY_NS)
		return 0;
	age = clock_ns() - opened_ns;
	if (c->busy_ns <= age)
		return 0;
	return err_set(e, EPROTO,
		"the counter busy_ns is %llu ns, but the device was started "
		"only %llu ns ago",
		(unsigned long long)c->busy_ns, (unsigned long long)age);
}

/* Check the arguments (arg[]) of a completion that reports success. */
static int check_arguments(const struct wire_done *done, struct err *e)
{
	const uint32_t *arg = done->arg;
	uint64_t read = completion_u64(done, WIRE_RUN_KV_READ);
	uint64_t apart = completion_u64(done, WIRE_RUN_KV_APART);
	uint64_t extended = completion_u64(done, WIRE_RUN_EXTENDED);

	if (done->status)
		return 0;
	if (done->op == WIRE_GRAPH_LOAD || done->op == WIRE_GRAPH_DROP) {
		/* The current count of graphs must not exceed the maximum that
		 * the device has reported so far. */
		if (arg[WIRE_GRAPHS_HELD] > arg[WIRE_GRAPHS_MOST] ||
			arg[WIRE_GRAPHS_MOST] > WIRE_MAX_GRAPHS)
			return err_set(e, EPROTO,
				"the device reports %u graphs now and a "
				"maximum of %u so far, but there can be "
				"only %u",
				arg[WIRE_GRAPHS_HELD], arg[WIRE_GRAPHS_MOST],
				WIRE_MAX_GRAPHS);
		if (arg[WIRE_GRAPHS_KIB] > arg[WIRE_GRAPHS_MOST_KIB])
			return err_set(e, EPROTO,
				"the device reports %u KiB of weights of "
				"graphs now, but a maximum of only %u KiB "
				"so far",
				arg[WIRE_GRAPHS_KIB],
				arg[WIRE_GRAPHS_MOST_KIB]);
	}
	if (done->op == WIRE_GRAPH_RUN) {
		if (extended > done->counters.dma_bytes)
			return err_set(e, EPROTO,
				"the device reports %llu bytes read from the "
				"extended region, but only %llu bytes read "
				"by DMA in total",
				(unsigned long long)extended,
				(unsigned long long)done->counters.dma_bytes);
		/* Rows that share reads of keys and values never read more than
		 * they would read separately. */
		if (read > apart || apart > COMPLETION_MOST)
			return err_set(e, EPROTO,
				"the device reports %llu bytes read of keys "
				"and values, but its rows attend to only "
				"%llu bytes",
				(unsigned long long)read,
				(unsigned long long)apart);
	}
	return 0;
}

int completion_take(const struct packet *p, const struct npu_request *r,
	bool priced, uint64_t opened_ns, struct wire_done *done, struct err *e)
{
	uint64_t most = priced ? COMPLETION_MOST : 0;
	int ret = 0;

	if (!r)
		return err_set(e, EPROTO,
			"the device answered request %u, which is not in "
			"flight",
			p->seq);
	if (p->len != sizeof(*done) || p->n_refs)
		return err_set(e, EPROTO,
			"the device's answer to request %u (%s) has %zu bytes "
			"and %u references; a completion has %zu and none",
			r->seq, completion_op(r->op), p->len, p->n_refs,
			sizeof(*done));
	memcpy(done, p->msg, sizeof(*done));
	if (done->op != r->op)
		ret = err_set(e, EPROTO, "the answer is to operation %u (%s)",
			done->op, completion_op(done->op));
	else if (done->status > 0 || done->status < LOWEST_STATUS)
		ret = err_set(e, EPROTO, "the status %d is not an error code",
			done->status);
	else if (!memchr(done->text, '\0', sizeof(done->text)))
		ret = err_set(e, EPROTO,
			"the text of the answer does not end with a zero byte");
	else
		err_plain(done->text);
	if (!ret)
		ret = check_counters(&done->counters, opened_ns, e);
	for (unsigned i = 0; i < WIRE_PRICE_WORDS && !ret; i++)
		if (done->price[i] > most)
			ret = err_set(e, EPROTO,
				"word %u of the phone's time is %llu%s", i,
				(unsigned long long)done->price[i],
				priced ? ", more than any request can take"
				       : ", but the device has no cost model");
	if (!ret)
		ret = check_arguments(done, e);
	return ret ? err_in(e, "the device's answer to request %u (%s)", r->seq,
			     completion_op(r->op))
		   : 0;
}
