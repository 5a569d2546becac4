/*
 * Runs litmus tests, or writes them to the folder DIR (--write). The tests are
 * read from the files or, if no file is given, generated from cycles
 * (litmus_cycles).
 *
 *   measure_litmus [--contract 1|2] [--length N] [--seeds N] [FILE.litmus...]
 *   measure_litmus --write DIR [--contract 1|2] [--length N] [FILE.litmus...]
 *
 * --length sets the largest number of edges of a cycle, and --seeds the number
 * of random runs of each test. The written tests expect the outcomes that
 * litmus_explore finds.
 */
#include "base/err.h"
#include "tests/shm/coherence/litmus_check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct work {
	struct litmus_tally tally;
	const char *dir; /* NULL: run the tests */
	unsigned contract, length, seeds;
	unsigned failed;
	struct err e;
};

static int run_test(struct work *w, const struct litmus *t, bool stated)
{
	int ret = litmus_check(t, stated, w->seeds, &w->tally, &w->e);

	if (!ret || ret == -ENOMEM)
		return ret;
	printf("%s\n", w->e.text);
	w->failed++;
	return 0;
}

/* Set the test's allowed outcomes to those in `space`. They consist of the
 * results (final values of registers and words) that the test names, or of all
 * results if the test names none. */
static void state_outcomes(struct litmus *t, const struct litmus_space *space)
{
	bool any = t->n_allowed + t->n_forbidden > 0;

	for (unsigned i = 0; !any && i < LITMUS_RESULTS; i++)
		t->named[i] = i < LITMUS_REGS ? i < t->n_regs
					      : i - LITMUS_REGS < t->n_words;
	t->n_allowed = 0;
	for (uint32_t i = 0; i < space->n_outcomes; i++) {
		struct litmus_outcome o = space->outcome[i];
		unsigned k = 0;

		for (unsigned n = 0; n < LITMUS_RESULTS; n++)
			o.value[n] = t->named[n] ? o.value[n] : 0;
		while (k < t->n_allowed &&
			memcmp(&t->allowed[k], &o, sizeof(o)) != 0)
			k++;
		if (k == t->n_allowed && k < LITMUS_OUTCOMES)
			t->allowed[t->n_allowed++] = o;
	}
	t->breaches = space->breaches;
}

/* Write a test's text to a file, with the outcomes that litmus_explore finds as
 * the expected outcomes. */
static int write_test(struct work *w, const struct litmus *test)
{
	char path[4096], text[LITMUS_TEXT];
	struct litmus t = *test;
	struct litmus_space space;
	FILE *f;
	int ret = litmus_explore(&space, &t, t.nature, &w->e);

	if (ret)
		return ret;
	state_outcomes(&t, &space);
	litmus_space_release(&space);
	snprintf(path, sizeof(path), "%s/%s.litmus", w->dir, t.name);
	f = fopen(path, "w");
	if (!f)
		return err_sys(&w->e, errno, "%s", path);
	litmus_print(&t, text);
	fputs(text, f);
	return fclose(f) ? err_sys(&w->e, errno, "%s", path) : 0;
}

static int take_cycle(void *arg, const struct litmus *t)
{
	struct work *w = arg;

	return w->dir ? write_test(w, t) : run_test(w, t, false);
}

static int take_file(struct work *w, const char *path)
{
	char text[LITMUS_TEXT];
	struct litmus t;
	FILE *f = fopen(path, "r");
	size_t n;
	int ret;

	if (!f)
		return err_sys(&w->e, errno, "%s", path);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	ret = litmus_parse(&t, text, &w->e);
	if (ret)
		return err_in(&w->e, "%s", path);
	return w->dir ? write_test(w, &t) : run_test(w, &t, t.n_allowed > 0);
}

static int work(struct work *w, int n_files, char **file)
{
	char text[256];
	int ret = 0;

	if (n_files == 0)
		ret = litmus_cycles(
			w->length, w->contract, take_cycle, w, &w->e);
	for (int i = 0; !ret && i < n_files; i++)
		ret = take_file(w, file[i]);
	if (ret) {
		fprintf(stderr, "measure_litmus: %s\n", w->e.text);
		return 1;
	}
	if (!w->dir) {
		litmus_report(&w->tally, text, sizeof(text));
		printf("%s; %u failed\n", text, w->failed);
	}
	return w->failed > 0;
}

int main(int argc, char **argv)
{
	struct work w = { .contract = 1, .length = 4, .seeds = 200 };
	int i = 1;

	for (; i + 1 < argc && !strncmp(argv[i], "--", 2); i += 2) {
		if (!strcmp(argv[i], "--write"))
			w.dir = argv[i + 1];
		else if (!strcmp(argv[i], "--contract"))
			w.contract = (unsigned)strtoul(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--length"))
			w.length = (unsigned)strtoul(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--seeds"))
			w.seeds = (unsigned)strtoul(argv[i + 1], NULL, 10);
		else
			break;
	}
	if (i < argc && argv[i][0] == '-') {
		fprintf(stderr,
			"usage: measure_litmus [--write DIR] [--contract 1|2] "
			"[--length N] [--seeds N] [FILE...]\n");
		return 2;
	}
	return work(&w, argc - i, argv + i);
}
