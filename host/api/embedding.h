/*
 * The embedding of a prompt: one vector that represents its text, for search
 * and comparison. The final norm is applied to the hidden state of each token
 * after the last layer. The vector is the mean of these states, or the state of
 * the last token (pooling), scaled to a Euclidean norm of 1.
 *
 * The key ARCH.pooling_type of the model file chooses the pooling: 1 is the
 * mean, 3 the last token. Without the key, or with the value 0 (no pooling),
 * the mean is used: in a model that was not trained for embeddings, the state
 * of the last token mainly predicts the next token, but the mean covers the
 * whole text.
 *
 * The states are added in the order of the tokens, so the bytes of the vector
 * depend neither on the chunks in which a prompt is read nor on other requests.
 * All calls must be made on one thread.
 */
#ifndef HOST_API_EMBEDDING_H
#define HOST_API_EMBEDDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct decoder;
struct embedding;
struct err;
struct session;

/*
 * Begin the embedding of a prompt of n tokens. `pooling` is an enum
 * tandem_pooling. Returns 0 or -ENOMEM, or -EINVAL if `pooling` is unknown, if
 * the model's pooling is not supported, or if the model is a diffusion model.
 */
int embedding_open(struct embedding **out, const struct decoder *,
	unsigned pooling, size_t n, struct err *);
void embedding_close(struct embedding *);

/*
 * Add the hidden states of the prompt's tokens from token `at` on. The rows of
 * these tokens are rows [first, first + rows) of the session's latest pass.
 * Tokens whose states were added before are skipped: tokens are computed twice
 * if their cache was dropped.
 */
void embedding_add(struct embedding *, struct session *, size_t at,
	uint32_t first, uint32_t rows);

/* Whether the hidden states of all tokens of the prompt were added. */
bool embedding_is_read(const struct embedding *);

/*
 * Compute the embedding, a vector float32 [*n]; struct embedding owns its
 * memory. Must be called once, after all states were added. Returns 0, or -EDOM
 * if the sum of the states is zero or not finite.
 */
int embedding_values(
	struct embedding *, const float **values, size_t *n, struct err *);

#endif
