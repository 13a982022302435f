/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of objects for remote_files.h: opens them, waits for their blocks, and pins blocks while they are
 * read. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/files/fileio_error.h"
#include "engine/storage/copies/copies_internal.h"

#define PINS_KEPT UINT16_MAX /* instead of a number of pins: pinned until the copy is closed */
#define REPORT_SECONDS 10.0  /* between two log lines about the same wait */

pthread_mutex_t clt_copies_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t clt_copies_arrived = PTHREAD_COND_INITIALIZER;
clt_remote_file *clt_copies_open;
static pthread_mutex_t options_lock = PTHREAD_MUTEX_INITIALIZER; /* no other lock is taken while it is held */
static clt_copies_options options_now = {
    .s3 = {.endpoint = "", .region = "", .sse = "", .kms_key = "", .allow_http = ""},
    .folder = "",
    .gigabytes = 100,
    .fetch_all_ahead = true};
uint64_t clt_copies_ticks;

clt_copies_options clt_copies_now(void)
{
    CLT_LOCKED(&options_lock);
    return options_now;
}

static void set_options(const clt_copies_options *options)
{
    CLT_LOCKED(&options_lock);
    options_now = *options;
}

const char *clt_copy_name(const clt_remote_file *c, char *text, size_t size)
{
    (void)snprintf(text, size, "s3://%s/%s", c->place->at.bucket, c->place->objects.object[c->object].key);
    return text;
}

/* --- opening --- */

/* Raises the process's limit of descriptors to the maximum, because every open copy needs a descriptor for
 * its locks. False: the limit cannot be raised. */
static bool may_open_more(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return false;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* Opens a file of the folder; a missing file is created, and the file gets its whole size. */
static clt_status open_sized(const char *path, uint64_t size, int *fd)
{
    struct stat info;
    do {
        *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    } while (*fd < 0 && errno == EMFILE && may_open_more());
    if (*fd < 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "opening the copy '%s'", path);
    if (fstat(*fd, &info) != 0 || ((uint64_t)info.st_size != size && ftruncate(*fd, (off_t)size) != 0)) {
        clt_status status = clt_fail_errno(CLT_ESTORAGE, errno, "giving the copy '%s' its size", path);
        (void)close(*fd);
        *fd = -1;
        return status;
    }
    return CLT_OK;
}

static clt_status map_sums(clt_remote_file *c)
{
    CLT_SCOPED(clt_str) path = {0};
    CLT_CLOSED int fd = -1;
    clt_str_printf(&path, "%s.sums", c->path);
    CLT_TRY(clt_str_check(&path));
    CLT_TRY(open_sized(path.text, c->blocks * sizeof *c->sums, &fd));
    CLT_TRY(clt_copies_reserve(fd, path.text, c->blocks * sizeof *c->sums));
    void *sums = mmap(NULL, c->blocks * sizeof *c->sums, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (sums == MAP_FAILED)
        return clt_fail_errno(CLT_ESTORAGE, errno, "mapping '%s'", path.text);
    c->sums = sums;
    return CLT_OK;
}

/* Opens the data file and marks it as in use by a lock. If a process that makes room has removed the file
 * before it is locked, it is created again. */
static clt_status open_data(clt_remote_file *c)
{
    for (;;) {
        bool taken = false;
        struct stat info;
        CLT_TRY(open_sized(c->path, c->size, &c->fd));
        CLT_TRY(clt_range_lock(c->fd, c->path, F_RDLCK, CLT_COPY_IN_USE, 1, &taken));
        if (taken && fstat(c->fd, &info) == 0 && info.st_nlink > 0)
            break;
        (void)close(c->fd);
        c->fd = -1;
    }
    (void)futimens(c->fd, NULL); /* the time of its last use */
    return CLT_OK;
}

static void free_copy(clt_remote_file *c)
{
    if (c->sums)
        (void)munmap((void *)c->sums, c->blocks * sizeof *c->sums);
    if (c->fd >= 0)
        (void)close(c->fd); /* releases the locks as well */
    free(c->path);
    free(c->state);
    free(c->pins);
    free(c->used);
    free(c);
}

static clt_status fill_copy(clt_remote_file *c)
{
    const clt_s3_object *object = &c->place->objects.object[c->object];
    c->size = object->size;
    c->blocks = clt_div_up(object->size, CLT_COPY_BLOCK);
    CLT_TRY(clt_copy_path(c->place, object, &c->path));
    CLT_TRY(open_data(c));
    if (c->blocks == 0)
        return CLT_OK;
    CLT_TRY(map_sums(c));
    CLT_TRY(clt_alloc(&c->state, c->blocks, 1, "the blocks of a copy"));
    CLT_TRY(clt_alloc(&c->pins, c->blocks, sizeof *c->pins, "the blocks of a copy"));
    return clt_alloc(&c->used, c->blocks, sizeof *c->used, "the blocks of a copy");
}

/* Called with the lock held. Returns the open copy of an object after counting one more user; NULL: it is
 * not open. */
static clt_remote_file *open_copy(const clt_place *place, size_t object)
{
    clt_remote_file *c = place->copies[object];
    if (c)
        c->users++;
    return c;
}

/* Opens the files without the lock of copies, since making room for them takes that lock. */
clt_status clt_copy_open(clt_place *place, size_t object, clt_remote_file **out)
{
    pthread_mutex_lock(&clt_copies_lock);
    *out = open_copy(place, object);
    pthread_mutex_unlock(&clt_copies_lock);
    if (*out)
        return CLT_OK;
    clt_remote_file *c = NULL;
    CLT_TRY(clt_alloc(&c, 1, sizeof *c, "a copy of an object"));
    c->fd = -1;
    c->place = place;
    c->object = object;
    c->users = 1;
    clt_status status = fill_copy(c);
    if (status != CLT_OK) {
        free_copy(c);
        return status;
    }
    CLT_LOCKED(&clt_copies_lock);
    *out = open_copy(place, object);
    if (*out) { /* another thread was faster */
        free_copy(c);
        return CLT_OK;
    }
    c->next = clt_copies_open;
    if (c->next)
        c->next->previous = c;
    clt_copies_open = place->copies[object] = *out = c;
    return CLT_OK;
}

void clt_copy_ref(clt_remote_file *c)
{
    c->users++;
}

void clt_copy_unref(clt_remote_file *c)
{
    if (--c->users > 0)
        return;
    if (c->previous)
        c->previous->next = c->next;
    else
        clt_copies_open = c->next;
    if (c->next)
        c->next->previous = c->previous;
    c->place->copies[c->object] = NULL;
    free_copy(c);
}

static clt_status open_path(const char *path, clt_status code, clt_remote_file **out)
{
    clt_place *place = clt_place_of(path);
    if (!place)
        CLT_FAIL(CLT_ENOMEM, "opening '%s': out of host memory", path);
    CLT_TRY(clt_error_put(&place->failure));
    int64_t object = clt_place_find(place, path);
    if (object < 0 && clt_is_directory(path))
        CLT_FAIL(code, "reading '%s': it is a folder, a file is expected; check the path", path);
    if (object < 0)
        CLT_FAIL(code, "opening '%s' for reading: there is no such object; check the address", path);
    return clt_copy_open(place, (size_t)object, out);
}

/* --- pins: the blocks that a thread reads --- */

typedef struct pin {
    clt_remote_file *copy;
    uint64_t block;
} pin;

static __thread struct {
    pin *list;
    size_t count, capacity;
} pins;

/* Called with the lock held and the block in the file. */
static clt_status pin_block(clt_remote_file *c, uint64_t block)
{
    c->used[block] = ++clt_copies_ticks;
    for (size_t i = pins.count; i > 0 && i + 4 > pins.count; i--)
        if (pins.list[i - 1].copy == c && pins.list[i - 1].block == block)
            return CLT_OK;
    if (c->pins[block] >= PINS_KEPT - 1) /* too many readers to count */
        c->pins[block] = PINS_KEPT;
    if (c->pins[block] == PINS_KEPT)
        return CLT_OK;
    CLT_TRY(clt_grow(&pins.list, &pins.capacity, pins.count + 1, sizeof *pins.list, "pinned blocks"));
    pins.list[pins.count++] = (pin){c, block};
    c->pins[block]++;
    clt_copy_ref(c);
    return CLT_OK;
}

/* Releases this thread's pins from number `first` on. */
static void unpin_from(size_t first)
{
    if (pins.count > first) {
        CLT_LOCKED(&clt_copies_lock);
        for (; pins.count > first; pins.count--) {
            const pin *last = &pins.list[pins.count - 1];
            if (last->copy->pins[last->block] != PINS_KEPT)
                last->copy->pins[last->block]--;
            clt_copy_unref(last->copy);
        }
    }
    if (first == 0 && pins.list) {
        free(pins.list);
        pins.list = NULL;
        pins.capacity = 0;
    }
}

/* --- waiting --- */

static void report_wait(const clt_remote_file *c, uint64_t block, double begin, double *reported)
{
    char name[1200];
    double now = clt_now();
    if (now - *reported < REPORT_SECONDS)
        return;
    *reported = now;
    CLT_INFO("waiting for bytes from %llu on of '%s' for %.0f s",
             (unsigned long long)(block * CLT_COPY_BLOCK), clt_copy_name(c, name, sizeof name), now - begin);
}

static clt_status is_needed(const clt_remote_file *c)
{
    char name[1200];
    if (clt_remote_wait_is_over())
        CLT_FAIL(CLT_EINTERRUPTED, "waiting for '%s': it is not needed any more",
                 clt_copy_name(c, name, sizeof name));
    return CLT_OK;
}

/* Called with the lock held, for a block that another thread fetches or will fetch. */
static clt_status wait_for(clt_remote_file *c, uint64_t block)
{
    double begin = clt_now(), reported = begin;
    while (c->state[block] == CLT_BLOCK_QUEUED || c->state[block] == CLT_BLOCK_MOVING) {
        CLT_TRY(is_needed(c));
        (void)clt_cond_wait_turn(&clt_copies_arrived, &clt_copies_lock);
        report_wait(c, block, begin, &reported);
    }
    return CLT_OK;
}

/* Checks a block that is in the file, in this thread. Called with the lock held, but releases it
 * meanwhile. */
static clt_status check_block(clt_remote_file *c, uint64_t block)
{
    bool here = false;
    c->state[block] = CLT_BLOCK_MOVING;
    pthread_mutex_unlock(&clt_copies_lock);
    clt_status status = clt_block_check(c, block, &here);
    pthread_mutex_lock(&clt_copies_lock);
    c->state[block] = here ? CLT_BLOCK_HERE : CLT_BLOCK_AWAY;
    pthread_cond_broadcast(&clt_copies_arrived);
    return status;
}

/* Called with the lock held. Has the block fetched if needed, and pins it. The caller prevents the block's
 * eviction meanwhile. */
static clt_status bring_block(clt_remote_file *c, uint64_t block)
{
    bool demanded = false;
    for (;;) {
        switch (c->state[block]) {
        case CLT_BLOCK_HERE:
            return pin_block(c, block);
        case CLT_BLOCK_AWAY:
            CLT_TRY(is_needed(c));
            if (atomic_load(&c->sums[block]) != 0)
                CLT_TRY(check_block(c, block));
            if (c->state[block] == CLT_BLOCK_AWAY) {
                CLT_TRY(clt_lanes_add(c, block, true));
                demanded = true;
            }
            break;
        case CLT_BLOCK_QUEUED:
            if (!demanded)
                CLT_TRY(clt_lanes_add(c, block, true));
            demanded = true;
            CLT_TRY(wait_for(c, block));
            break;
        default:
            CLT_TRY(wait_for(c, block));
        }
        if (c->failure.status != CLT_OK && c->state[block] == CLT_BLOCK_AWAY)
            return clt_error_put(&c->failure);
    }
}

static clt_status have_block(clt_remote_file *c, uint64_t block)
{
    bool waits = c->state[block] != CLT_BLOCK_HERE && c->pins[block] < PINS_KEPT - 1;
    c->pins[block] += waits;
    clt_status status = bring_block(c, block);
    if (waits && c->pins[block] != PINS_KEPT)
        c->pins[block]--;
    return status;
}

static clt_status need(clt_remote_file *c, uint64_t from, uint64_t size)
{
    CLT_LOCKED(&clt_copies_lock);
    size = from >= c->size ? 0 : size < c->size - from ? size : c->size - from;
    uint64_t first = from / CLT_COPY_BLOCK, end = size ? (from + size - 1) / CLT_COPY_BLOCK + 1 : first;
    for (uint64_t b = first; b < end; b++) /* queues all blocks together, before waiting for the first */
        if (end - first > 1 && c->state[b] == CLT_BLOCK_AWAY && atomic_load(&c->sums[b]) == 0)
            CLT_TRY(clt_lanes_add(c, b, true));
    for (uint64_t b = first; b < end; b++)
        CLT_TRY(have_block(c, b));
    return CLT_OK;
}

static clt_status keep(clt_remote_file *c, uint64_t from, uint64_t size)
{
    CLT_TRY(need(c, from, size));
    CLT_LOCKED(&clt_copies_lock);
    for (uint64_t b = from / CLT_COPY_BLOCK; b < c->blocks && b * CLT_COPY_BLOCK < from + size; b++)
        c->pins[b] = PINS_KEPT;
    return CLT_OK;
}

static void want(clt_remote_file *c, uint64_t from, uint64_t size)
{
    CLT_KEEP_ERROR();
    CLT_LOCKED(&clt_copies_lock);
    size = from >= c->size ? 0 : size < c->size - from ? size : c->size - from;
    uint64_t end = size ? (from + size - 1) / CLT_COPY_BLOCK + 1 : 0;
    for (uint64_t b = from / CLT_COPY_BLOCK; b < end; b++)
        if (c->state[b] == CLT_BLOCK_AWAY && atomic_load(&c->sums[b]) == 0)
            (void)clt_lanes_add(c, b, false);
}

/* --- the functions for files --- */

static void release(clt_remote_file *c)
{
    CLT_LOCKED(&clt_copies_lock);
    clt_copy_unref(c);
}

/* Opens the data file again for reading, through its descriptor: if somebody has cleared the folder, its
 * name may be gone or belong to another file. */
static clt_status open_again(const clt_remote_file *c, int *fd)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", c->fd);
    do {
        *fd = open(path, O_RDONLY | O_CLOEXEC);
    } while (*fd < 0 && errno == EMFILE && may_open_more());
    return *fd >= 0 ? CLT_OK : clt_fail_errno(CLT_ESTORAGE, errno, "opening the copy '%s'", c->path);
}

/* Opens the data file for reading, and locks its first `bytes` bytes so that no process evicts them. *whole:
 * all blocks of these bytes are in the file; otherwise it is closed again. */
static clt_status open_locked(clt_remote_file *c, uint64_t bytes, int *fd, bool *whole)
{
    bool taken = false;
    CLT_TRY(open_again(c, fd));
    clt_status status = clt_range_lock(*fd, c->path, F_RDLCK, 0, bytes, &taken);
    *whole = taken;
    for (uint64_t b = 0; b * CLT_COPY_BLOCK < bytes && *whole; b++)
        *whole = atomic_load(&c->sums[b]) != 0;
    if (!*whole || status != CLT_OK) {
        (void)close(*fd);
        *fd = -1;
    }
    return status;
}

static clt_status open_whole(clt_remote_file *c, uint64_t bytes, int *fd)
{
    bool whole = false;
    bytes = bytes < c->size ? bytes : c->size;
    if (bytes == 0) /* nothing to wait for */
        return open_again(c, fd);
    while (!whole) {
        size_t before = pins.count;
        clt_status status = need(c, 0, bytes);
        if (status == CLT_OK)
            status = open_locked(c, bytes, fd, &whole);
        unpin_from(before);
        CLT_TRY(status);
    }
    return CLT_OK;
}

static clt_status open_file(const char *path, clt_status code, uint64_t bytes, int *fd)
{
    clt_remote_file *c = NULL;
    CLT_TRY(open_path(path, code, &c));
    clt_status status = open_whole(c, bytes, fd);
    release(c);
    return clt_fail_prefix(status, "reading '%s'", path);
}

static clt_status hold(const char *path, clt_status code, clt_remote_file **out, int *fd, uint64_t *size)
{
    CLT_TRY(open_path(path, code, out));
    *fd = (*out)->fd;
    *size = (*out)->size;
    CLT_LOCKED(&clt_copies_lock);
    (*out)->ahead = clt_copies_now().fetch_all_ahead;
    if ((*out)->ahead && clt_lanes_wake() != CLT_OK)
        clt_error_clear(); /* a reader that needs a block tries again and reports the reason */
    return CLT_OK;
}

static void want_path(const char *path, uint64_t bytes)
{
    clt_remote_file *c = NULL;
    CLT_KEEP_ERROR();
    if (open_path(path, CLT_EDATA, &c) != CLT_OK)
        return;
    want(c, 0, bytes);
    release(c);
}

static void done(void)
{
    if (pins.count > 0)
        unpin_from(0);
}

/* --- options --- */

clt_status clt_copies_use(const clt_copies_options *o)
{
    static const clt_remote_files functions = {.stat = clt_place_stat,
                                               .sum = clt_place_sum,
                                               .names = clt_place_names,
                                               .match = clt_place_match,
                                               .open = open_file,
                                               .hold = hold,
                                               .release = release,
                                               .need = need,
                                               .keep = keep,
                                               .want = want,
                                               .want_path = want_path,
                                               .done = done};
    clt_remote_files_use(&functions);
    if (!o)
        return CLT_OK;
    CLT_LOCKED(&clt_copies_lock); /* guards `kept`, too */
    clt_copies_options now = clt_copies_now();
    const char **texts[] = {&now.s3.endpoint, &now.s3.region, &now.s3.allow_http, &now.folder};
    const char *given[] = {o->s3.endpoint, o->s3.region, o->s3.allow_http, o->folder};
    static clt_arena *kept; /* holds all texts so far, because places may still use old ones */
    const char *folder = now.folder;
    if (!kept)
        CLT_TRY(clt_arena_create(&kept));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(*texts[i], given[i] ? given[i] : "") != 0) {
            const char *copy = clt_arena_strdup(kept, given[i] ? given[i] : "");
            if (!copy)
                return CLT_ENOMEM;
            *texts[i] = copy;
        }
    bool other = now.gigabytes != o->gigabytes || strcmp(folder, now.folder) != 0;
    if (other && !clt_copies_open) /* the config may have been read through the old folder */
        clt_copies_leave_folder();
    now.gigabytes = o->gigabytes;
    now.fetch_all_ahead = o->fetch_all_ahead;
    set_options(&now);
    return CLT_OK;
}
