/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans, judged from their commands' own reads and writes: the lower bound of activation memory and who lives
 * when are worked out again here, without the planner's lifetimes. Also purity, pruning, gradient modes,
 * slabs, refusals, and the order of the store. No device takes part: main() hides every OpenCL driver first.
 * ctest-labels: quick */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/plan.h"

#define MAX_COMMANDS 4096

/* --- nets --- */

typedef struct net {
    clt_graph *graph;
    int32_t at, x, y;
} net;

static void must(clt_status status, const char *what)
{
    if (status != CLT_OK)
        fail_msg("%s: %s: %s", what, clt_status_name(status), clt_error_text());
}

static net net_make(int64_t batch, int64_t features)
{
    net n = {0};
    clt_shape x = clt_shape1(features), y = {.ndim = 0};
    must(clt_graph_create(batch, &n.graph), "graph");
    must(clt_graph_field(n.graph, "x", CLT_F32, &x, &n.x), "field");
    must(clt_graph_field(n.graph, "y", CLT_I32, &y, &n.y), "field");
    n.at = n.x;
    return n;
}

static int32_t put2(net *n, const char *op, const char *name, const char *attrs, int32_t a, int32_t b)
{
    int32_t in[2] = {a, b};
    clt_node *node;
    must(clt_graph_add_text(n->graph, op, name, attrs, in, b < 0 ? 1 : 2, &node), name);
    return n->at = node->n_out > 0 ? node->out[0] : -1;
}

static int32_t put(net *n, const char *op, const char *name, const char *attrs)
{
    return put2(n, op, name, attrs, n->at, -1);
}

static int32_t put_linear(net *n, const char *name, int out)
{
    char attrs[64];
    snprintf(attrs, sizeof attrs, "{\"out\": %d}", out);
    return put(n, "linear", name, attrs);
}

static void put_loss(net *n)
{
    put2(n, "cross_entropy", "loss", NULL, n->at, n->y);
}

static clt_graph *net_deep(void)
{
    static const int widths[] = {300, 220, 410, 128, 300, 77, 256, 190};
    net n = net_make(64, 200);
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "fc%d", i);
        put_linear(&n, name, widths[i]);
        snprintf(name, sizeof name, "act%d", i);
        put(&n, i % 2 ? "tanh" : "gelu", name, NULL);
    }
    put_linear(&n, "head", 10);
    put_loss(&n);
    return n.graph;
}

static clt_graph *net_residual(void)
{
    net n = net_make(96, 60);
    int32_t sum = put_linear(&n, "stem", 160);
    for (int i = 0; i < 5; i++) {
        char name[4][16];
        static const char *const words[4] = {"norm", "wide", "act", "narrow"};
        for (int k = 0; k < 4; k++)
            snprintf(name[k], sizeof name[k], "%s%d", words[k], i);
        put(&n, "layernorm", name[0], NULL);
        put_linear(&n, name[1], 320);
        put(&n, "gelu", name[2], NULL);
        put_linear(&n, name[3], 160);
        snprintf(name[0], sizeof name[0], "sum%d", i);
        sum = put2(&n, "add", name[0], NULL, sum, n.at);
    }
    put_linear(&n, "head", 10);
    put_loss(&n);
    return n.graph;
}

static clt_graph *net_branches(void)
{
    net n = net_make(120, 90);
    int32_t stem = put_linear(&n, "stem", 240), branch[4];
    for (int i = 0; i < 4; i++) {
        char name[16];
        n.at = stem;
        snprintf(name, sizeof name, "branch%d", i);
        put_linear(&n, name, 60 + 50 * i);
        snprintf(name, sizeof name, "bend%d", i);
        branch[i] = put(&n, i % 2 ? "silu" : "relu", name, NULL);
        if (i == 2)
            branch[i] = put(&n, "reshape", "view", "{\"shape\": [160]}");
    }
    clt_node *node;
    must(clt_graph_add_text(n.graph, "concat", "joined", NULL, branch, 4, &node), "concat");
    n.at = node->out[0];
    put(&n, "layernorm", "norm", NULL);
    int32_t wide = put_linear(&n, "wide", 300);
    put(&n, "slice", "part", "{\"axis\": -1, \"start\": 30, \"stop\": 270}");
    put2(&n, "multiply", "gated", NULL, n.at, stem);
    int32_t gated = n.at;
    n.at = wide;
    put(&n, "dropout", "drop", "{\"p\": 0.25}");
    put_linear(&n, "back", 240);
    put2(&n, "add", "merged", NULL, n.at, gated);
    put_linear(&n, "head", 10);
    put_loss(&n);
    return n.graph;
}

typedef clt_graph *(*net_maker)(void);
static const net_maker makers[] = {net_deep, net_residual, net_branches};
#define N_NETS (sizeof makers / sizeof makers[0])

static clt_plan_options train_options(int accumulation)
{
    clt_plan_options o = {.mode = CLT_PLAN_TRAIN, .accumulation = accumulation, .ranks = 1};
    o.update.type = CLT_OPT_ADAMW;
    o.update.schedule_entries = 100;
    o.update.beta1 = 0.9;
    o.update.beta2 = 0.99;
    return o;
}

static ocl_device_desc small_alignment(void)
{
    ocl_device_desc desc;
    ocl_desc_generic(&desc);
    desc.align_bytes = 64;
    return desc;
}

static clt_plan *plan_of(clt_graph *graph, const ocl_device_desc *desc, const clt_plan_options *options)
{
    clt_plan *plan;
    must(clt_plan_compute(graph, desc, options, &plan), "plan");
    return plan;
}

/* --- one step as a list of commands, and who lives when --- */

typedef struct step {
    const clt_plan *plan;
    const ocl_command *commands[MAX_COMMANDS];
    size_t n;
    size_t *first, *last; /* by tensor that owns bytes; SIZE_MAX: no command touches it */
} step;

static int32_t owner_of(const clt_plan *plan, int32_t tensor)
{
    const clt_tensor *t = clt_graph_tensor(plan->graph, tensor);
    for (size_t hops = 0; t->view_of >= 0; hops++) {
        assert_true(hops < plan->graph->n_tensors);
        t = clt_graph_tensor(plan->graph, t->view_of);
    }
    return t->id;
}

static bool is_tensor(const ocl_arg *arg)
{
    return arg->kind == OCL_ARG_TENSOR && arg->ref.tensor >= 0;
}

static bool is_input(const clt_tensor *t)
{
    return t->cls == CLT_TC_FIELD || t->cls == CLT_TC_STEP;
}

/* The plan's own memory, without the input region. */
static bool in_slabs(const step *s, size_t tensor)
{
    const clt_tensor *t = clt_graph_tensor(s->plan->graph, (int32_t)tensor);
    return s->first[tensor] != SIZE_MAX && t->view_of < 0 && s->plan->place[tensor].kind == CLT_PLACE_PLAN &&
           !is_input(t);
}

static uint64_t bytes_of(const clt_plan *plan, size_t tensor)
{
    const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)tensor);
    return (uint64_t)clt_shape_elements(&t->shape) * clt_dtype_bytes(t->dtype);
}

/* add: the later micro-batches' form of the backward phase. */
static step *step_make(const clt_plan *plan, bool add)
{
    const clt_phase order[3] = {CLT_PHASE_FORWARD, add ? CLT_PHASE_BACKWARD_ADD : CLT_PHASE_BACKWARD,
                                CLT_PHASE_UPDATE};
    size_t tensors = plan->graph->n_tensors;
    step *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->plan = plan;
    s->first = malloc(tensors * sizeof *s->first);
    s->last = calloc(tensors, sizeof *s->last);
    assert_true(s->first && s->last);
    for (size_t i = 0; i < tensors; i++)
        s->first[i] = SIZE_MAX;
    for (int p = 0; p < 3; p++)
        for (size_t c = 0; c < plan->phase[order[p]].count; c++) {
            const ocl_command *command = &plan->phase[order[p]].commands[c];
            assert_true(s->n < MAX_COMMANDS);
            for (int a = 0; a < command->n_args; a++) {
                if (!is_tensor(&command->args[a]))
                    continue;
                int32_t owner = owner_of(plan, command->args[a].ref.tensor);
                if (s->first[owner] == SIZE_MAX)
                    s->first[owner] = s->n;
                s->last[owner] = s->n;
            }
            s->commands[s->n++] = command;
        }
    for (size_t i = 0; i < tensors; i++)
        if (clt_graph_tensor(plan->graph, (int32_t)i)->is_output)
            s->last[owner_of(plan, (int32_t)i)] = s->n;
    return s;
}

static void step_free(step *s)
{
    free(s->first);
    free(s->last);
    free(s);
}

/* Bytes that no placement can do without. */
static uint64_t lower_bound(const step *s)
{
    uint64_t bound = 0;
    for (size_t c = 0; c < s->n; c++) {
        uint64_t live = 0;
        for (size_t i = 0; i < s->plan->graph->n_tensors; i++)
            if (in_slabs(s, i) && s->first[i] <= c && c <= s->last[i])
                live += bytes_of(s->plan, i);
        bound = live > bound ? live : bound;
    }
    return bound;
}

static void check_places(const step *s, uint64_t max_alloc)
{
    const clt_plan *plan = s->plan;
    for (size_t i = 0; i < plan->graph->n_tensors; i++) {
        const clt_place *a = &plan->place[i];
        const char *name = clt_graph_tensor(plan->graph, (int32_t)i)->name;
        if (!in_slabs(s, i))
            continue;
        assert_true(a->bytes >= bytes_of(plan, i));
        assert_int_equal(a->offset % plan->device.align_bytes, 0);
        assert_in_range(a->slab, 0, plan->n_slabs - 1);
        if (a->offset + a->bytes > plan->slab_bytes[a->slab] || plan->slab_bytes[a->slab] > max_alloc)
            fail_msg("'%s' leaves its slab, or the slab is too large", name);
        if (a->slab == 0 && a->offset < plan->input_bytes)
            fail_msg("'%s' lies in the input region", name);
        for (size_t j = 0; j < i; j++) {
            const clt_place *b = &plan->place[j];
            bool together = in_slabs(s, j) && a->slab == b->slab && s->first[i] <= s->last[j] &&
                            s->first[j] <= s->last[i];
            if (together && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                fail_msg("'%s' and '%s' live at the same time and overlap", name,
                         clt_graph_tensor(plan->graph, (int32_t)j)->name);
        }
    }
}

/* Nothing is read before something wrote it; a gradient is first written, then only added to. */
static void check_order(const step *s, bool add)
{
    const clt_plan *plan = s->plan;
    bool *written = calloc(plan->graph->n_tensors, sizeof *written);
    bool *as_gradient = calloc(plan->graph->n_tensors, sizeof *as_gradient); /* may lie over what it is of */
    assert_true(written && as_gradient);
    for (size_t c = 0; c < s->n; c++) {
        const ocl_command *command = s->commands[c];
        for (int pass = 0; pass < 2; pass++) /* a command reads before it writes */
            for (int a = 0; a < command->n_args; a++) {
                const ocl_arg *arg = &command->args[a];
                if (!is_tensor(arg))
                    continue;
                const clt_tensor *t = clt_graph_tensor(plan->graph, arg->ref.tensor);
                int32_t owner = owner_of(plan, t->id);
                bool own_grad = t->cls == CLT_TC_PARAM_GRAD && t->param >= 0;
                bool plan_made =
                    plan->place[owner].kind == CLT_PLACE_PLAN && !is_input(t) && owner != plan->losses;
                if (pass == 0 && (arg->access & OCL_READ) && (plan_made || (own_grad && !add)) &&
                    !written[owner])
                    fail_msg("'%s' (%s) reads '%s', which nothing wrote", command->label, command->kernel,
                             t->name);
                if (pass == 0 && own_grad && add && arg->access == OCL_WRITE)
                    fail_msg("'%s' overwrites '%s' in a later micro-batch", command->label, t->name);
                if (pass == 0 && (t->cls == CLT_TC_GRADIENT || (own_grad && !add)) && as_gradient[owner] &&
                    arg->access == OCL_WRITE)
                    fail_msg("'%s' overwrites the gradient '%s'", command->label, t->name);
                if (pass == 1 && (arg->access & OCL_WRITE)) {
                    written[owner] = true;
                    as_gradient[owner] |= t->cls == CLT_TC_GRADIENT || own_grad;
                }
            }
    }
    free(as_gradient);
    free(written);
}

/* Everything that holds for any plan; returns the larger bound of the two forms of a step. */
static uint64_t check_plan(const clt_plan *plan, uint64_t max_alloc)
{
    uint64_t bound = 0, slabs = 0;
    for (int add = 0; add <= (plan->options.mode == CLT_PLAN_TRAIN && plan->options.accumulation > 1);
         add++) {
        step *s = step_make(plan, add != 0);
        uint64_t own = lower_bound(s);
        bound = own > bound ? own : bound;
        check_places(s, max_alloc);
        check_order(s, add != 0);
        step_free(s);
    }
    for (int32_t i = 0; i < plan->n_slabs; i++)
        slabs += plan->slab_bytes[i];
    assert_int_equal(slabs, plan->input_bytes + plan->activation_bytes);
    assert_true(bound <=
                plan->activation_bytes); /* a plan below the bound would be wrong, or the bound would be */
    return bound;
}

/* --- tests --- */

static void test_no_device(void **state)
{
    (void)state;
    ocl_device_desc *list = NULL;
    int count = 0;
    assert_int_equal(ocl_list_devices(&list, &count), CLT_EDEVICE);
}

static void test_memory_bound(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NETS; i++)
        for (int form = 0; form < 4; form++) {
            ocl_device_desc desc = small_alignment();
            clt_plan_options options = train_options(form & 1 ? 3 : 1);
            options.no_fuse = (form & 2) != 0;
            clt_plan *plan = plan_of(makers[i](), &desc, &options);
            uint64_t bound = check_plan(plan, desc.max_alloc_bytes);
            assert_true(bound > 200000);
            if (plan->activation_bytes * 10 > bound * 11)
                fail_msg("net %zu: %llu bytes for activations, the lower bound is %llu", i,
                         (unsigned long long)plan->activation_bytes, (unsigned long long)bound);
            assert_int_equal(plan->activation_bound, bound);
            clt_plan_destroy(plan);
        }
}

/* Sharing memory is what is tested above: without it the same tensors would need more. */
static void test_memory_is_shared(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NETS; i++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(1);
        clt_plan *plan = plan_of(makers[i](), &desc, &options);
        step *s = step_make(plan, false);
        uint64_t all = 0;
        for (size_t t = 0; t < plan->graph->n_tensors; t++)
            all += in_slabs(s, t) ? bytes_of(plan, t) : 0;
        assert_true(plan->activation_bytes * 4 < all * 3);
        step_free(s);
        clt_plan_destroy(plan);
    }
}

static void test_eval_plan(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NETS; i++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(1);
        clt_plan *train = plan_of(makers[i](), &desc, &options);
        options =
            (clt_plan_options){.mode = CLT_PLAN_EVAL, .accumulation = 1, .ranks = 1, .layout = train->layout};
        clt_graph *graph = makers[i]();
        int32_t prediction = graph->nodes[graph->losses[0].node]->in[0];
        clt_graph_tensor(graph, prediction)->is_output = true;
        clt_plan *eval = plan_of(graph, &desc, &options);
        uint64_t bound = check_plan(eval, desc.max_alloc_bytes);
        if (eval->activation_bytes * 10 > bound * 11)
            fail_msg("net %zu: %llu bytes to evaluate, the lower bound is %llu", i,
                     (unsigned long long)eval->activation_bytes, (unsigned long long)bound);
        assert_true(eval->activation_bytes < train->activation_bytes);
        assert_true(eval->phase[CLT_PHASE_FORWARD].count > 0);
        for (int p = CLT_PHASE_BACKWARD; p < CLT_PHASE_COUNT; p++)
            assert_int_equal(eval->phase[p].count, 0);
        /* nothing may be placed over the prediction after it is made */
        step *s = step_make(eval, false);
        assert_int_equal(s->last[owner_of(eval, prediction)], s->n);
        step_free(s);
        clt_plan_destroy(eval);
        clt_plan_destroy(train);
    }
}

static char *json_of(clt_plan *plan)
{
    clt_str out = {0};
    clt_json_writer writer = clt_json_writer_make(&out, 1);
    must(clt_plan_print_json(plan, &writer), "json");
    must(clt_plan_print(plan, &out), "text");
    return out.text;
}

static void test_purity(void **state)
{
    (void)state;
    char *seen[N_NETS];
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < N_NETS; i++) {
            ocl_device_desc desc = small_alignment();
            clt_plan_options options = train_options(2);
            clt_plan *plan = plan_of(makers[i](), &desc, &options);
            char *text = json_of(plan);
            assert_true(strlen(text) > 5000);
            if (round == 0) {
                seen[i] = text;
                for (size_t j = 0; j < i; j++)
                    assert_string_not_equal(seen[j], text);
            } else {
                assert_string_equal(seen[i], text);
                free(seen[i]);
                free(text);
            }
            clt_plan_destroy(plan);
        }
}

static size_t count_commands(const clt_plan *plan, clt_phase phase, const char *label)
{
    size_t n = 0;
    for (size_t c = 0; c < plan->phase[phase].count; c++)
        n += strcmp(plan->phase[phase].commands[c].label, label) == 0;
    return n;
}

static bool anybody_writes(const clt_plan *plan, const char *tensor)
{
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        for (size_t c = 0; c < plan->phase[p].count; c++)
            for (int a = 0; a < plan->phase[p].commands[c].n_args; a++) {
                const ocl_arg *arg = &plan->phase[p].commands[c].args[a];
                if (is_tensor(arg) && (arg->access & OCL_WRITE) &&
                    strcmp(clt_graph_tensor(plan->graph, arg->ref.tensor)->name, tensor) == 0)
                    return true;
            }
    return false;
}

static net net_frozen(int frozen_layers)
{
    net n = net_make(8, 12);
    put_linear(&n, "fc1", 20);
    put(&n, "relu", "act1", NULL);
    put_linear(&n, "fc2", 24);
    put(&n, "relu", "act2", NULL);
    put_linear(&n, "fc3", 5);
    put_loss(&n);
    for (int i = 0; i < 2 * frozen_layers; i++)
        n.graph->params[i].trainable = false;
    return n;
}

static void test_pruning_frozen(void **state)
{
    (void)state;
    static const char *const apart[] = {"fc1.backward",  "act1.backward", "fc2.backward",
                                        "act2.backward", "fc3.backward",  "loss.backward"},
                             *const fused[] = {"fc1.backward", "fc2.backward", "fc3+loss.backward"};
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(2);
    for (int form = 0; form < 6; form++) {
        int frozen = form / 2;
        options.no_fuse = form % 2 != 0;
        clt_plan *plan = plan_of(net_frozen(frozen).graph, &desc, &options);
        check_plan(plan, desc.max_alloc_bytes);
        for (int l = 0; l < (options.no_fuse ? 6 : 3); l++) {
            const char *label = options.no_fuse ? apart[l] : fused[l];
            bool wanted = l >= (options.no_fuse ? 2 * frozen : frozen);
            assert_int_equal(count_commands(plan, CLT_PHASE_BACKWARD, label) > 0, wanted);
            assert_int_equal(count_commands(plan, CLT_PHASE_BACKWARD_ADD, label) > 0, wanted);
        }
        for (int l = 0; l < 6 && !options.no_fuse; l++) /* in other work's GEMMs */
            if (l % 2 || l == 4)
                assert_int_equal(count_commands(plan, CLT_PHASE_BACKWARD, apart[l]), 0);
        assert_false(anybody_writes(plan, "d x")); /* no parameter lies before it */
        assert_int_equal(anybody_writes(plan, "d fc1.weight"), frozen == 0);
        assert_true(anybody_writes(plan, "d fc3.weight"));
        const clt_store_layout *store = plan->store;
        assert_true(store->trainable_elements[0] == store->slab_elements[0] - (frozen == 0   ? 0
                                                                               : frozen == 1 ? 2048
                                                                                             : 4096));
        clt_plan_destroy(plan);
    }
}

static void test_pruning_unneeded(void **state)
{
    (void)state;
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(1);
    net n = net_make(8, 12);
    int32_t stem = put_linear(&n, "stem", 16);
    put(&n, "tanh", "unread", NULL);
    n.at = stem;
    put(&n, "relu", "read", NULL);
    put_loss(&n);
    clt_plan *plan = plan_of(n.graph, &desc, &options);
    check_plan(plan, desc.max_alloc_bytes);
    assert_int_equal(count_commands(plan, CLT_PHASE_BACKWARD, "unread.backward"), 0);
    assert_true(count_commands(plan, CLT_PHASE_BACKWARD, "read.backward") > 0);
    clt_plan_destroy(plan);
}

static void refuse(clt_graph *graph, const ocl_device_desc *desc, const clt_plan_options *options,
                   clt_status code, const char *word)
{
    clt_plan *plan = NULL;
    clt_error_clear();
    clt_status status = clt_plan_compute(graph, desc, options, &plan);
    assert_null(plan);
    if (status != code || !strstr(clt_error_text(), word))
        fail_msg("expected %s with \"%s\", got %s: %s", clt_status_name(code), word, clt_status_name(status),
                 clt_error_text());
}

static void test_nothing_to_train(void **state)
{
    (void)state;
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(1);
    refuse(net_frozen(3).graph, &desc, &options, CLT_ECONFIG, "no trainable parameter");
    net n = net_make(8, 12);
    int32_t stem = put_linear(&n, "stem", 16);
    put_linear(&n, "idle", 4);
    n.at = stem;
    put_loss(&n);
    refuse(n.graph, &desc, &options, CLT_ECONFIG, "'idle.weight'");
}

typedef struct touch_count {
    int writes, adds;
} touch_count;

static touch_count count_gradient(const clt_plan *plan, clt_phase phase, int32_t gradient)
{
    touch_count t = {0, 0};
    for (size_t c = 0; c < plan->phase[phase].count; c++)
        for (int a = 0; a < plan->phase[phase].commands[c].n_args; a++) {
            const ocl_arg *arg = &plan->phase[phase].commands[c].args[a];
            if (is_tensor(arg) && arg->ref.tensor == gradient) {
                t.writes += arg->access == OCL_WRITE;
                t.adds += arg->access == OCL_READ_WRITE;
            }
        }
    return t;
}

/* h feeds three layers; the first contribution writes, the others add. A parameter shared by two layers does
 * the same; in later micro-batches everything is added. */
static void test_fan_out(void **state)
{
    (void)state;
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(2);
    net n = net_make(8, 12);
    clt_node *shared;
    int32_t h = put_linear(&n, "h", 16);
    int32_t a = put(&n, "tanh", "a", NULL);
    int32_t b = put2(&n, "sigmoid", "b", NULL, h, -1), c = put2(&n, "silu", "c", NULL, h, -1);
    put2(&n, "add", "ab", NULL, a, b);
    put2(&n, "add", "abc", NULL, n.at, c);
    put_linear(&n, "m1", 16);
    clt_json_doc *doc;
    must(clt_json_parse("{\"out\": 16}", 11, "test", CLT_ECONFIG, &doc), "json");
    must(clt_graph_add(n.graph, "linear", "m2", clt_json_root(doc), doc, &n.at, 1, "m1", &shared), "share");
    clt_json_destroy(doc);
    n.at = shared->out[0];
    put_loss(&n);
    clt_plan *plan = plan_of(n.graph, &desc, &options);
    check_plan(plan, desc.max_alloc_bytes);
    touch_count t = count_gradient(plan, CLT_PHASE_BACKWARD, plan->gradient[h]);
    assert_int_equal(t.writes, 1);
    assert_int_equal(t.adds, 2);
    int32_t weight = clt_graph_find_param(plan->graph, "m1.weight")->tensor;
    t = count_gradient(plan, CLT_PHASE_BACKWARD, plan->gradient[weight]);
    assert_int_equal(t.writes, 1);
    assert_int_equal(t.adds, 1);
    t = count_gradient(plan, CLT_PHASE_BACKWARD_ADD, plan->gradient[weight]);
    assert_int_equal(t.writes, 0);
    assert_int_equal(t.adds, 2);
    t = count_gradient(plan, CLT_PHASE_BACKWARD_ADD, plan->gradient[h]);
    assert_int_equal(t.writes, 1); /* activations' gradients start anew in every micro-batch */
    assert_int_equal(t.adds, 2);
    clt_plan_destroy(plan);
}

/* The gradient of a view's input is a view of its output's gradient when nobody else contributes, a tensor of
 * its own otherwise. */
static void test_views(void **state)
{
    (void)state;
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(1);
    for (int others = 0; others < 2; others++) {
        net n = net_make(8, 12);
        int32_t h = put_linear(&n, "h", 16);
        int32_t view = put(&n, "reshape", "grid", "{\"shape\": [4, 4]}");
        put(&n, "tanh", "bend", NULL);
        put(&n, "flatten", "line", NULL);
        if (others)
            put2(&n, "add", "sum", NULL, n.at, h);
        put_loss(&n);
        clt_plan *plan = plan_of(n.graph, &desc, &options);
        check_plan(plan, desc.max_alloc_bytes);
        assert_int_equal(owner_of(plan, view), h);
        assert_int_equal(owner_of(plan, plan->gradient[h]) == owner_of(plan, plan->gradient[view]), !others);
        assert_int_equal(count_commands(plan, CLT_PHASE_FORWARD, "grid.forward"), 0);
        assert_int_equal(count_commands(plan, CLT_PHASE_BACKWARD, "grid.backward") > 0, others != 0);
        clt_plan_destroy(plan);
    }
}

static void test_slabs(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NETS; i++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(3);
        desc.max_alloc_bytes = 704 << 10;
        clt_plan *plan = plan_of(makers[i](), &desc, &options);
        check_plan(plan, desc.max_alloc_bytes);
        assert_true(plan->n_slabs > 1);
        assert_true(plan->store->n_slabs > 1);
        uint64_t elements = 0;
        for (int kind = 0; kind < CLT_ARENA_COUNT; kind++)
            for (int32_t s = 0; s < plan->store->n_slabs; s++)
                assert_true(clt_store_slab_bytes(plan->store, (clt_arena_kind)kind, s) <=
                            desc.max_alloc_bytes);
        for (int32_t s = 0; s < plan->store->n_slots; s++)
            elements += plan->store->slots[s].elements;
        assert_int_equal(elements, clt_graph_param_elements(plan->graph));
        clt_plan_destroy(plan);
    }
}

static void test_too_large(void **state)
{
    (void)state;
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(1);
    desc.max_alloc_bytes = 64 << 10;
    net n = net_make(64, 10); /* an activation: 64 * 300 * 4 bytes */
    put_linear(&n, "wide", 300);
    put(&n, "tanh", "bend", NULL);
    put_linear(&n, "head", 4);
    put_loss(&n);
    refuse(n.graph, &desc, &options, CLT_EDEVMEM, "'wide");
    n = net_make(4, 150); /* a parameter: 150 * 120 * 4 bytes */
    put_linear(&n, "heavy", 120);
    put_loss(&n);
    refuse(n.graph, &desc, &options, CLT_EDEVMEM, "'heavy.weight'");
    n = net_make(64, 300); /* a batch field */
    put(&n, "reduce", "mean", "{\"kind\": \"mean\", \"keepdims\": true}");
    put_linear(&n, "head", 4);
    put_loss(&n);
    refuse(n.graph, &desc, &options, CLT_EDEVMEM, "'x'");
    n = net_make(8, 10); /* the schedule's table: 16 bytes per update */
    put_linear(&n, "head", 4);
    put_loss(&n);
    options.update.schedule_entries = 5000;
    refuse(n.graph, &desc, &options, CLT_EDEVMEM, "schedule");
}

/* Place in the backward phase of the last command that touches a parameter's gradient. */
static size_t ready_at(const clt_plan *plan, int32_t param)
{
    size_t ready = 0;
    int32_t gradient = plan->gradient[plan->graph->params[param].tensor];
    for (size_t c = 0; c < plan->phase[CLT_PHASE_BACKWARD].count; c++)
        for (int a = 0; a < plan->phase[CLT_PHASE_BACKWARD].commands[c].n_args; a++) {
            const ocl_arg *arg = &plan->phase[CLT_PHASE_BACKWARD].commands[c].args[a];
            if (is_tensor(arg) && arg->ref.tensor == gradient && (arg->access & OCL_WRITE))
                ready = c + 1;
        }
    return ready;
}

/* Which piece of work (node) a command belongs to: parameters of one node may come in any order. */
static int32_t node_ready(const clt_plan *plan, int32_t param)
{
    size_t ready = ready_at(plan, param);
    return ready ? plan->phase[CLT_PHASE_BACKWARD].commands[ready - 1].node : -1;
}

static void check_layout(const clt_plan *plan, int frozen)
{
    const clt_store_layout *store = plan->store;
    uint64_t end = 0;
    int32_t slab = 0, trainable = store->n_slots - frozen;
    for (int32_t i = 0; i < store->n_slots; i++) {
        const clt_store_slot *slot = &store->slots[store->order[i]];
        assert_int_equal(slot->trainable, i < trainable);
        if (i > 0 && i < trainable &&
            node_ready(plan, store->order[i - 1]) != node_ready(plan, store->order[i]))
            assert_true(ready_at(plan, store->order[i - 1]) < ready_at(plan, store->order[i]));
        if (slot->slab != slab) {
            assert_int_equal(slot->slab, slab + 1);
            slab = slot->slab;
            end = 0;
        }
        assert_int_equal(slot->offset % CLT_STORE_CHUNK, 0);
        assert_int_equal(slot->offset, end); /* no overlap, no hole beyond the rest of a chunk */
        end = clt_align_up(slot->offset + slot->elements, CLT_STORE_CHUNK);
        assert_true(end <= store->slab_elements[slab]);
    }
}

static void test_layout_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_NETS; i++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(1);
        clt_plan *plan = plan_of(makers[i](), &desc, &options);
        check_layout(plan, 0);
        /* the head's gradients are ready first, the stem's last */
        const char *first = plan->store->slots[plan->store->order[0]].name;
        assert_int_equal(strncmp(first, "head.", 5), 0);
        clt_plan_destroy(plan);
        desc.max_alloc_bytes = 704 << 10;
        plan = plan_of(makers[i](), &desc, &options);
        check_layout(plan, 0);
        clt_plan_destroy(plan);
    }
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(1);
    clt_plan *plan = plan_of(net_frozen(1).graph, &desc, &options);
    check_layout(plan, 2);
    clt_plan_destroy(plan);
}

static void test_decay_groups(void **state)
{
    (void)state;
    for (int all = 0; all < 2; all++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(1);
        options.update.decay_all = all != 0;
        clt_plan *plan = plan_of(net_residual(), &desc, &options);
        for (int32_t i = 0; i < plan->store->n_slots; i++) {
            const clt_store_slot *slot = &plan->store->slots[i];
            assert_int_equal(slot->group == CLT_GROUP_DECAY, all || slot->shape.ndim >= 2);
        }
        clt_plan_destroy(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_device),
                                       cmocka_unit_test(test_memory_bound),
                                       cmocka_unit_test(test_memory_is_shared),
                                       cmocka_unit_test(test_eval_plan),
                                       cmocka_unit_test(test_purity),
                                       cmocka_unit_test(test_pruning_frozen),
                                       cmocka_unit_test(test_pruning_unneeded),
                                       cmocka_unit_test(test_nothing_to_train),
                                       cmocka_unit_test(test_fan_out),
                                       cmocka_unit_test(test_views),
                                       cmocka_unit_test(test_slabs),
                                       cmocka_unit_test(test_too_large),
                                       cmocka_unit_test(test_layout_order),
                                       cmocka_unit_test(test_decay_groups)};
    setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
    setenv("OCL_ICD_FILENAMES", "", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
