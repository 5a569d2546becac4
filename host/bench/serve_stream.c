#include "host/bench/serve_stream.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static uint64_t count_in(const json_t *o, const char *name, uint64_t otherwise)
{
	const json_t *n = json_object_get(o, name);

	return json_is_integer(n) && json_integer_value(n) >= 0
		? (uint64_t)json_integer_value(n)
		: otherwise;
}

static double real_in(const json_t *o, const char *name)
{
	const json_t *n = json_object_get(o, name);

	return json_is_number(n) ? json_number_value(n) : 0;
}

static void take_numbers(struct serve_answer *a, const json_t *chunk)
{
	const json_t *usage = json_object_get(chunk, "usage");
	const json_t *timings = json_object_get(chunk, "timings");

	if (json_is_object(timings)) {
		a->prompt_tokens =
			count_in(timings, "prompt_n", a->prompt_tokens);
		a->tokens = count_in(timings, "predicted_n", a->tokens);
		a->cached_tokens =
			count_in(timings, "cache_n", a->cached_tokens);
		a->drafted = count_in(timings, "draft_n", a->drafted);
		a->accepted =
			count_in(timings, "draft_n_accepted", a->accepted);
		a->prompt_ms = real_in(timings, "prompt_ms");
		a->predicted_ms = real_in(timings, "predicted_ms");
		a->prompt_per_s = real_in(timings, "prompt_per_second");
		a->predicted_per_s = real_in(timings, "predicted_per_second");
	}
	/*
	 * If an answer has both `usage` and `timings`, use the numbers of
	 * tokens in `usage`: `prompt_n` in the timings of llama.cpp does not
	 * include cached tokens.
	 */
	if (json_is_object(usage)) {
		a->prompt_tokens =
			count_in(usage, "prompt_tokens", a->prompt_tokens);
		a->tokens = count_in(usage, "completion_tokens", a->tokens);
		a->cached_tokens = count_in(
			json_object_get(usage, "prompt_tokens_details"),
			"cached_tokens", a->cached_tokens);
	}
}

static void take_text(struct serve_stream *s, const json_t *text, uint64_t now)
{
	struct serve_answer *a = &s->answer;

	if (!json_string_length(text))
		return;
	strbuf_add(&s->text, json_string_value(text), json_string_length(text));
	if (!a->pieces++)
		a->first_ns = now;
	else if (s->gap)
		series_add(s->gap, (double)(now - a->last_ns) * 1e-6);
	a->last_ns = now;
}

static void take_object(
	struct serve_stream *s, const char *data, size_t n, uint64_t now)
{
	json_t *chunk = json_loadb(data, n, 0, NULL);
	json_t *error = json_object_get(chunk, "error");
	const json_t *choice =
		json_array_get(json_object_get(chunk, "choices"), 0);
	const char *says = json_string_value(json_is_object(error)
			? json_object_get(error, "message")
			: error);

	if (json_is_object(chunk)) {
		if (error && !json_is_null(error)) {
			snprintf(s->error, sizeof(s->error), "%s",
				says ? says : "an error without a message");
			err_plain(s->error);
		}
		take_numbers(&s->answer, chunk);
		take_text(s, json_object_get(choice, "text"), now);
		take_text(s,
			json_object_get(
				json_object_get(choice, "delta"), "content"),
			now);
	} else if (!*s->error) {
		/* the body is not JSON but, for example, an HTML page of a
		 * proxy */
		snprintf(s->error, sizeof(s->error), "%.*s",
			(int)(n < 200 ? n : 200), data);
		err_plain(s->error);
	}
	json_decref(chunk);
}

/*
 * Process a line, given without its line end. A line of a stream begins with
 * "data:" (an event), with ":" (a comment), or with the name of the field
 * event, id or retry. Any other line belongs to a body that is not a stream,
 * such as an error message.
 */
static void take_line(
	struct serve_stream *s, const char *line, size_t n, uint64_t now)
{
	static const char mark[] = "data:";
	const size_t head = sizeof(mark) - 1;

	if (n && line[n - 1] == '\r')
		n--;
	if (!n || line[0] == ':' || (n > 6 && !memcmp(line, "event:", 6)) ||
		(n > 3 && !memcmp(line, "id:", 3)) ||
		(n > 6 && !memcmp(line, "retry:", 6)))
		return;
	if (n >= head && !memcmp(line, mark, head)) {
		line += head;
		n -= head;
		if (n && *line == ' ') {
			line++;
			n--;
		}
		if (n == 6 && !memcmp(line, "[DONE]", 6)) {
			s->ended = true;
			return;
		}
	}
	take_object(s, line, n, now);
}

void serve_stream_feed(
	struct serve_stream *s, const void *data, size_t n, uint64_t now_ns)
{
	const char *at = data, *end = at + n;

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;

		strbuf_add(&s->line, at, (size_t)(stop - at));
		at = stop + 1;
		if (newline) {
			take_line(s, s->line.len ? s->line.data : "",
				s->line.len, now_ns);
			strbuf_reset(&s->line);
		}
	}
}

void serve_stream_finish(struct serve_stream *s, uint64_t now_ns)
{
	if (s->line.len)
		take_line(s, s->line.data, s->line.len, now_ns);
	strbuf_reset(&s->line);
	if (!s->answer.tokens)
		s->answer.tokens = s->answer.pieces;
}

void serve_stream_release(struct serve_stream *s)
{
	strbuf_release(&s->text);
	strbuf_release(&s->line);
	*s = (struct serve_stream){ 0 };
}
