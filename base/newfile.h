/*
 * Atomic creation of a file: the file is written without a name; newfile_commit
 * syncs the file and then gives the file its name. After a crash, a signal, a
 * full disk or an abort the previous file is intact. Nothing else remains,
 * because the kernel removes a file without a name when the last descriptor of
 * the file is closed. There is one exception: an existing file is replaced in
 * two steps (link the new file to a temporary name, rename it). A process that
 * is killed between the two steps leaves the complete new file under the
 * temporary name.
 *
 * If the file system has no files without a name (NFS and FUSE do not support
 * O_TMPFILE), the file is written under the temporary name, and newfile_close
 * without a commit removes it. A program must therefore call newfile_close also
 * when a signal ends it.
 */
#ifndef BASE_NEWFILE_H
#define BASE_NEWFILE_H

#include <stdbool.h>

struct err;

struct newfile {
	int fd; /* descriptor for writing, -1 when closed */
	char *path, *temporary;
	bool named; /* the file `temporary` exists and must be removed */
};

/* Permissions of the new file, also while the file is being written. PUBLIC:
 * the umask decides which other users have access. PRIVATE: only the owner has
 * access. */
#define NEWFILE_PUBLIC  0666
#define NEWFILE_PRIVATE 0600

/*
 * Open a new file that will replace `path`, with one of the modes above.
 * Symbolic links in `path` are followed. Returns 0 on success, -EINVAL if
 * `path` exists and is not a regular file, or another negative errno. After a
 * failure there is nothing to close.
 *
 * The temporary name of a file with mode NEWFILE_PRIVATE is always PATH.tmp, so
 * that a program can remove all traces of the file. The caller must hold a
 * lock, so that only one process at a time writes a private file at `path`. A
 * PATH.tmp that a killed writer left is removed.
 */
int newfile_open(
	struct newfile *, const char *path, unsigned mode, struct err *);

/* Sync the file, give it its name, and sync the folder. Returns 0 or a negative
 * errno; closes the descriptor in both cases. */
int newfile_commit(struct newfile *, struct err *);

/* Close the file and, without a commit, remove it. The function may be called
 * after a commit, and for a struct that was never opened, in which `fd` is -1
 * and all other members are zero. */
void newfile_close(struct newfile *);

#endif
