/* SPDX-License-Identifier: Apache-2.0 ctest-labels: quick
 *
 * Maps put together from windows, against the definition: for every voxel the weighted mean of the logits
 * of all windows that cover it, in double precision. And Dice against counts by hand. */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/base/rng.h"
#include "engine/train/eval/sliding.h"

typedef struct problem {
    clt_windows grid;
    clt_slide_view view;
    clt_window_weights weights;
    uint8_t *map;
    int64_t planes;
} problem;

/* The logit of class c of a voxel of window w. */
static float logit(int64_t w, int64_t voxel, int64_t c)
{
    return 4.0f *
               clt_rng_uniform(clt_rng_u32(11, CLT_RNG_VERIFY, (uint32_t)w, (uint32_t)c, (uint64_t)voxel)) -
           2.0f;
}

static clt_status keep_plane(void *context, int64_t plane, const uint8_t *classes)
{
    problem *p = context;
    int64_t area = p->grid.size[1] * p->grid.size[2];
    assert_int_equal(plane, p->planes++); /* each plane once, in order */
    memcpy(p->map + plane * area, classes, (size_t)area);
    return CLT_OK;
}

static double weight_of(const problem *p, int axis, int64_t i)
{
    double n = (double)p->grid.window[axis], off = ((double)i - (n - 1) / 2) / (0.125 * n);
    return p->weights == CLT_WEIGHTS_GAUSSIAN ? exp(-0.5 * off * off) : 1;
}

/* Adds all windows to sums in double precision. */
static void reference(const problem *p, double *sum)
{
    const int64_t *size = p->grid.size, *window = p->grid.window;
    for (int64_t w = 0; w < clt_windows_count(&p->grid); w++) {
        int64_t at[3];
        clt_windows_at(&p->grid, w, at);
        for (int64_t v = 0; v < window[0] * window[1] * window[2]; v++) {
            int64_t in[3] = {v / (window[1] * window[2]), v / window[2] % window[1], v % window[2]};
            int64_t z = at[0] + in[0], y = at[1] + in[1], x = at[2] + in[2];
            if (z < 0 || z >= size[0] || y < 0 || y >= size[1] || x < 0 || x >= size[2])
                continue;
            double weight = weight_of(p, 0, in[0]) * weight_of(p, 1, in[1]) * weight_of(p, 2, in[2]);
            weight = weight < 1e-3 ? 1e-3 : weight;
            for (int64_t c = 0; c < p->view.classes; c++)
                sum[((z * size[1] + y) * size[2] + x) * p->view.classes + c] +=
                    weight * (double)logit(w, v, c);
        }
    }
}

static void compare(const problem *p, const double *sum)
{
    int64_t voxels = p->grid.size[0] * p->grid.size[1] * p->grid.size[2], n = p->view.classes;
    for (int64_t v = 0; v < voxels; v++) {
        const double *s = sum + v * n;
        double chosen = n == 1 ? (p->map[v] ? s[0] : -s[0]) : s[p->map[v]];
        for (int64_t c = 0; c < n; c++)
            assert_true(n == 1 ? chosen > -1e-4 : chosen > s[c] - 1e-4);
    }
}

static void run_problem(problem *p, bool class_last, int64_t padding)
{
    int64_t voxels = p->grid.size[0] * p->grid.size[1] * p->grid.size[2],
            inside = p->grid.window[0] * p->grid.window[1] * p->grid.window[2], n = p->view.classes;
    clt_slide *slide;
    p->view.class_stride = class_last ? 1 : inside;
    p->view.voxel_stride = class_last ? n + padding : 1;
    p->view.elements = inside * (n + padding);
    p->map = malloc((size_t)voxels);
    p->planes = 0;
    float *logits = calloc((size_t)p->view.elements, sizeof *logits);
    CLT_FREED double *sum = calloc((size_t)(voxels * n), sizeof *sum);
    assert_true(p->map && logits && sum);
    assert_ok(clt_slide_create(&p->grid, &p->view, p->weights, keep_plane, p, &slide));
    for (int64_t w = 0; w < clt_windows_count(&p->grid); w++) {
        for (int64_t i = 0; i < p->view.elements; i++)
            logits[i] = 1e9f; /* padding, which must not count */
        for (int64_t v = 0; v < inside; v++)
            for (int64_t c = 0; c < n; c++)
                logits[c * p->view.class_stride + v * p->view.voxel_stride] = logit(w, v, c);
        assert_ok(clt_slide_add(slide, logits));
    }
    assert_ok(clt_slide_finish(slide));
    assert_int_equal(p->planes, p->grid.size[0]);
    assert_int_equal(clt_slide_not_finite(slide), 0);
    assert_int_equal(clt_slide_add(slide, logits), CLT_EINTERNAL);
    clt_slide_destroy(slide);
    reference(p, sum);
    compare(p, sum);
    free(p->map);
    free(logits);
}

TEST(test_maps)
{
    static const int64_t sizes[][3] = {{9, 7, 11}, {4, 5, 3}, {16, 2, 5}, {3, 13, 8}, {40, 24, 24}};
    static const int64_t windows[][3] = {{4, 4, 4}, {5, 2, 3}, {6, 6, 6}, {1, 3, 2}, {32, 32, 16}};
    static const double overlaps[] = {0, 0.25, 0.6};
    for (int s = 0; s < 5; s++)
        for (int w = 0; w < 5; w++)
            for (int k = 0; k < 3; k++) {
                if ((s == 4) != (w == 4)) /* only the large ones with 9 classes, which several threads add */
                    continue;
                problem p = {.weights = k == 1 ? CLT_WEIGHTS_CONSTANT : CLT_WEIGHTS_GAUSSIAN,
                             .view.classes = s == 4 ? 9 : 1 + (s + w + k) % 4};
                assert_ok(clt_windows_make(sizes[s], windows[w], overlaps[k], &p.grid));
                memcpy(p.view.window, windows[w], sizeof p.view.window);
                run_problem(&p, (s + k) % 2 == 0, (s + k) % 2 == 0 ? 3 : 0);
            }
}

/* A window whose logits are not finite leaves the class to the other windows, and is counted. */
TEST(test_not_finite)
{
    const int64_t size[3] = {1, 1, 2}, window[3] = {1, 1, 2};
    problem p = {.view = {.classes = 2, .class_stride = 2, .voxel_stride = 1, .elements = 4}};
    const float logits[4] = {NAN, 1, 0, 2};
    uint8_t map[2];
    clt_slide *slide;
    assert_ok(clt_windows_make(size, window, 0, &p.grid));
    p.map = map;
    assert_ok(clt_slide_create(&p.grid, &p.view, p.weights, keep_plane, &p, &slide));
    assert_ok(clt_slide_add(slide, logits));
    assert_ok(clt_slide_finish(slide));
    assert_int_equal(map[0], 1);
    assert_int_equal(map[1], 1);
    assert_int_equal(clt_slide_not_finite(slide), 1);
    clt_slide_destroy(slide);
}

TEST(test_views)
{
    CLT_SCOPED(clt_graph) *graph = NULL;
    clt_slide_view view;
    int32_t first, last, rows, other;
    clt_shape x = clt_shape4(1, 4, 5, 6), shape;
    assert_ok(clt_graph_create(2, &graph));
    shape = clt_shape_make(5, (int64_t[]){2, 3, 4, 5, 6});
    assert_ok(clt_graph_new_tensor(graph, "first", CLT_F32, &shape, CLT_TC_ACTIVATION, &first));
    shape = clt_shape_make(5, (int64_t[]){2, 4, 5, 6, 8});
    assert_ok(clt_graph_new_tensor(graph, "last", CLT_F32, &shape, CLT_TC_ACTIVATION, &last));
    shape = clt_shape3(2, 120, 3);
    assert_ok(clt_graph_new_tensor(graph, "rows", CLT_F32, &shape, CLT_TC_ACTIVATION, &rows));
    shape = clt_shape2(2, 10);
    assert_ok(clt_graph_new_tensor(graph, "other", CLT_F32, &shape, CLT_TC_ACTIVATION, &other));
    clt_model_info info = {.classes = 3, .is_classifier = true, .classes_first = true};
    assert_true(clt_slide_view_of(graph, first, &info, &x, &view));
    assert_int_equal(view.classes, 3);
    assert_int_equal(view.class_stride, 120);
    info = (clt_model_info){.classes = 6}; /* another loss, without an axis */
    assert_true(clt_slide_view_of(graph, first, &info, &x, &view));
    assert_int_equal(view.classes, 3);
    info = (clt_model_info){.classes = 7, .is_classifier = true};
    assert_true(clt_slide_view_of(graph, last, &info, &x, &view)); /* one of 8 classes is padding */
    assert_int_equal(view.classes, 7);
    assert_int_equal(view.voxel_stride, 8);
    assert_true(clt_slide_view_of(graph, rows, &info, &x, &view));
    assert_int_equal(view.elements, 360);
    assert_false(clt_slide_view_of(graph, other, &info, &x, &view));
}

TEST(test_dice)
{
    const uint8_t map[6] = {0, 1, 1, 2, 0, 3}, mask[6] = {0, 1, 2, 2, 255, 0};
    CLT_FREED clt_dice *d = calloc(1, sizeof *d);
    assert_non_null(d);
    clt_dice_add(d, map, mask, 3, true, 255);
    clt_dice_add(d, map + 3, mask + 3, 3, true, 255);
    clt_dice_end_volume(d);
    assert_true(fabs(clt_dice_of(d, 0) - 2.0 / 3) < 1e-12); /* 1 voxel in common, of 1 and 2 */
    assert_true(fabs(clt_dice_of(d, 1) - 2.0 / 3) < 1e-12);
    assert_true(fabs(clt_dice_of(d, 2) - 2.0 / 3) < 1e-12);
    assert_true(isnan(clt_dice_of(d, 3))); /* predicted, but in no mask */
    clt_dice_add(d, mask, mask, 2, false, 0);
    clt_dice_end_volume(d);
    assert_true(fabs(clt_dice_of(d, 1) - (2.0 / 3 + 1) / 2) < 1e-12);
    assert_true(fabs(clt_dice_of(d, 2) - 2.0 / 3) < 1e-12); /* only from the first volume */
    assert_true(fabs(clt_dice_mean(d, 4) - ((2.0 / 3 + 1) / 2 + 2.0 / 3) / 2) < 1e-12);
}
