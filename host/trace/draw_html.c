#include "host/trace/draw.h"

#include "host/trace/timeline.h"

#include <inttypes.h>
#include <string.h>

/* Write a JavaScript string literal. Names come from an untrusted file, so
 * escape all characters that could end the string or the script. */
static void put_string(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++)
		if (*text == '"' || *text == '\\' || *text == '<' ||
			*text == '&' || (unsigned char)*text < ' ')
			fprintf(f, "\\u%04x", (unsigned char)*text);
		else
			fputc(*text, f);
	fputc('"', f);
}

void draw_html(const struct timeline *t, FILE *f)
{
	static const char here[] = "/*TRACE*/";
	const char *data = strstr(timeline_page, here);

	fwrite(timeline_page, 1, (size_t)(data - timeline_page), f);
	fputs("const trace={", f);

	fputs("kinds:[", f);
	for (unsigned k = 0; k < TRACE_KINDS; k++)
		fprintf(f, "%s[\"%s\",\"%s\"]", k ? "," : "", trace_kinds[k],
			draw_color(k));
	fputs("],\n", f);

	fputs("names:[", f);
	for (size_t i = 0; i < t->n_text; i++) {
		fputs(i ? "," : "", f);
		put_string(f, t->text[i]);
	}
	fputs("],\n", f);

	/* For each track: name; number of nesting levels; 1 for a counter, else
	 * 0; "device" for a track of the device process, else ""; enum
	 * timeline_role. */
	fputs("tracks:[", f);
	for (size_t i = 0; i < t->n_track; i++) {
		const struct timeline_track *x = &t->track[i];

		fprintf(f, "%s[", i ? ",\n" : "");
		put_string(f, x->name);
		fprintf(f, ",%" PRIu32 ",%d,", x->deepest,
			x->role == TIMELINE_COUNTER);
		put_string(f, timeline_is_device(x->role) ? "device" : "");
		fprintf(f, ",%d]", x->role);
	}
	fputs("],\n", f);

	/* For each slice seven numbers (track, depth, name, kind, begin and
	 * length in ns, 1 for an instant, else 0), followed by a list of the
	 * names and values of the slice's arguments. */
	fputs("slices:[", f);
	for (size_t i = 0; i < t->n_slice; i++) {
		const struct timeline_slice *s = &t->slice[i];

		fprintf(f,
			"%s%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%d,%" PRIu64
			",%" PRIu64 ",%d,[",
			i ? ",\n" : "", s->track, s->depth, s->name, s->kind,
			s->begin > t->begin ? s->begin - t->begin : 0,
			s->end - s->begin, s->instant);
		for (size_t a = s->arg; a; a = t->arg[a - 1].next)
			fprintf(f, "%s%" PRIu32 ",%" PRIu64,
				a == s->arg ? "" : ",", t->arg[a - 1].name,
				t->arg[a - 1].value);
		fputc(']', f);
	}
	fputs("],\n", f);

	/* For each point of a counter: track, time in ns, value. */
	fputs("points:[", f);
	for (size_t i = 0; i < t->n_point; i++) {
		const struct timeline_point *p = &t->point[i];

		fprintf(f, "%s%" PRIu32 ",%" PRIu64 ",%" PRId64, i ? ",\n" : "",
			p->track, p->at > t->begin ? p->at - t->begin : 0,
			p->value);
	}
	fputs("],\n", f);

	fprintf(f, "length:%" PRIu64 "};\n", t->end - t->begin);
	fputs(data + strlen(here), f);
}
