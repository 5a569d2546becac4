#include "host/cmd/run_report.h"

#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/cmd/json_text.h"
#include "host/cmd/report_parts.h"
#include "host/cmd/samples_view.h"
#include "host/model/model.h"
#include "host/text/generation.h"
#include "host/text/history.h"
#include "tensor/soc/soc.h"

#include <inttypes.h>
#include <string.h>

#define JSON_VERSION 1

struct rates {
	/* first_s: seconds from the start of the prompt to the first token */
	double load_s, first_s, total_s;
	/* speeds in tokens/s; 0 if there was no such phase */
	double prefill, decode;
};

static double seconds(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) * 1e-9 : 0;
}

static double per_second(size_t n, double s)
{
	return s > 0 ? (double)n / s : 0;
}

/*
 * Prefill ends with the first token; the time after the first token is
 * decoding. If there is no token, all the time is prefill. A method that emits
 * many tokens at once has only one speed, which includes the prompt.
 */
static struct rates rates_of(const struct run_report *r)
{
	const struct generation *g = r->of.generation;
	const bool whole = r->of.emits_at_once;
	uint64_t first = gen_first_ns(g) ? gen_first_ns(g) : r->of.ended_ns;
	size_t n = gen_generated(g);

	return (struct rates){
		.load_s = seconds(r->begin_ns, r->of.began_ns),
		.first_s = seconds(r->of.began_ns, first),
		.total_s = seconds(r->begin_ns, r->of.ended_ns),
		.prefill = whole
			? 0
			: per_second(n ? gen_prompt_length(g) : r->of.work.rows,
				  seconds(r->of.began_ns, first)),
		.decode = whole
			? per_second(n, seconds(r->of.began_ns, r->of.ended_ns))
			: per_second(n ? n - 1 : 0,
				  seconds(first, r->of.ended_ns)),
	};
}

static double per(uint64_t sum, uint64_t n)
{
	return n ? (double)sum / (double)n : 0;
}

static double share(uint64_t ns, double s)
{
	return s > 0 ? (double)ns * 1e-9 / s : 0;
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

/* Times and energy of the run on the simulated phone. */
struct phone {
	/* times in seconds; decode in tokens/s */
	double prompt_s, total_s, decode;
	/* energy_j includes the prompt; energy_per_token_j is energy_j divided
	 * by the number of generated tokens */
	double energy_j, energy_per_token_j;
};

static struct phone phone_of(const struct run_report *r)
{
	const struct session_stats *s = &r->of.work;
	double prompt = (double)s->prompt_ps * 1e-12;
	double total = (double)s->price.total_ps * 1e-12;
	double energy_j = (double)s->price.energy_pj * 1e-12 +
		r->of.pair->soc->base_w * total;
	size_t n = gen_generated(r->of.generation);

	return (struct phone){ prompt, total, per_second(n, total - prompt),
		energy_j, n ? energy_j / (double)n : 0 };
}

/* Print how the rows of the passes after the prompt were used, and the results
 * of drafting. */
static void decoding_text(const struct run_report *r, double run_s, FILE *f)
{
	const struct row_counts *c = &r->of.work.decode_rows;
	const struct method_stats *m = &r->of.drafts;
	struct strbuf line = STRBUF_INIT;
	unsigned sources = 0;

	if (c->passes) {
		fprintf(f,
			"rows         %" PRIu64 " rows of graphs in %" PRIu64
			" passes after the prompt: %.1f %% valid, %.1f %% "
			"wasted (rejected drafts), %.1f %% underutilized "
			"(padding); %.1f %% would be valid with graphs of "
			"whole tiles of rows",
			c->graph, c->passes,
			100 * row_counts_share(c->valid, c->graph),
			100 * row_counts_share(row_counts_wasted(c), c->graph),
			100 *
				row_counts_share(
					row_counts_underutilized(c), c->graph),
			100 * row_counts_share(c->valid, c->tile));
		if (r->of.pair->soc)
			fprintf(f, "; %.2f mJ a token",
				1e3 * phone_of(r).energy_per_token_j);
		fputc('\n', f);
	}
	if (m->cycles)
		fprintf(f,
			"draft        by %s\n"
			"             %" PRIu64 " cycles, %" PRIu64
			" tokens drafted, %" PRIu64
			" accepted (%.1f %%), mean accepted length %.2f; "
			"drafting took %.1f %% of the time\n",
			r->of.drafter ? r->of.drafter : "the model itself",
			m->cycles, m->drafted, m->accepted,
			100 * method_acceptance(m), method_accepted_length(m),
			100 * share(m->draft_ns, run_s));
		/* Print how many drafted tokens from each source, such as the
		 * history or a draft model, were accepted, if there is more
		 * than one source. */
#define COUNT(id, name) sources += m->name##_rows > 0;
	DRAFT_SOURCES(COUNT)
#undef COUNT
	if (m->cycles && sources > 1) {
		const char *comma = "";

		fputs("             accepted by source:", f);
#define PUT(id, name)                                                     \
	if (m->name##_rows) {                                             \
		fprintf(f, "%s %s %" PRIu64 " of %" PRIu64, comma, #name, \
			m->name##_accepted, m->name##_rows);              \
		comma = ",";                                              \
	}
		DRAFT_SOURCES(PUT)
#undef PUT
		fputc('\n', f);
	}
	tandem_method_line(r->tandem, &line);
	if (line.len)
		fprintf(f, "%s\n", line.data);
	strbuf_release(&line);
	if (m->skipped || m->revised)
		fprintf(f,
			"diffusion    %" PRIu64 " tokens revised, %" PRIu64
			" rows recomputed by the host, logits of %" PRIu64
			" rows not computed because their tokens are final\n",
			m->revised, m->refreshed, m->skipped);
}

static void experts_text(const struct run_report *r, FILE *f)
{
	const struct session_stats *s = &r->of.work;
	const struct experts_stats *x = &s->experts;
	const struct stream_stats *io = &x->stream;

	fprintf(f,
		"experts      %u of %u in memory; of %" PRIu64 " uses, %.1f "
		"%% found the expert in memory, and for %.1f %% it was read "
		"ahead, wholly or in part\n",
		s->expert_slots, r->of.model->n_layer * r->of.model->n_expert,
		x->used, 100 * per(x->found, x->used),
		100 * per(x->found_ahead, x->used));
	if (!r->of.flash)
		return;
	fprintf(f,
		"             %" PRIu64 " read: %" PRIu64 " of them ahead, "
		"of which %" PRIu64 " were never used; %.1f MiB a pass, %.2f "
		"GB/s, %.3f s waiting for reads\n"
		"             %s\n",
		x->read, x->read_ahead, x->unused,
		per(io->bytes, s->passes) / (1 << 20),
		per(io->seen_bytes, io->seen_ns), (double)x->wait_ns * 1e-9,
		r->of.flash);
}

static void flash_text(const struct run_report *r, FILE *f)
{
	const struct session_stats *s = &r->of.work;
	const struct staging_stats *st = &s->staging;
	const struct stream_stats *io = &st->stream;
	static const char *const labels[] = {
		[PROFILE_NONE] = ("none; the costs of passes are learned as "
				  "they run"),
		[PROFILE_PROBED] = "measured when the model was opened, by",
		[PROFILE_REMEMBERED] = "remembered from an earlier measurement",
	};

	fprintf(f,
		"flash        %u of %u layers in memory, in %u group%s of "
		"adjacent layers, %.1f MiB read a pass, %.2f GB/s, %" PRIu64
		" retries, %.3f s waiting for reads, %.3f s computing "
		"checksums\n"
		"             through %u staging slots of %.1f MiB, a layer "
		"in %u part%s, the output matrix %s\n"
		"             %s\n",
		s->resident_layers, r->of.model->n_layer, s->resident_runs,
		s->resident_runs > 1 ? "s" : "",
		per(st->bytes_used + st->output_used, s->passes) / (1 << 20),
		per(io->seen_bytes, io->seen_ns), io->retries,
		(double)io->wait_ns * 1e-9, (double)io->check_ns * 1e-9,
		s->stage_slots, mib(s->stage_bytes), s->stage_parts,
		s->stage_parts > 1 ? "s" : "",
		s->output_streamed ? "streamed" : "in memory", r->of.flash);
	if (!r->of.weighs)
		return;
	fprintf(f, "profile      %s", labels[r->of.profile]);
	if (r->of.profile == PROFILE_PROBED)
		fprintf(f, " %" PRIu64 " passes", r->of.probe_passes);
	fputc('\n', f);
}

/* Convert a time of graph switching to seconds: from ps of the phone's time if
 * a phone is modeled, otherwise from ns of the wall clock. */
static double switch_s(const struct session_opts *o, uint64_t time)
{
	return (double)time * (o->soc ? 1e-12 : 1e-9);
}

static void switch_text(
	const struct switch_stats *s, const struct session_opts *o, FILE *f)
{
	if (!s->blocks)
		return;
	fprintf(f,
		"graphs       switched by %s: %u blocks, graphs of %u rows for "
		"prompts and of %u for decoding; %" PRIu64
		" loads of decode graphs took %.3f s, of which the device "
		"waited %.3f s; %" PRIu64
		" loads of prompt graphs took %.3f s; prompts took %.3f s, "
		"%.3f s as planned; at most %u graphs loaded, %.1f MiB (%s "
		"clock)\n",
		graph_switch_names[o->graph_switch], s->blocks, s->prefill_rows,
		s->decode_rows, s->loads, switch_s(o, s->load_time),
		switch_s(o, s->wait_time), s->reloads,
		switch_s(o, s->reload_time), switch_s(o, s->prompt_time),
		switch_s(o, s->planned_time), s->most_graphs,
		s->most_graphs_kib / 1024.0, o->soc ? "phone" : "wall");
}

/* Print the use of the device and of its memory. */
static void device_text(const struct run_report *r, FILE *f)
{
	const struct session_stats *s = &r->of.work;
	const struct session_opts *o = r->of.pair;

	if (s->placement != PLACEMENT_BELADY) {
		fprintf(f,
			"placement    %s: %.1f MiB of weights stay mapped, "
			"%" PRIu64
			" copies of %.1f MiB, the device waited %.3f s",
			placement_names[s->placement], mib(s->resident_bytes),
			s->copies, mib(s->copied_bytes),
			(double)s->stall_ns * 1e-9);
		if (o->soc)
			fprintf(f, ", %.3f s on the phone",
				(double)s->stall_ps * 1e-12);
		fputc('\n', f);
	}
	fprintf(f,
		"window       %.1f of %.1f MiB mapped, %.1f MiB of these in "
		"huge pages, %" PRIu64 " maps, %" PRIu64 " unmaps, weights "
		"%.1f MiB, cache %.1f MiB for %u tokens\n"
		"coherence    %s: %" PRIu64 " lines invalidated, %" PRIu64
		" cleaned, %" PRIu64 " evicted, %" PRIu64 " violations\n",
		mib(s->bytes_mapped), mib(o->va_window),
		mib(tandem_huge_bytes(r->tandem)), s->maps, s->unmaps,
		mib(s->weight_bytes), mib(s->kv_bytes), r->of.context,
		coherence_names[o->coherence], s->invalidated_lines,
		s->cleaned_lines, s->evicted_lines, s->violations);
	fprintf(f,
		"device       %u threads, %s kernels, %s, busy %.3f s, %.1f "
		"MiB by DMA, %" PRIu64 " values too large for fp16\n",
		s->threads, s->kern, precision_names[o->precision],
		(double)s->busy_ns * 1e-9, mib(s->dma_bytes), s->saturated);
	if (s->mixed_passes)
		fprintf(f,
			"attention    %.1f MiB of keys and values read; %.1f "
			"MiB if rows did not share reads\n",
			mib(s->kv_read_bytes), mib(s->kv_apart_bytes));
	if (s->remaps) {
		fprintf(f, "remaps       %.2f maps and %.2f MiB a pass",
			per(s->remaps, s->passes),
			per(s->remap_bytes, s->passes) / (1 << 20));
		/* On a phone, the time is the modeled cost of the remaps plus
		 * the waits for free space in the window. */
		if (o->soc)
			fprintf(f, ", %.3f ms of the phone's time a pass",
				per(s->stall_ps, s->passes) * 1e-9);
		fputc('\n', f);
	}
	if (s->extended_room)
		fprintf(f,
			"extended     %.1f of %.1f MiB of the extended "
			"region used, by %" PRIu64 " buffers; DMA reads %.2f "
			"MiB a pass from there\n",
			mib(s->extended_bytes), mib(s->extended_room),
			s->extended_buffers,
			per(s->extended_read, s->passes) / (1 << 20));
}

void report_text(const struct run_report *r, FILE *f)
{
	const struct session_stats *s = &r->of.work;
	const struct tandem_report *of = &r->of;
	const struct generation *g = of->generation;
	const struct session_opts *o = of->pair;
	const struct reward_stats *scored = &r->of.scored;
	const struct price *p = &s->price;
	struct history_stats kept;
	struct rates t = rates_of(r);

	priced_text(of, f);
	fprintf(f,
		"model        %s, %s, %u layers in %u blocks\n"
		"tokens       %zu prompt, %zu generated, stopped by %s\n"
		"time         %.3f s to load, %.3f s to the %s, "
		"%.3f s in all (wall clock)\n",
		of->model_path, of->model->arch, of->model->n_layer, s->blocks,
		gen_prompt_length(g), gen_generated(g), r->stop, t.load_s,
		t.first_s, gen_first_ns(g) ? "first token" : "end", t.total_s);
	if (of->emits_at_once)
		fprintf(f, "speed        %.2f tokens/s, prompt included\n",
			t.decode);
	else
		fprintf(f,
			"speed        %.2f tokens/s prefill, %.2f tokens/s "
			"decode\n",
			t.prefill, t.decode);
	fprintf(f,
		"passes       %" PRIu64 ", %" PRIu64 " rows and %" PRIu64
		" of padding, method %s\n"
		"logits       %" PRIu64 " rows used, %" PRIu64
		" computed in %.3f s, hash %016" PRIx64 "\n"
		"ring         %" PRIu64 " round trips, %" PRIu64
		" sleeps, doorbell %s\n",
		s->passes, s->rows, s->padded_rows, of->method, s->logits_rows,
		s->logits_computed, (double)s->logits_ns * 1e-9, s->logits_hash,
		s->round_trips, s->sleeps, doorbell_names[o->doorbell]);
	if (s->restarts)
		fprintf(f,
			"restarts     %" PRIu64
			" of a device that was lost, %.1f ms in all\n",
			s->restarts, (double)s->restart_ns / 1e6);
	decoding_text(r, t.total_s - t.load_s, f);
	if (of->n_samples)
		samples_report(
			r->tandem, of, seconds(of->began_ns, of->ended_ns), f);
	if (of->reward) {
		fprintf(f,
			"reward       %s: %" PRIu64 " steps of %" PRIu64
			" texts scored; %" PRIu64 " tokens, %" PRIu64
			" rows computed in %" PRIu64 " passes, %.3f s",
			of->reward, scored->steps, scored->texts,
			scored->tokens, scored->rows, scored->passes,
			(double)scored->ns * 1e-9);
		if (o->soc)
			fprintf(f, ", %.4f s of the phone",
				(double)scored->ps * 1e-12);
		fputc('\n', f);
	}
	if (of->history) {
		history_stats(of->history, &kept);
		fprintf(f,
			"history      %" PRIu64 " answers, %" PRIu64
			" tokens with their prompts, %.1f MiB; this answer "
			"is %s\n",
			kept.records, kept.prompt_tokens + kept.answer_tokens,
			mib(kept.file_bytes), of->kept ? "kept" : "not kept");
	}
	if (s->expert_slots)
		experts_text(r, f);
	else if (of->flash)
		flash_text(r, f);
	switch_text(&s->graphs, o, f);
	device_text(r, f);
	if (s->rows_not_finite || s->weights_not_finite)
		fprintf(f,
			"not finite   %" PRIu64 " of %" PRIu64 " rows of "
			"logits, %" PRIu64 " weights of the model file\n",
			s->rows_not_finite, s->logits_computed,
			s->weights_not_finite);
	if (o->soc) {
		struct phone on = phone_of(r);

		fprintf(f,
			"phone        %s: %.4f s prompt, %.4f s in all, %.2f "
			"tokens/s decode, %.2f J; shares of the time: DMA %.0f "
			"%%, vector %.0f %%, matrix %.0f %%, CPU %.0f %%\n",
			o->clock, on.prompt_s, on.total_s, on.decode,
			on.energy_j, 100 * per(p->dma_ps, p->total_ps),
			100 * per(p->vector_ps, p->total_ps),
			100 * per(p->matrix_ps, p->total_ps),
			100 * per(p->cpu_ps, p->total_ps));
	}
}

static json_t *ids_json(const int32_t *id, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer(id[i]));
	return list;
}

/* Add a time in seconds. `name` ends in "ns"; the key has "s" there instead. */
static void put_seconds(json_t *o, const char *name, uint64_t ns)
{
	char key[32];

	snprintf(key, sizeof(key), "%.*ss", (int)strlen(name) - 2, name);
	put_real(o, key, (double)ns * 1e-9);
}

#define PUT_APART(name)
#define PUT_WHOLE(name)   put_u64(o, #name, s->name);
#define PUT_SECONDS(name) put_seconds(o, #name, s->name);
#define PUT_ROWS(name)    json_object_set_new(o, #name, rows_json(&s->name));

static void put_stats(json_t *o, const struct session_stats *s)
{
	char hash[17];

	snprintf(hash, sizeof(hash), "%016" PRIx64, s->logits_hash);
	put_str(o, "logits_hash", hash);
#define PUT(since, report, name) PUT_##report(name)
	SESSION_STATS(PUT)
#undef PUT
	put_real(o, "device_s", (double)s->busy_ns * 1e-9);
	put_u64(o, "blocks", s->blocks);
	put_u64(o, "layers_per_block", s->layers_per_block);
	put_u64(o, "threads", s->threads);
	put_str(o, "kernels", s->kern);
}

static void put_draft(json_t *o, const struct run_report *r)
{
	const struct method_stats *m = &r->of.drafts;
	struct rates t = rates_of(r);

	if (r->of.diffusion) {
		put_u64(o, "revised_tokens", m->revised);
		put_u64(o, "refreshed_rows", m->refreshed);
		put_u64(o, "skipped_logits_rows", m->skipped);
	}
	if (!m->cycles)
		return;
	if (r->of.drafter)
		put_str(o, "draft_model", r->of.drafter);
	json_object_set_new(
		o, "acceptance_simulated", json_boolean(r->of.knows_text));
	put_u64(o, "tree_rows_kept", m->kept);
	put_u64(o, "nodes_expanded", m->expanded);
	put_u64(o, "pruned_cycles", m->pruned);
	put_drafts(o, m);
#define PUT(id, name)                                              \
	if (m->name##_rows) {                                      \
		put_u64(o, "drafted_" #name, m->name##_rows);      \
		put_u64(o, "accepted_" #name, m->name##_accepted); \
	}
	DRAFT_SOURCES(PUT)
#undef PUT
	put_real(o, "draft_time_share",
		share(m->draft_ns, t.total_s - t.load_s));
}

static void put_experts(json_t *out, const struct run_report *r)
{
	const struct session_stats *s = &r->of.work;
	const struct experts_stats *x = &s->experts;
	json_t *o;

	if (!s->expert_slots)
		return;
	o = json_object();
	put_u64(o, "experts", r->of.model->n_layer * r->of.model->n_expert);
	put_u64(o, "slots", s->expert_slots);
	put_u64(o, "used", x->used);
	put_u64(o, "found", x->found);
	put_u64(o, "found_ahead", x->found_ahead);
	put_u64(o, "read", x->read);
	put_u64(o, "read_ahead", x->read_ahead);
	put_u64(o, "unused", x->unused);
	put_u64(o, "unused_bytes", x->unused_bytes);
	put_real(o, "wait_s", (double)x->wait_ns * 1e-9);
	put_u64(o, "wait_ps", x->wait_ps);
	if (r->of.flash)
		put_str(o, "how", r->of.flash);
	put_u64(o, "bytes_read", x->stream.bytes);
	put_u64(o, "reads", x->stream.reads);
	put_real(o, "busy_s", (double)x->stream.busy_ns * 1e-9);
	put_real(o, "pass_s", (double)s->pass_ns * 1e-9);
	json_object_set_new(out, "experts", o);
}

static void put_flash(json_t *out, const struct run_report *r)
{
	const struct session_stats *s = &r->of.work;
	const struct stream_stats *io = &s->staging.stream;
	json_t *o;

	if (!r->of.flash || s->expert_slots)
		return;
	o = json_object();
	put_str(o, "how", r->of.flash);
	put_u64(o, "resident_layers", s->resident_layers);
	put_u64(o, "resident_runs", s->resident_runs);
	put_u64(o, "layers", r->of.model->n_layer);
	put_u64(o, "slots", s->stage_slots);
	put_u64(o, "slot_bytes", s->stage_bytes);
	put_u64(o, "parts", s->stage_parts);
	put_u64(o, "layers_used", s->staging.layers_used);
	put_u64(o, "bytes_used", s->staging.bytes_used);
	json_object_set_new(
		o, "output_streamed", json_boolean(s->output_streamed));
	put_u64(o, "output_bytes_used", s->staging.output_used);
	put_real(o, "bytes_per_pass", per(s->staging.bytes_used, s->passes));
	put_u64(o, "bytes_read", io->bytes);
	put_u64(o, "reads", io->reads);
	put_u64(o, "retries", io->retries);
	put_real(o, "busy_s", (double)io->busy_ns * 1e-9);
	put_u64(o, "bytes_seen", io->seen_bytes);
	put_real(o, "seen_s", (double)io->seen_ns * 1e-9);
	put_real(o, "wait_s", (double)io->wait_ns * 1e-9);
	put_real(o, "check_s", (double)io->check_ns * 1e-9);
	put_real(o, "pass_s", (double)s->pass_ns * 1e-9);
	json_object_set_new(out, "flash", o);
}

static void put_phone(json_t *out, const struct run_report *r)
{
	const struct price *p = &r->of.work.price;
	json_t *o, *counts;
	struct phone t;

	if (!r->of.pair->soc)
		return;
	t = phone_of(r);
	o = json_object();
	put_str(o, "clock", r->of.pair->clock);
	put_real(o, "prompt_s", t.prompt_s);
	put_real(o, "total_s", t.total_s);
	put_real(o, "decode_tokens_per_s", t.decode);
	put_real(o, "energy_j", t.energy_j);
	put_real(o, "energy_per_token_j", t.energy_per_token_j);
	put_u64(o, "total_ps", p->total_ps);
#define PUT(type, name) put_u64(o, #name, p->name);
	PRICE_TIMES(PUT)
#undef PUT
	counts = json_object();
#define PUT(type, name) put_u64(counts, #name, p->counts.name);
	PRICE_COUNTS(PUT)
#undef PUT
	json_object_set_new(o, "counts", counts);
	json_object_set_new(out, "phone", o);
}

static void put_switch(json_t *o, const struct switch_stats *s,
	const struct session_opts *opts)
{
	if (!s->blocks)
		return;
	json_object_set_new(o, "graph_switch",
		json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:f, s:I, s:f, "
			  "s:f, s:f, s:f, s:i, s:i}",
			"plan", graph_switch_names[opts->graph_switch], "clock",
			opts->soc ? opts->clock : "wall", "blocks",
			(int)s->blocks, "prefill_rows", (int)s->prefill_rows,
			"decode_rows", (int)s->decode_rows, "prompts",
			(json_int_t)s->prompts, "loads", (json_int_t)s->loads,
			"load_s", switch_s(opts, s->load_time), "loads_back",
			(json_int_t)s->reloads, "load_back_s",
			switch_s(opts, s->reload_time), "wait_s",
			switch_s(opts, s->wait_time), "prompt_s",
			switch_s(opts, s->prompt_time), "expected_s",
			switch_s(opts, s->planned_time), "most_graphs",
			(int)s->most_graphs, "most_graphs_kib",
			(int)s->most_graphs_kib));
}

int report_json(const struct run_report *r, const struct strbuf *text, FILE *f)
{
	const struct tandem_report *of = &r->of;
	const struct generation *g = of->generation;
	const struct session_opts *opts = of->pair;
	const struct session_stats *s = &of->work;
	const struct reward_stats *scored = &of->scored;
	size_t n, prompt = gen_prompt_length(g);
	const int32_t *id = gen_tokens(g, &n);
	json_t *o = json_object(), *part;
	struct history_stats h;
	struct rates t = rates_of(r);

	put_priced(o, of);
	put_u64(o, "version", JSON_VERSION);
	put_str(o, "command", "run");
	put_str(o, "model", of->model_path);
	put_str(o, "arch", of->model->arch);
	put_str(o, "method", of->method);
	if (of->weighs)
		put_str(o, "profile", profile_froms[of->profile]);
	put_u64(o, "prompt_tokens", prompt);
	put_u64(o, "generated_tokens", gen_generated(g));
	put_str(o, "stop", r->stop);
	put_str(o, "error", r->error);
	put_str(o, "clock", "wall");
	put_real(o, "load_s", t.load_s);
	if (gen_first_ns(g))
		put_real(o, "time_to_first_token_s", t.first_s);
	else
		put_str(o, "time_to_first_token_s", NULL);
	put_real(o, "total_s", t.total_s);
	put_real(o, "prefill_tokens_per_s", t.prefill);
	put_real(o, "decode_tokens_per_s", t.decode);
	put_u64(o, "context", of->context);
	put_str(o, "precision", precision_names[opts->precision]);
	put_str(o, "coherence", coherence_names[opts->coherence]);
	put_str(o, "doorbell", doorbell_names[opts->doorbell]);
	put_u64(o, "prefill_chunk", opts->prefill_chunk);
	put_u64(o, "va_window", opts->va_window);
	put_u64(o, "huge_bytes", tandem_huge_bytes(r->tandem));

	put_stats(o, s);
	put_draft(o, r);
	if (of->history) {
		history_stats(of->history, &h);
		part = json_object();
		put_u64(part, "records", h.records);
		put_u64(part, "prompt_tokens", h.prompt_tokens);
		put_u64(part, "answer_tokens", h.answer_tokens);
		put_u64(part, "bytes", h.file_bytes);
		json_object_set_new(part, "kept", json_boolean(of->kept));
		json_object_set_new(o, "history", part);
	}
	part = json_object();
	put_str(part, "policy", placement_names[s->placement]);
	put_u64(part, "resident_bytes", s->resident_bytes);
	put_u64(part, "temporary_blocks", s->temporary_blocks);
	put_u64(part, "copies", s->copies);
	put_u64(part, "copied_bytes", s->copied_bytes);
	put_real(part, "stall_s", (double)s->stall_ns * 1e-9);
	if (opts->soc)
		put_u64(part, "stall_ps", s->stall_ps);
	json_object_set_new(o, "placement", part);
	put_flash(o, r);
	put_experts(o, r);
	put_switch(o, &s->graphs, opts);
	put_phone(o, r);
	samples_json(o, r->tandem, of, seconds(of->began_ns, of->ended_ns));
	if (of->reward) {
		part = json_object();
		put_str(part, "name", of->reward);
		put_u64(part, "texts", scored->texts);
		put_u64(part, "steps", scored->steps);
		put_u64(part, "tokens", scored->tokens);
		put_u64(part, "rows", scored->rows);
		put_u64(part, "passes", scored->passes);
		put_real(part, "seconds", (double)scored->ns * 1e-9);
		if (opts->soc)
			put_u64(part, "phone_ps", scored->ps);
		json_object_set_new(o, "reward", part);
	}
	json_object_set_new(o, "text",
		json_stringn(text->len ? text->data : "", text->len));
	json_object_set_new(o, "ids", ids_json(id + prompt, n - prompt));
	json_object_set_new(o, "prompt_ids", ids_json(id, prompt));
	return json_print(o, 9, f);
}
