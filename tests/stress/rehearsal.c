#include "tests/stress/rehearsal.h"

#include "base/err.h"
#include "base/fd.h"
#include "host/npu/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct rehearsal {
	pid_t pid;
	int in, out; /* its own, seen from here; -1: closed */
};

/* Arguments of exec are not const. */
static int spawn(
	const char *path, int in, int out, const char *fault, pid_t *pid)
{
	char name[] = "tandem-npu", option[] = "--rehearse", with[] = "--fault";
	char *plan = fault ? strdup(fault) : NULL;
	char *argv[] = { name, option, fault ? with : NULL, plan, NULL };
	posix_spawn_file_actions_t fa;
	int ret = fault && !plan ? ENOMEM : 0;

	if (!ret)
		ret = posix_spawn_file_actions_init(&fa);
	if (ret) {
		free(plan);
		return ret;
	}
	ret = posix_spawn_file_actions_adddup2(&fa, in, STDIN_FILENO);
	if (!ret)
		ret = posix_spawn_file_actions_adddup2(&fa, out, STDOUT_FILENO);
	if (!ret)
		ret = posix_spawnp(pid, path, &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	free(plan);
	return ret;
}

static int start(struct rehearsal *r, const char *fault, struct err *e)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, ret;
	char path[PATH_MAX];

	if (!launch_find(path))
		return err_sys(
			e, errno, "cannot run '%s' (from TANDEM_NPU)", path);
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		ret = err_sys(e, errno, "cannot create a pipe");
	else
		ret = spawn(path, in[0], out[1], fault, &r->pid);
	if (ret > 0)
		ret = err_sys(
			e, ret, "cannot start the device program '%s'", path);
	fd_close(&in[0]);
	fd_close(&out[1]);
	r->in = in[1];
	r->out = out[0];
	return ret;
}

int rehearsal_open(struct rehearsal **out, const char *fault, struct err *e)
{
	struct rehearsal *r = calloc(1, sizeof(*r));
	int ret;

	if (!r)
		return err_set(e, ENOMEM, "no memory for a rehearsal");
	r->in = r->out = -1;
	ret = start(r, fault, e);
	if (ret)
		rehearsal_close(r);
	else
		*out = r;
	return ret;
}

void rehearsal_close(struct rehearsal *r)
{
	fd_close(&r->in);
	fd_close(&r->out);
	while (r->pid && waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(r);
}

/* Whether the answer has come to its end: a line of "." or of "?". */
static bool is_whole(const struct strbuf *a)
{
	const char *last;

	if (!a->len || a->data[a->len - 1] != '\n')
		return false;
	last = memrchr(a->data, '\n', a->len - 1);
	last = last ? last + 1 : a->data;
	return *last == '.' || *last == '?';
}

static int read_answer(struct rehearsal *r, struct strbuf *a, struct err *e)
{
	char buf[4096];

	strbuf_reset(a);
	while (!is_whole(a)) {
		ssize_t n = read(r->out, buf, sizeof(buf));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(e, EPIPE,
				"the device program ended in the middle of a "
				"rehearsal");
		strbuf_add(a, buf, (size_t)n);
		if (a->failed)
			return err_set(e, ENOMEM, "no memory for an answer");
	}
	return 0;
}

int rehearsal_play(struct rehearsal *r, const struct strbuf *text,
	struct strbuf *answer, struct err *e)
{
	void (*was)(int) = signal(SIGPIPE, SIG_IGN);
	int ret = fd_write_all(r->in, text->data, text->len);
	const char *refused;

	signal(SIGPIPE, was);
	if (ret)
		return err_sys(e, EPIPE, "the device program ended");
	ret = read_answer(r, answer, e);
	if (ret)
		return ret;
	refused = answer->data[0] == '?' ? answer->data
					 : strstr(answer->data, "\n? ");
	return refused ? err_set(e, EPROTO, "the device program: %s", refused)
		       : 0;
}
