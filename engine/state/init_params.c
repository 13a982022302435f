/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial values of parameters, made on the host: a pure function of (seed, parameter index), so every rank
 * and every device starts from the same bits. The formulas are torch.nn.init's. */
#include <math.h>
#include <stdlib.h>

#include "engine/base/rng.h"
#include "engine/base/thread.h"
#include "engine/state/store.h"

static void fans(const clt_param *param, double *in, double *out)
{
    int64_t rows = param->shape.ndim ? param->shape.dim[0] : 1;
    int64_t rest = clt_shape_elements(&param->shape) / (rows ? rows : 1);
    *in = (double)(param->init.fan_in ? param->init.fan_in : rest);
    *out = (double)(param->init.fan_out ? param->init.fan_out : rows);
}

/* With fewer elements than this, starting a thread costs more than it saves. */
#define ELEMENTS_PER_THREAD 65536

typedef struct random_fill {
    const clt_param *param;
    uint64_t seed;
    double scale; /* bound of a uniform or deviation of a normal distribution */
    bool normal;
    float *out;
} random_fill;

static void fill(void *context, uint64_t first, uint64_t last)
{
    const random_fill *f = context;
    uint32_t index = (uint32_t)f->param->index;
    if (f->normal)
        clt_rng_fill_normal(f->seed, CLT_RNG_INIT, index, 0, first, last, f->scale, f->out);
    for (uint64_t i = first; i < last && !f->normal; i++) {
        uint32_t word = clt_rng_u32(f->seed, CLT_RNG_INIT, index, 0, i);
        f->out[i] = (float)((2.0 * (double)clt_rng_uniform(word) - 1.0) * f->scale);
    }
}

/* Each element is a function of its index alone, so the number of threads changes no bit. */
static void fill_random(const clt_param *param, uint64_t seed, bool normal, double scale, float *out)
{
    random_fill f = {param, seed, scale, normal, out};
    clt_for_ranges((uint64_t)clt_shape_elements(&param->shape), ELEMENTS_PER_THREAD, "initialise", fill, &f);
}

static void fill_normal(const clt_param *param, uint64_t seed, double deviation, float *out)
{
    fill_random(param, seed, true, deviation, out);
}

static void fill_uniform(const clt_param *param, uint64_t seed, double bound, float *out)
{
    fill_random(param, seed, false, bound, out);
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
    int64_t n = clt_shape_elements(&param->shape), zero = param->zero_row;
    CLT_TRY(init_all(param, seed, out));
    for (int64_t i = 0, row = zero > 0 ? n / param->shape.dim[0] : 0; i < row; i++)
        out[(zero - 1) * row + i] = 0.0f;
    for (int64_t i = param->file_rows ? param->file_rows * (n / param->shape.dim[0]) : n; i < n; i++)
        out[i] = 0.0f;
    return CLT_OK;
}

clt_status clt_store_init(clt_store *store, const clt_graph *graph, uint64_t seed)
{
    for (size_t i = 0; i < graph->n_params; i++) {
        const clt_param *param = &graph->params[i];
        const clt_store_slot *slot = clt_store_layout_find(store->layout, param->name);
        CLT_FREED float *values = NULL;
        CLT_TRY(clt_alloc(&values, slot->elements, sizeof *values, param->name));
        CLT_TRY(clt_init_values(param, seed, values));
        CLT_TRY(clt_store_write(store, CLT_ARENA_PARAM, slot, values));
    }
    return CLT_OK;
}
