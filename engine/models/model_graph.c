/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph family: layers listed in the config, each any registered op. Reads the list, resolves names
 * (earlier or later layers, fields, second outputs), orders the layers, and adds them. Names no op: one that
 * arrives later is available at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/models/model_internal.h"
#include "engine/ops/op.h"

/* Where an input comes from: an output of a layer, or a field. */
typedef struct source {
    int layer; /* -1: a field */
    int field, output;
} source;

typedef struct graph_layer {
    const clt_json *value;
    const clt_op *op;
    const char *name;
    int n_in;
    source in[CLT_MAX_IN];
    int share; /* layer whose parameters it uses, -1 */
    bool used; /* somebody reads an output */
    const clt_node *node;
} graph_layer;

typedef struct listing {
    clt_model_builder b;
    graph_layer *layers;
    int count;
    clt_str problems;
    int n_problems;
} listing;

/* --- findings: every mistake in words and names is reported, one per line --- */

static void finding(listing *l, const clt_json *value, const graph_layer *layer, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void finding(listing *l, const clt_json *value, const graph_layer *layer, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (l->n_problems++)
        clt_str_append(&l->problems, "\n");
    clt_model_position(l->b.doc, value, &l->problems);
    if (layer && layer->name && layer->op)
        clt_str_printf(&l->problems, "layer '%s' (%s): %s", layer->name, layer->op->name, text);
    else if (layer && layer->name)
        clt_str_printf(&l->problems, "layer '%s': %s", layer->name, text);
    else if (layer)
        clt_str_printf(&l->problems, "model.layers[%d]: %s", (int)(layer - l->layers), text);
    else
        clt_str_printf(&l->problems, "model.layers: %s", text);
}

static clt_status findings(listing *l)
{
    if (l->n_problems == 0)
        return CLT_OK;
    CLT_TRY(clt_str_check(&l->problems));
    CLT_FAIL(CLT_ECONFIG, "%s", l->problems.text);
}

/* "; did you mean 'fc1'?" or "". */
static const char *hint(const char *word, const char *const *names, size_t count, char *buffer, size_t size)
{
    const char *near = clt_nearest_name(word, names, count);
    buffer[0] = 0;
    if (near)
        snprintf(buffer, size, "; did you mean '%.200s'?", near);
    return buffer;
}

/* --- reading --- */

static const char *text_of(listing *l, const graph_layer *layer, const char *key)
{
    const clt_json *value = clt_json_get(layer->value, key);
    if (!value)
        return NULL;
    if (clt_json_typeof(value) == CLT_JSON_STRING && clt_json_string(value)[0])
        return clt_json_string(value);
    finding(l, value, layer, "'%s' must be a non-empty string, not %s", key,
            clt_json_typeof(value) == CLT_JSON_STRING ? "an empty one"
                                                      : clt_json_type_name(clt_json_typeof(value)));
    return NULL;
}

static void read_op(listing *l, graph_layer *layer)
{
    char buffer[256];
    const char *names[512];
    int count;
    const char *op = text_of(l, layer, "op");
    if (!op) {
        if (!clt_json_get(layer->value, "op"))
            finding(l, layer->value, layer, "has no 'op'");
        return;
    }
    layer->op = clt_op_find(op);
    if (layer->op && !(layer->op->flags & CLT_OP_FUSED))
        return;
    layer->op = NULL;
    const clt_op *const *ops = clt_op_list(&count);
    size_t n = 0;
    for (int i = 0; i < count && n < 512; i++)
        if (!(ops[i]->flags & CLT_OP_FUSED))
            names[n++] = ops[i]->name;
    finding(l, clt_json_get(layer->value, "op"), layer, "there is no op '%s'%s", op,
            hint(op, names, n, buffer, sizeof buffer));
}

/* Layer of a name among the first `count`, -1. */
static int find_layer(const listing *l, const char *name, size_t length, int count)
{
    for (int i = 0; i < count; i++)
        if (l->layers[i].name && strlen(l->layers[i].name) == length &&
            memcmp(l->layers[i].name, name, length) == 0)
            return i;
    return -1;
}

static void read_name(listing *l, int index)
{
    graph_layer *layer = &l->layers[index];
    const clt_json *value = clt_json_get(layer->value, "name");
    const char *name = text_of(l, layer, "name");
    if (!name)
        return;
    if (strchr(name, ':') || strchr(name, '\'') || strlen(name) > 100) {
        finding(l, value, layer,
                "the name '%.100s' must not be longer than 100 bytes or contain ':' or a quote", name);
        return;
    }
    int other = find_layer(l, name, strlen(name), index);
    if (other >= 0)
        finding(l, value, layer, "the name '%s' is taken by model.layers[%d]", name, other);
    else if (clt_model_find_field(l->b.inputs, name) >= 0)
        finding(l, value, layer, "the name '%s' is taken by a field of the data", name);
    else
        layer->name = name;
}

/* Layers without a name get "<op><k>", k counting from 1 and skipping names that are taken. */
static clt_status make_name(listing *l, int index)
{
    graph_layer *layer = &l->layers[index];
    if (layer->name || !layer->op)
        return CLT_OK;
    for (int k = 1;; k++) {
        char name[160];
        snprintf(name, sizeof name, "%.120s%d", layer->op->name, k);
        if (find_layer(l, name, strlen(name), l->count) >= 0 || clt_model_find_field(l->b.inputs, name) >= 0)
            continue;
        layer->name = clt_arena_strdup(l->b.graph->arena, name);
        return layer->name ? CLT_OK : CLT_ENOMEM;
    }
}

static clt_status read_layers(listing *l, const clt_json *model)
{
    const clt_json *list = clt_json_get(model, "layers");
    if (!list || clt_json_typeof(list) != CLT_JSON_ARRAY || clt_json_count(list) == 0) {
        finding(l, list ? list : model, NULL,
                "must be a non-empty list of layers, such as [{\"op\": \"linear\", \"out\": 10}, "
                "{\"op\": \"cross_entropy\"}]");
        return findings(l);
    }
    l->count = (int)clt_json_count(list);
    CLT_TRY(clt_alloc(&l->layers, (size_t)l->count, sizeof *l->layers, "layer list"));
    int index = 0;
    for (const clt_json *value = clt_json_first(list); value; value = clt_json_next(value), index++) {
        graph_layer *layer = &l->layers[index];
        layer->value = value;
        layer->share = -1;
        if (clt_json_typeof(value) != CLT_JSON_OBJECT) {
            finding(l, value, layer, "must be an object such as {\"op\": \"relu\"}, not %s",
                    clt_json_type_name(clt_json_typeof(value)));
            continue;
        }
        read_op(l, layer);
        read_name(l, index);
    }
    for (index = 0; index < l->count; index++)
        CLT_TRY(make_name(l, index));
    return findings(l);
}

/* --- inputs --- */

/* All names an input may have, for hints; the caller frees. */
static clt_status all_names(const listing *l, const char ***names, size_t *count)
{
    CLT_TRY(clt_alloc(names, (size_t)(l->count + l->b.inputs->n_fields), sizeof **names, "name list"));
    *count = 0;
    for (int i = 0; i < l->b.inputs->n_fields; i++)
        (*names)[(*count)++] = l->b.inputs->field[i].name;
    for (int i = 0; i < l->count; i++)
        (*names)[(*count)++] = l->layers[i].name;
    return CLT_OK;
}

/* Resolves "layer", "layer:1" or a field's name. */
static clt_status resolve(listing *l, graph_layer *layer, const clt_json *value, source *out)
{
    const char *text = clt_json_string(value), *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    *out = (source){-1, clt_model_find_field(l->b.inputs, text), 0};
    if (out->field >= 0)
        return CLT_OK;
    out->layer = find_layer(l, text, length, l->count);
    if (out->layer < 0) {
        const char **names;
        size_t count;
        char buffer[256];
        CLT_TRY(all_names(l, &names, &count));
        finding(l, value, layer, "input '%s' is neither a layer nor a field of the data%s", text,
                hint(text, names, count, buffer, sizeof buffer));
        free(names);
        return CLT_OK;
    }
    if (colon) {
        char *end;
        long output = strtol(colon + 1, &end, 10);
        if (colon[1] < '0' || colon[1] > '9' || *end || output >= CLT_MAX_OUT)
            finding(l, value, layer, "input '%s': after ':' comes the number of an output, 0 to %d", text,
                    CLT_MAX_OUT - 1);
        else
            out->output = (int)output;
    }
    if (l->layers[out->layer].op->flags & CLT_OP_LOSS)
        finding(l, value, layer, "input '%s' is a loss, which has no output", text);
    return CLT_OK;
}

/* The nearest layer above that has an output, or the field x. */
static void take_previous(listing *l, int index, source *out)
{
    *out = (source){-1, clt_model_find_field(l->b.inputs, "x"), 0};
    for (int i = index - 1; i >= 0; i--) {
        if (!(l->layers[i].op->flags & CLT_OP_LOSS)) {
            out->layer = i;
            return;
        }
    }
    if (out->field < 0)
        finding(l, l->layers[index].value, &l->layers[index],
                "has no 'inputs', and the data has no field 'x' to start from");
}

static clt_status read_inputs(listing *l, int index)
{
    graph_layer *layer = &l->layers[index];
    const clt_json *list = clt_json_get(layer->value, "inputs");
    if (!list) {
        take_previous(l, index, &layer->in[layer->n_in++]);
        if (layer->op->flags & CLT_OP_LOSS) {
            int y = clt_model_find_field(l->b.inputs, "y");
            if (y < 0)
                finding(l, layer->value, layer,
                        "has no 'inputs', and the data has no field 'y' to compare with");
            layer->in[layer->n_in++] = (source){-1, y, 0};
        }
        return CLT_OK;
    }
    if (clt_json_typeof(list) != CLT_JSON_ARRAY || clt_json_count(list) == 0 ||
        clt_json_count(list) > CLT_MAX_IN) {
        finding(l, list, layer, "'inputs' must be a list of 1 to %d names", CLT_MAX_IN);
        return CLT_OK;
    }
    for (const clt_json *value = clt_json_first(list); value; value = clt_json_next(value)) {
        if (clt_json_typeof(value) == CLT_JSON_STRING)
            CLT_TRY(resolve(l, layer, value, &layer->in[layer->n_in++]));
        else
            finding(l, value, layer, "an entry of 'inputs' is %s; names are strings",
                    clt_json_type_name(clt_json_typeof(value)));
    }
    return CLT_OK;
}

static clt_status read_share(listing *l, graph_layer *layer)
{
    const char *share = text_of(l, layer, "share");
    if (!share)
        return CLT_OK;
    const clt_json *value = clt_json_get(layer->value, "share");
    layer->share = find_layer(l, share, strlen(share), l->count);
    if (layer->share < 0) {
        const char **names;
        size_t count;
        char buffer[256];
        CLT_TRY(all_names(l, &names, &count));
        finding(l, value, layer, "'share' names '%s', which is no layer%s", share,
                hint(share, names, count, buffer, sizeof buffer));
        free(names);
    } else if (l->layers[layer->share].op != layer->op) {
        finding(l, value, layer, "cannot share parameters with '%s', which is a %s", share,
                l->layers[layer->share].op->name);
    } else if (&l->layers[layer->share] == layer || clt_json_get(l->layers[layer->share].value, "share")) {
        finding(l, value, layer, "'share' must name a layer that has its own parameters; '%s' has none",
                share);
    }
    return CLT_OK;
}

/* Losses exist, and every other layer's result is read by somebody. */
static void check_use(listing *l)
{
    bool any_loss = false;
    for (int i = 0; i < l->count; i++) {
        any_loss = any_loss || (l->layers[i].op->flags & CLT_OP_LOSS);
        for (int k = 0; k < l->layers[i].n_in; k++)
            if (l->layers[i].in[k].layer >= 0)
                l->layers[l->layers[i].in[k].layer].used = true;
    }
    if (!any_loss) {
        clt_str names = {0};
        int count;
        const clt_op *const *ops = clt_op_list(&count);
        for (int i = 0; i < count; i++)
            if ((ops[i]->flags & CLT_OP_LOSS) && !(ops[i]->flags & CLT_OP_FUSED))
                clt_str_printf(&names, "%s%s", names.length ? ", " : "", ops[i]->name);
        finding(l, l->layers[l->count - 1].value, NULL,
                "there is no loss, so there is nothing to minimise; end the list with one of %s",
                names.text ? names.text : "the losses");
        clt_str_free(&names);
        return;
    }
    for (int i = 0; i < l->count; i++)
        if (!l->layers[i].used && !(l->layers[i].op->flags & CLT_OP_LOSS))
            finding(l, l->layers[i].value, &l->layers[i],
                    "nobody reads its output; remove the layer or use it as an input");
}

/* --- order --- */

/* A layer that this one waits for and that is not placed yet, -1. Edges: inputs and the owner of shared
 * parameters. */
static int waits_for(const listing *l, const graph_layer *layer)
{
    for (int i = 0; i < layer->n_in; i++)
        if (layer->in[i].layer >= 0 && !l->layers[layer->in[i].layer].node)
            return layer->in[i].layer;
    if (layer->share >= 0 && !l->layers[layer->share].node)
        return layer->share;
    return -1;
}

/* Every layer that is left waits for another one: following that relation must come round. Names the cycle.
 */
static clt_status fail_cycle(listing *l, int first)
{
    clt_str cycle = {0};
    clt_status status = CLT_OK;
    int at = first;
    for (int i = 0; i < l->count; i++)
        at = waits_for(l, &l->layers[at]);
    int start = at;
    do {
        clt_str_printf(&cycle, "'%s' reads ", l->layers[at].name);
        at = waits_for(l, &l->layers[at]);
    } while (at != start);
    status = clt_str_check(&cycle);
    if (status == CLT_OK)
        finding(l, l->layers[start].value, NULL, "the layers form a cycle: %s'%s'", cycle.text,
                l->layers[start].name);
    clt_str_free(&cycle);
    CLT_TRY(status);
    return findings(l);
}

static clt_status add_layer(listing *l, graph_layer *layer)
{
    int32_t inputs[CLT_MAX_IN];
    bool any_float = false;
    clt_node *node;
    for (int i = 0; i < layer->n_in; i++) {
        const source *s = &layer->in[i];
        if (s->layer < 0) {
            inputs[i] = l->b.graph->fields[s->field].tensor;
        } else {
            const graph_layer *from = &l->layers[s->layer];
            if (s->output >= from->node->n_out) {
                finding(l, clt_json_get(layer->value, "inputs"), layer,
                        "reads output %d of '%s', which has %d", s->output, from->name, from->node->n_out);
                return findings(l);
            }
            inputs[i] = from->node->out[s->output];
        }
        any_float = any_float || clt_dtype_is_float(clt_graph_tensor(l->b.graph, inputs[i])->dtype);
    }
    for (int i = 0; i < layer->n_in; i++)
        CLT_TRY(clt_model_number(&l->b, layer->op, i, any_float, &inputs[i]));
    const char *share = layer->share >= 0 ? l->layers[layer->share].name : NULL;
    CLT_TRY(clt_graph_add(l->b.graph, layer->op->name, layer->name, layer->value, l->b.doc, inputs,
                          layer->n_in, share, &node));
    layer->node = node;
    return CLT_OK;
}

/* Adds the layers in the order of the list as far as their inputs allow. */
static clt_status add_layers(listing *l)
{
    int placed = 0;
    while (placed < l->count) {
        int before = placed, stuck = -1;
        for (int i = 0; i < l->count; i++) {
            if (l->layers[i].node)
                continue;
            if (waits_for(l, &l->layers[i]) >= 0) {
                stuck = i;
                continue;
            }
            CLT_TRY(clt_model_at(l->b.doc, l->layers[i].value, add_layer(l, &l->layers[i])));
            placed++;
        }
        if (placed == before)
            return fail_cycle(l, stuck);
    }
    return CLT_OK;
}

static clt_status graph_build(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                              clt_graph *graph)
{
    listing l = {.b = {.doc = doc, .inputs = inputs, .graph = graph}};
    clt_status status;
    CLT_TRY_GOTO(read_layers(&l, model), done);
    for (int i = 0; i < l.count; i++) {
        CLT_TRY_GOTO(read_inputs(&l, i), done);
        CLT_TRY_GOTO(read_share(&l, &l.layers[i]), done);
    }
    CLT_TRY_GOTO(findings(&l), done);
    check_use(&l);
    CLT_TRY_GOTO(findings(&l), done);
    CLT_TRY_GOTO(add_layers(&l), done);
done:
    free(l.layers);
    clt_str_free(&l.problems);
    return status;
}

const clt_model_family clt_model_graph = {"graph", "the layers of model.layers", graph_build, NULL};
