/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects in storage as files that can be read: paths "s3://bucket/key" for the functions of fileio.h. What
 * is read is copied, in blocks, to a folder on this machine, whose size has a limit; the next run finds it
 * there. An address is listed once; a later change of an object is an error, never a mixture of two.
 *
 * In the folder an object has a sparse file, named by a hash of server, bucket, key, ETag and size, and a
 * file of the sums of the blocks that are here. Locks on ranges of the sparse file coordinate processes: a
 * process locks the range of a block exclusively to fetch or evict it, and shares the lock to read it. */
#ifndef ENGINE_STORAGE_COPIES_H
#define ENGINE_STORAGE_COPIES_H

#include "engine/storage/s3.h"

typedef struct clt_copies_options {
    clt_s3_options s3;
    const char *folder;   /* NULL or "": the user's cache */
    double gigabytes;     /* the most that the folder may hold, in units of 10^9 bytes */
    bool fetch_all_ahead; /* also fetch open objects from beginning to end, not only what is read */
} clt_copies_options;

/* Gives the functions of remote_files.h to files. `options` hold for addresses that are opened from now on;
 * NULL: the options of the last call, or of the environment if this is the first call. The texts are copied.
 * The folder of copies is the one that was set when the first address was opened. CLT_ENOMEM. */
clt_status clt_copies_use(const clt_copies_options *options);

#endif
