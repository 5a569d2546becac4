#include "tests/stress/schedule.h"

#include "base/err.h"
#include "base/rng.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "tandem-stress 1 "

uint32_t stress_below(struct stress_draw *d, uint32_t below)
{
	uint32_t word[4];

	rng_words(d->seed, d->run, d->at++, word);
	return (uint32_t)((uint64_t)word[0] * below >> 32);
}

bool stress_once_in(struct stress_draw *d, uint32_t of)
{
	return !stress_below(d, of);
}

void stress_add(struct stress_schedule *s, uint32_t verb, const uint32_t *value,
	unsigned n)
{
	struct stress_step *step = &s->step[s->n];

	if (s->n == STRESS_STEPS)
		return;
	*step = (struct stress_step){ .verb = verb };
	for (unsigned i = 0; i < n && i < STRESS_PARAMS; i++)
		step->value[i] = value[i];
	s->n++;
}

unsigned stress_params(const struct stress_verb *v)
{
	unsigned n = 0;

	while (n < STRESS_PARAMS && v->param[n].name)
		n++;
	return n;
}

/* ---- out ----------------------------------------------------------------- */

static void print_step(const struct stress_verbs *verbs,
	const struct stress_step *step, struct strbuf *out)
{
	const struct stress_verb *v = &verbs->verb[step->verb];

	strbuf_addf(out, "%s", v->name);
	for (unsigned i = 0; i < stress_params(v); i++) {
		const struct stress_param *p = &v->param[i];

		if (p->words)
			strbuf_addf(out, " %s=%s", p->name,
				p->words[step->value[i]]);
		else
			strbuf_addf(
				out, " %s=%" PRIu32, p->name, step->value[i]);
	}
}

void stress_print(const struct stress_verbs *verbs,
	const struct stress_schedule *s, struct strbuf *out)
{
	strbuf_addf(out, HEAD "%s\n", verbs->area);
	for (uint32_t i = 0; i < s->n; i++) {
		print_step(verbs, &s->step[i], out);
		strbuf_addf(out, "\n");
	}
}

/* ---- in ------------------------------------------------------------------ */

struct reader {
	const char *at;
	unsigned line;
	/* the last word that was read; "" at the end of the line */
	char word[64];
};

/* Read the next word. A word that is too long is truncated, so it is
 * unknown. */
static bool next_word(struct reader *r)
{
	size_t n, kept;

	r->at += strspn(r->at, " \t\r");
	n = *r->at == '#' ? 0 : strcspn(r->at, " \t\r\n");
	kept = n < sizeof(r->word) ? n : sizeof(r->word) - 1;
	memcpy(r->word, r->at, kept);
	r->word[kept] = '\0';
	r->at += n;
	return n;
}

static bool next_line(struct reader *r)
{
	if (r->line)
		r->at += strcspn(r->at, "\n");
	if (r->line && *r->at)
		r->at++;
	r->line++;
	return *r->at;
}

static int number_of(const char *text, uint32_t *out)
{
	char *end;
	unsigned long long n;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || *end || n > UINT32_MAX)
		return -EINVAL;
	*out = (uint32_t)n;
	return 0;
}

static int value_of(
	const struct stress_param *p, const char *text, uint32_t *out)
{
	if (!p->words)
		return number_of(text, out) || *out < p->min || *out > p->max
			? -EINVAL
			: 0;
	for (uint32_t i = p->min; i <= p->max; i++)
		if (!strcmp(p->words[i], text)) {
			*out = i;
			return 0;
		}
	return -EINVAL;
}

static int take_param(const struct reader *r, const struct stress_verb *v,
	struct stress_step *step, struct err *e)
{
	const char *equals = strchr(r->word, '=');
	size_t n = equals ? (size_t)(equals - r->word) : 0;

	for (unsigned i = 0; i < stress_params(v) && equals; i++) {
		const struct stress_param *p = &v->param[i];

		if (strlen(p->name) != n || memcmp(p->name, r->word, n))
			continue;
		if (!value_of(p, equals + 1, &step->value[i]))
			return 0;
		if (p->words)
			return err_set(e, EINVAL, "line %u: no %s is '%s'",
				r->line, p->name, equals + 1);
		return err_set(e, EINVAL,
			"line %u: '%s': %s must be a number from %" PRIu32
			" to %" PRIu32,
			r->line, r->word, p->name, p->min, p->max);
	}
	return err_set(e, EINVAL, "line %u: '%s' has no parameter '%s'",
		r->line, v->name, r->word);
}

static int take_step(struct reader *r, const struct stress_verbs *verbs,
	struct stress_schedule *s, struct err *e)
{
	struct stress_step *step = &s->step[s->n];
	unsigned verb = 0;
	int ret = 0;

	if (s->n == STRESS_STEPS)
		return err_set(e, EINVAL, "line %u: more than %d steps",
			r->line, STRESS_STEPS);
	while (verb < verbs->n && strcmp(verbs->verb[verb].name, r->word))
		verb++;
	if (verb == verbs->n)
		return err_set(e, EINVAL,
			"line %u: '%s' is not a step of the area '%s'", r->line,
			r->word, verbs->area);
	*step = (struct stress_step){ .verb = verb };
	for (unsigned i = 0; i < stress_params(&verbs->verb[verb]); i++)
		step->value[i] = verbs->verb[verb].param[i].min;
	while (!ret && next_word(r))
		ret = take_param(r, &verbs->verb[verb], step, e);
	s->n++;
	return ret;
}

int stress_text_area(
	const char *text, char area[STRESS_AREA_NAME], struct err *e)
{
	struct reader r = { .at = text, .line = 1 };

	if (!strncmp(text, HEAD, strlen(HEAD))) {
		r.at += strlen(HEAD);
		if (next_word(&r) && strlen(r.word) < STRESS_AREA_NAME) {
			memcpy(area, r.word, strlen(r.word) + 1);
			return 0;
		}
	}
	return err_set(e, EINVAL,
		"the file is not a schedule: it must begin with '" HEAD
		"AREA'");
}

int stress_parse(struct stress_schedule *s, const struct stress_verbs *verbs,
	const char *text, struct err *e)
{
	struct reader r = { .at = text, .line = 1 };
	char area[STRESS_AREA_NAME];
	int ret = stress_text_area(text, area, e);

	s->n = 0;
	if (!ret && strcmp(area, verbs->area))
		return err_set(e, EINVAL,
			"the schedule is for the area '%s', not for '%s'", area,
			verbs->area);
	while (!ret && next_line(&r))
		if (next_word(&r))
			ret = take_step(&r, verbs, s, e);
	return ret;
}
