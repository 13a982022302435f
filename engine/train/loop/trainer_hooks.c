/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks: programs of the user that are started at a notice, after a checkpoint and at the end (hooks.*).
 * They run beside the training, which checks after each step whether they have ended, and waits for them
 * only at its end. Nothing that a hook does ends the training. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/host/child.h"
#include "engine/host/find_program.h"
#include "engine/train/loop/trainer_loop.h"

#define COUNT(fields) (sizeof(fields) / sizeof(fields)[0])
#define LOG_FILE "hooks.log"
#define LOOK_US 20000       /* microseconds between two checks of the hooks at the end of the training */
#define ABANDON_SECONDS 5.0 /* after this time a killed hook that has not ended is abandoned */

/* An environment that is being built; it owns its texts. */
typedef struct variables {
    char **text; /* "NAME=value", NULL at the end */
    size_t count, room;
} variables;

typedef struct hook {
    char *program;          /* path of the hook; NULL: there is none on this rank */
    const char **arguments; /* the config's texts, NULL at the end */
    clt_child *child;       /* the process, while it runs */
    double began;
    int64_t step; /* the step after which it was started */
    bool killed;  /* it ran for too long and was killed; it may still need time to end */
    bool due;     /* an event waits until the hook that still runs has ended */
    int64_t due_step;
    variables due_variables;
} hook;

struct clt_hooks {
    hook hook[CLT_HOOKS];
    bool first; /* this is rank 0 */
    bool alone; /* there is no other rank */
};

static const char *const keys[CLT_HOOKS] = {"hooks.on_notice", "hooks.on_save", "hooks.on_exit"};

/* --- the environment --- */

static void free_variables(variables *v)
{
    for (size_t i = 0; i < v->count; i++)
        free(v->text[i]);
    free(v->text);
    *v = (variables){0};
}

static clt_status set(variables *v, const char *name, const char *value)
{
    CLT_SCOPED(clt_str) text = {0};
    if (v->count + 1 >= v->room) {
        size_t room = 2 * v->room + 16;
        char **larger = realloc(v->text, room * sizeof *larger);
        if (!larger)
            CLT_FAIL(CLT_ENOMEM, "no memory for the environment of a hook");
        v->text = larger;
        v->room = room;
    }
    clt_str_printf(&text, "%s=%s", name, value);
    CLT_TRY(clt_str_take(&text, &v->text[v->count]));
    v->text[++v->count] = NULL;
    return CLT_OK;
}

static clt_status set_number(variables *v, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return set(v, name, text);
}

static clt_status set_path(variables *v, const char *name, const char *path)
{
    CLT_FREED char *whole = realpath(path, NULL);
    return set(v, name, whole ? whole : path);
}

static clt_status inherit(variables *v, const char *name)
{
    const char *value = getenv(name);
    return value ? set(v, name, value) : CLT_OK;
}

static bool has_folder(const clt_loop *l)
{
    return l->options->out_dir && clt_is_directory(l->options->out_dir);
}

/* Adds the variables that every hook gets, in addition to the variables of its event. */
static clt_status complete(const clt_loop *l, int kind, int64_t step, variables *v)
{
    static const char *const kept[] = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR"};
    const clt_config *c = l->options->config;
    for (size_t i = 0; i < COUNT(kept); i++)
        CLT_TRY(inherit(v, kept[i]));
    for (int i = 0; i < clt_config_list_count(c, "hooks.pass"); i++)
        CLT_TRY(inherit(v, clt_config_list_string(c, "hooks.pass", i)));
    CLT_TRY(set(v, "CLTRAIN_HOOK", strchr(keys[kind], '.') + 1));
    CLT_TRY(set_number(v, "CLTRAIN_STEP", step));
    return has_folder(l) ? set_path(v, "CLTRAIN_RUN", l->options->out_dir) : CLT_OK;
}

/* --- starting and ending --- */

/* Opens hooks.log and adds a line that names the hook whose output follows; -1: there is no run folder. */
static int open_output(const clt_loop *l, int kind, int64_t step)
{
    CLT_FREED char *path = NULL;
    char line[96];
    int fd = -1;
    if (!l->hooks->first || !has_folder(l))
        return -1;
    snprintf(line, sizeof line, "--- %s, step %lld\n", keys[kind], (long long)step);
    if (clt_path_join(l->options->out_dir, LOG_FILE, &path) != CLT_OK ||
        clt_own_file_append(path, &fd) != CLT_OK || clt_fd_write(fd, line, strlen(line), path) != CLT_OK)
        clt_error_clear(); /* the hook matters more than its output */
    return fd;
}

static clt_status start(clt_loop *l, int kind)
{
    hook *h = &l->hooks->hook[kind];
    CLT_CLOSED int output = open_output(l, kind, h->due_step);
    CLT_TRY(complete(l, kind, h->due_step, &h->due_variables));
    const clt_child_program program = {.path = h->program,
                                       .arguments = h->arguments,
                                       .environment = (const char *const *)h->due_variables.text,
                                       .flags = CLT_CHILD_FOREIGN |
                                                (output < 0 ? CLT_CHILD_STREAMS : CLT_CHILD_FILE),
                                       .output = output};
    CLT_TRY(clt_child_start_program(&program, &h->child));
    h->began = clt_now();
    h->killed = false;
    h->step = h->due_step;
    return CLT_OK;
}

static void start_due(clt_loop *l, int kind)
{
    hook *h = &l->hooks->hook[kind];
    char text[600];
    h->due = false;
    if (start(l, kind) != CLT_OK) {
        snprintf(text, sizeof text, "%s: %s", keys[kind], clt_error_text());
        clt_error_clear();
        clt_tell_warning(l, text);
    }
    free_variables(&h->due_variables);
}

/* Tells how a hook has ended. */
static void tell_end(clt_loop *l, int kind, const clt_child_end *end, double seconds)
{
    const hook *h = &l->hooks->hook[kind];
    char text[600], result[96];
    if (h->killed)
        snprintf(result, sizeof result, "killed, since it ran for more than %g s (hooks.seconds)",
                 clt_config_float(l->options->config, "hooks.seconds"));
    else
        snprintf(result, sizeof result, "%s", end->text);
    const clt_event_field fields[] = {CLT_FIELD_TEXT("hook", strchr(keys[kind], '.') + 1),
                                      CLT_FIELD_TEXT("result", result), CLT_FIELD_NUMBER("seconds", seconds)};
    if (!l->ended && clt_rundir_event(l->dir, "hook", h->step, fields, COUNT(fields)) != CLT_OK)
        clt_error_clear(); /* metrics that cannot be written end the run at the next step */
    snprintf(text, sizeof text, "%s after step %lld: %s%s%s", keys[kind], (long long)h->step, result,
             end->last_line[0] ? ": " : "", end->last_line);
    if (h->killed || end->signal || end->code)
        clt_tell_warning(l, text);
    else
        clt_rundir_log(l->dir, "%s", text);
}

/* Checks on a hook that runs. A killed one may hang in a system call that does not return. */
static void attend(clt_loop *l, int kind)
{
    hook *h = &l->hooks->hook[kind];
    const double seconds = clt_now() - h->began,
                 limit = clt_config_float(l->options->config, "hooks.seconds");
    clt_child_end end = {.code = 0};
    if (clt_child_is_over(h->child)) {
        clt_child_stop(CLT_TAKE(h->child), &end);
        tell_end(l, kind, &end, seconds);
    } else if (h->killed && seconds > limit + ABANDON_SECONDS) {
        clt_child_leave(CLT_TAKE(h->child));
        tell_end(l, kind, &end, seconds);
    } else if (!h->killed && seconds > limit) {
        clt_child_kill(h->child);
        h->killed = true;
    }
}

/* Returns whether a hook runs or waits. */
static bool look(clt_loop *l, int kind)
{
    hook *h = &l->hooks->hook[kind];
    if (h->child)
        attend(l, kind);
    if (!h->child && h->due)
        start_due(l, kind);
    return h->child != NULL;
}

void clt_hooks_look(clt_loop *l)
{
    for (int kind = 0; l->hooks && kind < CLT_HOOKS; kind++)
        (void)look(l, kind);
}

/* True if other ranks wait in vain: they learn of this rank's failure only when its program ends. */
static bool others_wait(const clt_loop *l, clt_status ended)
{
    return !l->hooks->alone && ended != CLT_OK && ended != CLT_EINTERRUPTED;
}

void clt_hooks_settle(clt_loop *l, clt_status ended)
{
    CLT_KEEP_ERROR();
    if (!l->hooks || others_wait(l, ended))
        return;
    for (int kind = 0; kind < CLT_HOOKS; kind++)
        while (look(l, kind))
            usleep(LOOK_US);
}

/* --- events --- */

/* Begins an event; NULL if there is no such hook. If an older event still waits, it is forgotten. */
static variables *begin(clt_loop *l, int kind, int64_t step)
{
    hook *h = l->hooks ? &l->hooks->hook[kind] : NULL;
    if (!h || !h->program)
        return NULL;
    free_variables(&h->due_variables);
    h->due_step = step;
    h->due = true;
    return &h->due_variables;
}

/* Starts the hook once its variables are set, or drops the event if `status` says that memory was
 * lacking. */
static void fire(clt_loop *l, int kind, clt_status status)
{
    if (status == CLT_OK) {
        (void)look(l, kind);
        return;
    }
    clt_error_clear();
    l->hooks->hook[kind].due = false;
}

void clt_hook_notice(clt_loop *l, const char *provider, const clt_notice *notice)
{
    variables *v = begin(l, CLT_HOOK_NOTICE, l->finished);
    if (!v)
        return;
    clt_status status = set(v, "CLTRAIN_PROVIDER", provider);
    status = status ? status : set(v, "CLTRAIN_NOTICE", notice->text);
    status = status ? status : set(v, "CLTRAIN_NOTICE_KIND", clt_notice_kind_name(notice->kind));
    fire(l, CLT_HOOK_NOTICE, status);
}

void clt_hook_saved(clt_loop *l, const clt_save_result *result, const char *reason)
{
    variables *v = begin(l, CLT_HOOK_SAVE, result->step);
    if (!v)
        return;
    clt_status status = set_path(v, "CLTRAIN_CHECKPOINT", result->path);
    status = status ? status : set(v, "CLTRAIN_REASON", reason);
    fire(l, CLT_HOOK_SAVE, status);
}

void clt_hook_exit(clt_loop *l, clt_status ended)
{
    CLT_SCOPED(clt_str) message = {0};
    if (ended != CLT_OK)
        clt_str_append(&message, clt_error_text());
    CLT_KEEP_ERROR(); /* restores the error at the end; the code below begins without a message */
    variables *v = begin(l, CLT_HOOK_EXIT, l->result->steps);
    if (!v)
        return;
    clt_status status = set_number(v, "CLTRAIN_EXIT_CODE", clt_status_exit_code(ended));
    status = status ? status : set(v, "CLTRAIN_MESSAGE", message.text ? message.text : "");
    status = status || !l->result->checkpoint[0] ? status
                                                 : set_path(v, "CLTRAIN_CHECKPOINT", l->result->checkpoint);
    fire(l, CLT_HOOK_EXIT, status);
    clt_hooks_settle(l, ended);
}

/* --- opening --- */

static clt_status open_hook(const clt_run_options *o, int kind, hook *h)
{
    const clt_config *c = o->config;
    const int count = clt_config_list_count(c, keys[kind]);
    if (count == 0)
        return CLT_OK;
    if (o->config_is_saved && strcmp(clt_config_origin(c, keys[kind]), "override") != 0) {
        CLT_WARN("%s of the saved config is not run, since a run may come from somebody else: give it again "
                 "with this command, or resume with 'cltrain train CONFIG --out RUN --resume auto'",
                 keys[kind]);
        return CLT_OK;
    }
    if (clt_program_named(clt_config_list_string(c, keys[kind], 0), &h->program) != CLT_OK) {
        char why[400];
        snprintf(why, sizeof why, "%s", clt_error_text());
        CLT_FAIL(CLT_ECONFIG, "%s: %s", keys[kind], why);
    }
    CLT_TRY(clt_alloc(&h->arguments, (size_t)count, sizeof *h->arguments, "the arguments of a hook"));
    for (int i = 1; i < count; i++)
        h->arguments[i - 1] = clt_config_list_string(c, keys[kind], i);
    return CLT_OK;
}

clt_status clt_hooks_open(const clt_run_options *o, clt_hooks **out)
{
    CLT_SCOPED(clt_hooks) *hooks = NULL;
    const bool first = clt_first_rank(o);
    *out = NULL;
    if (o->comm && comm_describe(o->comm)->local_rank != 0)
        return CLT_OK;
    CLT_TRY(clt_alloc(&hooks, 1, sizeof *hooks, "hooks"));
    hooks->first = first;
    hooks->alone = !o->comm || comm_describe(o->comm)->ranks == 1;
    for (int kind = 0; kind < CLT_HOOKS; kind++)
        if (first || kind != CLT_HOOK_SAVE)
            CLT_TRY(open_hook(o, kind, &hooks->hook[kind]));
    *out = CLT_TAKE(hooks);
    return CLT_OK;
}

void clt_hooks_close(clt_hooks *hooks)
{
    for (int kind = 0; hooks && kind < CLT_HOOKS; kind++) {
        hook *h = &hooks->hook[kind];
        if (h->child)
            clt_child_leave(h->child);
        free(h->program);
        free(h->arguments);
        free_variables(&h->due_variables);
    }
    free(hooks);
}
