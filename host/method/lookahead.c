#include "host/method/lookahead.h"

/* As many as cost nothing, or what is allowed; each row costs at least as much
 * as the one before it, so the first refusal is the last. */
static uint32_t look_ahead(
	const struct window_rule *rule, uint32_t rows, uint32_t most)
{
	uint64_t now = rule->pass(rule->arg, rows);
	uint64_t allowed = now + (uint64_t)((double)now * rule->allowance);

	while (rows < most && rule->pass(rule->arg, rows + 1) <= allowed)
		rows++;
	return rows;
}

uint32_t window_end(const struct window_rule *rule, uint32_t from,
	uint32_t block_end, uint32_t masks, uint32_t most)
{
	uint32_t rows = block_end - from;

	if (rows < rule->slide)
		rows = rule->slide;
	if (rows > most - from)
		rows = most - from;
	if (rule->late && masks <= rule->late)
		rows = look_ahead(rule, rows, most - from);
	return from + rows;
}
