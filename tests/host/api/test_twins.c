/* Requests that arrive together with equal prompts or a common prefix. The rows
 * of the prefix are computed once, and the texts are those that each request
 * generates alone. */
#include "host/api/tandem.h"

#include "tests/host/api/opened_tandem.h"

#include <stdint.h>

#define LONG                                                              \
	"Once upon a time there was a small house at the end of a road, " \
	"and in it lived a dog, a cat and nobody else at all. "
#define TEXTS 4

struct twins {
	struct tandem *t;
	struct tandem_submitted *x[TEXTS];
	struct strbuf text[TEXTS];
	struct tandem_result got[TEXTS];
};

static struct tandem_request asking_twin(const char *prompt, unsigned i)
{
	struct tandem_request r = asking(prompt, 6);

	r.temperature = 1;
	r.seed = i;
	r.sink = keep;
	return r;
}

static void submit(struct twins *w, const char *prompt, unsigned i)
{
	struct tandem_request r = asking_twin(prompt, i);

	r.sink_arg = &w->text[i];
	if (tandem_submit(w->t, &r, &w->x[i]))
		fail_msg("%s", tandem_error(w->t));
}

static void look(struct twins *w, unsigned i)
{
	w->got[i].size = sizeof(w->got[i]);
	tandem_request_state(w->x[i], &w->got[i]);
}

static void write_all(struct twins *w)
{
	unsigned left = 1;

	while (left)
		assert_int_equal(tandem_advance(w->t, &left), 0);
	for (unsigned i = 0; i < TEXTS; i++)
		if (w->x[i])
			look(w, i);
}

static void assert_as_alone(struct twins *w, const char *prompt, unsigned i)
{
	struct strbuf text = STRBUF_INIT;
	struct tandem_request r = asking_twin(prompt, i);
	struct tandem *t = opened(NULL, NULL);

	r.sink_arg = &text;
	assert_int_equal(tandem_generate(t, &r, NULL), 0);
	assert_int_equal(tandem_close(t), 0);
	assert_int_equal(tandem_request_state(w->x[i], NULL), 0);
	assert_int_equal(w->text[i].len, text.len);
	assert_memory_equal(w->text[i].data, text.data, text.len);
	strbuf_release(&text);
}

static uint64_t prompt_rows(const struct twins *w)
{
	struct tandem_stats s = { .size = sizeof(s) };

	tandem_stats(w->t, &s);
	return s.prompt_rows;
}

static void close_twins(struct twins *w)
{
	for (unsigned i = 0; i < TEXTS; i++) {
		tandem_request_close(w->x[i]);
		strbuf_release(&w->text[i]);
	}
	assert_int_equal(tandem_close(w->t), 0);
}

/* Only the first request computes the prompt. Every other request computes one
 * row, that of the prompt's last token, because the request's first token is
 * drawn from that row. */
static void what_is_the_same_is_read_once(void **state)
{
	struct twins w = { .t = opened("texts=4", "keep=4") };
	uint64_t n;

	for (unsigned i = 0; i < TEXTS; i++)
		submit(&w, LONG, i);
	write_all(&w);
	n = w.got[0].prompt_tokens;
	assert_int_equal(w.got[0].cached_tokens, 0);
	for (unsigned i = 1; i < TEXTS; i++)
		assert_int_equal(w.got[i].cached_tokens, n - 1);
	assert_int_equal(prompt_rows(&w), n + TEXTS - 1);
	for (unsigned i = 0; i < TEXTS; i++)
		assert_as_alone(&w, LONG, i);
	close_twins(&w);
}

/* The common prefix is read in chunks, so the other requests wait for it
 * through several passes. */
static void so_is_a_beginning_that_is_the_same(void **state)
{
	static const char *const prompt[TEXTS] = { LONG "It barked.",
		LONG "So it was.", "Nothing of that", LONG };
	struct twins w = { .t = opened("texts=4", "keep=4") };
	uint64_t rows = 0;

	for (unsigned i = 0; i < TEXTS; i++)
		submit(&w, prompt[i], i);
	write_all(&w);
	for (unsigned i = 0; i < TEXTS; i++)
		rows += w.got[i].prompt_tokens - w.got[i].cached_tokens;
	assert_int_equal(prompt_rows(&w), rows);
	assert_true(w.got[1].cached_tokens > w.got[1].prompt_tokens / 2);
	assert_true(w.got[3].cached_tokens > w.got[3].prompt_tokens / 2);
	assert_true(w.got[2].cached_tokens < w.got[2].prompt_tokens / 2);
	for (unsigned i = 0; i < TEXTS; i++)
		assert_as_alone(&w, prompt[i], i);
	close_twins(&w);
}

/* If the request that computes the prefix is canceled, the request that waits
 * for it computes the prefix itself. */
static void nobody_waits_for_who_left(void **state)
{
	struct twins w = { .t = opened("keep=4", "texts=4") };

	submit(&w, LONG, 0);
	submit(&w, LONG, 1);
	tandem_request_cancel(w.x[0]);
	write_all(&w);
	assert_int_equal(w.got[1].cached_tokens, 0);
	assert_as_alone(&w, LONG, 1);
	close_twins(&w);
}

/* The handle has two lanes (it runs two requests at a time). The second request
 * waits for the prefix of the first one and keeps its lane, so the third
 * request must wait for a free lane. */
static void who_waits_keeps_its_place(void **state)
{
	struct twins w = { .t = opened("texts=2", "keep=4") };

	submit(&w, LONG, 0);
	submit(&w, LONG, 1);
	submit(&w, "Hello", 2);
	while (!w.got[1].tokens) {
		assert_int_equal(tandem_advance(w.t, NULL), 0);
		for (unsigned i = 0; i < 3; i++)
			look(&w, i);
	}
	assert_true(w.got[0].tokens > 1);
	assert_int_equal(w.got[2].tokens, 0);
	write_all(&w);
	for (unsigned i = 0; i < 2; i++)
		assert_as_alone(&w, LONG, i);
	assert_as_alone(&w, "Hello", 2);
	close_twins(&w);
}

/* Without a prefix cache (keep=0) a request does not use rows of another
 * request. */
static void each_reads_its_own_where_nothing_is_kept(void **state)
{
	struct twins w = { .t = opened("texts=2", NULL) };

	submit(&w, LONG, 0);
	submit(&w, LONG, 1);
	write_all(&w);
	assert_int_equal(prompt_rows(&w), 2 * w.got[0].prompt_tokens);
	close_twins(&w);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(what_is_the_same_is_read_once, setup),
	cmocka_unit_test_setup(so_is_a_beginning_that_is_the_same, setup),
	cmocka_unit_test_setup(nobody_waits_for_who_left, setup),
	cmocka_unit_test_setup(who_waits_keeps_its_place, setup),
	cmocka_unit_test_setup(each_reads_its_own_where_nothing_is_kept, setup),
};
TEST_FILE(tests)
