/*
 * A program that uses the library, for cli/library_soak. Four threads open
 * handles, generate a few tokens with two handles each and close them, ROUNDS
 * times in total. Afterwards nothing may remain: no descriptor, process,
 * mapping or heap memory, and no signal that is handled or blocked. The program
 * prints only errors.
 */
#include <tandem.h>

#include <dirent.h>
#include <errno.h>
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define THREADS 4
/* number of rounds before the measurement; in these rounds libraries make
 * one-time allocations */
#define WARM 24

static const char *model;

static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("\n", stderr);
	exit(1);
}

struct text {
	size_t len;
	char data[256];
};

static int keep(void *arg, int32_t token, const char *text, size_t len)
{
	struct text *t = arg;

	if (t->len + len > sizeof(t->data))
		die("%zu bytes of a few tokens", t->len + len);
	memcpy(t->data + t->len, text, len);
	t->len += len;
	return 0;
}

/* Open a handle. One of the options is a fraction, whose decimal point must not
 * depend on the locale. */
static struct tandem *opened(void)
{
	static const char *const set[] = { "threads=1", "ctx=24",
		"va-window=16M", "spin=0", "device-timeout=29.5", NULL };
	struct tandem_options o;
	struct tandem *t;

	tandem_options_init(&o, sizeof(o));
	o.model = model;
	o.set = set;
	if (tandem_open(&t, &o))
		die("open: %s", tandem_error(NULL));
	return t;
}

static void write_text(struct tandem *t, const char *prompt, struct text *out)
{
	struct tandem_request r;

	tandem_request_init(&r, sizeof(r));
	r.prompt = prompt;
	r.max_tokens = 3;
	r.flags = TANDEM_IGNORE_EOS;
	r.sink = keep;
	r.sink_arg = out;
	out->len = 0;
	if (tandem_generate(t, &r, NULL))
		die("generate: %s", tandem_error(t));
}

static void refuse(void)
{
	static const char *const set[] = { "method=none-such", NULL };
	struct tandem_options o;
	struct tandem *t;

	tandem_options_init(&o, sizeof(o));
	o.model = model;
	o.set = set;
	if (tandem_open(&t, &o) != TANDEM_MISUSE || t ||
		!strstr(tandem_error(NULL), "none-such"))
		die("a method that is none: %s", tandem_error(NULL));
}

static void check_same(const struct text *a, const struct text *b)
{
	if (!a->len || a->len != b->len || memcmp(a->data, b->data, a->len))
		die("'%.*s' was '%.*s' before", (int)b->len, b->data,
			(int)a->len, a->data);
}

/* Do two rounds: two handles, each used twice, alternately. */
static void two_rounds(void)
{
	struct tandem *a = opened(), *b = opened();
	struct text first, second, again;

	write_text(a, "one", &first);
	write_text(b, "two", &second);
	write_text(a, "two", &again);
	check_same(&second, &again);
	write_text(b, "one", &again);
	check_same(&first, &again);
	if (tandem_close(a) || tandem_close(b))
		die("close: %s", tandem_error(NULL));
	refuse();
}

static void *work(void *arg)
{
	for (int left = *(int *)arg; left > 0; left -= 2)
		two_rounds();
	return NULL;
}

static void run(int rounds)
{
	int each = rounds / THREADS;
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, &each))
			die("no thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* ---- what remains ------------------------------------------------------- */

struct left {
	size_t fds, heap, maps, handled;
};

static size_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* Count the mappings of files, also of memfds. Other mappings are not counted,
 * because the C library keeps thread stacks and arenas. */
static size_t count_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	size_t n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strchr(line, '/') != NULL;
	if (f)
		fclose(f);
	return n;
}

static size_t count_handled(void)
{
	struct sigaction sa;
	sigset_t blocked;
	size_t n = 0;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	for (int sig = 1; sig < SIGRTMIN; sig++) {
		if (sigaction(sig, NULL, &sa))
			continue;
		n += sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN;
		n += sigismember(&blocked, sig) == 1;
	}
	return n;
}

static struct left look(void)
{
	struct left l = { .fds = count_fds(),
		.maps = count_maps(),
		.handled = count_handled() };
	struct mallinfo2 m = mallinfo2();

	l.heap = m.uordblks + m.hblkhd;
	if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
		die("a process is left");
	return l;
}

int main(int argc, char **argv)
{
	struct left before, after;
	int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;

	setlocale(LC_ALL, "");
	model = argv[1];
	if (rounds <= WARM)
		die("usage: %s MODEL ROUNDS, more than %d", argv[0], WARM);
	run(WARM);
	before = look();
	run(rounds - WARM);
	after = look();
	if (memcmp(&before, &after, sizeof(before)))
		die("left: descriptors %zu -> %zu, bytes %zu -> %zu, mapped "
		    "files %zu -> %zu, signals %zu -> %zu",
			before.fds, after.fds, before.heap, after.heap,
			before.maps, after.maps, before.handled, after.handled);
	if (after.handled)
		die("%zu signals are handled or blocked", after.handled);
	return 0;
}
