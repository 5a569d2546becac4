#include "host/bench/bench_lever.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/rng.h"
#include "flash/image.h"
#include "host/api/decoder.h"
#include "host/api/options.h"
#include "host/bench/bench_plot.h"
#include "host/convert/convert.h"
#include "host/method/lever.h"
#include "host/model/model.h"
#include "host/shipped/shipped_models.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANDOM_PROMPT 64 /* tokens, without tasks */

const char *const lever_table_names[LEVER_TABLES] = { "methods", "prune",
	"budget", "length", "quality", "place", "logits" };

/* ---- the image ----------------------------------------------------------- */

static int pack_model(struct bench_lever *b, struct err *e)
{
	struct convert_opts o = { .layout = LAYOUT_TILES,
		.type = CONVERT_KEEP,
		.down = CONVERT_KEEP,
		.cancel = b->args->cancel };
	struct conversion done = { 0 };
	const char *folder = getenv("TMPDIR");
	struct model *m;
	int ret;

	ret = snprintf(b->model, sizeof(b->model), "%s/tandem-bench-%ld.tdm",
		folder && *folder ? folder : "/tmp", (long)getpid());
	if (ret >= (int)sizeof(b->model))
		return err_set(e, ENAMETOOLONG, "$TMPDIR is too long");
	ret = model_open(&m, b->source, e);
	if (ret)
		return ret;
	memcpy(b->temporary, b->model, sizeof(b->model));
	ret = convert(m, b->model, &o, &done, e);
	conversion_release(&done);
	model_close(m);
	return ret;
}

static int open_image(struct bench_lever *b, struct err *e)
{
	int ret = models_choose(b->args->model, MODEL_TARGET, b->source, e);

	if (ret)
		return ret;
	if (image_probe(b->source))
		memcpy(b->model, b->source, sizeof(b->model));
	else
		ret = pack_model(b, e);
	return ret ? ret : image_open(&b->image, b->model, e);
}

/* ---- decoders ------------------------------------------------------------ */

static int set(
	struct opt_values *v, const char *name, const char *text, struct err *e)
{
	return opt_set(decoder_tables, v, name, text, e);
}

static int set_pruning(
	enum lever_pruning how, struct opt_values *v, struct err *e)
{
	int ret = 0;

	if (how == LEVER_UNPRUNED)
		ret = set(v, "exit", "none", e);
	if (how < LEVER_PRUNED || ret)
		return ret;
	ret = set(v, "no-shadow", how == LEVER_NO_SHADOW ? "true" : "false", e);
	return ret ? ret
		   : set(v, "no-safeguards",
			     how == LEVER_NO_SAFEGUARDS ? "true" : "false", e);
}

static int set_drafting(
	const struct lever_setting *s, struct opt_values *v, struct err *e)
{
	struct drafting_options *o = opt_values_at(v, &drafting_table);

	if (s->draft)
		o->draft = s->draft;
	if (s->draft_on >= 0)
		o->on_device = s->draft_on;
	if (s->draft_batch >= 0)
		o->batch = (uint32_t)s->draft_batch;
	return set_pruning(s->pruning, v, e);
}

/* What the options mean for one setting; the decoder's model is open then. */
static int open_decoder(const struct bench_lever *b,
	const struct lever_setting *s, struct decoder *d, struct err *e)
{
	struct opt_values v = *b->args->options;
	int ret = set(&v, "method", s->method->name, e);

	if (!ret)
		ret = set_drafting(s, &v, e);
	/* What this method has no use for was said for the others. */
	decoder_drop_needless(&v, s->method);
	if (!ret)
		ret = decoder_ask(d, &v, e);
	return ret ? ret : decoder_open_model(d, b->model, e);
}

static int start_decoder(const struct bench_lever *b,
	const struct lever_setting *s, struct decoder *d, struct err *e)
{
	struct session_opts o = d->session_opts;
	int ret;

	o.cancel = b->args->cancel;
	o.dram_share = s->budget / 100.0;
	o.context_need = b->longest + s->n_predict;
	ret = decoder_open_session(d, &o, e);
	if (!ret && s->frozen) {
		struct lever_state *st = lever_state(&d->env);

		st->cost = *b->cost;
		st->lever = b->lever;
		st->frozen = true;
	}
	return ret;
}

/* ---- prompts ------------------------------------------------------------- */

static int add_prompt(struct bench_lever *b, unsigned task,
	struct token_list *prompt, struct err *e)
{
	struct lever_item *more =
		realloc(b->item, (b->n_items + 1) * sizeof(*more));

	if (!more) {
		free(prompt->id);
		return err_set(e, ENOMEM, "no memory for prompts");
	}
	b->item = more;
	more[b->n_items++] =
		(struct lever_item){ .task = task, .prompt = *prompt };
	if (prompt->n > b->longest)
		b->longest = (uint32_t)prompt->n;
	return 0;
}

static int read_task(struct bench_lever *b, const struct decoder *d,
	unsigned task, struct err *e)
{
	struct eval_tasks all = { 0 };
	struct eval_items items = { 0 };
	int ret = eval_tasks_read(&all, b->task[task], EVAL_NEED_ANSWERS, e);

	if (!ret)
		items = eval_task_first(&all.task[0], b->args->items);
	for (size_t i = 0; i < items.n && !ret; i++) {
		struct token_list prompt = { 0 };
		const char *text = items.item[i].prompt;

		ret = tokenize(d->tokenizer, text, strlen(text), 0, &prompt, e);
		if (!ret)
			ret = decoder_add_bos(d, &prompt, e);
		if (ret)
			free(prompt.id);
		else
			ret = add_prompt(b, task, &prompt, e);
	}
	eval_tasks_release(&all);
	return ret;
}

static int random_prompts(struct bench_lever *b, struct err *e)
{
	int ret = 0;

	for (uint32_t i = 0; i < b->args->items && !ret; i++) {
		struct token_list prompt = { 0 };

		for (uint32_t k = 0; k < RANDOM_PROMPT && !ret; k++)
			ret = token_list_add(&prompt,
				(int32_t)(rng_uniform(1, i, k) * b->n_vocab));
		if (ret) {
			free(prompt.id);
			return err_set(e, ENOMEM, "no memory for prompts");
		}
		ret = add_prompt(b, 0, &prompt, e);
	}
	return ret;
}

/* What is to be known of the model and its prompts before runs are planned. */
static int look_at_model(struct bench_lever *b, struct err *e)
{
	struct lever_setting s = {
		.method = b->args->method[0], .draft_on = -1, .draft_batch = -1
	};
	struct decoder d = { 0 };
	int ret = 0;

	for (unsigned i = 0; i < b->args->n_methods; i++)
		if (b->args->method[i]->needs_draft)
			s.method = b->args->method[i];
	if (b->args->table[LEVER_T_PRUNE])
		s.method = &method_lever;
	ret = open_decoder(b, &s, &d, e);
	if (!ret) {
		b->phone = d.soc;
		b->n_layer = d.model->n_layer;
		b->n_vocab = d.model->n_vocab;
		b->n_embd = d.model->n_embd;
		b->output_type = d.model->output->type;
		if (s.method == &method_lever) {
			const struct lever_state *st = lever_state(&d.env);

			b->has_exit = st->exit;
			memcpy(b->exit, st->exit_path, sizeof(st->exit_path));
		}
		memcpy(b->draft, d.drafting.path, sizeof(d.drafting.path));
	}
	for (unsigned i = 0; i < b->args->n_tasks && !ret; i++)
		ret = read_task(b, &d, i, e);
	if (!ret && !b->args->n_tasks)
		ret = random_prompts(b, e);
	decoder_close(&d, NULL);
	return ret;
}

/* ---- a run --------------------------------------------------------------- */

/* Bytes of the layers that do not stay in memory, by the image's own table. */
static int streamed_bytes(const struct bench_lever *b,
	const struct lever_setting *s, const struct session_stats *stats,
	uint64_t *bytes, struct err *e)
{
	uint32_t stay = s->budget * b->n_layer / 100;

	*bytes = 0;
	for (uint32_t l = stay; l < b->n_layer; l++)
		*bytes += image_find(b->image, IMAGE_LAYER, l)->stored;
	return stats->resident_layers == stay
		? 0
		: err_set(e, EPROTO,
			  "with a budget of %u %% %u of %u layers stay in "
			  "memory, not %u",
			  s->budget, stats->resident_layers, b->n_layer, stay);
}

/* What flash gave is what passes used, and what waits in slots for the next;
 * unless something had to be read again. */
static int check_ahead(
	const struct bench_lever *b, const struct decoder *d, struct err *e)
{
	struct session_stats s;
	uint64_t largest = 0, waiting;

	session_stats(d->session, &s);
	for (uint32_t l = s.resident_layers; l < b->n_layer; l++) {
		uint64_t n = image_find(b->image, IMAGE_LAYER, l)->stored;

		largest = n > largest ? n : largest;
	}
	waiting = s.staging.stream.bytes - s.staging.bytes_used;
	if (s.staging.stream.retries ||
		waiting <= d->session_opts.stage_slots * largest)
		return 0;
	return err_set(e, EPROTO,
		"flash gave %llu bytes where passes used %llu",
		(unsigned long long)s.staging.stream.bytes,
		(unsigned long long)s.staging.bytes_used);
}

static void note_rates(struct bench_lever *b, struct lever_run *run,
	const struct lever_figures before[EVAL_TASKS])
{
	for (unsigned t = 0; t < b->n_tasks; t++) {
		const struct lever_figures *f = &run->task[t];
		double n = (double)(f->tokens - before[t].tokens);
		uint64_t ns = f->ns - before[t].ns, ps = f->ps - before[t].ps;
		double s =
			b->args->clock ? (double)ps / 1e12 : (double)ns / 1e9;

		run->rate[t][b->round] = s > 0 ? n / s : 0;
	}
}

/* An item, and what a plain reader takes, at this time, for what it read. */
static int beside_plain(struct bench_lever *b, struct decoder *d,
	struct lever_run *run, struct lever_item *item, uint64_t streamed,
	struct err *e)
{
	struct lever_figures *f = &run->task[item->task];
	uint64_t bytes = f->bytes;
	int ret = 0;

	if (!b->args->clock && streamed)
		ret = bench_read_again(b->image, &b->plain, e);
	if (!ret)
		ret = lever_run_item(b, d, run, item, streamed, e);
	if (!ret && b->plain.bytes_per_s > 0)
		f->plain_ns += (uint64_t)((double)(f->bytes - bytes) * 1e9 /
			b->plain.bytes_per_s);
	return ret;
}

static int run_items(struct bench_lever *b, struct decoder *d,
	struct lever_run *run, struct progress *p, struct err *e)
{
	struct lever_figures before[EVAL_TASKS];
	struct session_stats stats;
	uint64_t streamed;
	int ret;

	memcpy(before, run->task, sizeof(before));
	session_stats(d->session, &stats);
	ret = streamed_bytes(b, &run->set, &stats, &streamed, e);
	for (size_t i = 0; i < b->n_items && !ret; i++) {
		ret = beside_plain(b, d, run, &b->item[i], streamed, e);
		progress_at(p,
			(b->round * b->n_runs + (uint64_t)(run - b->run)) *
					b->n_items +
				i + 1);
	}
	if (!ret)
		ret = check_ahead(b, d, e);
	note_rates(b, run, before);
	return ret;
}

static int do_run(struct bench_lever *b, struct lever_run *run,
	struct progress *p, struct err *e)
{
	struct decoder d = { 0 };
	int closed, ret = open_decoder(b, &run->set, &d, e);

	if (!ret)
		ret = start_decoder(b, &run->set, &d, e);
	if (!ret)
		ret = run_items(b, &d, run, p, e);
	if (!ret && run->set.teaches) {
		*b->cost = lever_state(&d.env)->cost;
		b->lever = lever_state(&d.env)->lever;
	}
	closed = decoder_close(&d, ret ? NULL : e);
	return ret ? ret : closed;
}

static int measure(struct bench_lever *b, struct err *e)
{
	struct progress p;
	int ret = 0;

	if (!b->args->clock)
		ret = bench_read(b->image, &b->plain, e);
	progress_begin(
		&p, "measuring", (uint64_t)b->rounds * b->n_runs * b->n_items);
	for (b->round = 0; b->round < b->rounds && !ret; b->round++)
		for (unsigned i = 0; i < b->n_runs && !ret; i++)
			ret = do_run(b, &b->run[i], &p, e);
	progress_end(&p);
	return ret;
}

/* ---- the benchmark ------------------------------------------------------- */

static int set_up(struct bench_lever *b, struct err *e)
{
	const struct lever_args *a = b->args;
	const char *draft = a->draft;

	b->rounds = a->rounds ? a->rounds : a->clock ? 1 : 3;
	b->n_tasks = a->n_tasks ? a->n_tasks : 1;
	b->oracle = draft && !strncmp(draft, "oracle:", 7);
	b->task[0] = "random";
	memcpy(b->task, a->task, a->n_tasks * sizeof(a->task[0]));
	b->run = calloc(LEVER_RUNS, sizeof(*b->run));
	b->cost = malloc(sizeof(*b->cost));
	if (!b->run || !b->cost)
		return err_set(e, ENOMEM, "no memory for runs");
	return a->plot ? bench_plot_ready(a->plot, e) : 0;
}

static void release(struct bench_lever *b)
{
	for (size_t i = 0; i < b->n_items; i++) {
		free(b->item[i].prompt.id);
		free(b->item[i].text);
	}
	free(b->item);
	free(b->run);
	free(b->cost);
	image_close(b->image);
	if (b->temporary[0])
		unlink(b->temporary);
	free(b);
}

int bench_lever(const struct lever_args *args, struct err *e)
{
	struct bench_lever *b = calloc(1, sizeof(*b));
	int ret;

	if (!b)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	b->args = args;
	ret = set_up(b, e);
	if (!ret)
		ret = open_image(b, e);
	if (!ret)
		ret = look_at_model(b, e);
	if (!ret)
		ret = lever_plan(b, e);
	if (!ret)
		ret = measure(b, e);
	if (!ret)
		ret = lever_report(b, e);
	release(b);
	return ret;
}
