/*
 * Atomic creation of a file: it has no name until newfile_commit syncs it and
 * gives it its name. After a crash, a signal, a full disk or an abort the old
 * file is still there and nothing else, because a file without a name is
 * removed with its last descriptor. Only a process that is killed between the
 * two steps that replace an existing file (link, rename) leaves the complete
 * file under its temporary name.
 *
 * If the file system has no files without a name (O_TMPFILE; NFS and FUSE do
 * not), the file is written under the temporary name, and newfile_close without
 * a commit removes it; a program must call it also when a signal ends it.
 */
#ifndef BASE_NEWFILE_H
#define BASE_NEWFILE_H

#include <stdbool.h>

struct err;

struct newfile {
	int fd; /* to write to; -1 when closed */
	char *path, *temporary;
	bool named; /* `temporary` exists and must be removed */
};

/*
 * Links in `path` are followed; an existing `path` that is not a regular file
 * is refused. On failure there is nothing to close.
 */
int newfile_open(struct newfile *, const char *path, struct err *);

/*
 * The same for a file that only its owner may read, also while it is written.
 * Its temporary name, if one is needed, is always PATH.tmp, so that a program
 * can remove all traces of it. For one writer at a time, which holds a lock; a
 * file that a killed writer left under that name is removed.
 */
int newfile_open_private(struct newfile *, const char *path, struct err *);

/* Sync, rename, and sync the folder; closes the descriptor on failure too. */
int newfile_commit(struct newfile *, struct err *);

/* Allowed after a commit, and if never opened (zeroed, fd -1). */
void newfile_close(struct newfile *);

#endif
