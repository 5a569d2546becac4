/*
 * Opens model files of model_file.h, or checks that they are refused with a
 * message that names the reason.
 */
#ifndef TESTS_HOST_MODEL_OPENED_FILE_H
#define TESTS_HOST_MODEL_OPENED_FILE_H

#include "base/err.h"
#include "host/model/model.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"

#include <stdio.h>
#include <string.h>

static char path[4200];

static inline const char *write_file(const struct model_file *f)
{
	if (!*path)
		snprintf(path, sizeof(path), "%s/m.gguf", harness_tmp());
	model_file_write(f, path);
	return path;
}

static inline struct model *open_file(const struct model_file *f)
{
	struct err e = { 0 };
	struct model *m;

	assert_ok(model_open(&m, write_file(f), NULL, NULL, &e), &e);
	return m;
}

/* Opening must fail with a message that contains `a`, `b` and the file's
 * name. */
static inline void refused(
	const struct model_file *f, const char *a, const char *b)
{
	struct err e = { 0 };
	struct model *m;

	if (!model_open(&m, write_file(f), NULL, NULL, &e))
		fail_msg("not refused for '%s'", a);
	if (!strstr(e.text, a) || !strstr(e.text, b) || !strstr(e.text, path))
		fail_msg("'%s' has not '%s', '%s' and the path", e.text, a, b);
}

#endif
