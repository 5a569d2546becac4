/* Divides an output into text and tool calls (chat_tools.h). The sampler allows
 * only outputs in which calls have the format of the style (call_style.h), so
 * the marker, the quotes and the braces are enough to find the parts of a
 * call. */
#include "host/text/chat_tools.h"

#include "base/strbuf.h"
#include "host/text/call_style.h"
#include "host/text/json_machine.h"

#include <string.h>

enum {
	START,
	FREE,  /* state: in text; the marker of a call may follow */
	PLAIN, /* state: in text; no call can follow */
	/* state: after the marker or after the arguments of a call, before the
	 * brace that opens the next call */
	SEEK,
	/* state: in a call, before the tool's name, which begins after the
	 * third quote of the call */
	HEAD,
	NAME, /* state: in a call, in the tool's name */
	/* state: in a call, after the tool's name and before the brace that
	 * opens the arguments */
	MIDDLE,
	ARGUMENTS,
};

static void free_byte(struct call_reader *r, char c, struct strbuf *out)
{
	const char *marker = r->style->marker;
	uint32_t was = r->matched, n;

	/* Hold back the bytes that may be the beginning of the marker. */
	r->matched = json_match_on(marker, was, (unsigned char)c);
	n = was + 1 - r->matched;
	strbuf_add(out, marker, n < was ? n : was);
	if (n > was)
		strbuf_add(out, &c, 1);
	if (n && r->style->at_start)
		r->state = PLAIN;
	if (marker[r->matched])
		return;
	r->state = SEEK;
	r->matched = 0;
	/* A marker that begins with a brace contains "name", so the first two
	 * quotes of the call were already read. */
	if (marker[0] == '{') {
		r->state = HEAD;
		r->matched = 2;
	}
}

/* Read bytes of a call's arguments, at most up to the end of the arguments. */
static int arguments(
	struct call_reader *r, const char *text, size_t len, size_t *used)
{
	bool ended = false;
	size_t n = 0;

	while (n < len && !ended) {
		char c = text[n++];

		if (r->in_string) {
			r->in_string = r->escaped || c != '"';
			r->escaped = !r->escaped && c == '\\';
			continue;
		}
		r->in_string = c == '"';
		r->depth += c == '{' || c == '[';
		r->depth -= c == '}' || c == ']';
		ended = !r->depth;
	}
	*used = n;
	if (ended)
		r->state = SEEK;
	return r->call(r->arg, r->n - 1, r->name, text, n, ended);
}

/* Read one byte of a call before the arguments. */
static int head_byte(struct call_reader *r, char c)
{
	switch (r->state) {
	case SEEK:
		if (c == '{') {
			r->state = HEAD;
			r->matched = 0;
		}
		return 0;
	case HEAD:
		r->matched += c == '"';
		if (r->matched == 3) {
			r->state = NAME;
			r->name_len = 0;
		}
		return 0;
	default: /* NAME */
		if (c != '"') {
			if (r->name_len + 1 < sizeof(r->name))
				r->name[r->name_len++] = c;
			return 0;
		}
		r->name[r->name_len] = '\0';
		r->state = MIDDLE;
		r->depth = 0;
		r->in_string = r->escaped = false;
		return r->call(r->arg, r->n++, r->name, "", 0, false);
	}
}

static int add_text(
	struct call_reader *r, const char *text, size_t len, struct strbuf *out)
{
	int ret = 0;

	for (size_t i = 0, used = 1; i < len && !ret; i += used) {
		used = 1;
		if (r->state == PLAIN) {
			strbuf_add(out, text + i, used = len - i);
		} else if (r->state == FREE) {
			free_byte(r, text[i], out);
		} else if (r->state == ARGUMENTS ||
			(r->state == MIDDLE && text[i] == '{')) {
			r->state = ARGUMENTS;
			ret = arguments(r, text + i, len - i, &used);
		} else if (r->state != MIDDLE) {
			ret = head_byte(r, text[i]);
		}
	}
	return ret;
}

int call_reader_add(struct call_reader *r, int32_t id, const char *text,
	size_t len, struct strbuf *out)
{
	int ret;

	if (r->state == START)
		r->state = r->must ? SEEK : FREE;
	ret = add_text(r, text, len, out);
	/* A control token has no bytes, so add the string that the token stands
	 * for. `text`, which is added first, is earlier text that was held back
	 * because it might have been part of a stop string. In the state FREE,
	 * the only token whose string is added is the marker's token. */
	for (unsigned i = 0; id >= 0 && i < r->tags.n && !ret; i++)
		if (r->tags.id[i] == id &&
			(r->state != FREE ||
				!strcmp(r->tags.text[i], r->style->marker)))
			ret = add_text(r, r->tags.text[i],
				strlen(r->tags.text[i]), out);
	return ret;
}

void call_reader_end(struct call_reader *r, struct strbuf *out)
{
	if (r->state == FREE && r->matched)
		strbuf_add(out, r->style->marker, r->matched);
	r->matched = 0;
}
