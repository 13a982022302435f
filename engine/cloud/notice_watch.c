/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that asks for notices: how often, what it does when nobody answers, and what it keeps for the
 * training, which never waits for it. */
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

#define GIVE_UP_AFTER 3   /* questions without an answer, if there never was one */
#define MOST_SECONDS 30.0 /* between two questions to a service that does not answer */
#define REMEMBERED 16     /* notices that asked for a checkpoint and have been acted on */

static const clt_notice_source *const sources[] = {&clt_notice_aws,     &clt_notice_gcp,  &clt_notice_azure,
                                                   &clt_notice_alibaba, &clt_notice_file, &clt_notice_url};

struct clt_notices {
    const clt_notice_source *source;
    clt_notice_asker asker;
    bool chosen; /* the provider was named; else the machine tells it */
    clt_thread *thread;
    atomic_bool stop, save, trouble;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool ends;
    clt_notice newest;
    char line[400];
    uint64_t taken[REMEMBERED]; /* of the thread alone */
    size_t n_taken;
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

/* --- the thread --- */

/* Whether a notice that asks for a checkpoint is new; services repeat theirs. */
static bool is_new(clt_notices *n, const clt_notice *notice)
{
    uint64_t mark = clt_hash64(notice->text, strlen(notice->text));
    for (size_t i = 0; i < REMEMBERED; i++)
        if (n->taken[i] == mark)
            return false;
    n->taken[n->n_taken++ % REMEMBERED] = mark;
    return true;
}

static void take(clt_notices *n, const clt_notice *notice)
{
    if (notice->kind == CLT_NOTICE_SAVE && !is_new(n, notice))
        return;
    CLT_LOCKED(&n->lock);
    n->newest = *notice;
    atomic_store(notice->kind == CLT_NOTICE_STOP ? &n->stop : &n->save, true);
}

static void say_trouble(clt_notices *n, const char *what)
{
    CLT_LOCKED(&n->lock);
    snprintf(n->line, sizeof n->line, "notices of %s: %s; %s", n->source->name, n->asker.trouble, what);
    atomic_store(&n->trouble, true);
}

/* Waits for `seconds`. False: the thread is to end. */
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

static void *watch(void *context)
{
    clt_notices *n = context;
    const double apart = n->asker.options->seconds > 0 ? n->asker.options->seconds : n->source->seconds;
    double wait = apart;
    int failures = 0;
    bool answered = false, told = false;
    if (n->source->http && !n->asker.http) {
        say_trouble(n, "none will be seen");
        return NULL;
    }
    do {
        clt_notice notice = {.kind = CLT_NOTICE_NONE};
        if (n->source->ask(&n->asker, &notice) == CLT_OK) {
            if (n->asker.calm) /* what was told before is over; the same words tell of something new */
                memset(n->taken, 0, sizeof n->taken);
            n->asker.calm = false;
            answered = true;
            failures = 0;
            wait = apart;
            if (notice.kind != CLT_NOTICE_NONE)
                take(n, &notice);
            if (notice.kind == CLT_NOTICE_STOP)
                return NULL;
            continue;
        }
        clt_error_clear();
        if (ends(n))
            return NULL;
        failures++;
        if (failures == GIVE_UP_AFTER && !answered && !n->chosen) {
            say_trouble(n, "this run does not ask again");
            return NULL;
        }
        if (failures == GIVE_UP_AFTER && !told) {
            say_trouble(n, "notices may be missed until it answers");
            told = true;
        }
        if (failures >= GIVE_UP_AFTER && wait < MOST_SECONDS)
            wait = 2 * wait < MOST_SECONDS ? 2 * wait : MOST_SECONDS;
    } while (wait_for(n, wait));
    return NULL;
}

/* --- the training's side --- */

static const char *choose_provider(const clt_notice_options *o)
{
    if (strcmp(o->provider, "auto") != 0)
        return o->provider;
    return o->file[0] ? "file" : o->url[0] ? "url" : clt_cloud_of_machine();
}

static void destroy(clt_notices *n)
{
    if (!n)
        return;
    clt_http_close(n->asker.http);
    pthread_cond_destroy(&n->changed);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

/* Makes what asks, without its thread. *out is NULL if there is nothing to ask. */
static clt_status create(const clt_notice_options *options, clt_notices **out)
{
    const clt_notice_source *source = source_named(choose_provider(options));
    clt_notices *n;
    *out = NULL;
    if (!source)
        return CLT_OK;
    CLT_TRY(clt_alloc(&n, 1, sizeof *n, "notices of the cloud"));
    n->source = source;
    n->chosen = strcmp(options->provider, "auto") != 0 || !source->address;
    n->asker.options = options;
    n->asker.seen = -1;
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->changed, NULL);
    if (source->http)
        clt_metadata_address(&n->asker, source, options->endpoint);
    *out = n;
    return source->http ? clt_http_open(&n->asker.http) : CLT_OK;
}

clt_status clt_notices_open(const clt_notice_options *options, clt_notices **out)
{
    clt_notices *n;
    clt_status status = create(options, &n);
    *out = NULL;
    if (status == CLT_EUNSUPPORTED && !n->chosen) {
        snprintf(n->asker.trouble, sizeof n->asker.trouble, "%s", clt_error_text());
        clt_error_clear();
        status = CLT_OK;
    }
    if (status == CLT_OK && n)
        status = clt_thread_start(&n->thread, "notices", watch, n);
    if (status == CLT_OK)
        *out = n;
    else
        destroy(n);
    return status;
}

clt_status clt_notices_try(const clt_notice_options *options)
{
    clt_notice notice;
    clt_notices *n;
    const char *provider = choose_provider(options);
    const clt_notice_source *source = source_named(provider);
    if (provider && !source && strcmp(provider, "off") != 0)
        CLT_FAIL(CLT_EUSAGE, "'%.40s' is no provider of notices: aws, gcp, azure, alibaba, file and url are",
                 provider);
    if ((source == &clt_notice_file && !options->file[0]) || (source == &clt_notice_url && !options->url[0]))
        CLT_FAIL(CLT_EUSAGE, "the provider '%s' needs cloud.notice_%s, which no config has given", provider,
                 provider);
    clt_status status = create(options, &n);
    if (status == CLT_OK && n)
        status = n->source->ask(&n->asker, &notice);
    destroy(n);
    return status;
}

void clt_notices_close(clt_notices *n)
{
    if (!n)
        return;
    pthread_mutex_lock(&n->lock);
    n->ends = true;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
    if (n->asker.http)
        clt_http_cancel(n->asker.http);
    clt_thread_join(n->thread);
    destroy(n);
}

const char *clt_notices_provider(const clt_notices *n)
{
    return n->source->name;
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
    if (!n || !atomic_exchange(&n->trouble, false))
        return false;
    CLT_LOCKED(&n->lock);
    snprintf(line, size, "%s", n->line);
    return true;
}
