#include "host/model/model_arch.h"

#include "base/checked.h"
#include "base/err.h"
#include "tensor/gguf.h"

#include <errno.h>
#include <string.h>

/*
 * RoPE rotates pairs of values of a head. In original weights, the two values
 * of a pair are half a head apart (rope_neox). In files of llama, llada and
 * tandem-eagle they are adjacent: llama.cpp's converter permutes the rows of Q
 * and K of llama and llada, and EAGLE heads are permuted in the same way. The
 * rows of all other architectures keep the original order.
 *
 * Files of Mixtral have the architecture name llama, and their layers have
 * experts.
 */
static const struct model_arch archs[] = {
	{ .name = "llama",
		.causal = true,
		.experts = EXPERTS_MAY,
		.norm_picks = true },
	{ .name = "qwen2",
		.causal = true,
		.rope_neox = true,
		.qkv_bias = true },
	{ .name = "qwen2moe",
		.causal = true,
		.rope_neox = true,
		.qkv_bias = true,
		.experts = EXPERTS_MUST,
		.shared = true },
	{ .name = "qwen3",
		.causal = true,
		.rope_neox = true,
		.head_norm = true },
	{ .name = "qwen3moe",
		.causal = true,
		.rope_neox = true,
		.head_norm = true,
		.experts = EXPERTS_MUST,
		.norm_picks = true },
	{ .name = "olmoe",
		.causal = true,
		.rope_neox = true,
		.head_norm = true,
		.whole_norm = true,
		.experts = EXPERTS_MUST },
	{ .name = "llada" },
	{ .name = "llada-moe",
		.rope_neox = true,
		.head_norm = true,
		.experts = EXPERTS_MUST },
	{ .name = "dream",
		.rope_neox = true,
		.qkv_bias = true,
		.shift_logits = true },
	{ .name = "tandem-eagle", .causal = true, .eagle = true },
};

struct other {
	const char *name, *why;
};

/* Values of general.type that mark a file as something else than a model. The
 * architecture name in an adapter's file is that of the adapted model, so it
 * does not identify an adapter. Files with heads for Tandem (such as EAGLE
 * heads) have the type `adapter`, too; their architecture names begin with
 * "tandem-", and they are accepted. */
static const struct other kinds[] = {
	{ "mmproj",
		"a projector of images or sound, which are not supported; use "
		"the file of the language model" },
	{ "adapter",
		"a LoRA adapter; merge it into its model, and use the merged "
		"file" },
	{ "imatrix",
		"an importance matrix for quantizing; use the file of the "
		"model" },
};

/* Diffusion models that are not supported, and the reason. */
static const struct other others[] = {
	{ "rnd1", "its layers have experts" },
	{ "diffusion-gemma",
		"generation begins with random tokens, not with "
		"masks" },
};

const struct model_arch *model_arch_find(struct gguf_str name)
{
	for (size_t i = 0; i < ARRAY_LEN(archs); i++)
		if (gguf_str_is(name, archs[i].name))
			return &archs[i];
	return NULL;
}

const struct model_arch *model_arch_named(const char *name)
{
	return model_arch_find((struct gguf_str){ name, strlen(name) });
}

int model_arch_check_type(const struct gguf *g, struct err *e)
{
	static const char own[] = "tandem-";
	struct gguf_str type, arch;
	int ret = gguf_str(g, "general.architecture", &arch, e);

	if (ret > 0 && arch.len > strlen(own) && gguf_str_begins(arch, own))
		return 0;
	if (ret >= 0)
		ret = gguf_str(g, "general.type", &type, e);
	for (size_t i = 0; ret > 0 && i < ARRAY_LEN(kinds); i++)
		if (gguf_str_is(type, kinds[i].name))
			return err_set(e, ENOTSUP,
				"this file is not a model but %s",
				kinds[i].why);
	return ret < 0 ? ret : 0;
}

int model_arch_refuse(struct gguf_str name, const struct gguf *g, struct err *e)
{
	const int shown = name.len < 64 ? (int)name.len : 64;

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (gguf_str_is(name, others[i].name))
			return err_set(e, ENOTSUP,
				"architecture '%s' is not supported: %s; "
				"supported diffusion models are llada, "
				"llada-moe and dream",
				others[i].name, others[i].why);
	/* a projector in an old format that has no general.type */
	if (gguf_str_is(name, "clip"))
		return err_set(e, ENOTSUP, "this file is not a model but %s",
			kinds[0].why);
	for (size_t i = 0; i < gguf_n_kv(g); i++)
		if (gguf_str_begins(gguf_kv_at(g, i)->key, "diffusion."))
			return err_set(e, ENOTSUP,
				"architecture '%.*s' is not supported; "
				"supported diffusion models are llada, "
				"llada-moe and dream",
				shown, name.data);
	return err_set(e, ENOTSUP,
		"architecture '%.*s' is not supported; supported are llama, "
		"qwen2, qwen2moe, qwen3, qwen3moe, olmoe, llada, llada-moe "
		"and dream",
		shown, name.data);
}
