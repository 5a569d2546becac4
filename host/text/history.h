/*
 * A history: what was asked and answered before, as token ids, in a file that
 * several processes may append to and read at once (docs/history.md, its bytes
 * in history_format.h; "History database" of sd.npu, section 3.1). It is kept
 * for whoever drafts from it, and knows nothing of them.
 *
 * A record is there whole or not at all. It is appended by one write below a
 * lock on the file, and carries a checksum: what a killed writer left at the
 * end is no record, is counted, and is overwritten by the next append; damage
 * before the end costs the records it touches. What shortens a history (its
 * bound, history_prune) writes a new file and renames it into place below the
 * same lock. Readers take no lock: they see what was whole when they looked,
 * and go on seeing it, also of a file that was replaced since.
 *
 * It refuses a file of another vocabulary, one that others may read, and what
 * is no history. One thread a handle; handles of one file may be many, in one
 * process too.
 */
#ifndef HOST_TEXT_HISTORY_H
#define HOST_TEXT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct gguf;
struct history;

/* Tokens of a record at most. */
#define HISTORY_TOKENS_MAX  (1u << 26)

#define HISTORY_MAX_DEFAULT ((uint64_t)64 << 20)

/* Equal where two model files give every id the same text; 0 of a file that
 * has no vocabulary. */
uint64_t vocabulary_hash(const struct gguf *);

struct history_opts {
	/* Of whom the ids are; n_vocab 0: of whomever the file says, and then
	 * it must be there. */
	uint64_t vocabulary;
	uint32_t n_vocab;
	uint64_t max_bytes; /* of the file, when something is appended */
	bool write;         /* else it is only read, and may be absent later */
};

/*
 * To be written to, the file is made when there is none. -ENOENT when there is
 * none otherwise, -EINVAL when it is no history or of another vocabulary,
 * -EPERM when others may read it. The path is copied.
 */
int history_open(struct history **out, const char *path,
	const struct history_opts *, struct err *);
void history_close(struct history *);

struct history_record {
	uint64_t number; /* from 1 on, never given twice; 0: not known yet */
	int64_t time;    /* seconds since 1970 */
	/* [n], the prompt's first; each below n_vocab. Where an answer was
	 * ended by a token, that is its last. */
	const int32_t *id;
	uint32_t n_prompt, n;
};

/*
 * Take in what others have done since: appended, pruned, removed the file
 * (then nothing is left). Whatever was read before is invalid. No other
 * function but the three that write changes what a handle sees.
 */
int history_refresh(struct history *, struct err *);

/* Records, oldest first. Their ids lie in the map of the file. */
size_t history_count(const struct history *);
struct history_record history_at(const struct history *, size_t i);

/*
 * The first record whose number is larger, history_count when there is none.
 * What is new since a record of this number was read is at this index and
 * behind it, whatever was pruned meanwhile; 0 is before them all. Where all
 * numbers are smaller the file was begun anew since, and all of it is new.
 */
size_t history_after(const struct history *, uint64_t number);

uint32_t history_n_vocab(const struct history *);

/*
 * Append n records (their numbers are not looked at) and sync. The oldest
 * records leave a file that would be longer than max_bytes, and some more, so
 * that the next appends find room. On failure none of them is there, or, where
 * the disk became full or was lost amid many, the first few: -EFBIG when they
 * alone would be longer, -EINVAL for an id outside the vocabulary or a record
 * without any, -EBUSY when another writer holds the lock for seconds. The
 * handle was opened to write.
 */
int history_append(struct history *, const struct history_record *, size_t n,
	struct err *);

/* What is to be left; HISTORY_ALL is everything. */
struct history_bound {
	uint64_t records, bytes; /* the newest so many; of the file */
	int64_t since;           /* none older than that time */
};
#define HISTORY_ALL                               \
	{                                         \
		UINT64_MAX, UINT64_MAX, INT64_MIN \
	}

/* Keep what is within all of these bounds, and no damaged bytes. *dropped (may
 * be NULL) is the number of records that went. */
int history_prune(struct history *, const struct history_bound *,
	uint64_t *dropped, struct err *);

struct history_stats {
	uint64_t records, prompt_tokens, answer_tokens;
	uint64_t file_bytes;
	uint64_t damaged_bytes; /* between records: some are lost */
	/* Behind the last record: an append that was cut off, or goes on. */
	uint64_t tail_bytes;
	uint64_t vocabulary;
	uint32_t n_vocab;
	uint64_t first, last;   /* numbers, 0 without records */
	int64_t oldest, newest; /* times, 0 without records */
};
void history_stats(const struct history *, struct history_stats *out);

#endif
