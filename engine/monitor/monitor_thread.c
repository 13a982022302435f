/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that takes samples, and what it keeps for the caller. Only the thread calls drivers, and never
 * while it holds the lock: a call that hangs stops the figures and nothing else. */
#include "engine/monitor/monitor.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/monitor/monitor_source.h"

#define LEAVE_SECONDS 0.25 /* a thread that does not end within this time is abandoned */

/* In the order in which they are searched for a device. */
static const clt_monitor_source *const sources[] = {&clt_monitor_nvml, &clt_monitor_amdgpu, &clt_monitor_i915,
                                                    &clt_monitor_xe, &clt_monitor_cpu};
#define N_SOURCES (sizeof sources / sizeof *sources)

struct clt_monitor {
    clt_monitor_options options; /* pci and root point into the two texts */
    char pci[16], root[256];
    clt_thread *thread;
    pthread_mutex_t lock; /* guards the members that follow */
    pthread_cond_t changed;
    bool ends, ended, left; /* left: nobody waits for the thread, so it frees the monitor at its end */
    bool wanted;            /* a sample is requested before it is due */
    bool known;             /* `facts` is valid */
    bool reported;          /* `trouble` was reported */
    int64_t samples, taken; /* taken: samples up to the last take */
    clt_monitor_facts facts;
    clt_monitor_sums sums;
    int xid[CLT_MONITOR_XIDS]; /* not taken yet */
    double xid_at[CLT_MONITOR_XIDS];
    int xids;
    char trouble[256]; /* "": none */
};

static void destroy(clt_monitor *m)
{
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* --- the thread --- */

typedef struct opened {
    const clt_monitor_source *device, *host; /* NULL: there is none */
    void *device_state, *host_state;
} opened;

/* Opens the source of the device's figures, and the host's source, which is the same for all devices. */
static void open_sources(clt_monitor *m, opened *o)
{
    clt_monitor_facts facts = {0};
    char trouble[256] = "", first[256] = "";
    *o = (opened){0};
    clt_monitor_cpu.open(&m->options, &facts, trouble, &o->host_state);
    o->host = o->host_state ? &clt_monitor_cpu : NULL;
    for (size_t i = 0; i + 1 < N_SOURCES && !o->device && !m->options.cpu; i++) {
        trouble[0] = '\0';
        sources[i]->open(&m->options, &facts, trouble, &o->device_state);
        o->device = o->device_state ? sources[i] : NULL;
        if (trouble[0] && !first[0])
            memcpy(first, trouble, sizeof first);
    }
    const clt_monitor_source *who = m->options.cpu ? o->host : o->device;
    facts.source = who ? who->name : NULL;
    memcpy(facts.pci, m->pci, sizeof facts.pci);
    clt_error_clear(); /* a source for which memory ran out counts as one without figures */
    CLT_LOCKED(&m->lock);
    m->facts = facts;
    m->known = true;
    if (!o->device)
        memcpy(m->trouble, first, sizeof first);
}

static void close_sources(const opened *o)
{
    if (o->device)
        o->device->close(o->device_state);
    if (o->host)
        o->host->close(o->host_state);
}

static void take_sample(clt_monitor *m, const opened *o)
{
    clt_monitor_sample sample;
    clt_monitor_sample_clear(&sample, clt_now());
    if (o->host)
        o->host->sample(o->host_state, &sample);
    if (o->device)
        o->device->sample(o->device_state, &sample);
    CLT_LOCKED(&m->lock);
    clt_monitor_add(&m->sums, &sample);
    for (int i = 0; i < sample.xids && m->xids < CLT_MONITOR_XIDS; i++) {
        m->xid_at[m->xids] = sample.at;
        m->xid[m->xids++] = sample.xid[i];
    }
    if (sample.trouble[0]) {
        memcpy(m->trouble, sample.trouble, sizeof m->trouble);
        m->reported = false;
    }
    m->samples++;
    m->wanted = false;
    pthread_cond_broadcast(&m->changed);
}

/* Waits until the next sample is due. False: the thread has to end. */
static bool wait_for_next(clt_monitor *m, double due)
{
    CLT_LOCKED(&m->lock);
    while (!m->ends && !m->wanted && clt_now() < due)
        (void)clt_cond_wait_for(&m->changed, &m->lock, due - clt_now());
    return !m->ends;
}

static void *watch(void *context)
{
    clt_monitor *m = context;
    opened o;
    double due;
    open_sources(m, &o);
    do {
        due = clt_now() + m->options.seconds;
        take_sample(m, &o);
    } while (wait_for_next(m, due));
    close_sources(&o);
    pthread_mutex_lock(&m->lock);
    bool left = m->left;
    m->ended = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    if (left)
        destroy(m);
    return NULL;
}

/* --- the caller's side --- */

clt_status clt_monitor_open(const clt_monitor_options *options, clt_monitor **out)
{
    clt_monitor *m;
    *out = NULL;
    CLT_TRY(clt_alloc(&m, 1, sizeof *m, "the monitor of a device"));
    m->options = *options;
    (void)snprintf(m->pci, sizeof m->pci, "%s", options->pci);
    (void)snprintf(m->root, sizeof m->root, "%s", options->root);
    m->options.pci = m->pci;
    m->options.root = m->root;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    clt_status status = clt_thread_start(&m->thread, "monitor", watch, m);
    if (status != CLT_OK) {
        destroy(m);
        return status;
    }
    *out = m;
    return CLT_OK;
}

void clt_monitor_close(clt_monitor *m)
{
    if (!m)
        return;
    clt_thread *thread = m->thread;
    const double until = clt_now() + LEAVE_SECONDS;
    pthread_mutex_lock(&m->lock);
    m->ends = true;
    pthread_cond_broadcast(&m->changed);
    while (!m->ended && clt_now() < until)
        (void)clt_cond_wait_for(&m->changed, &m->lock, until - clt_now());
    bool ended = m->ended;
    m->left = !ended;
    pthread_mutex_unlock(&m->lock);
    if (!ended) { /* from here on the thread owns the monitor */
        clt_thread_leave(thread);
        return;
    }
    clt_thread_join(thread);
    destroy(m);
}

bool clt_monitor_take(clt_monitor *m, double value[CLT_MONITOR_COUNT])
{
    if (!m)
        return false;
    CLT_LOCKED(&m->lock);
    if (m->samples == m->taken)
        return false;
    m->taken = m->samples;
    clt_monitor_fold_since(&m->sums, value);
    return true;
}

bool clt_monitor_spans(clt_monitor *m, clt_monitor_span span[CLT_MONITOR_COUNT])
{
    if (!m)
        return false;
    CLT_LOCKED(&m->lock);
    for (int i = 0; i < CLT_MONITOR_COUNT; i++)
        span[i] = m->sums.all[i].samples ? m->sums.all[i] : (clt_monitor_span){0, NAN, NAN, NAN, NAN};
    return m->samples > 0;
}

bool clt_monitor_facts_of(clt_monitor *m, clt_monitor_facts *out)
{
    if (!m)
        return false;
    CLT_LOCKED(&m->lock);
    *out = m->facts;
    return m->known;
}

void clt_monitor_freshen(clt_monitor *m, double seconds)
{
    if (!m)
        return;
    const double until = clt_now() + seconds;
    CLT_LOCKED(&m->lock);
    m->wanted = true;
    pthread_cond_broadcast(&m->changed);
    while (m->wanted && clt_now() < until)
        (void)clt_cond_wait_for(&m->changed, &m->lock, until - clt_now());
}

bool clt_monitor_take_xid(clt_monitor *m, int *xid, double *at)
{
    if (!m)
        return false;
    CLT_LOCKED(&m->lock);
    if (m->xids == 0)
        return false;
    *xid = m->xid[0];
    *at = m->xid_at[0];
    m->xids--;
    memmove(m->xid, m->xid + 1, sizeof *m->xid * (size_t)m->xids);
    memmove(m->xid_at, m->xid_at + 1, sizeof *m->xid_at * (size_t)m->xids);
    return true;
}

bool clt_monitor_take_trouble(clt_monitor *m, char *line, size_t size)
{
    if (!m)
        return false;
    CLT_LOCKED(&m->lock);
    if (m->reported || !m->trouble[0])
        return false;
    m->reported = true;
    (void)snprintf(line, size, "%s", m->trouble);
    return true;
}

int clt_monitor_list(clt_monitor_device *devices, int most)
{
    int count = 0;
    for (size_t i = 0; i < N_SOURCES; i++)
        if (sources[i]->list)
            count += sources[i]->list(devices + count, most - 1 - count);
    devices[count] = (clt_monitor_device){.source = "cpu"};
    return count + 1;
}
