/* SPDX-License-Identifier: Apache-2.0
 *
 * The main function: sets up signals, then ranks, runs the command and turns its status into the exit
 * code. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/screen/cmd.h"
#include "cli/screen/console.h"
#include "cli/screen/terminal.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/files/remote_files.h"
#include "engine/host/child.h"
#include "engine/host/find_program.h"
#include "engine/storage/copies/copies.h"
#include "engine/verify/self_test.h"
#include "engine/verify/speed/family_list.h"

static void log_line(void *context, clt_log_level level, const char *line)
{
    static const char *const names[] = {"error", "warning", "info", "debug", "trace"};
    const cmd_context *c = context;
    char who[300] = "", label[16];
    terminal_ink ink = level == CLT_LOG_ERROR ? INK_BAD : level == CLT_LOG_WARN ? INK_WARNING : INK_FAINT;
    console_make_way();
    if (c->ranks && c->ranks->ranks > 1)
        snprintf(who, sizeof who, "[rank %d %s] ", c->ranks->rank, c->ranks->host);
    CLT_FREED char *text = strdup(line);
    if (text)
        clt_text_sanitise(text);
    snprintf(label, sizeof label, "%s:", names[level]);
    terminal_tell(who, ink, label, text ? text : "out of host memory: this message is lost");
}

/* CLTRAIN_LOG sets the log level before a config is read, and overrides the config's log.level. */
static void start_log(cmd_context *context)
{
    const char *wanted = getenv("CLTRAIN_LOG");
    clt_log_level level = CLT_LOG_WARN;
    if (wanted)
        (void)clt_log_level_from_name(wanted, &level);
    clt_log_set_sink(log_line, context, level);
}

/* The ranks must be known before the first OpenCL call, because CPU devices are divided among the ranks of a
 * host. */
static clt_status start_ranks(cmd_context *context, const cmd_entry *entry)
{
    if ((entry->flags & CMD_RANKS) && comm_under_launcher()) {
        CLT_TRY(comm_create(&context->comm));
        context->ranks = comm_describe(context->comm);
        clt_log_set_first(context->ranks->rank == 0); /* only rank 0 logs warnings of the config */
        ocl_prepare_process(context->ranks->local_ranks, context->ranks->core_ranks);
        /* ranks stop together: a rank that gives up alone would leave the others waiting */
        clt_remote_wait_until(NULL);
    } else if (!(entry->flags & CMD_HIDDEN)) {
        if (entry->flags & CMD_RANKS)
            comm_warn_if_alone();
        /* Not for child processes: they keep their parent's settings, so that both see the same devices. */
        ocl_prepare_process(1, 1);
    }
    return CLT_OK;
}

/* Every rank finds the same mistake in the command line or the config. Only rank 0 reports it, and ends the
 * others, which wait up to 2 s for that. True: a signal ended the wait. */
static bool rank_0_says_it(const cmd_context *context, clt_status status)
{
    struct timespec moment = {2, 0};
    bool same_everywhere = clt_status_exit_code(status) == clt_status_exit_code(CLT_EUSAGE);
    return context->ranks && context->ranks->rank > 0 && same_everywhere && nanosleep(&moment, NULL) != 0;
}

static int finish(cmd_context *context, clt_status status)
{
    if (status != CLT_OK && status != CLT_EINTERRUPTED) {
        if (!rank_0_says_it(context, status))
            cmd_print_error(context, status);
        if (!comm_abort(context->comm, status))
            /* the launcher or the other ranks notice that this process ends */
            _exit(clt_status_exit_code(status));
    } else if (status == CLT_EINTERRUPTED && cmd_prints(context)) {
        cmd_print_error(context, status);
    }
    comm_destroy(context->comm);
    clt_log_set_sink(NULL, NULL, CLT_LOG_ERROR);
    return clt_status_exit_code(status);
}

/* If the program was started without one of the descriptors 0 to 2, the next file that it opens would get
 * that number and receive output, so /dev/null takes its place. False: it cannot be opened. */
static bool open_standard_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = dup(fd);
    if (fd > STDERR_FILENO)
        (void)close(fd);
    return fd > STDERR_FILENO;
}

int main(int argc, char **argv)
{
    if (!open_standard_descriptors())
        return clt_status_exit_code(CLT_ESTORAGE);
    const cmd_entry *entry = argc > 1 ? cmd_find(argv[1]) : NULL;
    uint32_t flags = entry ? entry->flags : 0;
    cmd_signals_install(flags & CMD_HIDDEN  ? CMD_SIGNALS_CHILD
                        : flags & CMD_STOPS ? CMD_SIGNALS_STOP
                                            : CMD_SIGNALS_END);
    /* if the parent made this process ignore the signal, the end of a child would not be reported */
    (void)signal(SIGCHLD, SIG_DFL);
    cmd_context context = {
        .stop = cmd_stop_flag(), .program = argv[0], .keeps_work = (flags & CMD_STOPS) != 0};
    start_log(&context);
    clt_program_is_this();
    (void)clt_copies_use(NULL); /* with the settings of the environment, this does not fail */
    clt_remote_wait_until(cmd_stop_flag());
    clt_families_register();
    clt_self_test_register(); /* the fallback if no child process can be started */
    clt_status status;
    if (argc < 2) {
        char *none[] = {argv[0], NULL};
        cmd_help(&context, 1, none);
        return clt_status_exit_code(CLT_EUSAGE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        entry = cmd_find("help");
    else if (strcmp(argv[1], "--version") == 0)
        entry = cmd_find("version");
    if (!entry)
        return finish(&context, cmd_help(&context, argc, argv));
    status = start_ranks(&context, entry);
    bool option = argv[1][0] == '-';
    if (status == CLT_OK)
        status = option ? entry->run(&context, 1, argv) : entry->run(&context, argc - 1, argv + 1);
    /* Output that could not be written, now or earlier, is an error, except for a training run, whose work
     * is done even if nobody reads its output. */
    bool lost = fflush(stdout) == EOF || ferror(stdout);
    if (lost && status == CLT_OK && !context.keeps_work)
        status = clt_fail(CLT_ESTORAGE, __FILE__, __LINE__, "writing to the standard output failed");
    return finish(&context, status);
}
