/* SPDX-License-Identifier: Apache-2.0
 *
 * What golden tests of single ops share: a graph of one op as a plan for checking, in either execution style, on the
 * first device; the comparison of its tensors with a golden file. Included once by each of them. */
#ifndef TESTS_GOLDEN_GOLDEN_OP_H
#define TESTS_GOLDEN_GOLDEN_OP_H

#include "tests/golden/golden_test.h"

#include "cl/device/device.h"
#include "engine/ops/node.h"
#include "engine/plan/realize.h"

static ocl_device *device;

typedef struct golden_rig {
    clt_plan *plan;
    clt_slab_pool *pool;
    clt_realized *realized;
} golden_rig;

/* variant: forced on both directions; NULL: that of the style. y, dy: the output whose gradient is given; -1: none. The
 * rig takes the graph. */
static void open_golden(golden_rig *r, clt_graph *graph, const char *name, bool group, const char *variant,
                        int32_t y, int32_t dy)
{
    ocl_device_desc desc = *ocl_device_describe(device);
    if (group)
        desc.quirks |= OCL_QUIRK_ANY_STYLE;
    clt_plan_options options = {.mode = CLT_PLAN_CHECK,
                                .accumulation = 1,
                                .ranks = 1,
                                .force_variant = variant,
                                .n_seeds = y >= 0,
                                .seed_tensor = {y},
                                .seed_gradient = {dy}};
    must(clt_plan_compute(graph, &desc, &options, &r->plan), name);
    const clt_plan *plans[1] = {r->plan};
    must(clt_pool_create(device, plans, 1, &r->pool), "pool");
    clt_realize_options realize = {.pool = r->pool};
    must(clt_plan_realize(r->plan, device, &realize, &r->realized), "realize");
}

static void close_golden(golden_rig *r)
{
    clt_realized_destroy(r->realized);
    clt_pool_destroy(r->pool);
    clt_plan_destroy(r->plan);
}

static void run_golden(golden_rig *r)
{
    must(clt_realized_run(r->realized, CLT_PHASE_FORWARD), "forward");
    must(clt_realized_run(r->realized, CLT_PHASE_BACKWARD), "backward");
}

/* Compares a tensor of the plan with the golden one. NaN must be where PyTorch has it; both become 0 for the comparison
 * of the rest. */
static void check_golden(const golden_rig *r, int32_t tensor, const clt_named_tensor *golden,
                         const char *what, double relative, double absolute)
{
    CLT_FREED float *want = values_of(golden);
    int64_t n = clt_shape_elements(&golden->shape);
    CLT_FREED float *got = malloc((size_t)n * sizeof *got);
    assert_non_null(got);
    if (!clt_shape_equal(&golden->shape, &clt_graph_tensor(r->plan->graph, tensor)->shape))
        fail_msg("%s: PyTorch's has another shape", what);
    must(clt_realized_read(r->realized, tensor, got), what);
    for (int64_t i = 0; i < n; i++) {
        if (isnan(want[i]) != isnan(got[i]))
            fail_msg("%s, element %lld: got %g, PyTorch has %g", what, (long long)i, (double)got[i],
                     (double)want[i]);
        if (isnan(want[i]))
            want[i] = got[i] = 0.0f;
    }
    compare(what, got, want, n, relative, absolute);
}

/* Writes a golden tensor to a tensor of the plan, f32. */
static void write_golden(const golden_rig *r, int32_t tensor, const clt_named_tensor *golden)
{
    CLT_FREED float *values = values_of(golden);
    must(clt_realized_write(r->realized, tensor, values), golden->name);
}

static int open_device(void **state)
{
    (void)state;
    ocl_open_options options = {.caps_mask = OCL_CAPS_ALL};
    return ocl_device_open(&options, &device) == CLT_OK ? 0 : -1;
}

static int close_device(void **state)
{
    (void)state;
    ocl_device_close(device);
    return 0;
}

#endif
