/* SPDX-License-Identifier: Apache-2.0
 *
 * Identifies a process, its machine, and the start of that machine, because process ids are reused. Reads
 * Linux's /proc. */
#ifndef ENGINE_FILES_PROCESS_H
#define ENGINE_FILES_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the beginning of a small file as text, "" if it cannot be read. Uses no heap memory, so that it
 * works even if memory has run out. */
void clt_file_beginning(const char *path, char *text, size_t size);
/* Writes a text that is the same for all processes of a machine until it is started again; "?" if the system
 * does not say. */
void clt_boot_identity(char *out, size_t size);
/* The number of the name space in which this process's id is valid: each container of a machine has its own.
 * 0 if the system does not say. */
int64_t clt_process_space(void);
/* When a process of this name space began: clock ticks since the machine was started, sysconf(_SC_CLK_TCK)
 * ticks a second; -1: there is no such process, or the system does not say. */
int64_t clt_process_start(int64_t process);
/* True if `id`, such as the end of a file's name, is the id of a process that does not exist here. */
bool clt_process_is_gone(const char *id);

#define CLT_PROCESS_MARK 40
/* Writes "HASH-ID", which names this process among the processes of all machines and containers, for the
 * names of files in a folder that they share; returns buffer. */
const char *clt_process_mark(char buffer[CLT_PROCESS_MARK]);
/* True if `mark` is of a process that existed here and has ended. False for a mark from another machine or
 * container, or from before this machine was restarted: nothing is known of that process. */
bool clt_process_mark_is_gone(const char *mark);

#endif
