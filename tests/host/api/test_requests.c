/*
 * Several requests of one handle (struct tandem) at the same time. The text of
 * each request must equal the text that tandem_generate writes for that request
 * alone.
 */
#include "base/rng.h"
#include "host/api/report.h"
#include "host/api/tandem_impl.h"
#include "host/api/tandem_pass.h"
#include "host/scheduler/scheduler.h"
#include "tests/host/api/many_texts.h"
#include "tests/host/model/eagle_file.h"

#include <errno.h>
#include <stdlib.h>

/* ---- random schedules of requests ---------------------------------------- */

#define LIVE 12 /* maximum number of submitted requests at a time */

struct party {
	struct tandem *t;
	uint64_t seed, drawn; /* seed and counter of the random numbers */
	unsigned live, ended, canceled;
	uint64_t cached, pauses;
	struct client {
		struct tandem_submitted *x;
		struct strbuf *text;
		unsigned of;
		bool canceled;
	} client[LIVE];
};

static unsigned chance(struct party *p, unsigned below)
{
	return (unsigned)(rng_uniform(p->seed, 0, p->drawn++) * below);
}

static void come(struct party *p)
{
	struct client *g = &p->client[p->live++];
	struct tandem_request r;

	*g = (struct client){ .of = chance(p, many),
		.text = calloc(1, sizeof(*g->text)) };
	r = asking(g->of, g->text);
	if (tandem_submit(p->t, &r, &g->x))
		fail_msg("%s", tandem_error(p->t));
}

static void leave(struct party *p, unsigned i)
{
	struct client *g = &p->client[i];
	struct tandem_result got = { .size = sizeof(got) };
	int state = tandem_request_state(g->x, &got);

	if (g->canceled) {
		assert_int_equal(state, TANDEM_CANCELED);
	} else if (state) {
		fail_msg("text %u: %d, %s", g->of, state,
			tandem_request_error(g->x));
	} else {
		assert_same(g->text, g->of);
		assert_true(got.cached_tokens < got.prompt_tokens);
	}
	p->ended += !state;
	p->canceled += state == TANDEM_CANCELED;
	p->cached += got.cached_tokens;
	tandem_request_close(g->x);
	strbuf_release(g->text);
	free(g->text);
	*g = p->client[--p->live];
}

static void play(struct party *p, unsigned texts)
{
	unsigned come_to = texts, left;

	while (come_to || p->live) {
		while (come_to && p->live < LIVE && !chance(p, 3)) {
			come(p);
			come_to--;
		}
		if (p->live && !chance(p, 25)) {
			unsigned i = chance(p, p->live);

			if (tandem_request_state(p->client[i].x, NULL) == 1) {
				tandem_request_cancel(p->client[i].x);
				p->client[i].canceled = true;
			}
		}
		if (tandem_advance(p->t, &left))
			fail_msg("%s", tandem_error(p->t));
		for (unsigned i = p->live; i-- > 0;)
			if (tandem_request_state(p->client[i].x, NULL) != 1)
				leave(p, i);
		assert_int_equal(left, p->live);
	}
}

/* After the last request, all slots of the KV cache (one slot holds one token)
 * are free once the cached prefixes are evicted. */
static void check_level(const struct party *p, uint32_t slots)
{
	struct session *s = p->t->decoder.session;
	uint32_t text = SESSION_TEXT;

	/* empty the sequence that tandem_generate uses */
	session_truncate(s, text, 0);
	assert_true(session_has_room(s, &text, &slots, 1));
	assert_int_equal(session_free_slots(s), slots);
}

static struct party play_with(
	const char *const *set, unsigned texts, uint64_t seed)
{
	struct party p = { .t = opened(set), .seed = seed };
	uint32_t slots;

	assert_int_equal(tandem_start(p.t, 0), 0);
	slots = session_free_slots(p.t->decoder.session);
	print_message("seed %llu\n", (unsigned long long)seed);
	play(&p, texts);
	print_message("%u ended, %u canceled, %llu cached tokens\n", p.ended,
		p.canceled, (unsigned long long)p.cached);
	assert_true(p.ended > texts / 4);
	if (p.t->scheduler)
		p.pauses = p.t->scheduler->stats.pauses;
	check_level(&p, slots);
	assert_int_equal(tandem_close(p.t), 0);
	return p;
}

static bool has(const char *const *set, const char *option)
{
	for (; *set; set++)
		if (!strncmp(*set, option, strlen(option)))
			return true;
	return false;
}

static char head[4400]; /* "draft=PATH", the path of an EAGLE head */

/* Write an EAGLE head for the model. */
static void write_head(void)
{
	struct model_file target = { .type = DTYPE_Q8_0 };
	struct eagle_file file;
	struct model *m;
	struct err e = { 0 };

	assert_ok(model_open(&m, model, NULL, NULL, &e), &e);
	target.n_embd = m->n_embd;
	target.n_head = m->n_head;
	target.n_kv_head = m->n_kv_head;
	target.head_dim = m->head_dim;
	target.n_vocab = m->n_vocab;
	model_close(m);
	file = eagle_file_for(&target);
	file.echoes = true;
	snprintf(head, sizeof(head), "draft=%s/eagle.gguf", harness_tmp());
	eagle_file_write(&file, strchr(head, '/'));
}

static void test_random(void **state)
{
	static char draft[sizeof(model) + 6];
	static const char *const sets[][8] = {
		{ "ctx=256", "texts=6", "keep=2", "text-slots=256" },
		{ "ctx=256" },
		{ "ctx=256", "texts=2" },
		{ "ctx=256", "texts=7", "prefill-chunk=16" },
		{ "ctx=256", "texts=16", "keep=4", "prefill-chunk=16" },
		{ "ctx=256", "texts=5", "keep=3", "text-slots=256" },
		{ "ctx=256", "texts=8", "keep=2", "draft=pld", "tree-rows=24" },
		{ "ctx=256", "texts=9", "draft=pld+recycle", "text-slots=224" },
		{ "ctx=256", "keep=3" },
		{ "ctx=256", "method=chain", "draft=pld", "keep=3" },
		{ "ctx=256", "texts=4", "method=opt-tree", "draft=pld" },
		{ "ctx=256", "texts=8", "method=chain", "draft=pld+recycle" },
		{ "ctx=256", "texts=5", "method=specinfer", "draft=pld",
			"text-slots=256" },
		{ "ctx=256", "texts=6", "method=eagle2-tree", "draft=recycle",
			"keep=2" },
		{ "ctx=256", "texts=7", "method=edgellm", "draft=pld+recycle" },
		{ "ctx=256", "texts=8", "method=lever", "draft=pld+recycle",
			"exit=none" },
		{ "ctx=256", "texts=16", "method=sdnpu", "keep=4" },
		{ "ctx=256", "texts=7", "method=eagle2-tree", head, "keep=2" },
		{ "ctx=256", "texts=6", "method=chain", head,
			"text-slots=256" },
		{ "ctx=256", "texts=5", "method=chain", draft,
			"draft-on=device", "keep=2" },
		{ "ctx=256", "texts=4", "method=opt-tree", draft,
			"draft-on=device", "text-slots=256" },
		{ "ctx=256", "texts=3", "keep=2", "graph-switch=async" },
	};

	const unsigned most = harness_full() ? 200 : 40;
	const unsigned few = harness_full() ? 40 : 10;
	uint64_t pauses = 0;

	write_alone(NULL);
	write_head();
	snprintf(draft, sizeof(draft), "draft=%s", model);
	for (unsigned i = 0; i < ARRAY_LEN(sets); i++) {
		struct party p =
			play_with(sets[i], i ? few : most, harness_seed() + i);

		assert_int_equal(has(sets[i], "keep="), p.cached > 0);
		pauses += p.pauses;
	}
	assert_true(pauses > 0);
}

/* Requests of methods that fill masks. The expected texts are generated alone
 * with the same method options. Then up to eight requests share a pass. */
static void test_masks(void **state)
{
	static const struct {
		const char *shape, *set[6];
	} of[] = {
		{ "tiny-llada", { "method=llada", "block=8" } },
		{ "tiny-llada", { "method=llada", "canvas=40" } },
		{ "tiny-llada", { "method=fast-dllm", "cache=dual" } },
		{ "tiny-llada", { "method=multi-block", "block=8" } },
		{ "tiny-llada", { "method=llada-npu", "block=8" } },
		{ "tiny-llada",
			{ "method=llada-npu", "refresh=drift",
				"prompt-chunks" } },
		{ "tiny-dream", { "method=dream", "order=random" } },
		{ "tiny-block", { "method=block" } },
		{ "tiny-block", { "method=block", "no-cache" } },
		{ "tiny-block", { "method=multi-block" } },
		{ "tiny-block", { "method=llada-npu" } },
		{ NULL, { "method=linear-spec" } },
	};
	const unsigned texts = harness_full() ? 60 : 5;

	/* The first 4 of the MANY requests have short prompts. */
	many = harness_full() ? MANY : 4;
	for (unsigned i = 0; i < ARRAY_LEN(of); i++) {
		/* few threads and short spins (busy waits), as tests have few
		 * CPUs */
		const char *set[14] = { "ctx=128", "threads=1", "spin=50" };
		const char *shape = of[i].shape;
		unsigned n = 3;

		if (!shape)
			snprintf(model, sizeof(model), "flash/models/%s",
				"block.gguf");
		else if (!i || strcmp(shape, of[i - 1].shape))
			model_of_shape(model, sizeof(model), shape);
		if (shape && !harness_full()) {
			/* fill several masks in each pass */
			set[n++] = "block-steps=12";
			set[n++] = "threshold=0.01";
		}
		for (unsigned j = 0; of[i].set[j]; j++)
			set[n++] = of[i].set[j];
		print_message("%s, %s\n", model, of[i].set[0]);
		write_alone(set);
		set[n++] = i % 2 ? "texts=8" : "texts=3";
		if (i % 3 == 1)
			/* too few cache slots for all requests at once */
			set[n] = "text-slots=256";
		play_with(set, texts, harness_seed() + i);
	}
}

/* ---- samples ------------------------------------------------------------- */

#define OPTIONS 14

struct sampled {
	/* by: options of the method that decodes the samples. with: further
	 * options, which are set when requests share passes. */
	const char *by[6];
	const char *with[4];
};

static struct party play_sampled(const struct sampled *s, uint64_t seed)
{
	const char *set[OPTIONS] = { "ctx=256", "threads=1", "spin=50" };
	unsigned n = 3;

	for (unsigned i = 0; i < ARRAY_LEN(s->by) && s->by[i]; i++)
		set[n++] = s->by[i];
	/* The first 8 of the MANY requests have every prompt and every length
	 * of asking(). */
	many = harness_full() ? MANY : 8;
	write_alone(set);
	for (unsigned i = 0; i < ARRAY_LEN(s->with) && s->with[i]; i++)
		set[n++] = s->with[i];
	return play_with(set, harness_full() ? 60 : 10, seed);
}

/* Each text, and each sample of each text, equals the text or sample that the
 * request generates alone. */
static void test_samples(void **state)
{
	static const struct sampled sets[] = {
		{ { "method=sample", "samples=4" }, { "texts=4", "keep=4" } },
		{ { "method=sample", "samples=4" }, { "texts=8" } },
		{ { "method=sample", "samples=6", "parallel=2" },
			{ "texts=3", "prefill-chunk=16" } },
		{ { "method=sample", "samples=4", "draft=pld+recycle",
			  "tree-rows=24" },
			{ "texts=6", "keep=2" } },
		{ { "method=vote", "samples=5", "answer=regex:[a-z]" },
			{ "texts=8", "keep=4", "prefill-chunk=16" } },
		{ { "method=vote", "samples=4", "answer=regex:[a-z]" },
			{ "texts=6", "keep=2", "text-slots=352" } },
		{ { "method=vote", "samples=4", "answer=regex:[a-z]" },
			{ "texts=1", "keep=2", "text-slots=320" } },
		{ { "method=self-certainty", "samples=4",
			  "answer=regex:[a-z]" },
			{ "texts=1" } },
		{ { "method=mean-logprob", "samples=1" }, { "texts=5" } },
		{ { "method=vote", "samples=5", "answer=regex:[a-c]",
			  "stop-decided=true" },
			{ "texts=6", "keep=2" } },
	};
	uint64_t pauses = 0, cached = 0;

	for (unsigned i = 0; i < ARRAY_LEN(sets); i++) {
		struct party p = play_sampled(&sets[i], harness_seed() + i);

		pauses += p.pauses;
		cached += p.cached;
	}
	assert_true(pauses > 0 && cached > 0);
}

/* The bundled reward model scores a sample by hidden states of the sample and
 * of its prompt. The states of the prompt must come from the pass that reads
 * the prompt. */
static void test_scored_samples(void **state)
{
	static const struct sampled sets[] = {
		{ { "method=best-of-n", "samples=4", "step-end=e" },
			{ "texts=4", "keep=4" } },
		{ { "method=best-of-n", "samples=4" },
			{ "texts=8", "text-slots=384" } },
		{ { "method=best-of-n", "samples=4", "stop-decided=true",
			  "step-tokens=4" },
			{ "texts=6", "keep=2" } },
		{ { "method=weighted-vote", "samples=3", "answer=regex:[a-z]" },
			{ "texts=1", "keep=1" } },
		{ { "method=beam", "samples=4", "beam-width=2", "step-end=e" },
			{ "texts=6", "keep=2" } },
		{ { "method=beam", "samples=4", "beam-width=2", "step-end=e",
			  "beam-rounds=4" },
			{ "texts=1" } },
		{ { "method=dvts", "samples=4", "beam-width=2", "step-end=e" },
			{ "texts=5", "text-slots=416" } },
	};

	setenv("TANDEM_MODELS", "flash/models", 1);
	snprintf(model, sizeof(model), "flash/models/small.gguf");
	for (unsigned i = 0; i < ARRAY_LEN(sets); i++)
		play_sampled(&sets[i], harness_seed() + i);
}

#define SCORED 4

/* Run SCORED equal requests, each of which decodes several samples, `together`
 * requests at a time. states[i] receives the state of request i. Returns the
 * counters of the reward model. */
static struct reward_stats score_requests(
	struct tandem *t, unsigned together, struct strbuf *text, int *states)
{
	struct tandem_submitted *x[SCORED];
	struct tandem_report r;
	unsigned left;

	for (unsigned i = 0; i < SCORED; i++) {
		struct tandem_request q = asking(1, text);

		q.flags = TANDEM_IGNORE_EOS;
		q.temperature = .9;
		q.seed = 1 + i;
		q.max_tokens = 6;
		assert_int_equal(tandem_submit(t, &q, &x[i]), 0);
		for (left = SCORED; left && (i + 1) % together == 0;)
			assert_int_equal(tandem_advance(t, &left), 0);
	}
	for (unsigned i = 0; i < SCORED; i++) {
		states[i] = tandem_request_state(x[i], NULL);
		tandem_request_close(x[i]);
	}
	tandem_report(t, &r);
	return r.scored;
}

/* The reward model scores the samples of all requests in shared passes. */
static void test_scored_together(void **state)
{
	const char *const set[] = { "ctx=256", "threads=1", "spin=50",
		"texts=4", "method=best-of-n", "samples=4", NULL };
	struct reward_stats apart, together;
	struct strbuf text[2] = { STRBUF_INIT, STRBUF_INIT };
	int states[SCORED];
	struct tandem *t;

	setenv("TANDEM_MODELS", "flash/models", 1);
	snprintf(model, sizeof(model), "flash/models/small.gguf");
	t = opened(set);
	apart = score_requests(t, 1, &text[0], states);
	assert_int_equal(tandem_close(t), 0);
	t = opened(set);
	together = score_requests(t, SCORED, &text[1], states);
	assert_int_equal(tandem_close(t), 0);
	for (unsigned i = 0; i < SCORED; i++)
		assert_int_equal(states[i], 0);
	assert_int_equal(apart.texts, 4 * SCORED);
	assert_int_equal(together.texts, 4 * SCORED);
	/* Alone, each request needs one pass of the reward model for its
	 * samples, and the first request also a pass for the prompt. Together,
	 * the requests need one pass for the prompt and one for all samples. */
	assert_int_equal(apart.passes, 1 + SCORED);
	assert_int_equal(together.passes, 2);
	for (unsigned i = 0; i < 2; i++)
		strbuf_release(&text[i]);
}

/* A reward model that cannot score texts with a long prompt. Counts calls. */
static int score_if_short(
	void *arg, struct reward_text *t, unsigned n, struct err *e)
{
	unsigned *calls = arg;

	++*calls;
	for (unsigned i = 0; i < n; i++) {
		if (t[i].n_prompt > 20)
			return err_set(e, EFBIG, "the prompt is too long");
		for (uint32_t k = 0; k < t[i].n_steps; k++)
			t[i].score[k] = .5f;
	}
	return 0;
}

/* If the samples of one request cannot be scored, only this request fails. */
static void test_one_not_scored(void **state)
{
	const char *const set[] = { "ctx=256", "threads=1", "spin=50",
		"texts=4", "method=best-of-n", "samples=2", "reward=exact",
		NULL };
	struct tandem *t = opened(set);
	struct tandem_submitted *x[SCORED];
	unsigned left = 1, calls = 0;

	tandem_report_reward(t, score_if_short, &calls);
	for (unsigned i = 0; i < SCORED; i++) {
		struct tandem_request q = asking(i == 1, NULL);

		q.sink = NULL;
		q.sample = NULL;
		q.flags = TANDEM_IGNORE_EOS;
		q.max_tokens = 6;
		assert_int_equal(tandem_submit(t, &q, &x[i]), 0);
	}
	while (left)
		assert_int_equal(tandem_advance(t, &left), 0);
	/* one call for all requests, which fails, then one call for each
	 * request */
	assert_int_equal(calls, 1 + SCORED);
	for (unsigned i = 0; i < SCORED; i++) {
		assert_int_equal(tandem_request_state(x[i], NULL),
			i == 1 ? TANDEM_FAILED : TANDEM_OK);
		tandem_request_close(x[i]);
	}
	assert_int_equal(tandem_close(t), 0);
}

/* If a pass has too few rows for the whole draft tree of a lane (a running
 * sequence), the lane's draft model drafts further tokens after the tree while
 * the device computes the pass. */
static void test_drafts_beside_a_shared_pass(void **state)
{
	static char draft[sizeof(model) + 6];
	const char *const set[] = { "ctx=256", "texts=4", "method=edgellm",
		"tree-rows=16", draft, NULL };

	snprintf(draft, sizeof(draft), "draft=%s", model);
	write_alone(NULL);
	play_with(set, 15, harness_seed());
}

static void test_coherence(void **state)
{
	static const char *const level[] = { "coherence=off",
		"coherence=strict", "coherence=check" };

	write_alone(NULL);
	for (unsigned i = 0; i < ARRAY_LEN(level); i++) {
		const char *const set[] = { "ctx=256", "texts=6", "keep=2",
			"text-slots=320", level[i], NULL };

		play_with(set, 20, 7);
	}
}

/* ---- rows of drafts ------------------------------------------------------ */

/* Mean number of tokens drafted for one request in one pass, while `texts`
 * requests run together. */
static double drafted_a_pass(const char *method, unsigned texts)
{
	const char *const set[] = { "ctx=256", "texts=8", "clock=soc:sd8gen3",
		method, "draft=pld+recycle", NULL };
	struct tandem_result r = { .size = sizeof(r) };
	struct tandem_submitted *x[8];
	struct tandem *t = opened(set);
	double drafted = 0, passes = 0;
	unsigned left = 1;

	assert_in_range(texts, 1, ARRAY_LEN(x));
	for (unsigned i = 0; i < texts; i++) {
		struct tandem_request q = asking(0, NULL);

		q.sink = NULL;
		q.flags = TANDEM_IGNORE_EOS;
		q.temperature = 0;
		q.max_tokens = 100;
		assert_int_equal(tandem_submit(t, &q, &x[i]), 0);
	}
	while (left)
		assert_int_equal(tandem_advance(t, &left), 0);
	for (unsigned i = 0; i < texts; i++) {
		assert_int_equal(tandem_request_state(x[i], &r), 0);
		drafted += (double)r.drafted;
		passes += (double)r.passes;
		tandem_request_close(x[i]);
	}
	assert_int_equal(tandem_close(t), 0);
	print_message("%s, %u at a time: %.2f drafted tokens a pass\n", method,
		texts, drafted / passes);
	return drafted / passes;
}

/* A request's tree gets fewer rows when many requests share a pass than when
 * the request runs alone. */
static void test_trees_share_a_pass(void **state)
{
	static const char *const method[] = { "method=lever", "method=sdnpu" };

	for (unsigned i = 0; i < ARRAY_LEN(method); i++) {
		double alone = drafted_a_pass(method[i], 1);

		assert_true(alone > 1);
		assert_true(drafted_a_pass(method[i], 8) < .8 * alone);
	}
}

/* ---- wrong requests ------------------------------------------------------ */

static void test_refused(void **state)
{
	static const char *const set[] = { "ctx=32", NULL };
	struct tandem *t = opened(set);
	struct tandem_request r = asking(1, NULL);
	struct tandem_submitted *x;
	char prompt[400];

	memset(prompt, 'x', sizeof(prompt) - 1);
	prompt[sizeof(prompt) - 1] = '\0';
	r.prompt = prompt;
	assert_int_equal(tandem_submit(t, &r, &x), TANDEM_MISUSE);
	assert_null(x);
	assert_non_null(strstr(tandem_error(t), "32"));
	r = asking(1, NULL);
	r.logprobs = 21;
	assert_int_equal(tandem_submit(t, &r, &x), TANDEM_MISUSE);
	assert_non_null(strstr(tandem_error(t), "logprobs"));
	r = asking(2, NULL);
	r.sink = NULL;
	assert_int_equal(tandem_submit(t, &r, &x), 0);
	assert_int_equal(tandem_generate(t, &r, NULL), TANDEM_MISUSE);
	assert_non_null(strstr(tandem_error(t), "still running"));
	tandem_request_close(x);
	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	tandem_request_close(NULL);
	assert_int_equal(tandem_close(t), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_random, setup),
	cmocka_unit_test_setup(test_masks, setup),
	cmocka_unit_test_setup(test_samples, setup),
	cmocka_unit_test_setup(test_scored_samples, setup),
	cmocka_unit_test_setup(test_scored_together, setup),
	cmocka_unit_test_setup(test_one_not_scored, setup),
	cmocka_unit_test_setup(test_drafts_beside_a_shared_pass, setup),
	cmocka_unit_test_setup(test_coherence, setup),
	cmocka_unit_test_setup(test_trees_share_a_pass, setup),
	cmocka_unit_test_setup(test_refused, setup),
};

TEST_FILE(tests)
