/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the page of samples. Its images are PNG files inside the page. */
#include "engine/report/page/data_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/report/page/data_text.h"
#include "engine/report/page/report_internal.h"

/* The window of gray levels is chosen from this number of samples, and about this number of values of each
 * sample. */
#define WINDOW_SAMPLES 12
#define WINDOW_VALUES 65536
#define AIR (-500) /* lower values are most likely Hounsfield units of air */

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

static void put_class(clt_str *out, const clt_source *source, int64_t number)
{
    if (number >= 0 && number < source->n_class_names)
        clt_html_text_cut(out, source->class_names[number], 60);
    else
        clt_str_printf(out, "%lld", (long long)number);
}

/* Appends the classes of a mask, without background: color, name, fraction of all voxels. */
static void put_mask_classes(clt_str *out, const clt_source *source, void *const *data)
{
    const clt_source_field *y = &source->fields[1];
    int64_t elements = clt_shape_elements(&y->shape), counts[256] = {0}, other = 0;
    for (int64_t i = 0; i < elements; i++) {
        double c = clt_number_at(data[1], y->dtype, i);
        if (c >= 0 && c < 256)
            counts[(int)c]++;
        else
            other++;
    }
    for (int c = 1; c < 256; c++) {
        uint8_t rgb[3];
        if (counts[c] == 0)
            continue;
        clt_picture_color(c, rgb);
        clt_str_printf(out, "<span class=\"color\" style=\"background:#%02x%02x%02x\"></span>", rgb[0],
                       rgb[1], rgb[2]);
        put_class(out, source, c);
        clt_str_append(out, " ");
        clt_html_share(out, (double)counts[c] / (double)elements);
        clt_str_append(out, " ");
    }
    if (counts[0] > 0 && counts[0] + other == elements)
        clt_str_append(out, "background ");
    if (other > 0)
        clt_str_printf(out, "<small>%lld element%s without a class</small>", (long long)other,
                       CLT_PLURAL(other));
}

/* Appends the label: "cat", or "cat 70 % + dog" for a mixture; the target of a regression; a
 * mask's classes. */
static void put_label(clt_str *out, const clt_source *source, bool masked, void *const *data)
{
    const clt_source_field *y = source->n_fields > 1 ? &source->fields[1] : NULL;
    float share = 1.0f;
    if (masked)
        put_mask_classes(out, source, data);
    if (!y || y->shape.ndim != 0)
        return;
    if (y->dtype == CLT_F32) {
        clt_html_number(out, clt_number_at(data[1], y->dtype, 0));
        return;
    }
    put_class(out, source, (int64_t)clt_number_at(data[1], y->dtype, 0));
    if (source->n_fields < 4 || strcmp(source->fields[3].name, "share") != 0)
        return;
    memcpy(&share, data[3], sizeof share);
    if (share < 1) {
        clt_str_append(out, " ");
        clt_html_share(out, (double)share);
        clt_str_append(out, " + ");
        put_class(out, source, (int64_t)clt_number_at(data[2], source->fields[2].dtype, 0));
    }
}

/* State of drawing the samples of one source. */
typedef struct drawing {
    const clt_source *source;
    clt_picture_form form;
    const clt_picture_window *window;
} drawing;

static clt_status put_picture(const drawing *d, void *const *data, const int64_t at[3], int axis,
                              int64_t channel, clt_str *out)
{
    CLT_SCOPED(clt_str) png = {0};
    CLT_TRY(clt_picture_draw(d->source, &d->form, data, d->window, at, axis, channel, &png));
    clt_str_append(out, "<img alt=\"\" src=\"data:image/png;base64,");
    put_base64(out, png.text, png.length);
    clt_str_append(out, "\">");
    return CLT_OK;
}

/* True if the samples are rows of tokens whose text is known. */
static bool is_text(const clt_source *source)
{
    return source->tokenizer && source->n_fields > 1 && source->fields[0].shape.ndim == 1 &&
           source->fields[1].shape.ndim == 1;
}

static clt_status put_text(const clt_source *source, int64_t index, clt_draw draw, void *const *data,
                           clt_str *out)
{
    CLT_SCOPED(clt_str) where = {0};
    CLT_TRY(source->type->read(source, index, draw, data));
    clt_str_append(out, "<figure class=\"card text\"><div>");
    CLT_TRY(clt_data_text_put(source, data, out));
    if (source->type->locate)
        source->type->locate(source, index, 0, &where);
    clt_html_in(out, "</div><figcaption><small>", where.text ? where.text : "", 200,
                "</small></figcaption></figure>\n");
    return CLT_OK;
}

static clt_status put_sample(const drawing *d, int64_t index, clt_draw draw, void *const *data, clt_str *out)
{
    const clt_picture_form *form = &d->form;
    bool volume = form->size[0] > 1;
    int64_t at[3], rows = form->color ? 1 : form->channels;
    CLT_SCOPED(clt_str) where = {0};
    CLT_TRY(d->source->type->read(d->source, index, draw, data));
    clt_picture_centre(d->source, form, data, at);
    rows = rows > CLT_PICTURE_CHANNELS ? CLT_PICTURE_CHANNELS : rows;
    clt_str_printf(out, "<figure class=\"card%s\">", volume ? " volume" : "");
    for (int64_t c = 0; c < rows; c++) {
        clt_str_append(out, c > 0 ? "<br>" : "");
        for (int axis = 0; axis < (volume ? 3 : 1); axis++)
            CLT_TRY(put_picture(d, data, at, axis, c, out));
    }
    if (d->source->type->locate)
        d->source->type->locate(d->source, index, 0, &where);
    clt_str_append(out, "<figcaption><b>");
    put_label(out, d->source, form->masked, data);
    clt_str_append(out, "</b> <small>");
    if (volume)
        clt_str_printf(out, "planes at depth %lld, height %lld, width %lld of %lld x %lld x %lld; ",
                       (long long)at[0], (long long)at[1], (long long)at[2], (long long)form->size[0],
                       (long long)form->size[1], (long long)form->size[2]);
    if (!form->color && form->channels > 1)
        clt_str_printf(out, "%lld of %lld channels, one below the other; ", (long long)rows,
                       (long long)form->channels);
    clt_html_text_cut(out, where.text ? where.text : "", 200);
    clt_str_append(out, "</small></figcaption></figure>\n");
    return CLT_OK;
}

/* The fields of a sample, in separate memory. */
typedef struct sample_data {
    void *field[CLT_MAX_FIELDS];
} sample_data;

static clt_status make_sample(const clt_source *source, sample_data *data)
{
    for (int f = 0; f < source->n_fields; f++)
        CLT_TRY(clt_alloc(&data->field[f], 1, clt_source_field_bytes(&source->fields[f]), "a sample"));
    return CLT_OK;
}

static void free_sample(sample_data *data)
{
    for (int f = 0; f < CLT_MAX_FIELDS; f++)
        free(data->field[f]);
}
CLT_SCOPED_VALUE(sample_data, free_sample)

static clt_status put_samples(const clt_data_page *page, const drawing *d, bool train, int count,
                              clt_str *out)
{
    const clt_source *source = d->source;
    CLT_SCOPED(sample_data) data = {0};
    int64_t n = count < source->samples ? count : source->samples;
    clt_str_printf(out, "<h3>%s <small>", train ? "Training, as augmented in the first epoch" : "Evaluation");
    clt_html_text_cut(out, source->description, 500);
    clt_str_append(out, "</small></h3>\n<div class=\"samples\">\n");
    CLT_TRY(make_sample(source, &data));
    for (int64_t i = 0; i < n; i++) {
        clt_draw draw = {0};
        int64_t index = i * source->samples / n;
        if (train)
            index = clt_source_sample(source, (uint64_t)i, page->seed, page->shuffle, &draw);
        CLT_TRY(is_text(source) ? put_text(source, index, draw, data.field, out)
                                : put_sample(d, index, draw, data.field, out));
    }
    clt_str_append(out, "</div>\n");
    return CLT_OK;
}

/* Chooses the window of gray levels from values of the first samples. */
static clt_status find_window(const clt_data_page *page, clt_picture_window *window)
{
    const clt_source *source = page->train;
    const clt_source_field *x = &source->fields[0];
    int64_t n = source->samples < WINDOW_SAMPLES ? source->samples : WINDOW_SAMPLES, count = 0;
    int64_t elements = clt_shape_elements(&x->shape);
    /* the distance is odd: otherwise all rows whose length is a power of two would be read at the same
     * place */
    int64_t every = elements / WINDOW_VALUES | 1;
    CLT_SCOPED(sample_data) data = {0};
    CLT_FREED float *values = NULL;
    CLT_TRY(clt_alloc(&data.field[0], 1, clt_source_field_bytes(x), "a sample"));
    CLT_TRY(clt_alloc(&values, (size_t)(n * (elements / every + 1)), sizeof *values, "values"));
    for (int64_t i = 0; i < n; i++) {
        clt_draw draw;
        int64_t index = clt_source_sample(source, (uint64_t)i, page->seed, page->shuffle, &draw);
        CLT_TRY(source->type->read(source, index, draw, data.field));
        for (int64_t k = 0; k < elements; k += every)
            values[count++] = (float)clt_number_at(data.field[0], x->dtype, k);
    }
    *window = clt_picture_window_of(values, count);
    return CLT_OK;
}

static void put_window(const clt_data_page *page, const clt_picture_window *window, clt_str *out)
{
    clt_str_append(out, "<p>Black is ");
    clt_html_number(out, window->low);
    clt_str_append(out, " or below, white ");
    clt_html_number(out, window->high);
    clt_str_append(out, " or above: ");
    clt_html_text(out, page->window.known
                           ? page->window_from
                           : "all but the 0.5 % lowest and highest values of the first samples");
    clt_str_append(out, ". Rows and columns are in the order of memory.");
    if (!page->window.known && window->low <= AIR)
        clt_str_append(out, " If these are Hounsfield units of CT, --window=-160,240 shows soft tissue, "
                            "--window=-1350,150 lungs, --window=-450,1050 bones.");
    clt_str_append(out, "</p>\n");
}

clt_status clt_data_page_write(const clt_data_page *page, clt_str *out)
{
    clt_picture_window window = page->window;
    drawing train = {.source = page->train, .window = &window},
            eval = {.source = page->eval, .window = &window};
    bool text = is_text(page->train);
    if (!text)
        CLT_TRY(clt_picture_form_of(page->train, &train.form));
    if (page->eval && !text)
        CLT_TRY(clt_picture_form_of(page->eval, &eval.form));
    if (!window.known && !train.form.bytes && !text)
        CLT_TRY(find_window(page, &window));
    report_open_page(
        out, page->title,
        ".samples { display: flex; flex-wrap: wrap; gap: 10px; margin: 0 0 18px; }\n"
        ".samples figure { margin: 0; padding: 8px; width: 176px; }\n"
        ".samples figure.volume { width: 496px; }\n"
        ".samples figure.text { width: 100%; }\n"
        ".samples figure.text div { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 14px; }\n"
        ".samples img { width: 160px; image-rendering: pixelated; display: block; }\n"
        ".samples .volume img { display: inline-block; vertical-align: top; margin-right: 4px; }\n"
        ".samples .color { display: inline-block; width: 10px; height: 10px; margin-right: 4px; }\n"
        ".samples figcaption { overflow-wrap: anywhere; font-size: 13px; }\n");
    clt_html_in(out, "<h1>", page->title, 300, "</h1>\n");
    if (window.known && !text)
        put_window(page, &window, out);
    if (text)
        clt_str_append(out, "<p>Marked text is trained: the model learns to write it.</p>\n");
    CLT_TRY(put_samples(page, &train, true, page->samples, out));
    if (page->eval)
        CLT_TRY(put_samples(page, &eval, false, page->samples / 3 + 1, out));
    report_close_page(out, page->now, false);
    return clt_str_check(out);
}
