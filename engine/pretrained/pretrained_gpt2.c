/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the config.json of a GPT-2 into keys of our gpt. */
#include <string.h>

#include "engine/pretrained/pretrained_internal.h"

static void read_activation(clt_pretrained *p)
{
    const clt_json *value = clt_json_get(p->root, "activation_function");
    const char *said = value ? clt_json_string(value) : "gelu_new";
    const char *ours = clt_pretrained_activation(said);
    if (!ours) {
        const char *why = clt_arena_printf(
            p->arena, "'%.40s' is not one of gelu_new, gelu, relu and silu, which cltrain's gpt has", said);
        clt_pretrained_problem(p, "activation_function", why ? why : "");
        return;
    }
    clt_pretrained_add(p, "model.activation", clt_arena_printf(p->arena, "\"%s\"", ours),
                       clt_arena_printf(p->arena, "activation_function is %s", said), CLT_PRESET_EQUAL, NULL);
}

/* Transformers has three dropout rates, our config one. If the three differ, the user has to choose. */
static void read_dropout(clt_pretrained *p)
{
    char number[CLT_NUMBER_TEXT];
    double resid = clt_pretrained_number(p, p->root, "resid_pdrop", 0.1),
           embd = clt_pretrained_number(p, p->root, "embd_pdrop", 0.1),
           attn = clt_pretrained_number(p, p->root, "attn_pdrop", 0.1);
    if (!(resid >= 0 && resid < 1 && embd >= 0 && embd < 1 && attn >= 0 && attn < 1)) {
        clt_pretrained_problem(p, "resid_pdrop, embd_pdrop, attn_pdrop", "must be at least 0 and below 1");
        return;
    }
    const char *reason =
        clt_arena_printf(p->arena, "resid_pdrop is %g, embd_pdrop %g and attn_pdrop %g", resid, embd, attn);
    if (clt_pretrained_equal(resid, embd) && clt_pretrained_equal(resid, attn))
        clt_pretrained_add(p, "model.dropout", clt_arena_strdup(p->arena, clt_double_text(resid, number)),
                           reason, CLT_PRESET_DEFAULT, NULL);
    else
        clt_pretrained_add(p, "model.dropout", NULL,
                           clt_arena_printf(p->arena, "%s, and there is one dropout for all three places",
                                            reason ? reason : ""),
                           CLT_PRESET_MISSING, NULL);
}

/* Refuses settings that change the computation and for which we have no key. */
static void refuse_others(clt_pretrained *p, int64_t channels)
{
    int64_t inner;
    const clt_json *value = clt_json_given(p->root, "n_inner");
    if (value && (!clt_json_int(value, &inner) || inner != 4 * channels))
        clt_pretrained_problem(p, "n_inner", "the inner width of cltrain's gpt is always four times n_embd");
    if (!clt_pretrained_equal(clt_pretrained_number(p, p->root, "layer_norm_epsilon", 1e-5), 1e-5))
        clt_pretrained_problem(p, "layer_norm_epsilon", "it is always 1e-05 in cltrain's gpt");
    if (!clt_pretrained_bool(p, "scale_attn_weights", true))
        clt_pretrained_problem(
            p, "scale_attn_weights",
            "is false: cltrain's gpt always divides scores by the root of the head's width");
    if (clt_pretrained_bool(p, "scale_attn_by_inverse_layer_idx", false))
        clt_pretrained_problem(p, "scale_attn_by_inverse_layer_idx",
                               "is true: cltrain's gpt does not divide scores by the number of the layer");
    if (clt_pretrained_bool(p, "add_cross_attention", false))
        clt_pretrained_problem(p, "add_cross_attention",
                               "is true: cltrain's gpt has no attention to another text");
    if (clt_json_count(clt_json_get(p->root, "pruned_heads")) > 0)
        clt_pretrained_problem(p, "pruned_heads", "cltrain's gpt has all heads in every layer");
}

void clt_pretrained_read_gpt2(clt_pretrained *p, const clt_pretrained_class *c)
{
    static const char *const layers[] = {"n_layer", "num_hidden_layers", NULL},
                             *const heads[] = {"n_head", "num_attention_heads", NULL},
                             *const channels[] = {"n_embd", "hidden_size", NULL},
                             *const context[] = {"n_positions", "max_position_embeddings", "n_ctx", NULL},
                             *const vocab[] = {"vocab_size", NULL};
    (void)c;
    if (clt_pretrained_add_count(p, "model.layers", layers, 12, CLT_PRESET_EQUAL) > p->tensors)
        clt_pretrained_problem(p, "n_layer", "is more than the weights have tensors");
    int64_t n_heads = clt_pretrained_add_count(p, "model.heads", heads, 12, CLT_PRESET_EQUAL);
    int64_t width = clt_pretrained_add_count(p, "model.channels", channels, 768, CLT_PRESET_EQUAL);
    clt_pretrained_add_count(p, "model.context", context, 1024, CLT_PRESET_AT_MOST);
    clt_pretrained_add_count(p, "model.vocab", vocab, 50257, CLT_PRESET_EQUAL);
    clt_pretrained_add(p, "model.bias", "true", "GPT-2 has biases", CLT_PRESET_EQUAL, NULL);
    if (width % n_heads != 0)
        clt_pretrained_problem(p, "n_embd", "is not a multiple of n_head");
    clt_pretrained_tied(p, true);
    read_activation(p);
    read_dropout(p);
    refuse_others(p, width);
}
