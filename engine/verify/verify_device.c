/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts a plan on the device, and keeps images of its buffers on the host. Does not know what is computed. */
#include <stdlib.h>
#include <string.h>

#include "engine/verify/verify_internal.h"

clt_status clt_verify_plan_graph(const clt_verify_session *session, clt_graph *graph,
                                 const clt_plan_options *options, clt_verify_bench *bench,
                                 clt_verify_outcome *outcome)
{
    ocl_device_desc desc = clt_verify_desc(session);
    clt_status status = clt_plan_compute(graph, &desc, options, &bench->plan);
    if (status != CLT_EUNSUPPORTED || !strstr(clt_error_text(), "none accepts ("))
        return status;
    clt_verify_set(outcome, CLT_VERIFY_SKIP, "%s", clt_error_text());
    clt_error_clear();
    return CLT_OK;
}

clt_status clt_verify_realise(clt_verify_bench *b, uint32_t phases)
{
    const clt_plan *plans[1] = {b->plan};
    clt_realize_options options = {.phases = phases, .host = clt_verify_host, .host_context = b};
    if (b->plan->options.mode == CLT_PLAN_TRAIN)
        CLT_TRY(clt_store_create(b->device, b->plan->store, true, &b->store));
    CLT_TRY(clt_pool_create(b->device, plans, 1, &b->pool));
    options.store = b->store;
    options.pool = b->pool;
    return clt_plan_realize(b->plan, b->device, &options, &b->realized);
}

void clt_verify_bench_destroy(clt_verify_bench *bench)
{
    if (!bench)
        return;
    clt_realized_destroy(bench->realized);
    clt_pool_destroy(bench->pool);
    clt_store_destroy(bench->store);
    clt_plan_destroy(bench->plan);
    clt_arena_destroy(bench->arena);
    free(bench);
}

clt_status clt_verify_image_make(clt_arena *arena, ocl_buffer *buffer, size_t bytes, size_t room,
                                 clt_verify_image *out)
{
    *out = (clt_verify_image){buffer, bytes, clt_arena_alloc(arena, room), clt_arena_alloc(arena, room)};
    return out->before && out->after ? CLT_OK : CLT_ENOMEM;
}

clt_status clt_verify_images_write(const clt_verify_image *images, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (images[i].bytes)
            CLT_TRY(ocl_write(images[i].buffer, 0, images[i].before, images[i].bytes));
    return CLT_OK;
}

clt_status clt_verify_images_read(const clt_verify_image *images, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (images[i].bytes)
            CLT_TRY(ocl_read(images[i].buffer, 0, images[i].after, images[i].bytes));
    return CLT_OK;
}

void clt_verify_images_keep(const clt_verify_image *images, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(images[i].before, images[i].after, images[i].bytes);
}
