#include "host/npu/npu_log.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The request of the lowest bit. */
static struct npu_request *first_of(struct npu_log *l, uint64_t bits)
{
	return &l->request[__builtin_ctzll(bits)];
}

void npu_log_release(struct npu_log *l)
{
	for (unsigned i = 0; i < NPU_LOG_MAX; i++)
		free(l->request[i].packet);
	*l = (struct npu_log){ 0 };
}

static int grow(struct npu_request *r, size_t bytes, struct err *e)
{
	/* Most are of one size, that of a run: they grow once. */
	size_t room = bytes < 512 ? 512 : bytes;
	void *p;

	if (bytes <= r->room)
		return 0;
	p = realloc(r->packet, room);
	if (!p)
		return err_set(e, ENOMEM,
			"no memory to keep a request of %zu bytes", bytes);
	r->packet = p;
	r->room = room;
	return 0;
}

int npu_log_put(struct npu_log *l, uint32_t seq, const struct wire_ref *refs,
	unsigned n_refs, const void *msg, size_t len, struct npu_request **out,
	struct err *e)
{
	size_t refs_len = n_refs * sizeof(*refs);
	struct npu_request *r;
	int ret;

	if (l->used == UINT64_MAX)
		return err_set(e, ENOSPC,
			"%d requests are under way or were lost, more cannot "
			"be kept",
			NPU_LOG_MAX);
	r = first_of(l, ~l->used);
	ret = grow(r, refs_len + len, e);
	if (ret)
		return ret;
	r->seq = seq;
	r->lost = false;
	r->n_refs = n_refs;
	r->len = len;
	memcpy(&r->op, msg, sizeof(r->op));
	if (n_refs)
		memcpy(r->packet, refs, refs_len);
	memcpy((uint8_t *)r->packet + refs_len, msg, len);
	l->used |= (uint64_t)1 << (r - l->request);
	*out = r;
	return 0;
}

void npu_log_done(struct npu_log *l, const struct npu_request *r)
{
	l->used &= ~((uint64_t)1 << (r - l->request));
}

struct npu_request *npu_log_find(struct npu_log *l, uint32_t wired)
{
	for (uint64_t left = l->used; left; left &= left - 1) {
		struct npu_request *r = first_of(l, left);

		if (r->wired == wired && !r->lost)
			return r;
	}
	return NULL;
}

const struct npu_request *npu_log_of(const struct npu_log *l, uint32_t seq)
{
	for (uint64_t left = l->used; left; left &= left - 1) {
		const struct npu_request *r =
			&l->request[__builtin_ctzll(left)];

		if (r->seq == seq)
			return r;
	}
	return NULL;
}

void npu_log_lose(struct npu_log *l)
{
	for (uint64_t left = l->used; left; left &= left - 1)
		first_of(l, left)->lost = true;
}

struct npu_request *npu_log_lost(struct npu_log *l)
{
	struct npu_request *first = NULL;

	for (uint64_t left = l->used; left; left &= left - 1) {
		struct npu_request *r = first_of(l, left);

		/* Numbers wrap; those in one log are close together. */
		if (r->lost && (!first || (int32_t)(r->seq - first->seq) < 0))
			first = r;
	}
	return first;
}

const struct wire_ref *npu_request_refs(const struct npu_request *r)
{
	return r->packet;
}

const void *npu_request_msg(const struct npu_request *r)
{
	return (const uint8_t *)r->packet + r->n_refs * sizeof(struct wire_ref);
}
