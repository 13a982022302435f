/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies samples from arrays that the caller keeps in memory. Opening checks that they are finite. */
#include "engine/data/arrays/source_memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct memory_state {
    const char *data[2];
    size_t sample_bytes[2];
} memory_state;

static clt_status read_field(const clt_source *source, int64_t index, int field, void *dst)
{
    const memory_state *m = source->state;
    memcpy(dst, m->data[field] + (size_t)index * m->sample_bytes[field], m->sample_bytes[field]);
    return CLT_OK;
}

static clt_status memory_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    (void)draw;
    return clt_source_read_fields(source, index, to, read_field);
}

static const clt_config_part memory_format = {.name = "memory", .help = "arrays of the calling program"};
static const clt_source_type memory_type = {.format = &memory_format, .read = memory_read};

static clt_status check_finite(const float *values, int64_t n, int64_t per_sample, const char *name)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            CLT_FAIL(CLT_EDATA, "data in memory: field '%s' of sample %lld is not finite", name,
                     (long long)(i / per_sample));
    return CLT_OK;
}

static clt_status fill(clt_source *source, const float *x, const void *y, clt_dtype y_dtype)
{
    memory_state *m = clt_arena_alloc(source->arena, sizeof *m);
    if (!m)
        return CLT_ENOMEM;
    source->state = m;
    const clt_shape *xs = &source->fields[0].shape, *ys = &source->fields[1].shape;
    int64_t nx = clt_shape_elements(xs), ny = clt_shape_elements(ys);
    *m = (memory_state){{(const char *)x, y},
                        {(size_t)nx * sizeof(float), (size_t)ny * clt_dtype_bytes(y_dtype)}};
    CLT_TRY(check_finite(x, nx * source->samples, nx, "x"));
    if (y_dtype == CLT_F32)
        return check_finite(y, ny * source->samples, ny, "y");
    for (int64_t i = 0; i < ny * source->samples; i++)
        if (((const int32_t *)y)[i] > source->fields[1].max_value)
            source->fields[1].max_value = ((const int32_t *)y)[i];
    return CLT_OK;
}

clt_status clt_source_open_memory(int64_t samples, const float *x, const clt_shape *x_shape, const void *y,
                                  clt_dtype y_dtype, const clt_shape *y_shape, clt_source **out)
{
    CLT_SCOPED(clt_source) *source = NULL;
    *out = NULL;
    if (samples < 1 || !x || !y || (y_dtype != CLT_F32 && y_dtype != CLT_I32))
        CLT_FAIL(CLT_EDATA,
                 "data in memory must have at least one sample, inputs, and targets of type f32 or i32");
    CLT_TRY(clt_source_create(&memory_type, &source));
    source->samples = samples;
    source->description = "arrays in memory";
    source->n_fields = 2;
    source->fields[0] = (clt_source_field){"x", CLT_F32, *x_shape, false, -1};
    source->fields[1] = (clt_source_field){"y", y_dtype, *y_shape, y_dtype == CLT_I32, -1};
    CLT_TRY(fill(source, x, y, y_dtype));
    *out = CLT_TAKE(source);
    return CLT_OK;
}
