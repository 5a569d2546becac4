#include "tests/stress/decodes.h"

#include "base/checked.h"
#include "host/api/tandem.h"
#include "host/convert/convert.h"
#include "host/convert/synth.h"
#include "host/model/model.h"
#include "host/model/shapes.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PROMPT   "Once upon a time there was a king who had three sons, and"
#define SETTINGS 24

enum file { TARGET, DRAFT, LLADA, BLOCK, DREAM, IMAGE, FILES };

static const struct {
	const char *name, *shape;
	enum dtype quant;
	uint64_t seed;
} files[FILES] = {
	/* A model that is too large for an address window of a few MiB. */
	[TARGET] = { "target.gguf", "tiny", DTYPE_F32, 1 },
	/* A draft model whose weights differ from those of TARGET, so that most
	 * drafts are rejected. */
	[DRAFT] = { "draft.gguf", "tiny", DTYPE_Q4_0, 2 },
	[LLADA] = { "llada.gguf", "tiny-llada", DTYPE_Q4_0, 1 },
	[BLOCK] = { "block.gguf", "tiny-block", DTYPE_Q4_0, 1 },
	[DREAM] = { "dream.gguf", "tiny-dream", DTYPE_Q4_0, 1 },
	[IMAGE] = { "target.tdm", NULL, DTYPE_F32, 1 },
};

/* clang-format off */
#define WAYS(X)                                                   \
	X("autoregressive", TARGET, false, NULL, NULL)            \
	X("chunks", TARGET, false, "prefill-chunk=4", NULL)       \
	X("graph-switch", TARGET, false, "graph-switch=greedy", NULL) \
	X("chain", TARGET, true, "method=chain", NULL)            \
	X("chain-pld", TARGET, false, "method=chain", "draft=pld") \
	X("specinfer", TARGET, true, "method=specinfer", NULL)    \
	X("opt-tree", TARGET, true, "method=opt-tree", NULL)      \
	X("eagle2-tree", TARGET, true, "method=eagle2-tree", NULL) \
	X("edgellm", TARGET, true, "method=edgellm", NULL)        \
	X("flash-ar", IMAGE, false, "method=flash-ar", "dram-budget=0%") \
	X("streamed", IMAGE, false, "dram-budget=40%", NULL)      \
	X("chain-streamed", IMAGE, true, "method=chain", "dram-budget=25%") \
	X("llada", LLADA, false, "method=llada", NULL)            \
	X("fast-dllm", LLADA, false, "method=fast-dllm", NULL)    \
	X("llada-npu", LLADA, false, "method=llada-npu", NULL)    \
	X("dream", DREAM, false, "method=dream", NULL)            \
	X("block", BLOCK, false, "method=block", NULL)            \
	X("multi-block", LLADA, false, "method=multi-block", NULL)
/* clang-format on */

#define ROW(name, model, drafts, ...) { model, drafts, { __VA_ARGS__ } },
#define NAME(name, ...)               name,

static const struct {
	enum file model;
	bool drafts;
	const char *set[2];
} ways[DECODE_WAYS] = { WAYS(ROW) };

const char *const decode_ways[DECODE_WAYS + 1] = { WAYS(NAME) NULL };

_Static_assert(sizeof((const char *const[]){ WAYS(NAME) }) ==
		sizeof(decode_ways) - sizeof(decode_ways[0]),
	"DECODE_WAYS is their number");

struct decodes {
	char folder[PATH_MAX];
	bool known[DECODE_WAYS]; /* whether `want` is set, by method */
	struct decoded want[DECODE_WAYS];
};

bool decode_is_streamed(unsigned way)
{
	return ways[way].model == IMAGE;
}

bool decode_moves_graphs(unsigned way)
{
	return !strcmp(decode_ways[way], "graph-switch");
}

/* Whether this method must generate the same text as autoregressive decoding.
 */
static bool is_causal(unsigned way)
{
	return ways[way].model == TARGET || ways[way].model == IMAGE;
}

/* ---- files --------------------------------------------------------------- */

static void path_of(const struct decodes *d, enum file f, char path[PATH_MAX])
{
	size_t n = strlen(d->folder);

	memcpy(path, d->folder, n);
	snprintf(path + n, PATH_MAX - n, "/%s", files[f].name);
}

static int make_model(const struct decodes *d, enum file f, struct err *e)
{
	struct synth_opts o = { .shape = shape_named(files[f].shape),
		.quant = files[f].quant,
		.ffn_down = files[f].quant,
		.seed = files[f].seed };
	char path[PATH_MAX];

	path_of(d, f, path);
	return synth_write(path, &o, e);
}

static int make_image(const struct decodes *d, struct err *e)
{
	struct convert_opts o = { .type = CONVERT_KEEP, .down = CONVERT_KEEP };
	struct conversion done = { 0 };
	struct model *m;
	char path[PATH_MAX];
	int ret;

	path_of(d, TARGET, path);
	ret = model_open(&m, path, NULL, NULL, e);
	if (ret)
		return ret;
	path_of(d, IMAGE, path);
	ret = convert(m, path, &o, &done, e);
	conversion_release(&done);
	model_close(m);
	return ret;
}

/* Create a file if it does not exist. */
static int need(const struct decodes *d, enum file f, struct err *e)
{
	char path[PATH_MAX];
	int ret;

	path_of(d, f, path);
	if (!access(path, F_OK))
		return 0;
	if (f != IMAGE)
		return make_model(d, f, e);
	ret = need(d, TARGET, e);
	return ret ? ret : make_image(d, e);
}

int decodes_open(struct decodes **out, const char *folder, struct err *e)
{
	struct decodes *d = mmap(NULL, sizeof(*d), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (d == MAP_FAILED)
		return err_sys(e, errno, "cannot share memory with a process");
	snprintf(d->folder, sizeof(d->folder) / 2, "%s", folder);
	*out = d;
	return 0;
}

void decodes_close(struct decodes *d)
{
	munmap(d, sizeof(*d));
}

/* ---- one text ------------------------------------------------------------ */

static int take_token(void *arg, int32_t token, const char *text, size_t len)
{
	struct decoded *out = arg;

	if (token >= 0 && out->n < ARRAY_LEN(out->id))
		out->id[out->n++] = token;
	return 0;
}

struct run_summary {
	struct decoded *out;
	const struct decode_watch *watch;
};

static void replaced(void *arg, const char *sentence)
{
	const struct run_summary *t = arg;

	/* Ignore other notices, such as the notice about a fault that was never
	 * triggered. */
	if (!strstr(sentence, "took its place"))
		return;
	t->out->restarts++;
	if (t->watch && t->watch->replaced)
		t->watch->replaced(t->watch->arg, sentence);
}

static void failed(struct decoded *out, int status, const struct tandem *t)
{
	out->status = status;
	snprintf(out->error, sizeof(out->error), "%s", tandem_error(t));
}

static void generate(
	struct tandem *t, const struct decode_watch *watch, struct decoded *out)
{
	struct tandem_request q;
	int ret = tandem_start(t, 0);

	if (ret) {
		failed(out, ret, t);
		return;
	}
	if (watch && watch->opened)
		watch->opened(watch->arg);
	tandem_request_init(&q, sizeof(q));
	q.prompt = PROMPT;
	q.flags = TANDEM_IGNORE_EOS;
	q.max_tokens = DECODE_TOKENS;
	q.sink = take_token;
	q.sink_arg = out;
	ret = tandem_generate(t, &q, NULL);
	if (ret)
		failed(out, ret, t);
}

void decode(const struct decodes *d, unsigned way, const char *const *more,
	const struct decode_watch *watch, struct decoded *out)
{
	struct run_summary callback = { out, watch };
	char model[PATH_MAX], draft[PATH_MAX + 8] = "draft=";
	const char *set[SETTINGS] = { "threads=1", "ctx=256" };
	struct tandem_options o;
	struct tandem *t;
	unsigned n = 2;
	int ret;

	*out = (struct decoded){ 0 };
	path_of(d, ways[way].model, model);
	path_of(d, DRAFT, draft + strlen(draft));
	for (unsigned i = 0; i < 2 && ways[way].set[i]; i++)
		set[n++] = ways[way].set[i];
	if (ways[way].drafts)
		set[n++] = draft;
	while (more && *more && n < SETTINGS - 1)
		set[n++] = *more++;
	tandem_options_init(&o, sizeof(o));
	o.model = model;
	o.set = set;
	o.notice = replaced;
	o.notice_arg = &callback;
	ret = tandem_open(&t, &o);
	if (ret) {
		failed(out, ret, NULL);
		return;
	}
	generate(t, watch, out);
	ret = tandem_close(t);
	if (ret && !out->status)
		failed(out, ret, NULL);
}

int decode_wanted(struct decodes *d, unsigned way, const struct decoded **out,
	struct err *e)
{
	unsigned of = is_causal(way) ? 0 : way;
	int ret = need(d, ways[way].model, e);

	if (!ret && ways[way].drafts)
		ret = need(d, DRAFT, e);
	if (!ret)
		ret = need(d, ways[of].model, e);
	*out = &d->want[of];
	if (ret || d->known[of])
		return ret;
	decode(d, of, NULL, NULL, &d->want[of]);
	if (d->want[of].status)
		return err_set(e, EIO, "%s without faults: %s", decode_ways[of],
			d->want[of].error);
	d->known[of] = true;
	return 0;
}

bool decode_same(const struct decoded *got, const struct decoded *want,
	char *how, size_t size)
{
	unsigned i = 0;

	while (i < got->n && i < want->n && got->id[i] == want->id[i])
		i++;
	if (i == got->n && i == want->n)
		return true;
	if (i < got->n && i < want->n)
		snprintf(how, size, "token %u is %d, not %d", i, got->id[i],
			want->id[i]);
	else
		snprintf(
			how, size, "it has %u tokens, not %u", got->n, want->n);
	return false;
}
