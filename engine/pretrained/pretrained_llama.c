/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the config.json of a Llama, Mistral, Qwen2 or Qwen3 into keys of our llama. Both spellings are read:
 * rope_theta and rope_scaling, as transformers 4 writes, and rope_parameters, as transformers 5 writes. */
#include <math.h>
#include <string.h>

#include "engine/pretrained/pretrained_internal.h"

/* limit for the proposed context: attention's memory and time grow with the sequence */
#define LONGEST_CONTEXT 2048

/* --- rotary positions --- */

/* The name of the scaling in rope_scaling or rope_parameters. Older files call the setting `type`, newer ones
 * rope_type, and some have both. */
static const char *rope_type(clt_pretrained *p, const clt_json *rope)
{
    const char *newer = clt_json_string_or(clt_json_get(rope, "rope_type"), NULL);
    const char *older = clt_json_string_or(clt_json_get(rope, "type"), NULL);
    if (newer && older && strcmp(newer, older) != 0)
        clt_pretrained_problem(p, "rope_scaling", "its type and rope_type contradict each other");
    return newer ? newer : older ? older : "default";
}

/* The number in `name` of rope_parameters, or of the file itself if only that has one. */
static double rope_number(clt_pretrained *p, const clt_json *rope, const char *name, double preset)
{
    double outside = clt_pretrained_number(p, p->root, name, preset);
    if (!clt_json_given(rope, name))
        return outside;
    double inside = clt_pretrained_number(p, rope, name, preset);
    if (clt_json_given(p->root, name) && !clt_pretrained_equal(inside, outside))
        clt_pretrained_problem(p, name, "has two values, one in rope_parameters or rope_scaling");
    return inside;
}

/* A positive number of rope_parameters; `preset` if it is missing. */
static double scaling_number(clt_pretrained *p, const clt_json *rope, const char *name, double preset)
{
    double value = clt_pretrained_number(p, rope, name, preset);
    return value > 0 || preset <= 0 ? value : preset;
}

static void read_frequencies(clt_pretrained *p, const clt_json *rope, const char *type, double longest)
{
    double original = clt_pretrained_number(p, rope, "original_max_position_embeddings", longest);
    bool llama3 = strcmp(type, "llama3") == 0, dynamic = strcmp(type, "dynamic") == 0;
    if (dynamic)
        original = longest;
    if (!(original >= 1 && original <= INT32_MAX) || original > floor(original))
        clt_pretrained_problem(p, "original_max_position_embeddings", "is not a whole number of at least 1");
    clt_pretrained_add_number(p, "model.rope_original", original,
                              dynamic ? "max_position_embeddings" : "original_max_position_embeddings",
                              CLT_PRESET_EQUAL);
    if (dynamic)
        return;
    double low = scaling_number(p, rope, llama3 ? "low_freq_factor" : "beta_slow", 1);
    double high = scaling_number(p, rope, llama3 ? "high_freq_factor" : "beta_fast", llama3 ? 4 : 32);
    if (!(low > 0 && low < high))
        clt_pretrained_problem(p, llama3 ? "low_freq_factor, high_freq_factor" : "beta_slow, beta_fast",
                               "the first must be above 0 and below the second");
    clt_pretrained_add_number(p, "model.rope_low", low, llama3 ? "low_freq_factor" : "beta_slow",
                              CLT_PRESET_EQUAL);
    clt_pretrained_add_number(p, "model.rope_high", high, llama3 ? "high_freq_factor" : "beta_fast",
                              CLT_PRESET_EQUAL);
}

/* The factor by which yarn multiplies queries and keys. */
static void read_yarn_factor(clt_pretrained *p, const clt_json *rope, double factor)
{
    double above = clt_pretrained_number(p, rope, "mscale", 0);
    double below = clt_pretrained_number(p, rope, "mscale_all_dim", 0);
    double ratio =
        above > 0 && below > 0 ? (0.1 * above * log(factor) + 1) / (0.1 * below * log(factor) + 1) : 0;
    double attention = clt_pretrained_number(p, rope, "attention_factor", ratio);
    const clt_json *truncate = clt_json_given(rope, "truncate");
    if (truncate && !clt_json_bool(truncate))
        clt_pretrained_problem(p, "truncate", "cltrain's yarn rounds its bounds to whole pairs");
    if (attention > 0)
        clt_pretrained_add_number(p, "model.rope_attention", attention, "the attention_factor of yarn",
                                  CLT_PRESET_EQUAL);
}

/* Reads how rotary positions are scaled. longest: max_position_embeddings. */
static void read_scaling(clt_pretrained *p, const clt_json *rope, double longest)
{
    static const char *const known[][2] = {{"default", "none"},
                                           {"linear", "linear"},
                                           {"dynamic", "dynamic"},
                                           {"llama3", "llama3"},
                                           {"yarn", "yarn"}};
    const char *type = rope_type(p, rope), *ours = NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i][0], type) == 0)
            ours = known[i][1];
    if (!ours) {
        const char *why = clt_arena_printf(
            p->arena, "'%.40s' is not one of default, linear, dynamic, llama3 and yarn", type);
        clt_pretrained_problem(p, "rope_type", why ? why : "");
        return;
    }
    double original = clt_pretrained_number(p, rope, "original_max_position_embeddings", longest);
    bool yarn = strcmp(ours, "yarn") == 0;
    double factor = clt_pretrained_number(p, rope, "factor", yarn && original > 0 ? longest / original : 0);
    clt_pretrained_add(p, "model.rope_scaling", clt_arena_printf(p->arena, "\"%s\"", ours),
                       clt_arena_printf(p->arena, "rope_type is %s", type), CLT_PRESET_EQUAL, NULL);
    if (strcmp(ours, "none") == 0)
        return;
    if (!(factor >= 1 && factor <= 1e6))
        clt_pretrained_problem(p, "factor", "rope_scaling needs a factor of at least 1");
    clt_pretrained_add_number(p, "model.rope_factor", factor, "the factor of rope_scaling", CLT_PRESET_EQUAL);
    if (strcmp(ours, "linear") != 0)
        read_frequencies(p, rope, type, longest);
    if (yarn)
        read_yarn_factor(p, rope, factor);
}

static void read_rope(clt_pretrained *p, double longest)
{
    const clt_json *parameters = clt_json_given(p->root, "rope_parameters");
    const clt_json *scaling = clt_json_given(p->root, "rope_scaling");
    const clt_json *rope = parameters ? parameters : scaling;
    if (rope && clt_json_typeof(rope) != CLT_JSON_OBJECT) {
        clt_pretrained_problem(p, parameters ? "rope_parameters" : "rope_scaling", "is not an object");
        return;
    }
    for (const clt_json *value = clt_json_first(rope); value; value = clt_json_next(value))
        if (clt_json_typeof(value) == CLT_JSON_OBJECT)
            clt_pretrained_problem(p, "rope_parameters", "differ from layer to layer");
    if (parameters && scaling && strcmp(rope_type(p, parameters), rope_type(p, scaling)) != 0)
        clt_pretrained_problem(p, "rope_scaling", "contradicts rope_parameters");
    double base = rope_number(p, rope, "rope_theta", 10000);
    if (!(base > 1 && base <= 1e12))
        clt_pretrained_problem(p, "rope_theta", "is not above 1");
    clt_pretrained_add_number(p, "model.rope_base", base, "rope_theta", CLT_PRESET_EQUAL);
    if (!clt_pretrained_equal(rope_number(p, rope, "partial_rotary_factor", 1), 1))
        clt_pretrained_problem(p, "partial_rotary_factor",
                               "cltrain's llama turns all elements of a head, which is 1");
    read_scaling(p, rope, longest);
}

/* --- the window of attention --- */

/* Reads which layers have the window: *from becomes the first one; all layers after it must have it, too. A
 * list layer_types has precedence over the older setting max_window_layers. */
static void read_windowed_layers(clt_pretrained *p, int64_t layers, int64_t *from)
{
    const clt_json *types = clt_json_given(p->root, "layer_types");
    double number = clt_pretrained_number(p, p->root, "max_window_layers", 28);
    *from = number >= 0 && number <= INT32_MAX ? (int64_t)number : 0;
    if (!types)
        return;
    int64_t layer = 0;
    *from = layers;
    for (const clt_json *type = clt_json_first(types); type; type = clt_json_next(type), layer++) {
        const char *name = clt_json_string(type);
        bool window = strcmp(name, "sliding_attention") == 0;
        if (window && *from == layers)
            *from = layer;
        if ((!window && strcmp(name, "full_attention") != 0) || (!window && *from < layer)) {
            clt_pretrained_problem(p, "layer_types",
                                   "cltrain's llama has full attention first and a window after it");
            return;
        }
    }
    if (layer != layers)
        clt_pretrained_problem(p, "layer_types", "is not a list of one type for each layer");
}

static void read_window(clt_pretrained *p, const clt_pretrained_class *c, int64_t layers)
{
    static const char *const names[] = {"sliding_window", NULL};
    bool none = clt_json_typeof(clt_json_get(p->root, names[0])) == CLT_JSON_NULL;
    const char *reason;
    int64_t from = 0;
    if (c->window == 0 || none ||
        (c->window_is_optional && !clt_pretrained_bool(p, "use_sliding_window", false))) {
        clt_pretrained_add(p, "model.window", "0", "the model has no sliding_window", CLT_PRESET_EQUAL, NULL);
        return;
    }
    int64_t window = clt_pretrained_count(p, names, c->window, &reason);
    if (c->window_is_optional || clt_json_given(p->root, "layer_types"))
        read_windowed_layers(p, layers, &from);
    clt_pretrained_add(p, "model.window",
                       clt_arena_printf(p->arena, "%lld", (long long)(from < layers ? window : 0)), reason,
                       CLT_PRESET_EQUAL, NULL);
    clt_pretrained_add(p, "model.window_from",
                       clt_arena_printf(p->arena, "%lld", (long long)(from < layers ? from : 0)),
                       "max_window_layers or layer_types says so", CLT_PRESET_EQUAL, NULL);
}

/* --- the model --- */

static void read_biases(clt_pretrained *p, const clt_pretrained_class *c)
{
    const char *bias = c->bias;
    if (!bias)
        bias = clt_pretrained_bool(p, "attention_bias", false) ? "all" : "none";
    clt_pretrained_add(p, "model.attention_bias", clt_arena_printf(p->arena, "\"%s\"", bias),
                       clt_arena_printf(p->arena, "the biases of a %s's attention", c->model_type),
                       CLT_PRESET_EQUAL, NULL);
    bool mlp = clt_pretrained_bool(p, "mlp_bias", false);
    clt_pretrained_add(p, "model.mlp_bias", mlp ? "true" : "false", mlp ? "mlp_bias is true" : "no mlp_bias",
                       CLT_PRESET_EQUAL, NULL);
    clt_pretrained_add(p, "model.head_norm", c->head_norm ? "true" : "false",
                       clt_arena_printf(p->arena, "model_type is %s", c->model_type), CLT_PRESET_EQUAL, NULL);
}

static void read_heads(clt_pretrained *p, const clt_pretrained_class *c, int64_t width)
{
    static const char *const heads[] = {"num_attention_heads", NULL},
                             *const kv_heads[] = {"num_key_value_heads", NULL},
                             *const head_dim[] = {"head_dim", NULL};
    const char *reason;
    int64_t n = clt_pretrained_add_count(p, "model.heads", heads, 0, CLT_PRESET_EQUAL);
    int64_t kv = clt_pretrained_add_count(p, "model.kv_heads", kv_heads,
                                          c->kv_heads && c->kv_heads < n ? c->kv_heads
                                          : n                            ? n
                                                                         : 1,
                                          CLT_PRESET_EQUAL);
    if (n < 1)
        return;
    int64_t preset = c->head_dim ? c->head_dim : width / n,
            dim = clt_pretrained_count(p, head_dim, preset, &reason);
    clt_pretrained_add(p, "model.head_dim", clt_arena_printf(p->arena, "%lld", (long long)dim), reason,
                       CLT_PRESET_EQUAL, NULL);
    if (n % kv != 0)
        clt_pretrained_problem(p, "num_key_value_heads", "does not divide num_attention_heads");
    if (dim % 2 != 0)
        clt_pretrained_problem(p, "head_dim", "is odd, but the elements of a head turn in pairs");
}

static void read_activation(clt_pretrained *p)
{
    const char *name = clt_json_string_or(clt_json_get(p->root, "hidden_act"), "silu");
    if (strcmp(name, "silu") != 0 && strcmp(name, "swish") != 0)
        clt_pretrained_problem(p, "hidden_act", "is not silu, which cltrain's llama has");
}

/* Reads max_position_embeddings, which limits the context unless rotary positions are scaled by the
 * length. */
static int64_t read_positions(clt_pretrained *p)
{
    static const char *const names[] = {"max_position_embeddings", NULL};
    const char *reason;
    int64_t positions = clt_pretrained_count(p, names, 2048, &reason);
    int64_t context = positions < LONGEST_CONTEXT ? positions : LONGEST_CONTEXT;
    clt_pretrained_add(p, "model.positions", clt_arena_printf(p->arena, "%lld", (long long)positions), reason,
                       CLT_PRESET_DEFAULT, NULL);
    clt_pretrained_add(p, "model.context", clt_arena_printf(p->arena, "%lld", (long long)context), reason,
                       CLT_PRESET_DEFAULT, NULL);
    return positions;
}

void clt_pretrained_read_llama(clt_pretrained *p, const clt_pretrained_class *c)
{
    static const char *const layers[] = {"num_hidden_layers", NULL}, *const width[] = {"hidden_size", NULL},
                             *const inner[] = {"intermediate_size", NULL},
                             *const vocab[] = {"vocab_size", NULL};
    int64_t n_layers = clt_pretrained_add_count(p, "model.layers", layers, 0, CLT_PRESET_EQUAL);
    if (n_layers > p->tensors)
        clt_pretrained_problem(p, "num_hidden_layers", "is more than the weights have tensors");
    read_heads(p, c, clt_pretrained_add_count(p, "model.channels", width, 0, CLT_PRESET_EQUAL));
    clt_pretrained_add_count(p, "model.inner", inner, 0, CLT_PRESET_EQUAL);
    clt_pretrained_add_count(p, "model.vocab", vocab, 0, CLT_PRESET_EQUAL);
    int64_t positions = read_positions(p);
    clt_pretrained_add_number(p, "model.norm_eps", clt_pretrained_number(p, p->root, "rms_norm_eps", 1e-6),
                              "rms_norm_eps", CLT_PRESET_EQUAL);
    clt_pretrained_add_number(p, "model.init_std",
                              clt_pretrained_number(p, p->root, "initializer_range", 0.02),
                              "initializer_range", CLT_PRESET_DEFAULT);
    clt_pretrained_add_number(p, "model.dropout", clt_pretrained_number(p, p->root, "attention_dropout", 0),
                              "attention_dropout", CLT_PRESET_DEFAULT);
    clt_pretrained_tied(p, false);
    read_biases(p, c);
    read_activation(p);
    read_window(p, c, n_layers);
    read_rope(p, (double)positions);
}
