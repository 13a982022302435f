/* SPDX-License-Identifier: Apache-2.0
 *
 * The mlp family: linear layers with an activation and dropout between them, over flat vectors of numbers or
 * over embedded indices. Knows the keys of the model section and the batch fields x and y. */
#include <stdio.h>
#include <string.h>

#include "engine/models/models_internal.h"
#include "engine/ops/node.h"
#include "engine/ops/op.h"

#define ACTIVATIONS "relu|gelu|gelu_tanh|tanh|sigmoid|silu|auto"
#define MOST_CLASSES 16777216 /* limit on the classes if only the data determines their number */
#define LOSSES "cross_entropy|mse|l1|bce_with_logits"
#define NO_IGNORE_INDEX (-100) /* default of model.ignore_index: every target counts */

typedef struct mlp {
    clt_model_builder b;
    const clt_model_field *x, *y;
    const char *activation, *loss;
    double dropout;
    bool bias;
    int64_t embedding, outputs;
    const double *class_weights; /* one for each output; NULL: all are 1 */
    int32_t at;                  /* output of the layer that was added last */
} mlp;

static clt_status mlp_fail(const mlp *m, const char *key, const char *why)
{
    return clt_model_key_fail(&m->b, key, why);
}

static clt_status mlp_add(mlp *m, const char *op, const char *name, const clt_attr_given *attrs)
{
    clt_node *node;
    CLT_TRY(clt_model_at(m->b.doc, m->b.model,
                         clt_graph_add_op(m->b.graph, op, name, NULL, &m->at, 1, attrs, &node)));
    m->at = node->out[0];
    return CLT_OK;
}

static clt_status mlp_read(mlp *m)
{
    m->activation = "relu";
    m->loss = "cross_entropy";
    m->bias = true;
    CLT_TRY(clt_model_read_word(&m->b, "activation", ACTIVATIONS, &m->activation));
    if (strcmp(m->activation, "auto") == 0)
        m->activation = "relu";
    CLT_TRY(clt_model_read_word(&m->b, "loss", LOSSES, &m->loss));
    CLT_TRY(clt_model_read_share(&m->b, "dropout", &m->dropout));
    CLT_TRY(clt_model_read_int(&m->b, "embedding", 0, &m->embedding));
    CLT_TRY(clt_model_read_int(&m->b, "outputs", 0, &m->outputs));
    CLT_TRY(clt_model_read_bool(&m->b, "bias", &m->bias));
    int x = clt_model_find_field(m->b.inputs, "x"), y = clt_model_find_field(m->b.inputs, "y");
    if (x < 0 || y < 0)
        return mlp_fail(m, "type",
                        "an mlp needs the data fields 'x' and 'y', which this data does not offer");
    m->x = &m->b.inputs->field[x];
    m->y = &m->b.inputs->field[y];
    m->at = m->b.graph->fields[x].tensor;
    return CLT_OK;
}

/* Determines the width of the last layer, from the config or from the targets. */
static clt_status mlp_outputs(mlp *m)
{
    if (strcmp(m->loss, "cross_entropy") == 0 && clt_dtype_is_float(m->y->dtype))
        return mlp_fail(m, "loss",
                        "targets are f32: model.loss=mse (or l1)? cross_entropy needs class numbers (u8, u16 "
                        "or i32)");
    if (m->outputs > 0)
        return CLT_OK;
    m->outputs = clt_shape_elements(&m->y->shape);
    if (strcmp(m->loss, "cross_entropy") != 0)
        return CLT_OK;
    if (m->y->max_value < 0)
        return mlp_fail(m, "outputs",
                        "the number of classes is not known from the data; give it: model.outputs=10, say");
    if (m->y->max_value >= MOST_CLASSES) {
        char why[160];
        snprintf(why, sizeof why,
                 "the largest target is %lld: is this a class, or a value to predict (model.loss=mse or l1)? "
                 "for that many classes give model.outputs",
                 (long long)m->y->max_value);
        return mlp_fail(m, "loss", why);
    }
    m->outputs = m->y->max_value + 1;
    return CLT_OK;
}

static clt_status mlp_class_weights(mlp *m)
{
    const clt_json *given = clt_json_get(m->b.model, "class_weights");
    if (strcmp(m->loss, "cross_entropy") == 0)
        return clt_model_read_class_weights(&m->b, "an mlp", m->outputs, &m->class_weights);
    if (clt_json_typeof(given) == CLT_JSON_ARRAY && clt_json_count(given) == 0)
        return CLT_OK;
    return given ? mlp_fail(m, "class_weights", "only the loss cross_entropy has classes; remove it")
                 : CLT_OK;
}

/* Brings x into the shape (N, features). */
static clt_status mlp_input(mlp *m)
{
    static const int64_t one = 1;
    if (m->embedding > 0) {
        int64_t vocab = m->x->dtype == CLT_U8 ? 256 : m->x->max_value + 1;
        if (clt_dtype_is_float(m->x->dtype))
            return mlp_fail(m, "embedding", "the inputs are not integers; set it to 0");
        if (vocab < 1)
            return mlp_fail(m, "embedding",
                            "the largest index is not known from the data; use model.type graph, whose "
                            "embedding layer says 'vocab'");
        CLT_TRY(mlp_add(m, "embedding", "embedding",
                        CLT_ATTRS(CLT_A_INT("vocab", vocab), CLT_A_INT("dim", m->embedding))));
    } else {
        CLT_TRY(clt_model_number(&m->b, clt_op_find("linear"), 0, false, &m->at));
    }
    int ndim = clt_graph_tensor(m->b.graph, m->at)->shape.ndim;
    if (ndim == 1)
        return mlp_add(m, "reshape", "features", CLT_ATTRS(CLT_A_INTS("shape", &one, 1)));
    return ndim > 2 ? mlp_add(m, "flatten", "flatten", NULL) : CLT_OK;
}

static clt_status mlp_linear(mlp *m, const char *name, int64_t out)
{
    return mlp_add(m, "linear", name, CLT_ATTRS(CLT_A_INT("out", out), CLT_A_BOOL("bias", m->bias)));
}

static clt_status mlp_hidden(mlp *m)
{
    const clt_json *hidden = clt_json_get(m->b.model, "hidden");
    char name[32];
    int index = 0;
    if (!hidden)
        return CLT_OK;
    if (clt_json_typeof(hidden) != CLT_JSON_ARRAY)
        return mlp_fail(m, "hidden", "must be a list of integers, one per hidden layer");
    for (const clt_json *v = clt_json_first(hidden); v; v = clt_json_next(v)) {
        int64_t width;
        index++;
        if (!clt_json_int_within(v, 1, INT32_MAX, &width))
            return clt_model_at(m->b.doc, v,
                                clt_fail(CLT_ECONFIG, __FILE__, __LINE__,
                                         "model.hidden: entry %d must be an integer of at least 1", index));
        snprintf(name, sizeof name, "fc%d", index);
        CLT_TRY(mlp_linear(m, name, width));
        snprintf(name, sizeof name, "act%d", index);
        bool gelu_tanh = strcmp(m->activation, "gelu_tanh") == 0 && !clt_op_find("gelu_tanh");
        CLT_TRY(mlp_add(m, gelu_tanh ? "gelu" : m->activation, name,
                        gelu_tanh ? CLT_ATTRS(CLT_A_WORD("approximate", "tanh")) : NULL));
        if (m->dropout > 0) {
            snprintf(name, sizeof name, "drop%d", index);
            CLT_TRY(mlp_add(m, "dropout", name, CLT_ATTRS(CLT_A_FLOAT("p", m->dropout))));
        }
    }
    return CLT_OK;
}

/* Adds the loss over the predictions (N, outputs) and y. With one output per sample, y may have any shape
 * with one element per sample. */
static clt_status mlp_loss(mlp *m)
{
    bool entropy = strcmp(m->loss, "cross_entropy") == 0;
    double smoothing = 0;
    int64_t ignore = NO_IGNORE_INDEX;
    clt_node *node;
    CLT_TRY(clt_model_read_share(&m->b, "label_smoothing", &smoothing));
    CLT_TRY(clt_model_read_int(&m->b, "ignore_index", -INT32_MAX, &ignore));
    if (!entropy && smoothing > 0)
        return mlp_fail(m, "label_smoothing", "only the loss cross_entropy has label smoothing; remove it");
    if (!entropy && ignore != NO_IGNORE_INDEX)
        return mlp_fail(m, "ignore_index", "only the loss cross_entropy has an ignored target; remove it");
    int n = 1;
    clt_attr_given attrs[4] = {CLT_A_FLOAT("label_smoothing", smoothing), {.name = NULL}};
    if (ignore != NO_IGNORE_INDEX)
        attrs[n++] = (clt_attr_given)CLT_A_INT("ignore_index", ignore);
    if (m->class_weights)
        attrs[n++] = (clt_attr_given)CLT_A_FLOATS("class_weights", m->class_weights, (int)m->outputs);
    attrs[n] = (clt_attr_given){.name = NULL};
    int32_t in[4] = {m->at, m->b.graph->fields[m->y - m->b.inputs->field].tensor};
    int field[2], mixed;
    CLT_TRY(clt_model_at(m->b.doc, m->b.model,
                         clt_model_mixed_fields(m->b.inputs, clt_op_find(m->loss), field, &mixed)));
    for (int i = 0; i < mixed; i++)
        in[2 + i] = m->b.graph->fields[field[i]].tensor;
    return clt_model_at(
        m->b.doc, m->b.model,
        clt_graph_add_op(m->b.graph, m->loss, "loss", NULL, in, 2 + mixed, entropy ? attrs : NULL, &node));
}

static clt_status mlp_build(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                            clt_graph *graph)
{
    mlp m = {.b = {.doc = doc, .model = model, .inputs = inputs, .graph = graph}};
    CLT_TRY(mlp_read(&m));
    CLT_TRY(mlp_outputs(&m));
    CLT_TRY(mlp_class_weights(&m));
    CLT_TRY(mlp_input(&m));
    CLT_TRY(mlp_hidden(&m));
    CLT_TRY(mlp_linear(&m, "out", m.outputs));
    return mlp_loss(&m);
}

/* --- config keys of this family --- */

static void check_rules(clt_config_rules *rules)
{
    bool entropy = clt_rules_is(rules, "model.loss", "cross_entropy");
    if (clt_rules_takes(rules, "data.type", "data.targets") && clt_rules_empty(rules, "data.targets"))
        clt_rules_broken(rules, "data.targets",
                         "required for an mlp on this data.type: name the file of labels or targets");
    if (entropy || !clt_rules_usable(rules, "model.loss"))
        return;
    if (clt_rules_usable(rules, "model.label_smoothing") && !clt_rules_empty(rules, "model.label_smoothing"))
        clt_rules_broken(rules, "model.label_smoothing", "only for model.loss cross_entropy");
    if (clt_rules_usable(rules, "model.ignore_index") &&
        clt_config_int(rules->config, "model.ignore_index") != NO_IGNORE_INDEX)
        clt_rules_broken(rules, "model.ignore_index", "only for model.loss cross_entropy");
    if (clt_rules_usable(rules, "model.class_weights") && !clt_rules_empty(rules, "model.class_weights"))
        clt_rules_broken(rules, "model.class_weights", "only for model.loss cross_entropy");
}

static const clt_config_key keys[] = {
    CLT_KEY_INTS("model.hidden", 1, CLT_KEY_WIDE, "[128]",
                 "width of each hidden layer; [] is a single linear layer"),
    CLT_KEY_CHOICE("model.activation", ACTIVATIONS, "\"auto\"",
                   "activation after each hidden layer; auto: relu"),
    CLT_KEY_FLOAT_OPEN("model.dropout", 0, false, 1, true, "0", "",
                       "share of activations dropped after each hidden layer"),
    CLT_KEY_BOOL("model.bias", "true", "linear layers have a bias"),
    CLT_KEY_INT("model.embedding", 0, CLT_KEY_WIDE, "0", "",
                "width of the embedding that integer inputs go through; 0: none"),
    CLT_KEY_INT("model.outputs", 0, CLT_KEY_WIDE, "0", "", "width of the last layer; 0: from the data"),
    CLT_KEY_CHOICE("model.loss", LOSSES, "\"cross_entropy\"", "what training minimises"),
    CLT_KEY_FLOAT_OPEN("model.label_smoothing", 0, false, 1, true, "0", "",
                       "cross entropy: share of the target spread over all classes"),
    CLT_KEY_INT("model.ignore_index", -2147483648.0, 2147483647, "-100", "",
                "cross entropy: targets of this value do not count; -100: every target counts"),
    CLT_MODEL_CLASS_WEIGHTS(CLT_MODEL_ENTROPY_WEIGHTS),
    CLT_KEY_END,
};

const clt_config_part clt_family_mlp = {.name = "mlp",
                                        .help = "a stack of linear layers described by model.hidden",
                                        .keys = keys,
                                        .check = check_rules};

static bool width_from_data(const clt_config *config)
{
    return clt_config_int(config, "model.outputs") == 0;
}

const clt_model_family clt_model_mlp = {.part = &clt_family_mlp,
                                        .noun = "an mlp",
                                        .build = mlp_build,
                                        .width_from_data = width_from_data,
                                        .flattens = true};
