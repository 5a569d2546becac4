/*
 * The exit predictor of a target model: an early estimate of the next token's
 * logits from the hidden state after a middle layer (the Lever paper, section
 * 4.3, equation 7). The predictor consists of an RMS norm and an output matrix,
 * of which only the rows of the requested tokens are read. The predictor is in
 * a separate GGUF file, which is mapped: architecture "tandem-exit", keys
 * tandem-exit.{layer, embedding_length, vocab_size, layer_norm_rms_epsilon},
 * tensors exit_norm.weight [n_embd] f32 and exit.weight [n_vocab][n_embd] of
 * any type. A file with other tensors is refused, as they may change the
 * result.
 *
 * Read-only once open; any thread may compute scores.
 */
#ifndef HOST_HEAD_EXIT_HEAD_H
#define HOST_HEAD_EXIT_HEAD_H

#include <stdint.h>

struct err;
struct exit_head;
struct model;

/*
 * Open the exit predictor of `target`. `target` may be closed after this call.
 * Returns 0, -ENOMEM, an error of opening the file, -EINVAL if the file is not
 * an exit predictor or was made for another target, or -ENOTSUP for an unknown
 * tensor or type.
 */
int exit_head_open(struct exit_head **out, const char *path,
	const struct model *target, struct err *);
void exit_head_close(struct exit_head *);

/* Number of layers that precede the hidden state from which the predictor
 * computes: 1 .. n_layer - 1. */
uint32_t exit_head_layers(const struct exit_head *);

/*
 * Compute the scores (logits) of token[n] as the next token after a position.
 * `hidden` is the hidden state at this position, float32 [n_embd], before any
 * norm. Each token must be in the vocabulary. Sums are computed in double
 * precision in the order of the elements, so a score depends only on the hidden
 * state and the token.
 */
void exit_head_score(const struct exit_head *, const float *hidden,
	const int32_t *token, uint32_t n, float *score);

#endif
