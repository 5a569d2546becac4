/*
 * Runs tests, each in a separate process with a time limit. tests/run calls
 * this program with one test per line on standard input:
 *
 *   KIND TAB NAME TAB LIMIT TAB PROGRAM [TAB ARGUMENT]...
 *
 * KIND is unit, cli or fuzz; LIMIT is in seconds of wall time. Tests start in
 * the order of the lines, so the slowest tests should come first.
 *
 * Every test has its own session, TMPDIR and environment variable TEST_MARK.
 * The runner is a subreaper: a process that outlives the test that started it
 * becomes a child of the runner, so the runner can find such processes. Their
 * TEST_MARK identifies the test that started them.
 *
 * A program of unit tests is started once, with --serve as its last argument,
 * and then creates a copy of itself for each test. A copy takes much less time
 * than a new start of the program for each test (tests/harness.c).
 */
#include "tests/start.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	ARGS_MAX = 16,
	SERVERS_MAX = 64, /* largest number of unit test programs in a build */
	KILL_AFTER_S = 5, /* seconds between SIGTERM and SIGKILL */
	/* time that processes of a test have to end after the test; a device
	 * process needs up to a second after its host's end */
	LEFTOVER_S = 2,
	OUTPUT_LINES = 120,
	SLOWEST_SHOWN = 10,
	SKIP_STATUS = 77,
};

struct test {
	char *kind, *name, *argv[ARGS_MAX];
	unsigned n_args;
	double limit_s;
	pid_t pid; /* 0 if the test is not running */
	double start_s, wall_s, cpu_s;
	bool timed_out, killed;
};

static struct test *tests;
static size_t n_tests;
static struct server {
	const char *program;
	int socket; /* -1 if the program does not support --serve */
} servers[SERVERS_MAX];
static unsigned n_servers;
static char work[PATH_MAX - 32];
static unsigned passed, failed, skipped;

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
	fprintf(stderr, "tests/run: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- input ------------------------------------------------------------- */

static void read_tests(void)
{
	char *line = NULL, *at, *field;
	size_t room = 0;
	ssize_t n;

	while ((n = getline(&line, &room, stdin)) > 0) {
		struct test *t;

		line[strcspn(line, "\n")] = '\0';
		tests = realloc(tests, (n_tests + 1) * sizeof(*tests));
		if (!tests)
			die("no memory");
		t = &tests[n_tests++];
		at = line;
		*t = (struct test){ .kind = strsep(&at, "\t") };
		t->name = strsep(&at, "\t");
		field = strsep(&at, "\t");
		t->limit_s = field ? strtod(field, NULL) : 0;
		while (t->n_args < ARGS_MAX - 1 && (field = strsep(&at, "\t")))
			t->argv[t->n_args++] = field;
		if (!t->n_args || t->limit_s <= 0) {
			fprintf(stderr, "tests/run: no test: line %zu\n",
				n_tests);
			exit(1);
		}
		line = NULL; /* the test has pointers into the line */
		room = 0;
	}
	free(line);
}

/* ---- files ------------------------------------------------------------- */

static int make_writable(
	const char *path, const struct stat *st, int type, struct FTW *where)
{
	if (type == FTW_D || type == FTW_DNR)
		chmod(path, 0700);
	return 0;
}

static int remove_one(
	const char *path, const struct stat *st, int type, struct FTW *where)
{
	remove(path);
	return 0;
}

static void remove_tree(const char *path)
{
	nftw(path, make_writable, 16, FTW_PHYS);
	nftw(path, remove_one, 16, FTW_PHYS | FTW_DEPTH);
}

static const char *path_of(const struct test *t, const char *suffix)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%zu%s", work, (size_t)(t - tests),
		suffix);
	return path;
}

/* ---- processes --------------------------------------------------------- */

/* Returns the mark of a test or, if `t` is NULL, a mark that belongs to no
 * test. All marks have the same length, because test_start overwrites marks in
 * place. */
static const char *mark_of(const struct test *t)
{
	static char mark[TEST_MARK_SIZE];

	snprintf(mark, sizeof(mark), "%010d.%08zu", (int)getpid(),
		t ? (size_t)(t - tests) : n_tests);
	return mark;
}

/* The test whose mark is in the environment of process `pid`, or NULL. */
static struct test *test_of(pid_t pid)
{
	char path[64], word[4096];
	struct test *t = NULL;
	size_t at = 0;
	FILE *f;
	int c;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	f = fopen(path, "r");
	if (!f)
		return NULL;
	while (!t && (c = getc(f)) != EOF) {
		int owner;
		size_t n;

		word[at] = (char)c;
		if (c) {
			at += at < sizeof(word) - 1;
			continue;
		}
		at = 0;
		if (sscanf(word, TEST_MARK "=%d.%zu", &owner, &n) == 2 &&
			owner == getpid() && n < n_tests)
			t = &tests[n];
	}
	fclose(f);
	return t;
}

/* Calls `visit` for every process that the test `only` started, or that any
 * test started if `only` is NULL. Returns the number of such processes. */
static unsigned each_process(
	const struct test *only, void (*visit)(pid_t, const struct test *))
{
	DIR *proc = opendir("/proc");
	struct dirent *d;
	unsigned n = 0;

	if (!proc)
		die("cannot read /proc");
	while ((d = readdir(proc))) {
		pid_t pid = (pid_t)strtol(d->d_name, NULL, 10);
		struct test *t = pid > 0 ? test_of(pid) : NULL;

		if (!t || (only && t != only))
			continue;
		n++;
		if (visit)
			visit(pid, t);
	}
	closedir(proc);
	return n;
}

static void kill_one(pid_t pid, const struct test *t)
{
	kill(pid, SIGKILL);
}

/* Returns the running server (program with --serve) of unit test `t`; starts it
 * if it does not run yet. */
static struct server *server_of(const struct test *t)
{
	const char *program = t->argv[t->n_args - 2];
	struct server *s = servers;
	sigset_t none;
	int ends[2];
	pid_t pid;

	for (; s < servers + n_servers; s++) {
		if (!strcmp(s->program, program))
			return s;
	}
	if (n_servers++ == SERVERS_MAX ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		die("cannot start a test program");
	*s = (struct server){ program, ends[0] };
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("cannot start a test program");
	if (!pid) {
		char serve[] = "--serve", *argv[ARGS_MAX];

		memcpy(argv, t->argv, sizeof(argv));
		argv[t->n_args - 1] = serve;
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		if (dup2(ends[1], 0) == 0 &&
			!setenv(TEST_MARK, mark_of(NULL), 1))
			execvp(argv[0], argv);
		_exit(126);
	}
	close(ends[1]);
	return s;
}

/* Makes test program `s` start a process for test `t`. Returns its pid, or 0 if
 * the program does not support --serve. */
static pid_t ask(struct server *s, const struct test *t)
{
	struct test_request r = { 0 };
	pid_t pid;

	snprintf(r.mark, sizeof(r.mark), "%s", mark_of(t));
	snprintf(r.files, sizeof(r.files), "%s", path_of(t, ""));
	snprintf(r.name, sizeof(r.name), "%s", t->argv[t->n_args - 1]);
	if (s->socket >= 0 &&
		send(s->socket, &r, sizeof(r), MSG_NOSIGNAL) == sizeof(r) &&
		recv(s->socket, &pid, sizeof(pid), 0) == sizeof(pid))
		return pid;
	s->socket = -1;
	return 0;
}

static void start(struct test *t)
{
	if (mkdir(path_of(t, ".tmp"), 0700))
		die("cannot make a temporary folder");
	t->start_s = now_s();
	if (!strcmp(t->kind, "unit") && t->n_args > 1) {
		t->pid = ask(server_of(t), t);
		if (t->pid)
			return;
	}
	fflush(stdout);
	t->pid = fork();
	if (t->pid < 0)
		die("cannot start a test");
	if (t->pid)
		return;
	if (!test_start(path_of(t, ""), mark_of(t)))
		_exit(126);
	execvp(t->argv[0], t->argv);
	fprintf(stderr, "cannot run '%s': %s\n", t->argv[0], strerror(errno));
	_exit(126);
}

/* ---- verdicts ---------------------------------------------------------- */

static bool holds(const char *path, const char *start_of_line)
{
	size_t n = strlen(start_of_line), room = 0;
	FILE *f = fopen(path, "r");
	char *line = NULL;
	bool found = false;

	while (f && !found && getline(&line, &room, f) > 0)
		found = !strncmp(line, start_of_line, n);
	free(line);
	if (f)
		fclose(f);
	return found;
}

static void copy_start(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[4096];

	for (int i = 0; f && i < OUTPUT_LINES && fgets(line, sizeof(line), f);
		i++)
		printf("    %s%s", line, strchr(line, '\n') ? "" : "\n");
	if (f)
		fclose(f);
}

static void report_failure(const struct test *t, const char *why)
{
	failed++;
	printf("FAIL %s: %s\n", t->name, why);
	copy_start(path_of(t, ".out"));
}

static void report_skip(const struct test *t)
{
	FILE *f = fopen(path_of(t, ".out"), "r");
	char line[512];

	skipped++;
	printf("SKIP %s", t->name);
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "skipped: ", 9))
			continue;
		line[strcspn(line, "\n")] = '\0';
		printf(": %s", line + 9);
		break;
	}
	putchar('\n');
	if (f)
		fclose(f);
}

static void judge(const struct test *t, int status)
{
	bool unit = !strcmp(t->kind, "unit"), cli = !strcmp(t->kind, "cli");
	const char *out = path_of(t, ".out");
	char why[96];

	if (t->timed_out) {
		snprintf(
			why, sizeof(why), "timed out after %.0f s", t->limit_s);
	} else if (WIFSIGNALED(status)) {
		snprintf(why, sizeof(why), "killed by signal %d (%s)",
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	} else if (cli && WEXITSTATUS(status) == SKIP_STATUS) {
		report_skip(t);
		return;
	} else if (WEXITSTATUS(status)) {
		snprintf(why, sizeof(why), "exit status %d",
			WEXITSTATUS(status));
	} else if (unit && holds(out, "[  SKIPPED ]")) {
		report_skip(t);
		return;
	} else if (unit && !holds(out, "[  PASSED  ] 1 test")) {
		/* The test process exited with status 0 before cmocka reported
		 * the result. */
		snprintf(why, sizeof(why), "exit status 0 without passing");
	} else {
		passed++;
		return;
	}
	report_failure(t, why);
}

static void end(struct test *t, int status, const struct rusage *used)
{
	t->pid = 0;
	t->wall_s = now_s() - t->start_s;
	t->cpu_s = (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
		(double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) / 1e6;
	judge(t, status);
	fflush(stdout);
	remove(path_of(t, ".out"));
	remove_tree(path_of(t, ".tmp"));
}

/* ---- the run ----------------------------------------------------------- */

static void stop(int signo)
{
	/* Repeat until no process is left, because a process may start another
	 * one just before it is killed. */
	while (each_process(NULL, kill_one))
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	remove_tree(work);
	exit(128 + signo);
}

/* Ends tests that have reached their limit. Returns the time until the next
 * limit. */
static double enforce_limits(void)
{
	double now = now_s(), next = 3600;

	for (size_t i = 0; i < n_tests; i++) {
		struct test *t = &tests[i];
		double left = t->start_s + t->limit_s - now;

		if (!t->pid)
			continue;
		if (t->timed_out)
			left += KILL_AFTER_S;
		if (left <= 0 && !t->timed_out) {
			t->timed_out = true;
			kill(-t->pid, SIGTERM);
			left = KILL_AFTER_S;
		} else if (left <= 0) {
			each_process(t, kill_one);
			/* check again soon: the test may have started further
			 * processes */
			left = 1;
		}
		next = left < next ? left : next;
	}
	return next;
}

static void show_progress(void)
{
	fprintf(stderr, "\r%u of %zu tests done, %u failed ",
		passed + failed + skipped, n_tests, failed);
}

static void run_all(unsigned jobs)
{
	bool terminal = isatty(STDERR_FILENO);
	unsigned running = 0;
	sigset_t set;
	size_t next = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	while (running || next < n_tests) {
		struct timespec wait;
		struct rusage used;
		int status, signo;
		double left;
		pid_t pid;

		for (; running < jobs && next < n_tests; running++)
			start(&tests[next++]);
		left = enforce_limits();
		wait.tv_sec = (time_t)left;
		wait.tv_nsec = (long)((left - (double)wait.tv_sec) * 1e9);
		signo = sigtimedwait(&set, NULL, &wait);
		if (signo > 0 && signo != SIGCHLD)
			stop(signo);
		/* Reap tests, and also processes that outlived the test that
		 * started them. */
		while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0) {
			for (size_t i = 0; i < next; i++) {
				if (tests[i].pid != pid)
					continue;
				end(&tests[i], status, &used);
				running--;
				break;
			}
		}
		if (terminal)
			show_progress();
	}
	if (terminal)
		fputs("\r\033[K", stderr);
}

static void report_leftover(pid_t pid, const struct test *t)
{
	char path[64], line[512];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd = open(path, O_RDONLY);
	n = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);
	if (n <= 0)
		return; /* the process has already ended */
	close(fd);
	for (ssize_t i = 0; i < n; i++)
		line[i] = line[i] ? line[i] : ' ';
	line[n] = '\0';
	printf("FAIL %s: leaves process %d: %s\n", t->name, (int)pid, line);
	failed++;
	kill(pid, SIGKILL);
}

static void find_leftovers(void)
{
	static const struct timespec pause = { .tv_nsec = 50000000 };
	double until = now_s() + LEFTOVER_S;

	while (each_process(NULL, NULL) && now_s() < until) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		nanosleep(&pause, NULL);
	}
	each_process(NULL, report_leftover);
}

static int by_time(const void *a, const void *b)
{
	const struct test *x = a, *y = b;

	return (x->wall_s < y->wall_s) - (x->wall_s > y->wall_s);
}

/* Writes the times of the tests to a file. Sorts `tests` by time. */
static void report_times(const char *path)
{
	FILE *f = fopen(path, "w");

	qsort(tests, n_tests, sizeof(*tests), by_time);
	for (size_t i = 0; f && i < n_tests; i++)
		fprintf(f, "%.2f %.2f %s\n", tests[i].wall_s, tests[i].cpu_s,
			tests[i].name);
	if (f)
		fclose(f);
	if (n_tests > SLOWEST_SHOWN)
		puts("slowest (s, of that CPU):");
	for (size_t i = 0; n_tests > SLOWEST_SHOWN && i < SLOWEST_SHOWN; i++)
		printf("%8.2f %7.2f  %s\n", tests[i].wall_s, tests[i].cpu_s,
			tests[i].name);
}

int main(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");

	if (argc != 3) {
		fputs("usage: runner JOBS TIMES_FILE <TESTS\n", stderr);
		return 2;
	}
	read_tests();
	snprintf(
		work, sizeof(work), "%s/tandem-run-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(work))
		die("cannot make a temporary folder");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		die("cannot become a subreaper");
	run_all((unsigned)strtoul(argv[1], NULL, 10));
	find_leftovers();
	report_times(argv[2]);
	remove_tree(work);
	printf("%u passed, %u failed", passed, failed);
	if (skipped)
		printf(", %u skipped", skipped);
	putchar('\n');
	return failed || !(passed + skipped);
}
