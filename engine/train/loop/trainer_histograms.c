/* SPDX-License-Identifier: Apache-2.0
 *
 * Histograms of all gradients and parameters for TensorBoard (log.histograms), read from the device
 * between two steps, one parameter at a time. The gradients are of the whole global batch, without the
 * loss scale and before clipping. */
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/base/span.h"
#include "engine/base/thread.h"
#include "engine/report/write/histogram.h"
#include "engine/train/loop/trainer_loop.h"

static clt_status one(const clt_loop *l, int64_t step, clt_arena_kind arena, const clt_store_slot *slot,
                      float *values)
{
    bool gradient = arena == CLT_ARENA_GRAD;
    CLT_SCOPED(clt_str) tag = {0};
    clt_histogram h;
    CLT_TRY(clt_store_read(l->run->store, arena, slot, values));
    if (clt_store_divides(l->run->store->layout, arena, slot)) /* zeros where other ranks have values */
        CLT_TRY(comm_all_reduce(l->options->comm, values, (int64_t)slot->elements, COMM_F32, COMM_SUM));
    if (!l->dir)
        return CLT_OK;
    clt_histogram_of(values, (size_t)slot->elements, gradient ? 1.0 / (double)l->step_scale : 1.0, &h);
    clt_str_printf(&tag, "%s/%s", gradient ? "gradients" : "parameters", slot->name);
    if (!tag.failed && h.finite > 0)
        clt_rundir_histogram(l->dir, tag.text, step, &h);
    return CLT_OK;
}

static clt_status all(const clt_loop *l, int64_t step)
{
    const clt_store_layout *layout = l->run->store->layout;
    uint64_t most = 0;
    CLT_FREED float *values = NULL;
    for (int32_t i = 0; i < layout->n_slots; i++)
        most = layout->slots[i].elements > most ? layout->slots[i].elements : most;
    CLT_TRY(clt_alloc(&values, (size_t)most, sizeof *values, "histograms"));
    for (int32_t i = 0; i < layout->n_slots; i++) {
        const clt_store_slot *slot = &layout->slots[i];
        if (slot->trainable)
            CLT_TRY(one(l, step, CLT_ARENA_GRAD, slot, values));
        CLT_TRY(one(l, step, CLT_ARENA_PARAM, slot, values));
    }
    return CLT_OK;
}

bool clt_histograms_due(const clt_loop *l, int64_t step)
{
    const clt_config *c = l->options->config;
    int64_t every = clt_config_int(c, "log.histograms");
    return every > 0 && step % every == 0 && clt_config_bool(c, "log.tensorboard");
}

clt_status clt_tell_histograms(clt_loop *l, int64_t step)
{
    double begin = clt_now();
    bool divided = l->run->store->layout->sharded;
    if (!l->dir && !divided) /* only the rank with the run folder writes; the gradients are the same on all */
        return CLT_OK;
    clt_watch_break(l->watch, true);
    clt_status status = all(l, step);
    l->last_done = clt_now(); /* the time spent here does not belong to the next step */
    clt_spans_add(l->run->train->spans, CLT_TRACK_HOST, "histograms", step, begin, l->last_done);
    if (status != CLT_ENOMEM || divided) /* `divided`: other ranks wait for this one */
        return status;
    clt_tell_warning(l, clt_error_text());
    clt_error_clear();
    return CLT_OK;
}
