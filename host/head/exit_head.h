/*
 * The exit predictor of a target model: from the state that a middle layer
 * leaves, a first idea of which token comes next (Lever, section 4.3,
 * equation 7). It is an RMS norm and an output matrix, of which only the rows
 * of the tokens asked for are read. A GGUF file of its own, mapped:
 * architecture "tandem-exit", keys tandem-exit.{layer, embedding_length,
 * vocab_size, layer_norm_rms_epsilon}, tensors exit_norm.weight [n_embd] f32
 * and exit.weight [n_vocab][n_embd] of any type. A file with other tensors is
 * refused: they may change what it computes.
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
 * -EINVAL (-ENOTSUP for a tensor or type that is not known) with a message
 * when the file is none, or none for that target, which is looked at only
 * here; else what opening the file gives, or -ENOMEM.
 */
int exit_head_open(struct exit_head **out, const char *path,
	const struct model *target, struct err *);
void exit_head_close(struct exit_head *);

/* It reads the state that the first so many layers leave: 1 .. n_layer - 1. */
uint32_t exit_head_layers(const struct exit_head *);

/*
 * Scores (logits) of token[n] behind a state: hidden is [n_embd], float32,
 * before any norm. Each token is in the vocabulary. Sums are double, in the
 * order of the row, so a score depends on the state and the token alone.
 */
void exit_head_score(const struct exit_head *, const float *hidden,
	const int32_t *token, uint32_t n, float *score);

#endif
