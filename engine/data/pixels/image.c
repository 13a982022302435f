/* SPDX-License-Identifier: Apache-2.0
 *
 * The common part of the image formats: recognition by content, limits, and the memory of threads. It must
 * not call the library of any format. */
#include "engine/data/pixels/image.h"
#include "engine/files/file_kind.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A thread's memory that is larger than this, in bytes, is freed when less is requested. */
#define KEPT_BYTES ((size_t)64 << 20)

typedef struct thread_memory {
    void *piece[CLT_SCRATCH_COUNT];
    size_t bytes[CLT_SCRATCH_COUNT];
    void *decoder;
} thread_memory;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_error;

static void forget(void *memory)
{
    thread_memory *m = memory;
    for (int i = 0; i < CLT_SCRATCH_COUNT; i++)
        free(m->piece[i]);
    clt_jpeg_forget(m->decoder);
    free(m);
}

static void make_key(void)
{
    key_error = pthread_key_create(&key, forget);
}

static thread_memory *memory_of_thread(void)
{
    (void)pthread_once(&once, make_key);
    thread_memory *m = key_error ? NULL : pthread_getspecific(key);
    if (m)
        return m;
    if (key_error || clt_alloc(&m, 1, sizeof *m, "a thread's images") != CLT_OK ||
        pthread_setspecific(key, m)) {
        free(m);
        (void)clt_fail(CLT_ENOMEM, __FILE__, __LINE__,
                       "decoding images: a thread could not get its own memory");
        return NULL;
    }
    return m;
}

void *clt_image_scratch(int which, size_t bytes)
{
    thread_memory *m = memory_of_thread();
    if (!m)
        return NULL;
    bool shrinks = m->bytes[which] > KEPT_BYTES && bytes <= KEPT_BYTES;
    if (m->piece[which] && bytes <= m->bytes[which] && !shrinks)
        return m->piece[which];
    free(m->piece[which]);
    m->piece[which] = NULL;
    m->bytes[which] = 0;
    if (clt_alloc(&m->piece[which], bytes + 64, 1, "an image") != CLT_OK)
        return NULL;
    m->bytes[which] = bytes;
    return m->piece[which];
}

void **clt_image_kept_decoder(void)
{
    thread_memory *m = memory_of_thread();
    return m ? &m->decoder : NULL;
}

clt_status clt_image_check_size(int64_t width, int64_t height)
{
    if (width < 1 || height < 1 || width > CLT_IMAGE_MAX_SIDE || height > CLT_IMAGE_MAX_SIDE ||
        width * height > CLT_IMAGE_MAX_PIXELS)
        CLT_FAIL(
            CLT_EDATA,
            "its header claims %lld x %lld pixels; up to %lld pixels are read (the header is damaged, or "
            "the image must be made smaller)",
            (long long)width, (long long)height, (long long)CLT_IMAGE_MAX_PIXELS);
    return CLT_OK;
}

typedef struct signature {
    const char *bytes;
    size_t at, length;
    const char *name;
} signature;

static const signature others[] = {
    {"<svg", 0, 4, "an SVG drawing"},      {"<!DOCTYPE", 0, 9, "an HTML page"},
    {"<html", 0, 5, "an HTML page"},       {"\x1f\x8b", 0, 2, "a gzip archive"},
    {"PK\x03\x04", 0, 4, "a zip archive"},
};

static clt_status other_format(const char *name)
{
    CLT_FAIL(CLT_EDATA, "it is %s; JPEG and PNG are read: convert it or remove it", name);
}

clt_status clt_image_refuse_other(const void *bytes, size_t size)
{
    const char *kind = clt_image_begins(bytes, size) ? NULL : clt_kind_of_image(bytes, size);
    return kind ? other_format(kind) : CLT_OK;
}

static clt_status no_image(const uint8_t *bytes, size_t size)
{
    if (size == 0)
        CLT_FAIL(CLT_EDATA, "the file is empty; copy or download it again");
    CLT_TRY(clt_refuse_pointer(bytes, size, "the image itself", CLT_EDATA));
    CLT_TRY(clt_image_refuse_other(bytes, size));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (size >= others[i].at + others[i].length &&
            memcmp(bytes + others[i].at, others[i].bytes, others[i].length) == 0)
            return other_format(others[i].name);
    CLT_FAIL(CLT_EDATA, "it is not a JPEG or PNG image (it begins with %02x %02x); convert it or remove it",
             bytes[0], size > 1 ? bytes[1] : 0);
}

static bool is_jpeg(const uint8_t *b, size_t size)
{
    return size >= 3 && b[0] == 0xff && b[1] == 0xd8 && b[2] == 0xff;
}

bool clt_image_begins(const void *bytes, size_t size)
{
    static const char png[] = "\x89PNG\r\n\x1a\n";
    size_t n = size < 8 ? size : 8;
    return is_jpeg(bytes, size) || (n >= 4 && memcmp(bytes, png, n) == 0);
}

clt_status clt_image_header(const void *bytes, size_t size, clt_encoded *out)
{
    const uint8_t *b = bytes;
    *out = (clt_encoded){.bytes = b, .size = size};
    if (is_jpeg(b, size)) {
        CLT_TRY(clt_jpeg_header(out));
    } else if (size >= 8 && memcmp(b, "\x89PNG\r\n\x1a\n", 8) == 0) {
        out->png = true;
        CLT_TRY(clt_png_header(out));
    } else {
        return no_image(b, size);
    }
    return CLT_OK;
}

clt_status clt_image_decode(const clt_encoded *image, clt_box box, int shrink, clt_view *out)
{
    if (box.x < 0 || box.y < 0 || box.width < 1 || box.height < 1 || box.width > image->width - box.x ||
        box.height > image->height - box.y)
        CLT_FAIL(CLT_EINTERNAL, "decoding an image of %d x %d: the box %d %d %d %d is not inside",
                 image->width, image->height, box.x, box.y, box.width, box.height);
    return image->png ? clt_png_decode(image, box, out) : clt_jpeg_decode(image, box, shrink, out);
}

void clt_image_from_planes(const uint8_t *planes, int width, int height, uint8_t *pixels)
{
    size_t n = (size_t)width * (size_t)height;
    for (size_t i = 0; i < n; i++) {
        pixels[CLT_PIXEL * i] = planes[i];
        pixels[CLT_PIXEL * i + 1] = planes[n + i];
        pixels[CLT_PIXEL * i + 2] = planes[2 * n + i];
        pixels[CLT_PIXEL * i + 3] = 255;
    }
}
