/* Probes of hardware and memory: CPU, memory, and address space. */
#include "host/doctor/probe.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/process_maps.h"
#include "base/workers.h"
#include "ipc/wire.h"
#include "shm/buffer.h"
#include "tensor/kern.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define MIB ((uint64_t)1 << 20)

void probe_processor(struct finding *f)
{
	const struct kern *chosen, *best = kern_find(NULL);
	char features[128];
	struct err e;

	/* List the CPU's vector extensions, such as "avx2 f16c". */
	features[0] = '\0';
#if defined(__x86_64__)
	const struct {
		const char *name;
		int has;
	} feature[] = {
		{ "avx2", __builtin_cpu_supports("avx2") },
		{ "f16c", kern_has_f16c() },
		{ "avx512f", __builtin_cpu_supports("avx512f") },
		{ "avx512_vnni", __builtin_cpu_supports("avx512vnni") },
		{ "avx512_bf16", __builtin_cpu_supports("avx512bf16") },
	};
#elif defined(__aarch64__)
	unsigned long cap = getauxval(AT_HWCAP);
	const struct {
		const char *name;
		int has;
	} feature[] = {
		{ "neon", (cap & 1ul << 1) != 0 },
		{ "fp16", (cap & 1ul << 10) != 0 },
		{ "dotprod", (cap & 1ul << 20) != 0 },
	};
#else
	const struct {
		const char *name;
		int has;
	} feature[] = { { "none", 0 } };
#endif
	for (size_t i = 0; i < ARRAY_LEN(feature); i++) {
		size_t n = strlen(features);

		if (feature[i].has)
			snprintf(features + n, sizeof(features) - n, "%s%s",
				n ? " " : "", feature[i].name);
	}

	if (kern_select(&chosen, &e)) {
		finding_is(f, PROBE_MISSING, "%s", e.text);
		finding_means(f,
			"Tandem has no kernels for this processor, so "
			"no model can run.");
		finding_fix(f, "unset TANDEM_CPU");
		return;
	}
	finding_is(f, PROBE_OK, "%s kernels; the processor has %s",
		chosen->name, *features ? features : "no vector extension");
	finding_means(f,
		"All sets of kernels give the same results, bit for bit; wider "
		"vectors are faster.");
	json_object_set_new(f->numbers, "kern", json_string(chosen->name));
	json_object_set_new(f->numbers, "features", json_string(features));
	if (chosen == best)
		return;
	f->state = PROBE_LIMITED;
	finding_also(f, "; TANDEM_CPU prevents the use of %s", best->name);
	finding_fix(f, "unset TANDEM_CPU");
}

void probe_cores(struct finding *f)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned usable = workers_online();
	double quota, period;
	char line[128];

	/* Set `quota` to the number of CPUs that the control group allows; 0
	 * means no limit. */
	if (probe_line("/sys/fs/cgroup/cpu.max", line, sizeof(line)) &&
		sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0)
		quota /= period;
	else
		quota = 0;

	finding_is(f, PROBE_OK, "%u of %ld processors can be used", usable,
		online);
	finding_number(f, "online", online);
	finding_number(f, "usable", usable);
	if (quota > 0) {
		finding_also(f, ", which get the CPU time of %.2g", quota);
		json_object_set_new(f->numbers, "quota", json_real(quota));
	}
	if (usable >= 2 && (quota == 0 || quota >= 2)) {
		finding_means(f,
			"Host and device each have a processor on which "
			"they can poll.");
		return;
	}
	f->state = PROBE_LIMITED;
	finding_means(f,
		"Host and device share one processor: polling would keep the "
		"other process from working, so a waiting process sleeps, "
		"which costs some microseconds for each token.");
	if ((long)usable < online)
		finding_fix(f, "taskset -p -c 0-%ld $$", online - 1);
}

/* Return the number of bytes that the control group allows, or UINT64_MAX if
 * there is no limit. */
static uint64_t memory_limit(void)
{
	static const char *const path[] = {
		"/sys/fs/cgroup/memory.max",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes",
	};
	int64_t v;

	for (size_t i = 0; i < ARRAY_LEN(path); i++)
		/* cgroup v1 represents "no limit" by the largest multiple of
		 * the page size that fits into a signed 64-bit integer. */
		if (probe_number(path[i], &v) && v > 0 && v < INT64_MAX / 2)
			return (uint64_t)v;
	return UINT64_MAX;
}

void probe_memory(struct finding *f)
{
	const char *info = "/proc/meminfo";
	uint64_t limit = memory_limit(), room;
	int64_t total = 0, free_kb = 0;
	char a[24], b[24], c[24];

	if (!probe_field(info, "MemTotal", &total) ||
		!probe_field(info, "MemAvailable", &free_kb)) {
		finding_is(f, PROBE_LIMITED, "%s cannot be read", info);
		finding_means(f, "The largest possible model is unknown.");
		finding_fix(f, "%smount -t proc proc /proc", probe_sudo());
		return;
	}
	room = (uint64_t)free_kb << 10;
	finding_is(f, PROBE_OK, "%s available of %s", probe_bytes(a, room),
		probe_bytes(b, (uint64_t)total << 10));
	if (limit != UINT64_MAX) {
		finding_also(f, ", a control group allows %s",
			probe_bytes(c, limit));
		if (limit < room)
			room = limit;
	}
	finding_number(f, "total", total << 10);
	finding_number(f, "available", (int64_t)room);
	/* A model needs memory of twice the size of its file: once for the file
	 * in the page cache, and once for the weights in shared buffers. */
	finding_means(f,
		"Weights are copied from the model file into shared buffers: a "
		"file of up to about %s fits into memory together with its "
		"copy in the page cache.",
		probe_bytes(c, room / 2));
	if (room < 512 * MIB) {
		f->state = PROBE_LIMITED;
		finding_fix(f, "ps -eo rss,pid,args --sort=-rss | head");
	}
}

void probe_address_space(struct finding *f)
{
	static const uint64_t size[] = { WIRE_WINDOW_MAX, 3584 * MIB,
		3072 * MIB, 2048 * MIB, 1024 * MIB, 256 * MIB, 64 * MIB,
		/* smallest size that is tried: hardly any model runs in a
		 * smaller address window */
		16 * MIB };
	uint64_t limit = UINT64_MAX, got = 0;
	struct rlimit r;
	char a[24], b[24];

	if (!getrlimit(RLIMIT_AS, &r) && r.rlim_cur != RLIM_INFINITY)
		limit = r.rlim_cur;
	for (size_t i = 0; i < ARRAY_LEN(size) && !got; i++) {
		void *p = mmap(NULL, size[i], PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED)
			continue;
		munmap(p, size[i]);
		got = size[i];
	}
	finding_is(f, got == size[0] ? PROBE_OK : PROBE_LIMITED,
		"a window of %s can be reserved; RLIMIT_AS %s",
		probe_bytes(a, got), probe_bytes(b, limit));
	finding_number(f, "window", (int64_t)got);
	finding_number(f, "limit", limit == UINT64_MAX ? -1 : (int64_t)limit);
	if (got == size[0]) {
		finding_means(f, "Every --va-window up to 4 GiB is possible.");
		return;
	}
	finding_means(f,
		"The device reserves the addresses of its whole window: give a "
		"smaller --va-window, or raise the limit.");
	finding_fix(f, "ulimit -v unlimited");
	if (!got)
		f->state = PROBE_MISSING;
}

void probe_memfd_seals(struct finding *f)
{
	const unsigned seals = F_SEAL_SHRINK | F_SEAL_GROW;
	int fd = memfd_create("tandem:doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int error = errno;

	finding_means(f,
		"Host and device share memory through memfd files. If these "
		"files are sealed, neither process can shrink memory that the "
		"other uses.");
	if (fd < 0) {
		finding_is(
			f, PROBE_MISSING, "memfd_create: %s", strerror(error));
		finding_fix(f, "uname -r   # Linux 3.17 or later is needed");
		return;
	}
	if (ftruncate(fd, 4096) || fcntl(fd, F_ADD_SEALS, seals))
		finding_is(f, PROBE_MISSING, "a memfd cannot be sealed: %s",
			strerror(errno));
	else if (!ftruncate(fd, 8192) || !ftruncate(fd, 0))
		finding_is(f, PROBE_MISSING,
			"the size of a sealed memfd can still be changed");
	else
		finding_is(f, PROBE_OK,
			"memfd, sealed against growing and shrinking");
	if (f->state != PROBE_OK)
		finding_fix(
			f, "uname -r   # a kernel that keeps seals is needed");
	close(fd);
}

/* Copy the selected value of a kernel setting, without its brackets, to `buf`:
 * "madvise" if the setting is "always [madvise] never"; "absent" if there is no
 * such setting. */
static void selected(const char *path, char *buf, size_t size)
{
	char line[128], *open, *shut;

	snprintf(buf, size, "absent");
	if (!probe_line(path, line, sizeof(line)))
		return;
	open = strchr(line, '[');
	shut = open ? strchr(open, ']') : NULL;
	if (shut)
		snprintf(buf, size, "%.*s", (int)(shut - open - 1), open + 1);
}

#define THP "/sys/kernel/mm/transparent_hugepage/"

void probe_huge_pages(struct finding *f)
{
	int64_t reserved = 0, unused = 0, kb = 2048;
	char anon[24], shmem[24], a[24];
	bool got = false;
	size_t bytes;
	struct buffer *b;
	void *map;
	int fd;

	probe_field("/proc/meminfo", "HugePages_Total", &reserved);
	probe_field("/proc/meminfo", "HugePages_Free", &unused);
	probe_field("/proc/meminfo", "Hugepagesize", &kb);
	selected(THP "enabled", anon, sizeof(anon));
	selected(THP "shmem_enabled", shmem, sizeof(shmem));
	bytes = (size_t)kb << 10;
	map = probe_memfd(bytes, MFD_HUGETLB, &fd);
	if (map) {
		munmap(map, bytes);
		close(fd);
	}

	/* Check whether a buffer that requests huge pages gets them. Which
	 * kernel mechanism provides them does not matter. */
	if (!buffer_create(
		    &b, "doctor", bytes, BUFFER_DMA | BUFFER_HUGE, NULL)) {
		buffer_take_memory(b, NULL);
		got = process_huge_bytes(getpid()) >= bytes;
		buffer_close(b);
	}

	finding_is(f, got ? PROBE_OK : PROBE_LIMITED,
		"a shared buffer %s huge pages; %lld of %lld reserved pages "
		"of %s are free, MFD_HUGETLB %s; transparent: shared memory "
		"%s, anonymous %s",
		got ? "gets" : "does not get", (long long)unused,
		(long long)reserved, probe_bytes(a, bytes),
		map ? "works" : "refused", shmem, anon);
	finding_number(f, "reserved", reserved);
	finding_number(f, "free", unused);
	finding_number(f, "page", (int64_t)bytes);
	finding_means(f,
		got ? "Shared buffers get huge pages: they are read at the "
		      "memory's full speed, reads from flash into them are "
		      "faster, and at the start they are filled about ten "
		      "times faster."
		    : "Shared buffers get pages of 4 KiB instead of huge "
		      "pages: everything works, but slower, and filling the "
		      "buffers at the start takes about ten times longer.");
	if (!got)
		finding_fix(f, "%ssysctl vm.nr_hugepages=512", probe_sudo());
}
