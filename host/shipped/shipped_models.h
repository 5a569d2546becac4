/*
 * The models that come with the program: files of fixed names in one folder,
 * which is searched for at $TANDEM_MODELS and, if that is not set, in `models`
 * next to the executable, in `flash/models` of the source tree the executable
 * was built in, and in `share/tandem/models` of the installation prefix. Any
 * thread.
 */
#ifndef HOST_SHIPPED_SHIPPED_MODELS_H
#define HOST_SHIPPED_SHIPPED_MODELS_H

#include <limits.h>

struct err;

enum model_role {
	MODEL_TARGET,
	MODEL_SMALL, /* a target a third of the size */
	MODEL_DRAFT,
	MODEL_DIFFUSION,
	MODEL_BLOCK,      /* block diffusion */
	MODEL_EXIT,       /* exit predictor after half of the target's layers */
	MODEL_EXIT_THIRD, /* the same after a third of the layers */
	/* reward model: scores each step of the target's solutions */
	MODEL_REWARD,
	MODEL_REWARD_SMALL, /* the same for the small target */
};

/* "target", "draft", ...: used in messages, and the name of the file without
 * .gguf. */
const char *model_role_name(enum model_role);

/*
 * The path of a role's file. -ENOENT with a message that lists the places
 * searched and the option that names a file.
 */
int models_find(enum model_role, char path[PATH_MAX], struct err *);

/*
 * Resolve `named`: NULL is the file of `role`; a role's name is that role's
 * file, unless a file of that name exists; anything else is a path.
 */
int models_choose(
	const char *named, enum model_role, char path[PATH_MAX], struct err *);

/* The same for the held-out items of a task, tasks/TASK.jsonl. `task` is a
 * short name. */
int models_find_task(const char *task, char path[PATH_MAX], struct err *);

#endif
