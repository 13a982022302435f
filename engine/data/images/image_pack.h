/* SPDX-License-Identifier: Apache-2.0
 *
 * A pack: a folder of images as one file, which readers map. `cltrain data prepare FOLDER --out FILE` writes
 * it. Images keep their bytes, or are stored as resized pixels.
 *
 * Layout, little-endian: a header of 80 bytes (pack_header in the source file), the images one after the
 * other, the index (a record of 40 bytes for each image), the names of classes and of images, each with a
 * NUL. The header has the XXH64 hash of index and names together; each record has the hash of its image. */
#ifndef ENGINE_DATA_IMAGES_IMAGE_PACK_H
#define ENGINE_DATA_IMAGES_IMAGE_PACK_H

#include "engine/data/images/image_source.h"
#include "engine/files/fileio.h"

#define CLT_PACK_MAGIC "CLTIMGS1" /* the first bytes of a pack */

typedef struct clt_pack_record {
    uint64_t offset, name, hash; /* `name`: offset of the image's name in the list of names, in bytes */
    uint32_t size;
    int32_t class_number;
    uint16_t width, height; /* size of stored pixels of three bytes; 0: an encoded image */
    uint32_t zero;
} clt_pack_record;

typedef struct clt_image_pack {
    clt_mapping mapping;
    const clt_pack_record *records; /* checked: inside the file, classes and names in range */
    int64_t count, n_classes;
    const char **classes; /* in the arena */
    const char *names;
} clt_image_pack;

/* True if a file begins like a pack. */
bool clt_is_image_pack(const char *path);
/* clt_pack_open: maps the file and checks the whole index. The message of CLT_EDATA says what is wrong.
 * Close it even if it fails. */
clt_status clt_pack_open(const char *path, clt_arena *arena, clt_image_pack *pack);
void clt_pack_close(clt_image_pack *pack);
void clt_pack_image(const clt_image_pack *pack, int64_t index, clt_stored_image *out);
/* Tells a remote file that an image will be read soon. */
void clt_pack_want(const clt_image_pack *pack, int64_t index);
const char *clt_pack_name(const clt_image_pack *pack, int64_t index);
/* Checks an image against its hash. */
clt_status clt_pack_check(const clt_image_pack *pack, int64_t index);

typedef struct clt_pack_options {
    const char *folder, *out;
    int resize;     /* above 0: store pixels, and reduce the shorter side to this length if it is longer */
    bool skips_bad; /* skip images that cannot be decoded; else the first one is an error */
    clt_status (*progress)(void *context, int64_t done, int64_t total);
    void (*message)(void *context, const char *line); /* called for each image that is skipped */
    void *context;
} clt_pack_options;
typedef struct clt_pack_result {
    int64_t images, classes, left_out;
    uint64_t bytes;
} clt_pack_result;
/* clt_pack_write: decodes every image once to check it. The file appears only when it is complete. */
clt_status clt_pack_write(const clt_pack_options *options, clt_pack_result *result);

#endif
