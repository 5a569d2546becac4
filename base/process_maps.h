/*
 * The part of a process's shared memory that is mapped by huge pages
 * (/proc/PID/smaps). Any thread.
 */
#ifndef BASE_PROCESS_MAPS_H
#define BASE_PROCESS_MAPS_H

#include <stdint.h>
#include <sys/types.h>

/* Bytes of memfds that the process maps by huge page-table entries now; 0 if
 * unknown, and for pid 0. */
uint64_t process_huge_bytes(pid_t);

#endif
