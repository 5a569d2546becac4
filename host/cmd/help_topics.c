#include "host/cmd/help_topics.h"

#include "base/checked.h"
#include "host/api/options.h"
#include "host/eval/eval_tasks.h"
#include "host/model/shapes.h"
#include "host/shipped/shipped_models.h"

#include <string.h>

#define WIDTH 16

static void line(FILE *f, const char *name, const char *text)
{
	fprintf(f, "  %-*s  %s\n", WIDTH, name, text);
}

/* The words of an option of the decoder, each with what it means. */
static void option_words(FILE *f, const char *name)
{
	const struct opt_table *t;
	struct opt_word w;

	for (size_t i = 0; (t = decoder_tables(i)); i++)
		for (size_t r = 0; r < t->n; r++) {
			const struct opt *o = &t->rows[r];

			if (!o->name || strcmp(o->name, name) || !o->words)
				continue;
			for (size_t k = 0; o->words(k, &w); k++)
				if (w.help)
					line(f, w.shown ? w.shown : w.word,
						w.help);
		}
}

static void methods(FILE *f)
{
	fputs("Decoding methods, for --method:\n\n", f);
	option_words(f, "method");
}

static void drafts(FILE *f)
{
	fputs("Drafters, for --draft; a GGUF file is a draft model:\n\n", f);
	option_words(f, "draft");
	fputs("\nSeveral, joined by +, are asked in turn: sam+recycle.\n", f);
}

static void tasks(FILE *f)
{
	static const char *const text[] = {
		"two sentences that summarize a story or report",
		"a question about a passage, answered by a sentence",
		"a request turned into commands for a screen",
		"a reply to a message in a given manner",
		"a word problem, solved step by step",
		"a small function, from its description",
		"reports that are mixed with one another",
		"a question about a long notice",
		"a request for a long screen",
		"a reply in a long conversation",
	};
	_Static_assert(ARRAY_LEN(text) == EVAL_TASKS, "one for each task");

	fputs("Tasks of held-out items, for eval, perplexity and bench:\n\n",
		f);
	for (unsigned i = 0; i < EVAL_TASKS; i++)
		line(f, eval_task_names[i], text[i]);
	fputs("\nGroups: " EVAL_TASK_GROUPS ".\n", f);
}

static void all_shapes(FILE *f)
{
	fputs("Shapes of models, for --as, --draft-as and synth --like:\n\n",
		f);
	for (unsigned i = 0; i < SHAPES; i++) {
		const struct shape *s = &shapes[i];

		fprintf(f,
			"  %-*s  %2u layers, width %4u, %2u heads (%u of keys "
			"and values)\n",
			WIDTH, s->name, s->n_layer, s->n_embd, s->n_head,
			s->n_kv_head);
	}
}

static void clocks(FILE *f)
{
	static const char *const text[] = {
		"this machine's time only",
		"Snapdragon 8 Gen 2, Hexagon V73",
		"Snapdragon 8 Gen 3, Hexagon V75",
		"the same, as fast as measured in Lever's paper",
		"Snapdragon 8 Elite, Hexagon V79",
	};

	fputs("Clocks, for --clock; soc:FILE is a profile of your own:\n\n", f);
	for (unsigned i = 0; i < ARRAY_LEN(text) && clock_names[i]; i++)
		fprintf(f, "  %-*s  %s\n", WIDTH + 2, clock_names[i], text[i]);
}

static void models(FILE *f)
{
	static const char *const text[] = {
		[MODEL_TARGET] = "12.6 M parameters: the default of -m",
		[MODEL_SMALL] = "4.1 M parameters: a smaller target",
		[MODEL_DRAFT] = "1.1 M parameters: drafts for the target",
		[MODEL_DIFFUSION] = "masked diffusion, 12.6 M parameters",
		[MODEL_BLOCK] = "block diffusion, 12.6 M parameters",
		[MODEL_EXIT] = "exit predictor of the target, after 6 layers",
		[MODEL_EXIT_THIRD] = "the same, after 4 layers",
		[MODEL_REWARD] = "reward head of the target",
		[MODEL_REWARD_SMALL] = "reward head of the small target",
	};

	fputs("Bundled models, for -m and options that name a model:\n\n", f);
	for (unsigned i = 0; i < ARRAY_LEN(text); i++)
		line(f, model_role_name(i), text[i]);
}

const struct help_topic help_topics[] = {
	{ "methods", methods },
	{ "drafts", drafts },
	{ "tasks", tasks },
	{ "shapes", all_shapes },
	{ "clocks", clocks },
	{ "models", models },
	{ 0 },
};
