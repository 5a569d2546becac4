#include "host/cmd/convert_report.h"

#include "flash/image.h"
#include "host/cmd/json_text.h"
#include "host/convert/convert.h"
#include "tensor/gguf.h"

#include <math.h>
#include <stdbool.h>

#define JSON_VERSION 1

/* The host's tensors are as in the model file. */
static bool is_packed(
	const struct convert_report *r, const struct convert_tensor *t)
{
	return t->tensor->dim[1] > 1 &&
		image_extent_at(r->image, t->extent)->kind != IMAGE_HOST;
}

static bool is_worse(const struct convert_tensor *t)
{
	return t->loss.is_grouped && t->loss.ratio > CONVERT_WORSE;
}

struct tally {
	size_t worse;
	size_t lossless; /* of them: conventional groups would lose nothing */
	const struct convert_tensor *most; /* the largest finite ratio */
};

static struct tally tally_of(const struct conversion *c)
{
	struct tally tally = { 0 };

	for (size_t i = 0; i < c->n; i++) {
		const struct convert_tensor *t = &c->tensor[i];

		tally.worse += is_worse(t);
		if (t->loss.is_grouped && isinf(t->loss.ratio))
			tally.lossless++;
		else if (t->loss.is_grouped &&
			(!tally.most || t->loss.ratio > tally.most->loss.ratio))
			tally.most = t;
	}
	return tally;
}

/* ---- text ---- */

static void print_tensor(const struct convert_tensor *t, FILE *f)
{
	const struct requant_loss *loss = &t->loss;
	char name[48];

	fprintf(f, "%-28s %-6s %-11s %9.6f",
		gguf_show(t->tensor->name, name, sizeof(name)),
		layout_type_name(t->tensor->type), layout_type_name(t->type),
		loss->error);
	if (loss->is_grouped)
		fprintf(f, " %12.6f %7.3f", loss->conventional, loss->ratio);
	if (is_worse(t))
		fprintf(f, "  worse than conventional groups");
	fputc('\n', f);
}

static void print_tally(const struct conversion *c, FILE *f)
{
	struct tally tally = tally_of(c);
	char name[48];

	if (!tally.most && !tally.lossless)
		return;
	fprintf(f, "%zu worse than conventional groups by more than %.0f %%\n",
		tally.worse, (CONVERT_WORSE - 1) * 100);
	if (tally.most)
		fprintf(f, "the largest ratio is %.3f (%s)\n",
			tally.most->loss.ratio,
			gguf_show(
				tally.most->tensor->name, name, sizeof(name)));
	if (tally.lossless)
		fprintf(f,
			"%zu have conventional groups of these bits in the "
			"model file (inf): those lose\nnothing; convert from "
			"a file of more bits\n",
			tally.lossless);
}

void convert_print(const struct convert_report *r, FILE *f)
{
	size_t matrices = 0;

	fprintf(f, "%-28s %-6s %-11s %9s %12s %7s\n", "matrix", "from", "to",
		"error", "conventional", "ratio");
	for (size_t i = 0; i < r->done->n; i++) {
		if (!is_packed(r, &r->done->tensor[i]))
			continue;
		matrices++;
		print_tensor(&r->done->tensor[i], f);
	}
	fprintf(f, "\n%zu matrices\n", matrices);
	print_tally(r->done, f);
	fprintf(f, "%s: %zu extents, %.1f MiB; the model file has %.1f MiB\n",
		r->path, image_n_extents(r->image),
		(double)image_file_bytes(r->image) / 0x1p20,
		(double)r->source_bytes / 0x1p20);
}

/* ---- JSON ---- */

/* JSON has no infinity: null. */
static json_t *json_number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *json_tensor(const struct convert_tensor *t)
{
	json_t *o = json_pack("{s:o, s:s, s:s, s:I, s:I, s:I, s:o}", "name",
		json_text(t->tensor->name), "from",
		layout_type_name(t->tensor->type), "to",
		layout_type_name(t->type), "rows",
		(json_int_t)t->tensor->dim[1], "columns",
		(json_int_t)t->tensor->dim[0], "bytes", (json_int_t)t->bytes,
		"error", json_number(t->loss.error));

	if (!t->loss.is_grouped)
		return o;
	json_object_set_new(
		o, "conventional_error", json_number(t->loss.conventional));
	json_object_set_new(o, "ratio", json_number(t->loss.ratio));
	json_object_set_new(o, "worse", json_boolean(is_worse(t)));
	return o;
}

json_t *convert_json(const struct convert_report *r)
{
	struct tally tally = tally_of(r->done);
	json_t *tensors = json_array();

	for (size_t i = 0; i < r->done->n; i++)
		if (is_packed(r, &r->done->tensor[i]))
			json_array_append_new(
				tensors, json_tensor(&r->done->tensor[i]));
	return json_pack("{s:i, s:s, s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:o, "
			 "s:o}",
		"version", JSON_VERSION, "command", "convert", "source",
		json_ctext(r->source), "file", json_ctext(r->path), "layout",
		r->layout, "source_bytes", (json_int_t)r->source_bytes, "bytes",
		(json_int_t)image_file_bytes(r->image), "extents",
		(json_int_t)image_n_extents(r->image), "worse",
		(json_int_t)tally.worse, "largest_ratio",
		tally.most ? json_number(tally.most->loss.ratio) : json_null(),
		"tensors", tensors);
}
