/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of samples: see data_page.h. Images are PNG files inside the page. */
#include "engine/report/data_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/image.h"
#include "engine/report/report_internal.h"

/* Appends bytes in base64 (RFC 4648). */
static void put_base64(clt_str *out, const char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t word = 0;
        char text[4];
        for (size_t k = 0; k < 3; k++)
            word = word << 8 | (i + k < n ? (uint8_t)bytes[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            text[k] = i + k <= n ? digits[word >> (18 - 6 * k) & 63] : '=';
        clt_str_append_n(out, text, 4);
    }
}

/* The size of an image in field x; channels 0: it is none. */
static void image_shape(const clt_source *source, int *channels, int *width, int *height)
{
    const clt_source_field *x = &source->fields[0];
    int n = x->shape.ndim;
    *channels = x->dtype != CLT_U8 || n < 2 || n > 3         ? 0
                : n == 2 || (n == 3 && x->shape.dim[0] == 1) ? 1
                : x->shape.dim[0] == 3                       ? 3
                                                             : 0;
    *width = n >= 2 ? (int)x->shape.dim[n - 1] : 0;
    *height = n >= 2 ? (int)x->shape.dim[n - 2] : 0;
}

static void put_class(clt_str *out, const clt_source *source, int64_t number)
{
    if (number >= 0 && number < source->n_class_names)
        clt_html_text_cut(out, source->class_names[number], 60);
    else
        clt_str_printf(out, "%lld", (long long)number);
}

static int64_t integer_of(const clt_source_field *field, const void *data)
{
    int32_t i32 = 0;
    if (field->dtype == CLT_U8)
        return *(const uint8_t *)data;
    memcpy(&i32, data, sizeof i32);
    return i32;
}

/* "cat", or "cat 70 % + dog" for a mixture. */
static void put_label(clt_str *out, const clt_source *source, void *const *data)
{
    const clt_source_field *y = source->n_fields > 1 ? &source->fields[1] : NULL;
    bool scalar = y && y->shape.ndim == 0 && (y->dtype == CLT_U8 || y->dtype == CLT_I32);
    float share = 1.0f;
    if (!scalar)
        return;
    put_class(out, source, integer_of(y, data[1]));
    if (source->n_fields < 4 || strcmp(source->fields[3].name, "share") != 0)
        return;
    memcpy(&share, data[3], sizeof share);
    if (share < 1) {
        clt_str_append(out, " ");
        clt_html_share(out, (double)share);
        clt_str_append(out, " + ");
        put_class(out, source, integer_of(&source->fields[2], data[2]));
    }
}

static clt_status put_sample(const clt_source *source, int64_t index, clt_draw draw, void *const *data,
                             clt_str *out)
{
    int channels, width, height;
    clt_str png = {0}, where = {0};
    image_shape(source, &channels, &width, &height);
    CLT_TRY(source->type->read(source, index, draw, data));
    clt_status status = clt_png_write(data[0], channels, width, height, &png);
    clt_str_append(out, "<figure class=\"card\"><img alt=\"\" src=\"data:image/png;base64,");
    if (status == CLT_OK)
        put_base64(out, png.text, png.length);
    if (source->type->locate)
        source->type->locate(source, index, 0, &where);
    clt_str_append(out, "\"><figcaption><b>");
    put_label(out, source, data);
    clt_str_append(out, "</b> <small>");
    clt_html_text_cut(out, where.text, 200);
    clt_str_append(out, "</small></figcaption></figure>\n");
    clt_str_free(&png);
    clt_str_free(&where);
    return status;
}

static clt_status put_samples(const clt_data_page *page, const clt_source *source, bool train, int count,
                              clt_str *out)
{
    void *data[CLT_MAX_FIELDS] = {NULL};
    int64_t n = count < source->samples ? count : source->samples;
    clt_status status = CLT_OK;
    clt_str_printf(out, "<h3>%s <small>", train ? "Training, as augmented in the first epoch" : "Evaluation");
    clt_html_text_cut(out, source->description, 500);
    clt_str_append(out, "</small></h3>\n<div class=\"samples\">\n");
    for (int f = 0; f < source->n_fields && status == CLT_OK; f++)
        status = clt_alloc(&data[f], 1, clt_source_field_bytes(&source->fields[f]), "a sample");
    for (int64_t i = 0; i < n && status == CLT_OK; i++) {
        uint64_t position = train ? (uint64_t)i : (uint64_t)(i * source->samples / n);
        clt_draw draw = train ? clt_sample_draw(position, source->samples, page->seed) : (clt_draw){0};
        status = put_sample(source,
                            clt_sample_index(position, source->samples, page->seed, train && page->shuffle),
                            draw, data, out);
    }
    for (int f = 0; f < source->n_fields; f++)
        free(data[f]);
    clt_str_append(out, "</div>\n");
    return status;
}

static clt_status check(const clt_source *source)
{
    int channels, width, height;
    char shape[CLT_SHAPE_TEXT];
    image_shape(source, &channels, &width, &height);
    if (channels == 0)
        CLT_FAIL(CLT_EUNSUPPORTED,
                 "showing samples: x is %s %s; images of bytes can be shown, (3,H,W), (1,H,W) or (H,W)",
                 clt_shape_text(&source->fields[0].shape, shape, sizeof shape),
                 clt_dtype_name(source->fields[0].dtype));
    return CLT_OK;
}

clt_status clt_data_page_write(const clt_data_page *page, clt_str *out)
{
    CLT_TRY(check(page->train));
    if (page->eval)
        CLT_TRY(check(page->eval));
    report_open_page(out, page->title,
                     ".samples { display: flex; flex-wrap: wrap; gap: 10px; margin: 0 0 18px; }\n"
                     ".samples figure { margin: 0; padding: 8px; width: 176px; }\n"
                     ".samples img { width: 160px; image-rendering: pixelated; display: block; }\n"
                     ".samples figcaption { overflow-wrap: anywhere; font-size: 13px; }\n");
    clt_str_append(out, "<h1>");
    clt_html_text_cut(out, page->title, 300);
    clt_str_append(out, "</h1>\n");
    CLT_TRY(put_samples(page, page->train, true, page->samples, out));
    if (page->eval)
        CLT_TRY(put_samples(page, page->eval, false, page->samples / 3 + 1, out));
    report_close_page(out, page->now, false);
    return clt_str_check(out);
}
