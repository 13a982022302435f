/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports weights for other programs: writes the parameters of a checkpoint, f32 master weights, to one
 * safetensors file in another type. A value beyond the range of the type is an error, because an infinity in
 * a file that loads would go unnoticed. This file knows tensors by name and nothing of models. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/checkpoint/checkpoint_internal.h"

typedef struct export
{
    clt_named_tensor *tensors;
    void **data; /* converted values; NULL: the checkpoint's own memory is used */
    int count;
    clt_export_result *result;
}
export;

static void export_free(export *x)
{
    for (int i = 0; x->data && i < x->count; i++)
        free(x->data[i]);
    free(x->data);
    free(x->tensors);
}
CLT_SCOPED_VALUE(export, export_free)

/* values: f32 in the mapped file, possibly not aligned. */
static clt_status narrow(export *x, const clt_named_tensor *from, clt_dtype dtype, uint16_t *out)
{
    int64_t n = clt_shape_elements(&from->shape);
    for (int64_t i = 0; i < n; i++) {
        float value, back;
        memcpy(&value, (const uint8_t *)from->data + (size_t)i * sizeof value, sizeof value);
        out[i] = dtype == CLT_F16 ? clt_f32_to_f16(value) : clt_f32_to_bf16(value);
        back = dtype == CLT_F16 ? clt_f16_to_f32(out[i]) : clt_bf16_to_f32(out[i]);
        if (!isfinite(back))
            CLT_FAIL(CLT_ENUMERIC,
                     "tensor '%s' holds %g at element %" PRId64 ", which %s cannot hold; export as %s",
                     from->name, (double)value, i, clt_dtype_name(dtype), dtype == CLT_F16 ? "bf16" : "f32");
        x->result->vanished += value != 0 && back == 0;
    }
    return CLT_OK;
}

static clt_status add(export *x, const clt_named_tensor *from, clt_dtype dtype)
{
    int i = x->count++;
    x->tensors[i] = *from;
    if (from->dtype == CLT_F32)
        x->result->values += clt_shape_elements(&from->shape);
    if (from->dtype != CLT_F32 || dtype == CLT_F32)
        return CLT_OK;
    CLT_TRY(clt_alloc(&x->data[i], (size_t)clt_shape_elements(&from->shape) + 1, clt_dtype_bytes(dtype),
                      "exported weights"));
    x->tensors[i].dtype = dtype;
    x->tensors[i].data = x->data[i];
    return narrow(x, from, dtype, x->data[i]);
}

clt_status clt_export_check_outside(const char *out)
{
    CLT_SCOPED(clt_str) manifest = {0};
    const char *slash = strrchr(out, '/');
    clt_str_printf(&manifest, "%.*s%s", slash ? (int)(slash - out) + 1 : 0, out, CLT_MANIFEST_FILE);
    CLT_TRY(clt_str_check(&manifest));
    if (clt_file_exists(manifest.text))
        CLT_FAIL(CLT_EUSAGE, "exporting to '%s': it is the folder of a checkpoint, which must not change",
                 out);
    return CLT_OK;
}

clt_status clt_export_check_file(const char *out)
{
    struct stat info;
    if (stat(out, &info) == 0 && !S_ISREG(info.st_mode))
        CLT_FAIL(CLT_EUSAGE, "exporting to '%s': it is not a regular file", out);
    if (stat(out, &info) == 0 && info.st_size > 0 && !clt_safetensors_looks(out))
        CLT_FAIL(CLT_EUSAGE,
                 "exporting to '%s': a file exists there that holds no weights, and it is not overwritten; "
                 "name another file, or remove it",
                 out);
    return clt_export_check_outside(out);
}

static clt_status check_type(clt_dtype dtype)
{
    if (dtype != CLT_F32 && dtype != CLT_F16 && dtype != CLT_BF16)
        CLT_FAIL(CLT_EUNSUPPORTED, "exporting weights as %s: they can be f32, f16 or bf16",
                 clt_dtype_name(dtype));
    return CLT_OK;
}

static clt_status write_all(export *x, const clt_named_tensor *tensors, int n, clt_dtype dtype,
                            const char *out)
{
    /* other programs look at `format`: "pt" means weights laid out as in PyTorch */
    static const char *const metadata[] = {"format", "pt"};
    CLT_TRY(clt_alloc(&x->tensors, (size_t)n + 1, sizeof *x->tensors, "exported weights"));
    CLT_TRY(clt_alloc(&x->data, (size_t)n + 1, sizeof *x->data, "exported weights"));
    for (int i = 0; i < n; i++)
        CLT_TRY(add(x, &tensors[i], dtype));
    x->result->tensors = x->count;
    x->result->bytes = clt_named_tensors_bytes(x->tensors, x->count);
    return clt_safetensors_write(out, x->tensors, x->count, metadata, 1, NULL);
}

clt_status clt_export_tensors(const clt_named_tensor *tensors, int n, clt_dtype dtype, const char *out,
                              clt_export_result *result)
{
    CLT_SCOPED(export) x = {.result = result};
    memset(result, 0, sizeof *result);
    CLT_TRY(check_type(dtype));
    return write_all(&x, tensors, n, dtype, out);
}

static clt_status export_model(const clt_checkpoint *saved, clt_values values, clt_dtype dtype,
                               const char *out, clt_export_result *result)
{
    int n = clt_safetensors_count(saved->model);
    CLT_FREED clt_named_tensor *tensors = NULL;
    CLT_TRY(clt_alloc(&tensors, (size_t)n + 1, sizeof *tensors, "exported weights"));
    for (int i = 0; i < n; i++)
        (void)clt_checkpoint_values(saved, clt_safetensors_at(saved->model, i)->name, values, &tensors[i]);
    clt_status status = clt_export_tensors(tensors, n, dtype, out, result);
    clt_status whole = clt_checkpoint_whole(saved);
    if (whole != CLT_OK && status == CLT_OK)
        (void)unlink(out);
    result->averaged = values == CLT_VALUES_AVERAGED && clt_checkpoint_averages(saved);
    return whole != CLT_OK ? whole : status; /* a truncated checkpoint makes writing fail, too */
}

clt_status clt_checkpoint_export(const char *path, clt_values values, clt_dtype dtype, const char *out,
                                 clt_export_result *result)
{
    CLT_SCOPED(clt_checkpoint) *saved = NULL;
    memset(result, 0, sizeof *result);
    CLT_TRY(check_type(dtype));
    CLT_TRY(clt_export_check_file(out));
    CLT_TRY(clt_checkpoint_open(path, &saved));
    clt_status status = export_model(saved, values, dtype, out, result);
    snprintf(result->from, sizeof result->from, "%s", saved->path);
    return clt_fail_prefix(status, "exporting '%s'", result->from);
}
