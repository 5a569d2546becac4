/*
 * A token tree as the device is told it: for each row where it stands, where
 * its keys and values go, and what it sees (struct wire_graph_run has the
 * layout). Row i goes to slot prefix + i and stands at position prefix +
 * depth(i); it sees the whole prefix, its ancestors and itself. A chain is
 * the tree in which every row hangs from the one before. Where attention is
 * not causal there are only chains, and all rows of one see one another.
 */
#ifndef HOST_SESSION_BATCH_H
#define HOST_SESSION_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct token_tree;
struct wire_graph_run;

/* 0 when 1 <= n <= max_rows, tokens lie in the vocabulary and parents, which
 * only a causal batch has, come before their children; else -EINVAL. */
int batch_check(const struct token_tree *, bool causal, uint32_t max_rows,
	uint32_t n_vocab, struct err *);

/* The parent of a row: -1 for one that follows the prefix. */
int32_t batch_parent(const struct token_tree *, uint32_t row);

/* Bytes of a batch of `rows` rows, an upper bound for any prefix. */
size_t batch_bytes(uint32_t rows);

/* Write it; fills run's rows, n_spans and mask_words, returns its bytes. */
size_t batch_fill(void *dst, const struct token_tree *, bool causal,
	uint32_t prefix, struct wire_graph_run *run);

#endif
