#include "tests/stress/va_maps.h"

#include "base/err.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct one {
	uint64_t from, to;
	char access[8];
	char name[48]; /* name of a memfd; "" for any other mapping */
};

struct process_maps {
	struct one *one;
	size_t n, cap;
	unsigned fds;
};

static bool grow(struct process_maps *m)
{
	size_t cap = m->cap ? 2 * m->cap : 64;
	struct one *more = realloc(m->one, cap * sizeof(*more));

	if (!more)
		return false;
	m->one = more;
	m->cap = cap;
	return true;
}

/* Parse a line "from-to rw-s offset dev inode /memfd:NAME (deleted)". Text
 * after the name is ignored. */
static void take_line(struct process_maps *m, const char *line)
{
	const char *name = strstr(line, "/memfd:");
	struct one *o = &m->one[m->n];

	*o = (struct one){ 0 };
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &o->from, &o->to,
		    o->access) != 3)
		return;
	if (name) {
		name += strlen("/memfd:");
		snprintf(o->name, sizeof(o->name), "%.*s",
			(int)strcspn(name, " \n"), name);
	}
	m->n++;
}

static int count_fds(struct process_maps *m, pid_t pid, struct err *e)
{
	char path[64];
	struct dirent *one;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	if (!d)
		return err_sys(e, errno, "'%s'", path);
	while ((one = readdir(d)))
		m->fds += isdigit((unsigned char)one->d_name[0]) != 0;
	closedir(d);
	return 0;
}

int process_maps_read(struct process_maps **out, pid_t pid, struct err *e)
{
	struct process_maps *m = calloc(1, sizeof(*m));
	char path[64], line[PATH_MAX + 128];
	FILE *f;

	*out = NULL;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	if (!m || !f) {
		err_sys(e, m ? errno : ENOMEM, "'%s'", path);
		goto out;
	}
	e->code = 0;
	count_fds(m, pid, e);
	while (!e->code && fgets(line, sizeof(line), f)) {
		if (m->n == m->cap && !grow(m))
			err_set(e, ENOMEM, "no memory for '%s'", path);
		else
			take_line(m, line);
	}
out:
	if (f)
		fclose(f);
	if (e->code)
		process_maps_free(m);
	else
		*out = m;
	return e->code;
}

void process_maps_free(struct process_maps *m)
{
	if (!m)
		return;
	free(m->one);
	free(m);
}

unsigned process_maps_fds(const struct process_maps *m)
{
	return m->fds;
}

bool process_maps_find(const struct process_maps *m, const char *name,
	uint64_t *at, uint64_t *bytes)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct one *o = &m->one[i];

		if (strcmp(o->name, name) || strcmp(o->access, "rw-s"))
			continue;
		*at = o->from;
		*bytes = o->to - o->from;
		return true;
	}
	return false;
}

unsigned process_maps_count(const struct process_maps *m, const char *prefix)
{
	unsigned n = 0;

	for (size_t i = 0; i < m->n; i++)
		n += !strncmp(m->one[i].name, prefix, strlen(prefix));
	return n;
}

bool process_maps_guards(
	const struct process_maps *m, uint64_t at, uint64_t bytes)
{
	uint64_t end = at + bytes;

	/* The mappings are sorted by address. */
	for (size_t i = 0; i < m->n && at < end; i++) {
		const struct one *o = &m->one[i];

		if (at < o->from || at >= o->to)
			continue;
		if (strcmp(o->access, "---p"))
			return false;
		at = o->to;
	}
	return at >= end;
}
