/*
 * The models that a server offers: the model given by -m, and the models in the
 * folder given by --models. The models are named after their files. The list is
 * made before the server opens and does not change.
 */
#ifndef HOST_SERVE_MODEL_LIST_H
#define HOST_SERVE_MODEL_LIST_H

#include <stddef.h>
#include <stdint.h>

struct err;

struct listed_model {
	char *name, *path;
	uint64_t bytes; /* size of the model file */
};

struct model_list {
	struct listed_model *model; /* [n] */
	size_t n;
};

/* Append a model. If `name` is NULL, the model is named after its file, without
 * the folder and the ending. Returns 0, or a negative errno with a message:
 * -EEXIST if another model in the list has the same name. A file that is
 * already in the list is not added again. */
int model_list_add(
	struct model_list *, const char *name, const char *path, struct err *);

/* Append all .gguf and .tdm files of the folder, in the order of their names.
 * Returns -ENOENT if there are no such files, and the errors of
 * model_list_add. */
int model_list_add_folder(
	struct model_list *, const char *folder, struct err *);

void model_list_release(struct model_list *);

#endif
