#include "host/cmd/inspect.h"

#include "flash/image.h"
#include "host/cmd/json_text.h"
#include "host/model/model_arch.h"
#include "host/model/packed.h"
#include "host/model/packed_format.h"
#include "host/text/chat.h"
#include "tensor/gguf.h"
#include "tensor/layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define JSON_VERSION 1
#define SHOWN_ELEMS  6   /* maximum array elements shown in text */
#define JSON_ELEMS   16  /* maximum array elements in JSON */
#define SHOWN_BYTES  100 /* maximum bytes of a string shown in text */

#define N_TYPES      (DTYPE_MXFP4 + 1)

struct total {
	uint64_t tensors, values, bytes;
};

static void add_totals(struct total total[N_TYPES], const struct gguf *g)
{
	for (size_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);

		total[t->type].tensors++;
		total[t->type].values +=
			t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
		total[t->type].bytes += t->bytes;
	}
}

/* ---- metadata ------------------------------------------------------------ */

static void find_text(
	const struct gguf *g, const char *key, char *out, size_t size)
{
	struct gguf_str s;

	if (gguf_str(g, key, &s, NULL) == 1)
		gguf_show(s, out, size);
}

/* Return the value of a numeric key. If the value is an array with one number
 * for each layer, return the first number. */
static uint64_t find_number(
	const struct gguf *g, const char *group, const char *name)
{
	const struct gguf_kv *kv;
	char key[160];
	int64_t v;

	snprintf(key, sizeof(key), "%s.%s", group, name);
	kv = gguf_find(g, key);
	if (!kv || !kv->count || kv->elem == GGUF_STRING)
		return 0;
	v = gguf_elem_i64(kv, 0);
	return v > 0 ? (uint64_t)v : 0;
}

void inspect_gguf(struct inspection *in, const struct gguf *g)
{
	const struct gguf_tensor *embd = gguf_tensor(g, "token_embd.weight");
	const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
	struct total total[N_TYPES] = { 0 };
	const struct model_arch *arch;
	char model[48] = "", pre[48] = "";
	uint64_t mask;
	int shift_found;

	*in = (struct inspection){ .chat = chat_name(chat_of(g)) };
	find_text(g, "general.architecture", in->arch, sizeof(in->arch));
	find_text(g, "general.name", in->name, sizeof(in->name));
	in->layers = find_number(g, in->arch, "block_count");
	in->embd = find_number(g, in->arch, "embedding_length");
	in->heads = find_number(g, in->arch, "attention.head_count");
	in->kv_heads = find_number(g, in->arch, "attention.head_count_kv");
	in->head_dim = find_number(g, in->arch, "attention.key_length");
	in->experts = find_number(g, in->arch, "expert_count");
	in->experts_used = find_number(g, in->arch, "expert_used_count");
	if (in->experts)
		in->ff = find_number(g, in->arch, "expert_feed_forward_length");
	if (!in->ff)
		in->ff = find_number(g, in->arch, "feed_forward_length");
	/* Add up the sizes of the tensors of experts: a tensor
	 * "..._exps.weight" has a matrix for each expert. */
	for (size_t i = 0; in->experts && i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);

		if (memmem(t->name.data, t->name.len, "_exps.", 6))
			in->experts_bytes += t->bytes;
	}
	if (in->layers && in->experts)
		in->expert_bytes = in->experts_bytes / in->experts / in->layers;
	in->context = find_number(g, in->arch, "context_length");
	if (!in->kv_heads)
		in->kv_heads = in->heads;
	if (!in->head_dim && in->heads)
		in->head_dim = in->embd / in->heads;

	arch = model_arch_named(in->arch);
	shift_found =
		gguf_bool(g, "diffusion.shift_logits", &in->shift_logits, NULL);
	if (shift_found != 1)
		in->shift_logits = arch && arch->shift_logits;
	in->block_length = find_number(g, "diffusion", "block_length");
	in->diffusion =
		shift_found == 1 || in->block_length || (arch && !arch->causal);
	in->mask_token = -1;
	if (gguf_u64(g, "tokenizer.ggml.mask_token_id", &mask, NULL) == 1 &&
		mask <= INT32_MAX)
		in->mask_token = (int64_t)mask;

	find_text(g, "tokenizer.ggml.model", model, sizeof(model));
	find_text(g, "tokenizer.ggml.pre", pre, sizeof(pre));
	if (*model)
		snprintf(in->tokenizer, sizeof(in->tokenizer), "%s%s%s", model,
			*pre ? ", pre " : "", pre);
	in->vocab = tokens ? tokens->count : 0;
	if (!in->vocab && embd)
		in->vocab = embd->dim[1];
	in->tied = embd && !gguf_tensor(g, "output.weight");
	add_totals(total, g);
	for (int t = 0; t < N_TYPES; t++) {
		in->parameters += total[t].values;
		in->tensor_bytes += total[t].bytes;
	}
}

/* ---- text ---- */

/* Format a number with a unit prefix, such as 1.2 M for 1234567. `step` is the
 * factor between prefixes, 1000 or 1024. */
static const char *scaled(uint64_t v, double step, char *buf, size_t size)
{
	static const char *const metric[] = { "", " K", " M", " B", " T" };
	static const char *const binary[] = { " B", " KiB", " MiB", " GiB",
		" TiB" };
	double d = (double)v;
	unsigned i = 0;

	for (; d >= step && i < 4; i++)
		d /= step;
	snprintf(buf, size, "%.*f%s", i ? 1 : 0, d,
		step > 1000 ? binary[i] : metric[i]);
	return buf;
}

/* Format a float32 with the fewest digits that read back as the same value. */
static const char *shortest(float v, char buf[32])
{
	for (int digits = 6; digits <= 9; digits++) {
		snprintf(buf, 32, "%.*g", digits, (double)v);
		if (strtof(buf, NULL) == v)
			break;
	}
	return buf;
}

static void print_value(const struct gguf_kv *kv, FILE *f)
{
	struct gguf_cursor c = { 0, 0 };
	char shown[SHOWN_BYTES];
	struct gguf_str s;
	uint64_t i;

	for (i = 0; i < kv->count && i < SHOWN_ELEMS; i++) {
		if (i)
			fputs(", ", f);
		if (kv->elem != GGUF_STRING) {
			char text[32];
			uint64_t u;

			switch (kv->elem) {
			case GGUF_F32:
				fputs(shortest((float)gguf_elem_f64(kv, i),
					      text),
					f);
				break;
			case GGUF_F64:
				fprintf(f, "%.17g", gguf_elem_f64(kv, i));
				break;
			case GGUF_BOOL:
				fputs(gguf_elem_i64(kv, i) ? "true" : "false",
					f);
				break;
			/* the value may be too large for an int64 */
			case GGUF_U64:
				memcpy(&u, kv->value + i * sizeof(u),
					sizeof(u));
				fprintf(f, "%" PRIu64, u);
				break;
			default:
				fprintf(f, "%" PRId64, gguf_elem_i64(kv, i));
			}
		} else if (gguf_next_str(kv, &c, &s))
			fprintf(f, "\"%s\"",
				gguf_show(s, shown, sizeof(shown)));
	}
	if (i < kv->count)
		fputs(", ...", f);
}

/* Return the text of a token, escaped for the terminal. */
static const char *token_text(
	const struct gguf *g, int64_t id, char *buf, size_t size)
{
	const struct gguf_kv *kv = gguf_find(g, "tokenizer.ggml.tokens");
	struct gguf_cursor c = { 0, 0 };
	struct gguf_str s;

	if (!kv || kv->elem != GGUF_STRING)
		return "";
	for (int64_t i = 0; gguf_next_str(kv, &c, &s); i++)
		if (i == id)
			return gguf_show(s, buf, size);
	return "";
}

/* Print the properties of the model, one on each line. */
static void print_model(const struct gguf *g, FILE *f)
{
	struct inspection in;
	char text[SHOWN_BYTES];

	inspect_gguf(&in, g);
	fprintf(f, "architecture  %s\n", *in.arch ? in.arch : "not found");
	if (*in.name)
		fprintf(f, "name          %s\n", in.name);
	if (in.parameters)
		fprintf(f, "parameters    %s (%" PRIu64 "; %.2f bits each)\n",
			scaled(in.parameters, 1000, text, sizeof(text)),
			in.parameters,
			8.0 * (double)in.tensor_bytes / (double)in.parameters);
	if (in.layers)
		fprintf(f,
			"shape         %" PRIu64 " layers, width %" PRIu64
			", %" PRIu64 " heads (%" PRIu64
			" of keys and values) of %" PRIu64
			", feed-forward %" PRIu64 "\n",
			in.layers, in.embd, in.heads, in.kv_heads, in.head_dim,
			in.ff);
	if (in.experts)
		fprintf(f,
			"experts       %" PRIu64 " in each layer, %" PRIu64
			" for each token",
			in.experts, in.experts_used);
	if (in.expert_bytes)
		fprintf(f, ", %s each, %.1f %% of all weights",
			scaled(in.expert_bytes, 1024, text, sizeof(text)),
			100 * (double)in.experts_bytes /
				(double)in.tensor_bytes);
	if (in.experts)
		fputc('\n', f);
	if (in.context)
		fprintf(f, "context       %" PRIu64 " tokens\n", in.context);
	if (in.diffusion && in.block_length)
		fprintf(f,
			"diffusion     in blocks of %" PRIu64 " tokens; a "
			"block attends to itself and to earlier blocks\n",
			in.block_length);
	else if (in.diffusion)
		fprintf(f,
			"diffusion     all positions attend to one "
			"another\n");
	if (in.diffusion && in.mask_token < 0)
		fprintf(f, "mask token    none\n");
	else if (in.diffusion)
		fprintf(f,
			"mask token    %" PRId64 " \"%s\", predicted by %s\n",
			in.mask_token,
			token_text(g, in.mask_token, text, sizeof(text)),
			in.shift_logits ? "the row before it" : "its own row");
	if (in.vocab)
		fprintf(f, "vocabulary    %" PRIu64 " tokens%s\n", in.vocab,
			in.tied ? ", input and output share one matrix" : "");
	fprintf(f, "tokenizer     %s\n", *in.tokenizer ? in.tokenizer : "none");
	fprintf(f, "chat          %s\n", in.chat);
}

void inspect_print(const char *path, const struct gguf *g, FILE *f)
{
	struct total total[N_TYPES] = { 0 };
	char text[32], shown[96], shape[96];
	size_t n = gguf_n_tensors(g);
	char name[96], type[48];

	fprintf(f, "file          %s\n", path);
	fprintf(f, "format        GGUF version %u\n", gguf_version(g));
	fprintf(f, "size          %s (%zu bytes)\n",
		scaled(gguf_file_bytes(g), 1024, text, sizeof(text)),
		gguf_file_bytes(g));
	print_model(g, f);

	fprintf(f, "\nkeys (%zu)\n", gguf_n_kv(g));
	for (size_t i = 0; i < gguf_n_kv(g); i++) {
		const struct gguf_kv *kv = gguf_kv_at(g, i);

		if (kv->type == GGUF_ARRAY)
			snprintf(type, sizeof(type), "%s[%" PRIu64 "]",
				gguf_type_name(kv->elem), kv->count);
		else
			snprintf(type, sizeof(type), "%s",
				gguf_type_name(kv->type));
		fprintf(f, "  %-40s %-15s ",
			gguf_show(kv->key, name, sizeof(name)), type);
		print_value(kv, f);
		fputc('\n', f);
	}

	fprintf(f, "\ntensors (%zu)\n", n);
	if (n)
		fprintf(f, "  %-32s %-6s %-16s %12s %12s\n", "name", "type",
			"shape", "bytes", "offset");
	for (size_t i = 0; i < n; i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		size_t at = 0;

		for (unsigned d = 0; d < t->n_dims; d++)
			at += (size_t)snprintf(shape + at, sizeof(shape) - at,
				"%s%" PRIu64, d ? " x " : "", t->dim[d]);
		fprintf(f, "  %-32s %-6s %-16s %12zu %12" PRIu64 "\n",
			gguf_show(t->name, shown, sizeof(shown)),
			dtype_info(t->type)->name, shape, t->bytes, t->offset);
	}
	add_totals(total, g);
	if (n)
		fprintf(f, "\ntotals\n  %-6s %8s %16s %16s\n", "type",
			"tensors", "values", "bytes");
	for (uint32_t t = 0; t < N_TYPES; t++)
		if (total[t].tensors)
			fprintf(f,
				"  %-6s %8" PRIu64 " %16" PRIu64 " %16" PRIu64
				"\n",
				dtype_info(t)->name, total[t].tensors,
				total[t].values, total[t].bytes);
}

/* ---- JSON ---- */

static json_t *json_element(const struct gguf_kv *kv, uint64_t i)
{
	char text[32];
	double v;

	switch (kv->elem) {
	/* Print a float32 with few digits, such as 1e-05, not with all 17
	 * digits of the double. */
	case GGUF_F32:
		v = gguf_elem_f64(kv, i);
		return isfinite(v)
			? json_real(strtod(shortest((float)v, text), NULL))
			: json_null();
	case GGUF_F64:
	case GGUF_U64:
		v = gguf_elem_f64(kv, i);
		if (kv->elem == GGUF_U64 && v < 0x1p63)
			return json_integer(gguf_elem_i64(kv, i));
		return isfinite(v) ? json_real(v) : json_null();
	case GGUF_BOOL:
		return json_boolean(gguf_elem_i64(kv, i));
	default:
		return json_integer(gguf_elem_i64(kv, i));
	}
}

/* Return a metadata value; for an array, only its first elements. */
static json_t *json_value(const struct gguf_kv *kv)
{
	struct gguf_cursor c = { 0, 0 };
	json_t *list = json_array();
	struct gguf_str s;

	for (uint64_t i = 0; i < kv->count && i < JSON_ELEMS; i++) {
		json_t *one = NULL;

		if (kv->elem != GGUF_STRING)
			one = json_element(kv, i);
		else if (gguf_next_str(kv, &c, &s))
			one = json_text(s);
		if (kv->type != GGUF_ARRAY) {
			json_decref(list);
			return one;
		}
		json_array_append_new(list, one);
	}
	return list;
}

/* Return the properties that only diffusion models have. Returns NULL if the
 * model is not a diffusion model or if memory ran out. */
static json_t *diffusion_json(const struct inspection *in)
{
	if (!in->diffusion)
		return NULL;
	return json_pack("{s:o, s:b, s:I}", "mask_token",
		in->mask_token < 0 ? json_null()
				   : json_integer((json_int_t)in->mask_token),
		"shift_logits", in->shift_logits, "block_length",
		(json_int_t)in->block_length);
}

/* Return the number and the sizes of experts. Returns NULL if the model has no
 * experts or if memory ran out. */
static json_t *experts_json(const struct inspection *in)
{
	if (!in->experts)
		return NULL;
	return json_pack("{s:I, s:I, s:I, s:I}", "count",
		(json_int_t)in->experts, "used", (json_int_t)in->experts_used,
		"bytes", (json_int_t)in->expert_bytes, "bytes_of_all",
		(json_int_t)in->experts_bytes);
}

json_t *inspect_json(const char *path, const struct gguf *g)
{
	json_t *keys = json_array(), *tensors = json_array();
	json_t *totals = json_object();
	struct total total[N_TYPES] = { 0 };
	struct inspection in;

	inspect_gguf(&in, g);
	for (size_t i = 0; i < gguf_n_kv(g); i++) {
		const struct gguf_kv *kv = gguf_kv_at(g, i);
		json_t *one = json_object();

		json_object_set_new(one, "key", json_text(kv->key));
		put_str(one, "type", gguf_type_name(kv->type));
		if (kv->type == GGUF_ARRAY) {
			put_str(one, "element", gguf_type_name(kv->elem));
			put_u64(one, "count", kv->count);
		}
		json_object_set_new(one, "value", json_value(kv));
		json_array_append_new(keys, one);
	}
	for (size_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		json_t *shape = json_array();

		for (unsigned d = 0; d < t->n_dims; d++)
			json_array_append_new(
				shape, json_integer((json_int_t)t->dim[d]));
		json_array_append_new(tensors,
			json_pack("{s:o, s:s, s:o, s:I, s:I}", "name",
				json_text(t->name), "type",
				dtype_info(t->type)->name, "shape", shape,
				"bytes", (json_int_t)t->bytes, "offset",
				(json_int_t)t->offset));
	}
	add_totals(total, g);
	for (uint32_t t = 0; t < N_TYPES; t++)
		if (total[t].tensors)
			json_object_set_new(totals, dtype_info(t)->name,
				json_pack("{s:I, s:I, s:I}", "tensors",
					(json_int_t)total[t].tensors, "values",
					(json_int_t)total[t].values, "bytes",
					(json_int_t)total[t].bytes));
	return json_pack("{s:i, s:s, s:o, s:i, s:I, s:s, s:s, s:I, "
			 "s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}, "
			 "s:s, s:s, s:o*, s:o*, s:o, s:o, s:o}",
		"version", JSON_VERSION, "command", "inspect", "file",
		json_ctext(path), "gguf_version", (int)gguf_version(g), "bytes",
		(json_int_t)gguf_file_bytes(g), "architecture", in.arch, "name",
		in.name, "parameters", (json_int_t)in.parameters, "shape",
		"layers", (json_int_t)in.layers, "width", (json_int_t)in.embd,
		"heads", (json_int_t)in.heads, "kv_heads",
		(json_int_t)in.kv_heads, "head_size", (json_int_t)in.head_dim,
		"feed_forward", (json_int_t)in.ff, "context",
		(json_int_t)in.context, "vocabulary", (json_int_t)in.vocab,
		"tied", in.tied, "tokenizer", in.tokenizer, "chat", in.chat,
		"experts", experts_json(&in), "diffusion", diffusion_json(&in),
		"keys", keys, "tensors", tensors, "totals", totals);
}

/* ---- flash images ---- */

void inspect_image_print(
	const char *path, const struct packed *p, const struct gguf *g, FILE *f)
{
	const struct image *im = p->image;
	uint64_t size = image_file_bytes(im), stored = 0, bytes = 0;
	char name[32], shown[48];
	uint32_t experts = 0;

	fprintf(f, "file          %s\n", path);
	fprintf(f, "format        flash image version %u\n", image_version(im));
	fprintf(f, "size          %.1f MiB (%" PRIu64 " bytes)\n",
		(double)size / 0x1p20, size);
	fprintf(f, "layout        %s\n", layout_names[p->layout]);
	fprintf(f, "model file    GGUF version %u, %.1f MiB\n", gguf_version(g),
		(double)gguf_file_bytes(g) / 0x1p20);
	print_model(g, f);

	fprintf(f, "\nextents (%zu)\n", image_n_extents(im));
	fprintf(f, "  %-14s %14s %13s %13s %6s  %-5s %s\n", "what", "offset",
		"stored", "bytes", "ratio", "codec", "checksum");
	for (size_t i = 0; i < image_n_extents(im); i++) {
		const struct image_extent *x = image_extent_at(im, i);

		stored += x->stored;
		bytes += x->bytes;
		/* print only the first of the experts, of which there may be
		 * thousands */
		if (x->kind == IMAGE_EXPERT && x->index) {
			experts++;
			continue;
		}
		fprintf(f,
			"  %-14s %14" PRIu64 " %13" PRIu64 " %13" PRIu64
			" %6.3f  %-5s %016" PRIx64 "\n",
			image_extent_name(
				x->kind, x->index, name, sizeof(name)),
			x->offset, x->stored, x->bytes,
			(double)x->stored / (double)x->bytes,
			image_codec_name(x->codec), x->checksum);
	}
	if (experts)
		fprintf(f, "  and %u more experts\n", experts);
	fprintf(f, "  %-14s %14s %13" PRIu64 " %13" PRIu64 " %6.3f\n", "total",
		"", stored, bytes, (double)stored / (double)bytes);

	fprintf(f, "\ntensors (%zu)\n", p->n_entries);
	fprintf(f, "  %-28s %-6s %-12s %8s %8s  %-14s %12s\n", "name", "was",
		"is", "rows", "columns", "in", "at");
	for (size_t i = 0; i < p->n_entries; i++) {
		const struct packed_entry *t = &p->entry[i];
		const struct gguf_tensor *was = gguf_tensor_at(g, t->tensor);
		const struct image_extent *x = image_extent_at(im, t->extent);

		fprintf(f, "  %-28s %-6s %-12s %8u %8u  %-14s %12" PRIu64 "\n",
			gguf_show(was->name, shown, sizeof(shown)),
			layout_type_name(was->type), layout_type_name(t->type),
			t->rows, t->cols,
			image_extent_name(
				x->kind, x->index, name, sizeof(name)),
			t->offset);
	}
}

json_t *inspect_image_json(
	const char *path, const struct packed *p, const struct gguf *g)
{
	json_t *extents = json_array(), *tensors = json_array();
	struct inspection in;
	char name[32], sum[17];

	inspect_gguf(&in, g);
	for (size_t i = 0; i < image_n_extents(p->image); i++) {
		const struct image_extent *x = image_extent_at(p->image, i);

		snprintf(sum, sizeof(sum), "%016" PRIx64, x->checksum);
		json_array_append_new(extents,
			json_pack("{s:s, s:I, s:I, s:I, s:s, s:s}", "name",
				image_extent_name(
					x->kind, x->index, name, sizeof(name)),
				"offset", (json_int_t)x->offset, "stored",
				(json_int_t)x->stored, "bytes",
				(json_int_t)x->bytes, "codec",
				image_codec_name(x->codec), "checksum", sum));
	}
	for (size_t i = 0; i < p->n_entries; i++) {
		const struct packed_entry *t = &p->entry[i];
		const struct gguf_tensor *was = gguf_tensor_at(g, t->tensor);

		json_array_append_new(tensors,
			json_pack("{s:o, s:s, s:s, s:i, s:i, s:i, s:I}", "name",
				json_text(was->name), "was",
				layout_type_name(was->type), "type",
				layout_type_name(t->type), "rows", (int)t->rows,
				"columns", (int)t->cols, "extent",
				(int)t->extent, "offset",
				(json_int_t)t->offset));
	}
	return json_pack("{s:i, s:s, s:o, s:s, s:i, s:I, s:s, s:I, s:s, s:s, "
			 "s:I, s:o*, s:o*, s:o, s:o}",
		"version", JSON_VERSION, "command", "inspect", "file",
		json_ctext(path), "format", "flash image", "format_version",
		(int)image_version(p->image), "bytes",
		(json_int_t)image_file_bytes(p->image), "layout",
		layout_names[p->layout], "model_file_bytes",
		(json_int_t)gguf_file_bytes(g), "architecture", in.arch, "name",
		in.name, "parameters", (json_int_t)in.parameters, "experts",
		experts_json(&in), "diffusion", diffusion_json(&in), "extents",
		extents, "tensors", tensors);
}
