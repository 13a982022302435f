/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads boxes of volumes through a cache. The cache holds images as they are in their files (mapped or
 * unpacked), or as f32 if they are turned or resampled. It holds masks as bytes, with an index of their
 * foreground. */
#include "engine/data/volumes/volume_set.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"

/* An entry of the cache. Number 2 * index is the image of volume `index`, 2 * index + 1 its mask. */
typedef struct cached_part {
    clt_volume image; /* the image as it is in its file; closed if `values` is set */
    float *values;    /* (channels, size) the image, if turned or resampled; else NULL */
    int64_t size[3];  /* size of `values` */
    uint8_t *mask;    /* (size of the volume) */
    uint64_t *before; /* memory of foreground.before */
    clt_foreground foreground;
} cached_part;

static void drop_part(void *thing)
{
    cached_part *part = thing;
    if (!part)
        return;
    clt_volume_close(&part->image);
    free(part->values);
    free(part->mask);
    free(part->before);
    free(part);
}

CLT_SCOPED_POINTER(cached_part, drop_part)

void clt_volume_set_size(const clt_volume_set *set, int64_t index, int64_t size[3])
{
    memcpy(size, set->fits ? set->target : set->list.entry[index].pose.size, 3 * sizeof *size);
}

/* The voxel of the whole volume with which the cropped or padded volume begins; 0 if it is neither cropped
 * nor padded. */
static void find_shift(const clt_volume_set *set, int64_t index, int64_t shift[3])
{
    for (int i = 0; i < 3; i++) {
        int64_t room = set->list.entry[index].pose.size[i] - set->target[i];
        shift[i] = !set->fits || set->fit != CLT_FIT_CROP ? 0 : room >= 0 ? room / 2 : -(-room / 2);
    }
}

/* --- making parts --- */

/* Fails if the file has changed since the list was made. */
static clt_status check_unchanged(const clt_volume *v, const int64_t size[3], int64_t channels,
                                  const char *path)
{
    if (v->channels == channels && memcmp(v->size, size, sizeof v->size) == 0)
        return CLT_OK;
    CLT_FAIL(CLT_EDATA,
             "reading '%s': its size has changed since the data was opened; do not change data files while "
             "they are in use",
             path);
}

static clt_status resize_values(const clt_volume_set *set, const clt_volume_entry *e, cached_part *part)
{
    CLT_FREED float *large = CLT_TAKE(part->values);
    size_t voxels = (size_t)(e->channels * clt_voxels(set->target));
    CLT_TRY(clt_alloc(&part->values, voxels, sizeof *part->values, "a volume"));
    clt_volume_resize(large, e->channels, part->size, set->target, part->values);
    memcpy(part->size, set->target, sizeof part->size);
    return CLT_OK;
}

static clt_status make_image(const clt_volume_set *set, int64_t index, cached_part *part, uint64_t *bytes)
{
    const clt_volume_entry *e = &set->list.entry[index];
    clt_volume *v = &part->image;
    CLT_TRY(clt_volume_open(v, e->image, e->files, set->key));
    CLT_TRY(check_unchanged(v, e->pose.file, e->channels, e->image));
    *bytes = clt_volume_unpacked(v);
    bool resizes = set->fits && set->fit == CLT_FIT_RESIZE;
    if (!resizes && !clt_volume_posed(&e->pose))
        return CLT_OK;
    CLT_TRY(clt_volume_posed_values(v, &e->pose, &part->values));
    clt_volume_close(v);
    memcpy(part->size, e->pose.size, sizeof part->size);
    if (resizes)
        CLT_TRY(resize_values(set, e, part));
    *bytes = (uint64_t)(e->channels * clt_voxels(part->size)) * sizeof *part->values;
    return CLT_OK;
}

static void crop_mask(const uint8_t *in, const int64_t from[3], const int64_t at[3], const int64_t box[3],
                      uint8_t *out)
{
    for (int64_t z = at[0]; z < at[0] + box[0]; z++)
        for (int64_t y = at[1]; y < at[1] + box[1]; y++, out += box[2]) {
            bool inside = z >= 0 && z < from[0] && y >= 0 && y < from[1];
            int64_t first = at[2] < 0 ? 0 : at[2], last = at[2] + box[2] < from[2] ? at[2] + box[2] : from[2];
            memset(out, 0, (size_t)box[2]);
            if (inside && first < last)
                memcpy(out + (first - at[2]), in + (z * from[1] + y) * from[2] + first,
                       (size_t)(last - first));
        }
}

/* Reads a mask as it is in its file, neither turned nor fitted. */
static clt_status read_mask(const clt_volume_set *set, int64_t index, uint8_t **out)
{
    const clt_volume_entry *e = &set->list.entry[index];
    CLT_SCOPED(clt_volume) v = {.channels = 0};
    *out = NULL;
    CLT_TRY(clt_volume_open(&v, e->mask, 1, set->key));
    CLT_TRY(check_unchanged(&v, e->mask_pose.file, 1, e->mask));
    CLT_TRY(clt_alloc(out, (size_t)clt_voxels(v.size), 1, "a mask"));
    return clt_volume_mask(&v, set->mask_classes, set->mask_values, *out);
}

static clt_status make_mask(const clt_volume_set *set, int64_t index, cached_part *part, uint64_t *bytes)
{
    const clt_volume_entry *e = &set->list.entry[index];
    int64_t size[3], shift[3];
    clt_volume_set_size(set, index, size);
    CLT_TRY(read_mask(set, index, &part->mask));
    if (clt_volume_posed(&e->mask_pose)) {
        CLT_FREED uint8_t *stored = CLT_TAKE(part->mask);
        CLT_TRY(clt_alloc(&part->mask, (size_t)clt_voxels(e->mask_pose.size), 1, "a mask"));
        clt_volume_pose_mask(&e->mask_pose, stored, part->mask);
    }
    if (set->fits) {
        CLT_FREED uint8_t *whole = CLT_TAKE(part->mask);
        CLT_TRY(clt_alloc(&part->mask, (size_t)clt_voxels(size), 1, "a mask"));
        find_shift(set, index, shift);
        if (set->fit == CLT_FIT_RESIZE)
            clt_volume_resize_mask(whole, e->pose.size, size, part->mask);
        else
            crop_mask(whole, e->pose.size, shift, size, part->mask);
    }
    uint64_t rows = (uint64_t)(size[0] * size[1]) + 1;
    CLT_TRY(clt_alloc(&part->before, rows, sizeof *part->before, "a mask"));
    clt_foreground_count(part->mask, size, part->before, &part->foreground);
    *bytes = (uint64_t)clt_voxels(size) + rows * sizeof *part->before;
    return CLT_OK;
}

static clt_status make_part(void *context, int64_t number, void **thing, uint64_t *bytes)
{
    const clt_volume_set *set = context;
    CLT_SCOPED(cached_part) *part = NULL;
    CLT_TRY(clt_alloc(&part, 1, sizeof *part, "a volume"));
    CLT_TRY(number % 2 == 0 ? make_image(set, number / 2, part, bytes)
                            : make_mask(set, number / 2, part, bytes));
    *thing = CLT_TAKE(part);
    return CLT_OK;
}

/* --- the set --- */

clt_status clt_volume_set_read_masks(clt_volume_set *set, const clt_config *config, clt_arena *arena)
{
    int64_t classes = clt_config_int(config, "data.mask_classes");
    int n = clt_config_list_count(config, "data.mask_values");
    int64_t *values = n ? clt_arena_alloc(arena, (size_t)n * sizeof *values) : NULL;
    if (n && !values)
        return CLT_ENOMEM;
    for (int i = 0; i < n; i++)
        values[i] = clt_config_list_int(config, "data.mask_values", i);
    set->mask_values = values;
    set->mask_classes = n ? n : classes > 0 ? classes : CLT_MASK_CLASSES;
    return CLT_OK;
}

clt_status clt_volume_set_open(clt_volume_set *set, uint64_t cache_bytes)
{
    const clt_volume_entry *first = set->list.entry;
    set->channels = first->channels;
    for (int64_t i = 1; i < set->list.count; i++)
        if (set->list.entry[i].channels != first->channels)
            CLT_FAIL(CLT_EDATA,
                     "opening %s: '%s' has %lld channels, '%s' has %lld; all volumes need the same number",
                     set->key, set->list.entry[i].image, (long long)set->list.entry[i].channels, first->image,
                     (long long)first->channels);
    return clt_volume_cache_create(2 * set->list.count, cache_bytes, make_part, drop_part, set, &set->cache);
}

void clt_volume_set_close(clt_volume_set *set)
{
    clt_volume_cache_destroy(set->cache);
    set->cache = NULL;
}

static clt_status take(const clt_volume_set *set, int64_t number, cached_part **part)
{
    void *thing;
    clt_status status = clt_volume_cache_take(set->cache, number, &thing);
    *part = thing;
    return status;
}

/* Copies a box of an image. If volumes are fitted to `target`, the box must lie inside this size: the file's
 * voxels outside do not belong to the volume. */
static clt_status copy_box(const clt_volume_set *set, int64_t index, const cached_part *part,
                           const int64_t at[3], const int64_t box[3], float outside, float *out)
{
    int64_t shift[3], there[3];
    find_shift(set, index, shift);
    for (int i = 0; i < 3; i++) {
        there[i] = at[i] + shift[i];
        if (set->fits && (at[i] < 0 || at[i] + box[i] > set->target[i]))
            CLT_FAIL(CLT_EINTERNAL, "a box beyond a volume that was brought to its size");
    }
    if (!part->values)
        return clt_volume_box(&part->image, there, box, outside, out);
    clt_values_box(part->values, set->channels, part->size, there, box, outside, out);
    return CLT_OK;
}

clt_status clt_volume_set_image(const clt_volume_set *set, int64_t index, const int64_t at[3],
                                const int64_t box[3], float outside, float *out)
{
    cached_part *part;
    CLT_TRY(take(set, 2 * index, &part));
    clt_status status = copy_box(set, index, part, at, box, outside, out);
    clt_volume_cache_release(set->cache, 2 * index);
    return status;
}

clt_status clt_volume_set_mask(const clt_volume_set *set, int64_t index, const int64_t at[3],
                               const int64_t box[3], uint8_t *out)
{
    cached_part *part;
    int64_t size[3];
    clt_volume_set_size(set, index, size);
    CLT_TRY(take(set, 2 * index + 1, &part));
    crop_mask(part->mask, size, at, box, out);
    clt_volume_cache_release(set->cache, 2 * index + 1);
    return CLT_OK;
}

clt_status clt_volume_set_foreground(const clt_volume_set *set, int64_t index, const clt_foreground **out)
{
    cached_part *part;
    *out = NULL;
    CLT_TRY(take(set, 2 * index + 1, &part));
    *out = &part->foreground;
    return CLT_OK;
}

void clt_volume_set_release(const clt_volume_set *set, int64_t index)
{
    clt_volume_cache_release(set->cache, 2 * index + 1);
}

/* --- reading everything --- */

typedef struct class_search {
    const clt_volume_set *set;
    bool skip_bad;
    pthread_mutex_t lock; /* guards the members below */
    bool *found;
    clt_error error;
} class_search;

/* Marks the classes of a mask that was read from its file. */
static void mark_classes(const clt_volume_set *set, int64_t index, const uint8_t *mask, bool *found)
{
    int64_t voxels = clt_voxels(set->list.entry[index].mask_pose.file);
    for (int64_t k = 0; k < voxels; k++)
        found[mask[k]] = true;
}

static void search_range(void *context, uint64_t first, uint64_t last)
{
    class_search *s = context;
    for (uint64_t i = first; i < last; i++) {
        bool here[CLT_MASK_CLASSES] = {false};
        CLT_FREED uint8_t *mask = NULL;
        clt_status status = read_mask(s->set, (int64_t)i, &mask);
        if (status == CLT_OK)
            mark_classes(s->set, (int64_t)i, mask, here);
        pthread_mutex_lock(&s->lock);
        bool skip = status == CLT_EDATA && s->skip_bad;
        if (status != CLT_OK && s->error.status == CLT_OK && !skip)
            clt_error_take(status, &s->error);
        for (int k = 0; k < CLT_MASK_CLASSES; k++)
            s->found[k] = s->found[k] || here[k];
        pthread_mutex_unlock(&s->lock);
    }
}

clt_status clt_volume_set_find_classes(const clt_volume_set *set, bool skip_bad, bool found[CLT_MASK_CLASSES])
{
    class_search s = {.set = set, .skip_bad = skip_bad, .found = found};
    memset(found, 0, CLT_MASK_CLASSES * sizeof *found);
    pthread_mutex_init(&s.lock, NULL);
    clt_for_ranges((uint64_t)set->list.count, 1, "clt-masks", search_range, &s);
    pthread_mutex_destroy(&s.lock);
    return s.error.status == CLT_OK ? CLT_OK : clt_error_put(&s.error);
}

/* Writes the classes that occur, such as "0, 255", until `room` bytes are full. */
static void list_classes(const bool found[CLT_MASK_CLASSES], const char *between, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (int k = 0; k < CLT_MASK_CLASSES && used < room; k++)
        if (found[k])
            used += (size_t)snprintf(text + used, room - used, "%s%d", used ? between : "", k);
}

void clt_volume_set_warn_classes(const clt_volume_set *set, const bool found[CLT_MASK_CLASSES])
{
    int64_t used = 0, largest = 0;
    char listed[1200], values[1200];
    for (int k = 0; k < CLT_MASK_CLASSES; k++) {
        used += found[k];
        largest = found[k] ? k : largest;
    }
    bool background = found[0];
    if (used == 0 || set->mask_values || largest + 1 <= used + (background ? 0 : 1))
        return;
    list_classes(found, ", ", listed, sizeof listed);
    list_classes(found, ",", values, sizeof values);
    CLT_WARN_ONCE(
        "%s: of the classes 0 to %lld only %lld occur in the masks of '%s': %s; if these values stand "
        "for the classes 0, 1 ... in this order, set data.mask_values=[%s%s], which makes %lld classes "
        "of them",
        set->key, (long long)largest, (long long)used, set->list.folder, listed, background ? "" : "0,",
        values, (long long)used + !background);
}

static clt_status check_image(const clt_volume_set *set, const clt_volume_entry *e)
{
    CLT_SCOPED(clt_volume) v = {.channels = 0};
    CLT_TRY(clt_volume_open(&v, e->image, e->files, set->key));
    return clt_volume_check(&v);
}

clt_status clt_volume_set_check(const clt_volume_set *set, int64_t index, bool *found, const char **bad)
{
    const clt_volume_entry *e = &set->list.entry[index];
    CLT_FREED uint8_t *mask = NULL;
    *bad = e->image;
    CLT_TRY(check_image(set, e));
    if (!e->mask)
        return CLT_OK;
    *bad = e->mask;
    CLT_TRY(read_mask(set, index, &mask));
    if (found)
        mark_classes(set, index, mask, found);
    return CLT_OK;
}
