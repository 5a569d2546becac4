/* Which runs the tables are made of. */
#include "host/bench/bench_lever.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_setting(
	const struct lever_setting *a, const struct lever_setting *b)
{
	return a->method == b->method && a->budget == b->budget &&
		a->n_predict == b->n_predict && same_text(a->draft, b->draft) &&
		a->draft_on == b->draft_on &&
		a->draft_batch == b->draft_batch && a->pruning == b->pruning &&
		a->frozen == b->frozen;
}

/* The run of that setting, planned by now. NULL where there are too many. */
static struct lever_run *plan_run(
	struct bench_lever *b, const struct lever_setting *s)
{
	for (unsigned i = 0; i < b->n_runs; i++) {
		struct lever_run *run = &b->run[i];

		if (!same_setting(&run->set, s))
			continue;
		run->set.teaches |= s->teaches;
		return run;
	}
	if (b->n_runs == LEVER_RUNS)
		return NULL;
	b->run[b->n_runs].set = *s;
	return &b->run[b->n_runs++];
}

/* As the options say, but for the method. */
static struct lever_setting usual(
	const struct bench_lever *b, const struct method *m)
{
	return (struct lever_setting){ .method = m,
		.budget = b->args->budget[0],
		.n_predict = b->args->n_predict,
		.draft_on = -1,
		.draft_batch = -1 };
}

static struct lever_row *add_row(
	struct lever_plan *p, const char *first, const char *second)
{
	struct lever_row *r = &p->row[p->n++];

	snprintf(r->name[0], sizeof(r->name[0]), "%s", first);
	if (second)
		snprintf(r->name[1], sizeof(r->name[1]), "%s", second);
	return r;
}

static void add_cell(struct bench_lever *b, struct lever_row *r,
	const struct lever_setting *s)
{
	r->run[r->n++] = plan_run(b, s);
}

static void plan_methods(struct bench_lever *b, struct lever_plan *p)
{
	for (unsigned i = 0; i < b->args->n_methods; i++) {
		const struct method *m = b->args->method[i];
		struct lever_setting s = usual(b, m);

		add_cell(b, add_row(p, m->name, NULL), &s);
	}
}

static void plan_prune(struct bench_lever *b, struct lever_plan *p)
{
	static const char *const names[] = { [LEVER_UNPRUNED] = "not pruned",
		[LEVER_PRUNED] = "pruned",
		[LEVER_NO_SHADOW] = "no shadows",
		[LEVER_NO_SAFEGUARDS] = "no safeguards" };
	struct lever_setting s = usual(b, &method_lever);

	if (!b->has_exit)
		return;
	s.pruning = LEVER_UNPRUNED;
	s.teaches = true;
	plan_run(b, &s);
	s.teaches = false;
	s.frozen = true;
	for (int i = LEVER_UNPRUNED; i <= LEVER_NO_SAFEGUARDS; i++) {
		s.pruning = (enum lever_pruning)i;
		add_cell(b, add_row(p, names[i], NULL), &s);
	}
}

/* Those of figure 10, where they were asked for. */
static bool is_main(const struct method *m)
{
	return m == &method_flash_ar || m == &method_chain ||
		m == &method_edgellm || m == &method_lever;
}

/* A row for each of the main methods, a cell for each of level[n]. */
static void plan_levels(struct bench_lever *b, struct lever_plan *p,
	const uint32_t *level, unsigned n,
	void (*set)(struct lever_setting *, uint32_t))
{
	for (unsigned i = 0; i < b->args->n_methods; i++) {
		struct lever_setting s = usual(b, b->args->method[i]);
		struct lever_row *r;

		if (!is_main(s.method))
			continue;
		r = add_row(p, s.method->name, NULL);
		for (unsigned k = 0; k < n; k++) {
			set(&s, level[k]);
			add_cell(b, r, &s);
		}
	}
}

static void set_budget(struct lever_setting *s, uint32_t budget)
{
	s->budget = budget;
}

static void plan_budgets(struct bench_lever *b, struct lever_plan *p)
{
	plan_levels(b, p, b->args->budget, b->args->n_budgets, set_budget);
}

static void set_length(struct lever_setting *s, uint32_t length)
{
	s->n_predict = length;
}

static void plan_lengths(struct bench_lever *b, struct lever_plan *p)
{
	plan_levels(b, p, b->args->length, b->args->n_lengths, set_length);
}

/* What --draft says, without its folders. */
static const char *own_draft(const struct lever_args *a)
{
	const char *said = a->draft, *slash = said ? strrchr(said, '/') : NULL;

	return slash ? slash + 1 : said ? said : "draft model";
}

static void plan_quality(struct bench_lever *b, struct lever_plan *p)
{
	static const char *const drafts[] = { NULL, "oracle:0.6", "oracle:0.8",
		"oracle:0.9" };
	const struct lever_args *a = b->args;

	for (unsigned k = 0; k < 4; k++)
		for (unsigned i = 0; i < a->n_methods; i++) {
			struct lever_setting s = usual(b, a->method[i]);
			if (!is_main(s.method) || !s.method->needs_draft)
				continue;
			s.draft = drafts[k];
			add_cell(b,
				add_row(p, s.draft ? s.draft : own_draft(a),
					s.method->name),
				&s);
		}
}

static void plan_places(struct bench_lever *b, struct lever_plan *p)
{
	static const struct {
		const char *name;
		int on_device, batch;
	} places[] = { { "host, one by one", 0, 1 }, { "host, by eight", 0, 8 },
		{ "device, one by one", 1, 1 }, { "device, by eight", 1, 8 } };

	for (unsigned i = 0; i < 4; i++) {
		struct lever_setting s = usual(b, &method_lever);

		s.draft_on = places[i].on_device;
		s.draft_batch = places[i].batch;
		add_cell(b, add_row(p, places[i].name, NULL), &s);
	}
}

static void plan_logits(struct bench_lever *b, struct lever_plan *p)
{
	struct lever_setting s = usual(b, &method_lever);

	add_cell(b, add_row(p, "lever", NULL), &s);
}

static bool wants_oracle(const struct lever_args *a)
{
	const char *draft = a->draft;

	return a->table[LEVER_T_QUALITY] ||
		(draft && !strncmp(draft, "oracle:", 7));
}

/* An oracle must know the longest text: it is written from memory, first. */
static void plan_texts(struct bench_lever *b)
{
	const struct lever_args *a = b->args;
	struct lever_setting s = usual(b, &method_flash_ar);

	if (!wants_oracle(a))
		return;
	s.budget = 100;
	for (unsigned k = 0; a->table[LEVER_T_LENGTH] && k < a->n_lengths; k++)
		if (a->length[k] > s.n_predict)
			s.n_predict = a->length[k];
	plan_run(b, &s);
}

int lever_plan(struct bench_lever *b, struct err *e)
{
	static void (*const plan[])(
		struct bench_lever *, struct lever_plan *) = {
		[LEVER_T_METHODS] = plan_methods,
		[LEVER_T_PRUNE] = plan_prune,
		[LEVER_T_BUDGET] = plan_budgets,
		[LEVER_T_LENGTH] = plan_lengths,
		[LEVER_T_QUALITY] = plan_quality,
		[LEVER_T_PLACE] = plan_places,
		[LEVER_T_LOGITS] = plan_logits,
	};

	plan_texts(b);
	for (int t = 0; t < LEVER_TABLES; t++)
		if (b->args->table[t])
			plan[t](b, &b->plan[t]);
	return b->n_runs < LEVER_RUNS
		? 0
		: err_set(e, EINVAL,
			  "these tables need more than %u runs; take fewer "
			  "budgets or lengths",
			  LEVER_RUNS - 1);
}
