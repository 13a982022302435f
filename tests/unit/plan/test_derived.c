/* SPDX-License-Identifier: Apache-2.0
 *
 * Derived tensors that plans keep (engine/plan/derived.c), tested with the transformed windows of a net of
 * convolutions. Training and evaluation must give the same bits as without kept tensors, through updates,
 * evaluations between steps in the same slabs, moving averages, frozen parameters, recomputation and
 * parameters that the host writes; and must launch fewer kernels, by the number that the plan states.
 * ctest-labels: quick ctest-cost: 12 ctest-optimise: no */
#include "tests/unit/train/train_test.h"

#define STEPS 4
#define BATCH 4
#define EVAL_BATCHES 3
#define MAX_VALUES 40000

/* Three convolutions; the last one shares the weight of the second. A trained bias makes the data gradients
 * of frozen convolutions necessary. */
static clt_config *config_of(int micro_batches, const char *extra)
{
    char text[2048];
    snprintf(
        text, sizeof text,
        "{\"model\":{\"type\":\"graph\",\"layers\":["
        "{\"op\":\"conv2d\",\"name\":\"stem\",\"inputs\":[\"x\"],\"out\":16,\"kernel\":1},{\"op\":\"relu\"},"
        "{\"op\":\"conv2d\",\"name\":\"a\",\"out\":16,\"kernel\":3,\"padding\":1},{\"op\":\"relu\"},"
        "{\"op\":\"conv2d\",\"name\":\"b\",\"out\":16,\"kernel\":3,\"padding\":1},{\"op\":\"relu\"},"
        "{\"op\":\"conv2d\",\"name\":\"c\",\"out\":16,\"kernel\":3,\"padding\":1,\"share\":\"b\"},"
        "{\"op\":\"adaptive_avg_pool\"},{\"op\":\"flatten\"},{\"op\":\"linear\",\"name\":\"head\",\"out\":5},"
        "{\"op\":\"cross_entropy\",\"name\":\"loss\",\"inputs\":[\"head\",\"y\"]}]},"
        "\"data\":{\"type\":\"synthetic\",\"shape\":[3,6,6],\"classes\":5,\"samples\":24,"
        "\"micro_batch\":%d,\"global_batch\":%d,\"workers\":1},"
        "\"optimizer\":{\"type\":\"sgd\",\"learning_rate\":0.05,\"momentum\":0.9},\"train\":{\"steps\":%d}}",
        BATCH, BATCH * micro_batches, STEPS);
    clt_config *config = train_config(text);
    for (char key[64]; *extra; extra += strcspn(extra, " "), extra += *extra == ' ') {
        snprintf(key, sizeof key, "%.*s", (int)strcspn(extra, "="), extra);
        char value[64];
        const char *from = strchr(extra, '=') + 1;
        snprintf(value, sizeof value, "%.*s", (int)strcspn(from, " "), from);
        set(config, key, value);
    }
    return config;
}

/* --- a run --- */

/* Like clt_run_create, on a device with `usable` bytes of memory; 0: with the device's own size. */
static clt_run *create(const clt_run_options *options, uint64_t usable)
{
    ocl_open_options open = {.caps_mask = OCL_CAPS_ALL};
    clt_run *run;
    must(clt_alloc(&run, 1, sizeof *run, "run"), "run");
    run->options = options;
    must(ocl_device_open(&open, &run->device), "device");
    ocl_device_desc desc = *ocl_device_describe(run->device);
    desc.usable_bytes = usable ? usable : desc.usable_bytes;
    run->ranks = (comm_info){.ranks = 1, .local_ranks = 1};
    must(clt_job_create(options->config, &desc, 1, CLT_JOB_TRAIN, &run->job), "job");
    run->micro_batches = run->job->accumulation;
    const clt_plan *plans[2] = {run->job->train, run->job->eval};
    clt_realized *made[2];
    must(clt_store_create(run->device, plans[0]->store, true, &run->store), "store");
    must(clt_pool_create(run->device, plans, 2, &run->pool), "pool");
    clt_realize_options realize = {.store = run->store, .pool = run->pool};
    must(clt_plans_realize(plans, run->device, &realize, made), "realize");
    run->train = made[0];
    run->eval = made[1];
    must(clt_realized_prime(run->train, NULL, NULL, NULL), "prime");
    must(clt_realized_prime(run->eval, NULL, NULL, NULL), "prime");
    must(clt_store_zero(run->store), "zero");
    must(clt_store_init(run->store, plans[0]->graph, run->job->seed), "init");
    must(clt_store_set_groups(run->store, (float)run->job->update.weight_decay), "groups");
    float table[4 * STEPS];
    clt_job_table(run->job, table);
    must(clt_store_set_schedule(run->store, table), "schedule");
    clt_state_block block = {.loss_scale = 1.0f};
    must(clt_store_set_state(run->store, &block), "state");
    clt_feed_options feed = clt_run_feed_options(run, 0, STEPS);
    must(clt_feed_create(&feed, &run->feed), "feed");
    must(clt_reporter_create(run->train, 2, &run->reporter), "reporter");
    return run;
}

typedef struct outcome {
    size_t n, kept,
        derived; /* values; derived tensors that the plans keep; commands of the training plan for them */
    double value[MAX_VALUES];
    uint64_t kernels[STEPS]; /* of a step */
    uint64_t evaluation;     /* kernels of the last evaluation */
    uint64_t need;
} outcome;

static void push(outcome *o, double value)
{
    assert_true(o->n < MAX_VALUES);
    o->value[o->n++] = value;
}

static uint64_t kernels(const clt_run *run)
{
    must(ocl_finish(run->device, OCL_QUEUE_COMPUTE), "finish");
    return ocl_device_counters(run->device).kernels_enqueued;
}

static void evaluate(clt_run *run, outcome *o)
{
    clt_eval_metrics metrics;
    uint64_t before = kernels(run);
    must(clt_run_evaluate(run, 0, EVAL_BATCHES, &metrics), "evaluation");
    o->evaluation = kernels(run) - before;
    push(o, metrics.loss);
}

/* Doubles a weight, as loading a checkpoint would write it. */
static void overwrite(clt_run *run, const char *name)
{
    const clt_store_slot *slot = clt_store_layout_find(run->store->layout, name);
    CLT_FREED float *values = malloc(slot->elements * sizeof *values);
    assert_non_null(values);
    must(clt_store_read(run->store, CLT_ARENA_PARAM, slot, values), name);
    for (uint64_t i = 0; i < slot->elements; i++)
        values[i] *= 2;
    must(clt_store_write(run->store, CLT_ARENA_PARAM, slot, values), name);
}

static void push_parameters(const clt_run *run, outcome *o)
{
    float values[4096];
    for (int32_t i = 0; i < run->store->layout->n_slots; i++) {
        const clt_store_slot *slot = &run->store->layout->slots[i];
        assert_true(slot->elements <= 4096);
        must(clt_store_read(run->store, CLT_ARENA_PARAM, slot, values), slot->name);
        for (uint64_t k = 0; k < slot->elements; k++)
            push(o, (double)values[k]);
    }
}

/* Trains, with an evaluation after steps 1 and 3. */
static outcome *run_all(int micro_batches, const char *extra, uint64_t usable)
{
    outcome *o = calloc(1, sizeof *o);
    CLT_SCOPED(clt_config) *config = config_of(micro_batches, extra);
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
    CLT_SCOPED(clt_run) *run = create(&options, usable);
    const clt_plan *train = run->job->train;
    assert_non_null(o);
    o->need = clt_plan_memory(train, run->job->eval).total;
    o->kept = train->n_derived + run->job->eval->n_derived;
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        for (size_t c = 0; c < train->phase[p].count; c++)
            o->derived += train->phase[p].commands[c].derives != 0;
    evaluate(run, o);
    for (int step = 0; step < STEPS; step++) {
        clt_step_result result;
        bool have;
        uint64_t before = kernels(run);
        must(clt_step(run, step), "step");
        o->kernels[step] = kernels(run) - before;
        must(clt_reporter_take(run->reporter, true, &result, &have), "report");
        assert_true(have);
        push(o, (double)result.loss[0][0]);
        if (step % 2)
            evaluate(run, o);
    }
    overwrite(run, "a.weight");
    evaluate(run, o);
    overwrite(run, "b.weight");
    evaluate(run, o);
    assert_true(o->value[o->n - 1] != o->value[o->n - 2] && o->value[o->n - 2] != o->value[o->n - 3]);
    push_parameters(run, o);
    return o;
}

/* --- tests --- */

/* Runs twice: with derived tensors, and without, on a device with one byte too little memory for them. */
static void compare(int micro_batches, const char *extra, outcome *both[2])
{
    both[0] = run_all(micro_batches, extra, 0);
    both[1] = run_all(micro_batches, extra, both[0]->need - 1);
    assert_true(both[0]->kept > 0);
    assert_int_equal(both[1]->kept, 0);
    assert_true(both[0]->derived ? both[1]->need < both[0]->need : both[1]->need == both[0]->need);
    assert_int_equal(both[0]->n, both[1]->n);
    for (size_t i = 0; i < both[0]->n; i++)
        if (memcmp(&both[0]->value[i], &both[1]->value[i], sizeof(double)) != 0)
            fail_msg("%d micro-batches, %s: value %zu is %.9g, without derived tensors %.9g", micro_batches,
                     extra, i, both[0]->value[i], both[1]->value[i]);
    /* windows of a and b; c shares b's */
    assert_int_equal(both[1]->evaluation - both[0]->evaluation, 3 * EVAL_BATCHES - 2);
}

static void done(outcome *both[2])
{
    free(both[0]);
    free(both[1]);
}

TEST(test_accumulation)
{
    outcome *both[2];
    compare(3, "", both);
    assert_int_equal(both[0]->kept, 2 + 2 + 2);
    assert_int_equal(both[0]->derived, 4);
    for (int step = 0; step < STEPS; step++) /* three forward and three backward, in three micro-batches */
        assert_int_equal(both[1]->kernels[step] - both[0]->kernels[step], 3 * 6 - 4);
    done(both);
}

TEST(test_one_micro_batch_keeps_nothing)
{
    outcome *both[2];
    compare(1, "", both);
    assert_int_equal(both[0]->kept, 2); /* the evaluation plan's */
    assert_int_equal(both[0]->derived, 0);
    for (int step = 0; step < STEPS; step++)
        assert_int_equal(both[1]->kernels[step], both[0]->kernels[step]);
    done(both);
}

/* Frozen weights are transformed again only after an evaluation has used the slabs: before the first and
 * the third step. */
TEST(test_frozen)
{
    outcome *both[2];
    compare(1, "model.freeze=*.weight", both);
    assert_int_equal(both[0]->kept, 2 + 2 + 2);
    for (int step = 0; step < STEPS; step++)
        assert_int_equal(both[1]->kernels[step] - both[0]->kernels[step], step % 2 ? 6 : 6 - 4);
    done(both);
    compare(2, "model.freeze=a.weight", both);
    assert_int_equal(both[0]->kept, 2 + 2 + 2);
    for (int step = 0; step < STEPS; step++)
        assert_int_equal(both[1]->kernels[step] - both[0]->kernels[step], 12 - (step % 2 ? 2 : 4));
    done(both);
}

TEST(test_average)
{
    outcome *both[2];
    compare(2, "optimizer.ema=0.5", both);
    done(both);
}

TEST(test_tree)
{
    outcome *both[2];
    compare(4, "parallel.rank_invariant=true", both);
    done(both);
}

/* A run that recomputes has little memory: only evaluation keeps derived tensors. */
TEST(test_recomputation)
{
    outcome *both[2];
    compare(2, "train.recompute=block", both);
    assert_int_equal(both[0]->derived, 0);
    done(both);
}

static bool by_winograd(const clt_plan *plan)
{
    for (size_t c = 0; c < plan->phase[CLT_PHASE_FORWARD].count; c++)
        if (strcmp(plan->phase[CLT_PHASE_FORWARD].commands[c].variant, "winograd") == 0)
            return true;
    return false;
}

/* With few tiles (an image has four) reading the transformed windows costs more than they save: with fewer
 * than 8 where they are kept, with fewer than 16 where most uses compute them first. */
TEST(test_few_tiles)
{
    ocl_device_desc desc;
    ocl_desc_generic(&desc);
    for (int images = 1; images <= 4; images++) {
        char extra[64];
        snprintf(extra, sizeof extra, "data.micro_batch=%d data.global_batch=%d", images, images);
        CLT_SCOPED(clt_config) *config = config_of(1, extra);
        CLT_SCOPED(clt_job) *job = NULL;
        must(clt_job_create(config, &desc, 1, CLT_JOB_TRAIN, &job), "job");
        assert_int_equal(by_winograd(job->train), images == 4);
        assert_int_equal(by_winograd(job->eval), images >= 2);
    }
}

TEST_PROGRAM(.device = true);
