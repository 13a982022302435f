/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that the local ranks of a group share. The first local rank makes a file in memory (memfd), and the
 * others open it through /proc. Each checks that the file holds the first rank's random number, because a
 * process number may mean another process where containers number their processes themselves. Needs neither
 * MPI nor /dev/shm, which containers keep small. */
#include "comm/comm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine/base/mem.h"

#define LINE 64 /* bytes of a cache line */

typedef struct header {
    uint64_t number; /* random */
    _Alignas(LINE) atomic_uint arrived;
    _Alignas(LINE) atomic_uint round;
} header;
#define PAGE ((int64_t)4096)
#define LARGE_PAGE ((int64_t)2 << 20)
#ifndef MADV_POPULATE_WRITE /* the kernel's number, missing in headers older than Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

struct comm_segment {
    char *parts;  /* the parts of all local ranks, in the order of local ranks */
    header *head; /* lies after the parts */
    int64_t bytes;
    int64_t each; /* bytes of a part */
    int local_ranks;
};

/* Where the first local rank's file can be opened: /proc/`process`/fd/`file`. */
typedef struct address {
    int64_t process, file; /* file -1: there is no file */
    uint64_t number;
} address;

static void unmap(comm_segment *s)
{
    if (s->head)
        (void)munmap(s->parts, (size_t)s->bytes);
    s->head = NULL;
}

/* Maps the file. False: it cannot be mapped, or its header has another number than `number`, unless `number`
 * is 0. */
static bool map(comm_segment *s, int file, uint64_t number)
{
    void *at = mmap(NULL, (size_t)s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED)
        return false;
    s->parts = at;
    s->head = (header *)(void *)(s->parts + s->each * s->local_ranks);
    (void)madvise(s->parts, (size_t)(s->each * s->local_ranks), MADV_HUGEPAGE);
    if (number && s->head->number != number)
        unmap(s);
    return s->head != NULL;
}

/* Allocates the pages now, because the system kills the process if it has no free page at the first access.
 * Each rank allocates its own part, so that it lies near the rank's cores. */
static bool take(const comm_segment *s, int file, int64_t at, int64_t bytes)
{
    if (madvise(s->parts + at, (size_t)bytes, MADV_POPULATE_WRITE) == 0)
        return true;
    if (errno != EINVAL) /* the kernel knows MADV_POPULATE_WRITE, but has no memory */
        return false;
    return posix_fallocate(file, (off_t)at, (off_t)bytes) == 0;
}

static int make_file(comm_segment *s, address *where)
{
    int file = memfd_create("cltrain", MFD_CLOEXEC);
    *where = (address){.process = getpid(), .file = -1};
    if (file < 0)
        return -1;
    if (ftruncate(file, (off_t)s->bytes) != 0 ||
        getrandom(&where->number, sizeof where->number, 0) != (ssize_t)sizeof where->number ||
        !map(s, file, 0)) {
        close(file);
        return -1;
    }
    where->file = file;
    where->number |= 1; /* not 0 */
    if (take(s, file, s->each * s->local_ranks, PAGE) && take(s, file, 0, s->each))
        s->head->number = where->number;
    else
        unmap(s);
    return file;
}

static void open_file(comm_segment *s, const address *where, int local_rank)
{
    char path[64];
    if (where->file < 0)
        return;
    (void)snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)where->process,
                   (long long)where->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    if (lseek(file, 0, SEEK_END) == (off_t)s->bytes && map(s, file, where->number) &&
        !take(s, file, s->each * local_rank, s->each))
        unmap(s);
    close(file);
}

static clt_status agree_first(comm *c, comm_segment *s, char *all)
{
    address where = {0};
    int n = c->info.local_ranks;
    CLT_CLOSED int file = make_file(s, &where);
    *all = s->head != NULL;
    for (int r = 1; r < n; r++)
        CLT_TRY(comm_exchange(c, &where, sizeof where, c->local[r], NULL, 0, -1));
    for (int r = 1; r < n; r++) {
        char good = 0;
        CLT_TRY(comm_exchange(c, NULL, 0, -1, &good, 1, c->local[r]));
        *all &= good;
    }
    for (int r = 1; r < n; r++)
        CLT_TRY(comm_exchange(c, all, 1, c->local[r], NULL, 0, -1));
    return CLT_OK;
}

static clt_status agree_other(comm *c, comm_segment *s, char *all)
{
    address where = {0};
    CLT_TRY(comm_exchange(c, NULL, 0, -1, &where, sizeof where, c->local[0]));
    open_file(s, &where, c->info.local_rank);
    char good = s->head != NULL;
    return comm_exchange(c, &good, 1, c->local[0], all, 1, c->local[0]);
}

/* The first local rank tells the others where its file is. The others report whether they have mapped it,
 * and the first tells them whether all could. */
static clt_status agree(comm *c, comm_segment *s)
{
    char all = 0;
    clt_status status = c->info.local_rank == 0 ? agree_first(c, s, &all) : agree_other(c, s, &all);
    if (!all || status != CLT_OK)
        unmap(s);
    return status;
}

clt_status comm_segment_create(comm *c, int64_t bytes, comm_segment **out)
{
    *out = NULL;
    if (c->info.local_ranks < 2)
        return CLT_OK;
    CLT_FREED comm_segment *s = NULL;
    CLT_TRY(clt_alloc(&s, 1, sizeof *s, "memory shared between ranks"));
    s->local_ranks = c->info.local_ranks;
    int64_t page = bytes < LARGE_PAGE ? PAGE : LARGE_PAGE;
    s->each = (bytes + page - 1) / page * page;
    s->bytes = s->each * s->local_ranks + PAGE;
    CLT_TRY(agree(c, s));
    *out = s->head ? CLT_TAKE(s) : NULL;
    return CLT_OK;
}

void comm_segment_destroy(comm_segment *s)
{
    if (!s)
        return;
    unmap(s);
    free(s);
}

void *comm_segment_part(const comm_segment *s, int local_rank)
{
    return s->parts + local_rank * s->each;
}

/* The last rank to arrive opens the next round. */
clt_status comm_segment_barrier(comm *c)
{
    header *h = c->segment->head;
    unsigned round = atomic_load_explicit(&h->round, memory_order_acquire);
    int turns = 0;
    if (atomic_fetch_add_explicit(&h->arrived, 1, memory_order_acq_rel) + 1 ==
        (unsigned)c->segment->local_ranks) {
        atomic_store_explicit(&h->arrived, 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&h->round, 1, memory_order_release);
        return CLT_OK;
    }
    while (atomic_load_explicit(&h->round, memory_order_acquire) == round)
        CLT_TRY(comm_engine_wait_turn(c->engine, &turns));
    return CLT_OK;
}
