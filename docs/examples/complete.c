/* Continues the prompt on its command line. Build it with
 *   cc complete.c $(pkg-config --cflags --libs tandem) */
#include <stdio.h>
#include <tandem.h>

static int print(void *arg, int32_t token, const char *text, size_t len)
{
	return fwrite(text, 1, len, stdout) != len || fflush(stdout);
}

int main(int argc, char **argv)
{
	struct tandem_request request;
	struct tandem_result result = { .size = sizeof(result) };
	struct tandem *model;

	tandem_request_init(&request, sizeof(request));
	request.prompt = argc > 1 ? argv[1] : "Once upon a time";
	request.max_tokens = 32;
	request.sink = print;
	if (tandem_open(&model, NULL)) {
		fprintf(stderr, "%s\n", tandem_error(NULL));
		return 1;
	}
	if (tandem_generate(model, &request, &result))
		fprintf(stderr, "%s\n", tandem_error(model));
	puts("");
	fprintf(stderr, "%d tokens in %.2f s\n", (int)result.tokens,
		result.seconds);
	return tandem_close(model) != 0;
}
