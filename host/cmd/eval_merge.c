#include "host/cmd/eval_report.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/cmd/eval_sums.h"
#include "host/eval/eval_tasks.h"
#include "host/eval/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int damaged(const struct shards *all, unsigned i, struct err *e)
{
	return err_set(e, EINVAL, "'%s' is a damaged shard: make it again",
		all->path[i]);
}

/* ---- what was evaluated -------------------------------------------------- */

/* A text, NULL where none has it. Files may be elsewhere on each machine, and
 * are told as the first has them; all else is the same. */
static int text(const struct shards *all, const char *member, bool is_file,
	const char **out, struct err *e)
{
	const json_t *v = json_object_get(all->one[0], member);
	int ret = is_file ? 0 : shards_common(all, member, &v, e);

	*out = json_string_value(v);
	return ret || !v || *out ? ret : damaged(all, 0, e);
}

static int number(const struct shards *all, const char *member, double *out,
	struct err *e)
{
	const json_t *v;
	int ret = shards_common(all, member, &v, e);

	*out = json_number_value(v);
	return ret || json_is_number(v) ? ret : damaged(all, 0, e);
}

/* As the first task's phone says. */
static const char *clock_of(const json_t *one)
{
	const json_t *task = json_array_get(json_object_get(one, "tasks"), 0);

	return json_string_value(
		json_object_get(json_object_get(task, "phone"), "clock"));
}

static int take_numbers(
	struct eval_subject *of, const struct shards *all, struct err *e)
{
	double seed, predict;
	int ret = number(all, "phone_base_w", &of->base_w, e);

	if (!ret)
		ret = number(all, "temperature", &of->temperature, e);
	if (!ret)
		ret = number(all, "seed", &seed, e);
	if (!ret)
		ret = number(all, "predict", &predict, e);
	if (ret)
		return ret;
	if (!(seed >= 0 && seed <= 1ll << 53) ||
		!(predict >= 0 && predict <= INT32_MAX))
		return damaged(all, 0, e);
	of->seed = (uint64_t)seed;
	of->n_predict = (uint32_t)predict;
	return 0;
}

static int take_subject(
	struct eval_subject *of, const struct shards *all, struct err *e)
{
	const char *priced = NULL;
	const struct {
		const char *member, **to;
		bool must, is_file;
	} texts[] = { { "model", &of->model, true, true },
		{ "arch", &of->arch, true, false },
		{ "method", &of->method, true, false },
		{ "precision", &of->precision, true, false },
		{ "draft_model", &of->draft_model, false, true },
		{ "drafter", &of->drafter, false, true },
		{ "priced_as", &priced, false, true } };
	int ret = take_numbers(of, all, e);

	for (size_t i = 0; i < ARRAY_LEN(texts) && !ret; i++) {
		ret = text(
			all, texts[i].member, texts[i].is_file, texts[i].to, e);
		if (!ret && texts[i].must && !*texts[i].to)
			ret = damaged(all, 0, e);
	}
	if (ret)
		return ret;
	if (priced && strlen(priced) < sizeof(of->priced_as))
		memcpy(of->priced_as, priced, strlen(priced) + 1);
	of->clock = clock_of(all->one[0]);
	return 0;
}

/* ---- what came of it ----------------------------------------------------- */

/* A task of a shard is added to the result that has its place. */
static int add_task(struct eval_result *sum, const json_t *task,
	const struct shards *all, unsigned i, struct err *e)
{
	const char *name = json_string_value(json_object_get(task, "task")),
		   *path = json_string_value(json_object_get(task, "file"));
	struct eval_result more = { 0 };

	if (!name || !path ||
		!eval_sums_read(json_object_get(task, "sums"), &more) ||
		(sum->task && strcmp(sum->task, name)))
		return damaged(all, i, e);
	if (!sum->task) {
		sum->task = name;
		sum->path = path;
	}
	eval_result_add(sum, &more);
	return 0;
}

static int add_shard(struct eval_report *rep, const struct shards *all,
	unsigned i, struct err *e)
{
	const json_t *tasks = json_object_get(all->one[i], "tasks");
	int ret = 0;

	if (json_array_size(tasks) != rep->n)
		return damaged(all, i, e);
	for (size_t k = 0; k < rep->n && !ret; k++)
		ret = add_task(
			&rep->result[k], json_array_get(tasks, k), all, i, e);
	return ret;
}

int eval_report_merge(
	struct eval_report *rep, const struct shards *all, struct err *e)
{
	size_t n = json_array_size(json_object_get(all->one[0], "tasks"));
	int ret;

	*rep = (struct eval_report){ .complete = true };
	if (!n || n > EVAL_TASKS)
		return damaged(all, 0, e);
	ret = take_subject(&rep->subject, all, e);
	if (ret)
		return ret;
	rep->result = calloc(n, sizeof(*rep->result));
	if (!rep->result)
		return err_set(e, ENOMEM, "no memory for %zu tasks", n);
	rep->n = n;
	for (unsigned i = 0; i < all->n && !ret; i++)
		ret = add_shard(rep, all, i, e);
	return ret;
}
