#include "host/scheduler/method.h"

#include "base/err.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"

#include <errno.h>
#include <stdlib.h>

int method_open(struct method_env *env, const struct method *m,
	const struct model *target, struct err *e)
{
	env->method = m;
	if (m->state_bytes)
		env->state = calloc(1, m->state_bytes);
	if (m->state_bytes && !env->state)
		return err_set(e, ENOMEM, "no memory for method %s", m->name);
	return m->open ? m->open(env, target, e) : 0;
}

int32_t method_next(
	struct session *s, struct generation *g, const float *logits)
{
	session_add_draw(s, gen_sampling(g)->temperature == 0);
	return gen_next(g, logits);
}

void method_close(struct method_env *env)
{
	if (env->method && env->method->close && env->state)
		env->method->close(env);
	free(env->state);
	*env = (struct method_env){ 0 };
}

static uint64_t *counter(uint64_t of[DRAFT_POSITIONS], uint32_t depth)
{
	return &of[depth < DRAFT_POSITIONS ? depth - 1 : DRAFT_POSITIONS - 1];
}

void method_count_draft(struct method_env *env, const uint32_t *depth,
	uint32_t n, uint32_t accepted)
{
	struct draft_positions *p = &env->positions;

	env->stats.drafted += n;
	env->stats.accepted += accepted;
	for (uint32_t i = 0; i < n; i++)
		++*counter(p->drafted, depth ? depth[i] : i + 1);
	for (uint32_t i = 0; i < accepted; i++)
		++*counter(p->accepted, i + 1);
}
