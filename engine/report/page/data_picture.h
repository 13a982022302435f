/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures of samples: images, and slices of volumes. Values that are not bytes of colors become gray levels;
 * the classes of masks are drawn on top in colors. */
#ifndef ENGINE_REPORT_PAGE_DATA_PICTURE_H
#define ENGINE_REPORT_PAGE_DATA_PICTURE_H

#include "engine/data/data.h"

#define CLT_PICTURE_CHANNELS 4 /* channels of a volume that are shown */

/* The arrangement of the elements of x as a picture. */
typedef struct clt_picture_form {
    int64_t channels;
    int64_t size[3]; /* depth, height, width; depth 1: an image */
    /* distance in elements to the next channel; to the next plane, row and column */
    int64_t channel_step, step[3];
    bool color;  /* the channels are red, green and blue */
    bool bytes;  /* values are bytes, shown without a window */
    bool masked; /* y has a class for each pixel or voxel */
} clt_picture_form;

/* An image is (H,W), (1,H,W), (3,H,W) or (H,W,3), a volume (D,H,W) or (C,D,H,W), of numbers of any type.
 * CLT_EUNSUPPORTED: x is neither; the message has its shape. */
clt_status clt_picture_form_of(const clt_source *source, clt_picture_form *out);

/* The values that become black (`low`) and white (`high`); values between them become gray levels. */
typedef struct clt_picture_window {
    bool known;
    double low, high;
} clt_picture_window;

/* Chooses a window for `count` values, which it sorts in place: from the 0.5th to the 99.5th percentile, or
 * from the least to the greatest value if these percentiles are equal. */
clt_picture_window clt_picture_window_of(float *values, int64_t count);

/* Finds the voxel `at` whose planes are shown: along each axis the plane with most voxels of classes, or the
 * middle plane if no voxel has a class. */
void clt_picture_centre(const clt_source *source, const clt_picture_form *form, void *const *data,
                        int64_t at[3]);

/* Appends a PNG file of the plane through `at` at right angles to `axis`: 0, depth: rows run along height and
 * columns along width; 1, height: depth and width; 2, width: depth and height. Images have only axis 0.
 * channel: the one to draw; ignored if the channels are colors. */
clt_status clt_picture_draw(const clt_source *source, const clt_picture_form *form, void *const *data,
                            const clt_picture_window *window, const int64_t at[3], int axis, int64_t channel,
                            clt_str *out);

/* The color of a class in masks, red, green and blue; class 0, background, has none. */
void clt_picture_color(int64_t class_number, uint8_t rgb[3]);

#endif
