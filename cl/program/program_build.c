/* SPDX-License-Identifier: Apache-2.0
 *
 * Building the programs of a command list, several at a time: clBuildProgram may be called by several
 * threads for different programs, and a compiler needs a second or more for each of dozens. Where threads
 * would wait for each other, each has a child process (cl/program/builders.h). Programs with the largest
 * sources begin first, so that no builder works alone on one at the end. A program that another process is
 * building comes later, when it is in a cache (cl/program/build_turn.h). If several programs fail, the one
 * that began first is reported, so that the message does not depend on timing. This file must not know what
 * is built. */
#include "cl/device/internal.h"
#include "cl/kernels/program_source.h"
#include "cl/program/build_turn.h"
#include "cl/program/builders.h"
#include "cl/program/program_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"

/* Starting a child takes half a second of a core, so children are used only if at least this many programs
 * are in no cache. */
#define WORTH_CHILDREN 4

typedef struct build_job {
    const ocl_program_request *request;
    size_t index;    /* index in the caller's list */
    size_t length;   /* length of its source */
    clt_error error; /* error of this build; status CLT_OK: none */
    bool known;      /* the program is in a cache */
    uint64_t hash;   /* hash of everything that determines the program */
    double began;    /* when a builder took it */
    bool ended;
    bool told; /* a message has reported it as slow */
} build_job;

typedef struct build_pool {
    ocl_device *device;
    build_job *jobs;
    size_t count, next, done; /* number of jobs; next job to take; jobs that have ended */
    const char *begun;        /* family of the build that began last */
    bool failed;              /* no further builds begin (all jobs before the failed one have begun) */
    bool children;            /* each builder has a child process */
    int builders;             /* number of threads so far, from which each thread gets its number */
    pthread_mutex_t lock;
    pthread_cond_t changed;
} build_pool;

/* Moves the job that should begin next to the front of the remaining jobs: the first one that no other
 * process is building, or else the first. Called with the lock held. */
static void choose(build_pool *pool)
{
    int turns = ocl_binary_turns(pool->device);
    size_t best = pool->next;
    while (best < pool->count && !pool->jobs[best].known && ocl_turn_is_taken(turns, pool->jobs[best].hash))
        best++;
    if (best == pool->next || best == pool->count)
        return;
    build_job job = pool->jobs[best];
    memmove(&pool->jobs[pool->next + 1], &pool->jobs[pool->next], (best - pool->next) * sizeof job);
    pool->jobs[pool->next] = job;
}

/* Takes the next job; NULL: there is none. */
static build_job *take(build_pool *pool)
{
    build_job *job = NULL;
    CLT_LOCKED(&pool->lock);
    if (!pool->failed && pool->next < pool->count) {
        choose(pool);
        job = &pool->jobs[pool->next++];
        job->began = clt_now();
        pool->begun = job->request->family;
        pthread_cond_signal(&pool->changed);
    }
    return job;
}

/* Starts a child for a builder. If that fails, the builder builds in this process. */
static void start_child(const ocl_device *device, ocl_builder **child)
{
    if (*child == NULL && ocl_builder_start(device, child) != CLT_OK) {
        CLT_DEBUG("building in this process: %s", clt_error_text());
        clt_error_clear();
    }
}

static void end_job(build_pool *pool, build_job *job)
{
    CLT_LOCKED(&pool->lock);
    job->ended = true;
    pool->done++;
    pool->failed = pool->failed || (job->error.status != CLT_OK && !job->request->ahead);
    pthread_cond_signal(&pool->changed);
}

/* Makes the child compile the program into a cache, where build() then finds it. If no child can, build()
 * compiles it. */
static clt_status build_in_child(build_pool *pool, ocl_builder **child, const ocl_program_request *request)
{
    bool usable = true;
    ocl_builder *another = NULL;
    clt_status status = ocl_builder_build(*child, request, &usable);
    pthread_mutex_lock(&pool->device->lock);
    pool->device->counters.programs_in_children += usable;
    pthread_mutex_unlock(&pool->device->lock);
    if (usable)
        return status;
    ocl_builder_stop(*child);
    *child = NULL; /* not replaced, because a new child would end with this thread */
    if (status != CLT_EBUILD)
        return status;
    /* A full disk or lack of memory can end a compiler too, so only a program that ends two children gets
     * the blame. */
    clt_error_clear();
    start_child(pool->device, &another);
    if (another == NULL)
        return CLT_OK;
    status = ocl_builder_build(another, request, &usable);
    ocl_builder_stop(another);
    return status;
}

/* Makes the child compile the program while this process has the program's turn; the child takes no turns.
 * Does nothing if there is no child, or if another process has meanwhile built the program. */
static clt_status build_in_turn(build_pool *pool, build_job *job, ocl_builder **child)
{
    const ocl_program_request *request = job->request;
    const int turns = ocl_binary_turns(pool->device);
    const uint64_t hash = job->hash;
    if (child == NULL || *child == NULL || job->known)
        return CLT_OK;
    bool turn = ocl_turn_take(turns, hash);
    job->known = turn && ocl_program_known(pool->device, request->family, request->options, &job->hash);
    clt_status status = job->known ? CLT_OK : build_in_child(pool, child, request);
    if (turn)
        ocl_turn_give(turns, hash);
    return status;
}

/* `child` is NULL if this process compiles. */
static void build(build_pool *pool, build_job *job, ocl_builder **child)
{
    ocl_program *program;
    const ocl_program_request *request = job->request;
    clt_status status = build_in_turn(pool, job, child);
    if (status == CLT_OK)
        status = request->ahead ? ocl_program_try(pool->device, request->family, request->options, &program)
                                : ocl_program_get(pool->device, request->family, request->options, &program);
    clt_error_take(status, &job->error);
    end_job(pool, job);
}

static void *builder(void *context)
{
    build_pool *pool = context;
    pthread_mutex_lock(&pool->lock);
    ocl_builder **child = &pool->device->builders[pool->builders++];
    pthread_mutex_unlock(&pool->lock);
    for (build_job *job = take(pool); job != NULL; job = take(pool))
        build(pool, job, child);
    return NULL;
}

/* Called with the lock held, but releases it while the caller's progress function runs. */
static void tell(build_pool *pool, ocl_progress_fn progress, void *context)
{
    size_t done = pool->done;
    const char *begun = pool->begun;
    pthread_mutex_unlock(&pool->lock);
    if (progress != NULL)
        progress(context, (int)done, (int)pool->count, begun);
    pthread_mutex_lock(&pool->lock);
}

/* Seconds after which a message reports a build as slow. */
static double slow_build(void)
{
    const char *text = getenv("CLTRAIN_BUILD_SECONDS");
    return text != NULL && atof(text) > 0.0 ? atof(text) : 120.0;
}

/* Reports each slow build once, so that users learn which kernel a compiler hangs on. Builds of a single
 * builder run on the caller's thread and are not watched. Called with the lock held. */
static void tell_slow(build_pool *pool, double limit)
{
    double now = clt_now();
    for (size_t i = 0; i < pool->next; i++) {
        build_job *job = &pool->jobs[i];
        if (job->ended || job->told || now - job->began < limit)
            continue;
        job->told = true;
        CLT_WARN("the device's compiler has been compiling '%s' (%s) for %g s; if it never returns, try "
                 "CLTRAIN_BUILDERS=1, which builds one program after the other",
                 job->request->family, job->request->options, limit);
    }
}

/* Reports progress until all builds that began have ended and none will begin. */
static void watch(build_pool *pool, ocl_progress_fn progress, void *context)
{
    const char *told = NULL;
    size_t told_done = 0;
    double limit = slow_build();
    CLT_LOCKED(&pool->lock);
    while (pool->done < pool->next || (!pool->failed && pool->next < pool->count)) {
        if (pool->begun != NULL && (pool->begun != told || pool->done != told_done)) {
            told = pool->begun;
            told_done = pool->done;
            tell(pool, progress, context);
        } else {
            clt_cond_wait_turn(&pool->changed, &pool->lock);
            tell_slow(pool, limit);
        }
    }
}

static void tell_here(build_pool *pool, const build_job *job, ocl_progress_fn progress, void *context)
{
    if (progress != NULL)
        progress(context, (int)pool->done, (int)pool->count, job->request->family);
}

static void build_here(build_pool *pool, ocl_progress_fn progress, void *context)
{
    for (build_job *job = take(pool); job != NULL; job = take(pool)) {
        tell_here(pool, job, progress, context);
        build(pool, job, NULL);
    }
}

static void build_at_once(build_pool *pool, int wanted, ocl_progress_fn progress, void *context)
{
    clt_thread *threads[OCL_BUILDERS_MAX] = {0};
    int started = 0;
    for (int i = 0; i < wanted && pool->children; i++)
        start_child(pool->device, &pool->device->builders[i]);
    while (wanted > 1 && started < wanted &&
           clt_thread_start(&threads[started], "builder", builder, pool) == CLT_OK)
        started++;
    clt_error_clear(); /* the other threads do the work of one that could not be started */
    if (started == 0) {
        build_here(pool, progress, context);
        return;
    }
    watch(pool, progress, context);
    for (int i = 0; i < started; i++)
        clt_thread_join(threads[i]);
}

/* The largest number of builders: one for each core that this process may use, or CLTRAIN_BUILDERS. */
static int most_builders(void)
{
    const char *text = getenv("CLTRAIN_BUILDERS");
    int most = text != NULL && text[0] != '\0' ? atoi(text) : ocl_threads_here();
    return most < 1 ? 1 : most < OCL_BUILDERS_MAX ? most : OCL_BUILDERS_MAX;
}

static int builders_for(size_t programs)
{
    int most = most_builders();
    return (size_t)most < programs ? most : (int)programs;
}

int ocl_build_threads(const ocl_device *device, size_t programs)
{
    return device->desc.quirks & OCL_QUIRK_SERIAL_BUILDS ? 1 : builders_for(programs);
}

/* The number of children for the programs that are in no cache; 0: no children. */
static int children_for(build_pool *pool)
{
    size_t unknown = 0;
    for (size_t i = 0; i < pool->count; i++) {
        const ocl_program_request *request = pool->jobs[i].request;
        pool->jobs[i].known =
            ocl_program_known(pool->device, request->family, request->options, &pool->jobs[i].hash);
        unknown += !pool->jobs[i].known;
    }
    pool->device->counters.programs_new += unknown;
    if (!ocl_builders_help(pool->device))
        return 0;
    bool there = pool->device->builders[0] != NULL; /* the previous executor's children still exist */
    int children = builders_for(unknown);
    return children > 1 && (there || unknown >= WORTH_CHILDREN) ? children : 0;
}

static void build_all(build_pool *pool, ocl_progress_fn progress, void *context)
{
    int wanted = ocl_build_threads(pool->device, pool->count), children = children_for(pool);
    pool->children = children > 0;
    build_at_once(pool, pool->children ? children : wanted, progress, context);
}

void ocl_builders_dismiss(ocl_device *device)
{
    ocl_builders_forget();
    for (int i = 0; i < OCL_BUILDERS_MAX; i++) {
        ocl_builder_stop(device->builders[i]);
        device->builders[i] = NULL;
    }
}

static int by_length(const void *a, const void *b)
{
    const build_job *x = a, *y = b;
    if (x->length != y->length)
        return x->length > y->length ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

clt_status ocl_programs_build(ocl_device *device, const ocl_program_request *requests, size_t count,
                              ocl_progress_fn progress, void *progress_context, size_t *failed)
{
    CLT_FREED build_job *jobs = NULL;
    *failed = 0;
    if (device->gathered != NULL && count > 0)
        return ocl_programs_record(device, requests, count);
    CLT_TRY(clt_alloc(&jobs, count, sizeof *jobs, "the programs to build"));
    build_pool pool = {.device = device, .jobs = jobs};
    for (size_t i = 0; i < count; i++)
        if (!ocl_program_cached(device, requests[i].family, requests[i].options))
            jobs[pool.count++] = (build_job){
                .request = &requests[i], .index = i, .length = ocl_source_length(requests[i].family)};
    qsort(jobs, pool.count, sizeof *jobs, by_length);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.changed, NULL);
    build_all(&pool, progress, progress_context);
    pthread_cond_destroy(&pool.changed);
    pthread_mutex_destroy(&pool.lock);
    for (size_t i = 0; i < pool.count; i++)
        if (jobs[i].request->outcome != NULL)
            *jobs[i].request->outcome = jobs[i].error.status;
    for (size_t i = 0; i < pool.count; i++) {
        if (jobs[i].request->ahead)
            continue;
        *failed = jobs[i].index;
        CLT_TRY(clt_error_put(&jobs[i].error));
    }
    return CLT_OK;
}
