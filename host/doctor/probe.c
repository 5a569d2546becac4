#include "host/doctor/probe.h"

#include "base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const struct probe probes[] = {
#define X(name, required, look) { name, required, look },
	PROBES(X)
#undef X
};
const size_t n_probes = ARRAY_LEN(probes);

const char *probe_state_name(enum probe_state state)
{
	static const char *const name[] = { "ok", "limited", "missing" };

	return state < PROBE_STATE_COUNT ? name[state] : "?";
}

void probe_look(const struct probe *p, struct finding *f)
{
	memset(f, 0, sizeof(*f));
	f->numbers = json_object();
	p->look(f);
}

void finding_release(struct finding *f)
{
	json_decref(f->numbers);
	f->numbers = NULL;
}

void finding_is(struct finding *f, enum probe_state state, const char *fmt, ...)
{
	va_list ap;

	f->state = state;
	va_start(ap, fmt);
	vsnprintf(f->found, sizeof(f->found), fmt, ap);
	va_end(ap);
}

void finding_also(struct finding *f, const char *fmt, ...)
{
	size_t n = strlen(f->found);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->found + n, sizeof(f->found) - n, fmt, ap);
	va_end(ap);
}

void finding_means(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->means, sizeof(f->means), fmt, ap);
	va_end(ap);
}

void finding_fix(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->fix, sizeof(f->fix), fmt, ap);
	va_end(ap);
}

const char *probe_bytes(char buf[24], uint64_t bytes)
{
	static const char *const unit[] = { "bytes", "KiB", "MiB", "GiB",
		"TiB" };
	double v = (double)bytes;
	unsigned u = 0;

	if (bytes == UINT64_MAX)
		return "unlimited";
	for (; v >= 1024 && u + 1 < ARRAY_LEN(unit); u++)
		v /= 1024;
	snprintf(buf, 24, v == (double)(uint64_t)v ? "%.0f %s" : "%.1f %s", v,
		unit[u]);
	return buf;
}

bool probe_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool got;

	if (!f)
		return false;
	got = fgets(buf, (int)size, f);
	fclose(f);
	if (got)
		buf[strcspn(buf, "\n")] = '\0';
	return got;
}

bool probe_number(const char *path, int64_t *out)
{
	char line[64], *end;
	long long v;

	if (!probe_line(path, line, sizeof(line)))
		return false;
	errno = 0;
	v = strtoll(line, &end, 10);
	if (errno || end == line)
		return false;
	*out = v;
	return true;
}

bool probe_field(const char *path, const char *key, int64_t *out)
{
	size_t n = strlen(key);
	char line[256];
	bool found = false;
	FILE *f = fopen(path, "re");

	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, n) || line[n] != ':')
			continue;
		*out = strtoll(line + n + 1, NULL, 10);
		found = true;
	}
	fclose(f);
	return found;
}

bool probe_program(const char *name, char *buf, size_t size)
{
	const char *dir = getenv("PATH");

	while (dir && *dir) {
		size_t n = strcspn(dir, ":");

		snprintf(buf, size, "%.*s/%s", (int)n, dir, name);
		if (n && !access(buf, X_OK))
			return true;
		dir += n + (dir[n] == ':');
	}
	return false;
}

const char *probe_sudo(void)
{
	return geteuid() ? "sudo " : "";
}

void *probe_memfd(size_t bytes, unsigned flags, int *fd)
{
	void *map;

	*fd = memfd_create("tandem:doctor", MFD_CLOEXEC | flags);
	if (*fd < 0)
		return NULL;
	/* Allocate huge pages now, with fallocate(): if no huge page were
	 * available, the first access would raise SIGBUS. */
	if (ftruncate(*fd, (off_t)bytes) ||
		(flags & MFD_HUGETLB && fallocate(*fd, 0, 0, (off_t)bytes)))
		goto fail;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (map != MAP_FAILED)
		return map;
fail:
	close(*fd);
	*fd = -1;
	return NULL;
}
