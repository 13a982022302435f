/* SPDX-License-Identifier: Apache-2.0
 *
 * See volume_list.h. */
#include "engine/data/volume_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/log.h"

/* Folders of images and of their masks. */
static const char *const pairs[][2] = {{"images", "masks"}, {"images", "labels"}, {"imagesTr", "labelsTr"}};
#define N_PAIRS ((int)(sizeof pairs / sizeof pairs[0]))

/* Names in a folder, sorted by their bytes. */
typedef struct names {
    clt_arena *arena;
    const char **name;
    size_t count, room;
} names;

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static clt_status list_names(names *list, const char *folder)
{
    DIR *dir = opendir(folder);
    clt_status status = CLT_OK;
    if (!dir)
        CLT_FAIL(CLT_EDATA, "opening the folder '%s': %s; check the path", folder, strerror(errno));
    for (struct dirent *e; status == CLT_OK && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.') /* hidden files, such as the ._NAME.nii.gz of archives made on macOS */
            continue;
        status = clt_grow(&list->name, &list->room, list->count + 1, sizeof *list->name, "names of files");
        if (status != CLT_OK)
            break;
        list->name[list->count] = clt_arena_strdup(list->arena, e->d_name);
        status = list->name[list->count++] ? CLT_OK : CLT_ENOMEM;
    }
    closedir(dir);
    if (list->count)
        qsort(list->name, list->count, sizeof *list->name, by_bytes);
    return status;
}

static bool is_volume(const char *name)
{
    return clt_volume_stem(name) > 0;
}

static bool is_subfolder(const char *folder, const char *name)
{
    char *path;
    if (clt_path_join(folder, name, &path) != CLT_OK)
        return false;
    bool yes = clt_is_directory(path);
    free(path);
    return yes;
}

/* --- one file --- */

typedef struct listing {
    clt_arena *arena;
    const clt_volume_list_options *options;
    clt_volume_list *list;
    size_t room;
} listing;

/* Tells about a bad file; returns the error if it is to end the work. */
static clt_status bad_file(const listing *l, const char *path, clt_status status)
{
    if (status == CLT_ENOMEM || status == CLT_EINTERNAL)
        return status;
    if (l->options->tell) {
        l->options->tell(l->options->context, path, status);
        return CLT_OK;
    }
    if (!l->options->skip_bad)
        return clt_fail_prefix(status, "opening %s", l->options->key);
    CLT_WARN("%s is left out (data.on_bad_sample skip): %s", path, clt_error_text());
    return CLT_OK;
}

static const clt_nifti_space *space_of(const clt_volume *v)
{
    return v->is_nifti ? &v->space : NULL;
}

/* A mask has the voxels of its image, whatever its own header says of their distances, but may be turned otherwise. */
static clt_status pose_mask(const listing *l, const clt_volume *image, const clt_volume *mask,
                            const char *path, clt_volume_entry *e)
{
    static const clt_volume_want nothing = {.spaces = false};
    const clt_volume_want *want = l->options->want ? l->options->want : &nothing;
    clt_nifti_space space = image->space;
    snprintf(e->mask_axes, sizeof e->mask_axes, "%s", mask->space.axes);
    if (mask->space.axes[0])
        memcpy(space.axes, mask->space.axes, sizeof space.axes);
    CLT_TRY(clt_volume_pose_find(want, space_of(image) || mask->is_nifti ? &space : NULL, mask->size, path,
                                 &e->mask_pose));
    if (memcmp(e->mask_pose.from, e->pose.from, sizeof e->pose.from) == 0)
        return CLT_OK;
    CLT_FAIL(CLT_EDATA,
             "the axes of the mask '%s' are %s, those of its image %s: other axes for the same size; write "
             "the mask "
             "with the axes of its image",
             path, mask->space.axes, image->space.axes);
}

static clt_status look_at_mask(const listing *l, const clt_volume *image, const char *image_path,
                               const char *path, clt_volume_entry *e)
{
    clt_volume mask;
    CLT_TRY(clt_volume_look(&mask, path));
    if (mask.channels != 1)
        CLT_FAIL(CLT_EDATA, "reading the mask '%s': it has %lld channels, a mask has one class per voxel",
                 path, (long long)mask.channels);
    for (int i = 0; i < 3; i++)
        if (mask.size[i] != image->size[i])
            CLT_FAIL(CLT_EDATA,
                     "the mask '%s' has %lld x %lld x %lld voxels (depth, height, width), its image '%s' has "
                     "%lld x %lld x %lld; they must be of one size",
                     path, (long long)mask.size[0], (long long)mask.size[1], (long long)mask.size[2],
                     image_path, (long long)image->size[0], (long long)image->size[1],
                     (long long)image->size[2]);
    return pose_mask(l, image, &mask, path, e);
}

static int64_t file_bytes(const char *path)
{
    struct stat info;
    return path && stat(path, &info) == 0 ? (int64_t)info.st_size : 0;
}

static clt_status add_file(listing *l, const char *image, const char *mask, int32_t class_number)
{
    static const clt_volume_want nothing = {.spaces = false};
    clt_volume v;
    clt_volume_entry e = {.image = image, .mask = mask, .class_number = class_number};
    const char *bad = image;
    clt_status status = clt_volume_look(&v, image);
    if (status == CLT_OK)
        status = clt_volume_pose_find(l->options->want ? l->options->want : &nothing, space_of(&v), v.size,
                                      image, &e.pose);
    if (status == CLT_OK && mask) {
        bad = mask;
        status = look_at_mask(l, &v, image, mask, &e);
    }
    if (status != CLT_OK)
        return bad_file(l, bad, status);
    e.channels = v.channels;
    e.has_space = v.is_nifti;
    e.space = v.space;
    clt_volume_list *list = l->list;
    CLT_TRY(clt_grow(&list->entry, &l->room, (size_t)list->count + 1, sizeof *list->entry, "volumes"));
    list->entry[list->count++] = e;
    list->bytes += file_bytes(image) + file_bytes(mask);
    return CLT_OK;
}

static const char *joined(clt_arena *arena, const char *folder, const char *name)
{
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    return clt_arena_printf(arena, "%.*s/%s", (int)n, folder, name);
}

/* --- images with masks --- */

/* The number of a pair of folders that are there; -1: there is none. */
static int find_pair(const char *folder)
{
    for (int i = 0; i < N_PAIRS; i++)
        if (is_subfolder(folder, pairs[i][0]) && is_subfolder(folder, pairs[i][1]))
            return i;
    return -1;
}

static const char *find_mask(const names *masks, const char *image)
{
    size_t stem = clt_volume_stem(image);
    for (size_t i = 0; i < masks->count; i++) {
        const char *name = masks->name[i];
        if (clt_volume_stem(name) == stem && strncmp(name, image, stem) == 0)
            return name;
    }
    return NULL;
}

static clt_status list_pairs(listing *l, const char *images, const char *masks)
{
    names image = {.arena = l->arena}, mask = {.arena = l->arena};
    clt_status status = list_names(&image, images);
    if (status == CLT_OK)
        status = list_names(&mask, masks);
    for (size_t i = 0; i < image.count && status == CLT_OK; i++) {
        if (!is_volume(image.name[i]))
            continue;
        const char *path = joined(l->arena, images, image.name[i]), *name = find_mask(&mask, image.name[i]);
        const char *mask_path = name ? joined(l->arena, masks, name) : NULL;
        if (!path || (name && !mask_path))
            status = CLT_ENOMEM;
        else if (name)
            status = add_file(l, path, mask_path, 0);
        else
            status =
                bad_file(l, path,
                         clt_fail(CLT_EDATA, __FILE__, __LINE__,
                                  "'%s' has no mask: there is no volume of that name in '%s'", path, masks));
    }
    free(image.name);
    free(mask.name);
    return status;
}

/* --- classes --- */

clt_status clt_volume_list_classes(clt_arena *arena, const char *path, const char ***out, int64_t *count)
{
    names all = {.arena = arena};
    *out = NULL;
    *count = 0;
    clt_status status = list_names(&all, path);
    if (status == CLT_OK && !(*out = clt_arena_alloc(arena, (all.count + 1) * sizeof **out)))
        status = CLT_ENOMEM;
    for (size_t i = 0; i < all.count && status == CLT_OK; i++) {
        names inside = {.arena = arena};
        bool any = false;
        if (!is_subfolder(path, all.name[i]))
            continue;
        const char *folder = joined(arena, path, all.name[i]);
        status = folder ? list_names(&inside, folder) : CLT_ENOMEM;
        for (size_t k = 0; k < inside.count && !any; k++)
            any = is_volume(inside.name[k]);
        if (any)
            (*out)[(*count)++] = all.name[i];
        free(inside.name);
    }
    free(all.name);
    return status;
}

static clt_status list_class(listing *l, const char *folder, int32_t number)
{
    names inside = {.arena = l->arena};
    clt_status status = list_names(&inside, folder);
    for (size_t i = 0; i < inside.count && status == CLT_OK; i++) {
        if (!is_volume(inside.name[i]))
            continue;
        const char *path = joined(l->arena, folder, inside.name[i]);
        status = path ? add_file(l, path, NULL, number) : CLT_ENOMEM;
    }
    free(inside.name);
    return status;
}

static clt_status list_classes(listing *l)
{
    const clt_volume_list_options *o = l->options;
    clt_volume_list *list = l->list;
    const char **own;
    int64_t n;
    CLT_TRY(clt_volume_list_classes(l->arena, o->path, &own, &n));
    list->n_classes = o->n_classes ? o->n_classes : n;
    list->class_names = clt_arena_alloc(l->arena, (size_t)(list->n_classes + 1) * sizeof *list->class_names);
    if (!list->class_names)
        return CLT_ENOMEM;
    for (int64_t i = 0; i < list->n_classes; i++)
        if (!(list->class_names[i] = clt_arena_strdup(l->arena, o->n_classes ? o->class_names[i] : own[i])))
            return CLT_ENOMEM;
    for (int64_t i = 0; i < n; i++) {
        int32_t number = -1;
        for (int64_t k = 0; k < list->n_classes && number < 0; k++)
            number = strcmp(list->class_names[k], own[i]) == 0 ? (int32_t)k : -1;
        const char *folder = joined(l->arena, o->path, own[i]);
        if (!folder)
            return CLT_ENOMEM;
        if (number < 0)
            CLT_FAIL(CLT_EDATA,
                     "opening %s: the folder '%s' is no class of the training data, whose classes are its "
                     "subfolders; rename or remove it",
                     o->key, folder);
        CLT_TRY(list_class(l, folder, number));
    }
    return CLT_OK;
}

/* --- a folder --- */

static clt_status list_folder(listing *l)
{
    const clt_volume_list_options *o = l->options;
    int pair = find_pair(o->path);
    if (pair < 0) {
        l->list->kind = CLT_VOLUMES_CLASSES;
        return list_classes(l);
    }
    const char *images = joined(l->arena, o->path, pairs[pair][0]),
               *masks = joined(l->arena, o->path, pairs[pair][1]);
    l->list->kind = CLT_VOLUMES_MASKS;
    return images && masks ? list_pairs(l, images, masks) : CLT_ENOMEM;
}

/* Moves the entries to the arena. */
static clt_status keep_entries(listing *l)
{
    clt_volume_list *list = l->list;
    clt_volume_entry *kept = clt_arena_alloc(l->arena, ((size_t)list->count + 1) * sizeof *kept);
    if (kept && list->count)
        memcpy(kept, list->entry, (size_t)list->count * sizeof *kept);
    free(list->entry);
    list->entry = kept;
    return kept ? CLT_OK : CLT_ENOMEM;
}

clt_status clt_volume_list_open(clt_arena *arena, const clt_volume_list_options *options,
                                clt_volume_list *out)
{
    listing l = {.arena = arena, .options = options, .list = out};
    clt_status status;
    *out = (clt_volume_list){.kind = CLT_VOLUMES_PLAIN, .folder = clt_arena_strdup(arena, options->path)};
    if (!out->folder)
        return CLT_ENOMEM;
    if (clt_is_directory(options->path))
        status = list_folder(&l);
    else
        status = add_file(&l, out->folder, NULL, 0);
    clt_status kept = keep_entries(&l);
    CLT_TRY(status);
    CLT_TRY(kept);
    if (out->count == 0 && !options->tell)
        CLT_FAIL(
            CLT_EDATA,
            "opening %s: '%s' holds no volumes; a folder has images/NAME.nii.gz and masks/NAME.nii.gz (or "
            "imagesTr and labelsTr) for segmentation, CLASS/NAME.nii.gz for classification; .nii and "
            ".npy are read, too; images lie in CLASS/NAME.jpg or .png, and other data are named by their "
            "file",
            options->key, options->path);
    return CLT_OK;
}

void clt_volume_list_warn(const clt_volume_list *list, const char *key, const char *advice)
{
    const clt_volume_entry *first = NULL;
    int64_t others = 0, other = -1, masks = 0, mask = -1;
    for (int64_t i = 0; i < list->count; i++) {
        const clt_volume_entry *e = &list->entry[i];
        if (!e->space.axes[0])
            continue;
        first = first ? first : e;
        if (strcmp(e->space.axes, first->space.axes) != 0) {
            other = others++ ? other : i;
        }
        if (e->mask_axes[0] && strcmp(e->mask_axes, e->space.axes) != 0)
            mask = masks++ ? mask : i;
    }
    if (others > 0)
        CLT_WARN("%s: %lld of %lld volumes lie in the body otherwise than the first: the axes of '%s' are "
                 "%s, those of "
                 "'%s' %s; %s",
                 key, (long long)others, (long long)list->count, list->entry[other].image,
                 list->entry[other].space.axes, first->image, first->space.axes, advice);
    if (masks > 0)
        CLT_WARN(
            "%s: %lld mask%s otherwise than the image: the axes of '%s' are %s, those of its image %s; %s",
            key, (long long)masks, masks == 1 ? " lies" : "s lie", list->entry[mask].mask,
            list->entry[mask].mask_axes, list->entry[mask].space.axes, advice);
}
