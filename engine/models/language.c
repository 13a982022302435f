/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds the parts that language models share. Knows tokens, but no family's blocks. */
#include "engine/models/language.h"

#include <stdio.h>
#include <string.h>

#include "engine/ops/infer.h"

#define IGNORED_TARGET (-1) /* in y: the loss ignores this position */

/* --- layers --- */

clt_status clt_language_add(clt_language *m, const char *op, const char *name, const char *share,
                            const int32_t *inputs, int n, const clt_attr_given *attrs, clt_node **node)
{
    clt_status status = clt_graph_add_op(m->b.graph, op, name, share, inputs, n, attrs, node);
    if (status == CLT_OK && (*node)->n_out > 0)
        m->at = (*node)->out[0];
    return clt_model_at(m->b.doc, m->b.model, status);
}

clt_status clt_language_next(clt_language *m, const char *op, const char *name, const clt_attr_given *attrs)
{
    clt_node *node;
    return clt_language_add(m, op, name, NULL, &m->at, 1, attrs, &node);
}

clt_status clt_language_linear(clt_language *m, const char *name, const clt_attr_given *attrs,
                               clt_node **node)
{
    return clt_lora_linear(&m->b, name, m->at, attrs, node, &m->at);
}

clt_status clt_language_residual(clt_language *m, const char *name, int32_t before)
{
    clt_node *node;
    int32_t inputs[2] = {before, m->at};
    return clt_language_add(m, "add", name, NULL, inputs, 2, NULL, &node);
}

clt_status clt_language_dropout(clt_language *m, const char *name)
{
    return m->dropout > 0 ? clt_language_next(m, "dropout", name, CLT_ATTRS(CLT_A_FLOAT("p", m->dropout)))
                          : CLT_OK;
}

clt_status clt_language_cache(clt_language *m, const char *name, int32_t tensor)
{
    clt_node *node;
    int32_t inputs[2] = {tensor, m->position};
    return clt_language_add(m, "kv_cache", name, NULL, inputs, 2, CLT_ATTRS(CLT_A_INT("rows", m->context)),
                            &node);
}

/* --- keys --- */

clt_status clt_language_read(clt_language *m)
{
    m->tied = true;
    m->pad_to = 64;
    m->padding = -1;
    CLT_TRY(clt_model_read_int(&m->b, "layers", 1, &m->layers));
    CLT_TRY(clt_model_read_int(&m->b, "heads", 1, &m->heads));
    CLT_TRY(clt_model_read_int(&m->b, "channels", 1, &m->channels));
    CLT_TRY(clt_model_read_int(&m->b, "context", 0, &m->context));
    CLT_TRY(clt_model_read_int(&m->b, "vocab", 0, &m->vocab));
    CLT_TRY(clt_model_read_int(&m->b, "vocab_pad", 1, &m->pad_to));
    CLT_TRY(clt_model_read_share(&m->b, "dropout", &m->dropout));
    CLT_TRY(clt_model_read_bool(&m->b, "tied", &m->tied));
    CLT_TRY(clt_lora_read(&m->b, m->decode));
    char why[96];
    snprintf(why, sizeof why, "required for %s: the number of blocks", m->noun);
    if (m->layers < 1)
        return clt_model_key_fail(&m->b, "layers", why);
    snprintf(why, sizeof why, "required for %s: the number of attention heads", m->noun);
    if (m->heads < 1)
        return clt_model_key_fail(&m->b, "heads", why);
    if (m->channels < 1)
        return clt_model_key_fail(&m->b, "channels", "must be at least 1");
    return CLT_OK;
}

void clt_language_check(clt_config_rules *rules, const char *noun)
{
    const clt_config *c = rules->config;
    clt_lora_check(rules);
    if (clt_rules_usable(rules, "model.layers") && !clt_rules_empty(rules, "model.layers") &&
        clt_config_int(c, "model.layers") < 1)
        clt_rules_broken(rules, "model.layers",
                         "%s takes the number of its blocks; a list of layers is for model.type graph", noun);
    if (clt_rules_usable(rules, "data.type") && clt_config_chosen(c, "data.type")->language &&
        clt_rules_empty(rules, "model.context"))
        clt_rules_broken(rules, "model.context",
                         "required (at least 1) for %s on text or tokens: the length of a sequence", noun);
}

bool clt_language_width_from_data(const clt_config *config)
{
    return clt_config_int(config, "model.vocab") == 0 && !clt_config_chosen(config, "data.type")->language;
}

/* --- fields, embedding, head --- */

clt_status clt_language_type_fail(const clt_language *m, const char *what)
{
    char why[200];
    snprintf(why, sizeof why, "%s needs %s", m->noun, what);
    return clt_model_key_fail(&m->b, "type", why);
}

static void pad_vocab(clt_language *m)
{
    m->rows = (m->vocab + m->pad_to - 1) / m->pad_to * m->pad_to;
}

clt_status clt_language_count(clt_language *m)
{
    if (m->vocab == 0)
        m->vocab = m->x->dtype == CLT_U8 ? 256 : m->x->max_value + 1;
    if (m->vocab < 1)
        return clt_model_key_fail(&m->b, "vocab",
                                  "the number of tokens is not known from the data; give it here");
    pad_vocab(m);
    return CLT_OK;
}

/* Adds the fields x: (T) tokens, and y: (T) the token that follows each; for packed rows also document and
 * position, (T) i32. */
static clt_status add_fields(clt_language *m)
{
    int x = clt_model_find_field(m->b.inputs, "x"), y = clt_model_find_field(m->b.inputs, "y");
    int document = clt_model_find_field(m->b.inputs, "document");
    int position = clt_model_find_field(m->b.inputs, "position");
    if (x < 0 || y < 0)
        return clt_language_type_fail(m, "the data fields 'x' and 'y', which this data does not offer");
    m->x = &m->b.inputs->field[x];
    m->y = &m->b.inputs->field[y];
    if (clt_dtype_is_float(m->x->dtype) || clt_dtype_is_float(m->y->dtype) || m->x->shape.ndim != 1 ||
        m->y->shape.ndim != 1 || m->x->shape.dim[0] != m->y->shape.dim[0])
        return clt_language_type_fail(
            m, "sequences: x and y must be rows of equally many tokens (text and tokens: set "
               "model.context)");
    int64_t length = m->x->shape.dim[0];
    if (m->context == 0)
        m->context = length;
    if (length > m->context)
        return clt_model_key_fail(&m->b, "context", "the sequences of the data are longer");
    CLT_TRY(clt_language_count(m));
    m->packed = document >= 0 && position >= 0;
    if (m->packed) {
        m->document = m->b.graph->fields[document].tensor;
        m->position = m->b.graph->fields[position].tensor;
    }
    m->at = m->b.graph->fields[x].tensor;
    return CLT_OK;
}

void clt_language_padded(clt_language *m, const clt_node *node)
{
    clt_param *table = &m->b.graph->params[node->param[0]];
    table->file_rows = m->rows > m->vocab ? m->vocab : 0;
    table->file_longer = CLT_LONGER_PADDED;
}

clt_status clt_language_embed(clt_language *m, const char *name, double init_std)
{
    clt_node *node;
    int32_t tokens = m->at;
    CLT_TRY(clt_language_add(m, "embedding", name, NULL, &m->at, 1,
                             CLT_ATTRS(CLT_A_INT("vocab", m->rows), CLT_A_INT("dim", m->channels),
                                       CLT_A_FLOAT("init_std", init_std), CLT_A_INT("padding", m->padding)),
                             &node));
    clt_language_padded(m, node);
    clt_infer ctx = {m->b.graph, node};
    clt_infer_bound(&ctx, 0, m->vocab, false, 0);
    return clt_lora_table(&m->b, node, tokens, m->vocab, &m->at);
}

clt_status clt_language_logits(clt_language *m, const char *name, const char *table, double init_std)
{
    clt_node *node;
    int32_t from = m->at;
    CLT_TRY(clt_language_add(m, "linear", name, m->tied ? table : NULL, &m->at, 1,
                             CLT_ATTRS(CLT_A_INT("out", m->rows), CLT_A_BOOL("bias", false),
                                       CLT_A_WORD("init", "normal"), CLT_A_FLOAT("init_std", init_std)),
                             &node));
    clt_language_padded(m, node);
    return clt_lora_head(&m->b, node, from, m->vocab, &m->at);
}

clt_status clt_language_loss(clt_language *m, const char *name)
{
    clt_node *node;
    int32_t inputs[2] = {m->at, m->b.graph->fields[m->y - m->b.inputs->field].tensor};
    return clt_language_add(
        m, "cross_entropy", name, NULL, inputs, 2,
        CLT_ATTRS(CLT_A_INT("classes", m->vocab), CLT_A_INT("ignore_index", IGNORED_TARGET)), &node);
}

clt_status clt_language_head(clt_language *m, const char *name, const char *table, double init_std)
{
    CLT_TRY(clt_language_logits(m, name, table, init_std));
    return m->decode ? CLT_OK : clt_language_loss(m, "loss");
}

/* --- both forms --- */

clt_status clt_language_build(clt_language *m, clt_status (*read)(clt_language *),
                              clt_status (*layers)(clt_language *))
{
    CLT_TRY(read(m));
    CLT_TRY(add_fields(m));
    CLT_TRY(layers(m));
    return clt_lora_finish(&m->b);
}

clt_status clt_language_build_decode(clt_language *m, clt_status (*read)(clt_language *),
                                     clt_status (*layers)(clt_language *), int64_t vocab, int32_t *logits,
                                     int64_t *context)
{
    static const clt_model_inputs none;
    clt_graph *graph = m->b.graph;
    clt_shape one = clt_shape1(1), scalar = clt_shape_make(0, NULL);
    m->b.inputs = &none;
    m->decode = true;
    CLT_TRY(read(m));
    if (m->context < 1)
        return clt_model_key_fail(&m->b, "context", "required: the longest sequence");
    m->vocab = vocab;
    pad_vocab(m);
    m->dropout = 0;
    CLT_TRY(clt_graph_field(graph, "x", CLT_I32, &one, &m->at));
    CLT_TRY(clt_graph_field(graph, "position", CLT_I32, &one, &m->position));
    CLT_TRY(clt_graph_field(graph, "length", CLT_I32, &scalar, &m->length));
    CLT_TRY(layers(m));
    CLT_TRY(clt_lora_finish(&m->b));
    clt_graph_tensor(graph, m->at)->is_output = true;
    *logits = m->at;
    *context = m->context;
    return CLT_OK;
}
