/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports a gpt as transformers' GPT-2. Checkpoints hold its tensors with GPT-2's names and layouts and
 * without padding. Biases of zeros are added for a model without biases; they change no result. */
#include <stdio.h>
#include <string.h>

#include "engine/json/json.h"
#include "engine/pretrained/hf_export_internal.h"

/* Our "auto" is the tanh approximation, which transformers calls gelu_new; its "gelu" is the exact
 * function. */
static clt_status read_activation(hf_export *x)
{
    static const char *const names[][2] = {{"auto", "gelu_new"},
                                           {"gelu_tanh", "gelu_new"},
                                           {"gelu", "gelu"},
                                           {"relu", "relu"},
                                           {"silu", "silu"}};
    const char *ours = clt_config_string(x->saved->config, "model.activation");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], ours) == 0) {
            x->activation = names[i][1];
            return CLT_OK;
        }
    return hf_refuse(x, "GPT-2's class has no such activation");
}

static clt_status gpt2_read_model(hf_export *x)
{
    const clt_config *c = x->saved->config;
    x->bias = clt_config_bool(c, "model.bias");
    CLT_TRY(hf_find_table(x, "wte.weight", &x->vocab));
    CLT_TRY(hf_find_table(x, "wpe.weight", &x->context));
    return read_activation(x);
}

/* Adds a layer's weight, (in, out) or (out), and its bias. */
static clt_status add_layer(hf_export *x, const char *name, int64_t in, int64_t out)
{
    char text[96];
    clt_shape shape = in ? clt_shape2(in, out) : clt_shape1(out), bias = clt_shape1(out);
    snprintf(text, sizeof text, "%s.weight", name);
    CLT_TRY(hf_add_tensor(x, text, &shape));
    snprintf(text, sizeof text, "%s.bias", name);
    return x->bias ? hf_add_tensor(x, text, &bias) : hf_add_zeros(x, text, out);
}

static clt_status add_block(hf_export *x, int64_t layer)
{
    const int64_t c = x->channels;
    const struct {
        const char *name;
        int64_t in, out;
    } parts[] = {{"ln_1", 0, c}, {"attn.c_attn", c, 3 * c}, {"attn.c_proj", c, c},
                 {"ln_2", 0, c}, {"mlp.c_fc", c, 4 * c},    {"mlp.c_proj", 4 * c, c}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "h.%lld.%s", (long long)layer, parts[i].name);
        CLT_TRY(add_layer(x, name, parts[i].in, parts[i].out));
    }
    return CLT_OK;
}

static clt_status gpt2_gather(hf_export *x)
{
    const clt_shape words = clt_shape2(x->vocab, x->channels), places = clt_shape2(x->context, x->channels);
    CLT_TRY(hf_add_tensor(x, "wte.weight", &words));
    CLT_TRY(hf_add_tensor(x, "wpe.weight", &places));
    for (int64_t layer = 0; layer < x->layers; layer++)
        CLT_TRY(add_block(x, layer));
    CLT_TRY(add_layer(x, "ln_f", 0, x->channels));
    return x->tied ? CLT_OK : hf_add_tensor(x, "lm_head.weight", &words);
}

static void gpt2_settings(const hf_export *x, clt_json_writer *w)
{
    double dropout = clt_config_float(x->saved->config, "model.dropout");
    clt_jw_karray(w, "architectures");
    clt_jw_string(w, "GPT2LMHeadModel");
    clt_jw_end_array(w);
    clt_jw_kstring(w, "model_type", "gpt2");
    clt_jw_kint(w, "vocab_size", x->vocab);
    clt_jw_kint(w, "n_positions", x->context);
    clt_jw_kint(w, "n_embd", x->channels);
    clt_jw_kint(w, "n_layer", x->layers);
    clt_jw_kint(w, "n_head", x->heads);
    clt_jw_kint(w, "n_inner", 4 * x->channels);
    clt_jw_kstring(w, "activation_function", x->activation);
    clt_jw_kdouble(w, "resid_pdrop", dropout);
    clt_jw_kdouble(w, "embd_pdrop", dropout);
    clt_jw_kdouble(w, "attn_pdrop", dropout);
    clt_jw_kdouble(w, "layer_norm_epsilon", 1e-5);
    clt_jw_kdouble(w, "initializer_range", 0.02);
    clt_jw_kbool(w, "scale_attn_weights", true);
    clt_jw_kbool(w, "scale_attn_by_inverse_layer_idx", false);
    clt_jw_kbool(w, "reorder_and_upcast_attn", false);
}

const hf_family hf_family_gpt2 = {
    .type = "gpt", .read_model = gpt2_read_model, .gather = gpt2_gather, .settings = gpt2_settings};
