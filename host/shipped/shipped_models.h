/*
 * Finds the models that come with the program. The models are files with fixed
 * names in one folder: $TANDEM_MODELS if it is set; otherwise `models` next to
 * the executable, `flash/models` in the source tree in which the executable was
 * built, or `share/tandem/models` below the installation prefix. Thread-safe.
 */
#ifndef HOST_SHIPPED_SHIPPED_MODELS_H
#define HOST_SHIPPED_SHIPPED_MODELS_H

#include <limits.h>

struct err;

enum model_role {
	MODEL_TARGET,
	/* a smaller target model, with a third of the target's parameters */
	MODEL_SMALL,
	MODEL_DRAFT,
	MODEL_EAGLE, /* EAGLE head of the target */
	MODEL_DIFFUSION,
	MODEL_BLOCK, /* block-diffusion model */
	/* early-exit predictor for use after half of the target's layers */
	MODEL_EXIT,
	/* early-exit predictor for use after a third of the target's layers */
	MODEL_EXIT_THIRD,
	/* reward model that scores each step of the target model's solutions */
	MODEL_REWARD,
	MODEL_REWARD_SMALL, /* reward model for the small target model */
};

/* Return the name of a role ("target", "draft", ...). Messages use this name,
 * and the file of the role is called NAME.gguf. */
const char *model_role_name(enum model_role);

/*
 * Store the path of a role's file in `path`. Returns 0, or -ENOENT with a
 * message that lists the searched places and names the option with which the
 * user can give a file.
 */
int models_find(enum model_role, char path[PATH_MAX], struct err *);

/*
 * Find the model file that an option's value `named` selects. NULL selects the
 * file of `role`. The name of a role selects the file of that role, unless a
 * file with this name exists. Any other text is a path. Returns 0 or a negative
 * errno.
 */
int models_choose(
	const char *named, enum model_role, char path[PATH_MAX], struct err *);

/* Like models_find(), but for the held-out items of a task, which are in the
 * file tasks/TASK.jsonl. `task` is the name of the task, not a path, and has at
 * most 47 bytes. */
int models_find_task(const char *task, char path[PATH_MAX], struct err *);

#endif
