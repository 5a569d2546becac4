/*
 * Litmus tests of the two coherence contracts between CPU and device
 * (docs/coherence.md): the struct of a test (a few agents, such as CPU and
 * device, with steps), its text format (README.md in this folder), a model that
 * enumerates every outcome that the contracts allow, and tests generated from
 * cycles.
 *
 * The model is written from the contracts and shares no code with
 * libtandem-coherence, whose headers are not included here. The structs may be
 * copied. Callers release the memory that litmus_explore and litmus_cycles
 * allocate. Any thread may call the functions.
 */
#ifndef TESTS_LITMUS_LITMUS_H
#define TESTS_LITMUS_LITMUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define LITMUS_AGENTS    4
#define LITMUS_STEPS     40 /* largest number of steps of an agent */
#define LITMUS_WORDS     8
#define LITMUS_LINES     4
#define LITMUS_CHANNELS  8
#define LITMUS_MESSAGES  4 /* largest number of messages through a channel */
#define LITMUS_TRANSFERS 4 /* largest number of DMA transfers */
/* in place of a line number, for a word in local memory, which has no line */
#define LITMUS_NO_LINE  LITMUS_LINES
#define LITMUS_REGS     12
#define LITMUS_RESULTS  (LITMUS_REGS + LITMUS_WORDS)
#define LITMUS_OUTCOMES 64 /* largest number of outcomes that a test lists */
#define LITMUS_NAME     80
#define LITMUS_TEXT     8192 /* largest size of the text of a test */

enum litmus_agent { LITMUS_CPU, LITMUS_DEVICE, LITMUS_DMA };

enum litmus_op {
	LITMUS_WRITE,
	LITMUS_READ, /* read a word: the device reads through its cache */
	/* read or write a word by DMA, not through the cache; the step starts a
	 * transfer and waits for it */
	LITMUS_READ_DMA,
	LITMUS_WRITE_DMA,
	LITMUS_START, /* start a chain of transfers */
	/* wait for a transfer and the transfers before it in its chain */
	LITMUS_WAIT,
	LITMUS_CLEAN,
	LITMUS_INVALIDATE,
	LITMUS_CLEAN_ALL,
	LITMUS_FLUSH_ALL,
	/* the CPU begins an access to a line; this step does not order any
	 * other accesses */
	LITMUS_BEGIN,
	/* the CPU ends the access; the CPU's next message declares the line */
	LITMUS_END,
	/* the device invalidates the lines that messages declared; with
	 * contract 2 it flushes the whole cache if a message declared a line */
	LITMUS_HEED,
	LITMUS_SEND,
	LITMUS_RECEIVE, /* waits for a message */
	/* the device's request ends; then the device sends a message, as in
	 * LITMUS_SEND */
	LITMUS_COMPLETE,
	LITMUS_OPS
};

struct litmus_step {
	enum litmus_op op;
	uint8_t word; /* word of an access */
	uint8_t line; /* line of an access or of cache maintenance */
	bool whole;   /* a write of all words of the line */
	uint8_t value, reg, channel;
	uint8_t n_transfers, transfer[LITMUS_TRANSFERS];
};

/* A DMA transfer between a word of memory and a word of the device's local
 * memory. */
struct litmus_transfer {
	uint8_t memory, local; /* numbers of the two words */
	bool to_memory;
	bool started; /* a step of the test starts this transfer */
	/* the transfer before it in its chain, or LITMUS_TRANSFERS if no
	 * transfer is before it */
	uint8_t before;
};

/*
 * Events that happen without a step, at any time: the cache writes back, fills
 * or drops any line, and DMA moves the bytes of a started transfer. In a set of
 * kinds, bit 1 << kind stands for a kind.
 */
enum litmus_nature {
	/* write back a dirty line, which stays in the cache: from the first
	 * level to the second or, if the line is dirty only in the second
	 * level, to memory */
	LITMUS_WRITE_BACK = 1,
	LITMUS_FILL, /* load a line that is absent from the first level */
	LITMUS_DROP, /* drop a line from the first level if it is not dirty */
	/* drop a line from the second level if it is not dirty there and the
	 * first level does not have it */
	LITMUS_DROP_SECOND,
	LITMUS_TRANSFER, /* move the bytes of a started transfer */
	LITMUS_NATURES
};
#define LITMUS_NATURE_ALL ((1u << LITMUS_NATURES) - 2)

/* The ways in which the rules of coherence can be broken. */
enum litmus_breach {
	/* a read of a word that the CPU wrote after the cache loaded the
	 * line */
	LITMUS_STALE_READ = 1,
	/* a write-back overwrites bytes that the CPU wrote */
	LITMUS_LOST_CPU = 2,
	/* a line that the device wrote is dropped before it is cleaned */
	LITMUS_LOST_DEVICE = 4,
	/* the request ends before a line that the device wrote is cleaned */
	LITMUS_NOT_CLEANED = 8,
	/* a DMA transfer starts while its line is dirty in the cache */
	LITMUS_DMA_DIRTY = 16,
	/* a read of a word that DMA wrote after the cache loaded the line */
	LITMUS_STALE_DMA = 32,
	/* a write-back overwrites bytes that DMA wrote, but no bytes that the
	 * CPU wrote */
	LITMUS_LOST_DMA = 64,
	/* the device reads bytes that a transfer writes, and has not yet waited
	 * for the transfer */
	LITMUS_READ_EARLY = 128,
	/* the device writes bytes that a transfer reads or writes, and has not
	 * yet waited for the transfer */
	LITMUS_WRITE_EARLY = 256,
	/* the request ends, and the device has not waited for a transfer that
	 * was started */
	LITMUS_NO_WAIT = 512,
	/* a wait for a transfer for which the device has already waited, or
	 * whose bytes the device does not use */
	LITMUS_NEEDLESS_WAIT = 1024,
	/* the CPU reads bytes that the device or DMA has not written to memory
	 * yet, or writes bytes that a transfer still uses */
	LITMUS_CPU_EARLY = 2048,
};
#define LITMUS_BREACHES 12
/* The rules that the device can check. The device cannot detect the CPU's
 * accesses. */
#define LITMUS_OF_DEVICE (~(unsigned)LITMUS_CPU_EARLY)

/* The final values of all registers, followed by those of all words in memory.
 */
struct litmus_outcome {
	uint8_t value[LITMUS_RESULTS];
};

struct litmus {
	char name[LITMUS_NAME];
	unsigned contract; /* 1, or 2 for two levels of cache */
	unsigned n_agents, n_words, n_lines, n_channels, n_regs, n_transfers;
	enum litmus_agent kind[LITMUS_AGENTS];
	char agent_name[LITMUS_AGENTS][8];
	unsigned n_steps[LITMUS_AGENTS];
	struct litmus_step step[LITMUS_AGENTS][LITMUS_STEPS];
	char word_name[LITMUS_WORDS][8], line_name[LITMUS_LINES][8];
	char channel_name[LITMUS_CHANNELS][8], reg_name[LITMUS_REGS][8];
	char transfer_name[LITMUS_TRANSFERS][8];
	struct litmus_transfer transfer[LITMUS_TRANSFERS];
	uint8_t word_line[LITMUS_WORDS], init[LITMUS_WORDS];
	unsigned nature; /* a set of enum litmus_nature */
	/* the expected breaches according to the test, values of enum
	 * litmus_breach combined by or */
	unsigned breaches;
	/* The expected outcomes according to the test. Only the results in
	 * `named` are compared. */
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

/* A state of a run, with the value of each word and register. */
struct litmus_state {
	uint16_t breaches; /* rules broken up to this state */
	uint8_t pc[LITMUS_AGENTS];
	/* memory (including the device's local memory) and both cache levels */
	uint8_t memory[LITMUS_WORDS];
	uint8_t copy[LITMUS_WORDS], second[LITMUS_WORDS];
	/* the value in memory when the cached value was last equal to it */
	uint8_t base[LITMUS_WORDS];
	/* the values that the words would have without a cache and with DMA
	 * that takes no time */
	uint8_t newest[LITMUS_WORDS];
	/* words that DMA wrote since `base` was set, one bit for each */
	uint8_t by_dma;
	/* one bit for each line */
	uint8_t valid, dirty, second_valid, second_dirty;
	/* lines that the device wrote and has not yet cleaned */
	uint8_t owed;
	/* transfers, one bit for each; `awaited`: the device has waited for the
	 * transfer, which has ended */
	uint8_t started, moved, awaited;
	/* words of local memory that DMA wrote and that the device has not used
	 * since the wait */
	uint8_t unused;
	uint8_t harmed; /* 1 if an old value was read */
	/* `noted`: lines that the CPU must declare; `heard`: lines that the
	 * device must invalidate */
	uint8_t noted, heard;
	uint8_t sent[LITMUS_CHANNELS], received[LITMUS_CHANNELS];
	uint8_t declared[LITMUS_CHANNELS][LITMUS_MESSAGES];
	uint8_t reg[LITMUS_REGS];
	/* always 0, because states are compared byte by byte */
	uint8_t padding;
};

/* A move is the next step of an agent (kind 0), or an event without a step: a
 * kind of enum litmus_nature, with the number of a line or transfer. */
#define LITMUS_MOVE(kind, which) ((uint8_t)((kind) << 4 | (which)))
#define LITMUS_MOVES_MAX         256

void litmus_begin(const struct litmus *, struct litmus_state *);
/* Write the possible moves to move[], at most LITMUS_MOVES_MAX moves. Returns
 * the number of moves. */
unsigned litmus_moves(const struct litmus *, const struct litmus_state *,
	unsigned nature, uint8_t *move);
void litmus_move(const struct litmus *, struct litmus_state *, uint8_t move);
bool litmus_is_over(const struct litmus *, const struct litmus_state *);
/* The rules that a run has broken if it ends in this state. */
unsigned litmus_broken(const struct litmus_state *);
void litmus_outcome_of(const struct litmus *, const struct litmus_state *,
	struct litmus_outcome *);

/* All reachable states and outcomes of a test. */
struct litmus_space {
	struct litmus_state *state;
	uint32_t *from; /* [n] state from which state i was first reached */
	uint8_t *by;    /* [n] the move by which state i was first reached */
	uint32_t *hash; /* hash table of state numbers + 1 */
	uint32_t n, cap, hash_size;
	struct litmus_outcome *outcome;
	/* [n_outcomes] the number of a state with this outcome */
	uint32_t *outcome_at;
	uint32_t n_outcomes, outcome_cap;
	unsigned breaches; /* rules that at least one run breaks */
	/* number of a final state after a breach that the device can detect */
	uint32_t breach_at;
	/* whether an old value can be read, or can be in memory at the end */
	bool harmful;
	/* whether an old value can appear although no rule is broken */
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
/* Get the moves that lead to a state. Returns the number of moves. */
unsigned litmus_path(const struct litmus_space *, uint32_t state,
	uint8_t move[LITMUS_MOVES_MAX]);

/* Compare the outcomes that the test states with the reachable outcomes.
 * Returns 0 if they agree, else -EINVAL. */
int litmus_hold(
	const struct litmus *, const struct litmus_space *, struct err *);

/* ---- cycles ------------------------------------------------------------- */

/*
 * Generate the tests of all cycles of 2 to `length` edges for a contract,
 * without expected outcomes, and pass each of them once to `take`. If `take`
 * returns a non-zero value, the function stops and returns this value. The idea
 * is from diy (Alglave et al., "Fences in weak memory models", CAV 2010).
 * README.md explains the edges, which follow from the coherence rules.
 */
int litmus_cycles(unsigned length, unsigned contract,
	int (*take)(void *arg, const struct litmus *), void *arg, struct err *);

#endif
