/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads, a bounded queue of pointers, and the number of cores that a process may really use. */
#ifndef ENGINE_BASE_THREAD_H
#define ENGINE_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* Blocks the signals that users, schedulers and service managers send, in the calling thread and in all
 * threads that it starts from now on: SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2. *before
 * (may be NULL) gets the previous mask. Threads of clt_thread_start block them too. */
void clt_thread_block_signals(sigset_t *before);

/* Like pthread_cond_wait, but for at most `seconds`. False: there was no signal in that time. */
bool clt_cond_wait_for(pthread_cond_t *changed, pthread_mutex_t *lock, double seconds);
/* The same for 0.2 seconds. False: there was no signal in that time; the caller may check whether the awaited
 * event can still happen. */
bool clt_cond_wait_turn(pthread_cond_t *changed, pthread_mutex_t *lock);

static inline void clt_unlock_end_scope(pthread_mutex_t **lock)
{
    pthread_mutex_unlock(*lock);
}
/* Locks the mutex from this line to the end of the scope. */
#define CLT_LOCKED(mutex)                                                                                    \
    __attribute__((cleanup(clt_unlock_end_scope))) pthread_mutex_t *clt_locked_ = (mutex);                   \
    pthread_mutex_lock(clt_locked_)

typedef struct clt_thread clt_thread;
clt_status clt_thread_start(clt_thread **out, const char *name, void *(*body)(void *), void *context);
void clt_thread_join(clt_thread *thread); /* joins and frees; NULL is fine */
/* Frees `thread` without waiting for the end of the thread, which may be in a call that never returns.
 * Memory that the thread uses must stay valid. `thread` may be NULL. */
void clt_thread_leave(clt_thread *thread);

/* Splits 0..count into ranges of at least `least` and calls body(context, first, last) for each, on several
 * cores; returns when all calls have returned. If a thread cannot be started, the calling thread processes
 * its range. */
typedef void (*clt_range_fn)(void *context, uint64_t first, uint64_t last);
void clt_for_ranges(uint64_t count, uint64_t least, const char *name, clt_range_fn body, void *context);

/* Cores in this process's affinity mask, limited by the control group's CPU quota; at least 1. */
int clt_cpu_count(void);
/* Cores in the affinity mask of a process; 0: it cannot be read. */
int clt_process_cores(int64_t process);
/* Bytes of host memory that this process may still take: the least of MemAvailable, the control group's
 * limit (v1, v2) minus its use, and RLIMIT_AS. */
unsigned long long clt_memory_available(void);

/* clt_now: seconds on the monotonic clock. clt_thread_cpu: CPU seconds of the calling thread. */
double clt_now(void);
double clt_wall_time(void); /* seconds since 1970; may jump with the machine's clock */
double clt_thread_cpu(void);
double clt_process_cpu(void); /* CPU seconds of all threads of the process */

#endif
