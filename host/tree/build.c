#include "host/tree/build.h"

#include <stdlib.h>

/* A step may name no nodes, then the next one follows, or more nodes than are
 * returned at once. */
int build_next(
	struct build *b, const uint32_t **node, uint32_t *n, struct err *e)
{
	for (b->n = 0; !b->n;) {
		int ret = b->at < b->end ? BUILD_EXPAND : b->step(b, e);

		if (ret != BUILD_EXPAND)
			return ret;
		while (b->at < b->end && b->n < BUILD_BATCH)
			b->node[b->n++] = b->at++;
	}
	*node = b->node;
	*n = b->n;
	return BUILD_EXPAND;
}

void build_release(struct build *b)
{
	free(b->memory);
	*b = (struct build){ 0 };
}
