/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial values of parameters, made on the host: a pure function of (seed, parameter index), so every rank
 * and every device starts from the same bits. Formulas are those of torch.nn.init. */
#include <math.h>
#include <stdlib.h>

#include "engine/base/rng.h"
#include "engine/train/store.h"

static void fans(const clt_param *param, double *in, double *out)
{
    int64_t rows = param->shape.ndim ? param->shape.dim[0] : 1;
    int64_t rest = clt_shape_elements(&param->shape) / (rows ? rows : 1);
    *in = (double)(param->init.fan_in ? param->init.fan_in : rest);
    *out = (double)(param->init.fan_out ? param->init.fan_out : rows);
}

static void fill_uniform(const clt_param *param, uint64_t seed, double bound, float *out)
{
    uint64_t n = (uint64_t)clt_shape_elements(&param->shape);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t word = clt_rng_u32(seed, CLT_RNG_INIT, (uint32_t)param->index, 0, i);
        out[i] = (float)((2.0 * (double)clt_rng_uniform(word) - 1.0) * bound);
    }
}

static void fill_normal(const clt_param *param, uint64_t seed, double deviation, float *out)
{
    uint64_t n = (uint64_t)clt_shape_elements(&param->shape);
    for (uint64_t i = 0; i < n; i++)
        out[i] = (float)(deviation * clt_rng_normal(seed, CLT_RNG_INIT, (uint32_t)param->index, 0, i));
}

static clt_status init_all(const clt_param *param, uint64_t seed, float *out)
{
    double in, fan_out, scale = param->init.scale;
    fans(param, &in, &fan_out);
    switch (param->init.kind) {
    case CLT_INIT_ZEROS:
    case CLT_INIT_ONES:
        for (int64_t i = 0; i < clt_shape_elements(&param->shape); i++)
            out[i] = param->init.kind == CLT_INIT_ONES ? 1.0f : 0.0f;
        return CLT_OK;
    case CLT_INIT_NORMAL:
        fill_normal(param, seed, scale, out);
        return CLT_OK;
    case CLT_INIT_UNIFORM:
        fill_uniform(param, seed, scale, out);
        return CLT_OK;
    case CLT_INIT_KAIMING_UNIFORM:
        fill_uniform(param, seed, sqrt(6.0 / ((1.0 + scale * scale) * in)), out);
        return CLT_OK;
    case CLT_INIT_KAIMING_NORMAL:
        fill_normal(param, seed, sqrt(2.0 / in), out);
        return CLT_OK;
    case CLT_INIT_XAVIER_UNIFORM:
        fill_uniform(param, seed, sqrt(6.0 / (in + fan_out)), out);
        return CLT_OK;
    }
    CLT_FAIL(CLT_EINTERNAL, "parameter '%s': unknown initialiser %d", param->name, (int)param->init.kind);
}

clt_status clt_init_values(const clt_param *param, uint64_t seed, float *out)
{
    int64_t n = clt_shape_elements(&param->shape);
    CLT_TRY(init_all(param, seed, out));
    for (int64_t i = param->file_rows ? param->file_rows * (n / param->shape.dim[0]) : n; i < n; i++)
        out[i] = 0.0f;
    return CLT_OK;
}

clt_status clt_store_init(clt_store *store, const clt_graph *graph, uint64_t seed)
{
    for (size_t i = 0; i < graph->n_params; i++) {
        const clt_param *param = &graph->params[i];
        const clt_store_slot *slot = clt_store_layout_find(store->layout, param->name);
        float *values;
        CLT_TRY(clt_alloc(&values, slot->elements, sizeof *values, param->name));
        clt_status status = clt_init_values(param, seed, values);
        if (status == CLT_OK)
            status = clt_store_write(store, CLT_ARENA_PARAM, slot, values);
        free(values);
        CLT_TRY(status);
    }
    return CLT_OK;
}
