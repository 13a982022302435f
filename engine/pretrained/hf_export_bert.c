/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports a bert as the model class of transformers that has the same head. */
#include <stdio.h>
#include <string.h>

#include "engine/pretrained/hf_export_internal.h"

static const struct {
    const char *head, *architecture;
} classes[] = {{"pretrain", "BertForPreTraining"},         {"masked", "BertForMaskedLM"},
               {"class", "BertForSequenceClassification"}, {"tokens", "BertForTokenClassification"},
               {"span", "BertForQuestionAnswering"},       {"number", "BertForSequenceClassification"}};

static bool has_head(const hf_export *x, const char *word)
{
    return strcmp(clt_config_string(x->saved->config, "model.head"), word) == 0;
}

/* True if the head is a classifier, whose outputs have names. */
static bool has_classifier(const hf_export *x)
{
    return has_head(x, "class") || has_head(x, "tokens") || has_head(x, "number");
}

static clt_status bert_read_model(hf_export *x)
{
    const char *activation = clt_config_string(x->saved->config, "model.activation");
    x->model_type = "bert";
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (has_head(x, classes[i].head))
            x->architecture = classes[i].architecture;
    x->activation = strcmp(activation, "auto") == 0        ? "gelu"
                    : strcmp(activation, "gelu_tanh") == 0 ? "gelu_new"
                                                           : activation;
    CLT_TRY(hf_find_table(x, "embeddings.word_embeddings.weight", &x->vocab));
    CLT_TRY(hf_find_table(x, "embeddings.position_embeddings.weight", &x->context));
    return hf_find_table(x, "encoder.layer.0.intermediate.dense.weight", &x->inner);
}

/* Adds a layer's weight, (out, in) or (out), and its bias. */
static clt_status add_layer(hf_export *x, const char *name, int64_t out, int64_t in)
{
    char text[128];
    clt_shape weight = in ? clt_shape2(out, in) : clt_shape1(out), row = clt_shape1(out);
    snprintf(text, sizeof text, "%s.weight", name);
    CLT_TRY(hf_add_tensor(x, text, &weight));
    snprintf(text, sizeof text, "%s.bias", name);
    return hf_add_tensor(x, text, &row);
}

static clt_status add_block(hf_export *x, int64_t layer)
{
    const int64_t c = x->channels;
    const struct {
        const char *name;
        int64_t out, in;
    } parts[] = {{"attention.self.query", c, c},       {"attention.self.key", c, c},
                 {"attention.self.value", c, c},       {"attention.output.dense", c, c},
                 {"attention.output.LayerNorm", c, 0}, {"intermediate.dense", x->inner, c},
                 {"output.dense", c, x->inner},        {"output.LayerNorm", c, 0}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[96];
        snprintf(name, sizeof name, "encoder.layer.%lld.%s", (long long)layer, parts[i].name);
        CLT_TRY(add_layer(x, name, parts[i].out, parts[i].in));
    }
    return CLT_OK;
}

/* Adds the classifier; its number of classes is the number of rows of its weight. */
static clt_status add_classifier(hf_export *x, const char *name)
{
    char text[64];
    int64_t outputs;
    snprintf(text, sizeof text, "%s.weight", name);
    CLT_TRY(hf_find_table(x, text, &outputs));
    return add_layer(x, name, outputs, x->channels);
}

static clt_status add_masked(hf_export *x)
{
    const clt_shape words = clt_shape2(x->vocab, x->channels), row = clt_shape1(x->vocab);
    CLT_TRY(hf_add_tensor(x, "cls.predictions.bias", &row));
    CLT_TRY(add_layer(x, "cls.predictions.transform.dense", x->channels, x->channels));
    CLT_TRY(add_layer(x, "cls.predictions.transform.LayerNorm", x->channels, 0));
    return x->tied ? CLT_OK : hf_add_tensor(x, "cls.predictions.decoder.weight", &words);
}

static clt_status bert_gather(hf_export *x)
{
    const int64_t c = x->channels;
    const clt_shape words = clt_shape2(x->vocab, c), places = clt_shape2(x->context, c);
    int64_t segments;
    CLT_TRY(hf_find_table(x, "embeddings.token_type_embeddings.weight", &segments));
    const clt_shape kinds = clt_shape2(segments, c);
    CLT_TRY(hf_add_tensor(x, "embeddings.word_embeddings.weight", &words));
    CLT_TRY(hf_add_tensor(x, "embeddings.position_embeddings.weight", &places));
    CLT_TRY(hf_add_tensor(x, "embeddings.token_type_embeddings.weight", &kinds));
    CLT_TRY(add_layer(x, "embeddings.LayerNorm", c, 0));
    for (int64_t layer = 0; layer < x->layers; layer++)
        CLT_TRY(add_block(x, layer));
    if (has_head(x, "pretrain") || has_head(x, "class") || has_head(x, "number"))
        CLT_TRY(add_layer(x, "pooler.dense", c, c));
    if (has_head(x, "span"))
        return add_classifier(x, "qa_outputs");
    if (has_classifier(x))
        return add_classifier(x, "classifier");
    CLT_TRY(add_masked(x));
    return has_head(x, "pretrain") ? add_layer(x, "cls.seq_relationship", 2, c) : CLT_OK;
}

/* The name of a class in the training data, else LABEL_0, LABEL_1, ... as in transformers. */
static const char *label_of(const hf_export *x, int64_t number, char *buffer, size_t size)
{
    const char *name = x->saved->has_facts ? clt_data_facts_class(&x->saved->facts, number) : NULL;
    (void)snprintf(buffer, size, "LABEL_%lld", (long long)number);
    return name ? name : buffer;
}

/* Writes the names of the labels and their numbers; for a model that predicts a number, the label of
 * transformers. */
static void write_labels(const hf_export *x, clt_json_writer *w)
{
    int64_t outputs = 0;
    char text[32], label[32];
    if (!has_classifier(x) || hf_find_table(x, "classifier.weight", &outputs) != CLT_OK)
        return;
    if (has_head(x, "number"))
        clt_jw_kstring(w, "problem_type", "regression");
    clt_jw_kobject(w, "id2label");
    for (int64_t i = 0; i < outputs; i++) {
        snprintf(text, sizeof text, "%lld", (long long)i);
        clt_jw_kstring(w, text, label_of(x, i, label, sizeof label));
    }
    clt_jw_end_object(w);
    clt_jw_kobject(w, "label2id");
    for (int64_t i = 0; i < outputs; i++)
        clt_jw_kint(w, label_of(x, i, label, sizeof label), i);
    clt_jw_end_object(w);
}

static void bert_settings(const hf_export *x, clt_json_writer *w)
{
    const clt_config *c = x->saved->config;
    int64_t segments = 2, padding = clt_config_int(c, "model.padding");
    double attention = clt_config_float(c, "model.attention_dropout");
    (void)hf_find_table(x, "embeddings.token_type_embeddings.weight", &segments);
    clt_jw_karray(w, "architectures");
    clt_jw_string(w, x->architecture);
    clt_jw_end_array(w);
    clt_jw_kstring(w, "model_type", x->model_type);
    clt_jw_kint(w, "vocab_size", x->vocab);
    clt_jw_kint(w, "hidden_size", x->channels);
    clt_jw_kint(w, "num_hidden_layers", x->layers);
    clt_jw_kint(w, "num_attention_heads", x->heads);
    clt_jw_kint(w, "intermediate_size", x->inner);
    clt_jw_kstring(w, "hidden_act", x->activation);
    clt_jw_kdouble(w, "hidden_dropout_prob", clt_config_float(c, "model.dropout"));
    clt_jw_kdouble(w, "attention_probs_dropout_prob",
                   attention < 0 ? clt_config_float(c, "model.dropout") : attention);
    clt_jw_kint(w, "max_position_embeddings", x->context);
    clt_jw_kint(w, "type_vocab_size", segments);
    clt_jw_kdouble(w, "initializer_range", clt_config_float(c, "model.init_std"));
    clt_jw_kdouble(w, "layer_norm_eps", clt_config_float(c, "model.layernorm_eps"));
    clt_jw_kstring(w, "position_embedding_type", "absolute");
    clt_jw_key(w, "pad_token_id");
    if (padding >= 0)
        clt_jw_int(w, padding);
    else
        clt_jw_null(w);
    write_labels(x, w);
}

const hf_family hf_family_bert = {.type = "bert",
                                  .encoder = true,
                                  .read_model = bert_read_model,
                                  .gather = bert_gather,
                                  .settings = bert_settings};
