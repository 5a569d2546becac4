/*
 * A test program for tests/oom/run --self-test: once an allocation fails, the
 * program ends in one of the wrong ways that the test must detect.
 *
 *   victim MODE FILE
 *
 * MODE selects the wrong way (see starved()); mode "file" creates FILE.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void touch(const char *folder, const char *name)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s%s%s", folder, *name ? "/" : "", name);
	f = fopen(path, "w");
	if (f)
		fclose(f);
}

static int no_memory(void)
{
	fputs("tandem: no memory\n", stderr);
	return 1;
}

/* The second allocation failed; handle this badly, as `mode` selects. */
static int starved(const char *mode, const char *file, void *first)
{
	if (strcmp(mode, "leaks"))
		free(first);
	if (!strcmp(mode, "silent"))
		return 1;
	if (!strcmp(mode, "text"))
		return puts("wrong") < 0;
	/* invalid JSON with as many quotes and lines as the correct output */
	if (!strcmp(mode, "json"))
		return puts("{\"a\": [1}") < 0;
	if (!strcmp(mode, "talks"))
		fputs("and more\n", stderr);
	if (!strcmp(mode, "other"))
		return fputs("tandem: no reason\n", stderr) < 0 ? 2 : 1;
	if (!strcmp(mode, "crashes"))
		abort();
	if (!strcmp(mode, "segfaults"))
		*(volatile int *)NULL = 0;
	if (!strcmp(mode, "hangs"))
		for (;;)
			pause();
	if (!strcmp(mode, "file"))
		touch(file, "");
	if (!strcmp(mode, "temporary"))
		touch(getenv("TMPDIR"), "x");
	if (!strcmp(mode, "process") && !fork()) {
		execlp("sleep", "sleep", "30", NULL);
		_exit(1);
	}
	return no_memory();
}

int main(int argc, char **argv)
{
	void *first = malloc(10), *second;

	if (!first || argc < 3) {
		free(first);
		return no_memory();
	}
	second = malloc(10);
	if (!second)
		return starved(argv[1], argv[2], first);
	free(second);
	free(first);
	if (!strcmp(argv[1], "json"))
		puts("{\"a\": [1]}");
	return 0;
}
