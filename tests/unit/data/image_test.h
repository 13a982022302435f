/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of images share: images made by a formula, JPEG files of every kind made by libjpeg. */
#ifndef TESTS_UNIT_IMAGE_TEST_H
#define TESTS_UNIT_IMAGE_TEST_H

#include "tests/unit/data/data_test.h"

#include <jpeglib.h>

#include "engine/data/pixels/image.h"

/* The formula of tests/golden/make_golden_images.py. */
static inline uint8_t formula(int x, int y, int c)
{
    return (uint8_t)((x * x * 3 + y * 11 + c * 57 + x * y * (c + 1)) % 256);
}

/* A smooth image with some noise, which compresses well. */
static inline uint8_t smooth(int x, int y, int c)
{
    int noise = (x * 7919 + y * 104729 + c * 13) % 23;
    return (uint8_t)(100 + (x * (3 + c)) % 97 / 2 + (y * (5 - c)) % 89 / 2 + noise);
}

static inline uint8_t *make_planes(int width, int height, uint8_t (*of)(int, int, int))
{
    uint8_t *planes = malloc((size_t)width * (size_t)height * 3), *at = planes;
    assert_non_null(planes);
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                *at++ = of(x, y, c);
    return planes;
}

typedef struct jpeg_kind {
    int channels; /* 1, 3 or 4 */
    int h, v;     /* sampling factors of the first channel */
    bool progressive;
    int restart; /* rows of blocks in a restart interval, 0: no restarts */
} jpeg_kind;

/* A JPEG file in memory, to be freed. */
static inline uint8_t *make_jpeg(int width, int height, jpeg_kind kind, size_t *size)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long length = 0;
    uint8_t *row = malloc((size_t)width * 4);
    assert_non_null(row);
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &out, &length);
    info.image_width = (JDIMENSION)width;
    info.image_height = (JDIMENSION)height;
    info.input_components = kind.channels;
    info.in_color_space = kind.channels == 1 ? JCS_GRAYSCALE : kind.channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, 90, TRUE);
    info.comp_info[0].h_samp_factor = kind.h;
    info.comp_info[0].v_samp_factor = kind.v;
    info.restart_in_rows = kind.restart;
    if (kind.progressive)
        jpeg_simple_progression(&info);
    jpeg_start_compress(&info, TRUE);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++)
            for (int c = 0; c < kind.channels; c++)
                row[x * kind.channels + c] = smooth(x, y, c);
        JSAMPROW rows = row;
        (void)jpeg_write_scanlines(&info, &rows, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    free(row);
    *size = length;
    return out;
}

/* A file of the shared test data; NULL, with a message, if it is missing. */
static inline char *shared_file(const char *name, size_t *size)
{
    const char *root = getenv("CLTRAIN_SOURCE_DIR");
    char path[1024], *data = NULL;
    (void)snprintf(path, sizeof path, "%s/../shared/data/%s", root ? root : CLT_TEST_SOURCE_DIR, name);
    if (!clt_file_exists(path)) {
        print_message("skipped: %s is not on this machine\n", path);
        return NULL;
    }
    assert_ok(clt_file_read(path, false, 0, CLT_EDATA, &data, size));
    return data;
}

#endif
