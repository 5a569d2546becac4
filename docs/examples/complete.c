/* Continues the prompt that its command line gives. To build it:
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
	struct tandem *model;
	int failed;

	if (tandem_open(&model, NULL)) {
		fprintf(stderr, "%s\n", tandem_error(NULL));
		return 1;
	}
	tandem_request_init(&request, sizeof(request));
	request.prompt = argc > 1 ? argv[1] : "Once upon a time";
	request.max_tokens = 32;
	request.sink = print;
	failed = tandem_generate(model, &request, NULL);
	if (failed)
		fprintf(stderr, "%s\n", tandem_error(model));
	puts("");
	return tandem_close(model) || failed;
}
