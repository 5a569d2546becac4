#include "host/model/model_keys.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/model/model.h"
#include "host/model/model_arch.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits on values in files: far above the values of any model of the supported
 * architectures, and so low that the product of two values fits into 64
 * bits. */
#define MAX_EMBD     (1u << 16)
#define MAX_HEADS    (1u << 12)
#define MAX_HEAD_DIM (1u << 10)
#define MAX_FF       (1u << 20)
#define MAX_CONTEXT  (1u << 26)

struct key {
	char name[96]; /* such as "llama.block_count" */
};

static struct key key_of(const struct model *m, const char *suffix)
{
	struct key k;

	snprintf(k.name, sizeof(k.name), "%s.%s", m->arch, suffix);
	return k;
}

/* Read an optional integer. Returns 1 and sets *out, which is in [1, max]; or 0
 * if the key is absent; or a negative errno. */
static int find_u32(const struct model *m, const char *suffix, uint32_t max,
	uint32_t *out, struct err *e)
{
	struct key k = key_of(m, suffix);
	uint64_t v;
	int ret = gguf_u64(m->gguf, k.name, &v, e);

	if (ret <= 0)
		return ret;
	if (!v || v > max)
		return err_set(e, EINVAL,
			"key '%s' is %llu, but only 1 to %u is supported",
			k.name, (unsigned long long)v, max);
	*out = (uint32_t)v;
	return 1;
}

static int need_u32(const struct model *m, const char *suffix, uint32_t max,
	uint32_t *out, struct err *e)
{
	return gguf_need(
		find_u32(m, suffix, max, out, e), key_of(m, suffix).name, e);
}

/* Read an optional number. Returns 1 and sets *out, which is finite; or 0 if
 * the key is absent; or a negative errno. */
static int find_f64(
	const struct model *m, const char *suffix, double *out, struct err *e)
{
	struct key k = key_of(m, suffix);
	double v;
	int ret = gguf_f64(m->gguf, k.name, &v, e);

	if (ret <= 0)
		return ret;
	if (!isfinite(v))
		return err_set(
			e, EINVAL, "key '%s' is not a finite number", k.name);
	*out = v;
	return 1;
}

static int read_arch(struct model *m, struct err *e)
{
	static const char arch[] = "general.architecture";
	struct key causal;
	struct gguf_str s;
	bool causal_key;
	int ret = model_arch_check_type(m->gguf, e);

	if (ret)
		return ret;
	ret = gguf_need(gguf_str(m->gguf, arch, &s, e), arch, e);
	if (ret)
		return ret;
	m->kind = model_arch_find(s);
	if (!m->kind)
		return model_arch_refuse(s, m->gguf, e);
	snprintf(m->arch, sizeof(m->arch), "%s", m->kind->name);
	/* The architecture determines whether attention is causal. If the file
	 * has the key attention.causal, the key must have the same value. */
	m->causal = m->kind->causal;
	causal = key_of(m, "attention.causal");
	ret = gguf_bool(m->gguf, causal.name, &causal_key, e);
	if (ret < 0)
		return ret;
	if (ret && causal_key != m->causal)
		return err_set(e, ENOTSUP,
			"key '%s' is %s, which is not supported for %s",
			causal.name, causal_key ? "true" : "false", m->arch);
	return 0;
}

/* Read the width of the shared expert; the default is feed_forward_length, the
 * width of a dense layer. The default width of the other experts is
 * feed_forward_length divided by the number of experts that each token uses. */
static int read_shared(struct model *m, struct err *e)
{
	uint32_t dense = 0;
	int ret = find_u32(m, "expert_shared_feed_forward_length", MAX_FF,
		&m->n_shared, e);

	if (ret < 0 || (m->n_shared && m->n_ff))
		return ret < 0 ? ret : 0;
	ret = need_u32(m, "feed_forward_length", MAX_FF, &dense, e);
	if (ret)
		return ret;
	if (!m->n_shared)
		m->n_shared = dense;
	if (!m->n_ff && dense % m->n_used)
		return err_set(e, EINVAL,
			"key '%s' is missing, and feed_forward_length = %u is "
			"no multiple of expert_used_count = %u",
			key_of(m, "expert_feed_forward_length").name, dense,
			m->n_used);
	if (!m->n_ff)
		m->n_ff = dense / m->n_used;
	return 0;
}

/* Read the number of experts, the number of experts that each token uses, and
 * the width of an expert if the file has a key for it. */
static int read_experts(struct model *m, struct err *e)
{
	struct key count = key_of(m, "expert_count");
	struct key used = key_of(m, "expert_used_count");
	struct key norm = key_of(m, "expert_weights_norm");
	uint64_t n = 0, n_used = 0;
	int ret;

	if (m->kind->experts == EXPERTS_NEVER)
		return 0;
	ret = gguf_u64(m->gguf, count.name, &n, e);
	if (ret >= 0 && !n && m->kind->experts == EXPERTS_MAY)
		return 0;
	ret = gguf_need(ret, count.name, e);
	if (ret)
		return ret;
	if (n < 2 || n > WIRE_MAX_EXPERTS)
		return err_set(e, EINVAL,
			"key '%s' is %llu, but only 2 to %d is supported",
			count.name, (unsigned long long)n, WIRE_MAX_EXPERTS);
	ret = gguf_need(gguf_u64(m->gguf, used.name, &n_used, e), used.name, e);
	if (ret)
		return ret;
	if (!n_used || n_used > n || n_used > WIRE_MAX_USED)
		return err_set(e, EINVAL,
			"key '%s' is %llu; supported is 1 to %d, and at most "
			"the number of experts, %llu",
			used.name, (unsigned long long)n_used, WIRE_MAX_USED,
			(unsigned long long)n);
	m->n_expert = (uint32_t)n;
	m->n_used = (uint32_t)n_used;
	m->norm_picks = m->kind->norm_picks;
	ret = gguf_bool(m->gguf, norm.name, &m->norm_picks, e);
	if (ret < 0)
		return ret;
	ret = find_u32(m, "expert_feed_forward_length", MAX_FF, &m->n_ff, e);
	if (ret >= 0)
		ret = m->kind->shared ? read_shared(m, e) : 0;
	return ret;
}

static int read_shape(struct model *m, struct err *e)
{
	int ret = 0;

	m->n_layer = 1;
	if (!m->kind->eagle)
		ret = need_u32(
			m, "block_count", MODEL_MAX_LAYERS, &m->n_layer, e);
	if (ret ||
		(ret = need_u32(
			 m, "context_length", MAX_CONTEXT, &m->n_ctx, e)) ||
		(ret = need_u32(
			 m, "embedding_length", MAX_EMBD, &m->n_embd, e)) ||
		(ret = read_experts(m, e)) ||
		(!m->n_ff &&
			(ret = need_u32(m, "feed_forward_length", MAX_FF,
				 &m->n_ff, e))) ||
		(ret = need_u32(
			 m, "attention.head_count", MAX_HEADS, &m->n_head, e)))
		return ret;
	m->n_kv_head = m->n_head;
	ret = find_u32(
		m, "attention.head_count_kv", MAX_HEADS, &m->n_kv_head, e);
	if (ret < 0)
		return ret;
	if (m->n_head % m->n_kv_head)
		return err_set(e, EINVAL,
			"key '%s' is %u, but %u does not divide "
			"attention.head_count = %u",
			key_of(m, "attention.head_count_kv").name, m->n_kv_head,
			m->n_kv_head, m->n_head);
	return 0;
}

/* Read the size of a head from its key or, without the key, as the embedding
 * size divided by the number of heads; also read how many values of a head are
 * rotated. */
static int read_head(struct model *m, struct err *e)
{
	uint32_t key = 0, value = 0;
	int has_key, has_value, ret;

	has_key = find_u32(m, "attention.key_length", MAX_HEAD_DIM, &key, e);
	if (has_key < 0)
		return has_key;
	has_value =
		find_u32(m, "attention.value_length", MAX_HEAD_DIM, &value, e);
	if (has_value < 0)
		return has_value;
	if (!has_key || !has_value) {
		uint32_t share = m->n_embd / m->n_head;

		if (m->n_embd % m->n_head || share > MAX_HEAD_DIM)
			return err_set(e, EINVAL,
				"key '%s' is missing, and embedding_length = "
				"%u divided by attention.head_count = %u is "
				"not a supported head size",
				key_of(m,
					has_key ? "attention.value_length"
						: "attention.key_length")
					.name,
				m->n_embd, m->n_head);
		key = has_key ? key : share;
		value = has_value ? value : share;
	}
	if (key != value)
		return err_set(e, ENOTSUP,
			"keys '%s' = %u and '%s' = %u differ; heads whose "
			"keys and values differ in size are not supported",
			key_of(m, "attention.key_length").name, key,
			key_of(m, "attention.value_length").name, value);
	m->head_dim = key;
	m->n_rot = key;
	ret = find_u32(m, "rope.dimension_count", MAX_HEAD_DIM, &m->n_rot, e);
	if (ret < 0)
		return ret;
	if (m->n_rot % 2 || m->n_rot > m->head_dim)
		return err_set(e, EINVAL,
			"key '%s' is %u; an even number up to the head size "
			"%u was expected",
			key_of(m, "rope.dimension_count").name, m->n_rot,
			m->head_dim);
	m->rope_neox = m->kind->rope_neox;
	return 0;
}

static int read_norm(struct model *m, struct err *e)
{
	static const char suffix[] = "attention.layer_norm_rms_epsilon";
	struct key k = key_of(m, suffix);
	double eps;
	int ret = gguf_need(find_f64(m, suffix, &eps, e), k.name, e);

	if (ret)
		return ret;
	if (eps < 0 || eps > 1)
		return err_set(e, EINVAL, "key '%s' is %g; 0 to 1 was expected",
			k.name, eps);
	m->norm_eps = (float)eps;
	return 0;
}

static int read_probability(
	const struct model *m, const char *key, double *out, struct err *e)
{
	int ret = gguf_f64(m->gguf, key, out, e);

	if (ret < 0)
		return ret;
	if (!ret)
		*out = -1;
	else if (!(*out >= 0 && *out <= 1))
		return err_set(e, EINVAL,
			"key '%s' is %g; a probability was expected", key,
			*out);
	return 0;
}

/* Read the keys that only diffusion models have. */
static int read_mask(struct model *m, struct err *e)
{
	static const char mask[] = "tokenizer.ggml.mask_token_id";
	static const char block[] = "diffusion.block_length";
	uint64_t length = 0, id;
	int ret;

	m->mask_token = -1;
	if (m->causal)
		return 0;
	ret = gguf_u64(m->gguf, block, &length, e);
	if (ret < 0)
		return ret;
	/* The block must fit into one pass, which computes a whole block. */
	if (length > WIRE_MAX_ROWS || length > m->n_ctx)
		return err_set(e, ENOTSUP,
			"key '%s' is %llu, but only blocks of 1 to %u tokens "
			"are supported, which fit into the context of %u",
			block, (unsigned long long)length, WIRE_MAX_ROWS,
			m->n_ctx);
	m->block_length = (uint32_t)length;
	ret = gguf_bool(m->gguf, "diffusion.shift_logits", &m->shift_logits, e);
	if (ret < 0)
		return ret;
	if (!ret)
		m->shift_logits = m->kind->shift_logits;
	ret = read_probability(m, "diffusion.visible", &m->visible, e);
	if (!ret)
		ret = read_probability(m, "diffusion.stable", &m->stable, e);
	if (ret)
		return ret;
	ret = gguf_u64(m->gguf, mask, &id, e);
	if (ret < 0)
		return ret;
	if (!ret)
		return err_set(e, EINVAL,
			"key '%s' is missing; a diffusion model needs it, "
			"because it names the mask token",
			mask);
	if (id > INT32_MAX)
		return err_set(e, EINVAL, "key '%s' is too large", mask);
	m->mask_token = (int32_t)id;
	return 0;
}

/* Keys that do not change the arithmetic if they have the value `value` or
 * `other`; any other value is an error. Files contain such keys to turn a
 * feature off. */
static const struct neutral {
	const char *suffix;
	double value, other;
	/* the reason for refusing other values, or NULL */
	const char *why;
} neutrals[] = {
	{ "expert_shared_count", 0, 0,
		"a shared expert is supported only in qwen2moe, which has no "
		"such key" },
	{ "expert_shared_feed_forward_length", 0, 0,
		"a shared expert is supported only in qwen2moe" },
	{ "leading_dense_block_count", 0, 0,
		"all layers must have experts, or none" },
	{ "expert_weights_scale", 0, 1 },
	{ "expert_gating_func", 0, 1, /* 1: softmax */
		"only a softmax over all experts is supported" },
	{ "expert_group_count", 0, 1 },
	{ "expert_group_used_count", 0, 1 },
	{ "nextn_predict_layers", 0, 0 },
	{ "logit_scale", 0, 1 },
	{ "residual_scale", 0, 1 },
	{ "embedding_scale", 0, 1 },
	{ "attn_logit_softcapping", 0, 0 },
	{ "final_logit_softcapping", 0, 0 },
	{ "use_parallel_residual", 0, 0 },
	{ "swin_norm", 0, 0 },
	{ "attention.scale", 0, 0 },
	{ "attention.clamp_kqv", 0, 0 },
	{ "attention.max_alibi_bias", 0, 0 },
	{ "attention.sliding_window_pattern", 0, 0 },
	{ "rope.scaling.attn_factor", 1, 1 },
	{ "rope.scaling.yarn_log_multiplier", 0, 0 },
};

/* Keys about experts, which must be 0 in the file of a model without experts.
 * In the file of a model with experts, read_experts reads these keys. */
static const char *const of_experts[] = { "expert_count", "expert_used_count",
	"expert_feed_forward_length", "expert_weights_norm" };

/* Known keys of the groups in guarded[]: keys that the functions of this source
 * file read, and keys that have no effect. */
static const char *const known[] = {
	"attention.head_count",
	"attention.head_count_kv",
	"attention.causal",
	"attention.key_length",
	"attention.value_length",
	"attention.layer_norm_rms_epsilon",
	/* epsilon of layer norms; these models do not have layer norms */
	"attention.layer_norm_epsilon",
	"attention.sliding_window",
	"rope.dimension_count",
	"rope.freq_base",
	"rope.scale_linear",
	"rope.scaling.type",
	"rope.scaling.factor",
	/* the following keys are used only by yarn scaling, which is not
	 * supported */
	"rope.scaling.original_context_length",
	"rope.scaling.finetuned",
	"rope.scaling.yarn_ext_factor",
	"rope.scaling.yarn_attn_factor",
	"rope.scaling.yarn_beta_fast",
	"rope.scaling.yarn_beta_slow",
};

/* Groups of keys in which an unknown key probably changes the arithmetic. */
static const char *const guarded[] = { "attention.", "rope.", "expert", "ssm.",
	"altup.", "hyper_connection." };

/* A key whose value must be 0. */
static const struct neutral off = { "", 0, 0, NULL };

static bool is_neutral(const struct gguf_kv *kv, const struct neutral *n)
{
	enum gguf_type t = kv->type == GGUF_ARRAY ? kv->elem : kv->type;

	if (t == GGUF_STRING || t == GGUF_ARRAY)
		return false;
	for (uint64_t i = 0; i < kv->count; i++) {
		double v = gguf_elem_f64(kv, i);

		if (v != n->value && v != n->other)
			return false;
	}
	return true;
}

static int check_key(const struct model *m, const struct gguf_kv *kv,
	struct gguf_str suffix, struct err *e)
{
	if (m->n_shared &&
		gguf_str_is(suffix, "expert_shared_feed_forward_length"))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(of_experts); i++) {
		if (!gguf_str_is(suffix, of_experts[i]))
			continue;
		if (m->n_expert || is_neutral(kv, &off))
			return 0;
		return err_set(e, ENOTSUP,
			"key '%.*s' is not supported: %s models are supported "
			"only without experts",
			(int)kv->key.len, kv->key.data, m->arch);
	}
	for (size_t i = 0; i < ARRAY_LEN(neutrals); i++) {
		if (!gguf_str_is(suffix, neutrals[i].suffix))
			continue;
		if (is_neutral(kv, &neutrals[i]))
			return 0;
		return err_set(e, ENOTSUP, "key '%.*s' is not supported: %s",
			(int)kv->key.len, kv->key.data,
			neutrals[i].why ? neutrals[i].why
					: "it changes what the model computes");
	}
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (gguf_str_is(suffix, known[i]))
			return 0;
	for (size_t i = 0; i < ARRAY_LEN(guarded); i++)
		if (gguf_str_begins(suffix, guarded[i]))
			return err_set(e, ENOTSUP,
				"key '%.*s' is not known: it may change what "
				"the model computes",
				kv->key.len < 96 ? (int)kv->key.len : 96,
				kv->key.data);
	return 0;
}

/*
 * Check a key of the group "diffusion.". A key with the value 0 is ignored. In
 * the file of a causal model any other such key is an error, because it
 * indicates bidirectional attention. In the file of a diffusion model an
 * unknown key is an error, because it indicates an unknown way to replace the
 * masks.
 */
static int check_diffusion_key(
	const struct model *m, const struct gguf_kv *kv, struct err *e)
{
	static const char *const keys[] = { "diffusion.shift_logits",
		"diffusion.block_length", "diffusion.visible",
		"diffusion.stable" };

	if (is_neutral(kv, &off))
		return 0;
	for (size_t i = 0; !m->causal && i < ARRAY_LEN(keys); i++)
		if (gguf_str_is(kv->key, keys[i]))
			return 0;
	return err_set(e, ENOTSUP,
		"key '%.*s' is not %s for %s: it may change what the model "
		"computes",
		kv->key.len < 96 ? (int)kv->key.len : 96, kv->key.data,
		m->causal ? "supported" : "known", m->arch);
}

static int check_keys(const struct model *m, struct err *e)
{
	const size_t arch = strlen(m->arch);

	for (size_t i = 0; i < gguf_n_kv(m->gguf); i++) {
		const struct gguf_kv *kv = gguf_kv_at(m->gguf, i);
		struct gguf_str key = kv->key;
		int ret = 0;

		if (gguf_str_begins(key, "diffusion."))
			ret = check_diffusion_key(m, kv, e);
		/* keys such as "llama.block_count": check the part after
		 * "llama." */
		else if (gguf_str_begins(key, m->arch) && key.len > arch &&
			key.data[arch] == '.')
			ret = check_key(m, kv,
				(struct gguf_str){ key.data + arch + 1,
					key.len - arch - 1 },
				e);
		if (ret)
			return ret;
	}
	return 0;
}

int keys_read(struct model *m, struct err *e)
{
	struct key k;
	uint64_t window;
	int ret;

	if ((ret = read_arch(m, e)) || (ret = read_shape(m, e)) ||
		(ret = read_head(m, e)) || (ret = read_norm(m, e)) ||
		(ret = read_mask(m, e)) || (ret = check_keys(m, e)))
		return ret;

	/* A sliding window that is as long as the context has no effect. */
	k = key_of(m, "attention.sliding_window");
	ret = gguf_u64(m->gguf, k.name, &window, e);
	if (ret <= 0)
		return ret;
	if (window && window < m->n_ctx)
		return err_set(e, ENOTSUP,
			"key '%s' is %llu, less than the context of %u: "
			"sliding-window attention is not supported",
			k.name, (unsigned long long)window, m->n_ctx);
	return 0;
}

/* Read the factor of linear RoPE scaling, by which all frequencies are divided;
 * 1 without scaling. */
static int read_linear_scaling(
	const struct model *m, double *factor, struct err *e)
{
	struct key k = key_of(m, "rope.scaling.type");
	struct gguf_str type = { "linear", 6 };
	int ret;

	*factor = 0;
	ret = find_f64(m, "rope.scaling.factor", factor, e);
	if (!ret) /* older name of the key rope.scaling.factor */
		ret = find_f64(m, "rope.scale_linear", factor, e);
	if (ret < 0)
		return ret;
	if (*factor == 0)
		*factor = 1;
	if (*factor < 0)
		return err_set(e, EINVAL,
			"key '%s' is %g, but must not be "
			"negative",
			key_of(m, "rope.scaling.factor").name, *factor);
	ret = gguf_str(m->gguf, k.name, &type, e);
	if (ret < 0)
		return ret;
	if (gguf_str_is(type, "none"))
		*factor = 1;
	else if (!gguf_str_is(type, "linear") && *factor != 1)
		return err_set(e, ENOTSUP,
			"key '%s' is '%.*s' with factor %g: of the rope "
			"scalings only linear and Llama 3's are supported",
			k.name, (int)(type.len < 32 ? type.len : 32), type.data,
			*factor);
	return 0;
}

int keys_read_rope(struct model *m, struct err *e)
{
	double base = 10000, factor;
	const struct gguf_tensor *t;
	uint32_t n = m->n_rot / 2;
	int ret = find_f64(m, "rope.freq_base", &base, e);

	if (ret < 0)
		return ret;
	if (base < 1)
		return err_set(e, EINVAL,
			"key '%s' is %g; at least 1 was expected",
			key_of(m, "rope.freq_base").name, base);
	ret = read_linear_scaling(m, &factor, e);
	if (ret)
		return ret;
	m->rope_freq = malloc(n * sizeof(*m->rope_freq));
	if (!m->rope_freq)
		return err_set(e, ENOMEM, "no memory for the RoPE frequencies");
	for (uint32_t i = 0; i < n; i++)
		m->rope_freq[i] =
			(float)(pow(base, -2.0 * i / m->n_rot) / factor);

	/* Llama 3 stores its scaling as one divisor per frequency. */
	t = gguf_tensor(m->gguf, "rope_freqs.weight");
	if (!t)
		return 0;
	if (t->type != DTYPE_F32 || t->n_dims != 1 || t->dim[0] != n)
		return err_set(e, EINVAL,
			"tensor 'rope_freqs.weight' is not f32 [%u]", n);
	for (uint32_t i = 0; i < n; i++) {
		float v;

		memcpy(&v, (const char *)t->data + i * sizeof(v), sizeof(v));
		if (!(v > 0) || !isfinite(v))
			return err_set(e, EINVAL,
				"tensor 'rope_freqs.weight': value %u is %g, "
				"not a positive number",
				i, (double)v);
		m->rope_freq[i] = (float)((double)m->rope_freq[i] / (double)v);
	}
	return 0;
}
