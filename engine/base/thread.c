/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads with signals blocked, loops over ranges on several threads, and a bounded queue of pointers.
 * Knows nothing of what the queue carries. */
#include "engine/base/thread.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"

struct clt_thread {
    pthread_t handle;
};

void clt_thread_block_signals(sigset_t *before)
{
    static const int blocked[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof blocked / sizeof blocked[0]; i++)
        sigaddset(&set, blocked[i]);
    pthread_sigmask(SIG_BLOCK, &set, before);
}

#define TURN_SECONDS 0.2

bool clt_cond_wait_for(pthread_cond_t *changed, pthread_mutex_t *lock, double seconds)
{
/* older versions wait on the wall clock, so that setting it back makes the wait longer */
#if __GLIBC_PREREQ(2, 30)
    const clockid_t clock = CLOCK_MONOTONIC;
#else
    const clockid_t clock = CLOCK_REALTIME;
#endif
    struct timespec until;
    (void)clock_gettime(clock, &until);
    double end = (double)until.tv_nsec * 1e-9 + (seconds > 0 ? seconds : 0);
    until.tv_sec += (time_t)end;
    until.tv_nsec = (long)((end - (double)(time_t)end) * 1e9);
#if __GLIBC_PREREQ(2, 30)
    return pthread_cond_clockwait(changed, lock, clock, &until) == 0;
#else
    return pthread_cond_timedwait(changed, lock, &until) == 0;
#endif
}

bool clt_cond_wait_turn(pthread_cond_t *changed, pthread_mutex_t *lock)
{
    return clt_cond_wait_for(changed, lock, TURN_SECONDS);
}

clt_status clt_thread_start(clt_thread **out, const char *name, void *(*body)(void *), void *context)
{
    clt_thread *thread = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&thread, 1, sizeof *thread, "a thread"));
    sigset_t before; /* a new thread inherits the signal mask of its creator */
    clt_thread_block_signals(&before);
    int code = pthread_create(&thread->handle, NULL, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        char text[CLT_ERRNO_TEXT];
        free(thread);
        CLT_FAIL(CLT_ENOMEM,
                 "starting the thread '%s' failed: %s; use fewer workers or raise the limit on processes "
                 "(ulimit -u)",
                 name ? name : "", clt_errno_text(code, text));
    }
    if (name) {
        char short_name[16] = {0}; /* the kernel's limit for names of threads, in bytes */
        memcpy(short_name, name, strnlen(name, sizeof short_name - 1));
        (void)pthread_setname_np(thread->handle, short_name);
    }
    *out = thread;
    return CLT_OK;
}

void clt_thread_join(clt_thread *thread)
{
    if (!thread)
        return;
    pthread_join(thread->handle, NULL);
    free(thread);
}

void clt_thread_leave(clt_thread *thread)
{
    if (!thread)
        return;
    pthread_detach(thread->handle);
    free(thread);
}

#define MOST_RANGES 16

typedef struct range_part {
    uint64_t first, last;
    clt_range_fn body;
    void *context;
    clt_thread *thread; /* NULL: it could not be started; the caller processes the range */
} range_part;

static void *do_range(void *context)
{
    const range_part *p = context;
    p->body(p->context, p->first, p->last);
    return NULL;
}

void clt_for_ranges(uint64_t count, uint64_t least, const char *name, clt_range_fn body, void *context)
{
    range_part parts[MOST_RANGES];
    uint64_t done = 0;
    int cores = clt_cpu_count(), n = cores < MOST_RANGES ? cores : MOST_RANGES;
    while (n > 1 && count / (uint64_t)n < least)
        n--;
    for (int i = 0; i < n; i++) {
        uint64_t last = count / (uint64_t)n * (uint64_t)(i + 1);
        parts[i] = (range_part){done, i + 1 == n ? count : last, body, context, NULL};
        done = last;
        if (i > 0 && clt_thread_start(&parts[i].thread, name, do_range, &parts[i]) != CLT_OK)
            clt_error_clear();
    }
    for (int i = 0; i < n; i++) {
        if (parts[i].thread == NULL)
            do_range(&parts[i]);
        else
            clt_thread_join(parts[i].thread);
    }
}
