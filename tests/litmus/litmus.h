/*
 * Litmus tests of the two coherence contracts between CPU and device
 * (docs/coherence.md): the struct of a test, its text format (README.md in this
 * folder), a model that enumerates every outcome that the contracts allow, and
 * tests generated from cycles.
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
#define LITMUS_TRANSFERS 4 /* of DMA */
#define LITMUS_NO_LINE   LITMUS_LINES /* of a word in local memory */
#define LITMUS_REGS      12
#define LITMUS_RESULTS   (LITMUS_REGS + LITMUS_WORDS)
#define LITMUS_OUTCOMES  64 /* largest number of outcomes that a test lists */
#define LITMUS_NAME      80
#define LITMUS_TEXT      8192 /* largest size of the text of a test */

enum litmus_agent { LITMUS_CPU, LITMUS_DEVICE, LITMUS_DMA };

enum litmus_op {
	LITMUS_WRITE,
	LITMUS_READ, /* through the cache, if the agent has one */
	/* by DMA, not through the cache; the step starts it and waits */
	LITMUS_READ_DMA,
	LITMUS_WRITE_DMA,
	LITMUS_START, /* start a chain of transfers */
	LITMUS_WAIT,  /* for a transfer and those before it in its chain */
	LITMUS_CLEAN,
	LITMUS_INVALIDATE,
	LITMUS_CLEAN_ALL,
	LITMUS_FLUSH_ALL,
	/* the CPU begins an access to a line; this orders nothing */
	LITMUS_BEGIN,
	/* the CPU ends the access; the next message declares the line */
	LITMUS_END,
	/* the device invalidates the lines that messages declared, or with
	 * contract 2 flushes all if there are any */
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
	uint8_t n_transfers, transfer[LITMUS_TRANSFERS];
};

/* DMA between a word of memory and a word of the device's local memory. */
struct litmus_transfer {
	uint8_t memory, local; /* words */
	bool to_memory;
	bool started; /* by a step of the test */
	/* the transfer before it in its chain, or LITMUS_TRANSFERS */
	uint8_t before;
};

/*
 * What happens without a step: the cache does it with any line at any time,
 * DMA with a transfer that was started. A set of them has bit 1 << kind.
 */
enum litmus_nature {
	/* write back a dirty line, which stays in the cache: the first level to
	 * the second, a line that is dirty only in the second to memory */
	LITMUS_WRITE_BACK = 1,
	LITMUS_FILL, /* load a line that is absent from the first level */
	LITMUS_DROP, /* drop a line that is not dirty; first level */
	LITMUS_DROP_SECOND, /* the same for a line that only the second has */
	LITMUS_TRANSFER,    /* the bytes of a transfer move */
	LITMUS_NATURES
};
#define LITMUS_NATURE_ALL ((1u << LITMUS_NATURES) - 2)

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
	/* DMA of bytes whose line is dirty in the cache starts */
	LITMUS_DMA_DIRTY = 16,
	/* a read of a word that DMA wrote after the cache loaded the line */
	LITMUS_STALE_DMA = 32,
	/* a write-back overwrites bytes that DMA wrote and none of the CPU's */
	LITMUS_LOST_DMA = 64,
	/* the device reads what DMA, not yet awaited, writes */
	LITMUS_READ_EARLY = 128,
	/* the device writes what DMA, not yet awaited, reads or writes */
	LITMUS_WRITE_EARLY = 256,
	/* the request ends before a wait */
	LITMUS_NO_WAIT = 512,
	/* a wait for DMA that has been awaited, or whose bytes the device does
	 * not use */
	LITMUS_NEEDLESS_WAIT = 1024,
	/* the CPU reads bytes that the device or DMA has not written to memory
	 * yet, or writes bytes that DMA uses */
	LITMUS_CPU_EARLY = 2048,
};
#define LITMUS_BREACHES 12
/* The rules that the device can check. It cannot detect the CPU's accesses. */
#define LITMUS_OF_DEVICE (~(unsigned)LITMUS_CPU_EARLY)

/* The values of all registers, then of all words in memory at the end. */
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

/* A state of a run, with the value of each word and register. */
struct litmus_state {
	uint16_t breaches; /* rules broken up to this state */
	uint8_t pc[LITMUS_AGENTS];
	/* memory, also the device's local memory, and both cache levels */
	uint8_t memory[LITMUS_WORDS];
	uint8_t copy[LITMUS_WORDS], second[LITMUS_WORDS];
	/* memory when the cache was last equal to it */
	uint8_t base[LITMUS_WORDS];
	/* the values if there were no cache and DMA took no time */
	uint8_t newest[LITMUS_WORDS];
	uint8_t by_dma; /* words that DMA wrote since; one bit for each */
	/* one bit for each line */
	uint8_t valid, dirty, second_valid, second_dirty;
	/* lines that the device wrote and has not cleaned since */
	uint8_t owed;
	/* transfers, one bit for each: awaited means that a wait ended it */
	uint8_t started, moved, awaited;
	/* local words that DMA wrote and that nothing has used since the
	 * wait */
	uint8_t unused;
	uint8_t harmed; /* whether an old value was read */
	/* lines that the CPU must declare, and lines that the device must
	 * invalidate */
	uint8_t noted, heard;
	uint8_t sent[LITMUS_CHANNELS], received[LITMUS_CHANNELS];
	uint8_t declared[LITMUS_CHANNELS][LITMUS_MESSAGES];
	uint8_t reg[LITMUS_REGS];
	uint8_t padding; /* 0: states are compared byte by byte */
};

/* A move is the next step of an agent (kind 0), or what happens without a step:
 * a kind of enum litmus_nature with a line or transfer. */
#define LITMUS_MOVE(kind, which) ((uint8_t)((kind) << 4 | (which)))
#define LITMUS_MOVES_MAX         256

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
 * Generate every test of cycles of 2 to `length` edges for a contract, each
 * once and without stated outcomes, and pass it to `take`. Stops when `take`
 * returns a non-zero value, and returns this value. The idea is that of diy
 * (Alglave et al., "Fences in weak memory models", CAV 2010); the edges are
 * those of the coherence rules here, see README.md.
 */
int litmus_cycles(unsigned length, unsigned contract,
	int (*take)(void *arg, const struct litmus *), void *arg, struct err *);

#endif
