/*
 * Plain decoding of a model whose layers come from flash: each token costs a
 * pass over all of them. What the methods that draft are measured against.
 */
#include "base/err.h"
#include "host/method/method.h"
#include "host/model/model.h"
#include "host/session/session.h"

#include <errno.h>

static uint32_t flash_ar_rows(const struct method_env *env)
{
	return 1;
}

static int flash_ar_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	if (!session_model(s)->packed)
		return err_set(e, EINVAL,
			"method flash-ar needs a flash image, and this model "
			"is not one; make one with tandem convert");
	return autoregressive_run(s, g, env, e);
}

const struct method method_flash_ar = {
	.name = "flash-ar",
	.summary = "one token in each pass, layers streamed from flash",
	.lossless = true,
	.decode_rows = flash_ar_rows,
	.run = flash_ar_run,
};
