#include "tests/litmus/litmus.h"

#include "base/checked.h"
#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- values of words ----------------------------------------------------- */

static uint8_t id_of(unsigned agent, unsigned step)
{
	return (uint8_t)(1 + agent * LITMUS_STEPS + step);
}
_Static_assert(LITMUS_AGENTS *LITMUS_STEPS < 255, "an id is a byte");

uint8_t litmus_value(const struct litmus *t, unsigned word, uint8_t id)
{
	if (!id)
		return t->init[word];
	return t->step[(id - 1) / LITMUS_STEPS][(id - 1) % LITMUS_STEPS].value;
}

static bool in_line(const struct litmus *t, unsigned word, unsigned line)
{
	return t->word_line[word] == line;
}

/* Copy the words of a line. */
static void copy_line(
	const struct litmus *t, unsigned line, uint8_t *to, const uint8_t *from)
{
	for (unsigned w = 0; w < t->n_words; w++)
		if (in_line(t, w, line))
			to[w] = from[w];
}

static bool line_equal(const struct litmus *t, unsigned line, const uint8_t *a,
	const uint8_t *b)
{
	for (unsigned w = 0; w < t->n_words; w++)
		if (in_line(t, w, line) && a[w] != b[w])
			return false;
	return true;
}

static void write_words(const struct litmus *t, const struct litmus_step *s,
	uint8_t *to, uint8_t id)
{
	for (unsigned w = 0; w < t->n_words; w++)
		if (s->whole ? in_line(t, w, s->line) : w == s->word)
			to[w] = id;
}

/* ---- the device's cache, by the contract --------------------------------- */

static void bring(const struct litmus *t, struct litmus_state *s, unsigned line)
{
	copy_line(t, line, s->copy, s->memory);
	copy_line(t, line, s->base, s->memory);
	s->valid |= (uint8_t)(1u << line);
}

static void write_back(
	const struct litmus *t, struct litmus_state *s, unsigned line)
{
	if (!line_equal(t, line, s->base, s->memory))
		s->breaches |= LITMUS_LOST_CPU;
	copy_line(t, line, s->memory, s->copy);
	copy_line(t, line, s->base, s->copy);
	s->dirty &= (uint8_t) ~(1u << line);
}

/* The base of an absent line has no meaning, so set it to one value to avoid
 * states that differ only in it. */
static void forget(
	const struct litmus *t, struct litmus_state *s, unsigned line)
{
	for (unsigned w = 0; w < t->n_words; w++)
		if (in_line(t, w, line))
			s->copy[w] = s->base[w] = 0;
	s->valid &= (uint8_t) ~(1u << line);
	s->dirty &= (uint8_t) ~(1u << line);
}

static void clean(const struct litmus *t, struct litmus_state *s, unsigned line)
{
	if (s->dirty >> line & 1)
		write_back(t, s, line);
	s->owed &= (uint8_t) ~(1u << line);
}

static void invalidate(
	const struct litmus *t, struct litmus_state *s, unsigned line)
{
	/* It is a breach if the line was not cleaned before the end of the
	 * request. */
	if (s->owed >> line & 1)
		s->breaches |= s->dirty >> line & 1 ? LITMUS_LOST_DEVICE
						    : LITMUS_NOT_CLEANED;
	s->owed &= (uint8_t) ~(1u << line);
	forget(t, s, line);
}

/* ---- steps --------------------------------------------------------------- */

static void read_to(
	const struct litmus_step *step, struct litmus_state *s, uint8_t id)
{
	s->reg[step->reg] = id;
	s->harmed |= id != s->newest[step->word];
}

static void cpu_read(const struct litmus_step *step, struct litmus_state *s)
{
	if (s->owed >> step->line & 1 &&
		s->memory[step->word] != s->newest[step->word])
		s->breaches |= LITMUS_EARLY_READ;
	read_to(step, s, s->memory[step->word]);
}

static void device_read(const struct litmus *t, const struct litmus_step *step,
	struct litmus_state *s)
{
	if (!(s->valid >> step->line & 1))
		bring(t, s, step->line);
	else if (s->base[step->word] != s->memory[step->word])
		s->breaches |= LITMUS_STALE_READ;
	read_to(step, s, s->copy[step->word]);
}

static void dma_read(const struct litmus_step *step, struct litmus_state *s)
{
	if (s->dirty >> step->line & 1)
		s->breaches |= LITMUS_DMA_DIRTY;
	read_to(step, s, s->memory[step->word]);
}

static void device_write(const struct litmus *t, const struct litmus_step *step,
	struct litmus_state *s, uint8_t id)
{
	/* A line that is written as a whole need not be loaded. It needs only
	 * the base with which it is compared later. */
	if (!(s->valid >> step->line & 1))
		bring(t, s, step->line);
	write_words(t, step, s->copy, id);
	s->dirty |= (uint8_t)(1u << step->line);
	s->owed |= (uint8_t)(1u << step->line);
}

static void write_step(const struct litmus *t, unsigned agent,
	const struct litmus_step *step, struct litmus_state *s, uint8_t id)
{
	if (t->kind[agent] == LITMUS_CPU)
		write_words(t, step, s->memory, id);
	else
		device_write(t, step, s, id);
	write_words(t, step, s->newest, id);
}

static void heed(const struct litmus *t, struct litmus_state *s)
{
	for (unsigned line = 0; line < t->n_lines; line++)
		if (s->heard >> line & 1)
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

static void complete(struct litmus_state *s)
{
	if (s->owed)
		s->breaches |= LITMUS_NOT_CLEANED;
	s->owed = 0;
}

static void agent_step(
	const struct litmus *t, struct litmus_state *s, unsigned agent)
{
	unsigned at = s->pc[agent]++;
	const struct litmus_step *step = &t->step[agent][at];
	bool cpu = t->kind[agent] == LITMUS_CPU;

	switch (step->op) {
	case LITMUS_WRITE:
		write_step(t, agent, step, s, id_of(agent, at));
		break;
	case LITMUS_READ:
		if (cpu)
			cpu_read(step, s);
		else
			device_read(t, step, s);
		break;
	case LITMUS_READ_DMA:
		dma_read(step, s);
		break;
	case LITMUS_CLEAN:
		clean(t, s, step->line);
		break;
	case LITMUS_INVALIDATE:
		invalidate(t, s, step->line);
		break;
	case LITMUS_END:
		s->noted |= (uint8_t)(1u << step->line);
		break;
	case LITMUS_HEED:
		heed(t, s);
		break;
	case LITMUS_COMPLETE:
		complete(s);
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

static unsigned nature_can(const struct litmus_state *s, unsigned line)
{
	if (!(s->valid >> line & 1))
		return LITMUS_FILL;
	return s->dirty >> line & 1 ? LITMUS_WRITE_BACK : LITMUS_DROP;
}

unsigned litmus_moves(const struct litmus *t, const struct litmus_state *s,
	unsigned nature, uint8_t *move)
{
	unsigned n = 0;

	for (unsigned a = 0; a < t->n_agents; a++)
		if (agent_can(t, s, a))
			move[n++] = LITMUS_MOVE(0, a);
	for (unsigned line = 0; line < t->n_lines; line++)
		if (nature_can(s, line) & nature)
			move[n++] = LITMUS_MOVE(nature_can(s, line), line);
	return n;
}

void litmus_move(const struct litmus *t, struct litmus_state *s, uint8_t move)
{
	unsigned who = move & 15;

	switch (move >> 4) {
	case LITMUS_WRITE_BACK:
		write_back(t, s, who);
		break;
	case LITMUS_FILL:
		bring(t, s, who);
		break;
	case LITMUS_DROP:
		forget(t, s, who);
		break;
	default:
		agent_step(t, s, who);
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
	return s->breaches | (s->owed ? LITMUS_NOT_CLEANED : 0u);
}

void litmus_outcome_of(const struct litmus *t, const struct litmus_state *s,
	struct litmus_outcome *o)
{
	memset(o, 0, sizeof(*o));
	for (unsigned r = 0; r < t->n_regs; r++)
		o->value[r] = litmus_value(t, t->reg_word[r], s->reg[r]);
	for (unsigned w = 0; w < t->n_words; w++)
		o->value[LITMUS_REGS + w] = litmus_value(t, w, s->memory[w]);
}
