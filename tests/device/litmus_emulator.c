#include "tests/device/litmus_emulator.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "device/cache.h"
#include "device/fault.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (LITMUS_LINES * COHERENCE_LINE)
#define WORD  sizeof(uint32_t)
/* Length limit of a random path: evictions and fills can continue for ever. */
#define MOVES_MAX 300

/* ---- memory and cache ------------------------------------------------------
 */

int litmus_emulator_open(struct litmus_emulator *m, struct err *e)
{
	struct wire_share share = { .bytes = BYTES, .name = "test:litmus" };
	struct window_space space;
	int fd = memfd_create("test", MFD_CLOEXEC);
	int ret = -1;

	memset(m, 0, sizeof(*m));
	if (fd < 0 || ftruncate(fd, BYTES))
		return err_sys(e, errno, "memfd");
	m->cpu = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m->cpu == MAP_FAILED)
		ret = err_sys(e, errno, "mmap");
	else
		ret = window_init(&m->window, 16 << 20, 1, e);
	if (!ret)
		ret = window_map(
			&m->window, &share, fd, &m->mapping, &space, e);
	close(fd);
	return ret;
}

void litmus_emulator_close(struct litmus_emulator *m)
{
	window_unmap(&m->window, m->mapping);
	window_release(&m->window);
	munmap(m->cpu, BYTES);
}

/* ---- a run
 * ------------------------------------------------------------------- */

struct way {
	struct litmus_emulator *m;
	const struct litmus *t;
	struct litmus_run *run;
	struct cache *cache;
	struct litmus_state s;
	uint8_t offset[LITMUS_WORDS]; /* in the buffer */
	uint32_t request, bracket;
	uint64_t drawn;
	struct err *e;
};

/* A phrase that only the report of this rule contains. */
static const struct {
	const char *says;
	unsigned rule;
} said[] = {
	{ "stale read: ", LITMUS_STALE_READ },
	{ ": cleaned over ", LITMUS_LOST_CPU },
	{ ": dropped what ", LITMUS_LOST_DEVICE },
	{ ": not cleaned of ", LITMUS_NOT_CLEANED },
	{ "DMA over dirty lines: ", LITMUS_DMA_DIRTY },
	{ "needless maintenance: ", 0 },
	{ " more like this in ", 0 },
};

static void take_report(void *arg, const char *text)
{
	struct litmus_run *run = arg;
	unsigned rule = 1u << LITMUS_BREACHES; /* an unknown one */

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

static uint32_t *cpu_word(const struct way *w, unsigned word)
{
	return (uint32_t *)(void *)(w->m->cpu + w->offset[word]);
}

static uint32_t address(const struct way *w, unsigned offset)
{
	return w->m->mapping->addr + offset;
}

static int differs(struct way *w, const char *where, unsigned word,
	uint32_t got, uint32_t want)
{
	return err_set(w->e, EILSEQ,
		"%s, level %s, seed %llu, evictor %llu, path of %u: %s %s is "
		"%u, the model has %u",
		w->t->name, coherence_names[w->run->level],
		(unsigned long long)w->run->seed,
		(unsigned long long)w->run->evict_seed, w->run->moves, where,
		w->t->word_name[word], got, want);
}

/* With level off there is no cache, so all agents read the newest value. */
static uint8_t seen_by_all(const struct way *w, unsigned word)
{
	return w->run->level == COHERENCE_OFF ? w->s.newest[word]
					      : w->s.memory[word];
}

static int compare_memory(struct way *w)
{
	for (unsigned i = 0; i < w->t->n_words; i++) {
		uint32_t want = litmus_value(w->t, i, seen_by_all(w, i));

		if (*cpu_word(w, i) != want)
			return differs(
				w, "memory of", i, *cpu_word(w, i), want);
	}
	return 0;
}

/* ---- evictions and fills
 * ------------------------------------------------------------------ */

/* The evictor ran: the model writes the same lines back, as memory shows. */
static void follow_evictor(struct way *w)
{
	uint8_t lines = 0;

	for (unsigned i = 0; i < w->t->n_words; i++)
		if (*cpu_word(w, i) != litmus_value(w->t, i, w->s.memory[i]))
			lines |= (uint8_t)(1u << w->t->word_line[i]);
	for (unsigned line = 0; line < w->t->n_lines; line++)
		if ((lines & w->s.dirty) >> line & 1)
			litmus_move(w->t, &w->s,
				LITMUS_MOVE(LITMUS_WRITE_BACK, line));
}

static void play_nature(struct way *w, uint8_t move)
{
	unsigned line = move & 15;
	uint32_t at = address(w, line * COHERENCE_LINE);
	uint8_t dirty = w->s.dirty;

	switch (move >> 4) {
	case LITMUS_WRITE_BACK:
		if (!w->run->hand) {
			cache_operator(w->cache, "litmus", -1);
			follow_evictor(w);
			w->run->strayed |= (dirty ^ w->s.dirty) != 1u << line;
			return;
		}
		cache_clean(w->cache, at, COHERENCE_LINE);
		break;
	case LITMUS_FILL:
		view_read(w->cache, at, COHERENCE_LINE);
		break;
	default:
		cache_invalidate(w->cache, at, COHERENCE_LINE, ++w->bracket, 0);
	}
	litmus_move(w->t, &w->s, move);
}

/* ---- agents
 * ------------------------------------------------------------------ */

static uint32_t read_word(
	struct way *w, const struct litmus_step *step, bool cpu)
{
	uint8_t tcm[WORD];
	uint32_t at = address(w, w->offset[step->word]), value;
	const void *p = cpu_word(w, step->word);

	if (step->op == LITMUS_READ_DMA)
		p = dma_read(w->cache, at, WORD, tcm);
	else if (!cpu)
		p = view_read(w->cache, at, WORD);
	memcpy(&value, p, sizeof(value));
	return value;
}

static void write_word(struct way *w, const struct litmus_step *step, bool cpu)
{
	unsigned from = step->whole ? step->line * COHERENCE_LINE
				    : w->offset[step->word];
	size_t len = step->whole ? COHERENCE_LINE : WORD;
	uint8_t *p = cpu ? w->m->cpu + from
			 : view_write(w->cache, address(w, from), len);
	uint32_t value = step->value;

	for (size_t i = 0; i < len; i += WORD)
		memcpy(p + i, &value, WORD);
}

static void heed(struct way *w)
{
	for (unsigned line = 0; line < w->t->n_lines; line++)
		if (w->s.heard >> line & 1)
			cache_invalidate(w->cache,
				address(w, line * COHERENCE_LINE),
				COHERENCE_LINE, ++w->bracket, 0);
}

/* The evictor may also run at a request's end. */
static void end_request(struct way *w)
{
	struct wire_counters counters;
	char text[176];

	cache_end(w->cache, &counters, text, sizeof(text));
	if (w->run->level != COHERENCE_OFF)
		follow_evictor(w);
}

static void act(struct way *w, const struct litmus_step *step, bool cpu)
{
	uint32_t line = address(w, step->line * COHERENCE_LINE);

	switch (step->op) {
	case LITMUS_WRITE:
		write_word(w, step, cpu);
		break;
	case LITMUS_CLEAN:
		cache_clean(w->cache, line, COHERENCE_LINE);
		break;
	case LITMUS_INVALIDATE:
		cache_invalidate(
			w->cache, line, COHERENCE_LINE, ++w->bracket, 0);
		break;
	case LITMUS_HEED:
		heed(w);
		break;
	case LITMUS_COMPLETE:
		end_request(w);
		cache_begin(w->cache, ++w->request);
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
	uint32_t got = 0, want;
	uint8_t id = w->s.newest[step->word];

	if (reads)
		got = read_word(w, step, cpu);
	else
		act(w, step, cpu);
	litmus_move(w->t, &w->s, LITMUS_MOVE(0, agent));
	if (!reads)
		return 0;
	if (w->run->level != COHERENCE_OFF)
		id = w->s.reg[step->reg];
	want = litmus_value(w->t, step->word, id);
	return got == want ? 0 : differs(w, "a read of", step->word, got, want);
}

/* ---- a whole run
 * ---------------------------------------------------- */

/* The evictions and fills that are possible now. */
static unsigned nature_of(const struct way *w)
{
	unsigned nature = w->t->nature;

	if (w->run->level == COHERENCE_OFF)
		return 0;
	if (w->run->level == COHERENCE_CHECK)
		nature &= ~(unsigned)LITMUS_DROP;
	if (!w->run->evict_seed && !w->run->hand)
		nature &= ~(unsigned)LITMUS_WRITE_BACK;
	return nature;
}

/* Agents move twice as often as evictions and fills occur. */
static bool choose(struct way *w, unsigned n, uint8_t *move)
{
	uint8_t can[LITMUS_MOVES_MAX];
	unsigned all = litmus_moves(w->t, &w->s, nature_of(w), can), agents = 0;

	while (agents < all && !(can[agents] >> 4))
		agents++;
	if (!all || n == MOVES_MAX || (!agents && draw(w, 2)))
		return false;
	if (agents && (agents == all || draw(w, 3)))
		all = agents;
	*move = can[draw(w, all)];
	return true;
}

static bool path_can(const struct way *w, uint8_t move)
{
	uint8_t can[LITMUS_MOVES_MAX];
	unsigned n = litmus_moves(w->t, &w->s, LITMUS_NATURE_ALL, can);

	return memchr(can, move, n) != NULL;
}

static int go(struct way *w)
{
	struct litmus_run *run = w->run;
	uint8_t move;
	int ret = 0;

	for (unsigned n = 0; !ret; n++) {
		if (run->path ? n == run->moves : !choose(w, n, &move))
			break;
		if (run->path) {
			move = run->path[n];
			if (!path_can(w, move)) {
				run->strayed = true;
				break;
			}
		}
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
	unsigned in_line[LITMUS_LINES] = { 0 };

	memset(w->m->cpu, 0, BYTES);
	for (unsigned i = 0; i < w->t->n_words; i++) {
		unsigned line = w->t->word_line[i];

		w->offset[i] = (uint8_t)(line * COHERENCE_LINE +
			WORD * in_line[line]++);
		*cpu_word(w, i) = w->t->init[i];
	}
	litmus_begin(w->t, &w->s);
	w->request = 1;
	cache_begin(w->cache, 1);
}

int litmus_emulate(struct litmus_emulator *m, const struct litmus *t,
	struct litmus_run *run, struct err *e)
{
	struct way w = { .m = m, .t = t, .run = run, .e = e };
	struct fault none = { 0 };
	struct cache_config config = {
		.level = run->level,
		.evict_seed = run->hand || !(t->nature & LITMUS_WRITE_BACK)
			? 0
			: run->evict_seed,
		.fault = &none,
		.report = take_report,
		.report_arg = run,
	};
	int ret;

	run->reported = 0;
	run->report[0] = '\0';
	run->strayed = false;
	ret = cache_open(&w.cache, &config, &m->window, e);
	if (ret)
		return ret;
	ret = cache_attach(w.cache, m->mapping, e);
	if (!ret) {
		set_up(&w);
		ret = go(&w);
		litmus_outcome_of(t, &w.s, &run->outcome);
		end_request(&w);
		run->broken = litmus_broken(&w.s);
		cache_detach(w.cache, m->mapping);
	}
	cache_close(w.cache);
	return ret;
}
