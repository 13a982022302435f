/* SPDX-License-Identifier: Apache-2.0
 *
 * See volume_check.h. */
#include "engine/data/volume_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/data/volume_set.h"

/* ", 2 x 0.8 x 0.8 mm, axes RAS", as far as the header says so. */
static const char *space_text(const clt_nifti_space *space, char *text, size_t size)
{
    const double *mm = space->spacing;
    bool known = mm[0] > 0 && mm[1] > 0 && mm[2] > 0;
    char distance[64] = ", spacing unknown";
    if (known)
        (void)snprintf(distance, sizeof distance, ", %.4g x %.4g x %.4g mm", mm[2], mm[1], mm[0]);
    (void)snprintf(text, size, "%s, axes %s", distance, space->axes[0] ? space->axes : "unknown");
    return text;
}

clt_status clt_volumes_check_file(const char *path, const char *tokenizer, clt_str *out)
{
    clt_volume v;
    (void)tokenizer;
    clt_status status = clt_volume_open(&v, path, "data verify");
    if (status == CLT_OK)
        status = clt_volume_check(&v);
    if (status == CLT_OK)
        clt_str_printf(out, "%lld x %lld x %lld voxels (depth, height, width) of %s, %lld channel%s",
                       (long long)v.size[0], (long long)v.size[1], (long long)v.size[2],
                       clt_element_name(v.array.element), (long long)v.channels, v.channels == 1 ? "" : "s");
    if (status == CLT_OK && v.is_nifti) {
        char space[96];
        clt_str_printf(out, ", NIfTI-%d, value * %g + %g%s", v.header.version, v.header.slope, v.header.inter,
                       space_text(&v.space, space, sizeof space));
    }
    clt_volume_close(&v);
    return status == CLT_OK ? clt_str_check(out) : status;
}

typedef struct folder_check {
    clt_file_tell tell;
    void *context;
    bool ended;
} folder_check;

static void tell_bad(void *context, const char *path, clt_status status)
{
    folder_check *c = context;
    c->ended = c->ended || !c->tell(c->context, path, status, "");
}

static void check_entry(folder_check *check, const clt_volume_set *set, int64_t index)
{
    const clt_volume_entry *e = &set->list.entry[index];
    const char *bad;
    char text[256], space[96] = "";
    clt_status status = clt_volume_set_check(set, index, &bad);
    if (status != CLT_OK) {
        check->ended = !check->tell(check->context, bad, status, "");
        return;
    }
    const int64_t *size = e->pose.file;
    (void)snprintf(text, sizeof text, "%lld x %lld x %lld voxels%s%s", (long long)size[0], (long long)size[1],
                   (long long)size[2], e->has_space ? space_text(&e->space, space, sizeof space) : "",
                   e->mask ? ", with its mask" : "");
    check->ended = !check->tell(check->context, e->image, CLT_OK, text);
}

/* Goes through a folder, whatever is wrong with single files. classes: of masks. */
static clt_status check_folder(const char *folder, const char *key, int64_t classes,
                               const clt_volume_want *want, folder_check *check)
{
    clt_arena *arena;
    clt_volume_set set = {.key = key, .mask_classes = classes};
    const clt_volume_list_options options = {
        .path = folder, .key = key, .want = want, .tell = tell_bad, .context = check};
    CLT_TRY(clt_arena_create(&arena));
    clt_status status = clt_volume_list_open(arena, &options, &set.list);
    for (int64_t i = 0; i < set.list.count && status == CLT_OK && !check->ended; i++)
        check_entry(check, &set, i);
    if (status == CLT_OK && !want) /* a config's data is opened afterwards, which warns */
        clt_volume_list_warn(&set.list, key, "data.orientation=RAS in a config turns all alike");
    clt_arena_destroy(arena);
    return status;
}

clt_status clt_volumes_check_config(const clt_config *config, clt_file_tell tell, void *context)
{
    static const char *const keys[] = {"data.path", "data.eval_path"};
    folder_check check = {tell, context, false};
    int64_t classes = clt_config_int(config, "data.mask_classes");
    clt_volume_want want;
    clt_volume_want_read(config, &want);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < clt_config_list_count(config, keys[k]) && !check.ended; i++)
            CLT_TRY(check_folder(clt_config_list_string(config, keys[k], i), keys[k],
                                 classes > 0 ? classes : CLT_MASK_CLASSES, &want, &check));
    return CLT_OK;
}

clt_status clt_volumes_check_folder(const char *folder, clt_file_tell tell, void *context, bool *mine)
{
    folder_check check = {tell, context, false};
    clt_arena *arena;
    const char **names;
    int64_t n = 0;
    char *images;
    CLT_TRY(clt_path_join(folder, "images", &images));
    *mine = clt_is_directory(images);
    free(images);
    CLT_TRY(clt_path_join(folder, "imagesTr", &images));
    *mine = *mine || clt_is_directory(images);
    free(images);
    CLT_TRY(clt_arena_create(&arena));
    if (!*mine && clt_volume_list_classes(arena, folder, &names, &n) == CLT_OK)
        *mine = n > 0;
    clt_arena_destroy(arena);
    return *mine ? check_folder(folder, "data verify", CLT_MASK_CLASSES, NULL, &check) : CLT_OK;
}
