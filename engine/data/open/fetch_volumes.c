/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the sample set of volumes, without a network, and lists its files. */
#include <stdlib.h>
#include <string.h>

#include "engine/data/open/fetch.h"
#include "engine/data/open/sample_volumes.h"
#include "engine/files/fileio.h"

/* Parts of the set, each in its own folder. */
static const struct {
    const char *folder;
    clt_sample_options options;
} parts[] = {
    {"segmentation",
     {.masks = true,
      .packed = true,
      .other_sizes = true,
      .count = 12,
      .seed = 1,
      .size = {40, 48, 48},
      .noise = 30}},
    {"classes", {.packed = true, .count = 64, .seed = 2, .size = {24, 32, 32}, .noise = 10}},
};
#define N_PARTS (sizeof parts / sizeof parts[0])

clt_status clt_fetch_volume_names(clt_arena *arena, const char ***names, int *count)
{
    size_t most = 0;
    *count = 0;
    for (size_t k = 0; k < N_PARTS; k++)
        most += 2 * (size_t)parts[k].options.count;
    *names = clt_arena_alloc(arena, most * sizeof **names);
    if (!*names)
        return CLT_ENOMEM;
    for (size_t k = 0; k < N_PARTS; k++) {
        char name[64];
        for (int64_t i = 0; clt_sample_name(&parts[k].options, i, name, sizeof name); i++) {
            (*names)[*count] = clt_arena_printf(arena, "%s/%s", parts[k].folder, name);
            if (!(*names)[(*count)++])
                return CLT_ENOMEM;
        }
    }
    return CLT_OK;
}

clt_status clt_fetch_make_volumes(const char *out)
{
    for (size_t k = 0; k < N_PARTS; k++) {
        clt_sample_options o = parts[k].options;
        CLT_FREED char *folder = NULL;
        CLT_TRY(clt_path_join(out, parts[k].folder, &folder));
        o.folder = folder;
        CLT_TRY(clt_sample_volumes(&o));
    }
    return CLT_OK;
}
