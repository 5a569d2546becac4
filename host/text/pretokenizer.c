/*
 * Pre-tokenizers split a text into words before byte pairs are merged. Each
 * model family published its rule as regular expressions (the "pre_tokenizer"
 * of its tokenizer.json); a GGUF file has only a name for the rule. Several
 * expressions are applied one after another, each to the pieces that the
 * previous expression made. Each match is a piece, and so is the text between
 * two matches.
 *
 * PCRE2 runs the expressions with its Unicode classes. The class \s of PCRE2
 * also matches U+180E, which Unicode does not count as white space any more, so
 * the class of white space is spelled out.
 */
#define PCRE2_CODE_UNIT_WIDTH 8

#include "base/checked.h"
#include "base/err.h"
#include "host/text/tokenizer_impl.h"

#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rules ------------------------------------------------------- */

#define WS          "\\t-\\r\\x{85}\\p{Z}" /* white space, for use within [] */
#define TRAILING_WS "[" WS "]+(?![^" WS "])|[" WS "]+"

#define GPT2                      \
	"'s|'t|'re|'ve|'m|'ll|'d" \
	"| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+|" TRAILING_WS

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS     "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SYMBOLS     " ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*"
#define LINES       "[" WS "]*[\\r\\n]+"
#define CL100K(number) \
	CONTRACTION "|" LETTERS "|" number "|" SYMBOLS "|" LINES "|" TRAILING_WS

/* Rules that also end a word between a lower-case and an upper-case letter. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(tail, number)                                           \
	"[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail             \
	"|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" tail "|" number \
	"| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n/]*|" LINES "|" TRAILING_WS

#define CJK_DEEPSEEK \
	"[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
#define CJK_KANA "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+"

/* A word without spaces, brackets, bars and the marks that end a clause. */
#define BLOOM                                                          \
	" ?[^(" WS "|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}" \
	"\\x{6d4}\\x{60c})]+"

/* The cased letters of Unicode 11, as listed by the model's authors. */
#define DEEPSEEK_LETTERS                                              \
	"A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}" \
	"\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}"         \
	"\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}"  \
	"\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"          \
	"\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}"         \
	"\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}"     \
	"\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"   \
	"\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}"   \
	"\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}"   \
	"\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}"    \
	"\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}"             \
	"\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"             \
	"\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"   \
	"\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}"   \
	"\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}"              \
	"\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"              \
	"\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}"             \
	"\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}"    \
	"\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"             \
	"\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}"    \
	"\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}"   \
	"\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"   \
	"\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}"   \
	"\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"                  \
	"\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}"                  \
	"\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"                  \
	"\\x{1e900}-\\x{1e943}"

#define DEEPSEEK3                                               \
	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" \
	"|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"          \
	"| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES "|" TRAILING_WS

/*
 * The rule of each pre-tokenizer. `default` is for files that name no
 * pre-tokenizer. Names with the same rule share an entry. The two flags at the
 * end of an entry are ignore_merges and add_bos; the models with these names
 * require them.
 */
static const struct pretokenizer table[] = {
	{ "default",
		{ "[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]" } },
	{ "gpt-2 phi-2 mpt olmo jais jina-es jina-de jina-v2-es jina-v2-de "
	  "jina-v1-en jina-v2-code roberta-bpe gigachat a.x-4.0 mellum "
	  "modern-bert exaone4 trillion granite-docling",
		{ GPT2 } },
	{ "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 "
	  "jina-v5-nano",
		{ CL100K("\\p{N}{1,3}") }, true, true },
	{ "dbrx smaug-bpe chatglm-bpe glm4", { CL100K("\\p{N}{1,3}") } },
	{ "qwen2 stablelm2 deepseek-r1-qwen kormo f2llmv2 megrez hunyuan "
	  "grok-2 solar-open",
		{ CL100K("\\p{N}") } },
	{ "qwen35",
		{ CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
			      "| ?[^" WS "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES
			      "|" TRAILING_WS } },
	{ "deepseek-llm",
		{ "[\\r\\n]", "[" WS "]?[" DEEPSEEK_LETTERS "]+",
			"[" WS "]?[!-/:-~\\x{ff01}-\\x{ff0f}"
			"\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}"
			"\\x{3000}-\\x{3002}]+",
			/* The look-behind lets a match begin only at the first
			 * space of a run of spaces. The result is the same
			 * without the look-behind, but a search that fails
			 * would be repeated from each space of the run. */
			"(?<![" WS "])[" WS "]++$", CJK_DEEPSEEK, "\\p{N}+" } },
	{ "deepseek-coder",
		{ "[\\r\\n]", "[" WS "]?\\p{L}+", "[" WS "]?\\p{P}+",
			CJK_DEEPSEEK, "\\p{N}" } },
	{ "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
		{ "\\p{N}{1,3}", CJK_KANA, DEEPSEEK3 } },
	{ "falcon", { "[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]" } },
	{ "starcoder refact command-r smollm codeshell exaone minerva-7b "
	  "mellum2",
		{ "\\p{N}", GPT2 } },
	{ "bloom poro-chat gpt3-finnish", { BLOOM } },
	{ "viking", { BLOOM, "\\p{N}" } },
	{ "tekken", { CASED("", "\\p{N}") }, true, true },
	{ "gpt-4o llama4 kanana2 talkie minimax-m2",
		{ CASED(CONTRACTION "?", "\\p{N}{1,3}") } },
	{ "bailingmoe bailingmoe2 llada-moe",
		{ "'(?i:[sdmt]|ll|ve|re)|" LETTERS "|\\p{N}|" SYMBOLS "|[" WS
		  "]*[\\r\\n]|" TRAILING_WS } },
	{ "seed-coder",
		{ CONTRACTION "|" LETTERS "|\\p{N}| ?[^" WS
			      "\\p{L}\\p{N}]+|" LINES "|" TRAILING_WS } },
	{ "ufakzeka",
		{ LETTERS "|\\p{N}|" SYMBOLS "|" LINES "|" TRAILING_WS } },
	{ "minicpm5", { "\\p{N}{1,3}", CL100K("\\p{N}+") }, true },
};

const struct pretokenizer *pretokenizer_find(struct gguf_str name)
{
	if (!name.len)
		return &table[0];
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		for (const char *at = table[i].names; *at;) {
			size_t n = strcspn(at, " ");

			if (n == name.len && !memcmp(at, name.data, n))
				return &table[i];
			at += n + (at[n] == ' ');
		}
	}
	return NULL;
}

void pretokenizer_names(struct strbuf *b)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		strbuf_addf(b, "%s%.*s", i ? " " : "",
			(int)strcspn(table[i].names, " "), table[i].names);
}

/* ---- splitting ------------------------------------------------------- */

struct split_run {
	/* room for one pair of offsets: the bounds of the whole match */
	pcre2_match_data *match;
	pcre2_match_context *context;
	pcre2_jit_stack *stack;
};

int splitter_init(
	struct splitter *s, const struct pretokenizer *p, struct err *e)
{
	/* Without DOLLAR_ENDONLY, $ would also match before a final line
	 * feed. */
	const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY |
		PCRE2_NO_AUTO_CAPTURE;

	for (; s->n < SPLITTER_MAX && p->regex[s->n]; s->n++) {
		const char *regex = p->regex[s->n];
		PCRE2_SIZE at;
		int code;

		s->code[s->n] = pcre2_compile((PCRE2_SPTR)regex, strlen(regex),
			options, &code, &at, NULL);
		if (!s->code[s->n]) {
			char why[128];

			pcre2_get_error_message(
				code, (PCRE2_UCHAR *)why, sizeof(why));
			return err_set(e, ENOTSUP,
				"this PCRE2 library cannot compile the "
				"pre-tokenizer's expression: %s at %zu",
				why, (size_t)at);
		}
		/* Ignore an error: without JIT support the expression is
		 * interpreted. */
		pcre2_jit_compile(s->code[s->n], PCRE2_JIT_COMPLETE);
	}
	return 0;
}

void splitter_release(struct splitter *s)
{
	for (unsigned i = 0; i < s->n; i++)
		pcre2_code_free(s->code[i]);
	s->n = 0;
}

int split_open(struct split_run **out)
{
	struct split_run *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->match = pcre2_match_data_create(1, NULL);
	r->context = pcre2_match_context_create(NULL);
	r->stack = pcre2_jit_stack_create(32 << 10, 8 << 20, NULL);
	if (!r->match || !r->context) {
		split_close(r);
		return -ENOMEM;
	}
	if (r->stack)
		pcre2_jit_stack_assign(r->context, NULL, r->stack);
	/*
	 * Remove PCRE2's limits on the number of steps and on the depth of a
	 * match: both grow with the length of a word, which may be millions of
	 * characters. Removing the limits is safe, because all patterns are
	 * built in and take linear time.
	 */
	pcre2_set_match_limit(r->context, UINT32_MAX);
	pcre2_set_depth_limit(r->context, UINT32_MAX);
	*out = r;
	return 0;
}

void split_close(struct split_run *r)
{
	if (!r)
		return;
	pcre2_match_data_free(r->match);
	pcre2_match_context_free(r->context);
	pcre2_jit_stack_free(r->stack);
	free(r);
}

/* Data of one call of split_words() that is the same for all expressions. */
struct split {
	const struct splitter *splitter;
	struct split_run *run;
	int (*fn)(void *arg, const char *word, size_t len);
	void *arg;
	struct err *err;
};

/* Find the first match of expression number `level` in text[len] from `from`
 * on. Returns 1 and the bounds of the match in *start and *end, 0 if there is
 * no match, or a negative errno. */
static int next_match(const struct split *s, unsigned level, const char *text,
	size_t len, size_t from, size_t *start, size_t *end)
{
	const pcre2_code *code = s->splitter->code[level];
	const PCRE2_SIZE *at = pcre2_get_ovector_pointer(s->run->match);
	uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
	int ret = pcre2_match(code, (PCRE2_SPTR)text, len, from, options,
		s->run->match, s->run->context);

	/* If the JIT stack is too small, use the interpreter, which keeps its
	 * state on the heap. */
	if (ret == PCRE2_ERROR_JIT_STACKLIMIT)
		ret = pcre2_match(code, (PCRE2_SPTR)text, len, from,
			options | PCRE2_NO_JIT, s->run->match, s->run->context);
	if (ret == PCRE2_ERROR_NOMATCH)
		return 0;
	if (ret < 0) {
		char why[128];

		pcre2_get_error_message(ret, (PCRE2_UCHAR *)why, sizeof(why));
		return err_set(s->err, EIO,
			"cannot split %zu bytes of text into words: %s", len,
			why);
	}
	*start = at[0];
	*end = at[1];
	return 1;
}

/* Split each piece with the further expressions before the next piece is looked
 * for, so that no list of words needs to be stored. */
static int split_level(
	const struct split *s, unsigned level, const char *text, size_t len)
{
	if (level == s->splitter->n)
		return s->fn(s->arg, text, len);
	for (size_t at = 0; at < len;) {
		size_t start = len, end = len;
		int ret = next_match(s, level, text, len, at, &start, &end);

		if (ret < 0)
			return ret;
		ret = 0;
		if (start > at)
			ret = split_level(s, level + 1, text + at, start - at);
		if (!ret && end > start)
			ret = split_level(
				s, level + 1, text + start, end - start);
		if (ret)
			return ret;
		at = end;
	}
	return 0;
}

int split_words(const struct splitter *splitter, struct split_run *run,
	const char *text, size_t len,
	int (*fn)(void *arg, const char *word, size_t len), void *arg,
	struct err *e)
{
	const struct split s = { splitter, run, fn, arg, e };

	return split_level(&s, 0, text, len);
}
