#include "host/cmd/inspect_image.h"

#include "flash/image.h"
#include "host/cmd/inspect.h"
#include "host/cmd/json_text.h"
#include "host/model/packed.h"
#include "host/model/packed_format.h"
#include "tensor/gguf.h"
#include "tensor/layout.h"

#include <inttypes.h>

#define JSON_VERSION 1

static double mib(uint64_t bytes)
{
	return (double)bytes / 0x1p20;
}

/* ---- text ---- */

static void print_extents(const struct image *im, FILE *f)
{
	uint64_t stored = 0, bytes = 0;
	char name[32];

	fprintf(f, "\nextents (%zu)\n", image_n_extents(im));
	fprintf(f, "  %-14s %14s %13s %13s %6s  %-5s %s\n", "what", "offset",
		"stored", "bytes", "ratio", "codec", "checksum");
	for (size_t i = 0; i < image_n_extents(im); i++) {
		const struct image_extent *x = image_extent_at(im, i);

		fprintf(f,
			"  %-14s %14" PRIu64 " %13" PRIu64 " %13" PRIu64
			" %6.3f  %-5s %016" PRIx64 "\n",
			image_extent_name(
				x->kind, x->index, name, sizeof(name)),
			x->offset, x->stored, x->bytes,
			(double)x->stored / (double)x->bytes,
			image_codec_name(x->codec), x->checksum);
		stored += x->stored;
		bytes += x->bytes;
	}
	fprintf(f, "  %-14s %14s %13" PRIu64 " %13" PRIu64 " %6.3f\n", "total",
		"", stored, bytes, (double)stored / (double)bytes);
}

static void print_tensors(const struct packed *p, const struct gguf *g, FILE *f)
{
	char name[32], shown[48];

	fprintf(f, "\ntensors (%zu)\n", p->n_entries);
	fprintf(f, "  %-28s %-5s %-11s %8s %8s  %-14s %12s\n", "name", "was",
		"is", "rows", "columns", "in", "at");
	for (size_t i = 0; i < p->n_entries; i++) {
		const struct packed_entry *t = &p->entry[i];
		const struct gguf_tensor *was = gguf_tensor_at(g, t->tensor);
		const struct image_extent *x =
			image_extent_at(p->image, t->extent);

		fprintf(f, "  %-28s %-5s %-11s %8u %8u  %-14s %12" PRIu64 "\n",
			gguf_show(was->name, shown, sizeof(shown)),
			layout_type_name(was->type), layout_type_name(t->type),
			t->rows, t->cols,
			image_extent_name(
				x->kind, x->index, name, sizeof(name)),
			t->offset);
	}
}

void inspect_image_print(
	const char *path, const struct packed *p, const struct gguf *g, FILE *f)
{
	uint64_t bytes = image_file_bytes(p->image);

	fprintf(f, "file          %s\n", path);
	fprintf(f, "format        flash image version %u\n",
		image_version(p->image));
	fprintf(f, "size          %.1f MiB (%" PRIu64 " bytes)\n", mib(bytes),
		bytes);
	fprintf(f, "layout        %s\n", layout_names[p->layout]);
	fprintf(f, "model file    GGUF version %u, %.1f MiB\n", gguf_version(g),
		mib(gguf_file_bytes(g)));
	inspect_print_model(g, f);
	print_extents(p->image, f);
	print_tensors(p, g, f);
}

/* ---- JSON ---- */

static json_t *json_extents(const struct image *im)
{
	json_t *list = json_array();
	char name[32], sum[17];

	for (size_t i = 0; i < image_n_extents(im); i++) {
		const struct image_extent *x = image_extent_at(im, i);

		snprintf(sum, sizeof(sum), "%016" PRIx64, x->checksum);
		json_array_append_new(list,
			json_pack("{s:s, s:I, s:I, s:I, s:s, s:s}", "name",
				image_extent_name(
					x->kind, x->index, name, sizeof(name)),
				"offset", (json_int_t)x->offset, "stored",
				(json_int_t)x->stored, "bytes",
				(json_int_t)x->bytes, "codec",
				image_codec_name(x->codec), "checksum", sum));
	}
	return list;
}

static json_t *json_tensors(const struct packed *p, const struct gguf *g)
{
	json_t *list = json_array();

	for (size_t i = 0; i < p->n_entries; i++) {
		const struct packed_entry *t = &p->entry[i];
		const struct gguf_tensor *was = gguf_tensor_at(g, t->tensor);

		json_array_append_new(list,
			json_pack("{s:o, s:s, s:s, s:i, s:i, s:i, s:I}", "name",
				json_text(was->name), "was",
				layout_type_name(was->type), "type",
				layout_type_name(t->type), "rows", (int)t->rows,
				"columns", (int)t->cols, "extent",
				(int)t->extent, "offset",
				(json_int_t)t->offset));
	}
	return list;
}

json_t *inspect_image_json(
	const char *path, const struct packed *p, const struct gguf *g)
{
	struct inspection in;

	inspect_gguf(&in, g);
	return json_pack("{s:i, s:s, s:o, s:s, s:i, s:I, s:s, s:I, s:s, s:s, "
			 "s:I, s:o*, s:o, s:o}",
		"version", JSON_VERSION, "command", "inspect", "file",
		json_ctext(path), "format", "flash image", "format_version",
		(int)image_version(p->image), "bytes",
		(json_int_t)image_file_bytes(p->image), "layout",
		layout_names[p->layout], "model_file_bytes",
		(json_int_t)gguf_file_bytes(g), "architecture", in.arch, "name",
		in.name, "parameters", (json_int_t)in.parameters, "diffusion",
		inspect_diffusion_json(&in), "extents", json_extents(p->image),
		"tensors", json_tensors(p, g));
}
