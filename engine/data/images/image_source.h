/* SPDX-License-Identifier: Apache-2.0
 *
 * The common part of all image formats: fields, augmentation, mixtures, bad samples. A format gives only the
 * image and the class of a sample by its index. Fields: x (3,H,W) u8; y i32, the class; if samples are mixed
 * also y2 i32, the other sample's class, and share f32, the share of y (1 in evaluation). */
#ifndef ENGINE_DATA_IMAGES_IMAGE_SOURCE_H
#define ENGINE_DATA_IMAGES_IMAGE_SOURCE_H

#include <pthread.h>

#include "engine/data/pixels/augment.h"

/* The image of a sample: encoded, as pixels of three bytes, or as three planes. It is valid until the calling
 * thread gets another one. */
typedef enum clt_stored { CLT_STORED_ENCODED, CLT_STORED_RGB, CLT_STORED_PLANES } clt_stored;
typedef struct clt_stored_image {
    clt_stored kind;
    const uint8_t *bytes;
    size_t size;                       /* encoded */
    int width, height;                 /* not encoded */
    const struct clt_mapping *mapping; /* the file that holds `bytes`; NULL: they are in memory */
} clt_stored_image;

/* Base of the state of sources of images; it is the first member. */
typedef struct clt_image_state {
    clt_augment augment;
    bool alone; /* images without classes, to be predicted: there is only x, as in evaluation */
    bool mixed; /* there are fields y2 and share */
    bool skips; /* bad samples are skipped (data.on_bad_sample) */
    bool once;  /* each sample is read once, to be evaluated or predicted; a bad one does not count */
    clt_status (*get)(const clt_source *source, int64_t index, clt_stored_image *out);
    int32_t (*label)(const clt_source *source, int64_t index);
    /* Further checks of one sample, for data verify; NULL: none. */
    clt_status (*check)(const clt_source *source, int64_t index);
    pthread_mutex_t lock; /* guards `bad` and the counts */
    bool lock_made;
    uint8_t *bad;       /* a bit for each sample that could not be read */
    int64_t n_bad;      /* images that could not be read */
    int64_t n_replaced; /* samples replaced by another one */
    int64_t n_low;      /* PNG files of 16 bits that use only low bits */
} clt_image_state;

/* Sets up state and source once samples and classes are known. `width`, `height`: the size of the stored
 * images if all have the same, else 0. */
clt_status clt_images_begin(clt_source *source, clt_image_state *state, const clt_config *config,
                            clt_split split, int width, int height);
void clt_images_close(clt_source *source);
/* Sets the same fields without opening a file, which clt_images_shapes_known says is possible
 * (model.classes). */
bool clt_images_shapes_known(const clt_config *config);
clt_status clt_images_shapes(clt_source *source, const clt_config *config, int width, int height);
/* Looks at some images of the training data, and warns if most are much smaller than the samples made of
 * them, or if one is a PNG of 16 bits whose values are below 4096, so that in 8 bits it is almost black. */
void clt_images_advise(const clt_source *source);
/* Gives only the second of these two warnings. */
void clt_images_warn_low_bits(const clt_source *source);
clt_status clt_images_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to);
bool clt_images_left_out(const clt_source *source, int64_t index);
bool clt_images_class_of(const clt_source *source, int64_t index, clt_draw draw, int field, int32_t *value);
clt_status clt_images_check_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                                  int64_t ignore, bool *done);
/* Decodes the whole image of a sample. */
clt_status clt_images_check_sample(const clt_source *source, int64_t index);

/* Maps the classes of evaluation data to the training data's: number[i] is the training class with name i.
 * CLT_EDATA names a class that the training data does not have. */
clt_status clt_images_match(const char *const *names, int64_t count, const char *const *training,
                            int64_t training_count, int32_t *number);

#define CLT_IMAGE_KEYS                                                                                       \
    CLT_AUGMENT_KEYS, CLT_KEY_CHOICE("data.on_bad_sample", "stop|skip", "\"stop\"",                          \
                                     "an image that cannot be read: stop ends the run and names the file; "  \
                                     "skip takes the next readable sample instead (none in an evaluation), " \
                                     "warns once for each file, and reports their number at the end")
/* Whether a folder has CIFAR's training files, as published or made by data fetch. */
bool clt_is_cifar_folder(const char *path);
/* Checks the rules between these keys. */
void clt_images_rules(clt_config_rules *rules);

#endif
