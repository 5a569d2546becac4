/* Makes the nodes (json_nodes.h) that describe the tool calls of an output. */
#include "base/err.h"
#include "host/text/json_schema_reader.h"

#include <errno.h>
#include <stdlib.h>

static int add_calls(struct schema_reader *r, const struct json_calls *c,
	uint32_t *rest, uint32_t *out)
{
	uint32_t first = r->j->n_names, part[2], call;
	struct strbuf text = STRBUF_INIT;
	int ret = schema_add_literal(r, c->close, JSON_NONE);

	if (!ret)
		ret = schema_add_text(r, first, &part[1]);
	/* rest[i] describes a call of tool i from the arguments on: the
	 * arguments, which fit the tool's schema, and then c->close. */
	for (size_t i = 0; i < c->n && !ret; i++) {
		r->root = c->schema[i];
		strbuf_reset(&r->path);
		strbuf_addf(&r->path, "%s#", c->where[i]);
		ret = schema_read(r, r->root, &part[0]);
		if (!ret)
			ret = schema_add_parent(
				r, FORM_SEQUENCE, part, 2, &rest[i]);
	}
	first = r->j->n_names;
	for (size_t i = 0; i < c->n && !ret; i++) {
		strbuf_reset(&text);
		strbuf_addf(&text, "%s%s%s", c->open, c->name[i], c->middle);
		ret = text.failed ? -ENOMEM
				  : schema_add_literal(r, text.data, rest[i]);
	}
	strbuf_release(&text);
	if (!ret)
		ret = schema_add_text(r, first, &call);
	if (ret || !c->array)
		return ret ? ret
			   : schema_add_parent(r, FORM_ONE_OF, &call, 1, out);
	ret = schema_add_node(r, FORM_ARRAY, out);
	if (ret)
		return ret;
	r->j->node[*out].min = 1;
	if (c->one)
		r->j->node[*out].max = 1;
	r->j->node[*out].rest = call;
	return 0;
}

int json_nodes_open_calls(
	struct json_nodes **out, const struct json_calls *c, struct err *e)
{
	struct json_nodes *j = calloc(1, sizeof(*j));
	struct schema_reader r = { .j = j, .path = STRBUF_INIT, .e = e };
	uint32_t *rest = calloc(c->n + 1, sizeof(*rest));
	int ret = j && rest ? add_calls(&r, c, rest, &j->root) : -ENOMEM;

	if (!ret)
		ret = schema_finish(&r);
	if (ret == -ENOMEM)
		err_set(e, ENOMEM, "no memory for a JSON Schema");
	for (size_t i = 0; i < c->n && !ret; i++)
		if (j->node[rest[i]].height > JSON_LEVELS - 1)
			ret = err_set(e, EINVAL,
				"%s: no arguments with at most %d levels of "
				"objects and arrays fit the schema",
				c->where[i], JSON_LEVELS - 1);
	strbuf_release(&r.path);
	free(r.done);
	free(rest);
	if (ret) {
		json_nodes_close(j);
		return ret;
	}
	j->start = c->start;
	j->marker = c->marker;
	j->again = c->one ? NULL : c->again;
	*out = j;
	return 0;
}
