#include "host/cmd/vocabulary.h"

#include "base/err.h"
#include "flash/image.h"
#include "host/model/packed.h"
#include "host/shipped/shipped_models.h"
#include "host/text/history.h"
#include "host/text/tokenizer.h"
#include "tensor/gguf.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

int vocabulary_open(struct tokenizer **out, const char *model, uint64_t *hash,
	struct err *e)
{
	char path[PATH_MAX];
	struct packed *image = NULL;
	struct gguf *g;
	int ret = models_choose(model, MODEL_TARGET, path, e);

	if (!ret)
		ret = image_probe(path) ? packed_open(&image, &g, path, e)
					: gguf_open(&g, path, e);
	if (ret)
		return ret;
	ret = tokenizer_open(out, g, e);
	if (!ret && hash)
		*hash = vocabulary_hash(g);
	gguf_close(g);
	packed_close(image);
	return ret ? err_in(e, "%s", path) : 0;
}

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
