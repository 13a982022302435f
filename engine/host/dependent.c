/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a program by fork, since posix_spawn cannot tell it to end with its parent. */
#include "engine/host/dependent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "engine/files/fileio_error.h"

extern char **environ;

/* Runs in the child between fork and exec, so it makes only calls that are safe there. */
_Noreturn static void become(const clt_dependent *program, pid_t parent)
{
    sigset_t none;
    int null = open("/dev/null", O_RDONLY);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(127);
    (void)dup2(null, STDIN_FILENO);
    if (program->output >= 0)
        (void)dup2(program->output, STDOUT_FILENO);
    if (program->errors >= 0)
        (void)dup2(program->errors, STDERR_FILENO);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGXFSZ, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execve(program->words[0], (char *const *)(uintptr_t)program->words,
                 program->environment ? program->environment : environ);
    _exit(127);
}

clt_status clt_dependent_start(const clt_dependent *program, pid_t *out)
{
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        become(program, parent);
    if (child < 0)
        return clt_fail_errno(CLT_EUNSUPPORTED, errno, "starting %s", program->words[0]);
    *out = child;
    return CLT_OK;
}
