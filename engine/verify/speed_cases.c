/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes at which ops are timed: those of one step of GPT-2 124M with 256 tokens ("gpt2", inside the caches of
 * most CPUs), and arrays far larger than any cache ("large"). A table and nothing else. */
#include "engine/ops/case.h"
#include "engine/verify/speed_internal.h"

/* One input of f32 in both sizes: 256 rows, 32768 or 8192 rows. */
#define ROWS_768(op_name, text)                                                                              \
    {op_name, {.name = "gpt2", .attrs = text, .n_inputs = 1, .inputs = {CLT_CASE_F32(4, 64, 768)}}},         \
    {                                                                                                        \
        op_name,                                                                                             \
        {                                                                                                    \
            .name = "large", .attrs = text, .n_inputs = 1, .inputs = { CLT_CASE_F32(64, 512, 768) }          \
        }                                                                                                    \
    }
#define ROWS_3072(op_name, word, text)                                                                       \
    {op_name, {.name = word "gpt2", .attrs = text, .n_inputs = 1, .inputs = {CLT_CASE_F32(4, 64, 3072)}}},   \
    {                                                                                                        \
        op_name,                                                                                             \
        {                                                                                                    \
            .name = word "large", .attrs = text, .n_inputs = 1, .inputs = { CLT_CASE_F32(16, 512, 3072) }    \
        }                                                                                                    \
    }
#define PAIR(op_name, word, ...)                                                                             \
    {                                                                                                        \
        op_name,                                                                                             \
        {                                                                                                    \
            .name = word, .n_inputs = 2, .inputs = { CLT_CASE_F32(__VA_ARGS__), CLT_CASE_F32(__VA_ARGS__) }  \
        }                                                                                                    \
    }

static const clt_speed_case cases[] = {
    ROWS_3072("relu", "", NULL),
    ROWS_3072("gelu", "tanh_", "{\"approximate\":\"tanh\"}"),
    ROWS_3072("gelu", "erf_", NULL),
    ROWS_3072("tanh", "", NULL),
    ROWS_3072("sigmoid", "", NULL),
    ROWS_3072("silu", "", NULL),
    ROWS_3072("scale", "", "{\"value\":0.5}"),
    ROWS_3072("bias", "", NULL),
    ROWS_3072("dropout", "", "{\"p\":0.1}"),
    {"cast", {.name = "bf16_large", .n_inputs = 1, .inputs = {CLT_CASE_FLOAT(CLT_BF16, 16, 512, 3072)}}},
    {"cast", {.name = "f16_large", .n_inputs = 1, .inputs = {CLT_CASE_FLOAT(CLT_F16, 16, 512, 3072)}}},
    {"cast", {.name = "u8_large", .n_inputs = 1, .inputs = {CLT_CASE_INDEX(CLT_U8, 256, 16, 512, 3072)}}},
    PAIR("add", "gpt2", 4, 64, 768),
    PAIR("add", "large", 64, 512, 768),
    PAIR("multiply", "gpt2", 4, 64, 768),
    PAIR("multiply", "large", 64, 512, 768),
    {"add",
     {.name = "rows_large", .n_inputs = 2, .inputs = {CLT_CASE_F32(64, 512, 768), CLT_CASE_F32(512, 768)}}},
    {"multiply",
     {.name = "rows_large", .n_inputs = 2, .inputs = {CLT_CASE_F32(64, 512, 768), CLT_CASE_F32(768)}}},
    ROWS_768("layernorm", NULL),
    ROWS_768("positional", "{\"positions\":512}"),
    ROWS_768("softmax", NULL),
    ROWS_768("log_softmax", NULL),
    {"softmax", {.name = "short_large", .n_inputs = 1, .inputs = {CLT_CASE_F32(64, 12, 512, 64)}}},
    {"softmax", {.name = "wide_large", .n_inputs = 1, .inputs = {CLT_CASE_F32(512, 50257)}}},
    {"cross_entropy",
     {.name = "gpt2",
      .attrs = "{\"classes\":50257}",
      .n_inputs = 2,
      .inputs = {CLT_CASE_F32(4, 64, 50304), CLT_CASE_INDEX(CLT_U16, 50257, 4, 64)}}},
    {"cross_entropy",
     {.name = "large",
      .attrs = "{\"classes\":50257}",
      .n_inputs = 2,
      .inputs = {CLT_CASE_F32(16, 64, 50304), CLT_CASE_INDEX(CLT_U16, 50257, 16, 64)}}},
    PAIR("mse", "large", 4096, 8192),
    PAIR("l1", "large", 4096, 8192),
    {"bce_with_logits",
     {.name = "large",
      .n_inputs = 2,
      .inputs = {CLT_CASE_F32(4096, 8192), CLT_CASE_BINARY(CLT_F32, 4096, 8192)}}},
    {"reduce",
     {.name = "rows_large",
      .attrs = "{\"axes\":[2]}",
      .n_inputs = 1,
      .inputs = {CLT_CASE_F32(64, 1024, 1024)}}},
    {"reduce",
     {.name = "columns_large",
      .attrs = "{\"axes\":[1]}",
      .n_inputs = 1,
      .inputs = {CLT_CASE_F32(64, 1024, 1024)}}},
    {"reduce",
     {.name = "max_large",
      .attrs = "{\"kind\":\"max\",\"axes\":[2]}",
      .n_inputs = 1,
      .inputs = {CLT_CASE_F32(64, 1024, 1024)}}},
    {"embedding",
     {.name = "gpt2",
      .attrs = "{\"vocab\":50257,\"dim\":768}",
      .n_inputs = 1,
      .inputs = {CLT_CASE_INDEX(CLT_U16, 50257, 4, 64)}}},
    {"embedding",
     {.name = "large",
      .attrs = "{\"vocab\":50257,\"dim\":768}",
      .n_inputs = 1,
      .inputs = {CLT_CASE_INDEX(CLT_U16, 50257, 64, 1024)}}},
    {"transpose",
     {.name = "gpt2",
      .attrs = "{\"perm\":[0,2,1,3]}",
      .n_inputs = 1,
      .inputs = {CLT_CASE_F32(4, 64, 12, 64)}}},
    {"transpose",
     {.name = "heads_large",
      .attrs = "{\"perm\":[0,2,1,3]}",
      .n_inputs = 1,
      .inputs = {CLT_CASE_F32(64, 512, 12, 64)}}},
    {"transpose",
     {.name = "matrix_large",
      .attrs = "{\"perm\":[0,2,1]}",
      .n_inputs = 1,
      .inputs = {CLT_CASE_F32(4, 4096, 2048)}}},
    {"slice",
     {.name = "large",
      .attrs = "{\"axis\":2,\"start\":768,\"stop\":1536}",
      .n_inputs = 1,
      .inputs = {CLT_CASE_F32(32, 512, 2304)}}},
    {"concat",
     {.name = "large",
      .attrs = "{\"axis\":2}",
      .n_inputs = 2,
      .inputs = {CLT_CASE_F32(32, 512, 768), CLT_CASE_F32(32, 512, 1536)}}},
};

const clt_speed_case *clt_speed_cases(int *count)
{
    *count = CLT_CASE_COUNT(cases);
    return cases;
}
