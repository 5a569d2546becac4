#include "host/models.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* build/VARIANT/tandem is two folders down; a build folder of another name
 * may lie a little deeper. */
#define LEVELS_UP 4

static const struct {
	const char *name, *hint;
} roles[] = {
	[MODEL_TARGET] = { "target", "-m FILE names one, " },
	[MODEL_DRAFT] = { "draft", "--draft FILE names one, " },
	[MODEL_DIFFUSION] = { "diffusion", "-m FILE names one, " },
	[MODEL_EXIT] = { "exit", "" },
	[MODEL_REWARD] = { "reward", "" },
};

const char *model_role_name(enum model_role role)
{
	return roles[role].name;
}

/* A file looked for in one place after the other. */
struct search {
	const char *file;
	char *path; /* [PATH_MAX] */
	bool found;
	struct strbuf places; /* as the message lists them */
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

/* Cut the last name off: false when none is left. */
static bool go_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return false;
	*slash = '\0';
	return true;
}

static bool is_folder(const char *root, const char *name)
{
	char path[PATH_MAX];

	return (size_t)snprintf(path, sizeof(path), "%s/%s/.", root, name) <
		sizeof(path) &&
		!access(path, F_OK);
}

/* The source tree above `folder`, told by its rooms. */
static void look_in_tree(struct search *s, const char *folder)
{
	char root[PATH_MAX];

	snprintf(root, sizeof(root), "%s", folder);
	for (int i = 0; i < LEVELS_UP; i++) {
		if (!go_up(root))
			return;
		if (is_folder(root, "host") && is_folder(root, "flash")) {
			look_below(s, root, "flash/models");
			return;
		}
	}
}

static void look_everywhere(struct search *s)
{
	const char *env = getenv("TANDEM_MODELS");
	char folder[PATH_MAX];
	ssize_t n;

	if (env && *env) {
		look_in(s, env);
		return;
	}
	n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
	if (n <= 0)
		return;
	folder[n] = '\0';
	go_up(folder);
	look_below(s, folder, "models");
	look_in_tree(s, folder);
	if (go_up(folder))
		look_below(s, folder, "share/tandem/models");
}

static int search_end(
	struct search *s, const char *what, const char *hint, struct err *e)
{
	const char *env = getenv("TANDEM_MODELS");
	int ret = 0;

	if (s->places.failed)
		ret = err_set(e, ENOMEM, "no memory to look for '%s'", s->file);
	else if (!s->found && env && *env)
		ret = err_set(e, ENOENT,
			"no %s: %s'%s' is not in '%s', where TANDEM_MODELS "
			"says that the models are",
			what, hint, s->file, env);
	else if (!s->found)
		ret = err_set(e, ENOENT,
			"no %s: %sTANDEM_MODELS=FOLDER says where those are "
			"that come with the program; '%s' was looked for in %s",
			what, hint, s->file,
			s->places.len ? s->places.data : "no place");
	strbuf_release(&s->places);
	return ret;
}

int models_find(enum model_role role, char path[PATH_MAX], struct err *e)
{
	char file[32], what[32];
	struct search s = { .file = file, .path = path };

	snprintf(file, sizeof(file), "%s.gguf", roles[role].name);
	snprintf(what, sizeof(what), "%s model", roles[role].name);
	look_everywhere(&s);
	return search_end(&s, what, roles[role].hint, e);
}

int models_find_task(const char *task, char path[PATH_MAX], struct err *e)
{
	char file[64], what[64];
	struct search s = { .file = file, .path = path };

	snprintf(file, sizeof(file), "tasks/%s.jsonl", task);
	snprintf(what, sizeof(what), "items of task '%s'", task);
	look_everywhere(&s);
	return search_end(&s, what, "", e);
}
