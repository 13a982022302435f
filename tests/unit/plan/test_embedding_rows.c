/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of embeddings that ranks exchange as rows. One device runs the ranks one after the other: the
 * test keeps what a plan posts, and gives it what a transport would deliver. Weights, targets and slopes of
 * the loss are small integers, so that sums are exact in any order, and the gradients must equal those of
 * whole tables bit by bit. Memory that is unused according to the plan is filled with NaNs.
 * ctest-labels: quick ctest-cost: 4 */
#include "tests/unit/test.h"

#include <math.h>

#include "cl/device/device.h"
#include "engine/graph/step_block.h"
#include "engine/ops/node.h"
#include "engine/plan/realize.h"
#include "engine/state/store.h"

#define VOCAB 40
#define DIM 4
#define POSITIONS 3 /* of a sample */
#define BATCH 2
#define MAX_RANKS 3
#define MAX_SUMS 16

static ocl_device *device;

/* --- models --- */

typedef enum model {
    TIED,   /* one table, also the matrix of the last layer */
    UNTIED, /* one table */
    TWICE,  /* two layers with one table; a second table; a frozen table */
    MODELS
} model;
static const char *const model_names[MODELS] = {"tied", "untied", "twice"};

typedef struct fields {
    int32_t x, y;
} fields;

static int32_t put(clt_graph *graph, const char *op, const char *name, const char *share, const char *attrs,
                   const int32_t *in, int n)
{
    clt_node *node;
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    must(clt_json_parse(attrs, strlen(attrs), "test", CLT_ECONFIG, &doc), "attributes");
    must(clt_graph_add(graph, op, name, clt_json_root(doc), doc, in, n, share, &node), name);
    return node->n_out > 0 ? node->out[0] : -1;
}

static int32_t put_table(clt_graph *graph, const char *name, const char *share, int dim, int32_t x)
{
    char attrs[64];
    snprintf(attrs, sizeof attrs, "{\"vocab\": %d, \"dim\": %d}", VOCAB, dim);
    return put(graph, "embedding", name, share, attrs, &x, 1);
}

static clt_graph *make_graph(model m, int dim, fields *f)
{
    clt_graph *graph;
    clt_shape x = clt_shape1(POSITIONS), y = clt_shape2(POSITIONS, VOCAB);
    char attrs[64];
    must(clt_graph_create(BATCH, &graph), "graph");
    must(clt_graph_field(graph, "x", CLT_I32, &x, &f->x), "x");
    must(clt_graph_field(graph, "y", CLT_F32, &y, &f->y), "y");
    int32_t at = put_table(graph, "table", NULL, dim, f->x);
    if (m == TWICE) {
        int32_t parts[4] = {at};
        parts[1] = put_table(graph, "again", "table", dim, f->x);
        parts[2] = put_table(graph, "other", NULL, dim, f->x);
        parts[3] = put_table(graph, "fixed", NULL, dim, f->x);
        for (size_t p = 0; p < graph->n_params; p++)
            graph->params[p].frozen = strncmp(graph->params[p].name, "fixed", 5) == 0;
        int32_t both[2] = {parts[0], put(graph, "relu", "bent", NULL, "{}", &parts[1], 1)};
        both[0] = put(graph, "add", "sum1", NULL, "{}", both, 2);
        both[1] = parts[2];
        both[0] = put(graph, "add", "sum2", NULL, "{}", both, 2);
        both[1] = parts[3];
        at = put(graph, "add", "sum3", NULL, "{}", both, 2);
    }
    snprintf(attrs, sizeof attrs, "{\"out\": %d, \"bias\": false}", dim);
    at = put(graph, "linear", "turn", NULL, attrs, &at, 1);
    snprintf(attrs, sizeof attrs, "{\"out\": %d, \"bias\": false}", VOCAB);
    at = put(graph, "linear", "head", m == TIED ? "table" : NULL, attrs, &at, 1);
    put(graph, "l1", "loss", NULL, "{}", (int32_t[2]){at, f->y}, 2);
    return graph;
}

/* --- ranks --- */

/* What each rank has posted for each sum, and what it then receives. */
typedef struct exchange {
    const clt_realized *realized;
    int ranks, rank;
    bool last; /* the rank's last micro-batch: posts count */
    void *given[MAX_RANKS][MAX_SUMS];
    int waits;
} exchange;

static uint64_t bytes_of(const clt_plan *plan, int32_t tensor)
{
    const clt_tensor *t = clt_graph_tensor(plan->graph, tensor);
    return (uint64_t)clt_shape_elements(&t->shape) * clt_dtype_bytes(t->dtype);
}

static int32_t given_tensor(const clt_sum *sum)
{
    return clt_sum_of_rows(sum) ? sum->own : sum->tensor;
}

static float wide(const clt_tensor *t, const void *data, int64_t i)
{
    uint16_t bits;
    if (t->dtype == CLT_F32)
        return ((const float *)data)[i];
    memcpy(&bits, (const char *)data + 2 * i, sizeof bits);
    return t->dtype == CLT_BF16 ? clt_bf16_to_f32(bits) : clt_f16_to_f32(bits);
}

static void narrow(const clt_tensor *t, void *data, int64_t i, float value)
{
    uint16_t bits = t->dtype == CLT_BF16 ? clt_f32_to_bf16(value) : clt_f32_to_f16(value);
    if (t->dtype == CLT_F32)
        ((float *)data)[i] = value;
    else
        memcpy((char *)data + 2 * i, &bits, sizeof bits);
    if (isfinite(value) && wide(t, data, i) != value) /* between parameters lies NaN */
        fail_msg("%g is not exact in %s: the test needs smaller numbers", (double)value,
                 clt_dtype_name(t->dtype));
}

static void take(const exchange *x, size_t k)
{
    const clt_plan *plan = x->realized->plan;
    const clt_sum *sum = &plan->sums[k];
    const clt_tensor *t = clt_graph_tensor(plan->graph, sum->tensor);
    uint64_t bytes = bytes_of(plan, sum->tensor), own = bytes_of(plan, given_tensor(sum));
    char *all = malloc(bytes);
    assert_non_null(all);
    if (clt_sum_of_rows(sum)) {
        assert_int_equal(bytes, own * (uint64_t)x->ranks);
        for (int r = 0; r < x->ranks; r++)
            memcpy(all + (uint64_t)r * own, x->given[r][k], own);
    } else {
        for (int64_t i = 0; i < clt_shape_elements(&t->shape); i++) {
            float value = 0;
            for (int r = 0; r < x->ranks; r++)
                value += wide(t, x->given[r][k], i);
            narrow(t, all, i, value);
        }
    }
    must(clt_realized_write(x->realized, sum->tensor, all), "what was summed");
    free(all);
}

/* A rank's part of a sum of rows is read at some time before the wait: until then no command may overwrite
 * it. */
static void check_given(const exchange *x, size_t k)
{
    const clt_sum *sum = &x->realized->plan->sums[k];
    uint64_t bytes = bytes_of(x->realized->plan, given_tensor(sum));
    CLT_FREED void *now = malloc(bytes);
    assert_non_null(now);
    must(clt_realized_read(x->realized, given_tensor(sum), now), "rows");
    if (clt_sum_of_rows(sum) && memcmp(now, x->given[x->ranks - 1][k], bytes) != 0)
        fail_msg("what sum %zu gives was overwritten before it was waited for", k);
}

static clt_status host(void *context, const ocl_command *command)
{
    exchange *x = context;
    size_t k = command->args[1].value.u32;
    const clt_realized *r = x->realized;
    if (!x->last)
        return CLT_OK;
    const clt_sum *sum = &r->plan->sums[k];
    must(ocl_finish(device, OCL_QUEUE_COMPUTE), "finish");
    if (command->host_code == CLT_HOST_WAIT) {
        check_given(x, k);
        take(x, k);
        x->waits++;
        return CLT_OK;
    }
    must(ocl_exec_run_range(r->exec, r->first[CLT_PHASE_SEND] + sum->send_first,
                            r->first[CLT_PHASE_SEND] + sum->send_last, NULL),
         "send");
    must(ocl_finish(device, OCL_QUEUE_COMPUTE), "finish");
    uint64_t bytes = bytes_of(r->plan, given_tensor(sum));
    assert_null(x->given[x->rank][k]);
    x->given[x->rank][k] = malloc(bytes);
    assert_non_null(x->given[x->rank][k]);
    must(clt_realized_read(r, given_tensor(sum), x->given[x->rank][k]), "what was posted");
    if (clt_sum_of_rows(sum)) { /* from now on what arrives may be written */
        uint64_t all = bytes_of(r->plan, sum->tensor);
        CLT_FREED void *nans = malloc(all);
        assert_non_null(nans);
        memset(nans, 0xff, all);
        must(clt_realized_write(r, sum->tensor, nans), "NaNs");
    }
    return CLT_OK;
}

/* --- data --- */

static void put_params(const clt_graph *graph, clt_store *store)
{
    for (size_t p = 0; p < graph->n_params; p++) {
        const clt_store_slot *slot = &store->layout->slots[p];
        CLT_FREED float *values = malloc(slot->elements * sizeof *values);
        assert_non_null(values);
        for (uint64_t i = 0; i < slot->elements; i++) /* most are 0, so that sums stay small */
            values[i] = (float)(i * 7 % 11 == p) - (float)(i * 5 % 13 == 1);
        must(clt_store_write(store, CLT_ARENA_PARAM, slot, values), slot->name);
    }
}

/* Uploads tokens, some of which occur several times, also on several ranks. */
static void upload(const clt_realized *r, const fields *f, int micro)
{
    int32_t x[BATCH * POSITIONS];
    float y[BATCH * POSITIONS * VOCAB];
    clt_step_block step = {.micro = (uint32_t)micro, .sample_lo = (uint32_t)(BATCH * micro), .valid = BATCH};
    for (int i = 0; i < 16; i++)
        step.norm[i] = 1;
    for (int i = 0; i < BATCH * POSITIONS; i++)
        x[i] = i % 4 == 1 ? 3 : (i * 17 + micro * 5) % VOCAB;
    for (int i = 0; i < BATCH * POSITIONS * VOCAB; i++)
        y[i] = (float)((i * 3 + micro) % 5 - 2) + 0.5f;
    must(clt_realized_write(r, f->x, x), "x");
    must(clt_realized_write(r, f->y, y), "y");
    must(clt_realized_write(r, r->plan->graph->step, &step), "step block");
}

static void fill_nan(ocl_buffer *buffer)
{
    size_t bytes = buffer ? ocl_buffer_bytes(buffer) : 0;
    CLT_FREED void *nans = malloc(bytes + 1);
    assert_non_null(nans);
    memset(nans, 0xff, bytes);
    if (bytes)
        must(ocl_write(buffer, 0, nans, bytes), "NaNs");
}

static void fill_gradients(const clt_store *store)
{
    for (int32_t s = 0; s < store->layout->n_slabs; s++) {
        fill_nan(store->slab[CLT_ARENA_GRAD][s]);
        fill_nan(store->slab[CLT_ARENA_WIRE][s]);
    }
}

/* --- a step --- */

typedef struct form {
    model model;
    int ranks;
    int micro[MAX_RANKS]; /* number of micro-batches on each rank */
    clt_dtype wire;
    bool no_fuse;
    clt_recompute recompute;
} form;

typedef struct outcome {
    float *values; /* gradients of all trained parameters */
    size_t n;
    size_t rows, gradients; /* number of such sums */
    uint64_t summed;        /* elements of gradients that are summed */
} outcome;

static clt_plan *plan_of(const form *f, clt_graph *graph, clt_embeddings embeddings)
{
    clt_plan_options options = {.mode = CLT_PLAN_TRAIN,
                                .accumulation = f->micro[0],
                                .ranks = f->ranks,
                                .update = {.optimizer = &clt_optimizer_sgd, .schedule_entries = 1},
                                .wire = f->wire,
                                .buckets = {64 << 10, 64 << 10},
                                .embeddings = embeddings,
                                .no_fuse = f->no_fuse,
                                .recompute = f->recompute};
    clt_plan *plan;
    must(clt_plan_compute(graph, ocl_device_describe(device), &options, &plan), "plan");
    return plan;
}

static void collect(const clt_store *store, const clt_plan *plan, outcome *o)
{
    for (int32_t p = 0; p < store->layout->n_slots; p++) {
        const clt_store_slot *slot = &store->layout->slots[p];
        if (!slot->trainable)
            continue;
        o->values = realloc(o->values, (o->n + slot->elements) * sizeof *o->values);
        assert_non_null(o->values);
        must(clt_store_read(store, CLT_ARENA_GRAD, slot, o->values + o->n), slot->name);
        o->n += slot->elements;
    }
    for (size_t k = 0; k < plan->n_sums; k++) {
        bool gradients = plan->sums[k].kind == CLT_SUM_GRADIENTS;
        o->rows += plan->sums[k].kind == CLT_SUM_ROWS;
        o->gradients += gradients;
        if (gradients)
            o->summed +=
                (uint64_t)clt_shape_elements(&clt_graph_tensor(plan->graph, plan->sums[k].tensor)->shape);
    }
}

/* Runs the backward passes of one rank, up to its first wait. */
static void run_rank(exchange *x, clt_realized *r, const form *f, const fields *in, clt_slab_pool *pool)
{
    int first = 0;
    for (int k = 0; k < x->rank; k++)
        first += f->micro[k];
    fill_gradients(r->store);
    for (int micro = 0; micro < f->micro[x->rank]; micro++) {
        x->last = micro + 1 == f->micro[x->rank];
        for (int32_t s = 0; s < pool->n_slabs; s++)
            fill_nan(pool->slab[s]);
        upload(r, in, first + micro);
        must(clt_realized_run(r, CLT_PHASE_FORWARD), "forward");
        must(clt_realized_run(r, clt_plan_backward(r->plan, micro)), "backward");
        if (!x->last)
            must(clt_realized_run(r, CLT_PHASE_ROWS), "rows");
        must(ocl_finish(device, OCL_QUEUE_COMPUTE), "finish");
    }
}

static outcome run(const form *f, clt_embeddings embeddings)
{
    outcome o = {0};
    fields in;
    exchange x = {.ranks = f->ranks};
    clt_plan *plan = plan_of(f, make_graph(f->model, DIM, &in), embeddings);
    clt_realize_options options = {.phases = ~(1u << CLT_PHASE_UPDATE) & ((1u << CLT_PHASE_COUNT) - 1),
                                   .host = host,
                                   .host_context = &x};
    clt_realized *r;
    clt_store *store;
    assert_true(plan->n_sums <= MAX_SUMS);
    must(clt_store_create(device, plan->store, true, &store), "store");
    const clt_plan *plans[] = {plan};
    must(clt_pool_create(device, plans, 1, &options.pool), "pool");
    options.store = store;
    must(clt_plan_realize(plan, device, &options, &r), "realise");
    x.realized = r;
    put_params(plan->graph, store);
    for (x.rank = 0; x.rank < f->ranks; x.rank++)
        run_rank(&x, r, f, &in, options.pool);
    fill_gradients(store);
    must(clt_realized_run(r, CLT_PHASE_SYNC), "sync");
    must(ocl_finish(device, OCL_QUEUE_COMPUTE), "finish");
    assert_int_equal(x.waits, plan->n_sums - plan->n_gathered);
    collect(store, plan, &o);
    clt_realized_destroy(r);
    clt_pool_destroy(options.pool);
    clt_store_destroy(store);
    clt_plan_destroy(plan);
    for (int k = 0; k < MAX_RANKS; k++)
        for (int s = 0; s < MAX_SUMS; s++)
            free(x.given[k][s]);
    return o;
}

/* --- tests --- */

static void check(const form *f)
{
    outcome dense = run(f, CLT_EMBEDDINGS_DENSE), rows = run(f, CLT_EMBEDDINGS_ROWS);
    float largest = 0;
    assert_int_equal(dense.n, rows.n);
    for (size_t i = 0; i < dense.n; i++) {
        largest = fmaxf(largest, fabsf(dense.values[i]));
        if (dense.values[i] != rows.values[i] || !isfinite(rows.values[i]))
            fail_msg("%s, %d ranks, %d micro-batches, %s: element %zu is %g, not %g", model_names[f->model],
                     f->ranks, f->micro[0], clt_dtype_name(f->wire), i, (double)rows.values[i],
                     (double)dense.values[i]);
    }
    assert_true(largest >= 4 && largest == floorf(largest));
    assert_int_equal(dense.rows, 0);
    assert_int_equal(rows.rows, f->model == TWICE ? 3 : 1);
    free(dense.values);
    free(rows.values);
}

static const int shares[][MAX_RANKS] = {{1, 1, 0}, {1, 1, 1}, {2, 2, 0}, {2, 1, 1}, {3, 2, 2}};

TEST(test_equals_whole_tables)
{
    for (int m = 0; m < MODELS; m++)
        for (size_t s = 0; s < sizeof shares / sizeof shares[0]; s++) {
            form f = {.model = (model)m, .ranks = shares[s][2] ? 3 : 2, .wire = CLT_F32};
            memcpy(f.micro, shares[s], sizeof f.micro);
            check(&f);
        }
}

TEST(test_forms_of_plans)
{
    for (int m = 0; m < MODELS; m++)
        for (int k = 0; k < 4; k++) {
            form f = {.model = (model)m,
                      .ranks = 2,
                      .micro = {k % 2 + 1, 1},
                      .wire = k < 2   ? CLT_BF16
                              : k < 3 ? CLT_F16
                                      : CLT_F32,
                      .no_fuse = k == 3,
                      .recompute = k == 3 ? CLT_RECOMPUTE_BLOCK : CLT_RECOMPUTE_NONE};
            check(&f);
        }
}

/* A table whose whole gradient comes from rows is not summed, if no rank has an earlier micro-batch. */
TEST(test_what_is_summed)
{
    for (int micro = 1; micro <= 2; micro++)
        for (int m = 0; m < 2; m++) {
            form f = {.model = (model)m, .ranks = 2, .micro = {micro, micro}, .wire = CLT_F32};
            outcome dense = run(&f, CLT_EMBEDDINGS_DENSE), rows = run(&f, CLT_EMBEDDINGS_ROWS);
            if (m == UNTIED && micro == 1)
                assert_true(rows.summed < dense.summed);
            else
                assert_int_equal(rows.summed, dense.summed);
            free(dense.values);
            free(rows.values);
        }
}

/* The memory that all ranks' rows and indices pass through is counted. */
TEST(test_memory)
{
    const clt_embeddings kinds[2] = {CLT_EMBEDDINGS_DENSE, CLT_EMBEDDINGS_ROWS};
    uint64_t copied[2];
    for (int k = 0; k < 2; k++) {
        fields in;
        form f = {.model = TIED, .ranks = 3, .micro = {1, 1, 1}, .wire = CLT_F32};
        CLT_SCOPED(clt_plan) *plan = plan_of(&f, make_graph(TIED, DIM, &in), kinds[k]);
        clt_memory_report r = clt_plan_memory(plan, NULL);
        copied[k] = r.host + r.staging;
    }
    assert_int_equal(copied[1] - copied[0], 3 * BATCH * POSITIONS * (DIM * sizeof(float) + sizeof(int32_t)));
}

/* auto chooses rows if all ranks together have at most as many positions as the table has rows, or a
 * quarter of that if the table is summed as well. */
TEST(test_automatic)
{
    int taken[3] = {0};
    for (int kind = 0; kind < 3; kind++)
        for (int ranks = 2; ranks <= 8; ranks++) {
            fields in;
            int table = kind == 0 ? TIED : UNTIED, most = kind == 1 ? VOCAB : VOCAB / 4;
            form f = {.model = table, .ranks = ranks, .micro = {kind == 2 ? 2 : 1}, .wire = CLT_F32};
            CLT_SCOPED(clt_plan) *plan = plan_of(&f, make_graph(table, DIM, &in), CLT_EMBEDDINGS_AUTO);
            bool rows = plan->phase[CLT_PHASE_ROWS].count > 0;
            assert_int_equal(rows, ranks * BATCH * POSITIONS <= most);
            taken[kind] += rows;
        }
    assert_true(taken[1] > 0 && taken[1] < 7);
    fields in;
    form one = {.model = TIED, .ranks = 1, .micro = {2}};
    clt_plan *plan = plan_of(&one, make_graph(TIED, DIM, &in), CLT_EMBEDDINGS_ROWS);
    assert_int_equal(plan->phase[CLT_PHASE_ROWS].count, 0);
    clt_plan_destroy(plan);
}

/* Gives the argument's range in the gradient arena; false: the argument is not a gradient. */
static bool gradients_of(const clt_plan *plan, const ocl_arg *arg, clt_range *out)
{
    const clt_place *place =
        arg->kind == OCL_ARG_TENSOR && arg->ref.tensor >= 0 ? &plan->place[arg->ref.tensor] : NULL;
    if (!place || place->kind != CLT_PLACE_STORE || place->arena != CLT_ARENA_GRAD)
        return false;
    *out = (clt_range){place->slab, place->offset, place->bytes};
    return true;
}

static bool overlap(const clt_range *a, const clt_range *b)
{
    return a->slab == b->slab && a->first < b->first + b->elements && b->first < a->first + a->elements;
}

/* The norm reads complete gradients: no command writes to them afterwards. */
TEST(test_norm_comes_behind_rows)
{
    for (int m = 0; m < MODELS; m++) {
        fields in;
        form f = {.model = (model)m, .ranks = 2, .micro = {1, 1}, .wire = CLT_F32};
        CLT_SCOPED(clt_plan) *plan = plan_of(&f, make_graph(f.model, 1000, &in), CLT_EMBEDDINGS_ROWS);
        const ocl_command_list *list = &plan->phase[CLT_PHASE_SYNC];
        clt_range read, written;
        size_t norms = 0;
        for (size_t c = 0; c < list->count; c++) {
            bool norm = strcmp(list->commands[c].label, "update.norm") == 0;
            norms += norm;
            for (int a = 0; norm && a < list->commands[c].n_args; a++)
                for (size_t d = c + 1;
                     d < list->count && gradients_of(plan, &list->commands[c].args[a], &read); d++)
                    for (int b = 0; b < list->commands[d].n_args; b++)
                        if ((list->commands[d].args[b].access & OCL_WRITE) &&
                            gradients_of(plan, &list->commands[d].args[b], &written) &&
                            overlap(&read, &written))
                            fail_msg("%s: command %zu changes what the norm has read", model_names[m], d);
        }
        assert_int_equal(norms, plan->n_buckets);
        assert_true(norms > 1);
    }
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
