/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 1, precision: decides the storage type of every tensor. In a half-precision run activations and
 * the weights of products are stored in 16 bits, and all arithmetic is f32. Ops with the flag CLT_OP_WIDE
 * keep f32, as do statistics, losses and all parameters that no product reads. Where types differ a cast
 * is inserted, once per tensor. In a run with f32, the default, this pass checks that every float tensor
 * is f32. It knows flags of ops, no op.
 *
 * With precision.residual f32 the sums between blocks are f32: embeddings and norms (CLT_OP_RETYPES) give f32
 * where a sum reads them, and ops with CLT_OP_FOLLOWS, the sums among them, stay in f32 once an input is
 * f32. Norms read the f32 sums and write the type that products need. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/passes/insert.h"
#include "engine/plan/plan.h"

typedef struct precision {
    clt_plan *plan;
    clt_graph *graph;
    clt_dtype storage;
    /* by tensor id: a sum reads it, directly or through views and FOLLOWS ops; NULL: not needed */
    bool *summed;
    int32_t *cast; /* by tensor id: the same values in the other type, -1 none yet */
    clt_inserter in;
} precision;

static bool loaded(const clt_tensor *t)
{
    return t->cls == CLT_TC_FIELD || t->cls == CLT_TC_STEP || t->cls == CLT_TC_CONSTANT;
}

/* For f32 runs: checks that every float tensor is f32, except loaded ones and parameters that are kept in 16
 * bits. Tensors of the checker's plans have the types of its cases and are not checked. */
static clt_status prove_f32(const clt_plan *plan)
{
    /* the checker's cases have every type, even in evaluation plans; only its plans have guard zones */
    bool checked = plan->options.mode == CLT_PLAN_CHECK || plan->options.guard_bytes > 0;
    for (size_t i = 0; i < plan->graph->n_tensors; i++) {
        const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)i);
        bool kept = t->cls == CLT_TC_PARAM && t->param >= 0 && plan->graph->params[t->param].kept == t->dtype;
        if (!checked && !loaded(t) && !kept && clt_dtype_is_float(t->dtype) && t->dtype != CLT_F32)
            CLT_FAIL(CLT_EUNSUPPORTED,
                     "planning: tensor '%s' is stored as %s, but precision.mode f32 stores only f32; put a "
                     "'cast' layer before it",
                     t->name, clt_dtype_name(t->dtype));
    }
    return CLT_OK;
}

/* Marks the tensors that a residual sum (CLT_OP_SUM) reads, directly or through views and through ops that
 * work in f32 if an input is f32 (CLT_OP_FOLLOWS). */
static clt_status find_summed(precision *p)
{
    const uint32_t passes = CLT_OP_FOLLOWS | CLT_OP_VIEW;
    CLT_TRY(clt_alloc(&p->summed, p->graph->n_tensors, sizeof *p->summed, "tensors that sums read"));
    for (size_t k = p->graph->n_nodes; k-- > 0;) {
        const clt_node *node = p->graph->nodes[k];
        bool sum = (node->op->flags & CLT_OP_SUM) != 0;
        for (int i = 0; i < node->n_in; i++)
            if (sum || ((node->op->flags & passes) && p->summed[node->out[0]]))
                p->summed[node->in[i]] = true;
    }
    return CLT_OK;
}

/* True for a node whose output is f32 because a sum reads it. */
static bool gives_wide(const precision *p, const clt_node *node)
{
    return p->summed && (node->op->flags & CLT_OP_RETYPES) && p->summed[node->out[0]];
}

/* Sets the types of weights. A weight that only products read gets a low-precision copy, or keeps its type
 * if it is frozen and kept in 16 bits. An embedding whose output is f32 does not cause a copy of its table,
 * but reads one that a product needs. */
static clt_status narrow_weights(const precision *p)
{
    enum { NARROW = 1, WIDE = 2 };
    CLT_FREED uint8_t *readers = NULL; /* by parameter: bits for the kinds of nodes that read it */
    CLT_TRY(clt_alloc(&readers, p->graph->n_params + 1, sizeof *readers, "parameter readers"));
    for (size_t k = 0; k < p->graph->n_nodes; k++) {
        const clt_node *node = p->graph->nodes[k];
        for (int j = 0; j < node->n_param && !(gives_wide(p, node) && node->op->narrow_params); j++)
            readers[node->param[j]] |= (node->op->narrow_params >> j) & 1 ? NARROW : WIDE;
    }
    for (size_t i = 0; i < p->graph->n_params; i++)
        if (readers[i] == NARROW) {
            const clt_param *param = &p->graph->params[i];
            bool kept = param->frozen && param->kept != CLT_F32;
            if (kept || p->storage != CLT_F32) /* the checker's f32 cases set types themselves */
                clt_graph_tensor(p->graph, param->tensor)->dtype = kept ? param->kept : p->storage;
        }
    return CLT_OK;
}

/* Replaces *tensor by a tensor of type `need` with the same values; a cast before the node computes it if
 * necessary. */
static clt_status in_type(precision *p, const clt_node *node, clt_dtype need, int32_t *tensor)
{
    char name[280];
    clt_node *cast;
    if (p->cast[*tensor] < 0) {
        snprintf(name, sizeof name, "%s.%s", clt_graph_tensor(p->graph, *tensor)->name, clt_dtype_name(need));
        CLT_TRY(clt_inserter_add(&p->in, node, "cast", name, NULL, *tensor, &cast));
        clt_graph_tensor(p->graph, cast->out[0])->dtype = need;
        p->cast[*tensor] = cast->out[0];
    }
    *tensor = p->cast[*tensor];
    return CLT_OK;
}

static bool has_f32_input(const precision *p, const clt_node *node)
{
    for (int i = 0; i < node->n_in; i++)
        if (clt_graph_tensor(p->graph, node->in[i])->dtype == CLT_F32)
            return true;
    return false;
}

/* Sets the types of a node's outputs, and casts inputs where needed. The types of its inputs are known. */
static clt_status set_node(precision *p, clt_node *node)
{
    uint32_t flags = node->op->flags;
    clt_dtype need = flags & CLT_OP_WIDE ? CLT_F32 : p->storage;
    bool as_it_comes = (flags & (CLT_OP_LOSS | CLT_OP_CONVERTS)) != 0;
    if (flags & CLT_OP_VIEW) {
        need = clt_graph_tensor(p->graph, node->in[0])->dtype;
        as_it_comes = true;
    } else if (p->summed && (flags & CLT_OP_RETYPES)) {
        need = gives_wide(p, node) ? CLT_F32 : need;
        as_it_comes = true;
    } else if (p->summed && (flags & CLT_OP_FOLLOWS) && has_f32_input(p, node)) {
        need = CLT_F32;
    }
    for (int i = 0; i < node->n_in && !as_it_comes; i++) {
        const clt_tensor *t = clt_graph_tensor(p->graph, node->in[i]);
        if (clt_dtype_is_float(t->dtype) && t->dtype != need && !((node->op->no_grad_inputs >> i) & 1))
            CLT_TRY(in_type(p, node, need, &node->in[i]));
    }
    for (int i = 0; i < node->n_out; i++) {
        clt_tensor *t = clt_graph_tensor(p->graph, node->out[i]);
        if (clt_dtype_is_float(t->dtype))
            t->dtype = need;
    }
    return clt_inserter_place(&p->in, node);
}

static clt_status store_narrow(precision *p)
{
    size_t nodes = p->graph->n_nodes, tensors = p->graph->n_tensors;
    CLT_TRY(clt_alloc(&p->cast, tensors + 2 * nodes * CLT_MAX_IN, sizeof *p->cast, "casts"));
    for (size_t i = 0; i < tensors + 2 * nodes * CLT_MAX_IN; i++)
        p->cast[i] = -1;
    if (p->plan->options.wide_residual)
        CLT_TRY(find_summed(p));
    CLT_TRY(narrow_weights(p));
    for (size_t k = 0; k < nodes; k++)
        CLT_TRY(set_node(p, p->graph->nodes[k]));
    return clt_inserter_finish(&p->in);
}

clt_status clt_pass_precision(clt_plan *plan)
{
    precision p = {
        .plan = plan, .graph = plan->graph, .storage = plan->options.storage, .in = {.graph = plan->graph}};
    if (p.storage == CLT_F32) {
        CLT_TRY(narrow_weights(&p));
        return prove_f32(plan);
    }
    clt_status status = store_narrow(&p);
    free(p.cast);
    free(p.summed);
    clt_inserter_free(&p.in);
    return status;
}
