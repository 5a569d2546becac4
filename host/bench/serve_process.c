#include "host/bench/serve_process.h"

#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* time in ns between two attempts to connect to the server */
#define POLL_NS 5000000

static bool accepts(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool does;

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	does = fd >= 0 && !connect(fd, (struct sockaddr *)&at, sizeof(at));
	if (fd >= 0)
		close(fd);
	return does;
}

/* Remove `const`, because execv() takes pointers to non-const strings although
 * it does not change them. */
static char *word(const char *s)
{
	return (char *)(uintptr_t)s;
}

/* Called in the new process: run `tandem serve` in it. */
static _Noreturn void become_server(char **argv, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EXIT_FAILURE); /* the parent has ended already */
	execv("/proc/self/exe", argv);
	perror("tandem: cannot start tandem serve");
	_exit(EXIT_FAILURE);
}

static int start(struct serve_process *p, const char *const *option, size_t n,
	struct err *e)
{
	char **argv = calloc(n + 7, sizeof(*argv)), listen[96];
	pid_t parent = getpid();
	size_t k = 0;

	if (!argv)
		return err_set(e, ENOMEM, "no memory for a server's options");
	snprintf(listen, sizeof(listen), "--listen=unix:%s", p->socket);
	argv[k++] = word("tandem");
	argv[k++] = word("serve");
	for (size_t i = 0; i < n; i++)
		argv[k++] = word(option[i]);
	argv[k++] = word("--quiet");
	argv[k++] = listen;
	p->pid = fork();
	if (!p->pid)
		become_server(argv, parent);
	free(argv);
	if (p->pid < 0) {
		p->pid = 0;
		return err_sys(e, errno, "cannot start a process");
	}
	return 0;
}

static int report_end(const char *name, int status, struct err *e)
{
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	return err_set(e, EIO, "'tandem serve' (%s) ended with %s %d", name,
		WIFSIGNALED(status) ? "signal" : "status",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void remove_folder(struct serve_process *p)
{
	unlink(p->socket);
	rmdir(p->folder);
}

int serve_process_open(struct serve_process *p, const char *name,
	const char *const *option, size_t n,
	const volatile sig_atomic_t *cancel, struct err *e)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	int status, ret;

	*p = (struct serve_process){ .folder = "/tmp/tandem-bench-XXXXXX" };
	if (!mkdtemp(p->folder))
		return err_sys(e, errno, "cannot make a folder in /tmp");
	snprintf(p->socket, sizeof(p->socket), "%s/socket", p->folder);
	ret = start(p, option, n, e);
	while (!ret && !accepts(p->socket)) {
		if (*cancel) {
			ret = err_set(e, ECANCELED, "interrupted");
		} else if (waitpid(p->pid, &status, WNOHANG) == p->pid) {
			p->pid = 0;
			ret = report_end(name, status, e);
			if (!ret)
				ret = err_set(e, EIO,
					"'tandem serve' (%s) has ended", name);
		} else {
			nanosleep(&pause, NULL);
		}
	}
	if (ret && p->pid) {
		kill(p->pid, SIGTERM);
		waitpid(p->pid, &status, 0);
		p->pid = 0;
	}
	if (ret)
		remove_folder(p);
	return ret;
}

int serve_process_close(
	struct serve_process *p, const char *name, struct err *e)
{
	int status = 0;

	if (!p->pid)
		return 0;
	kill(p->pid, SIGTERM);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	p->pid = 0;
	remove_folder(p);
	return report_end(name, status, e);
}
