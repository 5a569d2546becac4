/* The cached tokens of a session: its sequences, and accepting computed
 * rows. */
#include "host/session/session_impl.h"

#include "base/err.h"
#include "host/model/model.h"
#include "host/npu/phone.h"
#include "host/session/batch.h"
#include "host/session/sequence.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

uint32_t session_length(const struct session *s, uint32_t sequence)
{
	return sequence_length(s->sequences, sequence);
}

int session_add(struct session *s, uint32_t *sequence, struct err *e)
{
	return sequence_open(s->sequences, sequence, e);
}

int session_fork(
	struct session *s, uint32_t parent, uint32_t *sequence, struct err *e)
{
	if (!sequence_is_open(s->sequences, parent))
		return err_set(e, EINVAL,
			"sequence %u cannot be forked: it is not open", parent);
	return sequence_fork(s->sequences, parent, sequence, e);
}

void session_remove(struct session *s, uint32_t sequence)
{
	sequence_close(s->sequences, sequence);
}

uint64_t session_spare(struct session *s, uint32_t sequence)
{
	return sequence_spare(s->sequences, sequence);
}

uint64_t session_spared(const struct session *s, uint32_t sequence)
{
	return sequence_spared(s->sequences, sequence);
}

bool session_has_room(const struct session *s, const uint32_t *sequence,
	const uint32_t *more, uint32_t n)
{
	struct claim claim[ROWS_SEQUENCES];

	assert(n <= ROWS_SEQUENCES);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t from = session_length(s, sequence[i]);

		claim[i] = (struct claim){ sequence[i], from, from + more[i],
			true };
	}
	return sequences_have_room(s->sequences, claim, n);
}

uint32_t session_free_slots(const struct session *s)
{
	return sequences_free(s->sequences);
}

void session_truncate(struct session *s, uint32_t sequence, uint32_t length)
{
	sequence_truncate(s->sequences, sequence, length);
}

int session_keep_states(struct session *s, struct err *e)
{
	return sequences_keep_states(s->sequences, s->model->n_embd, e);
}

const float *session_state(
	const struct session *s, uint32_t sequence, uint32_t at)
{
	assert(at < session_length(s, sequence));
	return sequence_state(s->sequences, sequence, at);
}

/* ---- accepting ----------------------------------------------------------- */

/* Number of rows of the last forward pass if the sequence can still accept rows
 * of this pass; else 0. */
static uint32_t open_rows_of(const struct session *s, uint32_t sequence)
{
	return sequence_claimed(s->sequences, sequence) ? s->kept_rows : 0;
}

/* Whether `row` may be accepted directly after row `above`. -1 as `above` means
 * that `row` is the first row. */
static bool follows(
	const struct session *s, uint32_t sequence, int32_t above, uint32_t row)
{
	if (s->row[row].sequence != sequence || s->above[row] != above)
		return false;
	return above >= 0 || s->visibility != VISIBILITY_TREE ||
		s->row[row].position == session_length(s, sequence);
}

static int check_path(const struct session *s, uint32_t sequence,
	const uint32_t *path, uint32_t n, struct err *e)
{
	uint32_t rows = open_rows_of(s, sequence);
	int32_t above = -1;

	for (uint32_t k = 0; k < n; k++) {
		if (path[k] >= rows || !follows(s, sequence, above, path[k]))
			return err_set(e, EINVAL,
				"accepted row %u does not continue a path in "
				"the tree of the last pass (%u rows)",
				path[k], rows);
		if (s->place[path[k]] == DROPPED)
			return err_set(e, EINVAL,
				"accepted row %u was dropped in the middle of "
				"the pass",
				path[k]);
		above = (int32_t)path[k];
	}
	return 0;
}

int session_accept(struct session *s, uint32_t sequence, const uint32_t *path,
	uint32_t n, struct err *e)
{
	uint32_t length = session_length(s, sequence);
	uint32_t rows = open_rows_of(s, sequence), found = 0, read = 0;
	uint32_t from[WIRE_MAX_ROWS];
	int ret;

	if (!path) {
		for (uint32_t i = 0; i < rows && found < n; i++)
			if (s->row[i].sequence == sequence)
				s->keep[found++] = i;
		if (found < n)
			return err_set(e, EINVAL,
				"%u rows were accepted, but of the %u rows "
				"of the last pass only %u can be accepted",
				n, rows, found);
		path = s->keep;
	}
	ret = check_path(s, sequence, path, n, e);
	if (ret)
		return ret;
	if (s->visibility != VISIBILITY_TREE) {
		length = n ? s->at[path[n - 1]] + 1 : length;
		sequence_grow(s->sequences, sequence, length);
		return 0;
	}
	/* Rows that are dropped after exit_layers have no slot in the upper
	 * layers, so a row's cache slot can differ between lower and upper
	 * layers. Move the two groups of layers separately. */
	for (unsigned group = 0; group < 2 && n; group++) {
		const uint32_t *at = group ? s->upper : s->at;
		uint32_t begin = group ? s->opts.exit_layers : 0, moved;
		uint32_t end = group ? s->model->n_layer : s->opts.exit_layers;
		struct price p = { 0 };

		for (uint32_t k = 0; k < n; k++)
			from[k] = at[path[k]];
		moved = sequence_move(
			s->sequences, sequence, from, n, begin, end);
		if (s->opts.soc)
			pricing_kv_copy(&s->pricing, moved, end - begin, &p);
		session_add_work_of(s, TRACE_PHONE_WORK, &p);
	}
	sequence_grow(s->sequences, sequence, length + n);
	/* If the session keeps states, keep the states of the accepted rows. */
	if (n && sequence_state(s->sequences, sequence, length)) {
		for (uint32_t k = 0; k < n; k++)
			memcpy(sequence_state(
				       s->sequences, sequence, length + k),
				session_hidden(s, path[k]),
				s->model->n_embd * sizeof(float));
		session_add_states(s, n);
	}
	for (uint32_t i = 0; i < n; i++)
		read += s->row[path[i]].prompt;
	s->stats.prompt_rows.valid += read;
	session_count_valid(s, n - read);
	return 0;
}

void session_count_valid(struct session *s, uint32_t rows)
{
	s->counts->valid += rows;
}
