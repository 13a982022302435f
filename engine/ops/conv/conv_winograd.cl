/* SPDX-License-Identifier: Apache-2.0
 *
 * The transforms of Winograd's convolution of 3 x 3 windows with stride 1 (Lavin & Gray 2015,
 * arXiv:1509.09308). A tile is OUT x OUT neighbouring positions of the result. The windows of these
 * positions cover IN x IN positions of the source (IN = OUT + 2). Those positions and the window are
 * transformed and multiplied element by element; a last transform of the IN*IN products gives the tile.
 * Between the transforms come IN*IN matrix products over channels. With matrices B (IN x IN), G (IN x 3) and
 * A (IN x OUT), for source d, window g, result y:
 *   y = A' [(G g G') (B' d B)] A         dg = G' [(A dy A') (B' d B)] G, summed over tiles
 * Points 0, 1, -1, infinity for OUT 2, and 2, -2 in addition for OUT 4.
 *
 * Images are (n, height, width, channels), transformed ones (IN*IN, tiles, channels); tiles are numbered
 * along rows of an image, then down, then by image. Positions outside are zero, and are not written.
 *
 * Geometry: in lane style an item has one tile (or one row of weights) with all its channels, sixteen at a
 * time, in flat style one tile and one channel.
 *
 * -DLS=items of a group; 1: lane style, for CPUs only (NVIDIA's compiler takes 21 s for one kernel)
 * -DOUT=2|4  -DROTATED=1: the window is turned by 180 degrees
 * -DHAS_BIAS=0|1  -DMOMENTS=0|1: winograd_result also computes the moments of each tile's positions */
#include "common.clh"
#include "lanes.clh"

#pragma option LS 64
#pragma option OUT 4
#pragma option ROTATED 0
#pragma option HAS_BIAS 0
#pragma option MOMENTS 0
#define IN (OUT + 2)

#define KERNEL __kernel __attribute__((reqd_work_group_size(LS, 1, 1))) void
#define READ(name) __global const float *restrict name, ulong name##0
#define WRITE(name) __global float *restrict name, ulong name##0
#define GRAD(name) __global float *restrict name, ulong name##0, int accumulate

#if OUT == 4
#define TRANSFORMS(type)                                                                                     \
    static inline void source_##type(type *o, const type *v)                                                 \
    {                                                                                                        \
        type a = v[4] - 4.0f * v[2], b = v[3] - 4.0f * v[1], c = v[4] - v[2], d = 2.0f * (v[3] - v[1]);      \
        o[0] = 4.0f * v[0] - 5.0f * v[2] + v[4];                                                             \
        o[1] = a + b;                                                                                        \
        o[2] = a - b;                                                                                        \
        o[3] = c + d;                                                                                        \
        o[4] = c - d;                                                                                        \
        o[5] = 4.0f * v[1] - 5.0f * v[3] + v[5];                                                             \
    }                                                                                                        \
    static inline void window_##type(type *o, const type *g)                                                 \
    {                                                                                                        \
        type t = (g[0] + g[2]) * (-1.0f / 6.0f), s = g[1] * (1.0f / 6.0f);                                   \
        type u = g[0] * (1.0f / 24.0f) + g[2] * (1.0f / 6.0f), w = g[1] * (1.0f / 12.0f);                    \
        o[0] = g[0] * 0.25f;                                                                                 \
        o[1] = t - s;                                                                                        \
        o[2] = t + s;                                                                                        \
        o[3] = u + w;                                                                                        \
        o[4] = u - w;                                                                                        \
        o[5] = g[2];                                                                                         \
    }                                                                                                        \
    static inline void result_##type(type *o, const type *m)                                                 \
    {                                                                                                        \
        type a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];                             \
        o[0] = m[0] + a + c;                                                                                 \
        o[1] = b + 2.0f * d;                                                                                 \
        o[2] = a + 4.0f * c;                                                                                 \
        o[3] = b + 8.0f * d + m[5];                                                                          \
    }                                                                                                        \
    static inline void spread_##type(type *o, const type *y)                                                 \
    {                                                                                                        \
        type a = y[0] + y[2], b = y[1] + y[3], c = y[0] + 4.0f * y[2], d = 2.0f * y[1] + 8.0f * y[3];        \
        o[0] = y[0];                                                                                         \
        o[1] = a + b;                                                                                        \
        o[2] = a - b;                                                                                        \
        o[3] = c + d;                                                                                        \
        o[4] = c - d;                                                                                        \
        o[5] = y[3];                                                                                         \
    }                                                                                                        \
    static inline void gather_##type(type *o, const type *u)                                                 \
    {                                                                                                        \
        type a = u[1] + u[2], b = u[2] - u[1], c = u[3] + u[4], d = u[3] - u[4];                             \
        o[0] = u[0] * 0.25f - a * (1.0f / 6.0f) + c * (1.0f / 24.0f);                                        \
        o[1] = b * (1.0f / 6.0f) + d * (1.0f / 12.0f);                                                       \
        o[2] = (c - a) * (1.0f / 6.0f) + u[5];                                                               \
    }
#else
#define TRANSFORMS(type)                                                                                     \
    static inline void source_##type(type *o, const type *v)                                                 \
    {                                                                                                        \
        o[0] = v[0] - v[2];                                                                                  \
        o[1] = v[1] + v[2];                                                                                  \
        o[2] = v[2] - v[1];                                                                                  \
        o[3] = v[1] - v[3];                                                                                  \
    }                                                                                                        \
    static inline void window_##type(type *o, const type *g)                                                 \
    {                                                                                                        \
        o[0] = g[0];                                                                                         \
        o[1] = (g[0] + g[1] + g[2]) * 0.5f;                                                                  \
        o[2] = (g[0] - g[1] + g[2]) * 0.5f;                                                                  \
        o[3] = g[2];                                                                                         \
    }                                                                                                        \
    static inline void result_##type(type *o, const type *m)                                                 \
    {                                                                                                        \
        o[0] = m[0] + m[1] + m[2];                                                                           \
        o[1] = m[1] - m[2] - m[3];                                                                           \
    }                                                                                                        \
    static inline void spread_##type(type *o, const type *y)                                                 \
    {                                                                                                        \
        o[0] = y[0];                                                                                         \
        o[1] = y[0] + y[1];                                                                                  \
        o[2] = y[0] - y[1];                                                                                  \
        o[3] = -y[1];                                                                                        \
    }                                                                                                        \
    static inline void gather_##type(type *o, const type *u)                                                 \
    {                                                                                                        \
        o[0] = u[0] + (u[1] + u[2]) * 0.5f;                                                                  \
        o[1] = (u[1] - u[2]) * 0.5f;                                                                         \
        o[2] = (u[1] + u[2]) * 0.5f + u[3];                                                                  \
    }
#endif

TRANSFORMS(float)
#if LS == 1
TRANSFORMS(float16)
#endif

/* Applies a transform of `from` to `to` numbers to the columns and then to the rows of a square. LOAD_AT(y,
 * x) and STORE_AT(y, x, value) access the elements. */
#define BOTH_WAYS(type, transform, from, to, LOAD_AT, STORE_AT)                                              \
    do {                                                                                                     \
        type half_[to][from];                                                                                \
        UNROLL_FOR (uint x_ = 0; x_ < from; x_++) {                                                          \
            type in_[from], out_[to];                                                                        \
            UNROLL_FOR (uint y_ = 0; y_ < from; y_++)                                                        \
                in_[y_] = LOAD_AT(y_, x_);                                                                   \
            transform##_##type(out_, in_);                                                                   \
            UNROLL_FOR (uint y_ = 0; y_ < to; y_++)                                                          \
                half_[y_][x_] = out_[y_];                                                                    \
        }                                                                                                    \
        UNROLL_FOR (uint y_ = 0; y_ < to; y_++) {                                                            \
            type out_[to];                                                                                   \
            transform##_##type(out_, half_[y_]);                                                             \
            UNROLL_FOR (uint x_ = 0; x_ < to; x_++)                                                          \
                STORE_AT(y_, x_, out_[x_]);                                                                  \
        }                                                                                                    \
    } while (0)

/* Runs WORK(type, N) for the channels c of the item: LOADN and STOREN access N of them. */
#define LOAD_CHANNELS16(p, i) vload16(0, (p) + (i))
#define LOAD_CHANNELS1(p, i) ((p)[i])
#define STORE_CHANNELS16(p, i, v) vstore16((v), 0, (p) + (i))
#define STORE_CHANNELS1(p, i, v) ((p)[i] = (v))
#if LS == 1
#define ITEM(count)                                                                                          \
    ulong item = get_group_id(0);                                                                            \
    if (item >= (count))                                                                                     \
        return;                                                                                              \
    uint c = 0
#define EACH_CHANNEL(WORK)                                                                                   \
    for (; c + 16 <= channels; c += 16) {                                                                    \
        WORK(float16, 16)                                                                                    \
    }                                                                                                        \
    for (; c < channels; c++) {                                                                              \
        WORK(float, 1)                                                                                       \
    }
#else
#define ITEM(count)                                                                                          \
    ulong item = get_global_id(0) / channels;                                                                \
    if (item >= (count))                                                                                     \
        return;                                                                                              \
    uint c = (uint)(get_global_id(0) - item * channels)
#define EACH_CHANNEL(WORK) WORK(float, 1)
#endif

/* The item's tile: its image, its row and column among the tiles, and the image's first position
 * (corner). */
#define TILE                                                                                                 \
    ulong at = first + item, row_of_tiles = at / across;                                                     \
    uint tile_x = (uint)(at - row_of_tiles * across);                                                        \
    ulong image = row_of_tiles / down;                                                                       \
    uint tile_y = (uint)(row_of_tiles - image * down);                                                       \
    ulong corner = image * height * width

#define TILE_PARAMS uint height, uint width, uint channels, uint down, uint across, ulong first, ulong tiles

/* v (IN*IN, tiles, channels) = B' d B of each tile; padding_y, padding_x: how far the first window extends
 * beyond the image. */
KERNEL winograd_source(WRITE(v), READ(image_of), TILE_PARAMS, uint padding_y, uint padding_x)
{
    ITEM(tiles);
    TILE;
    v += v0 + item * channels;
    image_of += image_of0;
    uint y0 = tile_y * OUT - padding_y, x0 = tile_x * OUT - padding_x; /* wraps below 0 */
    bool whole = y0 < height && x0 < width && y0 + IN <= height && x0 + IN <= width;
#define PLACE_AT(y, x) (image_of + (corner + (ulong)(y0 + (y)) * width + (x0 + (x))) * channels)
#define INSIDE(N, type, y, x)                                                                                \
    (whole || (y0 + (y) < height && x0 + (x) < width) ? LOAD_CHANNELS##N(PLACE_AT(y, x), c) : (type)(0.0f))
#define SOURCE_LOAD16(y, x) INSIDE(16, float16, y, x)
#define SOURCE_LOAD1(y, x) INSIDE(1, float, y, x)
#define SOURCE_STORE16(y, x, value) STORE_CHANNELS16(v, ((y)*IN + (x)) * tiles * channels + c, value)
#define SOURCE_STORE1(y, x, value) STORE_CHANNELS1(v, ((y)*IN + (x)) * tiles * channels + c, value)
#define SOURCE(type, N) BOTH_WAYS(type, source, IN, IN, SOURCE_LOAD##N, SOURCE_STORE##N);
    EACH_CHANNEL(SOURCE)
}

/* u (IN*IN, rows, channels) = G g G' of the windows (rows, 3, 3, channels). */
KERNEL winograd_window(WRITE(u), READ(window), ulong rows, uint channels)
{
    ITEM(rows);
    u += u0 + item * channels;
    window += window0 + item * 9 * channels;
#if ROTATED
#define TAP(y, x) (8 - ((y)*3 + (x)))
#else
#define TAP(y, x) ((y)*3 + (x))
#endif
#define WINDOW_LOAD16(y, x) LOAD_CHANNELS16(window, TAP(y, x) * channels + c)
#define WINDOW_LOAD1(y, x) LOAD_CHANNELS1(window, TAP(y, x) * channels + c)
#define WINDOW_STORE16(y, x, value) STORE_CHANNELS16(u, ((y)*IN + (x)) * rows * channels + c, value)
#define WINDOW_STORE1(y, x, value) STORE_CHANNELS1(u, ((y)*IN + (x)) * rows * channels + c, value)
#define WINDOW(type, N) BOTH_WAYS(type, window, 3, IN, WINDOW_LOAD##N, WINDOW_STORE##N);
    EACH_CHANNEL(WINDOW)
}

#if HAS_BIAS
#define BIAS_ARG READ(bias),
#define WITH_BIAS(N, value) ((value) + LOAD_CHANNELS##N(bias + bias0, c))
#else
#define BIAS_ARG
#define WITH_BIAS(N, value) (value)
#endif

/* Moments (ocl_moments): count (tiles) is the number of the tile's positions, mean and square (tiles,
 * channels) their mean and the sum of squared distances from it. Both come from the distances to the tile's
 * first position. */
#if MOMENTS
#define MOMENT_ARGS WRITE(count), WRITE(mean), WRITE(square),
#define MOMENTS_BEGIN(type) type origin = (type)(0.0f), sum = (type)(0.0f), squares = (type)(0.0f);
#define MOMENTS_ADD(type, y, x, value)                                                                       \
    {                                                                                                        \
        if ((y) + (x) == 0)                                                                                  \
            origin = (value);                                                                                \
        type d_ = (value)-origin;                                                                            \
        sum += d_;                                                                                           \
        squares = fma(d_, d_, squares);                                                                      \
    }
#define MOMENTS_STORE(N)                                                                                     \
    STORE_CHANNELS##N(mean, c, origin + sum / places);                                                       \
    STORE_CHANNELS##N(square, c, squares - sum * (sum / places));
#else
#define MOMENT_ARGS
#define MOMENTS_BEGIN(type)
#define MOMENTS_ADD(type, y, x, value)
#define MOMENTS_STORE(N)
#endif

/* image_of (+)= A' m A of each tile (+ bias), m (IN*IN, tiles, channels). */
KERNEL winograd_result(GRAD(image_of), READ(m), BIAS_ARG MOMENT_ARGS TILE_PARAMS)
{
    ITEM(tiles);
    TILE;
    m += m0 + item * channels;
    image_of += image_of0;
    uint y0 = tile_y * OUT, x0 = tile_x * OUT;
#define RESULT_LOAD16(y, x) LOAD_CHANNELS16(m, ((y)*IN + (x)) * tiles * channels + c)
#define RESULT_LOAD1(y, x) LOAD_CHANNELS1(m, ((y)*IN + (x)) * tiles * channels + c)
#define RESULT_STORE(type, N, y, x, value)                                                                   \
    do {                                                                                                     \
        if (y0 + (y) < height && x0 + (x) < width) {                                                         \
            __global float *to_ = PLACE_AT(y, x);                                                            \
            type value_ = accumulate ? LOAD_CHANNELS##N(to_, c) + (value) : WITH_BIAS(N, value);             \
            STORE_CHANNELS##N(to_, c, value_);                                                               \
            MOMENTS_ADD(type, y, x, value_)                                                                  \
        }                                                                                                    \
    } while (0)
#define RESULT_STORE16(y, x, value) RESULT_STORE(float16, 16, y, x, value)
#define RESULT_STORE1(y, x, value) RESULT_STORE(float, 1, y, x, value)
#if MOMENTS
    float places = (float)(min(height - y0, (uint)OUT) * min(width - x0, (uint)OUT));
    if (c == 0)
        count[count0 + item] = places;
    mean += mean0 + item * channels;
    square += square0 + item * channels;
#endif
    /* the transform takes IN x IN numbers to OUT x OUT */
#define RESULT(type, N)                                                                                      \
    MOMENTS_BEGIN(type)                                                                                      \
    BOTH_WAYS(type, result, IN, OUT, RESULT_LOAD##N, RESULT_STORE##N);                                       \
    MOMENTS_STORE(N)
    EACH_CHANNEL(RESULT)
}

/* s (IN*IN, tiles, channels) = A dy A' of each tile. */
KERNEL winograd_spread(WRITE(s), READ(image_of), TILE_PARAMS)
{
    ITEM(tiles);
    TILE;
    s += s0 + item * channels;
    image_of += image_of0;
    uint y0 = tile_y * OUT, x0 = tile_x * OUT;
    bool whole = y0 + OUT <= height && x0 + OUT <= width;
#define SPREAD_LOAD16(y, x) INSIDE(16, float16, y, x)
#define SPREAD_LOAD1(y, x) INSIDE(1, float, y, x)
#define SPREAD_STORE16(y, x, value) STORE_CHANNELS16(s, ((y)*IN + (x)) * tiles * channels + c, value)
#define SPREAD_STORE1(y, x, value) STORE_CHANNELS1(s, ((y)*IN + (x)) * tiles * channels + c, value)
#define SPREAD(type, N) BOTH_WAYS(type, spread, OUT, IN, SPREAD_LOAD##N, SPREAD_STORE##N);
    EACH_CHANNEL(SPREAD)
}

/* window (rows, 3, 3, channels) (+)= G' u G, u (IN*IN, rows, channels). */
KERNEL winograd_gather(GRAD(window), READ(u), ulong rows, uint channels)
{
    ITEM(rows);
    u += u0 + item * channels;
    window += window0 + item * 9 * channels;
#define GATHER_LOAD16(y, x) LOAD_CHANNELS16(u, ((y)*IN + (x)) * rows * channels + c)
#define GATHER_LOAD1(y, x) LOAD_CHANNELS1(u, ((y)*IN + (x)) * rows * channels + c)
#define GATHER_STORE(N, y, x, value)                                                                         \
    do {                                                                                                     \
        __global float *to_ = window + ((y)*3 + (x)) * channels;                                             \
        STORE_CHANNELS##N(to_, c, accumulate ? LOAD_CHANNELS##N(to_, c) + (value) : (value));                \
    } while (0)
#define GATHER_STORE16(y, x, value) GATHER_STORE(16, y, x, value)
#define GATHER_STORE1(y, x, value) GATHER_STORE(1, y, x, value)
#define GATHER(type, N) BOTH_WAYS(type, gather, IN, 3, GATHER_LOAD##N, GATHER_STORE##N);
    EACH_CHANNEL(GATHER)
}
