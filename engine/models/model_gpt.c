/* SPDX-License-Identifier: Apache-2.0
 *
 * The gpt family: GPT-2's decoder, with learned position embeddings, layer norms before attention and before
 * the feed-forward network, an output layer tied to the token embedding, GPT-2's initial values, and the
 * names and file layout of the published weights. Source: Radford et al. 2019, Language Models are
 * Unsupervised Multitask Learners. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/models/language.h"

#define ACTIVATIONS "relu|gelu|gelu_tanh|silu|auto"

typedef struct gpt {
    clt_language l; /* first member: the shared functions pass a pointer to it */
    bool bias;
    const char *activation;
} gpt;

/* Adds a linear layer whose weight is stored transposed in files, as (in, out); transformers calls it
 * Conv1D. */
static clt_status gpt_conv1d(gpt *m, const char *name, int64_t out, double std)
{
    clt_node *node;
    CLT_TRY(clt_language_linear(&m->l, name,
                                CLT_ATTRS(CLT_A_INT("out", out), CLT_A_BOOL("bias", m->bias),
                                          CLT_A_WORD("init", "normal"), CLT_A_FLOAT("init_std", std)),
                                &node));
    m->l.b.graph->params[node->param[0]].file_transposed = 1;
    return CLT_OK;
}

static clt_status gpt_norm(gpt *m, const char *name)
{
    return clt_language_next(&m->l, "layernorm", name,
                             CLT_ATTRS(CLT_A_FLOAT("eps", 1e-5), CLT_A_BOOL("bias", m->bias)));
}

static clt_status gpt_read(clt_language *l)
{
    gpt *m = (gpt *)l;
    m->activation = "auto";
    m->bias = true;
    CLT_TRY(clt_language_read(l));
    CLT_TRY(clt_model_read_bool(&l->b, "bias", &m->bias));
    CLT_TRY(clt_model_read_word(&l->b, "activation", ACTIVATIONS, &m->activation));
    if (l->channels % l->heads != 0)
        return clt_model_key_fail(&l->b, "channels", "must be a multiple of model.heads, and at least 1");
    return CLT_OK;
}

/* Adds the embeddings of positions that a field gives, for packed rows and for generation, instead of
 * counting from a row's beginning. */
static clt_status gpt_place(clt_language *m, clt_node **table)
{
    clt_node *node;
    int32_t inputs[2] = {m->at, -1};
    CLT_TRY(clt_language_add(m, "embedding", "wpe", NULL, &m->position, 1,
                             CLT_ATTRS(CLT_A_INT("vocab", m->context), CLT_A_INT("dim", m->channels),
                                       CLT_A_FLOAT("init_std", CLT_LANGUAGE_INIT_STD)),
                             table));
    inputs[1] = m->at;
    return clt_language_add(m, "add", "place", NULL, inputs, 2, NULL, &node);
}

static clt_status gpt_embed(clt_language *m)
{
    clt_node *node;
    CLT_TRY(clt_language_embed(m, "wte", CLT_LANGUAGE_INIT_STD));
    if (m->decode || m->packed)
        CLT_TRY(gpt_place(m, &node));
    else
        CLT_TRY(clt_language_add(
            m, "positional", "wpe", NULL, &m->at, 1,
            CLT_ATTRS(CLT_A_INT("positions", m->context), CLT_A_FLOAT("init_std", CLT_LANGUAGE_INIT_STD)),
            &node));
    /* positions beyond the context are not used, so a file may have more */
    m->b.graph->params[node->param[0]].file_longer = CLT_LONGER_ANY;
    return clt_language_dropout(m, "drop");
}

static const char *gpt_name(char *buffer, int64_t layer, const char *rest)
{
    snprintf(buffer, CLT_LANGUAGE_NAME, "h.%lld.%s", (long long)layer, rest);
    return buffer;
}

/* Adds a layer that takes slice number `index` (query, key or value) of the packed projection. */
static clt_status gpt_part(clt_language *m, int64_t layer, const char *rest, int64_t index, int32_t packed,
                           int32_t *out)
{
    char name[CLT_LANGUAGE_NAME];
    clt_node *node;
    CLT_TRY(clt_language_add(m, "slice", gpt_name(name, layer, rest), NULL, &packed, 1,
                             CLT_ATTRS(CLT_A_INT("axis", 2), CLT_A_INT("start", index * m->channels),
                                       CLT_A_INT("stop", (index + 1) * m->channels)),
                             &node));
    *out = m->at;
    return CLT_OK;
}

/* Adds attention for generation: the new key and value are appended to the cache of earlier runs, and the
 * query attends to all cached keys. */
static clt_status gpt_attention_cached(clt_language *m, int64_t layer, const clt_attr_given *attrs)
{
    static const char *const parts[] = {"attn.q", "attn.k", "attn.v"}, *const caches[] = {"", "attn.keys",
                                                                                          "attn.values"};
    char name[CLT_LANGUAGE_NAME];
    clt_node *node;
    int32_t packed = m->at, inputs[4] = {-1, -1, -1, m->length};
    for (int i = 0; i < 3; i++) {
        CLT_TRY(gpt_part(m, layer, parts[i], i, packed, &inputs[i]));
        if (i > 0)
            CLT_TRY(clt_language_cache(m, gpt_name(name, layer, caches[i]), inputs[i]));
        inputs[i] = m->at;
    }
    return clt_language_add(m, "attention", gpt_name(name, layer, "attn"), NULL, inputs, 4, attrs, &node);
}

static clt_status gpt_attention(gpt *m, int64_t layer, double out_std)
{
    char name[CLT_LANGUAGE_NAME];
    clt_language *l = &m->l;
    int32_t before = l->at;
    CLT_TRY(gpt_norm(m, gpt_name(name, layer, "ln_1")));
    CLT_TRY(gpt_conv1d(m, gpt_name(name, layer, "attn.c_attn"), 3 * l->channels, CLT_LANGUAGE_INIT_STD));
    const clt_attr_given *attrs = CLT_ATTRS(CLT_A_INT("heads", l->heads), CLT_A_FLOAT("dropout", l->dropout),
                                            CLT_A_BOOL("documents", l->packed));
    clt_node *node;
    int32_t inputs[2] = {l->at, l->document};
    if (l->decode)
        CLT_TRY(gpt_attention_cached(l, layer, attrs));
    else
        CLT_TRY(clt_language_add(l, "attention", gpt_name(name, layer, "attn"), NULL, inputs,
                                 l->packed ? 2 : 1, attrs, &node));
    CLT_TRY(gpt_conv1d(m, gpt_name(name, layer, "attn.c_proj"), l->channels, out_std));
    CLT_TRY(clt_language_dropout(l, gpt_name(name, layer, "attn.drop")));
    return clt_language_residual(l, gpt_name(name, layer, "sum_1"), before);
}

static clt_status gpt_mlp(gpt *m, int64_t layer, double out_std)
{
    char name[CLT_LANGUAGE_NAME];
    clt_language *l = &m->l;
    int32_t before = l->at;
    bool tanh_form = strcmp(m->activation, "gelu_tanh") == 0 || strcmp(m->activation, "auto") == 0;
    CLT_TRY(gpt_norm(m, gpt_name(name, layer, "ln_2")));
    CLT_TRY(gpt_conv1d(m, gpt_name(name, layer, "mlp.c_fc"), 4 * l->channels, CLT_LANGUAGE_INIT_STD));
    CLT_TRY(clt_language_next(l, tanh_form ? "gelu" : m->activation, gpt_name(name, layer, "mlp.act"),
                              tanh_form ? CLT_ATTRS(CLT_A_WORD("approximate", "tanh")) : NULL));
    CLT_TRY(gpt_conv1d(m, gpt_name(name, layer, "mlp.c_proj"), l->channels, out_std));
    CLT_TRY(clt_language_dropout(l, gpt_name(name, layer, "mlp.drop")));
    return clt_language_residual(l, gpt_name(name, layer, "sum_2"), before);
}

static clt_status gpt_layers(clt_language *l)
{
    gpt *m = (gpt *)l;
    CLT_TRY(gpt_embed(l));
    /* scaled down because each block adds two branches to the residual stream */
    double out_std = CLT_LANGUAGE_INIT_STD / sqrt(2.0 * (double)l->layers);
    for (int64_t layer = 0; layer < l->layers; layer++) {
        l->b.graph->block++;
        CLT_TRY(gpt_attention(m, layer, out_std));
        CLT_TRY(gpt_mlp(m, layer, out_std));
    }
    l->b.graph->block++;
    CLT_TRY(gpt_norm(m, "ln_f"));
    return clt_language_head(l, "lm_head", "wte", CLT_LANGUAGE_INIT_STD);
}

static clt_status gpt_build(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                            clt_graph *graph)
{
    gpt m = {.l = {.b = {.doc = doc, .model = model, .inputs = inputs, .graph = graph}, .noun = "a gpt"}};
    return clt_language_build(&m.l, gpt_read, gpt_layers);
}

static clt_status gpt_build_decode(const clt_json *model, const clt_json_doc *doc, int64_t vocab,
                                   clt_graph *graph, int32_t *logits, int64_t *context)
{
    gpt m = {.l = {.b = {.doc = doc, .model = model, .graph = graph}, .noun = "a gpt"}};
    return clt_language_build_decode(&m.l, gpt_read, gpt_layers, vocab, logits, context);
}

/* --- config keys of this family --- */

static void check_rules(clt_config_rules *rules)
{
    const clt_config *c = rules->config;
    bool sizes = clt_rules_usable(rules, "model.heads") && clt_rules_usable(rules, "model.channels");
    int64_t heads = clt_config_int(c, "model.heads");
    if (sizes && heads > 0 && clt_config_int(c, "model.channels") % heads != 0)
        clt_rules_broken(rules, "model.channels", "must be a multiple of model.heads");
    clt_language_check(rules, "a gpt");
}

static const clt_config_key keys[] = {
    CLT_LANGUAGE_KEYS(
        "share of values dropped after the embedding, on attention weights and on each branch of a block"),
    CLT_KEY_CHOICE("model.activation", ACTIVATIONS, "\"auto\"",
                   "activation inside each block; auto: gelu_tanh"),
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

static const char *const adapted[] = {"c_attn", NULL};
/* causal masks of attention, which files may hold */
static const char *const buffers[] = {".attn.bias", ".attn.masked_bias", NULL};
static const char *const outside[] = {"lm_head", NULL};
static const clt_model_published published = {.prefix = "transformer.",
                                              .outside = outside,
                                              .block = "h.",
                                              .in_block = ".ln_1.weight",
                                              .table = "wte.weight",
                                              .places = "wpe.weight",
                                              .head = "lm_head.weight",
                                              .bias = "ln_f.bias",
                                              .bias_keys = {"model.bias=false", "model.bias=true"},
                                              .transposed = true,
                                              .adapted = adapted,
                                              .buffers = buffers};

const clt_model_family clt_model_gpt = {.part = &clt_family_gpt,
                                        .noun = "a gpt",
                                        .build = gpt_build,
                                        .build_decode = gpt_build_decode,
                                        .width_from_data = clt_language_width_from_data,
                                        .published = &published};
