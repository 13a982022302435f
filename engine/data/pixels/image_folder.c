/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists folders of images. Links are followed; names that begin with a dot are skipped. Only
 * clt_is_image_file and clt_image_refuse_other_file open a file. */
#include "engine/data/pixels/image_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "engine/data/pixels/image.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"
#include "engine/files/fileio_error.h"

#define FIRST_BYTES 16 /* number of bytes from which a format is recognised */
#define MAX_DEPTH 16   /* limit of nested folders, since links may form cycles */
#define MAX_FILES ((size_t)1 << 31)

static bool is_image_name(const char *name)
{
    static const char *const ends[] = {".jpg",  ".jpeg", ".jpe", ".png",  ".ppm",  ".bmp",  ".pgm", ".tif",
                                       ".tiff", ".webp", ".gif", ".heic", ".heif", ".avif", ".jxl", ".jp2"};
    const char *end = strrchr(name, '.');
    for (size_t i = 0; end && i < sizeof ends / sizeof ends[0]; i++)
        if (strcasecmp(end, ends[i]) == 0)
            return true;
    return false;
}

void clt_image_list_free(clt_image_list *list)
{
    for (size_t i = 0; i < list->n_classes; i++)
        free(list->classes[i]);
    free(list->classes);
    free(list->files);
    clt_str_free(&list->names);
    *list = (clt_image_list){0};
}

static clt_status add_image(const char *name, uint64_t bytes, clt_image_list *list)
{
    CLT_TRY(clt_grow(&list->files, &list->capacity, list->count + 1, sizeof *list->files, "images"));
    list->files[list->count++] = (clt_image_file){list->names.length, bytes, (int32_t)list->n_classes - 1};
    list->bytes += bytes;
    clt_str_append_n(&list->names, name, strlen(name) + 1);
    return clt_str_check(&list->names);
}

/* Adds the images of a folder and of the folders in it. `inner`: its path below the root, "CLASS" or
 * "CLASS/more"; "": the root itself. */
static clt_status list_class(const char *root, const char *inner, int depth, clt_image_list *list)
{
    CLT_SCOPED(clt_file_list) found = {0};
    CLT_SCOPED(clt_file_list) folders = {0};
    CLT_SCOPED(clt_str) path = {0};
    const char *slash = *inner ? "/" : "";
    clt_str_printf(&path, "%s%s%s", root, slash, inner);
    CLT_TRY(clt_str_check(&path));
    CLT_TRY(clt_folder_names(path.text, &found));
    for (size_t i = 0; i < found.count; i++) {
        struct stat info;
        path.length = 0;
        clt_str_printf(&path, "%s%s%s/%s", root, slash, inner, found.name[i]);
        CLT_TRY(clt_str_check(&path));
        bool there = clt_file_stat(path.text, &info);
        if (there && S_ISDIR(info.st_mode))
            CLT_TRY(clt_file_list_add(&folders, CLT_TAKE(found.name[i])));
        else if (!is_image_name(found.name[i]) || (there && !S_ISREG(info.st_mode)))
            list->others++;
        else
            CLT_TRY(add_image(path.text + strlen(root) + 1, there ? (uint64_t)info.st_size : 0, list));
    }
    for (size_t i = 0; i < folders.count; i++) {
        path.length = 0;
        clt_str_printf(&path, "%s%s%s", inner, slash, folders.name[i]);
        CLT_TRY(clt_str_check(&path));
        if (depth >= MAX_DEPTH)
            CLT_FAIL(CLT_EDATA,
                     "listing '%s/%s': folders are nested more than %d deep; is a link among them that leads "
                     "back?",
                     root, path.text, MAX_DEPTH);
        CLT_TRY(list_class(root, path.text, depth + 1, list));
    }
    return CLT_OK;
}

static clt_status no_classes(const char *root, const clt_file_list *found)
{
    size_t images = 0;
    for (size_t i = 0; i < found->count; i++)
        images += is_image_name(found->name[i]);
    if (images > 0)
        CLT_FAIL(
            CLT_EDATA,
            "listing '%s': %zu images lie in the folder itself, and the class of an image is the name of its "
            "folder; sort them into %s/CLASS/name.jpg",
            root, images, root);
    CLT_FAIL(CLT_EDATA, "listing '%s': it has no folders; each class of images needs one: %s/CLASS/name.jpg",
             root, root);
}

/* If `root` has folders for the parts of a data set, such as "train" and "val": the name of the training
 * part; else NULL. */
static const char *deeper(const char *root)
{
    static const char *const words[] = {"train", "training"};
    for (size_t i = 0; i < 2; i++)
        if (clt_is_folder_in(root, words[i]) &&
            (clt_is_folder_in(root, "val") || clt_is_folder_in(root, "test") ||
             clt_is_folder_in(root, "valid")))
            return words[i];
    return NULL;
}

clt_status clt_image_list_folder(const char *root, clt_image_list *list)
{
    CLT_SCOPED(clt_file_list) found = {0};
    *list = (clt_image_list){0};
    CLT_TRY(clt_folder_names(root, &found));
    const char *inner = deeper(root);
    if (inner)
        CLT_FAIL(CLT_EDATA,
                 "listing '%s': it holds parts of a data set, not classes; name one of them: '%s/%s'", root,
                 root, inner);
    for (size_t i = 0; i < found.count; i++) {
        size_t before = list->count;
        if (!clt_is_folder_in(root, found.name[i]))
            continue;
        CLT_TRY(clt_grow(&list->classes, &list->class_capacity, list->n_classes + 1, sizeof *list->classes,
                         "classes"));
        const char *name = list->classes[list->n_classes++] = CLT_TAKE(found.name[i]);
        CLT_TRY(list_class(root, name, 1, list));
        if (list->count == before)
            CLT_FAIL(CLT_EDATA,
                     "listing '%s': the folder '%s' has no images (names that end in .jpg, .jpeg or .png); "
                     "remove it, or fill it",
                     root, name);
    }
    if (list->n_classes == 0)
        return no_classes(root, &found);
    if (list->count >= MAX_FILES)
        CLT_FAIL(CLT_EDATA, "listing '%s': more than 2^31 images", root);
    return CLT_OK;
}

clt_status clt_image_list_all(const char *root, clt_image_list *list)
{
    *list = (clt_image_list){0};
    CLT_TRY(list_class(root, "", 0, list));
    if (list->count == 0)
        CLT_FAIL(CLT_EDATA,
                 "listing '%s': neither it nor the folders in it have images (names that end in .jpg, .jpeg "
                 "or .png)",
                 root);
    if (list->count >= MAX_FILES)
        CLT_FAIL(CLT_EDATA, "listing '%s': more than 2^31 images", root);
    return CLT_OK;
}

static bool has_image(const char *root, const char *name)
{
    CLT_FREED char *folder = NULL;
    CLT_SCOPED(clt_file_list) inner = {0};
    bool yes = false;
    if (clt_path_join(root, name, &folder) == CLT_OK && clt_is_directory(folder) &&
        clt_folder_names(folder, &inner) == CLT_OK)
        for (size_t i = 0; i < inner.count && !yes; i++)
            yes = is_image_name(inner.name[i]);
    return yes;
}

bool clt_is_image_folder(const char *path)
{
    CLT_SCOPED(clt_file_list) found = {0};
    bool yes = false;
    if (clt_is_directory(path) && clt_folder_names(path, &found) == CLT_OK)
        for (size_t i = 0; i < found.count && !yes; i++)
            yes = has_image(path, found.name[i]);
    clt_error_clear();
    return yes;
}

bool clt_is_image_file(const char *path)
{
    char first[FIRST_BYTES];
    return clt_image_begins(first, clt_file_first(path, first, sizeof first));
}

clt_status clt_image_refuse_other_file(const char *path)
{
    char first[FIRST_BYTES];
    return clt_fail_prefix(clt_image_refuse_other(first, clt_file_first(path, first, sizeof first)),
                           "reading image '%s'", path);
}

/* Counts the files of a folder, and at depth 0 the files of its folders. */
static void count_kinds(const char *path, int depth, size_t *images, size_t *others)
{
    CLT_SCOPED(clt_file_list) found = {0};
    if (clt_folder_names(path, &found) != CLT_OK)
        clt_error_clear();
    for (size_t i = 0; i < found.count; i++) {
        CLT_SCOPED(clt_str) inner = {0};
        clt_str_printf(&inner, "%s/%s", path, found.name[i]);
        bool folder = clt_str_check(&inner) == CLT_OK && clt_is_directory(inner.text);
        if (folder && depth == 0)
            count_kinds(inner.text, 1, images, others);
        else if (!folder && is_image_name(found.name[i]))
            ++*images;
        else if (!folder)
            ++*others;
    }
}

bool clt_folder_has_images(const char *path)
{
    size_t images = 0, others = 0;
    count_kinds(path, 0, &images, &others);
    return images > 0 && images >= others;
}
