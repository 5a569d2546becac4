/*
 * What a method that weighs passes (method->probe) knows of a streamed model on
 * this machine before it has written anything: found out once, when the pair is
 * started, and remembered in $XDG_CACHE_HOME/tandem (~/.cache/tandem), a file
 * for each image, machine, and whatever else changes what a pass takes
 * (docs/lever.md has the list). A file that is damaged, or of something else
 * that happens to have its name, is none; where none can be written, nobody is
 * told. By a phone's clock all is known, so there is no profile then, and none
 * where faults are planned, which would be counted and remembered.
 *
 * The texts are the same whatever is known. One thread a decoder; many
 * processes may write the same file.
 */
#ifndef HOST_API_PROFILE_H
#define HOST_API_PROFILE_H

struct decoder;
struct err;
struct pass_cost;

enum profile_use {
	PROFILE_REMEMBER, /* read; or found out, and written */
	PROFILE_PROBE,    /* found out; no file is read or written */
	PROFILE_LEARN,    /* neither: the first passes of a text tell */
};
extern const char *const profile_uses[]; /* NULL-terminated */

enum profile_from { PROFILE_NONE, PROFILE_PROBED, PROFILE_REMEMBERED };
extern const char *const profile_froms[];

/* Of a decoder whose session and drafter are open: d->profile says what came of
 * it. Fails as the session does, where the probe cannot be made. */
int profile_take(struct decoder *, struct err *);

#endif
