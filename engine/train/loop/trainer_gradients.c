/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks once, after the first steps, for parameters that should train and whose gradients are zero in every
 * element: a part of the model that the loss does not depend on learns nothing, and the loss alone does not
 * show it. */
#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/span.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/models/models.h"
#include "engine/train/loop/trainer_loop.h"

#define NO_CHECK_AFTER 48 /* no further check from this step on: other warnings say why steps are skipped */

bool clt_gradients_due(const clt_loop *l, int64_t step)
{
    return l->look_at > 0 && step == l->look_at;
}

/* The adapter's other tensor: B for A, and A for B; NULL: the parameter belongs to no adapter. */
static const clt_store_slot *partner(const clt_loop *l, const clt_param *param)
{
    const clt_graph *graph = l->run->job->train->graph;
    bool of_a, of_other;
    size_t stem = param->adapter ? clt_adapter_layer(param->name, &of_a) : 0;
    for (size_t i = 0; i < graph->n_params && stem > 0; i++) {
        const char *name = graph->params[i].name;
        if (clt_adapter_layer(name, &of_other) == stem && of_other != of_a &&
            memcmp(name, param->name, stem) == 0)
            return &l->run->store->layout->slots[i];
    }
    return NULL;
}

/* *dead: the gradient is zero, and not only because the adapter's other tensor is still zero. */
static clt_status look_at(const clt_loop *l, size_t index, bool *dead)
{
    const clt_store *store = l->run->store;
    const clt_store_slot *slot = &store->layout->slots[index];
    bool idle = false;
    *dead = false;
    if (!slot->trainable)
        return CLT_OK;
    CLT_TRY(clt_store_is_zero(store, CLT_ARENA_GRAD, slot, dead));
    const clt_store_slot *other = *dead ? partner(l, &l->run->job->train->graph->params[index]) : NULL;
    if (other)
        CLT_TRY(clt_store_is_zero(store, CLT_ARENA_PARAM, other, &idle));
    *dead &= !idle;
    return CLT_OK;
}

static void tell(const clt_loop *l, const int64_t *lives, int64_t step)
{
    const clt_store_layout *layout = l->run->store->layout;
    char text[700], names[400] = "";
    int dead = 0, trained = 0;
    for (int32_t i = 0; i < layout->n_slots; i++) {
        trained += layout->slots[i].trainable;
        if (lives[i])
            continue;
        size_t used = strlen(names), more = strlen(layout->slots[i].name);
        if (used + more + 8 < sizeof names)
            snprintf(names + used, sizeof names - used, "%s%s", dead ? ", " : "", layout->slots[i].name);
        else if (used < 3 || strcmp(names + used - 3, "...") != 0)
            snprintf(names + used, sizeof names - used, ", ...");
        dead++;
    }
    if (dead == 0)
        return;
    snprintf(
        text, sizeof text,
        "after %lld step%s the gradients of %d of the %d trained parameters are zero in every element, so "
        "they learn nothing: %s; the loss does not depend on them%s",
        (long long)step, CLT_PLURAL(step), dead, trained, names,
        l->run->job->storage == CLT_F16 ? ", or their gradients are too small for f16" : "");
    clt_tell_warning(l, text);
}

clt_status clt_tell_gradients(clt_loop *l, int64_t step)
{
    const clt_store_layout *layout = l->run->store->layout;
    CLT_FREED int64_t *lives = NULL;
    if (!l->updated_twice) { /* without an update the gradients show nothing */
        l->look_at = step < NO_CHECK_AFTER ? 2 * step : 0;
        return CLT_OK;
    }
    double begin = clt_now();
    l->look_at = 0;
    if (!l->reports && !layout->sharded) /* the gradients are the same on all ranks */
        return CLT_OK;
    clt_watch_break(l->watch, true);
    CLT_TRY(clt_alloc(&lives, (size_t)layout->n_slots + 1, sizeof *lives, "a look at the gradients"));
    for (int32_t i = 0; i < layout->n_slots; i++) {
        bool dead;
        CLT_TRY(look_at(l, (size_t)i, &dead));
        lives[i] = !dead;
    }
    if (layout->sharded) /* each rank has a part of the sums */
        CLT_TRY(comm_all_reduce(l->options->comm, lives, layout->n_slots, COMM_I64, COMM_MAX));
    if (l->reports)
        tell(l, lives, step);
    l->last_done = clt_now(); /* the time spent here does not belong to the next step */
    clt_spans_add(l->run->train->spans, CLT_TRACK_HOST, "gradients", step, begin, l->last_done);
    return CLT_OK;
}
