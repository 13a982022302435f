/* SPDX-License-Identifier: Apache-2.0
 *
 * The UPDATE phase as a family of kernels (cl/tune/family.h): its two variants, the description of a
 * problem, on which the choice depends, and the data from which the tuner builds its own update. Knows no
 * kernel. */
#include <stdio.h>
#include <string.h>

#include "engine/ops/emit_util.h"
#include "engine/plan/plan_internal.h"

static uint64_t chunks_of(const clt_plan *plan)
{
    uint64_t total = 0;
    for (int32_t s = 0; s < plan->store->n_slabs; s++)
        total += plan->store->trainable_elements[s] / CLT_STORE_CHUNK;
    return total;
}

static const char *words(const void *problem, char *buffer, size_t size)
{
    const clt_plan *plan = ((const clt_update_problem *)problem)->plan;
    const clt_update_spec *spec = &plan->options.update;
    snprintf(buffer, size, "chunks=%llu states=%d %s %s%s%s%s%s", (unsigned long long)chunks_of(plan),
             plan->store->opt_states, spec->optimizer->kernel, clt_dtype_name(plan->store->working),
             plan->store->norms ? " +norms" : "", plan->store->ema ? " +ema" : "",
             spec->clip > 0.0f ? " +clip" : "", spec->scaling.dynamic ? " +scaling" : "");
    return buffer;
}

/* Number of operations: the optimizer's, and two per element for the norm. */
static double flops(const void *problem)
{
    const clt_plan *plan = ((const clt_update_problem *)problem)->plan;
    return (double)chunks_of(plan) * CLT_STORE_CHUNK * (plan->options.update.optimizer->flops + 2.0);
}

static clt_status describe(const void *problem, void **data, size_t *size)
{
    const clt_plan *plan = ((const clt_update_problem *)problem)->plan;
    clt_update_described *d;
    CLT_TRY(clt_alloc(&d, 1, sizeof *d, "an update"));
    *d = (clt_update_described){plan->options.update, plan->store->working, chunks_of(plan)};
    d->spec.order = (clt_update_order){0};
    *data = d;
    *size = sizeof *d;
    return CLT_OK;
}

static bool accepts_group(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    (void)problem;
    if (clt_local_group(device, CLT_STORE_CHUNK) > 1)
        return true;
    /* with groups of one work-item update.clh would compile the kernels of style lane */
    snprintf(reason, size, "the device runs only groups of one work-item; variant lane is made for these");
    return false;
}

/* In style lane the norm's partial sums are added in the order of the chunks for every size of group. */
static const ocl_tunable lane_tunables[] = {CLT_TUNABLE_LOCAL, {0}};
static const ocl_tunable group_tunables[] = {
    CLT_TUNABLE_ITEMS, {"norm_chunks", 4, {2, 4, 8, CLT_BUCKET_CHUNKS}}, {0}};
static const ocl_variant group_variant = {.name = "group",
                                          .needs = OCL_CAP_LOCAL,
                                          .accepts = accepts_group,
                                          .tunables = group_tunables,
                                          .emit = clt_update_emit_group,
                                          .style = OCL_KERNEL_GROUPS};
static const ocl_variant lane_variant = {.name = "lane",
                                         .tunables = lane_tunables,
                                         .emit = clt_update_emit_lane,
                                         .written_for = OCL_CAP_WIDE_VECTORS};
static const ocl_variant *const variants[] = {&group_variant, &lane_variant, NULL};

const ocl_family clt_update_family = {.variants = variants,
                                      .name = "update",
                                      .sources = "update",
                                      .variable = "CLTRAIN_UPDATE",
                                      .problem = words,
                                      .flops = flops,
                                      .describe = describe};

uint64_t clt_update_items(const ocl_device_desc *device)
{
    const ocl_variant *variant;
    clt_status status = ocl_family_choose(&clt_update_family, NULL, device, "update", NULL, &variant);
    if (status != CLT_OK)
        clt_error_clear(); /* the error is dropped here, because planning reports it */
    return status == CLT_OK && variant == &group_variant ? clt_local_group(device, CLT_STORE_CHUNK) : 1;
}

/* The variant that the checker forces, or that the ranks agreed on. */
static const char *forced(const clt_plan *plan)
{
    uint32_t items = plan->options.update.order.items;
    const char *name = clt_forced_variant(plan, variants);
    return name ? name : items == 0 ? NULL : items == 1 ? lane_variant.name : group_variant.name;
}

clt_status clt_update_emit(clt_plan *plan, ocl_emitter *e)
{
    clt_update_problem problem = {plan};
    uint64_t total = chunks_of(plan);
    if (!total)
        CLT_FAIL(CLT_ECONFIG, "planning: the model has no trainable parameter; nothing can be trained");
    if (total > INT32_MAX) /* half of the range of u32 is left for rounding launch sizes up */
        CLT_FAIL(CLT_EUNSUPPORTED,
                 "planning: the parameters fill %llu chunks of %d; at most 2^31-1 chunks fit",
                 (unsigned long long)total, CLT_STORE_CHUNK);
    e->label = "update";
    return ocl_family_emit(e, &clt_update_family, &problem, e->label, forced(plan));
}
