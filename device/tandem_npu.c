/*
 * tandem-npu: the device process. The host starts the device process with one
 * end of a socket pair, or connects to a device process that listens at a path.
 * The host configures the device in the handshake; the options of this program
 * are for debugging.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/opt.h"
#include "base/strbuf.h"
#include "base/version.h"
#include "shm/coherence/coherence_report.h"
#include "device/fault.h"
#include "device/serve.h"
#include "ipc/wire.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum exit_status {
	EXIT_DONE,
	EXIT_FAILED,
	EXIT_MISUSE,
	EXIT_HOST_LOST,
	EXIT_UNFIRED = FAULT_EXIT_UNFIRED,
};

static int64_t opt_fd = -1, opt_life = 1;
static uint32_t opt_defer, opt_map_us;
static uint64_t opt_extended;
static const char *opt_listen, *opt_fault, *opt_report, *opt_suppress;
static bool opt_once, opt_man_page, opt_version;

static const struct opt options[] = {
	{ .type = OPT_STRING,
		.name = "listen",
		.value = &opt_listen,
		.arg = "PATH",
		.help = "create a socket at PATH and serve the hosts that "
			"connect, one after another" },
	{ .type = OPT_FLAG,
		.name = "once",
		.value = &opt_once,
		.help = "with --listen: serve one host in this process, then exit" },
	{ .type = OPT_INT,
		.name = "fd",
		.value = &opt_fd,
		.arg = "N",
		.help = "serve the host at the other end of socket N, an "
			"inherited file descriptor",
		.max = 1 << 20 },
	{ .type = OPT_STRING,
		.name = "coherence-report",
		.value = &opt_report,
		.arg = "FILE",
		.help = "append the reports of --coherence check to FILE; "
			"one JSON object a line (docs/coherence.md)" },
	{ .type = OPT_STRING,
		.name = "coherence-suppress",
		.value = &opt_suppress,
		.arg = "FILE",
		.help = "leave out reports of --coherence check that match a "
			"pattern in FILE" },
	{ .type = OPT_SIZE,
		.name = "va-extended",
		.value = &opt_extended,
		.arg = "SIZE",
		.help = "size of a second memory region that only DMA can "
			"read (0: none)",
		.max = (double)WIRE_EXTENDED_MAX },
	{ .type = OPT_UINT,
		.name = "va-defer",
		.value = &opt_defer,
		.arg = "N",
		.help = "unmap a buffer only after N more map requests, as "
			"some firmware does (0)",
		.max = WIRE_DEFER_MAX },
	{ .type = OPT_UINT,
		.name = "va-map-us",
		.value = &opt_map_us,
		.arg = "USEC",
		.help = "least time to map or unmap a buffer, in microseconds "
			"of the wall clock (0)",
		.max = WIRE_MAP_US_MAX },
	{ .type = OPT_FLAG,
		.letter = 'v',
		.name = "version",
		.value = &opt_version,
		.help = "print the version" },
	{ .type = OPT_FLAG,
		.name = "man",
		.value = &opt_man_page,
		.help = "print the manual page" },
	{ .type = OPT_STRING,
		.name = "fault",
		.value = &opt_fault,
		.arg = "PLAN",
		.help = "inject faults, for tests, such as die@run#3 or "
			"drop-invalidate:tandem:io#4; 'tandem help faults' "
			"lists them. The environment variable "
			"TANDEM_NPU_FAULT has the same effect" },
	{ .type = OPT_INT,
		.name = "life",
		.value = &opt_life,
		.arg = "N",
		.help = "number of this device: 1 for its host's first "
			"device, 2 for the first replacement, and so on",
		.min = 1,
		.max = INT32_MAX,
		.hidden = true },
};

static const struct opt_command command = {
	.name = "tandem-npu",
	.synopsis = "(--listen PATH [--once] | --fd N)",
	.summary = "the device process of tandem: an emulated NPU",
	.details = "Runs the layers of a language model for a tandem process, "
		   "in memory that both share. tandem starts a tandem-npu by "
		   "itself; start one by hand to run it under a debugger or "
		   "tracer.\n\n"
		   "Without --once it runs until a signal ends it: it serves "
		   "each host in a separate process, and refuses a second host "
		   "at the same time or a host of another user. The number N "
		   "of a fault counts events of all hosts together. When the "
		   "signal arrives, the program checks whether each fault was "
		   "triggered. docs/wire.md describes the protocol, for hosts "
		   "and devices of your own.\n\n"
		   "The host sets the device's address window, coherence and "
		   "threads.\n\n"
		   "Environment: TANDEM_CPU=NAME chooses the kernels (an "
		   "unknown NAME lists them); TANDEM_NO_SECCOMP=1 runs without "
		   "the seccomp filter, for debuggers that need more system "
		   "calls.\n\n"
		   "Exit status: 0 when the host ended the connection "
		   "normally; 1 when something failed or the coherence check "
		   "found violations; 2 for wrong usage; 3 when the host was "
		   "lost; 4 when a planned fault was never triggered.",
	.examples = "  strace -f tandem-npu --listen /tmp/npu --once &\n"
		    "  tandem run --device /tmp/npu 'Once upon a time'",
	.common = "listen once coherence-report va-extended fault version",
	.opts = options,
	.n_opts = ARRAY_LEN(options),
};

static int misuse(const char *text)
{
	fprintf(stderr, "tandem-npu: %s; see tandem-npu --help\n", text);
	return EXIT_MISUSE;
}

/* Fail if a planned fault was never triggered: otherwise a test whose plan has
 * a mistake would pass. */
static int check_plan(const struct fault *f)
{
	struct strbuf why = STRBUF_INIT;
	char what[96];

	if (!fault_unfired(f, what, sizeof(what), &why))
		return EXIT_DONE;
	fprintf(stderr, "tandem-npu: the fault '%s' was never triggered: %s\n",
		what, why.failed ? "no memory for the reason" : why.data);
	strbuf_release(&why);
	return EXIT_UNFIRED;
}

/* Whether this is the listening process, which forks a process for each host.
 */
static bool is_listener(const struct serve_result *r)
{
	return opt_listen && !opt_once && !r->forked;
}

static int finish(int ret, const struct serve_result *r,
	const struct fault *fault, const struct err *e)
{
	int status;

	/* If the host fails before it sends its hello, the host reports the
	 * reason to its user, so the device prints nothing. */
	if (ret && (ret != -EPIPE || r->met))
		fprintf(stderr, "tandem-npu: %s\n", e->text);
	if (ret == -EPIPE)
		return EXIT_HOST_LOST;
	if (ret || r->violations)
		return EXIT_FAILED;
	/* A listening device has one fault plan for all hosts and always ends
	 * by a signal: check the plan before ending. */
	if (is_listener(r) && (status = check_plan(fault)))
		return status;
	/* end by the signal that the process received, so that the exit status
	 * shows this signal */
	if (r->signal) {
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, r->signal);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		raise(r->signal);
	}
	return r->met && !r->forked ? check_plan(fault) : EXIT_DONE;
}

static int run(void)
{
	const char *off = getenv("TANDEM_NO_SECCOMP");
	const char *what = opt_fault ? opt_fault : getenv("TANDEM_NPU_FAULT");
	struct serve_result result = { 0 };
	struct coherence_report *report = NULL;
	struct serve_opts opts = {
		.fd = (int)opt_fd,
		.listen = opt_listen,
		.once = opt_once,
		.sandbox = !(off && *off && strcmp(off, "0")),
		.va_extended = opt_extended,
		.va_defer = opt_defer,
		.va_map_us = opt_map_us,
	};
	struct err e = { 0 }, close;
	int ret = 0;

	/* Use shared memory, because all processes of a listening device update
	 * the counts in the struct. */
	opts.fault = mmap(NULL, sizeof(*opts.fault), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (opts.fault == MAP_FAILED) {
		ret = err_sys(&e, errno, "no memory for a fault plan");
		return finish(ret, &result, NULL, &e);
	}
	if (fault_parse(opts.fault, what, &e))
		return misuse(e.text);
	opts.fault->life = is_listener(&result) ? 0 : (unsigned)opt_life;
	if (opts.fault->life)
		fault_start(opts.fault);
	if (opt_report || opt_suppress)
		ret = coherence_report_open(
			&report, opt_report, opt_suppress, &e);
	opts.file = report;
	if (!ret)
		ret = serve(&opts, &result, &e);
	if (coherence_report_close(report, &close) && !ret) {
		ret = close.code;
		e = close;
		result.met = true;
	}
	return finish(ret, &result, opts.fault, &e);
}

/* Flush standard output, because a full disk is reported only when the buffer
 * is written. */
static int printed(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return EXIT_DONE;
	fprintf(stderr, "tandem-npu: cannot write to standard output: %s\n",
		strerror(errno));
	return EXIT_FAILED;
}

int main(int argc, char **argv)
{
	struct err e = { 0 };
	unsigned operands;
	struct stat st;
	int ret;

	fd_keep_standard();
	ret = opt_parse(&command, argc, argv, &operands, &e);
	if (ret == 1)
		return printed();
	if (ret)
		return misuse(e.text);
	if (opt_man_page) {
		opt_man(&command, stdout);
		puts(".SH SEE ALSO\n.BR tandem (1)");
		return printed();
	}
	if (opt_version) {
		puts("tandem-npu " TANDEM_VERSION);
		return printed();
	}
	if ((opt_fd >= 0) == (opt_listen != NULL))
		return misuse("give either --listen PATH or --fd N");
	if (opt_once && !opt_listen)
		return misuse("--once needs --listen PATH");
	if (opt_fd >= 0 && (fstat((int)opt_fd, &st) || !S_ISSOCK(st.st_mode)))
		return misuse("--fd is not a socket; use --listen PATH (only "
			      "tandem uses --fd)");
	return run();
}
