/* SPDX-License-Identifier: Apache-2.0
 *
 * The bert family: an encoder whose blocks normalise after each residual sum, with learned embeddings of
 * tokens, segments and positions, and one of six heads: masked tokens with or without predicting whether the
 * second text follows the first; a class or a number for a text; classes of tokens; and spans of answers.
 * Parameters have their names in transformers. Source: Devlin et al. 2018, arXiv:1810.04805. */
#include <stdio.h>
#include <string.h>

#include "engine/models/language.h"

#define ACTIVATIONS "relu|gelu|gelu_tanh|silu|auto"
#define HEADS "pretrain|masked|class|tokens|span|number"
#define TABLE "embeddings.word_embeddings"
#define FOLLOWS 2      /* classes of a pair of texts: the second follows the first, or does not */
#define UNCOUNTED (-1) /* a target that the loss ignores */

typedef struct bert {
    clt_language l; /* first member: the shared functions pass a pointer to it */
    const char *activation, *head;
    int64_t inner, positions, segments, outputs;
    double norm_eps, init_std, attention_dropout;
    /* tensors of fields; -1: the data has none */
    int32_t text, kinds, documents, places, follows, outside;
} bert;

static bool has_head(const bert *m, const char *word)
{
    return strcmp(m->head, word) == 0;
}

/* --- keys and fields --- */

static clt_status bert_read(bert *m)
{
    const clt_model_builder *b = &m->l.b;
    m->activation = "auto";
    m->head = "pretrain";
    m->segments = 2;
    m->norm_eps = 1e-12;
    m->init_std = CLT_LANGUAGE_INIT_STD;
    m->attention_dropout = -1;
    CLT_TRY(clt_language_read(&m->l));
    m->l.padding = 0;
    CLT_TRY(clt_model_read_word(b, "activation", ACTIVATIONS, &m->activation));
    CLT_TRY(clt_model_read_word(b, "head", HEADS, &m->head));
    CLT_TRY(clt_model_read_int(b, "inner", 0, &m->inner));
    CLT_TRY(clt_model_read_int(b, "positions", 0, &m->positions));
    CLT_TRY(clt_model_read_int(b, "segments", 1, &m->segments));
    CLT_TRY(clt_model_read_int(b, "outputs", 0, &m->outputs));
    CLT_TRY(clt_model_read_int(b, "padding", -1, &m->l.padding));
    CLT_TRY(clt_model_read_number(b, "layernorm_eps", 0, 1, &m->norm_eps));
    CLT_TRY(clt_model_read_number(b, "init_std", 0, 1e6, &m->init_std));
    CLT_TRY(clt_model_read_number(b, "attention_dropout", -1, 1, &m->attention_dropout));
    if (m->inner == 0)
        m->inner = 4 * m->l.channels;
    if (m->attention_dropout < 0)
        m->attention_dropout = m->l.dropout;
    if (m->l.channels % m->l.heads != 0)
        return clt_model_key_fail(b, "channels", "must be a multiple of model.heads, and at least 1");
    return CLT_OK;
}

/* The tensor of a field of whole numbers (`floats`: of floats) with `ndim` dimensions; -1: the data has no
 * such field. */
static int32_t field_of(const bert *m, const char *name, int ndim, bool floats)
{
    int at = clt_model_find_field(m->l.b.inputs, name);
    const clt_model_field *field = at < 0 ? NULL : &m->l.b.inputs->field[at];
    bool fits = field && clt_dtype_is_float(field->dtype) == floats && field->shape.ndim == ndim;
    return fits ? m->l.b.graph->fields[at].tensor : -1;
}

/* Checks the shape of the targets: one for each place, for the text or for each token, or a beginning and an
 * end. */
static clt_status check_targets(bert *m)
{
    const clt_shape *y = &m->l.y->shape;
    bool masked = has_head(m, "pretrain") || has_head(m, "masked");
    if (masked && (m->places < 0 || y->ndim != 1))
        return clt_language_type_fail(
            &m->l,
            "masked texts for this model.head: the fields 'places' and 'y', which data.type mlm offers");
    if (has_head(m, "pretrain") && m->follows < 0)
        return clt_language_type_fail(&m->l,
                                      "pairs of texts for model.head pretrain: the field 'follows', which "
                                      "data.type mlm offers; without it use model.head masked");
    if (has_head(m, "class") && clt_shape_elements(y) != 1)
        return clt_language_type_fail(
            &m->l, "one class for each text for model.head class, which data.type annotated offers");
    if (has_head(m, "number") && clt_shape_elements(y) != 1)
        return clt_language_type_fail(&m->l, "one number for each text for model.head number, which "
                                             "data.type annotated offers with data.task number");
    if (has_head(m, "tokens") && (y->ndim != 1 || y->dim[0] != m->l.x->shape.dim[0]))
        return clt_language_type_fail(&m->l, "a class for each token for model.head tokens, which data.type "
                                             "annotated offers with data.task tokens");
    if (has_head(m, "span") && (y->ndim != 1 || y->dim[0] != 2))
        return clt_language_type_fail(&m->l, "the first and the last token of each answer for model.head "
                                             "span, which data.type annotated offers with data.task span");
    return CLT_OK;
}

static clt_status bert_fields(bert *m)
{
    clt_language *l = &m->l;
    int x = clt_model_find_field(l->b.inputs, "x"), y = clt_model_find_field(l->b.inputs, "y");
    if (x < 0 || y < 0)
        return clt_language_type_fail(l, "the data fields 'x' and 'y', which this data does not offer");
    l->x = &l->b.inputs->field[x];
    l->y = &l->b.inputs->field[y];
    m->text = field_of(m, "x", 1, false);
    m->kinds = field_of(m, "segments", 1, false);
    m->documents = field_of(m, "document", 1, false);
    m->places = field_of(m, "places", 1, false);
    m->follows = field_of(m, "follows", 0, false);
    m->outside = field_of(m, "outside", 2, true);
    bool number = has_head(m, "number"), real = clt_dtype_is_float(l->y->dtype);
    if (m->text < 0 || (real && !number))
        return clt_language_type_fail(l, m->text < 0
                                             ? "rows of tokens in 'x'"
                                             : "whole numbers in 'y'; the numbers of data.task number "
                                               "are learned with model.head number");
    if (number && !real)
        return clt_language_type_fail(l, "real numbers in 'y' for model.head number, which data.type "
                                         "annotated offers with data.task number");
    int64_t length = l->x->shape.dim[0];
    if (l->context == 0)
        l->context = length;
    if (length > l->context)
        return clt_model_key_fail(&l->b, "context", "the sequences of the data are longer");
    if (m->positions == 0)
        m->positions = l->context;
    if (m->positions < length)
        return clt_model_key_fail(&l->b, "positions", "the sequences of the data are longer");
    CLT_TRY(check_targets(m));
    return clt_language_count(l);
}

/* --- layers --- */

static clt_status bert_norm(bert *m, const char *name)
{
    return clt_language_next(&m->l, "layernorm", name, CLT_ATTRS(CLT_A_FLOAT("eps", m->norm_eps)));
}

/* Adds a linear layer that reads tensor `from`, with an adapter if the config wants one. */
static clt_status bert_linear(bert *m, const char *name, int32_t from, int64_t out)
{
    clt_node *node;
    return clt_lora_linear(
        &m->l.b, name, from,
        CLT_ATTRS(CLT_A_INT("out", out), CLT_A_WORD("init", "normal"), CLT_A_FLOAT("init_std", m->init_std)),
        &node, &m->l.at);
}

static clt_status bert_activate(bert *m, const char *name)
{
    bool tanh_form = strcmp(m->activation, "gelu_tanh") == 0;
    const char *op = tanh_form || strcmp(m->activation, "auto") == 0 ? "gelu" : m->activation;
    return clt_language_next(&m->l, op, name,
                             tanh_form ? CLT_ATTRS(CLT_A_WORD("approximate", "tanh")) : NULL);
}

static const char *bert_name(char *buffer, int64_t layer, const char *rest)
{
    snprintf(buffer, CLT_LANGUAGE_NAME, "encoder.layer.%lld.%s", (long long)layer, rest);
    return buffer;
}

/* Adds the embeddings of tokens, segments and positions, and the norm. */
static clt_status bert_embed(bert *m)
{
    clt_language *l = &m->l;
    clt_node *node;
    l->at = m->text;
    CLT_TRY(clt_language_embed(l, TABLE, m->init_std));
    if (m->kinds >= 0) {
        int32_t inputs[2] = {l->at, -1};
        CLT_TRY(clt_language_add(l, "embedding", "embeddings.token_type_embeddings", NULL, &m->kinds, 1,
                                 CLT_ATTRS(CLT_A_INT("vocab", m->segments), CLT_A_INT("dim", l->channels),
                                           CLT_A_FLOAT("init_std", m->init_std)),
                                 &node));
        inputs[1] = l->at;
        CLT_TRY(clt_language_add(l, "add", "embeddings", NULL, inputs, 2, NULL, &node));
    }
    CLT_TRY(clt_language_add(
        l, "positional", "embeddings.position_embeddings", NULL, &l->at, 1,
        CLT_ATTRS(CLT_A_INT("positions", m->positions), CLT_A_FLOAT("init_std", m->init_std)), &node));
    /* positions beyond the longest sequence are not used, so a file may have more */
    l->b.graph->params[node->param[0]].file_longer = CLT_LONGER_ANY;
    CLT_TRY(bert_norm(m, "embeddings.LayerNorm"));
    return clt_language_dropout(l, "embeddings.dropout");
}

/* Ends a branch: dropout, the sum with the branch's input, the norm. */
static clt_status bert_join(bert *m, int64_t layer, const char *part, int32_t before)
{
    char name[CLT_LANGUAGE_NAME], rest[48];
    snprintf(rest, sizeof rest, "%s.dropout", part);
    CLT_TRY(clt_language_dropout(&m->l, bert_name(name, layer, rest)));
    snprintf(rest, sizeof rest, "%s.sum", part);
    CLT_TRY(clt_language_residual(&m->l, bert_name(name, layer, rest), before));
    snprintf(rest, sizeof rest, "%s.LayerNorm", part);
    return bert_norm(m, bert_name(name, layer, rest));
}

static clt_status bert_attention(bert *m, int64_t layer)
{
    static const char *const parts[] = {"attention.self.query", "attention.self.key", "attention.self.value"};
    char name[CLT_LANGUAGE_NAME];
    clt_language *l = &m->l;
    clt_node *node;
    int32_t before = l->at, inputs[4] = {-1, -1, -1, m->documents};
    for (int i = 0; i < 3; i++) {
        CLT_TRY(bert_linear(m, bert_name(name, layer, parts[i]), before, l->channels));
        inputs[i] = l->at;
    }
    CLT_TRY(clt_language_add(
        l, "attention", bert_name(name, layer, "attention.self"), NULL, inputs, m->documents < 0 ? 3 : 4,
        CLT_ATTRS(CLT_A_INT("heads", l->heads), CLT_A_BOOL("causal", false),
                  CLT_A_BOOL("documents", m->documents >= 0), CLT_A_FLOAT("dropout", m->attention_dropout)),
        &node));
    CLT_TRY(bert_linear(m, bert_name(name, layer, "attention.output.dense"), l->at, l->channels));
    return bert_join(m, layer, "attention.output", before);
}

static clt_status bert_forward(bert *m, int64_t layer)
{
    char name[CLT_LANGUAGE_NAME];
    int32_t before = m->l.at;
    CLT_TRY(bert_linear(m, bert_name(name, layer, "intermediate.dense"), before, m->inner));
    CLT_TRY(bert_activate(m, bert_name(name, layer, "intermediate.act")));
    CLT_TRY(bert_linear(m, bert_name(name, layer, "output.dense"), m->l.at, m->l.channels));
    return bert_join(m, layer, "output", before);
}

/* --- heads --- */

static clt_status bert_loss(bert *m, const char *name, int32_t target, bool ignores)
{
    clt_node *node;
    int32_t inputs[2] = {m->l.at, target};
    return clt_language_add(&m->l, "cross_entropy", name, NULL, inputs, 2,
                            ignores ? CLT_ATTRS(CLT_A_INT("ignore_index", UNCOUNTED)) : NULL, &node);
}

static int32_t target_of(const bert *m)
{
    return m->l.b.graph->fields[m->l.y - m->l.b.inputs->field].tensor;
}

/* Adds the logits of the masked tokens, computed only at their places, and their loss. */
static clt_status bert_masked(bert *m, int32_t encoded)
{
    clt_language *l = &m->l;
    clt_node *node;
    int32_t inputs[2] = {encoded, m->places};
    CLT_TRY(clt_language_add(l, "gather", "cls.predictions.places", NULL, inputs, 2, NULL, &node));
    CLT_TRY(bert_linear(m, "cls.predictions.transform.dense", l->at, l->channels));
    CLT_TRY(bert_activate(m, "cls.predictions.transform.act"));
    CLT_TRY(bert_norm(m, "cls.predictions.transform.LayerNorm"));
    CLT_TRY(clt_language_logits(l, "cls.predictions.decoder", TABLE, m->init_std));
    CLT_TRY(clt_language_add(l, "bias", "cls.predictions", NULL, &l->at, 1, NULL, &node));
    clt_language_padded(l, node);
    return clt_language_loss(l, has_head(m, "masked") ? "loss" : "masked_loss");
}

/* Adds the pooler: the first token's row through a layer with tanh, which represents the whole text. */
static clt_status bert_pool(bert *m, int32_t encoded)
{
    clt_language *l = &m->l;
    l->at = encoded;
    CLT_TRY(
        clt_language_next(l, "slice", "pooler.first", CLT_ATTRS(CLT_A_INT("axis", 1), CLT_A_INT("stop", 1))));
    CLT_TRY(clt_language_next(l, "flatten", "pooler.row", NULL));
    CLT_TRY(bert_linear(m, "pooler.dense", l->at, l->channels));
    return clt_language_next(l, "tanh", "pooler.tanh", NULL);
}

static clt_status bert_classifier(bert *m)
{
    if (m->outputs == 0)
        m->outputs = m->l.y->max_value + 1;
    if (m->outputs < 1)
        return clt_model_key_fail(&m->l.b, "outputs",
                                  "the number of classes is not known from the data; give it here");
    CLT_TRY(clt_language_dropout(&m->l, "classifier.dropout"));
    CLT_TRY(bert_linear(m, "classifier", m->l.at, m->outputs));
    return bert_loss(m, "loss", target_of(m), has_head(m, "tokens"));
}

/* Adds a layer that predicts a number for the whole text, and the loss, its squared error. */
static clt_status bert_number(bert *m)
{
    clt_node *node;
    if (m->outputs > 1)
        return clt_model_key_fail(&m->l.b, "outputs", "model.head number has one output; remove the key");
    CLT_TRY(clt_language_dropout(&m->l, "classifier.dropout"));
    CLT_TRY(bert_linear(m, "classifier", m->l.at, 1));
    int32_t inputs[2] = {m->l.at, target_of(m)};
    return clt_language_add(&m->l, "mse", "loss", NULL, inputs, 2, NULL, &node);
}

/* Adds logits, (N,2,T), that say for each token whether it is the first or the last of the answer. Padding
 * has no weight in the softmax, since `outside` is very low there. */
static clt_status bert_span(bert *m, int32_t encoded)
{
    static const int64_t order[] = {0, 2, 1};
    clt_language *l = &m->l;
    clt_node *node;
    CLT_TRY(bert_linear(m, "qa_outputs", encoded, 2));
    CLT_TRY(clt_language_next(l, "transpose", "qa_outputs.ends", CLT_ATTRS(CLT_A_INTS("perm", order, 3))));
    int32_t inputs[2] = {l->at, m->outside};
    if (m->outside >= 0)
        CLT_TRY(clt_language_add(l, "add", "qa_outputs.inside", NULL, inputs, 2, NULL, &node));
    return bert_loss(m, "loss", target_of(m), true);
}

static clt_status bert_head(bert *m)
{
    int32_t encoded = m->l.at;
    if (has_head(m, "tokens"))
        return bert_classifier(m);
    if (has_head(m, "span"))
        return bert_span(m, encoded);
    if (has_head(m, "class") || has_head(m, "number")) {
        CLT_TRY(bert_pool(m, encoded));
        return has_head(m, "class") ? bert_classifier(m) : bert_number(m);
    }
    CLT_TRY(bert_masked(m, encoded));
    if (has_head(m, "masked"))
        return CLT_OK;
    CLT_TRY(bert_pool(m, encoded));
    CLT_TRY(bert_linear(m, "cls.seq_relationship", m->l.at, FOLLOWS));
    return bert_loss(m, "follows_loss", m->follows, false);
}

static clt_status bert_build(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                             clt_graph *graph)
{
    bert m = {.l = {.b = {.doc = doc, .model = model, .inputs = inputs, .graph = graph}, .noun = "a bert"}};
    CLT_TRY(bert_read(&m));
    CLT_TRY(bert_fields(&m));
    CLT_TRY(bert_embed(&m));
    for (int64_t layer = 0; layer < m.l.layers; layer++) {
        graph->block++;
        CLT_TRY(bert_attention(&m, layer));
        CLT_TRY(bert_forward(&m, layer));
    }
    graph->block++;
    CLT_TRY(bert_head(&m));
    return clt_lora_finish(&m.l.b);
}

/* --- config keys of this family --- */

static void check_rules(clt_config_rules *rules)
{
    const clt_config *c = rules->config;
    bool sizes = clt_rules_usable(rules, "model.heads") && clt_rules_usable(rules, "model.channels");
    int64_t heads = clt_config_int(c, "model.heads");
    if (sizes && heads > 0 && clt_config_int(c, "model.channels") % heads != 0)
        clt_rules_broken(rules, "model.channels", "must be a multiple of model.heads");
    int64_t positions = clt_config_int(c, "model.positions"), context = clt_config_int(c, "model.context");
    if (clt_rules_usable(rules, "model.positions") && clt_rules_usable(rules, "model.context") &&
        positions > 0 && context > positions)
        clt_rules_broken(rules, "model.context",
                         "longer than model.positions (%lld), the number of learned positions",
                         (long long)positions);
    clt_language_check(rules, "a bert");
}

static bool bert_width_from_data(const clt_config *config)
{
    const char *head = clt_config_string(config, "model.head");
    bool classes = strcmp(head, "class") == 0 || strcmp(head, "tokens") == 0;
    return clt_language_width_from_data(config) || (classes && clt_config_int(config, "model.outputs") == 0);
}

static const clt_config_key keys[] = {
    CLT_LANGUAGE_KEYS(
        "share of values dropped after the embedding, at the end of each branch, before a classifier and, "
        "unless model.attention_dropout is given, on attention weights"),
    CLT_KEY_CHOICE("model.activation", ACTIVATIONS, "\"auto\"",
                   "activation inside each block; auto: gelu, of which gelu_tanh is an approximation"),
    CLT_KEY_CHOICE(
        "model.head", HEADS, "\"pretrain\"",
        "task that the head learns. pretrain: masked tokens, and whether two texts follow each other; "
        "masked: only masked tokens; class: a class for each text; tokens: one for each token; span: where "
        "an answer begins and ends; number: a number for each text, by its squared error"),
    CLT_KEY_INT("model.inner", 0, CLT_KEY_WIDE, "0", "",
                "width of the feed-forward part; 0: four times model.channels"),
    CLT_KEY_INT("model.positions", 0, INT32_MAX, "0", "tokens",
                "the number of learned positions, which model.context may not exceed; 0: model.context"),
    CLT_KEY_INT("model.segments", 1, 65536, "2", "", "kinds of segments that have an embedding"),
    CLT_KEY_INT("model.outputs", 0, CLT_KEY_WIDE, "0", "",
                "class, tokens: the number of classes; 0: from the data. number: 0 or 1"),
    CLT_KEY_INT(
        "model.padding", -1, INT32_MAX, "0", "",
        "id of the padding token: its embedding starts at zero and gets no gradient from the text; -1: "
        "there is none"),
    CLT_KEY_FLOAT("model.layernorm_eps", 0, 1, "1e-12", "", "added to the variance in the norms"),
    CLT_KEY_FLOAT_OPEN("model.attention_dropout", -1, false, 1, true, "-1", "",
                       "share of attention weights dropped; -1: model.dropout"),
    CLT_KEY_FLOAT("model.init_std", 0, 1000, "0.02", "", "standard deviation of weights at the start"),
    CLT_KEY_END,
};
static const char *const required[] = {"model.layers", "model.heads", "model.channels", NULL};

const clt_config_part clt_family_bert = {
    .name = "bert",
    .help = "BERT's encoder, described by model.layers, heads, channels and head",
    .keys = keys,
    .required = required,
    .check = check_rules};

/* Older files also hold the indices of positions. With model.head = masked the head for pairs is not
 * needed. */
static const char *const buffers[] = {"embeddings.position_ids", "cls.seq_relationship.weight",
                                      "cls.seq_relationship.bias", NULL};
static const char *const renamed[][2] = {
    {".LayerNorm.weight", ".LayerNorm.gamma"}, {".LayerNorm.bias", ".LayerNorm.beta"}, {NULL, NULL}};
static const char *const adapted[] = {"query", "value", NULL};
static const char *const outside[] = {"cls", "classifier", "qa_outputs", NULL};
static const char *const trained[] = {"classifier", "qa_outputs", NULL};
static const clt_model_published published = {.prefix = "bert.",
                                              .outside = outside,
                                              .block = "encoder.layer.",
                                              .in_block = ".output.dense.weight",
                                              .table = TABLE ".weight",
                                              .places = "embeddings.position_embeddings.weight",
                                              .head = "cls.predictions.decoder.weight",
                                              .shift = "cls.predictions.bias",
                                              .shift_copy = "cls.predictions.decoder.bias",
                                              .renamed = renamed,
                                              .adapted = adapted,
                                              .trained = trained,
                                              .buffers = buffers};

const clt_model_family clt_model_bert = {.part = &clt_family_bert,
                                         .noun = "a bert",
                                         .build = bert_build,
                                         .width_from_data = bert_width_from_data,
                                         .published = &published};
