#include "host/api/options.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/decoder.h"
#include "host/method/method.h"
#include "host/session/session.h"
#include "host/shipped/soc_file.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char *const precision_names[] = { "f32", "f16-kv16", "f16", "int8", "npu",
	NULL };
_Static_assert(ARRAY_LEN(precision_names) == WIRE_PRECISION_COUNT + 1,
	"each has a name");

const char *const flash_io_names[] = { "direct", "buffered", "thread", NULL };

/* "40%" of the layers, or "1.5G". */
static int apply_budget(
	const char *text, struct session_opts *opts, struct err *e)
{
	char *end;
	double share = strtod(text, &end);

	if (end > text && !strcmp(end, "%") && share >= 0 && share <= 100) {
		opts->dram_share = share / 100;
		return 0;
	}
	if (opt_size(text, &opts->dram_bytes))
		return err_set(e, EINVAL,
			"--dram-budget '%s' is neither 0%% to 100%% nor a size "
			"like 1.5G",
			text);
	if (!opts->dram_bytes)
		opts->dram_share = 0;
	return 0;
}

static int apply_flash(
	const struct session_args *a, struct session_opts *opts, struct err *e)
{
	opts->stage_slots = (unsigned)a->stage_slots;
	opts->stream.stall_ms = opts->stall_ms;
	opts->stream.buffered = a->flash_io == FLASH_BUFFERED;
	opts->stream.threaded = a->flash_io == FLASH_THREAD;
	opts->flash_fault = a->flash_fault;
	return a->dram_budget ? apply_budget(a->dram_budget, opts, e) : 0;
}

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
	int ret;

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
	opts->stall_ms = (unsigned)ceil(a->device_timeout * 1000);
	opts->device = a->device;
	ret = apply_flash(a, opts, e);
	return ret ? ret : apply_clock(a, opts, e);
}

const char *const draft_places[] = { "host", "device", NULL };

static bool drafts(const struct method *m)
{
	return m->needs_draft;
}

static bool prunes(const struct method *m)
{
	return m->prunes;
}

static bool any(const struct method *m)
{
	return true;
}

/* Those of which it is so, by name; the caller's to release. */
static struct strbuf names_of(bool (*so)(const struct method *))
{
	struct strbuf names = STRBUF_INIT;

	for (size_t i = 0; methods[i]; i++)
		if (so(methods[i]))
			strbuf_addf(&names, "%s%s", names.len ? ", " : "",
				methods[i]->name);
	return names;
}

static int refuse_method(const struct method_args *a, struct err *e)
{
	struct strbuf names = names_of(any);
	int ret = err_set(e, EINVAL, "unknown method '%s'; there is: %s",
		a->method, names.data ? names.data : "");

	strbuf_release(&names);
	return ret;
}

static int refuse_file(const struct method_args *a, const char *option,
	const char *what, bool (*so)(const struct method *), struct err *e)
{
	struct strbuf names = names_of(so);
	int ret = err_set(e, EINVAL,
		"%s with method %s, which has no use for %s; try --method with "
		"one of: %s",
		option, a->method, what, names.data ? names.data : "");

	strbuf_release(&names);
	return ret;
}

/* --draft FILE or oracle:P. */
static int apply_draft(const struct method_args *a, struct decoder *d,
	struct decoder_files *files, struct err *e)
{
	static const char oracle[] = "oracle:";
	struct drafting_opts *o = &d->drafting.opts;
	const char *number;
	char *end;

	o->seed = (uint64_t)a->draft_seed;
	o->on_device = a->draft_on;
	o->batch = (uint32_t)a->draft_batch;
	o->temperature = a->draft_temperature;
	files->draft = a->draft;
	if (!a->draft || strncmp(a->draft, oracle, sizeof(oracle) - 1))
		return 0;
	number = a->draft + sizeof(oracle) - 1;
	o->oracle = strtod(number, &end);
	if (end > number && !*end && o->oracle > 0 && o->oracle <= 1)
		return 0;
	return err_set(e, EINVAL,
		"--draft '%s': behind oracle: stands how often it agrees, "
		"above 0 and at most 1, for example oracle:0.8",
		a->draft);
}

static void apply_prune(const struct method_args *a, struct decoder *d,
	struct decoder_files *files)
{
	struct prune_opts *o = &d->env.prune;

	*o = prune_defaults((uint32_t)a->candidates);
	if (a->prune_threshold >= 0) {
		o->theta = (float)a->prune_threshold;
		o->breadth_theta = o->theta / 2;
	}
	o->shadow = !a->no_shadow;
	o->safeguards = !a->no_safeguards;
	d->prune = !a->exit || strcmp(a->exit, "none");
	files->exit = d->prune ? a->exit : NULL;
}

int method_args_apply(const struct method_args *a, const struct method **method,
	struct decoder *d, struct decoder_files *files, struct err *e)
{
	struct method_env *env = &d->env;

	*method = method_find(a->method);
	if (!*method)
		return refuse_method(a, e);
	if (a->draft && !drafts(*method))
		return refuse_file(a, "--draft", "a draft model", drafts, e);
	if (a->exit && !prunes(*method))
		return refuse_file(a, "--exit", "an exit predictor", prunes, e);
	env->draft_length = (uint32_t)a->draft_length;
	env->tree_rows = (uint32_t)a->tree_rows;
	env->tree_depth = (uint32_t)a->tree_depth;
	env->candidates = (uint32_t)a->candidates;
	env->stop_rule = a->stop_rule;
	env->prune_always = a->prune_always;
	env->block_length = (uint32_t)a->block_length;
	env->block_steps =
		(uint32_t)(a->block_steps ? a->block_steps : a->block_length);
	apply_prune(a, d, files);
	return apply_draft(a, d, files, e);
}
