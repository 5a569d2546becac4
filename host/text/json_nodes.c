#include "host/text/json_nodes.h"

#include "base/err.h"
#include "host/text/json_schema_reader.h"
#include "host/text/list_grow.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 65536

/* ---- adding nodes and literals ------------------------------------------- */

int schema_add_node(struct schema_reader *r, enum form_kind kind, uint32_t *out)
{
	struct json_nodes *j = r->j;

	if (j->n == NODES_MAX)
		return err_set(r->e, EINVAL,
			"the JSON Schema has more than %d parts; use a smaller "
			"schema",
			NODES_MAX);
	if (list_grow(&j->node, j->n, &j->cap, sizeof(*j->node)))
		return -ENOMEM;
	j->node[j->n] = (struct json_node){
		.kind = kind, .rest = JSON_NONE, .max = UINT32_MAX
	};
	*out = j->n++;
	return 0;
}

int schema_add_kid(struct schema_reader *r, uint32_t node)
{
	struct json_nodes *j = r->j;

	if (list_grow(&j->kid, j->n_kids, &j->cap_kids, sizeof(*j->kid)))
		return -ENOMEM;
	j->kid[j->n_kids++] = node;
	return 0;
}

int schema_add_literal(struct schema_reader *r, const char *text, uint32_t node)
{
	struct json_nodes *j = r->j;
	size_t len = strlen(text);

	if (list_grow(&j->name, j->n_names, &j->cap_names, sizeof(*j->name)))
		return -ENOMEM;
	j->name[j->n_names++] = (struct json_name){ (uint32_t)j->text.len,
		(uint32_t)len, node };
	strbuf_add(&j->text, text, len);
	return j->text.failed ? -ENOMEM : 0;
}

int schema_add_name(
	struct schema_reader *r, json_t *value, size_t skip, uint32_t node)
{
	char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	int ret = text ? schema_add_literal(r, text + skip, node) : -ENOMEM;

	free(text);
	return ret;
}

/* ---- data computed after all nodes were added ---------------------------- */

/* Collect the leaves of a node: the leaves of all alternatives of a
 * FORM_ONE_OF; any other node is a leaf itself. Each leaf is collected once,
 * even if references are circular. */
static int add_leaves(struct json_nodes *j, uint32_t node, unsigned char *seen)
{
	const struct json_node *n = &j->node[node];
	int ret = 0;

	if (seen[node]++)
		return 0;
	if (n->kind == FORM_ONE_OF) {
		for (uint32_t i = 0; i < n->n && !ret; i++)
			ret = add_leaves(j, j->kid[n->first + i], seen);
		return ret;
	}
	if (list_grow(&j->leaf, j->n_leaves, &j->cap_leaves, sizeof(*j->leaf)))
		return -ENOMEM;
	j->leaf[j->n_leaves++] = node;
	return 0;
}

static uint32_t above(uint32_t height)
{
	return height == JSON_NONE ? JSON_NONE : height + 1;
}

static uint32_t higher(const struct json_nodes *j, uint32_t than, uint32_t node)
{
	uint32_t h = node == JSON_NONE ? JSON_NONE : j->node[node].height;

	return h > than ? h : than;
}

/* Returns the height of a node (nesting levels of the least nested value that
 * the node allows), computed from the current heights of the nodes to which
 * this node refers. */
static uint32_t height_of(const struct json_nodes *j, const struct json_node *n)
{
	uint32_t h = 0, least = JSON_NONE;

	switch (n->kind) {
	case FORM_ONE_OF:
		for (uint32_t i = 0; i < n->n; i++) {
			h = j->node[j->kid[n->first + i]].height;
			least = h < least ? h : least;
		}
		return least;
	case FORM_SEQUENCE:
		for (uint32_t i = 0; i < n->n; i++)
			h = higher(j, h, j->kid[n->first + i]);
		return h;
	case FORM_TEXT:
		for (uint32_t i = 0; i < n->n; i++) {
			uint32_t next = j->name[n->first + i].node;

			if (next == JSON_NONE)
				return 0;
			next = j->node[next].height;
			least = next < least ? next : least;
		}
		return least;
	case FORM_OBJECT:
		for (uint32_t i = 0; i < n->n; i++)
			if (n->required >> i & 1)
				h = higher(j, h, j->name[n->first + i].node);
		return above(h);
	case FORM_ARRAY:
		for (uint32_t i = 0; i < n->n; i++)
			h = higher(j, h, j->kid[n->first + i]);
		return above(n->min > n->n ? higher(j, h, n->rest) : h);
	default:
		return 0;
	}
}

int schema_finish(struct schema_reader *r)
{
	struct json_nodes *j = r->j;
	unsigned char *seen = malloc(j->n);
	bool changed = true;
	int ret = seen ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < j->n && !ret; i++) {
		memset(seen, 0, j->n);
		j->node[i].leaf = j->n_leaves;
		ret = add_leaves(j, i, seen);
		j->node[i].n_leaves = j->n_leaves - j->node[i].leaf;
	}
	free(seen);
	if (ret)
		return -ENOMEM;
	/* Begin with all heights infinite (JSON_NONE), and recompute them until
	 * nothing changes. */
	for (uint32_t i = 0; i < j->n; i++)
		j->node[i].height = JSON_NONE;
	while (changed) {
		changed = false;
		for (uint32_t i = 0; i < j->n; i++) {
			uint32_t h = height_of(j, &j->node[i]);

			changed |= h != j->node[i].height;
			j->node[i].height = h;
		}
	}
	if (j->node[j->root].height > JSON_LEVELS)
		return schema_refuse(r,
			"no value with at most %d levels of objects and "
			"arrays fits the schema",
			JSON_LEVELS);
	return 0;
}

int json_nodes_open(struct json_nodes **out, const char *schema, struct err *e)
{
	struct json_nodes *j = calloc(1, sizeof(*j));
	struct schema_reader r = { .j = j, .path = STRBUF_INIT, .e = e };
	json_error_t error;
	int ret = 0;

	strbuf_add(&r.path, "#", 1);
	/* Jansson reports some failed memory allocations as invalid JSON; errno
	 * distinguishes the two errors. */
	errno = 0;
	r.root = json_loads(
		schema, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
	if (!j || r.path.failed || (!r.root && errno == ENOMEM))
		ret = -ENOMEM;
	else if (!r.root)
		ret = err_set(e, EINVAL,
			"the JSON Schema is not valid JSON: line %d, column "
			"%d: %.120s",
			error.line, error.column, error.text);
	if (!ret)
		ret = schema_read(&r, r.root, &j->root);
	if (!ret)
		ret = schema_finish(&r);
	if (ret == -ENOMEM)
		err_set(e, ENOMEM, "no memory for a JSON Schema");
	json_decref(r.root);
	strbuf_release(&r.path);
	free(r.done);
	if (ret)
		json_nodes_close(j);
	else
		*out = j;
	return ret;
}

void json_nodes_close(struct json_nodes *j)
{
	if (!j)
		return;
	free(j->node);
	free(j->name);
	free(j->kid);
	free(j->leaf);
	strbuf_release(&j->text);
	free(j);
}
