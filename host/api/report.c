#include "host/api/report.h"

#include "base/process_maps.h"
#include "host/api/tandem_impl.h"
#include "host/method/methods.h"
#include "host/model/model.h"
#include "host/api/request_impl.h"
#include "host/head/reward.h"
#include "host/method/beams.h"
#include "host/method/choosing.h"
#include "host/method/decided.h"
#include "host/method/early_stop.h"
#include "host/scheduler/samples.h"
#include "host/npu/npu.h"
#include "host/text/chat.h"
#include "host/text/tokenizer.h"

#include <math.h>

_Static_assert((int)REPORT_CAUSAL == (int)METHOD_CAUSAL &&
		(int)REPORT_WINDOW == (int)METHOD_WINDOW &&
		(int)REPORT_BLOCK == (int)METHOD_BLOCK,
	"bits are copied without a conversion");

void tandem_report(const struct tandem *t, struct tandem_report *r)
{
	const struct decoder *d = &t->decoder;
	const struct tandem_submitted *x = t->last;
	const struct method *m = d->method;
	const struct samples_options *asked =
		opt_values_of(&d->options, &samples_table);
	const struct early_stop_options *early =
		opt_values_of(&d->options, &early_stop_table);
	const struct beam_options *beams =
		opt_values_of(&d->options, &beam_table);

	*r = (struct tandem_report){
		.pair = &d->session_opts,
		.method = m->name,
		.needs_draft = m->needs_draft,
		.needs_reward = m->needs_reward,
		.runs = method_runs(m),
		.logits_emitted = m->lossless && !m->logits_ahead,
		.chooses_last = m->chooser && !decided_is_on(&d->env) &&
			!(early->on && method_uses(m, &early_stop_table)),
		.group = method_uses(m, &beam_table) ? beams->width : 1,
		.diffusion = m->diffusion,
		.emits_at_once = decoder_emits_at_once(d),
		.many = method_uses(m, &samples_table),
		.votes = method_uses(m, &answer_table),
		.keeps_all = m == &method_sample,
		.wanted = asked->n,
		.shares = decoder_shares(d),
		.knows_text = drafting_needs_text(&d->drafting),
		.temperature = decoder_temperature(d, NAN),
		.model_path = d->model_path,
		.model = d->model,
		.tokenizer = d->tokenizer,
		.chats = d->model && chat_of(d->model->gguf) > CHAT_UNKNOWN,
		.token_bytes =
			d->tokenizer ? tokenizer_token_bytes(d->tokenizer) : 0,
		.history = d->history,
		.weighs = m->probe,
		.dead = t->dead,
		.drafts = d->env.stats,
	};
	if (decoder_drafts(d)) {
		r->drafter = d->drafting.name;
		r->drafter_path = d->drafting.path;
	}
	if (d->model) {
		decoder_priced_as(d, r->priced_as);
		r->kind = d->model->causal       ? REPORT_CAUSAL
			: d->model->block_length ? REPORT_BLOCK
						 : REPORT_WINDOW;
	}
	if (d->session) {
		r->context = session_context(d->session);
		r->flash = session_flash_how(d->session);
		r->profile = d->profile;
		r->probe_passes = d->probed.passes;
		session_stats(d->session, &r->total);
		r->pass_bytes = session_read_bytes(d->session);
		r->graphs = session_graph_log(d->session, &r->n_graphs);
	}
	if (d->reward) {
		r->reward = reward_name(d->reward);
		reward_stats(d->reward, &r->scored);
	}
	if (x) {
		r->generation = x->generation;
		r->began_ns = x->began_ns;
		r->ended_ns = x->ended_ns;
		r->work = x->work;
		r->kept = d->kept;
	}
	if (x && x->samples) {
		r->n_samples = samples_count(x->samples);
		samples_stats(x->samples, &r->samples);
	}
}

void tandem_method_line(const struct tandem *t, struct strbuf *line)
{
	const struct decoder *d = &t->decoder;
	const struct method *m = d->method;
	const struct samples *p = t->last ? t->last->samples : NULL;

	if (m->report && d->env.stats.cycles)
		m->report(&d->env, line);
	if (p && samples_count(p) && m->many->report)
		m->many->report(p, line);
}

uint64_t tandem_huge_bytes(const struct tandem *t)
{
	return process_huge_bytes(npu_pid(session_npu(t->decoder.session)));
}

int tandem_failure(const struct tandem *t, struct err *e)
{
	*e = t->err;
	return e->code;
}
