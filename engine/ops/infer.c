/* SPDX-License-Identifier: Apache-2.0
 *
 * The declarations that an op makes while its shapes are inferred: outputs, views, parameters, saved
 * tensors. */
#include "engine/ops/infer.h"

#include <stdio.h>
#include <string.h>

#include "engine/ops/op.h"

const clt_tensor *clt_infer_in(const clt_infer *ctx, int index)
{
    return clt_graph_tensor(ctx->graph, ctx->node->in[index]);
}

clt_status clt_infer_fail(const clt_infer *ctx, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CLT_FAIL(CLT_ESHAPE, "layer '%s' (%s): %s", ctx->node->name, ctx->node->op->name, text);
}

static clt_status infer_tensor(clt_infer *ctx, const char *suffix, clt_dtype dtype, const clt_shape *shape,
                               clt_tensor_class cls, int32_t *id)
{
    char name[256];
    snprintf(name, sizeof name, "%s%s%s", ctx->node->name, *suffix ? "." : "", suffix);
    CLT_TRY(clt_graph_new_tensor(ctx->graph, name, dtype, shape, cls, id));
    clt_graph_tensor(ctx->graph, *id)->producer = ctx->node->id;
    return CLT_OK;
}

clt_status clt_infer_out(clt_infer *ctx, clt_dtype dtype, const clt_shape *shape)
{
    clt_node *node = ctx->node;
    if (node->n_out == CLT_MAX_OUT)
        CLT_FAIL(CLT_EINTERNAL, "layer '%s': more than %d outputs", node->name, CLT_MAX_OUT);
    char suffix[16] = "";
    if (node->n_out)
        snprintf(suffix, sizeof suffix, "out%d", node->n_out);
    CLT_TRY(infer_tensor(ctx, suffix, dtype, shape, CLT_TC_ACTIVATION, &node->out[node->n_out]));
    node->n_out++;
    return CLT_OK;
}

clt_status clt_infer_view(clt_infer *ctx, int input, const clt_shape *shape)
{
    const clt_tensor *in = clt_infer_in(ctx, input);
    char a[CLT_SHAPE_TEXT], b[CLT_SHAPE_TEXT];
    if (clt_shape_elements(&in->shape) != clt_shape_elements(shape))
        return clt_infer_fail(ctx, "%s cannot be seen as %s: the numbers of elements differ",
                              clt_shape_text(&in->shape, a, sizeof a), clt_shape_text(shape, b, sizeof b));
    CLT_TRY(clt_infer_out(ctx, in->dtype, shape));
    clt_tensor *out = clt_graph_tensor(ctx->graph, ctx->node->out[ctx->node->n_out - 1]);
    out->view_of = ctx->node->in[input];
    return CLT_OK;
}

/* Gives a layer with `share` the parameter with the same suffix of the layer that `share` names. */
static clt_status share_param(clt_infer *ctx, const char *suffix, const clt_shape *shape)
{
    const clt_node *owner = ctx->graph->nodes[ctx->node->share];
    char name[256], a[CLT_SHAPE_TEXT], b[CLT_SHAPE_TEXT];
    snprintf(name, sizeof name, "%s.%s", owner->name, suffix);
    const clt_param *param = clt_graph_find_param(ctx->graph, name);
    if (!param)
        return clt_infer_fail(ctx, "shares with '%s', which has no parameter '%s'", owner->name, suffix);
    if (!clt_shape_equal(&param->shape, shape))
        return clt_infer_fail(ctx, "shares '%s' of shape %s but needs %s", name,
                              clt_shape_text(&param->shape, a, sizeof a), clt_shape_text(shape, b, sizeof b));
    ctx->node->param[ctx->node->n_param++] = param->index;
    return CLT_OK;
}

clt_status clt_infer_param(clt_infer *ctx, const char *suffix, const clt_shape *shape, clt_init init)
{
    clt_graph *graph = ctx->graph;
    clt_node *node = ctx->node;
    if (node->n_param == CLT_MAX_NODE_PARAMS)
        CLT_FAIL(CLT_EINTERNAL, "layer '%s': more than %d parameters", node->name, CLT_MAX_NODE_PARAMS);
    if (node->share >= 0)
        return share_param(ctx, suffix, shape);
    int32_t tensor;
    CLT_TRY(infer_tensor(ctx, suffix, CLT_F32, shape, CLT_TC_PARAM, &tensor));
    CLT_TRY(clt_grow(&graph->params, &graph->params_capacity, graph->n_params + 1, sizeof *graph->params,
                     "parameter table"));
    clt_param *param = &graph->params[graph->n_params];
    memset(param, 0, sizeof *param);
    param->index = (int32_t)graph->n_params++;
    param->name = param->file_name = clt_graph_tensor(graph, tensor)->name;
    param->shape = *shape;
    param->init = init;
    bool shift = strcmp(suffix, "bias") == 0; /* never decays, not even with several dimensions */
    param->group = shape->ndim >= 2 && !shift ? CLT_GROUP_DECAY : CLT_GROUP_NO_DECAY;
    param->lr_scale = 1.0f;
    param->shard_dim = -1;
    param->tensor = tensor;
    clt_tensor *t = clt_graph_tensor(graph, tensor);
    t->param = param->index;
    t->producer = -1;
    t->requires_grad = true;
    node->param[node->n_param++] = param->index;
    return clt_names_add(&graph->param_names, param->name, (uintptr_t)param->index);
}

clt_status clt_infer_buffer(clt_infer *ctx, const char *suffix, const clt_shape *shape, clt_init init,
                            bool averaged)
{
    CLT_TRY(clt_infer_param(ctx, suffix, shape, init));
    clt_param *param = &ctx->graph->params[ctx->node->param[ctx->node->n_param - 1]];
    param->buffer = true;
    param->averaged = averaged;
    param->group = CLT_GROUP_NO_DECAY;
    clt_graph_tensor(ctx->graph, param->tensor)->requires_grad = false;
    return CLT_OK;
}

clt_status clt_infer_saved(clt_infer *ctx, const char *suffix, clt_dtype dtype, const clt_shape *shape)
{
    clt_node *node = ctx->node;
    if (node->n_saved == CLT_MAX_SAVED)
        CLT_FAIL(CLT_EINTERNAL, "layer '%s': more than %d saved tensors", node->name, CLT_MAX_SAVED);
    CLT_TRY(infer_tensor(ctx, suffix, dtype, shape, CLT_TC_SAVED, &node->saved[node->n_saved]));
    node->n_saved++;
    return CLT_OK;
}

clt_status clt_infer_constant(clt_infer *ctx, const char *suffix, const double *values, int64_t n)
{
    clt_shape shape = clt_shape1(n);
    float *copy = clt_arena_alloc(ctx->graph->arena, (size_t)n * sizeof *copy + 1);
    if (!copy)
        return CLT_ENOMEM;
    for (int64_t i = 0; i < n; i++)
        copy[i] = (float)values[i];
    CLT_TRY(infer_tensor(ctx, suffix, CLT_F32, &shape, CLT_TC_CONSTANT, &ctx->node->constant));
    clt_graph_tensor(ctx->graph, ctx->node->constant)->values = copy;
    return CLT_OK;
}

clt_status clt_infer_loss(clt_infer *ctx, double weight, int target_input, bool has_ignore,
                          int64_t ignore_index, int64_t targets_per_sample)
{
    clt_graph *graph = ctx->graph;
    if (graph->n_losses == CLT_MAX_LOSSES)
        return clt_infer_fail(ctx, "a graph has at most %d losses", CLT_MAX_LOSSES);
    const clt_tensor *target = clt_infer_in(ctx, target_input);
    if (target->cls != CLT_TC_FIELD)
        return clt_infer_fail(ctx, "its target '%s' must be a field of the batch, not a computed tensor",
                              target->name);
    clt_loss *loss = &graph->losses[graph->n_losses];
    loss->name = ctx->node->name;
    loss->node = ctx->node->id;
    loss->weight = (float)weight;
    loss->target_field = target->name;
    loss->has_ignore = has_ignore;
    loss->ignore_index = ignore_index;
    loss->targets_per_sample = targets_per_sample;
    ctx->node->loss = graph->n_losses++;
    return CLT_OK;
}

void clt_infer_bound(clt_infer *ctx, int input, int64_t bound, bool has_ignore, int64_t ignore)
{
    int32_t tensor = ctx->node->in[input];
    while (clt_graph_tensor(ctx->graph, tensor)->view_of >= 0)
        tensor = clt_graph_tensor(ctx->graph, tensor)->view_of;
    for (size_t i = 0; i < ctx->graph->n_fields; i++) {
        clt_field *field = &ctx->graph->fields[i];
        if (field->tensor != tensor || (field->bound && field->bound <= bound))
            continue;
        field->bound = bound;
        field->bound_ignores = has_ignore;
        field->bound_ignore = ignore;
    }
}

void clt_infer_persist(clt_infer *ctx)
{
    clt_graph_tensor(ctx->graph, ctx->node->out[ctx->node->n_out - 1])->persistent = true;
}
