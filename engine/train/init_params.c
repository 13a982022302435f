/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial values of parameters, made on the host: a pure function of (seed, parameter index), so every rank
 * and every device starts from the same bits. Formulas are those of torch.nn.init. */
#include <math.h>
#include <stdlib.h>

#include "engine/base/rng.h"
#include "engine/base/thread.h"
#include "engine/train/store.h"

static void fans(const clt_param *param, double *in, double *out)
{
    int64_t rows = param->shape.ndim ? param->shape.dim[0] : 1;
    int64_t rest = clt_shape_elements(&param->shape) / (rows ? rows : 1);
    *in = (double)(param->init.fan_in ? param->init.fan_in : rest);
    *out = (double)(param->init.fan_out ? param->init.fan_out : rows);
}

/* Below this a thread costs more than it saves. */
#define ELEMENTS_PER_THREAD 65536
#define MOST_THREADS 16

/* Elements [first, last) of a parameter. */
typedef struct fill_part {
    const clt_param *param;
    uint64_t seed, first, last;
    double scale; /* bound or deviation */
    bool normal;
    float *out;
    clt_thread *thread; /* NULL: none could be had, and the caller does it */
} fill_part;

static void *fill(void *context)
{
    const fill_part *p = context;
    uint32_t index = (uint32_t)p->param->index;
    if (p->normal)
        clt_rng_fill_normal(p->seed, CLT_RNG_INIT, index, 0, p->first, p->last, p->scale, p->out);
    for (uint64_t i = p->first; i < p->last && !p->normal; i++) {
        uint32_t word = clt_rng_u32(p->seed, CLT_RNG_INIT, index, 0, i);
        p->out[i] = (float)((2.0 * (double)clt_rng_uniform(word) - 1.0) * p->scale);
    }
    return NULL;
}

/* Every element is a function of its index alone: threads change no bit. */
static void fill_random(const clt_param *param, uint64_t seed, bool normal, double scale, float *out)
{
    fill_part parts[MOST_THREADS];
    uint64_t n = (uint64_t)clt_shape_elements(&param->shape), done = 0;
    int cores = clt_cpu_count(), count = cores < MOST_THREADS ? cores : MOST_THREADS;
    while (count > 1 && n / (uint64_t)count < ELEMENTS_PER_THREAD)
        count--;
    for (int i = 0; i < count; i++) {
        uint64_t last = n * (uint64_t)(i + 1) / (uint64_t)count;
        parts[i] = (fill_part){param, seed, done, last, scale, normal, out, NULL};
        done = last;
        if (i > 0 && clt_thread_start(&parts[i].thread, "initialise", fill, &parts[i]) != CLT_OK)
            clt_error_clear();
    }
    for (int i = 0; i < count; i++) {
        if (parts[i].thread == NULL)
            fill(&parts[i]);
        else
            clt_thread_join(parts[i].thread);
    }
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
