/* SPDX-License-Identifier: Apache-2.0
 *
 * Checksums of saved data, computed on the device: two words for each chunk of the state block and of what
 * this rank saves of the parameter and optimizer arenas. The writer of a checkpoint computes the same from
 * the data that the host received; if a bit has changed on the way, an error names the tensor and nothing is
 * saved. This file must not know what a checkpoint looks like. */
#ifndef ENGINE_TRAIN_SAVED_CHECKSUM_H
#define ENGINE_TRAIN_SAVED_CHECKSUM_H

#include "cl/exec/exec.h"
#include "engine/state/store.h"

typedef struct clt_checksums clt_checksums;

/* A range [first, end) of elements of each slab; first is the start of a chunk. end 0: empty. */
typedef struct clt_checksum_ranges {
    uint64_t first[CLT_ARENA_COUNT][CLT_MAX_STORE_SLABS], end[CLT_ARENA_COUNT][CLT_MAX_STORE_SLABS];
} clt_checksum_ranges;
/* Widens the range of a slab so that it contains `count` elements from `first` on. */
void clt_checksum_ranges_add(clt_checksum_ranges *ranges, clt_arena_kind arena, int32_t slab, uint64_t first,
                             uint64_t count);

/* Allocates memory for the sums and lists the commands, so that their programs can be built together with
 * others. ranges NULL: all that a checkpoint can hold. */
clt_status clt_checksums_plan(const clt_store *store, const ocl_device_desc *device,
                              const clt_checksum_ranges *ranges, clt_checksums **out);
ocl_exec_ahead clt_checksums_ahead(clt_checksums *sums);
/* As clt_checksums_plan, and builds the kernels and runs them once. `device` describes what the kernels may
 * use. If the driver refuses them, *out is NULL and a warning is logged, because the check is not worth
 * ending a run. */
clt_status clt_checksums_create(const clt_store *store, const ocl_device_desc *device,
                                const clt_checksum_ranges *ranges, clt_checksums **out);
void clt_checksums_destroy(clt_checksums *sums);
CLT_SCOPED_POINTER(clt_checksums, clt_checksums_destroy)
/* Enqueues on the compute queue the kernels for all ranges and a read of the sums; does not block. The
 * memory of the sums must not be touched until the reads that the caller enqueues next have ended. */
clt_status clt_checksums_enqueue(clt_checksums *sums);
/* Compares `elements` 32-bit words that were read from `offset` (elements, at the start of a chunk) of an
 * arena slab, inside its range, with the device's sums. CLT_ESTORAGE names `what` and the first element of
 * the first chunk that differs. */
clt_status clt_checksums_compare(const clt_checksums *sums, clt_arena_kind arena, int32_t slab,
                                 uint64_t offset, const void *data, uint64_t elements, const char *what);

#endif
