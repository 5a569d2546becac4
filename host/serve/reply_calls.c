#include "host/serve/reply_calls.h"

#include "host/serve/engine.h"
#include "host/serve/reply.h"

#include <string.h>

bool reply_calls_new(const struct choice *c)
{
	for (size_t i = 0; i < c->n_calls; i++)
		if (!c->calls[i].begun || c->calls[i].arguments.len)
			return true;
	return false;
}

bool reply_calls_made(const struct choice *c)
{
	return c->n_calls && c->calls[c->n_calls - 1].ended;
}

/* Returns the id of a call, which is unique because it contains the unique
 * number of the answer. */
static json_t *id_of(const struct reply *p, size_t i, size_t k)
{
	const char *number = strchr(p->id, '-');

	return json_sprintf(
		"call_%s-%zu-%zu", number ? number + 1 : p->id, i, k);
}

json_t *reply_calls(const struct reply *p, size_t i, bool delta)
{
	struct choice *c = &p->answer->choice[i];
	json_t *list = json_array();

	for (size_t k = 0; k < c->n_calls; k++) {
		struct choice_call *call = &c->calls[k];
		bool first = !call->begun;

		if (!first && !call->arguments.len)
			continue;
		call->begun = true;
		json_array_append_new(list,
			json_pack("{s:o*, s:o*, s:s*, s:{s:s*, s:o}}", "index",
				delta ? json_integer((json_int_t)k) : NULL,
				"id", first ? id_of(p, i, k) : NULL, "type",
				first ? "function" : NULL, "function", "name",
				first ? call->name : NULL, "arguments",
				reply_text(call->arguments.data,
					call->arguments.len)));
		strbuf_reset(&call->arguments);
	}
	return list;
}
