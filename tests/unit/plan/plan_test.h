/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of plans share: nets, options, and a step as the list of its commands, from whose reads and
 * writes the properties of every plan are computed independently. Needs no device. */
#ifndef TESTS_UNIT_PLAN_TEST_H
#define TESTS_UNIT_PLAN_TEST_H

#include "tests/unit/test.h"

#include "engine/ops/node.h"
#include "engine/plan/plan.h"

#define MAX_COMMANDS 4096

/* --- nets --- */

typedef struct net {
    clt_graph *graph;
    int32_t at, x, y;
} net;

static inline net net_make(int64_t batch, int64_t features)
{
    net n = {0};
    clt_shape x = clt_shape1(features), y = {.ndim = 0};
    must(clt_graph_create(batch, &n.graph), "graph");
    must(clt_graph_field(n.graph, "x", CLT_F32, &x, &n.x), "field");
    must(clt_graph_field(n.graph, "y", CLT_I32, &y, &n.y), "field");
    n.at = n.x;
    return n;
}

static inline int32_t put2(net *n, const char *op, const char *name, const char *attrs, int32_t a, int32_t b)
{
    int32_t in[2] = {a, b};
    clt_node *node;
    must(clt_graph_add_text(n->graph, op, name, attrs, in, b < 0 ? 1 : 2, &node), name);
    return n->at = node->n_out > 0 ? node->out[0] : -1;
}

static inline int32_t put(net *n, const char *op, const char *name, const char *attrs)
{
    return put2(n, op, name, attrs, n->at, -1);
}

static inline int32_t put_linear(net *n, const char *name, int out)
{
    char attrs[64];
    snprintf(attrs, sizeof attrs, "{\"out\": %d}", out);
    return put(n, "linear", name, attrs);
}

static inline void put_loss(net *n)
{
    put2(n, "cross_entropy", "loss", NULL, n->at, n->y);
}

static inline clt_graph *net_deep(void)
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

static inline clt_graph *net_residual(void)
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

static inline clt_graph *net_branches(void)
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

static inline clt_plan_options train_options(int accumulation)
{
    clt_plan_options o = {.mode = CLT_PLAN_TRAIN, .accumulation = accumulation, .ranks = 1};
    o.update.optimizer = &clt_optimizer_adamw;
    o.update.schedule_entries = 100;
    o.update.value[0] = 0.9; /* beta1, beta2 */
    o.update.value[1] = 0.99;
    return o;
}

static inline ocl_device_desc small_alignment(void)
{
    ocl_device_desc desc;
    ocl_desc_generic(&desc);
    desc.align_bytes = 64;
    return desc;
}

static inline clt_plan *plan_of(clt_graph *graph, const ocl_device_desc *desc,
                                const clt_plan_options *options)
{
    clt_plan *plan;
    must(clt_plan_compute(graph, desc, options, &plan), "plan");
    return plan;
}

/* --- one step as a list of commands, and lifetimes of tensors --- */

typedef struct step {
    const clt_plan *plan;
    const ocl_command *commands[MAX_COMMANDS];
    size_t n;
    size_t *first, *last; /* first and last command that uses the owning tensor; SIZE_MAX: none */
} step;

static inline int32_t owner_of(const clt_plan *plan, int32_t tensor)
{
    const clt_tensor *t = clt_graph_tensor(plan->graph, tensor);
    for (size_t hops = 0; t->view_of >= 0; hops++) {
        assert_true(hops < plan->graph->n_tensors);
        t = clt_graph_tensor(plan->graph, t->view_of);
    }
    return t->id;
}

static inline bool is_tensor(const ocl_arg *arg)
{
    return arg->kind == OCL_ARG_TENSOR && arg->ref.tensor >= 0;
}

static inline bool is_input(const clt_tensor *t)
{
    return t->cls == CLT_TC_FIELD || t->cls == CLT_TC_STEP;
}

/* The plan's own memory, without the input region. */
static inline bool in_slabs(const step *s, size_t tensor)
{
    const clt_tensor *t = clt_graph_tensor(s->plan->graph, (int32_t)tensor);
    return s->first[tensor] != SIZE_MAX && t->view_of < 0 && s->plan->place[tensor].kind == CLT_PLACE_PLAN &&
           !is_input(t);
}

static inline uint64_t bytes_of(const clt_plan *plan, size_t tensor)
{
    const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)tensor);
    return (uint64_t)clt_shape_elements(&t->shape) * clt_dtype_bytes(t->dtype);
}

/* add: take the backward phase for the later micro-batches. */
static inline step *step_make(const clt_plan *plan, bool add)
{
    const clt_phase order[4] = {CLT_PHASE_FORWARD, add ? CLT_PHASE_BACKWARD_ADD : CLT_PHASE_BACKWARD,
                                CLT_PHASE_SYNC, CLT_PHASE_UPDATE};
    size_t tensors = plan->graph->n_tensors;
    step *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->plan = plan;
    s->first = malloc(tensors * sizeof *s->first);
    s->last = calloc(tensors, sizeof *s->last);
    assert_true(s->first && s->last);
    for (size_t i = 0; i < tensors; i++)
        s->first[i] = SIZE_MAX;
    for (int p = 0; p < 4; p++)
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

static inline void step_free(step *s)
{
    free(s->first);
    free(s->last);
    free(s);
}

/* The most bytes that are live at once: no placement can need less. */
static inline uint64_t lower_bound(const step *s)
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

static inline void check_places(const step *s, uint64_t max_alloc)
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

/* Checks that every value is written before it is read, and that a gradient is first written and then only
 * added to. */
static inline void check_order(const step *s, bool add)
{
    const clt_plan *plan = s->plan;
    CLT_FREED bool *written = calloc(plan->graph->n_tensors, sizeof *written);
    /* may share the value's memory */
    CLT_FREED bool *as_gradient = calloc(plan->graph->n_tensors, sizeof *as_gradient);
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
}

/* Checks the properties that every plan must have; returns the larger lower bound of the step's two
 * versions. */
static inline uint64_t check_plan(const clt_plan *plan, uint64_t max_alloc)
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
    assert_true(bound <= plan->activation_bytes); /* below the bound either the plan or the bound is wrong */
    return bound;
}

static inline size_t count_commands(const clt_plan *plan, clt_phase phase, const char *label)
{
    size_t n = 0;
    for (size_t c = 0; c < plan->phase[phase].count; c++)
        n += strcmp(plan->phase[phase].commands[c].label, label) == 0;
    return n;
}

static inline net net_frozen(int frozen_layers)
{
    net n = net_make(8, 12);
    put_linear(&n, "fc1", 20);
    put(&n, "relu", "act1", NULL);
    put_linear(&n, "fc2", 24);
    put(&n, "relu", "act2", NULL);
    put_linear(&n, "fc3", 5);
    put_loss(&n);
    for (int i = 0; i < 2 * frozen_layers; i++)
        n.graph->params[i].frozen = true;
    return n;
}

static inline void refuse(clt_graph *graph, const ocl_device_desc *desc, const clt_plan_options *options,
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

/* Hides every OpenCL driver, because planning needs none. */
static inline int hide_drivers(void **state)
{
    (void)state;
    setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
    return setenv("OCL_ICD_FILENAMES", "", 1);
}

#endif
