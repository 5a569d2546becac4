#include "host/text/tokenizer.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/text/list_grow.h"
#include "host/text/tokenizer_impl.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum length of a text in bytes: offsets in a text have 32 bits, and the
 * tokenizer may replace a space by three bytes. */
#define TEXT_MAX ((size_t)1 << 30)

/* ---- special tokens and their ids ------------------------------------ */

enum role { ROLE_NONE, ROLE_EOG, ROLE_EOT, ROLE_EOM };

/*
 * Tokens that are recognised by their text, because files rarely name their ids
 * in a key and often give them the wrong type. The tokens in this table are
 * treated as control tokens, whatever their type in the file is. If the file
 * has no key for the end-of-turn token, the first ROLE_EOT token of this table
 * that is in the vocabulary is used. All tokens with a role other than
 * ROLE_NONE end the generation.
 */
static const struct {
	const char *text;
	enum role role;
} known[] = {
	{ "<|eot_id|>", ROLE_EOT },
	{ "<|im_end|>", ROLE_EOT },
	{ "<|end|>", ROLE_EOT },
	{ "<end_of_turn>", ROLE_EOT },
	{ "<|endoftext|>", ROLE_EOT },
	{ "<|end_of_text|>", ROLE_EOT },
	{ "<EOT>", ROLE_EOT },
	{ "<|EOT|>", ROLE_EOT },
	{ "<\xef\xbd\x9c"
	  "end\xe2\x96\x81"
	  "of\xe2\x96\x81sentence\xef\xbd\x9c>",
		ROLE_EOT },
	{ "<end_of_utterance>", ROLE_EOT },
	{ "<|eom_id|>", ROLE_EOM },
	{ "</s>", ROLE_EOG },
	{ "<|fim_pad|>", ROLE_EOG },
	{ "<fim-pad>", ROLE_EOG },
	{ "<fim_pad>", ROLE_EOG },
	{ "<|fim_repo|>", ROLE_EOG },
	{ "<|repo_name|>", ROLE_EOG },
	{ "<fim-repo>", ROLE_EOG },
	{ "<reponame>", ROLE_EOG },
	{ "<|file_sep|>", ROLE_EOG },
	{ "<|fim_prefix|>", ROLE_NONE },
	{ "<|fim_suffix|>", ROLE_NONE },
	{ "<|fim_middle|>", ROLE_NONE },
	{ "<fim-prefix>", ROLE_NONE },
	{ "<fim-suffix>", ROLE_NONE },
	{ "<fim-middle>", ROLE_NONE },
	{ "<fim_prefix>", ROLE_NONE },
	{ "<fim_suffix>", ROLE_NONE },
	{ "<fim_middle>", ROLE_NONE },
	{ "<\xef\xbd\x9c"
	  "fim\xe2\x96\x81"
	  "begin\xef\xbd\x9c>",
		ROLE_NONE },
	{ "<\xef\xbd\x9c"
	  "fim\xe2\x96\x81hole\xef\xbd\x9c>",
		ROLE_NONE },
	{ "<\xef\xbd\x9c"
	  "fim\xe2\x96\x81"
	  "end\xef\xbd\x9c>",
		ROLE_NONE },
};

static int load_ids(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	const struct {
		const char *key;
		/* id that is usual in SentencePiece models; -1 if no id is
		 * usual */
		int32_t spm;
		int32_t *out;
	} ids[] = {
		{ TOK_KEY("bos_token_id"), 1, &t->bos },
		{ TOK_KEY("eos_token_id"), 2, &t->eos },
		{ TOK_KEY("unknown_token_id"), 0, &t->unk },
		{ TOK_KEY("eot_token_id"), -1, &t->eot },
		{ TOK_KEY("eom_token_id"), -1, &t->eom },
	};

	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		int32_t fallback = t->bpe ? -1 : ids[i].spm;
		uint64_t id;
		int ret = gguf_u64(g, ids[i].key, &id, e);

		if (ret < 0)
			return ret;
		if (ret && id >= t->n_vocab)
			return err_set(e, EINVAL,
				"%s is %llu, but there are only %u tokens",
				ids[i].key, (unsigned long long)id, t->n_vocab);
		if (ret)
			*ids[i].out = (int32_t)id;
		else
			*ids[i].out =
				(uint32_t)fallback < t->n_vocab ? fallback : -1;
	}
	return 0;
}

/* Set *add, whether a token such as BOS is added to texts. The file's flag
 * overrides the default for this kind of tokenizer. Returns -EINVAL if the flag
 * is true but the token's id is missing. */
static int load_add(const struct gguf *g, const char *key, const char *id_key,
	int32_t id, bool *add, struct err *e)
{
	int ret = gguf_bool(g, key, add, e);

	if (ret < 0)
		return ret;
	if (ret && *add && id < 0)
		return err_set(e, EINVAL, "%s is true, but %s is missing", key,
			id_key);
	*add = *add && id >= 0;
	return 0;
}

/* In Phi-3, special tokens other than those in but[] remove the white space
 * that follows them. The file has no flag for this behaviour, so the function
 * checks the model's name. */
static int mark_rstrip(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	static const char *const but[] = { "<unk>", "<s>", "<|endoftext|>" };
	struct gguf_str name = { "", 0 };
	char text[64];
	int ret = gguf_str(g, "general.name", &name, e);

	if (ret < 0)
		return ret;
	snprintf(text, sizeof(text), "%.*s", name.len > 60 ? 60 : (int)name.len,
		name.data);
	if (!strcasestr(text, "phi-3") && !strcasestr(text, "phi3"))
		return 0;
	for (uint32_t i = 0; i < t->n_vocab; i++)
		if (t->type[i] == TOK_CONTROL || t->type[i] == TOK_USER ||
			t->type[i] == TOK_UNKNOWN)
			t->flags[i] |= TOK_RSTRIP;
	for (size_t i = 0; i < ARRAY_LEN(but); i++) {
		int32_t id = pieces_find(&t->pieces, but[i], strlen(but[i]));

		if (id >= 0 && (uint32_t)id < t->n_vocab)
			t->flags[id] &= (uint8_t)~TOK_RSTRIP;
	}
	return 0;
}

/* ---- opening --------------------------------------------------------- */

static int load(struct tokenizer *t, const struct gguf *g, struct err *e)
{
	const char *key = TOK_KEY("model");
	struct gguf_str model;
	int ret = gguf_str(g, key, &model, e);

	if (ret < 0)
		return ret;
	if (!ret)
		return err_set(e, EINVAL,
			"%s is missing: the file has no tokenizer", key);
	if (gguf_str_is(model, "gpt2")) {
		t->bpe = true;
	} else if (gguf_str_is(model, "llama")) {
		t->add_bos = true;
	} else {
		return err_set(e, ENOTSUP,
			"%s is '%.*s'; supported are llama (SentencePiece) "
			"and gpt2 (byte-level BPE)",
			key, model.len > 40 ? 40 : (int)model.len, model.data);
	}
	ret = tok_load_vocab(t, g, e);
	if (!ret)
		ret = load_ids(t, g, e);
	if (!ret)
		ret = t->bpe ? tok_bpe_load(t, g, e) : tok_spm_load(t, g, e);
	if (!ret)
		ret = load_add(g, TOK_KEY("add_bos_token"),
			TOK_KEY("bos_token_id"), t->bos, &t->add_bos, e);
	if (!ret)
		ret = load_add(g, TOK_KEY("add_eos_token"),
			TOK_KEY("eos_token_id"), t->eos, &t->add_eos, e);
	if (ret)
		return ret;

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		int32_t id = pieces_find(
			&t->pieces, known[i].text, strlen(known[i].text));

		if (id < 0 || (uint32_t)id >= t->n_vocab)
			continue;
		t->type[id] = TOK_CONTROL;
		if (known[i].role != ROLE_NONE)
			t->flags[id] |= TOK_EOG;
		if (known[i].role == ROLE_EOT && t->eot < 0)
			t->eot = id;
		if (known[i].role == ROLE_EOM && t->eom < 0)
			t->eom = id;
	}
	if (t->eos >= 0)
		t->flags[t->eos] |= TOK_EOG;
	if (t->eot >= 0)
		t->flags[t->eot] |= TOK_EOG;
	if (t->eom >= 0)
		t->flags[t->eom] |= TOK_EOG;

	ret = mark_rstrip(t, g, e);
	/* The text of a token in the file has at least as many bytes as the
	 * text that the token stands for: a space takes 2 or 3 bytes in the
	 * file, any other byte at least 1. */
	for (uint32_t i = 0; i < t->n_vocab; i++) {
		size_t n = t->flags[i] & TOK_RSTRIP ? SIZE_MAX
						    : t->pieces.span[i].len;

		if (n > t->token_bytes)
			t->token_bytes = n;
	}
	/* Call this last: the list has pointers into the texts, which move
	 * while they grow. */
	if (!ret && specials_init(t))
		ret = err_sys(e, ENOMEM, "cannot store the special tokens");
	return ret;
}

int tokenizer_open(struct tokenizer **out, const struct gguf *g, struct err *e)
{
	struct tokenizer *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return err_sys(e, ENOMEM, "cannot open the tokenizer");
	ret = load(t, g, e);
	if (ret) {
		tokenizer_close(t);
		return ret;
	}
	*out = t;
	return 0;
}

void tokenizer_close(struct tokenizer *t)
{
	if (!t)
		return;
	specials_release(&t->user);
	specials_release(&t->special);
	splitter_release(&t->splitter);
	pieces_release(&t->pieces);
	free(t->type);
	free(t->flags);
	free(t->order);
	free(t->merge);
	free(t);
}

/* ---- tokenizing ------------------------------------------------------ */

int token_list_add(struct token_list *l, int32_t id)
{
	if (list_grow(&l->id, l->n, &l->cap, sizeof(*l->id)))
		return -ENOMEM;
	l->id[l->n++] = id;
	return 0;
}

int tok_emit_word(struct tok_run *r, const char *word)
{
	int ret = 0;

	for (int32_t i = 0; i >= 0 && !ret; i = r->merger.sym[i].next) {
		const struct symbol *s = &r->merger.sym[i];
		bool token = (uint32_t)s->piece < r->tok->n_vocab;

		if (token)
			ret = token_list_add(r->out, s->piece);
		/* If the symbol is not a token, append the token of each of its
		 * bytes, or the unknown token if no token stands for the
		 * byte. */
		for (uint32_t k = 0; !token && !ret && k < s->len; k++) {
			unsigned char byte = (unsigned char)word[s->at + k];
			int32_t id = r->tok->byte_piece[byte];

			if ((uint32_t)id >= r->tok->n_vocab)
				id = r->tok->unk;
			if (id < 0)
				return err_set(r->err, EILSEQ,
					"the vocabulary has no token for byte "
					"0x%02x of the text, and none for "
					"unknown bytes",
					byte);
			ret = token_list_add(r->out, id);
		}
	}
	return ret;
}

/* Encode the text between two special tokens. */
static int encode(struct tok_run *r, const char *text, size_t len, bool starts)
{
	if (!len)
		return 0;
	return r->tok->bpe ? tok_bpe_encode(r, text, len)
			   : tok_spm_encode(r, text, len, starts);
}

/* Find special tokens from left to right; of several special tokens that begin
 * at the same byte, use the longest. The text between two special tokens is
 * encoded separately. */
static int encode_all(
	struct tok_run *r, const char *text, size_t len, unsigned flags)
{
	const struct tokenizer *t = r->tok;
	size_t from = 0, at = 0;
	bool starts = !(flags & TOKENIZE_GOES_ON);

	while (at < len) {
		const struct specials *specials = &t->special;
		int32_t id;
		int ret;

		/* Skip the quoted parts that end before `at`. In a quoted part,
		 * control tokens are not recognised. */
		while (r->n_quoted &&
			(!r->quoted->len ||
				at >= r->quoted->at + r->quoted->len)) {
			r->quoted++;
			r->n_quoted--;
		}
		if (!(flags & TOKENIZE_SPECIAL) ||
			(r->n_quoted && at >= r->quoted->at))
			specials = &t->user;
		id = specials_match(specials, text + at, len - at);
		if (id < 0) {
			at++;
			continue;
		}
		ret = encode(r, text + from, at - from, starts);
		if (!ret)
			ret = token_list_add(r->out, id);
		if (ret)
			return ret;
		at += t->pieces.span[id].len;
		while (t->flags[id] & TOK_RSTRIP && at < len &&
			isspace((unsigned char)text[at]))
			at++;
		from = at;
		starts = true;
	}
	return encode(r, text + from, len - from, starts);
}

int tokenize(const struct tokenizer *t, const char *text, size_t len,
	unsigned flags, const struct text_span *quoted, size_t n_quoted,
	struct token_list *out, struct err *e)
{
	struct tok_run r = { .tok = t,
		.out = out,
		.quoted = quoted,
		.n_quoted = n_quoted,
		.err = e };
	size_t before = out->n;
	int ret = 0;

	if (len > TEXT_MAX)
		return err_set(e, EFBIG,
			"the text has %zu bytes, and at most %zu can be "
			"tokenized; divide it into shorter texts",
			len, TEXT_MAX);
	if (e)
		e->code = 0;
	if (t->bpe)
		ret = split_open(&r.split);
	if (!ret && flags & TOKENIZE_BOS && t->add_bos)
		ret = token_list_add(out, t->bos);
	if (!ret)
		ret = encode_all(&r, text, len, flags);
	if (!ret && flags & TOKENIZE_BOS && t->add_eos)
		ret = token_list_add(out, t->eos);
	if (ret) {
		out->n = before;
		if (e && !e->code)
			err_sys(e, -ret, "cannot tokenize %zu bytes", len);
	}
	split_close(r.split);
	merger_release(&r.merger);
	strbuf_release(&r.scratch);
	return ret;
}

/* ---- properties ---------------------------------------------------------- */

uint32_t tokenizer_n_vocab(const struct tokenizer *t)
{
	return t->n_vocab;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
	return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
	return t->eos;
}

bool tokenizer_adds_eos(const struct tokenizer *t)
{
	return t->add_eos;
}

bool tokenizer_adds_bos(const struct tokenizer *t)
{
	return t->add_bos;
}

size_t tokenizer_token_bytes(const struct tokenizer *t)
{
	return t->token_bytes;
}

bool tokenizer_is_eog(const struct tokenizer *t, int32_t id)
{
	return id >= 0 && (uint32_t)id < t->n_vocab && t->flags[id] & TOK_EOG;
}
