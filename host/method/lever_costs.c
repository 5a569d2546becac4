#include "host/method/lever_costs.h"

#include "host/head/exit_head.h"
#include "host/method/cycle.h"
#include "host/method/lever.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "tensor/soc/soc.h"

double lever_lower_share(const struct cycle *c)
{
	uint32_t layers = session_model(c->session)->n_layer;
	const struct exit_head *exit = lever_state(c->env)->exit;

	return exit ? (double)exit_head_layers(exit) / (double)layers : 1;
}

/* Of another device than a phone's the prompt has told something. */
static void know_rows(const struct cycle *c, struct pass_cost *cost)
{
	if (c->env->phone)
		cycle_phone_cost(c->session, c->rows,
			session_length(c->session, c->sequence), cost);
	else if (!pass_cost_is_known(cost) && c->prompt_ns > 0)
		pass_cost_begin(cost, c->prompt_rows, c->prompt_ns);
}

void lever_saw_look(struct cycle *c, uint32_t nodes, uint64_t time)
{
	pass_cost_saw_look(&lever_state(c->env)->cost, nodes, (double)time);
}

/*
 * A counts from the end of the last pass, as S does: the time since, while
 * flash went on reading, and what it still has to read. Where all slots are
 * full by now it read for as long as it had to, which may be less than that
 * time. A text's first tree begins when its prompt is over: only what is left
 * hides any of it.
 */
static double ahead(const struct cycle *c)
{
	uint64_t left = session_ahead(c->session);
	uint64_t since = cycle_now(c) - c->passed_at;

	if (!c->passes)
		return (double)left;
	return (double)(left ? since + left
			     : (c->ahead < since ? c->ahead : since));
}

void lever_know_costs(struct cycle *c)
{
	struct pass_cost *cost = &lever_state(c->env)->cost;
	struct session_stats stats;

	know_rows(c, cost);
	session_stats(c->session, &stats);
	cost->before = (double)stats.layers_before /
		(double)session_model(c->session)->n_layer;
	/* A phone that reads a layer when its turn has come computes all that
	 * is before it first. */
	if (c->env->phone)
		cost->before =
			1 - c->env->phone->flash_ahead * (1 - cost->before);
	cost->read = (double)session_read_time(c->session);
	cost->ahead = ahead(c);
	c->saw_look = lever_saw_look;
}

/* Each term by itself. The first tree of a text waits for its prompt. */
void lever_see_costs(const struct cycle *c)
{
	struct pass_cost *cost = &lever_state(c->env)->cost;

	if (c->choose_time) {
		pass_cost_see(
			&cost->exit, &cost->n_exit, (double)c->choose_time);
		pass_cost_see(&cost->kept, &cost->n_kept,
			(double)c->went_on / c->verified);
	}
	if (c->passes > 1)
		pass_cost_see(&cost->start, &cost->n_start,
			(double)(c->gap - c->expand_time));
}
