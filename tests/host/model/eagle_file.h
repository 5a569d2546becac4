/* EAGLE heads with random weights, for tests. The member m describes the head's
 * layer as in model_file.h. */
#ifndef TESTS_HOST_MODEL_EAGLE_FILE_H
#define TESTS_HOST_MODEL_EAGLE_FILE_H

#include "tests/host/model/model_file.h"

struct eagle_file {
	struct model_file m;
	/* vocabulary size in the file's keys; 0 means m.n_vocab */
	uint32_t vocab_key;
	/* eagle_fc.weight is close to the identity, so that for a target with a
	 * tied output matrix the head predicts its input token. */
	bool echoes;
};

static inline struct eagle_file eagle_file_for(const struct model_file *target)
{
	struct eagle_file f = { .m = *target };

	f.m.arch = "tandem-eagle";
	f.m.n_layer = 1;
	f.m.n_ff = 96;
	return f;
}

static inline void eagle_file_write(
	const struct eagle_file *f, const char *path)
{
	static const char eps[] =
		"tandem-eagle.attention.layer_norm_rms_epsilon";
	static struct model_tensors ts;
	const struct model_file *m = &f->m;
	struct gguf_writer *w;
	struct err e = { 0 };

	ts.n = 0;
	mf_tensor(&ts, m, "eagle_embd_norm.weight", m->n_embd, 1);
	mf_tensor(&ts, m, "eagle_fc.weight", 2 * m->n_embd, m->n_embd);
	mf_layer(&ts, m, 0);
	mf_tensor(&ts, m, "output_norm.weight", m->n_embd, 1);
	if (m->tensor)
		mf_tensor(&ts, m, m->tensor, 4, 1);

	assert_ok(gguf_writer_open(&w, path, &e), &e);
	gguf_put_str(w, "general.architecture", m->arch);
	gguf_put_str(w, "general.type", "adapter");
	mf_u32(w, m, "embedding_length", m->n_embd);
	mf_u32(w, m, "feed_forward_length", m->n_ff);
	mf_u32(w, m, "attention.head_count", m->n_head);
	mf_u32(w, m, "attention.head_count_kv", m->n_kv_head);
	mf_u32(w, m, "context_length", 256);
	mf_u32(w, m, "vocab_size", f->vocab_key ? f->vocab_key : m->n_vocab);
	gguf_put_f32(w, "tandem-eagle.rope.freq_base", 10000);
	if (!m->skip || strcmp(m->skip, eps) != 0)
		gguf_put_f32(w, eps, mf_norm_eps(m));
	for (unsigned i = 0; i < ts.n; i++)
		gguf_put_tensor(w, ts.t[i].name, ts.t[i].type,
			ts.t[i].rows == 1 ? 1 : 2,
			(const uint64_t[]){ ts.t[i].cols, ts.t[i].rows });
	for (unsigned i = 0; i < ts.n; i++)
		mf_data(w, &ts.t[i], 60 + i,
			f->echoes && !strcmp(ts.t[i].name, "eagle_fc.weight"),
			&e);
	assert_ok(gguf_writer_commit(w, &e), &e);
	gguf_writer_close(w);
}

/* Write the file and open it for the target. The file is removed; its mapping
 * remains until the model is closed. */
static inline int eagle_file_try(const struct eagle_file *f,
	const struct model *target, struct model **out, struct err *e)
{
	char path[4200];
	int ret;

	snprintf(path, sizeof(path), "%s/eagle.gguf", harness_tmp());
	eagle_file_write(f, path);
	ret = model_open(out, path, NULL, target, e);
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	return ret;
}

static inline struct model *eagle_file_open(
	const struct eagle_file *f, const struct model *target)
{
	struct model *m;
	struct err e = { 0 };

	assert_ok(eagle_file_try(f, target, &m, &e), &e);
	return m;
}

#endif
