/* How much of the shared memory of a process is mapped by huge pages (from
 * /proc/PID/smaps). Any thread may call the function. */
#ifndef BASE_PROCESS_MAPS_H
#define BASE_PROCESS_MAPS_H

#include <stdint.h>
#include <sys/types.h>

/* Bytes of memfds that process `pid` maps by huge page-table entries at the
 * time of the call; 0 if the number is unknown or the pid is 0. */
uint64_t process_huge_bytes(pid_t);

#endif
