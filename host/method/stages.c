#include "host/method/stages.h"

#include "host/method/guesses.h"

static void show(struct place *p, enum stage stage, int32_t token)
{
	if (p->stage == STAGE_INVISIBLE || p->token != token)
		p->stale = true;
	p->stage = stage;
	p->token = token;
}

static enum stage reached(const struct stages_rule *rule, double confidence)
{
	if (confidence >= rule->stable)
		return STAGE_STABLE;
	if (confidence >= rule->visible)
		return rule->revise ? STAGE_VISIBLE : STAGE_STABLE;
	return STAGE_INVISIBLE;
}

unsigned stages_take(
	struct place *p, const struct stages_rule *rule, const struct guess *g)
{
	enum stage stage = reached(rule, g->confidence), was = p->stage;

	if (was == STAGE_STABLE)
		return 0;
	p->confidence = g->confidence;
	if (was == STAGE_VISIBLE && stage == STAGE_INVISIBLE) {
		if (!rule->fall || p->held)
			stage = STAGE_VISIBLE;
		else
			return stages_hide(p);
	}
	if (stage == STAGE_INVISIBLE)
		return 0;
	if (was == STAGE_INVISIBLE || p->token == g->token) {
		show(p, stage, g->token);
		return was == STAGE_INVISIBLE ? CHANGE_SEEN : 0;
	}
	show(p, stage, g->token);
	return CHANGE_REVISED;
}

void stages_promote(
	struct place *p, const struct stages_rule *rule, const struct guess *g)
{
	p->confidence = g->confidence;
	p->held = true;
	show(p, rule->revise ? STAGE_VISIBLE : STAGE_STABLE, g->token);
}

unsigned stages_hide(struct place *p)
{
	p->stage = STAGE_INVISIBLE;
	p->stale = p->held = true;
	return CHANGE_FELL;
}
