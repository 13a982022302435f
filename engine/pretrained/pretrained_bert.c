/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the config.json of a BERT into keys of our bert. */
#include <string.h>

#include "engine/base/log.h"
#include "engine/pretrained/pretrained_internal.h"

static const char *string_of(const clt_pretrained *p, const char *name)
{
    return clt_json_string_or(clt_json_get(p->root, name), NULL);
}

static void read_activation(clt_pretrained *p)
{
    const char *said = string_of(p, "hidden_act");
    const char *ours = clt_pretrained_activation(said ? said : "gelu");
    if (!ours)
        clt_pretrained_problem(p, "hidden_act",
                               "is not one of gelu, gelu_new, relu and silu, which cltrain's bert has");
    else
        clt_pretrained_add(p, "model.activation", clt_arena_printf(p->arena, "\"%s\"", ours),
                           clt_arena_printf(p->arena, "hidden_act is %.40s", said ? said : "missing"),
                           CLT_PRESET_EQUAL, NULL);
}

/* The number of labels of a classifier; 2 if the file does not name them, as in transformers. */
static int64_t count_labels(const clt_pretrained *p)
{
    const clt_json *names = clt_json_get(p->root, "id2label");
    int64_t count = 2;
    if (clt_json_typeof(names) == CLT_JSON_OBJECT)
        return (int64_t)clt_json_count(names);
    (void)clt_json_int(clt_json_get(p->root, "num_labels"), &count);
    return count;
}

/* Our head for a classifier of texts: one output means a number, unless problem_type says otherwise. NULL: no
 * head of ours has its loss. */
static const char *classifier_head(const clt_pretrained *p)
{
    const char *problem = string_of(p, "problem_type");
    int64_t labels = count_labels(p);
    bool regression = problem ? strcmp(problem, "regression") == 0 : labels == 1;
    if ((regression && labels > 1) || (problem && strcmp(problem, "multi_label_classification") == 0)) {
        CLT_WARN_ONCE(
            "config.json: problem_type \"%.40s\" with %lld labels is not a task of cltrain's bert, which "
            "learns one class or one number for a text; its classifier is not proposed",
            problem, (long long)labels);
        return NULL;
    }
    return regression ? "number" : "class";
}

/* The head that fits the class that saved the model, as a proposal: the encoder works with any head. */
static void read_head(clt_pretrained *p)
{
    static const char *const heads[][2] = {{"BertForPreTraining", "pretrain"},
                                           {"BertForMaskedLM", "masked"},
                                           {"BertForTokenClassification", "tokens"},
                                           {"BertForQuestionAnswering", "span"}};
    const clt_json *list = clt_json_get(p->root, "architectures");
    const char *class = clt_json_typeof(list) == CLT_JSON_ARRAY ? clt_json_string(clt_json_first(list)) : "";
    const char *head = strcmp(class, "BertForSequenceClassification") == 0 ? classifier_head(p) : NULL;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        if (strcmp(heads[i][0], class) == 0)
            head = heads[i][1];
    if (head)
        clt_pretrained_add(p, "model.head", clt_arena_printf(p->arena, "\"%s\"", head),
                           clt_arena_printf(p->arena, "the model is a %s%s", class,
                                            strcmp(head, "number") == 0 ? " for a regression" : ""),
                           CLT_PRESET_DEFAULT, NULL);
}

/* The names of the classes, if the head has classes. */
static void read_labels(clt_pretrained *p)
{
    const char *head = clt_pretrained_value(p, "model.head"), *kind = string_of(p, "problem_type");
    bool classes = head && (strcmp(head, "\"class\"") == 0 || strcmp(head, "\"tokens\"") == 0);
    if (classes && (!kind || strcmp(kind, "regression") != 0))
        clt_pretrained_read_labels(p);
}

static void read_dropout(clt_pretrained *p)
{
    double hidden = clt_pretrained_number(p, p->root, "hidden_dropout_prob", 0.1);
    double attention = clt_pretrained_number(p, p->root, "attention_probs_dropout_prob", 0.1);
    if (!(hidden >= 0 && hidden < 1 && attention >= 0 && attention < 1)) {
        clt_pretrained_problem(p, "hidden_dropout_prob, attention_probs_dropout_prob",
                               "must be at least 0 and below 1");
        return;
    }
    clt_pretrained_add_number(p, "model.dropout", hidden, "hidden_dropout_prob", CLT_PRESET_DEFAULT);
    clt_pretrained_add_number(p, "model.attention_dropout", attention, "attention_probs_dropout_prob",
                              CLT_PRESET_DEFAULT);
}

static void read_padding(clt_pretrained *p)
{
    const clt_json *value = clt_json_get(p->root, "pad_token_id");
    int64_t id = clt_json_typeof(value) == CLT_JSON_NULL ? -1 : 0;
    if (clt_json_given(p->root, "pad_token_id") && !clt_json_int_within(value, 0, INT32_MAX, &id))
        clt_pretrained_problem(p, "pad_token_id", "is not the id of a token");
    clt_pretrained_add(p, "model.padding", clt_arena_printf(p->arena, "%lld", (long long)id),
                       clt_arena_printf(p->arena, "pad_token_id is %lld", (long long)id), CLT_PRESET_EQUAL,
                       NULL);
}

/* Refuses settings that change the computation and for which we have no key. */
static void refuse_others(clt_pretrained *p)
{
    const char *positions = string_of(p, "position_embedding_type");
    if (positions && strcmp(positions, "absolute") != 0)
        clt_pretrained_problem(p, "position_embedding_type", "is not absolute, which cltrain's bert has");
    if (clt_pretrained_bool(p, "is_decoder", false))
        clt_pretrained_problem(p, "is_decoder", "is true: cltrain's bert attends in both directions");
    if (clt_pretrained_bool(p, "add_cross_attention", false))
        clt_pretrained_problem(p, "add_cross_attention",
                               "is true: cltrain's bert has no attention to another text");
    if (clt_json_count(clt_json_get(p->root, "pruned_heads")) > 0)
        clt_pretrained_problem(p, "pruned_heads", "cltrain's bert has all heads in every layer");
}

void clt_pretrained_read_bert(clt_pretrained *p, const clt_pretrained_class *c)
{
    static const char *const
        layers[] = {"num_hidden_layers", NULL},
        *const width[] = {"hidden_size", NULL}, *const heads[] = {"num_attention_heads", NULL},
        *const inner[] = {"intermediate_size", NULL}, *const vocab[] = {"vocab_size", NULL},
        *const positions[] = {"max_position_embeddings", NULL}, *const segments[] = {"type_vocab_size", NULL};
    (void)c;
    int64_t n_layers = clt_pretrained_add_count(p, "model.layers", layers, 0, CLT_PRESET_EQUAL);
    if (n_layers > p->tensors)
        clt_pretrained_problem(p, "num_hidden_layers", "is more than the weights have tensors");
    int64_t n_heads = clt_pretrained_add_count(p, "model.heads", heads, 0, CLT_PRESET_EQUAL);
    int64_t channels = clt_pretrained_add_count(p, "model.channels", width, 0, CLT_PRESET_EQUAL);
    if (n_heads > 0 && channels % n_heads != 0)
        clt_pretrained_problem(p, "hidden_size", "is not a multiple of num_attention_heads");
    clt_pretrained_add_count(p, "model.inner", inner, 3072, CLT_PRESET_EQUAL);
    clt_pretrained_add_count(p, "model.vocab", vocab, 0, CLT_PRESET_EQUAL);
    int64_t longest = clt_pretrained_add_count(p, "model.positions", positions, 512, CLT_PRESET_EQUAL);
    clt_pretrained_add(p, "model.context", clt_arena_printf(p->arena, "%lld", (long long)longest),
                       clt_arena_printf(p->arena, "max_position_embeddings is %lld", (long long)longest),
                       CLT_PRESET_AT_MOST, NULL);
    clt_pretrained_add_count(p, "model.segments", segments, 2, CLT_PRESET_EQUAL);
    clt_pretrained_add_number(p, "model.layernorm_eps",
                              clt_pretrained_number(p, p->root, "layer_norm_eps", 1e-12), "layer_norm_eps",
                              CLT_PRESET_EQUAL);
    clt_pretrained_add_number(p, "model.init_std",
                              clt_pretrained_number(p, p->root, "initializer_range", 0.02),
                              "initializer_range", CLT_PRESET_DEFAULT);
    read_activation(p);
    read_head(p);
    read_labels(p);
    read_dropout(p);
    read_padding(p);
    clt_pretrained_tied(p, true);
    refuse_others(p);
}
