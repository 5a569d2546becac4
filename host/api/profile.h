/*
 * The profile of a streamed model (a model whose layers are read from flash in
 * each pass): the costs of passes on this machine, for methods that choose the
 * number of rows of a pass by its cost (methods with the function `probe`). A
 * profile is measured once, when the session is opened, and stored in
 * $XDG_CACHE_HOME/tandem (~/.cache/tandem). There is one file for each
 * combination of flash image, machine, and everything else that changes the
 * costs (docs/lever.md has the list). The file also stores this combination, as
 * its key. A damaged file and a file with a different key are ignored. Errors
 * while a file is written are ignored, too. A profile is measured again if the
 * machine was busy at the measurement and is not busy now, or if passes of
 * earlier requests were much faster than the profile predicts. No profile is
 * used with --clock soc:NAME, because all costs are then computed, not
 * measured. No profile is used with --fault or --flash-fault either, because
 * faults would distort the measurements.
 *
 * A profile never changes the generated text. Only one thread may use a
 * decoder; several processes may write the same file.
 */
#ifndef HOST_API_PROFILE_H
#define HOST_API_PROFILE_H

struct decoder;
struct err;

enum profile_use {
	/* read the file; if there is none, measure and write it */
	PROFILE_REMEMBER,
	PROFILE_PROBE, /* measure, but neither read nor write a file */
	/* measure nothing in advance; learn only from the passes of requests */
	PROFILE_LEARN,
};
extern const char *const profile_uses[]; /* ends with NULL */

enum profile_from { PROFILE_NONE, PROFILE_PROBED, PROFILE_REMEMBERED };
extern const char *const profile_froms[];

/* Load or measure the profile of a decoder whose session and drafter are open,
 * and set d->profile. Returns 0, or the session's error if measuring fails. */
int profile_take(struct decoder *, struct err *);

/*
 * Compare the times of the decoder's passes with the profile. If the passes
 * took much less time than the profile predicts, remove the profile's file, so
 * that the next decoder measures again. Frees d->profile_path.
 */
void profile_review(struct decoder *);

#endif
