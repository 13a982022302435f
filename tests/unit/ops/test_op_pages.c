/* SPDX-License-Identifier: Apache-2.0
 *
 * The pages about ops: every op is documented, every example is a valid list that can be planned for
 * training, names of learned parameters are those of the graph, and docs/ops.md is what the program writes.
 */
#include "tests/unit/test.h"

#include "engine/files/fileio.h"
#include "engine/models/models.h"
#include "engine/ops/op_page.h"
#include "engine/plan/plan.h"

static const clt_model_inputs fields_of[] = {
    [CLT_DOC_IMAGES] = {.n_fields = 2,
                        .field = {{"x", CLT_U8, {2, {28, 28}}, -1}, {"y", CLT_U8, {0, {0}}, 9}},
                        .scale = 1,
                        .std = 1},
    [CLT_DOC_TEXT] = {.n_fields = 2,
                      .field = {{"x", CLT_I32, {1, {64}}, 255}, {"y", CLT_I32, {1, {64}}, 255}},
                      .scale = 1,
                      .std = 1},
    [CLT_DOC_WORDS] = {.n_fields = 2,
                       .field = {{"x", CLT_I32, {1, {64}}, 255}, {"y", CLT_I32, {0, {0}}, 9}},
                       .scale = 1,
                       .std = 1},
    [CLT_DOC_NUMBERS] = {.n_fields = 2,
                         .field = {{"x", CLT_F32, {1, {8}}, -1}, {"y", CLT_F32, {1, {1}}, -1}},
                         .scale = 1,
                         .std = 1},
    [CLT_DOC_MASKS] = {.n_fields = 2,
                       .field = {{"x", CLT_F32, {3, {1, 8, 8}}, -1}, {"y", CLT_U8, {2, {8, 8}}, 2}},
                       .scale = 1,
                       .std = 1},
    [CLT_DOC_DECODE] = {.n_fields = 3,
                        .field = {{"x", CLT_I32, {1, {1}}, 255},
                                  {"position", CLT_I32, {1, {1}}, 63},
                                  {"y", CLT_I32, {0, {0}}, 9}},
                        .scale = 1,
                        .std = 1},
};

static void check_params(const clt_op *op, const clt_graph *graph)
{
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (int k = 0; graph->nodes[i]->op == op && k < graph->nodes[i]->n_param; k++) {
            const char *name = strrchr(graph->params[graph->nodes[i]->param[k]].name, '.') + 1;
            if (!op->doc->params || !strstr(op->doc->params, name))
                fail_msg("%s: the page does not name its parameter %s", op->name, name);
        }
}

static void check_plan(const clt_op *op, clt_graph *graph)
{
    ocl_device_desc desc;
    clt_plan *plan = NULL;
    ocl_desc_generic(&desc);
    clt_plan_options options = {
        .mode = CLT_PLAN_TRAIN, .accumulation = 1, .ranks = 1, .update = {.optimizer = &clt_optimizer_sgd}};
    options.update.schedule_entries = 1;
    if (clt_plan_compute(graph, &desc, &options, &plan) != CLT_OK)
        fail_msg("%s: its example cannot be trained: %s", op->name, clt_error_text());
    clt_plan_destroy(plan);
}

static void check_example(const clt_op *op)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    clt_graph *graph = NULL;
    bool found = false;
    clt_str_append(&text, "{\"type\": \"graph\", \"layers\": ");
    assert_ok(clt_op_example_list(op, &text));
    clt_str_append(&text, "}");
    assert_non_null(strstr(text.text, op->doc->example));
    if (clt_json_parse(text.text, text.length, op->name, CLT_ECONFIG, &doc) != CLT_OK)
        fail_msg("%s: %s", op->name, clt_error_text());
    assert_ok(clt_graph_create(4, &graph));
    if (clt_model_build(clt_json_root(doc), doc, &fields_of[op->doc->data], graph) != CLT_OK)
        fail_msg("%s: the example is not valid: %s\n%s", op->name, clt_error_text(), text.text);
    for (size_t i = 0; i < graph->n_nodes; i++)
        found = found || graph->nodes[i]->op == op;
    assert_true(found);
    check_params(op, graph);
    if (op->doc->data == CLT_DOC_DECODE)
        clt_graph_destroy(graph);
    else
        check_plan(op, graph); /* owns the graph now */
}

TEST(test_every_op)
{
    int count;
    const clt_op *const *ops = clt_op_list(&count);
    for (int i = 0; i < count; i++) {
        const clt_op *op = ops[i];
        char text[CLT_ATTR_TEXT];
        if (!op->doc || !op->doc->text || !op->doc->inputs)
            fail_msg("%s is not documented", op->name);
        assert_int_equal(op->doc->output == NULL, (op->flags & CLT_OP_LOSS) != 0);
        assert_int_equal(op->doc->example == NULL, (op->flags & CLT_OP_FUSED) != 0);
        for (int a = 0; a < op->n_attrs; a++) {
            assert_non_null(op->attrs[a].help);
            assert_true(*clt_attr_valid_text(&op->attrs[a], text));
            (void)clt_attr_default_text(&op->attrs[a], text);
        }
        if (op->doc->example)
            check_example(op);
    }
}

TEST(test_pages)
{
    clt_str page = {0}, json = {0};
    clt_json_doc *doc = NULL;
    char *committed = NULL;
    size_t size = 0;
    int count;
    const clt_op *const *ops = clt_op_list(&count);
    assert_ok(clt_ops_print_json(NULL, &json));
    assert_ok(clt_json_parse(json.text, json.length, "ops", CLT_ECONFIG, &doc));
    assert_int_equal(clt_json_count(clt_json_get(clt_json_root(doc), "ops")), count);
    clt_json_destroy(doc);
    json.length = 0;
    assert_ok(clt_ops_print_json(clt_op_find("linear"), &json));
    assert_null(strstr(json.text, "\"op\": \"relu\""));
    assert_ok(clt_ops_print_markdown(&page));
    for (int i = 0; i < count; i++) {
        char title[80];
        snprintf(title, sizeof title, "\n## %s\n", ops[i]->name);
        assert_non_null(strstr(page.text, title));
    }
    assert_ok(clt_file_read(CLT_TEST_SOURCE_DIR "/docs/ops.md", false, 0, CLT_ECONFIG, &committed, &size));
    assert_string_equal(committed, page.text);
    free(committed);
    clt_str_free(&page);
    clt_str_free(&json);
}

/* Names that are not ops, from other tools and misspelt. */
TEST(test_names)
{
    static const char *const cases[][2] = {{"Linear", "linear"},
                                           {"dense", "linear"},
                                           {"LayerNorm", "layernorm"},
                                           {"layer_norm", "layernorm"},
                                           {"lineer", "linear"},
                                           {"CrossEntropyLoss", "cross_entropy"},
                                           {"swish", "silu"},
                                           {"mul", "multiply"},
                                           {"Conv2d", "conv2d"},
                                           {"conv", "conv2d"},
                                           {"ConvTranspose3d", "conv_transpose3d"}};
    char hint[256];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const clt_op *near = clt_op_near(cases[i][0]);
        assert_non_null(near);
        assert_string_equal(near->name, cases[i][1]);
    }
    assert_null(clt_op_near("lstm"));
    assert_null(clt_op_near("frobnicate"));
    assert_non_null(strstr(clt_op_hint("frobnicate", hint, sizeof hint), "cltrain ops"));
    char huge[4000];
    memset(huge, 'a', sizeof huge);
    huge[sizeof huge - 1] = '\0';
    assert_null(clt_op_near(huge));
}
