/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds mpirun's command line, starts it, passes signals on and reads its error stream. */
#include "cli/launch/launch_job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/comm.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/host/cores.h"
#include "engine/host/dependent.h"
#include "engine/host/find_program.h"

/* --- the command line --- */

static bool in_folder(const char *folder, size_t length, char **out)
{
    CLT_SCOPED(clt_str) file = {0};
    clt_str_append_n(&file, folder, length);
    clt_str_append(&file, "/mpirun");
    if (length > 0 && clt_str_check(&file) == CLT_OK && !clt_is_directory(file.text) &&
        access(file.text, X_OK) == 0)
        *out = CLT_TAKE(file.text);
    return *out != NULL;
}

clt_status launch_find_mpirun(const char *program, char **out)
{
    const char *slash = strrchr(program, '/');
    *out = NULL;
    if (slash && in_folder(program, (size_t)(slash - program), out))
        return CLT_OK;
    if (clt_program_named("mpirun", out) == CLT_OK)
        return CLT_OK;
    CLT_FAIL(CLT_EUNSUPPORTED,
             "cltrain launch: several ranks need Open MPI's mpirun, which is in no folder of PATH; install "
             "it (Debian, Ubuntu: apt-get install openmpi-bin), or train on one device: --devices 1");
    return CLT_OK;
}

clt_status launch_line_add(launch_line *line, const char *word)
{
    if (line->count + 1 >= line->capacity) {
        int capacity = line->capacity ? 2 * line->capacity : 64;
        const char **words = realloc(line->words, (size_t)capacity * sizeof *words);
        if (!words)
            CLT_FAIL(CLT_ENOMEM, "no memory for a command line");
        line->words = words;
        line->capacity = capacity;
    }
    line->words[line->count++] = word;
    line->words[line->count] = NULL;
    return CLT_OK;
}

void launch_line_free(launch_line *line)
{
    free(line->words);
    free(line->environment);
    clt_str_free(&line->exports);
    clt_str_free(&line->preload);
    *line = (launch_line){0};
}

static clt_status add_words(launch_line *line, const char *const *words)
{
    for (; *words; words++)
        CLT_TRY(launch_line_add(line, *words));
    return CLT_OK;
}

/* Environment variables that choose drivers, devices or behaviour go to the other hosts, too. */
static clt_status add_exports(launch_line *line)
{
    static const char *const prefixes[] = {"CLTRAIN_", "OCL_ICD_", "POCL_"};
    for (char *const *entry = environ; *entry; entry++)
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            if (strncmp(*entry, prefixes[i], strlen(prefixes[i])) == 0)
                clt_str_append_n(&line->exports, *entry, strcspn(*entry, "=") + 1);
    CLT_TRY(clt_str_check(&line->exports));
    for (char *at = line->exports.text; at && *at;) {
        char *end = strchr(at, '=');
        *end = '\0';
        CLT_TRY(add_words(line, (const char *const[]){"-x", at, NULL}));
        at = end + 1;
    }
    return CLT_OK;
}

/* Options for several hosts: daemons that notice the loss of a host, and a network that all hosts reach. */
static clt_status add_far(launch_line *line, const launch_where *where)
{
    static const char *const keepalive[] = {
        "--mca", "oob_tcp_keepalive_time",   "10", "--mca", "oob_tcp_keepalive_intvl", "5",
        "--mca", "oob_tcp_keepalive_probes", "3",  NULL};
    const char *const network[] = {
        "--mca", "btl_tcp_if_include", where->network, "--mca", "oob_tcp_if_include", where->network, NULL};
    CLT_TRY(add_words(line, keepalive));
    if (where->network)
        CLT_TRY(add_words(line, network));
    return add_exports(line);
}

/* Adds to mpirun's LD_PRELOAD the library that binds mpirun's own port to the loopback address, for which
 * Open MPI has no setting. Blanks and colons separate the words of LD_PRELOAD, so a path that contains one
 * is not used. */
static clt_status add_loopback(launch_line *line)
{
    char path[PATH_MAX];
    size_t count = 0;
    if (!comm_module_file(COMM_LOOPBACK_FILE, path, sizeof path) || path[0] != '/' || strpbrk(path, " :\t\n"))
        return CLT_OK;
    const char *already = getenv("LD_PRELOAD");
    clt_str_printf(&line->preload, "LD_PRELOAD=%s%s%s", path, already && already[0] ? ":" : "",
                   already ? already : "");
    CLT_TRY(clt_str_check(&line->preload));
    while (environ[count])
        count++;
    CLT_TRY(clt_alloc(&line->environment, count + 2, sizeof *line->environment, "an environment"));
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", strlen("LD_PRELOAD=")) != 0)
            line->environment[kept++] = environ[i];
    line->environment[kept] = line->preload.text;
    return CLT_OK;
}

/* Options for one host: ranks talk through shared memory. Without these options every rank, and mpirun,
 * accepts connections from the network. The user's settings in Open MPI's environment variables are kept. */
static clt_status add_near(launch_line *line)
{
    static const char *const choices[][2] = {{"btl", "^tcp,ofi,openib,usnic,uct"},
                                             {"pml", "ob1"},
                                             {"oob_tcp_if_include", "lo"},
                                             {"oob_tcp_disable_ipv6_family", "1"}};
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        char variable[64];
        snprintf(variable, sizeof variable, "OMPI_MCA_%s", choices[i][0]);
        bool other =
            strcmp(choices[i][0], "oob_tcp_if_include") == 0 && getenv("OMPI_MCA_oob_tcp_if_exclude");
        if (!getenv(variable) && !other) /* Open MPI refuses both an include and an exclude */
            CLT_TRY(add_words(line, (const char *const[]){"--mca", choices[i][0], choices[i][1], NULL}));
    }
    bool own_network = getenv("OMPI_MCA_oob_tcp_if_include") || getenv("OMPI_MCA_oob_tcp_if_exclude");
    return own_network ? CLT_OK : add_loopback(line);
}

clt_status launch_line_mpirun(launch_line *line, const char *mpirun, const launch_where *where)
{
    /* By default mpirun binds each rank of a job of two to a single core, on which all its threads then run.
     * Here ranks on CPU devices are bound to NUMA nodes if each node gets equally many of them. */
    int nodes = clt_numa_nodes();
    bool by_node = where->cpu && !where->far && nodes > 1 && where->ranks % nodes == 0;
    snprintf(line->ranks, sizeof line->ranks, "%d", where->ranks);
    const char *const words[] = {
        mpirun, "-np", line->ranks, "--host", where->hosts, "--oversubscribe", "--map-by",
        by_node ? "numa" : "slot", "--bind-to", by_node ? "numa" : "none",
        /* when a rank has ended, end the others immediately instead of after two seconds */
        "--mca", "odls_base_sigkill_timeout", "0", NULL};
    CLT_TRY(add_words(line, words));
    CLT_TRY(where->far ? add_far(line, where) : add_near(line));
    if (where->most > clt_cpu_count()) /* waiting ranks must yield their cores */
        CLT_TRY(add_words(line, (const char *const[]){"--mca", "mpi_yield_when_idle", "1", NULL}));
    return geteuid() == 0 ? launch_line_add(line, "--allow-run-as-root") : CLT_OK;
}

/* --- the process --- */

typedef struct job {
    pthread_mutex_t lock;
    pid_t process; /* 0: it has been waited for */
} job;

static void tell_job(job *j)
{
    pthread_mutex_lock(&j->lock);
    if (j->process > 0)
        (void)kill(j->process, SIGUSR2);
    pthread_mutex_unlock(&j->lock);
}

static void on_stop(void *context, int number)
{
    (void)number;
    tell_job(context);
}

static void pass_on(void *context, const char *text, size_t length)
{
    (void)context;
    while (length > 0) {
        ssize_t n = write(STDERR_FILENO, text, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* nobody reads the output */
        text += n;
        length -= (size_t)n;
    }
}

/* Waits a moment for bytes of the stream and reads them. False: the stream has ended. */
static bool read_some(int fd, launch_report *report)
{
    char bytes[4096];
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (poll(&wait, 1, 50) <= 0)
        return true;
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n > 0)
        launch_report_add(report, bytes, (size_t)n);
    return n > 0 || (n < 0 && errno == EINTR);
}

/* Reads the stream until the process has ended. */
static int watch(job *j, int fd, launch_report *report)
{
    int state = 0;
    bool open = true;
    for (;;) {
        if (open)
            open = read_some(fd, report);
        else
            (void)poll(NULL, 0, 20);
        pthread_mutex_lock(&j->lock);
        bool ended = waitpid(j->process, &state, WNOHANG) == j->process;
        if (ended)
            j->process = 0;
        pthread_mutex_unlock(&j->lock);
        if (ended)
            break;
    }
    struct pollfd rest = {.fd = fd, .events = POLLIN};
    while (open && poll(&rest, 1, 0) > 0)
        open = read_some(fd, report);
    launch_report_end(report);
    return state;
}

clt_status launch_run(const cmd_context *context, const launch_line *line, launch_end *end)
{
    job j = {.lock = PTHREAD_MUTEX_INITIALIZER};
    launch_report report = {.pass = pass_on};
    int stream[2];
    *end = (launch_end){0};
    if (pipe2(stream, O_CLOEXEC) != 0)
        return clt_fail_errno(CLT_EUNSUPPORTED, errno, "making a pipe to %s", line->words[0]);
    fflush(stdout);
    const clt_dependent program = {.words = line->words,
                                   .environment = (char *const *)(uintptr_t)line->environment,
                                   .output = -1,
                                   .errors = stream[1]};
    clt_status status = clt_dependent_start(&program, &j.process);
    close(stream[1]);
    if (status != CLT_OK) {
        close(stream[0]);
        return status;
    }
    cmd_signals_listen(on_stop, &j);
    if (atomic_load(context->stop)) /* the signal came before the child existed */
        tell_job(&j);
    int state = watch(&j, stream[0], &report);
    cmd_signals_listen(NULL, NULL);
    close(stream[0]);
    end->code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    end->signal = report.signal;
    end->rank = report.rank;
    memcpy(end->host, report.host, sizeof end->host);
    if (!end->signal && WIFSIGNALED(state))
        end->signal = WTERMSIG(state);
    return CLT_OK;
}
