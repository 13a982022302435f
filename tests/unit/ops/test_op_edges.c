/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases that the checker's random data does not reach: losses and embeddings fed with NaN, indices out of
 * range, padding, ignored targets, extreme logits and several micro-batches, in both execution styles.
 * ctest-labels: quick ctest-cost: 8 */
#include "tests/unit/cl/cl_test.h"

#include <math.h>

#include "engine/graph/graph.h"
#include "engine/plan/realize.h"
#include "engine/graph/step_block.h"
#include "engine/ops/node.h"

#define N 4

static ocl_device *device;

/* One op as a whole graph, realised for checking: fields in, gradients and the loss record out. */
typedef struct rig {
    clt_plan *plan;
    clt_slab_pool *pool;
    clt_realized *realized;
    int32_t in[2], out;
    clt_step_block step;
} rig;

typedef struct field_spec {
    clt_dtype dtype;
    int64_t features; /* 0: one value per sample */
} field_spec;

static rig *rig_open(bool group, const char *op, const char *attrs, const field_spec *fields, int n_fields)
{
    rig *r = calloc(1, sizeof *r);
    clt_graph *graph;
    clt_node *node;
    assert_non_null(r);
    assert_ok(clt_graph_create(N, &graph));
    for (int i = 0; i < n_fields; i++) {
        clt_shape shape = {fields[i].features ? 1 : 0, {fields[i].features}};
        assert_ok(clt_graph_field(graph, i ? "y" : "x", fields[i].dtype, &shape, &r->in[i]));
        clt_graph_tensor(graph, r->in[i])->requires_grad = clt_dtype_is_float(fields[i].dtype) && i == 0;
    }
    assert_ok(clt_graph_add_text(graph, op, "op", attrs, r->in, n_fields, &node));
    r->out = node->n_out ? node->out[0] : -1;
    if (r->out >= 0)
        clt_graph_tensor(graph, r->out)->is_output = true;
    ocl_device_desc desc = *ocl_device_describe(device);
    if (group)
        desc.quirks |= OCL_QUIRK_ANY_STYLE;
    clt_plan_options options = {.mode = CLT_PLAN_CHECK, .accumulation = 1, .ranks = 1};
    assert_ok(clt_plan_compute(graph, &desc, &options, &r->plan));
    const clt_plan *plans[1] = {r->plan};
    assert_ok(clt_pool_create(device, plans, 1, &r->pool));
    clt_realize_options realize = {.pool = r->pool};
    assert_ok(clt_plan_realize(r->plan, device, &realize, &r->realized));
    r->step = (clt_step_block){.valid = N, .norm = {0.25f}};
    return r;
}

static void rig_close(rig *r)
{
    clt_realized_destroy(r->realized);
    clt_pool_destroy(r->pool);
    clt_plan_destroy(r->plan);
    free(r);
}

static void rig_run(rig *r, const void *x, const void *y)
{
    assert_ok(clt_realized_write(r->realized, r->plan->graph->step, &r->step));
    assert_ok(clt_realized_write(r->realized, r->in[0], x));
    if (y)
        assert_ok(clt_realized_write(r->realized, r->in[1], y));
    assert_ok(clt_realized_run(r->realized, CLT_PHASE_FORWARD));
    assert_ok(clt_realized_run(r->realized, CLT_PHASE_BACKWARD));
}

static void rig_record(rig *r, float record[4])
{
    assert_ok(clt_realized_read(r->realized, r->plan->losses, record));
}

static void rig_gradient(rig *r, float *dx)
{
    assert_ok(clt_realized_read(r->realized, r->plan->gradient[r->in[0]], dx));
}

static void assert_near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-5 * fmax(1, fabs(expected))))
        fail_msg("got %.9g, expected %.9g", got, expected);
}

#define CLASSES 19 /* one block of 16 lanes and a tail */
static const field_spec ce_fields[] = {{CLT_F32, CLASSES}, {CLT_I32, 0}};

static void logits(float x[N * CLASSES])
{
    for (int i = 0; i < N * CLASSES; i++)
        x[i] = (float)((i * 7) % 11) * 0.25f - 1.0f;
}

/* -log softmax of row r at the target, in double. */
static double ce_expected(const float *x, int r, int target)
{
    double sum = 0;
    for (int c = 0; c < CLASSES; c++)
        sum += exp((double)x[r * CLASSES + c]);
    return log(sum) - (double)x[r * CLASSES + target];
}

static void cross_entropy_bad_values(bool group)
{
    rig *r = rig_open(group, "cross_entropy", "{\"ignore_index\":-100}", ce_fields, 2);
    float x[N * CLASSES], dx[N * CLASSES], record[4];
    int32_t bad[] = {CLASSES, -1, INT32_MAX, INT32_MIN};
    logits(x);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int32_t y[N] = {3, bad[i], 18, 0};
        rig_run(r, x, y);
        rig_record(r, record);
        assert_true(isnan(record[0]) && isnan(record[1]));
        assert_true(record[2] == N);
        rig_gradient(r, dx);
        for (int k = 0; k < N * CLASSES; k++)
            assert_int_equal(isnan(dx[k]) != 0, k / CLASSES == 1);
    }
    int places[] = {0, 15, 16, 18};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int32_t y[N] = {3, 4, 18, 0};
        logits(x);
        x[2 * CLASSES + places[i]] = NAN;
        rig_run(r, x, y);
        rig_record(r, record);
        assert_true(isnan(record[0]));
        rig_gradient(r, dx);
        for (int k = 0; k < N * CLASSES; k++)
            assert_int_equal(isnan(dx[k]) != 0, k / CLASSES == 2);
    }
    rig_close(r);
}

static void cross_entropy_counting(bool group)
{
    rig *r = rig_open(group, "cross_entropy", "{\"ignore_index\":-100}", ce_fields, 2);
    float x[N * CLASSES], dx[N * CLASSES], record[4];
    int32_t y[N] = {4, -100, 18, 12345}; /* the last sample is padding with rubbish in it */
    logits(x);
    for (int c = 0; c < CLASSES; c++)
        x[3 * CLASSES + c] = NAN;
    x[2 * CLASSES + 18] = 5.0f; /* a hit */
    r->step.valid = 3;
    double sum = ce_expected(x, 0, 4) + ce_expected(x, 2, 18);
    rig_run(r, x, y);
    rig_record(r, record);
    assert_near(record[0], sum / 4);
    assert_near(record[1], sum);
    assert_true(record[2] == 2 && record[3] == 1);
    rig_gradient(r, dx);
    for (int c = 0; c < CLASSES; c++)
        assert_true(dx[CLASSES + c] == 0 && dx[3 * CLASSES + c] == 0);
    /* later micro-batches add, the first writes */
    r->step.micro = 1;
    rig_run(r, x, y);
    rig_record(r, record);
    assert_near(record[1], 2 * sum);
    assert_true(record[2] == 4 && record[3] == 2);
    r->step.micro = 0;
    rig_run(r, x, y);
    rig_record(r, record);
    assert_near(record[1], sum);
    rig_close(r);
}

static void cross_entropy_extremes(bool group)
{
    rig *r = rig_open(group, "cross_entropy", "{\"label_smoothing\":0.1}", ce_fields, 2);
    float x[N * CLASSES] = {0}, dx[N * CLASSES], record[4];
    int32_t y[N] = {0, 0, 5, 18};
    x[0] = 3e4f;             /* certain and right */
    x[CLASSES + 1] = 3e4f;   /* certain and wrong */
    x[2 * CLASSES] = -3e38f; /* far below the rest; rows 2 and 3 have ties, of which the first counts */
    rig_run(r, x, y);
    rig_record(r, record);
    double tail = 0.1 / CLASSES;
    double expected = 3e4 * (18 * tail) + 3e4 * (1 - tail) + (log(18.0) + tail * 3e38) + log((double)CLASSES);
    assert_near(record[1] / 1e30, expected / 1e30);
    assert_true(record[3] == 1);
    rig_gradient(r, dx);
    for (int k = 0; k < N * CLASSES; k++)
        assert_true(isfinite(dx[k]) && fabsf(dx[k]) <= 0.25f);
    rig_close(r);
}

static void pointwise_losses(bool group)
{
    static const char *const ops[] = {"mse", "l1", "bce_with_logits"};
    static const field_spec fields[] = {{CLT_F32, 37}, {CLT_F32, 37}};
    for (int op = 0; op < 3; op++) {
        rig *r = rig_open(group, ops[op], NULL, fields, 2);
        float x[N * 37], y[N * 37] = {0}, dx[N * 37], record[4];
        for (int bad = 0; bad < 37; bad += 18) {
            for (int i = 0; i < N * 37; i++)
                x[i] = 0.5f;
            x[37 + bad] = NAN;
            r->step.valid = N;
            rig_run(r, x, y);
            rig_record(r, record);
            assert_true(isnan(record[0]) && isnan(record[1]));
            rig_gradient(r, dx);
            for (int i = 0; i < N * 37; i++)
                assert_int_equal(isnan(dx[i]) != 0, i == 37 + bad);
            r->step.valid = 1; /* now the NaN lies in the padding */
            rig_run(r, x, y);
            rig_record(r, record);
            double each = op == 0 ? 0.25 : op == 1 ? 0.5 : log(1 + exp(0.5));
            assert_near(record[1], 37 * each);
            assert_true(record[2] == 37);
            rig_gradient(r, dx);
            for (int i = 37; i < N * 37; i++)
                assert_true(dx[i] == 0);
        }
        rig_close(r);
    }
}

static void bce_extremes(bool group)
{
    static const field_spec fields[] = {{CLT_F32, 2}, {CLT_U8, 2}};
    rig *r = rig_open(group, "bce_with_logits", NULL, fields, 2);
    float x[N * 2] = {200, -200, 200, -200, 0, 0, 1e30f, -1e30f}, dx[N * 2], record[4];
    uint8_t y[N * 2] = {1, 0, 0, 1, 0, 1, 1, 0};
    rig_run(r, x, y);
    rig_record(r, record);
    assert_near(record[1], 400 + 2 * log(2.0));
    assert_true(record[3] == 5); /* two certain and right, x = 0 counts as "no", two of extreme size */
    rig_gradient(r, dx);
    for (int i = 0; i < N * 2; i++)
        assert_true(isfinite(dx[i]));
    rig_close(r);
}

static void embedding_out_of_range(bool group)
{
    static const field_spec fields[] = {{CLT_I32, 3}};
    rig *r = rig_open(group, "embedding", "{\"vocab\":5,\"dim\":17}", fields, 1);
    int32_t x[N * 3] = {0, 1, 2, 5, -1, INT32_MAX, 3, 4, INT32_MIN, 0, 4, 4};
    float w[5 * 17], y[N * 3 * 17];
    for (int i = 0; i < 5 * 17; i++)
        w[i] = (float)i;
    assert_ok(clt_realized_write(r->realized, r->plan->graph->params[0].tensor, w));
    assert_ok(clt_realized_write(r->realized, r->in[0], x));
    assert_ok(clt_realized_run(r->realized, CLT_PHASE_FORWARD));
    assert_ok(clt_realized_read(r->realized, r->out, y));
    for (int p = 0; p < N * 3; p++)
        for (int d = 0; d < 17; d++)
            assert_true(x[p] < 0 || x[p] > 4 ? isnan(y[p * 17 + d]) : y[p * 17 + d] == w[x[p] * 17 + d]);
    rig_close(r);
}

#define BOTH_STYLES(name)                                                                                    \
    TEST(name##_group)                                                                                       \
    {                                                                                                        \
        name(true);                                                                                          \
    }                                                                                                        \
    TEST(name##_row)                                                                                         \
    {                                                                                                        \
        name(false);                                                                                         \
    }
BOTH_STYLES(cross_entropy_bad_values)
BOTH_STYLES(cross_entropy_counting)
BOTH_STYLES(cross_entropy_extremes)
BOTH_STYLES(pointwise_losses)
BOTH_STYLES(bce_extremes)
BOTH_STYLES(embedding_out_of_range)

FIXTURE(open_device)
{
    device = test_open(false);
    return device ? 0 : 1;
}

FIXTURE(close_device)
{
    ocl_device_close(device);
    return 0;
}

TEST_PROGRAM(.device = true, .set_up = open_device, .tear_down = close_device);
