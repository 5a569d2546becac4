#include "host/shipped/soc_file.h"

#include "base/err.h"
#include "base/opt.h"
#include "host/shipped/shipped.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPACE " \t\r"

/* ---- search -------------------------------------------------------------- */

static const struct shipped profiles = { "TANDEM_SOC", "soc", "tensor/soc",
	"the profiles" };

int soc_file_find(const char *name, char path[PATH_MAX], struct err *e)
{
	char file[PATH_MAX], what[64];
	size_t len;

	if (!*name)
		return err_set(e, EINVAL, "the name of a profile is empty");
	len = strlen(name);
	if (!(strchr(name, '/') ||
		    (len > 4 && !strcmp(name + len - 4, ".soc")))) {
		snprintf(file, sizeof(file), "%s.soc", name);
		snprintf(what, sizeof(what), "profile '%s'", name);
		return shipped_find(&profiles, file, what,
			"give a path with a '/' to a file, or ", path, e);
	}
	if (snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
		return err_set(e, ENAMETOOLONG, "the name is too long");
	if (access(path, F_OK))
		return err_sys(e, errno, "cannot find profile '%s'", path);
	return 0;
}

/* ---- parsing ------------------------------------------------------------- */

int soc_file_set(struct soc *out, const char *name, const char *number,
	size_t *i, struct err *e)
{
	struct opt_nearest near = { .word = name };
	double value;
	char *end;

	for (*i = 0; *i < SOC_COUNT; ++*i) {
		if (!strcmp(soc_numbers[*i].name, name))
			break;
		opt_nearest_offer(&near, soc_numbers[*i].name);
	}
	if (*i == SOC_COUNT)
		return err_set(e, EINVAL,
			"a profile has no number called '%.60s'%s", name,
			opt_nearest_clause(&near));
	if (!*number)
		return err_set(e, EINVAL, "%s: the number is missing", name);
	/* Accept only decimal numbers: strtod would also accept "inf", "0x1p3"
	 * and the decimal comma of a locale. */
	value = strtod(number, &end);
	if (number[strspn(number, "0123456789.eE+-")] || *end)
		return err_set(
			e, EINVAL, "%s: '%.40s' is not a number", name, number);
	soc_set(out, *i, value);
	return 0;
}

/* Return the next field of the text at *at. The field ends at white space; *at
 * is moved past this white space. */
static char *cut_field(char **at)
{
	char *field = *at;
	size_t len = strcspn(field, SPACE);

	*at = field + len + strspn(field + len, SPACE);
	field[len] = '\0';
	return field;
}

static int parse_line(
	struct soc *out, bool seen[SOC_COUNT], char *line, struct err *e)
{
	char *source = strchr(line, '#');
	const char *name, *number;
	size_t i;
	int ret;

	if (source) {
		*source++ = '\0';
		source += strspn(source, SPACE);
	}
	line += strspn(line, SPACE);
	if (!*line)
		return 0;
	name = cut_field(&line);
	number = cut_field(&line);
	ret = soc_file_set(out, name, number, &i, e);
	if (ret)
		return ret;
	if (seen[i])
		return err_set(e, EINVAL, "%s is given twice", name);
	if (*line)
		return err_set(e, EINVAL,
			"%s: '%.40s' follows the number; write the number's "
			"source after '#'",
			name, line);
	if (!source || !*source)
		return err_set(e, EINVAL,
			"%s has no source: write after '#' where the number is "
			"from",
			name);
	seen[i] = true;
	return 0;
}

int soc_file_parse(struct soc *out, const char *path, const char *text,
	size_t len, struct err *e)
{
	bool seen[SOC_COUNT] = { false };
	char line[512];
	int ret = 0;

	if (memchr(text, '\0', len))
		return err_set(e, EINVAL,
			"%s: not a text file: it contains a NUL byte", path);
	for (unsigned number = 1; len; number++) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;

		if (n >= sizeof(line))
			return err_set(e, EINVAL,
				"%s:%u: longer than %zu bytes", path, number,
				sizeof(line) - 1);
		memcpy(line, text, n);
		line[n] = '\0';
		if (parse_line(out, seen, line, e))
			return err_in(e, "%s:%u", path, number);
		text += end ? n + 1 : n;
		len -= end ? n + 1 : n;
	}
	for (size_t i = 0; i < SOC_COUNT && !ret; i++)
		if (!seen[i])
			ret = err_set(e, EINVAL, "the number %s is missing",
				soc_numbers[i].name);
	if (!ret)
		ret = soc_check(out, e);
	return ret ? err_in(e, "%s", path) : 0;
}

/* Apply the changes "KEY=VALUE,KEY=VALUE" in `text` to *out. `text` is
 * overwritten. */
static int apply_changes(struct soc *out, char *text, struct err *e)
{
	bool seen[SOC_COUNT] = { false };
	char *number;
	size_t i;
	int ret;

	while ((number = strsep(&text, ","))) {
		const char *name = strsep(&number, "=");

		ret = soc_file_set(out, name, number ? number : "", &i, e);
		if (ret)
			return ret;
		if (seen[i])
			return err_set(e, EINVAL, "%s is given twice", name);
		seen[i] = true;
	}
	return soc_check(out, e);
}

int soc_file_load(struct soc *out, const char *name, struct err *e)
{
	char path[PATH_MAX], *copy = strdup(name), *changes = copy;
	char *text = NULL;
	FILE *f = NULL;
	size_t len;
	int ret;

	if (!copy)
		return err_set(e, ENOMEM, "no memory for a profile's name");
	ret = soc_file_find(strsep(&changes, ","), path, e);
	if (ret)
		goto out;
	f = fopen(path, "re");
	text = malloc(SOC_FILE_MAX + 1);
	if (!f) {
		ret = err_sys(e, errno, "cannot open '%s'", path);
		goto out;
	}
	if (!text) {
		ret = err_set(e, ENOMEM, "no memory to read '%s'", path);
		goto out;
	}
	len = fread(text, 1, SOC_FILE_MAX + 1, f);
	if (ferror(f))
		ret = err_sys(e, EIO, "cannot read '%s'", path);
	else if (len > SOC_FILE_MAX)
		ret = err_set(e, EFBIG, "%s: larger than %u KiB", path,
			SOC_FILE_MAX >> 10);
	else
		ret = soc_file_parse(out, path, text, len, e);
	if (!ret && changes && apply_changes(out, changes, e))
		ret = err_in(e, "profile '%.120s'", name);
out:
	free(copy);
	free(text);
	if (f)
		fclose(f);
	return ret;
}
