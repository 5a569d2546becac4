#include "host/bench/pair_runner.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "flash/image.h"
#include "host/api/decoder.h"
#include "host/api/options.h"
#include "host/bench/run_options.h"
#include "host/bench/bench_items.h"
#include "host/bench/bench_read.h"
#include "host/bench/experiment.h"
#include "host/bench/read_count.h"
#include "host/eval/eval_check.h"
#include "host/method/samples.h"
#include "host/model/model.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Storage is not always as fast; by more than that it is not faster than a
 * plain reader found it to be. */
#define STEADY 1.25

/* A run's, while it is open. */
struct opened {
	struct pair_runner *by;
	const struct setting_hook *hook;
	struct decoder decoder;
	struct token_list *prompt; /* [by->items->n] */
	uint32_t longest;
	struct image *image;  /* NULL: the model is none */
	uint64_t streamed;    /* bytes a pass */
	uint64_t whole_pages; /* and as they are read past the page cache */
	uint64_t largest;     /* layer, of all */
	/* Of the last item: bytes that came from flash, some of them again;
	 * what of them lay on pages that came for two parts of a layer, at
	 * most; what the system counted, or -1. */
	uint64_t given, twice;
	bool retried;
	int64_t counted;
	struct generation *gen; /* of the last item, whose text is told */
	struct strbuf output;   /* behind its prompt */
};

/* ---- opening ------------------------------------------------------------- */

int pair_ask(const struct pair_runner *by, const struct setting *s,
	struct decoder *d, struct err *e)
{
	struct opt_values v = by->asked;
	const struct decoding_options *o;
	const struct method *method;
	int ret = asked_change(&v, s, e);

	if (ret)
		return ret;
	o = opt_values_of(&v, &decoding_table);
	method = method_find(o->method);
	/* What this method has no use for was said for the others. */
	if (method)
		decoder_drop_needless(&v, method);
	return decoder_ask(d, &v, e);
}

static const struct run_options *options_of(const struct decoder *d)
{
	return opt_values_of(&d->options, &run_table);
}

int pair_open_model(const struct pair_runner *by, const struct setting *s,
	struct decoder *d, struct err *e)
{
	int ret = pair_ask(by, s, d, e);

	return ret ? ret : decoder_open_model(d, options_of(d)->model, e);
}

static int random_prompt(struct opened *o, size_t i, struct err *e)
{
	uint32_t n_vocab = o->decoder.model->n_vocab;
	int ret = 0;

	for (uint32_t k = 0; k < BENCH_RANDOM_PROMPT && !ret; k++)
		ret = token_list_add(&o->prompt[i],
			(int32_t)(rng_uniform(1, i, k) * n_vocab));
	return ret ? err_set(e, ENOMEM, "no memory for prompts") : 0;
}

static int take_prompt(struct opened *o, size_t i, struct err *e)
{
	const char *text = o->by->items->prompt[i];
	struct token_list *p = &o->prompt[i];
	int ret;

	if (!text)
		return random_prompt(o, i, e);
	ret = tokenize(o->decoder.tokenizer, text, strlen(text), 0, p, e);
	return ret ? ret : decoder_add_bos(&o->decoder, p, e);
}

static int take_prompts(struct opened *o, struct err *e)
{
	size_t n = o->by->items->n;
	int ret = 0;

	o->prompt = calloc(n, sizeof(*o->prompt));
	if (!o->prompt)
		return err_set(e, ENOMEM, "no memory for prompts");
	for (size_t i = 0; i < n && !ret; i++) {
		ret = take_prompt(o, i, e);
		if (o->prompt[i].n > o->longest)
			o->longest = (uint32_t)o->prompt[i].n;
	}
	return ret;
}

static int start(struct opened *o, struct err *e)
{
	struct session_opts opts = o->decoder.session_opts;
	int ret;

	opts.cancel = o->by->cancel;
	opts.progress = o->by->progress;
	opts.trace = bench_trace_next(&o->by->trace, opts.trace);
	opts.restarts = 0; /* a run with a gap in it is no measurement */
	opts.context_need = o->longest + options_of(&o->decoder)->n_predict;
	o->decoder.tail = options_of(&o->decoder)->n_predict;
	ret = decoder_open_session(&o->decoder, &opts, e);
	if (!ret && o->hook && o->hook->opened)
		o->hook->opened(o->hook->arg, &o->decoder);
	return ret;
}

static void add_streamed(struct opened *o, uint64_t stored)
{
	o->streamed += stored;
	o->whole_pages += align_up(stored, IMAGE_PAGE);
	o->largest = stored > o->largest ? stored : o->largest;
}

/* Bytes of the layers that do not stay in memory, by the image's own table. */
static int find_streamed(struct opened *o, struct err *e)
{
	const struct session_opts *opts = &o->decoder.session_opts;
	uint32_t n = o->decoder.model->n_layer, stay;
	struct session_stats stats;
	int ret;

	if (!image_probe(o->decoder.model_path))
		return 0;
	ret = image_open(&o->image, o->decoder.model_path, e);
	if (ret)
		return ret;
	session_stats(o->decoder.session, &stats);
	stay = opts->dram_bytes ? stats.resident_layers
				: (uint32_t)(opts->dram_share * n + 1e-6);
	for (uint32_t l = stay; l < n; l++)
		add_streamed(o, image_find(o->image, IMAGE_LAYER, l)->stored);
	return stats.resident_layers == stay
		? 0
		: err_set(e, EPROTO,
			  "with a budget of %.0f %% %u of %u layers stay in "
			  "memory, not %u",
			  opts->dram_share * 100, stats.resident_layers, n,
			  stay);
}

static void release(struct opened *o)
{
	for (size_t i = 0; o->prompt && i < o->by->items->n; i++)
		free(o->prompt[i].id);
	free(o->prompt);
	generation_close(o->gen);
	strbuf_release(&o->output);
	image_close(o->image);
	free(o);
}

static void note_files(struct pair_runner *by, const struct decoder *d)
{
	if (!by->model[0])
		memcpy(by->model, d->model_path, sizeof(by->model));
	if (!by->draft[0])
		memcpy(by->draft, d->drafting.path, sizeof(by->draft));
}

static void note_priced(struct pair_runner *by, const struct decoder *d)
{
	char text[TANDEM_PRICED_AS];
	size_t used = strlen(by->priced);

	decoder_priced_as(d, text);
	if (*text && !strstr(by->priced, text))
		snprintf(by->priced + used, sizeof(by->priced) - used, "%s%s",
			used ? " | " : "", text);
}

void pair_note(struct pair_runner *by, const struct decoder *d)
{
	note_files(by, d);
	note_priced(by, d);
}

static int open_run(
	void *arg, const struct setting *s, void **one, struct err *e)
{
	struct pair_runner *by = arg;
	struct opened *o = calloc(1, sizeof(*o));
	int ret;

	if (!o)
		return err_set(e, ENOMEM, "no memory for a run");
	o->by = by;
	o->hook = s->hook;
	ret = pair_open_model(by, s, &o->decoder, e);
	if (!ret)
		ret = take_prompts(o, e);
	if (!ret)
		ret = start(o, e);
	if (!ret)
		ret = find_streamed(o, e);
	if (ret) {
		decoder_close(&o->decoder, NULL);
		release(o);
		return ret;
	}
	pair_note(by, &o->decoder);
	*one = o;
	return 0;
}

/* ---- an item ------------------------------------------------------------- */

/* The counters at the first token. */
struct mark {
	const struct opened *of;
	const struct decoder *d;
	struct strbuf *output; /* grows by what is told */
	bool taken;
	struct err e;   /* of what did not come from flash */
	int64_t kernel; /* bytes read; -1 */
	struct session_stats stats;
	struct method_stats drafts;
	uint64_t ns, ps;
};

/* On the wall's clock, of a file that is read past the page cache. */
static int64_t count_reads(const struct opened *o)
{
	struct pair_runner *by = o->by;

	if (by->plain && by->plain->direct &&
		!o->decoder.session_opts.stream.buffered)
		return read_count(by->uncounted, sizeof(by->uncounted));
	snprintf(by->uncounted, sizeof(by->uncounted),
		"the image is read through the page cache");
	return -1;
}

/* Behind this all slots are full: what was read ahead until then is not the
 * decode phase's, and what it reads in place of that is. */
static int take(struct mark *m)
{
	int ret = session_read_ahead(m->d->session, &m->e);

	if (ret)
		return ret;
	m->kernel = count_reads(m->of);
	session_stats(m->d->session, &m->stats);
	m->drafts = m->d->env.stats;
	m->ps = session_phone_ps(m->d->session);
	m->ns = clock_ns();
	m->taken = true;
	return 0;
}

static int at_token(void *arg, int32_t id, const char *text, size_t len)
{
	struct mark *m = arg;

	if (!m->taken && take(m))
		return -1;
	strbuf_add(m->output, text, len);
	return m->output->failed;
}

static struct figures figures_since(
	const struct mark *m, const struct mark *end, size_t tokens)
{
	struct session_stats s = end->stats;

	session_stats_since(&s, &m->stats);
	return (struct figures){ .tokens = tokens,
		.ns = end->ns - m->ns,
		.ps = end->ps - m->ps,
		.decode_rows = s.decode_rows,
		.busy_ns = s.staging.stream.busy_ns,
		.wait_ns = s.staging.stream.wait_ns,
		.wait_ps = s.staging.wait_ps,
		.check_ns = s.staging.stream.check_ns,
		.bytes = s.staging.bytes_used,
		.device_ns = s.busy_ns,
		.engine_ps = { s.price.matrix_ps, s.price.vector_ps,
			s.price.dma_ps + s.price.read_ps },
		.energy_pj = s.price.energy_pj,
		.maps = s.maps + s.unmaps - m->stats.maps - m->stats.unmaps,
		.copied_bytes = s.copied_bytes,
		.stall_ns = s.stall_ns,
		.stall_ps = s.stall_ps,
		.drafts = method_stats_since(&end->drafts, &m->drafts),
#define COUNTED(type, name) .name = s.name,
		FIGURES_COUNTED(COUNTED)
#undef COUNTED
	};
}

/* An oracle learns the text: of the run that wrote it, or by plain decoding
 * where none did that was as long. */
static int tell_oracle(
	struct opened *o, const struct known_text *known, struct err *e)
{
	struct decoder *d = &o->decoder;

	if (!d->method->needs_draft || !drafting_is_told(&d->drafting))
		return 0;
	if (known && known->n_predict >= options_of(d)->n_predict)
		return drafting_tell(&d->drafting, known->id, known->n, e);
	return decoder_rehearse(d, o->gen, e);
}

static int told(const struct mark *m, struct err *e)
{
	if (e)
		*e = m->e;
	return m->e.code;
}

static int taken(struct mark *m, struct err *e)
{
	return take(m) ? told(m, e) : 0;
}

static void note_reads(struct opened *o, const struct mark *first,
	const struct mark *end, struct figures *f)
{
	const struct stream_stats *from = &first->stats.staging.stream,
				  *to = &end->stats.staging.stream;
	const struct soc *soc = o->decoder.session_opts.soc;
	double bytes;

	f->priced_bytes = f->passes * session_read_bytes(o->decoder.session);
	bytes = (double)f->priced_bytes;
	o->given = to->bytes - from->bytes;
	o->twice =
		(end->stats.staging.meetings - first->stats.staging.meetings) *
		IMAGE_PAGE;
	o->retried = to->retries > from->retries;
	o->counted = first->kernel < 0 || end->kernel < 0
		? -1
		: end->kernel - first->kernel - (int64_t)o->twice;
	if (soc)
		f->least_ps = (uint64_t)(bytes * 1e12 / soc->flash_bytes_per_s);
	if (o->by->fastest > 0)
		f->least_ns = (uint64_t)(bytes * 1e9 / o->by->fastest / STEADY);
}

static int decode(struct opened *o, struct mark *first,
	const struct known_text *known, struct figures *f, struct err *e)
{
	struct decoder *d = &o->decoder;
	struct mark begin = { .of = o, .d = d }, end = begin;
	struct samples *samples = NULL;
	bool whole = decoder_emits_at_once(d);
	int ret = tell_oracle(o, known, e);

	if (!ret && d->method->many)
		ret = samples_open(&samples, &d->env, o->gen, NULL, e);
	if (!ret)
		ret = session_rest(d->session, e);
	first->taken = false;
	strbuf_reset(&o->output);
	if (!ret)
		ret = taken(&begin, e);
	if (!ret && whole)
		ret = taken(first, e);
	if (!ret)
		ret = decoder_run(d, o->gen, samples, NULL, e);
	samples_close(samples);
	if (!ret && first->e.code)
		ret = told(first, e);
	if (!ret && gen_stop_reason(o->gen) == GEN_STOP_ERROR)
		ret = err_set(e, ENOMEM, "no memory for the text");
	if (!ret)
		ret = taken(&end, e);
	if (ret)
		return ret;
	*f = figures_since(first, &end, gen_generated(o->gen) - !whole);
	note_reads(o, first, &end, f);
	if (!whole) {
		f->prompt_tokens = gen_prompt_length(o->gen);
		f->prompt_ns = first->ns - begin.ns;
		f->prompt_ps = first->ps - begin.ps;
	}
	return 0;
}

/* Decode it to o->gen. */
static int decode_item(struct opened *o, size_t item,
	const struct known_text *known, struct figures *f, struct err *e)
{
	const struct decoder *d = &o->decoder;
	struct sampler_opts sampling = sampler_defaults;
	struct mark first = { .of = o, .d = d, .output = &o->output };
	struct generation_opts opts = {
		.tokenizer = d->tokenizer,
		.n_vocab = d->model->n_vocab,
		.n_predict = options_of(d)->n_predict,
		.context = session_context(d->session),
		.ignore_eos = !o->by->items->prompt[item],
		.sink = at_token,
		.arg = &first,
	};
	int ret;

	generation_close(o->gen);
	o->gen = NULL;
	sampling.temperature = 0;
	ret = sampler_open(&opts.sampler, &sampling, d->model->n_vocab, e);
	if (ret)
		return ret;
	ret = generation_open(
		&o->gen, &opts, o->prompt[item].id, o->prompt[item].n, e);
	if (!ret)
		ret = decode(o, &first, known, f, e);
	sampler_close(opts.sampler);
	return ret;
}

/* What a plain reader takes, at this time, for what the item will read. */
static int read_plainly(struct opened *o, struct err *e)
{
	struct pair_runner *by = o->by;
	int ret;

	if (!by->plain || !o->streamed)
		return 0;
	ret = bench_read_again(o->image, by->plain, e);
	if (!ret && by->plain->bytes_per_s > by->fastest)
		by->fastest = by->plain->bytes_per_s;
	return ret;
}

/* With full slots before it and behind, flash gives to an item what its passes
 * use, and what parts of layers have in common; unless something had to be read
 * again. */
static int check_given(
	const struct opened *o, const struct figures *f, struct err *e)
{
	if (o->retried ||
		(o->given >= f->bytes && o->given - f->bytes <= o->twice))
		return 0;
	return err_set(e, EPROTO,
		"flash gave %llu bytes where passes used %llu",
		(unsigned long long)o->given, (unsigned long long)f->bytes);
}

static void tell_counted(const struct opened *o, struct item_told *t)
{
	t->kernel_bytes = o->retried || !o->streamed ? -1 : o->counted;
	t->kernel_wanted = t->figures.passes * o->whole_pages;
	t->kernel_slack = o->largest;
}

static void mark_output(
	const struct opened *o, const struct eval_item *item, struct figures *f)
{
	const struct strbuf *output = &o->output;

	f->marked = item != NULL;
	f->right = item && eval_right(item, output->data, output->len);
}

static int run_item(void *arg, void *one, size_t item,
	const struct known_text *known, struct item_told *t, struct err *e)
{
	struct opened *o = one;
	const struct soc *soc = o->decoder.session_opts.soc;
	const struct bench_read *plain = o->by->plain;
	int ret = read_plainly(o, e);

	if (!ret)
		ret = decode_item(o, item, known, &t->figures, e);
	if (!ret)
		ret = check_given(o, &t->figures, e);
	if (ret)
		return ret;
	tell_counted(o, t);
	if (plain && plain->bytes_per_s > 0)
		t->figures.plain_ns = (uint64_t)((double)t->figures.bytes *
			1e9 / plain->bytes_per_s);
	mark_output(o, o->by->items->marked[item], &t->figures);
	t->text = gen_tokens(o->gen, &t->n);
	t->n_prompt = o->prompt[item].n;
	t->n_predict = options_of(&o->decoder)->n_predict;
	t->streamed = o->streamed;
	t->rows_emitted = o->decoder.method->lossless &&
		!o->decoder.method->logits_ahead &&
		!o->decoder.drafting.drafter.all_rows;
	t->base_w = soc ? soc->base_w : 0;
	return 0;
}

/* ---- closing ------------------------------------------------------------- */

static int close_run(void *arg, void *one, bool good, struct err *e)
{
	struct opened *o = one;
	int closed;

	if (good && o->hook && o->hook->done)
		o->hook->done(o->hook->arg, &o->decoder);
	closed = decoder_close(&o->decoder, good ? e : NULL);
	release(o);
	return closed;
}

struct runner pair_runner(struct pair_runner *arg)
{
	return (struct runner){ open_run, run_item, close_run, arg };
}
