/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures of samples: images, and slices of volumes, in gray levels where their values are no bytes of colours, with
 * the classes of their masks in colours on top. */
#ifndef ENGINE_REPORT_PAGE_DATA_PICTURE_H
#define ENGINE_REPORT_PAGE_DATA_PICTURE_H

#include "engine/data/data.h"

#define CLT_PICTURE_CHANNELS 4 /* channels of a volume that are shown */

/* How the elements of x are a picture. */
typedef struct clt_picture_form {
    int64_t channels;
    int64_t size[3]; /* depth, height, width; depth 1: an image */
    /* elements from one channel, plane, row and column to the next */
    int64_t channel_step, step[3];
    bool color;  /* the channels are red, green and blue */
    bool bytes;  /* values are 0 to 255 as they are */
    bool masked; /* y has a class for each pixel or voxel */
} clt_picture_form;

/* An image is (H,W), (1,H,W), (3,H,W) or (H,W,3), a volume (D,H,W) or (C,D,H,W), of numbers of any type. CLT_EUNSUPPORTED:
 * x is neither; the message has its shape. */
clt_status clt_picture_form_of(const clt_source *source, clt_picture_form *out);

/* The values that become black and white; those between become gray levels. */
typedef struct clt_picture_window {
    bool known;
    double low, high;
} clt_picture_window;

/* A window for `count` values, which are sorted in place: from the 0.5th to the 99.5th percentile, or all of them where
 * these are equal. */
clt_picture_window clt_picture_window_of(float *values, int64_t count);

/* The voxel whose planes are shown: along each axis the plane with most voxels that are not background, or the middle. */
void clt_picture_centre(const clt_source *source, const clt_picture_form *form, void *const *data,
                        int64_t at[3]);

/* Appends a PNG file of the plane through `at` that is at right angles to `axis` (0 depth: rows are height and columns
 * width; 1 height: depth and width; 2 width: depth and height). Images have axis 0 alone. channel: of those that are no
 * colours. */
clt_status clt_picture_draw(const clt_source *source, const clt_picture_form *form, void *const *data,
                            const clt_picture_window *window, const int64_t at[3], int axis, int64_t channel,
                            clt_str *out);

/* The color of a class in masks, red, green and blue; class 0, background, has none. */
void clt_picture_color(int64_t class_number, uint8_t rgb[3]);

#endif
