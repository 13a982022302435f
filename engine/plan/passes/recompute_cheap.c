/* SPDX-License-Identifier: Apache-2.0
 *
 * train.recompute = gelu: outputs of cheap ops (activations, dropout, norms) are computed again in backward,
 * if all their inputs are in memory then, because backward reads them, or are outputs of cheap ops
 * themselves. Knows the flag of cheap ops, no op. */
#include <stdlib.h>
#include <string.h>

#include "engine/plan/passes/recompute.h"

typedef struct cheap {
    clt_again *again;
    const clt_graph *graph;
    bool *read;      /* by owning tensor: backward reads it */
    bool *derivable; /* by owning tensor: it is the output of a cheap op whose inputs are available */
} cheap;

static bool is_there(const cheap *c, int32_t tensor)
{
    const clt_tensor *t = clt_graph_tensor(c->graph, clt_plan_owner(c->again->plan, tensor));
    return t->cls == CLT_TC_FIELD || t->cls == CLT_TC_STEP || t->cls == CLT_TC_PARAM || c->read[t->id] ||
           c->derivable[t->id];
}

static void find_derivable(cheap *c)
{
    for (size_t k = 0; k < c->graph->n_nodes; k++) {
        const clt_node *node = c->graph->nodes[k];
        bool yes = (node->op->flags & CLT_OP_CHEAP) && node->n_out == 1 &&
                   clt_graph_tensor(c->graph, node->out[0])->view_of < 0 &&
                   !clt_graph_tensor(c->graph, node->out[0])->is_output;
        for (int i = 0; i < node->n_in && yes; i++)
            yes = is_there(c, node->in[i]);
        if (yes)
            c->derivable[node->out[0]] = true;
    }
}

/* Recomputes a derivable tensor, and before it the inputs of its node that are not in memory. */
static clt_status derive(cheap *c, int32_t owner)
{
    clt_again *a = c->again;
    if (!c->derivable[owner] || a->second[owner] >= 0)
        return CLT_OK;
    const clt_node *node = c->graph->nodes[clt_graph_tensor(c->graph, owner)->producer];
    for (int i = 0; i < node->n_in; i++)
        CLT_TRY(derive(c, clt_plan_owner(a->plan, node->in[i])));
    clt_work work = {.kind = CLT_WORK_FORWARD, .node = node, .epilogue = CLT_NO_EPILOGUE};
    CLT_TRY(clt_again_tensor(a, owner));
    return clt_again_push(a, &work, true);
}

static clt_status rebuild(cheap *c)
{
    const clt_plan *plan = c->again->plan;
    for (size_t w = plan->n_forward; w < plan->n_work; w++) {
        const clt_touched *t = &c->again->touched[w];
        for (size_t i = 0; i < t->n; i++)
            if (t->access[i] & OCL_READ)
                CLT_TRY(derive(c, t->tensor[i]));
        CLT_TRY(clt_again_push(c->again, &plan->work[w], false));
    }
    return CLT_OK;
}

clt_status clt_recompute_cheap(clt_again *again)
{
    const clt_plan *plan = again->plan;
    CLT_SCOPED(clt_scratch) scratch = {0};
    cheap c = {.again = again, .graph = plan->graph};
    CLT_TRY(clt_scratch_alloc(&scratch, &c.read, again->n, sizeof *c.read, "recomputation"));
    CLT_TRY(clt_scratch_alloc(&scratch, &c.derivable, again->n, sizeof *c.derivable, "recomputation"));
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        for (size_t i = 0; i < again->touched[w].n; i++)
            if (again->touched[w].access[i] & OCL_READ)
                c.read[again->touched[w].tensor[i]] = true;
    find_derivable(&c);
    return rebuild(&c);
}
