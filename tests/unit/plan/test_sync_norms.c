/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics of a synchronised batch norm, combined from the records of ranks with different numbers of
 * rows, including 0, with means that are thousands of times the deviation, against sums in double
 * precision. One rank runs on the device; the test makes the records of the others. ctest-labels: quick
 * ctest-cost: 3 */
#include "tests/unit/test.h"

#include <math.h>

#include "cl/device/device.h"
#include "engine/base/rng.h"
#include "engine/graph/step_block.h"
#include "engine/ops/node.h"
#include "engine/plan/realize.h"
#include "engine/state/store.h"

#define ROWS 37
#define CHANNELS 19
#define RANKS 4
#define WORDS (2 * CHANNELS + 1)
#define MOMENTUM 0.25

static ocl_device *device;
static const int rows_of[RANKS] = {5, ROWS, 0, 64};
static const int own_rank = 1;

/* Sample `row` of a rank: near (c + 1) * offset, with a deviation of 1. */
static float value_of(double offset, int rank, int row, int c)
{
    uint32_t bits = (uint32_t)(row * 31 + c) * 2654435761u ^ (uint32_t)(rank + 1) * 40503u;
    bits ^= bits >> 15;
    bits *= 2246822519u;
    bits ^= bits >> 13;
    return (float)(offset * (c + 1) + rank + ((double)bits / 4294967296.0 - 0.5) * sqrt(12.0));
}

typedef struct simulated {
    const clt_realized *realized;
    double offset;
    int gets;
    float own[2][WORDS]; /* the record of forward, and of backward */
} simulated;

/* mean and sum of squared distances of some rows, in double precision. */
static void moments(double offset, int first, int last, int c, double *count, double *mean, double *squares)
{
    *count = *mean = *squares = 0;
    for (int r = first; r < last; r++)
        for (int row = 0; row < rows_of[r]; row++, *count += 1)
            *mean += (double)value_of(offset, r, row, c);
    *mean = *count > 0 ? *mean / *count : 0;
    for (int r = first; r < last; r++)
        for (int row = 0; row < rows_of[r]; row++)
            *squares += pow((double)value_of(offset, r, row, c) - *mean, 2);
}

/* The records of the other ranks: the moments of their rows, or, in the backward pass, sums of 0. */
static clt_status host(void *context, const ocl_command *command)
{
    simulated *p = context;
    float all[RANKS][WORDS] = {{0}};
    if (command->host_code != CLT_HOST_GET)
        return CLT_OK;
    must(ocl_finish(device, OCL_QUEUE_COMPUTE), "finish");
    must(clt_realized_read(p->realized, command->args[0].ref.tensor, p->own[p->gets]), "record");
    for (int r = 0; r < RANKS; r++) {
        all[r][2 * CHANNELS] = (float)rows_of[r];
        for (int c = 0; c < CHANNELS && p->gets == 0; c++) {
            double count, mean, squares;
            moments(p->offset, r, r + 1, c, &count, &mean, &squares);
            all[r][c] = (float)mean;
            all[r][CHANNELS + c] = (float)squares;
        }
    }
    memcpy(all[own_rank], p->own[p->gets++], sizeof all[0]);
    must(clt_realized_write(p->realized, command->args[2].ref.tensor, all), "records");
    return CLT_OK;
}

static clt_node *put(clt_graph *graph, const char *op, const char *name, const char *attrs, const int32_t *in,
                     int n)
{
    clt_node *node;
    must(clt_graph_add_text(graph, op, name, attrs, in, n, &node), name);
    return node;
}

static void upload(const clt_realized *r, double offset, int32_t x, int32_t y)
{
    float values[ROWS][CHANNELS], targets[ROWS][CHANNELS];
    clt_step_block step = {.valid = ROWS};
    for (int i = 0; i < 16; i++)
        step.norm[i] = 1;
    for (int row = 0; row < ROWS; row++)
        for (int c = 0; c < CHANNELS; c++) {
            values[row][c] = value_of(offset, own_rank, row, c);
            targets[row][c] =
                (float)((row + c) % 3 - 1) * 100; /* the loss's slope is the sign of y - target */
        }
    must(clt_realized_write(r, x, values), "x");
    must(clt_realized_write(r, y, targets), "y");
    must(clt_realized_write(r, r->plan->graph->step, &step), "step block");
}

static void near(const char *what, int c, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s of channel %d is %.9g, not %.9g", what, c, got, want);
}

/* Checks the statistics of all ranks, and the running statistics after one batch. If means are rounded to
 * f32, the variance gets an error of that rounding times the distance between the ranks' means, which is
 * about 1; a sum of squares in f32 would give an error in proportion to the mean's square. */
static void check_statistics(const clt_realized *r, const clt_node *norm, double offset)
{
    float mean[CHANNELS], rstd[CHANNELS], running[2][CHANNELS];
    must(clt_realized_read(r, norm->saved[0], mean), "mean");
    must(clt_realized_read(r, norm->saved[1], rstd), "rstd");
    for (int k = 0; k < 2; k++)
        must(clt_store_read(r->store, CLT_ARENA_PARAM,
                            &r->store->layout->slots[norm->param[norm->n_param - 2 + k]], running[k]),
             "running statistics");
    for (int c = 0; c < CHANNELS; c++) {
        double count, m, squares, size = offset * (c + 1) + RANKS;
        moments(offset, 0, RANKS, c, &count, &m, &squares);
        near("mean", c, (double)mean[c], m, 4e-7 * size);
        near("rstd", c, (double)rstd[c], 1 / sqrt(squares / count + 1e-5), 3e-6 + 6e-8 * size);
        near("running mean", c, (double)running[0][c], MOMENTUM * m, 4e-7 * size);
        near("running variance", c, (double)running[1][c], 1 - MOMENTUM + MOMENTUM * squares / (count - 1),
             3e-6 + 1e-7 * size);
    }
}

/* Checks the record of this rank's rows, and the record of its gradients, whose sums follow from the signs
 * in its rows. */
static void check_records(const simulated *p)
{
    for (int c = 0; c < CHANNELS; c++) {
        double count, m, squares, sum = 0, size = p->offset * (c + 1) + RANKS;
        moments(p->offset, own_rank, own_rank + 1, c, &count, &m, &squares);
        near("own mean", c, (double)p->own[0][c], m, 4e-7 * size);
        near("own squares", c, (double)p->own[0][CHANNELS + c], squares, 1e-4 + 2e-6 * size);
        for (int row = 0; row < ROWS; row++) {
            int target = (row + c) % 3 - 1; /* targets of 0 have the sign of the value itself */
            sum += target > 0 ? -1 : target < 0 ? 1 : 0;
        }
        near("sum of gradients", c, (double)p->own[1][c], sum, ROWS / 3 + 1);
    }
    near("rows", 0, (double)p->own[0][2 * CHANNELS], ROWS, 0);
    near("rows", 0, (double)p->own[1][2 * CHANNELS], ROWS, 0);
}

/* by_conv: the norm's input comes from a convolution, which makes the moments of this rank's rows. */
static void run(double offset, bool by_conv)
{
    clt_graph *graph;
    clt_shape shape = by_conv ? clt_shape3(CHANNELS, 1, 1) : clt_shape1(CHANNELS);
    int32_t x, y;
    must(clt_graph_create(ROWS, &graph), "graph");
    must(clt_graph_field(graph, "x", CLT_F32, &shape, &x), "x");
    must(clt_graph_field(graph, "y", CLT_F32, &shape, &y), "y");
    int32_t scaled =
        by_conv ? put(graph, "conv2d", "one", "{\"out\": 19, \"kernel\": 1, \"bias\": false}", &x, 1)->out[0]
                : put(graph, "linear", "one", "{\"out\": 19, \"bias\": false}", &x, 1)->out[0];
    clt_node *norm = put(graph, "batch_norm", "bn", "{\"momentum\": 0.25}", &scaled, 1);
    put(graph, "l1", "loss", "{}", (int32_t[2]){norm->out[0], y}, 2);
    clt_plan_options options = {.mode = CLT_PLAN_TRAIN,
                                .accumulation = 1,
                                .ranks = RANKS,
                                .sync_norms = true,
                                .present = RANKS,
                                .part = 0.25f,
                                .update = {.optimizer = &clt_optimizer_sgd, .schedule_entries = 1},
                                .buckets = {64 << 10, 64 << 10}};
    simulated p = {.offset = offset};
    clt_realize_options realize = {
        .phases = 1u << CLT_PHASE_FORWARD | 1u << CLT_PHASE_BACKWARD, .host = host, .host_context = &p};
    CLT_SCOPED(clt_plan) *plan = NULL;
    clt_realized *r;
    must(clt_plan_compute(graph, ocl_device_describe(device), &options, &plan), "plan");
    must(clt_store_create(device, plan->store, true, &realize.store), "store");
    const clt_plan *plans[] = {plan};
    must(clt_pool_create(device, plans, 1, &realize.pool), "pool");
    must(clt_plan_realize(plan, device, &realize, &r), "realise");
    p.realized = r;
    for (size_t i = 0; i < plan->graph->n_params; i++) { /* the identity; factors and variances 1 */
        const clt_param *param = &plan->graph->params[i];
        float values[CHANNELS * CHANNELS] = {0};
        for (int64_t k = 0; k < clt_shape_elements(&param->shape); k++)
            values[k] = param->shape.ndim >= 2 ? (float)(k % CHANNELS == k / CHANNELS)
                                               : (float)(param->init.kind == CLT_INIT_ONES);
        must(clt_store_write(realize.store, CLT_ARENA_PARAM, &plan->store->slots[i], values), param->name);
    }
    upload(r, offset, x, y);
    must(clt_realized_run(r, CLT_PHASE_FORWARD), "forward");
    must(ocl_finish(device, OCL_QUEUE_COMPUTE), "finish");
    check_statistics(r, norm, offset);
    must(clt_realized_run(r, CLT_PHASE_BACKWARD), "backward");
    must(ocl_finish(device, OCL_QUEUE_COMPUTE), "finish");
    assert_int_equal(p.gets, 2);
    check_records(&p);
    clt_realized_destroy(r);
    clt_pool_destroy(realize.pool);
    clt_store_destroy(realize.store);
}

TEST(test_small_means)
{
    run(0, false);
}

/* A sum of squares in f32 would have no correct digit left. */
TEST(test_large_means)
{
    run(300, false);
}

/* The moments that the convolution computes for the norm go into the record. */
TEST(test_moments_of_convolution)
{
    unsetenv("CLTRAIN_GEMM");
    run(0, true);
    run(300, true);
    setenv("CLTRAIN_GEMM", "simple", 1);
}

FIXTURE(setup)
{
    setenv("CLTRAIN_GEMM", "simple", 1);
    ocl_open_options options = {.caps_mask = OCL_CAPS_ALL};
    return ocl_device_open(&options, &device) == CLT_OK ? 0 : -1;
}

FIXTURE(teardown)
{
    ocl_device_close(device);
    return 0;
}

TEST_PROGRAM(.device = true, .set_up = setup, .tear_down = teardown);
