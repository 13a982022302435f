/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry of model families, and code that the families share: batch fields, conversion of integer
 * inputs, positions in error messages. */
#include "engine/models/models.h"

#include <stdio.h>
#include <string.h>

#include "engine/models/models_internal.h"
#include "engine/ops/cross_entropy/cross_entropy.h"
#include "engine/ops/node.h"
#include "engine/ops/op.h"

#define CLT_FAMILY(name) extern const clt_model_family clt_model_##name;
#include "engine/config/families.def"
#undef CLT_FAMILY

#define CLT_FAMILY(name) &clt_model_##name,
static const clt_model_family *const families[] = {
#include "engine/config/families.def"
};
#undef CLT_FAMILY

#define N_FAMILIES (sizeof families / sizeof families[0])

const clt_model_family *const *clt_model_families(int *count)
{
    *count = (int)N_FAMILIES;
    return families;
}

static const clt_model_family *find_family(const char *name)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (strcmp(families[i]->part->name, name) == 0)
            return families[i];
    return NULL;
}

const clt_model_published *clt_model_published_of(const clt_json *model)
{
    const clt_model_family *family = find_family(clt_json_string(clt_json_get(model, "type")));
    return family ? family->published : NULL;
}

const char *clt_model_prefix(const clt_model_published *published, const char *name)
{
    for (const char *const *part = published->outside; part && *part; part++) {
        size_t length = strlen(*part);
        if (strncmp(name, *part, length) == 0 && (name[length] == '.' || name[length] == '\0'))
            return "";
    }
    return published->prefix;
}

const clt_model_family *clt_model_family_of(const clt_config *config)
{
    return find_family(clt_config_string(config, "model.type"));
}

void clt_model_position(const clt_json_doc *doc, const clt_json *value, clt_str *out)
{
    int line, column;
    if (!doc || !value)
        return;
    clt_json_position(value, &line, &column);
    if (line > 0)
        clt_str_printf(out, "%s:%d:%d: ", clt_json_source(doc), line, column);
}

clt_status clt_model_at(const clt_json_doc *doc, const clt_json *value, clt_status status)
{
    clt_str where = {0};
    if (status == CLT_OK || !doc || !value)
        return status;
    const char *source = clt_json_source(doc);
    size_t length = strlen(source);
    if (strncmp(clt_error_text(), source, length) == 0 && clt_error_text()[length] == ':')
        return status;
    clt_model_position(doc, value, &where);
    if (where.text && clt_str_check(&where) == CLT_OK)
        status = clt_fail_prefix(status, "%s", where.text);
    clt_str_free(&where);
    return status;
}

int clt_model_find_field(const clt_model_inputs *inputs, const char *name)
{
    for (int i = 0; i < inputs->n_fields; i++)
        if (strcmp(inputs->field[i].name, name) == 0)
            return i;
    return -1;
}

clt_status clt_model_mixed_fields(const clt_model_inputs *inputs, const clt_op *loss, int field[2],
                                  int *count)
{
    field[0] = clt_model_find_field(inputs, "y2");
    field[1] = clt_model_find_field(inputs, "share");
    *count = field[0] >= 0 && field[1] >= 0 ? 2 : 0;
    if (*count > 0 && loss->max_in < 4)
        CLT_FAIL(CLT_ECONFIG,
                 "the data mixes samples (data.mixup, data.cutmix), and the loss '%s' has no inputs for the "
                 "second class and its share; set both to 0, or use a loss that has them",
                 loss->name);
    return CLT_OK;
}

/* The name of the field whose integers a tensor holds, if between field and tensor there are only layers
 * that move elements. */
static const char *root_field(const clt_graph *graph, int32_t tensor)
{
    const clt_tensor *t = clt_graph_tensor(graph, tensor);
    while (t->producer >= 0 && (graph->nodes[t->producer]->op->flags & CLT_OP_MOVE))
        t = clt_graph_tensor(graph, graph->nodes[t->producer]->in[0]);
    return t->cls == CLT_TC_FIELD ? t->name : "";
}

clt_status clt_model_number(clt_model_builder *b, const clt_op *op, int index, bool mixed, int32_t *tensor)
{
    const clt_tensor *t = clt_graph_tensor(b->graph, *tensor);
    bool is_x = strcmp(root_field(b->graph, *tensor), "x") == 0;
    /* if each channel has its own mean and std, x must be converted before a layer moves the channels */
    bool moves = (op->flags & CLT_OP_MOVE) && !mixed && !(is_x && b->inputs->channels > 0);
    bool takes_integers = ((op->no_grad_inputs >> index) & 1) || strcmp(op->name, "cast") == 0 || moves;
    if (clt_dtype_is_float(t->dtype) || takes_integers)
        return CLT_OK;
    for (int i = 0; i < b->n_casts; i++) {
        if (b->cast[i].from == *tensor) {
            *tensor = b->cast[i].to;
            return CLT_OK;
        }
    }
    char name[256];
    clt_node *node;
    snprintf(name, sizeof name, "%s.f32", t->name);
    const clt_model_inputs *in = b->inputs;
    const clt_attr_given *attrs = CLT_ATTRS(
        CLT_A_FLOAT("scale", in->scale),
        CLT_A_FLOATS("mean", in->channels ? in->channel_mean : &in->mean, in->channels ? in->channels : 1),
        CLT_A_FLOATS("std", in->channels ? in->channel_std : &in->std, in->channels ? in->channels : 1));
    CLT_TRY(clt_graph_add_op(b->graph, "cast", name, NULL, tensor, 1, is_x ? attrs : NULL, &node));
    if (b->n_casts < (int)(sizeof b->cast / sizeof b->cast[0])) {
        b->cast[b->n_casts].from = *tensor;
        b->cast[b->n_casts++].to = node->out[0];
    }
    *tensor = node->out[0];
    return CLT_OK;
}

static clt_status declare_fields(const clt_model_inputs *inputs, clt_graph *graph)
{
    if (inputs->n_fields < 1 || inputs->n_fields > CLT_MODEL_MAX_FIELDS)
        CLT_FAIL(CLT_EINTERNAL, "building the model: the data offers %d fields; 1 to %d are possible",
                 inputs->n_fields, CLT_MODEL_MAX_FIELDS);
    for (int i = 0; i < inputs->n_fields; i++) {
        int32_t tensor;
        CLT_TRY(clt_graph_field(graph, inputs->field[i].name, inputs->field[i].dtype, &inputs->field[i].shape,
                                &tensor));
    }
    return CLT_OK;
}

/* Fails with the error for an unknown family, which only a graph that is built without a config can name. */
static clt_status unknown_family(const clt_json *model, const clt_json_doc *doc, const clt_json *type)
{
    const char *names[N_FAMILIES], *word = clt_json_string_or(type, NULL);
    clt_str list = {0};
    for (size_t i = 0; i < N_FAMILIES; i++) {
        names[i] = families[i]->part->name;
        clt_str_printf(&list, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = word ? clt_nearest_name(word, names, N_FAMILIES) : NULL;
    clt_status status = clt_str_check(&list);
    if (status == CLT_OK && word)
        status = clt_fail(CLT_ECONFIG, __FILE__, __LINE__, "model.type '%s' is unknown%s%s%s; there are %s",
                          word, near ? "; did you mean '" : "", near ? near : "", near ? "'" : "", list.text);
    else if (status == CLT_OK)
        status =
            clt_fail(CLT_ECONFIG, __FILE__, __LINE__, "model.type must be a string, one of %s", list.text);
    clt_str_free(&list);
    return clt_model_at(doc, type ? type : model, status);
}

clt_status clt_model_build(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                           clt_graph *graph)
{
    const clt_json *type = clt_json_get(model, "type");
    const clt_model_family *family = find_family(clt_json_string(type));
    clt_model_info info;
    if (!family)
        return unknown_family(model, doc, type);
    CLT_TRY(declare_fields(inputs, graph));
    CLT_TRY(family->build(model, doc, inputs, graph));
    if (graph->n_params == 0)
        return clt_model_at(
            doc, model,
            clt_fail(CLT_ECONFIG, __FILE__, __LINE__,
                     "the model has no parameters, so there is nothing to train; add a layer that "
                     "has some, such as 'linear'"));
    CLT_TRY(clt_model_freeze(model, doc, graph));
    return clt_model_describe(graph, &info);
}

clt_status clt_model_describe(const clt_graph *graph, clt_model_info *info)
{
    memset(info, 0, sizeof *info);
    if (graph->n_losses < 1)
        CLT_FAIL(CLT_ECONFIG, "the model has no loss layer, so there is nothing to minimise");
    info->loss = graph->nodes[graph->losses[0].node];
    info->prediction = info->loss->in[0];
    clt_tensor *prediction = clt_graph_tensor(graph, info->prediction);
    prediction->is_output = true;
    info->target_field = graph->losses[0].target_field;
    clt_shape rows = prediction->shape; /* shape of the predictions with the classes last */
    if (strcmp(info->loss->op->name, "cross_entropy") == 0)
        rows = clt_cross_entropy_shape(info->loss, &rows);
    info->classes_first =
        strcmp(info->loss->op->name, "cross_entropy") == 0 && clt_node_attr(info->loss, "axis")->i == 1;
    info->outputs = clt_shape_last(&rows);
    info->classes = info->outputs;
    if (strcmp(info->loss->op->name, "cross_entropy") == 0 && clt_node_attr(info->loss, "classes")->i > 0)
        info->classes = clt_node_attr(info->loss, "classes")->i;
    info->rows_per_sample = clt_shape_rows(&rows) / rows.dim[0];
    info->is_classifier = strcmp(info->loss->op->name, "cross_entropy") == 0;
    return CLT_OK;
}

clt_status clt_model_build_decode(const clt_json *model, const clt_json_doc *doc, int64_t vocab,
                                  clt_graph *graph, int32_t *logits, int64_t *context)
{
    const clt_json *type = clt_json_get(model, "type");
    const clt_model_family *family = find_family(clt_json_string(type));
    if (family && family->build_decode)
        return family->build_decode(model, doc, vocab, graph, logits, context);
    CLT_FAIL(CLT_EUNSUPPORTED, "a model of type '%s' cannot generate text; a model of type 'gpt' can",
             clt_json_string(type));
}
