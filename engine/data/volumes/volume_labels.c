/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the names of the classes of masks from the file dataset.json in a folder of volumes: "labels" of
 * nnU-Net, {"liver": 1}, or of the Medical Segmentation Decathlon, {"1": "liver"}. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/data/volumes/volume_set.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"

typedef struct label {
    int64_t value; /* the label's value in the masks */
    const char *name;
} label;

/* Reads one member of "labels"; false: it is neither NAME: NUMBER nor "NUMBER": NAME. */
static bool read_label(const clt_json *member, label *out)
{
    char *end;
    if (clt_json_typeof(member) == CLT_JSON_STRING) {
        *out = (label){strtol(clt_json_key(member), &end, 10), clt_json_string(member)};
        return end != clt_json_key(member) && !*end;
    }
    out->name = clt_json_key(member);
    return clt_json_int(member, &out->value);
}

/* Sets names[k], in the arena, to the name of class k. A class that has no label and does not occur in masks
 * gets its number as name. */
static clt_status take_names(const clt_volume_set *set, const char *path, const label *labels, size_t count,
                             const bool *seen, int64_t classes, clt_arena *arena, const char **names)
{
    size_t used = 0;
    for (int64_t k = 0; k < classes; k++) {
        int64_t value = set->mask_values ? set->mask_values[k] : k;
        char number[24];
        const char *name = NULL;
        for (size_t i = 0; i < count; i++)
            name = labels[i].value == value ? labels[i].name : name;
        used += name != NULL;
        if (!name && seen[k])
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': its labels name no value %lld, which is class %lld of %lld; repair the "
                     "labels, or give data.class_names=[...]",
                     path, (long long)value, (long long)k, (long long)classes);
        snprintf(number, sizeof number, "%lld", (long long)k);
        if (name && name[clt_text_plain(name)])
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': the name of label %lld holds a control character; repair the labels, or "
                     "give data.class_names=[...]",
                     path, (long long)value);
        if (!(names[k] = clt_arena_strdup(arena, name ? name : number)))
            return CLT_ENOMEM;
    }
    if (used < count)
        CLT_WARN_ONCE(
            "'%s' names %zu labels, and only %zu of them are among the %lld classes; data.mask_classes, "
            "or data.mask_values, makes room for all of them",
            path, count, used, (long long)classes);
    return CLT_OK;
}

static clt_status read_labels(const clt_volume_set *set, const char *path, const bool *seen, int64_t classes,
                              clt_arena *arena, const char ***names)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_FREED label *labels = NULL;
    size_t count = 0;
    CLT_TRY(clt_json_parse_file(path, CLT_EDATA, &doc));
    const clt_json *object = clt_json_get(clt_json_root(doc), "labels");
    const clt_json *member = clt_json_typeof(object) == CLT_JSON_OBJECT ? clt_json_first(object) : NULL;
    if (!member) /* it is the dataset.json of another program */
        return CLT_OK;
    CLT_TRY(clt_alloc(&labels, clt_json_count(object), sizeof *labels, "labels"));
    for (; member; member = clt_json_next(member))
        if (!read_label(member, &labels[count++])) {
            CLT_WARN_ONCE("'%s': label '%.60s' is not the number of one class, such as a region of several, "
                          "so the classes have no names; data.class_names gives them",
                          path, labels[count - 1].name);
            return CLT_OK;
        }
    const char **found = clt_arena_alloc(arena, (size_t)classes * sizeof *found);
    CLT_TRY(found ? take_names(set, path, labels, count, seen, classes, arena, found) : CLT_ENOMEM);
    *names = found;
    return CLT_OK;
}

clt_status clt_volume_set_labels(const clt_volume_set *set, const bool seen[CLT_MASK_CLASSES],
                                 int64_t classes, clt_arena *arena, const char ***names)
{
    CLT_FREED char *path = NULL;
    *names = NULL;
    CLT_TRY(clt_path_join(set->list.folder, "dataset.json", &path));
    return clt_is_regular(path) ? read_labels(set, path, seen, classes, arena, names) : CLT_OK;
}
