/* SPDX-License-Identifier: Apache-2.0
 *
 * Augmentation of images: the part of an image that a sample shows, whether it is mirrored, its colours,
 * and the other sample with which it is mixed. Every choice is a pure function of the seed, the epoch and
 * the sample's index. The names and formulas are torchvision's. It knows no files. */
#ifndef ENGINE_DATA_PIXELS_AUGMENT_H
#define ENGINE_DATA_PIXELS_AUGMENT_H

#include "engine/data/data.h"
#include "engine/data/pixels/image.h"

typedef enum clt_crop { CLT_CROP_RESIZED, CLT_CROP_PAD, CLT_CROP_CENTER } clt_crop;

typedef struct clt_augment {
    int width, height; /* of a sample */
    clt_crop crop;
    int resize; /* crops center and pad: first resize the shorter side to this length; 0: do not resize */
    double scale[2], ratio[2]; /* crop resized: limits of the share of the area, and of width / height */
    int padding;               /* crop pad: number of black pixels added on every side */
    double flip;               /* probability */
    double brightness, contrast, saturation, hue;
    double mixup, cutmix; /* parameters of the beta distribution; 0: off */
} clt_augment;

/* The part of an image that a sample shows: the image's `box` is resized to `width` by `height`, and
 * `window` of the result is taken, mirrored if `flip`. */
typedef struct clt_cut {
    clt_box box;
    int width, height;
    clt_box window;
    bool flip;
} clt_cut;

/* Reads the keys listed below. `width`, `height`: the size of the stored images if all have the same,
 * else 0. Evaluation: the crop is center, and nothing is random. CLT_ECONFIG for values that do not fit
 * together. */
clt_status clt_augment_read(const clt_config *config, clt_split split, int width, int height,
                            clt_augment *out);

clt_cut clt_augment_cut(const clt_augment *a, clt_draw draw, int64_t index, int width, int height);
/* Changes the colours of a sample, three planes; the draw determines the order of the changes and their
 * amounts. */
void clt_augment_colors(const clt_augment *a, clt_draw draw, int64_t index, uint8_t *planes);

/* The formulas of the colour changes, declared for tests. They are torchvision's for tensors of bytes. */
void clt_color_brightness(uint8_t *planes, size_t n, float factor);
void clt_color_contrast(uint8_t *planes, size_t n, float factor);
void clt_color_saturation(uint8_t *planes, size_t n, float factor);
void clt_color_hue(uint8_t *planes, size_t n, float turn);

/* True if samples differ from stored images of this size. */
bool clt_augment_changes(const clt_augment *a, int width, int height);

/* How a sample x is mixed with another one, x2. Mixup: x = share*x + (1-share)*x2. Cutmix: `box` of x is
 * replaced by the same box of x2, and `share` is the share of x's area that remains. */
typedef struct clt_mix {
    bool on, cut;
    int64_t partner;
    float share;
    clt_box box;
} clt_mix;
bool clt_augment_mixes(const clt_augment *a);
clt_mix clt_augment_mix(const clt_augment *a, clt_draw draw, int64_t index, int64_t samples);
void clt_augment_blend(const clt_augment *a, const clt_mix *mix, uint8_t *x, const uint8_t *partner);

/* CLT_CROP_KEYS: the keys that choose a part of an image. CLT_AUGMENT_KEYS: all keys of augmentation. */
#define CLT_CROP_KEYS                                                                                        \
    CLT_KEY_INTS(                                                                                            \
        "data.size", 1, 16384, "[]",                                                                         \
        "height and width of a sample, or one number for both; []: 224 for images, else the stored "         \
        "size"),                                                                                             \
        CLT_KEY_CHOICE("data.crop", "auto|resized|pad|center", "\"auto\"",                                   \
                       "the part of an image that training uses: resized: a random part, resized; pad: a "   \
                       "random place in the padded image; center: as in evaluation, the middle of the "      \
                       "resized image; auto: resized for images, else center"),                              \
        CLT_KEY_INT("data.resize", 0, 16384, "0", "pixels",                                                  \
                    "center and pad: length of the shorter side before the crop; 0: 8/7 of data.size for "   \
                    "center of images (256 for 224), data.size for pad of images, else the stored size"),    \
        CLT_KEY_FLOATS("data.crop_scale", 0, true, 1, "[0.08,1]",                                            \
                       "resized: least and largest share of the image's area"),                              \
        CLT_KEY_FLOATS("data.crop_ratio", 0, true, 1000, "[0.75,1.3333333333333333]",                        \
                       "resized: least and largest width / height"),                                         \
        CLT_KEY_INT("data.padding", 0, 1024, "4", "pixels", "pad: black border on every side"),              \
        CLT_KEY_FLOAT("data.flip", 0, 1, "0", "",                                                            \
                      "probability that a training sample is mirrored from left to right")
#define CLT_AUGMENT_KEYS                                                                                     \
    CLT_CROP_KEYS,                                                                                           \
        CLT_KEY_FLOAT("data.brightness", 0, 100, "0", "",                                                    \
                      "training: random factor of the brightness, from 1 - x to 1 + x"),                     \
        CLT_KEY_FLOAT("data.contrast", 0, 100, "0", "",                                                      \
                      "training: random factor of the contrast, from 1 - x to 1 + x"),                       \
        CLT_KEY_FLOAT("data.saturation", 0, 100, "0", "",                                                    \
                      "training: random factor of the saturation, from 1 - x to 1 + x"),                     \
        CLT_KEY_FLOAT("data.hue", 0, 0.5, "0", "turns", "training: random turn of the hue, from -x to x"),   \
        CLT_KEY_FLOAT("data.mixup", 0, 100, "0", "",                                                         \
                      "training: alpha of the beta distribution from which the share of a sample in its "    \
                      "mixture with another one is drawn; 0: no mixtures"),                                  \
        CLT_KEY_FLOAT("data.cutmix", 0, 100, "0", "",                                                        \
                      "training: the same for a rectangle of another sample pasted over it; with "           \
                      "data.mixup, each sample is mixed one way or the other")

#endif
