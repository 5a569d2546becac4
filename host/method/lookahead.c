#include "host/method/lookahead.h"

uint32_t window_end(const struct window_rule *rule, uint32_t from,
	uint32_t block_end, uint32_t masks, uint32_t most)
{
	uint32_t rows = block_end - from;

	if (rows < rule->slide)
		rows = rule->slide;
	if (rows > most - from)
		rows = most - from;
	if (rule->late && masks <= rule->late) {
		/* Adding a row never makes a pass faster, so the first row that
		 * is too expensive ends the search. */
		uint64_t now = rule->pass(rule->arg, rows);
		uint64_t allowed =
			now + (uint64_t)((double)now * rule->allowance);

		while (rows < most - from &&
			rule->pass(rule->arg, rows + 1) <= allowed)
			rows++;
	}
	return from + rows;
}
