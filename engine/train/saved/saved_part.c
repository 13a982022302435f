/* SPDX-License-Identifier: Apache-2.0
 *
 * Divides the tensors of a checkpoint among the ranks that write, reads this rank's pieces from the device
 * and compares them with the device's checksums. */
#include "engine/train/saved/saved_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/train/job/tuned.h"

/* --- the tensors of the checkpoint --- */

/* Appends a tensor to the list of the checkpoint's tensors, and where its values are in the store. */
static clt_status add_tensor(const clt_run *run, clt_saved_part *p, const clt_param *param,
                             clt_arena_kind arena, const char *suffix)
{
    clt_named_tensor *tensor = &p->tensors[p->n_tensors];
    char *name;
    size_t size = strlen(param->file_name) + strlen(suffix) + 1;
    CLT_TRY(clt_alloc(&name, size, 1, "checkpoint"));
    snprintf(name, size, "%s%s", param->file_name, suffix);
    p->of[p->n_tensors] = (clt_saved_tensor){clt_store_layout_find(run->store->layout, param->name), arena,
                                             param->shape.ndim >= 2 ? param->file_transposed : 0};
    *tensor = (clt_named_tensor){name, CLT_F32, clt_param_file_shape(param), NULL};
    p->n_tensors++;
    return CLT_OK;
}

static clt_status list_tensors(const clt_run *run, clt_saved_part *p)
{
    const clt_graph *graph = run->job->train->graph;
    size_t most = graph->n_params * CLT_ARENA_COUNT + 1;
    CLT_TRY(clt_alloc(&p->tensors, most, sizeof *p->tensors, "checkpoint"));
    CLT_TRY(clt_alloc(&p->of, most, sizeof *p->of, "checkpoint"));
    for (size_t i = 0; i < graph->n_params; i++) {
        const clt_store_slot *slot = clt_store_layout_find(run->store->layout, graph->params[i].name);
        CLT_TRY(add_tensor(run, p, &graph->params[i], clt_store_home(slot), ""));
    }
    p->n_model = p->n_tensors;
    for (size_t i = 0; i < graph->n_params; i++)
        for (int arena = 0; arena < CLT_ARENA_COUNT; arena++)
            if (clt_store_saves(run->store, (clt_arena_kind)arena, &graph->params[i]))
                CLT_TRY(
                    add_tensor(run, p, &graph->params[i], (clt_arena_kind)arena, clt_arenas[arena].suffix));
    return CLT_OK;
}

/* --- pieces --- */

/* The range of the slab that is read for a source: `count` words of 32 bits from word `at` on. Values of 16
 * bits go to the last words of the source's memory (after `skip` words), from where widen() takes them. */
typedef struct words {
    uint64_t at, count, skip;
} words;

static words words_of(const clt_saved_tensor *of, const clt_saved_source *source)
{
    uint64_t count = source->in.count, pairs = (count + 1) / 2;
    return of->arena == CLT_ARENA_BASE ? (words){source->in.at / 2, pairs, count - pairs}
                                       : (words){source->in.at, count, 0};
}

/* On some GPU drivers (NVIDIA's) a read into ordinary memory blocks the caller, so pinned memory is used as
 * far as the host has it. A CPU device copies in either case. */
static clt_status host_memory(clt_run *run, clt_saved_source *source, const char *name)
{
    uint64_t bytes = source->in.count * sizeof(float);
    if (!ocl_device_describe(run->device)->is_cpu && source->rank == run->ranks.rank) {
        if (ocl_pinned_create(run->device, bytes, name, &source->pinned) == CLT_OK) {
            source->data = ocl_pinned_data(source->pinned);
            return CLT_OK;
        }
        CLT_DEBUG("a checkpoint's tensor is read into memory that is not pinned: %s", clt_error_text());
        clt_error_clear();
    }
    return clt_alloc(&source->data, source->in.count, sizeof(float), "checkpoint");
}

clt_status clt_saved_part_add(clt_run *run, clt_saved_part *p, int tensor, int rank,
                              const clt_store_piece *piece)
{
    const clt_saved_tensor *of = &p->of[tensor];
    uint64_t in_file = (uint64_t)clt_shape_elements(&p->tensors[tensor].shape), count = piece->count;
    if (of->transposed && in_file != of->slot->elements)
        CLT_FAIL(CLT_EINTERNAL, "tensor '%s' is padded and transposed", p->tensors[tensor].name);
    CLT_TRY(clt_grow(&p->pieces, &p->capacity[0], p->n_pieces + 1, sizeof *p->pieces, "checkpoint"));
    CLT_TRY(clt_grow(&p->sources, &p->capacity[1], p->n_pieces + 1, sizeof *p->sources, "checkpoint"));
    clt_saved_source *source = &p->sources[p->n_pieces];
    *source = (clt_saved_source){.rank = rank, .in = *piece};
    CLT_TRY(host_memory(run, source, p->tensors[tensor].name));
    uint64_t first = piece->first < in_file ? piece->first : in_file;
    count = count < in_file - first ? count : in_file - first;
    p->pieces[p->n_pieces++] = (clt_tensor_piece){
        .tensor = tensor, .first = first, .count = count, .transposed = of->transposed, .data = source->data};
    return CLT_OK;
}

bool clt_saved_part_own(const clt_run *run, const clt_saved_part *p, int tensor, int64_t index,
                        clt_store_piece *piece)
{
    const clt_store_layout *layout = run->store->layout;
    const clt_saved_tensor *of = &p->of[tensor];
    return clt_store_divides(layout, of->arena, of->slot) &&
           clt_store_part(layout, of->arena, of->slot, index, piece);
}

/* The part of a replicated tensor that this writer saves: its elements inside the writer's share of the
 * slab. False: it saves no part. */
static bool in_share(const clt_store_layout *layout, const clt_saved_tensor *of, int writer, int writers,
                     clt_store_piece *piece)
{
    const clt_store_slot *slot = of->slot;
    bool base = of->arena == CLT_ARENA_BASE;
    uint64_t elements = clt_store_slab_bytes(layout, of->arena, slot->slab) / (base ? 2 : 4);
    int64_t first, length;
    if (writer >= writers)
        return false;
    comm_share((int64_t)elements, base ? 2 * CLT_STORE_CHUNK : CLT_STORE_CHUNK, writers, writer, &first,
               &length);
    uint64_t from = (uint64_t)first, to = (uint64_t)(first + length), end = slot->offset + slot->elements;
    from = from > slot->offset ? from : slot->offset;
    to = to < end ? to : end;
    if (from >= to)
        return false;
    *piece = (clt_store_piece){.first = from - slot->offset, .count = to - from, .at = from};
    return true;
}

clt_status clt_saved_part_make(clt_run *run, int writer, int writers, clt_saved_part *p)
{
    clt_store_piece piece;
    *p = (clt_saved_part){0};
    CLT_TRY(list_tensors(run, p));
    for (int t = 0; t < p->n_tensors && writer >= 0; t++) {
        const clt_saved_tensor *of = &p->of[t];
        if (!clt_store_divides(run->store->layout, of->arena, of->slot)) {
            if (in_share(run->store->layout, of, writer, writers, &piece))
                CLT_TRY(clt_saved_part_add(run, p, t, run->ranks.rank, &piece));
            continue;
        }
        for (int64_t k = 0; clt_saved_part_own(run, p, t, k, &piece); k++)
            CLT_TRY(clt_saved_part_add(run, p, t, run->ranks.rank, &piece));
    }
    return CLT_OK;
}

void clt_saved_part_free(clt_saved_part *p)
{
    for (int t = 0; t < p->n_tensors; t++)
        free((void *)(uintptr_t)p->tensors[t].name);
    for (size_t i = 0; i < p->n_pieces; i++) {
        if (p->sources[i].pinned)
            ocl_pinned_destroy(p->sources[i].pinned);
        else
            free(p->sources[i].data);
    }
    clt_checksums_destroy(p->sums);
    free(p->tensors);
    free(p->of);
    free(p->pieces);
    free(p->sources);
    *p = (clt_saved_part){0};
}

/* --- reading --- */

clt_status clt_saved_part_sum(clt_run *run, clt_saved_part *p)
{
    clt_checksum_ranges ranges = {0};
    clt_store_piece own;
    for (size_t i = 0; i < p->n_pieces; i++) {
        const clt_saved_tensor *of = &p->of[p->pieces[i].tensor];
        words w = words_of(of, &p->sources[i]);
        if (p->sources[i].rank == run->ranks.rank)
            clt_checksum_ranges_add(&ranges, of->arena, of->slot->slab, w.at, w.count);
    }
    for (int t = 0; t < p->n_tensors; t++)
        for (int64_t k = 0; clt_saved_part_own(run, p, t, k, &own); k++)
            clt_checksum_ranges_add(&ranges, p->of[t].arena, p->of[t].slot->slab, own.at, own.count);
    clt_checksum_ranges_add(&ranges, CLT_ARENA_STATE, 0, 0, ST_WORDS);
    return clt_checksums_create(run->store, &run->tuned->desc, &ranges, &p->sums);
}

clt_status clt_saved_part_read(const clt_run *run, const clt_saved_part *p)
{
    for (size_t i = 0; i < p->n_pieces; i++) {
        const clt_saved_tensor *of = &p->of[p->pieces[i].tensor];
        const clt_saved_source *from = &p->sources[i];
        words w = words_of(of, from);
        if (from->rank == run->ranks.rank)
            CLT_TRY(ocl_read_async(OCL_QUEUE_COMPUTE, run->store->slab[of->arena][of->slot->slab],
                                   w.at * sizeof(float), from->data + w.skip, w.count * sizeof(float), NULL,
                                   NULL));
    }
    return p->sums ? clt_checksums_enqueue(p->sums) : CLT_OK;
}

clt_status clt_saved_part_sum_now(const clt_run *run, const clt_saved_part *p)
{
    if (!p->sums)
        return CLT_OK;
    CLT_TRY(clt_checksums_enqueue(p->sums));
    return ocl_finish(run->device, OCL_QUEUE_COMPUTE);
}

clt_status clt_saved_part_compare_own(const clt_saved_part *p, int tensor, uint64_t at, const float *data,
                                      uint64_t count)
{
    const clt_saved_tensor *of = &p->of[tensor];
    return p->sums ? clt_checksums_compare(p->sums, of->arena, of->slot->slab, at, data, count,
                                           p->tensors[tensor].name)
                   : CLT_OK;
}

/* Makes f32 of the values of 16 bits that were read. */
static void widen(const clt_run *run, const clt_saved_part *p)
{
    for (size_t i = 0; i < p->n_pieces; i++) {
        const clt_saved_source *from = &p->sources[i];
        const clt_saved_tensor *of = &p->of[p->pieces[i].tensor];
        if (of->arena == CLT_ARENA_BASE)
            clt_widen_values(from->data + words_of(of, from).skip, from->in.count, run->store->layout->base,
                             from->data);
    }
}

clt_status clt_saved_part_take(const clt_run *run, const clt_saved_part *p, const clt_state_block *state)
{
    for (size_t i = 0; i < p->n_pieces && p->sums; i++) {
        const clt_saved_tensor *of = &p->of[p->pieces[i].tensor];
        const clt_saved_source *from = &p->sources[i];
        words w = words_of(of, from);
        if (from->rank == run->ranks.rank)
            CLT_TRY(clt_checksums_compare(p->sums, of->arena, of->slot->slab, w.at, from->data + w.skip,
                                          w.count, p->tensors[p->pieces[i].tensor].name));
    }
    widen(run, p);
    if (!p->sums)
        return CLT_OK;
    return clt_checksums_compare(p->sums, CLT_ARENA_STATE, 0, 0, state, ST_WORDS, "run state");
}
