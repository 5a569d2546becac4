/*
 * The methods that verify drafted trees, on a real device process (TANDEM_NPU;
 * skipped without): whatever drafts, wherever it runs, and whatever is pruned,
 * the text is plain decoding's, token for token. Each cycle emits one token
 * more than the drafted tree has in common with that text, which is told from
 * the tree and the text alone; with pruning no more than that.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/draft/draft_model.h"
#include "host/draft/drafter_device.h"
#include "host/draft/drafter_host.h"
#include "host/draft/drafter_oracle.h"
#include "host/exit/exit_head.h"
#include "host/generation.h"
#include "host/method/method.h"
#include "host/model/model.h"
#include "host/model/sampler.h"
#include "host/model/tokenizer.h"
#include "host/session.h"
#include "host/soc_file.h"
#include "host/tree/tree_cost.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tensor/soc.h"
#include "tests/harness.h"
#include "tests/host/image_file.h"
#include "tests/host/model_file.h"
#include "tests/host/vocab_file.h"

#include <errno.h>
#include <unistd.h>

#define N_VOCAB  274 /* of vocab_spm */
#define N_PROMPT 12
#define MOST     256 /* tokens of a text */
#define ROWS     64  /* of trees, at most */
#define EXIT     2   /* of 4 layers */

enum { SAME, COARSE, STRANGER, N_DRAFTS }; /* draft models */
enum place { SERIAL, BATCHED, DEVICE, ORACLE, N_PLACES };

static const struct method *const verifying[] = { &method_chain,
	&method_specinfer, &method_opt_tree, &method_eagle2_tree,
	&method_edgellm, &method_lever };

#define N_METHODS ARRAY_LEN(verifying)

struct text {
	int32_t token[MOST]; /* the prompt as well */
	size_t n;
	enum gen_stop stop;
};

struct fixture {
	struct model *model[N_DRAFTS];
	struct image_file image; /* of SAME */
	struct session_opts opts;
	struct soc soc;
	struct session *s;
	const struct model *target; /* its */
	bool shared;                /* with a draft session, once */
	struct exit_head *exit;
	struct tokenizer *tok;
	/* Of the texts to come. */
	struct sampler_opts sampling;
	uint32_t n_predict, context, draft_context;
	const char *stop;
	uint32_t tree_rows, depth, candidates;
	bool prune, stop_rule;
	struct prune_opts prune_opts;
	struct text plain;       /* what they should be */
	const struct text *told; /* what the oracle knows; NULL: that */
	/* Of all texts so far. */
	struct method_stats sum;
};

/* ---- set-up -------------------------------------------------------- */

/* The target; the same with 4 bits a weight, which agrees with it now and
 * then; and one of other weights, which does not but by chance. */
static void open_models(struct fixture *f)
{
	struct model_file file = model_file_tiny;
	const char *npu = getenv("TANDEM_NPU");

	if (!npu || access(npu, X_OK)) {
		print_message("skipped: TANDEM_NPU names no device program\n");
		skip();
	}
	file.n_vocab = N_VOCAB;
	file.n_layer = 4;
	f->model[SAME] = model_file_open(&file);
	file.type = DTYPE_Q4_0;
	f->model[COARSE] = model_file_open(&file);
	file.type = DTYPE_F16;
	file.n_layer = 1;
	file.n_ff = 96;
	file.tied = true;
	f->model[STRANGER] = model_file_open(&file);
}

/* An exit predictor that knows nothing. */
static void open_exit(struct fixture *f)
{
	const struct model *m = f->model[SAME];
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

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->opts = session_defaults;
	f->opts.threads = 1;
	f->opts.prefill_chunk = 16;
	f->opts.decode_rows = ROWS;
	f->opts.smaller_graphs = true;
	f->opts.exit_layers = EXIT;
	f->opts.precision =
		WIRE_F32; /* the draft model's arithmetic: SAME is the same */
	f->sampling = sampler_defaults;
	f->sampling.temperature = 0;
	f->opts.spin_us = 50; /* tests have few processors */
	f->n_predict = 32;
	f->tree_rows = 24;
	f->depth = 8;
	f->candidates = 4;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	session_close(f->s, NULL);
	exit_head_close(f->exit);
	tokenizer_close(f->tok);
	image_file_remove(&f->image);
	for (int i = 0; i < N_DRAFTS; i++)
		model_close(f->model[i]);
	free(f);
	return 0;
}

static void open_session(struct fixture *f, const struct model *m)
{
	struct err e = { 0 };

	assert_ok(session_open(&f->s, m, &f->opts, &e), &e);
	f->target = m;
	f->shared = false;
}

static void close_session(struct fixture *f)
{
	struct err e = { 0 };

	/* Violations of the coherence contract would make it fail. */
	assert_ok(session_close(f->s, &e), &e);
	f->s = NULL;
}

/* A tokenizer for whom `eos` ends a text. */
static void open_tokenizer(struct fixture *f, uint32_t eos)
{
	static struct vocab v;
	struct vocab_file keys = { 0 };
	struct strbuf file = STRBUF_INIT;
	struct gguf *gguf;
	struct err e = { 0 };

	v = (struct vocab){ 0 };
	vocab_spm(&v);
	vocab_keys(&keys, &v);
	vocab_u32(&keys, "tokenizer.ggml.eos_token_id", eos);
	vocab_finish(&keys, &file);
	assert_ok(gguf_parse(&gguf, file.data, file.len, &e), &e);
	assert_ok(tokenizer_open(&f->tok, gguf, &e), &e);
	gguf_close(gguf);
	strbuf_release(&file);
}

/* ---- who drafts ------------------------------------------------------ */

struct drafting {
	enum place place;
	struct draft_model *model;
	struct session *session;
	struct drafter inner;
	/* What cycles were, by what the drafter is shown. */
	const struct fixture *f;
	struct method_env *env;
	const struct tree *tree; /* drafted last; NULL: none */
	size_t n;                /* of the text then */
	uint64_t drafted;        /* by env's stats then */
	unsigned checked;
};

/* Tokens that a verified tree has in common with the text behind n. */
static size_t in_common(const struct tree *t, uint32_t verified,
	const struct text *text, size_t n)
{
	size_t same = 0;
	uint32_t node = 0, child = 1;

	while (child < verified && n + same < text->n) {
		if (t->parent[child] == (int32_t)node &&
			t->token[child] == text->token[n + same]) {
			node = child;
			same++;
		}
		child++;
	}
	return same;
}

/* A text goes on: what did the cycle behind us emit? */
static void check_cycle(struct drafting *d, size_t n)
{
	uint32_t verified = (uint32_t)(d->env->stats.drafted - d->drafted) + 1;
	size_t want = 1 + in_common(d->tree, verified, &d->f->plain, d->n);
	size_t got = n - d->n;

	if (got > want || (got < want && !d->f->prune))
		fail_msg("a cycle of %u rows behind %zu tokens emitted %zu, "
			 "not %zu",
			verified, d->n, got, want);
	d->checked++;
}

static int watched_begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	struct drafting *d = arg;

	if (d->tree)
		check_cycle(d, n);
	d->tree = t;
	d->n = n;
	d->drafted = d->env->stats.drafted;
	return d->inner.begin(d->inner.arg, t, text, n, e);
}

static int watched_expand(void *arg, struct tree *t, const uint32_t *node,
	uint32_t n, struct err *e)
{
	struct drafting *d = arg;

	return d->inner.expand(d->inner.arg, t, node, n, e);
}

static void open_on_device(struct fixture *f, struct drafting *d, int which)
{
	struct session_opts opts = f->opts;
	struct err e = { 0 };

	if (f->shared) { /* a device takes one more model, once */
		close_session(f);
		open_session(f, f->target);
	}
	f->shared = true;
	opts.beside = f->s;
	opts.dram_share = 1;
	opts.exit_layers = 0;
	opts.context = f->draft_context;
	assert_ok(session_open(&d->session, f->model[which], &opts, &e), &e);
	assert_ok(drafter_device_open(&d->inner, d->session, 8, &e), &e);
}

static void open_on_host(struct fixture *f, struct drafting *d, int which)
{
	struct err e = { 0 };

	assert_ok(draft_open(&d->model, f->model[which], f->model[SAME],
			  DRAFT_F32, f->draft_context, 1, &e),
		&e);
	draft_price_for(d->model, f->opts.soc);
	assert_ok(drafter_host_open(
			  &d->inner, d->model, d->place == SERIAL ? 1 : 8, &e),
		&e);
}

static void open_drafting(
	struct fixture *f, struct drafting *d, enum place place, int which)
{
	const struct text *told = f->told ? f->told : &f->plain;
	struct err e = { 0 };

	*d = (struct drafting){ .place = place, .f = f };
	if (place == DEVICE)
		open_on_device(f, d, which);
	else if (place != ORACLE)
		open_on_host(f, d, which);
	else
		assert_ok(drafter_oracle_open(&d->inner, told->token, told->n,
				  .6, 3, N_VOCAB, &e),
			&e);
}

static void close_drafting(struct drafting *d)
{
	struct err e = { 0 };

	if (d->place == DEVICE)
		drafter_device_close(&d->inner);
	else if (d->place == ORACLE)
		drafter_oracle_close(&d->inner);
	else
		drafter_host_close(&d->inner);
	assert_ok(session_close(d->session, &e), &e);
	draft_close(d->model);
}

/* ---- texts --------------------------------------------------------- */

static void write_prompt(int32_t prompt[N_PROMPT])
{
	static uint64_t seed; /* asked for once: it is printed */

	seed = seed ? seed : harness_seed();
	for (uint64_t i = 0; i < N_PROMPT; i++)
		prompt[i] = (int32_t)(rng_uniform(seed, 1, i) * N_VOCAB);
}

static struct generation *open_text(
	const struct fixture *f, struct sampler *sampler)
{
	const struct generation_opts o = {
		.tokenizer = f->tok,
		.sampler = sampler,
		.n_vocab = N_VOCAB,
		.n_predict = f->n_predict,
		.context = f->context ? f->context : session_context(f->s),
		.stop = &f->stop,
		.n_stop = f->stop ? 1 : 0,
	};
	int32_t prompt[N_PROMPT];
	struct generation *g;
	struct err e = { 0 };

	write_prompt(prompt);
	assert_ok(generation_open(&g, &o, prompt, N_PROMPT, &e), &e);
	return g;
}

static void write_text(struct fixture *f, const struct method *m,
	struct method_env *env, struct text *out)
{
	struct sampler *sampler;
	struct generation *g;
	struct err e = { 0 };
	const int32_t *token;

	assert_ok(sampler_open(&sampler, &f->sampling, N_VOCAB, &e), &e);
	g = open_text(f, sampler);
	session_truncate(f->s, 0);
	assert_ok(m->run(f->s, g, env, &e), &e);
	token = gen_tokens(g, &out->n);
	assert_in_range(out->n, N_PROMPT, MOST);
	memcpy(out->token, token, out->n * sizeof(*token));
	out->stop = gen_stop_reason(g);
	generation_close(g);
	sampler_close(sampler);
}

static void write_plain(struct fixture *f)
{
	struct method_env none = { 0 };

	write_text(f, &method_autoregressive, &none, &f->plain);
}

static void same_text(
	const struct text *got, const struct text *want, const char *what)
{
	for (size_t i = 0; i < got->n && i < want->n; i++)
		if (got->token[i] != want->token[i])
			fail_msg("%s: token %zu is %d, not %d", what, i,
				got->token[i], want->token[i]);
	if (got->n != want->n || got->stop != want->stop)
		fail_msg("%s: %zu tokens, stopped by %s, not %zu by %s", what,
			got->n, gen_stop_name(got->stop), want->n,
			gen_stop_name(want->stop));
}

static void add_stats(struct fixture *f, const struct method_stats *s)
{
	f->sum.cycles += s->cycles;
	f->sum.drafted += s->drafted;
	f->sum.accepted += s->accepted;
	f->sum.kept += s->kept;
}

static void check_stats(struct fixture *f, const struct method_env *env,
	const struct session_stats *a, const struct text *t)
{
	const struct method_stats *s = &env->stats;
	struct session_stats b;

	session_stats(f->s, &b);
	/* The first token is the prompt's. */
	assert_int_equal(s->cycles + s->accepted, t->n - N_PROMPT - 1);
	assert_int_equal(b.logits_rows - a->logits_rows, t->n - N_PROMPT);
	assert_int_equal(b.passes - a->passes, s->cycles + 1);
	assert_int_equal(b.rows - a->rows, N_PROMPT + s->drafted + s->cycles);
	assert_int_equal(b.upper_rows - a->upper_rows, N_PROMPT + s->kept);
	assert_true(s->kept <= s->drafted + s->cycles);
	if (!f->prune)
		assert_int_equal(s->kept, s->drafted + s->cycles);
	assert_true(s->leaves >= s->cycles);
	assert_int_equal(session_length(f->s), t->n - 1);
	add_stats(f, s);
}

/* A text by one method, with everything opened anew; f->plain is known. */
static void check_text(
	struct fixture *f, const struct method *m, struct drafting *d)
{
	static struct cost cost;
	struct drafter drafter = { d, watched_begin, watched_expand,
		d->inner.batch };
	struct method_env env = { .drafter = &drafter,
		.draft = d->model,
		.phone = f->opts.soc,
		.draft_length = f->depth,
		.tree_rows = f->tree_rows,
		.tree_depth = f->depth,
		.candidates = f->candidates,
		.exit = f->prune ? f->exit : NULL,
		.prune = f->prune_opts,
		.prune_always = true,
		.stop_rule = f->stop_rule,
		.cost = &cost };
	struct session_stats before;
	struct text got;
	char what[128];

	cost_init(&cost);
	lever_init(&env.lever);
	d->env = &env;
	d->tree = NULL;
	d->checked = 0;
	session_stats(f->s, &before);
	write_text(f, m, &env, &got);
	snprintf(what, sizeof(what), "%s, drafter %d, %u rows, %u tokens",
		m->name, d->place, f->tree_rows, f->n_predict);
	same_text(&got, &f->plain, what);
	check_stats(f, &env, &before, &got);
	/* All cycles but those at the end are looked at. */
	assert_true(d->checked + 2 >= env.stats.cycles);
}

static void check_methods(struct fixture *f, enum place place, int which)
{
	struct drafting d;

	open_drafting(f, &d, place, which);
	for (unsigned m = 0; m < N_METHODS; m++)
		check_text(f, verifying[m], &d);
	close_drafting(&d);
}

/* Wherever it drafts, with the model that agrees in part. */
static void check_places(struct fixture *f)
{
	write_plain(f);
	for (enum place p = 0; p < N_PLACES; p++)
		check_methods(f, p, COARSE);
}

/* Trees that are accepted in part are what this is about. */
static void end_texts(struct fixture *f)
{
	print_message("%.2f tokens a pass\n",
		(double)(f->sum.cycles + f->sum.accepted) /
			(double)f->sum.cycles);
	assert_true(f->sum.accepted > 0);
	assert_true(f->sum.accepted < f->sum.drafted);
	close_session(f);
}

/* ---- the tests ----------------------------------------------------- */

static void test_greedy(void **state)
{
	struct fixture *f = *state;

	open_models(f);
	open_session(f, f->model[SAME]);
	write_plain(f);
	for (enum place p = 0; p < ORACLE; p++)
		for (int draft = 0; draft < N_DRAFTS; draft++)
			check_methods(f, p, draft);
	check_methods(f, ORACLE, 0);
	end_texts(f);
}

static void test_greedy_in_int8(void **state)
{
	struct fixture *f = *state;

	f->opts.precision = WIRE_INT8;
	open_models(f);
	open_session(f, f->model[SAME]);
	check_places(f);
	end_texts(f);
}

static void test_sampled(void **state)
{
	struct fixture *f = *state;

	f->sampling.temperature = 0.3;
	open_models(f);
	open_session(f, f->model[SAME]);
	for (f->sampling.seed = 1; f->sampling.seed <= 2; f->sampling.seed++)
		check_places(f);
	f->sampling.temperature = 1;
	f->sampling.top_k = 3;
	check_places(f);
	end_texts(f);
}

/* The penalty looks at the text as it is at each of a path's tokens. */
static void test_repeat_penalty(void **state)
{
	struct fixture *f = *state;

	f->sampling.repeat_penalty = 1.5;
	f->sampling.repeat_last = 20;
	open_models(f);
	open_session(f, f->model[SAME]);
	check_places(f);
	end_texts(f);
}

/* As a model on flash, whose pass meanwhile goes on. */
static void test_streamed(void **state)
{
	struct fixture *f = *state;

	open_models(f);
	image_file_open(&f->image, f->model[SAME], 0);
	open_session(f, f->model[SAME]);
	write_plain(f);
	close_session(f);
	for (unsigned i = 0; i < 3; i++) {
		f->opts.dram_share = i * .25;
		f->opts.stage_slots = 2 + i;
		open_session(f, f->image.model);
		for (enum place p = 0; p < N_PLACES; p++)
			check_methods(f, p, COARSE);
		close_session(f);
	}
}

static void test_coherent(void **state)
{
	struct fixture *f = *state;

	open_models(f);
	open_exit(f);
	f->prune_opts = prune_defaults(f->candidates);
	open_session(f, f->model[SAME]);
	write_plain(f);
	close_session(f);
	for (int i = 0; i < 2; i++) {
		f->opts.coherence = i ? COHERENCE_CHECK : COHERENCE_STRICT;
		f->opts.evict_seed = 7;
		open_session(f, f->model[SAME]);
		f->prune = false;
		check_methods(f, DEVICE, COARSE);
		f->prune = true;
		check_methods(f, BATCHED, SAME);
		close_session(f);
	}
}

static void test_sizes_of_trees(void **state)
{
	static const uint32_t sizes[] = { 2, 3, 4, 5, 8, 13, 32, 63, ROWS };
	struct fixture *f = *state;

	open_models(f);
	open_session(f, f->model[SAME]);
	write_plain(f);
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		f->tree_rows = sizes[i];
		f->depth = 1 + i % 3 * 6;
		f->candidates = 1 + i * 15 / 8;
		f->stop_rule = i % 2;
		check_methods(f, BATCHED, i % 2 ? COARSE : SAME);
		check_methods(f, ORACLE, 0);
	}
	end_texts(f);
}

/* Wherever in a tree the length ends a text. */
static void test_length_ends_it(void **state)
{
	struct fixture *f = *state;

	open_models(f);
	open_session(f, f->model[SAME]);
	for (f->n_predict = 1; f->n_predict <= 20; f->n_predict++) {
		write_plain(f);
		assert_int_equal(f->plain.stop, GEN_STOP_LENGTH);
		check_methods(f, SERIAL, SAME);
		check_methods(f, ORACLE, 0);
	}
	end_texts(f);
}

/* No token asked for, none drawn. */
static void test_no_length(void **state)
{
	struct fixture *f = *state;
	struct session_stats st;

	f->n_predict = 0;
	open_models(f);
	open_session(f, f->model[SAME]);
	for (unsigned m = 0; m < N_METHODS; m++) {
		struct method_env env = { .tree_rows = 8,
			.tree_depth = 4,
			.draft_length = 4,
			.candidates = 2 };
		struct drafting d;
		struct text got;

		open_drafting(f, &d, SERIAL, SAME);
		env.drafter = &d.inner;
		write_text(f, verifying[m], &env, &got);
		assert_int_equal(got.n, N_PROMPT);
		close_drafting(&d);
	}
	session_stats(f->s, &st);
	assert_int_equal(st.logits_rows, 0);
	close_session(f);
}

static void test_context_ends_it(void **state)
{
	struct fixture *f = *state;

	f->n_predict = MOST;
	open_models(f);
	for (f->opts.context = 20; f->opts.context < 30; f->opts.context += 3) {
		open_session(f, f->model[SAME]);
		write_plain(f);
		assert_int_equal(f->plain.stop, GEN_STOP_CONTEXT);
		assert_int_equal(f->plain.n, f->opts.context);
		for (enum place p = 0; p < N_PLACES; p++)
			check_methods(f, p, SAME);
		close_session(f);
	}
}

/* Where the draft model has no room the target goes on alone. */
static void test_small_draft_context(void **state)
{
	struct fixture *f = *state;

	open_models(f);
	open_session(f, f->model[SAME]);
	write_plain(f);
	for (f->draft_context = 5; f->draft_context < 50;
		f->draft_context += 9) {
		f->sum = (struct method_stats){ 0 };
		check_methods(f, SERIAL, SAME);
		check_methods(f, BATCHED, SAME);
		check_methods(f, DEVICE, SAME);
		assert_int_equal(
			f->sum.accepted > 0, f->draft_context > N_PROMPT + 1);
	}
	close_session(f);
}

/* The first token behind the prompt by `least` that the text so far lacks. */
static size_t new_token(const struct text *t, size_t least)
{
	for (size_t at = N_PROMPT + least; at < t->n; at++) {
		size_t i = 0;

		while (t->token[i] != t->token[at])
			i++;
		if (i == at)
			return at;
	}
	fail_msg("the text repeats itself from token %zu on", least);
	return 0;
}

/* The end in the middle of a path: what was drafted behind it is dropped. */
static void test_eos_ends_it(void **state)
{
	struct fixture *f = *state;

	f->sampling.temperature = 0.7;
	open_models(f);
	open_session(f, f->model[SAME]);
	for (size_t least = 1; least <= 25; least += 4) {
		struct text whole;
		size_t at;

		tokenizer_close(f->tok);
		f->tok = NULL;
		write_plain(f);
		whole = f->plain;
		at = new_token(&whole, least);
		open_tokenizer(f, (uint32_t)whole.token[at]);
		write_plain(f);
		assert_int_equal(f->plain.stop, GEN_STOP_EOS);
		/* By then at the latest: the vocabulary has ends of its own. */
		assert_in_range(f->plain.n, N_PROMPT + 1, at + 1);
		check_methods(f, BATCHED, SAME);
		check_methods(f, SERIAL, COARSE);
		/* It knows what would have come behind the end. */
		f->told = &whole;
		check_methods(f, ORACLE, 0);
		f->told = NULL;
	}
	end_texts(f);
}

static void test_stop_string_ends_it(void **state)
{
	struct fixture *f = *state;
	struct strbuf string = STRBUF_INIT;
	struct detokenizer detok = { 0 };

	f->sampling.temperature = 0.7; /* lest it repeats itself */
	open_tokenizer(f, 2);
	detok.tok = f->tok;
	open_models(f);
	open_session(f, f->model[SAME]);
	write_plain(f);
	for (size_t i = new_token(&f->plain, 5); !string.len; i++)
		detokenize(&detok, f->plain.token[i], &string);
	strbuf_add(&string, "", 1);
	f->stop = string.data;
	write_plain(f);
	assert_int_equal(f->plain.stop, GEN_STOP_STRING);
	for (enum place p = 0; p < N_PLACES; p++)
		check_methods(f, p, SAME);
	strbuf_release(&string);
	close_session(f);
}

/* ---- pruned ---------------------------------------------------------- */

/* On a phone's time trees are the same in every run, and of some size. */
static void open_phone(struct fixture *f)
{
	struct err e = { 0 };

	assert_ok(soc_file_load(&f->soc, "host/soc/sd8gen3.soc", &e), &e);
	f->opts.soc = &f->soc;
}

/* Lever's texts, whatever the predictor says. */
static void check_pruned(struct fixture *f)
{
	for (enum place p = 0; p < N_PLACES; p++) {
		struct drafting d;

		open_drafting(f, &d, p, p == BATCHED ? SAME : COARSE);
		check_text(f, &method_lever, &d);
		close_drafting(&d);
	}
}

static void test_pruned(void **state)
{
	static const float theta[] = { 0, .1f, .3f, 1 };
	struct fixture *f = *state;

	f->prune = true;
	open_models(f);
	open_exit(f);
	open_phone(f);
	open_session(f, f->model[SAME]);
	write_plain(f);
	for (unsigned i = 0; i < 16; i++) {
		f->prune_opts = prune_defaults(f->candidates);
		f->prune_opts.theta = theta[i / 4];
		f->prune_opts.breadth_theta = theta[i / 4] / 2;
		f->prune_opts.safeguards = i & 1;
		f->prune_opts.shadow = i & 2;
		f->sum = (struct method_stats){ 0 };
		check_pruned(f);
		if (theta[i / 4] == 0) /* keeps all */
			assert_int_equal(
				f->sum.kept, f->sum.drafted + f->sum.cycles);
		else if (theta[i / 4] < 1 || !(i & 1)) /* not the minima */
			assert_true(
				f->sum.kept < f->sum.drafted + f->sum.cycles);
		if (theta[i / 4] == 1 && (i & 3) == 2) /* roots alone */
			assert_int_equal(f->sum.kept, f->sum.cycles);
	}
	close_session(f);
}

/* At every length, sampled, and on flash. */
static void test_pruned_ends(void **state)
{
	struct fixture *f = *state;

	f->prune = true;
	f->sampling.temperature = 0.4;
	f->opts.dram_share = 0.25; /* before the exit */
	open_models(f);
	open_exit(f);
	f->prune_opts = prune_defaults(f->candidates);
	image_file_open(&f->image, f->model[SAME], 0);
	open_session(f, f->image.model);
	for (f->n_predict = 1; f->n_predict <= 20;
		f->n_predict += 1 + f->n_predict / 4) {
		write_plain(f);
		check_pruned(f);
	}
	close_session(f);
}

/* A second text takes nothing from the first. */
static void test_one_text_after_another(void **state)
{
	struct fixture *f = *state;
	struct drafting d;

	open_models(f);
	open_session(f, f->model[SAME]);
	write_plain(f);
	for (enum place p = 0; p < ORACLE; p++) {
		open_drafting(f, &d, p, COARSE);
		for (unsigned i = 0; i < 2; i++) {
			f->sampling.temperature = 1 - i;
			write_plain(f);
			for (unsigned m = 0; m < N_METHODS; m++)
				check_text(f, verifying[m], &d);
		}
		close_drafting(&d);
	}
	end_texts(f);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_greedy),
	TEST(test_greedy_in_int8),
	TEST(test_sampled),
	TEST(test_repeat_penalty),
	TEST(test_streamed),
	TEST(test_coherent),
	TEST(test_sizes_of_trees),
	TEST(test_length_ends_it),
	TEST(test_no_length),
	TEST(test_context_ends_it),
	TEST(test_small_draft_context),
	TEST(test_eos_ends_it),
	TEST(test_stop_string_ends_it),
	TEST(test_pruned),
	TEST(test_pruned_ends),
	TEST(test_one_text_after_another),
};

TEST_MAIN(tests)
