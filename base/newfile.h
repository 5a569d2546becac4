/*
 * A file that is there whole or not at all: what is written has no name until
 * newfile_commit syncs it and gives it the one it is for. A crash, a signal, a
 * full disk or a change of mind leaves what was there before, and nothing else:
 * a file without a name goes with its last descriptor. Only in the instant
 * between the two steps that put it in the place of another (a link, a rename)
 * can a killed process leave it, whole, under its temporary name.
 *
 * Where the file system has no files without a name (O_TMPFILE: NFS, FUSE), it
 * is written under that temporary name, and newfile_close without a commit
 * removes it; there, who may be ended by a signal sees to it that it is called.
 */
#ifndef BASE_NEWFILE_H
#define BASE_NEWFILE_H

#include <stdbool.h>

struct err;

struct newfile {
	int fd; /* to write to; -1 when closed */
	char *path, *temporary;
	bool named; /* `temporary` is there, ours to remove */
};

/*
 * Links in `path` are followed; what exists there and is no regular file is
 * refused. On failure there is nothing to close.
 */
int newfile_open(struct newfile *, const char *path, struct err *);

/*
 * The same of a file that its owner alone may read, also while it is written.
 * Its temporary name, where one is needed, is always PATH.tmp: who wants to
 * leave nothing of it behind knows what to remove. For one writer at a time,
 * who holds a lock; what a killed one left under that name is removed.
 */
int newfile_open_private(struct newfile *, const char *path, struct err *);

/* Sync, rename, and sync the folder; the descriptor is closed whatever this
 * returns. */
int newfile_commit(struct newfile *, struct err *);

/* Also of one that was committed or never opened (zeroed, fd -1). */
void newfile_close(struct newfile *);

#endif
