#include "host/shipped/shipped.h"

#include "base/err.h"
#include "base/home.h"
#include "base/strbuf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Number of parent folders of the executable to search for the root of a source
 * tree. The folder of build/VARIANT/tandem is two levels below the root; other
 * build folders may be deeper. */
#define LEVELS_UP 4

/* State of the search for a file in several places. */
struct search {
	const struct shipped *of;
	const char *file;
	char *path; /* [PATH_MAX] result: the path of the file */
	bool found;
	/* list of the folders that were searched, for the error message */
	struct strbuf places;
};

static void look_in(struct search *s, const char *folder)
{
	int n;

	if (s->found)
		return;
	n = snprintf(s->path, PATH_MAX, "%s/%s", folder, s->file);
	s->found = n > 0 && n < PATH_MAX && !access(s->path, F_OK);
	strbuf_addf(&s->places, "%s'%s'", s->places.len ? ", " : "", folder);
}

static void look_below(struct search *s, const char *root, const char *name)
{
	char folder[PATH_MAX];

	if ((size_t)snprintf(folder, sizeof(folder), "%s/%s", root, name) <
		sizeof(folder))
		look_in(s, folder);
}

static bool is_folder(const char *root, const char *name)
{
	char path[PATH_MAX];

	return (size_t)snprintf(path, sizeof(path), "%s/%s/.", root, name) <
		sizeof(path) &&
		!access(path, F_OK);
}

static void look_everywhere(struct search *s)
{
	const char *env = getenv(s->of->env);
	char folder[PATH_MAX], root[PATH_MAX], share[64];

	if (env && *env) {
		look_in(s, env);
		return;
	}
	if (!home_folder(folder))
		return;
	look_below(s, folder, s->of->folder);
	/* Search for the root of a source tree above the executable. The root
	 * is recognized by its folders `host` and `flash`. */
	snprintf(root, sizeof(root), "%s", folder);
	for (int i = 0; i < LEVELS_UP && path_up(root); i++)
		if (is_folder(root, "host") && is_folder(root, "flash")) {
			look_below(s, root, s->of->in_tree);
			break;
		}
	snprintf(share, sizeof(share), "share/tandem/%s", s->of->folder);
	if (home_prefix(folder))
		look_below(s, folder, share);
}

int shipped_find(const struct shipped *of, const char *file, const char *what,
	const char *hint, char path[PATH_MAX], struct err *e)
{
	struct search s = { .of = of, .file = file, .path = path };
	const char *env;
	int ret;

	look_everywhere(&s);

	env = getenv(s.of->env);
	ret = 0;
	if (s.places.failed)
		ret = err_set(e, ENOMEM, "no memory to look for '%s'", s.file);
	else if (!s.found && env && *env)
		ret = err_set(e, ENOENT,
			"no %s: '%s' is not in '%s', the folder that %s names "
			"for %s; %sunset or change %s",
			what, s.file, env, s.of->env, s.of->plural, hint,
			s.of->env);
	else if (!s.found)
		ret = err_set(e, ENOENT,
			"no %s: '%s' was not found in %s; %sset %s to the "
			"folder of %s that come with Tandem",
			what, s.file,
			s.places.len ? s.places.data : "any folder", hint,
			s.of->env, s.of->plural);
	strbuf_release(&s.places);
	return ret;
}
