/* SPDX-License-Identifier: Apache-2.0
 *
 * Images: JPEG and PNG in memory become pixels of four bytes (red, green, blue, unused), as Pillow's
 * convert("RGB") makes them; regions of them are resized as Pillow's BILINEAR does. The format of a file
 * follows from its content, never from its name. Every thread has its own memory, which is reused and as
 * large as its largest image needs. It knows nothing of data sets. */
#ifndef ENGINE_DATA_PIXELS_IMAGE_H
#define ENGINE_DATA_PIXELS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/mem.h"
#include "engine/base/status.h"

/* Larger images are refused before anything is allocated for them. */
#define CLT_IMAGE_MAX_PIXELS (INT64_C(1) << 27)
#define CLT_IMAGE_MAX_SIDE 65500
#define CLT_PIXEL 4 /* bytes of a pixel */

typedef struct clt_box {
    int x, y, width, height;
} clt_box;

/* Pixels in memory of the calling thread or of the caller; rows are `stride` bytes apart. */
typedef struct clt_view {
    const uint8_t *pixels;
    int width, height;
    size_t stride;
} clt_view;

/* Memory of the calling thread, valid until the thread requests the same `which` again, or ends. A new
 * request loses the content if the memory is reallocated. NULL: out of memory, with the error set. */
enum {
    CLT_SCRATCH_FILE,
    CLT_SCRATCH_PIXELS,
    CLT_SCRATCH_ROWS,
    CLT_SCRATCH_RESIZE,
    CLT_SCRATCH_SAMPLE,
    CLT_SCRATCH_PARTNER,
    CLT_SCRATCH_PLANES,
    CLT_SCRATCH_COUNT
};
void *clt_image_scratch(int which, size_t bytes);

/* An encoded image whose header was read. */
typedef struct clt_encoded {
    const uint8_t *bytes;
    size_t size;
    bool png, sixteen; /* `sixteen`: a PNG of 16 bits; only the upper 8 bits are read */
    int width, height;
} clt_encoded;

/* clt_image_header: reads size and format. CLT_EDATA says why the bytes are no readable image (empty, a
 * git-lfs pointer, too many pixels, or another format, which it names). The messages of this file name no
 * file: callers add it. */
clt_status clt_image_header(const void *bytes, size_t size, clt_encoded *out);

/* clt_image_decode: decodes the pixels of `box`, a part of the image, exactly as decoding the whole image
 * gives them. With `shrink` 2, 4 or 8, the box of a JPEG is decoded at 1/shrink of its size, which is faster
 * (each pixel is the mean of the pixels that it replaces); other formats keep their full size. If the end
 * marker of a JPEG is there, only the rows down to the end of the box are decoded. CLT_EDATA: damaged or
 * truncated. The view is valid until this thread decodes again. */
clt_status clt_image_decode(const clt_encoded *image, clt_box box, int shrink, clt_view *out);

/* A part of a view. */
static inline clt_view clt_view_part(const clt_view *view, clt_box box)
{
    return (clt_view){view->pixels + (size_t)box.y * view->stride + (size_t)box.x * CLT_PIXEL, box.width,
                      box.height, view->stride};
}

/* clt_image_resize: resizes the view to `width` by `height` with a triangle filter, which is wider the more
 * the image shrinks (antialiasing), as Pillow's BILINEAR does, and writes `window` of the result to three
 * planes of window.width*window.height bytes each, mirrored from left to right if `flip`. If the size stays
 * the same, pixels are copied exactly; else they differ from Pillow's by at most one level. Parts of the
 * window outside of the result are 0. */
clt_status clt_image_resize(const clt_view *view, int width, int height, clt_box window, bool flip,
                            uint8_t *planes);

/* Converts the three planes of a sample to pixels. */
void clt_image_from_planes(const uint8_t *planes, int width, int height, uint8_t *pixels);

/* Appends a PNG file of three planes of bytes (channels 3) or one (channels 1). */
clt_status clt_png_write(const uint8_t *planes, int channels, int width, int height, clt_str *out);

/* --- the two formats --- */

clt_status clt_jpeg_header(clt_encoded *image);
clt_status clt_jpeg_decode(const clt_encoded *image, clt_box box, int shrink, clt_view *out);
clt_status clt_png_header(clt_encoded *image);
clt_status clt_png_decode(const clt_encoded *image, clt_box box, clt_view *out);
/* Frees the objects that a decoder keeps for a thread; called when the thread ends. */
void clt_jpeg_forget(void *kept);
/* The place where the JPEG decoder keeps the pointer to its object for the calling thread; NULL: out of
 * memory. */
void **clt_image_kept_decoder(void);
/* True if bytes begin like a JPEG or PNG; 8 bytes are enough. */
bool clt_image_begins(const void *bytes, size_t size);
/* Fails with CLT_EDATA, with the format's name, if the bytes begin an image that is neither JPEG nor PNG,
 * such as WebP. The message does not name the file. */
clt_status clt_image_refuse_other(const void *bytes, size_t size);
/* Refuses sizes beyond the limits. */
clt_status clt_image_check_size(int64_t width, int64_t height);

#endif
