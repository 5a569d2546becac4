#include "tests/litmus/litmus.h"

#include <string.h>

#define BIT(n) ((uint8_t)(1u << (n)))

static bool has(unsigned set, unsigned n)
{
	return set >> n & 1;
}

static bool in_line(const struct litmus *t, unsigned word, unsigned line)
{
	return t->word_line[word] == line;
}

static bool two_levels(const struct litmus *t)
{
	return t->contract == 2;
}

/* Copy the words of a line from `from`, or set them to 0 if `from` is NULL. */
static void copy_line(
	const struct litmus *t, unsigned line, uint8_t *to, const uint8_t *from)
{
	for (unsigned w = 0; w < t->n_words; w++)
		if (in_line(t, w, line))
			to[w] = from ? from[w] : 0;
}

/* The words that a step accesses, one bit for each. */
static unsigned words_of(const struct litmus *t, const struct litmus_step *step)
{
	unsigned words = 0;

	if (!step->whole)
		return BIT(step->word);
	for (unsigned w = 0; w < t->n_words; w++)
		if (in_line(t, w, step->line))
			words |= BIT(w);
	return words;
}

static void set_words(
	const struct litmus *t, uint8_t *to, unsigned words, uint8_t value)
{
	for (unsigned w = 0; w < t->n_words; w++)
		if (has(words, w))
			to[w] = value;
}

/* ---- the device's cache, by the contracts ---------------------------------
 */

static bool is_dirty(const struct litmus_state *s, unsigned line)
{
	return has(s->dirty | s->second_dirty, line);
}

/* Set the words of a line in `base` to those in memory or, if `held` is false
 * because the cache lost the line, to 0. */
static void set_base(const struct litmus *t, struct litmus_state *s,
	unsigned line, bool held)
{
	copy_line(t, line, s->base, held ? s->memory : NULL);
	for (unsigned w = 0; w < t->n_words; w++)
		if (in_line(t, w, line))
			s->by_dma &= (uint8_t)~BIT(w);
}

/* Load the line into the first level, through the second level if there is one.
 */
static void bring(const struct litmus *t, struct litmus_state *s, unsigned line)
{
	if (!has(s->second_valid, line)) {
		set_base(t, s, line, true);
		copy_line(t, line, s->copy, s->memory);
	}
	if (two_levels(t)) {
		if (!has(s->second_valid, line))
			copy_line(t, line, s->second, s->memory);
		copy_line(t, line, s->copy, s->second);
		s->second_valid |= BIT(line);
	}
	s->valid |= BIT(line);
}

/* Write a line from the last cache level to memory, and record the breaches
 * that the write causes. */
static void write_memory(const struct litmus *t, struct litmus_state *s,
	unsigned line, const uint8_t *from)
{
	bool cpu = false, dma = false;

	for (unsigned w = 0; w < t->n_words; w++)
		if (in_line(t, w, line) && s->base[w] != s->memory[w]) {
			dma |= has(s->by_dma, w);
			cpu |= !has(s->by_dma, w);
		}
	if (cpu)
		s->breaches |= LITMUS_LOST_CPU;
	else if (dma)
		s->breaches |= LITMUS_LOST_DMA;
	copy_line(t, line, s->memory, from);
	set_base(t, s, line, true);
}

/* Write a dirty line back to the next level. */
static void write_back(
	const struct litmus *t, struct litmus_state *s, unsigned line)
{
	if (!two_levels(t)) {
		write_memory(t, s, line, s->copy);
		s->dirty &= (uint8_t)~BIT(line);
	} else if (has(s->dirty, line)) {
		copy_line(t, line, s->second, s->copy);
		s->dirty &= (uint8_t)~BIT(line);
		s->second_valid |= BIT(line);
		s->second_dirty |= BIT(line);
	} else {
		write_memory(t, s, line, s->second);
		s->second_dirty &= (uint8_t)~BIT(line);
	}
}

/* Drop the line from the first level. Its words in `copy`, and in `base` if no
 * level holds the line any more, are set to 0, so that no two states differ
 * only in meaningless values. */
static void forget_first(
	const struct litmus *t, struct litmus_state *s, unsigned line)
{
	copy_line(t, line, s->copy, NULL);
	s->valid &= (uint8_t)~BIT(line);
	s->dirty &= (uint8_t)~BIT(line);
	if (!has(s->second_valid, line))
		set_base(t, s, line, false);
}

static void forget_second(
	const struct litmus *t, struct litmus_state *s, unsigned line)
{
	copy_line(t, line, s->second, NULL);
	s->second_valid &= (uint8_t)~BIT(line);
	s->second_dirty &= (uint8_t)~BIT(line);
	if (!has(s->valid, line))
		set_base(t, s, line, false);
}

static void clean(const struct litmus *t, struct litmus_state *s, unsigned line)
{
	if (has(s->dirty, line))
		write_back(t, s, line);
	if (!two_levels(t))
		s->owed &= (uint8_t)~BIT(line);
}

static void invalidate(
	const struct litmus *t, struct litmus_state *s, unsigned line)
{
	if (has(s->owed, line) && has(s->dirty, line))
		s->breaches |= LITMUS_LOST_DEVICE;
	/* The cache wrote the line back by itself, so the line is not dirty.
	 * But the device invalidates the line without having cleaned it, which
	 * is a breach. */
	else if (has(s->owed, line) && !two_levels(t))
		s->breaches |= LITMUS_NOT_CLEANED;
	if (!two_levels(t) ||
		(has(s->dirty, line) && !has(s->second_dirty, line)))
		s->owed &= (uint8_t)~BIT(line);
	forget_first(t, s, line);
}

static void clean_all(const struct litmus *t, struct litmus_state *s)
{
	for (unsigned line = 0; line < t->n_lines; line++)
		while (is_dirty(s, line))
			write_back(t, s, line);
	s->owed = 0;
}

static void flush_all(const struct litmus *t, struct litmus_state *s)
{
	clean_all(t, s);
	for (unsigned line = 0; line < t->n_lines; line++) {
		forget_second(t, s, line);
		forget_first(t, s, line);
	}
}

/* ---- DMA ------------------------------------------------------------------
 */

/* The transfers that were started and for which no wait has ended, as bits. */
static unsigned pending(const struct litmus_state *s)
{
	return s->started & ~(unsigned)s->awaited;
}

static unsigned from_word(const struct litmus_transfer *d)
{
	return d->to_memory ? d->local : d->memory;
}

static unsigned to_word(const struct litmus_transfer *d)
{
	return d->to_memory ? d->memory : d->local;
}

/* Returns those of `words` that pending transfers write or, if `written` is
 * false, that they read or write. Ignores the transfers in `but`. */
static unsigned in_use(const struct litmus *t, const struct litmus_state *s,
	unsigned words, bool written, unsigned but)
{
	unsigned used = 0;

	for (unsigned i = 0; i < t->n_transfers; i++) {
		if (!has(pending(s) & ~but, i))
			continue;
		used |= BIT(to_word(&t->transfer[i]));
		if (!written)
			used |= BIT(from_word(&t->transfer[i]));
	}
	return words & used;
}

/* Record that the device, or a transfer that starts, reads or writes these
 * words. */
static void use_words(const struct litmus *t, struct litmus_state *s,
	unsigned words, bool writes, unsigned but)
{
	if (in_use(t, s, words, !writes, but))
		s->breaches |= writes ? LITMUS_WRITE_EARLY : LITMUS_READ_EARLY;
	s->unused &= (uint8_t)~words;
}

/* Write a value to memory or to local memory by DMA. */
static void dma_writes(const struct litmus *t, struct litmus_state *s,
	unsigned word, uint8_t value)
{
	unsigned line = t->word_line[word];

	s->memory[word] = value;
	if (line != LITMUS_NO_LINE && has(s->valid | s->second_valid, line))
		s->by_dma |= BIT(word);
}

/* Move the bytes of a transfer. */
static void transfer(const struct litmus *t, struct litmus_state *s, unsigned i)
{
	const struct litmus_transfer *d = &t->transfer[i];

	dma_writes(t, s, to_word(d), s->memory[from_word(d)]);
	s->moved |= BIT(i);
}

static void check_dirty(
	const struct litmus *t, struct litmus_state *s, unsigned word)
{
	if (is_dirty(s, t->word_line[word]))
		s->breaches |= LITMUS_DMA_DIRTY;
}

static void start(const struct litmus *t, struct litmus_state *s,
	const struct litmus_step *step)
{
	unsigned chain = 0;

	for (unsigned i = 0; i < step->n_transfers; i++) {
		const struct litmus_transfer *d =
			&t->transfer[step->transfer[i]];

		check_dirty(t, s, d->memory);
		use_words(t, s, BIT(from_word(d)), false, chain);
		use_words(t, s, BIT(to_word(d)), true, chain);
		chain |= BIT(step->transfer[i]);
		s->started |= BIT(step->transfer[i]);
		s->newest[to_word(d)] = s->newest[from_word(d)];
	}
}

/* End a transfer, after the earlier transfers of its chain. */
static void end_transfer(
	const struct litmus *t, struct litmus_state *s, unsigned i)
{
	const struct litmus_transfer *d = &t->transfer[i];

	if (has(s->awaited, i))
		return;
	if (d->before != LITMUS_TRANSFERS)
		end_transfer(t, s, d->before);
	if (!has(s->moved, i))
		transfer(t, s, i);
	s->awaited |= BIT(i);
	/* Writing a local word to memory is a use of this word. */
	if (d->to_memory)
		s->unused &= (uint8_t)~BIT(d->local);
	else
		s->unused |= BIT(d->local);
}

static void wait_for(const struct litmus *t, struct litmus_state *s, unsigned i)
{
	if (has(s->awaited, i))
		s->breaches |= LITMUS_NEEDLESS_WAIT;
	end_transfer(t, s, i);
}

/* ---- steps --------------------------------------------------------------- */

static void read_to(
	const struct litmus_step *step, struct litmus_state *s, uint8_t value)
{
	s->reg[step->reg] = value;
	s->harmed |= value != s->newest[step->word];
}

static void cpu_read(const struct litmus *t, const struct litmus_step *step,
	struct litmus_state *s)
{
	if ((has(s->owed, step->line) &&
		    s->memory[step->word] != s->newest[step->word]) ||
		in_use(t, s, BIT(step->word), true, 0))
		s->breaches |= LITMUS_CPU_EARLY;
	read_to(step, s, s->memory[step->word]);
}

static void device_read(const struct litmus *t, const struct litmus_step *step,
	struct litmus_state *s)
{
	unsigned word = step->word;
	bool held = has(s->valid | s->second_valid, step->line);

	use_words(t, s, BIT(word), false, 0);
	if (step->line == LITMUS_NO_LINE) {
		read_to(step, s, s->memory[word]);
		return;
	}
	if (!has(s->valid, step->line))
		bring(t, s, step->line);
	if (held && s->base[word] != s->memory[word])
		s->breaches |= has(s->by_dma, word) ? LITMUS_STALE_DMA
						    : LITMUS_STALE_READ;
	read_to(step, s, s->copy[word]);
}

static void device_write(const struct litmus *t, const struct litmus_step *step,
	struct litmus_state *s)
{
	unsigned line = step->line;

	use_words(t, s, words_of(t, step), true, 0);
	if (line == LITMUS_NO_LINE) {
		s->memory[step->word] = step->value;
		return;
	}
	if (has(s->valid, line))
		;
	else if (!step->whole)
		bring(t, s, line);
	/* A line that is written completely is not loaded. But `base` must be
	 * set, because a later difference between `base` and memory means that
	 * the CPU or DMA wrote. */
	else if (!has(s->second_valid, line))
		set_base(t, s, line, true);
	set_words(t, s->copy, words_of(t, step), step->value);
	s->valid |= BIT(line);
	s->dirty |= BIT(line);
	s->owed |= BIT(line);
}

static void cpu_write(const struct litmus *t, const struct litmus_step *step,
	struct litmus_state *s)
{
	unsigned words = words_of(t, step);

	if (in_use(t, s, words, false, 0))
		s->breaches |= LITMUS_CPU_EARLY;
	set_words(t, s->memory, words, step->value);
	s->by_dma &= (uint8_t)~words;
}

/* Perform a DMA step: start a separate transfer and wait for it. */
static void dma_step(const struct litmus *t, const struct litmus_step *step,
	struct litmus_state *s)
{
	bool writes = step->op == LITMUS_WRITE_DMA;

	check_dirty(t, s, step->word);
	use_words(t, s, BIT(step->word), writes, 0);
	if (writes) {
		dma_writes(t, s, step->word, step->value);
		s->newest[step->word] = step->value;
	} else {
		read_to(step, s, s->memory[step->word]);
	}
}

static void heed(const struct litmus *t, struct litmus_state *s)
{
	if (s->heard && two_levels(t))
		flush_all(t, s);
	for (unsigned line = 0; line < t->n_lines && !two_levels(t); line++)
		if (has(s->heard, line))
			invalidate(t, s, line);
	s->heard = 0;
}

static void send(unsigned channel, bool by_cpu, struct litmus_state *s)
{
	uint8_t *n = &s->sent[channel];

	s->declared[channel][*n] = by_cpu ? s->noted : 0;
	if (by_cpu)
		s->noted = 0;
	++*n;
}

static void receive(unsigned channel, bool by_device, struct litmus_state *s)
{
	uint8_t *n = &s->received[channel];

	if (by_device)
		s->heard |= s->declared[channel][*n];
	s->declared[channel][*n] = 0;
	++*n;
}

static void complete(const struct litmus *t, struct litmus_state *s)
{
	s->breaches = (uint16_t)litmus_broken(s);
	s->owed = 0;
	for (unsigned i = 0; i < t->n_transfers; i++)
		if (has(pending(s), i))
			end_transfer(t, s, i);
	s->unused = 0;
}

static void agent_step(
	const struct litmus *t, struct litmus_state *s, unsigned agent)
{
	unsigned at = s->pc[agent]++;
	const struct litmus_step *step = &t->step[agent][at];
	bool cpu = t->kind[agent] == LITMUS_CPU;

	switch (step->op) {
	case LITMUS_WRITE:
		if (cpu)
			cpu_write(t, step, s);
		else
			device_write(t, step, s);
		set_words(t, s->newest, words_of(t, step), step->value);
		break;
	case LITMUS_READ:
		if (cpu)
			cpu_read(t, step, s);
		else
			device_read(t, step, s);
		break;
	case LITMUS_READ_DMA:
	case LITMUS_WRITE_DMA:
		dma_step(t, step, s);
		break;
	case LITMUS_START:
		start(t, s, step);
		break;
	case LITMUS_WAIT:
		wait_for(t, s, step->transfer[0]);
		break;
	case LITMUS_CLEAN:
		clean(t, s, step->line);
		break;
	case LITMUS_INVALIDATE:
		invalidate(t, s, step->line);
		break;
	case LITMUS_CLEAN_ALL:
		clean_all(t, s);
		break;
	case LITMUS_FLUSH_ALL:
		flush_all(t, s);
		break;
	case LITMUS_END:
		s->noted |= BIT(step->line);
		break;
	case LITMUS_HEED:
		heed(t, s);
		break;
	case LITMUS_COMPLETE:
		complete(t, s);
		send(step->channel, false, s);
		break;
	case LITMUS_SEND:
		send(step->channel, cpu, s);
		break;
	case LITMUS_RECEIVE:
		receive(step->channel, t->kind[agent] == LITMUS_DEVICE, s);
		break;
	default: /* LITMUS_BEGIN */
		break;
	}
}

/* ---- moves --------------------------------------------------------------- */

void litmus_begin(const struct litmus *t, struct litmus_state *s)
{
	memset(s, 0, sizeof(*s));
	memcpy(s->memory, t->init, sizeof(s->memory));
	memcpy(s->newest, t->init, sizeof(s->newest));
}

static bool agent_can(
	const struct litmus *t, const struct litmus_state *s, unsigned agent)
{
	const struct litmus_step *step = &t->step[agent][s->pc[agent]];

	if (s->pc[agent] == t->n_steps[agent])
		return false;
	return step->op != LITMUS_RECEIVE ||
		s->received[step->channel] < s->sent[step->channel];
}

/* Returns the set of kinds of enum litmus_nature that can happen to a line in
 * this state. */
static unsigned nature_can(const struct litmus_state *s, unsigned line)
{
	unsigned can = 0;

	if (is_dirty(s, line))
		can |= 1u << LITMUS_WRITE_BACK;
	if (!has(s->valid, line))
		can |= 1u << LITMUS_FILL;
	else if (!has(s->dirty, line))
		can |= 1u << LITMUS_DROP;
	if (has(s->second_valid, line) && !has(s->valid, line) &&
		!has(s->second_dirty, line))
		can |= 1u << LITMUS_DROP_SECOND;
	return can;
}

static bool transfer_can(
	const struct litmus *t, const struct litmus_state *s, unsigned i)
{
	uint8_t before = t->transfer[i].before;

	return has(s->started, i) && !has(s->moved, i) &&
		(before == LITMUS_TRANSFERS || has(s->moved, before));
}

unsigned litmus_moves(const struct litmus *t, const struct litmus_state *s,
	unsigned nature, uint8_t *move)
{
	unsigned n = 0;

	for (unsigned a = 0; a < t->n_agents; a++)
		if (agent_can(t, s, a))
			move[n++] = LITMUS_MOVE(0, a);
	for (unsigned line = 0; line < t->n_lines; line++)
		for (unsigned kind = 1; kind < LITMUS_TRANSFER; kind++)
			if (has(nature_can(s, line) & nature, kind))
				move[n++] = LITMUS_MOVE(kind, line);
	for (unsigned i = 0; i < t->n_transfers; i++)
		if (has(nature, LITMUS_TRANSFER) && transfer_can(t, s, i))
			move[n++] = LITMUS_MOVE(LITMUS_TRANSFER, i);
	return n;
}

void litmus_move(const struct litmus *t, struct litmus_state *s, uint8_t move)
{
	unsigned which = move & 15;

	switch (move >> 4) {
	case LITMUS_WRITE_BACK:
		write_back(t, s, which);
		break;
	case LITMUS_FILL:
		bring(t, s, which);
		break;
	case LITMUS_DROP:
		forget_first(t, s, which);
		break;
	case LITMUS_DROP_SECOND:
		forget_second(t, s, which);
		break;
	case LITMUS_TRANSFER:
		transfer(t, s, which);
		break;
	default:
		agent_step(t, s, which);
	}
}

bool litmus_is_over(const struct litmus *t, const struct litmus_state *s)
{
	for (unsigned a = 0; a < t->n_agents; a++)
		if (s->pc[a] < t->n_steps[a])
			return false;
	return true;
}

unsigned litmus_broken(const struct litmus_state *s)
{
	return s->breaches | (s->owed ? LITMUS_NOT_CLEANED : 0u) |
		(pending(s) ? LITMUS_NO_WAIT : 0u) |
		(s->unused ? LITMUS_NEEDLESS_WAIT : 0u);
}

void litmus_outcome_of(const struct litmus *t, const struct litmus_state *s,
	struct litmus_outcome *o)
{
	memset(o, 0, sizeof(*o));
	memcpy(o->value, s->reg, t->n_regs);
	memcpy(o->value + LITMUS_REGS, s->memory, t->n_words);
}
