/*
 * Litmus tests of the one-way coherence contract
 * (shm/coherence/tandem_coherence.h): the struct of a test, its text (README.md
 * in this folder), a model that enumerates every outcome that the contract
 * allows, and tests generated from cycles.
 *
 * The model is written from the contract and shares no code with the device's
 * cache, whose headers are not included here. Plain values; callers release the
 * memory that litmus_explore and litmus_cycles allocate. Any thread.
 */
#ifndef TESTS_LITMUS_LITMUS_H
#define TESTS_LITMUS_LITMUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define LITMUS_AGENTS   4
#define LITMUS_STEPS    40 /* of an agent */
#define LITMUS_WORDS    8
#define LITMUS_LINES    4
#define LITMUS_CHANNELS 8
#define LITMUS_MESSAGES 4 /* through a channel */
#define LITMUS_REGS     12
#define LITMUS_RESULTS  (LITMUS_REGS + LITMUS_WORDS)
#define LITMUS_OUTCOMES 64 /* that a test lists */
#define LITMUS_NAME     80
#define LITMUS_TEXT     8192 /* of a whole test */

enum litmus_agent { LITMUS_CPU, LITMUS_DEVICE, LITMUS_DMA };

enum litmus_op {
	LITMUS_WRITE,
	LITMUS_READ,     /* through the cache, if the agent has one */
	LITMUS_READ_DMA, /* past it */
	LITMUS_CLEAN,
	LITMUS_INVALIDATE,
	LITMUS_BEGIN, /* the CPU opens a bracket: orders nothing */
	LITMUS_END,   /* and closes it: the next message declares the line */
	LITMUS_HEED,  /* invalidate the lines that messages declared */
	LITMUS_SEND,
	LITMUS_RECEIVE,  /* waits */
	LITMUS_COMPLETE, /* the device's request ends; then as SEND */
	LITMUS_OPS
};

struct litmus_step {
	enum litmus_op op;
	uint8_t word; /* of an access */
	uint8_t line; /* of an access or maintenance */
	bool whole;   /* a write of all words of the line */
	uint8_t value, reg, channel;
};

/* What the cache may do by itself at any time, with any line. */
enum litmus_nature {
	LITMUS_WRITE_BACK = 1, /* of a dirty line, which stays */
	LITMUS_FILL = 2,       /* of a line that is absent */
	LITMUS_DROP = 4,       /* of a line that is not dirty */
};
#define LITMUS_NATURE_ALL (LITMUS_WRITE_BACK | LITMUS_FILL | LITMUS_DROP)

/* Rules of the contract, as they are broken. */
enum litmus_breach {
	LITMUS_STALE_READ = 1,  /* the CPU wrote it after the line was loaded */
	LITMUS_LOST_CPU = 2,    /* a write-back overwrites the CPU's bytes */
	LITMUS_LOST_DEVICE = 4, /* written, and dropped before a clean */
	LITMUS_NOT_CLEANED = 8, /* written, and the request ends */
	LITMUS_DMA_DIRTY = 16,  /* DMA past a dirty line */
	LITMUS_EARLY_READ =
		32, /* the CPU reads bytes that are not cleaned yet */
};
#define LITMUS_BREACHES 6
/* The device cannot detect the CPU's reads. */
#define LITMUS_OF_DEVICE (~(unsigned)LITMUS_EARLY_READ)

/* Values of all registers, then of all words in memory at the end. */
struct litmus_outcome {
	uint8_t value[LITMUS_RESULTS];
};

struct litmus {
	char name[LITMUS_NAME];
	unsigned n_agents, n_words, n_lines, n_channels, n_regs;
	enum litmus_agent kind[LITMUS_AGENTS];
	char agent_name[LITMUS_AGENTS][8];
	unsigned n_steps[LITMUS_AGENTS];
	struct litmus_step step[LITMUS_AGENTS][LITMUS_STEPS];
	char word_name[LITMUS_WORDS][8], line_name[LITMUS_LINES][8];
	char channel_name[LITMUS_CHANNELS][8], reg_name[LITMUS_REGS][8];
	uint8_t word_line[LITMUS_WORDS], init[LITMUS_WORDS];
	uint8_t reg_word[LITMUS_REGS]; /* the word that it was read from */
	unsigned nature;               /* enum litmus_nature, or-ed */
	unsigned breaches;             /* enum litmus_breach that are stated */
	/* Stated: outcomes by the results that are named, and no others. */
	bool named[LITMUS_RESULTS];
	unsigned n_allowed, n_forbidden;
	struct litmus_outcome allowed[LITMUS_OUTCOMES];
	struct litmus_outcome forbidden[LITMUS_OUTCOMES];
};

/* ---- text --------------------------------------------------------------- */

/* -EINVAL with the line number. */
int litmus_parse(struct litmus *, const char *text, struct err *);
/* The length, below LITMUS_TEXT. */
size_t litmus_print(const struct litmus *, char text[LITMUS_TEXT]);
void litmus_print_outcome(const struct litmus *, const struct litmus_outcome *,
	char *text, size_t size);
void litmus_print_breaches(unsigned breaches, char *text, size_t size);

/* ---- model -------------------------------------------------------------- */

/* The number of the write whose value each place has: 0 the initial value, then
 * in the order of the test's agents and steps. */
struct litmus_state {
	uint8_t pc[LITMUS_AGENTS];
	uint8_t memory[LITMUS_WORDS], copy[LITMUS_WORDS];
	uint8_t base[LITMUS_WORDS];   /* memory's when last equal */
	uint8_t newest[LITMUS_WORDS]; /* if there were no cache */
	uint8_t valid, dirty;         /* a bit a line */
	uint8_t owed;                 /* written, and no clean since */
	uint8_t breaches;             /* so far */
	uint8_t harmed;               /* an old value was read */
	uint8_t noted, heard;         /* lines to declare, and to invalidate */
	uint8_t sent[LITMUS_CHANNELS], received[LITMUS_CHANNELS];
	uint8_t declared[LITMUS_CHANNELS][LITMUS_MESSAGES];
	uint8_t reg[LITMUS_REGS];
};

/* A move: an agent's next step, or one of the cache with a line. */
#define LITMUS_MOVE(nature, line) ((uint8_t)((nature) << 4 | (line)))
#define LITMUS_MOVES_MAX          256

void litmus_begin(const struct litmus *, struct litmus_state *);
/* The possible moves, to move[], at most LITMUS_MOVES_MAX. */
unsigned litmus_moves(const struct litmus *, const struct litmus_state *,
	unsigned nature, uint8_t *move);
void litmus_move(const struct litmus *, struct litmus_state *, uint8_t move);
bool litmus_is_over(const struct litmus *, const struct litmus_state *);
/* The rules broken by a run that ended here. */
unsigned litmus_broken(const struct litmus_state *);
void litmus_outcome_of(const struct litmus *, const struct litmus_state *,
	struct litmus_outcome *);
/* The value that write number `id` gave the word. */
uint8_t litmus_value(const struct litmus *, unsigned word, uint8_t id);

/* All reachable states and outcomes. */
struct litmus_space {
	struct litmus_state *state;
	uint32_t *from; /* the state that it was first reached from */
	uint8_t *by;    /* and by which move */
	uint32_t *hash; /* table of numbers + 1 */
	uint32_t n, cap, hash_size;
	struct litmus_outcome *outcome;
	uint32_t *outcome_at; /* a state that has it */
	uint32_t n_outcomes, outcome_cap;
	unsigned breaches;  /* that can happen */
	uint32_t breach_at; /* an ended run that the device could report */
	bool harmful;       /* an old value can be read, or remain at the end */
	bool unexplained;   /* and that without any rule broken */
};

/* -E2BIG, -ENOMEM, -EDEADLK: an agent can wait for ever. *space is to be
 * released only on success. */
int litmus_explore(struct litmus_space *, const struct litmus *,
	unsigned nature, struct err *);
void litmus_space_release(struct litmus_space *);
/* The moves that lead to a state; their number. */
unsigned litmus_path(const struct litmus_space *, uint32_t state,
	uint8_t move[LITMUS_MOVES_MAX]);

/* 0 if the stated outcomes are the reachable ones, else -EINVAL. */
int litmus_hold(
	const struct litmus *, const struct litmus_space *, struct err *);

/* ---- cycles ------------------------------------------------------------- */

/*
 * Every test of cycles of 2 to `length` edges, each once, without stated
 * outcomes. The idea is that of diy (Alglave et al., "Fences in weak memory
 * models", CAV 2010), the edges are this contract's; see README.md. Stops
 * when `take` returns non-zero, and returns that.
 */
int litmus_cycles(unsigned length,
	int (*take)(void *arg, const struct litmus *), void *arg, struct err *);

#endif
