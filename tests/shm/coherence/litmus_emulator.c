#include "tests/shm/coherence/litmus_emulator.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "shm/coherence/coherence_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WORD      sizeof(uint32_t)
#define ALL_WORDS (LINE / WORD)
/* Length limit of a random path: evictions and fills can continue for ever. */
#define MOVES_MAX 300

/* ---- a run --------------------------------------------------------------- */

struct way {
	const struct litmus *t;
	struct litmus_run *run;
	struct coherence_cache *cache;
	struct coherence_buffer *buffer;
	struct litmus_state s; /* state of the model */
	_Alignas(LINE) uint32_t memory[LITMUS_LINES][ALL_WORDS];
	uint32_t local[LITMUS_WORDS];
	unsigned offset[LITMUS_WORDS]; /* byte offset of a word in `memory` */
	struct coherence_dma transfer[LITMUS_TRANSFERS];
	uint32_t request;
	uint64_t drawn;
	struct err *e;
};

/* Phrases of the checker's reports. A phrase occurs only in reports about its
 * rule. */
static const struct {
	const char *says;
	unsigned rule;
} said[] = {
	{ ": written by the CPU since ", LITMUS_STALE_READ },
	{ ": written back over bytes that the CPU ", LITMUS_LOST_CPU },
	{ "torn line: ", LITMUS_LOST_CPU },
	{ ": dropped with ", LITMUS_LOST_DEVICE },
	{ ", but not cleaned: ", LITMUS_NOT_CLEANED },
	{ "DMA over dirty lines: ", LITMUS_DMA_DIRTY },
	{ ": written by DMA of ", LITMUS_STALE_DMA },
	{ ": written back over bytes that DMA ", LITMUS_LOST_DMA },
	{ "read before a wait: ", LITMUS_READ_EARLY },
	{ "write before a wait: ", LITMUS_WRITE_EARLY },
	{ "missing wait: ", LITMUS_NO_WAIT },
	{ "needless wait: ", LITMUS_NEEDLESS_WAIT },
	{ "needless maintenance: ", 0 },
};

static void take_report(void *arg, const char *text)
{
	struct litmus_run *run = arg;
	unsigned rule = 1u << LITMUS_BREACHES; /* an unknown rule */

	for (size_t i = 0; i < ARRAY_LEN(said); i++)
		if (strstr(text, said[i].says))
			rule = said[i].rule;
	if (rule && !run->reported)
		snprintf(run->report, sizeof(run->report), "%s", text);
	run->reported |= rule;
}

static uint32_t draw(struct way *w, uint32_t below)
{
	uint32_t word[4];

	rng_words(w->run->seed, 0, w->drawn++, word);
	return word[0] % below;
}

static bool is_local(const struct way *w, unsigned word)
{
	return w->t->word_line[word] == LITMUS_NO_LINE;
}

/* Returns the address of a word in memory or in local memory, not in the
 * cache. */
static uint32_t *word_at(struct way *w, unsigned word)
{
	return is_local(w, word) ? &w->local[word]
				 : &w->memory[0][0] + w->offset[word] / WORD;
}

static int differs(struct way *w, const char *where, unsigned word,
	uint32_t got, uint32_t want)
{
	return err_set(w->e, EILSEQ,
		"%s, level %s, seed %llu, path of %u: %s %s is %u, the model "
		"has %u",
		w->t->name, coherence_names[w->run->level],
		(unsigned long long)w->run->seed, w->run->moves, where,
		w->t->word_name[word], got, want);
}

/* With level off there is no cache, and DMA takes no time. */
static bool is_off(const struct way *w)
{
	return w->run->level == COHERENCE_OFF;
}

static int compare_memory(struct way *w)
{
	const uint8_t *want = is_off(w) ? w->s.newest : w->s.memory;

	for (unsigned i = 0; i < w->t->n_words; i++)
		if (*word_at(w, i) != want[i])
			return differs(
				w, "memory of", i, *word_at(w, i), want[i]);
	return 0;
}

/* ---- events without a step ----------------------------------------------- */

/* Drop a line that is not dirty. If the device wrote the line and has not
 * cleaned it, the bits that record this remain. */
static void drop(struct way *w, unsigned line)
{
	uint16_t *state = &w->buffer->state[line];

	if (*state & LINE_VALID && *state & LINE_L2_VALID)
		*state &= (uint16_t) ~(LINE_VALID | LINE_STALE);
	else
		*state &= LINE_WRITTEN | LINE_OWED | LINE_EVICTED | LINE_FRESH;
}

static void move_transfer(struct way *w, unsigned transfer)
{
	struct coherence_cache *c = w->cache;

	for (unsigned i = 0; i < c->n_pending; i++)
		if (c->pending[i].number == w->transfer[transfer].number)
			dma_move(c, &c->pending[i]);
}

static void play_nature(struct way *w, uint8_t move)
{
	unsigned which = move & 15;

	switch (move >> 4) {
	case LITMUS_WRITE_BACK:
		line_evict(&w->cache->maintenance, w->buffer, which);
		break;
	case LITMUS_FILL:
		/* Read bytes that no test accesses, so that the read breaks no
		 * rule. */
		coherence_read(
			w->cache, w->buffer, which * LINE + LINE - WORD, WORD);
		break;
	case LITMUS_TRANSFER:
		move_transfer(w, which);
		break;
	default:
		drop(w, which);
	}
	litmus_move(w->t, &w->s, move);
}

/* ---- agents -------------------------------------------------------------- */

static uint32_t read_word(
	struct way *w, const struct litmus_step *step, bool cpu)
{
	unsigned at = w->offset[step->word];
	uint32_t value;

	if (step->op == LITMUS_READ_DMA) {
		coherence_dma_read(w->cache, w->buffer, at, WORD, &value);
		coherence_local(w->cache, &value, WORD, COHERENCE_READ);
		return value;
	}
	if (is_local(w, step->word))
		coherence_local(
			w->cache, &w->local[step->word], WORD, COHERENCE_READ);
	else if (!cpu)
		return *(const uint32_t *)coherence_read(
			w->cache, w->buffer, at, WORD);
	return *word_at(w, step->word);
}

static void write_word(struct way *w, const struct litmus_step *step, bool cpu)
{
	unsigned at = step->whole ? step->line * LINE : w->offset[step->word];
	size_t bytes = step->whole ? LINE : WORD;
	uint32_t *to = word_at(w, step->word);

	if (is_local(w, step->word)) {
		coherence_local(w->cache, to, WORD, COHERENCE_WRITE);
	} else if (cpu) {
		coherence_host_begin(w->cache, w->buffer, at, bytes,
			COHERENCE_WRITE, "litmus");
		to = &w->memory[0][0] + at / WORD;
	} else {
		to = coherence_write(w->cache, w->buffer, at, bytes);
	}
	for (size_t i = 0; i < bytes / WORD; i++)
		to[i] = step->value;
	if (cpu)
		coherence_host_end(w->cache, w->buffer, at, bytes,
			COHERENCE_WRITE, "litmus");
}

static void start(struct way *w, const struct litmus_step *step)
{
	struct coherence_dma *next = NULL;

	for (unsigned i = step->n_transfers; i-- > 0;) {
		const struct litmus_transfer *d =
			&w->t->transfer[step->transfer[i]];
		struct coherence_dma *dma = &w->transfer[step->transfer[i]];

		*dma = (struct coherence_dma){
			.buffer = w->buffer,
			.offset = w->offset[d->memory],
			.local = &w->local[d->local],
			.bytes = WORD,
			.to_buffer = d->to_memory,
			.next = next,
		};
		next = dma;
	}
	coherence_dma_start(w->cache, next);
}

static void heed(struct way *w)
{
	if (w->s.heard && w->t->contract == 2)
		coherence_flush_all(w->cache);
	for (unsigned line = 0; line < w->t->n_lines && w->t->contract == 1;
		line++)
		if (w->s.heard >> line & 1)
			coherence_invalidate(
				w->cache, w->buffer, line * LINE, LINE, 0, 0);
}

static void act(struct way *w, const struct litmus_step *step, bool cpu)
{
	unsigned line = step->line * LINE;
	uint32_t value = step->value;
	const char *first;

	switch (step->op) {
	case LITMUS_WRITE:
		write_word(w, step, cpu);
		break;
	case LITMUS_WRITE_DMA:
		coherence_dma_write(w->cache, w->buffer, w->offset[step->word],
			WORD, &value);
		break;
	case LITMUS_START:
		start(w, step);
		break;
	case LITMUS_WAIT:
		coherence_dma_wait(w->cache, &w->transfer[step->transfer[0]]);
		break;
	case LITMUS_CLEAN:
		coherence_clean(w->cache, w->buffer, line, LINE);
		break;
	case LITMUS_INVALIDATE:
		coherence_invalidate(w->cache, w->buffer, line, LINE, 0, 0);
		break;
	case LITMUS_CLEAN_ALL:
		coherence_clean_all(w->cache);
		break;
	case LITMUS_FLUSH_ALL:
		coherence_flush_all(w->cache);
		break;
	case LITMUS_HEED:
		heed(w);
		break;
	case LITMUS_COMPLETE:
		coherence_end(w->cache, &first);
		coherence_begin(w->cache, ++w->request);
		break;
	default: /* messages do not pass through the cache */
		break;
	}
}

static int play_agent(struct way *w, unsigned agent)
{
	const struct litmus_step *step = &w->t->step[agent][w->s.pc[agent]];
	bool cpu = w->t->kind[agent] == LITMUS_CPU;
	bool reads = step->op == LITMUS_READ || step->op == LITMUS_READ_DMA;
	uint32_t got = 0, want = w->s.newest[step->word];

	if (reads)
		got = read_word(w, step, cpu);
	else
		act(w, step, cpu);
	litmus_move(w->t, &w->s, LITMUS_MOVE(0, agent));
	if (!reads)
		return 0;
	if (!is_off(w))
		want = w->s.reg[step->reg];
	return got == want ? 0 : differs(w, "a read of", step->word, got, want);
}

/* ---- a whole run --------------------------------------------------------- */

/* Choose the next move at random: in two of three cases a step of an agent,
 * else a step or an event. Returns false if the run ends. */
static bool choose(struct way *w, unsigned n, uint8_t *move)
{
	unsigned nature = is_off(w) ? 0 : w->t->nature;
	uint8_t can[LITMUS_MOVES_MAX];
	unsigned all = litmus_moves(w->t, &w->s, nature, can), agents = 0;

	while (agents < all && !(can[agents] >> 4))
		agents++;
	if (!all || n == MOVES_MAX || (!agents && draw(w, 2)))
		return false;
	if (agents && (agents == all || draw(w, 3)))
		all = agents;
	*move = can[draw(w, all)];
	return true;
}

static int go(struct way *w)
{
	struct litmus_run *run = w->run;
	uint8_t move;
	int ret = 0;

	for (unsigned n = 0; !ret; n++) {
		if (run->path ? n == run->moves : !choose(w, n, &move))
			break;
		if (run->path)
			move = run->path[n];
		if (move >> 4)
			play_nature(w, move);
		else
			ret = play_agent(w, move);
		if (!ret)
			ret = compare_memory(w);
	}
	return ret;
}

static void set_up(struct way *w)
{
	unsigned in_line[LITMUS_LINES + 1] = { 0 };

	litmus_begin(w->t, &w->s);
	for (unsigned i = 0; i < w->t->n_words; i++) {
		unsigned line = w->t->word_line[i];

		if (!is_local(w, i))
			w->offset[i] = (unsigned)(line * LINE +
				WORD * in_line[line]++);
		*word_at(w, i) = w->t->init[i];
	}
	w->request = 1;
	coherence_begin(w->cache, 1);
}

int litmus_emulate(
	const struct litmus *t, struct litmus_run *run, struct err *e)
{
	struct way w = { .t = t, .run = run, .e = e };
	const struct coherence_config config = {
		.level = run->level,
		.contract = (enum coherence_contract)t->contract,
		.report = take_report,
		.arg = run,
		.report_every = true,
	};
	const char *first;
	int ret = coherence_open(&w.cache, &config);

	run->reported = 0;
	run->report[0] = '\0';
	if (ret)
		return err_sys(e, -ret, "cannot open a cache");
	w.buffer = coherence_register(
		w.cache, "litmus", w.memory, sizeof(w.memory), 0, 0);
	if (!w.buffer) {
		coherence_close(w.cache);
		return err_set(e, ENOMEM, "no memory for a buffer");
	}
	set_up(&w);
	ret = go(&w);
	litmus_outcome_of(t, &w.s, &run->outcome);
	run->broken = litmus_broken(&w.s);
	coherence_end(w.cache, &first);
	coherence_close(w.cache);
	return ret;
}
