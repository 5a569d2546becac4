/*
 * The main function of fuzz targets without libFuzzer. It replays every file of
 * a corpus and every seed that the target generates, then runs mutated inputs.
 * Input N depends only on the corpus, --seed and N, so that a failure can be
 * repeated by its number. On a crash, a sanitizer's report or a hang the input
 * is saved first, from a copy that the target cannot change.
 */
#ifndef TANDEM_LIBFUZZER

#include "tests/fuzz/fuzz.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/opt.h"
#include "base/rng.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX   (1u << 20)
#define LIMIT_S     10 /* time limit for one input */
#define MUTATIONS   8  /* largest number of mutations of one input */
#define BLOCK_MAX   256
#define SEEDS_MAX   64
#define ENTRIES_MAX 4096

void __sanitizer_set_death_callback(void (*)(void)) __attribute__((weak));

/* ---- saving what failed ---------------------------------------------- */

/* The input is static, so that the signal handler needs no memory that the
 * crash may have damaged. */
static uint8_t input[INPUT_MAX];
static size_t input_len;
static char crash_path[4096];

static void say(const char *text)
{
	ssize_t n = write(STDERR_FILENO, text, strlen(text));

	(void)n;
}

static void save_input(void)
{
	int fd = open(
		crash_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || fd_write_all(fd, input, input_len)) {
		say("fuzz: cannot save the input to ");
	} else {
		say("fuzz: input saved as ");
	}
	say(crash_path);
	say("\n");
	fd_close(&fd);
}

static void on_signal(int sig)
{
	say(sig == SIGALRM ? "\nfuzz: time limit for one input exceeded\n"
			   : "\nfuzz: crash\n");
	save_input();
	signal(SIGABRT, SIG_DFL);
	if (sig == SIGALRM)
		abort();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void catch_failures(void)
{
	static uint8_t stack[65536];
	static const int fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	const stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction sa = { .sa_handler = on_signal,
		.sa_flags = SA_ONSTACK };

	/* After a stack overflow the handler needs its own stack. */
	sigaltstack(&alt, NULL);
	sigaction(SIGABRT, &sa, NULL);
	sigaction(SIGALRM, &sa, NULL);
	/* A sanitizer handles the signals in fatal[] itself, and then calls
	 * save_input. */
	if (__sanitizer_set_death_callback) {
		__sanitizer_set_death_callback(save_input);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(fatal); i++)
		sigaction(fatal[i], &sa, NULL);
}

static uint64_t n_past;
static bool is_past;

void fuzz_got_past(void)
{
	is_past = true;
}

static void run_input(uint64_t seed, const char *name)
{
	const char *dir = getenv("TANDEM_CRASH_DIR");
	uint8_t *copy = malloc(input_len ? input_len : 1);

	if (!copy) {
		fprintf(stderr, "fuzz: no memory\n");
		exit(1);
	}
	memcpy(copy, input, input_len);
	snprintf(crash_path, sizeof(crash_path), "%s/crash-%llu-%s",
		dir && *dir ? dir : ".", (unsigned long long)seed, name);
	is_past = false;
	alarm(LIMIT_S);
	LLVMFuzzerTestOneInput(copy, input_len);
	alarm(0);
	n_past += is_past;
	free(copy);
}

/* ---- the corpus ------------------------------------------------------ */

struct entry {
	char name[256];
	uint8_t *data;
	size_t len;
};

static struct entry entries[ENTRIES_MAX];
static size_t n_entries, n_files;

static int add_entry(
	const char *name, const void *data, size_t len, struct err *e)
{
	struct entry *to = &entries[n_entries];

	if (n_entries == ENTRIES_MAX)
		return err_set(e, E2BIG, "more than %d inputs", ENTRIES_MAX);
	to->data = malloc(len ? len : 1);
	if (!to->data)
		return err_set(e, ENOMEM, "no memory for '%s'", name);
	if (len)
		memcpy(to->data, data, len);
	to->len = len;
	snprintf(to->name, sizeof(to->name), "%s", name);
	n_entries++;
	return 0;
}

static int add_file(const char *dir, const char *name, struct err *e)
{
	char path[4096];
	char *data;
	size_t len;
	int ret;

	snprintf(path, sizeof(path), "%s%s%s", dir, *dir ? "/" : "", name);
	ret = fd_read_file(path, INPUT_MAX, &data, &len, e);
	if (ret)
		return ret;
	name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	ret = add_entry(name, data, len, e);
	free(data);
	n_files += !ret;
	return ret;
}

/* Add the files of a folder in the order of their names, because input N
 * depends on the order of the corpus. */
static int add_dir(const char *dir, struct err *e)
{
	struct dirent **list;
	int n = scandir(dir, &list, NULL, alphasort);
	int ret = 0;

	/* A target may have no corpus folder, only its own seeds. */
	if (n < 0 && errno == ENOENT)
		return 0;
	if (n < 0)
		return err_sys(e, errno, "cannot list '%s'", dir);
	for (int i = 0; i < n; i++) {
		if (list[i]->d_name[0] != '.' && !ret)
			ret = add_file(dir, list[i]->d_name, e);
		free(list[i]);
	}
	free(list);
	return ret;
}

static int add_seeds(struct err *e)
{
	for (unsigned i = 0; fuzz_seed && i < SEEDS_MAX; i++) {
		char name[32];
		size_t len = fuzz_seed(i, input, sizeof(input));
		int ret;

		if (!len)
			break;
		snprintf(name, sizeof(name), "seed%u", i);
		ret = add_entry(name, input, len, e);
		if (ret)
			return ret;
	}
	/* If there is no entry, start from the empty input. */
	return n_entries ? 0 : add_entry("empty", "", 0, e);
}

/* ---- mutation -------------------------------------------------------- */

/* State of the random generator for the input with number `stream`; `at` counts
 * the draws. */
struct draw {
	uint64_t seed, stream, at;
};

static uint64_t draw64(struct draw *d)
{
	uint32_t w[4];

	rng_words(d->seed, d->stream, d->at++, w);
	return (uint64_t)w[0] << 32 | w[1];
}

/* A random number in [0, n), or 0 if n is 0. */
static size_t draw_below(struct draw *d, size_t n)
{
	return n ? (size_t)(draw64(d) % n) : 0;
}

/* Returns a random number: a power of two (or 0) plus -2 to 2 or, in one of
 * eight calls, a number below 1024. */
static uint64_t draw_interesting(struct draw *d)
{
	unsigned shift = (unsigned)draw_below(d, 65);
	uint64_t edge = shift == 64 ? 0 : (uint64_t)1 << shift;

	if (!draw_below(d, 8))
		return draw_below(d, 1024);
	return edge + draw_below(d, 5) - 2;
}

static void flip_bit(struct draw *d)
{
	if (input_len)
		input[draw_below(d, input_len)] ^=
			(uint8_t)(1u << draw_below(d, 8));
}

static void set_byte(struct draw *d)
{
	static const uint8_t edges[] = { 0, 1, 0x7f, 0x80, 0xff, ' ', '\n', '"',
		'%', 0xc0, 0xed, 0xf4 };
	size_t pick = draw_below(d, 2 * ARRAY_LEN(edges));

	if (input_len)
		input[draw_below(d, input_len)] = pick < ARRAY_LEN(edges)
			? edges[pick]
			: (uint8_t)draw64(d);
}

/* Overwrite an integer of 2, 4 or 8 bytes, little-endian, at any offset; half
 * of the offsets are aligned. */
static void set_integer(struct draw *d)
{
	size_t bytes = (size_t)2 << draw_below(d, 3);
	uint64_t v = draw_interesting(d);
	size_t at;

	if (input_len < bytes)
		return;
	at = draw_below(d, input_len - bytes + 1);
	if (draw_below(d, 2))
		at &= ~(bytes - 1);
	for (size_t i = 0; i < bytes; i++)
		input[at + i] = (uint8_t)(v >> (8 * i));
}

/* Add a small number, -4 to 4, to a byte of the input, so that counts are
 * slightly wrong. */
static void nudge_integer(struct draw *d)
{
	size_t at = draw_below(d, input_len);

	if (input_len)
		input[at] = (uint8_t)(input[at] + draw_below(d, 9) - 4);
}

static size_t block_length(struct draw *d, size_t most)
{
	size_t len = 1 + draw_below(d, BLOCK_MAX);

	return len < most ? len : most;
}

static void delete_block(struct draw *d)
{
	size_t at = draw_below(d, input_len);
	size_t len = block_length(d, input_len - at);

	memmove(input + at, input + at + len, input_len - at - len);
	input_len -= len;
}

/* Insert a gap of `len` bytes at `at`. Returns how many bytes fit. */
static size_t open_gap(size_t at, size_t len)
{
	if (len > INPUT_MAX - input_len)
		len = INPUT_MAX - input_len;
	memmove(input + at + len, input + at, input_len - at);
	input_len += len;
	return len;
}

static void insert_block(struct draw *d)
{
	size_t at = draw_below(d, input_len + 1);
	size_t len = open_gap(at, block_length(d, BLOCK_MAX));
	uint64_t fill = draw_below(d, 2) ? draw64(d) : 0;

	for (size_t i = 0; i < len; i++)
		input[at + i] = (uint8_t)(fill ? draw64(d) : 0);
}

static void repeat_block(struct draw *d)
{
	uint8_t block[BLOCK_MAX];
	size_t from = draw_below(d, input_len);
	size_t len = block_length(d, input_len - from);
	size_t to = draw_below(d, input_len + 1);

	memcpy(block, input + from, len);
	len = open_gap(to, len);
	memcpy(input + to, block, len);
}

static void truncate_input(struct draw *d)
{
	input_len = draw_below(d, input_len + 1);
}

/* Join the beginning of this input and the end of an entry of the corpus. */
static void join_two(struct draw *d)
{
	const struct entry *other = &entries[draw_below(d, n_entries)];
	size_t head = draw_below(d, input_len + 1);
	size_t from = draw_below(d, other->len + 1);
	size_t tail = other->len - from;

	if (tail > INPUT_MAX - head)
		tail = INPUT_MAX - head;
	memcpy(input + head, other->data + from, tail);
	input_len = head + tail;
}

static void (*const mutators[])(struct draw *) = {
	/* Mutations that keep the layout are listed twice, because their inputs
	 * pass more checks of a parser. */
	flip_bit, flip_bit, set_byte, set_byte, set_integer, set_integer,
	nudge_integer, nudge_integer, delete_block, insert_block, repeat_block,
	truncate_input, join_two
};

static uint32_t draw_for_target(void *arg, uint32_t n)
{
	return (uint32_t)draw_below(arg, n);
}

static void mutate(struct draw *d)
{
	const struct fuzz_draw to = { draw_for_target, d };

	if (fuzz_mutate && draw_below(d, 4))
		input_len = fuzz_mutate(input, input_len, sizeof(input), &to);
	else
		mutators[draw_below(d, ARRAY_LEN(mutators))](d);
}

static void load_entry(const struct entry *from)
{
	memcpy(input, from->data, from->len);
	input_len = from->len;
}

static void make_input(uint64_t seed, uint64_t number)
{
	struct draw d = { seed, number, 0 };
	size_t times;

	load_entry(&entries[draw_below(&d, n_entries)]);
	/* Half of the inputs get one mutation, a quarter two, and so on. */
	for (times = 1; times < MUTATIONS && draw_below(&d, 2); times++)
		;
	while (times--)
		mutate(&d);
}

/* ---- main ------------------------------------------------------------ */

static const char *corpus;
static int64_t runs, seed = 1, from;

static const struct opt options[] = {
	{ OPT_STRING, 0, "corpus", &corpus, "DIR",
		"replay every file of DIR, and mutate them" },
	{ OPT_INT, 0, "runs", &runs, "N", "then run N mutated inputs (0)", 0,
		1e15 },
	{ OPT_INT, 0, "seed", &seed, "S", "of the mutations (1)", 0, 1e15 },
	{ OPT_INT, 0, "from", &from, "N",
		"number of the first mutated input (0); crash-S-N is made "
		"again by --seed S --from N --runs 1 on the same corpus",
		0, 1e15 },
};

static const struct opt_command usage = {
	.name = "fuzz_TARGET",
	.synopsis = "[--corpus DIR] [--runs N] [--seed S] [--from N] [FILE...]",
	.summary = "Run a fuzz target on a corpus, on FILEs and on mutations "
		   "of them.",
	.details =
		"An input that crashes the target, or takes more than 10 "
		"seconds, is written to crash-S-N (N: its number, or the name "
		"of its file) in $TANDEM_CRASH_DIR or the current folder.",
	.opts = options,
	.n_opts = ARRAY_LEN(options),
	.max_operands = ENTRIES_MAX,
};

static int load_corpus(unsigned n_paths, char **paths, struct err *e)
{
	int ret = corpus ? add_dir(corpus, e) : 0;

	for (unsigned i = 0; i < n_paths && !ret; i++)
		ret = add_file("", paths[i], e);
	return ret ? ret : add_seeds(e);
}

static void tell(const char *me, uint64_t ns)
{
	double s = (double)ns / 1e9, all = (double)n_entries + (double)runs;

	printf("%s: %zu files, %zu seeds, %lld mutated (seed %lld), %.1f s, "
	       "%.0f/s",
		me, n_files, n_entries - n_files, (long long)runs,
		(long long)seed, s, s > 0 ? all / s : 0);
	if (n_past)
		printf(", %.1f %% past the first check",
			100 * (double)n_past / all);
	printf("\n");
}

static void run_all(void)
{
	for (size_t i = 0; i < n_entries; i++) {
		load_entry(&entries[i]);
		run_input((uint64_t)seed, entries[i].name);
	}
	for (int64_t i = from; i < from + runs; i++) {
		char name[32];

		make_input((uint64_t)seed, (uint64_t)i);
		snprintf(name, sizeof(name), "%lld", (long long)i);
		run_input((uint64_t)seed, name);
	}
}

int main(int argc, char **argv)
{
	const char *me =
		strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	const char *dir = getenv("TANDEM_CRASH_DIR");
	uint64_t began = clock_ns();
	struct err err = { 0 };
	unsigned n;
	int ret = opt_parse(&usage, argc, argv, &n, &err);

	if (ret > 0)
		return 0;
	if (!ret && dir && *dir && mkdir(dir, 0755) && errno != EEXIST)
		ret = err_sys(&err, errno, "cannot make '%s'", dir);
	if (!ret)
		ret = load_corpus(n, argv + 1, &err);
	if (ret) {
		fprintf(stderr, "%s: %s\n", me, err.text);
		return ret == -EINVAL ? 2 : 1;
	}
	catch_failures();
	run_all();
	/* The leak sanitizer may find a leak now. Do not save the last input
	 * then, because it need not be the cause. */
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(NULL);
	tell(me, clock_ns() - began);
	for (size_t i = 0; i < n_entries; i++)
		free(entries[i].data);
	return 0;
}

#else

/* The following code is for libFuzzer, which has its own main and measures the
 * coverage. */
#include "tests/fuzz/fuzz.h"

#include "base/fd.h"
#include "base/rng.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define SEED_MAX (1u << 20)

int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerMutate(uint8_t *, size_t, size_t);
size_t LLVMFuzzerCustomMutator(uint8_t *, size_t, size_t, unsigned);

/* Write the target's seeds to the first corpus folder on the command line.
 * libFuzzer reads the inputs of this folder after the call. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static uint8_t seed[SEED_MAX];
	const char *folder = NULL;
	char path[4096];
	size_t len;
	int fd;

	for (int i = 1; i < *argc && !folder; i++)
		if ((*argv)[i][0] != '-')
			folder = (*argv)[i];
	for (unsigned i = 0; folder && fuzz_seed; i++) {
		len = fuzz_seed(i, seed, sizeof(seed));
		if (!len)
			break;
		snprintf(path, sizeof(path), "%s/seed%u", folder, i);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		if (fd < 0 || fd_write_all(fd, seed, len))
			/* the argument is a file to replay, not a folder */
			break;
		fd_close(&fd);
	}
	return 0;
}

void fuzz_got_past(void)
{
}

struct draw {
	uint64_t seed, at;
};

static uint32_t draw_for_target(void *arg, uint32_t n)
{
	struct draw *d = arg;
	uint32_t w[4];

	rng_words(d->seed, 0, d->at++, w);
	return w[0] % n;
}

size_t LLVMFuzzerCustomMutator(
	uint8_t *data, size_t len, size_t cap, unsigned seed)
{
	struct draw d = { seed, 0 };
	const struct fuzz_draw to = { draw_for_target, &d };

	if (fuzz_mutate && seed % 4)
		return fuzz_mutate(data, len, cap, &to);
	return LLVMFuzzerMutate(data, len, cap);
}

#endif
