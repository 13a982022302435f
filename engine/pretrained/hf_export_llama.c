/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports a llama as the class of transformers that computes it: Llama, Mistral (a window), Qwen2 (biases of
 * queries, keys and values) or Qwen3 (normalised heads). Rotary positions are written in the spelling of
 * transformers 4, which all versions read. */
#include <stdio.h>
#include <string.h>

#include "engine/pretrained/hf_export_internal.h"

static const clt_config *config_of(const hf_export *x)
{
    return x->saved->config;
}

static bool is(const hf_export *x, const char *key, const char *word)
{
    return strcmp(clt_config_string(config_of(x), key), word) == 0;
}

/* The number of rows of a weight of the first block. */
static clt_status rows_of(const hf_export *x, const char *rest, int64_t *rows)
{
    char name[96];
    snprintf(name, sizeof name, "layers.0.%s.weight", rest);
    return hf_find_table(x, name, rows);
}

/* Chooses the class. A window from the first block on means Mistral. With biases of q, k and v, or normalised
 * heads, it is a class of Qwen, which may have a window, too. */
static clt_status choose_class(hf_export *x)
{
    const clt_config *c = config_of(x);
    bool heads = clt_config_bool(c, "model.head_norm"), mlp = clt_config_bool(c, "model.mlp_bias");
    bool qkv = is(x, "model.attention_bias", "qkv"), none = is(x, "model.attention_bias", "none");
    x->window = clt_config_int(c, "model.window");
    x->window_from = x->window ? clt_config_int(c, "model.window_from") : 0;
    bool qwen = heads || qkv;
    if (heads && qkv)
        return hf_refuse(x, "no class has normalised heads and biases of queries, keys and values only "
                            "(model.attention_bias)");
    if (mlp && (qwen || x->window))
        return hf_refuse(x, "only Llama's class has biases in the feed-forward part (model.mlp_bias), and it "
                            "has no window, normalised heads or biases of queries, keys and values only");
    if (x->window && !qwen && (!none || x->window_from))
        return hf_refuse(x, "a window goes with no biases and all blocks (Mistral), with biases of queries, "
                            "keys and values (Qwen2) or with normalised heads (Qwen3)");
    x->model_type = heads ? "qwen3" : qkv ? "qwen2" : x->window ? "mistral" : "llama";
    x->architecture = heads       ? "Qwen3ForCausalLM"
                      : qkv       ? "Qwen2ForCausalLM"
                      : x->window ? "MistralForCausalLM"
                                  : "LlamaForCausalLM";
    return CLT_OK;
}

static clt_status llama_read_model(hf_export *x)
{
    int64_t query_rows, key_rows;
    CLT_TRY(choose_class(x));
    CLT_TRY(hf_find_table(x, "embed_tokens.weight", &x->vocab));
    CLT_TRY(rows_of(x, "self_attn.q_proj", &query_rows));
    CLT_TRY(rows_of(x, "self_attn.k_proj", &key_rows));
    CLT_TRY(rows_of(x, "mlp.gate_proj", &x->inner));
    x->head_dim = query_rows / x->heads;
    x->kv_heads = x->head_dim > 0 ? key_rows / x->head_dim : 0;
    if (x->head_dim < 1 || x->kv_heads < 1)
        CLT_FAIL(CLT_ECHECKPOINT, "exporting '%s': its queries and keys do not have the heads of its config",
                 x->saved->path);
    int64_t positions = clt_config_int(config_of(x), "model.positions");
    x->context = positions ? positions : clt_config_int(config_of(x), "model.context");
    return CLT_OK;
}

/* Adds a layer's weight, and its bias if it has one. */
static clt_status add_layer(hf_export *x, const char *name, int64_t out, int64_t in, bool bias)
{
    char text[128];
    clt_shape weight = in ? clt_shape2(out, in) : clt_shape1(out), row = clt_shape1(out);
    snprintf(text, sizeof text, "%s.weight", name);
    CLT_TRY(hf_add_tensor(x, text, &weight));
    snprintf(text, sizeof text, "%s.bias", name);
    return bias ? hf_add_tensor(x, text, &row) : CLT_OK;
}

static clt_status add_block(hf_export *x, int64_t layer)
{
    const int64_t c = x->channels, q = x->heads * x->head_dim, k = x->kv_heads * x->head_dim;
    bool all = is(x, "model.attention_bias", "all"), qkv = all || is(x, "model.attention_bias", "qkv");
    bool mlp = clt_config_bool(config_of(x), "model.mlp_bias");
    bool heads = clt_config_bool(config_of(x), "model.head_norm");
    const struct {
        const char *name;
        int64_t out, in;
        bool bias, there;
    } parts[] = {{"input_layernorm", c, 0, false, true},
                 {"self_attn.q_proj", q, c, qkv, true},
                 {"self_attn.k_proj", k, c, qkv, true},
                 {"self_attn.v_proj", k, c, qkv, true},
                 {"self_attn.q_norm", x->head_dim, 0, false, heads},
                 {"self_attn.k_norm", x->head_dim, 0, false, heads},
                 {"self_attn.o_proj", c, q, all, true},
                 {"post_attention_layernorm", c, 0, false, true},
                 {"mlp.gate_proj", x->inner, c, mlp, true},
                 {"mlp.up_proj", x->inner, c, mlp, true},
                 {"mlp.down_proj", c, x->inner, mlp, true}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[96];
        snprintf(name, sizeof name, "layers.%lld.%s", (long long)layer, parts[i].name);
        if (parts[i].there)
            CLT_TRY(add_layer(x, name, parts[i].out, parts[i].in, parts[i].bias));
    }
    return CLT_OK;
}

static clt_status llama_gather(hf_export *x)
{
    const clt_shape words = clt_shape2(x->vocab, x->channels);
    CLT_TRY(hf_add_tensor(x, "embed_tokens.weight", &words));
    for (int64_t layer = 0; layer < x->layers; layer++)
        CLT_TRY(add_block(x, layer));
    CLT_TRY(add_layer(x, "norm", x->channels, 0, false));
    return x->tied ? CLT_OK : hf_add_tensor(x, "lm_head.weight", &words);
}

/* Writes rope_scaling: null, or the scaling with its parameters. */
static void write_scaling(const hf_export *x, clt_json_writer *w)
{
    const clt_config *c = config_of(x);
    const char *scaling = clt_config_string(c, "model.rope_scaling");
    bool llama3 = strcmp(scaling, "llama3") == 0, yarn = strcmp(scaling, "yarn") == 0;
    double high = clt_config_float(c, "model.rope_high");
    double attention = clt_config_float(c, "model.rope_attention");
    clt_jw_key(w, "rope_scaling");
    if (strcmp(scaling, "none") == 0) {
        clt_jw_null(w);
        return;
    }
    clt_jw_object(w);
    clt_jw_kstring(w, "rope_type", scaling);
    clt_jw_kdouble(w, "factor", clt_config_float(c, "model.rope_factor"));
    if (llama3 || yarn) {
        clt_jw_kint(w, "original_max_position_embeddings", clt_config_int(c, "model.rope_original"));
        clt_jw_kdouble(w, llama3 ? "low_freq_factor" : "beta_slow", clt_config_float(c, "model.rope_low"));
        clt_jw_kdouble(w, llama3 ? "high_freq_factor" : "beta_fast", high > 0 ? high : llama3 ? 4 : 32);
    }
    if (yarn && attention > 0)
        clt_jw_kdouble(w, "attention_factor", attention);
    clt_jw_end_object(w);
}

static void write_window(const hf_export *x, clt_json_writer *w)
{
    bool qwen = strncmp(x->model_type, "qwen", 4) == 0;
    if (strcmp(x->model_type, "llama") == 0)
        return;
    if (qwen)
        clt_jw_kbool(w, "use_sliding_window", x->window > 0);
    if (qwen && x->window > 0)
        clt_jw_kint(w, "max_window_layers", x->window_from);
    clt_jw_key(w, "sliding_window");
    if (x->window > 0)
        clt_jw_int(w, x->window);
    else
        clt_jw_null(w);
}

static void llama_settings(const hf_export *x, clt_json_writer *w)
{
    const clt_config *c = config_of(x);
    bool dynamic = is(x, "model.rope_scaling", "dynamic");
    clt_jw_karray(w, "architectures");
    clt_jw_string(w, x->architecture);
    clt_jw_end_array(w);
    clt_jw_kstring(w, "model_type", x->model_type);
    clt_jw_kint(w, "vocab_size", x->vocab);
    clt_jw_kint(w, "hidden_size", x->channels);
    clt_jw_kint(w, "intermediate_size", x->inner);
    clt_jw_kint(w, "num_hidden_layers", x->layers);
    clt_jw_kint(w, "num_attention_heads", x->heads);
    clt_jw_kint(w, "num_key_value_heads", x->kv_heads);
    clt_jw_kint(w, "head_dim", x->head_dim);
    clt_jw_kstring(w, "hidden_act", "silu");
    /* dynamic scaling begins beyond this length */
    clt_jw_kint(w, "max_position_embeddings",
                dynamic ? clt_config_int(c, "model.rope_original") : x->context);
    clt_jw_kdouble(w, "initializer_range", clt_config_float(c, "model.init_std"));
    clt_jw_kdouble(w, "rms_norm_eps", clt_config_float(c, "model.norm_eps"));
    clt_jw_kdouble(w, "rope_theta", clt_config_float(c, "model.rope_base"));
    write_scaling(x, w);
    write_window(x, w);
    clt_jw_kbool(w, "attention_bias", !is(x, "model.attention_bias", "none"));
    clt_jw_kdouble(w, "attention_dropout", clt_config_float(c, "model.dropout"));
    clt_jw_kbool(w, "mlp_bias", clt_config_bool(c, "model.mlp_bias"));
}

const hf_family hf_family_llama = {
    .type = "llama", .read_model = llama_read_model, .gather = llama_gather, .settings = llama_settings};
