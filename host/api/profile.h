/*
 * The profile of a streamed model: what passes cost on this machine, for
 * methods that choose row counts by cost (method->probe). It is measured once,
 * when the pair is started, and kept in $XDG_CACHE_HOME/tandem
 * (~/.cache/tandem): one file for each combination of image, machine, and
 * everything else that changes the cost (docs/lever.md has the list). A damaged
 * file or a file with another key is ignored, and a file that cannot be written
 * is skipped silently. The phone's clock computes all costs, so it has no
 * profile; nor have runs with planned faults, which would distort it.
 *
 * A profile never changes the text. One thread a decoder; many processes may
 * write the same file.
 */
#ifndef HOST_API_PROFILE_H
#define HOST_API_PROFILE_H

struct decoder;
struct err;
struct pass_cost;

enum profile_use {
	PROFILE_REMEMBER, /* read the file, or measure and write it */
	PROFILE_PROBE,    /* measure; neither read nor write a file */
	PROFILE_LEARN,    /* only learn from a text's own passes */
};
extern const char *const profile_uses[]; /* NULL-terminated */

enum profile_from { PROFILE_NONE, PROFILE_PROBED, PROFILE_REMEMBERED };
extern const char *const profile_froms[];

/* Load or measure the profile of a decoder with open session and drafter, and
 * set d->profile. Fails as the session does if measuring fails. */
int profile_take(struct decoder *, struct err *);

#endif
