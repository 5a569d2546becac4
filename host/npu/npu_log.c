#include "host/npu/npu_log.h"

#include <assert.h>
#include <stddef.h>

void npu_log_put(struct npu_log *l, const struct npu_request *r)
{
	unsigned at;

	assert(~l->used);
	at = (unsigned)__builtin_ctz(~l->used);
	l->request[at] = *r;
	l->used |= 1u << at;
}

void npu_log_done(struct npu_log *l, const struct npu_request *r)
{
	l->used &= ~(1u << (r - l->request));
}

const struct npu_request *npu_log_find(const struct npu_log *l, uint32_t wired)
{
	for (uint32_t left = l->used; left; left &= left - 1) {
		const struct npu_request *r = &l->request[__builtin_ctz(left)];

		if (r->wired == wired)
			return r;
	}
	return NULL;
}

const struct npu_request *npu_log_of(const struct npu_log *l, uint32_t seq)
{
	for (uint32_t left = l->used; left; left &= left - 1) {
		const struct npu_request *r = &l->request[__builtin_ctz(left)];

		if (r->seq == seq)
			return r;
	}
	return NULL;
}
