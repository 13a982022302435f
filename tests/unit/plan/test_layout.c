/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts of tensors: ops that want another order than row-major get it, by exactly one transposition for
 * each tensor that needs one, and the results have the same bits. The test makes such an op from one that
 * works on single elements; no op of the product wants another order yet.
 * ctest-labels: quick */
#include "tests/unit/test.h"

#include "cl/device/device.h"
#include "engine/base/rng.h"
#include "engine/ops/node.h"
#include "engine/plan/realize.h"
#include "engine/state/store.h"

#define BATCH 4
#define SEED 3

static ocl_device *device;

static clt_layout wants_last(const clt_node *node, const ocl_device_desc *desc)
{
    (void)node;
    (void)desc;
    return CLT_LAYOUT_CHANNELS_LAST;
}

static int32_t put(clt_graph *graph, const char *op, const char *name, const char *attrs, int32_t a,
                   int32_t b)
{
    const int32_t in[2] = {a, b};
    clt_node *node;
    must(clt_graph_add_text(graph, op, name, attrs, in, b < 0 ? 1 : 2, &node), name);
    return node->n_out ? node->out[0] : -1;
}

/* A `scale` that wants channels last or, if not `turned`, an ordinary one. */
static int32_t put_scale(clt_graph *graph, const char *name, const char *attrs, int32_t a, bool turned)
{
    static clt_op wishing;
    int32_t out = put(graph, "scale", name, attrs, a, -1);
    wishing = *clt_op_find("scale");
    wishing.layout = wants_last;
    if (turned)
        clt_graph_find(graph, name)->op = &wishing;
    return out;
}

typedef struct net {
    clt_graph *graph;
    int32_t x, y, output;
} net;

/* stem is transposed once for two readers, and left and the sum of two transposed tensors take its layout.
 * An output among them is transposed back, and so is the sum for flatten. */
static net make_net(bool turned)
{
    net n;
    clt_shape image = clt_shape3(4, 6, 5), none = {.ndim = 0};
    must(clt_graph_create(BATCH, &n.graph), "graph");
    must(clt_graph_field(n.graph, "x", CLT_F32, &image, &n.x), "x");
    must(clt_graph_field(n.graph, "y", CLT_I32, &none, &n.y), "y");
    int32_t stem =
        put(n.graph, "tanh", "stem", NULL, put(n.graph, "linear", "fc1", "{\"out\":8}", n.x, -1), -1);
    int32_t left =
        put(n.graph, "gelu", "left", NULL, put_scale(n.graph, "a", "{\"value\":1.25}", stem, turned), -1);
    n.output = put_scale(n.graph, "b", "{\"value\":-0.75}", left, turned);
    clt_graph_tensor(n.graph, n.output)->is_output = true;
    int32_t right = put_scale(n.graph, "c", "{\"value\":0.5}", stem, turned);
    int32_t sum = put(n.graph, "add", "sum", NULL, n.output, right);
    int32_t logits =
        put(n.graph, "linear", "fc2", "{\"out\":5}", put(n.graph, "flatten", "flat", NULL, sum, -1), -1);
    put(n.graph, "cross_entropy", "loss", NULL, logits, n.y);
    return n;
}

static int transpositions(const clt_plan *plan, clt_phase phase)
{
    int count = 0;
    for (size_t c = 0; c < plan->phase[phase].count; c++)
        count += strncmp(plan->phase[phase].commands[c].kernel, "transpose_", 10) == 0;
    return count;
}

/* The results of a plan: records of the loss, gradients, the output. */
typedef struct outcome {
    size_t n;
    float values[8192];
} outcome;

static float *more(outcome *o, size_t count)
{
    o->n += count;
    assert_true(o->n <= sizeof o->values / sizeof o->values[0]);
    return o->values + o->n - count;
}

static void upload(const clt_realized *r, const net *n)
{
    float x[BATCH * 4 * 6 * 5];
    int32_t y[BATCH] = {0, 4, 2, 1};
    clt_step_block step = {.valid = BATCH};
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = (float)clt_rng_normal(SEED, CLT_RNG_VERIFY, 1, 0, i);
    for (int i = 0; i < 16; i++)
        step.norm[i] = 0.25f;
    must(clt_realized_write(r, n->x, x), "x");
    must(clt_realized_write(r, n->y, y), "y");
    must(clt_realized_write(r, r->plan->graph->step, &step), "step block");
}

static void run(const clt_plan *plan, const net *n, outcome *o)
{
    clt_realize_options options = {0};
    clt_realized *r;
    must(clt_store_create(device, plan->store, true, &options.store), "store");
    must(clt_store_init(options.store, plan->graph, SEED), "parameters");
    must(clt_pool_create(device, &plan, 1, &options.pool), "pool");
    must(clt_plan_realize(plan, device, &options, &r), "realize");
    upload(r, n);
    must(clt_realized_run(r, CLT_PHASE_FORWARD), "forward");
    must(clt_realized_run(r, CLT_PHASE_BACKWARD), "backward");
    must(clt_realized_read(r, plan->losses, more(o, 4)), "losses");
    must(clt_realized_read(r, n->output, more(o, BATCH * 4 * 6 * 8)), "output");
    for (int32_t i = 0; i < plan->store->n_slots; i++) {
        const clt_store_slot *slot = &plan->store->slots[i];
        must(clt_store_read(options.store, CLT_ARENA_GRAD, slot, more(o, slot->elements)), slot->name);
    }
    clt_realized_destroy(r);
    clt_pool_destroy(options.pool);
    clt_store_destroy(options.store);
}

static clt_plan *plan_of(const net *n, bool no_fuse, clt_recompute recompute)
{
    clt_plan_options options = {.mode = CLT_PLAN_TRAIN,
                                .accumulation = 1,
                                .ranks = 1,
                                .update = {.optimizer = &clt_optimizer_sgd, .schedule_entries = 1},
                                .no_fuse = no_fuse,
                                .recompute = recompute};
    clt_plan *plan;
    must(clt_plan_compute(n->graph, ocl_device_describe(device), &options, &plan), "plan");
    return plan;
}

TEST(test_same_bits)
{
    static const clt_recompute tiers[] = {CLT_RECOMPUTE_NONE, CLT_RECOMPUTE_GELU, CLT_RECOMPUTE_BLOCK};
    for (int form = 0; form < 6; form++) {
        CLT_FREED outcome *o = calloc(2, sizeof *o);
        assert_non_null(o);
        for (int turned = 0; turned < 2; turned++) {
            net n = make_net(turned);
            CLT_SCOPED(clt_plan) *plan = plan_of(&n, form % 2, tiers[form / 2]);
            if (form / 2 == 0) {
                assert_int_equal(transpositions(plan, CLT_PHASE_FORWARD), turned ? 3 : 0);
                assert_int_equal(transpositions(plan, CLT_PHASE_BACKWARD), turned ? 2 : 0);
            }
            run(plan, &n, &o[turned]);
        }
        assert_int_equal(o[0].n, o[1].n);
        for (size_t i = 0; i < o[0].n; i++)
            if (memcmp(&o[0].values[i], &o[1].values[i], sizeof(float)) != 0)
                fail_msg("form %d, value %zu: %.9g and %.9g", form, i, (double)o[0].values[i],
                         (double)o[1].values[i]);
    }
}

static const clt_tensor *input_of(const clt_plan *plan, const char *node)
{
    return clt_graph_tensor(plan->graph, clt_graph_find(plan->graph, node)->in[0]);
}

/* The layout of each tensor. */
TEST(test_layouts)
{
    net n = make_net(true);
    CLT_SCOPED(clt_plan) *plan = plan_of(&n, true, CLT_RECOMPUTE_NONE);
    const clt_tensor *a = input_of(plan, "a"), *left = input_of(plan, "left");
    assert_int_equal(a->layout, CLT_LAYOUT_CHANNELS_LAST);
    assert_ptr_equal(a, input_of(plan, "c")); /* turned once */
    assert_int_equal(left->layout, CLT_LAYOUT_CHANNELS_LAST);
    assert_int_equal(input_of(plan, "b")->layout, CLT_LAYOUT_CHANNELS_LAST);
    assert_int_equal(input_of(plan, "sum")->layout, CLT_LAYOUT_CHANNELS_LAST);
    assert_int_equal(input_of(plan, "flat")->layout, CLT_LAYOUT_ROW_MAJOR);
    assert_int_equal(clt_graph_tensor(plan->graph, n.output)->layout, CLT_LAYOUT_ROW_MAJOR);
    assert_int_equal(clt_graph_tensor(plan->graph, plan->gradient[a->id])->layout, CLT_LAYOUT_CHANNELS_LAST);
    clt_shape logical = clt_shape4(BATCH, 4, 6, 8), memory = clt_shape4(BATCH, 6, 8, 4);
    clt_shape got = clt_tensor_memory_shape(a);
    const int64_t to_last[] = {0, 2, 3, 1}, to_rows[] = {0, 3, 1, 2};
    const clt_node *before = plan->graph->nodes[a->producer],
                   *behind = plan->graph->nodes[clt_graph_tensor(plan->graph, n.output)->producer];
    assert_memory_equal(clt_node_attr(before, "perm")->list, to_last, sizeof to_last);
    assert_memory_equal(clt_node_attr(behind, "perm")->list, to_rows, sizeof to_rows);
    assert_true(clt_shape_equal(&a->shape, &logical));
    assert_true(clt_shape_equal(&got, &memory));
}

/* A field that is written, and an output that is read, in the layout that the op wants: neither is
 * transposed. */
TEST(test_set_by_caller)
{
    net n = {.output = -1};
    clt_shape image = clt_shape3(4, 6, 5), none = {.ndim = 0};
    must(clt_graph_create(BATCH, &n.graph), "graph");
    must(clt_graph_field(n.graph, "x", CLT_F32, &image, &n.x), "x");
    must(clt_graph_field(n.graph, "y", CLT_I32, &none, &n.y), "y");
    n.output = put_scale(n.graph, "a", "{\"value\":1.25}", n.x, true);
    clt_graph_tensor(n.graph, n.x)->layout = CLT_LAYOUT_CHANNELS_LAST;
    clt_graph_tensor(n.graph, n.output)->layout = CLT_LAYOUT_CHANNELS_LAST;
    clt_graph_tensor(n.graph, n.output)->is_output = true;
    int32_t logits =
        put(n.graph, "linear", "fc", "{\"out\":5}", put(n.graph, "flatten", "flat", NULL, n.output, -1), -1);
    put(n.graph, "cross_entropy", "loss", NULL, logits, n.y);
    CLT_SCOPED(clt_plan) *plan = plan_of(&n, true, CLT_RECOMPUTE_NONE);
    const clt_node *a = clt_graph_find(plan->graph, "a");
    assert_int_equal(a->in[0], n.x);
    assert_int_equal(a->out[0], n.output);
    assert_int_equal(clt_graph_tensor(plan->graph, n.output)->layout, CLT_LAYOUT_CHANNELS_LAST);
    const clt_tensor *turned = input_of(plan, "flat"), *view = input_of(plan, "fc");
    assert_int_equal(turned->layout, CLT_LAYOUT_ROW_MAJOR);
    assert_int_equal(view->view_of, turned->id); /* so that the turned tensor lives as long as the view */
    assert_int_equal(transpositions(plan, CLT_PHASE_FORWARD), 1); /* for flat */
}

/* A concatenation of channels-last tensors along `axis`; two sums read the parts, too, so that their
 * gradients are added to. */
static net make_joined(const char *axis, bool turned)
{
    net n;
    clt_shape image = clt_shape3(4, 6, 5), none = {.ndim = 0};
    char attrs[32];
    snprintf(attrs, sizeof attrs, "{\"axis\":%s}", axis);
    must(clt_graph_create(BATCH, &n.graph), "graph");
    must(clt_graph_field(n.graph, "x", CLT_F32, &image, &n.x), "x");
    must(clt_graph_field(n.graph, "y", CLT_I32, &none, &n.y), "y");
    int32_t stem = put(n.graph, "linear", "fc1", "{\"out\":8}", n.x, -1);
    int32_t a = put_scale(n.graph, "a", "{\"value\":1.25}", stem, turned);
    int32_t b = put_scale(n.graph, "b", "{\"value\":-0.75}", stem, turned);
    int32_t joined = put(n.graph, "concat", "joined", attrs, a, put(n.graph, "gelu", "act", NULL, b, -1));
    n.output = put_scale(n.graph, "c", "{\"value\":0.5}", a, turned);
    clt_graph_tensor(n.graph, n.output)->is_output = true;
    int32_t left = put(n.graph, "flatten", "flat1", NULL, joined, -1),
            right = put(n.graph, "flatten", "flat2", NULL, n.output, -1);
    int32_t logits = put(n.graph, "add", "sum", NULL, put(n.graph, "linear", "fc2", "{\"out\":5}", left, -1),
                         put(n.graph, "linear", "fc3", "{\"out\":5}", right, -1));
    put(n.graph, "cross_entropy", "loss", NULL, logits, n.y);
    return n;
}

/* Concatenation works in the layout of its inputs, along any dimension: only the first input and the
 * results are transposed. */
TEST(test_concat)
{
    static const char *const axes[] = {"1", "2", "-1"};
    for (int form = 0; form < 6; form++) {
        CLT_FREED outcome *o = calloc(2, sizeof *o);
        assert_non_null(o);
        for (int turned = 0; turned < 2; turned++) {
            net n = make_joined(axes[form / 2], turned);
            CLT_SCOPED(clt_plan) *plan = plan_of(&n, form % 2, CLT_RECOMPUTE_NONE);
            const clt_node *joined = clt_graph_find(plan->graph, "joined");
            assert_int_equal(clt_graph_tensor(plan->graph, joined->out[0])->layout,
                             turned ? CLT_LAYOUT_CHANNELS_LAST : CLT_LAYOUT_ROW_MAJOR);
            assert_int_equal(transpositions(plan, CLT_PHASE_FORWARD), turned ? 3 : 0);
            assert_int_equal(transpositions(plan, CLT_PHASE_BACKWARD), turned ? 3 : 0);
            run(plan, &n, &o[turned]);
        }
        assert_int_equal(o[0].n, o[1].n);
        for (size_t i = 0; i < o[0].n; i++)
            if (memcmp(&o[0].values[i], &o[1].values[i], sizeof(float)) != 0)
                fail_msg("axis %s, form %d, value %zu: %.9g and %.9g", axes[form / 2], form % 2, i,
                         (double)o[0].values[i], (double)o[1].values[i]);
    }
}

/* If no op wants another layout, the graph does not change. */
TEST(test_no_wish)
{
    net n = make_net(false);
    size_t nodes = n.graph->n_nodes;
    CLT_SCOPED(clt_plan) *plan = plan_of(&n, true, CLT_RECOMPUTE_NONE);
    assert_int_equal(plan->graph->n_nodes, nodes);
    for (size_t i = 0; i < plan->graph->n_tensors; i++)
        assert_int_equal(clt_graph_tensor(plan->graph, (int32_t)i)->layout, CLT_LAYOUT_ROW_MAJOR);
}

FIXTURE(setup)
{
    ocl_open_options options = {.caps_mask = OCL_CAPS_ALL};
    return ocl_device_open(&options, &device) == CLT_OK ? 0 : -1;
}

FIXTURE(teardown)
{
    ocl_device_close(device);
    return 0;
}

TEST_PROGRAM(.device = true, .set_up = setup, .tear_down = teardown);
