/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the weighted logits of overlapping windows in a ring of planes, chooses the classes of each plane as
 * soon as it is complete, and computes the Dice of class maps. */
#include "engine/train/eval/sliding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"

#define SIGMA 0.125          /* standard deviation of the gaussian, as a fraction of the window's size */
#define LEAST_WEIGHT 1e-3    /* smallest weight, so that a voxel in the corner of a single window counts */
#define WORTH_A_THREAD 65536 /* number of additions that is worth one more thread */

struct clt_slide {
    clt_windows grid;
    clt_slide_view view;
    clt_slide_plane plane;
    void *context;
    int64_t next;     /* index of the next window */
    int64_t done;     /* planes that were passed to `plane` */
    int64_t slots;    /* planes that `sum` holds */
    float *sum;       /* (slots, classes, height, width): plane z is in slot z % slots */
    uint8_t *classes; /* (height, width) */
    float *weight[3];
    int64_t not_finite;
};

bool clt_slide_view_of(const clt_graph *graph, int32_t prediction, const clt_model_info *info,
                       const clt_shape *x, clt_slide_view *out)
{
    const clt_shape *p = &clt_graph_tensor(graph, prediction)->shape;
    if (x->ndim != 4 || p->ndim < 2)
        return false;
    const int64_t *size = x->dim + 1;
    int64_t voxels = size[0] * size[1] * size[2], n = p->dim[0], all = clt_shape_elements(p) / n;
    bool first = p->ndim == 5 && memcmp(p->dim + 2, size, 3 * sizeof *size) == 0;
    bool last = clt_shape_rows(p) == n * voxels;
    if (info->is_classifier)
        first = first && info->classes_first;
    if ((!first && !last) || all % voxels != 0)
        return false;
    *out = (clt_slide_view){.classes = first && !info->is_classifier ? p->dim[1] : info->classes,
                            .class_stride = first ? voxels : 1,
                            .voxel_stride = first ? 1 : clt_shape_last(p),
                            .window = {size[0], size[1], size[2]},
                            .elements = all};
    return out->classes >= 1 && out->classes <= CLT_SLIDE_CLASSES;
}

static clt_status make_weights(clt_slide *s, clt_window_weights weights)
{
    for (int a = 0; a < 3; a++) {
        int64_t n = s->grid.window[a];
        CLT_TRY(clt_alloc(&s->weight[a], (size_t)n, sizeof(float), "weights of a window"));
        for (int64_t i = 0; i < n; i++) {
            double off = ((double)i - (double)(n - 1) / 2) / (SIGMA * (double)n);
            s->weight[a][i] = weights == CLT_WEIGHTS_GAUSSIAN ? (float)exp(-0.5 * off * off) : 1.0f;
        }
    }
    return CLT_OK;
}

static clt_status allocate(clt_slide *s, clt_window_weights weights)
{
    int64_t area = s->grid.size[1] * s->grid.size[2];
    uint64_t count;
    if (!clt_mul_u64((uint64_t)(s->slots * s->view.classes), (uint64_t)area, &count))
        CLT_FAIL(CLT_ENOMEM, "a volume of %lld x %lld voxels a plane is too large",
                 (long long)s->grid.size[1], (long long)s->grid.size[2]);
    CLT_TRY(clt_alloc(&s->sum, count, sizeof *s->sum,
                      "the logits of the planes of one window (a smaller data.patch takes less)"));
    CLT_TRY(clt_alloc(&s->classes, (size_t)area, 1, "a plane of a class map"));
    return make_weights(s, weights);
}

clt_status clt_slide_create(const clt_windows *grid, const clt_slide_view *view, clt_window_weights weights,
                            clt_slide_plane plane, void *context, clt_slide **out)
{
    CLT_SCOPED(clt_slide) *s = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&s, 1, sizeof *s, "sliding windows"));
    s->grid = *grid;
    s->view = *view;
    s->plane = plane;
    s->context = context;
    s->slots = grid->window[0] < grid->size[0] ? grid->window[0] : grid->size[0];
    CLT_TRY(allocate(s, weights));
    *out = CLT_TAKE(s);
    return CLT_OK;
}

void clt_slide_destroy(clt_slide *s)
{
    if (!s)
        return;
    free(s->sum);
    free(s->classes);
    for (int a = 0; a < 3; a++)
        free(s->weight[a]);
    free(s);
}

int64_t clt_slide_not_finite(const clt_slide *s)
{
    return s->not_finite;
}

/* --- complete planes --- */

static void choose_classes(clt_slide *s, const float *sum, int64_t area)
{
    int64_t classes = s->view.classes;
    for (int64_t v = 0; v < area; v++) {
        float most = classes == 1 ? 0.0f : sum[v];
        uint8_t best = 0;
        bool finite = isfinite(sum[v]);
        for (int64_t c = classes == 1 ? 0 : 1; c < classes; c++) {
            float value = sum[c * area + v];
            finite = finite && isfinite(value);
            if (value > most || (isnan(most) && !isnan(value))) {
                most = value;
                best = (uint8_t)(classes == 1 ? 1 : c);
            }
        }
        s->classes[v] = best;
        s->not_finite += !finite;
    }
}

/* Passes the planes before number `end` to the caller and clears their slots. */
static clt_status give_planes(clt_slide *s, int64_t end)
{
    int64_t area = s->grid.size[1] * s->grid.size[2];
    for (; s->done < end; s->done++) {
        float *sum = s->sum + s->done % s->slots * s->view.classes * area;
        choose_classes(s, sum, area);
        memset(sum, 0, (size_t)(s->view.classes * area) * sizeof *sum);
        CLT_TRY(s->plane(s->context, s->done, s->classes));
    }
    return CLT_OK;
}

/* --- adding --- */

typedef struct adding {
    clt_slide *s;
    const float *logits;
    int64_t at[3];
} adding;

/* Adds the logits of all classes for one row along the width. z, y: the row's position in the window. */
static void add_row(const adding *a, int64_t z, int64_t y)
{
    clt_slide *s = a->s;
    const int64_t *size = s->grid.size, *window = s->grid.window;
    int64_t area = size[1] * size[2], first = a->at[2] < 0 ? -a->at[2] : 0;
    int64_t last = a->at[2] + window[2] > size[2] ? size[2] - a->at[2] : window[2];
    const float *row = a->logits + (z * window[1] + y) * window[2] * s->view.voxel_stride;
    float *sum = s->sum + (a->at[0] + z) % s->slots * s->view.classes * area + (a->at[1] + y) * size[2];
    float plane = s->weight[0][z] * s->weight[1][y];
    for (int64_t c = 0; c < s->view.classes; c++)
        for (int64_t x = first; x < last; x++) {
            float w = plane * s->weight[2][x];
            w = w < (float)LEAST_WEIGHT ? (float)LEAST_WEIGHT : w;
            sum[c * area + a->at[2] + x] += w * row[c * s->view.class_stride + x * s->view.voxel_stride];
        }
}

static void add_planes(void *context, uint64_t begin, uint64_t end)
{
    const adding *a = context;
    const clt_slide *s = a->s;
    for (int64_t z = (int64_t)begin; z < (int64_t)end; z++)
        for (int64_t y = 0; y < s->grid.window[1]; y++) {
            bool inside = a->at[0] + z >= 0 && a->at[0] + z < s->grid.size[0] && a->at[1] + y >= 0 &&
                          a->at[1] + y < s->grid.size[1];
            if (inside)
                add_row(a, z, y);
        }
}

clt_status clt_slide_add(clt_slide *s, const float *logits)
{
    adding a = {.s = s, .logits = logits};
    int64_t planes = s->grid.window[0], per_plane = s->grid.window[1] * s->grid.window[2] * s->view.classes;
    if (s->next >= clt_windows_count(&s->grid))
        CLT_FAIL(CLT_EINTERNAL, "window %lld of a volume that has fewer", (long long)s->next);
    clt_windows_at(&s->grid, s->next++, a.at);
    CLT_TRY(give_planes(s, a.at[0]));
    /* one thread adds a whole plane of the window, so that the order of additions is always the same */
    clt_for_ranges((uint64_t)planes, (uint64_t)(WORTH_A_THREAD / per_plane + 1), "clt-slide", add_planes, &a);
    return CLT_OK;
}

clt_status clt_slide_finish(clt_slide *s)
{
    if (s->next != clt_windows_count(&s->grid))
        CLT_FAIL(CLT_EINTERNAL, "only %lld of the %lld windows of a volume were added", (long long)s->next,
                 (long long)clt_windows_count(&s->grid));
    return give_planes(s, s->grid.size[0]);
}

/* --- Dice --- */

void clt_dice_add(clt_dice *d, const uint8_t *map, const uint8_t *mask, int64_t count, bool has_ignore,
                  int64_t ignore)
{
    for (int64_t i = 0; i < count; i++) {
        if (has_ignore && mask[i] == ignore)
            continue;
        d->map[map[i]]++;
        d->mask[mask[i]]++;
        d->both[map[i]] += map[i] == mask[i];
    }
}

void clt_dice_end_volume(clt_dice *d)
{
    for (int c = 0; c < CLT_SLIDE_CLASSES; c++) {
        if (d->mask[c] == 0)
            continue;
        d->sum[c] += 2.0 * (double)d->both[c] / (double)(d->map[c] + d->mask[c]);
        d->volumes[c] += 1;
    }
    memset(d->both, 0, sizeof d->both);
    memset(d->map, 0, sizeof d->map);
    memset(d->mask, 0, sizeof d->mask);
}

double clt_dice_of(const clt_dice *d, int64_t c)
{
    return d->volumes[c] > 0 ? d->sum[c] / d->volumes[c] : NAN;
}

double clt_dice_mean(const clt_dice *d, int64_t classes)
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t c = 1; c < classes; c++)
        if (d->volumes[c] > 0) {
            sum += clt_dice_of(d, c);
            n++;
        }
    return n > 0 ? sum / (double)n : NAN;
}
