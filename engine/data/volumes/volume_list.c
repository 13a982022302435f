/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the volumes of a folder, pairs images with masks or classes, and reads all headers. */
#include "engine/data/volumes/volume_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"

/* Names of the folders of images and of their masks. */
static const char *const pairs[][2] = {{"images", "masks"}, {"images", "labels"}, {"imagesTr", "labelsTr"}};
#define N_PAIRS ((int)(sizeof pairs / sizeof pairs[0]))

/* True if the name is a volume's. Of a pair of files only the header counts as a volume. */
static bool is_volume(const char *name)
{
    return clt_volume_stem(name) > 0 && !clt_volume_is_voxels(name);
}

/* Index of the first name that is not less, in byte order, than the first `length` bytes of `start`. */
static size_t first_with(const clt_file_list *list, const char *start, size_t length)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strncmp(list->name[middle], start, length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool begins(const clt_file_list *list, size_t i, const char *start, size_t length)
{
    return i < list->count && strncmp(list->name[i], start, length) == 0;
}

/* Index of the volume whose name without ending equals the first `stem` bytes of `start`; list->count: there
 * is none. */
static size_t find_stem(const clt_file_list *list, const char *start, size_t stem)
{
    for (size_t i = first_with(list, start, stem); begins(list, i, start, stem); i++)
        if (is_volume(list->name[i]) && clt_volume_stem(list->name[i]) == stem)
            return i;
    return list->count;
}

/* --- one file --- */

typedef struct listing {
    clt_arena *arena;
    const clt_volume_list_options *options;
    clt_volume_list *list;
    size_t room;
} listing;

/* Reports or warns of a bad file; returns an error if the work must end. */
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
    CLT_WARN_ONCE("%s is skipped (data.on_bad_sample skip): %s", path, clt_error_text());
    return CLT_OK;
}

static const clt_nifti_space *space_of(const clt_volume *v)
{
    return v->is_nifti ? &v->space : NULL;
}

/* Finds the pose of a mask. Spacing and position come from the image even if the mask's header differs
 * (clt_volume_list_warn warns of that). The mask may have another orientation. */
static clt_status pose_mask(const listing *l, const clt_volume *image, const clt_volume *mask,
                            const char *path, clt_volume_entry *e)
{
    static const clt_volume_want nothing = {.spaces = false};
    const clt_volume_want *want = l->options->want ? l->options->want : &nothing;
    clt_nifti_space space = image->space;
    e->mask_has_space = mask->is_nifti;
    e->mask_space = mask->space;
    if (mask->space.axes[0])
        memcpy(space.axes, mask->space.axes, sizeof space.axes);
    CLT_TRY(clt_volume_pose_find(want, space_of(image) || mask->is_nifti ? &space : NULL, mask->size, path,
                                 &e->mask_pose));
    if (memcmp(e->mask_pose.from, e->pose.from, sizeof e->pose.from) == 0)
        return CLT_OK;
    CLT_FAIL(CLT_EDATA,
             "the mask '%s' has the axes %s, but its image has the axes %s and the same size; write the mask "
             "with the axes of its image",
             path, mask->space.axes, image->space.axes);
}

static clt_status compare_mask(const listing *l, const clt_volume *image, const char *image_path,
                               const clt_volume *mask, const char *path, clt_volume_entry *e)
{
    if (mask->channels != 1)
        CLT_FAIL(CLT_EDATA, "reading the mask '%s': it has %lld channels, a mask has one class per voxel",
                 path, (long long)mask->channels);
    for (int i = 0; i < 3; i++)
        if (mask->size[i] != image->size[i])
            CLT_FAIL(CLT_EDATA,
                     "the mask '%s' has %lld x %lld x %lld voxels (depth, height, width), its image '%s' has "
                     "%lld x %lld x %lld; they must be of one size",
                     path, (long long)mask->size[0], (long long)mask->size[1], (long long)mask->size[2],
                     image_path, (long long)image->size[0], (long long)image->size[1],
                     (long long)image->size[2]);
    return pose_mask(l, image, mask, path, e);
}

static clt_status look_at_mask(const listing *l, const clt_volume *image, const char *image_path,
                               const char *path, clt_volume_entry *e)
{
    CLT_SCOPED(clt_volume) mask = {.channels = 0};
    CLT_TRY(clt_volume_look(&mask, path, 1, l->options->key));
    return compare_mask(l, image, image_path, &mask, path, e);
}

static int64_t file_bytes(const char *path)
{
    struct stat info;
    return path && clt_file_stat(path, &info) ? (int64_t)info.st_size : 0;
}

static clt_status count_bytes(void *context, const char *path)
{
    *(int64_t *)context += file_bytes(path);
    return CLT_OK;
}

static clt_status each_of_pair(const char *path, clt_status (*each)(void *context, const char *path),
                               void *context)
{
    CLT_FREED char *partner = NULL;
    CLT_TRY(clt_volume_partner(path, &partner));
    CLT_TRY(each(context, path));
    return partner ? each(context, partner) : CLT_OK;
}

clt_status clt_volume_each_file(const clt_volume_entry *e,
                                clt_status (*each)(void *context, const char *path), void *context)
{
    CLT_TRY(each_of_pair(e->image, each, context));
    for (int k = 1; k < e->files; k++) {
        CLT_FREED char *channel = NULL;
        CLT_TRY(clt_volume_channel_path(e->image, k, &channel));
        CLT_TRY(each_of_pair(channel, each, context));
    }
    return e->mask ? each_of_pair(e->mask, each, context) : CLT_OK;
}

static clt_status look_at_entry(const listing *l, clt_volume *v, clt_volume_entry *e, const char **bad)
{
    static const clt_volume_want nothing = {.spaces = false};
    *bad = e->image;
    CLT_TRY(clt_volume_look(v, e->image, e->files, l->options->key));
    CLT_TRY(clt_volume_pose_find(l->options->want ? l->options->want : &nothing, space_of(v), v->size,
                                 e->image, &e->pose));
    *bad = e->mask ? e->mask : e->image;
    return e->mask ? look_at_mask(l, v, e->image, e->mask, e) : CLT_OK;
}

/* Reads the headers of a volume and adds it. `files`: number of the image's files, 1 or one for each
 * channel. */
static clt_status add_file(listing *l, const char *image, int files, const char *mask, int32_t class_number)
{
    CLT_SCOPED(clt_volume) v = {.channels = 0};
    clt_volume_entry e = {.image = image, .mask = mask, .files = files, .class_number = class_number};
    const char *bad;
    clt_status status = look_at_entry(l, &v, &e, &bad);
    if (status != CLT_OK)
        return bad_file(l, bad, status);
    e.channels = v.channels;
    e.has_space = v.is_nifti;
    e.space = v.space;
    clt_volume_list *list = l->list;
    CLT_TRY(clt_grow(&list->entry, &l->room, (size_t)list->count + 1, sizeof *list->entry, "volumes"));
    list->entry[list->count++] = e;
    return clt_volume_each_file(&e, count_bytes, &list->bytes);
}

static const char *joined(clt_arena *arena, const char *folder, const char *name)
{
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    return clt_arena_printf(arena, "%.*s/%s", (int)n, folder, name);
}

/* --- images with masks --- */

/* Index in `pairs` of the first pair of folders that exists; -1: there is none. */
static int find_pair(const char *folder)
{
    for (int i = 0; i < N_PAIRS; i++)
        if (clt_is_folder_in(folder, pairs[i][0]) && clt_is_folder_in(folder, pairs[i][1]))
            return i;
    return -1;
}

/* Handles a file that is not a volume. It is a bad file if it has the voxels of a pair and the header is
 * missing, or has another format of volumes. Other files are only counted. */
static clt_status tell_other(listing *l, const char *folder, const char *name)
{
    static const char *const ends[] = {".nrrd", ".nhdr", ".mha", ".mhd", ".dcm", ".mgz", ".mgh",
                                       ".mnc",  ".bz2",  ".xz",  ".zst", ".zip", ".npz"};
    const char *path = joined(l->arena, folder, name), *end = strrchr(name, '.');
    clt_volume_list *list = l->list;
    if (!path)
        return CLT_ENOMEM;
    if (clt_volume_is_voxels(name)) {
        CLT_FREED char *header = NULL;
        CLT_TRY(clt_volume_partner(path, &header));
        if (header)
            return CLT_OK;
        return bad_file(
            l, path,
            clt_fail(CLT_EDATA, __FILE__, __LINE__,
                     "'%s' holds the voxels of a pair of files, and the header, a file of the same "
                     "name that ends in .hdr, is missing; copy both",
                     path));
    }
    for (size_t i = 0; end && i < sizeof ends / sizeof ends[0]; i++)
        if (strcasecmp(end, ends[i]) == 0)
            return bad_file(l, path,
                            clt_fail(CLT_EDATA, __FILE__, __LINE__,
                                     "'%s' has a format that cltrain does not read (%s); convert it to "
                                     ".nii.gz, or move it to another folder",
                                     path, ends[i]));
    list->other = list->other ? list->other : path;
    list->n_others++;
    return CLT_OK;
}

/* Index of the image's mask; masks->count: there is none. The mask has the image's name without its ending
 * or, as in nnU-Net, also without the _0000 before the ending; then *is_channel is true. */
static size_t find_mask(const clt_file_list *masks, const char *image, bool *is_channel, int *channel)
{
    size_t stem = clt_volume_stem(image), mask = find_stem(masks, image, stem);
    *is_channel = mask == masks->count && clt_volume_channel(image, stem, channel);
    return *is_channel ? find_stem(masks, image, stem - 5) : mask;
}

/* *files: number of files of the volume; `image` is its first channel. CLT_EDATA if a channel is missing. */
static clt_status count_channels(const clt_file_list *images, const char *image, int *files)
{
    size_t stem = clt_volume_stem(image);
    int most = 0, n = 0, k;
    for (size_t i = first_with(images, image, stem - 4); begins(images, i, image, stem - 4); i++) {
        const char *name = images->name[i];
        if (!is_volume(name) || clt_volume_stem(name) != stem || !clt_volume_channel(name, stem, &k))
            continue;
        most = k > most ? k : most;
        n++;
        if (strcmp(name + stem, image + stem) != 0)
            CLT_FAIL(CLT_EDATA, "'%s' and '%s' are channels of one volume and must be of one format", image,
                     name);
    }
    *files = n;
    if (most + 1 != n)
        CLT_FAIL(CLT_EDATA,
                 "the numbers _0000, _0001 ... at the end of names count the channels of a volume (nnU-Net): "
                 "the last file of '%.*s' is _%04d, but there are only %d file%s; add the missing ones",
                 (int)stem - 5, image, most, n, CLT_PLURAL(n));
    return CLT_OK;
}

static clt_status no_mask(const char *path, const char *masks, bool is_channel)
{
    size_t stem = clt_volume_stem(path);
    const char *name = strrchr(path, '/');
    size_t at = name ? (size_t)(name - path) + 1 : 0;
    if (is_channel)
        CLT_FAIL(
            CLT_EDATA,
            "'%s' has no mask: '%s' has neither a volume '%.*s' nor, if _%.4s is the number of a channel as "
            "nnU-Net writes it, '%.*s'",
            path, masks, (int)(stem - at), path + at, path + stem - 4, (int)(stem - at) - 5, path + at);
    CLT_FAIL(CLT_EDATA, "'%s' has no mask: there is no volume of that name in '%s'", path, masks);
}

typedef struct pairing {
    const char *images, *masks; /* folders */
    clt_file_list image, mask;
    const char **taken; /* for each mask: its image, or NULL */
} pairing;

/* Adds image i with its mask. */
static clt_status add_pair(listing *l, pairing *p, size_t i)
{
    const char *image = p->image.name[i], *path = joined(l->arena, p->images, image);
    bool is_channel;
    int channel = 0, files = 1;
    if (!path)
        return CLT_ENOMEM;
    if (!is_volume(image))
        return tell_other(l, p->images, image);
    size_t number = find_mask(&p->mask, image, &is_channel, &channel);
    if (number == p->mask.count)
        return bad_file(l, path, no_mask(path, p->masks, is_channel));
    const char *first = p->taken[number];
    if (is_channel && channel > 0 && first) /* another channel of an earlier volume */
        return CLT_OK;
    clt_status status = is_channel ? count_channels(&p->image, image, &files) : CLT_OK;
    if (status == CLT_OK && first)
        status = clt_fail(CLT_EDATA, __FILE__, __LINE__,
                          "'%s' and '%s' have the same name and so the same mask; remove one of them", path,
                          first);
    p->taken[number] = first ? first : path;
    if (status != CLT_OK)
        return bad_file(l, path, status);
    const char *mask_path = joined(l->arena, p->masks, p->mask.name[number]);
    return mask_path ? add_file(l, path, files, mask_path, 0) : CLT_ENOMEM;
}

/* Adds the masks without an image to the list. */
static clt_status find_lonely(listing *l, const pairing *p)
{
    clt_volume_list *list = l->list;
    list->lonely = clt_arena_alloc(l->arena, (p->mask.count + 1) * sizeof *list->lonely);
    if (!list->lonely)
        return CLT_ENOMEM;
    for (size_t i = 0; i < p->mask.count; i++) {
        const char *name = p->mask.name[i];
        if (!is_volume(name))
            CLT_TRY(tell_other(l, p->masks, name));
        else if (!p->taken[i] && !(list->lonely[list->n_lonely++] = joined(l->arena, p->masks, name)))
            return CLT_ENOMEM;
    }
    return CLT_OK;
}

static void free_pairing(pairing *p)
{
    clt_file_list_free(&p->image);
    clt_file_list_free(&p->mask);
}

CLT_SCOPED_VALUE(pairing, free_pairing)

static clt_status list_pairs(listing *l, const char *images, const char *masks)
{
    CLT_SCOPED(pairing) p = {.images = images, .masks = masks};
    CLT_TRY(clt_folder_names(images, &p.image));
    CLT_TRY(clt_folder_names(masks, &p.mask));
    p.taken = clt_arena_alloc(l->arena, (p.mask.count + 1) * sizeof *p.taken);
    if (!p.taken)
        return CLT_ENOMEM;
    for (size_t i = 0; i < p.image.count; i++) {
        clt_files_want_starts(images, &p.image, i);
        clt_files_want_starts(masks, &p.mask, i); /* mostly the mask has the same index as the image */
        CLT_TRY(add_pair(l, &p, i));
    }
    return find_lonely(l, &p);
}

/* --- classes --- */

/* True if the folder contains a volume. */
static clt_status has_volumes(const char *root, const char *name, bool *any)
{
    CLT_FREED char *folder = NULL;
    CLT_SCOPED(clt_file_list) inside = {0};
    CLT_TRY(clt_path_join(root, name, &folder));
    CLT_TRY(clt_folder_names(folder, &inside));
    *any = false;
    for (size_t i = 0; i < inside.count && !*any; i++)
        *any = is_volume(inside.name[i]);
    return CLT_OK;
}

clt_status clt_volume_list_classes(clt_arena *arena, const char *path, const char ***out, int64_t *count)
{
    CLT_SCOPED(clt_file_list) all = {0};
    *out = NULL;
    *count = 0;
    CLT_TRY(clt_folder_names(path, &all));
    if (!(*out = clt_arena_alloc(arena, (all.count + 1) * sizeof **out)))
        return CLT_ENOMEM;
    for (size_t i = 0; i < all.count; i++) {
        bool any = false;
        if (clt_is_folder_in(path, all.name[i]))
            CLT_TRY(has_volumes(path, all.name[i], &any));
        if (any && !((*out)[(*count)++] = clt_arena_strdup(arena, all.name[i])))
            return CLT_ENOMEM;
    }
    return CLT_OK;
}

/* Adds an entry of a folder without masks. */
static clt_status add_entry(listing *l, const char *folder, const char *name, int32_t number)
{
    if (!is_volume(name))
        return tell_other(l, folder, name);
    const char *path = joined(l->arena, folder, name);
    return path ? add_file(l, path, 1, NULL, number) : CLT_ENOMEM;
}

static clt_status list_class(listing *l, const char *folder, int32_t number)
{
    CLT_SCOPED(clt_file_list) inside = {0};
    CLT_TRY(clt_folder_names(folder, &inside));
    for (size_t i = 0; i < inside.count; i++) {
        clt_files_want_starts(folder, &inside, i);
        CLT_TRY(add_entry(l, folder, inside.name[i], number));
    }
    return CLT_OK;
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
                     "opening %s: the folder '%s' is not a class of the training data, whose classes are its "
                     "subfolders; rename or remove it",
                     o->key, folder);
        CLT_TRY(list_class(l, folder, number));
    }
    return CLT_OK;
}

/* --- a folder --- */

/* Fails if there is a folder of images but no folder of masks, since "images" is probably not meant as a
 * class. */
static clt_status check_masks_there(const listing *l)
{
    const clt_volume_list_options *o = l->options;
    for (int i = 0; i < N_PAIRS && o->n_classes == 0; i++)
        if (clt_is_folder_in(o->path, pairs[i][0]))
            CLT_FAIL(
                CLT_EDATA,
                "opening %s: '%s' has a folder '%s', but none with its masks: they are looked for in '%s'%s",
                o->key, o->path, pairs[i][0], pairs[i][1],
                i < 2 ? " or 'labels' (if images is a class, list the classes in data.class_names)" : "");
    return CLT_OK;
}

/* Lists the volumes of a folder, then the volumes of its subfolders; for images with masks it lists only the
 * images. */
static clt_status list_plain(listing *l)
{
    const clt_volume_list_options *o = l->options;
    CLT_SCOPED(clt_file_list) all = {0};
    int pair = find_pair(o->path);
    const char *root = pair < 0 ? o->path : joined(l->arena, o->path, pairs[pair][0]);
    CLT_TRY(root ? clt_folder_names(root, &all) : CLT_ENOMEM);
    for (int inner = 0; inner < 2; inner++)
        for (size_t i = 0; i < all.count; i++) {
            bool folder = clt_is_folder_in(root, all.name[i]);
            if (folder != (inner == 1))
                continue;
            const char *path = joined(l->arena, root, all.name[i]);
            if (!path)
                return CLT_ENOMEM;
            CLT_TRY(folder ? list_class(l, path, 0) : add_entry(l, root, all.name[i], 0));
        }
    return CLT_OK;
}

static clt_status list_folder(listing *l)
{
    const clt_volume_list_options *o = l->options;
    int pair = find_pair(o->path);
    if (o->plain)
        return list_plain(l);
    if (pair < 0) {
        CLT_TRY(check_masks_there(l));
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
        status = add_file(&l, out->folder, 1, NULL, 0);
    clt_status kept = keep_entries(&l);
    CLT_TRY(status);
    CLT_TRY(kept);
    if (out->count == 0 && !options->tell)
        CLT_FAIL(
            CLT_EDATA,
            "opening %s: '%s' holds no volumes; a folder has images/NAME.nii.gz and masks/NAME.nii.gz (or "
            "imagesTr and labelsTr) for segmentation, CLASS/NAME.nii.gz for classification; .nii, pairs of "
            ".hdr and .img, and .npy are read, too; images lie in CLASS/NAME.jpg or .png, and other data are "
            "named by their file",
            options->key, options->path);
    return CLT_OK;
}
