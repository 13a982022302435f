/* SPDX-License-Identifier: Apache-2.0
 *
 * Resizes with a triangle filter whose width is at least two pixels of the source and two pixels of the
 * result, so that shrinking averages pixels (Pillow's BILINEAR; torchvision's antialias). Rows are
 * combined first, then columns, in f32; the result is rounded once. Every value is computed from its
 * inputs alone in a fixed order, so that it is the same on every machine with IEEE arithmetic. It knows
 * only pixels. */
#include <math.h>
#include <string.h>

#include "engine/data/pixels/image.h"

/* The weights with which source pixels first .. first+count-1 make one pixel of the result. */
typedef struct taps {
    int first, count;
    const float *weight;
} taps;

/* The largest number of source pixels that can affect one pixel of the result. */
static int most_taps(int from, int to)
{
    double factor = (double)from / to;
    return (int)ceil(factor > 1 ? factor : 1) * 2 + 1;
}

/* The taps of the result's pixel `at`. Weights are computed in double and add up to 1. */
static taps taps_of(int from, int to, int at, float *weight)
{
    double factor = (double)from / to, width = factor > 1 ? factor : 1, centre = (at + 0.5) * factor, sum = 0;
    int first = (int)(centre - width + 0.5), end = (int)(centre + width + 0.5);
    first = first < 0 ? 0 : first;
    end = end > from ? from : end;
    for (int pass = 0; pass < 2; pass++)
        for (int i = first; i < end; i++) {
            double distance = fabs((i + 0.5 - centre) / width), w = distance < 1 ? 1 - distance : 0;
            if (pass == 0)
                sum += w;
            else
                weight[i - first] = (float)(w / sum);
        }
    return (taps){first, end - first, weight};
}

/* Computes the sum of weight[k] * row[k][i] over up to four rows; sets out[i] to it if `begins`, else adds
 * it. */
static void add_rows(float *restrict out, size_t n, const uint8_t *const row[4], const float weight[4],
                     bool begins)
{
    const uint8_t *restrict a = row[0], *restrict b = row[1], *restrict c = row[2], *restrict d = row[3];
    float p = weight[0], q = weight[1], r = weight[2], s = weight[3];
    if (begins)
        for (size_t i = 0; i < n; i++)
            out[i] = ((float)a[i] * p + (float)b[i] * q) + ((float)c[i] * r + (float)d[i] * s);
    else
        for (size_t i = 0; i < n; i++)
            out[i] += ((float)a[i] * p + (float)b[i] * q) + ((float)c[i] * r + (float)d[i] * s);
}

/* Makes one row of the result before columns are combined, for the source columns [first, first +
 * columns). */
static void combine_rows(const clt_view *view, const taps *t, int first, int columns, float *out)
{
    for (int k = 0; k < t->count; k += 4) {
        const uint8_t *row[4];
        float weight[4];
        for (int j = 0; j < 4; j++) {
            int at = k + j < t->count ? k + j : k;
            row[j] = view->pixels + (size_t)(t->first + at) * view->stride + (size_t)first * CLT_PIXEL;
            weight[j] = k + j < t->count ? t->weight[k + j] : 0.0f;
        }
        add_rows(out, (size_t)columns * CLT_PIXEL, row, weight, k == 0);
    }
}

typedef float four __attribute__((vector_size(16)));

static uint8_t to_byte(float value)
{
    int v = (int)(value + 0.5f);
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Combines the columns of one row, which begins at source column `first`: column[i] has the taps of pixel
 * i. */
static void combine_columns(const float *row, int first, const taps *column, int count, uint8_t *red,
                            size_t plane, int step)
{
    for (int i = 0; i < count; i++, red += step) {
        const taps *t = &column[i];
        const float *at = row + (size_t)(t->first - first) * CLT_PIXEL;
        four sum = {0};
        for (int k = 0; k < t->count; k++) {
            four pixel;
            memcpy(&pixel, at + (size_t)k * CLT_PIXEL, sizeof pixel);
            sum += pixel * t->weight[k];
        }
        red[0] = to_byte(sum[0]);
        red[plane] = to_byte(sum[1]);
        red[2 * plane] = to_byte(sum[2]);
    }
}

static void copy_row(const uint8_t *from, int count, uint8_t *red, size_t plane, int step)
{
    for (int i = 0; i < count; i++, red += step, from += CLT_PIXEL) {
        red[0] = from[0];
        red[plane] = from[1];
        red[2 * plane] = from[2];
    }
}

/* The part [*begin, *end), relative to the window [at, at + size), that lies inside [0, limit). */
static void inside(int at, int size, int limit, int *begin, int *end)
{
    *begin = at < 0 ? (-at < size ? -at : size) : 0;
    *end = limit - at < size ? limit - at : size;
    *end = *end < *begin ? *begin : *end;
}

typedef struct resizing {
    const clt_view *view;
    int width, height;
    clt_box window;
    int left, right, top, bottom; /* the part of the window that lies inside the result */
    uint8_t *first_pixel;         /* place of column `left` in row 0 of the window */
    int step;                     /* step to the next column: 1, or -1 if mirrored */
    size_t plane;
} resizing;

static void copy(const resizing *r)
{
    for (int y = r->top; y < r->bottom; y++)
        copy_row(r->view->pixels + (size_t)(r->window.y + y) * r->view->stride +
                     (size_t)(r->window.x + r->left) * CLT_PIXEL,
                 r->right - r->left, r->first_pixel + (size_t)y * (size_t)r->window.width, r->plane, r->step);
}

static clt_status resize(const resizing *r)
{
    int count = r->right - r->left, most_x = most_taps(r->view->width, r->width),
        most_y = most_taps(r->view->height, r->height);
    size_t taps_bytes = ((size_t)count * sizeof(taps) + 63) / 64 * 64,
           weights = ((size_t)count * (size_t)most_x + (size_t)most_y) * sizeof(float);
    char *memory =
        clt_image_scratch(CLT_SCRATCH_RESIZE, taps_bytes + (weights + 63) / 64 * 64 +
                                                  (size_t)r->view->width * CLT_PIXEL * sizeof(float));
    if (!memory)
        return CLT_ENOMEM;
    taps *column = (taps *)(void *)memory;
    float *weight = (float *)(void *)(memory + taps_bytes);
    float *row_weight = weight + (size_t)count * (size_t)most_x;
    float *row = (float *)(void *)(memory + taps_bytes + (weights + 63) / 64 * 64);
    for (int i = 0; i < count; i++)
        column[i] =
            taps_of(r->view->width, r->width, r->window.x + r->left + i, weight + (size_t)i * (size_t)most_x);
    int first = column[0].first, end = column[count - 1].first + column[count - 1].count;
    for (int y = r->top; y < r->bottom; y++) {
        taps t = taps_of(r->view->height, r->height, r->window.y + y, row_weight);
        combine_rows(r->view, &t, first, end - first, row);
        combine_columns(row, first, column, count, r->first_pixel + (size_t)y * (size_t)r->window.width,
                        r->plane, r->step);
    }
    return CLT_OK;
}

clt_status clt_image_resize(const clt_view *view, int width, int height, clt_box window, bool flip,
                            uint8_t *planes)
{
    resizing r = {.view = view, .width = width, .height = height, .window = window, .step = flip ? -1 : 1};
    r.plane = (size_t)window.width * (size_t)window.height;
    inside(window.x, window.width, width, &r.left, &r.right);
    inside(window.y, window.height, height, &r.top, &r.bottom);
    if (r.left > 0 || r.top > 0 || r.right < window.width || r.bottom < window.height)
        memset(planes, 0, 3 * r.plane);
    if (r.left == r.right || r.top == r.bottom)
        return CLT_OK;
    r.first_pixel = planes + (flip ? window.width - 1 - r.left : r.left);
    if (width == view->width && height == view->height) {
        copy(&r);
        return CLT_OK;
    }
    return resize(&r);
}
