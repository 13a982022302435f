/* SPDX-License-Identifier: Apache-2.0
 *
 * Moments that a convolution computes for the batch norm after it: the norm's statistics against statistics
 * of the stored output in double precision, for every algorithm, and for channels whose mean is thousands
 * of times their deviation; which convolutions compute moments, and which norms make a pass of their own;
 * recomputation, evaluation, frozen norms.
 * ctest-labels: quick ctest-cost: 20 */
#include "tests/unit/test.h"

#include <math.h>

#include "cl/device/device.h"
#include "engine/base/rng.h"
#include "engine/ops/node.h"
#include "engine/plan/realize.h"
#include "engine/state/store.h"

#define BATCH 3
#define CHANNELS 18 /* of the image */
#define HEIGHT 11
#define WIDTH 9
#define SEED 5
#define NORMS 4

static ocl_device *device;

/* --- the net: four convolutions, each with a batch norm --- */

static const char *const norms[NORMS] = {"bn1", "bn2", "bn3", "bn4"};

typedef struct net {
    clt_graph *graph;
    int32_t x, y;
} net;

static int32_t put(clt_graph *graph, const char *op, const char *name, const char *attrs, int32_t in)
{
    clt_node *node;
    must(clt_graph_add_text(graph, op, name, attrs, &in, 1, &node), name);
    return node->out[0];
}

/* The convolutions: 3 x 3; pointwise; with a stride and a number of channels that is no multiple of a tile;
 * with a window for each channel. */
static net make_net(void)
{
    net n;
    clt_node *loss;
    clt_shape image = clt_shape3(CHANNELS, HEIGHT, WIDTH), target = clt_shape3(37, 6, 5);
    must(clt_graph_create(BATCH, &n.graph), "graph");
    must(clt_graph_field(n.graph, "x", CLT_F32, &image, &n.x), "x");
    must(clt_graph_field(n.graph, "y", CLT_F32, &target, &n.y), "y");
    int32_t at = put(n.graph, "conv2d", "conv1", "{\"out\": 20, \"kernel\": 3, \"padding\": 1}", n.x);
    at = put(n.graph, "relu", "relu1", "{}", put(n.graph, "batch_norm", "bn1", "{}", at));
    at = put(n.graph, "conv2d", "conv2", "{\"out\": 45, \"kernel\": 1}", at);
    at = put(n.graph, "relu", "relu2", "{}", put(n.graph, "batch_norm", "bn2", "{}", at));
    at = put(n.graph, "conv2d", "conv3", "{\"out\": 37, \"kernel\": 3, \"padding\": 1, \"stride\": 2}", at);
    at = put(n.graph, "batch_norm", "bn3", "{}", at);
    at = put(n.graph, "conv2d", "conv4", "{\"out\": 37, \"kernel\": 3, \"padding\": 1, \"groups\": 37}", at);
    at = put(n.graph, "batch_norm", "bn4", "{}", at);
    must(clt_graph_add_text(n.graph, "l1", "loss", "{}", (int32_t[2]){at, n.y}, 2, &loss), "loss");
    return n;
}

static clt_plan *plan_of(const net *n, clt_plan_mode mode, clt_dtype storage, clt_recompute recompute,
                         const clt_store_layout *layout)
{
    clt_plan_options options = {.mode = mode,
                                .accumulation = 1,
                                .ranks = 1,
                                .layout = layout,
                                .storage = storage,
                                .update = {.optimizer = &clt_optimizer_sgd, .schedule_entries = 1},
                                .recompute = recompute};
    clt_plan *plan;
    must(clt_plan_compute(n->graph, ocl_device_describe(device), &options, &plan), "plan");
    return plan;
}

static int commands(const clt_plan *plan, clt_phase phase, const char *kernel)
{
    int count = 0;
    for (size_t c = 0; c < plan->phase[phase].count; c++)
        count += strcmp(plan->phase[phase].commands[c].kernel, kernel) == 0;
    return count;
}

/* --- runs --- */

typedef struct running {
    clt_realize_options options;
    clt_realized *realized;
    const clt_plan *plan;
} running;

/* far: biases are whole numbers up to 4000 instead of the op's initial values. */
static void start(running *r, const clt_plan *plan, const net *n, bool far)
{
    static float x[BATCH * CHANNELS * HEIGHT * WIDTH], y[BATCH * 37 * 6 * 5];
    clt_step_block step = {.valid = BATCH};
    *r = (running){.plan = plan};
    must(clt_store_create(device, plan->store, true, &r->options.store), "store");
    must(clt_store_init(r->options.store, plan->graph, SEED), "parameters");
    for (int32_t i = 0; far && i < plan->store->n_slots; i++) {
        const clt_store_slot *slot = &plan->store->slots[i];
        float values[64];
        if (strncmp(slot->name, "conv", 4) != 0 || !strstr(slot->name, "bias"))
            continue;
        for (int64_t k = 0; k < (int64_t)slot->elements; k++)
            values[k] = (float)(k % 9 * 500);
        must(clt_store_write(r->options.store, CLT_ARENA_PARAM, slot, values), slot->name);
    }
    must(clt_pool_create(device, &plan, 1, &r->options.pool), "pool");
    must(clt_plan_realize(plan, device, &r->options, &r->realized), "realize");
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = (float)clt_rng_normal(SEED, CLT_RNG_VERIFY, 1, 0, i);
    for (size_t i = 0; i < sizeof y / sizeof y[0]; i++)
        y[i] = (float)clt_rng_normal(SEED, CLT_RNG_VERIFY, 2, 0, i);
    for (int i = 0; i < 16; i++)
        step.norm[i] = 0.25f;
    must(clt_realized_write(r->realized, n->x, x), "x");
    must(clt_realized_write(r->realized, n->y, y), "y");
    must(clt_realized_write(r->realized, plan->graph->step, &step), "step block");
}

static void stop(running *r)
{
    clt_realized_destroy(r->realized);
    clt_pool_destroy(r->options.pool);
    clt_store_destroy(r->options.store);
}

/* --- statistics --- */

/* The norm's statistics equal those of its input as it was stored, with channels last. If blocks round
 * their means, the variance gets an error of that rounding times the deviation; a sum of squares would get
 * one in proportion to the mean's square. */
static void check_norm(const running *r, const char *name, const char *what)
{
    const clt_node *node = clt_graph_find(r->plan->graph, name);
    const clt_tensor *t = clt_graph_tensor(r->plan->graph, node->in[0]);
    int64_t elements = clt_shape_elements(&t->shape), cols = t->shape.dim[1], rows = elements / cols;
    CLT_FREED float *x = calloc((size_t)elements, sizeof *x);
    float mean[64], rstd[64];
    assert_non_null(x);
    assert_int_equal(t->layout, CLT_LAYOUT_CHANNELS_LAST);
    must(clt_realized_read_f32(r->realized, node->in[0], x), name);
    must(clt_realized_read(r->realized, node->saved[0], mean), "mean");
    must(clt_realized_read(r->realized, node->saved[1], rstd), "rstd");
    for (int64_t c = 0; c < cols; c++) {
        double sum = 0, apart = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += (double)x[i * cols + c];
        double middle = sum / (double)rows;
        for (int64_t i = 0; i < rows; i++)
            apart += pow((double)x[i * cols + c] - middle, 2);
        double var = apart / (double)rows, want = 1 / sqrt(var + 1e-5), unit = 0x1p-23 * fabs(middle);
        double limit = 8e-6 + 2 * unit / sqrt(var + 1e-5);
        if (!(fabs((double)mean[c] - middle) <= 4 * unit + 1e-6 * sqrt(var) + 1e-30) ||
            !(fabs((double)rstd[c] / want - 1) <= limit))
            fail_msg("%s, %s, channel %lld: mean %.9g and rstd %.9g, of its input %.9g and %.9g", what, name,
                     (long long)c, (double)mean[c], (double)rstd[c], middle, want);
    }
}

/* Checks the statistics of all norms with an algorithm, or a backend of products (NULL: the chosen one);
 * passes: how many norms make a pass of their own, -1: not known. */
static void check_with(const char *algorithm, const char *backend, clt_dtype storage, int passes)
{
    char what[96];
    snprintf(what, sizeof what, "%s convolutions, %s products, %s", algorithm ? algorithm : "chosen",
             backend ? backend : "chosen", clt_dtype_name(storage));
    if (algorithm)
        setenv("CLTRAIN_CONV", algorithm, 1);
    if (backend)
        setenv("CLTRAIN_GEMM", backend, 1);
    for (int far = 0; far < 2; far++) {
        net n = make_net();
        CLT_SCOPED(clt_plan) *plan = plan_of(&n, CLT_PLAN_TRAIN, storage, CLT_RECOMPUTE_NONE, NULL);
        int made = commands(plan, CLT_PHASE_FORWARD, "batch_norm_moments");
        if (passes >= 0 && made != passes)
            fail_msg("%s: %d norms make their own pass, it should be %d", what, made, passes);
        assert_int_equal(commands(plan, CLT_PHASE_FORWARD, "batch_norm_stats"), NORMS);
        running r;
        start(&r, plan, &n, far);
        float twice[2][64];
        for (int again = 0; again < 2; again++) {
            must(clt_realized_run(r.realized, CLT_PHASE_FORWARD), "forward");
            for (int k = 0; k < NORMS; k++)
                check_norm(&r, norms[k], what);
            must(clt_realized_read(r.realized, clt_graph_find(plan->graph, "bn3")->saved[1], twice[again]),
                 "rstd");
        }
        assert_memory_equal(twice[0], twice[1], 37 * sizeof(float)); /* the same bits in every run */
        stop(&r);
    }
    unsetenv("CLTRAIN_CONV");
    unsetenv("CLTRAIN_GEMM");
}

static bool is_lane_device(void)
{
    return (ocl_device_describe(device)->caps & OCL_CAP_WIDE_VECTORS) != 0 &&
           ocl_device_describe(device)->is_cpu;
}

/* The last norm always makes a pass of its own, since the algorithm for windows of single channels computes
 * no moments. For the first convolution Winograd's algorithm is chosen. */
TEST(test_algorithms)
{
    bool lane = is_lane_device();
    check_with(NULL, NULL, CLT_F32, lane ? 1 : -1);
    check_with("implicit", NULL, CLT_F32, lane ? 1 : -1);
    check_with("matrix", NULL, CLT_F32, -1);
}

/* Backends that only multiply leave the moments to the norms. */
TEST(test_backends)
{
    check_with("matrix", "simple", CLT_F32, NORMS);
}

/* Moments of values that were rounded to 16 bits. */
TEST(test_storage)
{
    check_with(NULL, NULL, CLT_BF16, is_lane_device() ? 1 : -1);
}

/* The kernels for GPUs: those of Winograd's transforms, of norms and of the backend `tile`. */
TEST(test_flat)
{
    ocl_device *all = device;
    ocl_open_options options = {.caps_mask = OCL_CAPS_ALL & ~(uint32_t)OCL_CAP_WIDE_VECTORS};
    must(ocl_device_open(&options, &device), "device");
    check_with(NULL, NULL, CLT_F32, -1);
    ocl_device_close(device);
    device = all;
}

/* --- where they are made --- */

/* Recomputed work computes no moments, and gradients have the same bits. */
TEST(test_recompute)
{
    static const clt_recompute tiers[2] = {CLT_RECOMPUTE_NONE, CLT_RECOMPUTE_BLOCK};
    static float gradient[2][4096];
    size_t n_values[2] = {0, 0};
    for (int k = 0; k < 2; k++) {
        net n = make_net();
        CLT_SCOPED(clt_plan) *plan = plan_of(&n, CLT_PLAN_TRAIN, CLT_F32, tiers[k], NULL);
        assert_int_equal(commands(plan, CLT_PHASE_BACKWARD, "batch_norm_stats"), 0);
        assert_int_equal(commands(plan, CLT_PHASE_BACKWARD, "batch_norm_moments"), 0);
        running r;
        start(&r, plan, &n, false);
        must(clt_realized_run(r.realized, CLT_PHASE_FORWARD), "forward");
        must(clt_realized_run(r.realized, CLT_PHASE_BACKWARD), "backward");
        for (int32_t i = 0; i < plan->store->n_slots; i++) {
            const clt_store_slot *slot = &plan->store->slots[i];
            if (strcmp(slot->name, "conv1.weight") != 0)
                continue;
            n_values[k] = (size_t)slot->elements;
            must(clt_store_read(r.options.store, CLT_ARENA_GRAD, slot, gradient[k]), slot->name);
        }
        stop(&r);
    }
    assert_int_equal(n_values[0], 20 * CHANNELS * 9);
    assert_memory_equal(gradient[0], gradient[1], n_values[0] * sizeof(float));
}

static bool has_define(const ocl_command *command, const char *text)
{
    return command->options && strstr(command->options, text) != NULL;
}

/* Neither evaluation nor a frozen norm needs moments. */
TEST(test_constants)
{
    net n = make_net(), e = make_net();
    CLT_SCOPED(clt_plan) *train = plan_of(&n, CLT_PLAN_TRAIN, CLT_F32, CLT_RECOMPUTE_NONE, NULL);
    CLT_SCOPED(clt_plan) *eval = plan_of(&e, CLT_PLAN_EVAL, CLT_F32, CLT_RECOMPUTE_NONE, train->store);
    net f = make_net();
    for (size_t i = 0; i < f.graph->n_params; i++)
        if (f.graph->params[i].buffer)
            f.graph->params[i].frozen = true;
    CLT_SCOPED(clt_plan) *frozen = plan_of(&f, CLT_PLAN_TRAIN, CLT_F32, CLT_RECOMPUTE_NONE, NULL);
    const clt_plan *const without[2] = {eval, frozen};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(commands(without[k], CLT_PHASE_FORWARD, "batch_norm_constants"), NORMS);
        for (size_t c = 0; c < without[k]->phase[CLT_PHASE_FORWARD].count; c++)
            assert_false(has_define(&without[k]->phase[CLT_PHASE_FORWARD].commands[c], "MOMENTS=1"));
    }
    size_t makers = 0;
    for (size_t c = 0; c < train->phase[CLT_PHASE_FORWARD].count; c++)
        makers += has_define(&train->phase[CLT_PHASE_FORWARD].commands[c], "MOMENTS=1");
    if (is_lane_device())
        assert_in_range(makers, NORMS - 1, 100);
}

FIXTURE(setup)
{
    unsetenv("CLTRAIN_CONV");
    unsetenv("CLTRAIN_GEMM");
    ocl_open_options options = {.caps_mask = OCL_CAPS_ALL};
    return ocl_device_open(&options, &device) == CLT_OK ? 0 : -1;
}

FIXTURE(teardown)
{
    ocl_device_close(device);
    return 0;
}

TEST_PROGRAM(.device = true, .set_up = setup, .tear_down = teardown);
