/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that are started as a command line of their own and must not outlive this process. child.h is for
 * children that answer by lines; these have output of their own. */
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
 * process, with an empty standard input and without blocked signals. The program gets SIGTERM when the thread
 * that started it ends, as it does when this process is killed. The caller waits for it with waitpid; code
 * 127 also means that it could not be run. CLT_EUNSUPPORTED: no process can be made. */
clt_status clt_dependent_start(const clt_dependent *program, pid_t *out);

#endif
