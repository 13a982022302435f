/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the cost of start-ups that never reached their first step, in startup.json in the folder of a
 * resumed run. About once a second a thread writes there how long this start-up has taken so far, and what
 * earlier ones have cost. The event "start" takes over these sums, and the file is removed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/files/process.h"
#include "engine/train/loop/trainer_loop.h"

#define FILE_NAME "startup.json"
#define NOTE_SECONDS 1.0
#define MOST 1e15 /* no run has larger numbers */

struct clt_startup {
    char *path;
    int fd;
    double began, rate; /* rate: cost per second */
    int64_t cut;        /* start-ups before this one, their time and their cost */
    double cut_seconds, cut_total;
    clt_thread *thread;
    pthread_mutex_t lock; /* guards `ends` */
    pthread_cond_t changed;
    bool ends;
};

static void destroy(clt_startup *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->ends = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    clt_thread_join(s->thread);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    if (s->fd >= 0)
        close(s->fd);
    free(s->path);
    free(s);
}

/* The text has the same length each time, so that one write replaces it. */
static clt_status write_sums(const clt_startup *s)
{
    char text[160];
    const double seconds = clt_now() - s->began;
    snprintf(text, sizeof text, "{\"count\": %9lld, \"seconds\": %22.6f, \"cost\": %22.9f}\n",
             (long long)s->cut + 1, s->cut_seconds + seconds, s->cut_total + seconds * s->rate);
    return clt_fd_write_at(s->fd, text, strlen(text), 0, s->path);
}

static void *note(void *context)
{
    clt_startup *s = context;
    pthread_mutex_lock(&s->lock);
    while (!s->ends) {
        (void)clt_cond_wait_for(&s->changed, &s->lock, NOTE_SECONDS);
        if (!s->ends && write_sums(s) != CLT_OK)
            clt_error_clear(); /* the next write may succeed */
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static double number(const clt_json *from, const char *key)
{
    double told = clt_json_number_or(clt_json_get(from, key), NAN);
    return told >= 0 && told < MOST ? told : 0;
}

/* Reads the file. A missing or damaged file counts as empty. */
static void read_sums(const char *path, clt_meter *m)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    char text[256];
    clt_file_beginning(path, text, sizeof text);
    if (!text[0])
        return;
    if (clt_json_parse(text, strlen(text), path, CLT_EDATA, &doc) != CLT_OK) {
        clt_error_clear();
        return;
    }
    const clt_json *root = clt_json_root(doc);
    m->starts_cut = (int64_t)number(root, "count");
    m->cut_seconds = number(root, "seconds");
    m->cut_total = number(root, "cost");
}

static clt_status open_file(clt_loop *l, double per_hour)
{
    const comm_info *ranks = l->options->comm ? comm_describe(l->options->comm) : NULL;
    const clt_cost_terms terms = {.per_hour = per_hour, .machines = ranks ? ranks->nodes : 1};
    clt_meter *m = &l->meter;
    clt_startup *s;
    CLT_TRY(clt_alloc(&s, 1, sizeof *s, "the cost of a start-up"));
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->fd = -1;
    m->startup = s;
    CLT_TRY(clt_path_join(l->options->out_dir, FILE_NAME, &s->path));
    read_sums(s->path, m);
    s->cut = m->starts_cut;
    s->cut_seconds = m->cut_seconds;
    s->cut_total = m->cut_total;
    s->began = m->began;
    s->rate = clt_cost_rate(&terms);
    CLT_TRY(clt_own_file_create(s->path, &s->fd));
    CLT_TRY(write_sums(s));
    return clt_thread_start(&s->thread, "start-up", note, s);
}

clt_status clt_startup_begin(clt_loop *l)
{
    double per_hour = 0;
    if (!l->lock) /* no run is resumed, or another rank holds the lock */
        return CLT_OK;
    CLT_TRY(clt_cost_price(l->options->config, &per_hour));
    if (per_hour > 0 && open_file(l, per_hour) != CLT_OK) {
        CLT_DEBUG("what this start-up costs is lost if it is killed: %s", clt_error_text());
        clt_error_clear();
    }
    return CLT_OK;
}

void clt_startup_over(clt_loop *l)
{
    clt_startup *s = l->meter.startup;
    if (s && s->path)
        (void)unlink(s->path);
    clt_startup_leave(l);
}

void clt_startup_leave(clt_loop *l)
{
    destroy(CLT_TAKE(l->meter.startup));
}
