/* Tests which models, draft models and options decoder_open accepts together,
 * and which combinations it refuses. No device is started. */
#include "base/err.h"
#include "base/fd.h"
#include "host/api/decoder.h"
#include "host/api/options.h"
#include "host/convert/synth.h"
#include "host/model/shapes.h"
#include "host/model/model.h"
#include "host/text/tokenizer.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct method
	plain = { .name = "plain" },
	drafting = { .name = "drafting", .needs_draft = true },
	masked = { .name = "masked", .diffusion = true, .runs = METHOD_WINDOW },
	blocks = { .name = "blocks", .diffusion = true, .runs = METHOD_BLOCK };

static char dir[4096];

static const char *path_of(const char *name)
{
	static char path[2][5000];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", dir, name);
	return path[turn];
}

/* Write target.gguf to a new folder, and set TANDEM_MODELS to this folder. */
static int setup(void **state)
{
	struct synth_opts o = { shape_named("tiny"), DTYPE_F32, DTYPE_F32 };
	struct err e = { 0 };

	snprintf(dir, sizeof(dir), "%s", harness_tmp());
	setenv("TANDEM_MODELS", dir, 1);
	assert_ok(synth_write(path_of("target.gguf"), &o, &e), &e);
	return 0;
}

/* Copy the target model's file, and replace the bytes `was` in the copy by
 * `is`, which has the same length. */
static void copy_target(const char *name, const char *was, const char *is)
{
	struct err e = { 0 };
	char *data, *at;
	size_t len;
	FILE *f;

	assert_ok(
		fd_read_file(path_of("target.gguf"), 1 << 26, &data, &len, &e),
		&e);
	at = memmem(data, len, was, strlen(was));
	assert_non_null(at);
	memcpy(at, is, strlen(is));
	f = fopen(path_of(name), "w");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	fclose(f);
	free(data);
}

static int open_model(const struct method *m, const char *model,
	const char *draft, struct err *e)
{
	struct opt_values o = { 0 };
	struct decoder d = { .method = m };
	int ret;

	((struct drafting_options *)opt_values_at(&o, &drafting_table))->draft =
		draft;
	assert_ok(drafting_ask(&d.drafting, &o, e), e);
	ret = decoder_open_model(&d, model, e);

	if (!ret) {
		assert_ptr_equal(d.method, m);
		assert_non_null(d.model);
		assert_non_null(d.tokenizer);
		assert_int_equal(d.drafting.path[0] != 0,
			m->needs_draft || (m->sequences && draft));
	}
	assert_int_equal(decoder_close(&d, NULL), 0);
	assert_null(d.model);
	return ret;
}

static void test_default_models(void **state)
{
	struct err e = { 0 };

	assert_ok(open_model(&plain, NULL, NULL, &e), &e);
	assert_int_equal(open_model(&drafting, NULL, NULL, &e), -ENOENT);
	assert_non_null(strstr(e.text, "draft.gguf"));
	assert_int_equal(open_model(&masked, NULL, NULL, &e), -ENOENT);
	assert_non_null(strstr(e.text, "diffusion.gguf"));
	assert_int_equal(open_model(&blocks, NULL, NULL, &e), -ENOENT);
	assert_non_null(strstr(e.text, "block.gguf"));
	copy_target("draft.gguf", "GGUF", "GGUF");
	assert_ok(open_model(&drafting, NULL, NULL, &e), &e);
	unlink(path_of("target.gguf"));
	assert_int_equal(open_model(&plain, NULL, NULL, &e), -ENOENT);
}

static void test_another_vocabulary(void **state)
{
	struct err e = { 0 };

	copy_target("other.gguf", "[PAD605]", "[PAD60x]");
	assert_ok(open_model(&plain, path_of("other.gguf"), NULL, &e), &e);
	assert_ok(open_model(&drafting, path_of("other.gguf"),
			  path_of("other.gguf"), &e),
		&e);
	assert_int_equal(open_model(&drafting, NULL, path_of("other.gguf"), &e),
		-EINVAL);
	assert_non_null(strstr(e.text, "with different tokens"));
	assert_non_null(strstr(e.text, "target.gguf"));
	assert_non_null(strstr(e.text, "other.gguf"));
}

static void mask_key(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", 2);
}

static void block_keys(struct gguf_writer *w)
{
	mask_key(w);
	gguf_put_u32(w, "diffusion.block_length", 8);
}

static void misfit(const struct method *m, const char *model, const char *kind,
	const char *advice)
{
	struct err e = { 0 };

	assert_int_equal(open_model(m, path_of(model), NULL, &e), -EINVAL);
	assert_non_null(strstr(e.text, kind));
	assert_non_null(strstr(e.text, advice));
}

static void test_kinds(void **state)
{
	struct model_file file = model_file_tiny;

	misfit(&masked, "target.gguf", "is not a diffusion model",
		"autoregressive");
	misfit(&blocks, "target.gguf", "is not a diffusion model",
		"autoregressive");
	file.arch = "llada";
	file.keys = mask_key;
	model_file_write(&file, path_of("diffusion.gguf"));
	misfit(&plain, "diffusion.gguf", "is a diffusion model", "llada");
	misfit(&blocks, "diffusion.gguf", "is a diffusion model", "llada");
	file.keys = block_keys;
	model_file_write(&file, path_of("block.gguf"));
	misfit(&plain, "block.gguf", "is a block diffusion model",
		"--method block");
	misfit(&masked, "block.gguf", "is a block diffusion model",
		"--method block");
}

static void test_begin_of_text(void **state)
{
	struct decoder d = { .method = &plain };
	struct token_list l = { 0 };
	struct err e = { 0 };
	int32_t bos;

	assert_ok(decoder_open_model(&d, NULL, &e), &e);
	bos = tokenizer_bos(d.tokenizer);
	assert_true(tokenizer_adds_bos(d.tokenizer));
	/* a second call must not add the BOS token again */
	for (int i = 0; i < 2; i++) {
		assert_ok(decoder_add_bos(&d, &l, &e), &e);
		assert_int_equal(l.n, 1);
		assert_int_equal(l.id[0], bos);
	}
	l.n = 0;
	assert_int_equal(token_list_add(&l, 77), 0);
	assert_int_equal(token_list_add(&l, 78), 0);
	assert_ok(decoder_add_bos(&d, &l, &e), &e);
	assert_int_equal(l.n, 3);
	assert_int_equal(l.id[0], bos);
	assert_int_equal(l.id[1], 77);
	assert_int_equal(l.id[2], 78);
	free(l.id);
	decoder_close(&d, NULL);
}

/* ---- the history file ---------------------------------------------------- */

/* Set the options, which are pairs of a name and a value, and open the model.
 * Returns 0 or the negative errno of the option or of the open. */
static int open_with(const char *const *set, const char *model, struct err *e)
{
	struct opt_values asked = { 0 };
	struct decoder d = { 0 };
	int ret = 0;

	for (; *set && !ret; set += 2)
		ret = opt_set(decoder_tables, &asked, set[0], set[1], e);
	assert_ok(ret, e);
	ret = decoder_set_options(&d, &asked, e);
	if (!ret)
		ret = decoder_open_model(&d, model, e);
	assert_int_equal(decoder_close(&d, NULL), 0);
	return ret;
}

static void test_history(void **state)
{
	char file[5000];
	const char *kept[] = { "history", file, NULL };
	const char *frozen[] = { "history", file, "history-frozen", NULL,
		NULL };
	const char *alone[] = { "history-max", "1M", NULL };
	const char *neither[] = { "history-frozen", NULL, NULL };
	struct err e = { 0 };

	snprintf(file, sizeof(file), "%s", path_of("answers"));
	assert_int_equal(open_with(alone, NULL, &e), -EINVAL);
	assert_non_null(strstr(e.text, "--history-max needs --history"));
	assert_int_equal(open_with(neither, NULL, &e), -EINVAL);
	assert_non_null(strstr(e.text, "--history-frozen needs --history"));
	assert_int_equal(open_with(frozen, NULL, &e), -ENOENT);
	assert_int_equal(access(file, F_OK), -1);
	/* Opening creates the history file, so that a file that cannot be
	 * written is reported before a text is generated. */
	assert_ok(open_with(kept, NULL, &e), &e);
	assert_int_equal(access(file, F_OK), 0);
	assert_ok(open_with(frozen, NULL, &e), &e);
	copy_target("other.gguf", "[PAD605]", "[PAD60x]");
	assert_int_equal(open_with(kept, path_of("other.gguf"), &e), -EINVAL);
	assert_non_null(strstr(e.text, "another vocabulary"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_default_models, setup),
	cmocka_unit_test_setup(test_another_vocabulary, setup),
	cmocka_unit_test_setup(test_kinds, setup),
	cmocka_unit_test_setup(test_begin_of_text, setup),
	cmocka_unit_test_setup(test_history, setup),
};

TEST_FILE(tests)
