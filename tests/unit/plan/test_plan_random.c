/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of random graphs. Each graph is planned unfused, fused, and with each kind of recomputation. All
 * plans run in memory that is filled with NaNs before every micro-batch, and must give the same bits: loss
 * records, parameter gradients, buffers, tensors marked as outputs; in evaluation too. The op references,
 * put together in double precision, say what the values should be, so that a mistake that all plans share
 * is found as well. argv[1]: number of graphs, argv[2]: the first seed, argv[3]: the device's capabilities
 * in hexadecimal, to simulate a weaker one. A failure prints the seed and the graph.
 * ctest-labels: quick ctest-cost: 18 */
#include <math.h>

#include "cl/device/device.h"
#include "engine/plan/realize.h"
#include "engine/state/store.h"
#include "tests/unit/plan/random_graph.h"

#define MAX_GRAPHS 10000

static uint32_t caps = OCL_CAPS_ALL;
static ocl_device *device;

/* --- the results of a plan --- */

typedef struct outcome {
    int n_losses;
    float record[CLT_MAX_LOSSES][4];
    size_t n_values; /* gradients and buffers in the order of the parameters, frozen ones left out; then
                        outputs */
    float *values;
} outcome;

static void outcome_free(outcome *o)
{
    free(o->values);
}

static float *outcome_grow(outcome *o, size_t count)
{
    o->values = realloc(o->values, (o->n_values + count) * sizeof *o->values);
    assert_non_null(o->values);
    o->n_values += count;
    return o->values + o->n_values - count;
}

static void poison(ocl_buffer *buffer)
{
    size_t bytes = buffer ? ocl_buffer_bytes(buffer) : 0;
    if (!bytes)
        return;
    CLT_FREED void *nans = malloc(bytes);
    assert_non_null(nans);
    memset(nans, 0xff, bytes);
    must(ocl_write(buffer, 0, nans, bytes), "NaNs");
}

static void upload(const maker *m, const clt_realized *r, int micro)
{
    clt_step_block step = step_block(m, micro);
    for (size_t f = 0; f < m->graph->n_fields; f++) {
        int32_t tensor = m->graph->fields[f].tensor;
        union {
            float f32[64];
            int32_t i32[64];
        } data;
        int64_t n = clt_shape_elements(shape_of(m, tensor));
        assert_true(n <= 64);
        for (int64_t i = 0; i < n; i++) {
            double value = field_value(m, tensor, micro, (uint64_t)i);
            if (tensor == m->x)
                data.f32[i] = (float)value;
            else
                data.i32[i] = (int32_t)value;
        }
        must(clt_realized_write(r, tensor, &data), "field");
    }
    must(clt_realized_write(r, m->graph->step, &step), "step block");
}

static void put_params(const maker *m, clt_store *store)
{
    for (size_t p = 0; p < m->graph->n_params; p++) {
        const clt_store_slot *slot = &store->layout->slots[p];
        CLT_FREED float *values = malloc(slot->elements * sizeof *values);
        assert_non_null(values);
        for (uint64_t i = 0; i < slot->elements; i++)
            values[i] = param_value(m->seed, &m->graph->params[p], i);
        must(clt_store_write(store, CLT_ARENA_PARAM, slot, values), slot->name);
    }
}

static void collect(const maker *m, const clt_realized *r, clt_store *store, bool gradients, outcome *o)
{
    o->n_losses = m->graph->n_losses;
    must(clt_realized_read(r, r->plan->losses, o->record), "losses");
    for (int32_t p = 0; gradients && p < store->layout->n_slots; p++) {
        const clt_store_slot *slot = &store->layout->slots[p];
        if (slot->trainable || slot->buffer)
            must(clt_store_read(store, slot->buffer ? CLT_ARENA_PARAM : CLT_ARENA_GRAD, slot,
                                outcome_grow(o, slot->elements)),
                 slot->name);
    }
    for (int i = 0; i < m->n_outputs; i++) {
        size_t n = (size_t)clt_shape_elements(shape_of(m, m->outputs[i]));
        must(clt_realized_read(r, m->outputs[i], outcome_grow(o, n)), "output");
    }
}

typedef struct form {
    const char *name;
    bool no_fuse;
    clt_recompute recompute;
    const char *gemm;
    uint64_t max_alloc; /* largest buffer in bytes, 0: the device's limit */
} form;

static clt_plan *plan_of(maker *m, const form *f, clt_plan_mode mode, const clt_store_layout *layout)
{
    clt_plan_options options = {.mode = mode,
                                .accumulation = mode == CLT_PLAN_TRAIN ? m->accumulation : 1,
                                .ranks = 1,
                                .update = {.optimizer = &clt_optimizer_sgd, .schedule_entries = 1},
                                .layout = layout,
                                .no_fuse = f->no_fuse,
                                .recompute = f->recompute};
    clt_plan *plan;
    ocl_device_desc desc = *ocl_device_describe(device);
    desc.max_alloc_bytes = f->max_alloc ? f->max_alloc : desc.max_alloc_bytes;
    setenv("CLTRAIN_GEMM", f->gemm, 1);
    must(clt_plan_compute(m->graph, &desc, &options, &plan), m->text.text);
    return plan;
}

/* The problems that the tuner would measure are exactly the products among the plan's commands. */
static void check_products(const maker *m, const clt_plan *plan)
{
    int64_t logged = 0, emitted = 0;
    for (size_t i = 0; i < plan->tuning.count; i++)
        if (strcmp(plan->tuning.at[i].family, OCL_GEMM_FAMILY) == 0)
            logged += plan->tuning.at[i].calls;
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        for (size_t c = 0; c < plan->phase[p].count; c++) {
            const ocl_command *command = &plan->phase[p].commands[c];
            emitted += command->kind == OCL_CMD_GEMM ||
                       (command->kind == OCL_CMD_KERNEL && strncmp(command->kernel, "gemm_fwd_", 9) == 0);
        }
    if (logged != emitted)
        fail_msg("%s%d products for the tuner, %d commands", m->text.text, (int)logged, (int)emitted);
}

/* Runs a plan on its own slabs, filled with NaN. */
static outcome run_plan(const maker *m, const clt_plan *plan, clt_store *store)
{
    outcome o = {0};
    bool training = plan->options.mode == CLT_PLAN_TRAIN;
    clt_realize_options options = {.store = store};
    clt_realized *r;
    must(clt_pool_create(device, &plan, 1, &options.pool), "pool");
    must(clt_plan_realize(plan, device, &options, &r), m->text.text);
    for (int32_t s = 0; training && s < store->layout->n_slabs; s++)
        poison(store->slab[CLT_ARENA_GRAD][s]);
    for (int micro = 0; micro < (training ? m->accumulation : 1); micro++) {
        for (int32_t s = 0; s < options.pool->n_slabs; s++)
            poison(options.pool->slab[s]);
        upload(m, r, micro);
        must(clt_realized_run(r, CLT_PHASE_FORWARD), "forward");
        if (training)
            must(clt_realized_run(r, micro ? CLT_PHASE_BACKWARD_ADD : CLT_PHASE_BACKWARD), "backward");
        must(ocl_finish(device, OCL_QUEUE_COMPUTE), "finish");
    }
    collect(m, r, store, training, &o);
    clt_realized_destroy(r);
    clt_pool_destroy(options.pool);
    return o;
}

/* The training and evaluation plans of one configuration with a common store, as a run has them. */
static void run_form(uint64_t seed, const form *f, outcome *train, outcome *eval)
{
    maker m = make(seed), e = make(seed);
    clt_plan *plan = plan_of(&m, f, CLT_PLAN_TRAIN, NULL);
    clt_store *store;
    must(clt_store_create(device, plan->store, true, &store), "store");
    check_products(&m, plan);
    put_params(&m, store);
    *train = run_plan(&m, plan, store);
    clt_plan *eval_plan = plan_of(&e, f, CLT_PLAN_EVAL, plan->layout);
    *eval = run_plan(&e, eval_plan, store);
    clt_plan_destroy(eval_plan);
    clt_store_destroy(store);
    clt_plan_destroy(plan);
    maker_free(&m);
    maker_free(&e);
}

/* --- the expected results --- */

typedef struct expected {
    double **value, **gradient; /* by tensor; gradient of parameters summed over micro-batches */
    double record[CLT_MAX_LOSSES][4];
} expected;

static clt_ref_tensor ref_of(const maker *m, int32_t tensor, double *data)
{
    const clt_tensor *t = clt_graph_tensor(m->graph, tensor);
    return (clt_ref_tensor){t->shape, t->dtype, data};
}

static double *zeros(const maker *m, int32_t tensor)
{
    double *data = calloc((size_t)clt_shape_elements(shape_of(m, tensor)) + 1, sizeof *data);
    assert_non_null(data);
    return data;
}

static clt_ref_call ref_call(const maker *m, expected *x, const clt_node *node, int micro, bool training)
{
    clt_step_block s = step_block(m, micro);
    clt_ref_call call = {.node = node,
                         .n_in = node->n_in,
                         .n_out = node->n_out,
                         .n_param = node->n_param,
                         .n_saved = node->n_saved,
                         .training = training,
                         .seed = (uint64_t)s.seed_hi << 32 | s.seed_lo,
                         .step = s.step,
                         .op_id = (uint32_t)node->id,
                         .sample_base = s.sample_lo,
                         .valid_samples = s.valid,
                         .micro_batch = m->graph->micro_batch,
                         .loss_norm = node->loss >= 0 ? (double)s.norm[node->loss] : 1,
                         .loss_scale = 1};
    if (!clt_node_updates_buffers(m->graph, node) && strcmp(node->op->name, "batch_norm") == 0)
        call.training = false; /* frozen */
    for (int i = 0; i < node->n_in; i++)
        call.in[i] = ref_of(m, node->in[i], x->value[node->in[i]]);
    for (int i = 0; i < node->n_out; i++) {
        call.out[i] = ref_of(m, node->out[i], x->value[node->out[i]]);
        call.dout[i] = ref_of(m, node->out[i], x->gradient[node->out[i]]);
    }
    for (int i = 0; i < node->n_saved; i++)
        call.saved[i] = ref_of(m, node->saved[i], x->value[node->saved[i]]);
    for (int i = 0; i < node->n_param; i++) {
        int32_t tensor = m->graph->params[node->param[i]].tensor;
        call.param[i] = ref_of(m, tensor, x->value[tensor]);
        call.dparam[i] = ref_of(m, tensor, x->gradient[tensor]);
        call.buffer[i] = call.param[i];
    }
    return call;
}

static void ref_backward(const maker *m, expected *x, const clt_node *node, int micro)
{
    clt_ref_call call = ref_call(m, x, node, micro, true);
    for (int i = 0; i < node->n_in; i++)
        if (!(node->op->no_grad_inputs & (1u << i)))
            call.din[i] = ref_of(m, node->in[i], x->gradient[node->in[i]]);
    if (node->op->ref->backward)
        node->op->ref->backward(&call);
}

static void ref_micro(const maker *m, expected *x, int micro, bool training)
{
    const clt_graph *graph = m->graph;
    for (size_t t = 0; t < graph->n_tensors; t++) {
        size_t n = (size_t)clt_shape_elements(shape_of(m, (int32_t)t));
        if (clt_graph_tensor(graph, (int32_t)t)->param < 0)
            memset(x->gradient[t], 0, n * sizeof(double));
    }
    for (size_t f = 0; f < graph->n_fields; f++) {
        int32_t tensor = graph->fields[f].tensor;
        for (int64_t i = 0; i < clt_shape_elements(shape_of(m, tensor)); i++)
            x->value[tensor][i] = field_value(m, tensor, micro, (uint64_t)i);
    }
    for (size_t k = 0; k < graph->n_nodes; k++) {
        const clt_node *node = graph->nodes[k];
        clt_ref_call call = ref_call(m, x, node, micro, training);
        node->op->ref->forward(&call);
        for (int i = 0; i < 4 && node->loss >= 0; i++)
            x->record[node->loss][i] += call.loss_record[i];
    }
    for (size_t k = graph->n_nodes; training && k-- > 0;)
        ref_backward(m, x, graph->nodes[k], micro);
}

/* trained: the values that training has left in the buffers; NULL: there was no training before. */
static expected expect(const maker *m, bool training, const expected *trained)
{
    size_t n = m->graph->n_tensors;
    expected x = {.value = calloc(n, sizeof(double *)), .gradient = calloc(n, sizeof(double *))};
    assert_true(x.value && x.gradient);
    for (size_t t = 0; t < n; t++) {
        x.value[t] = zeros(m, (int32_t)t);
        x.gradient[t] = zeros(m, (int32_t)t);
    }
    for (size_t p = 0; p < m->graph->n_params; p++) {
        const clt_param *param = &m->graph->params[p];
        for (int64_t i = 0; i < clt_shape_elements(&param->shape); i++)
            x.value[param->tensor][i] = trained && param->buffer
                                            ? trained->value[param->tensor][i]
                                            : (double)param_value(m->seed, param, (uint64_t)i);
    }
    for (int micro = 0; micro < (training ? m->accumulation : 1); micro++)
        ref_micro(m, &x, micro, training);
    return x;
}

static void expected_free(const maker *m, expected *x)
{
    for (size_t t = 0; t < m->graph->n_tensors; t++) {
        free(x->value[t]);
        free(x->gradient[t]);
    }
    free(x->value);
    free(x->gradient);
}

/* --- comparing --- */

#define TOLERANCE 2e-4 /* a dozen layers of f32; far below any mistake */

/* scale: the unit of errors if the values themselves are smaller */
static void near(const maker *m, const char *form_name, const char *what, const float *got,
                 const double *want, size_t n, double scale)
{
    double largest = scale, worst = 0;
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)got[i] - want[i]);
        largest = fmax(largest, fabs(want[i]));
        worst = off <= worst ? worst : off; /* NaN stays */
    }
    if (!(worst <= TOLERANCE * largest))
        fail_msg("%s%s: %s is off by %.3g, its largest value being %.3g", m->text.text, form_name, what,
                 worst, largest);
}

static void check_values(const maker *m, const char *form_name, const outcome *o, const expected *x,
                         bool training)
{
    size_t at = 0;
    double largest = 1e-3; /* gradients that cancel out are as exact as the others */
    for (size_t p = 0; p < m->graph->n_params; p++)
        for (int64_t i = 0; i < clt_shape_elements(&m->graph->params[p].shape); i++)
            largest = fmax(largest, 0.05 * fabs(x->gradient[m->graph->params[p].tensor][i]));
    for (int l = 0; l < o->n_losses; l++)
        near(m, form_name, m->graph->losses[l].name, o->record[l], x->record[l], 3, 1);
    for (size_t p = 0; training && p < m->graph->n_params; p++) {
        const clt_param *param = &m->graph->params[p];
        size_t n = (size_t)clt_shape_elements(&param->shape);
        if (param->buffer)
            near(m, form_name, param->name, o->values + at, x->value[param->tensor], n, 1);
        else if (!param->frozen)
            near(m, form_name, param->name, o->values + at, x->gradient[param->tensor], n, largest);
        else
            continue;
        at += n;
    }
    for (int i = 0; i < m->n_outputs; i++) {
        size_t n = (size_t)clt_shape_elements(shape_of(m, m->outputs[i]));
        near(m, form_name, clt_graph_tensor(m->graph, m->outputs[i])->name, o->values + at,
             x->value[m->outputs[i]], n, 1);
        at += n;
    }
    assert_int_equal(at, o->n_values);
}

/* The name of the tensor to which value `at` of the results belongs. */
static const char *name_of(const maker *m, size_t at, bool training)
{
    for (size_t p = 0; training && p < m->graph->n_params; p++) {
        size_t n = (size_t)clt_shape_elements(&m->graph->params[p].shape);
        if (m->graph->params[p].frozen && !m->graph->params[p].buffer)
            continue;
        if (at < n)
            return m->graph->params[p].name;
        at -= n;
    }
    return "an output";
}

static void same_bits(const maker *m, const char *form_name, const outcome *a, const outcome *b,
                      bool training)
{
    const char *mode = training ? "training" : "evaluation";
    if (memcmp(a->record, b->record, (size_t)a->n_losses * sizeof a->record[0]) != 0)
        fail_msg("%s%s, %s: loss records differ: %.9g and %.9g", m->text.text, form_name, mode,
                 (double)a->record[0][0], (double)b->record[0][0]);
    assert_int_equal(a->n_values, b->n_values);
    for (size_t i = 0; i < a->n_values; i++)
        if (memcmp(&a->values[i], &b->values[i], sizeof(float)) != 0)
            fail_msg("%s%s, %s: %s: %.9g and %.9g", m->text.text, form_name, mode, name_of(m, i, training),
                     (double)a->values[i], (double)b->values[i]);
}

/* Results must equal those of the first configuration with the same GEMM; another GEMM adds up in another
 * order. */
static const form forms[] = {
    {"apart", true, CLT_RECOMPUTE_NONE, "simple", 0},
    {"apart, recomputing gelu", true, CLT_RECOMPUTE_GELU, "simple", 0},
    {"apart, recomputing blocks", true, CLT_RECOMPUTE_BLOCK, "simple", 0},
    {"fused", false, CLT_RECOMPUTE_NONE, "simple", 0},
    {"fused, recomputing gelu", false, CLT_RECOMPUTE_GELU, "simple", 0},
    {"fused, recomputing blocks", false, CLT_RECOMPUTE_BLOCK, "simple", 0},
    {"fused, in small buffers", false, CLT_RECOMPUTE_NONE, "simple", 20 << 10},
    {"fused, the device's GEMM", false, CLT_RECOMPUTE_NONE, "", 0},
    {"fused, recomputing blocks, the device's GEMM", false, CLT_RECOMPUTE_BLOCK, "", 0},
};
#define FORMS (int)(sizeof forms / sizeof forms[0])

static void test_graph(void **state)
{
    uint64_t seed = *(const uint64_t *)*state;
    maker m = make(seed);
    expected in_training = expect(&m, true, NULL), in_evaluation = expect(&m, false, &in_training);
    outcome train[FORMS], eval[FORMS];
    for (int f = 0; f < FORMS; f++) {
        run_form(seed, &forms[f], &train[f], &eval[f]);
        check_values(&m, forms[f].name, &train[f], &in_training, true);
        check_values(&m, forms[f].name, &eval[f], &in_evaluation, false);
        int first = 0;
        while (strcmp(forms[f].gemm, forms[first].gemm) != 0)
            first++;
        same_bits(&m, forms[f].name, &train[first], &train[f], true);
        same_bits(&m, forms[f].name, &eval[first], &eval[f], false);
    }
    for (int f = 0; f < FORMS; f++) {
        outcome_free(&train[f]);
        outcome_free(&eval[f]);
    }
    expected_free(&m, &in_training);
    expected_free(&m, &in_evaluation);
    clt_graph_destroy(m.graph);
    maker_free(&m);
}

FIXTURE(setup)
{
    ocl_open_options options = {.caps_mask = caps};
    return ocl_device_open(&options, &device) == CLT_OK ? 0 : -1;
}

FIXTURE(teardown)
{
    ocl_device_close(device);
    return 0;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[MAX_GRAPHS];
    static char names[MAX_GRAPHS][32];
    static uint64_t seeds[MAX_GRAPHS];
    int count = argc > 1 ? atoi(argv[1]) : 20;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    if (argc > 3)
        caps = (uint32_t)strtoul(argv[3], NULL, 16);
    if (!test_has_device())
        return TEST_SKIPPED;
    if (count < 1 || count > MAX_GRAPHS)
        count = MAX_GRAPHS;
    for (int i = 0; i < count; i++) {
        seeds[i] = first + (uint64_t)i;
        snprintf(names[i], sizeof names[i], "graph %llu", (unsigned long long)seeds[i]);
        tests[i] = (struct CMUnitTest){names[i], test_graph, NULL, NULL, &seeds[i]};
    }
    return _cmocka_run_group_tests("plans of random graphs", tests, (size_t)count, setup, teardown);
}
