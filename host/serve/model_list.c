#include "host/serve/model_list.h"

#include "base/err.h"
#include "base/strbuf.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_same_file(const char *a, const char *b)
{
	struct stat one, other;

	return !stat(a, &one) && !stat(b, &other) &&
		one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

int model_list_add(
	struct model_list *l, const char *name, const char *path, struct err *e)
{
	struct listed_model m = { .name = NULL }, *more;
	const char *slash = strrchr(path, '/'), *file, *dot;
	struct stat st;

	file = slash ? slash + 1 : path;
	dot = strrchr(file, '.');
	for (size_t i = 0; i < l->n; i++)
		if (is_same_file(l->model[i].path, path))
			return 0;
	m.name = name               ? strdup(name)
		: dot && dot > file ? strndup(file, (size_t)(dot - file))
				    : strdup(file);
	m.path = strdup(path);
	m.bytes = stat(path, &st) ? 0 : (uint64_t)st.st_size;
	more = reallocarray(l->model, l->n + 1, sizeof(*more));
	if (more)
		l->model = more;
	if (!m.name || !m.path || !more) {
		free(m.name);
		free(m.path);
		return err_set(e, ENOMEM, "no memory for the list of models");
	}
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->model[i].name, m.name)) {
			err_set(e, EEXIST,
				"'%s' and '%s' are both named '%s'; rename one "
				"of the files",
				l->model[i].path, m.path, m.name);
			free(m.name);
			free(m.path);
			return -EEXIST;
		}
	l->model[l->n++] = m;
	return 0;
}

static int is_model(const struct dirent *d)
{
	const char *dot = strrchr(d->d_name, '.');

	return dot && dot > d->d_name &&
		(!strcmp(dot, ".gguf") || !strcmp(dot, ".tdm"));
}

int model_list_add_folder(
	struct model_list *l, const char *folder, struct err *e)
{
	struct dirent **file;
	int n = scandir(folder, &file, is_model, alphasort), ret = 0;

	if (n < 0)
		return err_sys(e, errno, "cannot read the folder '%s'", folder);
	if (!n)
		ret = err_set(e, ENOENT,
			"the folder '%s' has no .gguf and no .tdm file",
			folder);
	for (int i = 0; i < n; i++) {
		struct strbuf path = STRBUF_INIT;

		strbuf_addf(&path, "%s/%s", folder, file[i]->d_name);
		if (!ret)
			ret = path.failed
				? err_set(e, ENOMEM, "no memory for a path")
				: model_list_add(l, NULL, path.data, e);
		strbuf_release(&path);
		free(file[i]);
	}
	free(file);
	return ret;
}

void model_list_release(struct model_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->model[i].name);
		free(l->model[i].path);
	}
	free(l->model);
	*l = (struct model_list){ 0 };
}
