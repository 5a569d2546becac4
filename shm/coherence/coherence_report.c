#include "shm/coherence/coherence_report.h"

#include "base/checked.h"
#include "base/err.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SITES_MAX 512
#define RULES_MAX 1024

struct rule {
	bool only;
	char *pattern;
};

struct site { /* a function or operator that causes maintenance calls */
	enum coherence_call what;
	char buffer[32], name[64];
	/* `calls` is the number of calls that the site caused. All calls of
	 * kind `what` for the buffer are numbered in order; `first` and `last`
	 * are the numbers of the site's first and last call. */
	uint64_t calls, first, last;
};

struct coherence_report {
	FILE *file; /* NULL: violations are only counted */
	char *path;
	struct rule *rule;
	size_t n_rules;
	bool has_only;
	struct site site[SITES_MAX];
	unsigned n_sites;
	uint64_t added, suppressed, lost;
	uint64_t of_kind[VIOLATION_KINDS];
};

static const char *const maintenance_name[] = {
	[COHERENCE_CALL_NONE] = "none",
	[COHERENCE_CALL_INVALIDATE] = "invalidate",
	[COHERENCE_CALL_CLEAN] = "clean",
	[COHERENCE_CALL_WORD] = "word",
	[COHERENCE_CALL_CLEAN_ALL] = "clean_all",
	[COHERENCE_CALL_FLUSH_ALL] = "flush_all",
	[COHERENCE_CALL_WAIT] = "wait",
};

/* ---- rules of suppression ------------------------------------------------ */

static int add_rule(struct coherence_report *r, char *line, struct err *e)
{
	char *end = strchr(line, '#');
	struct rule *more;

	/* Strip the comment and surrounding blanks. */
	if (!end)
		end = line + strlen(line);
	while (end > line && strchr(" \t\r\n", end[-1]))
		end--;
	*end = '\0';
	line += strspn(line, " \t");
	if (!*line)
		return 0;
	if (r->n_rules == RULES_MAX)
		return err_set(e, E2BIG, "more than %d rules", RULES_MAX);
	more = realloc(r->rule, (r->n_rules + 1) * sizeof(*more));
	if (!more)
		return err_set(e, ENOMEM, "no memory for the list of rules");
	r->rule = more;
	more += r->n_rules;
	more->only = !strncmp(line, "only ", 5);
	more->pattern = strdup(more->only ? line + 5 : line);
	if (!more->pattern)
		return err_set(e, ENOMEM, "no memory for the list of rules");
	r->has_only |= more->only;
	r->n_rules++;
	return 0;
}

static int read_rules(
	struct coherence_report *r, const char *path, struct err *e)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	int ret = 0;

	if (!f)
		return err_sys(e, errno, "cannot open suppressions '%s'", path);
	while (!ret && getline(&line, &room, f) >= 0)
		if ((ret = add_rule(r, line, e)))
			err_in(e, "suppressions '%s'", path);
	if (!ret && ferror(f))
		ret = err_sys(e, EIO, "cannot read suppressions '%s'", path);
	free(line);
	fclose(f);
	return ret;
}

/* ---- opening, closing ---------------------------------------------------- */

static void release(struct coherence_report *r)
{
	if (r->file)
		fclose(r->file);
	for (size_t i = 0; i < r->n_rules; i++)
		free(r->rule[i].pattern);
	free(r->rule);
	free(r->path);
	free(r);
}

int coherence_report_open(struct coherence_report **out, const char *path,
	const char *suppress, struct err *e)
{
	struct coherence_report *r = calloc(1, sizeof(*r));
	int ret = 0;

	if (!r)
		return err_set(e, ENOMEM, "no memory for coherence reports");
	if (suppress && (ret = read_rules(r, suppress, e)))
		goto fail;
	if (path) {
		r->path = strdup(path);
		if (!r->path) {
			ret = err_set(
				e, ENOMEM, "no memory for coherence reports");
			goto fail;
		}
		r->file = fopen(path, "ae");
		if (!r->file) {
			ret = err_sys(e, errno,
				"cannot open '%s' for coherence reports", path);
			goto fail;
		}
		setvbuf(r->file, NULL, _IOLBF, BUFSIZ);
		/* Set a seed: without one, jansson opens /dev/urandom when it
		 * creates the first object, and the sandbox forbids this. */
		json_object_seed(1);
	}
	*out = r;
	return 0;
fail:
	release(r);
	return ret;
}

/* Write JSON object `o` to the file, as one line. Takes ownership of `o`; NULL
 * means that there was no memory for the object. */
static void put(struct coherence_report *r, json_t *o)
{
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

	if (!text || fprintf(r->file, "%s\n", text) < 0)
		r->lost++;
	free(text);
	json_decref(o);
}

static json_t *all_sites(const struct coherence_report *r)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < r->n_sites; i++) {
		const struct site *s = &r->site[i];

		if (!json_array_append_new(list,
			    json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "call",
				    maintenance_name[s->what], "buffer",
				    s->buffer, "site", s->name, "calls",
				    (json_int_t)s->calls, "first",
				    (json_int_t)s->first, "last",
				    (json_int_t)s->last)))
			continue;
		json_decref(list);
		return NULL;
	}
	return list;
}

static json_t *all_kinds(const struct coherence_report *r)
{
	json_t *kinds = json_object();

	for (unsigned i = 0; i < VIOLATION_KINDS; i++) {
		const char *name = violation_kind_name(i);
		json_int_t n = json_integer_value(json_object_get(kinds, name));

		if (!json_object_set_new(kinds, name,
			    json_integer(n + (json_int_t)r->of_kind[i])))
			continue;
		json_decref(kinds);
		return NULL;
	}
	return kinds;
}

int coherence_report_close(struct coherence_report *r, struct err *e)
{
	int ret = 0;

	if (!r)
		return 0;
	if (r->file) {
		put(r,
			json_pack("{s:i, s:s, s:I, s:I, s:o, s:o}", "version",
				1, "report", "summary", "violations",
				(json_int_t)r->added, "suppressed",
				(json_int_t)r->suppressed, "kinds",
				all_kinds(r), "sites", all_sites(r)));
		if (fclose(r->file))
			r->lost++;
		r->file = NULL;
	}
	if (r->lost)
		ret = err_set(e, EIO,
			"%" PRIu64 " coherence reports could not be written "
			"to '%s'",
			r->lost, r->path);
	release(r);
	return ret;
}

/* ---- violations ---------------------------------------------------------- */

bool coherence_report_suppresses(
	struct coherence_report *r, const struct violation *v)
{
	bool suppressed = r->has_only;
	char where[64], subject[256];

	violation_where(v->op, v->layer, where, sizeof(where));
	snprintf(subject, sizeof(subject), "%s: %s: %s: %s",
		violation_kind_name(v->kind), v->buffer, where,
		v->cpu_by[0] ? v->cpu_by : "-");
	for (size_t i = 0; i < r->n_rules; i++)
		if (!fnmatch(r->rule[i].pattern, subject, 0))
			suppressed = !r->rule[i].only;
	r->suppressed += suppressed;
	return suppressed;
}

static json_t *layer_of(int layer)
{
	return layer < 0 ? NULL : json_integer(layer);
}

static json_t *value_of(const uint8_t *byte, unsigned n)
{
	char hex[2 * VIOLATION_VALUE_BYTES + 1] = "";

	for (unsigned i = 0; i < n; i++)
		snprintf(hex + (size_t)2 * i, 3, "%02x", byte[i]);
	return json_string(hex);
}

void coherence_report_add(struct coherence_report *r, const struct violation *v,
	double maintenance_bytes_per_s, double whole_s)
{
	double us = violation_needless_us(v, maintenance_bytes_per_s, whole_s);
	uint64_t needless = violation_needless_bytes(v);
	const struct violation_values *l = &v->values;
	json_t *cpu = NULL, *before, *values = NULL;
	char missing[320];

	r->of_kind[v->kind]++;
	if (r->added++ >= COHERENCE_REPORT_LINES || !r->file)
		return;
	violation_missing(v, missing, sizeof(missing));
	if (violation_cpu_wrote(v->kind) || v->cpu_known)
		cpu = json_pack("{s:o*, s:s*}", "bracket",
			v->cpu_known ? json_integer(v->cpu_seq) : NULL,
			"function", v->cpu_by[0] ? v->cpu_by : NULL);
	/* Describe the device's access to the line before the violation. */
	before = json_pack("{s:b, s:I, s:s*, s:o*}", "wrote",
		violation_device_wrote(v->kind), "request",
		(json_int_t)v->loaded, "operator", v->before, "layer",
		v->before ? layer_of(v->before_layer) : NULL);
	if (l->n)
		values = json_pack("{s:I, s:o, s:o, s:I}", "at",
			(json_int_t)l->at, "cache", value_of(l->cached, l->n),
			"memory", value_of(l->memory, l->n), "evicted_bytes",
			(json_int_t)v->evicted);
	put(r,
		json_pack("{s:i, s:s, s:s, s:s, s:I, s:I, s:s, s:o*, s:I, "
			  "s:o*, s:o*, s:o*, s:s*, s:o*, s:o*}",
			"version", 1, "report", "violation", "kind",
			violation_kind_name(v->kind), "buffer", v->buffer,
			"from", (json_int_t)v->from, "to", (json_int_t)v->to,
			"operator", v->op, "layer", layer_of(v->layer),
			"request", (json_int_t)v->request, "cpu", cpu, "before",
			before, "values", values, "missing",
			missing[0] ? missing : NULL, "needless_bytes",
			needless ? json_integer((json_int_t)needless) : NULL,
			"needless_us", us > 0 ? json_real(us) : NULL));
}

/* ---- maintenance calls --------------------------------------------------- */

/* The number of maintenance calls so far that have the same kind and the same
 * buffer as call c. */
static uint64_t number_of(
	const struct coherence_report *r, const struct maintenance_call *c)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < r->n_sites; i++)
		if (r->site[i].what == c->what &&
			!strcmp(r->site[i].buffer, c->buffer))
			n += r->site[i].calls;
	return n;
}

void coherence_report_called(
	struct coherence_report *r, const struct maintenance_call *c)
{
	struct site *s = r->site, *end = r->site + r->n_sites;

	while (s < end &&
		(s->what != c->what || strcmp(s->buffer, c->buffer) ||
			strcmp(s->name, c->site)))
		s++;
	if (s == end) {
		if (r->n_sites == ARRAY_LEN(r->site))
			return;
		r->n_sites++;
		s->what = c->what;
		snprintf(s->buffer, sizeof(s->buffer), "%s", c->buffer);
		snprintf(s->name, sizeof(s->name), "%s", c->site);
	}
	s->calls++;
	s->last = number_of(r, c);
	if (!s->first)
		s->first = s->last;
}

void coherence_report_left_out(
	struct coherence_report *r, const struct maintenance_call *c)
{
	if (!r->file)
		return;
	put(r,
		json_pack("{s:i, s:s, s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:s, "
			  "s:o*, s:I, s:I, s:I, s:I}",
			"version", 1, "report", "left out", "call",
			maintenance_name[c->what], "number",
			(json_int_t)number_of(r, c), "buffer", c->buffer,
			"site", c->site, "from", (json_int_t)c->from, "to",
			(json_int_t)c->to, "bracket", (json_int_t)c->cpu_seq,
			"operator", c->op, "layer", layer_of(c->layer),
			"request", (json_int_t)c->request, "held_lines",
			(json_int_t)c->held, "differing_lines",
			(json_int_t)c->differing, "written_lines",
			(json_int_t)c->written));
}
