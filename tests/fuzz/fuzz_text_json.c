/*
 * An input is a JSON Schema up to a NUL, followed by a text that the automaton
 * of the schema reads. The code must not crash. If the automaton accepts a
 * beginning of the text, this beginning must be complete, or some byte must be
 * able to follow it.
 */
#include "tests/fuzz/fuzz.h"

#include "base/err.h"
#include "host/text/json_machine.h"

#include <stdlib.h>
#include <string.h>

static void check_goes_on(struct json_machine *m, const struct json_front *at)
{
	struct json_front next;

	if (json_is_whole(m, at))
		return;
	for (unsigned byte = ' '; byte < 256; byte++) {
		json_step(m, at, (unsigned char)byte, &next);
		if (next.n)
			return;
	}
	abort();
}

static void follow(struct json_machine *m, const uint8_t *text, size_t len)
{
	struct json_front front[2];

	json_begin(m, &front[0]);
	for (size_t i = 0; i < len && i < 300; i++) {
		struct json_front *at = &front[i % 2], *next = &front[~i % 2];

		check_goes_on(m, at);
		json_step(m, at, text[i], next);
		if (next->left)
			abort();
		if (!next->n)
			return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
	char *schema = nul ? strdup((const char *)data) : NULL;
	struct json_nodes *nodes = NULL;
	struct json_machine m;
	struct err e = { 0 };

	if (!schema)
		return 0;
	if (!json_nodes_open(&nodes, schema, &e)) {
		fuzz_got_past();
		if (!json_machine_init(&m, nodes))
			follow(&m, nul + 1, size - (size_t)(nul + 1 - data));
		json_machine_release(&m);
	} else if (!e.text[0]) {
		abort();
	}
	json_nodes_close(nodes);
	free(schema);
	return 0;
}

static const char *const seeds[][2] = {
	{ "{}", "{\"a\":[1,-2.5e3,\"x\\u00e9\\ud83c\\udf0a\",null,true]}" },
	{ "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\","
	  "\"minimum\":-5,\"maximum\":20},\"ab\":{\"$ref\":\"#\"}},"
	  "\"required\":[\"a\"],\"additionalProperties\":false}",
		"{\"a\":12,\"ab\":{\"a\":-0}}" },
	{ "{\"anyOf\":[{\"enum\":[1,\"a\",[2]]},{\"type\":\"string\","
	  "\"minLength\":2,\"maxLength\":3},{\"const\":{\"k\":null}}]}",
		"\"a\xc3\xa9\"" },
	{ "{\"items\":{\"$ref\":\"#/$defs/x\"},\"minItems\":1,\"maxItems\":3,"
	  "\"$defs\":{\"x\":{\"type\":[\"number\",\"null\"],"
	  "\"exclusiveMaximum\":0.5}}}",
		"[ -1.25 , null ]" },
};

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	size_t schema, text;

	if (i >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	schema = strlen(seeds[i][0]) + 1;
	text = strlen(seeds[i][1]);
	if (schema + text > cap)
		return 0;
	memcpy(buf, seeds[i][0], schema);
	memcpy(buf + schema, seeds[i][1], text);
	return schema + text;
}
