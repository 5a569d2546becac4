/*
 * Litmus tests of the one-way coherence rules between CPU and device
 * (docs/coherence.md): the struct of a test, its text format (README.md in this
 * folder), a model that enumerates every outcome that the rules allow, and
 * tests generated from cycles.
 *
 * The model is written from the rules and shares no code with the device's
 * cache, whose headers are not included here. The structs may be copied.
 * Callers release the memory that litmus_explore and litmus_cycles allocate.
 * Any thread may call the functions.
 */
#ifndef TESTS_LITMUS_LITMUS_H
#define TESTS_LITMUS_LITMUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define LITMUS_AGENTS   4
#define LITMUS_STEPS    40 /* largest number of steps of an agent */
#define LITMUS_WORDS    8
#define LITMUS_LINES    4
#define LITMUS_CHANNELS 8
#define LITMUS_MESSAGES 4 /* largest number of messages through a channel */
#define LITMUS_REGS     12
#define LITMUS_RESULTS  (LITMUS_REGS + LITMUS_WORDS)
#define LITMUS_OUTCOMES 64 /* largest number of outcomes that a test lists */
#define LITMUS_NAME     80
#define LITMUS_TEXT     8192 /* largest size of the text of a test */

enum litmus_agent { LITMUS_CPU, LITMUS_DEVICE, LITMUS_DMA };

enum litmus_op {
	LITMUS_WRITE,
	LITMUS_READ,     /* through the cache, if the agent has one */
	LITMUS_READ_DMA, /* read by DMA, not through the cache */
	LITMUS_CLEAN,
	LITMUS_INVALIDATE,
	/* the CPU begins an access to a line; this orders nothing */
	LITMUS_BEGIN,
	/* the CPU ends the access; the next message declares the line */
	LITMUS_END,
	/* the device invalidates the lines that messages declared */
	LITMUS_HEED,
	LITMUS_SEND,
	LITMUS_RECEIVE, /* waits for a message */
	/* the device's request ends; then the same as LITMUS_SEND */
	LITMUS_COMPLETE,
	LITMUS_OPS
};

struct litmus_step {
	enum litmus_op op;
	uint8_t word; /* word of an access */
	uint8_t line; /* line of an access or of cache maintenance */
	bool whole;   /* a write of all words of the line */
	uint8_t value, reg, channel;
};

/* What the cache may do spontaneously at any time, with any line. */
enum litmus_nature {
	/* write back a dirty line, which stays in the cache */
	LITMUS_WRITE_BACK = 1,
	LITMUS_FILL = 2, /* load a line that is absent */
	LITMUS_DROP = 4, /* drop a line that is not dirty */
};
#define LITMUS_NATURE_ALL (LITMUS_WRITE_BACK | LITMUS_FILL | LITMUS_DROP)

/* The rules of coherence, named by how they are broken. */
enum litmus_breach {
	/* a read of a word that the CPU wrote after the cache loaded the
	 * line */
	LITMUS_STALE_READ = 1,
	/* a write-back overwrites bytes that the CPU wrote */
	LITMUS_LOST_CPU = 2,
	/* the device wrote a line that was dropped before a clean */
	LITMUS_LOST_DEVICE = 4,
	/* the device wrote a line, and the request ends without a clean */
	LITMUS_NOT_CLEANED = 8,
	/* DMA reads memory while the line is dirty in the cache */
	LITMUS_DMA_DIRTY = 16,
	LITMUS_EARLY_READ =
		/* the CPU reads bytes that the device has not cleaned yet */
	32,
};
#define LITMUS_BREACHES 6
/* The rules that the device can check. It cannot detect the CPU's reads. */
#define LITMUS_OF_DEVICE (~(unsigned)LITMUS_EARLY_READ)

/* The values of all registers, then of all words in memory at the end. */
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
	/* the word that the register was read from */
	uint8_t reg_word[LITMUS_REGS];
	/* values of enum litmus_nature, combined by or */
	unsigned nature;
	/* values of enum litmus_breach that the test states */
	unsigned breaches;
	/* What the test states about outcomes. Only the results in `named`
	 * count. */
	bool named[LITMUS_RESULTS];
	unsigned n_allowed, n_forbidden;
	struct litmus_outcome allowed[LITMUS_OUTCOMES];
	struct litmus_outcome forbidden[LITMUS_OUTCOMES];
};

/* ---- text --------------------------------------------------------------- */

/* Parse the text of a test. Returns 0, or -EINVAL with a message that has the
 * line number. */
int litmus_parse(struct litmus *, const char *text, struct err *);
/* Print a test as text. Returns the length, which is below LITMUS_TEXT. */
size_t litmus_print(const struct litmus *, char text[LITMUS_TEXT]);
void litmus_print_outcome(const struct litmus *, const struct litmus_outcome *,
	char *text, size_t size);
void litmus_print_breaches(unsigned breaches, char *text, size_t size);

/* ---- model -------------------------------------------------------------- */

/*
 * A state of a run. The value of each word and register is stored as the number
 * of the write that wrote it: 0 is the initial value, then writes are numbered
 * in the order of the test's agents and steps.
 */
struct litmus_state {
	uint8_t pc[LITMUS_AGENTS];
	uint8_t memory[LITMUS_WORDS], copy[LITMUS_WORDS];
	/* memory when the copy was last equal to it */
	uint8_t base[LITMUS_WORDS];
	uint8_t newest[LITMUS_WORDS]; /* the values if there were no cache */
	uint8_t valid, dirty;         /* one bit for each line */
	/* lines that the device wrote and has not cleaned since */
	uint8_t owed;
	uint8_t breaches; /* rules broken up to this state */
	uint8_t harmed;   /* whether an old value was read */
	/* lines that the CPU must declare, and lines that the device must
	 * invalidate */
	uint8_t noted, heard;
	uint8_t sent[LITMUS_CHANNELS], received[LITMUS_CHANNELS];
	uint8_t declared[LITMUS_CHANNELS][LITMUS_MESSAGES];
	uint8_t reg[LITMUS_REGS];
};

/* A move is the next step of an agent, or a spontaneous action of the cache
 * with a line, which this macro encodes. */
#define LITMUS_MOVE(nature, line) ((uint8_t)((nature) << 4 | (line)))
#define LITMUS_MOVES_MAX          256

void litmus_begin(const struct litmus *, struct litmus_state *);
/* Write the possible moves to move[], at most LITMUS_MOVES_MAX of them. Returns
 * their number. */
unsigned litmus_moves(const struct litmus *, const struct litmus_state *,
	unsigned nature, uint8_t *move);
void litmus_move(const struct litmus *, struct litmus_state *, uint8_t move);
bool litmus_is_over(const struct litmus *, const struct litmus_state *);
/* The rules that a run has broken if it ends in this state. */
unsigned litmus_broken(const struct litmus_state *);
void litmus_outcome_of(const struct litmus *, const struct litmus_state *,
	struct litmus_outcome *);
/* The value that write number `id` wrote to the word. */
uint8_t litmus_value(const struct litmus *, unsigned word, uint8_t id);

/* All reachable states and outcomes of a test. */
struct litmus_space {
	struct litmus_state *state;
	uint32_t *from; /* [n] the state from which a state was first reached */
	uint8_t *by;    /* [n] the move by which it was first reached */
	uint32_t *hash; /* hash table of state numbers + 1 */
	uint32_t n, cap, hash_size;
	struct litmus_outcome *outcome;
	uint32_t *outcome_at; /* [n_outcomes] a state that has the outcome */
	uint32_t n_outcomes, outcome_cap;
	unsigned breaches; /* rules that some run breaks */
	/* final state of a run with a breach that the device could report */
	uint32_t breach_at;
	/* whether an old value can be read, or can remain at the end */
	bool harmful;
	/* whether this can happen without any rule broken */
	bool unexplained;
};

/*
 * Find all states and outcomes of a test. Returns 0; -E2BIG if there are too
 * many states; -ENOMEM; or -EDEADLK if an agent can wait forever. On success
 * the caller releases *space.
 */
int litmus_explore(struct litmus_space *, const struct litmus *,
	unsigned nature, struct err *);
void litmus_space_release(struct litmus_space *);
/* Get the moves that lead to a state. Returns their number. */
unsigned litmus_path(const struct litmus_space *, uint32_t state,
	uint8_t move[LITMUS_MOVES_MAX]);

/* Compare the outcomes that the test states with the reachable outcomes.
 * Returns 0 if they agree, else -EINVAL. */
int litmus_hold(
	const struct litmus *, const struct litmus_space *, struct err *);

/* ---- cycles ------------------------------------------------------------- */

/*
 * Generate every test of cycles of 2 to `length` edges, each once and without
 * stated outcomes, and pass it to `take`. Stops when `take` returns a non-zero
 * value, and returns this value. The idea is that of diy (Alglave et al.,
 * "Fences in weak memory models", CAV 2010); the edges are those of the
 * coherence rules here, see README.md.
 */
int litmus_cycles(unsigned length,
	int (*take)(void *arg, const struct litmus *), void *arg, struct err *);

#endif
