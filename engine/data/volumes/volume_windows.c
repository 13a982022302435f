/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers the windows that cover the volumes of a source, and finds the volume and position of each
 * window. */
#include "engine/data/volumes/volumes.h"

#include <string.h>

#include "engine/data/volumes/volumes_state.h"

clt_status clt_volumes_number(clt_source *source, clt_volumes_state *s)
{
    int64_t total = 0;
    s->first_window = clt_arena_alloc(source->arena, (size_t)(s->count + 1) * sizeof *s->first_window);
    if (!s->first_window)
        return CLT_ENOMEM;
    for (int64_t i = 0; i < s->count; i++) {
        int64_t size[3];
        clt_windows grid;
        clt_volume_set_size(s->set, s->volume[i], size);
        clt_status status = clt_windows_make(size, s->box, s->overlap, &grid);
        CLT_TRY(clt_fail_prefix(status, "opening '%s'", s->set->list.entry[s->volume[i]].image));
        s->first_window[i] = total;
        total += clt_windows_count(&grid);
    }
    s->first_window[s->count] = source->samples = total;
    return CLT_OK;
}

int64_t clt_volumes_place_of(const clt_volumes_state *s, int64_t sample)
{
    int64_t low = 0, high = s->count;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (s->first_window[middle] <= sample)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void clt_volumes_grid(const clt_source *source, int64_t volume, clt_windows *out)
{
    const clt_volumes_state *s = source->state;
    int64_t size[3];
    clt_volume_set_size(s->set, s->volume[volume], size);
    /* the same call succeeded when the source was opened */
    (void)clt_windows_make(size, s->box, s->overlap, out);
}

clt_volumes_place clt_volumes_window(const clt_source *source, int64_t sample)
{
    const clt_volumes_state *s = source->state;
    clt_volumes_place place = {.volume = clt_volumes_place_of(s, sample)};
    clt_windows grid;
    clt_volumes_grid(source, place.volume, &grid);
    clt_windows_at(&grid, sample - s->first_window[place.volume], place.at);
    return place;
}

int64_t clt_volumes_count(const clt_source *source)
{
    return ((const clt_volumes_state *)source->state)->count;
}

clt_status clt_volumes_mask(const clt_source *source, int64_t volume, int64_t first, int64_t planes,
                            uint8_t *out)
{
    const clt_volumes_state *s = source->state;
    int64_t size[3], at[3] = {first, 0, 0};
    clt_volume_set_size(s->set, s->volume[volume], size);
    size[0] = planes;
    return clt_volume_set_mask(s->set, s->volume[volume], at, size, out);
}

int64_t clt_volumes_within(const clt_source *source, int64_t samples)
{
    const clt_volumes_state *s = source->state;
    int64_t n = 1;
    while (n < s->count && s->first_window[n + 1] <= samples)
        n++;
    return n;
}

clt_status clt_volumes_part(const clt_source *source, int64_t volumes, int rank, int ranks, clt_source **out)
{
    const clt_volumes_state *all = source->state;
    clt_arena *arena;
    *out = NULL;
    CLT_TRY(clt_arena_create(&arena));
    clt_source *part =
        /* the source is allocated in its own arena, which clt_source_close frees */
        clt_arena_alloc(arena, sizeof *part);
    clt_volumes_state *s = part ? clt_arena_alloc(arena, sizeof *s) : NULL;
    int64_t *chosen = s ? clt_arena_alloc(arena, (size_t)(volumes + 1) * sizeof *chosen) : NULL;
    if (!chosen) {
        clt_arena_destroy(arena);
        return CLT_ENOMEM;
    }
    *part = *source;
    *s = *all;
    part->arena = arena;
    part->state = s;
    s->borrows = true;
    s->volume = chosen;
    s->count = 0;
    for (int64_t i = rank; i < volumes; i += ranks)
        chosen[s->count++] = all->volume[i];
    clt_status status = clt_volumes_number(part, s);
    if (status != CLT_OK) {
        clt_arena_destroy(arena);
        return status;
    }
    *out = part;
    return CLT_OK;
}

clt_status clt_volumes_cover_read(const clt_config *config, clt_volumes_cover *out)
{
    *out = (clt_volumes_cover){.known = clt_source_type_of(config) == &clt_source_nifti};
    if (!out->known)
        return CLT_OK;
    out->resized = clt_config_list_count(config, "data.volume") > 0 &&
                   clt_config_choice(config, "data.volume_fit") == CLT_FIT_RESIZE;
    out->overlap = clt_config_float(config, "data.window_overlap");
    clt_volume_want_read(config, &out->want);
    out->weights = (clt_window_weights)clt_config_choice(config, "data.window_weights");
    return clt_intensity_read(config, &out->intensity);
}

bool clt_volumes_windowed(const clt_source *source)
{
    return source && source->type == &clt_source_nifti && ((const clt_volumes_state *)source->state)->windows;
}
