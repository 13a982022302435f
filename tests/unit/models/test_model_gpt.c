/* SPDX-License-Identifier: Apache-2.0
 *
 * The gpt family: sizes, names, file layout, initial values (a llama's, too) and decay groups of the
 * published model, the padded vocabulary, what config rules and the family refuse, and attention's own
 * shape rules. Needs no device. ctest-labels: quick */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/config/config.h"
#include "engine/models/models.h"
#include "engine/ops/node.h"
#include "engine/ops/op.h"
#include "engine/state/store.h"

static clt_status build(const char *json, clt_dtype dtype, int64_t length, int64_t most, clt_graph **graph)
{
    clt_model_inputs inputs = {
        .n_fields = 2,
        .field = {{"x", dtype, {1, {length}}, most}, {"y", CLT_I32, {1, {length}}, most}},
        .scale = 1,
        .std = 1,
    };
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    assert_ok(clt_json_parse(json, strlen(json), "net.json", CLT_ECONFIG, &doc));
    assert_ok(clt_graph_create(2, graph));
    clt_status status = clt_model_build(clt_json_root(doc), doc, &inputs, *graph);
    return status;
}

static clt_graph *good(const char *json, clt_dtype dtype, int64_t length, int64_t most)
{
    clt_graph *graph = NULL;
    if (build(json, dtype, length, most, &graph) != CLT_OK)
        fail_msg("%s\n%s", json, clt_error_text());
    return graph;
}

static const clt_param *param(const clt_graph *graph, const char *name)
{
    const clt_param *p = clt_graph_find_param(graph, name);
    if (!p)
        fail_msg("there is no parameter '%s'", name);
    return p;
}

static void expect_shape(const clt_shape *shape, const char *expected)
{
    char text[CLT_SHAPE_TEXT];
    assert_string_equal(clt_shape_text(shape, text, sizeof text), expected);
}

/* 124,439,808 parameters in 148 tensors, without the padding. */
TEST(published_sizes)
{
    CLT_SCOPED(clt_graph) *g =
        good("{\"type\":\"gpt\",\"layers\":12,\"heads\":12,\"channels\":768,\"context\":1024,"
             "\"vocab\":50257,\"vocab_pad\":128}",
             CLT_U16, 64, -1);
    assert_int_equal(g->n_params, 148);
    assert_int_equal(clt_graph_param_elements(g), 124439808 + (50304 - 50257) * 768);
    expect_shape(&param(g, "wte.weight")->shape, "(50304,768)");
    assert_int_equal(param(g, "wte.weight")->file_rows, 50257);
    assert_int_equal(param(g, "wte.weight")->file_transposed, 0);
    expect_shape(&param(g, "wpe.weight")->shape, "(1024,768)");
    assert_int_equal(param(g, "wpe.weight")->file_rows, 0);
    expect_shape(&param(g, "h.11.attn.c_attn.weight")->shape, "(2304,768)");
    assert_int_equal(param(g, "h.11.attn.c_attn.weight")->file_transposed, 1);
    assert_int_equal(param(g, "h.3.mlp.c_proj.weight")->file_transposed, 1);
    expect_shape(&param(g, "h.0.mlp.c_fc.bias")->shape, "(3072)");
    expect_shape(&param(g, "ln_f.bias")->shape, "(768)");
    for (size_t i = 0; i < g->n_params; i++) {
        const clt_param *p = &g->params[i];
        assert_string_equal(p->name, p->file_name);
        assert_int_equal(p->group, p->shape.ndim == 2 ? CLT_GROUP_DECAY : CLT_GROUP_NO_DECAY);
    }
    assert_int_equal(g->fields[0].bound, 50257);
    assert_int_equal(g->fields[1].bound, 50257);
    assert_true(g->losses[0].has_ignore);
    assert_int_equal(g->losses[0].ignore_index, -1);
    assert_int_equal(g->losses[0].targets_per_sample, 64);
    clt_model_info info;
    assert_ok(clt_model_describe(g, &info));
    assert_int_equal(info.outputs, 50304);
    assert_int_equal(info.classes, 50257);
    assert_int_equal(info.rows_per_sample, 64);
}

static double deviation(const clt_graph *g, const char *name, int64_t *zeros)
{
    const clt_param *p = param(g, name);
    int64_t n = clt_shape_elements(&p->shape);
    CLT_FREED float *values = malloc((size_t)n * sizeof *values);
    double squares = 0;
    assert_non_null(values);
    assert_ok(clt_init_values(p, 7, values));
    *zeros = 0;
    for (int64_t i = 0; i < n; i++) {
        squares += (double)values[i] * (double)values[i];
        *zeros += values[i] == 0.0f;
    }
    for (int64_t i = p->file_rows ? p->file_rows * (n / p->shape.dim[0]) : n; i < n; i++)
        assert_true(values[i] == 0.0f);
    return sqrt(squares / (double)(n - *zeros > 0 ? n - *zeros : 1));
}

/* N(0, 0.02); 0.02 / sqrt(2 layers) where a branch joins the residual stream; biases 0; padding 0. */
TEST(initial_values)
{
    int64_t zeros;
    clt_graph *g =
        good("{\"type\":\"gpt\",\"layers\":8,\"heads\":2,\"channels\":64,\"vocab\":100}", CLT_I32, 32, -1);
    assert_true(fabs(deviation(g, "wpe.weight", &zeros) / 0.02 - 1) < 0.1);
    assert_true(fabs(deviation(g, "h.0.attn.c_attn.weight", &zeros) / 0.02 - 1) < 0.05);
    assert_true(fabs(deviation(g, "h.7.mlp.c_fc.weight", &zeros) / 0.02 - 1) < 0.05);
    assert_true(fabs(deviation(g, "h.0.attn.c_proj.weight", &zeros) / 0.005 - 1) < 0.05);
    assert_true(fabs(deviation(g, "h.7.mlp.c_proj.weight", &zeros) / 0.005 - 1) < 0.05);
    assert_true(fabs(deviation(g, "wte.weight", &zeros) / 0.02 - 1) < 0.05);
    assert_in_range(zeros, 28 * 64, 28 * 64 + 10);
    assert_true(deviation(g, "h.2.mlp.c_proj.bias", &zeros) == 0.0);
    assert_true(fabs(deviation(g, "h.2.ln_1.weight", &zeros) - 1) < 1e-6);
    clt_graph_destroy(g);
}

/* A llama's weights are all N(0, model.init_std); with model.depth_init the last layers of branches start
 * smaller by sqrt(2 layers). */
TEST(initial_values_of_a_llama)
{
    static const char *const names[] = {"embed_tokens.weight",
                                        "layers.0.self_attn.q_proj.weight",
                                        "layers.7.self_attn.v_proj.weight",
                                        "layers.7.mlp.up_proj.weight",
                                        "lm_head.weight",
                                        "layers.0.self_attn.o_proj.weight",
                                        "layers.7.mlp.down_proj.weight"};
    for (int depth = 0; depth < 2; depth++) {
        char json[256];
        int64_t zeros;
        snprintf(json, sizeof json,
                 "{\"type\":\"llama\",\"layers\":8,\"heads\":2,\"channels\":64,\"vocab\":100,"
                 "\"init_std\":0.03,\"tied\":false,\"depth_init\":%s}",
                 depth ? "true" : "false");
        CLT_SCOPED(clt_graph) *g = good(json, CLT_I32, 32, -1);
        for (int i = 0; i < 7; i++) {
            double expected = depth && i > 4 ? 0.03 / 4 : 0.03, got = deviation(g, names[i], &zeros);
            if (!(fabs(got / expected - 1) < 0.05))
                fail_msg("%s, %s: the deviation is %g, not %g", json, names[i], got, expected);
        }
        assert_true(fabs(deviation(g, "norm.weight", &zeros) - 1) < 1e-6);
    }
}

TEST(variations)
{
    clt_graph *g =
        good("{\"type\":\"gpt\",\"layers\":1,\"heads\":3,\"channels\":12,\"bias\":false,\"tied\":false,"
             "\"activation\":\"gelu\",\"vocab_pad\":1}",
             CLT_U8, 5, 90);
    assert_int_equal(g->n_params, 2 + 6 + 2);
    expect_shape(&param(g, "wte.weight")->shape, "(256,12)"); /* bytes */
    expect_shape(&param(g, "lm_head.weight")->shape, "(256,12)");
    expect_shape(&param(g, "wpe.weight")->shape, "(5,12)"); /* positions as in the data */
    assert_int_equal(param(g, "wte.weight")->file_rows, 0);
    assert_int_equal(clt_node_attr(clt_graph_find(g, "h.0.mlp.act"), "approximate")->choice, 0);
    assert_null(clt_graph_find(g, "drop"));
    clt_graph_destroy(g);
    g = good("{\"type\":\"gpt\",\"layers\":1,\"heads\":1,\"channels\":4,\"dropout\":0.1}", CLT_U16, 5, 90);
    expect_shape(&param(g, "wte.weight")->shape, "(128,4)");
    assert_int_equal(param(g, "wte.weight")->file_rows, 91); /* the data's largest token plus one */
    assert_null(clt_graph_find_param(g, "lm_head.weight"));
    assert_int_equal(clt_node_attr(clt_graph_find(g, "h.0.mlp.act"), "approximate")->choice, 1);
    assert_true(clt_node_attr(clt_graph_find(g, "drop"), "p")->f == 0.1);
    assert_true(clt_node_attr(clt_graph_find(g, "h.0.attn"), "dropout")->f == 0.1);
    assert_non_null(clt_graph_find(g, "h.0.attn.drop"));
    assert_non_null(clt_graph_find(g, "h.0.mlp.drop"));
    clt_graph_destroy(g);
}

static void refused(const char *json, clt_dtype dtype, const char *words)
{
    CLT_SCOPED(clt_graph) *graph = NULL;
    clt_status status = build(json, dtype, 8, -1, &graph);
    if (status != CLT_ECONFIG && status != CLT_ESHAPE)
        fail_msg("%s: %s", json, clt_status_name(status));
    if (!strstr(clt_error_text(), words))
        fail_msg("'%s' is not in: %s", words, clt_error_text());
}

TEST(bad_models)
{
    refused("{\"type\":\"gpt\",\"heads\":1,\"channels\":4}", CLT_U8, "model.layers: required");
    refused("{\"type\":\"gpt\",\"layers\":0,\"heads\":1,\"channels\":4}", CLT_U8, "net.json:1:");
    refused("{\"type\":\"gpt\",\"layers\":1,\"heads\":3,\"channels\":4}", CLT_U8, "multiple of model.heads");
    refused("{\"type\":\"gpt\",\"layers\":1,\"heads\":1,\"channels\":4}", CLT_U16,
            "model.vocab: the number of tokens");
    refused("{\"type\":\"gpt\",\"layers\":1,\"heads\":1,\"channels\":4,\"context\":7}", CLT_U8,
            "model.context: the sequences of the data are longer");
    refused("{\"type\":\"gpt\",\"layers\":1,\"heads\":1,\"channels\":4}", CLT_F32, "a gpt needs sequences");
    refused("{\"type\":\"gpt\",\"layers\":1,\"heads\":1,\"channels\":4,\"activation\":\"tanh\"}", CLT_U8,
            "model.activation: must be one of");
}

static void bad_config(const char *model, const char *data, const char *words)
{
    char text[512];
    clt_config *config = NULL;
    snprintf(text, sizeof text, "{\"model\":%s,\"data\":%s}", model, data);
    assert_int_equal(clt_config_parse(text, "c.json", NULL, 0, &config), CLT_ECONFIG);
    if (!strstr(clt_error_text(), words))
        fail_msg("'%s' is not in: %s", words, clt_error_text());
}

TEST(config_rules)
{
    const char *text = "{\"type\":\"text\",\"path\":\"a.txt\"}";
    bad_config("{\"type\":\"gpt\",\"layers\":2,\"heads\":2,\"channels\":8}", text, "model.context: required");
    bad_config("{\"type\":\"gpt\",\"heads\":2,\"channels\":8,\"context\":4}", text, "model.layers: required");
    bad_config("{\"type\":\"gpt\",\"layers\":2,\"channels\":8,\"context\":4}", text, "model.heads: required");
    bad_config("{\"type\":\"gpt\",\"layers\":2,\"heads\":3,\"channels\":8,\"context\":4}", text,
               "model.channels: must be a multiple");
    bad_config("{\"type\":\"gpt\",\"layers\":2,\"heads\":2,\"channels\":8,\"context\":4,\"loss\":\"mse\"}",
               text, "model.loss: only for model.type mlp");
    bad_config(
        "{\"type\":\"gpt\",\"layers\":2,\"heads\":2,\"channels\":8,\"context\":4,\"activation\":\"tanh\"}",
        text,
        "model.activation: 'tanh' is not possible with model.type gpt; valid: relu|gelu|gelu_tanh|silu");
    bad_config("{\"type\":\"mlp\",\"heads\":2}", text, "model.heads: only for model.type gpt");
    bad_config("{\"type\":\"mlp\",\"layers\":2}", text,
               "model.layers: only for model.type graph, gpt, llama or bert");
}

/* Shapes of {q, k, v} or {qkv}, and the words of the refusal ("" if the shapes are fine). */
typedef struct attention_shape {
    int n;
    clt_shape in[3];
    const char *attrs, *words;
} attention_shape;

TEST(attention_shapes)
{
    static const attention_shape shapes[] = {
        {1, {{3, {2, 5, 18}}}, "{\"heads\":3}", ""},
        {1, {{3, {2, 5, 20}}}, "{\"heads\":4,\"kv_heads\":2,\"causal\":false}", "a multiple of the 8 heads"},
        {1, {{3, {2, 5, 16}}}, "{\"heads\":4,\"kv_heads\":2}", ""},
        {1,
         {{3, {2, 5, 16}}},
         "{\"heads\":4,\"kv_heads\":3}",
         "heads (4) must be a multiple of kv_heads (3)"},
        {1, {{2, {2, 18}}}, "{\"heads\":3}", "must be (N, T, width)"},
        {3, {{3, {2, 5, 6}}, {3, {2, 9, 6}}, {3, {2, 9, 6}}}, "{\"heads\":3}", ""},
        {3,
         {{3, {2, 5, 6}}, {3, {2, 9, 6}}, {3, {2, 8, 6}}},
         "{\"heads\":3}",
         "keys and values must both be"},
        {3,
         {{3, {2, 5, 6}}, {3, {2, 9, 3}}, {3, {2, 9, 3}}},
         "{\"heads\":3}",
         "keys and values must both be"},
        {3,
         {{3, {2, 9, 6}}, {3, {2, 5, 6}}, {3, {2, 5, 6}}},
         "{\"heads\":3}",
         "the first queries would see no key"},
        {3, {{3, {2, 9, 6}}, {3, {2, 5, 6}}, {3, {2, 5, 6}}}, "{\"heads\":3,\"causal\":false}", ""},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const attention_shape *s = &shapes[i];
        CLT_SCOPED(clt_graph) *graph = NULL;
        clt_node *node;
        int32_t in[3];
        assert_ok(clt_graph_create(2, &graph));
        for (int k = 0; k < s->n; k++) {
            const char *const names[] = {"q", "k", "v"};
            clt_shape shape = clt_shape_make(s->in[k].ndim - 1, s->in[k].dim + 1);
            assert_ok(clt_graph_field(graph, names[k], CLT_F32, &shape, &in[k]));
        }
        clt_status status = clt_graph_add_text(graph, "attention", "att", s->attrs, in, s->n, &node);
        assert_int_equal(status, *s->words ? CLT_ESHAPE : CLT_OK);
        if (*s->words && !strstr(clt_error_text(), s->words))
            fail_msg("case %zu: '%s' is not in: %s", i, s->words, clt_error_text());
    }
}
