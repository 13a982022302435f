/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes PNG files in memory to pixels and writes planes to PNG files with libpng. Chunks that do not affect
 * pixels (texts, profiles, transparency) are skipped. Only this file calls libpng. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "engine/data/pixels/image.h"

#define CHUNK_LIMIT ((png_alloc_size_t)8 << 20) /* limit for chunks that are kept in memory, in bytes */
#define DEFLATE_MOST 1032                       /* the largest factor by which deflate can compress */

typedef struct png_reader {
    png_structp png;
    png_infop info;
    const uint8_t *bytes;
    size_t size, at;
    bool no_memory; /* an allocation has failed; the library's messages for this vary */
    jmp_buf jump;
    char text[160];
} png_reader;

static png_voidp allocate(png_structp png, png_alloc_size_t size)
{
    png_reader *r = png_get_mem_ptr(png);
    void *memory = malloc(size);
    r->no_memory = r->no_memory || !memory;
    return memory;
}

static void release(png_structp png, png_voidp memory)
{
    (void)png;
    free(memory);
}

static void leave(png_structp png, png_const_charp text)
{
    png_reader *r = png_get_error_ptr(png);
    snprintf(r->text, sizeof r->text, "%s", text);
    longjmp(r->jump, 1);
}

/* The library only warns about a wrong checksum of the pixels; here it is an error. */
static void on_warning(png_structp png, png_const_charp text)
{
    if (strstr(text, "IDAT"))
        leave(png, text);
}

static void read_bytes(png_structp png, png_bytep to, size_t n)
{
    png_reader *r = png_get_io_ptr(png);
    if (n > r->size - r->at)
        png_error(png, "the file is cut off");
    memcpy(to, r->bytes + r->at, n);
    r->at += n;
}

static clt_status failed(png_reader *r)
{
    png_destroy_read_struct(&r->png, &r->info, NULL);
    if (r->no_memory)
        CLT_FAIL(CLT_ENOMEM, "decoding a PNG: out of host memory");
    CLT_FAIL(CLT_EDATA, "damaged PNG: %s", r->text);
}

static clt_status start(png_reader *r, const clt_encoded *image)
{
    *r = (png_reader){.bytes = image->bytes, .size = image->size};
    r->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, r, leave, on_warning, r, allocate, release);
    r->info = r->png ? png_create_info_struct(r->png) : NULL;
    if (!r->info) {
        png_destroy_read_struct(&r->png, &r->info, NULL);
        CLT_FAIL(CLT_ENOMEM, "making a PNG decoder: out of host memory");
    }
    return CLT_OK;
}

static void read_info(png_reader *r)
{
    png_set_read_fn(r->png, r, read_bytes);
    png_set_user_limits(r->png, CLT_IMAGE_MAX_SIDE, CLT_IMAGE_MAX_SIDE);
    png_set_chunk_malloc_max(r->png, CHUNK_LIMIT);
    /* skip all known chunks that do not affect pixels */
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(r->png, r->info);
}

/* Refuses a size in the header that needs more pixels than the file's bytes can hold. */
static clt_status check_claim(const clt_encoded *image, int64_t width, int64_t height, size_t row)
{
    CLT_TRY(clt_image_check_size(width, height));
    if ((uint64_t)height * row / DEFLATE_MOST > image->size)
        CLT_FAIL(CLT_EDATA,
                 "damaged PNG: its header claims %lld x %lld pixels, more than its %zu bytes can hold",
                 (long long)width, (long long)height, image->size);
    return CLT_OK;
}

clt_status clt_png_header(clt_encoded *image)
{
    png_reader r;
    CLT_TRY(start(&r, image));
    if (setjmp(r.jump))
        return failed(&r);
    read_info(&r);
    int64_t width = png_get_image_width(r.png, r.info), height = png_get_image_height(r.png, r.info);
    size_t row = png_get_rowbytes(r.png, r.info);
    image->sixteen = png_get_bit_depth(r.png, r.info) == 16;
    png_destroy_read_struct(&r.png, &r.info, NULL);
    CLT_TRY(check_claim(image, width, height, row));
    image->width = (int)width;
    image->height = (int)height;
    return CLT_OK;
}

clt_status clt_png_decode(const clt_encoded *image, clt_box box, clt_view *out)
{
    png_reader r;
    size_t stride = (size_t)image->width * CLT_PIXEL, rows_bytes = (size_t)image->height * sizeof(png_bytep);
    uint8_t *pixels = clt_image_scratch(CLT_SCRATCH_PIXELS, stride * (size_t)image->height);
    png_bytep *rows = clt_image_scratch(CLT_SCRATCH_ROWS, rows_bytes);
    if (!pixels || !rows)
        return CLT_ENOMEM;
    for (int y = 0; y < image->height; y++)
        rows[y] = pixels + (size_t)y * stride;
    CLT_TRY(start(&r, image));
    if (setjmp(r.jump))
        return failed(&r);
    read_info(&r);
    if (png_get_bit_depth(r.png, r.info) == 16)
        png_set_strip_16(r.png); /* keep the upper byte, as Pillow does */
    if (png_get_color_type(r.png, r.info) == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(r.png);
    if (!(png_get_color_type(r.png, r.info) & PNG_COLOR_MASK_COLOR)) {
        png_set_expand_gray_1_2_4_to_8(r.png);
        png_set_gray_to_rgb(r.png);
    }
    png_set_strip_alpha(r.png);
    png_set_filler(r.png, 255, PNG_FILLER_AFTER);
    (void)png_set_interlace_handling(r.png);
    png_read_update_info(r.png, r.info);
    if (png_get_rowbytes(r.png, r.info) != stride)
        png_error(r.png, "its rows do not have the size that the header claims");
    png_read_image(r.png, rows);
    png_read_end(r.png, NULL);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    clt_view all = {pixels, image->width, image->height, stride};
    *out = clt_view_part(&all, box);
    return CLT_OK;
}

/* --- writing --- */

typedef struct png_writer {
    clt_str *out;
    jmp_buf jump;
    char text[160];
} png_writer;

static void leave_writing(png_structp png, png_const_charp text)
{
    png_writer *w = png_get_error_ptr(png);
    snprintf(w->text, sizeof w->text, "%s", text);
    longjmp(w->jump, 1);
}

static void no_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void write_bytes(png_structp png, png_bytep from, size_t n)
{
    png_writer *w = png_get_io_ptr(png);
    clt_str_append_n(w->out, (const char *)from, n);
}

static void no_flush(png_structp png)
{
    (void)png;
}

clt_status clt_png_write(const uint8_t *planes, int channels, int width, int height, clt_str *out)
{
    png_writer w = {.out = out};
    size_t plane = (size_t)width * (size_t)height;
    uint8_t *row = clt_image_scratch(CLT_SCRATCH_ROWS, (size_t)width * 3);
    if (!row)
        return CLT_ENOMEM;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &w, leave_writing, no_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        png_destroy_write_struct(&png, &info);
        CLT_FAIL(CLT_ENOMEM, "making a PNG encoder: out of host memory");
    }
    if (setjmp(w.jump)) {
        png_destroy_write_struct(&png, &info);
        CLT_FAIL(CLT_EINTERNAL, "writing a PNG of %d x %d: %s", width, height, w.text);
    }
    png_set_write_fn(png, &w, write_bytes, no_flush);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, 8,
                 channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++)
                row[x * channels + c] = planes[(size_t)c * plane + (size_t)y * (size_t)width + (size_t)x];
        png_write_row(png, row);
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return clt_str_check(out);
}
