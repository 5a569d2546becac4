#include "host/method/stages.h"

#include "host/scheduler/guesses.h"

static void show(struct place *p, enum stage stage, int32_t token)
{
	if (p->stage == STAGE_INVISIBLE || p->token != token)
		p->stale = true;
	p->stage = stage;
	p->token = token;
}

unsigned stages_update(
	struct place *p, const struct stages_rule *rule, const struct guess *g)
{
	enum stage was = p->stage, stage = STAGE_INVISIBLE;

	if (was == STAGE_STABLE)
		return 0;
	if (g->confidence >= rule->stable)
		stage = STAGE_STABLE;
	else if (g->confidence >= rule->visible)
		stage = rule->revise ? STAGE_VISIBLE : STAGE_STABLE;
	p->confidence = g->confidence;
	if (was == STAGE_VISIBLE && stage == STAGE_INVISIBLE) {
		if (rule->fall && !p->pinned) {
			p->stage = STAGE_INVISIBLE;
			p->stale = p->pinned = true;
			return CHANGE_HIDDEN;
		}
		stage = STAGE_VISIBLE;
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
	p->pinned = true;
	show(p, rule->revise ? STAGE_VISIBLE : STAGE_STABLE, g->token);
}
