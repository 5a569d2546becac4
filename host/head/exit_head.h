/*
 * The exit predictor of a target model: an early estimate of the next token's
 * logits from the state after a middle layer (Lever, section 4.3, equation 7).
 * It is an RMS norm and an output matrix, of which only the rows of the
 * requested tokens are read. A GGUF file of its own, mapped: architecture
 * "tandem-exit", keys tandem-exit.{layer, embedding_length, vocab_size,
 * layer_norm_rms_epsilon}, tensors exit_norm.weight [n_embd] f32 and
 * exit.weight [n_vocab][n_embd] of any type. A file with other tensors is
 * refused, as they may change the result.
 *
 * Read-only once open; any thread may score.
 */
#ifndef HOST_HEAD_EXIT_HEAD_H
#define HOST_HEAD_EXIT_HEAD_H

#include <stdint.h>

struct err;
struct exit_head;
struct model;

/*
 * -EINVAL (-ENOTSUP for an unknown tensor or type) with a message when the file
 * is no exit predictor, or not for that target, which is only used here; else
 * the errors of opening the file, or -ENOMEM.
 */
int exit_head_open(struct exit_head **out, const char *path,
	const struct model *target, struct err *);
void exit_head_close(struct exit_head *);

/* Number of layers before the state that it reads: 1 .. n_layer - 1. */
uint32_t exit_head_layers(const struct exit_head *);

/*
 * Scores (logits) of token[n] after a state: hidden is [n_embd], float32,
 * before any norm. Each token must be in the vocabulary. Sums are double, in
 * the order of the row, so a score depends on the state and the token alone.
 */
void exit_head_score(const struct exit_head *, const float *hidden,
	const int32_t *token, uint32_t n, float *score);

#endif
