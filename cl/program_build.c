/* SPDX-License-Identifier: Apache-2.0
 *
 * Building the programs of a command list, several at a time: clBuildProgram may be called by several threads
 * for different programs, and a compiler needs a second or more for each of dozens. Builders take programs in
 * the order of the list and the one that fails first in that order is reported, so that the message does not
 * depend on who was faster. It must not know what is built. */
#include "cl/internal.h"

#include <stdlib.h>

#include "engine/base/thread.h"

/* A GPU's compiler works on the host: more builders than this only raise the peak of host memory, which is
 * some hundred MiB for each. */
#define MOST_BUILDERS 8

typedef struct build_job {
    const ocl_program_wish *wish;
    clt_error error; /* of this build; CLT_OK: built */
} build_job;

typedef struct build_pool {
    ocl_device *device;
    build_job *jobs;
    size_t count, next, done; /* jobs; first one that nobody took; ended */
    const char *begun;        /* family of the build that began last */
    bool failed;              /* nothing more is begun: all before the failed one have been */
    pthread_mutex_t lock;
    pthread_cond_t changed;
} build_pool;

/* The next job, NULL when none is left. */
static build_job *take(build_pool *pool)
{
    build_job *job = NULL;
    pthread_mutex_lock(&pool->lock);
    if (!pool->failed && pool->next < pool->count) {
        job = &pool->jobs[pool->next++];
        pool->begun = job->wish->family;
        pthread_cond_signal(&pool->changed);
    }
    pthread_mutex_unlock(&pool->lock);
    return job;
}

static void work(build_pool *pool, build_job *job)
{
    ocl_program *program;
    clt_status status = ocl_program_get(pool->device, job->wish->family, job->wish->options, &program);
    clt_error_take(status, &job->error);
    pthread_mutex_lock(&pool->lock);
    pool->done++;
    pool->failed = pool->failed || status != CLT_OK;
    pthread_cond_signal(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

static void *builder(void *context)
{
    build_pool *pool = context;
    for (build_job *job = take(pool); job != NULL; job = take(pool))
        work(pool, job);
    return NULL;
}

/* Called with the lock held, which the caller's function must not be. */
static void tell(build_pool *pool, ocl_progress_fn progress, void *context)
{
    size_t done = pool->done;
    const char *begun = pool->begun;
    pthread_mutex_unlock(&pool->lock);
    if (progress != NULL)
        progress(context, (int)done, (int)pool->count, begun);
    pthread_mutex_lock(&pool->lock);
}

/* Until all that was begun has ended and nothing will be begun. */
static void watch(build_pool *pool, ocl_progress_fn progress, void *context)
{
    const char *told = NULL;
    size_t told_done = 0;
    pthread_mutex_lock(&pool->lock);
    while (pool->done < pool->next || (!pool->failed && pool->next < pool->count)) {
        if (pool->begun != NULL && (pool->begun != told || pool->done != told_done)) {
            told = pool->begun;
            told_done = pool->done;
            tell(pool, progress, context);
        } else {
            pthread_cond_wait(&pool->changed, &pool->lock);
        }
    }
    pthread_mutex_unlock(&pool->lock);
}

static void build_here(build_pool *pool, ocl_progress_fn progress, void *context)
{
    for (build_job *job = take(pool); job != NULL; job = take(pool)) {
        if (progress != NULL)
            progress(context, (int)pool->done, (int)pool->count, job->wish->family);
        work(pool, job);
    }
}

static void build_all(build_pool *pool, ocl_progress_fn progress, void *context)
{
    clt_thread *threads[MOST_BUILDERS] = {0};
    int wanted = ocl_build_threads(pool->device, pool->count), started = 0;
    while (wanted > 1 && started < wanted &&
           clt_thread_start(&threads[started], "builder", builder, pool) == CLT_OK)
        started++;
    clt_error_clear(); /* of a thread that cannot be had: the others do its work */
    if (started == 0) {
        build_here(pool, progress, context);
        return;
    }
    watch(pool, progress, context);
    for (int i = 0; i < started; i++)
        clt_thread_join(threads[i]);
}

int ocl_build_threads(const ocl_device *device, size_t programs)
{
    int threads = ocl_threads_here();
    if (device->desc.quirks & OCL_QUIRK_SERIAL_BUILDS)
        return 1;
    if (threads > MOST_BUILDERS)
        threads = MOST_BUILDERS;
    return (size_t)threads < programs ? threads : (int)programs;
}

clt_status ocl_programs_build(ocl_device *device, const ocl_program_wish *wishes, size_t count,
                              ocl_progress_fn progress, void *progress_context, size_t *failed)
{
    build_pool pool = {.device = device};
    clt_status status = CLT_OK;
    *failed = 0;
    CLT_TRY(clt_alloc(&pool.jobs, count, sizeof *pool.jobs, "the programs to build"));
    size_t *index = NULL;
    CLT_TRY_GOTO(clt_alloc(&index, count, sizeof *index, "the programs to build"), done);
    for (size_t i = 0; i < count; i++) {
        if (ocl_program_cached(device, wishes[i].family, wishes[i].options))
            continue;
        index[pool.count] = i;
        pool.jobs[pool.count++].wish = &wishes[i];
    }
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.changed, NULL);
    build_all(&pool, progress, progress_context);
    pthread_cond_destroy(&pool.changed);
    pthread_mutex_destroy(&pool.lock);
    for (size_t i = 0; i < pool.count && status == CLT_OK; i++) {
        *failed = index[i];
        status = clt_error_put(&pool.jobs[i].error);
    }
done:
    free(index);
    free(pool.jobs);
    return status;
}
