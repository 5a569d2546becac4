/* All functions except cut_short_catch() run in the handler of SIGBUS, in the
 * thread whose read of a mapped file raised SIGBUS. A signal handler must not
 * call functions that use locks or allocate memory, so these functions use only
 * the stack and system calls. */
#include "host/cmd/cut_short.h"

#include "base/fd.h"
#include "host/cmd/cmd.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Number of fields before the path in a line of /proc/self/maps, which is
 * "from-to rwxp offset dev:dev inode path". */
#define PATH_FIELD 5

struct line {
	char text[PATH_MAX + 128]; /* longer lines are truncated */
	size_t len;
};

/* Read the next line of /proc/self/maps, byte by byte. The slowness does not
 * matter, because the file is read only once, before the program ends. */
static bool next_line(int fd, struct line *l)
{
	char c;

	l->len = 0;
	while (read(fd, &c, 1) == 1 && c != '\n')
		if (l->len < sizeof(l->text) - 1)
			l->text[l->len++] = c;
	l->text[l->len] = '\0';
	return l->len;
}

static const char *hex(const char *p, uintptr_t *out)
{
	for (*out = 0;; p++) {
		const char *digits = "0123456789abcdef";
		const char *at = *p ? strchr(digits, *p) : NULL;

		if (!at)
			return p;
		*out = *out << 4 | (uintptr_t)(at - digits);
	}
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
	static const char prefix[] = "tandem: '";
	static const char reason[] =
		"' can no longer be read: the file was truncated while it was "
		"in use, or the disk failed\n";
	static atomic_flag printed = ATOMIC_FLAG_INIT;
	uintptr_t addr = (uintptr_t)info->si_addr;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	const char *path = NULL;
	struct line l;

	while (fd >= 0 && !path && next_line(fd, &l)) {
		uintptr_t from, to = 0;
		const char *p = hex(l.text, &from);

		if (*p == '-')
			hex(p + 1, &to);
		if (addr < from || addr >= to)
			continue;
		p = l.text;
		for (unsigned field = 0; field < PATH_FIELD; field++) {
			p += strcspn(p, " ");
			p += strspn(p, " ");
		}
		if (*p == '/' && strncmp(p, "/memfd:", 7))
			path = p;
	}
	fd_close(&fd);
	/* no file is mapped at the address: restore the default action, so that
	 * the read, which is repeated after this handler, ends the program */
	if (!path) {
		signal(sig, SIG_DFL);
		return;
	}
	/* Several threads may get here at the same time. The first one prints
	 * the message and ends the program; the other threads wait until the
	 * program ends. */
	while (atomic_flag_test_and_set(&printed))
		pause();
	fd_write_all(STDERR_FILENO, prefix, strlen(prefix));
	fd_write_all(STDERR_FILENO, path, strlen(path));
	fd_write_all(STDERR_FILENO, reason, strlen(reason));
	_exit(EXIT_FAIL);
}

void cut_short_catch(void)
{
	struct sigaction sa = { .sa_sigaction = on_bus,
		.sa_flags = SA_SIGINFO };

	sigaction(SIGBUS, &sa, NULL);
}
