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
