#include "host/cmd/vocabulary.h"

#include "base/err.h"
#include "flash/image.h"
#include "host/model/packed.h"
#include "host/shipped/shipped_models.h"
#include "host/text/history.h"
#include "host/text/tokenizer.h"
#include "tensor/gguf.h"

#include <limits.h>

int vocabulary_open(struct tokenizer **out, const char *model, uint64_t *hash,
	struct err *e)
{
	char target[PATH_MAX];
	struct packed *image = NULL;
	struct gguf *g;
	int ret = 0;

	if (!model) {
		ret = models_find(MODEL_TARGET, target, e);
		model = target;
	}
	if (!ret)
		ret = image_probe(model) ? packed_open(&image, &g, model, e)
					 : gguf_open(&g, model, e);
	if (ret)
		return ret;
	ret = tokenizer_open(out, g, e);
	if (!ret && hash)
		*hash = vocabulary_hash(g);
	gguf_close(g);
	packed_close(image);
	return ret ? err_in(e, "%s", model) : 0;
}
