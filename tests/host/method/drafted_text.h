/*
 * Common part of the tests of methods that verify drafted trees. The tests run
 * every drafter, on the host or the device, with and without pruning. A text
 * from a real device process must equal plain decoding token for token. Every
 * cycle (draft and verifying pass) must pass the checks of watched_drafter.h.
 */
#ifndef TESTS_HOST_METHOD_DRAFTED_TEXT_H
#define TESTS_HOST_METHOD_DRAFTED_TEXT_H

#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/draft/draft_model.h"
#include "host/draft/drafter_device.h"
#include "host/draft/drafter_host.h"
#include "host/draft/drafter_oracle.h"
#include "host/head/exit_head.h"
#include "host/method/lever.h"
#include "host/method/methods.h"
#include "host/session/session.h"
#include "tensor/gguf_write.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/method/set_option.h"
#include "tests/host/method/text_writer.h"
#include "tests/host/method/watched_drafter.h"
#include "tests/host/session/pair.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS 64 /* maximum rows of a tree */
/* the exit predictor reads the hidden state after this layer of 4 */
#define EXIT 2

enum place { SERIAL, BATCHED, DEVICE, ORACLE, N_PLACES };

static const struct method *const verifying[] = { &method_chain,
	&method_specinfer, &method_opt_tree, &method_eagle2_tree,
	&method_edgellm, &method_lever };

#define N_METHODS ARRAY_LEN(verifying)

struct fixture {
	struct writer w;
	struct image_file image; /* image of the model w.model[SAME] */
	struct soc soc;
	const struct model *target; /* model of the session */
	/* True if the device has loaded the draft session's model. A device can
	 * load one model besides the target, and only once. */
	bool shared;
	struct exit_head *exit;
	/* Options of the texts that are generated next. */
	uint32_t draft_context;
	/* 0 means that the option is not set */
	uint32_t tree_rows, depth, candidates;
	bool streams, prune, stop_rule, no_shadow;
	double threshold;  /* threshold of pruning */
	struct text plain; /* the expected text, from plain decoding */
	/* Text that the oracle drafts from; NULL means `plain`. */
	const struct text *oracle_text;
	/* Sum over all generated texts. */
	struct method_stats sum;
	uint32_t most; /* maximum rows of a pass of the latest text */
};

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	writer_init(&f->w, ROWS, 32);
	f->w.opts.smaller_graphs = true;
	f->w.opts.exit_layers = EXIT;
	f->tree_rows = 24;
	f->depth = 8;
	f->candidates = 4;
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	exit_head_close(f->exit);
	writer_release(&f->w);
	image_file_remove(&f->image);
	free(f);
	return 0;
}

static inline void open_models(struct fixture *f)
{
	writer_open_models(&f->w, 4);
}

static inline void open_session(struct fixture *f, const struct model *m)
{
	pair_open(&f->w.s, m, &f->w.opts);
	f->target = m;
	f->shared = false;
}

/* ---- exit predictor ---------------------------------------------------- */

/* Write an exit predictor with random weights to a file and open it. */
static inline void open_exit(struct fixture *f)
{
	const struct model *m = f->w.model[SAME];
	struct gguf_writer *w;
	char path[4300];
	float *row = malloc(m->n_embd * sizeof(*row));
	struct err e = { 0 };

	snprintf(path, sizeof(path), "%s/exit.gguf", harness_tmp());
	assert_ok(gguf_writer_open(&w, path, &e), &e);
	gguf_put_str(w, "general.architecture", "tandem-exit");
	gguf_put_u32(w, "tandem-exit.layer", EXIT);
	gguf_put_u32(w, "tandem-exit.embedding_length", m->n_embd);
	gguf_put_u32(w, "tandem-exit.vocab_size", N_VOCAB);
	gguf_put_f32(w, "tandem-exit.layer_norm_rms_epsilon", 1e-5f);
	gguf_put_tensor(w, "exit_norm.weight", DTYPE_F32, 1,
		(const uint64_t[]){ m->n_embd });
	gguf_put_tensor(w, "exit.weight", DTYPE_F32, 2,
		(const uint64_t[]){ m->n_embd, N_VOCAB });
	for (uint64_t r = 0; r <= N_VOCAB; r++) {
		for (uint64_t i = 0; i < m->n_embd; i++)
			row[i] = r ? (float)rng_uniform(8, r, i) - .5f : 1;
		gguf_write_data(w, row, m->n_embd * sizeof(*row), &e);
	}
	assert_ok(gguf_writer_commit(w, &e), &e);
	gguf_writer_close(w);
	assert_ok(exit_head_open(&f->exit, path, m, &e), &e);
	assert_int_equal(exit_head_layers(f->exit), EXIT);
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	free(row);
}

/* ---- drafters -------------------------------------------------------- */

struct drafting {
	enum place place;
	struct draft_model *model;
	struct session *session;
	struct watched watched;
};

static inline void open_on_device(
	struct fixture *f, struct drafting *d, int which)
{
	struct session_opts opts = f->w.opts;
	struct err e = { 0 };

	/* a device loads one model besides the target, and only once */
	if (f->shared) {
		pair_close(&f->w.s);
		open_session(f, f->target);
	}
	f->shared = true;
	opts.beside = f->w.s;
	opts.dram_share = 1;
	opts.exit_layers = 0;
	opts.context = f->draft_context;
	assert_ok(session_open(&d->session, f->w.model[which], &opts, &e), &e);
	assert_ok(
		drafter_device_open(&d->watched.inner, d->session, 8, &e), &e);
}

static inline void open_on_host(
	struct fixture *f, struct drafting *d, int which)
{
	struct err e = { 0 };

	assert_ok(draft_open(&d->model, f->w.model[which], f->w.model[SAME],
			  DRAFT_F32, f->draft_context, 1, &e),
		&e);
	draft_price_for(
		d->model, f->w.opts.soc, NULL, (struct shape_type){ 0 });
	assert_ok(drafter_host_open(&d->watched.inner, d->model,
			  d->place == SERIAL ? 1 : 8, &e),
		&e);
}

static inline void open_drafting(
	struct fixture *f, struct drafting *d, enum place place, int which)
{
	const struct text *oracle_text =
		f->oracle_text ? f->oracle_text : &f->plain;
	struct err e = { 0 };

	*d = (struct drafting){ .place = place };
	if (place == DEVICE)
		open_on_device(f, d, which);
	else if (place != ORACLE)
		open_on_host(f, d, which);
	else
		assert_ok(drafter_oracle_open(&d->watched.inner,
				  oracle_text->token, oracle_text->n,
				  &(struct oracle_curve){ { .6 }, 1 }, 3,
				  N_VOCAB, &e),
			&e);
}

static inline void close_drafting(struct drafting *d)
{
	struct err e = { 0 };

	if (d->place == DEVICE)
		drafter_close(&d->watched.inner);
	else if (d->place == ORACLE)
		drafter_close(&d->watched.inner);
	else
		drafter_close(&d->watched.inner);
	assert_ok(session_close(d->session, &e), &e);
	draft_close(d->model);
}

/* ---- texts --------------------------------------------------------- */

static inline void write_plain(struct fixture *f)
{
	struct method_env none = { 0 };

	writer_write(&f->w, &method_autoregressive, &none, &f->plain);
}

static inline void check_stats(struct fixture *f, const struct method_env *env,
	const struct session_stats *a, const struct text *t)
{
	const struct method_stats *s = &env->stats;
	struct session_stats b;

	session_stats(f->w.s, &b);
	/* The first token comes from the prompt's pass, which is no cycle. */
	assert_int_equal(s->cycles + s->accepted, t->n - N_PROMPT - 1);
	assert_int_equal(b.logits_rows - a->logits_rows, t->n - N_PROMPT);
	assert_true(b.logits_computed - a->logits_computed >=
		b.logits_rows - a->logits_rows);
	assert_int_equal(b.passes - a->passes, s->cycles + 1);
	assert_int_equal(b.rows - a->rows, N_PROMPT + s->drafted + s->cycles);
	assert_int_equal(b.upper_rows - a->upper_rows, N_PROMPT + s->kept);
	assert_true(s->kept <= s->drafted + s->cycles);
	if (!f->prune)
		assert_int_equal(s->kept, s->drafted + s->cycles);
	assert_true(s->leaves >= s->cycles);
#define SUM_ROWS(id, name)     +s->name##_rows
#define SUM_ACCEPTED(id, name) +s->name##_accepted
	assert_int_equal(s->drafted, 0 DRAFT_SOURCES(SUM_ROWS));
	assert_int_equal(s->accepted, 0 DRAFT_SOURCES(SUM_ACCEPTED));
#undef SUM_ROWS
#undef SUM_ACCEPTED
	assert_int_equal(session_length(f->w.s, SESSION_TEXT), t->n - 1);
	method_stats_add(&f->sum, s);
}

/* Open a method with the fixture's options. The fixture keeps ownership of the
 * exit predictor. */
static inline void open_method(const struct fixture *f, const struct method *m,
	struct opt_values *options, struct method_env *env)
{
	struct err e = { 0 };

	if (f->depth) {
		set_option_number(options, "draft-len", f->depth);
		set_option_number(options, "tree-depth", f->depth);
	}
	if (f->tree_rows)
		set_option_number(options, "tree-rows", f->tree_rows);
	set_option_number(options, "candidates", f->candidates);
	set_option(options, "stop-rule", f->stop_rule ? "true" : "false");
	set_option(options, "prune-always", NULL);
	set_option(options, "exit", "none");
	env->options = options;
	assert_ok(method_open(env, m, f->w.model[SAME], &e), &e);
	if (m == &method_lever && f->prune) {
		lever_state(env)->exit = f->exit;
		lever_state(env)->prune.threshold = f->threshold;
		lever_state(env)->prune.shadow = !f->no_shadow;
	}
}

static inline void close_method(struct method_env *env)
{
	if (env->method == &method_lever)
		lever_state(env)->exit = NULL;
	method_close(env);
}

/* Generate a text by one method with a new drafter and compare it with
 * f->plain, which must be set. */
static inline void check_text(
	struct fixture *f, const struct method *m, struct drafting *d)
{
	struct opt_values options = { 0 };
	struct drafter drafter;
	struct method_env env = { .options = &options,
		.drafter = &drafter,
		.phone = f->w.opts.soc,
		.streams = f->streams };
	struct session_stats before;
	struct text got;
	char what[128];

	open_method(f, m, &options, &env);
	drafter = watched_drafter(&d->watched, &env, &f->plain, f->prune);
	session_stats(f->w.s, &before);
	writer_write(&f->w, m, &env, &got);
	snprintf(what, sizeof(what), "%s, drafter %d, %u rows, %u tokens",
		m->name, d->place, f->tree_rows, f->w.n_predict);
	text_same(&got, &f->plain, what);
	check_stats(f, &env, &before, &got);
	/* watched_drafter.h checks a cycle when the next tree is drafted, so up
	 * to two cycles at the end are not checked. Lever may stop drafting
	 * earlier. */
	assert_true(m == &method_lever ||
		d->watched.checked + 2 >= env.stats.cycles);
	f->most = d->watched.most;
	close_method(&env);
}

static inline void check_methods(struct fixture *f, enum place place, int which)
{
	struct drafting d;

	open_drafting(f, &d, place, which);
	for (unsigned m = 0; m < N_METHODS; m++)
		check_text(f, verifying[m], &d);
	close_drafting(&d);
}

/* Check all methods in all places where a drafter can run. The draft model
 * agrees with the target only sometimes. */
static inline void check_places(struct fixture *f)
{
	write_plain(f);
	for (enum place p = 0; p < N_PLACES; p++)
		check_methods(f, p, COARSE);
}

/* Some drafted tokens must have been accepted, and some rejected. */
static inline void end_texts(struct fixture *f)
{
	print_message("%.2f tokens a pass\n",
		(double)(f->sum.cycles + f->sum.accepted) /
			(double)f->sum.cycles);
	assert_true(f->sum.accepted > 0);
	assert_true(f->sum.accepted < f->sum.drafted);
	pair_close(&f->w.s);
}

#endif
