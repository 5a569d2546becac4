/* tandem run: generates text with a model. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/cmd/inspect_window.h"
#include "host/cmd/run_report.h"
#include "host/cmd/samples_view.h"
#include "host/cmd/watching.h"
#include "host/model/model.h"
#include "host/text/generation.h"
#include "host/text/json_nodes.h"
#include "host/text/tokenizer.h"
#include "host/text/utf8.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROMPT_MAX ((size_t)64 << 20)

static struct opt_values values; /* values of the decoder's options */
static const char *model_path, *prompt_text, *prompt_file, *system_text,
	*schema_option;
static int64_t n_predict = 256, top_k, repeat_last = 64, seed = 1, stream;
static double temperature = NAN, top_p = 1, min_p, repeat_penalty = 1;
static struct opt_list stop_strings;
static bool as_ids, as_json, watched, with_samples, with_stats, verbose, chat,
	special, ignore_eos, no_bos;
/* whether the prompt is read from standard input, because the operand is "-" or
 * no prompt was given */
static bool piped;

/* clang-format off */
static const struct opt opts[] = {
	MODEL_OPTION(model_path),
	{ OPT_STRING, 'p', "prompt", &prompt_text, "TEXT",
		"prompt; may begin with a -" },
	{ OPT_STRING, 'f', "file", &prompt_file, "FILE",
		"read the prompt from FILE; - is standard input" },
	{ OPT_INT, 'n', "predict", &n_predict, "N",
		"generate at most N tokens (256; -1: until the text ends or "
		"the context is full)", -1, INT32_MAX },
	{ OPT_LIST, 0, "stop", &stop_strings, "TEXT",
		"stop when the output contains TEXT, which is not printed; may "
		"be given several times" },
	{ OPT_FLAG, 0, "ignore-eos", &ignore_eos, NULL,
		"continue after an end-of-text token" },
	{ OPT_STRING, 0, "json-schema", &schema_option, "FILE|JSON",
		"generate JSON that is valid for this JSON Schema; a file, or "
		"the schema itself ('{}' is any JSON); docs/structured.md has "
		"the supported subset" },

	{ .type = OPT_GROUP, .name = "prompt" },
	{ OPT_FLAG, 0, "chat", &chat, NULL,
		"format the prompt with the model's chat template; it becomes "
		"the user's turn" },
	{ OPT_STRING, 0, "system", &system_text, "TEXT",
		"text of the system turn, with --chat" },
	{ OPT_FLAG, 0, "special", &special, NULL,
		"recognize special tokens in the prompt, and print generated "
		"ones" },
	{ OPT_FLAG, 0, "no-bos", &no_bos, NULL,
		"do not add the beginning-of-text token before the prompt" },

	{ .type = OPT_GROUP, .name = "sampling" },
	{ OPT_FLOAT, 0, "temp", &temperature, "T",
		"temperature (0: greedy; 0.8 with -N)", 0, 1000 },
#define GLOBAL(name) &(name)
	SAMPLING_ROWS(GLOBAL, 0),
#undef GLOBAL
	{ OPT_INT, 0, "stream", &stream, "I",
		"number I of the stream of random numbers (0); stream I "
		"generates the text of sample I of -N",
		0, (double)(1ll << 53) },

	DECODING_OPTIONS(values),

	{ .type = OPT_GROUP, .name = "output" },
	{ OPT_FLAG, 0, "ids", &as_ids, NULL,
		"print token ids, not text" },
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print one JSON object at the end; it has the text, its ids "
		"and all counters" },
	{ OPT_FLAG, 0, "watch", &watched, NULL,
		"show the text after each pass of a diffusion model; on a "
		"terminal in place, otherwise as one line per pass, with "
		"--json as one object per pass" },
	{ OPT_FLAG, 0, "show-samples", &with_samples, NULL,
		"print all samples, also with a method that chooses one of "
		"them" },
	{ OPT_FLAG, 0, "stats", &with_stats, NULL,
		"print a summary to standard error; it has tokens/s, passes, "
		"drafts, address window, flash and phone time" },
	{ OPT_FLAG, 0, "verbose", &verbose, NULL,
		"draw a map of the device's address window when a buffer does "
		"not fit into it" },

	PAIR_OPTIONS(values),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem run",
	.synopsis = "[-m MODEL] (TEXT | -p TEXT | -f FILE|-) [-n N] [OPTIONS]",
	.summary = "generate text",
	.details =
		"Writes the continuation of a prompt to standard output as it "
		"is generated. Without sampling options decoding is greedy and "
		"the text always the same.\n\n"
		"The prompt is TEXT, or the text of -p, or the content of the "
		"file of -f. Without any of these, or with -, it is read from "
		"standard input, without a newline at its end.\n\n"
		"With a diffusion model, --watch shows after each pass the "
		"part of the text that is not final. Colors distinguish masks, "
		"tokens that may change, tokens that stay, and guesses for "
		"later blocks; if NO_COLOR is set, the sign ~ precedes tokens "
		"that may change, and ? precedes guesses. With --json one "
		"object is printed after each pass: step, the number of the "
		"pass; first, the number of tokens that precede the part; and, "
		"for each position of the part, tokens, text (both null for a "
		"mask) and marks (m: mask, v: may change, s: stays, d: guess "
		"for a later block).\n\n"
		"With -N several samples of the prompt are generated side by "
		"side, each with its own random numbers (--temp). All samples "
		"are printed under headings, or only the one that the method "
		"chooses. With --json all are in the list samples: index, "
		"state (ended, cut, failed, incomplete), stop, text, ids, "
		"steps, logprob, certainty, confidence, score, time_s.\n\n"
		"Ctrl-C ends generation after the current token, with exit "
		"status 130; a second Ctrl-C ends the program at once. If the "
		"device process is lost, generation ends with exit status 3 "
		"after the text that was already printed.",
	.examples =
		"  tandem run 'Once upon a time'\n"
		"  tandem run -m model.gguf --chat -p 'Why is the sky blue?' --temp 0.8\n"
		"  tandem run --method lever --clock soc:sd8gen3 --stats 'Once upon a time'",
	.common = "model prompt file predict chat temp seed json-schema method "
		  "draft samples threads dram-budget clock json stats",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 1,
};

/* ---- one run ------------------------------------------------------------ */

struct run {
	struct tandem *tandem;
	/* what tandem_report() returned before any file was opened */
	struct tandem_report of;
	struct strbuf given; /* the prompt as given by the user */
	char *schema;
	struct tandem_request request;
	const char *stop[OPT_LIST_MAX + 1];
	struct token_list prompt;
	struct strbuf text; /* the output, for --json */
	struct watch watch; /* used only with --watch */
	bool all;           /* print all samples at the end */
	bool newline_due;   /* the last character printed is not a newline */
	/* error in writing standard output; 0 if there was none */
	int write_errno;
	uint64_t begin_ns;
};

static int print_token(void *arg, int32_t id, const char *text, size_t len)
{
	struct run *r = arg;

	if (watched && !as_json) {
		if (len)
			r->newline_due = text[len - 1] != '\n';
		r->write_errno = -watch_text(&r->watch, id, text, len);
		return -r->write_errno;
	}
	if (as_json) {
		strbuf_add(&r->text, text, len);
		return r->text.failed ? -ENOMEM : 0;
	}
	if (r->all)
		return 0;
	progress_report(&cmd_progress, NULL, 0, 0);
	if (as_ids) {
		if (id >= 0)
			printf("%s%d", r->newline_due ? " " : "", id);
		r->newline_due |= id >= 0;
	} else if (len) {
		fwrite(text, 1, len, stdout);
		r->newline_due = text[len - 1] != '\n';
	}
	if (fflush(stdout) || ferror(stdout))
		r->write_errno = errno ? errno : EIO;
	return -r->write_errno;
}

static int show_step(void *arg, const struct tandem_step *step)
{
	struct run *r = arg;

	r->write_errno = -watch_step(&r->watch, step);
	return -r->write_errno;
}

static void draw_window(const struct window_view *v)
{
	inspect_window_print(v, 0, 0, stderr);
}

/* Check the options that not every method supports: --watch needs a diffusion
 * model, because with other models generated text never changes; --show-samples
 * needs samples. If the method does not choose among the samples, print all
 * samples. Returns an exit status. */
static int check_method(struct run *r)
{
	const struct tandem_report *of = &r->of;
	double t = isnan(temperature) ? of->temperature : temperature;
	struct strbuf fit = STRBUF_INIT;
	struct method_facts m;
	int status;

	if (watched && !of->diffusion) {
		for (size_t i = 0; method_facts(i, &m); i++)
			if (m.diffusion)
				strbuf_addf(&fit, "%s%s", fit.len ? ", " : "",
					m.name);
		status = cmd_misuse(&cmd_run,
			"--watch cannot be used with method %s, which writes "
			"its text in order; it shows methods that fill masks: "
			"%s",
			of->method, fit.data ? fit.data : "");
		strbuf_release(&fit);
		return status;
	}
	if (with_samples && !of->many)
		return cmd_misuse(&cmd_run,
			"--show-samples cannot be used with method %s, which "
			"generates one text; try -N 8",
			of->method);
	if (of->wanted > 1 && t == 0)
		cmd_warn("all samples have the same text at temperature 0; try "
			 "--temp 0.8");
	if (of->wanted > 1)
		tandem_watch_samples(r->tandem, samples_draw);
	r->all =
		!as_json && (with_samples || (of->keeps_all && of->wanted > 1));
	return EXIT_OK;
}

/* Read the schema before any file is opened, so that an error is reported at
 * once. Returns an exit status. */
static int read_schema(struct run *r)
{
	struct json_nodes *nodes = NULL;
	struct err e = { 0 };
	size_t len;
	int ret = 0;

	if (!schema_option)
		return EXIT_OK;
	/* A schema is a JSON object, which begins with a brace; a text that
	 * begins with another character is a path. */
	if (schema_option[strspn(schema_option, " \t\r\n")] != '{')
		ret = fd_read_file(
			schema_option, PROMPT_MAX, &r->schema, &len, &e);
	else if (!(r->schema = strdup(schema_option)))
		ret = err_set(&e, ENOMEM, "no memory for a schema");
	if (ret)
		return cmd_fail(&e);
	ret = json_nodes_open(&nodes, r->schema, &e);
	if (!ret)
		json_nodes_close(nodes);
	return ret ? cmd_refuse(&cmd_run, &e) : EXIT_OK;
}

/* ---- the prompt ---------------------------------------------------------- */

static int no_prompt(const char *why)
{
	return cmd_misuse(&cmd_run,
		"no prompt: %s; give a TEXT, -p TEXT or -f FILE, or pipe one "
		"in",
		why);
}

/* Read the prompt before any file is opened, so that a missing prompt is
 * reported at once. Returns an exit status. */
static int read_prompt(struct run *r, const char *operand)
{
	struct strbuf *text = &r->given;
	struct err e = { 0 };
	char *data = NULL;
	size_t len;

	if (!!operand + !!prompt_text + !!prompt_file > 1)
		return cmd_misuse(&cmd_run,
			"more than one prompt; give one TEXT, or one of -p and "
			"-f");
	piped = operand ? !strcmp(operand, "-") : !prompt_text && !prompt_file;
	if (piped && !operand && isatty(STDIN_FILENO))
		return no_prompt("standard input is a terminal");
	if (piped)
		prompt_file = "-";
	else if (operand)
		prompt_text = operand;
	if (prompt_text) {
		strbuf_add(text, prompt_text, strlen(prompt_text));
	} else {
		if (fd_read_file(prompt_file, PROMPT_MAX, &data, &len, &e))
			return cmd_fail(&e);
		/* Remove the last newline of piped text. The shell or an editor
		 * has added it, and a prompt rarely ends with a newline on
		 * purpose. */
		if (piped && len && data[len - 1] == '\n')
			len--;
		strbuf_add(text, data, len);
		free(data);
	}
	if (text->failed) {
		err_set(&e, ENOMEM, "no memory for the prompt");
		return cmd_fail(&e);
	}
	if (!text->len && piped)
		return no_prompt("standard input is empty");
	if (!text->len && !no_bos)
		cmd_warn("the prompt is empty; generation starts from the "
			 "beginning-of-text token");
	if (!n_predict && !as_json)
		cmd_warn("-n 0 generates no token: the prompt is only read");
	return EXIT_OK;
}

/* Return `status`; if it is not 0, store the handle's error in *e. */
static int failed(const struct run *r, int status, struct err *e)
{
	if (status)
		tandem_failure(r->tandem, e);
	return status;
}

/* ---- opening ------------------------------------------------------- */

static int run_open(struct run *r, struct err *e)
{
	struct tandem_report of;
	int ret;
	struct tandem_request *q = &r->request;

	tandem_request_init(q, sizeof(*q));
	q->prompt = r->given.data ? r->given.data : "";
	q->prompt_bytes = r->given.len;
	q->system = system_text;
	q->flags = (chat ? TANDEM_CHAT : 0) | (special ? TANDEM_SPECIAL : 0) |
		(ignore_eos ? TANDEM_IGNORE_EOS : 0) |
		(no_bos ? TANDEM_NO_BOS : 0);
	q->max_tokens = n_predict;
	memcpy(r->stop, stop_strings.item,
		stop_strings.n * sizeof(*stop_strings.item));
	q->stop = r->stop;
	q->json_schema = r->schema;
	q->temperature = temperature;
	q->top_k = (uint32_t)top_k;
	q->top_p = top_p;
	q->min_p = min_p;
	q->repeat_penalty = repeat_penalty;
	q->repeat_last = (uint32_t)repeat_last;
	q->seed = (uint64_t)seed;
	q->stream = (uint64_t)stream;
	q->sink = print_token;
	q->sink_arg = r;
	q->step = watched ? show_step : NULL;
	q->step_arg = r;

	if ((ret = tandem_read_model(r->tandem, model_path)))
		return failed(r, ret, e);
	tandem_report(r->tandem, &of);
	ret = tandem_prompt_tokens(
		r->tandem, q, &r->prompt.id, &r->prompt.n, e);
	if (!ret && !r->prompt.n)
		ret = err_set(e, EINVAL,
			"the prompt is empty and --no-bos was given, so there "
			"is nothing to continue");
	if (ret || tandem_check_room(r->tandem, r->prompt.n, n_predict, e))
		return TANDEM_FAILED;
	q->tokens = r->prompt.id;
	q->n_tokens = r->prompt.n;
	r->watch.tokenizer = of.tokenizer;
	if (of.pair->context > of.model->n_ctx)
		cmd_warn("--ctx %u is more than the %u tokens the model was "
			 "trained for",
			of.pair->context, of.model->n_ctx);
	return failed(
		r, tandem_start_for(r->tandem, r->prompt.n, n_predict), e);
}

/* ---- the end of a run ---------------------------------------------------- */

/* End the text, which tandem_generate has printed, and print the report, even
 * if tandem_generate failed (`ret`). Returns enum tandem_status. */
static int print_end(struct run *r, const struct tandem_result *result, int ret,
	struct err *e)
{
	struct run_report rep = { .tandem = r->tandem,
		.begin_ns = r->begin_ns };
	struct err odd = { 0 };

	tandem_report(r->tandem, &rep.of);
	if (!rep.of.generation)
		return ret;
	if (watched && !r->write_errno)
		r->write_errno = -watch_end(&r->watch);
	if (!ret && (result->stop == TANDEM_STOP_SINK || r->write_errno)) {
		err_set(e, EIO, "cannot write the text: %s",
			strerror(r->write_errno ? r->write_errno : ENOMEM));
		ret = TANDEM_FAILED;
	}
	progress_report(&cmd_progress, NULL, 0, 0);
	if (r->all &&
		samples_print(r->tandem, rep.of.n_samples, as_ids, stdout))
		r->write_errno = errno ? errno : EIO;
	/* End the text with a newline: on a terminal, so that the shell's
	 * prompt starts a new line; in a pipe, as is usual for text files. */
	if (!as_json) {
		if (r->newline_due)
			putchar('\n');
		fflush(stdout);
		r->newline_due = false;
	}

	/* Print the report. If printing fails, the command fails with this
	 * error, unless there was an earlier one. */
	rep.error = ret ? e->text : NULL;
	rep.stop = ret == TANDEM_CANCELED ? "interrupted"
		: ret == TANDEM_LOST      ? "lost"
		: ret                     ? "error"
		      : gen_stop_name(gen_stop_reason(rep.of.generation));
	if (as_json && report_json(&rep, &r->text, stdout) && !ret) {
		err_sys(e, errno ? errno : EIO,
			"cannot write to standard output");
		ret = TANDEM_FAILED;
	}
	if (with_stats)
		report_text(&rep, stderr);
	if (!ret)
		samples_warn(r->tandem, rep.of.n_samples);
	if (tandem_check_finite(r->tandem, &odd))
		cmd_warn("%s", odd.text);
	if (gen_stop_reason(rep.of.generation) == GEN_STOP_CONTEXT) {
		if (rep.of.context < rep.of.model->n_ctx)
			cmd_warn("the text was cut: the context of %u tokens "
				 "is full; try a larger --ctx (the model was "
				 "trained for %u)",
				rep.of.context, rep.of.model->n_ctx);
		else
			cmd_warn("the text was cut: the context of %u tokens "
				 "is full, and the model was trained for no "
				 "more than %u",
				rep.of.context, rep.of.model->n_ctx);
	}
	return ret;
}

static int run_main(int argc, char **argv)
{
	struct run r = { .begin_ns = clock_ns() };
	struct tandem_result result = { .size = sizeof(result) };
	struct err e = { 0 }, closing = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_run, argc, argv, &operands, &status))
		return status;
	if (system_text && !chat)
		return cmd_misuse(&cmd_run, "--system needs --chat");
	if (as_ids && as_json)
		return cmd_misuse(&cmd_run,
			"--ids and --json exclude each other; --json has the "
			"ids");
	if (as_ids && watched)
		return cmd_misuse(&cmd_run,
			"--ids and --watch exclude each other; --watch --json "
			"has the ids");
	if (schema_option && ignore_eos)
		return cmd_misuse(&cmd_run,
			"--json-schema and --ignore-eos exclude each other: "
			"generation stops when the JSON text is complete");
	if (top_p <= 0)
		return cmd_misuse(&cmd_run, "--top-p must be more than 0");
	for (unsigned i = 0; i < stop_strings.n; i++)
		/* Refuse invalid UTF-8: an incomplete character at the end of a
		 * stop string would match the first bytes of a character of the
		 * text. */
		if (!utf8_is_valid(
			    stop_strings.item[i], strlen(stop_strings.item[i])))
			return cmd_misuse(&cmd_run,
				"--stop '%s' is not valid UTF-8",
				stop_strings.item[i]);
	if (cmd_create(&r.tandem, &values, &e))
		return cmd_refuse(&cmd_run, &e);
	if (verbose)
		tandem_pair(r.tandem)->window_refused = draw_window;
	tandem_report(r.tandem, &r.of);
	if (watched)
		watch_init(&r.watch, as_json);
	cmd_before_end(watched ? watch_leave : NULL);
	/* Refuse options that have no effect with this drafter and reward
	 * model. */
	status = tandem_check_needless(r.tandem, false, &e)
		? cmd_refuse(&cmd_run, &e)
		: EXIT_OK;
	if (!status && !(status = check_method(&r)) &&
		!(status = read_schema(&r)))
		status = read_prompt(&r, operands ? argv[1] : NULL);
	ret = status ? 0 : run_open(&r, &e);
	if (!status && !ret) {
		cmd_catch_signals();
		cmd_interrupts(r.tandem);
		ret = failed(
			&r, tandem_generate(r.tandem, &r.request, &result), &e);
		cmd_interrupts(NULL);
		ret = print_end(&r, &result, ret, &e);
	}
	ret = cmd_closed(ret, tandem_end(r.tandem, &closing), &closing, &e);
	free(r.prompt.id);
	strbuf_release(&r.given);
	free(r.schema);
	strbuf_release(&r.text);
	watch_release(&r.watch);
	signal(SIGPIPE, SIG_DFL);
	if (r.write_errno == EPIPE)
		raise(SIGPIPE); /* end by SIGPIPE, as is usual for filters */
	if (ret == TANDEM_CANCELED)
		return EXIT_INTERRUPTED;
	return ret ? cmd_fail(&e) : status;
}

const struct command cmd_run = { .usage = &usage, .run = run_main };
