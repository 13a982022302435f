/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures of samples: which shapes are pictures, to which levels values are mapped, which planes of a
 * volume are shown, and how masks are drawn. The PNG files are decoded again. */
#include "tests/unit/test.h"

#include "engine/data/pixels/image.h"
#include "engine/report/page/data_picture.h"

static clt_source source_of(clt_dtype dtype, int ndim, const int64_t *dim)
{
    clt_source s = {.n_fields = 1, .samples = 1};
    s.fields[0] = (clt_source_field){.name = "x", .dtype = dtype, .shape = clt_shape_make(ndim, dim)};
    return s;
}

#define SOURCE(dtype, ...)                                                                                   \
    source_of(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

static clt_picture_form form_of(const clt_source *s)
{
    clt_picture_form f;
    assert_ok(clt_picture_form_of(s, &f));
    return f;
}

static void check_form(clt_source s, int64_t channels, int64_t depth, int64_t height, int64_t width,
                       bool color)
{
    clt_picture_form f = form_of(&s);
    assert_int_equal(f.channels, channels);
    assert_int_equal(f.size[0], depth);
    assert_int_equal(f.size[1], height);
    assert_int_equal(f.size[2], width);
    assert_int_equal(f.color, color);
    assert_int_equal(f.bytes, s.fields[0].dtype == CLT_U8);
    assert_false(f.masked);
}

TEST(test_forms)
{
    check_form(SOURCE(CLT_U8, 4, 5), 1, 1, 4, 5, false);
    check_form(SOURCE(CLT_F32, 1, 4, 5), 1, 1, 4, 5, false);
    check_form(SOURCE(CLT_F32, 3, 4, 5), 3, 1, 4, 5, true);
    check_form(SOURCE(CLT_U8, 4, 5, 3), 3, 1, 4, 5, true);
    check_form(SOURCE(CLT_F32, 6, 4, 5), 1, 6, 4, 5, false);
    check_form(SOURCE(CLT_F32, 2, 6, 4, 5), 2, 6, 4, 5, false);
    check_form(SOURCE(CLT_I32, 2, 1, 4, 5), 2, 1, 4, 5, false);
    clt_picture_form f;
    clt_source flat = SOURCE(CLT_F32, 784), five = SOURCE(CLT_F32, 2, 2, 2, 2, 2),
               long_side = SOURCE(CLT_F32, 2, 65501), deep = SOURCE(CLT_F32, 65501, 4, 4),
               high = SOURCE(CLT_U8, 65501, 4, 3);
    assert_int_equal(clt_picture_form_of(&flat, &f), CLT_EUNSUPPORTED);
    assert_non_null(strstr(clt_error_text(), "(784) f32"));
    assert_int_equal(clt_picture_form_of(&five, &f), CLT_EUNSUPPORTED);
    assert_int_equal(clt_picture_form_of(&long_side, &f), CLT_EUNSUPPORTED);
    assert_int_equal(clt_picture_form_of(&deep, &f), CLT_EUNSUPPORTED);
    assert_int_equal(clt_picture_form_of(&high, &f), CLT_EUNSUPPORTED);
    clt_error_clear();
}

TEST(test_window)
{
    float values[1001];
    for (int i = 0; i <= 1000; i++)
        values[i] = (float)((i * 10) % 1001);
    clt_picture_window w = clt_picture_window_of(values, 1001);
    assert_true(w.known && w.low == 5 && w.high == 995);
    for (int i = 0; i <= 1000; i++)
        values[i] = i == 500 ? 9.0f : 2.0f; /* one value differs: it must be visible */
    w = clt_picture_window_of(values, 1001);
    assert_true(w.low == 2 && w.high == 9);
    float same[3] = {4, 4, 4};
    w = clt_picture_window_of(same, 3);
    assert_true(w.low == 4 && w.high > 4);
    float large[2] = {-1e20f, -1e20f};
    w = clt_picture_window_of(large, 2);
    assert_true(w.low < w.high);
}

typedef struct drawn {
    clt_view view;
    clt_str png;
} drawn;

static drawn draw(const clt_source *s, void *const *data, clt_picture_window w, const int64_t at[3], int axis,
                  int64_t channel)
{
    drawn d = {.png = {0}};
    clt_encoded image;
    clt_picture_form f = form_of(s);
    assert_ok(clt_picture_draw(s, &f, data, &w, at, axis, channel, &d.png));
    assert_ok(clt_image_header(d.png.text, d.png.length, &image));
    assert_ok(clt_image_decode(&image, (clt_box){0, 0, image.width, image.height}, 1, &d.view));
    return d;
}

static void check_pixel(const drawn *d, int row, int column, int red, int green, int blue)
{
    const uint8_t *p = d->view.pixels + (size_t)row * d->view.stride + (size_t)column * CLT_PIXEL;
    assert_int_equal(p[0], red);
    assert_int_equal(p[1], green);
    assert_int_equal(p[2], blue);
}

/* Each voxel is 100 * depth + 10 * height + width. */
TEST(test_planes)
{
    float x[2 * 4 * 3 * 2];
    for (int c = 0; c < 2; c++)
        for (int z = 0; z < 4; z++)
            for (int y = 0; y < 3; y++)
                for (int k = 0; k < 2; k++)
                    x[((c * 4 + z) * 3 + y) * 2 + k] = (float)(100 * z + 10 * y + k) - (c ? 1000.0f : 0.0f);
    clt_source s = SOURCE(CLT_F32, 2, 4, 3, 2);
    void *data[2] = {x, NULL};
    const clt_picture_window w = {true, 100, 355}; /* a level for each unit */
    const int64_t at[3] = {2, 1, 1};
    const int sizes[3][2] = {{3, 2}, {4, 2}, {4, 3}}; /* rows, columns */
    for (int axis = 0; axis < 3; axis++) {
        drawn d = draw(&s, data, w, at, axis, 0);
        assert_int_equal(d.view.height, sizes[axis][0]);
        assert_int_equal(d.view.width, sizes[axis][1]);
        for (int r = 0; r < d.view.height; r++)
            for (int c = 0; c < d.view.width; c++) {
                int value = axis == 0   ? 200 + 10 * r + c
                            : axis == 1 ? 100 * r + 10 + c
                                        : 100 * r + 10 * c + 1;
                int want = value < 100 ? 0 : value > 355 ? 255 : value - 100;
                check_pixel(&d, r, c, want, want, want);
            }
        clt_str_free(&d.png);
        d = draw(&s, data, w, at, axis, 1);
        check_pixel(&d, 0, 0, 0, 0, 0);
        clt_str_free(&d.png);
    }
}

/* Bytes stay as they are, whether their channels come first or last. */
TEST(test_colors)
{
    uint8_t first[3 * 4 * 5], last[4 * 5 * 3];
    for (int i = 0; i < 20; i++)
        for (int c = 0; c < 3; c++)
            first[c * 20 + i] = last[i * 3 + c] = (uint8_t)(80 * c + i);
    clt_source sources[2] = {SOURCE(CLT_U8, 3, 4, 5), SOURCE(CLT_U8, 4, 5, 3)};
    void *data[2][2] = {{first, NULL}, {last, NULL}};
    for (int k = 0; k < 2; k++) {
        drawn d = draw(&sources[k], data[k], (clt_picture_window){0}, (int64_t[3]){0, 0, 0}, 0, 0);
        for (int i = 0; i < 20; i++)
            check_pixel(&d, i / 5, i % 5, i, 80 + i, 160 + i);
        clt_str_free(&d.png);
    }
}

/* A block of class 2 in a volume: the planes through the block are shown; its border has the class's
 * colour, its inside a quarter of it. */
TEST(test_masks)
{
    enum { D = 9, H = 8, W = 7 };
    uint8_t x[D * H * W], y[D * H * W] = {0}, rgb[3];
    for (int z = 5; z < 8; z++)
        for (int r = 1; r < 4; r++)
            for (int c = 2; c < 5; c++)
                y[(z * H + r) * W + c] = 2;
    y[(6 * H + 2) * W + 5] = 2; /* one more in the planes of its centre */
    y[(6 * H + 4) * W + 3] = 2;
    y[(8 * H + 2) * W + 3] = 2;
    memset(x, 100, sizeof x);
    clt_source s = SOURCE(CLT_U8, D, H, W);
    s.n_fields = 2;
    s.fields[1] = (clt_source_field){.name = "y", .dtype = CLT_U8, .shape = clt_shape3(D, H, W)};
    void *data[2] = {x, y};
    clt_picture_form f = form_of(&s);
    assert_true(f.masked);
    int64_t at[3];
    clt_picture_centre(&s, &f, data, at);
    assert_true(at[0] == 6 && at[1] == 2 && at[2] == 3);
    drawn d = draw(&s, data, (clt_picture_window){0}, at, 0, 0);
    clt_picture_color(2, rgb);
    check_pixel(&d, 0, 0, 100, 100, 100);
    check_pixel(&d, 1, 2, rgb[0], rgb[1], rgb[2]);
    check_pixel(&d, 2, 3, (rgb[0] + 300 + 2) / 4, (rgb[1] + 300 + 2) / 4, (rgb[2] + 300 + 2) / 4);
    clt_str_free(&d.png);
    memset(y, 0, sizeof y);
    clt_picture_centre(&s, &f, data, at);
    assert_true(at[0] == D / 2 && at[1] == H / 2 && at[2] == W / 2);
    /* a target with as many elements in another shape is not a mask */
    s.fields[1].shape = clt_shape_make(2, (int64_t[]){D * H * W / 2, 2});
    assert_false(form_of(&s).masked);
}
