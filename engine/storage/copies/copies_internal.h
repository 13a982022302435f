/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of copies: places (addresses that were listed), copies of their objects, the threads
 * that fetch blocks, and the folder. */
#ifndef ENGINE_STORAGE_COPIES_INTERNAL_H
#define ENGINE_STORAGE_COPIES_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/hash.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"
#include "engine/storage/copies/copies.h"

#define CLT_COPY_BLOCK ((uint64_t)4 << 20)
#define CLT_COPY_LANES 8
#define CLT_COPY_PAGE 4096 /* bytes that a disk allocates as a unit */

/* --- places (copy_places.c) --- */

typedef struct clt_place {
    struct clt_place *next;
    char *address; /* "s3://bucket/prefix", without '/' at its end */
    clt_s3_address at;
    clt_s3 *_Atomic s3; /* shared by the places of a bucket that have the same options */
    clt_s3_options options;
    uint64_t where; /* hash of the server's address */
    bool is_file;   /* the address names one object, not a folder */
    clt_s3_list objects;
    clt_remote_file **copies; /* the open copy of each object; NULL: none is open */
    clt_error failure;        /* why listing failed; CLT_OK: it succeeded */
} clt_place;

/* The place that a path belongs to; a new place is listed. NULL: memory ran out. */
clt_place *clt_place_of(const char *path);
/* The index of a path's object; -1: there is none. */
int64_t clt_place_find(const clt_place *place, const char *path);
bool clt_place_stat(const char *path, struct stat *out);
clt_status clt_place_names(const char *folder, clt_file_list *out);
clt_status clt_place_sum(const char *path, clt_hash64_state *state);
clt_status clt_place_match(const char *pattern, clt_file_list *out);
/* Cancels all requests of all places. */
void clt_places_cancel(void);
/* The present options. Their texts are never NULL, and live as long as the process. May be called from any
 * thread. */
clt_copies_options clt_copies_now(void);

/* --- copies of objects (copy_file.c) --- */

enum { CLT_BLOCK_AWAY, CLT_BLOCK_QUEUED, CLT_BLOCK_MOVING, CLT_BLOCK_HERE };

struct clt_remote_file {
    clt_remote_file *next, *previous; /* in the list of open copies */
    clt_place *place;
    size_t object;
    uint64_t size, blocks;
    char *path; /* of the data file */
    int fd;
    _Atomic uint64_t *sums; /* each block's checksum, 0 if it is not in the file; shared by processes */
    /* clt_copies_lock guards the members that follow. */
    unsigned char *state; /* of each block, as this process knows it */
    uint16_t *pins;       /* readers of each block */
    uint64_t *used;       /* when each block was read last, in ticks */
    int users;
    clt_error failure;   /* why fetching a block for which a reader waited failed */
    bool ahead;          /* the threads fetch the whole object, from its beginning */
    uint64_t next_ahead; /* `ahead` continues with this block */
};

/* clt_copies_lock is "the lock of copies"; clt_copies_arrived is signalled when a block's state has
 * changed. */
extern pthread_mutex_t clt_copies_lock;
extern pthread_cond_t clt_copies_arrived;
extern clt_remote_file *clt_copies_open; /* list of the open copies */
extern uint64_t clt_copies_ticks;        /* a clock that counts reads of blocks */

static inline uint64_t clt_block_size(const clt_remote_file *c, uint64_t block)
{
    uint64_t left = c->size - block * CLT_COPY_BLOCK;
    return left < CLT_COPY_BLOCK ? left : CLT_COPY_BLOCK;
}
/* The object's address, for messages. */
const char *clt_copy_name(const clt_remote_file *c, char *text, size_t size);
clt_status clt_copy_open(clt_place *place, size_t object, clt_remote_file **out);
/* Called with the lock held. */
void clt_copy_ref(clt_remote_file *c);
void clt_copy_unref(clt_remote_file *c);

/* --- moving blocks (copy_blocks.c) --- */

/* Locks the block for reading, and checks that it is in the file and undamaged. *here becomes false if it is
 * not, or if another process is fetching or evicting it. The caller has set the block's state to MOVING. */
clt_status clt_block_check(clt_remote_file *c, uint64_t block, bool *here);
/* Fetches the block unless it is in the file already, and leaves it locked for reading. buffer:
 * CLT_COPY_BLOCK bytes. */
clt_status clt_block_fetch(clt_remote_file *c, uint64_t block, void *buffer, const atomic_bool *closing);
/* Evicts the least recently read blocks until `bytes` bytes are gone or no block is left. */
void clt_blocks_drop(uint64_t bytes);
/* Locks a range of a copy: F_RDLCK, F_WRLCK, F_UNLCK. *taken false: another process has a lock on it. */
clt_status clt_range_lock(int fd, const char *path, short type, uint64_t from, uint64_t size, bool *taken);

/* --- the threads (copy_lanes.c); called with the lock held --- */

/* Puts a block in the queue; `demanded`: a reader waits for it. */
clt_status clt_lanes_add(clt_remote_file *c, uint64_t block, bool demanded);
/* Starts the threads if they are not running, and wakes them. */
clt_status clt_lanes_wake(void);

/* --- the folder (copy_folder.c) --- */

#define CLT_COPY_IN_USE ((uint64_t)1 << 62) /* the byte that each process with an open copy locks */

/* Path of the data file of an object. Its file of checksums has the same path with ".sums" added. */
clt_status clt_copy_path(const clt_place *place, const clt_s3_object *object, char **out);
/* Makes room for `bytes` more bytes within the limit, as far as possible. Takes the lock of copies. */
void clt_copies_make_room(uint64_t bytes);
/* Makes room only by removing copies that no process has open. False: there is still too little room. */
bool clt_copies_remove_unused(uint64_t bytes);
/* Frees `bytes` bytes on a full disk, as far as possible, whatever the limit. Takes the lock of copies. */
void clt_copies_free(uint64_t bytes);
bool clt_copies_have_room(uint64_t bytes);
/* Allocates a small file's space on the disk, because on a full disk writing to a mapping of the file would
 * kill the process. */
clt_status clt_copies_reserve(int fd, const char *path, uint64_t bytes);
/* Closes the folder; the next copy opens it again. Called with the lock of copies held, when no copy is
 * open. */
void clt_copies_leave_folder(void);
void clt_copies_add_bytes(int64_t bytes);

#endif
