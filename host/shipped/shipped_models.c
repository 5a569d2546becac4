#include "host/shipped/shipped_models.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/opt.h"
#include "host/shipped/shipped.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct shipped models = { "TANDEM_MODELS", "models",
	"flash/models", "the models" };

/* Each of these texts gives an option's name in the library and, in
 * parentheses, its name on the command line. */
#define GIVE_MODEL "give a file by the option model (-m FILE), or "
#define GIVE_DRAFT "give a file by the option draft (--draft FILE), or "

static const struct {
	const char *name, *hint;
} roles[] = {
	[MODEL_TARGET] = { "target", GIVE_MODEL },
	[MODEL_SMALL] = { "small", GIVE_MODEL },
	[MODEL_DRAFT] = { "draft", GIVE_DRAFT },
	[MODEL_EAGLE] = { "eagle", GIVE_DRAFT },
	[MODEL_DIFFUSION] = { "diffusion", GIVE_MODEL },
	[MODEL_BLOCK] = { "block", GIVE_MODEL },
	[MODEL_EXIT] = { "exit", "" },
	[MODEL_EXIT_THIRD] = { "exit-third", "" },
	[MODEL_REWARD] = { "reward", "" },
	[MODEL_REWARD_SMALL] = { "reward-small", "" },
};

const char *model_role_name(enum model_role role)
{
	return roles[role].name;
}

int models_find(enum model_role role, char path[PATH_MAX], struct err *e)
{
	char file[32], what[32];

	snprintf(file, sizeof(file), "%s.gguf", roles[role].name);
	snprintf(what, sizeof(what), "%s model", roles[role].name);
	return shipped_find(&models, file, what, roles[role].hint, path, e);
}

int models_choose(const char *named, enum model_role role, char path[PATH_MAX],
	struct err *e)
{
	if (!named)
		return models_find(role, path, e);
	/* The name of a role selects the role's file only if no file has this
	 * name. */
	for (size_t i = 0; i < ARRAY_LEN(roles); i++)
		if (!strcmp(roles[i].name, named) && access(named, F_OK))
			return models_find((enum model_role)i, path, e);
	/* Report a misspelt role if `named` cannot be a file: no such file
	 * exists, and the name has neither a slash nor an extension. */
	if (!strpbrk(named, "/.") && access(named, F_OK)) {
		struct opt_nearest near = { .word = named };

		for (size_t i = 0; i < ARRAY_LEN(roles); i++)
			opt_nearest_offer(&near, roles[i].name);
		return err_set(e, ENOENT,
			"no file and no bundled model '%s' ('tandem help "
			"models' lists the bundled models, 'tandem synth "
			"--like tiny -o tiny.gguf' makes a small model)%s",
			named, opt_nearest_clause(&near));
	}
	if ((size_t)snprintf(path, PATH_MAX, "%s", named) >= PATH_MAX)
		return err_set(e, ENAMETOOLONG,
			"the name of the %s model is too long",
			model_role_name(role));
	return 0;
}

int models_find_task(const char *task, char path[PATH_MAX], struct err *e)
{
	char file[64], what[64];

	snprintf(file, sizeof(file), "tasks/%s.jsonl", task);
	snprintf(what, sizeof(what), "items of task '%s'", task);
	return shipped_find(&models, file, what, "", path, e);
}
