/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes checksums of slabs on the device, and of received data on the host, and compares them. */
#include "engine/train/saved/checksum.h"

#include <stdlib.h>
#include <string.h>

#include "cl/exec/exec.h"
#include "engine/base/log.h"
#include "engine/graph/step_block.h"

#define GROUP_ITEMS 64

struct clt_checksums {
    const clt_store *store;
    clt_checksum_ranges ranges;
    uint64_t first[CLT_ARENA_COUNT][CLT_MAX_STORE_SLABS]; /* index of a range's first chunk in the table */
    uint64_t chunks;
    ocl_buffer *table; /* (chunks, 2) u32, on the device */
    uint32_t *host;    /* the table on the host */
    ocl_command_list list;
    ocl_exec *exec;
};

/* The number of words of a slab that a checkpoint holds. In the state arena that is the state block, without
 * the schedule's table. */
static uint64_t slab_words(const clt_store *store, clt_arena_kind arena, int32_t slab)
{
    bool saved = arena == CLT_ARENA_PARAM || arena == CLT_ARENA_BASE || arena == CLT_ARENA_STATE ||
                 clt_arenas[arena].suffix;
    if (!saved || !store->slab[arena][slab])
        return 0;
    return arena == CLT_ARENA_STATE ? ST_WORDS : ocl_buffer_bytes(store->slab[arena][slab]) / 4;
}

void clt_checksum_ranges_add(clt_checksum_ranges *r, clt_arena_kind arena, int32_t slab, uint64_t first,
                             uint64_t count)
{
    uint64_t *begin = &r->first[arena][slab], *end = &r->end[arena][slab];
    *begin = *end == 0 || first < *begin ? first : *begin;
    *end = first + count > *end ? first + count : *end;
}

/* Sets the ranges: all that can be saved, or the given ones, rounded up to whole chunks within the slab. */
static void set_ranges(clt_checksums *sums, const clt_checksum_ranges *asked)
{
    for (int a = 0; a < CLT_ARENA_COUNT; a++) {
        for (int32_t s = 0; s < sums->store->layout->n_slabs; s++) {
            uint64_t words = slab_words(sums->store, (clt_arena_kind)a, s),
                     end = asked ? clt_align_up(asked->end[a][s], CLT_STORE_CHUNK) : words;
            sums->ranges.end[a][s] = end < words ? end : words;
            sums->ranges.first[a][s] = asked && end ? asked->first[a][s] : 0;
        }
    }
}

static uint64_t range_words(const clt_checksums *sums, int arena, int32_t slab)
{
    return sums->ranges.end[arena][slab] - sums->ranges.first[arena][slab];
}

/* Tensor ids in the command list: one for each slab of an arena, then the table. */
#define TABLE_TENSOR (CLT_ARENA_COUNT * CLT_MAX_STORE_SLABS)

static clt_status resolve(void *context, int32_t tensor, ocl_buffer **buffer, uint64_t *offset)
{
    const clt_checksums *sums = context;
    *offset = 0;
    *buffer = tensor == TABLE_TENSOR
                  ? sums->table
                  : sums->store->slab[tensor / CLT_MAX_STORE_SLABS][tensor % CLT_MAX_STORE_SLABS];
    return CLT_OK;
}

static void emit_slab(ocl_emitter *e, const clt_checksums *sums, clt_arena_kind arena, int32_t slab)
{
    uint64_t words = range_words(sums, arena, slab), chunks = clt_div_up(words, CLT_STORE_CHUNK);
    bool lane = ocl_prefers_lanes(e->device) || (e->device->caps & OCL_CAP_LOCAL) == 0;
    ocl_tensor_ref table = {TABLE_TENSOR, sums->first[arena][slab] * 2 * sizeof(uint32_t)},
                   range = {(int32_t)arena * CLT_MAX_STORE_SLABS + slab,
                            sums->ranges.first[arena][slab] * sizeof(uint32_t)};
    if (words == 0)
        return;
    ocl_kernel_begin(e, "checksum", lane ? "checksum_lane" : "checksum_group");
    ocl_define(e, "ITEMS", GROUP_ITEMS);
    ocl_arg_tensor(e, OCL_READ, range, CLT_U32, words);
    ocl_arg_tensor(e, OCL_WRITE, table, CLT_U32, 2 * chunks);
    ocl_arg_u64(e, words);
    if (lane)
        ocl_arg_is_bound(e);
    ocl_kernel_end_1d(e, lane ? chunks : chunks * GROUP_ITEMS, lane ? 1 : GROUP_ITEMS, 3.0 * (double)words);
}

static clt_status make_list(clt_checksums *sums, const ocl_device_desc *device)
{
    CLT_SCOPED(ocl_emitter) emitter = {.list = &sums->list, .device = device, .label = "checksums"};
    CLT_TRY(clt_arena_create(&sums->list.arena));
    for (int a = 0; a < CLT_ARENA_COUNT; a++)
        for (int32_t s = 0; s < sums->store->layout->n_slabs; s++)
            emit_slab(&emitter, sums, (clt_arena_kind)a, s);
    return ocl_emit_status(&emitter);
}

/* Builds the kernels and runs them once before the first step, so that a driver that refuses a launch does
 * not end the training at its first checkpoint. */
static clt_status prepare(clt_checksums *sums)
{
    ocl_exec_options options = {.resolve = resolve, .resolve_context = sums};
    CLT_TRY(ocl_exec_create(sums->store->device, &sums->list, &options, &sums->exec));
    CLT_TRY(ocl_exec_run(sums->exec, NULL));
    return ocl_finish(sums->store->device, OCL_QUEUE_COMPUTE);
}

clt_status clt_checksums_plan(const clt_store *store, const ocl_device_desc *device,
                              const clt_checksum_ranges *ranges, clt_checksums **out)
{
    CLT_SCOPED(clt_checksums) *sums = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&sums, 1, sizeof *sums, "checksums"));
    sums->store = store;
    set_ranges(sums, ranges);
    for (int a = 0; a < CLT_ARENA_COUNT; a++) {
        for (int32_t s = 0; s < store->layout->n_slabs; s++) {
            sums->first[a][s] = sums->chunks;
            sums->chunks += clt_div_up(range_words(sums, a, s), CLT_STORE_CHUNK);
        }
    }
    CLT_TRY(clt_alloc(&sums->host, sums->chunks, 2 * sizeof *sums->host, "checksums"));
    CLT_TRY(
        ocl_buffer_create(store->device, sums->chunks * 2 * sizeof *sums->host, "checksums", &sums->table));
    CLT_TRY(make_list(sums, device));
    *out = CLT_TAKE(sums);
    return CLT_OK;
}

ocl_exec_ahead clt_checksums_ahead(clt_checksums *sums)
{
    return (ocl_exec_ahead){&sums->list, resolve, sums};
}

clt_status clt_checksums_create(const clt_store *store, const ocl_device_desc *device,
                                const clt_checksum_ranges *ranges, clt_checksums **out)
{
    CLT_SCOPED(clt_checksums) *sums = NULL;
    *out = NULL;
    CLT_TRY(clt_checksums_plan(store, device, ranges, &sums));
    clt_status status = prepare(sums);
    if (status == CLT_OK)
        *out = CLT_TAKE(sums);
    if (status == CLT_OK || status == CLT_ENOMEM || status == CLT_EDEVLOST)
        return status;
    CLT_WARN("checkpoints are saved without checksums of the device: %s", clt_error_text());
    clt_error_clear();
    return CLT_OK;
}

void clt_checksums_destroy(clt_checksums *sums)
{
    if (!sums)
        return;
    ocl_exec_destroy(sums->exec);
    ocl_command_list_free(&sums->list);
    clt_arena_destroy(sums->list.arena);
    ocl_buffer_destroy(sums->table);
    free(sums->host);
    free(sums);
}

clt_status clt_checksums_enqueue(clt_checksums *sums)
{
    CLT_TRY(ocl_exec_run(sums->exec, NULL));
    return ocl_read_async(OCL_QUEUE_COMPUTE, sums->table, 0, sums->host,
                          sums->chunks * 2 * sizeof *sums->host, NULL, NULL);
}

clt_status clt_checksums_compare(const clt_checksums *sums, clt_arena_kind arena, int32_t slab,
                                 uint64_t offset, const void *data, uint64_t elements, const char *what)
{
    const char *bytes = data;
    uint64_t chunk = (offset - sums->ranges.first[arena][slab]) / CLT_STORE_CHUNK;
    const uint32_t *want = sums->host + 2 * (sums->first[arena][slab] + chunk);
    for (uint64_t at = 0; at < elements; at += CLT_STORE_CHUNK, want += 2) {
        uint32_t n = (uint32_t)(elements - at < CLT_STORE_CHUNK ? elements - at : CLT_STORE_CHUNK), sum = 0,
                 weighted = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t word;
            memcpy(&word, bytes + 4 * (at + i), sizeof word);
            sum += word;
            weighted += word * (i + 1);
        }
        if (sum != want[0] || weighted != want[1])
            CLT_FAIL(CLT_ESTORAGE,
                     "reading '%s' from device '%s': elements %llu to %llu arrived with other bits than the "
                     "device holds; memory, bus or driver damaged them",
                     what, ocl_device_describe(sums->store->device)->name, (unsigned long long)at,
                     (unsigned long long)(at + n - 1));
    }
    return CLT_OK;
}
