/* SPDX-License-Identifier: Apache-2.0
 *
 * The llama family: decoders with root-mean-square norms before attention and before the feed-forward part,
 * rotary positions, keys and values shared by groups of query heads, and a gated feed-forward part. Llama,
 * Mistral, Qwen2 and Qwen3 differ in a few keys. Parameters have their names in transformers. Sources:
 * Touvron et al. 2023, arXiv:2302.13971; Jiang et al. 2023, arXiv:2310.06825; Qwen team 2024,
 * arXiv:2412.15115. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/models/language.h"

#define BIASES "none|qkv|all"
#define SCALINGS "none|linear|dynamic|llama3|yarn"
#define INNER_MULTIPLE 256

typedef struct llama {
    clt_language l; /* first member: the shared functions pass a pointer to it */
    int64_t kv_heads, head_dim, inner, positions, window, window_from;
    double norm_eps, init_std, rope_base, rope_factor, rope_low, rope_high, rope_attention;
    int64_t rope_original;
    const char *attention_bias, *rope_scaling;
    bool mlp_bias, head_norm, depth_init;
    double out_std; /* standard deviation of the initial weights in layers that end branches */
} llama;

/* --- keys --- */

/* Llama's own rule: two thirds of four times the channels, rounded up. */
static int64_t inner_of(int64_t channels)
{
    return (8 * channels / 3 + INNER_MULTIPLE - 1) / INNER_MULTIPLE * INNER_MULTIPLE;
}

static clt_status llama_read_rope(llama *m)
{
    const clt_model_builder *b = &m->l.b;
    m->rope_scaling = "none";
    m->rope_base = 10000;
    m->rope_factor = m->rope_low = 1;
    CLT_TRY(clt_model_read_number(b, "rope_base", 1.0001, 1e12, &m->rope_base));
    CLT_TRY(clt_model_read_word(b, "rope_scaling", SCALINGS, &m->rope_scaling));
    CLT_TRY(clt_model_read_number(b, "rope_factor", 1, 1e6, &m->rope_factor));
    CLT_TRY(clt_model_read_int(b, "rope_original", 0, &m->rope_original));
    CLT_TRY(clt_model_read_number(b, "rope_low", 0.0001, 1e6, &m->rope_low));
    CLT_TRY(clt_model_read_number(b, "rope_high", 0, 1e6, &m->rope_high));
    CLT_TRY(clt_model_read_number(b, "rope_attention", 0, 1e6, &m->rope_attention));
    bool plain = strcmp(m->rope_scaling, "none") == 0 || strcmp(m->rope_scaling, "linear") == 0;
    if (!plain && m->rope_original < 1)
        return clt_model_key_fail(b, "rope_original",
                                  "required for this model.rope_scaling: the longest sequence of the "
                                  "training before");
    return CLT_OK;
}

static clt_status llama_read(clt_language *l)
{
    llama *m = (llama *)l;
    m->norm_eps = 1e-5;
    m->init_std = CLT_LANGUAGE_INIT_STD;
    m->attention_bias = "none";
    CLT_TRY(clt_language_read(l));
    CLT_TRY(clt_model_read_int(&l->b, "kv_heads", 0, &m->kv_heads));
    CLT_TRY(clt_model_read_int(&l->b, "head_dim", 0, &m->head_dim));
    CLT_TRY(clt_model_read_int(&l->b, "inner", 0, &m->inner));
    CLT_TRY(clt_model_read_int(&l->b, "positions", 0, &m->positions));
    CLT_TRY(clt_model_read_int(&l->b, "window", 0, &m->window));
    CLT_TRY(clt_model_read_int(&l->b, "window_from", 0, &m->window_from));
    CLT_TRY(clt_model_read_number(&l->b, "norm_eps", 0, 1e6, &m->norm_eps));
    CLT_TRY(clt_model_read_number(&l->b, "init_std", 0, 1e6, &m->init_std));
    CLT_TRY(clt_model_read_bool(&l->b, "depth_init", &m->depth_init));
    CLT_TRY(clt_model_read_word(&l->b, "attention_bias", BIASES, &m->attention_bias));
    CLT_TRY(clt_model_read_bool(&l->b, "mlp_bias", &m->mlp_bias));
    CLT_TRY(clt_model_read_bool(&l->b, "head_norm", &m->head_norm));
    CLT_TRY(llama_read_rope(m));
    if (m->kv_heads == 0)
        m->kv_heads = l->heads;
    if (m->inner == 0)
        m->inner = inner_of(l->channels);
    if (l->heads % m->kv_heads != 0)
        return clt_model_key_fail(&l->b, "kv_heads", "must divide model.heads");
    if (m->head_dim == 0 && l->channels % l->heads != 0)
        return clt_model_key_fail(&l->b, "channels",
                                  "must be a multiple of model.heads, unless model.head_dim is given");
    if (m->head_dim == 0)
        m->head_dim = l->channels / l->heads;
    if (m->positions > 0 && l->context > m->positions && strcmp(m->rope_scaling, "dynamic") != 0)
        return clt_model_key_fail(
            &l->b, "context", "longer than model.positions, the longest sequence that the model is made for");
    if (m->head_dim % 2 != 0)
        return clt_model_key_fail(&l->b, m->head_dim == l->channels / l->heads ? "channels" : "head_dim",
                                  "the elements of a head must be an even number, since they turn in pairs");
    return CLT_OK;
}

/* --- layers --- */

static const char *llama_name(char *buffer, int64_t layer, const char *rest)
{
    snprintf(buffer, CLT_LANGUAGE_NAME, "layers.%lld.%s", (long long)layer, rest);
    return buffer;
}

static clt_status llama_norm(llama *m, const char *name)
{
    return clt_language_next(&m->l, "rmsnorm", name, CLT_ATTRS(CLT_A_FLOAT("eps", m->norm_eps)));
}

/* Adds a linear layer that reads tensor `from`. */
static clt_status llama_linear(llama *m, const char *name, int32_t from, int64_t out, bool bias, double std)
{
    clt_node *node;
    m->l.at = from;
    return clt_language_linear(&m->l, name,
                               CLT_ATTRS(CLT_A_INT("out", out), CLT_A_BOOL("bias", bias),
                                         CLT_A_WORD("init", "normal"), CLT_A_FLOAT("init_std", std)),
                               &node);
}

/* Normalises each of the `heads` heads in the tensor m->l.at separately, if the model has such norms. */
static clt_status llama_head_norm(llama *m, int64_t layer, const char *rest, int64_t heads)
{
    char name[CLT_LANGUAGE_NAME], part[32];
    clt_language *l = &m->l;
    int64_t rows = l->decode ? 1 : clt_graph_tensor(l->b.graph, l->at)->shape.dim[1];
    int64_t apart[] = {rows, heads, m->head_dim}, whole[] = {rows, heads * m->head_dim};
    if (!m->head_norm)
        return CLT_OK;
    snprintf(part, sizeof part, "%s.heads", rest);
    CLT_TRY(clt_language_next(l, "reshape", llama_name(name, layer, part),
                              CLT_ATTRS(CLT_A_INTS("shape", apart, 3))));
    CLT_TRY(llama_norm(m, llama_name(name, layer, rest)));
    snprintf(part, sizeof part, "%s.rows", rest);
    return clt_language_next(l, "reshape", llama_name(name, layer, part),
                             CLT_ATTRS(CLT_A_INTS("shape", whole, 2)));
}

/* The rotary base. With dynamic scaling the base grows if the context is longer than in the original
 * training. */
static double rope_base(const llama *m)
{
    double length = (double)m->l.context, original = (double)m->rope_original, dim = (double)m->head_dim;
    if (strcmp(m->rope_scaling, "dynamic") != 0 || length <= original || m->head_dim <= 2)
        return m->rope_base;
    return m->rope_base * pow(m->rope_factor * length / original - (m->rope_factor - 1), dim / (dim - 2));
}

/* Rotates queries or keys by their positions. */
static clt_status llama_rotate(llama *m, const char *name)
{
    clt_language *l = &m->l;
    clt_node *node;
    int32_t inputs[2] = {l->at, l->position};
    bool dynamic = strcmp(m->rope_scaling, "dynamic") == 0;
    int64_t original = m->rope_original > 0 ? m->rope_original : 1;
    return clt_language_add(l, "rotary", name, NULL, inputs, l->decode || l->packed ? 2 : 1,
                            CLT_ATTRS(CLT_A_INT("head", m->head_dim), CLT_A_FLOAT("base", rope_base(m)),
                                      CLT_A_WORD("scaling", dynamic ? "none" : m->rope_scaling),
                                      CLT_A_FLOAT("factor", m->rope_factor), CLT_A_INT("original", original),
                                      CLT_A_FLOAT("low", m->rope_low), CLT_A_FLOAT("high", m->rope_high)),
                            &node);
}

/* The factor of the scores. Yarn multiplies both queries and keys by an additional factor. */
static double score_scale(const llama *m)
{
    double yarn = m->rope_attention > 0 ? m->rope_attention : 0.1 * log(m->rope_factor) + 1;
    double scale = 1 / sqrt((double)m->head_dim);
    return strcmp(m->rope_scaling, "yarn") == 0 ? scale * yarn * yarn : scale;
}

/* The window of a block's attention; 0: none, or one that is at least as long as every sequence. */
static int64_t window_of(const llama *m, int64_t layer)
{
    return layer >= m->window_from && m->window < m->l.context ? m->window : 0;
}

/* Adds the queries, keys or values of the normalised input `from`. */
static clt_status llama_projection(llama *m, int64_t layer, int part, int32_t from, int32_t *out)
{
    static const struct {
        const char *linear, *norm, *turn, *cache;
    } names[] = {{"self_attn.q_proj", "self_attn.q_norm", "self_attn.q", NULL},
                 {"self_attn.k_proj", "self_attn.k_norm", "self_attn.k", "self_attn.keys"},
                 {"self_attn.v_proj", NULL, NULL, "self_attn.values"}};
    char name[CLT_LANGUAGE_NAME];
    clt_language *l = &m->l;
    int64_t heads = part == 0 ? l->heads : m->kv_heads;
    bool bias = strcmp(m->attention_bias, "none") != 0;
    CLT_TRY(llama_linear(m, llama_name(name, layer, names[part].linear), from, heads * m->head_dim, bias,
                         m->init_std));
    if (part < 2) {
        CLT_TRY(llama_head_norm(m, layer, names[part].norm, heads));
        CLT_TRY(llama_rotate(m, llama_name(name, layer, names[part].turn)));
    }
    if (l->decode && part > 0)
        CLT_TRY(clt_language_cache(l, llama_name(name, layer, names[part].cache), l->at));
    *out = l->at;
    return CLT_OK;
}

static clt_status llama_attention(llama *m, int64_t layer)
{
    char name[CLT_LANGUAGE_NAME];
    clt_node *node;
    clt_language *l = &m->l;
    int32_t before = l->at, inputs[4] = {-1, -1, -1, l->decode ? l->length : l->document};
    CLT_TRY(llama_norm(m, llama_name(name, layer, "input_layernorm")));
    int32_t from = l->at;
    for (int part = 0; part < 3; part++)
        CLT_TRY(llama_projection(m, layer, part, from, &inputs[part]));
    CLT_TRY(clt_language_add(
        l, "attention", llama_name(name, layer, "self_attn"), NULL, inputs, l->decode || l->packed ? 4 : 3,
        CLT_ATTRS(CLT_A_INT("heads", l->heads), CLT_A_INT("kv_heads", m->kv_heads),
                  CLT_A_INT("window", window_of(m, layer)), CLT_A_BOOL("documents", l->packed),
                  CLT_A_FLOAT("scale", score_scale(m)), CLT_A_FLOAT("dropout", l->dropout)),
        &node));
    CLT_TRY(llama_linear(m, llama_name(name, layer, "self_attn.o_proj"), l->at, l->channels,
                         strcmp(m->attention_bias, "all") == 0, m->out_std));
    return clt_language_residual(l, llama_name(name, layer, "sum_1"), before);
}

static clt_status llama_mlp(llama *m, int64_t layer)
{
    char name[CLT_LANGUAGE_NAME];
    clt_node *node;
    clt_language *l = &m->l;
    int32_t before = l->at, inputs[2];
    CLT_TRY(llama_norm(m, llama_name(name, layer, "post_attention_layernorm")));
    int32_t from = l->at;
    CLT_TRY(
        llama_linear(m, llama_name(name, layer, "mlp.gate_proj"), from, m->inner, m->mlp_bias, m->init_std));
    inputs[0] = l->at;
    CLT_TRY(
        llama_linear(m, llama_name(name, layer, "mlp.up_proj"), from, m->inner, m->mlp_bias, m->init_std));
    inputs[1] = l->at;
    CLT_TRY(clt_language_add(l, "swiglu", llama_name(name, layer, "mlp.gate"), NULL, inputs, 2, NULL, &node));
    CLT_TRY(llama_linear(m, llama_name(name, layer, "mlp.down_proj"), l->at, l->channels, m->mlp_bias,
                         m->out_std));
    return clt_language_residual(l, llama_name(name, layer, "sum_2"), before);
}

static clt_status llama_layers(clt_language *l)
{
    llama *m = (llama *)l;
    m->out_std = m->depth_init ? m->init_std / sqrt(2.0 * (double)l->layers) : m->init_std;
    CLT_TRY(clt_language_embed(l, "embed_tokens", m->init_std));
    for (int64_t layer = 0; layer < l->layers; layer++) {
        l->b.graph->block++;
        CLT_TRY(llama_attention(m, layer));
        CLT_TRY(llama_mlp(m, layer));
    }
    l->b.graph->block++;
    CLT_TRY(llama_norm(m, "norm"));
    return clt_language_head(l, "lm_head", "embed_tokens", m->init_std);
}

static clt_status llama_build(const clt_json *model, const clt_json_doc *doc, const clt_model_inputs *inputs,
                              clt_graph *graph)
{
    llama m = {.l = {.b = {.doc = doc, .model = model, .inputs = inputs, .graph = graph}, .noun = "a llama"}};
    return clt_language_build(&m.l, llama_read, llama_layers);
}

static clt_status llama_build_decode(const clt_json *model, const clt_json_doc *doc, int64_t vocab,
                                     clt_graph *graph, int32_t *logits, int64_t *context)
{
    llama m = {.l = {.b = {.doc = doc, .model = model, .graph = graph}, .noun = "a llama"}};
    return clt_language_build_decode(&m.l, llama_read, llama_layers, vocab, logits, context);
}

/* --- config keys of this family --- */

static void check_rules(clt_config_rules *rules)
{
    const clt_config *c = rules->config;
    int64_t heads = clt_config_int(c, "model.heads"), kv_heads = clt_config_int(c, "model.kv_heads");
    int64_t channels = clt_config_int(c, "model.channels"), head_dim = clt_config_int(c, "model.head_dim");
    bool sizes = clt_rules_usable(rules, "model.heads") && heads > 0;
    if (sizes && clt_rules_usable(rules, "model.kv_heads") && kv_heads > 0 && heads % kv_heads != 0)
        clt_rules_broken(rules, "model.kv_heads", "must divide model.heads (%lld)", (long long)heads);
    if (sizes && clt_rules_usable(rules, "model.channels") && clt_rules_usable(rules, "model.head_dim") &&
        head_dim == 0 && channels % heads != 0)
        clt_rules_broken(rules, "model.channels",
                         "must be a multiple of model.heads, unless model.head_dim is given");
    if (clt_rules_usable(rules, "model.rope_original") && clt_config_int(c, "model.rope_original") == 0 &&
        (clt_rules_is(rules, "model.rope_scaling", "llama3") ||
         clt_rules_is(rules, "model.rope_scaling", "yarn") ||
         clt_rules_is(rules, "model.rope_scaling", "dynamic")))
        clt_rules_broken(rules, "model.rope_original",
                         "required for model.rope_scaling %s: the longest sequence of the training before",
                         clt_config_string(c, "model.rope_scaling"));
    int64_t positions = clt_config_int(c, "model.positions"), context = clt_config_int(c, "model.context");
    if (clt_rules_usable(rules, "model.positions") && clt_rules_usable(rules, "model.context") &&
        positions > 0 && context > positions && !clt_rules_is(rules, "model.rope_scaling", "dynamic"))
        clt_rules_broken(
            rules, "model.context",
            "longer than model.positions (%lld), the longest sequence that the model is made for",
            (long long)positions);
    clt_language_check(rules, "a llama");
}

static const clt_config_key keys[] = {
    CLT_LANGUAGE_KEYS("share of attention weights dropped"),
    CLT_KEY_INT("model.kv_heads", 0, 65536, "0", "",
                "heads of keys and values, each shared by heads / kv_heads query heads; 0: equal to heads"),
    CLT_KEY_INT("model.head_dim", 0, 65536, "0", "", "elements of a head; 0: model.channels / model.heads"),
    CLT_KEY_INT("model.inner", 0, CLT_KEY_WIDE, "0", "",
                "width of the feed-forward part; 0: 8/3 of model.channels, rounded up to a multiple of 256"),
    CLT_KEY_INT(
        "model.positions", 0, INT32_MAX, "0", "tokens",
        "the longest sequence that the model is made for, which an export names and model.context may not "
        "exceed, except with dynamic scaling; 0: model.context"),
    CLT_KEY_INT("model.window", 0, INT32_MAX, "0", "tokens",
                "the number of tokens that a token attends to, itself the last of them; 0: all (Mistral has "
                "a window)"),
    CLT_KEY_INT("model.window_from", 0, 100000, "0", "",
                "the first block that has the window; blocks before it attend to all tokens"),
    CLT_KEY_FLOAT("model.norm_eps", 0, 1, "1e-05", "", "added to the mean square in the norms"),
    CLT_KEY_CHOICE("model.attention_bias", BIASES, "\"none\"",
                   "biases of attention's linear layers; qkv: of queries, keys and values (Qwen2)"),
    CLT_KEY_BOOL("model.mlp_bias", "false", "the linear layers of the feed-forward part have a bias"),
    CLT_KEY_BOOL("model.head_norm", "false", "each head of queries and keys is normalised (Qwen3)"),
    CLT_KEY_FLOAT_OPEN("model.rope_base", 1, true, 1e12, false, "10000", "",
                       "rotary positions: the first pair turns about this many times as fast as the last"),
    CLT_KEY_CHOICE("model.rope_scaling", SCALINGS, "\"none\"",
                   "how rotary positions are slowed down for sequences longer than in an earlier "
                   "training (op rotary); dynamic: by a larger base"),
    CLT_KEY_FLOAT("model.rope_factor", 1, 1e6, "1", "",
                  "with a scaling: sequences may be this many times as long"),
    CLT_KEY_INT("model.rope_original", 0, INT32_MAX, "0", "tokens",
                "dynamic, llama3, yarn: the longest sequence of the earlier training"),
    CLT_KEY_FLOAT(
        "model.rope_low", 0, 1e6, "1", "",
        "llama3, yarn: pairs that turn at most this often within rope_original tokens are slowed by "
        "the whole factor"),
    CLT_KEY_FLOAT(
        "model.rope_high", 0, 1e6, "0", "",
        "llama3, yarn: pairs that turn at least this often are not slowed; 0: 4 for llama3, 32 for yarn"),
    CLT_KEY_FLOAT("model.rope_attention", 0, 1e6, "0", "",
                  "yarn: factor of queries and of keys; 0: 0.1 ln(rope_factor) + 1"),
    CLT_KEY_FLOAT("model.init_std", 0, 1000, "0.02", "", "standard deviation of weights at the start"),
    CLT_KEY_BOOL("model.depth_init", "false",
                 "the last layer of each branch starts smaller by sqrt(2 layers), as in GPT-2"),
    CLT_KEY_END,
};
static const char *const required[] = {"model.layers", "model.heads", "model.channels", NULL};

const clt_config_part clt_family_llama = {
    .name = "llama",
    .help = "decoders of the kind of Llama, Mistral, Qwen2 and Qwen3, described by model.layers, heads, "
            "kv_heads, channels and inner",
    .keys = keys,
    .required = required,
    .check = check_rules,
    .language = true};

static const char *const adapted[] = {"q_proj", "v_proj", NULL};
static const char *const buffers[] = {".rotary_emb.inv_freq", NULL}; /* cltrain computes these again */
static const char *const outside[] = {"lm_head", NULL};
static const clt_model_published published = {
    .prefix = "model.",
    .outside = outside,
    .block = "layers.",
    .in_block = ".input_layernorm.weight",
    .table = "embed_tokens.weight",
    .head = "lm_head.weight",
    .bias = "layers.0.self_attn.q_proj.bias",
    .bias_keys = {"model.attention_bias=none", "model.attention_bias=qkv"},
    .adapted = adapted,
    .buffers = buffers};

const clt_model_family clt_model_llama = {.part = &clt_family_llama,
                                          .noun = "a llama",
                                          .build = llama_build,
                                          .build_decode = llama_build_decode,
                                          .width_from_data = clt_language_width_from_data,
                                          .published = &published};
