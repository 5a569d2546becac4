#include "base/memory_left.h"

#include "base/fd.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_ROOM 512
/* maximum number of bytes that are read from a file; memory.stat has about 2
 * KB */
#define TEXT_ROOM 16384

/* The number after `word` in a line that begins with `word`, 0 if there is no
 * such line. */
static uint64_t number_of(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (; text; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (!strncmp(text, word, n))
			return strtoull(text + n, NULL, 10);
	}
	return 0;
}

/* The number in a file; UINT64_MAX if the file does not exist or contains
 * "max". */
static uint64_t number_in(const char *folder, const char *name)
{
	char path[PATH_ROOM + 64], text[TEXT_ROOM];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (!fd_read_text(path, text, sizeof(text)) || *text < '0' ||
		*text > '9')
		return UINT64_MAX;
	return strtoull(text, NULL, 10);
}

static void take_least(struct memory_left *out, uint64_t left, uint64_t limit,
	const char *kind, const char *name)
{
	if (left >= out->bytes)
		return;
	out->bytes = left;
	out->limit = limit;
	snprintf(out->where, sizeof(out->where), *name ? "%s '%.64s'" : "%s",
		kind, name);
}

/* The file names that differ between version 1 and version 2 of control
 * groups. */
struct group_kind {
	const char *folder;  /* the groups' folder below /sys */
	const char *in_proc; /* the controller's name in /proc/self/cgroup */
	const char *limit, *used, *swap_limit, *swap_used;
	/* the words in memory.stat that precede the bytes of inactive and of
	 * active page cache */
	const char *inactive, *active;
};
static const struct group_kind v1 = { "/fs/cgroup/memory", "memory",
	"memory.limit_in_bytes", "memory.usage_in_bytes", NULL, NULL,
	"total_inactive_file ", "total_active_file " };
static const struct group_kind v2 = { "/fs/cgroup", "", "memory.max",
	"memory.current", "memory.swap.max", "memory.swap.current",
	"inactive_file ", "active_file " };

/*
 * Lower *out to the bytes that a control group may still use: the memory left
 * below its limit (page cache does not count as used), plus the part of the
 * machine's free `swap` that the group may use. In version 1 the swap limit is
 * a limit on memory plus swap, so the memory limit is subtracted from the swap
 * limit.
 */
static void group_left(struct memory_left *out, const struct group_kind *k,
	const char *folder, const char *name, uint64_t swap)
{
	char path[PATH_ROOM + 64], text[TEXT_ROOM];
	uint64_t limit = number_in(folder, k->limit);
	uint64_t used = number_in(folder, k->used), cache;
	uint64_t swap_limit, swap_used = 0;

	if (limit == UINT64_MAX || used == UINT64_MAX)
		return;
	snprintf(path, sizeof(path), "%s/memory.stat", folder);
	if (!fd_read_text(path, text, sizeof(text)))
		*text = '\0';
	cache = number_of(text, k->inactive) + number_of(text, k->active);
	used = used > cache ? used - cache : 0;
	if (k->swap_limit) {
		swap_limit = number_in(folder, k->swap_limit);
		swap_used = number_in(folder, k->swap_used);
		swap_used = swap_used == UINT64_MAX ? 0 : swap_used;
	} else {
		swap_limit = number_in(folder, "memory.memsw.limit_in_bytes");
		if (swap_limit != UINT64_MAX)
			swap_limit =
				swap_limit > limit ? swap_limit - limit : 0;
	}
	swap_limit = swap_limit > swap_used ? swap_limit - swap_used : 0;
	take_least(out,
		(limit > used ? limit - used : 0) +
			(swap_limit < swap ? swap_limit : swap),
		limit, "control group", *name ? name : "/");
}

/*
 * Read the name of the process's own control group from /proc/self/cgroup:
 * "/a/b" from the line "9:cpu,memory:/a/b". The line of version 2 has no
 * controllers: "0::/a/b".
 */
static bool own_group(
	const struct group_kind *k, const char *proc, char name[PATH_ROOM])
{
	char path[PATH_ROOM], text[TEXT_ROOM], *line, *save = NULL;

	snprintf(path, sizeof(path), "%s/self/cgroup", proc);
	if (!fd_read_text(path, text, sizeof(text)))
		return false;
	for (line = strtok_r(text, "\n", &save); line;
		line = strtok_r(NULL, "\n", &save)) {
		char *what = strchr(line, ':');
		char *at = what ? strchr(what + 1, ':') : NULL;

		if (!at)
			continue;
		*what++ = *at++ = '\0';
		if (*k->in_proc ? !strstr(what, k->in_proc) : *what)
			continue;
		snprintf(name, PATH_ROOM, "%s", at);
		return true;
	}
	return false;
}

/* Apply the limits of the process's own control group and of each group above
 * it, up to the root, whose name is "". */
static void groups_left(struct memory_left *out, const struct group_kind *k,
	const char *proc, const char *sys, uint64_t swap)
{
	char name[PATH_ROOM] = "", folder[2 * PATH_ROOM];

	if (!own_group(k, proc, name))
		return;
	for (;;) {
		char *end = strrchr(name, '/');

		if (end && !end[1])
			*end = '\0';
		snprintf(
			folder, sizeof(folder), "%s%s%s", sys, k->folder, name);
		if (strlen(folder) < PATH_ROOM)
			group_left(out, k, folder, name, swap);
		end = strrchr(name, '/');
		if (!end)
			return;
		*end = '\0';
	}
}

void memory_left(struct memory_left *out, const char *proc, const char *sys)
{
	char path[PATH_ROOM], text[TEXT_ROOM];
	uint64_t swap = 0;

	*out = (struct memory_left){ .bytes = UINT64_MAX, .limit = UINT64_MAX };
	snprintf(path, sizeof(path), "%s/meminfo", proc);
	if (fd_read_text(path, text, sizeof(text)) &&
		strstr(text, "MemAvailable:")) {
		swap = number_of(text, "SwapFree:") << 10;
		take_least(out, (number_of(text, "MemAvailable:") << 10) + swap,
			number_of(text, "MemTotal:") << 10, "the machine", "");
	}
	groups_left(out, &v1, proc, sys, swap);
	groups_left(out, &v2, proc, sys, swap);
}
