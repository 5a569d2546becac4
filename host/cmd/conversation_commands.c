/* What a line that begins with a / does. */
#include "host/cmd/conversation.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int do_reset(struct conversation *c, const char *text, struct err *e)
{
	talk_reset(&c->talk);
	return 0;
}

static int need(const char *text, const char *what, struct err *e)
{
	return *text ? 0 : err_set(e, EINVAL, "%s is missing", what);
}

static int do_save(struct conversation *c, const char *path, struct err *e)
{
	int ret = need(path, "the FILE to save to", e);

	return ret ? ret : conversation_save(c, path, e);
}

static int do_load(struct conversation *c, const char *path, struct err *e)
{
	int ret = need(path, "the FILE to load", e);

	return ret ? ret : conversation_load(c, path, false, e);
}

static int do_set(struct conversation *c, const char *text, struct err *e)
{
	int ret = need(text, "NAME=VALUE", e);

	return ret ? ret : conversation_set(c, text, e);
}

static int do_method(struct conversation *c, const char *name, struct err *e)
{
	struct tandem_report r;
	char text[128];

	if (!*name) {
		tandem_report(c->tandem, &r);
		fprintf(stderr, "method %s\n", r.method);
		return 0;
	}
	snprintf(text, sizeof(text), "method=%s", name);
	return conversation_set(c, text, e);
}

static int do_stats(struct conversation *c, const char *text, struct err *e)
{
	const struct tandem_result *r = &c->last;
	uint64_t used = r->prompt_tokens + r->tokens;

	if (!c->turns) {
		fprintf(stderr,
			"no answer yet; the context has room for %u "
			"tokens\n",
			c->room);
		return 0;
	}
	fprintf(stderr,
		"prompt: %llu tokens, %llu cached, %llu computed\n"
		"answer: %llu tokens in %.2f s, the first after %.2f s; "
		"ended by %s\n",
		(unsigned long long)r->prompt_tokens,
		(unsigned long long)r->cached_tokens,
		(unsigned long long)(r->prompt_tokens - r->cached_tokens),
		(unsigned long long)r->tokens, r->seconds, r->seconds_to_first,
		conversation_stop_name(c));
	if (r->drafted)
		fprintf(stderr, "drafted: %llu, accepted %llu\n",
			(unsigned long long)r->drafted,
			(unsigned long long)r->accepted);
	fprintf(stderr, "context: %llu of %u tokens\n",
		(unsigned long long)used, c->room);
	if (r->phone_seconds > 0)
		fprintf(stderr, "phone: %.3f s, %.2f J\n", r->phone_seconds,
			r->phone_joules);
	return 0;
}

static int do_help(struct conversation *c, const char *text, struct err *e);
static int do_quit(struct conversation *c, const char *text, struct err *e);

static const struct {
	const char *name, *arg, *help;
	int (*run)(struct conversation *, const char *text, struct err *);
} verbs[] = {
	{ "/system", "TEXT", "set the system's turn; without TEXT, none",
		conversation_set_system },
	{ "/reset", "", "begin anew; the system's turn stays", do_reset },
	{ "/save", "FILE", "write the conversation and settings as JSON",
		do_save },
	{ "/load", "FILE", "go on with one that was saved", do_load },
	{ "/stats", "", "what the last answer took", do_stats },
	{ "/method", "NAME", "decode by another method", do_method },
	{ "/set", "NAME=VALUE", "any option of tandem chat --help but --model",
		do_set },
	{ "/help", "", "this", do_help },
	{ "/quit", "", "end, as Ctrl-D does", do_quit },
};

static int do_help(struct conversation *c, const char *text, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		fprintf(stderr, "%-8s %-10s  %s\n", verbs[i].name, verbs[i].arg,
			verbs[i].help);
	fputs("A turn that begins with a / is written with two. A line that "
	      "ends in a backslash goes\non with the next; a line of \"\"\" "
	      "begins a turn of several, and another ends it.\n",
		stderr);
	return 0;
}

static int do_quit(struct conversation *c, const char *text, struct err *e)
{
	return CONVERSATION_QUIT;
}

int conversation_command(
	struct conversation *c, const char *line, struct err *e)
{
	size_t len = strcspn(line, " \t");
	const char *rest = line + len + strspn(line + len, " \t");

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strlen(verbs[i].name) == len &&
			!strncmp(line, verbs[i].name, len))
			return verbs[i].run(c, rest, e);
	return err_set(e, EINVAL, "'%.*s' is no command; /help lists them",
		(int)(len > 40 ? 40 : len), line);
}
