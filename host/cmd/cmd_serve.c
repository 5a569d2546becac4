/* tandem serve: other programs' way to a model, by HTTP. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/api/tandem_impl.h"
#include "host/doctor/probe.h"
#include "host/draft/drafting.h"
#include "host/serve/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct opt_values asked; /* of the decoder */
static const char *model_path, *name, *key_file;
static const char *where = "127.0.0.1:8080";
static bool no_key, quiet, on_session_bus, on_system_bus;
static struct texts_options several = { .texts = 16, .keep = 16 };
static uint32_t queue = 64, connections = 256, idle = 60;
static uint64_t body_max = 4 << 20, header_max = 64 << 10;
static double grace = 30;

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &model_path, "FILE",
		"the model: a GGUF file, an image or the name of one that comes "
		"with the program (target; for diffusion, diffusion or block)" },
	{ OPT_STRING, 0, "name", &name, "NAME",
		"what clients call the model (its file's name without the "
		"ending)" },

	{ .type = OPT_GROUP, .name = "Who may ask" },
	{ OPT_STRING, 0, "listen", &where, "ADDRESS",
		"HOST:PORT or unix:PATH (127.0.0.1:8080); of port 0 a free one "
		"is chosen, a Unix socket is its own user's alone; none: "
		"nowhere, for --dbus alone" },
	{ OPT_FLAG, 0, "dbus", &on_session_bus, NULL,
		"answer on the session's message bus too, as "
		"dev.tandem.Engine1 (docs/dbus.md)" },
	{ OPT_FLAG, 0, "dbus-system", &on_system_bus, NULL,
		"on the system's bus, where a policy file permits the name" },
	{ OPT_STRING, 0, "api-key-file", &key_file, "FILE",
		"a line of it is a key, and who has none is refused" },
	{ OPT_FLAG, 0, "no-key", &no_key, NULL,
		"let everybody in who reaches an address that is not this "
		"machine's alone" },

	{ .type = OPT_GROUP, .name = "Several texts" },
	{ OPT_UINT, 0, "texts", &several.texts, "N",
		"texts that are written at a time, in passes that they share "
		"(16), by methods that can: autoregressive and sample", 1, 64 },
	{ OPT_UINT, 0, "keep", &several.keep, "N",
		"texts that have ended whose keys and values stay until there "
		"is no room for them (16): of a prompt that begins like one of "
		"them only the rest is computed", 0, 1024 },
	{ OPT_UINT, 0, "text-slots", &several.slots, "N",
		"tokens that all texts together have room for in the key-value "
		"cache (0: as many as they need and it holds)", 0, 1 << 26 },

	{ .type = OPT_GROUP, .name = "Limits" },
	{ OPT_UINT, 0, "queue", &queue, "N",
		"texts that wait (64); who comes then is told to come again",
		0, 65536 },
	{ OPT_UINT, 0, "connections", &connections, "N",
		"at a time (256)", 1, 65536 },
	{ OPT_UINT, 0, "idle", &idle, "SECONDS",
		"a connection on which nothing moves is closed (60)", 1,
		86400 },
	{ OPT_SIZE, 0, "body-max", &body_max, "SIZE",
		"of a request (4M)", 1024, 1 << 30 },
	{ OPT_SIZE, 0, "header-max", &header_max, "SIZE",
		"of a request's header, and buffers beside it (64K)", 8192,
		1 << 20 },
	{ OPT_FLOAT, 0, "grace", &grace, "SECONDS",
		"that texts under way have when the server is told to end (30)",
		0, 86400 },

	{ .type = OPT_GROUP, .name = "Output" },
	{ OPT_FLAG, 0, "quiet", &quiet, NULL,
		"do not say where the server listens" },

	DECODING_OPTIONS(asked),
	PAIR_OPTIONS(asked),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem serve",
	.synopsis = "[-m MODEL] [--listen ADDRESS] [OPTIONS]",
	.summary = "answer other programs by HTTP",
	.details =
		"Answers requests as OpenAI's interface has them, at "
		"/v1/chat/completions, /v1/completions and /v1/models, whole "
		"or as a stream; beside them are /tokenize, /detokenize, "
		"/health, /metrics for Prometheus, and a page to look at, /. "
		"docs/serve.md says what a request may hold.\n\n"
		"  tandem serve\n"
		"  curl 127.0.0.1:8080/v1/completions "
		"-d '{\"prompt\":\"Once upon a time\"}'\n\n"
		"Nothing is cut without a word: a prompt that the context has "
		"no room for is refused with both numbers, and so is, by its "
		"name, a parameter that is not known.\n\n"
		"SIGTERM or Ctrl-C ends the server behind the texts under way, "
		"at most --grace later; a second one ends it at once.",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

/* Tokens that a text has room for, where --ctx says nothing. */
#define CONTEXT_DEFAULT 4096
/* Bytes of a timeline, where --trace-limit says nothing: it may run for long.
 */
#define TRACE_DEFAULT ((uint64_t)256 << 20)

/* ---- opening ------------------------------------------------------------- */

/* The last part of a path, without its ending. */
static void base_name(const char *path, char *out, size_t cap)
{
	const char *slash = strrchr(path, '/');
	const char *dot;

	path = slash ? slash + 1 : path;
	dot = strrchr(path, '.');
	snprintf(out, cap, "%.*s",
		(int)(dot && dot > path ? dot - path : (long)strlen(path)),
		path);
}

static int open_writer(struct tandem **out, struct err *e)
{
	struct texts_options *t = opt_values_at(&asked, &texts_table);
	struct pair_options *p = opt_values_at(&asked, &pair_table);
	struct tandem_options o;
	int ret;

	if (!p->session.trace_limit)
		p->session.trace_limit = TRACE_DEFAULT;
	*t = several;
	tandem_options_init(&o, sizeof(o));
	o.device_talks = true;
	o.progress = cmd_progress.tell;
	o.progress_arg = cmd_progress.arg;
	o.notice = cmd_notice.tell;
	o.notice_arg = cmd_notice.arg;
	ret = tandem_create(out, &o, &asked, e);
	if (ret)
		return ret;
	ret = tandem_read_model(*out, model_path);
	if (!ret)
		ret = tandem_start(*out, CONTEXT_DEFAULT);
	if (ret)
		*e = (*out)->err;
	return ret ? e->code : 0;
}

/* The same file once more, to read prompts with while others are answered. */
static int open_reader(
	const struct tandem *writer, struct tandem **out, struct err *e)
{
	struct tandem_options o;

	tandem_options_init(&o, sizeof(o));
	o.model = writer->decoder.model_path;
	return tandem_open(out, &o) ? err_set(e, EIO, "%s", tandem_error(NULL))
				    : 0;
}

static struct ask_offer offer_of(const struct tandem *t, char model[128])
{
	const struct pair_options *pair = opt_values_of(&asked, &pair_table);
	const struct drafting_options *d =
		opt_values_of(&asked, &drafting_table);

	base_name(t->decoder.model_path, model, 128);
	return (struct ask_offer){
		.model = name ? name : model,
		.method = t->decoder.method->name,
		.draft = decoder_drafts(&t->decoder) ? d->draft : NULL,
		.clock = pair->clock ? pair->clock : "wall",
		.precision = precision_names[pair->session.precision],
	};
}

static void block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* What `tandem doctor` finds, for who asks by a bus; the caller's to free, NULL
 * where there is no memory. */
static struct server_finding *look_around(void)
{
	struct server_finding *all = calloc(n_probes, sizeof(*all));
	struct finding f;

	for (size_t i = 0; all && i < n_probes; i++) {
		probe_look(&probes[i], &f);
		all[i].name = probes[i].name;
		all[i].state = probe_state_name(f.state);
		memcpy(all[i].found, f.found, sizeof(all[i].found));
		memcpy(all[i].means, f.means, sizeof(all[i].means));
		finding_release(&f);
	}
	return all;
}

static void say_where(const struct server *s, const struct server_options *o)
{
	const char *url = server_url(s);

	if (quiet)
		return;
	fprintf(stderr, "tandem: %s answers at %s%s%s\n", o->offer.model, url,
		*url && o->bus ? " and " : "",
		o->bus ? "dev.tandem.Engine1" : "");
}

static int serve(struct tandem *writer, struct tandem *reader, struct err *e)
{
	char model[128];
	struct server_finding *findings = NULL;
	struct server_options o = {
		.listen = strcmp(where, "none") ? where : NULL,
		.bus = on_system_bus     ? SERVER_BUS_SYSTEM
			: on_session_bus ? SERVER_BUS_SESSION
					 : SERVER_BUS_NONE,
		.key_file = key_file,
		.no_key = no_key,
		.offer = offer_of(writer, model),
		.texts = decoder_shares(&writer->decoder) ? several.texts : 1,
		.queue = queue,
		.connections = connections,
		.idle_s = idle,
		.body_max = body_max,
		.header_max = header_max,
		.grace_s = grace,
	};
	struct server *s;
	int ret;

	if (o.bus)
		o.findings = findings = look_around();
	o.n_findings = findings ? n_probes : 0;
	ret = server_open(&s, &o, writer, reader, e);
	if (ret) {
		free(findings);
		return ret;
	}
	say_where(s, &o);
	ret = server_run(s, e);
	server_close(s);
	free(findings);
	return ret;
}

static int serve_main(int argc, char **argv)
{
	struct tandem *writer = NULL, *reader = NULL;
	struct err e = { 0 }, closing = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_serve, argc, argv, &operands, &status))
		return status;
	if (on_session_bus && on_system_bus)
		return cmd_misuse(&cmd_serve, "one bus at a time");
	if (!strcmp(where, "none") && !on_session_bus && !on_system_bus)
		return cmd_misuse(&cmd_serve,
			"'--listen none' without --dbus is no way in");
	block_signals();
	ret = open_writer(&writer, &e);
	if (ret && !writer)
		return cmd_refuse(&cmd_serve, &e);
	if (!ret)
		ret = open_reader(writer, &reader, &e);
	if (!ret)
		ret = serve(writer, reader, &e);
	tandem_close(reader);
	ret = cmd_closed(ret, tandem_end(writer, &closing), &closing, &e);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_serve = { .usage = &usage, .run = serve_main };
