/*
 * The embedding of a prompt: one vector that represents its text, for search
 * and comparison. The hidden states of the prompt's tokens after the last layer
 * go through the final norm; the vector is their mean or the last of them
 * (pooling), scaled to a Euclidean norm of 1.
 *
 * The key ARCH.pooling_type of the model file chooses the pooling: 1 is the
 * mean, 3 the last token. Without the key, or with 0 (no pooling), the mean is
 * used: in a model that was not trained for embeddings the last state mainly
 * predicts the next token, while the mean covers the whole text.
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
 * the model's pooling is not supported, or if it is a diffusion model.
 */
int embedding_open(struct embedding **out, const struct decoder *,
	unsigned pooling, size_t n, struct err *);
void embedding_close(struct embedding *);

/*
 * Add the states of rows [first, first + rows) of the session's last pass,
 * which belong to the prompt's tokens from token `at` on. Tokens whose states
 * were added before are skipped; such tokens occur if a cache was dropped and
 * is computed again.
 */
void embedding_add(struct embedding *, struct session *, size_t at,
	uint32_t first, uint32_t rows);

/* Read the prompt token[n] in SESSION_TEXT, which is empty before and after the
 * call, and add all its states. Returns 0 or an error of session_prefill. */
int embedding_read(struct embedding *, struct session *, const int32_t *token,
	struct err *);

/* Whether the states of all tokens were added. */
bool embedding_is_read(const struct embedding *);

/*
 * Compute the vector, float32 [*n]; the embedding keeps ownership of it. Call
 * this once, after all states were added. Returns 0, or -EDOM if the vector is
 * not finite.
 */
int embedding_values(
	struct embedding *, const float **values, size_t *n, struct err *);

#endif
