#include "host/cmd/ids.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GAPS " \t\r\n\v\f,"

int ids_next(struct ids *ids, int32_t *id, struct err *e)
{
	size_t word;
	char *end;
	long v;

	ids->at += strspn(ids->at, GAPS);
	if (ids->at == ids->end)
		return 0;
	ids->n++;
	word = strcspn(ids->at, GAPS);
	errno = 0;
	v = strtol(ids->at, &end, 10);
	if (!word || end != ids->at + word || errno || *ids->at == '+')
		return err_set(e, EINVAL,
			"id number %zu, '%.*s', is not a token id", ids->n,
			word > 40 ? 40 : (int)word, ids->at);
	if (v < 0 || v >= (long)ids->n_vocab)
		return err_set(e, EINVAL,
			"id number %zu is %ld; the vocabulary has 0 to %u",
			ids->n, v, ids->n_vocab - 1);
	*id = (int32_t)v;
	ids->at += word;
	return 1;
}
