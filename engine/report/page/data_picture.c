/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws samples as PNG pictures: gray levels or colors, and tinted regions of a mask. */
#include "engine/report/page/data_picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/pixels/image.h"

/* Fraction of a class's color in the pixels inside its region; pixels of the border have the color alone. */
#define TINT 0.25

/* Colors that color-blind readers can distinguish, too (Okabe and Ito, 2008). */
static const uint8_t palette[][3] = {{230, 159, 0}, {86, 180, 233},  {0, 158, 115}, {240, 228, 66},
                                     {213, 94, 0},  {204, 121, 167}, {0, 114, 178}};

void clt_picture_color(int64_t class_number, uint8_t rgb[3])
{
    int64_t n = (int64_t)(sizeof palette / sizeof palette[0]);
    memcpy(rgb, palette[(class_number > 0 ? class_number - 1 : 0) % n], 3);
}

static void set_form(clt_picture_form *f, int64_t channels, const int64_t *size, int n_size)
{
    f->channels = channels;
    f->size[0] = n_size == 3 ? size[0] : 1;
    f->size[1] = size[n_size - 2];
    f->size[2] = size[n_size - 1];
    f->step[2] = 1;
    f->step[1] = f->size[2];
    f->step[0] = f->size[1] * f->size[2];
    f->channel_step = f->step[0] * f->size[0];
}

clt_status clt_picture_form_of(const clt_source *source, clt_picture_form *out)
{
    const clt_source_field *x = &source->fields[0], *y = source->n_fields > 1 ? &source->fields[1] : NULL;
    const int64_t *dim = x->shape.dim;
    int n = x->shape.ndim;
    char shape[CLT_SHAPE_TEXT];
    bool first = n == 3 && (dim[0] == 1 || dim[0] == 3), last = n == 3 && !first && dim[2] == 3;
    *out = (clt_picture_form){.bytes = x->dtype == CLT_U8};
    bool fits = n >= 2 && n <= 4;
    for (int i = n == 4 || first; i < n; i++) /* checks sizes only; the axis of channels precedes them */
        fits = fits && dim[i] <= CLT_IMAGE_MAX_SIDE;
    if (!fits)
        CLT_FAIL(
            CLT_EUNSUPPORTED,
            "showing samples: x is %s %s, which cannot be shown as a picture; images are (H,W), (1,H,W), "
            "(3,H,W) or (H,W,3), volumes (D,H,W) or (C,D,H,W), with sides of at most %d",
            clt_shape_text(&x->shape, shape, sizeof shape), clt_dtype_name(x->dtype), CLT_IMAGE_MAX_SIDE);
    if (n == 4 || first)
        set_form(out, dim[0], dim + 1, n - 1);
    else
        set_form(out, last ? 3 : 1, dim, last ? 2 : n);
    if (last) {
        out->step[2] = 3;
        out->step[1] = 3 * dim[1];
        out->channel_step = 1;
    }
    out->color = out->channels == 3 && out->size[0] == 1;
    int64_t pixels = out->size[0] * out->size[1] * out->size[2];
    bool classes = y && (y->dtype == CLT_U8 || y->dtype == CLT_I32) && y->shape.ndim >= 2;
    out->masked = classes && clt_shape_elements(&y->shape) == pixels &&
                  y->shape.dim[y->shape.ndim - 1] == out->size[2] &&
                  y->shape.dim[y->shape.ndim - 2] == out->size[1];
    return CLT_OK;
}

/* --- gray levels --- */

static int compare_values(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

clt_picture_window clt_picture_window_of(float *values, int64_t count)
{
    if (count < 1)
        return (clt_picture_window){true, 0, 1};
    qsort(values, (size_t)count, sizeof *values, compare_values);
    int64_t cut = (count - 1) / 200;
    clt_picture_window w = {true, (double)values[cut], (double)values[count - 1 - cut]};
    if (!(w.low < w.high))
        w = (clt_picture_window){true, (double)values[0], (double)values[count - 1]};
    if (!(w.low < w.high))
        w.high = w.low + fmax(1, fabs(w.low)); /* adding 1 to a large value may change nothing */
    return w;
}

static uint8_t level(const clt_picture_window *w, double value)
{
    double part = (value - w->low) / (w->high - w->low);
    return (uint8_t)(part <= 0 ? 0 : part >= 1 ? 255 : part * 255 + 0.5);
}

/* --- planes --- */

static int64_t class_at(const clt_source *source, void *const *data, int64_t i)
{
    return (int64_t)clt_number_at(data[1], source->fields[1].dtype, i);
}

void clt_picture_centre(const clt_source *source, const clt_picture_form *form, void *const *data,
                        int64_t at[3])
{
    const int64_t *size = form->size;
    int64_t *counts = NULL;
    for (int k = 0; k < 3; k++)
        at[k] = size[k] / 2;
    if (!form->masked)
        return;
    if (clt_alloc(&counts, (size_t)(size[0] + size[1] + size[2]), sizeof *counts, "planes") != CLT_OK) {
        clt_error_clear(); /* without memory for the counts, the middle planes are shown */
        return;
    }
    int64_t *of[3] = {counts, counts + size[0], counts + size[0] + size[1]}, i = 0;
    for (int64_t z = 0; z < size[0]; z++)
        for (int64_t y = 0; y < size[1]; y++)
            for (int64_t x = 0; x < size[2]; x++)
                if (class_at(source, data, i++) > 0) {
                    of[0][z]++;
                    of[1][y]++;
                    of[2][x]++;
                }
    for (int k = 0; k < 3; k++) {
        int64_t most = 0;
        for (int64_t p = 0; p < size[k]; p++)
            if (of[k][p] > most) {
                most = of[k][p];
                at[k] = p;
            }
    }
    free(counts);
}

typedef struct picture_plane {
    const clt_source *source;
    const clt_picture_form *form;
    void *const *data;
    int64_t at[3];
    int row, column; /* the axes along which rows and columns run */
} picture_plane;

/* The class of a pixel. A pixel outside of the plane has the class of the nearest pixel inside. */
static int64_t class_of(const picture_plane *p, int64_t row, int64_t column)
{
    const int64_t *size = p->form->size;
    int64_t v[3];
    memcpy(v, p->at, sizeof v);
    v[p->row] = row < 0 ? 0 : row >= size[p->row] ? size[p->row] - 1 : row;
    v[p->column] = column < 0 ? 0 : column >= size[p->column] ? size[p->column] - 1 : column;
    return class_at(p->source, p->data, (v[0] * size[1] + v[1]) * size[2] + v[2]);
}

/* Colors a pixel that belongs to a region of the mask: fully on the region's border, slightly inside. */
static void tint(const picture_plane *p, int64_t row, int64_t column, uint8_t *rgb, size_t plane)
{
    int64_t c = class_of(p, row, column);
    uint8_t color[3];
    if (c <= 0)
        return;
    bool border = class_of(p, row - 1, column) != c || class_of(p, row + 1, column) != c ||
                  class_of(p, row, column - 1) != c || class_of(p, row, column + 1) != c;
    double part = border ? 1 : TINT;
    clt_picture_color(c, color);
    for (int k = 0; k < 3; k++)
        rgb[(size_t)k * plane] = (uint8_t)(part * color[k] + (1 - part) * rgb[(size_t)k * plane] + 0.5);
}

clt_status clt_picture_draw(const clt_source *source, const clt_picture_form *form, void *const *data,
                            const clt_picture_window *window, const int64_t at[3], int axis, int64_t channel,
                            clt_str *out)
{
    static const clt_picture_window bytes = {true, 0, 255};
    const clt_picture_window *w = window->known ? window : &bytes;
    picture_plane p = {source, form, data, {at[0], at[1], at[2]}, axis == 0 ? 1 : 0, axis == 2 ? 1 : 2};
    int64_t height = form->size[p.row], width = form->size[p.column];
    size_t plane = (size_t)height * (size_t)width;
    uint8_t *rgb = NULL;
    int planes = form->color || form->masked ? 3 : 1;
    CLT_TRY(clt_alloc(&rgb, plane, (size_t)planes, "a picture"));
    for (int64_t r = 0; r < height; r++)
        for (int64_t c = 0; c < width; c++) {
            size_t i = (size_t)(r * width + c);
            p.at[p.row] = r;
            p.at[p.column] = c;
            int64_t from = p.at[0] * form->step[0] + p.at[1] * form->step[1] + p.at[2] * form->step[2];
            for (int k = 0; k < planes; k++) {
                int64_t of = form->color ? k : channel;
                rgb[(size_t)k * plane + i] =
                    level(w, clt_number_at(data[0], source->fields[0].dtype, from + of * form->channel_step));
            }
            if (form->masked)
                tint(&p, r, c, rgb + i, plane);
        }
    clt_status status = clt_png_write(rgb, planes, (int)width, (int)height, out);
    free(rgb);
    return status;
}
