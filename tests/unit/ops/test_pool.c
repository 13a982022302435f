/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling and upsampling without a device: the sizes of their outputs, what they refuse and with which
 * message, and other tools' names for them.
 * ctest-labels: quick */
#include "tests/unit/test.h"

#include "engine/ops/node.h"

#define IMAGE 3, 8, 11
#define VOLUME 2, 5, 8, 11

/* Adds the op to a graph with one field of these sizes per sample. */
static clt_status add(clt_graph *graph, const char *op, const char *attrs, clt_dtype dtype,
                      const clt_shape *sample, clt_node **node)
{
    int32_t x;
    assert_ok(clt_graph_field(graph, "x", dtype, sample, &x));
    return clt_graph_add_text(graph, op, "layer", attrs, &x, 1, node);
}

static void expect_shape(const char *op, const char *attrs, clt_shape sample, clt_shape want)
{
    CLT_SCOPED(clt_graph) *graph = NULL;
    clt_node *node;
    char text[CLT_SHAPE_TEXT];
    assert_ok(clt_graph_create(4, &graph));
    if (add(graph, op, attrs, CLT_F32, &sample, &node) != CLT_OK)
        fail_msg("%s %s: %s", op, attrs, clt_error_text());
    const clt_shape *got = &clt_graph_tensor(graph, node->out[0])->shape;
    if (!clt_shape_equal(got, &want))
        fail_msg("%s %s: the output is %s", op, attrs, clt_shape_text(got, text, sizeof text));
}

static void expect_error(const char *op, const char *attrs, clt_dtype dtype, clt_shape sample,
                         const char *text)
{
    CLT_SCOPED(clt_graph) *graph = NULL;
    clt_node *node;
    assert_ok(clt_graph_create(4, &graph));
    if (add(graph, op, attrs, dtype, &sample, &node) == CLT_OK)
        fail_msg("%s %s is accepted", op, attrs);
    if (!strstr(clt_error_text(), text))
        fail_msg("%s %s: '%s' does not say '%s'", op, attrs, clt_error_text(), text);
    clt_error_clear();
}

#define SHAPE(...)                                                                                           \
    clt_shape_make((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

TEST(test_shapes)
{
    expect_shape("max_pool", "{\"kernel\":2}", SHAPE(IMAGE), SHAPE(4, 3, 4, 5));
    expect_shape("max_pool", "{\"kernel\":2,\"ceil_mode\":true}", SHAPE(IMAGE), SHAPE(4, 3, 4, 6));
    /* the last window would start in the padding after the input */
    expect_shape("max_pool", "{\"kernel\":2,\"stride\":3,\"padding\":1,\"ceil_mode\":true}", SHAPE(IMAGE),
                 SHAPE(4, 3, 3, 4));
    /* larger than the input, but it starts within it */
    expect_shape("max_pool", "{\"kernel\":9,\"stride\":2,\"ceil_mode\":true}", SHAPE(IMAGE),
                 SHAPE(4, 3, 1, 2));
    expect_shape("max_pool", "{\"kernel\":[3,2],\"stride\":1,\"dilation\":[2,4]}", SHAPE(IMAGE),
                 SHAPE(4, 3, 4, 7));
    expect_shape("avg_pool", "{\"kernel\":[2,3,1],\"padding\":[1,1,0]}", SHAPE(VOLUME),
                 SHAPE(4, 2, 3, 3, 11));
    expect_shape("adaptive_avg_pool", "{}", SHAPE(VOLUME), SHAPE(4, 2, 1, 1, 1));
    expect_shape("adaptive_max_pool", "{\"output\":[5,13]}", SHAPE(IMAGE), SHAPE(4, 3, 5, 13));
    expect_shape("upsample", "{\"scale\":2}", SHAPE(VOLUME), SHAPE(4, 2, 10, 16, 22));
    expect_shape("upsample", "{\"scale\":[3,1],\"mode\":\"linear\"}", SHAPE(IMAGE), SHAPE(4, 3, 24, 11));
}

TEST(test_refused)
{
    expect_error("max_pool", "{\"kernel\":3,\"padding\":2}", CLT_F32, SHAPE(IMAGE),
                 "padding 2 in the height is more than half of the kernel, which is 3");
    expect_error("avg_pool", "{\"kernel\":[1,1,3],\"padding\":[1,0,0]}", CLT_F32, SHAPE(VOLUME),
                 "padding 1 in the depth is more than half of the kernel, which is 1");
    expect_error("max_pool", "{\"kernel\":9}", CLT_F32, SHAPE(IMAGE), "does not fit into 8");
    expect_error("max_pool", "{\"kernel\":3,\"dilation\":4}", CLT_F32, SHAPE(IMAGE),
                 "a window of 9 in the height");
    expect_error("max_pool", "{\"kernel\":[2,2,2]}", CLT_F32, SHAPE(IMAGE),
                 "attribute 'kernel' has 3 values");
    expect_error("adaptive_avg_pool", "{\"output\":[1,1]}", CLT_F32, SHAPE(VOLUME),
                 "attribute 'output' has 2 values");
    expect_error("upsample", "{\"scale\":[2,2]}", CLT_F32, SHAPE(VOLUME), "attribute 'scale' has 2 values");
    expect_error("max_pool", "{\"kernel\":2}", CLT_F32, SHAPE(6, 7),
                 "is not (samples, channels, height, width)");
    expect_error("avg_pool", "{\"kernel\":2}", CLT_U8, SHAPE(IMAGE), "it must be f32, f16 or bf16");
    expect_error("max_pool", "{}", CLT_F32, SHAPE(IMAGE), "'kernel'");
    expect_error("upsample", "{\"scale\":2,\"align_corners\":true}", CLT_F32, SHAPE(IMAGE),
                 "align_corners has no meaning with mode nearest");
    expect_error("upsample", "{\"scale\":0}", CLT_F32, SHAPE(IMAGE), "'scale'");
}

TEST(test_names)
{
    static const char *const names[][2] = {
        {"MaxPool2d", "max_pool"},
        {"max_pool3d", "max_pool"},
        {"AvgPool2d", "avg_pool"},
        {"AdaptiveAvgPool2d", "adaptive_avg_pool"},
        {"adaptive_max_pool2d", "adaptive_max_pool"},
        {"global_avg_pool", "adaptive_avg_pool"},
        {"GlobalAveragePooling2D", "adaptive_avg_pool"},
        {"Upsample", "upsample"},
        {"interpolate", "upsample"},
        {"UpSampling3D", "upsample"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const clt_op *op = clt_op_near(names[i][0]);
        if (!op || strcmp(op->name, names[i][1]) != 0)
            fail_msg("%s: %s is suggested", names[i][0], op ? op->name : "nothing");
    }
}
