/*
 * The words of one text under every pre-tokenizer. The expected words were
 * computed with another regular expression engine (Python's `regex`) from the
 * expressions that the models' authors published.
 */
#include "tests/harness.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/text/tokenizer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char text[] = "I'll AbC12345 \303\251t\303\251  x\n\n'S \t 3.5="
			   "\302\275 \346\227\245\346\234\254\343\201\262"
			   "\340\245\244\340\244\250\340\244\277 ok/\r\n  ";

static const struct {
	const char *pre, *words;
} expected[] = {
	{ "default",
		"I|'|ll| AbC|123|45| \303\251t\303\251| | x|\n\n|'|S| "
		"\t| |3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244|\340\244\250|\340\244\277| o"
		"k|/|\r\n  " },
	{ "gpt-2",
		"I|'ll| AbC|12345| \303\251t\303\251| | x|\n|\n|'|S| \t"
		"| 3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244|\340\244\250|\340\244\277| o"
		"k|/|\r\n  " },
	{ "llama-bpe",
		"I|'ll| AbC|123|45| \303\251t\303\251| | x|\n\n|'S| \t|"
		" |3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244\340\244\250|\340\244\277| ok"
		"|/\r\n|  " },
	{ "qwen2",
		"I|'ll| AbC|1|2|3|4|5| \303\251t\303\251| | x|\n\n|'S| "
		"\t| |3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244\340\244\250|\340\244\277| ok"
		"|/\r\n|  " },
	{ "qwen35",
		"I|'ll| AbC|1|2|3|4|5| \303\251t\303\251| | x|\n\n|'S| "
		"\t| |3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244\340\244\250\340\244\277| ok|"
		"/\r\n|  " },
	{ "deepseek-llm",
		"I|'|ll| AbC|12345| \303\251|t|\303\251| | x|\n|\n|'|S|"
		" \t |3|.|5|=|\302\275| |\346\227\245\346\234\254"
		"\343\201\262\340\245\244\340\244\250\340\244\277| ok|/"
		"|\r|\n|  " },
	{ "deepseek-coder",
		"I|'|ll| AbC|1|2|3|4|5| \303\251t\303\251| | x|\n|\n|'|"
		"S| \t |3|.|5|=|\302\275| |\346\227\245\346\234\254"
		"\343\201\262|\340\245\244|\340\244\250|\340\244\277| o"
		"k|/|\r|\n|  " },
	{ "deepseek-v3",
		"I|'ll| AbC|123|45| \303\251t\303\251| | x|\n\n|'S| \t "
		"|3|.|5|=|\302\275| |\346\227\245\346\234\254"
		"\343\201\262|\340\245\244|\340\244\250\340\244\277| ok"
		"|/\r\n|  " },
	{ "falcon",
		"I|'|ll| AbC|123|45| \303\251t\303\251| | x|\n\n|'|S| "
		"\t| 3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244|\340\244\250|\340\244\277| o"
		"k|/|\r\n  " },
	{ "starcoder",
		"I|'ll| AbC|1|2|3|4|5| \303\251t\303\251| | x|\n|\n|'|S"
		"| \t |3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244|\340\244\250|\340\244\277| o"
		"k|/|\r\n  " },
	{ "bloom",
		"I'll| AbC12345| \303\251t\303\251| | x|\n\n|'S| \t| 3|"
		".|5=\302\275| \346\227\245\346\234\254\343\201\262|"
		"\340\245\244|\340\244\250\340\244\277| ok/|\r\n  " },
	{ "viking",
		"I'll| AbC|1|2|3|4|5| \303\251t\303\251| | x|\n\n|'S| "
		"\t| |3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244|\340\244\250\340\244\277| ok"
		"/|\r\n  " },
	{ "tekken",
		"I|'ll| Ab|C|1|2|3|4|5| \303\251t\303\251| | x|\n\n|'S|"
		" \t| |3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244\340\244\250\340\244\277| ok|"
		"/\r\n|  " },
	{ "gpt-4o",
		"I'll| Ab|C|123|45| \303\251t\303\251| | x|\n\n|'S| \t|"
		" |3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244\340\244\250\340\244\277| ok|"
		"/\r\n|  " },
	{ "bailingmoe",
		"I|'ll| AbC|1|2|3|4|5| \303\251t\303\251| | x|\n\n|'S| "
		"\t| |3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244\340\244\250|\340\244\277| ok"
		"|/\r\n|  " },
	{ "seed-coder",
		"I|'ll| AbC|1|2|3|4|5| \303\251t\303\251| | x|\n\n|'S| "
		"\t| |3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244\340\244\250|\340\244\277| ok"
		"|/|\r\n|  " },
	{ "ufakzeka",
		"I|'ll| AbC|1|2|3|4|5| \303\251t\303\251| | x|\n\n|'S| "
		"\t| |3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244\340\244\250|\340\244\277| ok"
		"|/\r\n|  " },
	{ "minicpm5",
		"I|'ll| AbC|123|45| \303\251t\303\251| | x|\n\n|'S| \t "
		"|3|.|5|=|\302\275| \346\227\245\346\234\254"
		"\343\201\262|\340\245\244\340\244\250|\340\244\277| ok"
		"|/\r\n|  " },
};

struct splitting {
	struct splitter splitter;
	struct split_run *run;
};

static void begin(struct splitting *s, const char *pre)
{
	const struct pretokenizer *p =
		pretokenizer_find((struct gguf_str){ pre, strlen(pre) });
	struct err e = { 0 };

	memset(s, 0, sizeof(*s));
	if (!p)
		fail_msg("no pre-tokenizer '%s'", pre);
	assert_ok(splitter_init(&s->splitter, p, &e), &e);
	assert_int_equal(split_open(&s->run), 0);
}

static void end(struct splitting *s)
{
	split_close(s->run);
	splitter_release(&s->splitter);
}

static int join(void *arg, const char *word, size_t len)
{
	struct strbuf *b = arg;

	strbuf_addf(b, "%s%.*s", b->len ? "|" : "", (int)len, word);
	return 0;
}

static void test_words(void **state)
{
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		struct strbuf words = STRBUF_INIT;
		struct err e = { 0 };
		struct splitting s;

		begin(&s, expected[i].pre);
		assert_ok(split_words(&s.splitter, s.run, text, strlen(text),
				  join, &words, &e),
			&e);
		if (strcmp(words.data, expected[i].words))
			fail_msg("%s gives\n%s\nnot\n%s", expected[i].pre,
				words.data, expected[i].words);
		strbuf_release(&words);
		end(&s);
	}
}

/* Every documented name is recognized, and similar names are not. */
static void test_names(void **state)
{
	struct strbuf names = STRBUF_INIT;
	const char *const not_names[] = { "qwen", "qwen22", "llama",
		"llama-bpe gpt-2", " ", "wen2", "Default" };
	char *save, *name;

	pretokenizer_names(&names);
	for (name = strtok_r(names.data, " ", &save); name;
		name = strtok_r(NULL, " ", &save)) {
		struct splitting s;

		begin(&s, name);
		end(&s);
	}
	for (size_t i = 0; i < sizeof(not_names) / sizeof(not_names[0]); i++)
		if (pretokenizer_find((struct gguf_str){
			    not_names[i], strlen(not_names[i]) }))
			fail_msg("'%s' was found", not_names[i]);
	strbuf_release(&names);
}

struct tally {
	size_t bytes, words;
};

static int count(void *arg, const char *word, size_t len)
{
	struct tally *t = arg;

	t->bytes += len;
	t->words++;
	return 0;
}

/*
 * Split texts of one character that is repeated many times. A splitter that
 * starts again at each character would take too long, and one with a limit on
 * matching would fail.
 */
static void test_long_runs(void **state)
{
	static const char *const fill[] = { "a", " ", "1", "!", "\n", "\t",
		"\xe0\xa4\x95", "\xcc\x81", "A", "'", "\xe3\x80\x80" };
	const size_t size = 200000;
	char *run = malloc(2 * size + 4);

	assert_non_null(run);
	for (size_t p = 0; p < sizeof(expected) / sizeof(expected[0]); p++) {
		struct splitting s;

		begin(&s, expected[p].pre);
		for (size_t f = 0; f < sizeof(fill) / sizeof(fill[0]); f++) {
			struct tally t = { 0, 0 };
			size_t n = strlen(fill[f]), len = 0;
			uint64_t began = clock_ns();
			struct err e = { 0 };

			for (; len + n <= size; len += n)
				memcpy(run + len, fill[f], n);
			/* the run is not the end of the text */
			run[len++] = 'x';
			assert_ok(split_words(&s.splitter, s.run, run, len,
					  count, &t, &e),
				&e);
			assert_int_equal(t.bytes, len);
			if (clock_ns() - began > 2000000000)
				fail_msg("%s took %.1f s for a run of '%s'",
					expected[p].pre,
					(double)(clock_ns() - began) / 1e9,
					fill[f]);
		}
		end(&s);
	}
	free(run);
}

static int refuse(void *arg, const char *word, size_t len)
{
	return ++*(int *)arg == 3 ? -77 : 0;
}

static void test_stops(void **state)
{
	struct splitting s;
	struct err e = { 0 };
	int calls = 0;

	begin(&s, "gpt-2");
	assert_int_equal(split_words(&s.splitter, s.run, "a b c d e", 9, refuse,
				 &calls, &e),
		-77);
	assert_int_equal(calls, 3);
	end(&s);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_words),
	cmocka_unit_test(test_names),
	cmocka_unit_test(test_long_runs),
	cmocka_unit_test(test_stops),
};
TEST_FILE(tests)
