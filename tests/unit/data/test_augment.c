/* SPDX-License-Identifier: Apache-2.0
 *
 * Augmentation: resizing, crops, flips and colours give torchvision's values (tests/golden/data/images.json);
 * choices are pure functions with the distributions they should have. */
#include "tests/unit/data/image_test.h"

#include <math.h>

#include "engine/data/pixels/augment.h"
#include "engine/json/json.h"

static int int_at(const clt_json *e, const char *key, int index)
{
    const clt_json *v = clt_json_get(e, key);
    int64_t i = -1;
    if (clt_json_typeof(v) == CLT_JSON_ARRAY)
        for (v = clt_json_first(v); index > 0; index--)
            v = clt_json_next(v);
    assert_true(clt_json_int(v, &i));
    return (int)i;
}

/* Compares planes with hexadecimal text; returns the largest difference. */
static int largest_difference(const uint8_t *planes, const char *hex, double *mean)
{
    int most = 0;
    double sum = 0;
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned value = 0;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &value), 1);
        int d = abs((int)value - planes[i]);
        most = d > most ? d : most;
        sum += d;
    }
    *mean = sum / (double)n;
    return most;
}

static void color(const char *op, uint8_t *planes, size_t n, float value)
{
    if (strcmp(op, "brightness") == 0)
        clt_color_brightness(planes, n, value);
    else if (strcmp(op, "contrast") == 0)
        clt_color_contrast(planes, n, value);
    else if (strcmp(op, "saturation") == 0)
        clt_color_saturation(planes, n, value);
    else
        clt_color_hue(planes, n, value);
}

/* This program's result for a case; *allowed: the largest difference from torchvision that is allowed. */
static uint8_t *compute(const clt_json *e, int *allowed)
{
    const char *op = clt_json_string(clt_json_get(e, "op"));
    int w = int_at(e, "width", 0), h = int_at(e, "height", 0);
    uint8_t *planes = make_planes(w, h, formula), *pixels = malloc((size_t)w * (size_t)h * CLT_PIXEL);
    uint8_t *out = malloc(4 * 128 * 128);
    assert_true(pixels && out);
    clt_image_from_planes(planes, w, h, pixels);
    clt_view view = {pixels, w, h, (size_t)w * CLT_PIXEL};
    const clt_draw draw = {.seed = 1};
    *allowed = 0;
    if (strcmp(op, "resize") == 0) {
        int th = int_at(e, "to", 0), tw = int_at(e, "to", 1);
        *allowed = 1;
        assert_ok(clt_image_resize(&view, tw, th, (clt_box){0, 0, tw, th}, false, out));
    } else if (strcmp(op, "resized_crop") == 0) {
        clt_box box = {int_at(e, "box", 0), int_at(e, "box", 1), int_at(e, "box", 2), int_at(e, "box", 3)};
        int th = int_at(e, "to", 0), tw = int_at(e, "to", 1);
        clt_view part = clt_view_part(&view, box);
        *allowed = 1;
        assert_ok(clt_image_resize(&part, tw, th, (clt_box){0, 0, tw, th}, false, out));
    } else if (strcmp(op, "center") == 0) {
        int size = int_at(e, "size", 0);
        clt_augment a = {
            .width = size, .height = size, .crop = CLT_CROP_CENTER, .resize = int_at(e, "resize", 0)};
        clt_cut cut = clt_augment_cut(&a, draw, 0, w, h);
        *allowed = 1;
        assert_ok(clt_image_resize(&view, cut.width, cut.height, cut.window, cut.flip, out));
    } else if (strcmp(op, "flip") == 0) {
        assert_ok(clt_image_resize(&view, w, h, (clt_box){0, 0, w, h}, true, out));
    } else if (strcmp(op, "pad") == 0) {
        clt_box window = {int_at(e, "at", 0) - 4, int_at(e, "at", 1) - 4, 12, 12};
        assert_ok(clt_image_resize(&view, w, h, window, false, out));
    } else {
        *allowed = 1; /* rounding of factors: torchvision computes in f32 with another order of operations */
        memcpy(out, planes, 3 * (size_t)w * (size_t)h);
        color(op, out, (size_t)w * (size_t)h, (float)clt_json_number(clt_json_get(e, "value")));
    }
    free(planes);
    free(pixels);
    return out;
}

TEST(test_golden)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    int checked = 0;
    assert_ok(clt_json_parse_file(CLT_TEST_SOURCE_DIR "/tests/golden/data/images.json", CLT_EDATA, &doc));
    for (const clt_json *e = clt_json_first(clt_json_get(clt_json_root(doc), "cases")); e;
         e = clt_json_next(e)) {
        int allowed;
        double mean;
        uint8_t *out = compute(e, &allowed);
        int most = largest_difference(out, clt_json_string(clt_json_get(e, "planes")), &mean);
        if (most > allowed || mean > 0.3)
            fail_msg("case %d (%s): differs by %d levels, %g in the mean", checked,
                     clt_json_string(clt_json_get(e, "op")), most, mean);
        free(out);
        checked++;
    }
    assert_int_equal(checked, 39);
}

/* A flipped window is the mirrored window, whatever else is done to it. */
TEST(test_flip_of_windows)
{
    uint8_t *planes = make_planes(40, 30, formula), *pixels = malloc(40 * 30 * CLT_PIXEL), a[3 * 20 * 18],
            b[3 * 20 * 18];
    assert_non_null(pixels);
    clt_image_from_planes(planes, 40, 30, pixels);
    clt_view view = {pixels, 40, 30, 40 * CLT_PIXEL};
    static const clt_box windows[] = {{3, 2, 20, 18}, {-5, -4, 20, 18}, {25, 20, 20, 18}, {10, 10, 20, 18}};
    for (int size = 30; size <= 40; size += 10)
        for (size_t i = 0; i < 4; i++) {
            assert_ok(clt_image_resize(&view, size, 30, windows[i], false, a));
            assert_ok(clt_image_resize(&view, size, 30, windows[i], true, b));
            for (int row = 0; row < 3 * 18; row++)
                for (int x = 0; x < 20; x++)
                    assert_int_equal(a[row * 20 + x], b[row * 20 + 19 - x]);
        }
    free(planes);
    free(pixels);
}

TEST(test_choices)
{
    const clt_augment a = {.width = 224,
                           .height = 224,
                           .crop = CLT_CROP_RESIZED,
                           .scale = {0.08, 1},
                           .ratio = {0.75, 4.0 / 3},
                           .flip = 0.5};
    int n = 4000, flips = 0, same = 0;
    double area = 0, x = 0;
    for (int i = 0; i < n; i++) {
        clt_draw draw = {.seed = 42, .epoch = 3}, next = {.seed = 42, .epoch = 4};
        clt_cut cut = clt_augment_cut(&a, draw, i, 500, 375), again = clt_augment_cut(&a, draw, i, 500, 375),
                other = clt_augment_cut(&a, next, i, 500, 375);
        assert_memory_equal(&cut.box, &again.box, sizeof cut.box);
        same += memcmp(&cut.box, &other.box, sizeof cut.box) == 0;
        assert_true(cut.box.x >= 0 && cut.box.y >= 0 && cut.box.x + cut.box.width <= 500 &&
                    cut.box.y + cut.box.height <= 375);
        double ratio = (double)cut.box.width / cut.box.height;
        assert_true(ratio > 0.74 && ratio < 1.35);
        area += (double)cut.box.width * cut.box.height / (500.0 * 375.0);
        x += (cut.box.x + 0.5) / (500 - cut.box.width + 1);
        flips += cut.flip;
    }
    assert_true(fabs(flips / (double)n - 0.5) < 0.04);
    assert_true(fabs(area / n - 0.4348) < 0.01); /* the mean of torchvision's get_params */
    assert_true(fabs(x / n - 0.5) < 0.02);
    assert_true(same < 5);
}

TEST(test_mixtures)
{
    const clt_augment up = {.width = 32, .height = 32, .mixup = 0.2},
                      cut = {.width = 32, .height = 32, .cutmix = 1},
                      both = {.width = 32, .height = 32, .mixup = 0.4, .cutmix = 1};
    const clt_draw draw = {.seed = 9, .epoch = 1};
    int n = 4000, cuts = 0, extreme = 0;
    double mean[2] = {0}, square = 0, partner = 0;
    for (int i = 0; i < n; i++) {
        clt_mix m = clt_augment_mix(&up, draw, i, 1000), c = clt_augment_mix(&cut, draw, i, 1000);
        assert_true(m.on && !m.cut && m.share >= 0 && m.share <= 1 && m.partner >= 0 && m.partner < 1000);
        assert_true(c.cut && fabs(c.share - (1 - c.box.width * c.box.height / 1024.0)) < 1e-6);
        mean[0] += (double)m.share / n;
        mean[1] += (double)c.share / n;
        square += (double)m.share * (double)m.share / n;
        extreme += m.share < 0.01f || m.share > 0.99f;
        partner += (double)m.partner / n;
        cuts += clt_augment_mix(&both, draw, i, 1000).cut;
    }
    assert_true(fabs(mean[0] - 0.5) < 0.03);
    /* beta(a, a): variance 1 / (4 (2a + 1)) */
    assert_true(fabs(square - mean[0] * mean[0] - 1 / (4 * 1.4)) < 0.01);
    assert_true(extreme > n / 3);                /* most samples are hardly mixed with alpha 0.2 */
    assert_true(mean[1] > 0.5 && mean[1] < 0.7); /* boxes are cut off at borders, so more than half stays */
    assert_true(fabs(partner - 500) < 20);
    assert_true(fabs(cuts / (double)n - 0.5) < 0.04);
    assert_false(clt_augment_mix(&(clt_augment){.width = 32, .height = 32}, draw, 0, 1000).on);
}

TEST(test_blend)
{
    const clt_augment a = {.width = 8, .height = 6};
    uint8_t *x = make_planes(8, 6, formula), *y = make_planes(8, 6, smooth),
            *kept = make_planes(8, 6, formula);
    const clt_mix up = {.on = true, .share = 0.25f};
    clt_augment_blend(&a, &up, x, y);
    for (int i = 0; i < 3 * 48; i++)
        assert_int_equal(x[i], (int)(kept[i] * 0.25 + y[i] * 0.75 + 0.5));
    memcpy(x, kept, 3 * 48);
    const clt_mix cut = {.on = true, .cut = true, .box = {2, 1, 3, 4}};
    clt_augment_blend(&a, &cut, x, y);
    for (int i = 0; i < 3 * 48; i++) {
        int col = i % 8, row = i / 8 % 6;
        bool inside = col >= 2 && col < 5 && row >= 1 && row < 5;
        assert_int_equal(x[i], inside ? y[i] : kept[i]);
    }
    free(x);
    free(y);
    free(kept);
}

TEST(test_colors_are_chosen)
{
    const clt_augment a = {
        .width = 16, .height = 16, .brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1};
    uint8_t *x = make_planes(16, 16, formula), *again = make_planes(16, 16, formula),
            *other = make_planes(16, 16, formula);
    clt_augment_colors(&a, (clt_draw){.seed = 5}, 7, x);
    clt_augment_colors(&a, (clt_draw){.seed = 5}, 7, again);
    clt_augment_colors(&a, (clt_draw){.seed = 5, .epoch = 1}, 7, other);
    assert_memory_equal(x, again, 3 * 256);
    assert_memory_not_equal(x, other, 3 * 256);
    free(x);
    free(again);
    free(other);
}
