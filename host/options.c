#include "host/options.h"

#include "host/session.h"

#include <stddef.h>

const char *const precision_names[] = { "f16", "f16-kv16", "f32", NULL };

const char *precision_name(const struct session_opts *o)
{
	return precision_names[o->f32 ? PRECISION_F32
			: o->kv_f16   ? PRECISION_F16_KV16
				      : PRECISION_F16];
}

void session_args_apply(const struct session_args *a, struct session_opts *opts)
{
	*opts = session_defaults;
	opts->threads = (uint32_t)a->threads;
	opts->prefill_chunk = (uint32_t)a->prefill_chunk;
	opts->context = (uint32_t)a->context;
	opts->f32 = a->precision == PRECISION_F32;
	opts->kv_f16 = a->precision == PRECISION_F16_KV16;
	opts->coherence = (enum coherence)a->coherence;
	opts->doorbell = (enum doorbell_kind)a->doorbell;
	opts->va_window = a->va_window;
	opts->va_slots = (uint32_t)a->va_slots;
	opts->evict_seed = (uint64_t)a->evict_seed;
	opts->spin_us = a->spin_us;
	opts->stall_ms = (unsigned)(a->device_timeout * 1000);
	opts->device = a->device;
}
