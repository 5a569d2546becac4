/*
 * The models that come with the program: files of fixed names in one folder,
 * which is looked for, in this order, at $TANDEM_MODELS, in `models` beside
 * the executable, in `flash/models` of the source tree the executable was
 * built in, and in `share/tandem/models` of the prefix it is installed in.
 * $TANDEM_MODELS, where set, is the only place. Any thread.
 */
#ifndef HOST_SHIPPED_SHIPPED_MODELS_H
#define HOST_SHIPPED_SHIPPED_MODELS_H

#include <limits.h>

struct err;

enum model_role {
	MODEL_TARGET,
	MODEL_SMALL, /* target of a third the size */
	MODEL_DRAFT,
	MODEL_DIFFUSION,
	MODEL_BLOCK,      /* block diffusion */
	MODEL_EXIT,       /* exit predictor of the target, behind half of it */
	MODEL_EXIT_THIRD, /* the same, behind a third of it */
	MODEL_REWARD,     /* a score per step of a solution of the target */
	MODEL_REWARD_SMALL, /* the same of the small target */
};

/* "target", "draft", ...: what messages call it and FILE in FILE.gguf. */
const char *model_role_name(enum model_role);

/*
 * The path of the file for a role. -ENOENT with a message that says where it
 * was looked for and which option names a file instead.
 */
int models_find(enum model_role, char path[PATH_MAX], struct err *);

/*
 * The file `named`; with NULL that of models_find; with a role's name, unless
 * there is a file of that name, that of models_find for this role.
 */
int models_choose(
	const char *named, enum model_role, char path[PATH_MAX], struct err *);

/* The same for a file of held-out items of a task: tasks/TASK.jsonl. `task`
 * is a short name. */
int models_find_task(const char *task, char path[PATH_MAX], struct err *);

#endif
