/*
 * Handles truncated model files. Model files are mapped into memory. If a file
 * is truncated while it is mapped, or the disk fails, reading the mapping
 * raises SIGBUS and no computation can continue. The program then ends with a
 * message that names the file, and with exit status EXIT_FAIL.
 *
 * For use by the program only. The library libtandem installs no signal
 * handlers, because signals belong to the program.
 */
#ifndef HOST_CMD_CUT_SHORT_H
#define HOST_CMD_CUT_SHORT_H

/* Install the SIGBUS handler. A SIGBUS that is not due to a mapped file has its
 * default action. */
void cut_short_catch(void);

#endif
