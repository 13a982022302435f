/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain launch CONFIG: starts one rank of `cltrain train` for each device of this host or of several
 * hosts, and restarts them from the newest checkpoint when the job was interrupted or a rank was lost. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/launch/launch_hosts.h"
#include "cli/launch/launch_job.h"
#include "cli/launch/launch_leftovers.h"
#include "cli/screen/terminal.h"
#include "cli/screen/train_args.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/files/fileio.h"
#include "engine/report/write/rundir.h"

typedef struct launch {
    cmd_context *context;
    train_args train;
    const args_result *given;
    const char *spec; /* value of device.spec, or NULL */
    int64_t devices;  /* 0: all */
    int64_t max_restarts;
    int64_t micro_batch; /* > 0: the number of ranks of the first start decides the global batch */
    char program[PATH_MAX], folder[1024], batch[64];
    char *mpirun; /* path of mpirun; NULL: not searched yet */
    launch_hosts hosts;
    const char *network; /* network between hosts; NULL: Open MPI chooses */
    int ranks, most;     /* number of ranks of the newest start: in all; on the host that has the most */
    bool cpu;            /* some ranks share CPU devices */
} launch;

static void end_launch(launch *l)
{
    launch_hosts_free(&l->hosts);
    free(l->mpirun);
}
CLT_SCOPED_VALUE(launch, end_launch)

static void say(const char *text)
{
    terminal_say_to(stderr, "cltrain launch: %s\n", text);
    fflush(stderr);
}

/* --- devices --- */

/* Counts the devices before every start, in new processes, because after the loss of a device a driver may
 * still list it to a process that has seen it before. The first start needs an answer from every host; later
 * starts skip hosts that do not answer. */
static clt_status choose_ranks(launch *l)
{
    char text[640];
    bool first = l->ranks == 0;
    CLT_TRY(launch_hosts_ask(&l->hosts, l->program, l->spec, (int)l->devices, first, l->context->stop));
    l->ranks = l->most = 0;
    l->cpu = false;
    for (int i = 0; i < l->hosts.count; i++) {
        const launch_host *h = &l->hosts.host[i];
        l->ranks += h->ranks;
        l->most = h->ranks > l->most ? h->ranks : l->most;
        l->cpu = l->cpu || h->cpu;
        if (h->ranks > 0)
            continue;
        (void)snprintf(text, sizeof text, "host %s does not answer and is skipped: %s", h->name, h->why);
        say(text);
    }
    return CLT_OK;
}

/* --- the command of a start --- */

static clt_status add_option(launch_line *line, const char *name, const char *value)
{
    if (!value)
        return CLT_OK;
    CLT_TRY(launch_line_add(line, name));
    return launch_line_add(line, value);
}

/* True if the job resumes the run of another folder and its own folder has no checkpoint yet: the next start
 * resumes the other folder's run once more. */
static bool begins_again(const launch *l)
{
    const char *from = l->train.resume;
    return from && strcmp(from, "auto") != 0 && strcmp(from, "none") != 0 && l->folder[0] &&
           !clt_same_folder(from, l->folder) && !clt_checkpoint_exists(l->folder);
}

/* Removes config.resolved.json: without this file a folder counts as new. */
static clt_status forget_start(const launch *l)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(l->folder, "config.resolved.json", &path));
    if (unlink(path) != 0 && errno != ENOENT)
        CLT_FAIL(CLT_ESTORAGE, "preparing '%s' for another start: %s", l->folder, strerror(errno));
    return CLT_OK;
}

/* Adds --out and --resume. A later start resumes the newest checkpoint of the folder; if there is none yet,
 * it begins where the first start began. */
static clt_status add_folders(const launch *l, launch_line *line, bool again)
{
    const train_args *a = &l->train;
    bool first = !again || begins_again(l);
    if (again && first)
        CLT_TRY(forget_start(l));
    if (l->given->n_operands == 0) { /* --resume RUN, which names the config too */
        bool own = !first && a->out;
        CLT_TRY(add_option(line, "--resume", own ? a->out : a->resume));
        return own ? CLT_OK : add_option(line, "--out", a->out);
    }
    CLT_TRY(add_option(line, "--out", a->dry_run && !a->out ? NULL : l->folder));
    return add_option(line, "--resume", first ? a->resume : "auto");
}

static clt_status add_train(launch *l, launch_line *line, bool again)
{
    static char steps[32], trace[32], caps[512];
    const train_args *a = &l->train;
    CLT_TRY(launch_line_add(line, l->program));
    CLT_TRY(launch_line_add(line, "train"));
    CLT_TRY(add_folders(l, line, again));
    CLT_TRY(add_option(line, "--init", a->init));
    CLT_TRY(add_option(line, "--init-skip", a->init_skip));
    CLT_TRY(add_option(line, "--adapter", a->adapter));
    CLT_TRY(add_option(line, "--device", a->device));
    if (a->max_steps > 0) {
        snprintf(steps, sizeof steps, "%lld", (long long)a->max_steps);
        CLT_TRY(add_option(line, "--max-steps", steps));
    }
    if (a->trace_from > 0) {
        snprintf(trace, sizeof trace, "%lld", (long long)a->trace_from);
        CLT_TRY(add_option(line, "--trace-from", trace));
    }
    if (a->caps) { /* joined with '=', because a value may begin with a dash */
        snprintf(caps, sizeof caps, "--caps=%s", a->caps);
        CLT_TRY(launch_line_add(line, caps));
    }
    if (a->dry_run)
        CLT_TRY(launch_line_add(line, "--dry-run"));
    if (a->profile)
        CLT_TRY(launch_line_add(line, "--profile"));
    if (l->given->n_operands > 0)
        CLT_TRY(launch_line_add(line, l->given->operands[0]));
    for (int i = 0; i < l->given->n_overrides; i++)
        CLT_TRY(launch_line_add(line, l->given->overrides[i]));
    return l->batch[0] ? launch_line_add(line, l->batch) : CLT_OK;
}

/* False for a single rank on this host, which is started without mpirun. */
static bool by_mpirun(const launch *l)
{
    return l->ranks > 1 || l->hosts.far;
}

static clt_status start(launch *l, bool again, launch_end *end)
{
    CLT_SCOPED(launch_line) line = {0};
    CLT_SCOPED(clt_str) hosts = {0};
    CLT_TRY(choose_ranks(l));
    CLT_TRY(launch_hosts_print(&l->hosts, &hosts));
    if (l->micro_batch > 0 && !l->batch[0])
        snprintf(l->batch, sizeof l->batch, "data.global_batch=%lld", (long long)l->micro_batch * l->ranks);
    if (by_mpirun(l)) {
        const launch_where where = {.hosts = hosts.text,
                                    .network = l->network,
                                    .ranks = l->ranks,
                                    .most = l->most,
                                    .far = l->hosts.far,
                                    .cpu = l->cpu};
        if (!l->mpirun)
            CLT_TRY(launch_find_mpirun(l->program, &l->mpirun));
        launch_remove_leftovers();
        CLT_TRY(launch_line_mpirun(&line, l->mpirun, &where));
    }
    CLT_TRY(add_train(l, &line, again));
    return launch_run(l->context, &line, end);
}

/* --- after a job's end --- */

/* The step of the newest checkpoint; -1: there is no checkpoint. */
static int64_t newest_step(const launch *l)
{
    CLT_SCOPED(clt_checkpoint) *checkpoint = NULL;
    const char *folder = l->folder[0] ? l->folder : l->train.resume;
    if (!folder || !clt_checkpoint_exists(folder) || clt_checkpoint_peek(folder, &checkpoint) != CLT_OK) {
        clt_error_clear();
        return -1;
    }
    return checkpoint->step;
}

/* Reads the last line of the run's metrics.jsonl into `tail`; "": there is none. */
static const char *last_line(const launch *l, char *tail, size_t size)
{
    CLT_FREED char *path = NULL;
    const char *folder = l->folder[0] ? l->folder : l->train.resume;
    tail[0] = '\0';
    if (!folder || clt_path_join(folder, "metrics.jsonl", &path) != CLT_OK)
        return tail;
    FILE *file = fopen(path, "re");
    if (!file)
        return tail;
    size_t got = fseek(file, -(long)(size - 1), SEEK_END) == 0 || fseek(file, 0, SEEK_SET) == 0
                     ? fread(tail, 1, size - 1, file)
                     : 0;
    (void)fclose(file);
    while (got > 0 && tail[got - 1] == '\n')
        got--;
    tail[got] = '\0';
    const char *last = strrchr(tail, '\n');
    return last ? last : tail;
}

/* Why the run should not be started again: a file STOP, because somebody wants it to end; a notice, since
 * the machine will be gone soon; or an exhausted budget. NULL: another start may continue it. */
static const char *was_stopped_by(const launch *l)
{
    static const char *const reasons[] = {CLT_REASON_STOP_FILE, CLT_REASON_NOTICE, CLT_REASON_BUDGET};
    char tail[512];
    const char *line = last_line(l, tail, sizeof tail);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strstr(line, reasons[i]))
            return reasons[i];
    return NULL;
}

/* Replaces code 0 by an error if the run's last line does not say that it ended: Open MPI 5 ends with code 0
 * even if it has lost the connection to a host. */
static void doubt_success(const launch *l, launch_end *end)
{
    char tail[512];
    const char *line = last_line(l, tail, sizeof tail);
    if (l->hosts.far && !l->train.dry_run && end->code == 0 && line[0] &&
        !strstr(line, "\"event\":\"end\"") && !strstr(line, "\"event\":\"stopped\""))
        end->code = clt_status_exit_code(CLT_ECOMM);
}

/* True if another start may help: the job was interrupted, lost a rank or the device, or mpirun lost a host
 * (code 205; Open MPI 5 has code 14 for a killed rank of another host). */
static bool may_help(const launch *l, const launch_end *end)
{
    enum { LOST_DAEMON = 205, LOST_FAR_RANK = 14 };
    return end->signal || end->code >= 128 || end->code == LOST_DAEMON ||
           (l->hosts.far && end->code == LOST_FAR_RANK) ||
           end->code == clt_status_exit_code(CLT_EINTERRUPTED) ||
           end->code == clt_status_exit_code(CLT_ECOMM) || end->code == clt_status_exit_code(CLT_EDEVLOST);
}

static clt_status status_of(const launch_end *end)
{
    for (int s = CLT_OK; s < CLT_STATUS_COUNT; s++)
        if (!end->signal && clt_status_exit_code((clt_status)s) == end->code)
            return (clt_status)s;
    return CLT_ECOMM;
}

/* "rank 1 on node2 was ended by signal 9 (Killed)" */
static void describe(const launch *l, const launch_end *end, char *text, size_t size)
{
    if (end->signal && l->ranks > 1 && end->host[0])
        snprintf(text, size, "rank %d on %s was ended by signal %d (%s)", end->rank, end->host, end->signal,
                 strsignal(end->signal));
    else if (end->signal)
        snprintf(text, size, "the job was ended by signal %d (%s)", end->signal, strsignal(end->signal));
    else
        snprintf(text, size, "the job ended with code %d", end->code);
}

/* Waits a moment, so that the job's remaining processes can end, too. A signal ends the wait. */
static void rest(const launch *l)
{
    for (int i = 0; i < 20 && !atomic_load(l->context->stop); i++)
        (void)nanosleep(&(struct timespec){0, 50000000}, NULL);
}

/* Starts the job repeatedly until it is done, cannot continue, or must stop. */
static clt_status run(launch *l)
{
    launch_end end;
    char why[256], text[512];
    for (int64_t restarts = 0;; restarts++) {
        int64_t before = newest_step(l);
        CLT_TRY(start(l, restarts > 0, &end));
        doubt_success(l, &end);
        clt_status status = status_of(&end);
        if (end.code == 0 && !end.signal)
            return CLT_OK;
        describe(l, &end, why, sizeof why);
        if (atomic_load(l->context->stop))
            CLT_FAIL(CLT_EINTERRUPTED, "stopped; %s",
                     newest_step(l) >= 0 ? "the run can be resumed from its newest checkpoint"
                                         : "there is no checkpoint yet");
        if (!may_help(l, &end) || l->train.dry_run)
            CLT_FAIL(status, "%s", why);
        const char *stopped_by = status == CLT_EINTERRUPTED ? was_stopped_by(l) : NULL;
        if (stopped_by)
            CLT_FAIL(status, "the run was stopped: %s", stopped_by);
        int64_t now = newest_step(l);
        if (restarts > 0 && now <= before)
            CLT_FAIL(status, "%s; giving up: since the last restart there is no newer checkpoint", why);
        if (restarts == l->max_restarts)
            CLT_FAIL(status, "%s; giving up after %lld restart%s (--max-restarts)", why, (long long)restarts,
                     CLT_PLURAL(restarts));
        snprintf(text, sizeof text, "%s; restart %lld of %lld, %s%lld", why, (long long)restarts + 1,
                 (long long)l->max_restarts, now >= 0 ? "from step " : "from the beginning: step ",
                 (long long)(now >= 0 ? now : 0));
        say(text);
        rest(l);
        if (atomic_load(l->context->stop))
            CLT_FAIL(CLT_EINTERRUPTED, "stopped before the restart");
    }
}

/* --- the command --- */

static clt_status take_devices(launch *l, const char *text)
{
    char *end = NULL;
    if (!text || strcmp(text, "all") == 0)
        return CLT_OK;
    l->devices = strtol(text, &end, 10);
    if (*end != '\0' || l->devices < 1 || l->devices > 1024)
        CLT_FAIL(CLT_EUSAGE, "cltrain launch: option --devices: '%s' is neither all nor a number of devices",
                 text);
    return CLT_OK;
}

/* Reads devices, batches and the run's folder from the config. Mistakes in the config are found here, before
 * any rank starts. */
static clt_status read_config(launch *l, const clt_config *config)
{
    CLT_FREED char *chosen = NULL;
    char base[1024];
    const train_args *a = &l->train;
    static char spec[256];
    snprintf(spec, sizeof spec, "%s", a->device ? a->device : clt_config_string(config, "device.spec"));
    l->spec = spec[0] ? spec : NULL;
    if (clt_config_int(config, "data.global_batch") == 0)
        l->micro_batch = clt_config_int(config, "data.micro_batch");
    if (a->out || l->given->n_operands == 0) {
        snprintf(l->folder, sizeof l->folder, "%s", a->out ? a->out : "");
        return CLT_OK;
    }
    CLT_TRY(train_default_folder(l->given->operands[0], base, sizeof base));
    bool same =
        a->resume && strcmp(a->resume, "auto") == 0; /* the folder must have the same name every time */
    if (!same)
        CLT_TRY(cmd_free_folder(base, &chosen));
    snprintf(l->folder, sizeof l->folder, "%s", same ? base : chosen);
    return CLT_OK;
}

static clt_status open_config(launch *l)
{
    const args_result *r = l->given;
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_saved_run) *saved = NULL;
    if (r->n_operands > 0) {
        const clt_start start = train_start(&l->train);
        clt_log_set_first(false); /* rank 0 prints the warnings about the config */
        clt_status status = cmd_load_config(r, &start, &config);
        clt_log_set_first(true);
        CLT_TRY(status);
        return read_config(l, config);
    }
    if (!l->train.resume || strcmp(l->train.resume, "none") == 0 || strcmp(l->train.resume, "auto") == 0)
        CLT_FAIL(CLT_EUSAGE, "cltrain launch: missing argument: usage: cltrain launch CONFIG "
                             "[section.key=value ...], or cltrain launch --resume RUN to resume a run");
    const clt_saved_run_options options = {
        .overrides = r->overrides, .n_overrides = r->n_overrides, .training = true, .newest_config = true};
    CLT_TRY(clt_saved_run_open(l->train.resume, &options, &saved));
    return read_config(l, saved->config);
}

static clt_status find_program(launch *l)
{
    ssize_t length = readlink("/proc/self/exe", l->program, sizeof l->program - 1);
    if (length <= 0)
        CLT_FAIL(CLT_EUNSUPPORTED,
                 "cltrain launch: /proc/self/exe does not give the path of this program; mount /proc");
    l->program[length] = '\0';
    return CLT_OK;
}

clt_status cmd_launch(cmd_context *context, int argc, char **argv)
{
    CLT_SCOPED(launch) l = {.context = context, .max_restarts = 3};
    const char *devices = NULL, *hosts = NULL;
    const args_option options[] = {
        ARGS_TEXT(
            "--devices", "all|N", devices,
            "ranks to start: one for each device that --device or device.spec names, counted again at every "
            "start; or N (all)"),
        ARGS_TEXT(
            "--hosts", "LIST|FILE", hosts,
            "train on several hosts: a,b:4 or a file with lines 'NAME slots=N'; a host without a number gets "
            "the number of ranks that --devices gives; give the command on the first host (this host)"),
        ARGS_TEXT(
            "--network", "NET", l.network,
            "the network between hosts: an interface, or an address such as 10.0.0.0/24 (all networks)"),
        ARGS_INT("--max-restarts", "N", l.max_restarts, 0, 1e6,
                 "restart at most N times, from the newest checkpoint (3)"),
        TRAIN_OPTIONS(l.train),
        ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "launch", "CONFIG [section.key=value ...]", 0, 1, options,
        "Trains on several devices of this host, or of several hosts (--hosts): one rank of 'cltrain "
        "train' for each, started by Open MPI's mpirun. When a rank is lost or does not answer, or the "
        "job is interrupted by something else than this command (codes 9, 10 and 75), it starts again "
        "from the newest checkpoint, unless the last start has made no newer one. SIGTERM, SIGINT, "
        "SIGUSR2, SIGHUP, a file STOP in the run folder, a notice of the cloud (cloud.provider) or a budget "
        "that is used up (cost.budget): all ranks finish the same step, save, exit with 75.");
    args_result r;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(train_check_args(&l.train));
    if (comm_under_launcher() || comm_tasks_alone() > 1)
        CLT_FAIL(
            CLT_EUSAGE,
            "cltrain launch starts the ranks itself; do not start it by mpirun or srun (in a shell that srun "
            "started: srun -n1 --overlap cltrain launch ...)");
    l.given = &r;
    CLT_TRY(take_devices(&l, devices));
    CLT_TRY(find_program(&l));
    /* ranks are started with the program's path, but show the name that the user typed in their messages */
    if (setenv(CMD_CALLED, context->program, 1) != 0)
        CLT_FAIL(CLT_ENOMEM, "cltrain launch: out of host memory");
    CLT_TRY(launch_hosts_read(hosts, &l.hosts));
    CLT_TRY(open_config(&l));
    return run(&l);
}
