/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 1, precision: decides the storage type of every tensor. In a half-precision run activations and
 * the weights of products are stored in 16 bits, and all arithmetic is f32. Ops with the flag CLT_OP_WIDE
 * keep f32, as do statistics, losses and all parameters that no product reads. Where types differ a cast
 * is inserted, once per tensor. In a run with f32, the default, this pass checks that every float tensor
 * is f32. It knows flags of ops, no op. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/passes/insert.h"
#include "engine/plan/plan.h"

typedef struct precision {
    clt_plan *plan;
    clt_graph *graph;
    clt_dtype storage;
    int32_t *cast; /* by tensor id: the same values in the other type, -1 none yet */
    clt_inserter in;
} precision;

static bool loaded(const clt_tensor *t)
{
    return t->cls == CLT_TC_FIELD || t->cls == CLT_TC_STEP || t->cls == CLT_TC_CONSTANT;
}

/* For f32 runs, and for the checker's single nodes, whose types are given by the cases. */
static clt_status prove_f32(const clt_plan *plan)
{
    /* the checker has cases of every type, in evaluation plans too; only its plans have guard zones */
    bool checked = plan->options.mode == CLT_PLAN_CHECK || plan->options.guard_bytes > 0;
    for (size_t i = 0; i < plan->graph->n_tensors; i++) {
        const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)i);
        bool kept = t->cls == CLT_TC_PARAM && t->param >= 0 && plan->graph->params[t->param].kept == t->dtype;
        if (!checked && !loaded(t) && !kept && clt_dtype_is_float(t->dtype) && t->dtype != CLT_F32)
            CLT_FAIL(CLT_EUNSUPPORTED,
                     "planning: tensor '%s' is stored as %s; precision.mode f32 stores f32 only", t->name,
                     clt_dtype_name(t->dtype));
    }
    return CLT_OK;
}

/* A weight gets a low-precision copy if only products read it, or lies in the type in which it is kept. */
static clt_status narrow_weights(const precision *p)
{
    enum { NARROW = 1, WIDE = 2 };
    CLT_FREED uint8_t *readers = NULL; /* by parameter: bits for the kinds of its readers */
    CLT_TRY(clt_alloc(&readers, p->graph->n_params + 1, sizeof *readers, "parameter readers"));
    for (size_t k = 0; k < p->graph->n_nodes; k++) {
        const clt_node *node = p->graph->nodes[k];
        for (int j = 0; j < node->n_param; j++)
            readers[node->param[j]] |= (node->op->narrow_params >> j) & 1 ? NARROW : WIDE;
    }
    for (size_t i = 0; i < p->graph->n_params; i++)
        if (readers[i] == NARROW) {
            const clt_param *param = &p->graph->params[i];
            bool kept = param->frozen && param->kept != CLT_F32;
            if (kept || p->storage != CLT_F32) /* the checker's cases of f32 runs have types of their own */
                clt_graph_tensor(p->graph, param->tensor)->dtype = kept ? param->kept : p->storage;
        }
    return CLT_OK;
}

/* *tensor becomes a tensor of type `need` with the same values; a cast before the node computes it if
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

/* Sets the types of a node's outputs, and casts inputs where needed. The types of its inputs are known. */
static clt_status set_node(precision *p, clt_node *node)
{
    uint32_t flags = node->op->flags;
    clt_dtype need = flags & CLT_OP_WIDE ? CLT_F32 : p->storage;
    bool as_it_comes = (flags & (CLT_OP_LOSS | CLT_OP_CONVERTS)) != 0;
    if (flags & CLT_OP_VIEW) {
        need = clt_graph_tensor(p->graph, node->in[0])->dtype;
        as_it_comes = true;
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
    clt_inserter_free(&p.in);
    return status;
}
