#include "host/head/reward_impl.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "host/head/scorer.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/shipped/shipped_models.h"
#include "tensor/gguf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- options ------------------------------------------------------------- */

static const char exact[] = "exact";

bool reward_word(size_t i, struct opt_word *w)
{
	static const struct opt_word words[] = {
		{ "reward", NULL,
			"reward model for the bundled model 'target'" },
		{ "reward-small", NULL,
			"reward model for the bundled model 'small'" },
		{ exact, NULL,
			"1 for a right answer, otherwise 0: for tasks with "
			"known answers" },
	};

	*w = (struct opt_word){ 0 };
	if (i < ARRAY_LEN(words))
		*w = words[i];
	return i < ARRAY_LEN(words);
}

static const struct opt option_rows[] = {
	{ OPT_STRING, 0, "reward", OPT_IN(reward_options, name), "NAME|FILE",
		"reward model that scores the steps of a solution; a bundled "
		"one, or a process reward model in a GGUF file (the bundled "
		"one for the model):",
		.noun = "a reward", .words = reward_word },
};

const struct opt_table reward_table = {
	.heading = "samples",
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults = &(const struct reward_options){ NULL },
	.size = sizeof(struct reward_options),
};

/* ---- the kind "exact" ---------------------------------------------------- */

struct function {
	reward_function *score;
	void *arg;
};

int reward_check_unanswered(const char *name, struct err *e)
{
	if (!name || strcmp(name, exact) != 0)
		return 0;
	return err_set(e, EINVAL,
		"the reward 'exact' needs items with answers: use tandem eval");
}

static int function_score(
	struct reward *r, struct reward_text *t, unsigned n, struct err *e)
{
	const struct function *f = r->own;

	return f->score ? f->score(f->arg, t, n, e)
			: reward_check_unanswered(exact, e);
}

static const struct reward_kind kind_function = {
	.name = exact,
	.score = function_score,
};

void reward_report(struct reward *r, reward_function *score, void *arg)
{
	if (r->kind == &kind_function)
		*(struct function *)r->own = (struct function){ score, arg };
}

/* ---- opening ------------------------------------------------------------- */

/* Set r->path to the bundled reward model that belongs to the target. Fails if
 * the target is not a bundled model that has one. */
static int find_own(struct reward *r, struct err *e)
{
	static const struct {
		enum model_role model, reward;
	} pairs[] = {
		{ MODEL_TARGET, MODEL_REWARD },
		{ MODEL_SMALL, MODEL_REWARD_SMALL },
	};
	const char *path = r->site.target_path;

	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		struct stat is, ours;
		char file[PATH_MAX];
		int ret = models_find(pairs[i].model, file, e);

		if (ret == -ENOMEM)
			return ret;
		if (!ret && !stat(path, &is) && !stat(file, &ours) &&
			is.st_ino == ours.st_ino && is.st_dev == ours.st_dev)
			return models_find(pairs[i].reward, r->path, e);
	}
	return err_set(e, EINVAL,
		"no bundled reward model belongs to '%s'; give one with "
		"--reward FILE",
		path);
}

int reward_open(struct reward **out, const char *name,
	const struct reward_site *site, struct err *e)
{
	static const char key[] = "general.architecture";
	struct reward *r = calloc(1, sizeof(*r));
	struct gguf *g = NULL;
	struct gguf_str arch;
	int ret;

	if (!r)
		return err_set(e, ENOMEM, "no memory for the reward model");
	r->site = *site;
	if (name && !strcmp(name, exact)) {
		r->kind = &kind_function;
		memcpy(r->path, exact, sizeof(exact));
		r->own = calloc(1, sizeof(struct function));
		ret = r->own
			? 0
			: err_set(e, ENOMEM, "no memory for the reward model");
		goto out;
	}
	ret = name ? models_choose(name, MODEL_REWARD, r->path, e)
		   : find_own(r, e);
	if (!ret)
		ret = gguf_open(&g, r->path, e);
	if (ret)
		goto out;
	ret = gguf_need(gguf_str(g, key, &arch, e), key, e);
	if (ret) {
		err_in(e, "'%s'", r->path);
		goto out;
	}
	r->kind = gguf_str_is(arch, "tandem-reward") ? &reward_kind_head
						     : &reward_kind_prm;
	ret = r->kind->read(r, e);
out:
	gguf_close(g);
	if (ret)
		reward_close(r);
	else
		*out = r;
	return ret;
}

uint32_t reward_tap_layers(const struct reward *r)
{
	return r->kind->tap_layers ? r->kind->tap_layers(r) : 0;
}

bool reward_scores_fall(const struct reward *r)
{
	return r->kind->scores_fall;
}

int reward_start(struct reward *r, struct session *beside,
	const struct session_opts *opts, uint32_t texts, struct err *e)
{
	int ret =
		r->kind->start ? r->kind->start(r, beside, opts, texts, e) : 0;

	r->beside = beside;
	return ret ? err_in(e, "'%s'", r->path) : 0;
}

void reward_close(struct reward *r)
{
	if (!r)
		return;
	scorer_close(r->scorer);
	if (r->kind && r->kind->close)
		r->kind->close(r);
	free(r->own);
	free(r);
}

const char *reward_name(const struct reward *r)
{
	return r->path;
}

/* ---- scoring ------------------------------------------------------------- */

int reward_score(
	struct reward *r, struct reward_text *t, unsigned n, struct err *e)
{
	uint64_t ps = r->beside ? session_phone_ps(r->beside) : 0;
	uint64_t began = clock_ns();
	int ret;

	for (unsigned i = 0; i < n; i++) {
		size_t before = t[i].n_prompt;

		if (!t[i].n_prompt || t[i].n_prompt > t[i].n)
			return err_set(e, EINVAL,
				"the prompt of the text to score has %zu "
				"tokens, must have 1 to %zu, as many as the "
				"whole text",
				t[i].n_prompt, t[i].n);
		for (uint32_t k = 0; k < t[i].n_steps; k++) {
			if (t[i].step_end[k] < before ||
				t[i].step_end[k] >= t[i].n)
				return err_set(e, EINVAL,
					"step %u of a text of %zu tokens "
					"ends at token index %u, which must "
					"be at least %zu and inside the text",
					k, t[i].n, t[i].step_end[k], before);
			before = (size_t)t[i].step_end[k] + 1;
		}
	}
	if (!n)
		return 0;
	ret = r->kind->score(r, t, n, e);
	r->stats.ns += clock_ns() - began;
	r->stats.ps += r->beside ? session_phone_ps(r->beside) - ps : 0;
	for (unsigned i = 0; i < n && !ret; i++) {
		r->stats.texts++;
		r->stats.steps += t[i].n_steps;
		r->stats.tokens += t[i].n;
	}
	return ret;
}

void reward_stats(const struct reward *r, struct reward_stats *out)
{
	struct session_stats s;

	*out = r->stats;
	if (!r->scorer)
		return;
	session_stats(scorer_session(r->scorer), &s);
	out->rows = s.rows;
	out->passes = s.passes;
}
