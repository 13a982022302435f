/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes JPEG with libjpeg-turbo: whole images or regions of them. The library reports errors to a callback,
 * which jumps out of the library so that a status is returned. Only this file calls libjpeg. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "engine/data/pixels/image.h"

/* Limit of scans. Progressive files may have any number of them, and each takes a pass over the image;
 * encoders make about ten. */
#define MAX_SCANS 200
/* Number of columns to decode on each side of a region, since colours are interpolated from neighbouring
 * columns. */
#define MARGIN 32

typedef struct jpeg_decoder {
    struct jpeg_decompress_struct info; /* first member, since the library passes pointers to it */
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    char text[JMSG_LENGTH_MAX];
} jpeg_decoder;

static void leave(j_common_ptr info)
{
    jpeg_decoder *d = (jpeg_decoder *)info;
    info->err->format_message(info, d->text);
    longjmp(d->jump, 1);
}

/* A warning of the library is an error here if the library continues with wrong or missing pixels. Other
 * warnings, such as about unused bytes between markers, concern no pixel. */
static void on_message(j_common_ptr info, int level)
{
    if (level >= 0)
        return;
    switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
        leave(info);
        break;
    default:
        break;
    }
}

static void no_output(j_common_ptr info)
{
    (void)info;
}

static void on_progress(j_common_ptr info)
{
    jpeg_decoder *d = (jpeg_decoder *)info;
    if (info->is_decompressor && d->info.input_scan_number > MAX_SCANS) {
        snprintf(d->text, sizeof d->text, "more than %d scans", MAX_SCANS);
        longjmp(d->jump, 1);
    }
}

void clt_jpeg_forget(void *kept)
{
    jpeg_decoder *d = kept;
    if (!d)
        return;
    jpeg_destroy_decompress(&d->info);
    free(d);
}

/* The calling thread's decoder, which is made at its first use. */
static clt_status decoder_of_thread(jpeg_decoder **out)
{
    void **kept = clt_image_kept_decoder();
    *out = NULL;
    if (!kept)
        return CLT_ENOMEM;
    if (!*kept) {
        jpeg_decoder *d;
        CLT_TRY(clt_alloc(&d, 1, sizeof *d, "a JPEG decoder"));
        d->info.err = jpeg_std_error(&d->errors);
        d->errors.error_exit = leave;
        d->errors.emit_message = on_message;
        d->errors.output_message = no_output;
        if (setjmp(d->jump)) {
            clt_status status =
                clt_fail(CLT_ENOMEM, __FILE__, __LINE__, "making a JPEG decoder: %s", d->text);
            clt_jpeg_forget(d);
            return status;
        }
        jpeg_create_decompress(&d->info);
        d->progress.progress_monitor = on_progress;
        d->info.progress = &d->progress;
        *kept = d;
    }
    *out = *kept;
    return CLT_OK;
}

/* Sets the error after a jump out of the library, and makes the decoder usable again. */
static clt_status failed(jpeg_decoder *d)
{
    bool no_memory = d->errors.msg_code == JERR_OUT_OF_MEMORY;
    jpeg_abort_decompress(&d->info);
    d->errors.msg_code = 0;
    if (no_memory)
        CLT_FAIL(CLT_ENOMEM, "decoding a JPEG: out of host memory");
    CLT_FAIL(CLT_EDATA, "damaged JPEG: %s", d->text);
}

clt_status clt_jpeg_header(clt_encoded *image)
{
    jpeg_decoder *d;
    CLT_TRY(decoder_of_thread(&d));
    if (setjmp(d->jump))
        return failed(d);
    jpeg_mem_src(&d->info, image->bytes, image->size);
    (void)jpeg_read_header(&d->info, TRUE);
    int64_t width = d->info.image_width, height = d->info.image_height;
    jpeg_abort_decompress(&d->info);
    CLT_TRY(clt_image_check_size(width, height));
    image->width = (int)width;
    image->height = (int)height;
    return CLT_OK;
}

/* True if the marker that ends a JPEG is near the end of the file. */
static bool has_end(const clt_encoded *image)
{
    const uint8_t *b = image->bytes;
    size_t first = image->size > 4096 ? image->size - 4096 : 0;
    for (size_t i = image->size - 1; i > first; i--)
        if (b[i] == 0xd9 && b[i - 1] == 0xff)
            return true;
    return false;
}

/* Converts the four inks of CMYK, which are stored inverted, to colours, as Pillow does. */
static void from_cmyk(uint8_t *row, int width)
{
    for (int i = 0; i < width; i++) {
        uint8_t *p = row + CLT_PIXEL * (size_t)i;
        unsigned black = p[3];
        for (int c = 0; c < 3; c++) {
            unsigned ink = 255u - p[c], t = ink * black + 128, part = ((t >> 8) + t) >> 8;
            p[c] = (uint8_t)(part > black ? 0 : black - part);
        }
        p[3] = 255;
    }
}

static void set_up(struct jpeg_decompress_struct *info, int shrink)
{
    bool inks = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
    info->out_color_space = inks ? JCS_CMYK : JCS_EXT_RGBX;
    info->dct_method = JDCT_ISLOW;
    info->do_fancy_upsampling = TRUE;
    info->scale_num = 1;
    info->scale_denom = (unsigned)shrink;
}

/* The region of the box, in the coordinates of an output that is `shrink` times smaller. */
static clt_box shrunk(clt_box box, int shrink, const struct jpeg_decompress_struct *info)
{
    int right = (box.x + box.width + shrink - 1) / shrink,
        bottom = (box.y + box.height + shrink - 1) / shrink;
    int x = box.x / shrink, y = box.y / shrink;
    right = right < (int)info->output_width ? right : (int)info->output_width;
    bottom = bottom < (int)info->output_height ? bottom : (int)info->output_height;
    x = x < right ? x : right - 1;
    y = y < bottom ? y : bottom - 1;
    return (clt_box){x, y, right - x, bottom - y};
}

/* Decodes the region's rows into memory with `stride` bytes for each row. Only the columns that were set up
 * are decoded. */
static void read_rows(struct jpeg_decompress_struct *info, clt_box region, uint8_t *pixels, size_t stride)
{
    if (region.y > 0)
        (void)jpeg_skip_scanlines(info, (JDIMENSION)region.y);
    for (int done = 0; done < region.height;) {
        JSAMPROW rows[8];
        int n = region.height - done < 8 ? region.height - done : 8;
        for (int i = 0; i < n; i++)
            rows[i] = pixels + (size_t)(done + i) * stride;
        done += (int)jpeg_read_scanlines(info, rows, (JDIMENSION)n);
    }
}

clt_status clt_jpeg_decode(const clt_encoded *image, clt_box box, int shrink, clt_view *out)
{
    jpeg_decoder *d;
    CLT_TRY(decoder_of_thread(&d));
    struct jpeg_decompress_struct *info = &d->info;
    if (setjmp(d->jump))
        return failed(d);
    jpeg_mem_src(info, image->bytes, image->size);
    (void)jpeg_read_header(info, TRUE);
    set_up(info, shrink);
    (void)jpeg_start_decompress(info);
    clt_box region = shrunk(box, shrink, info);
    bool whole = !has_end(image) || image->width <= 2 * MARGIN;
    JDIMENSION left = 0, columns = info->output_width;
    if (!whole && info->out_color_space != JCS_CMYK && region.width + 2 * MARGIN < (int)info->output_width) {
        left = (JDIMENSION)(region.x > MARGIN ? region.x - MARGIN : 0);
        columns = (JDIMENSION)(region.x + region.width + MARGIN) - left;
        if (columns > info->output_width - left)
            columns = info->output_width - left;
        jpeg_crop_scanline(info, &left, &columns);
    }
    if (whole) {
        clt_box all = {0, 0, (int)info->output_width, (int)info->output_height};
        size_t stride = (size_t)all.width * CLT_PIXEL;
        uint8_t *pixels = clt_image_scratch(CLT_SCRATCH_PIXELS, stride * (size_t)all.height);
        if (!pixels) {
            jpeg_abort_decompress(info);
            return CLT_ENOMEM;
        }
        read_rows(info, all, pixels, stride);
        *out = (clt_view){pixels, all.width, all.height, stride};
    } else {
        size_t stride = (size_t)columns * CLT_PIXEL;
        uint8_t *pixels = clt_image_scratch(CLT_SCRATCH_PIXELS, stride * (size_t)region.height);
        if (!pixels) {
            jpeg_abort_decompress(info);
            return CLT_ENOMEM;
        }
        read_rows(info, region, pixels, stride);
        *out = (clt_view){pixels, (int)columns, region.height, stride};
    }
    if (info->out_color_space == JCS_CMYK)
        for (int y = 0; y < out->height; y++)
            from_cmyk((uint8_t *)(uintptr_t)out->pixels + (size_t)y * out->stride, out->width);
    if (info->output_scanline >= info->output_height)
        (void)jpeg_finish_decompress(info);
    else
        jpeg_abort_decompress(info);
    *out = clt_view_part(out,
                         (clt_box){region.x - (int)left, whole ? region.y : 0, region.width, region.height});
    return CLT_OK;
}
