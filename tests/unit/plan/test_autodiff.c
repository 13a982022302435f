/* SPDX-License-Identifier: Apache-2.0
 *
 * Automatic differentiation and memory slabs on a device, by pairs of nets that must agree: a gradient that
 * is a sum of several parts (fan-out, the same tensor twice in one layer, views, shared parameters) against
 * an equivalent net without such sums; a frozen part against the whole; a plan cut into many small slabs
 * against one in a single slab.
 * ctest-labels: quick ctest-cost: 7 ctest-optimise: no */
#include "tests/unit/train/train_test.h"

#define IN 6
#define BATCH 8
#define SAMPLES 16
#define WIDTH 8

static void put_data(void)
{
    float x[SAMPLES][IN];
    int32_t y[SAMPLES];
    fill_normal(&x[0][0], SAMPLES * IN, 1);
    for (int i = 0; i < SAMPLES; i++)
        y[i] = (int32_t)(clt_rng_u32(2, CLT_RNG_VERIFY, 0, 0, (uint64_t)i) >> 4) % 3;
    put_npy("x.npy", "<f4", x, SAMPLES, IN);
    put_npy("y.npy", "<i4", y, SAMPLES, 0);
}

/* stem (linear to WIDTH), then `layers`, then head and loss on the last layer's output. */
static clt_config *config_of(const char *layers)
{
    char text[4096];
    snprintf(text, sizeof text,
             "{\"model\":{\"type\":\"graph\",\"layers\":[{\"op\":\"linear\",\"name\":\"stem\",\"inputs\":["
             "\"x\"],\"out\":%d},"
             "{\"op\":\"tanh\",\"name\":\"h\"},%s{\"op\":\"linear\",\"name\":\"head\",\"out\":3},"
             "{\"op\":\"cross_entropy\",\"name\":\"loss\",\"inputs\":[\"head\",\"y\"]}]},"
             "\"data\":{\"type\":\"npy\",\"path\":\"%%D/x.npy\",\"targets\":\"%%D/"
             "y.npy\",\"micro_batch\":%d,\"shuffle\":false,"
             "\"workers\":1},\"optimizer\":{\"type\":\"sgd\",\"learning_rate\":0.1},\"train\":{\"steps\":4,"
             "\"seed\":5}}",
             WIDTH, layers, BATCH);
    return train_config(text);
}

static void open_feed(clt_run *run)
{
    clt_feed_options feed = {.realized = run->train,
                             .source = run->job->train_source,
                             .global_batch = run->job->global_batch,
                             .accumulation = run->job->accumulation,
                             .ranks = 1,
                             .last_step = 8,
                             .workers = 1,
                             .prefetch = 2};
    must(clt_feed_create(&feed, &run->feed), "feed");
    must(clt_reporter_create(run->train, 2, &run->reporter), "reporter");
}

static double one_step(clt_run *run, int64_t step)
{
    clt_step_result result;
    bool have;
    must(clt_step(run, step), "step");
    must(clt_reporter_take(run->reporter, true, &result, &have), "report");
    assert_true(have);
    return (double)result.loss[0][0];
}

typedef struct outcome {
    double loss;
    float stem[WIDTH * IN], stem_bias[WIDTH], head[3 * WIDTH], mid[WIDTH * WIDTH];
    bool has_mid;
} outcome;

static void read_gradient(const clt_run *run, const char *name, float *out, uint64_t count)
{
    const clt_store_slot *slot = clt_store_layout_find(run->store->layout, name);
    assert_non_null(slot);
    assert_int_equal(slot->elements, count);
    must(clt_store_read(run->store, CLT_ARENA_GRAD, slot, out), name);
}

static outcome gradients_of(const char *layers)
{
    outcome o = {.loss = 0};
    CLT_SCOPED(clt_config) *config = config_of(layers);
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
    CLT_SCOPED(clt_run) *run = NULL;
    must(clt_run_create(&options, CLT_JOB_TRAIN, &run), layers);
    open_feed(run);
    o.loss = one_step(run, 0);
    read_gradient(run, "stem.weight", o.stem, WIDTH * IN);
    read_gradient(run, "stem.bias", o.stem_bias, WIDTH);
    read_gradient(run, "head.weight", o.head, 3 * WIDTH);
    o.has_mid = clt_store_layout_find(run->store->layout, "mid.weight") != NULL;
    if (o.has_mid)
        read_gradient(run, "mid.weight", o.mid, WIDTH * WIDTH);
    return o;
}

static void same_values(const char *what, const float *a, const float *b, int count)
{
    double largest = 0;
    for (int i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)a[i]));
    assert_true(largest > 1e-4);
    for (int i = 0; i < count; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= 2e-6 * largest))
            fail_msg("%s, element %d: %.9g and %.9g", what, i, (double)a[i], (double)b[i]);
}

static void must_agree(const char *plain, const char *other)
{
    outcome a = gradients_of(plain), b = gradients_of(other);
    assert_close("loss", 1, b.loss, a.loss, 1e-6);
    same_values(other, a.stem, b.stem, WIDTH * IN);
    same_values(other, a.stem_bias, b.stem_bias, WIDTH);
    same_values(other, a.head, b.head, 3 * WIDTH);
    if (a.has_mid && b.has_mid)
        same_values(other, a.mid, b.mid, WIDTH * WIDTH);
}

#define SCALE(v) "{\"op\":\"scale\",\"name\":\"s\",\"value\":" v "},"

TEST(test_fan_out)
{
    /* h + h within one layer, and within two */
    must_agree(SCALE("2"), "{\"op\":\"add\",\"name\":\"s\",\"inputs\":[\"h\",\"h\"]},");
    must_agree(SCALE("3"), "{\"op\":\"add\",\"name\":\"t\",\"inputs\":[\"h\",\"h\"]},"
                           "{\"op\":\"add\",\"name\":\"s\",\"inputs\":[\"t\",\"h\"]},");
    /* h three times in one concat, whose three slices are added again */
    must_agree(SCALE("3"),
               "{\"op\":\"concat\",\"name\":\"c\",\"inputs\":[\"h\",\"h\",\"h\"]},"
               "{\"op\":\"slice\",\"name\":\"c0\",\"inputs\":[\"c\"],\"axis\":1,\"start\":0,\"stop\":8},"
               "{\"op\":\"slice\",\"name\":\"c1\",\"inputs\":[\"c\"],\"axis\":1,\"start\":8,\"stop\":16},"
               "{\"op\":\"slice\",\"name\":\"c2\",\"inputs\":[\"c\"],\"axis\":1,\"start\":16},"
               "{\"op\":\"add\",\"name\":\"t\",\"inputs\":[\"c2\",\"c0\"]},{\"op\":\"add\",\"name\":\"s\","
               "\"inputs\":[\"t\",\"c1\"]},");
    /* h * h against h * (1 * h) */
    must_agree("{\"op\":\"scale\",\"name\":\"one\",\"value\":1},{\"op\":\"multiply\",\"name\":\"s\","
               "\"inputs\":[\"h\",\"one\"]},",
               "{\"op\":\"multiply\",\"name\":\"s\",\"inputs\":[\"h\",\"h\"]},");
}

TEST(test_views)
{
    must_agree(
        SCALE("2"),
        "{\"op\":\"reshape\",\"name\":\"grid\",\"shape\":[2,4]},{\"op\":\"flatten\",\"name\":\"line\"},"
        "{\"op\":\"add\",\"name\":\"s\",\"inputs\":[\"line\",\"line\"]},");
    /* both the view and its base are read, in either order */
    must_agree(SCALE("3"), "{\"op\":\"reshape\",\"name\":\"grid\",\"shape\":[8]},"
                           "{\"op\":\"add\",\"name\":\"t\",\"inputs\":[\"grid\",\"h\"]},"
                           "{\"op\":\"add\",\"name\":\"s\",\"inputs\":[\"t\",\"grid\"]},");
    must_agree(SCALE("3"), "{\"op\":\"reshape\",\"name\":\"grid\",\"shape\":[8]},"
                           "{\"op\":\"add\",\"name\":\"t\",\"inputs\":[\"h\",\"h\"]},"
                           "{\"op\":\"add\",\"name\":\"s\",\"inputs\":[\"t\",\"grid\"]},");
    /* a view of a view; one of them has a second reader */
    must_agree(SCALE("2"), "{\"op\":\"reshape\",\"name\":\"v1\",\"shape\":[4,2]},{\"op\":\"reshape\","
                           "\"name\":\"v2\",\"shape\":[8]},"
                           "{\"op\":\"flatten\",\"name\":\"v3\",\"inputs\":[\"v1\"]},"
                           "{\"op\":\"add\",\"name\":\"s\",\"inputs\":[\"v2\",\"v3\"]},");
}

/* A layer is used twice and the two equal results are averaged: the gradient of its weights has two
 * contributions. */
TEST(test_shared_parameters)
{
    must_agree("{\"op\":\"linear\",\"name\":\"mid\",\"out\":8,\"bias\":false},",
               "{\"op\":\"linear\",\"name\":\"mid\",\"out\":8,\"bias\":false},"
               "{\"op\":\"linear\",\"name\":\"again\",\"out\":8,\"bias\":false,\"share\":\"mid\",\"inputs\":["
               "\"h\"]},"
               "{\"op\":\"add\",\"name\":\"t\",\"inputs\":[\"mid\",\"again\"]},{\"op\":\"scale\",\"name\":"
               "\"s\",\"value\":0.5},");
}

/* --- slabs --- */

static clt_config *slab_config(void)
{
    return train_config(
        "{\"model\":{\"type\":\"mlp\",\"hidden\":[96,64,80],\"activation\":\"gelu\"},"
        "\"data\":{\"type\":\"synthetic\",\"shape\":[20],\"classes\":5,\"samples\":200,\"micro_batch\":48,"
        "\"global_batch\":96,\"workers\":1},"
        "\"optimizer\":{\"type\":\"adamw\",\"weight_decay\":0.1,\"clip\":0.5},\"train\":{\"steps\":4}}");
}

/* Like clt_run_create, with a description of the device that allows only small buffers. */
static void create_limited(clt_run *run, uint64_t max_alloc)
{
    ocl_open_options open = {.caps_mask = OCL_CAPS_ALL};
    must(ocl_device_open(&open, &run->device), "device");
    ocl_device_desc desc = *ocl_device_describe(run->device);
    if (max_alloc)
        desc.max_alloc_bytes = max_alloc;
    run->ranks = (comm_info){.ranks = 1, .local_ranks = 1};
    must(clt_job_create(run->options->config, &desc, 1, CLT_JOB_TRAIN, &run->job), "job");
    run->micro_batches = run->job->accumulation;
    const clt_plan *plan = run->job->train;
    assert_int_equal(plan->n_slabs > 1, max_alloc != 0);
    assert_int_equal(plan->store->n_slabs > 1, max_alloc != 0);
    must(clt_store_create(run->device, plan->store, true, &run->store), "store");
    must(clt_pool_create(run->device, &plan, 1, &run->pool), "pool");
    clt_realize_options options = {.store = run->store, .pool = run->pool};
    must(clt_plan_realize(plan, run->device, &options, &run->train), "realize");
    must(clt_realized_prime(run->train, NULL, NULL, NULL), "prime");
    must(clt_store_zero(run->store), "zero");
    must(clt_store_init(run->store, plan->graph, run->job->seed), "init");
    must(clt_store_set_groups(run->store, (float)run->job->update.weight_decay), "groups");
    float table[4 * 4];
    assert_int_equal(run->job->steps, 4);
    clt_job_table(run->job, table);
    must(clt_store_set_schedule(run->store, table), "schedule");
    clt_state_block block = {.loss_scale = 1.0f};
    must(clt_store_set_state(run->store, &block), "state");
}

TEST(test_slabs_compute_the_same)
{
    float *values[2];
    uint64_t total = 0;
    for (int limited = 0; limited < 2; limited++) {
        CLT_SCOPED(clt_config) *config = slab_config();
        clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
        CLT_SCOPED(clt_run) *run = NULL;
        must(clt_alloc(&run, 1, sizeof *run, "run"), "run");
        run->options = &options;
        create_limited(run, limited ? 40 << 10 : 0);
        open_feed(run);
        for (int step = 0; step < 4; step++)
            assert_true(isfinite(one_step(run, step)));
        const clt_store_layout *layout = run->store->layout;
        total = (uint64_t)clt_graph_param_elements(run->job->train->graph);
        values[limited] = malloc(total * sizeof(float));
        assert_non_null(values[limited]);
        uint64_t at = 0;
        for (int32_t i = 0; i < layout->n_slots; at += layout->slots[i++].elements)
            must(clt_store_read(run->store, CLT_ARENA_PARAM, &layout->slots[i], values[limited] + at),
                 "read");
        assert_int_equal(at, total);
    }
    assert_memory_equal(values[0], values[1], total * sizeof(float));
    free(values[0]);
    free(values[1]);
}

FIXTURE(setup)
{
    put_data();
    return 0;
}

TEST_PROGRAM(.device = true, .set_up = setup);
