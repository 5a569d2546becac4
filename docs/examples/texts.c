/* Continues all prompts on its command line at the same time. To build it:
 *   cc texts.c $(pkg-config --cflags --libs tandem) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem.h>

#define MOST 16

struct page {
	struct tandem_submitted *text;
	char said[4096];
	size_t len;
};

static int keep(void *arg, int32_t token, const char *text, size_t len)
{
	struct page *p = arg;

	if (len >= sizeof(p->said) - p->len)
		return 1;
	memcpy(p->said + p->len, text, len);
	p->len += len;
	return 0;
}

static int fail(const struct tandem *model)
{
	fprintf(stderr, "%s\n", tandem_error(model));
	return 1;
}

static int submit(struct tandem *model, struct page *p, const char *prompt)
{
	struct tandem_request request;

	tandem_request_init(&request, sizeof(request));
	request.prompt = prompt;
	request.max_tokens = 32;
	request.sink = keep;
	request.sink_arg = p;
	return tandem_submit(model, &request, &p->text);
}

int main(int argc, char **argv)
{
	static const char *const set[] = { "texts=16", NULL };
	static struct page page[MOST];
	struct tandem_options options;
	struct tandem *model;
	unsigned n = 0, left = 1;
	int failed = 0;

	tandem_options_init(&options, sizeof(options));
	options.set = set;
	if (tandem_open(&model, &options))
		return fail(NULL);
	for (; n < MOST && (int)n + 1 < argc && !failed; n++)
		failed = submit(model, &page[n], argv[n + 1]);
	while (left && !failed)
		failed = tandem_advance(model, &left);
	if (failed)
		fail(model);
	for (unsigned i = 0; i < n; i++) {
		printf("%.*s\n", (int)page[i].len, page[i].said);
		tandem_request_close(page[i].text);
	}
	return tandem_close(model) || failed;
}
