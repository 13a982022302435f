/* SPDX-License-Identifier: Apache-2.0
 *
 * Random graphs and their data, both a function of a seed, for testing plans (test_plan_random.c). The graphs
 * mix what can be fused (linear layers, activations, residual sums, heads) with what prevents it: tensors
 * with several readers, views, shared and frozen parameters, dropout, repeated and broadcast inputs, ignored
 * targets, several losses, batches of one, features of one. Knows graphs, no plan and no device. */
#ifndef TESTS_UNIT_RANDOM_GRAPH_H
#define TESTS_UNIT_RANDOM_GRAPH_H

#include "tests/unit/test.h"

#include "engine/base/rng.h"
#include "engine/graph/graph.h"
#include "engine/ops/op.h"
#include "engine/graph/step_block.h"
#include "engine/ops/node.h"

#define WIDTH 6      /* of the field x, and of most tensors */
#define CLASSES 5    /* number of classes */
#define IGNORED (-7) /* the target that does not count */
#define MAX_POOL 96
#define MAX_MICRO 3

/* --- graphs --- */

typedef struct maker {
    clt_graph *graph;
    uint64_t seed, drawn;
    int32_t pool[MAX_POOL]; /* tensors that a layer may read */
    bool read[MAX_POOL];
    int n, layers;
    /* fields: (N,WIDTH) f32, (N) i32, (N) i32 of which some are IGNORED, (N,2) i32 */
    int32_t x, y, some, tokens;
    int32_t outputs[4];
    int n_outputs, accumulation;
    clt_str text; /* readable description of the graph */
} maker;

static inline int roll(maker *m, int sides)
{
    return (int)(clt_rng_u32(m->seed, CLT_RNG_VERIFY, 1, 0, m->drawn++) % (uint32_t)sides);
}

static inline const clt_shape *shape_of(const maker *m, int32_t tensor)
{
    return &clt_graph_tensor(m->graph, tensor)->shape;
}

static inline void keep(maker *m, int32_t tensor)
{
    assert_true(m->n < MAX_POOL);
    m->read[m->n] = false;
    m->pool[m->n++] = tensor;
}

/* Adds a layer. share: name of a layer whose parameters it uses, or NULL. Returns the first output, -1 for a
 * loss. */
static inline int32_t put_shared(maker *m, const char *op, const char *attrs, const int32_t *in, int n_in,
                                 const char *share)
{
    char name[32];
    clt_node *node;
    clt_json_doc *doc = NULL;
    snprintf(name, sizeof name, "n%d", m->layers++);
    clt_str_printf(&m->text, "  %s = %s%s%s%s", name, op, attrs ? attrs : "", share ? " as " : "",
                   share ? share : "");
    for (int i = 0; i < n_in; i++) {
        clt_str_printf(&m->text, "%s%s", i ? ", " : " of ", clt_graph_tensor(m->graph, in[i])->name);
        for (int k = 0; k < m->n; k++)
            m->read[k] |= m->pool[k] == in[i];
    }
    clt_str_append(&m->text, "\n");
    if (attrs)
        must(clt_json_parse(attrs, strlen(attrs), name, CLT_ECONFIG, &doc), attrs);
    must(clt_graph_add(m->graph, op, name, doc ? clt_json_root(doc) : NULL, doc, in, n_in, share, &node), op);
    clt_json_destroy(doc);
    if (node->n_out == 0)
        return -1;
    keep(m, node->out[0]);
    return node->out[0];
}

static inline int32_t put(maker *m, const char *op, const char *attrs, int32_t a)
{
    return put_shared(m, op, attrs, &a, 1, NULL);
}

static inline int32_t put2(maker *m, const char *op, const char *attrs, int32_t a, int32_t b)
{
    int32_t in[2] = {a, b};
    return put_shared(m, op, attrs, in, 2, NULL);
}

/* Chooses a tensor to read: usually one of the newest. */
static inline int32_t any(maker *m)
{
    int back = roll(m, 3) ? roll(m, 3) : roll(m, m->n);
    return m->pool[back < m->n ? m->n - 1 - back : 0];
}

/* Chooses a tensor of the same shape, possibly the same tensor. */
static inline int32_t alike(maker *m, int32_t tensor)
{
    for (int tries = 0; tries < 12; tries++) {
        int32_t other = m->pool[roll(m, m->n)];
        if (clt_shape_equal(shape_of(m, other), shape_of(m, tensor)) && (other != tensor || !roll(m, 4)))
            return other;
    }
    return tensor;
}

/* Chooses a tensor whose shape is the last dimensions of another one's. */
static inline int32_t smaller(maker *m, int32_t tensor)
{
    const clt_shape *x = shape_of(m, tensor);
    for (int tries = 0; tries < 12; tries++) {
        int32_t other = m->pool[roll(m, m->n)];
        const clt_shape *y = shape_of(m, other);
        int lead = x->ndim - y->ndim;
        if (lead > 0 && memcmp(y->dim, x->dim + lead, (size_t)y->ndim * sizeof y->dim[0]) == 0)
            return other;
    }
    return tensor;
}

/* A linear layer, sometimes with the parameters of another one. */
static inline int32_t linear(maker *m, int32_t from, int64_t out)
{
    char attrs[64];
    const char *owner = NULL;
    for (size_t k = 0; k < m->graph->n_nodes; k++) {
        const clt_node *node = m->graph->nodes[k];
        if (node->share < 0 && strcmp(node->op->name, "linear") == 0 &&
            clt_shape_last(shape_of(m, node->in[0])) == clt_shape_last(shape_of(m, from)) &&
            clt_shape_last(shape_of(m, node->out[0])) == out && node->n_param == 2 && !roll(m, 5))
            owner = node->name;
    }
    snprintf(attrs, sizeof attrs, "{\"out\":%d,\"bias\":%s}", (int)out,
             owner || roll(m, 4) ? "true" : "false");
    return put_shared(m, "linear", attrs, &from, 1, owner);
}

static inline int32_t activation(maker *m, int32_t from)
{
    static const char *const ops[] = {"relu", "gelu", "gelu", "tanh", "sigmoid", "silu", "relu"};
    int k = roll(m, 7);
    return put(m, ops[k], k == 2 ? "{\"approximate\":\"tanh\"}" : NULL, from);
}

static inline int32_t flat(maker *m, int32_t from)
{
    return shape_of(m, from)->ndim > 2 ? put(m, "flatten", NULL, from) : from;
}

/* A residual block x + f(norm(x)), in one of the usual orders. */
static inline void block(maker *m)
{
    int32_t x = any(m), at = x;
    int64_t width = clt_shape_last(shape_of(m, x));
    if (roll(m, 2))
        at = put(m, "layernorm", NULL, at);
    if (roll(m, 3))
        at = activation(m, linear(m, at, roll(m, 2) ? 8 : WIDTH));
    if (!roll(m, 4))
        at = put(m, "dropout", "{\"p\":0.25}", at);
    at = linear(m, at, width);
    if (!roll(m, 3))
        at = activation(m, at);
    if (!roll(m, 4))
        at = put(m, "dropout", "{\"p\":0.5}", at);
    if (roll(m, 2))
        put2(m, "add", NULL, x, at);
    else
        put2(m, "add", NULL, at, x);
}

/* Reshapes (N,C) to (N,2,C/2) or (N,1,C) or back, or slices the last dimension and concatenates the slices
 * with another tensor. */
static inline void bend(maker *m)
{
    int32_t x = any(m);
    int64_t last = clt_shape_last(shape_of(m, x));
    char attrs[64];
    if (shape_of(m, x)->ndim == 2 && last % 2 == 0 && roll(m, 2)) {
        int rows = 1 + roll(m, 2);
        snprintf(attrs, sizeof attrs, "{\"shape\":[%d,%d]}", rows, (int)last / rows);
        put(m, "reshape", attrs, x);
    } else if (shape_of(m, x)->ndim == 3 && roll(m, 2)) {
        if (roll(m, 2))
            put(m, "transpose", "{\"perm\":[0,2,1]}", x);
        else
            put(m, "flatten", NULL, x);
    } else if (last > 2 && roll(m, 2)) {
        put(m, "slice", "{\"axis\":-1,\"start\":1}", x);
    } else if (last <= 12) {
        put2(m, "concat", NULL, x, alike(m, x));
    }
}

/* A tensor of sequences. */
static inline int32_t sequences(maker *m)
{
    int32_t x = any(m);
    if (!roll(m, 3))
        return put(m, "embedding", "{\"vocab\":5,\"dim\":4}", m->tokens);
    if (shape_of(m, x)->ndim == 2)
        x = put(m, "reshape", "{\"shape\":[2,4]}", linear(m, x, 8));
    return roll(m, 3) ? x : put(m, "positional", "{\"positions\":9}", x);
}

static inline void attend(maker *m)
{
    int32_t x = sequences(m), in[3];
    if (roll(m, 2)) {
        put(m, "attention", "{\"heads\":2,\"dropout\":0.2}", linear(m, x, 12));
        return;
    }
    in[0] = linear(m, x, 4);
    in[1] = roll(m, 2) ? in[0] : linear(m, x, 4);
    in[2] = roll(m, 2) ? in[1] : linear(m, x, 4);
    put_shared(m, "attention", "{\"heads\":2}", in, 3, NULL);
}

/* Adds a layer that only sequences can have. */
static inline void mix(maker *m)
{
    static const char *const kinds[] = {"{\"kind\":\"max\",\"axes\":[1]}", "{\"axes\":[1]}",
                                        "{\"kind\":\"sum\",\"axes\":[2],\"keepdims\":true}"};
    int32_t x = sequences(m), y;
    switch (roll(m, 3)) {
    case 0:
        put(m, "reduce", kinds[roll(m, 3)], x);
        break;
    case 1:
        y = alike(m, x);
        put2(m, "matmul", "{\"transpose_b\":true,\"scale\":0.5}", x, y);
        break;
    default:
        y = smaller(m, x);
        if (shape_of(m, x)->dim[1] == m->graph->micro_batch && roll(m, 2))
            y = linear(m, m->x, clt_shape_last(shape_of(m, x)));
        put2(m, roll(m, 3) ? "add" : "multiply", NULL, x, y);
    }
}

static inline void loss(maker *m, int32_t from);

static inline void layer(maker *m)
{
    int32_t x = any(m), in[3];
    switch (roll(m, 20)) {
    case 0:
    case 1:
    case 2:
        linear(m, x, roll(m, 6) ? WIDTH : 1 + roll(m, 8));
        break;
    case 3:
    case 4:
        activation(m, x);
        break;
    case 5:
    case 6:
        if (roll(m, 2))
            put2(m, "add", NULL, x, alike(m, x));
        else
            put2(m, "add", NULL, alike(m, x), x);
        break;
    case 7:
        in[0] = x;
        in[1] = alike(m, x);
        in[2] = alike(m, x);
        put_shared(m, "add", NULL, in, 3, NULL);
        break;
    case 8:
        put2(m, "multiply", NULL, put(m, "sigmoid", NULL, x), alike(m, x));
        break;
    case 9:
        put(m, roll(m, 3) ? "layernorm" : roll(m, 2) ? "softmax" : "log_softmax", NULL, x);
        break;
    case 10:
        put(m, "dropout", "{\"p\":0.3}", x);
        break;
    case 11:
        put(m, roll(m, 2) ? "bias" : "scale", NULL, x);
        break;
    case 12:
        bend(m);
        break;
    case 13:
        attend(m);
        break;
    case 14:
        mix(m);
        break;
    case 15:
        if (m->graph->n_losses < 2)
            loss(m, x);
        break;
    case 16:
        if (m->graph->micro_batch > 1) /* a large eps, because rows of so small a batch may be almost equal */
            x = put(m, "batch_norm", "{\"eps\":0.1}", flat(m, x));
        if (roll(m, 2))
            x = put2(m, "add", NULL, x, alike(m, x));
        if (roll(m, 2))
            put(m, "relu", NULL, x);
        break;
    default:
        block(m);
    }
}

/* Adds a random loss for a tensor, with or without a linear layer before it. */
static inline void loss(maker *m, int32_t from)
{
    static const char *const attrs[] = {NULL, "{\"weight\":0.5}", "{\"label_smoothing\":0.1}"};
    int32_t at = flat(m, from);
    if (!roll(m, 4)) {
        if (clt_shape_last(shape_of(m, at)) != WIDTH || roll(m, 2))
            at = linear(m, at, WIDTH);
        static const char *const ops[] = {"mse", "l1", "bce_with_logits"};
        put2(m, ops[roll(m, 3)], NULL, at, m->x);
        return;
    }
    if (clt_shape_last(shape_of(m, at)) < CLASSES || roll(m, 4))
        at = linear(m, at, CLASSES + roll(m, 3));
    if (!roll(m, 4))
        at = roll(m, 2) ? activation(m, at) : put(m, "flatten", NULL, at);
    if (roll(m, 3))
        put2(m, "cross_entropy", attrs[roll(m, 3)], at, m->y);
    else
        put2(m, "cross_entropy", "{\"ignore_index\":-7}", at, m->some);
}

/* Tensors that no layer reads get losses: each its own, or one loss for a sum of them. */
static inline void finish(maker *m)
{
    int32_t sum = -1;
    int losses = 0;
    if (!roll(m, 4) && ++losses)
        loss(m, any(m));
    for (int k = 0, end = m->n; k < end; k++) {
        int32_t tail = m->pool[k];
        if (m->read[k] || clt_graph_tensor(m->graph, tail)->cls == CLT_TC_FIELD)
            continue;
        if (losses < 3 && !roll(m, 3) && ++losses) {
            loss(m, tail);
            continue;
        }
        tail = flat(m, tail);
        if (sum >= 0 || clt_shape_last(shape_of(m, tail)) != WIDTH)
            tail = linear(m, tail, WIDTH);
        sum = sum < 0 ? tail : put2(m, "add", NULL, sum, tail);
    }
    if (sum >= 0 || losses == 0)
        loss(m, sum >= 0 ? sum : m->pool[m->n - 1]);
}

static inline void mark(maker *m)
{
    m->n_outputs = 0;
    while (m->n_outputs < 3 && roll(m, 3) == 0) {
        int32_t tensor = m->pool[roll(m, m->n)];
        clt_graph_tensor(m->graph, tensor)->is_output = true;
        clt_str_printf(&m->text, "  output %s\n", clt_graph_tensor(m->graph, tensor)->name);
        m->outputs[m->n_outputs++] = tensor;
    }
    for (size_t i = 1; i < m->graph->n_params; i++)
        if (!roll(m, 8)) {
            m->graph->params[i].frozen = true;
            clt_str_printf(&m->text, "  frozen %s\n", m->graph->params[i].name);
        }
}

/* --- graphs whose plans were once wrong --- */

/* The input of an activation is also read by a head. */
static inline void head_before_activation(maker *m)
{
    int32_t before = linear(m, m->x, WIDTH), after = put(m, "relu", NULL, before);
    put2(m, "cross_entropy", NULL, linear(m, before, CLASSES), m->y);
    put2(m, "mse", NULL, put2(m, "add", NULL, m->x, after), m->x);
}

/* A branch is also read by a head, before the residual sum. */
static inline void head_of_branch(maker *m)
{
    int32_t stem = linear(m, m->x, WIDTH), branch = linear(m, put(m, "gelu", NULL, stem), WIDTH);
    put2(m, "cross_entropy", NULL, linear(m, branch, CLASSES), m->y);
    put2(m, "cross_entropy", NULL, linear(m, put2(m, "add", NULL, stem, branch), CLASSES), m->y);
}

/* The input of an activation is also read through a view, in a block that is recomputed. */
static inline void view_before_activation(maker *m)
{
    int32_t before = linear(m, m->x, WIDTH), after = put(m, "relu", NULL, before);
    int32_t line = flat(m, linear(m, put(m, "reshape", "{\"shape\":[2,3]}", before), 3));
    int32_t at = put2(m, "add", NULL, after, line);
    for (int i = 0; i < 4; i++)
        at = put2(m, "add", NULL, at, linear(m, put(m, "gelu", NULL, linear(m, at, 8)), WIDTH));
    put2(m, "cross_entropy", NULL, linear(m, at, CLASSES), m->y);
}

static void (*const fixed[])(maker *) = {head_before_activation, head_of_branch, view_before_activation};
#define FIXED (sizeof fixed / sizeof fixed[0])

/* The graph of a seed, always the same; the lowest seeds are fixed graphs. */
static inline maker make(uint64_t seed)
{
    maker m = {.seed = seed};
    clt_shape x = clt_shape1(WIDTH), y = {.ndim = 0}, tokens = clt_shape1(2);
    int64_t batch = 1 + roll(&m, 3);
    m.accumulation = 1 + roll(&m, MAX_MICRO);
    must(clt_graph_create(batch, &m.graph), "graph");
    must(clt_graph_field(m.graph, "x", CLT_F32, &x, &m.x), "x");
    must(clt_graph_field(m.graph, "y", CLT_I32, &y, &m.y), "y");
    must(clt_graph_field(m.graph, "some", CLT_I32, &y, &m.some), "some");
    must(clt_graph_field(m.graph, "tokens", CLT_I32, &tokens, &m.tokens), "tokens");
    clt_str_printf(&m.text, "seed %llu, batch %d, accumulation %d\n", (unsigned long long)seed, (int)batch,
                   m.accumulation);
    keep(&m, m.x);
    if (seed < FIXED) {
        fixed[seed](&m);
        return m;
    }
    linear(&m, m.x, WIDTH);
    m.graph->block = roll(&m, 2); /* half of the graphs mark their blocks */
    for (int layers = 2 + roll(&m, 9); m.layers < layers;) {
        layer(&m);
        m.graph->block += m.graph->block > 0 && !roll(&m, 3);
    }
    finish(&m);
    mark(&m);
    return m;
}

static inline void maker_free(maker *m)
{
    clt_str_free(&m->text);
}

/* --- data --- */

static inline float number(uint64_t seed, uint32_t stream, uint64_t i)
{
    return (float)clt_rng_normal(seed, CLT_RNG_VERIFY, 2 + stream, 0, i);
}

static inline float param_value(uint64_t seed, const clt_param *param, uint64_t i)
{
    float value = number(seed, 100 + (uint32_t)param->index, i);
    return param->buffer ? 0.5f + value * value : 0.5f * value; /* a running variance is positive */
}

/* Element i of a field in a micro-batch. */
static inline double field_value(const maker *m, int32_t field, int micro, uint64_t i)
{
    if (field == m->x)
        return (double)number(m->seed, (uint32_t)micro, i);
    uint32_t word = clt_rng_u32(m->seed, CLT_RNG_VERIFY, 50 + (uint32_t)field, (uint32_t)micro, i);
    return field == m->some && word % 3 == 0 ? IGNORED : (int)(word / 3 % CLASSES);
}

static inline clt_step_block step_block(const maker *m, int micro)
{
    uint32_t batch = (uint32_t)m->graph->micro_batch;
    clt_step_block s = {.seed_lo = (uint32_t)m->seed,
                        .seed_hi = 5,
                        .step = 9,
                        .micro = (uint32_t)micro,
                        .sample_lo = batch * (uint32_t)micro,
                        .valid = batch - (batch > 1 && m->seed % 3 == 0)};
    for (int i = 0; i < 16; i++)
        s.norm[i] = 0.25f + 0.125f * (float)i;
    return s;
}

#endif
