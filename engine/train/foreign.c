/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tensor of a file is which parameter, for files that other programs wrote: a prefix before every name,
 * buffers and second copies that the model makes itself. What a file holds beyond that and the model does not
 * use is an error, because a model that leaves out a part of somebody's weights computes something else. */
#include <stdio.h>
#include <string.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/train/run.h"

/* GPT-2's weights come with and without it. */
static const char prefix[] = "transformer.";

static const char *short_name(const char *name)
{
    return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
}

const struct clt_named_tensor *clt_run_find_tensor(const struct clt_safetensors *file, const clt_param *param)
{
    char longer[512];
    const clt_named_tensor *tensor = clt_safetensors_find(file, param->file_name);
    if (tensor)
        return tensor;
    snprintf(longer, sizeof longer, "%s%s", prefix, param->file_name);
    return clt_safetensors_find(file, longer);
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static bool same_values(const clt_named_tensor *a, const clt_named_tensor *b)
{
    size_t bytes = (size_t)clt_shape_elements(&a->shape) * clt_dtype_bytes(a->dtype);
    return b && a->dtype == b->dtype && clt_shape_equal(&a->shape, &b->shape) &&
           memcmp(a->data, b->data, bytes) == 0;
}

/* Causal masks, and the head of a model whose head is the token table. */
static bool may_be_left_out(const clt_graph *graph, const clt_safetensors *file,
                            const clt_named_tensor *tensor)
{
    const clt_param *table = clt_graph_find_param(graph, "wte.weight");
    if (ends_with(tensor->name, ".attn.bias") || ends_with(tensor->name, ".attn.masked_bias"))
        return true;
    return strcmp(short_name(tensor->name), "lm_head.weight") == 0 && table &&
           same_values(tensor, clt_run_find_tensor(file, table));
}

static bool is_parameter(const clt_graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_params; i++)
        if (strcmp(graph->params[i].file_name, name) == 0 ||
            strcmp(graph->params[i].file_name, short_name(name)) == 0)
            return true;
    return false;
}

clt_status clt_run_check_unused(const clt_graph *graph, const struct clt_safetensors *file, const char *path)
{
    const clt_named_tensor *first = NULL;
    int count = 0;
    for (int i = 0; i < clt_safetensors_count(file); i++) {
        const clt_named_tensor *tensor = clt_safetensors_at(file, i);
        if (is_parameter(graph, tensor->name) || may_be_left_out(graph, file, tensor))
            continue;
        first = first ? first : tensor;
        count++;
    }
    if (!first)
        return CLT_OK;
    bool head = strcmp(short_name(first->name), "lm_head.weight") == 0;
    CLT_FAIL(CLT_ECHECKPOINT,
             "loading '%s': the model has no parameter for %d of its tensors, the first being '%s'; %s", path,
             count, first->name,
             head ? "its head differs from the token table: set model.tied to false"
                  : "check the model section (layers, bias) against the file");
}
