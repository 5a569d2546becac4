/*
 * A file that is there whole or not at all: it is written under a temporary
 * name beside its own, synced, and renamed by newfile_commit. A crash, a full
 * disk or a change of mind leaves what was there before; newfile_close
 * without a commit removes the temporary file.
 */
#ifndef BASE_NEWFILE_H
#define BASE_NEWFILE_H

struct err;

struct newfile {
	int fd; /* to write to; -1 when closed */
	char *path, *temporary;
};

/*
 * Links in `path` are followed; what exists there and is no regular file is
 * refused. On failure there is nothing to close.
 */
int newfile_open(struct newfile *, const char *path, struct err *);

/*
 * The same of a file that its owner alone may read, also while it is written.
 * Its temporary name is always PATH.tmp: who wants to leave nothing of it
 * behind knows what to remove. For one writer at a time, who holds a lock; what
 * a killed one left under that name is removed.
 */
int newfile_open_private(struct newfile *, const char *path, struct err *);

/* Sync, rename, and sync the folder; the descriptor is closed whatever this
 * returns. */
int newfile_commit(struct newfile *, struct err *);

/* Also of one that was committed or never opened (zeroed, fd -1). */
void newfile_close(struct newfile *);

#endif
