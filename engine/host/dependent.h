/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts programs that have their own command line and output and must not outlive this process. child.h
 * is for children that answer by lines. */
#ifndef ENGINE_HOST_DEPENDENT_H
#define ENGINE_HOST_DEPENDENT_H

#include <sys/types.h>

#include "engine/base/status.h"

/* The arguments, the environment and the output streams with which a program is started. Both lists end with
 * NULL. */
typedef struct clt_dependent {
    const char *const *words; /* the program's path, then its arguments */
    char *const *environment; /* NULL: this process's */
    int output, errors;       /* descriptors of its output streams; -1: this process's stream */
} clt_dependent;

/* Starts the program as the leader of a process group, so that Ctrl-C in a terminal reaches only this
 * process, with an empty standard input and without blocked signals. The program gets SIGTERM when the
 * thread that started it ends, which also happens when this process is killed. The caller waits for the
 * program with waitpid; exit code 127 may also mean that it could not be run. CLT_EUNSUPPORTED: no process
 * can be made. */
clt_status clt_dependent_start(const clt_dependent *program, pid_t *out);

#endif
