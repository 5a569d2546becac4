#include "host/cmd/bench_line.h"

#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/bench_run.h"
#include "host/bench/run_options.h"
#include "host/cmd/cmd.h"
#include "host/eval/shard.h"

#include <errno.h>
#include <string.h>

static const struct shards *merged;

void bench_line_merges(const struct shards *all)
{
	merged = all;
}

void bench_line_begin(struct bench_line *l, int argc, char *const *argv)
{
	l->arguments = shard_arguments(argc, argv);
}

static int check_shard(const struct command *c, const struct bench_line *l)
{
	struct shard s;
	struct err e = { 0 };

	if (shard_parse(&s, l->shard, &e))
		return cmd_refuse(c, &e);
	if (l->shard && (l->csv || l->plot))
		return cmd_misuse(c,
			"--shard and %s exclude each other; tandem merge has "
			"it for all shards",
			l->csv ? "--csv" : "--plot");
	return EXIT_OK;
}

int bench_line_check(const struct command *c, const struct bench_line *l,
	const char *said_by)
{
	const struct decoding_options *decoding =
		opt_values_of(&l->asked, &decoding_table);
	const struct decoding_options *unsaid = decoding_table.defaults;

	if (l->json && l->csv)
		return cmd_misuse(c, "--json and --csv exclude each other");
	if (strcmp(decoding->method, unsaid->method))
		return cmd_misuse(c, "--method is set by %s here", said_by);
	return check_shard(c, l);
}

int bench_line_check_decoder(
	const struct command *c, const struct bench_line *l, const char *method)
{
	struct opt_values asked = l->asked;
	struct tandem *t;
	struct err e = { 0 };
	int ret = opt_set(decoder_tables, &asked, "method", method, &e);

	if (!ret)
		ret = tandem_create(&t, NULL, &asked, &e);
	if (ret)
		return cmd_refuse(c, &e);
	tandem_end(t, NULL);
	return EXIT_OK;
}

void bench_line_take(struct bench_line *l, struct bench_asked *a)
{
	struct run_options *o = opt_values_at(&l->asked, &run_table);
	struct err e = { 0 };

	o->model = l->model;
	o->n_predict = (uint32_t)l->predict;
	a->options = &l->asked;
	a->items = (uint32_t)l->items;
	a->rounds = (unsigned)l->rounds;
	a->form = l->json ? BENCH_JSON : l->csv ? BENCH_CSV : BENCH_TEXT;
	a->plot = l->plot;
	a->cancel = &cmd_interrupted;
	a->progress = cmd_progress;
	a->arguments = l->arguments;
	a->merged = merged;
	shard_parse(&a->shard, l->shard, &e); /* which was checked */
}

int bench_line_end(int ret, const struct err *e)
{
	int status = ret ? cmd_fail(e) : EXIT_OK;

	return ret == -ECANCELED ? EXIT_INTERRUPTED : status;
}
