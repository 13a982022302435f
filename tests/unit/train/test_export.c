/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Export of weights: every value is rounded to nearest even, names, shapes and order are kept, a value that a
 * type cannot represent is an error that names it and writes nothing, and checkpoints do not change. */
#include "tests/unit/test.h"

#include <float.h>
#include <math.h>

#include "engine/checkpoint/checkpoint.h"
#include "tests/unit/train/checkpoint_save.h"

static char dir[64];
static char run[80], out[80];

FIXTURE(setup)
{
    snprintf(dir, sizeof dir, "/tmp/cltrain_export_XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(run, sizeof run, "%s/run", dir);
    snprintf(out, sizeof out, "%s/out.safetensors", dir);
    return 0;
}

FIXTURE(teardown)
{
    return clt_remove_tree(dir) == CLT_OK ? 0 : -1;
}

/* Halves, ties, the largest number that f16 rounds down to, its smallest, and numbers that vanish in it. */
static const float values[12] = {1.0f,      -1.0f / 3, 1.00048828125f, 1.00146484375f, 65519.0f, -65519.0f,
                                 5.96e-08f, 1e-8f,     -2e-8f,         0.0f,           -0.0f,    3.14159265f};

static void save(float extra, int64_t step)
{
    float last[3] = {0.5f, extra, -2.0f};
    clt_named_tensor model[] = {{"b.weight", CLT_F32, clt_shape2(3, 4), values},
                                {"a.bias", CLT_F32, clt_shape1(3), last}};
    clt_checkpoint_content content = {
        .step = step, .model = model, .n_model = 2, .state_json = "{\"step\": 1}", .config_json = "{}"};
    must(clt_mkdir_p(run), "folder");
    must(save_checkpoint(run, &content, 0), "save");
}

static void check(clt_dtype dtype)
{
    CLT_SCOPED(clt_safetensors) *file = NULL;
    clt_export_result result;
    int vanished = 0;
    must(clt_checkpoint_export(run, CLT_VALUES_RAW, dtype, out, &result), "export");
    must(clt_safetensors_open(out, &file), "open");
    assert_int_equal(clt_safetensors_count(file), 2);
    assert_string_equal(clt_safetensors_metadata(file, "format"), "pt");
    const clt_named_tensor *b = clt_safetensors_at(file, 0), *a = clt_safetensors_at(file, 1);
    assert_string_equal(b->name, "b.weight");
    assert_string_equal(a->name, "a.bias");
    assert_int_equal(b->dtype, dtype);
    assert_int_equal(a->dtype, dtype);
    assert_true(b->shape.ndim == 2 && b->shape.dim[0] == 3 && b->shape.dim[1] == 4);
    for (int i = 0; i < 12; i++) {
        float got[12], want = values[i];
        must(clt_named_tensor_to_f32(b, got), "values");
        if (dtype != CLT_F32)
            want = dtype == CLT_F16 ? clt_f16_to_f32(clt_f32_to_f16(want))
                                    : clt_bf16_to_f32(clt_f32_to_bf16(want));
        if (memcmp(&got[i], &want, sizeof want) != 0)
            fail_msg("%s: element %d is %g, expected %g", clt_dtype_name(dtype), i, (double)got[i],
                     (double)want);
        vanished += values[i] != 0 && want == 0;
    }
    assert_int_equal(result.tensors, 2);
    assert_int_equal(result.values, 15);
    assert_int_equal(result.vanished, vanished);
    assert_int_equal(vanished, dtype == CLT_F16 ? 2 : 0);
    assert_int_equal(result.bytes, 15 * clt_dtype_bytes(dtype));
}

TEST(test_types)
{
    save(7, 1);
    check(CLT_F32);
    check(CLT_F16);
    check(CLT_BF16);
}

static void refused(clt_dtype dtype, const char *path, clt_status want, const char *words)
{
    clt_export_result result;
    clt_status status = clt_checkpoint_export(run, CLT_VALUES_AVERAGED, dtype, path, &result);
    if (status != want || !strstr(clt_error_text(), words))
        fail_msg("%s: %s: '%s' is not in: %s", clt_dtype_name(dtype), clt_status_name(status), words,
                 clt_error_text());
    clt_error_clear();
}

TEST(test_refused)
{
    char inside[160];
    assert_int_equal(remove(out), 0);
    save(65520.0f, 2); /* the tie above the largest number of f16 */
    refused(CLT_F16, out, CLT_ENUMERIC, "tensor 'a.bias' holds 65520 at element 1, which f16 cannot hold");
    assert_false(clt_file_exists(out));
    save(-FLT_MAX, 3);
    refused(CLT_BF16, out, CLT_ENUMERIC, "which bf16 cannot hold; export as f32");
    refused(CLT_F64, out, CLT_EUNSUPPORTED, "f64");
    assert_false(clt_file_exists(out));
    snprintf(inside, sizeof inside, "%s/step_3/model.safetensors", run);
    refused(CLT_F32, inside, CLT_EUSAGE, "folder of a checkpoint");
    refused(CLT_F32, "/dev/null", CLT_EUSAGE, "not a regular file");
    refused(CLT_F32, dir, CLT_EUSAGE, "not a regular file");
    clt_checkpoint *saved;
    must(clt_checkpoint_open(run, &saved), "the checkpoint is whole");
    assert_int_equal(saved->step, 3);
    clt_checkpoint_close(saved);
    clt_export_result result;
    must(clt_checkpoint_export(run, CLT_VALUES_AVERAGED, CLT_F32, out, &result), "f32 holds all");
    assert_non_null(strstr(result.from, "step_3"));
}

/* Moving averages replace the values that they belong to, under the same names. */
TEST(test_averages)
{
    const float raw[3] = {1, 2, 3}, average[3] = {4, 5, 6};
    clt_named_tensor model[] = {{"w", CLT_F32, clt_shape1(3), raw}, {"frozen", CLT_F32, clt_shape1(3), raw}};
    clt_named_tensor optimizer[] = {{"w.moment1", CLT_F32, clt_shape1(3), raw},
                                    {"w.ema", CLT_F32, clt_shape1(3), average}};
    clt_checkpoint_content content = {.step = 4,
                                      .model = model,
                                      .n_model = 2,
                                      .optimizer = optimizer,
                                      .n_optimizer = 2,
                                      .state_json = "{\"step\": 4}",
                                      .config_json = "{}"};
    must(save_checkpoint(run, &content, 0), "save");
    for (int which = CLT_VALUES_RAW; which <= CLT_VALUES_AVERAGED; which++) {
        clt_export_result result;
        CLT_SCOPED(clt_safetensors) *file = NULL;
        must(clt_checkpoint_export(run, (clt_values)which, CLT_F32, out, &result), "export");
        assert_int_equal(result.averaged, which == CLT_VALUES_AVERAGED);
        assert_int_equal(result.tensors, 2);
        must(clt_safetensors_open(out, &file), "open");
        const clt_named_tensor *w = clt_safetensors_find(file, "w"),
                               *frozen = clt_safetensors_find(file, "frozen");
        assert_true(w && frozen);
        assert_memory_equal(w->data, which == CLT_VALUES_AVERAGED ? average : raw, sizeof raw);
        assert_memory_equal(frozen->data, raw, sizeof raw);
    }
}

TEST_PROGRAM(.set_up = setup, .tear_down = teardown);
