/* Opens, starts and closes a handle of the library, and tokenizes and
 * detokenizes texts. */
#include "host/api/tandem.h"

#include "base/strbuf.h"
#include "base/version.h"
#include "host/api/options.h"
#include "host/api/prompt.h"
#include "host/api/report.h"
#include "host/api/tandem_impl.h"
#include "host/api/request_impl.h"
#include "host/draft/draft_model.h"
#include "host/head/reward.h"
#include "host/model/model.h"
#include "host/text/token_trie.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* The error of the last tandem_open or tandem_close of this thread. Such an
 * error cannot be stored in the handle, which does not exist before tandem_open
 * and after tandem_close. */
static _Thread_local struct err without_handle;

static const struct tandem_options options_defaults = {
	.size = sizeof(options_defaults),
};

const char *tandem_version(void)
{
	return TANDEM_VERSION;
}

int tandem_status_of(int ret)
{
	switch (ret) {
	case 0:
		return TANDEM_OK;
	case -EINVAL:
		return TANDEM_MISUSE;
	case -ECANCELED:
		return TANDEM_CANCELED;
	case -ERR_DEVICE_LOST:
		return TANDEM_LOST;
	default:
		return TANDEM_FAILED;
	}
}

int tandem_settle(struct tandem *t, int status)
{
	if (status == TANDEM_CANCELED)
		__atomic_store_n(&t->canceled, 0, __ATOMIC_RELAXED);
	if (status == TANDEM_LOST)
		t->dead = status;
	return status;
}

int tandem_adopt(void *ours, size_t size, const void *theirs, const char *name,
	struct err *e)
{
	const unsigned char *byte = theirs;
	size_t their_size;

	memcpy(&their_size, theirs, sizeof(their_size));
	if (!their_size || their_size % 8)
		return err_set(e, EINVAL,
			"member `size` of struct %s is %zu, but must be a "
			"multiple of 8 above 0; call %s_init first",
			name, their_size, name);
	for (size_t i = size; i < their_size; i++)
		if (byte[i])
			return err_set(e, EINVAL,
				"struct %s sets a member that this library "
				"(version %s) does not have: byte %zu of a "
				"struct of %zu bytes; use a newer library",
				name, tandem_version(), i, size);
	memcpy(ours, theirs, their_size < size ? their_size : size);
	return 0;
}

void tandem_options_init(struct tandem_options *o, size_t size)
{
	memset(o, 0, size);
	memcpy(o, &options_defaults,
		size < sizeof(*o) ? size : sizeof(options_defaults));
	memcpy(o, &size, sizeof(size));
}

/* ---- opening ------------------------------------------------------------- */

/* Parse the settings, "name=value" or "name". The handle keeps copies of the
 * strings. */
static int read_settings(struct tandem *t, const char *const *set,
	struct opt_values *asked, struct err *e)
{
	size_t n = 0;
	int ret = 0;

	while (set && set[n])
		n++;
	t->setting = calloc(n + 1, sizeof(*t->setting));
	for (size_t i = 0; t->setting && i < n && !ret; i++) {
		char *name = strdup(set[i]);
		char *value = name ? strchr(name, '=') : NULL;

		t->setting[i] = name;
		if (value)
			*value++ = '\0';
		ret = name ? opt_set(library_tables, asked, name, value, e)
			   : -ENOMEM;
	}
	if (!t->setting || ret == -ENOMEM)
		ret = err_set(e, ENOMEM, "no memory for the options");
	return ret;
}

int tandem_create(struct tandem **out, const struct tandem_options *options,
	const struct opt_values *parsed, struct err *e)
{
	struct tandem *t = calloc(1, sizeof(*t));
	struct tandem_options o = options_defaults;
	struct opt_values asked = { 0 };
	struct session_opts *pair;
	int ret = 0;

	*out = NULL;
	if (!t)
		return err_set(e, ENOMEM, "no memory for a handle");
	if (options)
		ret = tandem_adopt(&o, sizeof(o), options, "tandem_options", e);
	if (!ret && !parsed)
		ret = read_settings(t, o.set, &asked, e);
	if (!ret && o.device_program) {
		t->program = strdup(o.device_program);
		if (!t->program)
			ret = err_set(e, ENOMEM, "no memory for a path");
	}
	if (!ret)
		ret = decoder_set_options(
			&t->decoder, parsed ? parsed : &asked, e);
	if (ret) {
		tandem_end(t, NULL);
		return ret;
	}
	pair = &t->decoder.session_opts;
	pair->program = t->program;
	pair->quiet = !o.device_talks;
	pair->progress = (struct progress_sink){ o.progress, o.progress_arg };
	pair->notice = (struct notice_sink){ o.notice, o.notice_arg };
	pair->cancel = &t->canceled;
	*out = t;
	return 0;
}

int tandem_read_model(struct tandem *t, const char *path)
{
	return tandem_status_of(decoder_open_model(&t->decoder, path, &t->err));
}

struct session_opts *tandem_pair(struct tandem *t)
{
	return &t->decoder.session_opts;
}

/* Parse options in the C locale, so that numbers have a decimal point whatever
 * the caller's locale is. */
int tandem_open(struct tandem **out, const struct tandem_options *options)
{
	locale_t was = uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
	int ret = tandem_create(out, options, NULL, &without_handle);

	if (ret)
		ret = ret == -ENOMEM ? TANDEM_FAILED : TANDEM_MISUSE;
	else
		ret = tandem_read_model(*out, options ? options->model : NULL);
	if (ret && *out) {
		without_handle = (*out)->err;
		tandem_end(*out, NULL);
		*out = NULL;
	}
	uselocale(was);
	return ret;
}

int tandem_start(struct tandem *t, uint64_t tokens)
{
	struct session_opts o = t->decoder.session_opts;

	if (t->dead)
		return t->dead;
	if (t->decoder.session)
		return tandem_status_of(err_set(&t->err, EINVAL,
			"the device process of this handle was started "
			"already"));
	o.context_need = tokens < UINT32_MAX ? (uint32_t)tokens : 0;
	t->dead = tandem_status_of(
		decoder_open_session(&t->decoder, &o, &t->err));
	return t->dead;
}

int tandem_need(
	struct tandem *t, uint64_t tokens, uint64_t *bytes, struct err *e)
{
	struct session_opts o = t->decoder.session_opts;

	o.context_need = tokens < UINT32_MAX ? (uint32_t)tokens : 0;
	return decoder_need(&t->decoder, &o, bytes, e);
}

int tandem_check_room(
	const struct tandem *t, uint64_t prompt, int64_t predict, struct err *e)
{
	const struct decoder *d = &t->decoder;
	uint32_t context = d->session_opts.context;

	return prompt_check_room(d, prompt, (uint64_t)predict,
		context ? context : d->model->n_ctx, e);
}

int tandem_start_for(struct tandem *t, uint64_t prompt, int64_t predict)
{
	t->decoder.tail = predict < 0 ? 0 : (uint32_t)predict;
	return tandem_start(t, predict < 0 ? 0 : prompt + (uint64_t)predict);
}

int tandem_check_needless(const struct tandem *t, bool answers, struct err *e)
{
	const struct reward_options *o =
		opt_values_of(&t->decoder.options, &reward_table);
	int ret = drafting_check_needless(&t->decoder.drafting, e);

	return ret || answers ? ret : reward_check_unanswered(o->name, e);
}

int tandem_end(struct tandem *t, struct err *e)
{
	int ret;

	requests_close(t);
	draft_close(t->lone_model);
	ret = decoder_close(&t->decoder, e);
	request_close(t->last);
	token_trie_close(t->trie);
	for (size_t i = 0; t->setting && t->setting[i]; i++)
		free(t->setting[i]);
	free(t->setting);
	free(t->program);
	free(t);
	return ret;
}

int tandem_close(struct tandem *t)
{
	return t ? tandem_status_of(tandem_end(t, &without_handle)) : 0;
}

const char *tandem_error(const struct tandem *t)
{
	return t ? t->err.text : without_handle.text;
}

void tandem_cancel(struct tandem *t)
{
	__atomic_store_n(&t->canceled, 1, __ATOMIC_RELAXED);
}

/* ---- tokens -------------------------------------------------------------- */

/* Copy at most `cap` ids to the caller's array, free the list, and return the
 * full length of the list. */
static int64_t give_ids(struct token_list *list, int32_t *ids, size_t cap)
{
	int64_t n = (int64_t)list->n;

	if (list->n && cap)
		memcpy(ids, list->id,
			(list->n < cap ? list->n : cap) * sizeof(*ids));
	free(list->id);
	return n;
}

int64_t tandem_tokenize(struct tandem *t, const char *text, size_t len,
	unsigned flags, int32_t *ids, size_t cap)
{
	struct prompt p = {
		.text = text,
		.len = len,
		.special = flags & TANDEM_SPECIAL,
		.no_bos = flags & TANDEM_NO_BOS,
	};
	struct token_list list = { 0 };
	int ret = prompt_read(&t->decoder, &p, &list, &t->err);
	int64_t n = give_ids(&list, ids, cap);

	return ret ? tandem_status_of(ret) : n;
}

int64_t tandem_prompt(struct tandem *t, const struct tandem_request *request,
	int32_t *ids, size_t cap)
{
	struct token_list list = { 0 };
	int ret = tandem_prompt_tokens(t, request, &list.id, &list.n, &t->err);
	int64_t n = give_ids(&list, ids, cap);

	return ret ? tandem_status_of(ret) : n;
}

int tandem_tokens_text(const struct tandem *t, const int32_t *ids, size_t n,
	unsigned flags, struct strbuf *out, struct err *e)
{
	struct detokenizer d = { .tok = t->decoder.tokenizer,
		.special = flags & TANDEM_SPECIAL };
	int ret = 0;

	for (size_t i = 0; i < n && ret != -EINVAL; i++)
		ret = detokenize(&d, ids[i], out);
	detokenize_end(&d, out);
	if (ret == -EINVAL)
		return err_set(e, EINVAL,
			"at least one of the %zu ids is not a token of this "
			"model",
			n);
	return out->failed ? err_set(e, ENOMEM, "no memory for the text") : 0;
}

int64_t tandem_detokenize(struct tandem *t, const int32_t *ids, size_t n,
	unsigned flags, char *text, size_t cap)
{
	struct strbuf out = STRBUF_INIT;
	int ret = tandem_tokens_text(t, ids, n, flags, &out, &t->err);
	int64_t len;

	len = ret ? tandem_status_of(ret) : (int64_t)out.len;
	if (len > 0 && cap)
		memcpy(text, out.data, out.len < cap ? out.len : cap);
	strbuf_release(&out);
	return len;
}
