/* SPDX-License-Identifier: Apache-2.0
 *
 * The common part of all image formats: fields, augmentation, mixtures, bad samples. A format only finds
 * a sample's image and class from its index. Fields: x (3,H,W) u8; y i32, the class; if samples are
 * mixed, also y2 i32, the other sample's class, and share f32, the weight of y (1 in evaluation). */
#ifndef ENGINE_DATA_IMAGES_IMAGE_SOURCE_H
#define ENGINE_DATA_IMAGES_IMAGE_SOURCE_H

#include <pthread.h>

#include "engine/data/pixels/augment.h"

/* A sample's image as it is stored: encoded, as pixels of three bytes, or as three planes. It is valid until
 * the calling thread gets the next image. */
typedef enum clt_stored { CLT_STORED_ENCODED, CLT_STORED_RGB, CLT_STORED_PLANES } clt_stored;
typedef struct clt_stored_image {
    clt_stored kind;
    const uint8_t *bytes;
    size_t size;                       /* encoded */
    int width, height;                 /* not encoded */
    const struct clt_mapping *mapping; /* the file that holds `bytes`; NULL: they are in memory */
} clt_stored_image;

/* The common part of the state of sources of images. It is the first member of their state. */
typedef struct clt_image_state {
    clt_augment augment;
    bool alone; /* images to be predicted, without classes: only field x, made as in evaluation */
    bool mixed; /* there are fields y2 and share */
    bool skips; /* bad samples are skipped (data.on_bad_sample) */
    bool once;  /* each sample is evaluated or predicted once; a bad one is not counted */
    clt_status (*get)(const clt_source *source, int64_t index, clt_stored_image *out);
    int32_t (*label)(const clt_source *source, int64_t index);
    /* Further checks of one sample, for data verify; NULL: none. */
    clt_status (*check)(const clt_source *source, int64_t index);
    pthread_mutex_t lock; /* guards `bad` and the counts */
    bool lock_made;
    uint8_t *bad;       /* a bit for each sample that could not be read */
    int64_t n_bad;      /* number of images that could not be read */
    int64_t n_replaced; /* number of samples that were replaced by another one */
    int64_t n_low;      /* number of PNG files of 16 bits that use only low bits */
} clt_image_state;

/* Sets up state and source once samples and classes are known. `width`, `height`: the size of the stored
 * images if all have the same, else 0. */
clt_status clt_images_begin(clt_source *source, clt_image_state *state, const clt_config *config,
                            clt_split split, int width, int height);
void clt_images_close(clt_source *source);
/* Sets the same fields without opening a file. clt_images_shapes_known is true if that is possible, since
 * model.classes is set. */
bool clt_images_shapes_known(const clt_config *config);
clt_status clt_images_shapes(clt_source *source, const clt_config *config, int width, int height);
/* Looks at some images of the training data, and warns if most are much smaller than the samples made of
 * them, or if one is a PNG of 16 bits whose values are below 4096, so that in 8 bits it is almost black. */
void clt_images_advise(const clt_source *source);
/* Checks only for such PNG files. */
void clt_images_warn_low_bits(const clt_source *source);
clt_status clt_images_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to);
bool clt_images_left_out(const clt_source *source, int64_t index);
bool clt_images_class_of(const clt_source *source, int64_t index, clt_draw draw, int field, int32_t *value);
clt_status clt_images_check_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                                  int64_t ignore, bool *done);
/* Decodes the whole image of a sample. */
clt_status clt_images_check_sample(const clt_source *source, int64_t index);

/* Maps the classes of evaluation data to the training data's: number[i] is the training class with name i.
 * CLT_EDATA: the training data lacks a class, which the message names. */
clt_status clt_images_match(const char *const *names, int64_t count, const char *const *training,
                            int64_t training_count, int32_t *number);

#define CLT_IMAGE_KEYS                                                                                       \
    CLT_AUGMENT_KEYS, CLT_KEY_CHOICE("data.on_bad_sample", "stop|skip", "\"stop\"",                          \
                                     "an image that cannot be read: stop ends the run and names the file; "  \
                                     "skip takes the next readable sample instead (none in an evaluation), " \
                                     "warns once for each file, and reports their number at the end")
/* True if a folder has CIFAR's training files, as published or made by data fetch. */
bool clt_is_cifar_folder(const char *path);
/* Checks that the keys of images fit together. */
void clt_images_rules(clt_config_rules *rules);

#endif
