#include "tests/stress/first_fit.h"

#include <string.h>

#define PAGE 4096ull

/* A hole begins after the first guard page or after the guard page of a piece,
 * and ends at the next piece or at the end of the range. */
struct first_fit_room first_fit_room(const struct first_fit *m, uint64_t pages)
{
	struct first_fit_room r = { .used = m->n };
	uint64_t from = m->guard;

	for (unsigned i = 0; i <= m->n; i++) {
		uint64_t to = i < m->n ? m->piece[i].at : m->pages;
		uint64_t hole = to > from ? to - from : 0;

		r.free += hole;
		if (hole > r.largest)
			r.largest = hole;
		if (!r.fits && m->n < m->slots && hole >= pages + m->guard) {
			r.fits = true;
			r.at = from;
			r.before = i;
		}
		if (i == m->n)
			break;
		r.pending += m->piece[i].due > 0;
		from = m->piece[i].at + m->piece[i].pages + m->guard;
	}
	return r;
}

static void drop(struct first_fit *m, unsigned i)
{
	m->n--;
	memmove(&m->piece[i], &m->piece[i + 1],
		(m->n - i) * sizeof(m->piece[0]));
}

struct first_fit_room first_fit_ask(
	struct first_fit *m, unsigned buffer, uint64_t pages)
{
	struct first_fit_room r = first_fit_room(m, pages);

	if (r.fits) {
		memmove(&m->piece[r.before + 1], &m->piece[r.before],
			(m->n - r.before) * sizeof(m->piece[0]));
		m->piece[r.before] = (struct first_fit_piece){
			.at = r.at, .pages = pages, .buffer = buffer
		};
		m->n++;
	}
	for (unsigned i = m->n; i--;)
		if (m->piece[i].due && !--m->piece[i].due)
			drop(m, i);
	return r;
}

struct first_fit_room first_fit_ask_on(
	struct first_fit *m, unsigned buffer, uint64_t pages)
{
	struct first_fit_room r;

	do
		r = first_fit_ask(m, buffer, pages);
	while (!r.fits && r.pending);
	return r;
}

void first_fit_take(struct first_fit *m, unsigned i)
{
	m->piece[i].due = m->defer;
	if (!m->defer)
		drop(m, i);
}

void first_fit_settled(const struct first_fit *m, struct first_fit *out)
{
	*out = *m;
	for (unsigned i = out->n; i--;)
		if (out->piece[i].due)
			drop(out, i);
}

unsigned first_fit_there(const struct first_fit *m)
{
	unsigned n = 0;

	for (unsigned i = 0; i < m->n; i++)
		n += !m->piece[i].due;
	return n;
}

bool first_fit_holds(const struct first_fit *m, uint64_t at, uint64_t bytes)
{
	for (unsigned i = 0; i < m->n; i++) {
		const struct first_fit_piece *p = &m->piece[i];

		if (!p->due && at >= p->at * PAGE &&
			at + bytes <= (p->at + p->pages) * PAGE)
			return true;
	}
	return false;
}
