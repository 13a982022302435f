/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which tuning records a run may use, and collects the ones that it does use. Rank 0 decides; other
 * ranks follow if their device is the same. */
#include "engine/train/job/tuned.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/fallback.h"
#include "cl/gemm_bench/gemm_tune.h"
#include "cl/tune/tuning_store.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/train/job/unsupported.h"

clt_tune_mode clt_tune_mode_of(const clt_config *config)
{
    const char *text = clt_config_string(config, "device.tune");
    return strcmp(text, "off") == 0 ? CLT_TUNE_OFF : strcmp(text, "on") == 0 ? CLT_TUNE_ON : CLT_TUNE_CACHED;
}

static int rank_of(comm *ranks)
{
    return ranks ? comm_describe(ranks)->rank : 0;
}

static bool is_alone(comm *ranks)
{
    return !ranks || comm_describe(ranks)->ranks <= 1;
}

static void say(const clt_observer *observer, const char *line)
{
    if (observer && observer->message)
        observer->message(observer->context, line);
}

/* --- choices of a checkpoint --- */

/* Reads the sets of records in the member "tuning" of a checkpoint's state. Skips sets that it cannot read,
 * with a warning. */
static clt_status read_pins(const clt_json *state, const char *path, ocl_tuning **sets, int *n, int *outdated)
{
    const clt_json *list = clt_json_get(state, "tuning");
    *n = *outdated = 0;
    if (clt_json_typeof(list) != CLT_JSON_ARRAY)
        return CLT_OK;
    for (const clt_json *v = clt_json_first(list); v && *n < CLT_MAX_PINNED; v = clt_json_next(v)) {
        int old = 0;
        clt_status status = ocl_tuning_read(v, path, &sets[*n], &old);
        if (status == CLT_ENOMEM)
            return status;
        if (status != CLT_OK) {
            CLT_WARN("tuning choices in a checkpoint are ignored: %s", clt_error_text());
            clt_error_clear();
            continue;
        }
        if (old > 0) { /* records for other kernel versions: another program made this set */
            *outdated += old;
            ocl_tuning_destroy(sets[*n]);
            continue;
        }
        sets[(*n)++]->exact = true;
    }
    return CLT_OK;
}

static void tell_unused(const clt_tuned *t, const char *path, int others, int outdated,
                        const clt_observer *observer)
{
    char line[1400];
    if (outdated)
        snprintf(line, sizeof line,
                 "tuning: the choices in %s were made for other kernels than this cltrain has; this run "
                 "makes its own",
                 path);
    else if (others && t->n_others)
        snprintf(line, sizeof line,
                 "tuning: the choices in %s were measured on device %.120s (driver %.120s); this device "
                 "makes its own",
                 path, t->others[0]->key.device, t->others[0]->key.driver);
    else
        return;
    say(observer, line);
}

/* Uses the checkpoint's set for this device. Keeps its sets for other devices, to save them again. */
static clt_status take_pins(clt_tuned *t, const clt_resumed *from, const clt_observer *observer)
{
    ocl_tuning *sets[CLT_MAX_PINNED] = {NULL};
    int n = 0, outdated = 0;
    char why[600], line[1400];
    clt_status status = read_pins(clt_json_root(from->saved->state), from->name, sets, &n, &outdated);
    for (int i = 0; i < n; i++) {
        bool mine = !t->set && ocl_tuning_fits(sets[i], &t->desc, why, sizeof why);
        if (mine) {
            t->set = sets[i];
            t->style = sets[i]->style;
            t->keeps_unsupported = sets[i]->has_unsupported;
            if (t->keeps_unsupported)
                t->unsupported = sets[i]->unsupported;
        }
        if (!mine)
            t->others[t->n_others++] = sets[i];
    }
    CLT_TRY(status);
    t->pinned = t->set != NULL;
    if (!t->pinned)
        tell_unused(t, from->name, n, outdated, observer);
    if (t->pinned && t->mode == CLT_TUNE_OFF) {
        snprintf(line, sizeof line,
                 "tuning: device.tune is off: the %zu choices in %s are not used, sums may be rounded "
                 "differently from here on",
                 t->set->count, from->name);
        if (t->set->count)
            say(observer, line);
        ocl_tuning_destroy(t->set);
        t->set = NULL;
        t->pinned = false;
    }
    return CLT_OK;
}

/* --- agreement of ranks --- */

/* Rank 0's device, and its decisions for all ranks with such a device. Ranks must not decide alone, because
 * the faster style of kernels is found by timing, which may differ among ranks, and because each host has
 * its own record of refused features. */
typedef struct choices_message {
    clt_device_identity device;
    int32_t style, keeps_unsupported;
    ocl_unsupported unsupported;
} choices_message;

static clt_status share_choices(clt_tuned *t, comm *ranks)
{
    CLT_FREED choices_message *message = NULL;
    if (is_alone(ranks))
        return CLT_OK;
    CLT_TRY(clt_alloc(&message, 1, sizeof *message, "choices of rank 0"));
    clt_identify_device(&t->desc, &message->device);
    message->style = (int32_t)(t->style != OCL_STYLE_ASKED ? t->style : clt_tuned_style(&t->desc));
    message->keeps_unsupported = t->keeps_unsupported;
    message->unsupported = t->unsupported;
    CLT_TRY(comm_broadcast(ranks, message, sizeof *message, 0));
    if (!clt_is_device(&message->device, &t->desc))
        return CLT_OK;
    t->style = (ocl_style)message->style;
    t->keeps_unsupported = message->keeps_unsupported != 0;
    t->unsupported = message->unsupported;
    return CLT_OK;
}

/* Sends rank 0's set to all ranks; a rank with another device keeps its own. */
static clt_status share(clt_tuned *t, comm *ranks, const clt_observer *observer)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_SCOPED(ocl_tuning) *set = NULL;
    char why[600], line[800];
    if (is_alone(ranks))
        return CLT_OK;
    if (rank_of(ranks) == 0)
        CLT_TRY(ocl_tuning_print(t->set, &text));
    CLT_TRY(comm_share_text(ranks, &text.text, &text.length, "tuning records"));
    if (rank_of(ranks) == 0)
        return CLT_OK;
    CLT_TRY(ocl_tuning_parse(text.text, text.length, "the tuning records of rank 0", &set, NULL));
    if (ocl_tuning_fits(set, &t->desc, why, sizeof why)) {
        ocl_tuning_destroy(t->set);
        t->desc.tuning = t->set = CLT_TAKE(set);
        return CLT_OK;
    }
    snprintf(line, sizeof line, "tuning: rank 0's choices are for %s; this rank makes its own", why);
    say(observer, line);
    return CLT_OK;
}

/* --- opening --- */

static clt_status open_set(clt_tuned *t, comm *ranks, const clt_resumed *from, const clt_observer *observer)
{
    if (from->saved && rank_of(ranks) == 0)
        CLT_TRY(take_pins(t, from, observer));
    CLT_TRY(share_choices(t, ranks));
    if (t->mode == CLT_TUNE_OFF)
        return CLT_OK;
    if (!t->set)
        CLT_TRY(ocl_tuning_load(&t->desc, &t->set));
    CLT_TRY(share(t, ranks, observer));
    t->pinned = t->set->exact;
    t->desc.tuning = t->set;
    return CLT_OK;
}

clt_status clt_tuned_open(const clt_config *config, const ocl_device *device, comm *ranks,
                          const clt_resumed *from, const clt_observer *observer, clt_tuned **out)
{
    CLT_SCOPED(clt_tuned) *t = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "tuning"));
    t->mode = clt_tune_mode_of(config);
    t->config = config;
    t->desc = *ocl_device_describe(device);
    t->caps = t->desc.caps;
    clt_job_view(config, &t->desc);
    t->desc.tuning = NULL;
    t->unsupported = *ocl_device_unsupported(device);
    CLT_TRY(open_set(t, ranks, from, observer));
    *out = CLT_TAKE(t);
    return CLT_OK;
}

ocl_style clt_tuned_style(const ocl_device_desc *desc)
{
    if ((desc->masked_caps & OCL_CAP_WIDE_VECTORS) || desc->emulated_caps)
        return OCL_STYLE_ASKED;
    return desc->caps & OCL_CAP_WIDE_VECTORS ? OCL_STYLE_LANES : OCL_STYLE_GROUPS;
}

void clt_tuned_move(clt_tuned *t, const ocl_device_desc *device)
{
    const struct ocl_tuning *records = t->desc.tuning;
    t->desc = *device;
    clt_job_view(t->config, &t->desc);
    t->desc.tuning = records;
    t->caps = device->caps;
}

void clt_tuned_close(clt_tuned *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->n_others; i++)
        ocl_tuning_destroy(t->others[i]);
    ocl_tuning_destroy(t->set);
    ocl_tuning_destroy(t->used);
    free(t);
}

clt_status clt_tuned_describe(const clt_config *config, ocl_device_desc *desc, ocl_tuning **set)
{
    *set = NULL;
    clt_job_view(config, desc);
    if (clt_tune_mode_of(config) == CLT_TUNE_OFF)
        return CLT_OK;
    CLT_TRY(ocl_tuning_load(desc, set));
    desc->tuning = *set;
    return CLT_OK;
}

/* --- what the plans use --- */

static clt_status collect(const clt_job *job, ocl_tuning_log *log)
{
    const clt_plan *plans[2] = {job->train, job->eval};
    for (int i = 0; i < 2; i++)
        if (plans[i])
            CLT_TRY(ocl_tuning_log_merge(log, &plans[i]->tuning));
    return CLT_OK;
}

clt_status clt_tuned_note(clt_tuned *t, const clt_job *job)
{
    CLT_SCOPED(ocl_tuning_log) log = {0};
    CLT_SCOPED(ocl_tuning) *used = NULL;
    CLT_TRY(collect(job, &log));
    CLT_TRY(ocl_tuning_create(&t->desc, &used));
    t->problems = (int)log.count;
    for (size_t i = 0; i < log.count; i++)
        if (log.at[i].tuned)
            CLT_TRY(ocl_tuning_set(used, &log.at[i].record));
    used->exact = true;
    used->style = clt_tuned_style(&t->desc);
    used->has_unsupported = true;
    clt_unsupported_of(&t->desc, t->caps, 0, &used->unsupported);
    ocl_tuning_destroy(t->used);
    t->used = CLT_TAKE(used);
    return CLT_OK;
}

static int tuned_problems(const clt_tuned *t)
{
    return t->used ? (int)t->used->count : 0;
}

int clt_tuned_unmeasured(const clt_tuned *t)
{
    return t->mode == CLT_TUNE_CACHED && !t->pinned ? t->problems - tuned_problems(t) : 0;
}

const char *clt_tuned_text(const clt_tuned *t, char *buffer, size_t size)
{
    char hash[CLT_HASH64_TEXT], seconds[48] = "";
    if (t->mode == CLT_TUNE_OFF) {
        snprintf(buffer, size, "off");
        return buffer;
    }
    if (t->seconds > 0)
        snprintf(seconds, sizeof seconds, ", measured for %.1f s", t->seconds);
    snprintf(buffer, size, "%d of %d problems tuned (%s), choices %s%s", tuned_problems(t), t->problems,
             t->pinned                ? "kept from the checkpoint"
             : t->mode == CLT_TUNE_ON ? "on"
                                      : "cached",
             clt_hash64_text(t->used ? ocl_tuning_hash(t->used) : 0, hash), seconds);
    return buffer;
}

void clt_tuned_write(const clt_tuned *t, clt_json_writer *w)
{
    clt_jw_karray(w, "tuning");
    if (t->used)
        ocl_tuning_write(t->used, false, w);
    for (int i = 0; i < t->n_others && i < CLT_MAX_PINNED - 1; i++)
        ocl_tuning_write(t->others[i], false, w);
    clt_jw_end_array(w);
}

/* --- measuring --- */

typedef struct measuring {
    const ocl_device_desc *desc;
    const clt_observer *observer;
    const clt_tune_options *options; /* NULL: at the start of a run */
    bool unsaved;                    /* records cannot be saved, and this has been reported */
} measuring;

static void on_progress(void *context, int done, int total, const char *what)
{
    const measuring *m = context;
    char text[200];
    snprintf(text, sizeof text, "tuning%s%s", what ? ": " : "", what ? what : "");
    clt_progress(m->observer, text, done, total);
}

static void on_message(void *context, const char *line)
{
    say(((const measuring *)context)->observer, line);
}

static void on_row(void *context, const ocl_tune_row *row)
{
    const measuring *m = context;
    if (m->options && m->options->row)
        m->options->row(m->options->context, row);
}

/* Records measured without some of the device's capabilities, or with emulated ones, are not saved: they do
 * not hold for the device as it is. Reports that once. */
static void tell_masked(measuring *m)
{
    char caps[200], line[400];
    if (!m->unsaved) {
        bool emulated = m->desc->emulated_caps != 0;
        if (emulated)
            ocl_caps_text(m->desc->emulated_caps, caps, sizeof caps);
        else
            ocl_masked_text(m->desc, caps, sizeof caps);
        snprintf(line, sizeof line, "tuning: measured on a device %s (%s), so the records are not kept",
                 emulated ? "that emulates matrix units" : "that --caps makes weaker", caps);
        say(m->observer, line);
    }
    m->unsaved = true;
}

/* Saves records. If that fails in a run, its own plans still use them. */
static clt_status on_keep(void *context, const ocl_tuning *records)
{
    measuring *m = context;
    if (ocl_is_masked(m->desc) || m->desc->emulated_caps) {
        tell_masked(m);
        return CLT_OK;
    }
    clt_status status = ocl_tuning_save(m->desc, records);
    if (status != CLT_ESTORAGE || m->options) /* the purpose of `cltrain tune` is to save them */
        return status;
    if (!m->unsaved)
        CLT_WARN("%s; this run uses the records, but they are not saved", clt_error_text());
    m->unsaved = true;
    clt_error_clear();
    return CLT_OK;
}

static clt_status measure(measuring *m, ocl_device *device, const ocl_tuning_log *log,
                          const ocl_tuning *known, double seconds, bool missing_only, const atomic_int *stop,
                          ocl_tuning **out)
{
    ocl_tune_options options = {.seconds = seconds,
                                .log = log,
                                .known = known,
                                .missing_only = missing_only,
                                .stop = stop,
                                .context = m,
                                .progress = on_progress,
                                .row = on_row,
                                .message = on_message,
                                .keep = on_keep};
    return ocl_tune_run(device, m->desc, &options, out);
}

/* On rank 0 of a run: measures the missing problems and adds the records to the set. */
static clt_status measure_missing(clt_tuned *t, ocl_device *device, const clt_config *config,
                                  const clt_observer *observer, const atomic_int *stop,
                                  const ocl_tuning_log *log)
{
    measuring m = {.desc = &t->desc, .observer = observer};
    CLT_SCOPED(ocl_tuning) *fresh = NULL;
    double start = clt_now();
    CLT_TRY(measure(&m, device, log, t->set, clt_config_float(config, "device.tune_seconds"), true, stop,
                    &fresh));
    t->seconds = clt_now() - start;
    return ocl_tuning_merge(t->set, fresh, true);
}

clt_status clt_tuned_measure(clt_tuned *t, ocl_device *device, const clt_config *config, comm *ranks,
                             const clt_observer *observer, const atomic_int *stop, clt_job *job)
{
    CLT_SCOPED(ocl_tuning_log) log = {0};
    if (t->mode != CLT_TUNE_ON || (t->pinned && is_alone(ranks)))
        return CLT_OK;
    CLT_TRY(collect(job, &log));
    /* only rank 0 knows whether there is something to do: a rank with another device may have no pinned
     * choices */
    int64_t missing = rank_of(ranks) == 0 && !t->pinned && ocl_tune_missing(&log, t->set);
    if (missing)
        CLT_TRY(measure_missing(t, device, config, observer, stop, &log));
    if (!is_alone(ranks))
        CLT_TRY(comm_broadcast(ranks, &missing, sizeof missing, 0));
    if (!missing)
        return CLT_OK;
    CLT_TRY(share(t, ranks, NULL));
    return clt_job_replan(job, &t->desc);
}

/* --- cltrain tune --- */

static clt_status tune_problems(const clt_tune_options *o, const ocl_device_desc *desc, ocl_tuning_log *log)
{
    CLT_SCOPED(clt_job) *job = NULL;
    if (!o->config)
        return ocl_gemm_log_builtin(log);
    CLT_TRY(clt_job_create(o->config, desc, 1, CLT_JOB_TRAIN, &job));
    return collect(job, log);
}

static clt_status tune_device(const clt_tune_options *o, ocl_device *device, ocl_tuning **records)
{
    CLT_SCOPED(ocl_tuning_log) log = {0};
    CLT_SCOPED(ocl_tuning) *known = NULL;
    ocl_device_desc desc = *ocl_device_describe(device);
    if (o->config)
        clt_job_view(o->config, &desc);
    measuring m = {.desc = &desc, .observer = &o->observer, .options = o};
    CLT_TRY(tune_problems(o, &desc, &log));
    CLT_TRY(ocl_tuning_load(&desc, &known));
    if (o->device)
        o->device(o->context, &desc, (int)log.count);
    return measure(&m, device, &log, known, o->seconds, false, o->stop, records);
}

clt_status clt_tune(const clt_tune_options *o, ocl_tuning **records)
{
    const char *spec = o->device_spec && *o->device_spec ? o->device_spec
                       : o->config                       ? clt_config_string(o->config, "device.spec")
                                                         : "";
    ocl_open_options open = {.spec = *spec ? spec : NULL, .caps_mask = o->caps_mask};
    CLT_SCOPED(ocl_device) *device = NULL;
    *records = NULL;
    CLT_TRY(ocl_device_open(&open, &device));
    return tune_device(o, device, records);
}
