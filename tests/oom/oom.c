/*
 * Makes the n-th allocation of a process fail, and reports at the end of the
 * process how many allocations there were and which were never freed. This
 * library is loaded by LD_PRELOAD (see tests/oom/run). It acts only in a
 * process of the given program, so that either the host or the device lacks
 * memory.
 *
 *   TANDEM_OOM="PROGRAM KIND N REPORT"
 *
 * KIND heap counts malloc and similar functions, also in libraries; KIND map
 * counts mmap and memfd_create. N counts from 1; with 0 no allocation fails.
 * REPORT is written when the process exits by itself, in lines
 *
 *   count N                  allocations since the beginning of main
 *   failed FRAME FRAME ...   stack of the n-th allocation, innermost first
 *   live BYTES FRAME ...     for each allocation that was not freed, except
 *                            the buffers of stdio
 *
 * where FRAME is PROGRAM+OFFSET. Allocations before main are not counted,
 * because the dynamic linker makes them.
 *
 * This code does not allocate. All state belongs to the process. Any thread may
 * allocate; one lock protects the table.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FRAMES    12
#define SKIPPED   2 /* frames of this file at the top of a stack */
#define BUCKETS   (1u << 16)
#define ENTRIES   (1u << 19)
#define REPORT_FD 200 /* above the descriptors that the process uses */

enum kind { KIND_HEAP, KIND_MAP };

struct stack {
	void *frame[FRAMES];
	int n;
};

struct live {
	void *p;
	size_t size;
	struct live *next;
	struct stack stack;
};

/*
 * Libraries whose own allocations are never made to fail. These libraries do
 * not handle a failure, and the program cannot handle it for them: libseccomp
 * 2.5 omits rules from a filter and returns 0, or frees memory twice.
 */
static const char *const spared[] = { "libseccomp.so" };

struct range {
	uintptr_t from, to;
};

static struct {
	bool active;
	_Atomic bool counting;
	enum kind kind;
	long nth;
	int report;
	_Atomic long count;
	bool failed;
	struct stack where;
	struct live **bucket, *entry, *unused;
	size_t used;
	struct range spare[4];
	unsigned n_spare;
} oom = { .report = -1 };

static atomic_flag lock = ATOMIC_FLAG_INIT;
/* true: this thread runs code of this file, whose own allocations are not
 * counted */
static __thread bool inside;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

/* ---- stacks -------------------------------------------------------------- */
static void take_stack(struct stack *s)
{
	void *frame[FRAMES + SKIPPED];
	int n = backtrace(frame, FRAMES + SKIPPED) - SKIPPED;

	s->n = n > 0 ? n : 0;
	memcpy(s->frame, frame + SKIPPED, (size_t)s->n * sizeof(frame[0]));
}

static __attribute__((format(printf, 1, 2))) void say(const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n > 0 && write(oom.report, line, (size_t)n) < 0)
		return; /* tests/oom/run fails if the report is incomplete */
}

static void say_stack(const struct stack *s)
{
	for (int i = 0; i < s->n; i++) {
		uintptr_t at = (uintptr_t)s->frame[i];
		const char *name = "?";
		Dl_info info;

		if (dladdr(s->frame[i], &info) && info.dli_fname) {
			name = strrchr(info.dli_fname, '/');
			name = name ? name + 1 : info.dli_fname;
			at -= (uintptr_t)info.dli_fbase;
		}
		say(" %s+0x%lx", name, (unsigned long)at);
	}
	say("\n");
}

/* ---- allocations that are not freed -------------------------------------- */
static void enter(void)
{
	inside = true;
	while (atomic_flag_test_and_set(&lock))
		;
}

static void leave(void)
{
	atomic_flag_clear(&lock);
	inside = false;
}

static struct live **bucket_of(const void *p)
{
	return &oom.bucket[((uintptr_t)p >> 4) * 0x9e3779b1u % BUCKETS];
}

static void note(void *p, size_t size, const struct stack *stack)
{
	struct live *e = oom.unused, **bucket = bucket_of(p);

	if (e)
		oom.unused = e->next;
	else if (oom.used < ENTRIES)
		e = &oom.entry[oom.used++];
	else
		/* the table is full, which does not happen in a short run; the
		 * allocation is not recorded */
		return;
	*e = (struct live){
		.p = p, .size = size, .next = *bucket, .stack = *stack
	};
	*bucket = e;
}

static void forget(const void *p)
{
	for (struct live **at = bucket_of(p); *at; at = &(*at)->next) {
		struct live *e = *at;

		if (e->p != p)
			continue;
		*at = e->next;
		e->next = oom.unused;
		oom.unused = e;
		return;
	}
}

/* ---- the n-th allocation ------------------------------------------------- */
static bool is_counted(enum kind kind)
{
	return oom.active && atomic_load(&oom.counting) && kind == oom.kind &&
		!inside;
}

static bool is_spared(void)
{
	struct stack s;

	if (!oom.n_spare)
		return false;
	enter();
	take_stack(&s);
	leave();
	for (int i = 0; i < s.n; i++)
		for (unsigned r = 0; r < oom.n_spare; r++)
			if ((uintptr_t)s.frame[i] >= oom.spare[r].from &&
				(uintptr_t)s.frame[i] < oom.spare[r].to)
				return true;
	return false;
}

/* Whether this allocation, for which is_counted is true, must fail. */
static __attribute__((noinline)) bool fails(void)
{
	if (is_spared())
		return false;
	if (atomic_fetch_add(&oom.count, 1) + 1 != oom.nth)
		return false;
	enter();
	oom.failed = true;
	take_stack(&oom.where);
	leave();
	errno = ENOMEM;
	return true;
}

static __attribute__((noinline)) void *noted(void *p, size_t size)
{
	struct stack stack;

	if (!p || !oom.active || !atomic_load(&oom.counting) || inside)
		return p;
	enter();
	take_stack(&stack);
	note(p, size, &stack);
	leave();
	return p;
}

void *malloc(size_t size)
{
	if (is_counted(KIND_HEAP) && fails())
		return NULL;
	return noted(__libc_malloc(size), size);
}

void *calloc(size_t n, size_t size)
{
	if (is_counted(KIND_HEAP) && fails())
		return NULL;
	return noted(__libc_calloc(n, size), n * size);
}

void *realloc(void *p, size_t size)
{
	void *new;

	if (is_counted(KIND_HEAP) && fails())
		return NULL;
	if (!p || !oom.active || inside)
		return noted(__libc_realloc(p, size), size);
	/* Remove p from the table before the call, because another thread may
	 * get the old address as soon as it is free. */
	enter();
	forget(p);
	leave();
	new = __libc_realloc(p, size);
	return noted(new, size);
}

void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, bytes);
}

void *memalign(size_t align, size_t size);
void *memalign(size_t align, size_t size)
{
	if (is_counted(KIND_HEAP) && fails())
		return NULL;
	return noted(__libc_memalign(align, size), size);
}

void *aligned_alloc(size_t align, size_t size)
{
	if (is_counted(KIND_HEAP) && fails())
		return NULL;
	return noted(__libc_memalign(align, size), size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	void *new;

	if (is_counted(KIND_HEAP) && fails())
		return ENOMEM;
	new = noted(__libc_memalign(align, size), size);
	if (!new)
		return ENOMEM;
	*p = new;
	return 0;
}

void free(void *p)
{
	if (p && oom.active && !inside) {
		enter();
		forget(p);
		leave();
	}
	__libc_free(p);
}

void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	if (is_counted(KIND_MAP) && fails())
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, at, size, prot, flags, fd, offset);
}

void *mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset)
	__attribute__((alias("mmap")));

int memfd_create(const char *name, unsigned flags)
{
	if (is_counted(KIND_MAP) && fails())
		return -1;
	return (int)syscall(SYS_memfd_create, name, flags);
}

static bool is_stdio(const void *p)
{
	return p == stdin->_IO_buf_base || p == stdout->_IO_buf_base ||
		p == stderr->_IO_buf_base;
}

/* ---- begin and end ------------------------------------------------------- */
static int find_spared(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;

	for (size_t i = 0; i < sizeof(spared) / sizeof(spared[0]); i++)
		for (int p = 0; p < info->dlpi_phnum; p++) {
			const ElfW(Phdr) *h = &info->dlpi_phdr[p];
			struct range r = { info->dlpi_addr + h->p_vaddr,
				info->dlpi_addr + h->p_vaddr + h->p_memsz };

			if (!strncmp(name, spared[i], strlen(spared[i])) &&
				h->p_type == PT_LOAD && (h->p_flags & PF_X) &&
				oom.n_spare < 4)
				oom.spare[oom.n_spare++] = r;
		}
	return 0;
}

static void *map_table(size_t size)
{
	void *p = (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void complain(const char *what)
{
	fprintf(stderr, "oom.so: %s\n", what);
	_exit(99);
}

__attribute__((constructor)) static void begin(void)
{
	const char *order = getenv("TANDEM_OOM");
	char program[64], kind[8], path[4096];
	void *frame[1];
	int fd;

	if (!order)
		return;
	if (sscanf(order, "%63s %7s %ld %4095s", program, kind, &oom.nth,
		    path) != 4)
		complain("TANDEM_OOM is 'PROGRAM KIND N REPORT'");
	if (strcmp(program, program_invocation_short_name))
		return;
	oom.kind = strcmp(kind, "map") ? KIND_HEAP : KIND_MAP;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	oom.report = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, REPORT_FD);
	oom.bucket = map_table(BUCKETS * sizeof(oom.bucket[0]));
	oom.entry = map_table(ENTRIES * sizeof(oom.entry[0]));
	if (oom.report < 0 || !oom.bucket || !oom.entry)
		complain("cannot begin");
	close(fd);
	dl_iterate_phdr(find_spared, NULL);
	/* loads the unwinder, which allocates, before counting begins */
	backtrace(frame, 1);
	oom.active = true;
}

__attribute__((destructor)) static void end(void)
{
	if (!oom.active)
		return;
	atomic_store(&oom.counting, false);
	enter();
	say("count %ld\n", atomic_load(&oom.count));
	if (oom.failed) {
		say("failed");
		say_stack(&oom.where);
	}
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct live *e = oom.bucket[i]; e; e = e->next) {
			if (is_stdio(e->p))
				continue;
			say("live %zu", e->size);
			say_stack(&e->stack);
		}
	leave();
}

typedef int main_fn(int argc, char **argv, char **env);
static main_fn *real_main;

static int counted_main(int argc, char **argv, char **env)
{
	atomic_store(&oom.counting, true);
	return real_main(argc, argv, env);
}

int __libc_start_main(main_fn *main, int argc, char **argv, void (*init)(void),
	void (*fini)(void), void (*rtld_fini)(void), void *stack_end);
int __libc_start_main(main_fn *main, int argc, char **argv, void (*init)(void),
	void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	int (*real)(main_fn *, int, char **, void (*)(void), void (*)(void),
		void (*)(void), void *);

	*(void **)&real = dlsym(RTLD_NEXT, "__libc_start_main");
	real_main = main;
	return real(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
