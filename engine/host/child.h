/* SPDX-License-Identifier: Apache-2.0
 *
 * Child processes for work that may not return: calls into a driver that can crash, hang or corrupt the
 * process. The child is the cltrain program with a special command. It answers with lines of text through
 * a pipe and writes each line before it begins the next task, so that the parent knows what the child was
 * doing when it ended or fell silent. This file must not know what the lines say. */
#ifndef ENGINE_HOST_CHILD_H
#define ENGINE_HOST_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/scope.h"
#include "engine/base/status.h"

typedef struct clt_child clt_child;

/* Adds a variable, "NAME=value", to the environment of all children started from now on, but not to the
 * environment of this process. The text is kept by reference; adding the same text again does nothing. */
void clt_child_tell(const char *assignment);
/* The environment that children get: the environment of this process, without the variables by which MPI
 * launchers identify their processes, and with the variables that clt_child_tell added. The caller frees the
 * list; its texts are borrowed. */
clt_status clt_child_environment(char ***out);

enum {
    /* The child inherits the output streams of this process. Without this flag its output is collected,
     * and clt_child_stop returns the last line of it. */
    CLT_CHILD_STREAMS = 1,
    /* The child's standard input gets what clt_child_send sends. Without this flag it is empty. */
    CLT_CHILD_INPUT = 2,
    /* A program that knows nothing of cltrain: it gets no pipe, so clt_child_next must not be called, and
     * processes that it has started live on when it ends by itself. */
    CLT_CHILD_FOREIGN = 4,
    /* Its output is appended to the file `output`. */
    CLT_CHILD_FILE = 8,
    /* Its standard output is appended to the file `output`; its error stream is collected. */
    CLT_CHILD_ANSWER = 16
};
typedef struct clt_child_program {
    const char *path;
    const char *const *arguments; /* without the program's name; NULL at the end */
    /* "NAME=value", NULL at the end; NULL: as clt_child_environment gives it */
    const char *const *environment;
    uint32_t flags;
    /* with CLT_CHILD_FILE or CLT_CHILD_ANSWER: a descriptor for reading and appending, which the caller
     * closes */
    int output;
} clt_child_program;

/* Starts a program as the leader of a process group. It inherits no file that this process holds open.
 * CLT_ENOMEM: out of memory or of processes; CLT_EUNSUPPORTED: the program cannot be started. */
clt_status clt_child_start_program(const clt_child_program *program, clt_child **out);
/* The same with `environment` NULL and without `output`. */
clt_status clt_child_start(const char *program, const char *const *arguments, uint32_t flags,
                           clt_child **out);
/* For a child with CLT_CHILD_FOREIGN. is_over: true if it has ended. kill: kills it and its process group
 * without waiting. leave: frees `child`, and lets the process continue. */
bool clt_child_is_over(clt_child *child);
void clt_child_kill(clt_child *child);
void clt_child_leave(clt_child *child);
/* Writes text to the standard input of a child that was started with CLT_CHILD_INPUT. CLT_ESTORAGE when the
 * child is gone, or has read nothing for `seconds`. */
clt_status clt_child_send(clt_child *child, const char *text, size_t length, double seconds);

typedef enum clt_child_event {
    CLT_CHILD_LINE,  /* it wrote a line */
    CLT_CHILD_ENDED, /* it closed the pipe: it exited or crashed; an unfinished last line is dropped */
    CLT_CHILD_SILENT /* no line came in time */
} clt_child_event;
/* Waits at most `seconds` for the next line, which is borrowed until the next call. A line of
 * CLT_CHILD_LINE_SIZE bytes or more is cut. */
#define CLT_CHILD_LINE_SIZE 8192
clt_child_event clt_child_next(clt_child *child, double seconds, const char **line);

/* Like clt_child_next, but does not count the time for which the child, or a process that it started, was
 * ready to run and had no core. So on a busy machine it waits up to five times as long. */
clt_child_event clt_child_next_awake(clt_child *child, double seconds, const char **line);

/* How a child ended. */
typedef struct clt_child_end {
    int signal;            /* 0: none */
    int code;              /* exit code, when there was no signal; -1: not known */
    char text[32];         /* "SIGABRT", "exit code 3" */
    char last_line[256];   /* the last line that it printed, "" if none, or if it inherited the streams */
    clt_child_event event; /* how the last wait for a line ended, and its limit in seconds */
    double limit;
} clt_child_end;
/* Writes how a child was lost, in the caller's words. If the last wait found the child ended: `ended`, how
 * it ended and what it printed. If no line came in time: `silent` and the limit. If a line came: `invalid`
 * (NULL: the same as for an ended child). */
void clt_child_loss(const clt_child_end *end, const char *ended, const char *silent, const char *invalid,
                    char *out, size_t size);
/* The last nonempty line after offset `from` of a file, without control characters; "": there is none, or fd
 * is below 0. */
void clt_child_last_line(int fd, int64_t from, char *out, size_t size);
/* Kills the child and its process group (CLT_CHILD_FOREIGN: only if it is still there), waits for it, and
 * frees `child`. If the child was still running, its end is SIGKILL. `end` may be NULL. */
void clt_child_stop(clt_child *child, clt_child_end *end);
static inline void clt_child_drop(clt_child *child) /* NULL is fine */
{
    clt_child_stop(child, NULL);
}
CLT_SCOPED_POINTER(clt_child, clt_child_drop)

/* --- the child's side --- */

/* To be called first in the child: the child ends when its parent does, and writes no core file. */
clt_status clt_child_begin(void);
/* Writes a line to the parent immediately; line breaks and other control characters become spaces.
 * CLT_ESTORAGE when the parent is gone. */
clt_status clt_child_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
