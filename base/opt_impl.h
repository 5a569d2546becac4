/*
 * How one option is found and set: what the parser of command lines and opt_set
 * share. Of base/opt alone. The parser is a file of its own because it prints
 * help: who sets options by name takes nothing along that prints.
 */
#ifndef BASE_OPT_IMPL_H
#define BASE_OPT_IMPL_H

#include "base/opt.h"

/* Longer words are not compared: nobody mistypes those by two letters. */
#define OPT_WORD_MAX 32

/* The option's name closest to `word`, NULL when none is close. */
const char *opt_closest(const struct opt_command *, const char *word);

/* The option of that name, or of that letter, in *out. */
bool opt_by_name(const struct opt_command *, const char *name, size_t len,
	struct opt *out);
bool opt_by_letter(const struct opt_command *, char letter, struct opt *out);

/* `given` ("--name") is no option: -EINVAL, with what was meant. */
int opt_refuse_name(
	const struct opt_command *, const char *given, struct err *);

/* Its value from text; `given` is what messages call it. Not of flags. */
int opt_set_value(
	const struct opt *, const char *given, const char *text, struct err *);

#endif
