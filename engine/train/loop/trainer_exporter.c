/* SPDX-License-Identifier: Apache-2.0
 *
 * A training's file for Prometheus. A thread writes it once a second, so that its age tells whether the
 * process lives, also during an evaluation, a checkpoint or a long step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/monitor/prometheus.h"
#include "engine/train/loop/trainer_loop.h"

#define EXPORT_SECONDS 1.0 /* seconds between two pages */

struct clt_exporter {
    clt_thread *thread;
    clt_str labels;
    char *path;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    bool ends;               /* the thread must end */
    clt_step_metrics newest; /* numbers of the newest finished step; its step is 0 before there is one */
    double figures[CLT_MONITOR_COUNT];
    bool failed;   /* a page could not be written; `reason` says why */
    bool reported; /* a warning has told the user */
    char reason[CLT_ERROR_TEXT_SIZE];
};

/* The last part of the run folder's path; a run without a folder is named after its model. */
static void run_name(const clt_loop *l, clt_str *out)
{
    const char *path = l->options->out_dir;
    if (!path) {
        clt_str_append(out, clt_config_string(l->options->config, "model.type"));
        return;
    }
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/';)
        begin--;
    clt_str_append_n(out, path + begin, end - begin);
}

/* --- a page --- */

static void add_known(clt_str *page, const char *labels, const char *name, const char *help, double value)
{
    if (!isnan(value))
        clt_prometheus_add(page, labels, name, help, value);
}

static void add_step(clt_str *page, const char *labels, const clt_step_metrics *m)
{
    clt_prometheus_add(page, labels, "step", "Steps that are done.", (double)m->step);
    clt_prometheus_add(page, labels, "planned_steps", "Step at which the run ends.", (double)m->steps_total);
    clt_prometheus_add(page, labels, "loss", "Loss of the newest step.", m->loss);
    add_known(page, labels, "learning_rate", "Learning rate of the newest step.", m->lr);
    add_known(page, labels, "step_seconds", "Duration of the newest step.", m->step_ms * 1e-3);
    add_known(page, labels, "samples_per_second", "Samples in a second, all ranks.", m->samples_per_s);
    add_known(page, labels, "tokens_per_second", "Tokens in a second, all ranks.", m->tokens_per_s);
    clt_prometheus_add(page, labels, "skipped_updates_total", "Updates that were skipped.",
                       (double)m->skipped);
    if (m->cost > 0)
        clt_prometheus_add(page, labels, "cost", "What the run has cost so far.", m->cost);
}

static void fill_page(clt_exporter *e, bool running, clt_str *page)
{
    static const struct {
        const char *name, *help;
    } figures[CLT_MONITOR_COUNT] = {
#define FIGURE(name, key, tag, exported, fold, parts, help) {exported, help},
        CLT_MONITOR_MAP(FIGURE)
#undef FIGURE
    };
    const char *labels = e->labels.text;
    CLT_LOCKED(&e->lock);
    clt_prometheus_add(page, labels, "running", "1 while the run trains, 0 when it has ended.", running);
    if (e->newest.step > 0)
        add_step(page, labels, &e->newest);
    for (int i = 0; i < CLT_MONITOR_COUNT; i++)
        add_known(page, labels, figures[i].name, figures[i].help, e->figures[i]);
}

static void write_page(clt_exporter *e, bool running)
{
    CLT_SCOPED(clt_str) page = {0};
    fill_page(e, running, &page);
    if (clt_prometheus_write(e->path, &page) == CLT_OK)
        return;
    pthread_mutex_lock(&e->lock);
    if (!e->failed)
        (void)snprintf(e->reason, sizeof e->reason, "%s", clt_error_text());
    e->failed = true;
    pthread_mutex_unlock(&e->lock);
    clt_error_clear();
}

/* --- the thread --- */

/* Waits until the next page is due. False: the thread is to end. */
static bool wait_for_next(clt_exporter *e)
{
    const double due = clt_now() + EXPORT_SECONDS;
    CLT_LOCKED(&e->lock);
    while (!e->ends && clt_now() < due)
        (void)clt_cond_wait_for(&e->changed, &e->lock, due - clt_now());
    return !e->ends;
}

static void *export_pages(void *context)
{
    do
        write_page(context, true);
    while (wait_for_next(context));
    return NULL;
}

/* --- for the loop --- */

static void destroy(clt_exporter *e)
{
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->changed);
    clt_str_free(&e->labels);
    free(e->path);
    free(e);
}

static clt_status describe(const clt_loop *l, clt_exporter *e)
{
    char rank[16];
    CLT_SCOPED(clt_str) name = {0};
    (void)snprintf(rank, sizeof rank, "%d", l->run->ranks.rank);
    run_name(l, &name);
    CLT_TRY(clt_str_check(&name));
    clt_prometheus_label(&e->labels, "run", name.text);
    clt_prometheus_label(&e->labels, "rank", rank);
    clt_prometheus_label(&e->labels, "device", ocl_device_describe(l->run->device)->name);
    CLT_TRY(clt_str_check(&e->labels));
    return clt_prometheus_path(clt_config_string(l->options->config, "monitor.prometheus"), name.text,
                               l->run->ranks.rank, &e->path);
}

clt_status clt_exporter_open(const clt_loop *l, clt_exporter **out)
{
    clt_exporter *e;
    *out = NULL;
    if (!clt_config_string(l->options->config, "monitor.prometheus")[0])
        return CLT_OK;
    CLT_TRY(clt_alloc(&e, 1, sizeof *e, "the file for Prometheus"));
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    for (int i = 0; i < CLT_MONITOR_COUNT; i++)
        e->figures[i] = NAN;
    clt_status status = describe(l, e);
    if (status == CLT_OK)
        status = clt_thread_start(&e->thread, "exporter", export_pages, e);
    if (status == CLT_OK)
        *out = e;
    else
        destroy(e);
    return status;
}

void clt_exporter_step(clt_exporter *e, const clt_step_metrics *m)
{
    if (!e)
        return;
    CLT_LOCKED(&e->lock);
    e->newest = *m;
}

void clt_exporter_figures(clt_exporter *e, const double figures[CLT_MONITOR_COUNT])
{
    if (!e)
        return;
    CLT_LOCKED(&e->lock);
    memcpy(e->figures, figures, sizeof e->figures);
}

void clt_exporter_tell(clt_loop *l, clt_exporter *e)
{
    char text[CLT_ERROR_TEXT_SIZE + 96];
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    const bool news = e->failed && !e->reported;
    e->reported = e->failed;
    pthread_mutex_unlock(&e->lock);
    if (!news || !l->reports) /* `reason` does not change once it is set */
        return;
    (void)snprintf(text, sizeof text,
                   "the file for Prometheus could not be written, training continues and tries again: %s",
                   e->reason);
    clt_tell_warning(l, text);
}

void clt_exporter_close(clt_exporter *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->ends = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    clt_thread_join(e->thread);
    write_page(e, false);
    destroy(e);
}
