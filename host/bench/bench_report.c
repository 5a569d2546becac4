#include "host/bench/bench_report.h"

#include "base/err.h"
#include "host/bench/bench_plot.h"
#include "host/bench/bench_table.h"
#include "host/bench/experiment.h"
#include "host/eval/sums.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char bench_simulated[] =
	"Acceptance is simulated where an oracle drafts: an oracle knows the "
	"text and\ndrafts a share P of the tokens as the target does.";

void report_print_size(const struct experiment *x, unsigned n_predict)
{
	printf("%u task%s, %zu item%s in all, at most %u tokens each; %u "
	       "round%s\n",
		x->n_tasks, x->n_tasks > 1 ? "s" : "", x->n_items,
		x->n_items > 1 ? "s" : "", n_predict, x->rounds,
		x->rounds > 1 ? "s" : "");
}

json_t *report_checks_json(const struct experiment *from)
{
	json_t *o = json_object();

	EXPERIMENT_CHECKS(SUMS_PUT)
	return o;
}

void report_print_checks_csv(const struct experiment *x)
{
#define PRINT(type, name) printf("run,,," #name ",%" PRIu64 "\n", x->name);
	EXPERIMENT_CHECKS(PRINT)
#undef PRINT
}

json_t *report_tables_json(const struct bench_table *tables, unsigned n)
{
	json_t *o = json_object();

	for (unsigned i = 0; i < n; i++)
		json_object_set_new(o, tables[i].name, table_json(&tables[i]));
	return o;
}

void report_print_priced(const char *priced)
{
	/* Print each part of `priced` as a line of its own; " | " separates the
	 * parts. */
	while (*priced) {
		const char *end = strstr(priced, " | ");
		size_t n = end ? (size_t)(end - priced) : strlen(priced);

		printf("priced as %.*s\n", (int)n, priced);
		priced += n + (end ? 3 : 0);
	}
}

void report_caption(const struct experiment *x, const char *priced,
	const char *model, const char *clock, bool simulated,
	char caption[BENCH_CAPTION])
{
	const char *slash = strrchr(model, '/');
	char tasks[120] = "";
	size_t used = 0;

	/* Name the tasks ("summary, qa"), or give their number if it is above
	 * 3. */
	if (x->n_tasks > 3)
		snprintf(tasks, sizeof(tasks), "%u tasks", x->n_tasks);
	for (unsigned i = 0;
		x->n_tasks <= 3 && i < x->n_tasks && used < sizeof(tasks); i++)
		used += (size_t)snprintf(tasks + used, sizeof(tasks) - used,
			"%s%s", i ? ", " : "", x->task[i]);
	snprintf(caption, BENCH_CAPTION,
		"%s%.300s%s%s%.80s%sclock %.200s, %zu item%s of %s%s",
		*priced ? "priced as " : "", priced, *priced ? "; " : "",
		*model ? "model " : "", slash ? slash + 1 : model,
		*model ? ", " : "", clock, x->n_items,
		x->n_items > 1 ? "s" : "", tasks,
		simulated ? "; acceptance is simulated where an oracle drafts"
			  : "");
}

int report_plots(const struct bench_table *tables, unsigned n,
	const char *caption, const char *folder, struct err *e)
{
	int ret = 0;

	for (unsigned i = 0; i < n && folder && !ret; i++)
		ret = bench_plot(&tables[i], caption, folder, e);
	return ret;
}
