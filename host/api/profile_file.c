#include "host/api/profile_file.h"

#include "base/checked.h"
#include "base/fd.h"
#include "base/newfile.h"
#include "host/tree/pass_cost.h"
#include "ipc/wire.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PROFILE_VERSION 3
#define FILE_MOST       ((size_t)64 << 10)

/*
 * A profile that was measured at a CPU pressure of at least BUSY is measured
 * again when the pressure is at most IDLE. Passes at a pressure of BUSY or more
 * are not compared with the profile. (CPU pressure: the share of time, 0 to 1,
 * in which a runnable task waits for a CPU.)
 */
#define BUSY 0.5
#define IDLE 0.1

/*
 * A profile is measured again if its times are longer than those of later
 * passes by a factor of more than MISFIT * `spread`. `spread` (struct
 * pass_cost) is the typical ratio between repeated measurements of the same
 * time. The comparison needs at least REVIEWED later passes, because each pass
 * corrects only a part of the error of the known costs (pass_cost_saw_rows).
 */
#define MISFIT   1.5
#define REVIEWED 4

/* Members of struct pass_cost that are times in nanoseconds. name: name in the
 * file; at: offset of the time; n_at: offset of the member that counts the
 * observations of this time. */
static const struct {
	const char *name;
	size_t at, n_at;
} term[] = {
#define TERM(name, of)                                     \
	{                                                  \
		name, offsetof(struct pass_cost, of),      \
			offsetof(struct pass_cost, n_##of) \
	}
	TERM("token", token),
	TERM("begin", begin),
	TERM("other", other),
	TERM("look_1", look[0]),
	TERM("look_2", look[1]),
	TERM("look_4", look[2]),
	TERM("look_8", look[3]),
};
_Static_assert(PASS_LOOKS == 4,
	"the table has a row for each element of "
	"look[]");

static double *term_of(struct pass_cost *c, size_t at)
{
	return (double *)((char *)c + at);
}

static uint32_t *count_of(struct pass_cost *c, size_t at)
{
	return (uint32_t *)((char *)c + at);
}

static bool is_time(double x)
{
	return isfinite(x) && x >= 0;
}

static bool read_terms(json_t *o, struct pass_cost *c)
{
	for (size_t i = 0; i < ARRAY_LEN(term); i++) {
		double *x = term_of(c, term[i].at);
		int n;

		if (json_unpack(o, "{s:[F, i!]}", term[i].name, x, &n) ||
			!is_time(*x) || n < 0 || n > PASS_MEMORY)
			return false;
		*count_of(c, term[i].n_at) = (uint32_t)n;
	}
	return !json_unpack(o, "{s:F, s:F}", "read", &c->read, "spread",
		       &c->spread) &&
		is_time(c->read) && is_time(c->spread);
}

static bool read_rows(const json_t *o, struct pass_cost *c)
{
	const json_t *row = json_object_get(o, "rows"),
		     *time = json_object_get(o, "time");
	size_t n = json_array_size(row);
	uint32_t at[PASS_ROWS];
	double takes[PASS_ROWS];

	if (!n || n > PASS_ROWS || json_array_size(time) != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		json_int_t r = json_integer_value(json_array_get(row, i));

		takes[i] = json_number_value(json_array_get(time, i));
		if (r < 1 || r > WIRE_MAX_ROWS || (i && r <= at[i - 1]) ||
			!is_time(takes[i]) || takes[i] <= 0)
			return false;
		at[i] = (uint32_t)r;
	}
	pass_cost_set(c, at, takes, (uint32_t)n);
	return true;
}

bool profile_recall(const char *path, const json_t *key, struct pass_cost *cost,
	double *pressure)
{
	struct pass_cost c = *cost;
	double p;
	char *text;
	size_t len;
	json_t *o, *cost_is;
	struct stat st;
	bool is;

	if (stat(path, &st) || !S_ISREG(st.st_mode) ||
		fd_read_file(path, FILE_MOST, &text, &len, NULL))
		return false;
	o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	cost_is = json_object_get(o, "cost");
	is = json_integer_value(json_object_get(o, "version")) ==
			PROFILE_VERSION &&
		json_equal(json_object_get(o, "key"), key) &&
		read_terms(cost_is, &c) && read_rows(cost_is, &c) &&
		!json_unpack(o, "{s:F}", "pressure", &p) && p >= 0 && p <= 1;
	json_decref(o);
	free(text);
	if (is) {
		*cost = c;
		*pressure = p;
	}
	return is;
}

void profile_keep(
	const char *path, json_t *key, struct pass_cost *cost, double pressure)
{
	struct newfile f = { .fd = -1 };
	json_t *row = json_array(), *time = json_array();
	json_t *c = json_pack("{s:f, s:f, s:O, s:O}", "read", cost->read,
		"spread", cost->spread, "rows", row, "time", time);
	json_t *o = json_pack("{s:i, s:O, s:f, s:o}", "version",
		PROFILE_VERSION, "key", key, "pressure", pressure, "cost", c);
	char *text;
	int ret;

	for (size_t i = 0; i < ARRAY_LEN(term); i++)
		json_object_set_new(c, term[i].name,
			json_pack("[f, i]", *term_of(cost, term[i].at),
				(int)*count_of(cost, term[i].n_at)));
	for (uint32_t i = 0; i < cost->n_rows; i++) {
		json_array_append_new(row, json_integer(cost->row[i]));
		json_array_append_new(time, json_real(cost->time[i]));
	}
	json_decref(row);
	json_decref(time);
	text = json_dumps(o, JSON_INDENT(2));
	ret = text ? newfile_open(&f, path, NEWFILE_PUBLIC, NULL) : -ENOMEM;
	if (!ret)
		ret = fd_write_all(f.fd, text, strlen(text));
	if (!ret)
		newfile_commit(&f, NULL);
	newfile_close(&f);
	free(text);
	json_decref(o);
}

bool profile_was_disturbed(double then, double now)
{
	return then >= BUSY && now <= IDLE;
}

/* Returns true only if passes are faster than the profile predicts. Slower
 * passes do not count, because other programs and long texts slow passes
 * down. */
bool profile_misfits(
	const struct pass_cost *was, const struct pass_cost *is, double now)
{
	double factor = 0;

	if (now >= BUSY || is->n_seen < REVIEWED || is->n_rows != was->n_rows)
		return false;
	for (uint32_t i = 0; i < is->n_rows; i++)
		factor += log(was->time[i] / is->time[i]) / is->n_rows;
	return factor > log(MISFIT * fmax(was->spread, 1));
}
