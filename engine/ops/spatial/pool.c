/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the windows of pooling ops and emits the kernels of pool.cl. */
#include "engine/ops/spatial/pool.h"

#include "engine/ops/emit_util.h"

/* --- windows --- */

static bool is_on(const clt_node *node, const char *name)
{
    const clt_attr *attr = clt_spatial_attr(node, name);
    return attr && attr->b;
}

/* Division that rounds down; b > 0. */
static int64_t floor_div(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* Rounds output sizes up; but every window must start in the input or in the padding before it. */
static void round_up(clt_spatial *s)
{
    for (int i = 0; i < CLT_SPATIAL_MAX; i++) {
        int64_t room = s->in[i] + 2 * s->padding[i] - s->dilation[i] * (s->kernel[i] - 1) - 1;
        s->out[i] = floor_div(room + s->stride[i] - 1, s->stride[i]) + 1;
        if ((s->out[i] - 1) * s->stride[i] >= s->in[i] + s->padding[i])
            s->out[i]--;
    }
}

static int64_t largest_window(int64_t in, int64_t out)
{
    int64_t most = 0;
    for (int64_t o = 0; o < out; o++) {
        int64_t size = ((o + 1) * in + out - 1) / out - o * in / out;
        most = size > most ? size : most;
    }
    return most;
}

/* Whether sums of different windows are divided by different numbers of elements. */
static bool sizes_differ(const clt_pool *pool)
{
    const clt_spatial *s = &pool->s;
    for (int i = 0; i < CLT_SPATIAL_MAX; i++) {
        int64_t reach =
            (s->out[i] - 1) * s->stride[i] - s->padding[i] + s->kernel[i]; /* end of the last window */
        if (pool->adaptive    ? s->in[i] % s->out[i] != 0 && s->out[i] > 1
            : pool->count_pad ? reach > s->in[i] + s->padding[i]
                              : s->padding[i] > 0 || reach > s->in[i])
            return true;
    }
    return false;
}

clt_pool clt_pool_of(const clt_node *node, const clt_shape *in)
{
    clt_pool pool = {.s = clt_spatial_of(node, in, true)};
    clt_spatial *s = &pool.s;
    pool.adaptive = clt_spatial_attr(node, "output") != NULL;
    pool.count_pad = is_on(node, "count_include_pad");
    if (pool.adaptive) {
        clt_spatial_list(node, "output", s->dims, 1, s->out);
        bool divides = true;
        for (int i = 0; i < CLT_SPATIAL_MAX; i++) {
            s->kernel[i] = largest_window(s->in[i], s->out[i]);
            divides = divides && s->in[i] % s->out[i] == 0;
        }
        /* adjacent windows of equal size follow the sliding rule, too, which takes fewer divisions */
        pool.adaptive = !divides;
        for (int i = 0; divides && i < CLT_SPATIAL_MAX; i++)
            s->stride[i] = s->kernel[i];
    } else if (is_on(node, "ceil_mode")) {
        round_up(s);
    }
    pool.own_size = sizes_differ(&pool);
    pool.share = (float)(1.0 / (double)clt_spatial_volume(s->kernel));
    return pool;
}

clt_status clt_pool_infer(clt_infer *ctx)
{
    static const char *const names[CLT_SPATIAL_MAX] = {"depth", "height", "width"};
    CLT_TRY(clt_spatial_check(ctx, 0));
    const clt_tensor *x = clt_infer_in(ctx, 0);
    clt_dtype dtype = x->dtype;
    clt_pool pool = clt_pool_of(ctx->node, &x->shape);
    const clt_spatial *s = &pool.s;
    CLT_TRY(clt_spatial_fits(ctx, s));
    for (int i = 0; i < CLT_SPATIAL_MAX; i++)
        if (2 * s->padding[i] > s->kernel[i])
            return clt_infer_fail(ctx,
                                  "padding %lld in the %s is more than half of the kernel, which is %lld: "
                                  "some windows would contain only padding; give at most %lld",
                                  (long long)s->padding[i], names[i], (long long)s->kernel[i],
                                  (long long)s->kernel[i] / 2);
    clt_shape shape = clt_spatial_shape(s, s->channels, s->out);
    return clt_infer_out(ctx, dtype, &shape);
}

/* --- launches --- */

static uint64_t elements_of(const clt_spatial *s, const int64_t sizes[CLT_SPATIAL_MAX])
{
    return (uint64_t)(s->n * s->channels * clt_spatial_volume(sizes));
}

/* Number of elements in an output's window, including elements outside of the input: an upper bound of the
 * work. */
static double window_elements(const clt_pool *pool)
{
    return (double)clt_spatial_volume(pool->s.kernel);
}

static clt_places begin(ocl_emitter *e, const clt_pool *pool, const char *kernel, const int64_t *grid,
                        const clt_pool_launch *l, clt_style style)
{
    const clt_spatial *s = &pool->s;
    uint64_t in = elements_of(s, s->in), out = elements_of(s, s->out);
    clt_places places = clt_places_of(s, grid, (double)(in > out ? in : out));
    clt_places_begin(e, &places, "pool", kernel, style, l->y_type, l->accumulate);
    ocl_define(e, "STRIDE_D", s->stride[0]);
    ocl_define(e, "STRIDE_H", s->stride[1]);
    ocl_define(e, "STRIDE_W", s->stride[2]);
    ocl_define(e, "ADAPTIVE", pool->adaptive);
    ocl_define(e, "DILATED", s->dilation[0] * s->dilation[1] * s->dilation[2] != 1);
    return places;
}

static void arg_axes(ocl_emitter *e, const clt_pool *pool)
{
    const clt_spatial *s = &pool->s;
    for (int i = 0; i < CLT_SPATIAL_MAX; i++) {
        if (pool->adaptive)
            clt_check_size32(e, (s->in[i] + 1) * (s->out[i] + 1),
                             "input times output elements of a dimension");
        clt_check_size32(e, s->in[i] + 2 * s->padding[i] + s->stride[i], "elements of a dimension");
        ocl_arg_i32(e, (int32_t)s->in[i]);
        ocl_arg_i32(e, (int32_t)s->out[i]);
        ocl_arg_i32(e, (int32_t)s->kernel[i]);
        ocl_arg_i32(e, (int32_t)s->padding[i]);
        ocl_arg_i32(e, (int32_t)s->dilation[i]);
    }
}

static void emit_sums(ocl_emitter *e, const clt_pool *pool, const clt_pool_launch *l, bool spread,
                      clt_style style)
{
    const clt_spatial *s = &pool->s;
    const int64_t *grid = spread ? s->in : s->out;
    clt_places places = begin(e, pool, spread ? "pool_spread" : "pool_sum", grid, l, style);
    ocl_define(e, "OWN_SIZE", pool->own_size);
    ocl_define(e, "COUNT_PAD", pool->count_pad);
    clt_define_dtype(e, "DT", l->x_type);
    clt_define_dtype(e, "GT", l->y_type);
    ocl_arg_grad(e, l->y, l->y_type, elements_of(s, grid), l->accumulate);
    ocl_arg_in(e, l->x, l->x_type, elements_of(s, spread ? s->out : s->in));
    arg_axes(e, pool);
    ocl_arg_f32(e, pool->share);
    clt_places_end(e, &places, style, window_elements(pool) * (double)elements_of(s, s->out));
}

void clt_emit_pool_sum(ocl_emitter *e, const clt_pool *pool, const clt_pool_launch *launch, clt_style style)
{
    emit_sums(e, pool, launch, false, style);
}

void clt_emit_pool_spread(ocl_emitter *e, const clt_pool *pool, const clt_pool_launch *launch,
                          clt_style style)
{
    emit_sums(e, pool, launch, true, style);
}

clt_dtype clt_pool_index_type(const clt_pool *pool)
{
    int64_t elements = clt_spatial_volume(pool->s.kernel);
    return elements <= 256 ? CLT_U8 : elements <= 65536 ? CLT_U16 : CLT_I32;
}

void clt_emit_pool_max(ocl_emitter *e, const clt_pool *pool, const clt_pool_launch *l, int32_t index,
                       clt_style style)
{
    const clt_spatial *s = &pool->s;
    clt_places places = begin(e, pool, "pool_max_fwd", s->out, l, style);
    ocl_define(e, "INDEX", index >= 0);
    clt_define_dtype(e, "IT", clt_pool_index_type(pool));
    clt_define_dtype(e, "DT", l->x_type);
    ocl_arg_out(e, l->y, l->y_type, elements_of(s, s->out));
    if (index >= 0)
        ocl_arg_out(e, index, clt_pool_index_type(pool), elements_of(s, s->out));
    ocl_arg_in(e, l->x, l->x_type, elements_of(s, s->in));
    arg_axes(e, pool);
    clt_places_end(e, &places, style, window_elements(pool) * (double)elements_of(s, s->out));
}

void clt_emit_pool_max_bwd(ocl_emitter *e, const clt_pool *pool, const clt_pool_launch *l, int32_t index,
                           clt_style style)
{
    const clt_spatial *s = &pool->s;
    clt_places places = begin(e, pool, "pool_max_bwd", s->in, l, style);
    clt_define_dtype(e, "IT", clt_pool_index_type(pool));
    clt_define_dtype(e, "DYT", l->x_type);
    clt_define_dtype(e, "GT", l->y_type);
    ocl_arg_grad(e, l->y, l->y_type, elements_of(s, s->in), l->accumulate);
    ocl_arg_in(e, l->x, l->x_type, elements_of(s, s->out));
    ocl_arg_in(e, index, clt_pool_index_type(pool), elements_of(s, s->out));
    arg_axes(e, pool);
    clt_places_end(e, &places, style, (double)elements_of(s, s->out));
}
