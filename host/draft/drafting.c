#include "host/draft/drafting.h"

#include "base/err.h"
#include "host/draft/draft_kind.h"
#include "host/draft/drafter_join.h"
#include "host/model/model.h"
#include "host/model/shapes.h"
#include "host/session/session.h"
#include "host/shipped/shipped_models.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- options ------------------------------------------------------------- */

static const char *const places[] = { "host", "device", NULL };

/* Set *w to number i of the words that --draft accepts: the names of the kinds.
 * Returns false if --draft accepts no more than i words. */
static bool draft_word(size_t i, struct opt_word *w)
{
	const struct draft_kind *const *k = draft_kinds;

	*w = (struct opt_word){ 0 };
	for (; *k; k++)
		if ((*k)->name && !i--)
			break;
	if (*k)
		*w = (struct opt_word){ (*k)->name, (*k)->shown,
			(*k)->summary };
	return *k;
}

/* clang-format off */
#define IN(field) OPT_IN(drafting_options, field)
static const struct opt option_rows[] = {
	{ OPT_STRING, 0, "draft", IN(draft), "FILE|oracle:P",
		"draft model or EAGLE head (a GGUF file, or model or eagle for "
		"a bundled one), or another drafter; several drafters, joined "
		"by +, pool their candidates (default: model+sam; with method "
		"chain: model):",
		.noun = "a draft model", .words = draft_word },
	{ OPT_CHOICE, 0, "draft-on", IN(on_device), NULL,
		"where the draft model runs ({})", .choices = places },
	{ OPT_UINT, 0, "draft-batch", IN(batch), "N",
		"number of tree nodes whose children the draft model predicts "
		"in one step (0: on the host as many as the method requests, "
		"on the device 8)", 0, 64 },
	{ OPT_FLOAT, 0, "draft-temp", IN(temperature), "T",
		"temperature applied to the draft model's probabilities ({})",
		0.05, 10 },
	{ OPT_CHOICE, 0, "draft-as", IN(as), "SHAPE",
		"compute phone times as if the draft model had this shape; see "
		"--as. With --draft oracle, phone times then include drafting "
		"by a model of this shape on the CPU; without this option "
		"an oracle takes no time",
		.choices = dense_shape_names,
		.noun = "a draft model's shape" },
	{ OPT_UINT, 0, "draft-seed", IN(seed), "N",
		"seed of the random errors of --draft oracle:P ({})",
		0, INT32_MAX },
};
/* clang-format on */

const struct opt_table drafting_table = OPT_TABLE_INIT("drafts", option_rows,
	drafting_options, .temperature = 1, .seed = 1, .as = -1);

const struct opt_table *drafting_tables(size_t i)
{
	const struct opt_table *t = &drafting_table;

	for (size_t k = 0; i && draft_kinds[k]; k++) {
		t = draft_kinds[k]->options;
		for (size_t before = 0; before < k && t; before++)
			if (draft_kinds[before]->options == t)
				t = NULL;
		i -= t != NULL;
	}
	return i ? NULL : t;
}

const struct shape *drafting_as(const struct drafting_options *o)
{
	return o->as >= 0 ? &shapes[o->as] : NULL;
}

static bool drafts(const struct drafting *d, const struct draft_kind *kind)
{
	for (unsigned i = 0; i < d->n; i++)
		if (d->part[i].kind == kind)
			return true;
	return false;
}

int drafting_check_needless(const struct drafting *d, struct err *e)
{
	for (size_t i = 0; draft_kinds[i]; i++) {
		const struct draft_kind *kind = draft_kinds[i];
		const struct opt_table *t = kind->options;

		for (size_t k = 0; t && k < t->n; k++)
			if (t->rows[k].noun && !drafts(d, kind) &&
				opt_is_set(d->values, t, &t->rows[k]))
				return err_set(e, EINVAL,
					"--%s needs --draft %s, because no "
					"other drafter uses %s",
					t->rows[k].name, kind->name,
					t->rows[k].noun);
	}
	return 0;
}

bool drafting_has_model(const struct drafting *d)
{
	for (unsigned i = 0; i < d->n; i++)
		if (!d->part[i].kind->name)
			return true;
	return false;
}

/* Returns the part of p->word after the kind's name; for a kind without a name,
 * the whole p->word, which is a path. */
static const char *word_of(const struct draft_part *p)
{
	return p->word + (p->kind->name ? strlen(p->kind->name) : 0);
}

int drafting_ask(
	struct drafting *d, const struct opt_values *values, struct err *e)
{
	const char *word;
	int ret = 0;

	d->values = values;
	d->opts = *(const struct drafting_options *)opt_values_of(
		values, &drafting_table);
	word = d->opts.draft ? d->opts.draft : "model+sam";
	for (;;) {
		struct draft_part *p = &d->part[d->n];
		const struct draft_kind *kind;
		size_t len, unused;

		kind = draft_kind_named(word, &len);
		/* A path may contain "+", so only a "+" followed by the name of
		 * a kind ends the path. */
		if (!kind) {
			len = strcspn(word, "+");
			while (word[len] &&
				!draft_kind_named(word + len + 1, &unused))
				len += 1 + strcspn(word + len + 1, "+");
		}
		if (d->n == DRAFT_PARTS || len >= sizeof(p->word))
			return err_set(e, EINVAL,
				"--draft '%s': more than %d drafters, or too "
				"long a path",
				d->opts.draft, DRAFT_PARTS);
		d->n++;
		p->kind = kind ? kind : draft_kind_of_file(d->opts.on_device);
		/* "model" stands for the bundled draft model, as does an empty
		 * name. A file named model can be given as ./model. */
		if (kind || len != 5 || memcmp(word, "model", 5))
			memcpy(p->word, word, len);
		if (p->kind->check)
			ret = p->kind->check(p->word, word_of(p), e);
		if (ret || !word[len])
			return ret;
		word += len + 1;
	}
}

/* ---- opening ------------------------------------------------------------- */

/* Token ids of the draft and target agree only if both files have the same list
 * of tokens. */
static int check_vocabulary(const struct draft_part *p,
	const struct model *target, const char *target_path, struct err *e)
{
	static const char key[] = "tokenizer.ggml.tokens";
	const struct gguf_kv *ours = gguf_find(target->gguf, key);
	const struct gguf_kv *its = gguf_find(p->file->gguf, key);
	const char *whence = *p->word ? "" : " (the default for --draft)";
	const char *advice = "try --draft FILE with a model made for this "
			     "target, or --draft sam, which needs no model";

	if (p->file->n_vocab != target->n_vocab)
		return err_set(e, EINVAL,
			"the draft model '%s'%s has a vocabulary of %u tokens, "
			"the target '%s' one of %u; %s",
			p->path, whence, p->file->n_vocab, target_path,
			target->n_vocab, advice);
	if (!ours || !its ||
		(ours->bytes == its->bytes &&
			!memcmp(ours->value, its->value, its->bytes)))
		return 0;
	return err_set(e, EINVAL,
		"the draft model '%s'%s and the target '%s' have "
		"vocabularies of the same size, but with different tokens; "
		"%s",
		p->path, whence, target_path, advice);
}

static int open_file(struct drafting *d, struct draft_part *p,
	const struct model *target, const char *target_path, struct err *e)
{
	int ret = models_choose(
		*p->word ? p->word : NULL, MODEL_DRAFT, p->path, e);

	if (ret == -ENOENT && *p->word) {
		/* There is no such file, and no bundled model of that name. */
		struct opt_nearest near = { .word = p->word };

		for (size_t i = 0; draft_kinds[i]; i++)
			if (draft_kinds[i]->name)
				opt_nearest_offer(&near, draft_kinds[i]->name);
		return err_set(e, ENOENT,
			"'%s' is neither a file nor a drafter ('tandem help "
			"drafts' lists drafters)%s",
			p->word, opt_nearest_clause(&near));
	}
	if (!ret)
		ret = model_open(&p->file, p->path, NULL, target, e);
	if (!ret && p->file->target && p->kind->on_device)
		return err_set(e, EINVAL,
			"--draft-on device with '%s': an EAGLE head drafts on "
			"the host; leave out --draft-on",
			p->path);
	/* Keep the embedding in memory, because reading a row from the file
	 * takes longer than a step of the draft model. */
	if (!ret)
		ret = model_keep_embedding(p->file, e);
	if (!ret)
		ret = check_vocabulary(p, target, target_path, e);
	if (!ret && !*d->path)
		memcpy(d->path, p->path, sizeof(d->path));
	return ret;
}

int drafting_open_file(struct drafting *d, const struct model *target,
	const char *target_path, struct err *e)
{
	int ret = 0;

	for (unsigned i = 0; i < d->n && !ret; i++) {
		const char *name;
		size_t used;

		if (!d->part[i].kind->name)
			ret = open_file(d, &d->part[i], target, target_path, e);
		name = d->part[i].kind->title ? d->part[i].kind->title
					      : d->part[i].path;
		used = strlen(d->name);
		snprintf(d->name + used, sizeof(d->name) - used, "%s%s",
			used ? " and " : "", name);
	}
	return ret;
}

static int open_part(const struct drafting *d, unsigned i,
	const struct drafter *like, struct drafter *out, struct err *e)
{
	const struct draft_part *p = &d->part[i];
	struct draft_site site = d->site;

	site.like = like;
	site.word = word_of(p);
	site.file = p->file;
	site.path = p->path;
	drafter_close(out);
	return p->kind->open(out, &site, e);
}

/* Make *all a single drafter: a copy of each[0] if n is 1, else a drafter that
 * joins each[n]. */
static int join(struct drafter *all, const struct drafter *each, unsigned n,
	struct err *e)
{
	drafter_close(all);
	if (n > 1)
		return drafter_join_open(all, each, n, e);
	*all = each[0];
	all->close = NULL; /* the caller closes each[0] */
	return 0;
}

/* With need_text, open the drafters that need the prompt's continuation
 * (draft_kind.needs_text); otherwise open all other drafters. */
static int open_parts(struct drafting *d, bool need_text, struct err *e)
{
	int ret = 0;

	for (unsigned i = 0; i < d->n && !ret; i++)
		if (d->part[i].kind->needs_text == need_text)
			ret = open_part(d, i, NULL, &d->each[i], e);
	return ret;
}

int drafting_open(struct drafting *d, struct session *target,
	const struct session_opts *o, uint32_t rows, struct err *e)
{
	int ret;

	d->site = (struct draft_site){ .options = &d->opts,
		.values = d->values,
		.target = session_model(target),
		.session = target,
		.session_opts = o,
		.history = d->history,
		.rows = rows };
	ret = open_parts(d, false, e);
	return ret || drafting_needs_text(d)
		? ret
		: join(&d->drafter, d->each, d->n, e);
}

uint32_t drafting_length(const struct drafting *d)
{
	uint32_t most = 0;

	for (unsigned i = 0; i < d->n; i++) {
		const struct draft_kind *k = d->part[i].kind;
		uint32_t length = k->length ? k->length(d->values) : 0;

		if (!length)
			return 0;
		most = length > most ? length : most;
	}
	return most;
}

bool drafting_needs_text(const struct drafting *d)
{
	for (unsigned i = 0; i < d->n; i++)
		if (d->part[i].kind->needs_text)
			return true;
	return false;
}

int drafting_open_with_text(
	struct drafting *d, const int32_t *text, size_t n, struct err *e)
{
	int ret;

	d->site.text = text;
	d->site.n = n;
	ret = open_parts(d, true, e);
	d->site.text = NULL;
	return ret ? ret : join(&d->drafter, d->each, d->n, e);
}

int drafting_open_more(struct drafting *d, struct drafters *out, struct err *e)
{
	int ret = 0;

	*out = (struct drafters){ .n = d->n };
	for (unsigned i = 0; i < d->n && !ret; i++)
		ret = open_part(d, i, &d->each[i], &out->each[i], e);
	return ret ? ret : join(&out->all, out->each, out->n, e);
}

void drafters_close(struct drafters *d)
{
	drafter_close(&d->all);
	for (unsigned i = 0; i < d->n; i++)
		drafter_close(&d->each[i]);
	*d = (struct drafters){ 0 };
}

bool drafting_reads_prompt(const struct drafting *d)
{
	for (unsigned i = 0; i < d->n; i++)
		if (d->part[i].kind->reads_prompt)
			return true;
	return false;
}

uint32_t drafting_predictions(const struct drafting *d)
{
	uint32_t most = 0;

	for (unsigned i = 0; i < d->n; i++) {
		const struct draft_kind *k = d->part[i].kind;
		uint32_t n = k->predictions ? k->predictions(d->values) : 0;

		most = n > most ? n : most;
	}
	return most;
}

bool drafting_can_be_many(const struct drafting *d)
{
	return !drafting_needs_text(d) && !drafting_reads_prompt(d);
}

void drafting_close(struct drafting *d)
{
	drafter_close(&d->drafter);
	for (unsigned i = 0; i < d->n; i++) {
		drafter_close(&d->each[i]);
		model_close(d->part[i].file);
	}
	*d = (struct drafting){ 0 };
}
