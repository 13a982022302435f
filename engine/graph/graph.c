/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors and fields of graphs, look-ups. Nodes are added by engine/ops/node.c. */
#include "engine/graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/graph/step_block.h"

const char *clt_tensor_class_name(clt_tensor_class c)
{
    static const char *const names[CLT_TC_COUNT] = {
        "field", "step",       "constant", "parameter", "parameter gradient", "optimizer",
        "state", "activation", "saved",    "gradient",  "workspace"};
    return (unsigned)c < CLT_TC_COUNT ? names[c] : "?";
}

clt_status clt_graph_create(int64_t micro_batch, clt_graph **out)
{
    CLT_SCOPED(clt_graph) *graph = NULL;
    clt_shape words = clt_shape1(SB_WORDS);
    *out = NULL;
    if (micro_batch < 1)
        CLT_FAIL(CLT_ECONFIG,
                 "creating a graph: a micro-batch of %lld samples is not possible; use at least 1",
                 (long long)micro_batch);
    CLT_TRY(clt_alloc(&graph, 1, sizeof *graph, "graph"));
    CLT_TRY(clt_arena_create(&graph->arena));
    graph->micro_batch = micro_batch;
    CLT_TRY(clt_graph_new_tensor(graph, "step block", CLT_U32, &words, CLT_TC_STEP, &graph->step));
    *out = CLT_TAKE(graph);
    return CLT_OK;
}

void clt_graph_destroy(clt_graph *graph)
{
    if (!graph)
        return;
    clt_arena_destroy(graph->arena);
    free(graph->tensors);
    free(graph->nodes);
    free(graph->params);
    free(graph->fields);
    clt_names_free(&graph->node_names);
    clt_names_free(&graph->param_names);
    free(graph);
}

static clt_status check_shape(const char *name, const clt_shape *shape)
{
    uint64_t elements = 1;
    char text[CLT_SHAPE_TEXT];
    for (int i = 0; i < shape->ndim; i++)
        if (shape->dim[i] < 1 || !clt_mul_u64(elements, (uint64_t)shape->dim[i], &elements) ||
            elements > (UINT64_C(1) << 46))
            CLT_FAIL(CLT_ESHAPE, "tensor '%s': shape %s has an empty dimension or is too large", name,
                     clt_shape_text(shape, text, sizeof text));
    return CLT_OK;
}

clt_status clt_graph_new_tensor(clt_graph *graph, const char *name, clt_dtype dtype, const clt_shape *shape,
                                clt_tensor_class cls, int32_t *id)
{
    CLT_TRY(check_shape(name, shape));
    CLT_TRY(clt_grow(&graph->tensors, &graph->tensors_capacity, graph->n_tensors + 1, sizeof *graph->tensors,
                     "tensor table"));
    clt_tensor *tensor = clt_arena_alloc(graph->arena, sizeof *tensor);
    if (!tensor)
        return CLT_ENOMEM;
    graph->tensors[graph->n_tensors] = tensor;
    tensor->id = (int32_t)graph->n_tensors;
    tensor->name = clt_arena_strdup(graph->arena, name);
    if (!tensor->name)
        return CLT_ENOMEM;
    tensor->dtype = dtype;
    tensor->shape = *shape;
    tensor->cls = cls;
    tensor->producer = tensor->param = tensor->view_of = -1;
    graph->n_tensors++;
    *id = tensor->id;
    return CLT_OK;
}

clt_tensor *clt_graph_tensor(const clt_graph *graph, int32_t id)
{
    return id >= 0 && (size_t)id < graph->n_tensors ? graph->tensors[id] : NULL;
}

clt_shape clt_tensor_memory_shape(const clt_tensor *tensor)
{
    clt_shape shape = tensor->shape;
    if (tensor->layout == CLT_LAYOUT_ROW_MAJOR || shape.ndim < 3)
        return shape;
    for (int i = 1; i + 1 < shape.ndim; i++)
        shape.dim[i] = tensor->shape.dim[i + 1];
    shape.dim[shape.ndim - 1] = tensor->shape.dim[1];
    return shape;
}

clt_status clt_graph_field(clt_graph *graph, const char *name, clt_dtype dtype, const clt_shape *shape,
                           int32_t *tensor)
{
    if (clt_graph_find_field(graph, name) >= 0)
        CLT_FAIL(CLT_ECONFIG, "graph: the batch field '%s' is declared twice", name);
    if (shape->ndim + 1 > CLT_MAX_DIMS)
        CLT_FAIL(CLT_ESHAPE, "graph: the batch field '%s' has %d dimensions; at most %d fit", name,
                 shape->ndim, CLT_MAX_DIMS - 1);
    clt_shape batched = {.ndim = shape->ndim + 1};
    batched.dim[0] = graph->micro_batch;
    memcpy(batched.dim + 1, shape->dim, (size_t)shape->ndim * sizeof shape->dim[0]);
    CLT_TRY(clt_graph_new_tensor(graph, name, dtype, &batched, CLT_TC_FIELD, tensor));
    CLT_TRY(clt_grow(&graph->fields, &graph->fields_capacity, graph->n_fields + 1, sizeof *graph->fields,
                     "field table"));
    clt_field *field = &graph->fields[graph->n_fields++];
    field->name = clt_graph_tensor(graph, *tensor)->name;
    field->dtype = dtype;
    field->shape = *shape;
    field->tensor = *tensor;
    return CLT_OK;
}

int32_t clt_graph_find_field(const clt_graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_fields; i++)
        if (strcmp(graph->fields[i].name, name) == 0)
            return (int32_t)i;
    return -1;
}

clt_node *clt_graph_find(const clt_graph *graph, const char *name)
{
    uintptr_t node;
    return clt_names_find(&graph->node_names, name, strlen(name), &node) ? (clt_node *)node : NULL;
}

const clt_param *clt_graph_find_param(const clt_graph *graph, const char *name)
{
    uintptr_t index;
    return clt_names_find(&graph->param_names, name, strlen(name), &index) ? &graph->params[index] : NULL;
}

/* Number of elements of all buffers, or of all other parameters; frozen_alone: only the frozen ones
 * count. */
static int64_t elements_of(const clt_graph *graph, bool buffers, bool frozen_alone)
{
    int64_t total = 0;
    for (size_t i = 0; i < graph->n_params; i++) {
        const clt_param *param = &graph->params[i];
        if (param->buffer == buffers && (param->frozen || !frozen_alone))
            total += clt_shape_elements(&param->shape);
    }
    return total;
}

int64_t clt_graph_param_elements(const clt_graph *graph)
{
    return elements_of(graph, false, false);
}

int64_t clt_graph_frozen_elements(const clt_graph *graph)
{
    return elements_of(graph, false, true);
}

int64_t clt_graph_buffer_elements(const clt_graph *graph)
{
    return elements_of(graph, true, false);
}

int32_t clt_graph_buffers(const clt_graph *graph)
{
    int32_t count = 0;
    for (size_t i = 0; i < graph->n_params; i++)
        count += graph->params[i].buffer;
    return count;
}

bool clt_node_updates_buffers(const clt_graph *graph, const clt_node *node)
{
    bool any = false;
    for (int i = 0; i < node->n_param; i++) {
        const clt_param *param = &graph->params[node->param[i]];
        if (param->buffer && param->frozen)
            return false;
        any |= param->buffer;
    }
    return any;
}

/* True if the field is a row of whole numbers for each sample. */
static bool is_row(const clt_field *field)
{
    return !clt_dtype_is_float(field->dtype) && field->shape.ndim == 1;
}

int64_t clt_graph_tokens(const clt_graph *graph)
{
    int32_t y = graph->n_losses ? clt_graph_find_field(graph, graph->losses[0].target_field) : -1;
    int32_t x = clt_graph_find_field(graph, "x");
    if (y < 0 || !is_row(&graph->fields[y]))
        return 1;
    return x >= 0 && is_row(&graph->fields[x]) ? graph->fields[x].shape.dim[0]
                                               : graph->losses[0].targets_per_sample;
}
