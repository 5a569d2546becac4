/* A device that is a separate process. The host starts the process or connects
 * to a running process, and communicates with the process through a channel
 * (ipc/channel.h). */
#include "base/clock.h"
#include "base/err.h"
#include "base/fault_plan.h"
#include "host/npu/launch.h"
#include "host/npu/npu.h"
#include "host/npu/npu_ops.h"
#include "ipc/channel.h"
#include "ipc/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* When a child closes its end of the socket, the child is about to exit: wait
 * EXIT_STATUS_MS milliseconds for its exit status. */
#define EXIT_STATUS_MS 300
#define END_MS         1000
#define CONNECT_MS     1000

struct process {
	struct channel *channel;
	/* child.pid is 0 if the device was not started by this host */
	struct launch child;
	pid_t pid;
	unsigned stall_ms;
};

/*
 * Turn the channel's -EPIPE and -ETIMEDOUT into -ERR_DEVICE_LOST, with a
 * message that names the process and the cause of the loss. Other codes,
 * including 0, are returned as they are.
 */
static int lost(struct process *p, int code, struct err *e)
{
	char how[64];

	if (code == -ETIMEDOUT)
		return err_set(e, ERR_DEVICE_LOST,
			"the device process (pid %d) made no progress for "
			"%.1f s and was given up",
			(int)p->pid, p->stall_ms / 1000.0);
	if (code != -EPIPE)
		return code;
	if (!p->child.pid || launch_wait(&p->child, EXIT_STATUS_MS))
		return err_set(e, ERR_DEVICE_LOST,
			"the device process (pid %d) is gone", (int)p->pid);
	launch_describe(&p->child, how, sizeof(how));
	return err_set(e, ERR_DEVICE_LOST,
		"the device process (pid %d) died (%s)", (int)p->pid, how);
}

static int dial(
	struct process *p, const struct npu_opts *o, int *fd, struct err *e)
{
	int ret;

	if (o->socket) {
		const struct timespec pause = { .tv_nsec = 10000000 };
		uint64_t until = clock_ns() + CONNECT_MS * 1000000ull;

		/* Retry: if a script starts host and device together, the
		 * device may not listen yet. */
		while ((ret = link_connect(o->socket, fd, e)) == -ENOENT ||
			ret == -ECONNREFUSED) {
			if (clock_ns() >= until)
				break;
			nanosleep(&pause, NULL);
		}

		p->pid = ret ? 0 : link_peer_pid(*fd);
		return ret;
	}
	ret = launch_start(&p->child, &o->launch, fd, e);
	p->pid = p->child.pid;
	return ret;
}

static int cap_addresses(const struct process *p, struct err *e)
{
	unsigned long long pages = 0;
	struct rlimit cap;
	char path[64];
	uint64_t has;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)p->pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%llu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	has = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	cap = (struct rlimit){ has + VA_HARD_SLACK, has + VA_HARD_SLACK };
	if (!has || prlimit(p->pid, RLIMIT_AS, &cap, NULL))
		return err_sys(e, has ? errno : ESRCH,
			"--va-hard: cannot limit the address space of the device "
			"process (pid %d)",
			(int)p->pid);
	return 0;
}

static void process_close(void *device)
{
	struct process *p = device;

	if (p->channel) {
		channel_bye(p->channel);
		channel_close(p->channel);
	}
	launch_end(&p->child, END_MS);
	if (WIFEXITED(p->child.status) &&
		WEXITSTATUS(p->child.status) == FAULT_EXIT_UNFIRED)
		atomic_fetch_add(&fault_plan_unfired, 1);
	free(p);
}

static int process_open(void *arg, const struct npu_opts *opts, void **device,
	struct wire_welcome *welcome, struct err *e)
{
	struct process *p = calloc(1, sizeof(*p));
	const char *program = opts->launch.program;
	char path[PATH_MAX];
	int fd = -1, ret;

	if (!p)
		return err_set(e, ENOMEM, "no memory for a device handle");
	p->stall_ms = opts->stall_ms;
	/* A listening device forks a process for each host. The host does not
	 * know the pid of that process, so it cannot limit its addresses. */
	if (opts->va_hard && opts->socket)
		ret = err_set(e, EINVAL,
			"--va-hard limits only a device that this command "
			"starts; start a listening device under prlimit --as "
			"instead");
	else
		ret = dial(p, opts, &fd, e);
	if (ret)
		goto fail;
	ret = channel_connect(&p->channel, fd, &opts->hello, welcome, e);
	if (ret) {
		/* For a device that does not answer, the channel has already
		 * set the message. */
		ret = ret == -EPIPE ? lost(p, ret, e) : channel_loss(ret, e);
		if (ret == -ERR_DEVICE_LOST && WIFEXITED(p->child.status) &&
			(program || launch_find(path)))
			err_in(e, "'%s' ended before it answered",
				program ? program : path);
		goto fail;
	}
	if (p->pid > 0)
		channel_watch_pid(p->channel, p->pid);
	channel_set_stall_ms(p->channel, p->stall_ms);
	channel_set_cancel(p->channel, opts->cancel);
	if (opts->va_hard && (ret = cap_addresses(p, e)))
		goto fail;
	*device = p;
	return 0;
fail:
	process_close(p);
	return ret;
}

static int process_share(
	void *device, uint32_t id, const struct buffer *b, struct err *e)
{
	struct process *p = device;

	return lost(p, channel_share(p->channel, id, b, e), e);
}

static int process_send(void *device, const struct wire_ref *refs,
	unsigned n_refs, const void *msg, size_t len, uint32_t *seq,
	struct err *e)
{
	struct process *p = device;

	return lost(
		p, channel_send(p->channel, refs, n_refs, msg, len, seq, e), e);
}

static int process_recv(
	void *device, struct packet *out, int timeout_ms, struct err *e)
{
	struct process *p = device;

	return lost(p, channel_recv(p->channel, out, timeout_ms, e), e);
}

static void process_sleep_past(void *device, uint32_t completions)
{
	const struct process *p = device;

	channel_sleep_past(p->channel, completions);
}

static struct wire_brackets *process_brackets(const void *device)
{
	const struct process *p = device;

	return channel_brackets(p->channel);
}

static struct wire_trace *process_trace(const void *device, size_t *bytes)
{
	const struct process *p = device;

	return channel_trace(p->channel, bytes);
}

static uint64_t process_sleeps(const void *device)
{
	const struct process *p = device;
	struct channel_stats c;

	channel_stats(p->channel, &c);
	return c.sleeps;
}

const struct npu_ops npu_process = {
	.open = process_open,
	.close = process_close,
	.share = process_share,
	.send = process_send,
	.recv = process_recv,
	.sleep_past = process_sleep_past,
	.brackets = process_brackets,
	.trace = process_trace,
	.sleeps = process_sleeps,
};
