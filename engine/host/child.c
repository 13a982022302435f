/* SPDX-License-Identifier: Apache-2.0
 *
 * Child processes: starting one by posix_spawn (which is safe in a process with threads, where fork is
 * not), reading its lines with a time limit, and ending it together with everything that it started. */
#include "engine/host/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/host/starved.h"

#define PIPE_FD 3  /* number of the pipe's descriptor in the child */
#define SLICE 0.25 /* longest single poll(), in seconds */

extern char **environ;

struct clt_child {
    pid_t pid;
    int pipe, output_file; /* read end of the pipe for its answers; file of its output; -1: none */
    off_t output_from;     /* where its output begins in `output_file` */
    int input;             /* our end of the socket to its standard input, -1: none */
    bool foreign;          /* CLT_CHILD_FOREIGN */
    bool ended;            /* the child has closed the pipe or, if it has no pipe, has ended */
    clt_child_event event; /* how the last wait ended */
    double limit;          /* of the last wait, in seconds */
    size_t used, taken;
    char buffer[2 * CLT_CHILD_LINE_SIZE], line[CLT_CHILD_LINE_SIZE];
};

/* --- starting --- */

static bool is_launchers(const char *entry)
{
    static const char *const prefixes[] = {"OMPI_", "PMIX_", "PMI_", "MPI_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

#define MAX_TOLD 8
static const char *told[MAX_TOLD];
static size_t n_told;
static pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;

void clt_child_tell(const char *assignment)
{
    size_t i = 0;
    CLT_LOCKED(&told_lock);
    while (i < n_told && strcmp(told[i], assignment) != 0)
        i++;
    if (i == n_told && n_told < MAX_TOLD)
        told[n_told++] = assignment;
}

clt_status clt_child_environment(char ***out)
{
    size_t count = 0, used = 0;
    while (environ[count] != NULL)
        count++;
    CLT_TRY(clt_alloc(out, count + MAX_TOLD + 1, sizeof **out, "a child's environment"));
    for (size_t i = 0; i < count; i++)
        if (!is_launchers(environ[i]))
            (*out)[used++] = environ[i];
    CLT_LOCKED(&told_lock);
    for (size_t i = 0; i < n_told; i++)
        (*out)[used++] = (char *)(uintptr_t)told[i];
    return CLT_OK;
}

static clt_status make_arguments(const char *program, const char *const *arguments, char ***out)
{
    size_t count = 0;
    while (arguments[count] != NULL)
        count++;
    CLT_TRY(clt_alloc(out, count + 2, sizeof **out, "a child's arguments"));
    (*out)[0] = (char *)(uintptr_t)program;
    for (size_t i = 0; i < count; i++)
        (*out)[i + 1] = (char *)(uintptr_t)arguments[i];
    return CLT_OK;
}

/* Duplicates a descriptor to a number above PIPE_FD, so that it cannot collide with the descriptors that the
 * child replaces (0 to 3), and closes the original. */
static int out_of_the_way(int fd)
{
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, PIPE_FD + 1);
    if (fd >= 0)
        close(fd);
    return high;
}

static int spawn_attributes(posix_spawnattr_t *attributes)
{
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    int code = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                                        POSIX_SPAWN_SETSIGMASK);
    code = code ? code : posix_spawnattr_setpgroup(attributes, 0);
    code = code ? code : posix_spawnattr_setsigdefault(attributes, &all);
    return code ? code : posix_spawnattr_setsigmask(attributes, &none);
}

/* The child's descriptors: its standard input (-1: /dev/null), the pipe for its answers (-1: none), the file
 * for its output (-1: /dev/null), and another file for its standard output (-1: the same file). `streams`:
 * the child inherits the output streams of this process instead. */
typedef struct child_ends {
    int input, answers, output_file, output;
    bool streams;
} child_ends;

static int spawn_files(posix_spawn_file_actions_t *files, const child_ends *ends)
{
    int code = ends->input >= 0 ? posix_spawn_file_actions_adddup2(files, ends->input, 0)
                                : posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
    if (ends->streams) {
        /* the output streams are inherited */
    } else if (ends->output_file >= 0) {
        code = code ? code : posix_spawn_file_actions_adddup2(files, ends->output_file, 1);
        code = code ? code : posix_spawn_file_actions_adddup2(files, ends->output_file, 2);
    } else {
        code = code ? code : posix_spawn_file_actions_addopen(files, 1, "/dev/null", O_WRONLY, 0);
        code = code ? code : posix_spawn_file_actions_adddup2(files, 1, 2);
    }
    if (ends->output >= 0)
        code = code ? code : posix_spawn_file_actions_adddup2(files, ends->output, 1);
    if (ends->answers >= 0)
        code = code ? code : posix_spawn_file_actions_adddup2(files, ends->answers, PIPE_FD);
#if __GLIBC_PREREQ(2, 34) /* older libraries cannot do this: files opened without O_CLOEXEC stay open in the
                           * child */
    code =
        code ? code : posix_spawn_file_actions_addclosefrom_np(files, PIPE_FD + (ends->answers >= 0 ? 1 : 0));
#endif
    return code;
}

static int spawn(const char *program, char **arguments, char **environment, const child_ends *ends,
                 pid_t *pid)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    int code = posix_spawnattr_init(&attributes);
    if (code != 0)
        return code;
    code = posix_spawn_file_actions_init(&files);
    if (code == 0) {
        code = spawn_attributes(&attributes);
        code = code ? code : spawn_files(&files, ends);
        code = code ? code : posix_spawn(pid, program, &files, &attributes, arguments, environment);
        posix_spawn_file_actions_destroy(&files);
    }
    posix_spawnattr_destroy(&attributes);
    return code;
}

/* Opens the file that collects the child's output: the one that the program names, or one in memory. */
static void open_words(clt_child *child, const clt_child_program *program, child_ends *ends)
{
    const bool file = (program->flags & CLT_CHILD_FILE) != 0;
    ends->streams = (program->flags & CLT_CHILD_STREAMS) != 0;
    if (ends->streams)
        return;
    /* if this fails, the output is lost */
    child->output_file = file ? fcntl(program->output, F_DUPFD_CLOEXEC, PIPE_FD + 1)
                              : out_of_the_way(memfd_create("cltrain child", MFD_CLOEXEC));
    if (program->flags & CLT_CHILD_ANSWER)
        ends->output = fcntl(program->output, F_DUPFD_CLOEXEC, PIPE_FD + 1);
    child->output_from = file && child->output_file >= 0 ? lseek(child->output_file, 0, SEEK_END) : 0;
    ends->output_file = child->output_file;
}

/* Makes the pipe for the child's answers, the file that collects its output, and the socket pair for its
 * standard input. */
static clt_status open_ends(clt_child *child, const clt_child_program *program, child_ends *ends)
{
    int pair[2] = {-1, -1};
    if (!child->foreign) {
        if (pipe2(pair, O_CLOEXEC) != 0)
            return clt_fail_errno(CLT_EUNSUPPORTED, errno, "making a pipe to a child process");
        child->pipe = pair[0];
        ends->answers = out_of_the_way(pair[1]);
    }
    open_words(child, program, ends);
    if (!(program->flags & CLT_CHILD_INPUT))
        return CLT_OK;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return clt_fail_errno(CLT_EUNSUPPORTED, errno, "making a socket to a child process");
    child->input = pair[0];
    ends->input = out_of_the_way(pair[1]);
    return CLT_OK;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Closes this process's descriptors and frees. */
static void free_child(clt_child *child)
{
    if (child == NULL)
        return;
    close_fd(child->pipe);
    close_fd(child->output_file);
    close_fd(child->input);
    free(child);
}

typedef clt_child bare_child; /* a child whose process is not started; clt_child_drop would end a process */
CLT_SCOPED_POINTER(bare_child, free_child)

static void child_ends_end_scope(child_ends *ends)
{
    close_fd(ends->answers);
    close_fd(ends->input);
    close_fd(ends->output);
}

clt_status clt_child_start_program(const clt_child_program *program, clt_child **out)
{
    CLT_SCOPED(bare_child) *child = NULL;
    CLT_FREED char **vector = NULL;
    CLT_FREED char **environment = NULL;
    CLT_SCOPED(child_ends) ends = {.input = -1, .answers = -1, .output_file = -1, .output = -1};
    *out = NULL;
    CLT_TRY(clt_alloc(&child, 1, sizeof *child, "a child process"));
    child->pipe = child->output_file = child->input = -1;
    child->foreign = (program->flags & CLT_CHILD_FOREIGN) != 0;
    CLT_TRY(make_arguments(program->path, program->arguments, &vector));
    if (!program->environment)
        CLT_TRY(clt_child_environment(&environment));
    CLT_TRY(open_ends(child, program, &ends));
    int code =
        spawn(program->path, vector, environment ? environment : (char **)(uintptr_t)program->environment,
              &ends, &child->pid);
    if (code != 0)
        return clt_fail_errno(code == ENOMEM ? CLT_ENOMEM : CLT_EUNSUPPORTED, code,
                              "starting '%s' as a child process", program->path);
    *out = CLT_TAKE(child);
    return CLT_OK;
}

clt_status clt_child_start(const char *program, const char *const *arguments, uint32_t flags, clt_child **out)
{
    return clt_child_start_program(
        &(clt_child_program){.path = program, .arguments = arguments, .flags = flags}, out);
}

/* --- waiting --- */

/* Waits for the descriptor, at most SLICE seconds, and subtracts the time from *left. Returns more than 0 if
 * it is ready, 0 if it is not, and less than 0 if poll() failed. */
static int wait_for(int fd, short events, double *left)
{
    double start = clt_now(), slice = *left < SLICE ? *left : SLICE;
    struct pollfd wait = {.fd = fd, .events = events};
    int ready = poll(&wait, 1, slice <= 0.0 ? 0 : (int)(slice * 1e3) + 1);
    double took = clt_now() - start;
    /* A much longer wait means that this process was suspended, perhaps together with the child: then only
     * one slice counts. */
    *left -= took < 2 * SLICE ? took : SLICE;
    return ready < 0 && errno == EINTR ? 0 : ready;
}

/* --- telling --- */

clt_status clt_child_send(clt_child *child, const char *text, size_t length, double seconds)
{
    double left = seconds;
    while (length > 0) {
        /* MSG_NOSIGNAL: no SIGPIPE when the child is gone */
        ssize_t n = send(child->input, text, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            text += n;
            length -= (size_t)n;
            left = seconds;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            int ready = wait_for(child->input, POLLOUT, &left);
            if (ready < 0)
                return clt_fail_errno(CLT_ESTORAGE, errno, "writing to a child process");
            if (ready == 0 && left <= 0.0)
                CLT_FAIL(CLT_ESTORAGE, "writing to a child process: it has read nothing for %g s", seconds);
        } else if (n == 0 || errno != EINTR) {
            return clt_fail_errno(CLT_ESTORAGE, errno, "writing to a child process");
        }
    }
    return CLT_OK;
}

/* --- reading --- */

/* Takes a whole line out of the buffer. */
static bool take_line(clt_child *child)
{
    char *start = child->buffer + child->taken, *end = memchr(start, '\n', child->used - child->taken);
    if (end == NULL && child->used - child->taken < CLT_CHILD_LINE_SIZE)
        return false;
    size_t length = end ? (size_t)(end - start) : CLT_CHILD_LINE_SIZE;
    size_t kept = length < CLT_CHILD_LINE_SIZE ? length : CLT_CHILD_LINE_SIZE - 1;
    for (size_t i = 0; i < kept; i++)
        child->line[i] = start[i] != '\0' ? start[i] : ' ';
    child->line[kept] = '\0';
    child->taken += length + (end != NULL);
    return true;
}

/* False: the pipe is closed. */
static bool read_more(clt_child *child)
{
    memmove(child->buffer, child->buffer + child->taken, child->used - child->taken);
    child->used -= child->taken;
    child->taken = 0;
    ssize_t n = read(child->pipe, child->buffer + child->used, sizeof child->buffer - child->used);
    if (n > 0)
        child->used += (size_t)n;
    return n > 0 || (n < 0 && errno == EINTR);
}

static clt_child_event next(clt_child *child, double left, const char **line)
{
    *line = child->line;
    while (!take_line(child)) {
        if (child->ended)
            return CLT_CHILD_ENDED;
        int ready = wait_for(child->pipe, POLLIN, &left);
        if (ready == 0 && left <= 0.0)
            return CLT_CHILD_SILENT;
        if (ready > 0)
            child->ended = !read_more(child);
        else if (ready < 0)
            child->ended = true;
    }
    return CLT_CHILD_LINE;
}

clt_child_event clt_child_next(clt_child *child, double seconds, const char **line)
{
    child->limit = seconds;
    return child->event = next(child, seconds, line);
}

#define FEW 0.05 /* share of the limit: shorter waiting for a core is ignored */
/* limit of a wait, as a fraction of the one before, so that all waits add up to at most five limits */
#define MOST 0.8

clt_child_event clt_child_next_awake(clt_child *child, double seconds, const char **line)
{
    double own = clt_process_starved(child->pid), others = 0.0, left = seconds;
    child->limit = seconds;
    for (;;) {
        child->event = next(child, left, line);
        if (child->event != CLT_CHILD_SILENT)
            return child->event;
        /* the child waited for a core, or a process that it started did, such as a linker */
        double own_now = clt_process_starved(child->pid), others_now = clt_group_starved(child->pid);
        double waited = own_now - own > others_now - others ? own_now - own : others_now - others;
        left = waited < MOST * left ? waited : MOST * left; /* several threads may have waited */
        if (left < FEW * seconds)
            return child->event;
        own = own_now;
        others = others_now;
    }
}

/* --- ending --- */

/* The C library has such a function only since glibc 2.32. */
static const char *signal_name(int number)
{
    static const char *const names[] = {
        [SIGABRT] = "SIGABRT", [SIGALRM] = "SIGALRM", [SIGBUS] = "SIGBUS",   [SIGFPE] = "SIGFPE",
        [SIGHUP] = "SIGHUP",   [SIGILL] = "SIGILL",   [SIGINT] = "SIGINT",   [SIGKILL] = "SIGKILL",
        [SIGPIPE] = "SIGPIPE", [SIGQUIT] = "SIGQUIT", [SIGSEGV] = "SIGSEGV", [SIGSYS] = "SIGSYS",
        [SIGTERM] = "SIGTERM", [SIGTRAP] = "SIGTRAP", [SIGUSR1] = "SIGUSR1", [SIGUSR2] = "SIGUSR2",
        [SIGXCPU] = "SIGXCPU", [SIGXFSZ] = "SIGXFSZ",
    };
    return number < (int)(sizeof names / sizeof names[0]) ? names[number] : NULL;
}

static void describe_end(int wait_status, clt_child_end *end)
{
    if (wait_status < 0) {
        end->code = -1;
        snprintf(end->text, sizeof end->text, "an unknown end");
    } else if (WIFSIGNALED(wait_status)) {
        const char *name = signal_name(WTERMSIG(wait_status));
        end->signal = WTERMSIG(wait_status);
        if (name != NULL)
            snprintf(end->text, sizeof end->text, "%s", name);
        else
            snprintf(end->text, sizeof end->text, "signal %d", end->signal);
    } else {
        end->code = WEXITSTATUS(wait_status);
        snprintf(end->text, sizeof end->text, "exit code %d", end->code);
    }
}

void clt_child_last_line(int fd, int64_t from, char *out, size_t size)
{
    char tail[2048];
    off_t length = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0, room = (off_t)sizeof tail - 1;
    ssize_t n =
        length > from ? pread(fd, tail, (size_t)room, length - from > room ? length - room : from) : 0;
    out[0] = '\0';
    while (n > 0 && ((unsigned char)tail[n - 1] <= ' '))
        n--;
    if (n <= 0)
        return;
    tail[n] = '\0';
    for (ssize_t i = 0; i < n; i++)
        if ((unsigned char)tail[i] < ' ' && tail[i] != '\n')
            tail[i] = ' ';
    const char *start = strrchr(tail, '\n');
    snprintf(out, size, "%.*s", (int)size - 1, start ? start + 1 : tail);
}

bool clt_child_is_over(clt_child *child)
{
    siginfo_t info = {0};
    int code;
    while ((code = waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT)) < 0 && errno == EINTR)
        continue;
    child->ended = child->ended || code < 0 || info.si_pid == child->pid;
    return child->ended;
}

void clt_child_kill(clt_child *child)
{
    kill(-child->pid, SIGKILL);
}

void clt_child_leave(clt_child *child)
{
    free_child(child);
}

void clt_child_stop(clt_child *child, clt_child_end *end)
{
    clt_child_end ignored;
    int wait_status = -1;
    if (child == NULL)
        return;
    end = end ? end : &ignored;
    memset(end, 0, sizeof *end);
    /* A child that has closed the pipe is about to exit by itself. Wait up to two seconds for that, so that
     * its own exit code or signal is reported, and not our SIGKILL. */
    pid_t got = 0;
    for (int i = 0; i < 200 && child->ended && (got = waitpid(child->pid, &wait_status, WNOHANG)) == 0; i++)
        usleep(10000);
    if (got != child->pid) {
        kill(-child->pid, SIGKILL);
        kill(child->pid, SIGKILL);
        while ((got = waitpid(child->pid, &wait_status, 0)) < 0 && errno == EINTR)
            continue;
    } else if (!child->foreign) {
        kill(-child->pid, SIGKILL); /* kills processes that it had started */
    }
    describe_end(got == child->pid ? wait_status : -1, end);
    clt_child_last_line(child->output_file, child->output_from, end->last_line, sizeof end->last_line);
    end->event = child->event;
    end->limit = child->limit;
    free_child(child);
}

void clt_child_loss(const clt_child_end *end, const char *ended, const char *silent, const char *invalid,
                    char *out, size_t size)
{
    if (end->event == CLT_CHILD_SILENT)
        snprintf(out, size, "%s %g s", silent, end->limit);
    else if (end->event == CLT_CHILD_LINE && invalid != NULL)
        snprintf(out, size, "%s", invalid);
    else
        snprintf(out, size, "%s %s%s%s", ended, end->text, end->last_line[0] ? ": " : "", end->last_line);
}

/* --- the child's side --- */

clt_status clt_child_begin(void)
{
    struct rlimit none = {0, 0};
    struct stat info;
    if (fstat(PIPE_FD, &info) != 0 || !S_ISFIFO(info.st_mode) || fcntl(PIPE_FD, F_SETFD, FD_CLOEXEC) != 0)
        CLT_FAIL(CLT_EUSAGE, "this command is for cltrain itself, which starts it as a child process");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* A scheduler or a service manager may send a signal to the whole job. The parent handles it and then
     * ends this process; a child that died of the signal would look as if the driver had crashed. The
     * signals are blocked rather than ignored because a compiler inside the driver (LLVM) installs its own
     * handlers for ignored signals. */
    clt_thread_block_signals(NULL);
    setrlimit(RLIMIT_CORE, &none);
    return CLT_OK;
}

clt_status clt_child_say(const char *format, ...)
{
    char line[CLT_CHILD_LINE_SIZE];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof line - 1 ? (size_t)n : sizeof line - 2;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] < ' ' && line[i] != '\t')
            line[i] = ' ';
    line[length] = '\n';
    return clt_fd_write(PIPE_FD, line, length + 1, "the parent process");
}
