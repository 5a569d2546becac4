/*
 * Plain decoding of a model whose layers are streamed from flash: each token
 * needs a pass over all layers. The methods that draft are compared with this
 * method.
 */
#include "base/err.h"
#include "host/method/methods.h"
#include "host/model/model.h"

#include <errno.h>

static uint32_t flash_ar_rows(const struct method_env *env)
{
	return 1;
}

static int flash_ar_open(
	struct method_env *env, const struct model *target, struct err *e)
{
	if (!target->packed)
		return err_set(e, EINVAL,
			"method flash-ar needs a flash image, and this model "
			"is not one; make one with 'tandem convert'");
	return 0;
}

const struct method method_flash_ar = {
	.name = "flash-ar",
	.summary = "one token in each pass, layers streamed from flash",
	.lossless = true,
	.open = flash_ar_open,
	.decode_rows = flash_ar_rows,
};
