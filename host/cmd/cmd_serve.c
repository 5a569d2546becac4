/* tandem serve: a server that offers models over HTTP and D-Bus. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/doctor/probe.h"
#include "host/serve/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct opt_values values; /* values of the decoder's options */
/* Context of a request in tokens, if --ctx is not given. */
#define CONTEXT_DEFAULT 4096

static struct server_options server = { .values = &values,
	.context = CONTEXT_DEFAULT,
	.queue = 64,
	.connections = 256,
	.idle_s = 60,
	.grace_s = 30 };
static const char *model_path, *name, *models_folder, *allowed;
static const char *where; /* address to listen on, from --listen or --port */
static uint32_t port = UINT32_MAX;
static bool quiet, on_session_bus, on_system_bus;
static struct texts_options several = { .texts = 16, .keep = 16 };
static uint64_t body_max = 4 << 20, header_max = 64 << 10;

/* clang-format off */
static const struct opt opts[] = {
	MODEL_OPTION(model_path),
	{ OPT_STRING, 0, "name", &name, "NAME",
		"name of the model of -m that clients use (the file's name "
		"without its ending)" },

	{ .type = OPT_GROUP, .name = "engines" },
	{ OPT_STRING, 0, "models", &models_folder, "DIR",
		"also offer the .gguf and .tdm files in DIR, by their names; "
		"each is loaded when a request names it" },
	{ OPT_STRING, 0, "allow-methods", &allowed, "LIST",
		"methods that requests may choose, with their drafters and "
		"options: names joined by commas, or all (none)" },
	{ OPT_SIZE, 0, "memory", &server.memory, "SIZE",
		"memory limit for all loaded models together (0: none); unused "
		"models are unloaded to make room for others",
		0, (double)((uint64_t)1 << 44) },
	{ OPT_UINT, 0, "idle-unload", &server.idle_unload_s, "SECONDS",
		"unload a model that gets no requests for SECONDS (0: "
		"never)", 0,
		1 << 30 },

	{ .type = OPT_GROUP, .name = "access" },
	{ OPT_STRING, 0, "listen", &where, "ADDRESS",
		"HOST:PORT, unix:PATH or none (127.0.0.1:8080); port 0 chooses "
		"a free port; only processes of your user may connect to a "
		"Unix socket; none: no HTTP, only D-Bus" },
	{ OPT_UINT, 0, "port", &port, "N",
		"short for --listen 127.0.0.1:N", 0, 65535 },
	{ OPT_FLAG, 0, "dbus", &on_session_bus, NULL,
		"also answer on the D-Bus session bus as dev.tandem.Engine1 "
		"(docs/dbus.md)" },
	{ OPT_FLAG, 0, "dbus-system", &on_system_bus, NULL,
		"also answer on the D-Bus system bus; a policy file must "
		"permit the name (docs/dbus.md)" },
	{ OPT_STRING, 0, "api-key-file", &server.key_file, "FILE",
		"require one of the keys in FILE, one key a line; SIGHUP reads "
		"the file again" },
	{ OPT_FLAG, 0, "no-key", &server.no_key, NULL,
		"allow requests without a key on an address that other "
		"machines reach" },

	{ .type = OPT_GROUP, .name = "requests" },
	{ OPT_UINT, 0, "texts", &several.texts, "N",
		"run at most N requests at a time in shared passes (16)",
		1, 64 },
	{ OPT_UINT, 0, "keep", &several.keep, "N",
		"number of finished requests whose key-value cache is kept "
		"(16); a prompt with the same beginning reuses the "
		"cache", 0, 1024 },
	{ OPT_UINT, 0, "text-slots", &several.slots, "N",
		"token positions of the key-value cache for all requests "
		"together (0: as many as needed)", 0, 1 << 26 },

	{ .type = OPT_GROUP, .name = "limits" },
	{ OPT_UINT, 0, "queue", &server.queue, "N",
		"let at most N requests wait, of all clients (64); further "
		"requests get HTTP status 429",
		0, 65536 },
	{ OPT_UINT, 0, "connections", &server.connections, "N",
		"largest number of open connections (256)", 1, 65536 },
	{ OPT_UINT, 0, "idle", &server.idle_s, "SECONDS",
		"drop a client that reads nothing of its answer for SECONDS, "
		"or does not complete its request within twice this time (60)",
		1, 86400 },
	{ OPT_SIZE, 0, "body-max", &body_max, "SIZE",
		"size limit of a request's body (4M)", 1024, 1 << 30 },
	{ OPT_SIZE, 0, "header-max", &header_max, "SIZE",
		"size limit of a request's header, and of each connection's "
		"buffers (64K)", 8192,
		1 << 20 },
	{ OPT_FLOAT, 0, "grace", &server.grace_s, "SECONDS",
		"seconds in which running requests may finish after SIGTERM or "
		"Ctrl-C (30)",
		0, 86400 },

	{ .type = OPT_GROUP, .name = "output" },
	{ OPT_FLAG, 0, "quiet", &quiet, NULL,
		"do not print the server's address" },

	DECODING_OPTIONS(values),
	PAIR_OPTIONS(values),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem serve",
	.synopsis = "[-m MODEL] [--listen ADDRESS] [OPTIONS]",
	.summary = "serve a model over HTTP, as OpenAI's API does",
	.details =
		"Answers requests at /v1/chat/completions, /v1/completions and "
		"/v1/models, as one answer or as a stream; also /tokenize, "
		"/detokenize, /health, /metrics for Prometheus, and a page to "
		"try the model at /. docs/serve.md lists what a request may "
		"contain.\n\n"
		"Nothing is truncated or ignored silently: a prompt that does "
		"not fit into the context is refused, and the error has the "
		"number of tokens of the prompt and of the context; an unknown "
		"parameter is refused, and the error names the parameter.\n\n"
		"SIGTERM or Ctrl-C finishes the running requests, for at most "
		"--grace seconds, then exits; a second signal exits at once.",
	.examples =
		"  tandem serve\n"
		"  tandem serve -m model.gguf --listen 0.0.0.0:8080 --api-key-file keys\n"
		"  curl 127.0.0.1:8080/v1/completions -d '{\"prompt\":\"Once upon a time\"}'",
	.common = "model models allow-methods memory listen port api-key-file "
		  "texts queue dbus method draft ctx threads dram-budget",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

/* Limit of the size of a trace file in bytes, if --trace-limit is not given.
 * There is a limit because a server may run for a long time. */
#define TRACE_DEFAULT ((uint64_t)256 << 20)

/* ---- methods that requests may choose ------------------------------------ */

/* Names of the methods that requests may choose; the first is the server's own
 * method. */
#define METHODS_MAX 64
static const char *methods[METHODS_MAX + 1];

/* Fill `methods` with the server's own method and those that --allow-methods
 * names; the name "all" means every method. */
static int allow_methods(const char *own, struct err *e)
{
	size_t len;

	methods[0] = own;
	for (const char *word = allowed; word;
		word = word[len] ? word + len + 1 : NULL) {
		struct opt_nearest near = { 0 };
		struct method_facts m;
		char said[64];
		bool all, known;

		len = strcspn(word, ",");
		all = known = len == 3 && !strncmp(word, "all", 3);
		snprintf(said, sizeof(said), "%.*s", (int)len, word);
		near.word = said;
		for (size_t i = 0, k; method_facts(i, &m); i++) {
			opt_nearest_offer(&near, m.name);
			if (!all && strcmp(m.name, said) != 0)
				continue;
			known = true;
			for (k = 0; methods[k] && strcmp(methods[k], m.name);
				k++)
				;
			methods[k] = m.name;
		}
		if (!known)
			return err_set(e, EINVAL,
				"--allow-methods: unknown method '%s' ('tandem "
				"help methods' lists all)%s",
				said, opt_nearest_clause(&near));
	}
	return 0;
}

/* ---- opening ------------------------------------------------------------- */

static void report_keys(const char *message)
{
	fprintf(stderr,
		"tandem: cannot read the new keys, so the old keys stay valid: "
		"%s\n",
		message);
}

/*
 * Run the server until a signal ends it. `t` is a started library handle of the
 * model that -m names, or NULL without such a model; the server closes the
 * handle. `need` is the number of bytes of memory that this model needs.
 */
static int serve(struct tandem *t, uint64_t need, struct err *e)
{
	struct server_options *o = &server;
	struct model_list models = { 0 };
	struct server_finding *findings = NULL;
	struct finding f;
	struct err closing = { 0 };
	struct tandem_report r;
	struct server *s;
	int ret = 0;

	o->listen = strcmp(where, "none") ? where : NULL;
	o->bus = on_system_bus   ? SERVER_BUS_SYSTEM
		: on_session_bus ? SERVER_BUS_SESSION
				 : SERVER_BUS_NONE;
	o->keys_failed = report_keys;
	o->models = models_folder ? &models : NULL;
	o->methods = allowed ? methods : NULL;
	o->texts = several.texts;
	o->body_max = body_max;
	o->header_max = header_max;
	cmd_handle_options(&o->handle);
	if (t) {
		tandem_report(t, &r);
		ret = model_list_add(&models, name, r.model_path, e);
		o->offer.model = ret ? NULL : models.model[0].name;
	}
	if (!ret && models_folder)
		ret = model_list_add_folder(&models, models_folder, e);
	/* Collect the findings of `tandem doctor` for D-Bus clients. */
	if (!ret && o->bus)
		o->findings = findings = calloc(n_probes, sizeof(*findings));
	o->n_findings = findings ? n_probes : 0;
	for (size_t i = 0; i < o->n_findings; i++) {
		probe_look(&probes[i], &f);
		findings[i].name = probes[i].name;
		findings[i].state = probe_state_name(f.state);
		memcpy(findings[i].found, f.found, sizeof(findings[i].found));
		memcpy(findings[i].means, f.means, sizeof(findings[i].means));
		finding_release(&f);
	}
	if (ret && t)
		tandem_end(t, NULL);
	if (!ret)
		ret = server_open(&s, o, t, need, e);
	if (ret)
		goto out;
	if (!quiet) {
		fprintf(stderr, "tandem: %s",
			o->offer.model ? o->offer.model : models_folder);
		if (o->offer.model && models_folder)
			fprintf(stderr, " and %s", models_folder);
		fprintf(stderr, " answers at %s%s%s\n", server_url(s),
			*server_url(s) && o->bus ? " and " : "",
			o->bus ? "dev.tandem.Engine1" : "");
	}
	ret = server_run(s, e);
	ret = cmd_closed(ret, server_close(s, &closing), &closing, e);
out:
	free(findings);
	model_list_release(&models);
	return ret;
}

static int serve_main(int argc, char **argv)
{
	struct texts_options *texts = opt_values_at(&values, &texts_table);
	struct pair_options *p = opt_values_at(&values, &pair_table);
	struct tandem *t = NULL;
	const struct drafting_options *d;
	struct tandem_report r;
	struct err e = { 0 }, closing = { 0 };
	const char *single;
	uint64_t need = 0;
	unsigned operands;
	sigset_t set;
	int status, ret;

	if (!cmd_parse(&cmd_serve, argc, argv, &operands, &status))
		return status;
	if (on_session_bus && on_system_bus)
		return cmd_misuse(&cmd_serve,
			"the server can be on the "
			"session bus or on the system bus, not on both");
	if (where && port <= UINT16_MAX)
		return cmd_misuse(
			&cmd_serve, "--listen and --port exclude each other");
	if (!where) {
		static char local[32];

		snprintf(local, sizeof(local), "127.0.0.1:%u",
			port <= UINT16_MAX ? port : 8080);
		where = local;
	}
	if (!strcmp(where, "none") && !on_session_bus && !on_system_bus)
		return cmd_misuse(&cmd_serve,
			"with '--listen none' and without --dbus no client can "
			"connect; add --dbus");
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (server.key_file)
		sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (!p->session.trace_limit)
		p->session.trace_limit = TRACE_DEFAULT;
	*texts = several;
	single = p->session.trace   ? "trace"
		: p->session.device ? "device"
				    : NULL;
	if (single && (models_folder || allowed))
		return cmd_misuse(&cmd_serve,
			"--%s works with one loaded model only, but --%s can "
			"load several; omit one of the two",
			single, models_folder ? "models" : "allow-methods");
	if (models_folder && !model_path && (on_session_bus || on_system_bus))
		return cmd_misuse(&cmd_serve,
			"D-Bus offers only the model of -m; add -m MODEL");
	if (cmd_create(&t, &values, &e))
		return cmd_refuse(&cmd_serve, &e);
	tandem_report(t, &r);
	d = opt_values_of(&values, &drafting_table);
	server.offer = (struct engine_offer){
		.method = r.method,
		.draft = r.drafter ? d->draft : NULL,
		.clock = p->clock ? p->clock : "wall",
		.precision = precision_names[p->session.precision],
	};
	if (allow_methods(r.method, &e)) {
		tandem_end(t, NULL);
		return cmd_refuse(&cmd_serve, &e);
	}
	if (models_folder && !model_path) {
		tandem_end(t, NULL);
		t = NULL;
	}
	/* Read the model that -m names before the server is started, so that
	 * the command fails at once if an option is wrong. */
	ret = 0;
	if (t && tandem_read_model(t, model_path))
		ret = tandem_failure(t, &e);
	if (t && !ret)
		ret = tandem_need(t, CONTEXT_DEFAULT, &need, &e);
	if (!ret && server.memory && need > server.memory)
		ret = err_set(&e, ENOMEM,
			"the model needs %.1f MiB, more than the %.1f MiB of "
			"--memory; try a smaller --ctx or fewer --texts",
			(double)need / (1 << 20),
			(double)server.memory / (1 << 20));
	if (t && !ret && tandem_start(t, CONTEXT_DEFAULT))
		ret = tandem_failure(t, &e);
	if (ret)
		ret = cmd_closed(ret, tandem_end(t, &closing), &closing, &e);
	else
		ret = serve(t, need, &e);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_serve = { .usage = &usage, .run = serve_main };
