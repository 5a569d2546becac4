#include "host/options.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/method/method.h"
#include "host/session.h"
#include "host/soc_file.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

const char *const precision_names[] = { "f32", "f16-kv16", "f16", "int8", "npu",
	NULL };
_Static_assert(ARRAY_LEN(precision_names) == WIRE_PRECISION_COUNT + 1,
	"each has a name");

/* "wall", or "soc:NAME", whose profile is read. */
static int apply_clock(
	struct session_args *a, struct session_opts *opts, struct err *e)
{
	int ret;

	if (!a->clock || !strcmp(a->clock, "wall"))
		return 0;
	if (strncmp(a->clock, "soc:", 4) || !a->clock[4])
		return err_set(e, EINVAL,
			"--clock '%s' is neither wall nor soc:NAME; try "
			"soc:sd8gen3",
			a->clock);
	ret = soc_file_load(&a->soc, a->clock + 4, e);
	opts->soc = ret ? NULL : &a->soc;
	opts->clock = a->clock;
	return ret;
}

int session_args_apply(
	struct session_args *a, struct session_opts *opts, struct err *e)
{
	*opts = session_defaults;
	opts->threads = (uint32_t)a->threads;
	opts->prefill_chunk = (uint32_t)a->prefill_chunk;
	opts->context = (uint32_t)a->context;
	opts->precision = (enum wire_precision)a->precision;
	opts->layout = (enum layout)a->layout;
	opts->coherence = (enum coherence)a->coherence;
	opts->doorbell = (enum doorbell_kind)a->doorbell;
	opts->va_window = a->va_window;
	opts->va_slots = (uint32_t)a->va_slots;
	opts->evict_seed = (uint64_t)a->evict_seed;
	opts->spin_us = a->spin_us;
	opts->stall_ms = (unsigned)(a->device_timeout * 1000);
	opts->device = a->device;
	return apply_clock(a, opts, e);
}

static void add_names(struct strbuf *names, bool only_drafting)
{
	for (size_t i = 0; methods[i]; i++)
		if (!only_drafting || methods[i]->needs_draft)
			strbuf_addf(names, "%s%s", names->len ? ", " : "",
				methods[i]->name);
}

static int refuse_method(const struct method_args *a, struct err *e)
{
	struct strbuf names = STRBUF_INIT;
	int ret;

	add_names(&names, false);
	ret = err_set(e, EINVAL, "unknown method '%s'; there is: %s", a->method,
		names.data ? names.data : "");
	strbuf_release(&names);
	return ret;
}

static int refuse_draft(const struct method_args *a, struct err *e)
{
	struct strbuf names = STRBUF_INIT;
	int ret;

	add_names(&names, true);
	ret = err_set(e, EINVAL,
		"--draft with method %s, which has no use for a draft model; "
		"try --method with one of: %s",
		a->method, names.data ? names.data : "");
	strbuf_release(&names);
	return ret;
}

int method_args_apply(const struct method_args *a, const struct method **method,
	struct method_env *env, struct err *e)
{
	*method = method_find(a->method);
	if (!*method)
		return refuse_method(a, e);
	if (a->draft && !(*method)->needs_draft)
		return refuse_draft(a, e);
	env->draft_length = (uint32_t)a->draft_length;
	env->block_length = (uint32_t)a->block_length;
	env->block_steps =
		(uint32_t)(a->block_steps ? a->block_steps : a->block_length);
	return 0;
}
