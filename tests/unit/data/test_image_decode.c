/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding: pixels equal Pillow's, decoded regions equal those of the whole image, and a damaged file gives
 * an error at worst. */
#include "tests/unit/data/image_test.h"

#include <math.h>
#include <pthread.h>

#include "engine/files/sha256.h"
#include "engine/json/json.h"

static clt_status decode_all(const void *bytes, size_t size, clt_encoded *image, clt_view *view)
{
    CLT_TRY(clt_image_header(bytes, size, image));
    return clt_image_decode(image, (clt_box){0, 0, image->width, image->height}, 1, view);
}

/* The pixels in the form of Pillow's tobytes() of an RGB image. */
static uint8_t *rgb_of(const clt_view *view)
{
    uint8_t *rgb = malloc((size_t)view->width * (size_t)view->height * 3), *to = rgb;
    assert_non_null(rgb);
    for (int y = 0; y < view->height; y++)
        for (int x = 0; x < view->width; x++, to += 3)
            memcpy(to, view->pixels + (size_t)y * view->stride + (size_t)x * CLT_PIXEL, 3);
    return rgb;
}

TEST(test_known_decodes)
{
    clt_json_doc *doc;
    size_t size = 0;
    int checked = 0;
    CLT_FREED char *text = shared_file("cifar10-jpeg/known_decodes.json", &size);
    char name[256], hash[CLT_SHA256_TEXT];
    if (!text)
        skip();
    assert_ok(clt_json_parse(text, size, "known_decodes.json", CLT_EDATA, &doc));
    for (const clt_json *e = clt_json_first(clt_json_get(clt_json_root(doc), "images")); e;
         e = clt_json_next(e)) {
        clt_encoded image;
        clt_view view;
        snprintf(name, sizeof name, "cifar10-jpeg/%s", clt_json_string(clt_json_get(e, "file")));
        char *bytes = shared_file(name, &size);
        assert_non_null(bytes);
        assert_ok(decode_all(bytes, size, &image, &view));
        uint8_t *rgb = rgb_of(&view);
        clt_sha256_text((char *)rgb, (size_t)view.width * (size_t)view.height * 3, hash);
        assert_string_equal(hash, clt_json_string(clt_json_get(e, "rgb_sha256")));
        free(rgb);
        free(bytes);
        checked++;
    }
    assert_int_equal(checked, 40);
    clt_json_destroy(doc);
}

static void check_mean(const char *name, const clt_json *mean, const clt_view *view)
{
    double n = (double)view->width * view->height;
    for (int c = 0; c < 3; c++) {
        double sum = 0;
        for (int y = 0; y < view->height; y++)
            for (int x = 0; x < view->width; x++)
                sum += view->pixels[(size_t)y * view->stride + (size_t)x * CLT_PIXEL + (size_t)c];
        const clt_json *e = clt_json_first(mean);
        for (int i = 0; i < c; i++)
            e = clt_json_next(e);
        if (fabs(sum / n - clt_json_number(e)) > 0.006)
            fail_msg("%s: the mean of channel %d is %g, Pillow's %g", name, c, sum / n, clt_json_number(e));
    }
}

/* Parts that are decoded alone have the same pixels as in the whole image. */
static void check_parts(const char *name, const clt_encoded *image, const clt_view *whole)
{
    CLT_FREED uint8_t *all = rgb_of(whole);
    for (int i = 0; i < 12; i++) {
        clt_box box = {image->width * i / 13, image->height * (i * 5 % 13) / 13, 0, 0};
        clt_view view;
        box.width = 1 + (image->width - box.x - 1) * (i % 4) / 3;
        box.height = 1 + (image->height - box.y - 1) * (i % 3) / 2;
        assert_ok(clt_image_decode(image, box, 1, &view));
        CLT_FREED uint8_t *part = rgb_of(&view);
        for (int y = 0; y < box.height; y++)
            if (memcmp(part + (size_t)y * (size_t)box.width * 3,
                       all + ((size_t)(box.y + y) * (size_t)image->width + (size_t)box.x) * 3,
                       (size_t)box.width * 3) != 0)
                fail_msg("%s: the part %d %d %d %d differs in its row %d", name, box.x, box.y, box.width,
                         box.height, y);
    }
}

/* Every file is decoded or refused as expected.json says; decoded files have Pillow's mean. */
TEST(test_bad_images)
{
    clt_json_doc *doc;
    size_t size = 0;
    int decoded = 0, reported = 0;
    char *text = shared_file("bad_images/expected.json", &size), name[256];
    if (!text)
        skip();
    assert_ok(clt_json_parse(text, size, "expected.json", CLT_EDATA, &doc));
    for (const clt_json *e = clt_json_first(clt_json_root(doc)); e; e = clt_json_next(e)) {
        clt_encoded image;
        clt_view view;
        const char *expected = clt_json_string(clt_json_get(e, "expected"));
        const clt_json *mean = clt_json_get(e, "mean_rgb");
        snprintf(name, sizeof name, "bad_images/%s", clt_json_string(clt_json_get(e, "file")));
        char *bytes = shared_file(name, &size);
        assert_non_null(bytes);
        clt_status status = decode_all(bytes, size, &image, &view);
        /* Only the Exif block of this file is cut: all pixels are there, and newer versions of Pillow
         * decode them. */
        bool whole = strstr(name, "truncated_exif_dpi") != NULL;
        bool may_decode = whole || strncmp(expected, "decode", 6) == 0 || strstr(expected, "ignore"),
             may_report = strstr(expected, "report") != NULL;
        if (status == CLT_OK ? !may_decode : !may_report)
            fail_msg("%s: it should \"%s\", but: %s", name, expected,
                     status == CLT_OK ? "it was decoded" : clt_error_text());
        if (status != CLT_OK) {
            assert_int_equal(status, CLT_EDATA);
            reported++;
            print_message("%s: %s\n", name, clt_error_text());
        } else {
            decoded++;
            if (mean)
                check_mean(name, mean, &view);
            check_parts(name, &image, &view);
        }
        free(bytes);
    }
    assert_int_equal(decoded + reported, 35);
    assert_true(decoded >= 17);
    clt_json_destroy(doc);
    free(text);
}

TEST(test_messages)
{
    static const struct {
        const char *bytes, *word;
        size_t size;
    } cases[] = {{"", "empty", 0},
                 {"version https://git-lfs.github.com/spec/v1\n", "git-lfs", 43},
                 {"GIF89a......", "GIF", 12},
                 {"RIFF....WEBPVP8 ", "WebP", 16},
                 {"x", "not a JPEG or PNG", 1},
                 {"\xff\xd8\xff", "damaged JPEG", 3},
                 {"\x89PNG\r\n\x1a\n", "damaged PNG", 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        clt_encoded image;
        assert_int_equal(clt_image_header(cases[i].bytes, cases[i].size, &image), CLT_EDATA);
        if (!strstr(clt_error_text(), cases[i].word))
            fail_msg("the message '%s' does not say '%s'", clt_error_text(), cases[i].word);
    }
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static const jpeg_kind kinds[] = {{3, 2, 2, false, 0}, {3, 1, 1, false, 0}, {3, 2, 1, false, 1},
                                  {3, 1, 2, false, 0}, {3, 2, 2, true, 0},  {3, 1, 1, true, 0},
                                  {1, 1, 1, false, 0}, {4, 1, 1, false, 0}, {3, 4, 1, false, 0}};

/* Each part of an image, decoded alone, has the pixels that it has in the whole image. */
TEST(test_regions)
{
    static const int sizes[][2] = {{401, 283}, {160, 333}, {33, 17}, {640, 64}};
    uint32_t random = 7;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (size_t s = 0; s < 4; s++) {
            int w = sizes[s][0], h = sizes[s][1];
            size_t size;
            CLT_FREED uint8_t *jpeg = make_jpeg(w, h, kinds[k], &size);
            clt_encoded image;
            clt_view view;
            assert_ok(decode_all(jpeg, size, &image, &view));
            assert_int_equal(image.width, w);
            assert_int_equal(image.height, h);
            CLT_FREED uint8_t *all = rgb_of(&view);
            for (int i = 0; i < 40; i++) {
                clt_box box = {(int)(next_random(&random) % (uint32_t)w),
                               (int)(next_random(&random) % (uint32_t)h), 0, 0};
                box.width = 1 + (int)(next_random(&random) % (uint32_t)(w - box.x));
                box.height = 1 + (int)(next_random(&random) % (uint32_t)(h - box.y));
                assert_ok(clt_image_decode(&image, box, 1, &view));
                CLT_FREED uint8_t *part = rgb_of(&view);
                for (int y = 0; y < box.height; y++)
                    if (memcmp(part + (size_t)y * (size_t)box.width * 3,
                               all + ((size_t)(box.y + y) * (size_t)w + (size_t)box.x) * 3,
                               (size_t)box.width * 3) != 0)
                        fail_msg("kind %zu, %d x %d: the part %d %d %d %d differs in its row %d", k, w, h,
                                 box.x, box.y, box.width, box.height, y);
            }
        }
}

/* A part at a half, a quarter or an eighth of its size is near to the means of the pixels. */
TEST(test_shrink)
{
    const clt_box box = {40, 24, 240, 160};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t size;
        CLT_FREED uint8_t *jpeg = make_jpeg(401, 283, kinds[k], &size);
        clt_encoded image;
        clt_view view;
        assert_ok(decode_all(jpeg, size, &image, &view));
        CLT_FREED uint8_t *all = rgb_of(&view);
        for (int shrink = 2; shrink <= 8; shrink *= 2) {
            assert_ok(clt_image_decode(&image, box, shrink, &view));
            assert_int_equal(view.width, box.width / shrink);
            assert_int_equal(view.height, box.height / shrink);
            double error = 0;
            for (int y = 0; y < view.height; y++)
                for (int x = 0; x < view.width; x++) {
                    double sum = 0;
                    for (int i = 0; i < shrink * shrink; i++)
                        sum += all[((size_t)(box.y + y * shrink + i / shrink) * 401 +
                                    (size_t)(box.x + x * shrink + i % shrink)) *
                                   3];
                    error +=
                        fabs(sum / (shrink * shrink) - view.pixels[(size_t)y * view.stride + 4 * (size_t)x]);
                }
            error /= view.width * view.height;
            if (error > 8)
                fail_msg("kind %zu at 1/%d: the mean difference is %g levels", k, shrink, error);
        }
    }
}

/* A file that is cut anywhere is an error; one with changed bytes is an error or an image of the same
 * size. */
TEST(test_damage)
{
    uint32_t random = 99;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t size;
        CLT_FREED uint8_t *jpeg = make_jpeg(67, 45, kinds[k], &size);
        clt_encoded image;
        clt_view view;
        for (size_t cut = 0; cut < size; cut += 1 + cut / 64) {
            CLT_FREED uint8_t *copy = malloc(cut + 1);
            assert_non_null(copy);
            memcpy(copy, jpeg, cut);
            assert_int_equal(decode_all(copy, cut, &image, &view), CLT_EDATA);
        }
        for (int i = 0; i < 300; i++) {
            CLT_FREED uint8_t *copy = malloc(size);
            assert_non_null(copy);
            memcpy(copy, jpeg, size);
            for (int n = 0; n < 3; n++)
                copy[next_random(&random) % size] = (uint8_t)next_random(&random);
            clt_status status = decode_all(copy, size, &image, &view);
            assert_true(status == CLT_OK || status == CLT_EDATA);
        }
    }
}

TEST(test_png)
{
    uint32_t random = 5;
    CLT_FREED uint8_t *planes = make_planes(61, 43, formula);
    uint8_t back[61 * 43 * 3];
    CLT_SCOPED(clt_str) file = {0};
    clt_encoded image;
    clt_view view;
    assert_ok(clt_png_write(planes, 3, 61, 43, &file));
    assert_ok(decode_all(file.text, file.length, &image, &view));
    assert_ok(clt_image_resize(&view, 61, 43, (clt_box){0, 0, 61, 43}, false, back));
    assert_memory_equal(back, planes, sizeof back);
    for (size_t cut = 0; cut + 12 < file.length; cut += 7)
        assert_int_equal(decode_all(file.text, cut, &image, &view), CLT_EDATA);
    for (int i = 0; i < 500; i++) { /* checksums cover every byte */
        CLT_FREED char *copy = malloc(file.length);
        assert_non_null(copy);
        memcpy(copy, file.text, file.length);
        size_t at = next_random(&random) % file.length;
        copy[at] = (char)(copy[at] ^ (1 << next_random(&random) % 8));
        clt_status status = decode_all(copy, file.length, &image, &view);
        assert_true(status == CLT_EDATA || at + 12 >= file.length);
    }
}

static void *decode_in_thread(void *context)
{
    size_t size;
    CLT_FREED uint8_t *jpeg = make_jpeg(101, 77, kinds[0], &size);
    clt_encoded image;
    clt_view view;
    if (decode_all(jpeg, size, &image, &view) != CLT_OK || view.width != 101)
        context = NULL;
    return context;
}

/* Each thread has a decoder, which is freed when the thread ends. */
TEST(test_threads)
{
    int good = 1;
    for (int round = 0; round < 3; round++) {
        pthread_t thread[4];
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, decode_in_thread, &good), 0);
        for (int i = 0; i < 4; i++) {
            void *result;
            pthread_join(thread[i], &result);
            assert_ptr_equal(result, &good);
        }
    }
}
