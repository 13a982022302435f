/* SPDX-License-Identifier: Apache-2.0
 *
 * The gpt family: GPT-2's decoder, with learned position embeddings, layer norms before attention and before
 * the feed-forward network, an output layer tied to the token embedding, GPT-2's initial values, and the
 * names and file layout of the published weights. Knows the keys of the model section and the batch fields x
 * (tokens) and y (the token that follows each). Source: Radford et al. 2019, Language Models are
 * Unsupervised Multitask Learners. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/models/models_internal.h"
#include "engine/ops/infer.h"
#include "engine/ops/node.h"
#include "engine/ops/op.h"

#define ACTIVATIONS "relu|gelu|gelu_tanh|silu|auto"
#define IGNORED_TARGET (-1) /* in y: this position does not count in the loss */
#define INIT_STD 0.02

typedef struct gpt {
    clt_model_builder b;
    const clt_model_field *x, *y;
    int64_t layers, heads, channels, context, vocab, pad_to;
    int64_t rows; /* rows of the token embedding: the vocabulary, padded */
    double dropout;
    bool bias, tied;
    bool decode;              /* the form for generation: one token per run, with cached keys and values */
    int32_t position, length; /* with decode: tensors of these fields */
    const char *activation;
    int32_t at; /* output of the layer that was added last */
} gpt;

/* Adds a layer that reads `inputs`. */
static clt_status gpt_add(gpt *m, const char *op, const char *name, const char *share, const int32_t *inputs,
                          int n, const clt_attr_given *attrs, clt_node **node)
{
    clt_status status = clt_graph_add_op(m->b.graph, op, name, share, inputs, n, attrs, node);
    if (status == CLT_OK && (*node)->n_out > 0)
        m->at = (*node)->out[0];
    return clt_model_at(m->b.doc, m->b.model, status);
}

/* Adds a layer that reads the output of the layer before it. */
static clt_status gpt_next(gpt *m, const char *op, const char *name, const clt_attr_given *attrs)
{
    clt_node *node;
    return gpt_add(m, op, name, NULL, &m->at, 1, attrs, &node);
}

/* A linear layer whose weight is stored transposed in files, as (in, out); transformers calls it Conv1D. */
static clt_status gpt_conv1d(gpt *m, const char *name, int64_t out, double std)
{
    clt_node *node;
    CLT_TRY(gpt_add(m, "linear", name, NULL, &m->at, 1,
                    CLT_ATTRS(CLT_A_INT("out", out), CLT_A_BOOL("bias", m->bias),
                              CLT_A_WORD("init", "normal"), CLT_A_FLOAT("init_std", std)),
                    &node));
    m->b.graph->params[node->param[0]].file_transposed = 1;
    return CLT_OK;
}

static clt_status gpt_norm(gpt *m, const char *name)
{
    return gpt_next(m, "layernorm", name, CLT_ATTRS(CLT_A_FLOAT("eps", 1e-5), CLT_A_BOOL("bias", m->bias)));
}

static clt_status gpt_dropout(gpt *m, const char *name)
{
    return m->dropout > 0 ? gpt_next(m, "dropout", name, CLT_ATTRS(CLT_A_FLOAT("p", m->dropout))) : CLT_OK;
}

static clt_status gpt_read(gpt *m)
{
    m->activation = "auto";
    m->bias = m->tied = true;
    m->pad_to = 64;
    CLT_TRY(clt_model_read_int(&m->b, "layers", 1, &m->layers));
    CLT_TRY(clt_model_read_int(&m->b, "heads", 1, &m->heads));
    CLT_TRY(clt_model_read_int(&m->b, "channels", 1, &m->channels));
    CLT_TRY(clt_model_read_int(&m->b, "context", 0, &m->context));
    CLT_TRY(clt_model_read_int(&m->b, "vocab", 0, &m->vocab));
    CLT_TRY(clt_model_read_int(&m->b, "vocab_pad", 1, &m->pad_to));
    CLT_TRY(clt_model_read_share(&m->b, "dropout", &m->dropout));
    CLT_TRY(clt_model_read_bool(&m->b, "bias", &m->bias));
    CLT_TRY(clt_model_read_bool(&m->b, "tied", &m->tied));
    CLT_TRY(clt_model_read_word(&m->b, "activation", ACTIVATIONS, &m->activation));
    if (m->layers < 1)
        return clt_model_key_fail(&m->b, "layers", "required for a gpt: the number of blocks");
    if (m->heads < 1)
        return clt_model_key_fail(&m->b, "heads", "required for a gpt: the number of attention heads");
    if (m->channels < 1 || m->channels % m->heads != 0)
        return clt_model_key_fail(&m->b, "channels", "must be a multiple of model.heads, and at least 1");
    return CLT_OK;
}

/* Adds the fields x: (T) tokens, and y: (T), the token that follows each. */
static clt_status gpt_fields(gpt *m)
{
    int x = clt_model_find_field(m->b.inputs, "x"), y = clt_model_find_field(m->b.inputs, "y");
    if (x < 0 || y < 0)
        return clt_model_key_fail(&m->b, "type",
                                  "a gpt needs the data fields 'x' and 'y', which this data does not offer");
    m->x = &m->b.inputs->field[x];
    m->y = &m->b.inputs->field[y];
    if (clt_dtype_is_float(m->x->dtype) || clt_dtype_is_float(m->y->dtype) || m->x->shape.ndim != 1 ||
        m->y->shape.ndim != 1 || m->x->shape.dim[0] != m->y->shape.dim[0])
        return clt_model_key_fail(&m->b, "type",
                                  "a gpt needs sequences: x and y must be rows of equally many tokens (text "
                                  "and tokens: set model.context)");
    int64_t length = m->x->shape.dim[0];
    if (m->context == 0)
        m->context = length;
    if (length > m->context)
        return clt_model_key_fail(&m->b, "context", "the sequences of the data are longer");
    if (m->vocab == 0)
        m->vocab = m->x->dtype == CLT_U8 ? 256 : m->x->max_value + 1;
    if (m->vocab < 1)
        return clt_model_key_fail(&m->b, "vocab",
                                  "the number of tokens is not known from the data; give it here");
    m->rows = (m->vocab + m->pad_to - 1) / m->pad_to * m->pad_to;
    m->at = m->b.graph->fields[x].tensor;
    return CLT_OK;
}

/* Rows that pad the embedding stay zero and are not written to files. */
static void gpt_pad(gpt *m, const clt_node *node)
{
    clt_param *table = &m->b.graph->params[node->param[0]];
    table->file_rows = m->rows > m->vocab ? m->vocab : 0;
    table->file_longer = CLT_LONGER_PADDED;
}

/* For generation: adds the embedding of the one position that is computed. */
static clt_status gpt_place(gpt *m)
{
    clt_node *node;
    int32_t inputs[2] = {m->at, -1};
    CLT_TRY(gpt_add(m, "embedding", "wpe", NULL, &m->position, 1,
                    CLT_ATTRS(CLT_A_INT("vocab", m->context), CLT_A_INT("dim", m->channels)), &node));
    inputs[1] = m->at;
    return gpt_add(m, "add", "place", NULL, inputs, 2, NULL, &node);
}

static clt_status gpt_embed(gpt *m)
{
    clt_node *node;
    CLT_TRY(gpt_add(m, "embedding", "wte", NULL, &m->at, 1,
                    CLT_ATTRS(CLT_A_INT("vocab", m->rows), CLT_A_INT("dim", m->channels),
                              CLT_A_FLOAT("init_std", INIT_STD)),
                    &node));
    gpt_pad(m, node);
    clt_infer ctx = {m->b.graph, node};
    clt_infer_bound(&ctx, 0, m->vocab, false, 0);
    if (m->decode)
        return gpt_place(m);
    CLT_TRY(gpt_add(m, "positional", "wpe", NULL, &m->at, 1,
                    CLT_ATTRS(CLT_A_INT("positions", m->context), CLT_A_FLOAT("init_std", INIT_STD)), &node));
    /* positions beyond the context are not used, so a file may have more of them */
    m->b.graph->params[node->param[0]].file_longer = CLT_LONGER_ANY;
    return gpt_dropout(m, "drop");
}

static const char *gpt_name(char *buffer, int64_t layer, const char *rest)
{
    snprintf(buffer, 64, "h.%lld.%s", (long long)layer, rest);
    return buffer;
}

static clt_status gpt_residual(gpt *m, const char *name, int32_t before)
{
    clt_node *node;
    int32_t inputs[2] = {before, m->at};
    return gpt_add(m, "add", name, NULL, inputs, 2, NULL, &node);
}

/* Slice number `index` (query, key or value) of the packed projection. */
static clt_status gpt_part(gpt *m, int64_t layer, const char *rest, int64_t index, int32_t packed,
                           int32_t *out)
{
    char name[64];
    clt_node *node;
    CLT_TRY(gpt_add(m, "slice", gpt_name(name, layer, rest), NULL, &packed, 1,
                    CLT_ATTRS(CLT_A_INT("axis", 2), CLT_A_INT("start", index * m->channels),
                              CLT_A_INT("stop", (index + 1) * m->channels)),
                    &node));
    *out = m->at;
    return CLT_OK;
}

/* For generation: the new key and value are appended to those of earlier runs, and the query attends to
 * all. */
static clt_status gpt_attention_cached(gpt *m, int64_t layer, const clt_attr_given *attrs)
{
    static const char *const parts[] = {"attn.q", "attn.k", "attn.v"}, *const caches[] = {"", "attn.keys",
                                                                                          "attn.values"};
    char name[64];
    clt_node *node;
    int32_t packed = m->at, inputs[4] = {-1, -1, -1, m->length};
    const clt_attr_given *rows = CLT_ATTRS(CLT_A_INT("rows", m->context));
    for (int i = 0; i < 3; i++) {
        CLT_TRY(gpt_part(m, layer, parts[i], i, packed, &inputs[i]));
        int32_t cached[2] = {inputs[i], m->position};
        if (i > 0)
            CLT_TRY(gpt_add(m, "kv_cache", gpt_name(name, layer, caches[i]), NULL, cached, 2, rows, &node));
        inputs[i] = m->at;
    }
    return gpt_add(m, "attention", gpt_name(name, layer, "attn"), NULL, inputs, 4, attrs, &node);
}

static clt_status gpt_attention(gpt *m, int64_t layer, double out_std)
{
    char name[64];
    int32_t before = m->at;
    CLT_TRY(gpt_norm(m, gpt_name(name, layer, "ln_1")));
    CLT_TRY(gpt_conv1d(m, gpt_name(name, layer, "attn.c_attn"), 3 * m->channels, INIT_STD));
    const clt_attr_given *attrs = CLT_ATTRS(CLT_A_INT("heads", m->heads), CLT_A_FLOAT("dropout", m->dropout));
    if (m->decode)
        CLT_TRY(gpt_attention_cached(m, layer, attrs));
    else
        CLT_TRY(gpt_next(m, "attention", gpt_name(name, layer, "attn"), attrs));
    CLT_TRY(gpt_conv1d(m, gpt_name(name, layer, "attn.c_proj"), m->channels, out_std));
    CLT_TRY(gpt_dropout(m, gpt_name(name, layer, "attn.drop")));
    return gpt_residual(m, gpt_name(name, layer, "sum_1"), before);
}

static clt_status gpt_mlp(gpt *m, int64_t layer, double out_std)
{
    char name[64];
    int32_t before = m->at;
    bool tanh_form = strcmp(m->activation, "gelu_tanh") == 0 || strcmp(m->activation, "auto") == 0;
    CLT_TRY(gpt_norm(m, gpt_name(name, layer, "ln_2")));
    CLT_TRY(gpt_conv1d(m, gpt_name(name, layer, "mlp.c_fc"), 4 * m->channels, INIT_STD));
    CLT_TRY(gpt_next(m, tanh_form ? "gelu" : m->activation, gpt_name(name, layer, "mlp.act"),
                     tanh_form ? CLT_ATTRS(CLT_A_WORD("approximate", "tanh")) : NULL));
    CLT_TRY(gpt_conv1d(m, gpt_name(name, layer, "mlp.c_proj"), m->channels, out_std));
    CLT_TRY(gpt_dropout(m, gpt_name(name, layer, "mlp.drop")));
    return gpt_residual(m, gpt_name(name, layer, "sum_2"), before);
}

/* Adds logits over the padded vocabulary, and the loss, which gets the number of real tokens. */
static clt_status gpt_head(gpt *m)
{
    clt_node *node;
    CLT_TRY(gpt_norm(m, "ln_f"));
    CLT_TRY(gpt_add(m, "linear", "lm_head", m->tied ? "wte" : NULL, &m->at, 1,
                    CLT_ATTRS(CLT_A_INT("out", m->rows), CLT_A_BOOL("bias", false),
                              CLT_A_WORD("init", "normal"), CLT_A_FLOAT("init_std", INIT_STD)),
                    &node));
    gpt_pad(m, node);
    if (m->decode)
        return CLT_OK;
    int32_t inputs[2] = {m->at, m->b.graph->fields[m->y - m->b.inputs->field].tensor};
    return gpt_add(m, "cross_entropy", "loss", NULL, inputs, 2,
                   CLT_ATTRS(CLT_A_INT("classes", m->vocab), CLT_A_INT("ignore_index", IGNORED_TARGET)),
                   &node);
}

static clt_status gpt_layers(gpt *m)
{
    CLT_TRY(gpt_embed(m));
    /* each block adds two branches to the residual stream */
    double out_std = INIT_STD / sqrt(2.0 * (double)m->layers);
    for (int64_t layer = 0; layer < m->layers; layer++) {
        m->b.graph->block++;
        CLT_TRY(gpt_attention(m, layer, out_std));
        CLT_TRY(gpt_mlp(m, layer, out_std));
    }
    m->b.graph->block++;
    return gpt_head(m);
}

static clt_status gpt_build(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                            clt_graph *graph)
{
    gpt m = {.b = {.doc = doc, .model = model, .inputs = inputs, .graph = graph}};
    CLT_TRY(gpt_read(&m));
    CLT_TRY(gpt_fields(&m));
    return gpt_layers(&m);
}

static clt_status gpt_build_decode(const clt_json *model, const clt_json_doc *doc, int64_t vocab,
                                   clt_graph *graph, int32_t *logits, int64_t *context)
{
    static const clt_model_inputs none;
    gpt m = {.b = {.doc = doc, .model = model, .inputs = &none, .graph = graph}, .decode = true};
    clt_shape one = clt_shape1(1), scalar = clt_shape_make(0, NULL);
    CLT_TRY(gpt_read(&m));
    if (m.context < 1)
        return clt_model_key_fail(&m.b, "context", "required: the longest sequence");
    m.vocab = vocab;
    m.rows = (m.vocab + m.pad_to - 1) / m.pad_to * m.pad_to;
    m.dropout = 0;
    CLT_TRY(clt_graph_field(graph, "x", CLT_I32, &one, &m.at));
    CLT_TRY(clt_graph_field(graph, "position", CLT_I32, &one, &m.position));
    CLT_TRY(clt_graph_field(graph, "length", CLT_I32, &scalar, &m.length));
    CLT_TRY(gpt_layers(&m));
    clt_graph_tensor(graph, m.at)->is_output = true;
    *logits = m.at;
    *context = m.context;
    return CLT_OK;
}

/* --- what the config knows of this family --- */

static void check_rules(clt_config_rules *rules)
{
    const clt_config *c = rules->config;
    bool sizes = clt_rules_usable(rules, "model.heads") && clt_rules_usable(rules, "model.channels");
    int64_t heads = clt_config_int(c, "model.heads");
    if (sizes && heads > 0 && clt_config_int(c, "model.channels") % heads != 0)
        clt_rules_broken(rules, "model.channels", "must be a multiple of model.heads");
    if (clt_rules_usable(rules, "model.layers") && !clt_rules_empty(rules, "model.layers") &&
        clt_config_int(c, "model.layers") < 1)
        clt_rules_broken(rules, "model.layers",
                         "a gpt takes the number of its blocks; a list of layers is for model.type graph");
    if (clt_rules_usable(rules, "data.type") && clt_config_chosen(c, "data.type")->language &&
        clt_rules_empty(rules, "model.context"))
        clt_rules_broken(rules, "model.context",
                         "required (at least 1) for a gpt on text or tokens: the length of a sequence");
}

static const clt_config_key keys[] = {
    CLT_KEY_LAYERS("number of blocks"),
    CLT_KEY_INT("model.heads", 0, 65536, "0", "", "attention heads of each block"),
    CLT_KEY_INT("model.channels", 0, CLT_KEY_WIDE, "0", "",
                "width of the residual stream, a multiple of model.heads"),
    CLT_KEY_INT("model.vocab", 0, CLT_KEY_WIDE, "0", "", "number of different tokens; 0: from the data"),
    CLT_KEY_INT(
        "model.vocab_pad", 1, 65536, "64", "",
        "the rows of the token embedding are rounded up to a multiple of this; the padding is never used"),
    CLT_KEY_BOOL("model.tied", "true", "the output layer shares the token embedding"),
    CLT_KEY_CHOICE("model.activation", ACTIVATIONS, "\"auto\"",
                   "activation inside each block; auto: gelu_tanh"),
    CLT_KEY_FLOAT_OPEN(
        "model.dropout", 0, false, 1, true, "0", "",
        "share of values dropped after the embedding, on attention weights and on each branch of a block"),
    CLT_KEY_BOOL("model.bias", "true", "linear layers and normalisations have a bias"),
    CLT_KEY_END,
};
static const char *const required[] = {"model.layers", "model.heads", "model.channels", NULL};

const clt_config_part clt_family_gpt = {.name = "gpt",
                                        .help =
                                            "GPT-2's decoder, described by model.layers, heads and channels",
                                        .keys = keys,
                                        .required = required,
                                        .check = check_rules,
                                        .language = true};

/* With text and shards the tokenizer decides the size of the vocabulary. */
static bool width_from_data(const clt_config *config)
{
    return clt_config_int(config, "model.vocab") == 0 && !clt_config_chosen(config, "data.type")->language;
}

static const char *const buffers[] = {".attn.bias", ".attn.masked_bias", NULL}; /* causal masks */
static const clt_model_published published = {.prefix = "transformer.",
                                              .block = "h.",
                                              .in_block = ".ln_1.weight",
                                              .table = "wte.weight",
                                              .places = "wpe.weight",
                                              .head = "lm_head.weight",
                                              .bias = "ln_f.bias",
                                              .buffers = buffers};

const clt_model_family clt_model_gpt = {.part = &clt_family_gpt,
                                        .noun = "a gpt",
                                        .build = gpt_build,
                                        .build_decode = gpt_build_decode,
                                        .width_from_data = width_from_data,
                                        .published = &published};
