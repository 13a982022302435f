/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetches blocks of objects into the folder and evicts them. Either one process fetches or evicts a block
 * (it has the lock on the block's range of the file for itself), or any number of processes read the block
 * (they share the lock), or none uses it. A block whose checksum is not 0 was whole when it was written; a
 * process compares the checksum once before it uses the block. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/files/fileio_error.h"
#include "engine/storage/copies/copies_internal.h"

#define PIECE 65536       /* bytes that are read at a time to compute a checksum */
#define OTHER_SECONDS 600 /* how long this process waits for another one that fetches a block */
#define OTHER_TURN 0.02   /* seconds between two checks whether that process has finished */
#define READERS_SECONDS 1 /* after this time a damaged block is repaired although other processes hold it */
#define ROOM_TRIES 3      /* attempts to write a block on a full disk, with making room in between */

/* --- locks --- */

clt_status clt_range_lock(int fd, const char *path, short type, uint64_t from, uint64_t size, bool *taken)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)from, .l_len = (off_t)size};
    int result;
    do {
        result = fcntl(fd, F_OFD_SETLK, &range);
    } while (result != 0 && errno == EINTR);
    *taken = result == 0;
    if (result != 0 && errno != EAGAIN && errno != EACCES)
        return clt_fail_errno(CLT_ESTORAGE, errno,
                              "locking a part of '%s': choose a folder on another disk for copies "
                              "(storage.cache)",
                              path);
    return CLT_OK;
}

static clt_status lock_block(const clt_remote_file *c, uint64_t block, short type, bool *taken)
{
    return clt_range_lock(c->fd, c->path, type, block * CLT_COPY_BLOCK, clt_block_size(c, block), taken);
}

static void unlock_block(const clt_remote_file *c, uint64_t block)
{
    bool taken;
    CLT_KEEP_ERROR();
    (void)lock_block(c, block, F_UNLCK, &taken);
}

/* --- checking --- */

/* The checksum of a block. It is never 0. */
static uint64_t finish_sum(const clt_hash64_state *state)
{
    uint64_t sum = clt_hash64_end(state);
    return sum ? sum : 1;
}

static clt_status sum_of_file(const clt_remote_file *c, uint64_t block, uint64_t *sum)
{
    char piece[PIECE];
    uint64_t size = clt_block_size(c, block);
    clt_hash64_state state;
    clt_hash64_begin(&state);
    for (uint64_t done = 0; done < size;) {
        size_t n = size - done < PIECE ? (size_t)(size - done) : PIECE;
        ssize_t got = pread(c->fd, piece, n, (off_t)(block * CLT_COPY_BLOCK + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return clt_fail_errno(CLT_ESTORAGE, got < 0 ? errno : EIO, "reading the copy '%s'", c->path);
        clt_hash64_add(&state, piece, (size_t)got);
        done += (uint64_t)got;
    }
    *sum = finish_sum(&state);
    return CLT_OK;
}

/* True if a block is in the file and whole. The caller has locked it. */
static bool is_whole(const clt_remote_file *c, uint64_t block)
{
    uint64_t sum = 0, known = atomic_load(&c->sums[block]);
    if (known != 0 && sum_of_file(c, block, &sum) != CLT_OK) {
        CLT_WARN("%s; it is fetched again", clt_error_text());
        clt_error_clear();
    }
    return known != 0 && sum == known;
}

/* clt_block_check, which also sets *given: the lock was granted, so no process fetches the block. */
static clt_status check_block(const clt_remote_file *c, uint64_t block, bool *here, bool *given)
{
    *here = *given = false;
    CLT_TRY(lock_block(c, block, F_RDLCK, given));
    *here = *given && is_whole(c, block);
    if (*given && !*here)
        unlock_block(c, block);
    return CLT_OK;
}

clt_status clt_block_check(clt_remote_file *c, uint64_t block, bool *here)
{
    bool given;
    return check_block(c, block, here, &given);
}

/* --- fetching --- */

/* Writes a block to its place in the file; on a full disk it makes room and tries again. */
static clt_status write_block(const clt_remote_file *c, uint64_t block, const void *data)
{
    uint64_t size = clt_block_size(c, block);
    for (int i = 1;; i++) {
        clt_status status = clt_fd_write_at(c->fd, data, size, block * CLT_COPY_BLOCK, c->path);
        if (status == CLT_OK || i == ROOM_TRIES)
            return clt_fail_prefix(status, "keeping a part of an object (storage.cache, storage.cache_gb)");
        clt_error_clear();
        clt_copies_free(8 * CLT_COPY_BLOCK);
    }
}

/* The bytes that a block takes on the disk. The first block includes the file of checksums. */
static int64_t room_of(const clt_remote_file *c, uint64_t block)
{
    uint64_t bytes = clt_align_up(clt_block_size(c, block), CLT_COPY_PAGE);
    return (int64_t)(block == 0 ? bytes + CLT_COPY_PAGE : bytes);
}

/* Writes the object's bytes to a block and stores their checksum. */
static clt_status bring_block(clt_remote_file *c, uint64_t block, void *buffer)
{
    uint64_t size = clt_block_size(c, block);
    const clt_s3_object *object = &c->place->objects.object[c->object];
    clt_hash64_state state;
    CLT_TRY(clt_s3_get(c->place->s3, object->key, object->etag, block * CLT_COPY_BLOCK, buffer, size));
    CLT_TRY(write_block(c, block, buffer));
    clt_hash64_begin(&state);
    clt_hash64_add(&state, buffer, size);
    atomic_store(&c->sums[block], finish_sum(&state));
    return CLT_OK;
}

/* Called with the block locked for this process alone. */
static clt_status fill_block(clt_remote_file *c, uint64_t block, void *buffer)
{
    clt_copies_make_room(clt_block_size(c, block));
    clt_copies_add_bytes(room_of(c, block)); /* before writing, so that other threads see it */
    clt_status status = bring_block(c, block, buffer);
    if (status != CLT_OK)
        clt_copies_add_bytes(-room_of(c, block));
    return status;
}

static void report_damage(const clt_remote_file *c)
{
    char name[1200];
    CLT_WARN("a part of the copy '%s' is damaged; it is fetched from '%s' again", c->path,
             clt_copy_name(c, name, sizeof name));
}

/* Called with the block locked for this process alone. Fetches it, unless another process has done so by
 * now. */
static clt_status fill_or_find(clt_remote_file *c, uint64_t block, void *buffer)
{
    if (is_whole(c, block))
        return CLT_OK;
    if (atomic_exchange(&c->sums[block], 0) != 0) {
        report_damage(c);
        clt_copies_add_bytes(-room_of(c, block));
    }
    return fill_block(c, block, buffer);
}

/* Repairs a damaged block that other processes read and do not release: writes the object's bytes over it
 * while they keep their locks. *here false: another process is fetching the block by now. */
static clt_status repair_block(clt_remote_file *c, uint64_t block, void *buffer, bool *here)
{
    CLT_TRY(lock_block(c, block, F_RDLCK, here));
    if (!*here || is_whole(c, block))
        return CLT_OK;
    report_damage(c);
    clt_status status = bring_block(c, block, buffer);
    if (status != CLT_OK)
        unlock_block(c, block);
    return status;
}

/* Waits a moment for another process, which fetches the block or reads it although it is damaged. */
static clt_status wait_for_other(const clt_remote_file *c, double begin, const atomic_bool *closing)
{
    char name[1200];
    if (atomic_load(closing))
        CLT_FAIL(CLT_EINTERRUPTED, "fetching '%s': the program ends", clt_copy_name(c, name, sizeof name));
    if (clt_now() - begin > OTHER_SECONDS)
        CLT_FAIL(CLT_ESTORAGE,
                 "reading '%s': another process has worked on its copy '%s' for %d s; end that process, or "
                 "remove the copy",
                 clt_copy_name(c, name, sizeof name), c->path, OTHER_SECONDS);
    CLT_LOCKED(&clt_copies_lock);
    (void)clt_cond_wait_for(&clt_copies_arrived, &clt_copies_lock, OTHER_TURN);
    return CLT_OK;
}

clt_status clt_block_fetch(clt_remote_file *c, uint64_t block, void *buffer, const atomic_bool *closing)
{
    bool here = false, alone = false, given = false;
    double begin = clt_now(), read_since = begin; /* since when other processes only read the block */
    while (!alone) {
        CLT_TRY(check_block(c, block, &here, &given));
        if (!given)
            read_since = clt_now();
        else if (!here && clt_now() - read_since > READERS_SECONDS)
            CLT_TRY(repair_block(c, block, buffer, &here));
        if (here)
            return CLT_OK;
        CLT_TRY(lock_block(c, block, F_WRLCK, &alone));
        if (!alone)
            CLT_TRY(wait_for_other(c, begin, closing));
    }
    clt_status status = fill_or_find(c, block, buffer);
    if (status == CLT_OK)
        status = lock_block(c, block, F_RDLCK, &here); /* a weaker lock is granted immediately */
    else
        unlock_block(c, block);
    return status;
}

/* --- evicting --- */

/* Called with the lock of copies held. Finds the least recently read block that nobody reads at the moment:
 * returns its copy and sets *block. NULL: every block is being read. */
static clt_remote_file *oldest(uint64_t *block)
{
    clt_remote_file *found = NULL;
    for (clt_remote_file *c = clt_copies_open; c; c = c->next)
        for (uint64_t b = 0; b < c->blocks; b++)
            if (c->state[b] == CLT_BLOCK_HERE && c->pins[b] == 0 &&
                (!found || c->used[b] < found->used[*block])) {
                found = c;
                *block = b;
            }
    return found;
}

static atomic_bool keeps_all; /* eviction is impossible: the file system cannot free a part of a file */

/* Removes a block from the file, unless other processes read it. In any case this process releases its
 * lock. */
static void drop_block(const clt_remote_file *c, uint64_t block)
{
    uint64_t size = clt_align_up(clt_block_size(c, block), CLT_COPY_PAGE), from = block * CLT_COPY_BLOCK;
    bool taken = false, dropped = false;
    if (lock_block(c, block, F_WRLCK, &taken) != CLT_OK)
        clt_error_clear();
    if (taken) {
        uint64_t sum = atomic_exchange(&c->sums[block], 0);
        dropped = fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)size) == 0;
        if (!dropped) {
            atomic_store(&c->sums[block], sum); /* the bytes are still in the file */
            atomic_store(&keeps_all, true);
            CLT_WARN("the folder of copies may grow beyond storage.cache_gb, because the disk of '%s' cannot "
                     "free a part of a file",
                     c->path);
        }
    }
    unlock_block(c, block);
    clt_copies_add_bytes(dropped ? -room_of(c, block) : 0);
}

void clt_blocks_drop(uint64_t bytes)
{
    CLT_KEEP_ERROR();
    CLT_LOCKED(&clt_copies_lock);
    for (uint64_t done = 0; done < bytes && !atomic_load(&keeps_all);) {
        uint64_t block = 0;
        clt_remote_file *c = oldest(&block);
        if (!c)
            break;
        c->state[block] = CLT_BLOCK_MOVING;
        clt_copy_ref(c);
        pthread_mutex_unlock(&clt_copies_lock);
        drop_block(c, block);
        pthread_mutex_lock(&clt_copies_lock);
        c->state[block] = CLT_BLOCK_AWAY;
        done += clt_block_size(c, block); /* also one that other processes read: they free it */
        clt_copy_unref(c);
        pthread_cond_broadcast(&clt_copies_arrived);
    }
}
