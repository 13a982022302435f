/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 0, fold: an op that can apply an activation itself absorbs the activation that follows it, and a sum
 * of two tensors between them; the sum's other summand becomes the op's next input (clt_op.fold). Unlike the
 * fuse pass, which edits work, this changes the graph before derivatives are taken. So the op computes its
 * whole backward pass itself, and the values between the nodes are never stored. The folded node takes the
 * place of the activation, where all its inputs exist. With options.no_fuse nothing is folded; the checker's
 * plans are never folded, because they test single ops. Knows flags and hooks of ops, no op. */
#include <stdlib.h>

#include "engine/plan/passes/fuse.h"
#include "engine/plan/passes/insert.h"

typedef struct fold {
    clt_graph *graph;
    int32_t *readers;   /* by tensor: number of node inputs that refer to it */
    int32_t *reader;    /* by tensor: the last node that reads it */
    clt_node **instead; /* by node id: the node that replaces it; NULL: it is part of a later node */
} fold;

/* The node that reads the only output of a node, if it reads it once and nothing else does; NULL
 * otherwise. */
static clt_node *only_reader(const fold *f, const clt_node *node)
{
    const clt_tensor *t = node->n_out == 1 ? clt_graph_tensor(f->graph, node->out[0]) : NULL;
    if (!t || t->is_output || t->persistent || f->readers[t->id] != 1)
        return NULL;
    return f->instead[f->reader[t->id]];
}

/* The summand that is not `own`; -1 if the node is not a sum of two tensors of one shape and type. */
static int32_t other_summand(const fold *f, const clt_node *sum, int32_t own)
{
    if (!(sum->op->flags & CLT_OP_SUM) || sum->n_in != 2)
        return -1;
    const clt_tensor *a = clt_graph_tensor(f->graph, sum->in[0]), *b = clt_graph_tensor(f->graph, sum->in[1]);
    if (!clt_shape_equal(&a->shape, &b->shape) || a->dtype != b->dtype)
        return -1;
    return a->id == own ? b->id : a->id;
}

static void take_in(clt_node *node, const clt_node *part)
{
    for (int i = 0; i < CLT_MAX_FOLDED; i++)
        if (!node->folded[i]) {
            node->folded[i] = part;
            return;
        }
}

static void fold_node(fold *f, clt_node *node)
{
    clt_node *next = node->op->fold ? only_reader(f, node) : NULL, *sum = NULL;
    int32_t residual = next ? other_summand(f, next, node->out[0]) : -1;
    if (residual >= 0) {
        sum = next;
        next = only_reader(f, sum);
    }
    ocl_activation activation = next ? clt_fuse_activation_of(next) : OCL_ACT_NONE;
    if (activation == OCL_ACT_NONE || next->n_in != 1 || (sum && node->n_in == CLT_MAX_IN) ||
        !node->op->fold(node, sum != NULL, activation))
        return;
    if (sum) {
        node->in[node->n_in++] = residual;
        /* the folded node will be at the place of the sum's reader */
        f->reader[residual] = f->reader[sum->out[0]];
        f->instead[sum->id] = NULL;
        take_in(node, sum);
    }
    take_in(node, next);
    node->out[0] = next->out[0];
    f->instead[next->id] = node;
    f->instead[node->id] = NULL;
}

static clt_status fold_all(fold *f, clt_scratch *scratch)
{
    clt_graph *graph = f->graph;
    CLT_SCOPED(clt_inserter) in = {.graph = graph};
    CLT_TRY(clt_scratch_alloc(scratch, &f->readers, graph->n_tensors, sizeof *f->readers, "folding"));
    CLT_TRY(clt_scratch_alloc(scratch, &f->reader, graph->n_tensors, sizeof *f->reader, "folding"));
    CLT_TRY(clt_scratch_alloc(scratch, &f->instead, graph->n_nodes, sizeof *f->instead, "folding"));
    for (size_t k = 0; k < graph->n_nodes; k++) {
        clt_node *node = graph->nodes[k];
        f->instead[k] = node;
        for (int i = 0; i < node->n_in; i++) {
            f->readers[node->in[i]]++;
            f->reader[node->in[i]] = node->id;
        }
    }
    for (size_t k = 0; k < graph->n_nodes; k++)
        if (f->instead[k] == graph->nodes[k])
            fold_node(f, graph->nodes[k]);
    for (size_t k = 0; k < graph->n_nodes; k++)
        if (f->instead[k])
            CLT_TRY(clt_inserter_place(&in, f->instead[k]));
    return clt_inserter_finish(&in);
}

clt_status clt_pass_fold(clt_plan *plan)
{
    CLT_SCOPED(clt_scratch) scratch = {0};
    fold f = {.graph = plan->graph};
    if (plan->options.mode == CLT_PLAN_CHECK || plan->options.no_fuse || plan->options.guard_bytes > 0)
        return CLT_OK;
    return fold_all(&f, &scratch);
}
