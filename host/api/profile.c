/* Loads or measures the profile of a streamed model: the costs of its passes
 * (runs of the model) on this machine. */
#include "host/api/profile.h"

#include "base/cpu_pressure.h"
#include "base/user_file.h"
#include "base/version.h"
#include "base/workers.h"
#include "flash/image.h"
#include "host/api/decoder.h"
#include "host/api/options.h"
#include "host/api/profile_file.h"
#include "host/model/model.h"
#include "host/model/packed.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* a draft model is identified by the size of its file and by the first
 * DRAFT_HEAD bytes of the file */
#define DRAFT_HEAD ((size_t)1 << 20)

const char *const profile_uses[] = { "remember", "probe", "learn", NULL };
const char *const profile_froms[] = { "none", "probed", "remembered" };

/* ---- the key of a profile ------------------------------------------------ */

static void put_sum(json_t *o, const char *name, uint64_t sum)
{
	char text[17];

	snprintf(text, sizeof(text), "%016" PRIx64, sum);
	json_object_set_new(o, name, json_string(text));
}

/* A hash of the flash image's table of extents (ranges of bytes in the file),
 * which contains a checksum of every extent. */
static uint64_t image_identity(const struct image *image)
{
	struct image_sum *sum = image_sum_open();
	uint64_t id;

	if (!sum)
		return 0;
	image_sum_begin(sum, IMAGE_XXH3);
	for (size_t i = 0; i < image_n_extents(image); i++) {
		const struct image_extent *x = image_extent_at(image, i);
		const uint64_t word[] = { x->kind, x->index, x->offset,
			x->stored, x->bytes, x->codec, x->checksum };

		image_sum_add(sum, word, sizeof(word));
	}
	id = image_sum_so_far(sum);
	image_sum_close(sum);
	return id;
}

/* A hash of the file's size and its first DRAFT_HEAD bytes, which contain the
 * sizes of the model's layers. */
static uint64_t draft_identity(const char *path)
{
	struct stat st = { 0 };
	char *head = malloc(DRAFT_HEAD);
	FILE *f = head ? fopen(path, "re") : NULL;
	uint64_t id = 0;

	if (f && !fstat(fileno(f), &st))
		id = image_sum_of(
			     IMAGE_XXH3, head, fread(head, 1, DRAFT_HEAD, f)) ^
			(uint64_t)st.st_size;
	if (f)
		fclose(f);
	free(head);
	return id;
}

/* Return the key of the decoder's profile: everything that changes the cost of
 * its passes, as JSON. Returns NULL if memory is short. */
static json_t *key_of(const struct decoder *d)
{
	const struct session_opts *o = &d->session_opts;
	const struct drafting *g = &d->drafting;
	uint32_t room = session_context(d->session);
	json_t *key = json_object(), *machine = json_object(), *pair, *draft;
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256], name[200];
	struct session_stats s;
	struct utsname u;

	session_stats(d->session, &s);
	json_object_set_new(key, "tandem", json_string(TANDEM_VERSION));
	json_object_set_new(key, "method", json_string(d->method->name));
	put_sum(key, "image", image_identity(d->model->packed->image));
	if (!uname(&u)) {
		json_object_set_new(machine, "name", json_string(u.nodename));
		json_object_set_new(machine, "kind", json_string(u.machine));
	}
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "model name : %199[^\n]", name) == 1) {
			json_object_set_new(
				machine, "processor", json_string(name));
			break;
		}
	if (f)
		fclose(f);
	json_object_set_new(machine, "threads", json_integer(s.threads));
	json_object_set_new(machine, "kernels", json_string(s.kern));
	json_object_set_new(key, "machine", machine);
	pair = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, "
			 "s:I, s:i, s:s}",
		"precision", precision_names[o->precision], "coherence",
		coherence_names[o->coherence], "doorbell",
		doorbell_names[o->doorbell], "placement",
		placement_names[s.placement], "resident_layers",
		(int)s.resident_layers, "resident_runs", (int)s.resident_runs,
		"stage_slots", (int)o->stage_slots, "blocks", (int)s.blocks,
		"rows", (int)(o->decode_rows < room ? o->decode_rows : room),
		"exit_layers", (int)o->exit_layers, "window",
		(json_int_t)o->va_window, "window_slots", (int)o->va_slots,
		"flash",
		o->stream.threaded           ? "threads"
			: o->stream.buffered ? "buffered"
					     : "direct");
	json_object_set_new(key, "pair", pair);
	draft = json_pack("{s:b, s:i}", "on_device", g->opts.on_device, "batch",
		(int)g->drafter.batch);
	for (unsigned i = 0; i < g->n; i++) {
		snprintf(name, sizeof(name), "draft_%u", i);
		if (g->part[i].path[0])
			put_sum(draft, name, draft_identity(g->part[i].path));
		else
			json_object_set_new(
				draft, name, json_string(g->part[i].word));
	}
	json_object_set_new(key, "draft", draft);
	return key;
}

/* ---- loading or measuring a profile -------------------------------------- */

int profile_take(struct decoder *d, struct err *e)
{
	const struct session_opts *o = &d->session_opts;
	const struct decoding_options *decoding =
		opt_values_of(&d->options, &decoding_table);
	double now = cpu_pressure("/proc", workers_online()), then = 0;
	struct pass_cost *cost;
	char name[64], file[PATH_MAX], *text = NULL, *path = NULL;
	json_t *key = NULL;
	int ret = 0;

	if (!d->method->probe || o->soc || o->idle || !d->model->packed ||
		!session_flash_how(d->session) || o->fault || o->flash_fault ||
		decoding->profile == PROFILE_LEARN)
		return 0;
	cost = d->method->cost(&d->env);
	/* The profile has no file (`path` stays NULL) with --profile probe,
	 * without a cache directory, and if memory is short. */
	if (decoding->profile == PROFILE_REMEMBER && (key = key_of(d)))
		text = json_dumps(key, JSON_COMPACT | JSON_SORT_KEYS);
	if (text) {
		snprintf(name, sizeof(name), "lever-%016" PRIx64 ".json",
			image_sum_of(IMAGE_XXH3, text, strlen(text)));
		free(text);
		if (!user_file_make_way(USER_CACHE, name, file))
			path = strdup(file);
	}
	d->profile_path = path;
	d->profile_cost = *cost;
	if (path && profile_recall(path, key, &d->profile_cost, &then) &&
		!profile_was_disturbed(then, now)) {
		*cost = d->profile_cost;
		d->profile = PROFILE_REMEMBERED;
	} else {
		ret = d->method->probe(d->session, &d->env, e);
		session_stats(d->session, &d->probed);
		if (!ret)
			d->profile = PROFILE_PROBED;
	}
	if (path && d->profile == PROFILE_PROBED) {
		d->profile_cost = *cost;
		profile_keep(path, key, cost, now);
	}
	pass_cost_remembered(cost);
	json_decref(key);
	return ret;
}

void profile_review(struct decoder *d)
{
	if (d->profile_path && d->profile != PROFILE_NONE &&
		profile_misfits(&d->profile_cost, d->method->cost(&d->env),
			cpu_pressure("/proc", workers_online())))
		unlink(d->profile_path);
	free(d->profile_path);
	d->profile_path = NULL;
}
