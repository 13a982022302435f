/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph family: the config lists the layers, and each can be any registered op. Reads the list, resolves
 * names (earlier or later layers, fields, second outputs), orders the layers, and adds them. Names no op, so
 * that a new op can be used without a change here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/models/findings.h"
#include "engine/models/models_internal.h"
#include "engine/ops/node.h"
#include "engine/ops/op.h"

/* The source of an input: an output of a layer, or a field. */
typedef struct source {
    int layer; /* -1: a field */
    int field, output;
} source;

typedef struct graph_layer {
    const clt_json *value;
    const clt_op *op;   /* NULL: there is no op with that name */
    const clt_op *near; /* if op is NULL: the op whose name is most similar, or NULL */
    const char *name;
    bool broken; /* this layer, or one that it reads, has a mistake; it gets no further findings */
    int n_in;
    source in[CLT_MAX_IN];
    int share; /* the layer whose parameters it uses, -1 none */
    bool used; /* another layer reads one of its outputs */
    const clt_node *node;
} graph_layer;

typedef struct listing {
    clt_model_builder b;
    graph_layer *layers;
    int count;
    clt_names names; /* names of the layers, with their positions in the list */
    int *numbered;   /* for each op: number of unnamed layers that got their name from it */
    clt_findings findings;
} listing;

/* --- findings: one line for each mistake, without errors that only follow from another one --- */

static void finding(listing *l, const clt_json *value, graph_layer *layer, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void finding(listing *l, const clt_json *value, graph_layer *layer, const char *format, ...)
{
    char text[1024], full[1400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (layer)
        layer->broken = true;
    if (layer && layer->name && layer->op)
        snprintf(full, sizeof full, "layer '%s' (%s): %s", layer->name, layer->op->name, text);
    else if (layer && layer->name)
        snprintf(full, sizeof full, "layer '%s': %s", layer->name, text);
    else if (layer)
        snprintf(full, sizeof full, "model.layers[%d]: %s", (int)(layer - l->layers), text);
    else
        snprintf(full, sizeof full, "model.layers: %s", text);
    clt_findings_add(&l->findings, value, CLT_ECONFIG, full);
}

/* Turns a mistake of the user into a finding about the layer, so that other layers are still checked. Other
 * errors, such as lack of memory, are returned. */
static clt_status failed_layer(listing *l, graph_layer *layer, clt_status status)
{
    if (status == CLT_ECONFIG || status == CLT_ESHAPE) {
        clt_findings_add_error(&l->findings, layer->value, status);
        layer->broken = true;
        return CLT_OK;
    }
    return status;
}

static bool is_loss(const graph_layer *layer)
{
    const clt_op *op = layer->op ? layer->op : layer->near;
    return op && (op->flags & CLT_OP_LOSS);
}

/* The text "; did you mean 'fc1'?", or "" if no name is similar. */
static const char *hint(const char *word, const char *const *names, size_t count, char *buffer, size_t size)
{
    const char *near = clt_nearest_name(word, names, count);
    buffer[0] = 0;
    if (near)
        snprintf(buffer, size, "; did you mean '%.200s'?", near);
    return buffer;
}

/* --- reading --- */

static const char *text_of(listing *l, graph_layer *layer, const char *key)
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
    layer->near = clt_op_near(op);
    finding(l, clt_json_get(layer->value, "op"), layer, "there is no op '%.80s'%s", op,
            clt_op_hint(op, buffer, sizeof buffer));
}

/* Position of the layer with a name, -1 none. */
static int find_layer(const listing *l, const char *name, size_t length)
{
    uintptr_t index;
    return clt_names_find(&l->names, name, length, &index) ? (int)index : -1;
}

static clt_status read_name(listing *l, int index)
{
    graph_layer *layer = &l->layers[index];
    const clt_json *value = clt_json_get(layer->value, "name");
    const char *name = text_of(l, layer, "name");
    if (!name)
        return CLT_OK;
    if (strchr(name, ':') || strchr(name, '\'') || strlen(name) > 100) {
        finding(l, value, layer,
                "the name '%.100s' must not be longer than 100 bytes or contain ':' or a quote", name);
        return CLT_OK;
    }
    int other = find_layer(l, name, strlen(name));
    if (other >= 0)
        finding(l, value, layer, "the name '%s' is taken by model.layers[%d]", name, other);
    else if (clt_model_find_field(l->b.inputs, name) >= 0)
        finding(l, value, layer, "the name '%s' is taken by a field of the data", name);
    else
        layer->name = name;
    return layer->name ? clt_names_add(&l->names, name, (uintptr_t)index) : CLT_OK;
}

/* Layers without a name are called "<op><k>". k counts from 1 and skips names that are taken. */
static clt_status make_name(listing *l, int index)
{
    graph_layer *layer = &l->layers[index];
    if (layer->name || !layer->op)
        return CLT_OK;
    int ops, op = 0;
    while (clt_op_list(&ops)[op] != layer->op)
        op++;
    for (int k = l->numbered[op] + 1;; k++) {
        char name[160];
        snprintf(name, sizeof name, "%.120s%d", layer->op->name, k);
        if (find_layer(l, name, strlen(name)) >= 0 || clt_model_find_field(l->b.inputs, name) >= 0)
            continue;
        l->numbered[op] = k;
        layer->name = clt_arena_strdup(l->b.graph->arena, name);
        return layer->name ? clt_names_add(&l->names, layer->name, (uintptr_t)index) : CLT_ENOMEM;
    }
}

static clt_status read_layers(listing *l, const clt_json *model)
{
    const clt_json *list = clt_json_get(model, "layers");
    if (clt_json_typeof(list) != CLT_JSON_ARRAY || clt_json_count(list) == 0) {
        finding(l, list ? list : model, NULL,
                "must be a non-empty list of layers, such as [{\"op\": \"linear\", \"out\": 10}, "
                "{\"op\": \"cross_entropy\"}]");
        return CLT_OK;
    }
    l->count = (int)clt_json_count(list);
    int ops;
    clt_op_list(&ops);
    CLT_TRY(clt_alloc(&l->layers, (size_t)l->count, sizeof *l->layers, "layer list"));
    CLT_TRY(clt_alloc(&l->numbered, (size_t)ops, sizeof *l->numbered, "layer list"));
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
        CLT_TRY(read_name(l, index));
    }
    for (index = 0; index < l->count; index++)
        CLT_TRY(make_name(l, index));
    return CLT_OK;
}

/* Checks all attributes before any layer is added, so that the mistakes of all layers are reported
 * together. */
static clt_status check_attributes(listing *l)
{
    for (int i = 0; i < l->count; i++) {
        graph_layer *layer = &l->layers[i];
        clt_node node = {.op = layer->op, .name = layer->name};
        if (layer->op)
            CLT_TRY(failed_layer(l, layer, clt_attrs_parse(l->b.graph, &node, layer->value, l->b.doc)));
    }
    return CLT_OK;
}

/* --- inputs --- */

/* Collects all names that an input may have, for hints; the caller frees the list. */
static clt_status all_names(const listing *l, const char ***names, size_t *count)
{
    CLT_TRY(clt_alloc(names, (size_t)(l->count + l->b.inputs->n_fields), sizeof **names, "name list"));
    *count = 0;
    for (int i = 0; i < l->b.inputs->n_fields; i++)
        (*names)[(*count)++] = l->b.inputs->field[i].name;
    for (int i = 0; i < l->count; i++)
        if (l->layers[i].name)
            (*names)[(*count)++] = l->layers[i].name;
    return CLT_OK;
}

/* True for a name like "linear2" that an unnamed layer would have if its op were not misspelt. */
static bool of_wrong_op(const listing *l, const char *name)
{
    size_t length = strcspn(name, "0123456789");
    for (int i = 0; i < l->count; i++) {
        const graph_layer *layer = &l->layers[i];
        const clt_json *op = layer->op || layer->name ? NULL : clt_json_get(layer->value, "op");
        const char *given = op ? clt_json_string(op) : NULL;
        if ((layer->near && strlen(layer->near->name) == length &&
             strncmp(layer->near->name, name, length) == 0) ||
            (given && strlen(given) == length && strncmp(given, name, length) == 0))
            return true;
    }
    return false;
}

/* Resolves "layer", "layer:1" or a field's name. */
static clt_status resolve(listing *l, graph_layer *layer, const clt_json *value, source *out)
{
    const char *text = clt_json_string(value), *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    *out = (source){-1, clt_model_find_field(l->b.inputs, text), 0};
    if (out->field >= 0)
        return CLT_OK;
    out->layer = find_layer(l, text, length);
    if (out->layer < 0 && of_wrong_op(l, text)) {
        layer->broken = true;
        return CLT_OK;
    }
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
    if (is_loss(&l->layers[out->layer]))
        finding(l, value, layer, "input '%s' is a loss, which has no output", text);
    return CLT_OK;
}

/* Sets *out to the default input: the nearest earlier layer that has an output, or the field x. */
static void take_previous(listing *l, int index, source *out)
{
    *out = (source){-1, clt_model_find_field(l->b.inputs, "x"), 0};
    for (int i = index - 1; i >= 0; i--) {
        if (!is_loss(&l->layers[i])) {
            out->layer = i;
            return;
        }
    }
    if (out->field < 0)
        finding(l, l->layers[index].value, &l->layers[index],
                "has no 'inputs', and the data has no field 'x' to start from");
}

/* Gives a loss the inputs from which it learns both classes of a mixed sample and their shares. */
static clt_status add_mixed(listing *l, graph_layer *layer)
{
    int field[2], count;
    if (!layer->op)
        return CLT_OK;
    CLT_TRY(
        clt_model_at(l->b.doc, layer->value, clt_model_mixed_fields(l->b.inputs, layer->op, field, &count)));
    for (int i = 0; i < count; i++)
        layer->in[layer->n_in++] = (source){-1, field[i], 0};
    return CLT_OK;
}

static clt_status read_inputs(listing *l, int index)
{
    graph_layer *layer = &l->layers[index];
    const clt_json *list = clt_json_get(layer->value, "inputs");
    if (!list) {
        take_previous(l, index, &layer->in[layer->n_in++]);
        if (is_loss(layer)) {
            int y = clt_model_find_field(l->b.inputs, "y");
            if (y < 0)
                finding(l, layer->value, layer,
                        "has no 'inputs', and the data has no field 'y' to compare with");
            layer->in[layer->n_in++] = (source){-1, y, 0};
            CLT_TRY(add_mixed(l, layer));
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
    layer->share = find_layer(l, share, strlen(share));
    if (layer->share < 0) {
        const char **names;
        size_t count;
        char buffer[256];
        CLT_TRY(all_names(l, &names, &count));
        finding(l, value, layer, "'share' names '%s', which is not a layer%s", share,
                hint(share, names, count, buffer, sizeof buffer));
        free(names);
    } else if (!l->layers[layer->share].op || !layer->op) {
        layer->broken = true;
    } else if (l->layers[layer->share].op != layer->op) {
        finding(l, value, layer, "cannot share parameters with '%s', which is a %s", share,
                l->layers[layer->share].op->name);
    } else if (&l->layers[layer->share] == layer || clt_json_get(l->layers[layer->share].value, "share")) {
        finding(l, value, layer, "'share' must name a layer that has its own parameters; '%s' has none",
                share);
    }
    return CLT_OK;
}

static void report_no_loss(listing *l)
{
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
}

/* Checks that there is a loss and that every other layer's output is read. sound: true if all inputs were
 * resolved. */
static void check_use(listing *l, bool sound)
{
    bool any_loss = false;
    for (int i = 0; i < l->count; i++) {
        const graph_layer *layer = &l->layers[i];
        /* an unknown op may be a loss */
        any_loss = any_loss || is_loss(layer) || (!layer->op && !layer->near);
        for (int k = 0; k < layer->n_in; k++)
            if (layer->in[k].layer >= 0)
                l->layers[layer->in[k].layer].used = true;
    }
    if (!any_loss)
        report_no_loss(l);
    for (int i = 0; i < l->count && any_loss && sound; i++)
        if (!l->layers[i].used && !is_loss(&l->layers[i]))
            finding(l, l->layers[i].value, &l->layers[i],
                    "its output is not used; remove the layer or use it as an input");
}

/* --- order --- */

/* Index of a layer that must still be added before this one: the producer of an input, or the owner of shared
 * parameters. -1: there is none. */
static int waits_for(const listing *l, const graph_layer *layer)
{
    for (int i = 0; i < layer->n_in; i++)
        if (layer->in[i].layer >= 0 && !l->layers[layer->in[i].layer].node)
            return layer->in[i].layer;
    if (layer->share >= 0 && !l->layers[layer->share].node)
        return layer->share;
    return -1;
}

/* True if the layer reads, or shares parameters with, a layer that has a mistake, so that it cannot be
 * checked. */
static bool reads_broken(const listing *l, const graph_layer *layer)
{
    for (int i = 0; i < layer->n_in; i++)
        if (layer->in[i].layer >= 0 && l->layers[layer->in[i].layer].broken)
            return true;
    return layer->share >= 0 && l->layers[layer->share].broken;
}

/* Reports a cycle with the names of its layers. Every remaining layer waits for another one, so that
 * following these relations from any layer leads into a cycle. */
static clt_status report_cycle(listing *l, int first)
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
    return status;
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
                return CLT_OK;
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

/* Adds the layers in the order of the list, except where a layer must wait for its inputs. */
static clt_status add_layers(listing *l)
{
    for (bool moved = true; moved;) {
        int stuck = -1;
        moved = false;
        for (int i = 0; i < l->count; i++) {
            graph_layer *layer = &l->layers[i];
            if (layer->node || layer->broken)
                continue;
            layer->broken = reads_broken(l, layer);
            if (!layer->broken && waits_for(l, layer) >= 0) {
                stuck = i;
                continue;
            }
            if (!layer->broken)
                CLT_TRY(failed_layer(l, layer, add_layer(l, layer)));
            moved = true;
        }
        if (!moved && stuck >= 0)
            return report_cycle(l, stuck);
    }
    return CLT_OK;
}

static clt_status build_list(listing *l, const clt_json *model)
{
    CLT_TRY(read_layers(l, model));
    if (l->count == 0)
        return CLT_OK;
    for (int i = 0; i < l->count; i++) {
        if (clt_json_typeof(l->layers[i].value) != CLT_JSON_OBJECT)
            continue;
        CLT_TRY(read_inputs(l, i));
        CLT_TRY(read_share(l, &l->layers[i]));
    }
    bool sound = true;
    for (int i = 0; i < l->count; i++)
        sound = sound && !l->layers[i].broken;
    CLT_TRY(check_attributes(l));
    check_use(l, sound);
    return add_layers(l);
}

static clt_status graph_build(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                              clt_graph *graph)
{
    listing l = {.b = {.doc = doc, .inputs = inputs, .graph = graph}, .findings = {.doc = doc}};
    clt_error error;
    clt_status status = build_list(&l, model);
    clt_error_take(status, &error);
    clt_status found = clt_findings_finish(&l.findings);
    free(l.layers);
    free(l.numbered);
    clt_names_free(&l.names);
    return status != CLT_OK ? clt_error_put(&error) : found;
}

/* --- config keys of this family --- */

static void check_rules(clt_config_rules *rules)
{
    if (clt_rules_usable(rules, "model.layers") && clt_config_int(rules->config, "model.layers") > 0)
        clt_rules_broken(rules, "model.layers",
                         "a number of layers is not possible with model.type graph; give a list of layers");
}

static const clt_config_key keys[] = {
    CLT_KEY_LAYERS("list of layers, each {\"op\": any op, \"name\": optional, \"inputs\": optional list of "
                   "names, attributes ...}; without inputs a layer reads the output of the layer before it"),
    CLT_KEY_END,
};
static const char *const required[] = {"model.layers", NULL};

const clt_config_part clt_family_graph = {.name = "graph",
                                          .help = "the layers of model.layers",
                                          .keys = keys,
                                          .required = required,
                                          .check = check_rules};

const clt_model_family clt_model_graph = {
    .part = &clt_family_graph, .noun = "a graph of layers", .build = graph_build};
