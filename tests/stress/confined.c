#include "tests/stress/confined.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 50
#define NS      1000000000u

/* Memory that parent and child share. While the child runs, the parent reads
 * only `began` and `runs`. */
struct board {
	/* start time of the current schedule; 0 if no schedule runs */
	_Atomic uint64_t began;
	_Atomic uint64_t runs;
	bool said; /* the child has set `ret` and `e` of `out` */
	struct stress_outcome out;
};

/* ---- the child ----------------------------------------------------------- */

static int run_one(const struct stress_batch *b, struct board *board,
	const struct stress_schedule *s)
{
	struct stress_run run = { .world = b->world,
		.plant = b->plant,
		.tally = board->out.tally,
		.e = &board->out.e };
	int ret;

	board->out.e = (struct err){ 0 };
	atomic_store(&board->began, clock_ns());
	ret = b->area->run(&run, s);
	atomic_store(&board->began, 0);
	atomic_fetch_add(&board->runs, 1);
	return ret;
}

static int run_batch(const struct stress_batch *b, struct board *board)
{
	struct stress_schedule s;
	int ret = 0;

	if (b->given)
		return run_one(b, board, b->given);
	for (uint64_t k = 0; k < b->count && !ret; k++) {
		struct stress_draw d = { .seed = b->seed, .run = b->first + k };

		s.n = 0;
		b->area->draw(&d, &s);
		ret = run_one(b, board, &s);
		if (clock_ns() >= b->until_ns)
			break;
	}
	return ret;
}

/* Run the batch in the child process. The child has its own process group, so
 * that Ctrl-C in the terminal reaches only the parent, and is killed when its
 * parent ends. */
static void child(
	const struct stress_batch *b, struct board *board, pid_t parent)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent) {
		signal(SIGINT, SIG_DFL);
		board->out.ret = run_batch(b, board);
		board->said = true;
	}
	_exit(0);
}

/* ---- the parent ---------------------------------------------------------- */

static unsigned seconds_of(const struct stress_batch *b)
{
	return b->seconds ? b->seconds : b->area->seconds;
}

/* Wait until the child has ended: its end of the pipe is then closed. Returns
 * 0, -ETIMEDOUT or -ECANCELED. */
static int await_end(
	const struct stress_batch *b, struct board *board, int pipe_fd)
{
	uint64_t bound = (uint64_t)seconds_of(b) * NS;
	struct pollfd p = { pipe_fd, POLLIN, 0 };

	for (;;) {
		uint64_t began;

		if (poll(&p, 1, LOOK_MS) > 0)
			return 0;
		if (b->cancel && *b->cancel)
			return -ECANCELED;
		began = atomic_load(&board->began);
		if (began && clock_ns() - began > bound)
			return -ETIMEDOUT;
	}
}

/* Kill the child, if it has not ended, and all processes of its group. */
static void reap(pid_t pid, int *status)
{
	kill(-pid, SIGKILL);
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
}

static void check_end(const struct stress_batch *b, struct board *board,
	int end, int status, struct stress_outcome *out)
{
	*out = board->out;
	out->runs = atomic_load(&board->runs);
	if (end == -ECANCELED) {
		out->ret = end;
	} else if (end == -ETIMEDOUT) {
		out->runs++;
		out->ret = STRESS_BROKEN;
		out->hung = true;
		err_set(&out->e, EILSEQ, "the process did not end within %u s",
			seconds_of(b));
	} else if (!board->said) {
		out->runs++;
		out->ret = STRESS_BROKEN;
		if (WIFSIGNALED(status))
			err_set(&out->e, EILSEQ,
				"the process was killed by signal %d (%s)",
				WTERMSIG(status), strsignal(WTERMSIG(status)));
		else
			err_set(&out->e, EILSEQ,
				"the process ended with status %d",
				WEXITSTATUS(status));
	}
}

int stress_confined(
	const struct stress_batch *b, struct stress_outcome *out, struct err *e)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), pid;
	int fd[2], status = 0, end, ret;

	if (board == MAP_FAILED)
		return err_sys(e, errno, "cannot share memory with a process");
	if (pipe2(fd, O_CLOEXEC)) {
		ret = err_sys(e, errno, "cannot create a pipe");
		goto out;
	}
	pid = fork();
	if (!pid)
		child(b, board, parent);
	fd_close(&fd[1]);
	if (pid < 0) {
		ret = err_sys(e, errno, "cannot start a process");
	} else {
		/* Both processes call setpgid, so that the group exists no
		 * matter which of them runs first. */
		setpgid(pid, pid);
		end = await_end(b, board, fd[0]);
		reap(pid, &status);
		check_end(b, board, end, status, out);
		ret = 0;
	}
	fd_close(&fd[0]);
out:
	munmap(board, sizeof(*board));
	return ret;
}
