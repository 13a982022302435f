/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects in storage as files that can be read: paths "s3://bucket/key" for the functions of fileio.h.
 * Blocks that are read are copied to a folder of limited size on this machine, where the next run finds
 * them. An address is listed once. If an object changes later, reading fails; it never mixes two versions.
 *
 * In the folder an object has a sparse file, named by a hash of server, bucket, key, ETag and size, and a
 * file with the checksums of the blocks that are present. Locks on ranges of the sparse file coordinate
 * processes: a process locks the range of a block exclusively to fetch or evict it, and shares the lock to
 * read it. */
#ifndef ENGINE_STORAGE_COPIES_H
#define ENGINE_STORAGE_COPIES_H

#include "engine/storage/s3.h"

typedef struct clt_copies_options {
    clt_s3_options s3;
    const char *folder;   /* NULL or "": the user's cache */
    double gigabytes;     /* the most that the folder may hold, in units of 10^9 bytes */
    bool fetch_all_ahead; /* fetch open objects to their end, not only the blocks that are read */
} clt_copies_options;

/* Registers the functions of remote_files.h, so that files in storage can be opened. `options` apply to
 * addresses that are opened from now on; NULL: the options of the last call, or of the environment if this
 * is the first call. The texts are copied. The folder of copies is the one that was set when the first
 * address was opened. CLT_ENOMEM. */
clt_status clt_copies_use(const clt_copies_options *options);

#endif
