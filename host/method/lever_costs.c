#include "host/method/lever_costs.h"

#include "host/head/exit_head.h"
#include "host/scheduler/cycle.h"
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

/*
 * The term A of the cost model (pass_cost.h): the time that flash reads ahead,
 * counted from the end of the previous pass. While flash is reading, A is the
 * time since the end of that pass plus the time for which flash will still
 * read. When all slots, the memory for streamed layers, are full, flash has
 * read for at most c->ahead, which may be less than the time since the pass.
 * For the first tree of a request, drafting begins directly after the prompt,
 * so A is only the time for which flash will still read.
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

void lever_update_costs(struct cycle *c)
{
	struct pass_cost *cost = &lever_state(c->env)->cost;
	struct session_stats stats;

	/* Without a simulated phone, the passes of the prompt give a first
	 * estimate of C(n), the time of a pass of n rows. */
	if (c->env->phone)
		cycle_phone_cost(c->session, c->rows,
			session_length(c->session, c->sequence), cost);
	else if (!pass_cost_is_known(cost) && c->prompt_ns > 0)
		pass_cost_begin(cost, c->prompt_rows, c->prompt_ns);
	session_stats(c->session, &stats);
	cost->before = (double)stats.layers_before /
		(double)session_model(c->session)->n_layer;
	/* The simulated phone reads the share flash_ahead of each layer in
	 * advance, and the rest of the layer only when all earlier layers are
	 * computed. */
	if (c->env->phone)
		cost->before =
			1 - c->env->phone->flash_ahead * (1 - cost->before);
	cost->read = (double)session_read_time(c->session);
	cost->ahead = ahead(c);
	c->expand_cost = cost;
}

/*
 * Update the terms of the cost model from the cycle that has just ended. From
 * the first cycle of a request, update only the terms `token` (w in
 * pass_cost.h) and `exit`. The other terms cannot be measured in the first
 * cycle: only passes of the prompt precede this cycle, and the drafter began
 * its tree while reading the prompt.
 */
void lever_observe_costs(const struct cycle *c)
{
	struct pass_cost *cost = &lever_state(c->env)->cost;
	double lower = lever_lower_share(c), rows = (double)c->device_ns;

	pass_cost_see(&cost->token, &cost->n_token,
		(double)(cycle_now(c) - c->passed_at) / c->n_path);
	if (c->choose_time)
		pass_cost_see(
			&cost->exit, &cost->n_exit, (double)c->choose_time);
	if (c->passes < 2)
		return;
	if (c->expanded)
		pass_cost_see(&cost->begin, &cost->n_begin,
			(double)(c->draft_time - c->expand_time));
	/* rows is C(n), the time for the rows of this cycle's pass: measured
	 * or, on a simulated phone, computed from the phone's profile. */
	if (c->env->phone)
		rows = lower * pass_cost_rows(cost, c->verified) +
			(1 - lower) * pass_cost_rows(cost, c->n_continued);
	pass_cost_saw_cycle(cost, (double)c->gap, rows + (double)c->choose_time,
		(double)(c->gap + c->pass_time));
}
