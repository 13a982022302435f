/* SPDX-License-Identifier: Apache-2.0
 *
 * Warns of oddities in a list of readable volumes: orientations, masks and headers that disagree, and files
 * that are ignored. */
#include "engine/data/volumes/volume_list.h"

#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"

#define NAMED 3 /* limit of masks without an image that a warning names */

bool clt_volume_mask_differs(const clt_volume_entry *e, bool turned, char *text, size_t room)
{
    const int64_t size[3] = {e->pose.file[2], e->pose.file[1], e->pose.file[0]};
    text[0] = '\0';
    return e->mask && e->has_space && e->mask_has_space &&
           clt_nifti_space_differs(&e->space, &e->mask_space, size, turned, text, room);
}

static void warn_of_axes(const clt_volume_list *list, const char *key, const char *advice)
{
    const clt_volume_entry *first = NULL, *other = NULL;
    int64_t others = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const clt_volume_entry *e = &list->entry[i];
        if (!e->space.axes[0])
            continue;
        first = first ? first : e;
        if (strcmp(e->space.axes, first->space.axes) == 0)
            continue;
        other = other ? other : e;
        others++;
    }
    if (others > 0)
        CLT_WARN_ONCE(
            "%s: in %lld of %lld volume%s the axes point in other directions of the body than in the "
            "first: the axes of '%s' are %s, the axes of '%s' are %s; %s",
            key, (long long)others, (long long)list->count, CLT_PLURAL(list->count), other->image,
            other->space.axes, first->image, first->space.axes, advice);
}

static void warn_of_masks(const clt_volume_list *list, const char *key, bool turned)
{
    const clt_volume_entry *differs = NULL;
    int64_t count = 0;
    char text[192], how[192] = "";
    for (int64_t i = 0; i < list->count; i++) {
        if (!clt_volume_mask_differs(&list->entry[i], turned, text, sizeof text))
            continue;
        if (count++ == 0) {
            differs = &list->entry[i];
            memcpy(how, text, sizeof how);
        }
    }
    if (count > 0)
        CLT_WARN_ONCE(
            "%s: %lld mask%s a header that does not match the image: '%s' has %s; masks are used voxel by "
            "voxel as they are stored, so look whether they fit ('cltrain data show'), and write each mask "
            "with the header of its image%s",
            key, (long long)count, count == 1 ? " has" : "s have", differs->mask, how,
            turned || strcmp(differs->mask_space.axes, differs->space.axes) == 0
                ? ""
                : "; data.orientation=RAS turns image and mask alike");
}

static void warn_of_headers(const clt_volume_list *list, const char *key)
{
    const char *path = NULL, *conflict = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const clt_volume_entry *e = &list->entry[i];
        const char *found = e->space.conflict[0] ? e->space.conflict : e->mask_space.conflict;
        if (!found[0])
            continue;
        path = path ? path : found == e->space.conflict ? e->image : e->mask;
        conflict = conflict ? conflict : found;
        count++;
    }
    if (count > 0)
        CLT_WARN_ONCE("%s: the headers of %lld of %lld volume%s contradict themselves: of '%s' %s", key,
                      (long long)count, (long long)list->count, CLT_PLURAL(list->count), path, conflict);
}

static void warn_of_left_out(const clt_volume_list *list, const char *key)
{
    clt_str names = {0};
    for (int64_t i = 0; i < list->n_lonely && i < NAMED; i++)
        clt_str_printf(&names, "%s'%s'", i ? ", " : "", list->lonely[i]);
    if (list->n_lonely > 0 && clt_str_check(&names) == CLT_OK)
        CLT_WARN_ONCE("%s: %lld mask%s no image of the same name and %s skipped: %s%s", key,
                      (long long)list->n_lonely, list->n_lonely == 1 ? " has" : "s have",
                      list->n_lonely == 1 ? "is" : "are", names.text, list->n_lonely > NAMED ? " ..." : "");
    clt_str_free(&names);
    if (list->n_others > 0)
        CLT_WARN_ONCE("%s: %lld other %s skipped, because %s: '%s'%s", key, (long long)list->n_others,
                      list->n_others == 1 ? "file or folder is" : "files or folders are",
                      list->n_others == 1 ? "it is not a volume" : "they are not volumes", list->other,
                      list->n_others > 1 ? " ..." : "");
}

void clt_volume_list_warn(const clt_volume_list *list, const char *key, bool turned, const char *advice)
{
    if (!turned)
        warn_of_axes(list, key, advice);
    warn_of_masks(list, key, turned);
    warn_of_headers(list, key);
    warn_of_left_out(list, key);
}
