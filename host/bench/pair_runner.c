#include "host/bench/pair_runner.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "flash/image.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/bench/run_options.h"
#include "host/bench/bench_items.h"
#include "host/bench/bench_read.h"
#include "host/bench/experiment.h"
#include "host/eval/eval_check.h"
#include "host/model/model.h"
#include "host/text/generation.h"
#include "host/text/tokenizer.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The speed of storage varies, so a run may read faster than the fastest
 * measurement of a plain reader, but by at most this factor. */
#define STEADY 1.25

#define COUNTS "/proc/self/io"

/* State of a run, from open_run() to close_run(). */
struct opened {
	struct pair_runner *by;
	const struct setting_hook *hook;
	bool in_a_row;
	struct opt_values values;
	uint32_t n_predict;
	struct tandem *tandem;
	/* valid once the device process has started */
	struct tandem_report report;
	struct token_list *prompt; /* [by->items->n] tokens of each prompt */
	uint32_t longest;
	/* flash image of the model; NULL if the model is not an image */
	struct image *image;
	uint64_t streamed; /* layer bytes that a pass must read from flash */
	/* like `streamed`, but with each layer rounded up to whole pages,
	 * because O_DIRECT reads whole pages */
	uint64_t whole_pages;
	/* size in bytes of the largest layer that is streamed */
	uint64_t largest;
	struct strbuf output; /* generated text of the current item */
};

/* ---- opening ------------------------------------------------------------- */

int pair_create(const struct pair_runner *by, const struct setting *s,
	struct opt_values *values, struct tandem **out, struct err *e)
{
	struct tandem_options o;
	int ret;

	*out = NULL;
	*values = by->values;
	ret = run_options_change(values, s, e);
	if (ret)
		return ret;
	/* All methods of an experiment get the same options, so drop options
	 * that this method does not use instead of refusing them. */
	tandem_drop_needless(values);
	tandem_options_init(&o, sizeof(o));
	o.device_talks = true;
	return tandem_create(out, &o, values, e);
}

int pair_open_model(const struct pair_runner *by, const struct setting *s,
	struct opt_values *values, struct tandem **out, struct err *e)
{
	const struct run_options *o;
	int ret = pair_create(by, s, values, out, e);

	if (ret)
		return ret;
	o = opt_values_of(values, &run_table);
	if (!tandem_read_model(*out, o->model))
		return 0;
	ret = tandem_failure(*out, e);
	tandem_end(*out, NULL);
	*out = NULL;
	return ret;
}

/* Tokenize all prompts. An item without a prompt gets random tokens. */
static int take_prompts(struct opened *o, struct err *e)
{
	const struct bench_items *items = o->by->items;
	uint32_t n_vocab = o->report.model->n_vocab;
	int ret = 0;

	o->prompt = calloc(items->n, sizeof(*o->prompt));
	if (!o->prompt)
		return err_set(e, ENOMEM, "no memory for prompts");
	for (size_t i = 0; i < items->n && !ret; i++) {
		const char *text = items->prompt[i];
		struct token_list *p = &o->prompt[i];

		if (text) {
			ret = tokenize(o->report.tokenizer, text, strlen(text),
				TOKENIZE_SPECIAL, NULL, 0, p, e);
			if (!ret)
				ret = tandem_add_bos(o->tandem, p, e);
		} else {
			for (uint32_t k = 0; k < BENCH_RANDOM_PROMPT && !ret;
				k++)
				ret = token_list_add(p,
					(int32_t)(rng_uniform(1, i, k) *
						n_vocab));
			if (ret)
				err_set(e, ENOMEM, "no memory for prompts");
		}
		if (p->n > o->longest)
			o->longest = (uint32_t)p->n;
	}
	return ret;
}

/* Sum up the sizes of the layers that do not stay in memory. The sizes come
 * from the image's table. */
static int find_streamed(struct opened *o, struct err *e)
{
	const struct tandem_report *r = &o->report;
	const struct session_opts *opts = r->pair;
	uint32_t n = r->model->n_layer, stay;
	int ret;

	if (!image_probe(r->model_path))
		return 0;
	ret = image_open(&o->image, r->model_path, e);
	if (ret)
		return ret;
	stay = opts->dram_bytes ? r->total.resident_layers
				: (uint32_t)(opts->dram_share * n + 1e-6);
	for (uint32_t l = stay; l < n; l++) {
		uint64_t stored = image_find(o->image, IMAGE_LAYER, l)->stored;

		o->streamed += stored;
		o->whole_pages += align_up(stored, IMAGE_PAGE);
		o->largest = stored > o->largest ? stored : o->largest;
	}
	return r->total.resident_layers == stay
		? 0
		: err_set(e, EPROTO,
			  "%u of %u layers stay in memory, but a budget of "
			  "%.0f %% is %u layers",
			  r->total.resident_layers, n, opts->dram_share * 100,
			  stay);
}

static void release(struct opened *o)
{
	for (size_t i = 0; o->prompt && i < o->by->items->n; i++)
		free(o->prompt[i].id);
	free(o->prompt);
	strbuf_release(&o->output);
	image_close(o->image);
	free(o);
}

void pair_note(struct pair_runner *by, const struct tandem *t)
{
	static const char between[] = " | ", more[] = " | ...";
	size_t used = strlen(by->priced), length;
	struct tandem_report r;

	tandem_report(t, &r);
	if (!by->model[0])
		snprintf(by->model, sizeof(by->model), "%s", r.model_path);
	if (!by->draft[0] && r.drafter_path)
		snprintf(by->draft, sizeof(by->draft), "%s", r.drafter_path);
	if (!*r.priced_as || strstr(by->priced, r.priced_as) ||
		strstr(by->priced, more))
		return;
	length = strlen(r.priced_as);
	if (used + length < sizeof(by->priced) - sizeof(more) - 3) {
		if (used) {
			memcpy(by->priced + used, between, sizeof(between));
			used += sizeof(between) - 1;
		}
		memcpy(by->priced + used, r.priced_as, length + 1);
	} else {
		memcpy(by->priced + used, more, sizeof(more));
	}
}

static int open_run(
	void *arg, const struct setting *s, void **one, struct err *e)
{
	struct pair_runner *by = arg;
	struct opened *o = calloc(1, sizeof(*o));
	const struct run_options *run;
	struct session_opts *pair;
	int ret;

	if (!o)
		return err_set(
			e, ENOMEM, "no memory for a run of the benchmark");
	o->by = by;
	o->hook = s->hook;
	o->in_a_row = s->in_a_row;
	ret = pair_open_model(by, s, &o->values, &o->tandem, e);
	if (!ret) {
		run = opt_values_of(&o->values, &run_table);
		o->n_predict = run->n_predict;
		tandem_report(o->tandem, &o->report);
		ret = take_prompts(o, e);
	}
	if (!ret) {
		pair = tandem_pair(o->tandem);
		pair->cancel = by->cancel;
		pair->progress = by->progress;
		pair->trace = bench_trace_next(&by->trace, pair->trace);
		/* A restart of the device process would make the measurement
		 * wrong. */
		pair->restarts = 0;
		if (tandem_start_for(o->tandem, o->longest, o->n_predict))
			ret = tandem_failure(o->tandem, e);
		tandem_report(o->tandem, &o->report);
	}
	/* In a run "in a row" (setting.in_a_row), every item starts with the
	 * graphs that the previous request has left loaded. So run a prompt
	 * before the first item. */
	if (!ret && o->in_a_row && o->by->items->n)
		ret = tandem_prefill(
			o->tandem, o->prompt[0].id, o->prompt[0].n, 1, NULL, e);
	if (!ret && o->hook && o->hook->opened)
		ret = o->hook->opened(o->hook->arg, o->tandem, e);
	if (!ret)
		ret = find_streamed(o, e);
	if (ret) {
		if (o->tandem)
			tandem_end(o->tandem, NULL);
		release(o);
		return ret;
	}
	pair_note(by, o->tandem);
	*one = o;
	return 0;
}

/* ---- an item ------------------------------------------------------------- */

/* A snapshot of all counters. */
struct mark {
	struct session_stats stats;
	struct method_stats drafts;
	uint64_t ns, ps;
	/* the kernel's count of bytes read; -1 if not counted */
	int64_t kernel;
};

/* State of an item during decoding. */
struct decoding {
	struct opened *of;
	/* snapshots of the counters before the prompt and at the first token */
	struct mark begin, first;
	bool first_is_taken;
	struct err e; /* error that at_token() has set */
};

/*
 * Return the number of bytes that this process has read, as counted by the
 * kernel, or -1 if this number cannot be compared with the number of bytes that
 * the passes must read. The two numbers can be compared only if the file is
 * read without the page cache and times are wall-clock times.
 */
static int64_t count_reads(const struct opened *o)
{
	struct pair_runner *by = o->by;

	if (by->plain && by->plain->direct &&
		!o->report.pair->stream.buffered) {
		/*
		 * Read read_bytes from /proc/self/io: the number of bytes that
		 * all threads of this process have read from storage. This
		 * number grows when a read is sent to the storage device, and
		 * does not include reads from the page cache. If the number
		 * cannot be read, return -1 and store the reason in
		 * `uncounted`.
		 */
		size_t size = sizeof(by->uncounted);
		FILE *f = fopen(COUNTS, "re");
		int64_t bytes = -1;
		char line[80];

		if (!f) {
			snprintf(by->uncounted, size, COUNTS ": %s",
				strerror(errno));
			return -1;
		}
		while (fgets(line, sizeof(line), f))
			if (sscanf(line, "read_bytes: %" SCNd64, &bytes) == 1)
				break;
		fclose(f);
		if (bytes < 0)
			snprintf(by->uncounted, size,
				COUNTS " has no read_bytes");
		return bytes;
	}
	snprintf(by->uncounted, sizeof(by->uncounted),
		"the image is read through the page cache");
	return -1;
}

/*
 * Read ahead until all layer slots (buffers for layers from flash) are full,
 * then take a snapshot of the counters. take() is called at the start and at
 * the end of the decode phase. Layers that are in the slots at the start were
 * read before and are not counted. At the end the slots hold equally many
 * layers, which were read ahead and are counted. So the difference of the two
 * snapshots is what the passes of the decode phase used.
 */
static int take(struct mark *m, const struct opened *o, struct err *e)
{
	struct tandem_report r;
	int ret = tandem_read_ahead(o->tandem, e);

	if (ret)
		return ret;
	m->kernel = count_reads(o);
	tandem_report(o->tandem, &r);
	m->stats = r.total;
	m->drafts = r.drafts;
	m->ps = r.pair->soc ? r.total.price.total_ps : 0;
	m->ns = clock_ns();
	return 0;
}

static int take_first(struct decoding *d, struct err *e)
{
	d->first_is_taken = true;
	return take(&d->first, d->of, e);
}

/* Called before the prompt: take the snapshot d->begin. If the method emits
 * many tokens at once, the decode phase begins here, so also take d->first. */
static int at_begin(void *arg, struct err *e)
{
	struct decoding *d = arg;
	int ret = take(&d->begin, d->of, e);

	return ret || !d->of->report.emits_at_once ? ret : take_first(d, e);
}

static int at_token(void *arg, int32_t id, const char *text, size_t len)
{
	struct decoding *d = arg;
	struct strbuf *output = &d->of->output;

	if (!d->first_is_taken && take_first(d, &d->e))
		return -1;
	strbuf_add(output, text, len);
	return output->failed;
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

/* Decode an item. Takes snapshots of the counters: d->begin and d->first (see
 * struct decoding), and *end at the end of the decode phase. */
static int decode_item(struct opened *o, size_t item,
	const struct known_text *known, struct decoding *d, struct mark *end,
	struct err *e)
{
	struct measured_text m = {
		.ready = at_begin, .in_a_row = o->in_a_row, .arg = d
	};
	struct tandem_request q;
	int ret;

	tandem_request_init(&q, sizeof(q));
	q.tokens = o->prompt[item].id;
	q.n_tokens = o->prompt[item].n;
	q.max_tokens = o->n_predict;
	q.temperature = 0;
	q.flags = o->by->items->prompt[item] ? 0 : TANDEM_IGNORE_EOS;
	q.sink = at_token;
	q.sink_arg = d;
	/* Pass the known text only if it was generated with at least the token
	 * limit of this run; otherwise the known text may be too short. */
	if (known && known->n_predict >= o->n_predict) {
		m.known = known->id;
		m.n_known = known->n;
	}
	strbuf_reset(&o->output);
	ret = tandem_measure(o->tandem, &q, &m, e);
	if (!ret && d->e.code) {
		*e = d->e;
		ret = e->code;
	}
	if (!ret && o->output.failed)
		ret = err_set(e, ENOMEM, "no memory for the generated text");
	return ret ? ret : take(end, o, e);
}

static int run_item(void *arg, void *one, size_t item,
	const struct known_text *known, struct item_report *t, struct err *e)
{
	struct opened *o = one;
	const struct soc *soc = o->report.pair->soc;
	struct bench_read *plain = o->by->plain;
	const struct eval_item *marked = o->by->items->marked[item];
	struct figures *f = &t->figures;
	struct decoding d = { .of = o };
	struct mark end;
	const struct stream_stats *from = &d.first.stats.staging.stream,
				  *to = &end.stats.staging.stream;
	bool whole = o->report.emits_at_once, right = false, retried;
	struct tandem_report r;
	uint64_t given, twice;
	double bytes;
	int ret = 0;

	/*
	 * Directly before the item, measure how fast a plain reader
	 * (bench_read.h) reads the layers. The speed gives the time that a
	 * plain reader would need for the bytes of the item.
	 */
	if (plain && o->streamed) {
		ret = bench_read_again(o->image, plain, e);
		if (!ret && plain->bytes_per_s > o->by->fastest)
			o->by->fastest = plain->bytes_per_s;
	}
	if (!ret)
		ret = decode_item(o, item, known, &d, &end, e);
	if (ret)
		return ret;
	tandem_report(o->tandem, &r);
	*f = figures_since(
		&d.first, &end, gen_generated(r.generation) - !whole);
	f->items = 1;
	f->priced_bytes = f->passes * o->report.pass_bytes;
	bytes = (double)f->priced_bytes;
	if (soc)
		f->least_ps = (uint64_t)(bytes * 1e12 / soc->flash_bytes_per_s);
	if (o->by->fastest > 0)
		f->least_ns = (uint64_t)(bytes * 1e9 / o->by->fastest / STEADY);
	if (plain && plain->bytes_per_s > 0)
		f->plain_ns =
			(uint64_t)((double)f->bytes * 1e9 / plain->bytes_per_s);
	if (!whole) {
		f->prompt_tokens = o->prompt[item].n;
		f->prompt_ns = d.first.ns - d.begin.ns;
		f->prompt_ps = d.first.ps - d.begin.ps;
		f->prompt_energy_pj = d.first.stats.price.energy_pj -
			d.begin.stats.price.energy_pj;
	}

	/*
	 * The layer slots are full before and after an item. So flash must have
	 * read exactly the bytes that the item's passes used, plus at most
	 * `twice` bytes: those that were read twice because a page holds the
	 * end of one part of a layer and the start of the next. The number of
	 * bytes cannot be predicted if reads were retried, nor if the output
	 * matrix is streamed, because each computation of logits then reads
	 * this matrix.
	 */
	given = to->bytes - from->bytes;
	twice = (end.stats.staging.meetings - d.first.stats.staging.meetings) *
		IMAGE_PAGE;
	retried = to->retries > from->retries || end.stats.output_streamed;
	if (!retried && (given < f->bytes || given - f->bytes > twice))
		return err_set(e, EPROTO,
			"%llu bytes were read from flash, but the passes "
			"used %llu bytes",
			(unsigned long long)given,
			(unsigned long long)f->bytes);
	t->kernel_bytes =
		retried || !o->streamed || d.first.kernel < 0 || end.kernel < 0
		? -1
		: end.kernel - d.first.kernel - (int64_t)twice;
	t->kernel_wanted = f->passes * o->whole_pages;
	t->kernel_slack = o->largest;

	f->marked = marked != NULL;
	if (marked)
		ret = eval_check(
			marked, o->output.data, o->output.len, &right, e);
	if (ret)
		return ret;
	f->right = right;
	t->text = gen_tokens(r.generation, &t->n);
	t->n_prompt = o->prompt[item].n;
	t->n_predict = o->n_predict;
	t->streamed = o->streamed;
	t->rows_emitted = r.logits_emitted;
	t->base_w = soc ? soc->base_w : 0;
	return 0;
}

/* ---- closing ------------------------------------------------------------- */

static int close_run(void *arg, void *one, bool good, struct err *e)
{
	struct opened *o = one;
	int ret = 0, closed;

	if (good && o->hook && o->hook->done)
		ret = o->hook->done(o->hook->arg, o->tandem, e);
	closed = tandem_end(o->tandem, good && !ret ? e : NULL);
	release(o);
	return ret ? ret : closed;
}

struct runner pair_runner(struct pair_runner *arg)
{
	return (struct runner){ open_run, run_item, close_run, arg };
}
