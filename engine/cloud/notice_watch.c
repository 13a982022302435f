/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads that poll for notices, one for each source. They slow down or stop when a source does not
 * answer, and keep the newest notice for the training, which never waits for them. */
#include "engine/cloud/notice.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/cloud/notice_source.h"

#define GIVE_UP_AFTER 3   /* polls without an answer, if none was ever answered */
#define MOST_SECONDS 30.0 /* most seconds between two polls of a service that does not answer */
#define REMEMBERED 16     /* newest notices that asked for a checkpoint, remembered by their hashes */

static const clt_notice_source *const sources[] = {&clt_notice_aws,     &clt_notice_gcp,  &clt_notice_azure,
                                                   &clt_notice_alibaba, &clt_notice_file, &clt_notice_url};

#define MOST_SOURCES 3 /* a file, an address and a cloud */

/* A source that is polled by a thread of its own. */
typedef struct watcher {
    clt_notices *all;
    const clt_notice_source *source;
    clt_notice_poller poller;
    bool chosen; /* the user named the source; false: it follows from the machine */
    clt_thread *thread;
    uint64_t taken[REMEMBERED]; /* only the thread uses them */
    size_t n_taken;
    char line[400]; /* describes the problem; under the lock */
} watcher;

struct clt_notices {
    watcher watchers[MOST_SOURCES];
    int count;
    char providers[48];
    atomic_bool stop, save, trouble;
    pthread_mutex_t lock; /* guards the members that follow */
    pthread_cond_t changed;
    bool ends;
    clt_notice newest;
};

const char *clt_notice_kind_name(clt_notice_kind kind)
{
    return kind == CLT_NOTICE_STOP ? "stop" : kind == CLT_NOTICE_SAVE ? "save" : "none";
}

static const clt_notice_source *source_named(const char *name)
{
    for (size_t i = 0; name && i < sizeof sources / sizeof *sources; i++)
        if (strcmp(sources[i]->name, name) == 0)
            return sources[i];
    return NULL;
}

/* --- a thread --- */

/* True if a notice that asks for a checkpoint is new: services repeat their notices. */
static bool is_new(watcher *w, const clt_notice *notice)
{
    uint64_t mark = clt_hash64(notice->text, strlen(notice->text));
    for (size_t i = 0; i < REMEMBERED; i++)
        if (w->taken[i] == mark)
            return false;
    w->taken[w->n_taken++ % REMEMBERED] = mark;
    return true;
}

static void take(watcher *w, const clt_notice *notice)
{
    clt_notices *n = w->all;
    if (notice->kind == CLT_NOTICE_SAVE && !is_new(w, notice))
        return;
    CLT_LOCKED(&n->lock);
    if (n->newest.kind != CLT_NOTICE_STOP || notice->kind == CLT_NOTICE_STOP) {
        n->newest = *notice;
        snprintf(n->newest.provider, sizeof n->newest.provider, "%s", w->source->name);
    }
    atomic_store(notice->kind == CLT_NOTICE_STOP ? &n->stop : &n->save, true);
}

static void say_trouble(watcher *w, const char *what)
{
    CLT_LOCKED(&w->all->lock);
    snprintf(w->line, sizeof w->line, "notices of %s: %s; %s", w->source->name, w->poller.trouble, what);
    atomic_store(&w->all->trouble, true);
}

/* Waits for `seconds`. False: the thread has to end. */
static bool wait_for(clt_notices *n, double seconds)
{
    const double until = clt_now() + seconds;
    CLT_LOCKED(&n->lock);
    while (!n->ends && clt_now() < until)
        (void)clt_cond_wait_for(&n->changed, &n->lock, until - clt_now());
    return !n->ends;
}

static bool ends(clt_notices *n)
{
    CLT_LOCKED(&n->lock);
    return n->ends;
}

/* Handles an answer. False: no more polls are needed. */
static bool digest(watcher *w, const clt_notice *notice)
{
    if (w->poller.calm) /* the earlier notice is over; the same words now mean a new one */
        memset(w->taken, 0, sizeof w->taken);
    w->poller.calm = false;
    if (notice->kind != CLT_NOTICE_NONE)
        take(w, notice);
    return notice->kind != CLT_NOTICE_STOP;
}

static void *watch(void *context)
{
    watcher *w = context;
    const double apart = w->poller.options->seconds > 0 ? w->poller.options->seconds : w->source->seconds;
    double wait = apart, begin;
    int failures = 0;
    bool answered = false, told = false;
    if (w->source->http && !w->poller.http) {
        say_trouble(w, "none will be seen");
        return NULL;
    }
    do {
        clt_notice notice = {.kind = CLT_NOTICE_NONE};
        begin = clt_now();
        if (w->source->poll(&w->poller, &notice) == CLT_OK) {
            answered = true;
            failures = 0;
            wait = apart;
            if (!digest(w, &notice))
                return NULL;
            continue;
        }
        clt_error_clear();
        if (ends(w->all))
            return NULL;
        failures++;
        if (failures == GIVE_UP_AFTER && !answered && !w->chosen) {
            say_trouble(w, "this run does not ask again");
            return NULL;
        }
        if (failures == GIVE_UP_AFTER && !told) {
            say_trouble(w, "notices may be missed until it answers");
            told = true;
        }
        if (failures >= GIVE_UP_AFTER && wait < MOST_SECONDS)
            wait = 2 * wait < MOST_SECONDS ? 2 * wait : MOST_SECONDS;
        begin = clt_now();
        /* time in which a request waited for a change counts as part of the pause */
    } while (wait_for(w->all, wait - (clt_now() - begin)));
    return NULL;
}

/* --- the training's side --- */

/* The source that is named, or the machine's cloud; NULL: there is none. */
static clt_status choose_source(const clt_notice_options *o, clt_status code, const clt_notice_source **out)
{
    const bool automatic = strcmp(o->provider, "auto") == 0;
    const char *provider = automatic ? clt_cloud_of_machine() : o->provider;
    *out = source_named(provider);
    if (provider && !*out && strcmp(provider, "off") != 0)
        CLT_FAIL(code,
                 "%s'%.40s' is not a provider of notices; expected aws, gcp, azure, alibaba, file or url, or "
                 "off to ask nobody",
                 automatic ? "CLTRAIN_CLOUD_PROVIDER: " : "", provider);
    if ((*out == &clt_notice_file && !o->file[0]) || (*out == &clt_notice_url && !o->url[0]))
        CLT_FAIL(code, "the provider '%s' needs cloud.notice_%s, which the config does not set", provider,
                 provider);
    return CLT_OK;
}

static void destroy(clt_notices *n)
{
    if (!n)
        return;
    for (int i = 0; i < n->count; i++)
        clt_http_close(n->watchers[i].poller.http);
    pthread_cond_destroy(&n->changed);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

/* Adds a source, without starting its thread, unless it is polled already. */
static clt_status add(clt_notices *n, const clt_notice_options *options, const clt_notice_source *source)
{
    watcher *w = &n->watchers[n->count];
    for (int i = 0; i < n->count; i++)
        if (n->watchers[i].source == source)
            return CLT_OK;
    *w = (watcher){.all = n,
                   .source = source,
                   .chosen = strcmp(options->provider, "auto") != 0 || !source->address,
                   .poller = {.options = options, .seen = -1}};
    const size_t length = strlen(n->providers);
    snprintf(n->providers + length, sizeof n->providers - length, "%s%s", n->count ? ", " : "", source->name);
    n->count++;
    if (!source->http)
        return CLT_OK;
    clt_metadata_address(&w->poller, source, options->endpoint);
    clt_status status = clt_http_open(&w->poller.http);
    if (status != CLT_EUNSUPPORTED || w->chosen)
        return status;
    snprintf(w->poller.trouble, sizeof w->poller.trouble, "%s", clt_error_text());
    clt_error_clear();
    return CLT_OK;
}

static clt_status create(clt_notices **out)
{
    clt_notices *n;
    *out = NULL;
    CLT_TRY(clt_alloc(&n, 1, sizeof *n, "notices of the cloud"));
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->changed, NULL);
    *out = n;
    return CLT_OK;
}

static clt_status add_all(clt_notices *n, const clt_notice_options *o)
{
    const clt_notice_source *source;
    CLT_TRY(choose_source(o, CLT_ECONFIG, &source));
    if (o->file[0])
        CLT_TRY(add(n, o, &clt_notice_file));
    if (o->url[0])
        CLT_TRY(add(n, o, &clt_notice_url));
    return source ? add(n, o, source) : CLT_OK;
}

clt_status clt_notices_check(const clt_notice_options *options)
{
    const clt_notice_source *source;
    return choose_source(options, CLT_ECONFIG, &source);
}

clt_status clt_notices_open(const clt_notice_options *options, clt_notices **out)
{
    clt_notices *n;
    *out = NULL;
    if (strcmp(options->provider, "off") == 0)
        return CLT_OK;
    CLT_TRY(create(&n));
    clt_status status = add_all(n, options);
    for (int i = 0; status == CLT_OK && i < n->count; i++)
        status = clt_thread_start(&n->watchers[i].thread, "notices", watch, &n->watchers[i]);
    if (status == CLT_OK && n->count > 0)
        *out = n;
    else
        clt_notices_close(n);
    return status;
}

clt_status clt_notices_try(const clt_notice_options *options)
{
    const clt_notice_source *source;
    clt_notice notice = {0};
    clt_notices *n;
    CLT_TRY(choose_source(options, CLT_EUSAGE, &source));
    if (!source)
        return CLT_OK;
    CLT_TRY(create(&n));
    clt_status status = add(n, options, source);
    if (status == CLT_OK && source->http && !n->watchers[0].poller.http)
        status = clt_fail(CLT_EUNSUPPORTED, __FILE__, __LINE__, "%s", n->watchers[0].poller.trouble);
    if (status == CLT_OK)
        status = source->poll(&n->watchers[0].poller, &notice);
    destroy(n);
    return status;
}

void clt_notices_close(clt_notices *n)
{
    CLT_KEEP_ERROR();
    if (!n)
        return;
    pthread_mutex_lock(&n->lock);
    n->ends = true;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
    for (int i = 0; i < n->count; i++)
        if (n->watchers[i].poller.http)
            clt_http_cancel(n->watchers[i].poller.http);
    for (int i = 0; i < n->count; i++)
        clt_thread_join(n->watchers[i].thread);
    destroy(n);
}

const char *clt_notices_providers(const clt_notices *n)
{
    return n->providers;
}

bool clt_notices_stop(const clt_notices *n)
{
    return n && atomic_load(&n->stop);
}

void clt_notices_newest(clt_notices *n, clt_notice *out)
{
    CLT_LOCKED(&n->lock);
    *out = n->newest;
}

bool clt_notices_take_save(clt_notices *n)
{
    return n && atomic_exchange(&n->save, false);
}

bool clt_notices_take_trouble(clt_notices *n, char *line, size_t size)
{
    if (!n || !atomic_load(&n->trouble))
        return false;
    CLT_LOCKED(&n->lock);
    for (int i = 0; i < n->count; i++)
        if (n->watchers[i].line[0]) {
            snprintf(line, size, "%s", n->watchers[i].line);
            n->watchers[i].line[0] = '\0';
            return true;
        }
    atomic_store(&n->trouble, false);
    return false;
}
