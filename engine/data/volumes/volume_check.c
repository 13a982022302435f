/* SPDX-License-Identifier: Apache-2.0
 *
 * `data verify` for volumes: describes good files, and reports bad files and doubtful headers. */
#include "engine/data/volumes/volume_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/text.h"
#include "engine/data/volumes/volume_set.h"
#include "engine/files/fileio.h"

/* Writes ", 2 x 0.8 x 0.8 mm, axes RAS", with "unknown" for facts that the header does not give. */
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
    CLT_SCOPED(clt_volume) v = {.channels = 0};
    (void)tokenizer;
    CLT_TRY(clt_volume_open(&v, path, 1, "data verify"));
    CLT_TRY(clt_volume_check(&v));
    clt_str_printf(out, "%lld x %lld x %lld voxels (depth, height, width) of %s, %lld channel%s",
                   (long long)v.size[0], (long long)v.size[1], (long long)v.size[2],
                   clt_element_name(v.array.element), (long long)v.channels, CLT_PLURAL(v.channels));
    if (v.is_nifti) {
        char space[96];
        clt_str_printf(out, ", NIfTI-%d%s, value * %g + %g%s", v.header.version,
                       v.header.pair ? " (a pair of files)" : "", v.header.slope, v.header.inter,
                       space_text(&v.space, space, sizeof space));
        if (v.space.conflict[0])
            clt_str_printf(out, "; warning: %s", v.space.conflict);
    }
    return clt_str_check(out);
}

typedef struct folder_check {
    clt_file_tell tell;
    void *context;
    bool ended, bad;
    bool found[CLT_MASK_CLASSES]; /* classes that occur in the masks */
} folder_check;

static void tell_bad(void *context, const char *path, clt_status status)
{
    folder_check *c = context;
    c->bad = true;
    c->ended = c->ended || !c->tell(c->context, path, status, "");
}

/* Appends the report of `data verify` on a good volume. */
static void describe_entry(const clt_volume_entry *e, bool turned, clt_str *out)
{
    const int64_t *size = e->pose.file;
    char text[192];
    if (e->channels > 1)
        clt_str_printf(out, "%lld channels of ", (long long)e->channels);
    clt_str_printf(out, "%lld x %lld x %lld voxels%s%s", (long long)size[0], (long long)size[1],
                   (long long)size[2], e->has_space ? space_text(&e->space, text, sizeof text) : "",
                   e->mask ? ", with its mask" : "");
    if (e->space.conflict[0])
        clt_str_printf(out, "; warning: %s", e->space.conflict);
    if (e->mask && e->mask_space.conflict[0])
        clt_str_printf(out, "; warning: of its mask, %s", e->mask_space.conflict);
    if (clt_volume_mask_differs(e, turned, text, sizeof text))
        clt_str_printf(out, "; warning: its mask '%s' has %s", e->mask, text);
}

static clt_status check_entry(folder_check *check, const clt_volume_set *set, int64_t index, bool turned)
{
    const clt_volume_entry *e = &set->list.entry[index];
    const char *bad;
    CLT_SCOPED(clt_str) text = {0};
    clt_status status = clt_volume_set_check(set, index, check->found, &bad);
    if (status != CLT_OK) {
        tell_bad(check, bad, status);
        return CLT_OK;
    }
    describe_entry(e, turned, &text);
    CLT_TRY(clt_str_check(&text));
    check->ended = !check->tell(check->context, e->image, CLT_OK, text.text);
    return CLT_OK;
}

/* Checks all files of a folder, even after bad ones. `config`, which may be NULL, gives data.mask_values and
 * data.orientation. If no file is bad, the config's data is then opened, which warns about the list. */
static clt_status check_folder(const char *folder, const char *key, const clt_config *config,
                               folder_check *check)
{
    CLT_SCOPED(clt_arena) *arena = NULL;
    clt_volume_set set = {.key = key, .mask_classes = CLT_MASK_CLASSES};
    clt_volume_want want = {.spaces = false};
    const clt_volume_list_options options = {
        .path = folder, .key = key, .want = &want, .tell = tell_bad, .context = check};
    CLT_TRY(clt_arena_create(&arena));
    if (config) {
        clt_volume_want_read(config, &want);
        CLT_TRY(clt_volume_set_read_masks(&set, config, arena));
    }
    bool turned = want.axes[0] != '\0';
    CLT_TRY(clt_volume_list_open(arena, &options, &set.list));
    for (int64_t i = 0; i < set.list.count && !check->ended; i++)
        CLT_TRY(check_entry(check, &set, i, turned));
    if (!config || check->bad) {
        clt_volume_list_warn(&set.list, key, turned,
                             config ? "data.orientation=RAS turns all alike"
                                    : "data.orientation=RAS in a config turns all alike");
        clt_volume_set_warn_classes(&set, check->found);
    }
    return CLT_OK;
}

clt_status clt_volumes_check_config(const clt_config *config, clt_file_tell tell, void *context)
{
    static const char *const keys[] = {"data.path", "data.eval_path"};
    folder_check check = {.tell = tell, .context = context};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < clt_config_list_count(config, keys[k]) && !check.ended; i++)
            CLT_TRY(check_folder(clt_config_list_string(config, keys[k], i), keys[k], config, &check));
    return CLT_OK;
}

clt_status clt_volumes_check_folder(const char *folder, clt_file_tell tell, void *context, bool *mine)
{
    folder_check check = {.tell = tell, .context = context};
    CLT_SCOPED(clt_arena) *arena = NULL;
    const char **names;
    int64_t n = 0;
    CLT_TRY(clt_arena_create(&arena));
    *mine = clt_is_folder_in(folder, "images") || clt_is_folder_in(folder, "imagesTr");
    if (!*mine)
        CLT_TRY(clt_volume_list_classes(arena, folder, &names, &n));
    *mine = *mine || n > 0;
    return *mine ? check_folder(folder, "data verify", NULL, &check) : CLT_OK;
}
