/* SPDX-License-Identifier: Apache-2.0
 *
 * data.type nifti: the volumes of a folder (volume_list.h) as samples. Training reads whole volumes or
 * random patches. Evaluation of segmentations reads windows of the patch's size that cover every volume.
 * It knows nothing of file formats. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/config/choices.h"
#include "engine/data/arrays/source_pair.h"
#include "engine/data/volumes/volume_check.h"
#include "engine/data/volumes/volumes_state.h"

#define MIB 1048576.0

/* --- opening --- */

/* Reads a list of three sizes, or of one size for all axes; false: the list is empty. */
static bool read_size(const clt_config *config, const char *key, int64_t size[3])
{
    int n = clt_config_list_count(config, key);
    for (int i = 0; i < 3; i++)
        size[i] = n ? clt_config_list_int(config, key, n == 1 ? 0 : i) : 1;
    return n > 0;
}

static clt_status open_list(clt_source *source, const clt_config *config, bool eval_folder, bool plain,
                            clt_volume_set *set)
{
    const char *key = eval_folder ? "data.eval_path" : "data.path";
    int n = clt_config_list_count(config, "data.class_names");
    if (clt_config_list_count(config, key) != 1)
        CLT_FAIL(CLT_ECONFIG, "opening the data: data.type nifti takes one folder in %s", key);
    clt_volume_list_options options = {.path = clt_config_list_string(config, key, 0),
                                       .key = key,
                                       .n_classes = n,
                                       .skip_bad = clt_config_choice(config, "data.on_bad_sample") == 1};
    const char **names = clt_arena_alloc(source->arena, (size_t)(n + 1) * sizeof *names);
    if (!names)
        return CLT_ENOMEM;
    for (int i = 0; i < n; i++)
        names[i] = clt_config_list_string(config, "data.class_names", i);
    options.class_names = names;
    /* evaluation data has the classes of the training data */
    const char *training =
        clt_config_list_count(config, "data.path") == 1 ? clt_config_list_string(config, "data.path", 0) : "";
    if (eval_folder && n == 0 && clt_is_directory(training))
        CLT_TRY(clt_volume_list_classes(source->arena, training, &names, &options.n_classes));
    options.class_names = names;
    set->key = key;
    clt_volume_want want;
    clt_volume_want_read(config, &want);
    options.want = &want;
    options.plain = plain;
    return clt_volume_list_open(source->arena, &options, &set->list);
}

/* Chooses the volumes of this split. */
static clt_status choose_volumes(clt_source *source, const clt_config *config, clt_split split, bool divided,
                                 clt_volumes_state *s)
{
    const clt_split_part part =
        clt_split_choose(config, s->set->list.count, divided, split == CLT_SPLIT_EVAL);
    if (part.count <= 0)
        CLT_FAIL(CLT_EDATA,
                 "opening '%s': data.split %g of %lld volume%s leaves none for %s; give data.eval_path, or "
                 "another data.split (0: no evaluation)",
                 s->set->list.folder, clt_config_float(config, "data.split"), (long long)part.rows,
                 CLT_PLURAL(part.rows), split == CLT_SPLIT_EVAL && divided ? "evaluation" : "training");
    s->volume = clt_arena_alloc(source->arena, (size_t)part.count * sizeof *s->volume);
    if (!s->volume)
        return CLT_ENOMEM;
    for (; s->count < part.count; s->count++)
        s->volume[s->count] = clt_split_row(&part, s->count);
    return CLT_OK;
}

/* Sets the size of a sample. Without data.volume and data.patch, all volumes must have the same size. */
static clt_status choose_box(const clt_config *config, clt_volumes_state *s)
{
    const clt_volume_list *list = &s->set->list;
    int64_t patch[3];
    s->patches = read_size(config, "data.patch", patch) && list->kind != CLT_VOLUMES_PLAIN;
    if (s->patches && list->kind == CLT_VOLUMES_CLASSES)
        CLT_FAIL(CLT_ECONFIG,
                 "data.patch cuts patches out of volumes with masks, but '%s' has a folder for each class: a "
                 "class belongs to a whole volume; give data.volume instead",
                 list->folder);
    clt_volume_set_size(s->set, s->volume[0], s->box);
    for (int64_t i = 1; i < s->count && !s->patches; i++) {
        int64_t size[3];
        clt_volume_set_size(s->set, s->volume[i], size);
        if (memcmp(size, s->box, sizeof size) != 0)
            CLT_FAIL(
                CLT_EDATA,
                "opening %s: '%s' has %lld x %lld x %lld voxels (depth, height, width), '%s' has %lld x "
                "%lld x %lld; give data.volume, to which all are brought, or for segmentation data.patch",
                s->set->key, list->entry[s->volume[i]].image, (long long)size[0], (long long)size[1],
                (long long)size[2], list->entry[s->volume[0]].image, (long long)s->box[0],
                (long long)s->box[1], (long long)s->box[2]);
    }
    if (s->patches)
        memcpy(s->box, patch, sizeof patch);
    return CLT_OK;
}

static void read_augmentation(const clt_config *config, clt_volumes_state *s)
{
    memcpy(s->patch.patch, s->box, sizeof s->box);
    s->patch.foreground = clt_config_float(config, "data.patch_foreground");
    if (s->training) {
        s->patch.scale = clt_config_float(config, "data.scale_intensity");
        s->patch.shift = clt_config_float(config, "data.shift_intensity");
    }
    for (int i = 0; i < clt_config_list_count(config, "data.flip_axes") && s->training; i++)
        s->patch.flip[clt_config_list_int(config, "data.flip_axes", i)] = true;
}

/* Sets s->seen to the classes that masks have, and *largest to the largest of them. */
static clt_status find_classes(const clt_config *config, clt_volumes_state *s, int64_t *largest)
{
    bool given = s->set->mask_values || clt_config_int(config, "data.mask_classes") > 0;
    for (int64_t i = 0; i < s->set->mask_classes && given; i++)
        s->seen[i] = true;
    if (!given) {
        CLT_TRY(clt_volume_set_find_classes(s->set, s->skip_bad, s->seen));
        if (s->tells)
            clt_volume_set_warn_classes(s->set, s->seen);
    }
    *largest = 0;
    for (int i = 0; i < CLT_MASK_CLASSES; i++)
        *largest = s->seen[i] ? i : *largest;
    return CLT_OK;
}

/* Names the classes of masks after data.class_names, else after the labels of the folder's dataset.json. If
 * these labels are refused, a resumed run continues without names: they have changed since it began, or the
 * version that began it did not read labels. */
static clt_status name_classes(clt_source *source, const clt_config *config, const clt_volumes_state *s,
                               int64_t classes)
{
    int n = clt_config_list_count(config, "data.class_names");
    if (n == 0) {
        const char **labels;
        clt_status status = clt_volume_set_labels(s->set, s->seen, classes, source->arena, &labels);
        if (status == CLT_EDATA && source->with.facts) {
            CLT_WARN_ONCE("%s; the classes stay without names", clt_error_text());
            clt_error_clear();
            status = CLT_OK;
        }
        CLT_TRY(status);
        source->class_names = labels;
        source->n_class_names = labels ? classes : 0;
        return CLT_OK;
    }
    const char **names = clt_arena_alloc(source->arena, (size_t)(n + 1) * sizeof *names);
    if (!names)
        return CLT_ENOMEM;
    for (int i = 0; i < n; i++)
        if (!(names[i] =
                  clt_arena_strdup(source->arena, clt_config_list_string(config, "data.class_names", i))))
            return CLT_ENOMEM;
    source->class_names = names;
    source->n_class_names = n;
    return CLT_OK;
}

static clt_status set_fields(clt_source *source, const clt_config *config, clt_volumes_state *s)
{
    const clt_volume_list *list = &s->set->list;
    clt_shape x = clt_shape_make(4, (int64_t[]){s->set->channels, s->box[0], s->box[1], s->box[2]});
    int64_t largest = list->n_classes - 1;
    uint64_t elements;
    if (!clt_mul_u64((uint64_t)s->set->channels, (uint64_t)s->box[0], &elements) ||
        !clt_mul_u64(elements, (uint64_t)s->box[1], &elements) ||
        !clt_mul_u64(elements, (uint64_t)s->box[2], &elements) || elements > INT32_MAX)
        CLT_FAIL(CLT_ECONFIG,
                 "a sample of %lld channel%s of %lld x %lld x %lld voxels is too large; give a "
                 "smaller data.patch or data.volume",
                 (long long)s->set->channels, CLT_PLURAL(s->set->channels), (long long)s->box[0],
                 (long long)s->box[1], (long long)s->box[2]);
    source->n_fields = list->kind == CLT_VOLUMES_PLAIN ? 1 : 2;
    source->fields[0] = (clt_source_field){"x", CLT_F32, x, false, 0};
    if (list->kind == CLT_VOLUMES_MASKS) {
        CLT_TRY(find_classes(config, s, &largest));
        CLT_TRY(name_classes(source, config, s, largest + 1));
        source->fields[1] =
            (clt_source_field){"y", CLT_U8, clt_shape3(s->box[0], s->box[1], s->box[2]), true, largest};
    } else if (list->kind == CLT_VOLUMES_CLASSES) {
        source->fields[1] = (clt_source_field){"y", CLT_I32, clt_shape_make(0, NULL), true, largest};
        source->class_names = list->class_names;
        source->n_class_names = list->n_classes;
    }
    return CLT_OK;
}

/* Millimetres between voxels along axis k (depth, height, width) after data.orientation; 0: unknown. */
static double spacing_of(const clt_volume_entry *e, int k)
{
    return e->space.spacing[2 - e->pose.from[k]];
}

/* Writes the spacing and orientation that all volumes share after data.spacing and data.orientation, such as
 * ", voxels of 2 x 0.8 x 0.8 mm, RAS". */
static void describe_space(const clt_volumes_state *s, const clt_volume_want *want, char *text, size_t size)
{
    const clt_volume_entry *first = &s->set->list.entry[s->volume[0]];
    bool known = true, same = true, turned = first->space.axes[0] != '\0';
    double mm[3];
    for (int k = 0; k < 3; k++)
        mm[k] = want->spaces ? want->spacing[k] : spacing_of(first, k);
    for (int64_t i = 0; i < s->count; i++) {
        const clt_volume_entry *e = &s->set->list.entry[s->volume[i]];
        turned = turned && strcmp(e->space.axes, first->space.axes) == 0;
        for (int k = 0; k < 3; k++) {
            known = known && spacing_of(e, k) > 0;
            same = same && fabs(spacing_of(e, k) - spacing_of(first, k)) <= 1e-4 * spacing_of(first, k);
        }
    }
    size_t used = 0;
    text[0] = '\0';
    if (want->spaces || (known && same))
        used = (size_t)snprintf(text, size, ", voxels of %.4g x %.4g x %.4g mm", mm[0], mm[1], mm[2]);
    else if (first->has_space)
        used = (size_t)snprintf(text, size, ", %s", known ? "voxels of several sizes" : "spacing unknown");
    if (used < size && (want->axes[0] || turned))
        (void)snprintf(text + used, size - used, ", %s", want->axes[0] ? want->axes : first->space.axes);
}

/* Writes the number of volumes that consist of several files, such as " (1 in .hdr and .img)". */
static void describe_files(const clt_volumes_state *s, char *text, size_t size)
{
    int64_t pairs = 0;
    const clt_volume_entry *first = &s->set->list.entry[s->volume[0]];
    for (int64_t i = 0; i < s->count; i++)
        pairs += clt_volume_is_pair(s->set->list.entry[s->volume[i]].image);
    text[0] = '\0';
    if (pairs > 0)
        (void)snprintf(text, size, " (%lld in .hdr and .img)", (long long)pairs);
    else if (first->files > 1)
        (void)snprintf(text, size, " (a file for each of %d channel%s)", first->files,
                       CLT_PLURAL(first->files));
}

static clt_status describe(clt_source *source, const clt_config *config, const clt_volumes_state *s)
{
    clt_volume_want want;
    const clt_volume_list *list = &s->set->list;
    char shape[CLT_SHAPE_TEXT], target[64] = "no targets", space[96], files[64];
    clt_volume_want_read(config, &want);
    describe_space(s, &want, space, sizeof space);
    describe_files(s, files, sizeof files);
    clt_shape_text(&source->fields[0].shape, shape, sizeof shape);
    if (list->kind == CLT_VOLUMES_CLASSES)
        (void)snprintf(target, sizeof target, "%lld class%s", (long long)list->n_classes,
                       CLT_PLURAL_ES(list->n_classes));
    else if (list->kind == CLT_VOLUMES_MASKS)
        (void)snprintf(target, sizeof target, "masks of %lld class%s",
                       (long long)source->fields[1].max_value + 1,
                       CLT_PLURAL_ES(source->fields[1].max_value + 1));
    source->description = clt_arena_printf(
        source->arena, "nifti: %lld volume%s from '%s'%s, %lld %s of %s f32, %s%s", (long long)s->count,
        CLT_PLURAL(s->count), list->folder, files, (long long)source->samples,
        s->windows && s->patches ? "windows"
        : s->patches             ? "patches an epoch"
                                 : "samples",
        shape, target, space);
    return source->description ? CLT_OK : CLT_ENOMEM;
}

static clt_status open_set(clt_source *source, const clt_config *config, bool eval_folder, bool plain,
                           clt_volumes_state *s)
{
    clt_volume_set *set = s->set = clt_arena_alloc(source->arena, sizeof *set);
    if (!set)
        return CLT_ENOMEM;
    set->fits = read_size(config, "data.volume", set->target);
    set->fit = (clt_volume_fit)clt_config_choice(config, "data.volume_fit");
    CLT_TRY(clt_volume_set_read_masks(set, config, source->arena));
    CLT_TRY(open_list(source, config, eval_folder, plain, set));
    CLT_TRY(clt_volume_set_open(set, (uint64_t)(clt_config_float(config, "data.cache_mb") * MIB)));
    s->warned = clt_arena_alloc(source->arena, (size_t)set->list.count * sizeof *s->warned);
    source->bytes = set->list.bytes;
    return s->warned ? CLT_OK : CLT_ENOMEM;
}

static clt_status nifti_open(clt_source *source, const clt_config *config, clt_split split)
{
    clt_volumes_state *s = clt_arena_alloc(source->arena, sizeof *s);
    bool own_eval = clt_config_list_count(config, "data.eval_path") > 0;
    if (!s)
        return CLT_ENOMEM;
    source->state = s;
    CLT_TRY(clt_source_config_scale(source, config));
    CLT_TRY(clt_intensity_read(config, &s->intensity));
    source->scale = source->std = 1.0; /* none on the device: applied when voxels are read */
    source->mean = 0.0;
    CLT_TRY(open_set(source, config, split == CLT_SPLIT_EVAL && own_eval, split >= CLT_SPLIT_INPUT, s));
    clt_volume_kind kind = s->set->list.kind;
    s->tells = (split != CLT_SPLIT_EVAL || own_eval) && split != CLT_SPLIT_INPUT_AGAIN;
    const char *folder = clt_arena_printf(source->arena, "'%s'", s->set->list.folder);
    if (!folder)
        return CLT_ENOMEM;
    if (s->tells) /* for an input to predict, messages name its folder, since no config key does */
        clt_volume_list_warn(&s->set->list, split >= CLT_SPLIT_INPUT ? folder : s->set->key,
                             clt_config_string(config, "data.orientation")[0] != '\0',
                             "data.orientation=RAS turns all alike");
    bool divided = !own_eval && kind != CLT_VOLUMES_PLAIN && clt_config_float(config, "data.split") > 0;
    s->training = split == CLT_SPLIT_TRAIN && kind != CLT_VOLUMES_PLAIN;
    s->skip_bad = s->training && clt_config_choice(config, "data.on_bad_sample") == 1;
    s->overlap = clt_config_float(config, "data.window_overlap");
    CLT_TRY(choose_volumes(source, config, split, divided, s));
    CLT_TRY(choose_box(config, s));
    read_augmentation(config, s);
    s->windows = kind == CLT_VOLUMES_MASKS && !s->training;
    s->per_volume = s->patches ? clt_config_int(config, "data.patches_per_volume") : 1;
    source->samples = s->count * s->per_volume;
    source->together = s->per_volume;
    if (s->windows) {
        source->together = 1;
        CLT_TRY(clt_volumes_number(source, s));
    }
    CLT_TRY(set_fields(source, config, s));
    return describe(source, config, s);
}

static void nifti_close(clt_source *source)
{
    clt_volumes_state *s = source->state;
    if (s && s->set && !s->borrows)
        clt_volume_set_close(s->set);
}

/* --- reading --- */

/* Draws the position and variation of a training sample's patch. */
static clt_status draw_patch(const clt_volumes_state *s, int64_t volume, clt_draw draw, int64_t index,
                             clt_patch *patch)
{
    const clt_foreground *foreground = NULL;
    int64_t size[3];
    clt_volume_set_size(s->set, volume, size);
    bool centred = s->patches && s->patch.foreground > 0;
    if (centred)
        CLT_TRY(clt_volume_set_foreground(s->set, volume, &foreground));
    clt_patch_draw(&s->patch, size, foreground, draw, index, patch);
    if (centred)
        clt_volume_set_release(s->set, volume);
    return CLT_OK;
}

static clt_status read_patch(const clt_source *source, int64_t volume, const clt_patch *patch,
                             void *const *to)
{
    const clt_volumes_state *s = source->state;
    int64_t voxels = clt_voxels(s->box) * s->set->channels;
    if (to[0]) {
        float *x = to[0];
        CLT_TRY(
            clt_volume_set_image(s->set, volume, patch->at, s->box, clt_intensity_outside(&s->intensity), x));
        clt_intensity_apply(&s->intensity, x, voxels);
        clt_flip(x, sizeof *x, s->set->channels, s->box, patch->flip);
        if (s->training)
            clt_patch_vary(patch, x, voxels);
    }
    if (!to[1])
        return CLT_OK;
    if (s->set->list.kind == CLT_VOLUMES_CLASSES) {
        memcpy(to[1], &s->set->list.entry[volume].class_number, sizeof(int32_t));
        return CLT_OK;
    }
    CLT_TRY(clt_volume_set_mask(s->set, volume, patch->at, s->box, to[1]));
    clt_flip(to[1], 1, 1, s->box, patch->flip);
    return CLT_OK;
}

static clt_status read_from(const clt_source *source, int64_t volume, int64_t index, clt_draw draw,
                            void *const *to)
{
    const clt_volumes_state *s = source->state;
    clt_patch patch = {.scale = 1.0f};
    if (s->windows)
        memcpy(patch.at, clt_volumes_window(source, index).at, sizeof patch.at);
    else if (s->training)
        CLT_TRY(draw_patch(s, volume, draw, index, &patch));
    return read_patch(source, volume, &patch, to);
}

static clt_status nifti_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    const clt_volumes_state *s = source->state;
    if (index < 0 || index >= source->samples)
        CLT_FAIL(CLT_EINTERNAL, "reading sample %lld of %lld", (long long)index, (long long)source->samples);
    int64_t place = s->windows ? clt_volumes_place_of(s, index) : index / s->per_volume;
    clt_status status = CLT_OK;
    for (int64_t tried = 0; tried < s->count; tried++) {
        int64_t volume = s->volume[(place + tried) % s->count];
        status = read_from(source, volume, index, draw, to);
        if (status != CLT_EDATA || !s->skip_bad)
            return status;
        if (!atomic_exchange(&s->warned[volume], 1))
            CLT_WARN("%s; the next volume takes its place (data.on_bad_sample skip)", clt_error_text());
    }
    return clt_fail_prefix(status, "every volume is bad");
}

static void nifti_locate(const clt_source *source, int64_t index, int field, clt_str *out)
{
    const clt_volumes_state *s = source->state;
    int64_t place = s->windows ? clt_volumes_place_of(s, index) : index / s->per_volume;
    const clt_volume_entry *e = &s->set->list.entry[s->volume[place]];
    clt_str_printf(out, "'%s'", field == 1 && e->mask ? e->mask : e->image);
}

static void nifti_file_of(const clt_source *source, int64_t index, clt_str *out)
{
    const clt_volumes_state *s = source->state;
    int64_t place = s->windows ? clt_volumes_place_of(s, index) : index / s->per_volume;
    clt_str_append(out, s->set->list.entry[s->volume[place]].image);
}

/* Reads no masks: checks the classes that the masks are known to have. Each voxel is checked when it is
 * read. */
static clt_status nifti_check_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                                    int64_t ignore, bool *done)
{
    const clt_volumes_state *s = source->state;
    *done = field == 1;
    if (field != 1 || s->set->list.kind != CLT_VOLUMES_MASKS) {
        *done = field == 1 && source->fields[1].max_value < bound;
        return CLT_OK;
    }
    for (int64_t c = bound; c < CLT_MASK_CLASSES; c++)
        if (s->seen[c] && !(has_ignore && c == ignore))
            CLT_FAIL(
                CLT_EDATA,
                "checking the masks of '%s': they have voxels of class %lld, the model takes 0 to %lld; "
                "repair the masks, give the model more classes, or set data.mask_classes or data.mask_values",
                s->set->list.folder, (long long)c, (long long)bound - 1);
    return CLT_OK;
}

static clt_status nifti_scan(const clt_source *source)
{
    const clt_volumes_state *s = source->state;
    const char *bad;
    for (int64_t i = 0; i < s->count; i++)
        CLT_TRY(clt_volume_set_check(s->set, s->volume[i], NULL, &bad));
    return CLT_OK;
}

/* Hashes the size and the first and last 4096 bytes of a file, which detects other data without reading the
 * whole file. */
static clt_status add_file(void *context, const char *path)
{
    clt_hash64_state *state = context;
    clt_mapping mapping;
    if (clt_map_open(path, CLT_EDATA, &mapping) != CLT_OK)
        return CLT_OK;
    const clt_hash64_state before = *state;
    uint64_t size = mapping.size, part = size < 4096 ? size : 4096;
    clt_hash64_add(state, &size, sizeof size);
    clt_hash64_add(state, mapping.data, (size_t)part);
    clt_hash64_add(state, mapping.data + (size - part), (size_t)part);
    if (clt_map_check_one(&mapping) != CLT_OK) { /* ignored, like a file that cannot be opened */
        *state = before;
        clt_error_clear();
    }
    clt_map_close(&mapping);
    return CLT_OK;
}

static clt_status nifti_fingerprint(const clt_source *source, clt_hash64_state *state)
{
    const clt_volumes_state *s = source->state;
    for (int64_t i = 0; i < s->count; i++)
        (void)clt_volume_each_file(&s->set->list.entry[s->volume[i]], add_file, state);
    return CLT_OK;
}

/* --- the format --- */

static bool nifti_has_eval(const clt_config *config)
{
    return clt_config_float(config, "data.split") > 0.0;
}

static clt_likeness nifti_likeness(const unsigned char *first, size_t n)
{
    bool one = n >= 4 && (memcmp(first, "\x5c\x01\0\0", 4) == 0 || memcmp(first, "\0\0\x01\x5c", 4) == 0);
    bool two = n >= 4 && (memcmp(first, "\x1c\x02\0\0", 4) == 0 || memcmp(first, "\0\0\x02\x1c", 4) == 0);
    return one || two ? CLT_SURE : CLT_UNLIKE;
}

static const char *const nifti_ends[] = {".nii", ".nii.gz", ".hdr", ".hdr.gz", ".img", ".img.gz", NULL};

const clt_source_type clt_source_nifti = {
    .format = &clt_format_nifti,
    .open = nifti_open,
    .close = nifti_close,
    .read = nifti_read,
    .locate = nifti_locate,
    .file_of = nifti_file_of,
    .check_bound = nifti_check_bound,
    .scan = nifti_scan,
    .fingerprint = nifti_fingerprint,
    .has_eval = nifti_has_eval,
    .holds_targets = true,
    .eval_hint = "data.eval_path, or data.split above 0 for a part of the volumes",
    .suffix = ".nii",
    .layout = "volumes with masks lie in FOLDER/images/NAME.nii.gz and FOLDER/masks/NAME.nii.gz, volumes of "
              "classes in FOLDER/CLASS/NAME.nii.gz",
    .sample = "volumes-sample",
    .check_file = clt_volumes_check_file,
    .check_config = clt_volumes_check_config,
    .check_folder = clt_volumes_check_folder,
    .input_ends = nifti_ends,
    .input_likeness = nifti_likeness,
    .input_like_run = true,
};
