/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists folders of images, CLASS/name.jpg, in the fixed order of torchvision's ImageFolder. Classes are the
 * folders, sorted by the bytes of their names; the files of a class are sorted by folder and name. Listing
 * opens no files. */
#ifndef ENGINE_DATA_PIXELS_IMAGE_FOLDER_H
#define ENGINE_DATA_PIXELS_IMAGE_FOLDER_H

#include "engine/base/mem.h"
#include "engine/base/status.h"

typedef struct clt_image_file {
    size_t name; /* offset of "CLASS/name.jpg" in `names` */
    uint64_t size;
    int32_t class_number;
} clt_image_file;

typedef struct clt_image_list {
    clt_str names; /* all names in a row, each with its final NUL */
    clt_image_file *files;
    size_t count, capacity;
    char **classes;
    size_t n_classes, class_capacity;
    uint64_t bytes; /* size of all files */
    int64_t others; /* files in class folders that are not named like images */
} clt_image_list;

/* clt_image_list_folder: lists the images of all classes. CLT_EDATA: the folder cannot be read, has no
 * folders of classes, or one of them has no images. Free the list even after a failure. */
clt_status clt_image_list_folder(const char *root, clt_image_list *list);
void clt_image_list_free(clt_image_list *list);
CLT_SCOPED_VALUE(clt_image_list, clt_image_list_free)
/* True if at least half of the files in a folder and its subfolders are named like images. */
bool clt_folder_has_images(const char *path);
/* True if a folder has a folder with an image in it. */
bool clt_is_image_folder(const char *path);
/* Lists all images of a folder and of the folders in it, without classes, for prediction, in the order of
 * their paths (the files of a folder before the folders in it). CLT_EDATA: there are none. Free the list
 * even after a failure. */
clt_status clt_image_list_all(const char *root, clt_image_list *list);
/* Fails with CLT_EDATA, with the names of file and format, for an image that is neither JPEG nor PNG. */
clt_status clt_image_refuse_other_file(const char *path);
/* True if a path is a file that begins like an image. */
bool clt_is_image_file(const char *path);

#endif
