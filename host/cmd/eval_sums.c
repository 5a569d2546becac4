#include "host/cmd/eval_sums.h"

#include "host/eval/eval.h"
#include "host/eval/sums.h"

static json_t *tallies_json(const struct eval_result *r)
{
	json_t *list = json_pack(
		"[[I, I]]", (json_int_t)r->all.right, (json_int_t)r->all.total);

	for (unsigned i = 0; i < EVAL_LEVELS; i++)
		json_array_append_new(list,
			json_pack("[I, I]", (json_int_t)r->level[i].right,
				(json_int_t)r->level[i].total));
	return list;
}

/* A hash has all of 64 bits, of which an integer has 63. */
static json_t *halves(uint64_t v)
{
	return json_pack(
		"[I, I]", (json_int_t)(v >> 32), (json_int_t)(v & UINT32_MAX));
}

json_t *eval_sums_json(const struct eval_result *from)
{
	json_t *o = json_object();

	json_object_set_new(o, "marked", json_boolean(from->marked));
	json_object_set_new(o, "tallies", tallies_json(from));
	EVAL_SUMS(SUMS_PUT)
	json_object_set_new(o, "logits_hash", halves(from->logits_hash));
	json_object_set_new(o, "decode_rows", sums_of_rows(&from->decode_rows));
	json_object_set_new(o, "drafts", sums_of_drafts(&from->drafts));
	return o;
}

/* Two numbers. */
static bool read_pair(const json_t *pair, uint64_t *a, uint64_t *b)
{
	json_int_t first, second;

	if (json_unpack((json_t *)(uintptr_t)pair, "[II!]", &first, &second) ||
		first < 0 || second < 0)
		return false;
	*a = (uint64_t)first;
	*b = (uint64_t)second;
	return true;
}

static bool read_tally(const json_t *pair, struct eval_tally *t)
{
	return read_pair(pair, &t->right, &t->total) && t->right <= t->total;
}

static bool read_tallies(const json_t *list, struct eval_result *r)
{
	bool good = json_array_size(list) == EVAL_LEVELS + 1 &&
		read_tally(json_array_get(list, 0), &r->all);

	for (unsigned i = 0; good && i < EVAL_LEVELS; i++)
		good = read_tally(json_array_get(list, i + 1), &r->level[i]);
	return good;
}

bool eval_sums_read(const json_t *o, struct eval_result *to)
{
	const json_t *marked = json_object_get(o, "marked");
	uint64_t high, low;
	bool good = json_is_boolean(marked) &&
		read_tallies(json_object_get(o, "tallies"), to) &&
		read_pair(json_object_get(o, "logits_hash"), &high, &low) &&
		sums_to_rows(
			json_object_get(o, "decode_rows"), &to->decode_rows) &&
		sums_to_drafts(json_object_get(o, "drafts"), &to->drafts);

	if (!good)
		return false;
	to->marked = json_is_true(marked);
	to->logits_hash = high << 32 | low;
	EVAL_SUMS(SUMS_GET)
	return good;
}
