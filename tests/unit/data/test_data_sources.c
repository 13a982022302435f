/* SPDX-License-Identifier: Apache-2.0
 *
 * idx and raw sources: good files give the numbers that were put in, bad ones are refused with words that
 * help, and the facts of the real MNIST files come out.
 * ctest-labels: quick ctest-cost: 5 */
#include "tests/unit/data/data_test.h"

#include <math.h>

#define PAIR "\"type\":\"idx\",\"path\":\"%D/x\",\"targets\":\"%D/y\""
#define ONE "\"type\":\"idx\",\"path\":\"%D/x\""

/* 3 images of 2x2 */
static const uint8_t images[28] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2,  0,  0,
                                   0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255};
static const uint8_t labels[11] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9};

TEST(test_idx_u8)
{
    for (int packed = 0; packed < 2; packed++) {
        if (packed) {
            put_gzip("x", images, sizeof images);
            put_gzip("y", labels, sizeof labels);
        } else {
            put_file("x", images, sizeof images);
            put_file("y", labels, sizeof labels);
        }
        CLT_SCOPED(clt_source) *source =
            must_open(PAIR ",\"scale\":0.5,\"mean\":0.25,\"std\":2", CLT_SPLIT_TRAIN);
        assert_int_equal(source->samples, 3);
        assert_int_equal(source->n_fields, 2);
        assert_string_equal(source->fields[0].name, "x");
        assert_string_equal(source->fields[1].name, "y");
        assert_int_equal(source->fields[0].dtype, CLT_U8);
        assert_int_equal(source->fields[1].dtype, CLT_U8);
        assert_int_equal(source->fields[0].shape.ndim, 2);
        assert_int_equal(source->fields[0].shape.dim[1], 2);
        assert_int_equal(source->fields[1].shape.ndim, 0);
        assert_false(source->fields[0].is_index);
        assert_true(source->fields[1].is_index);
        assert_int_equal(source->fields[1].max_value, 9);
        assert_int_equal(source->bytes, sizeof images + sizeof labels);
        /* bytes are uploaded raw and normalised on the device */
        assert_true(source->scale == 0.5f && source->mean == 0.25f && source->std == 2.0f);
        for (int i = 0; i < 3; i++) {
            uint8_t x[4], y;
            must_read(source, i, 0, x);
            must_read(source, i, 1, &y);
            assert_memory_equal(x, images + 16 + 4 * i, 4);
            assert_int_equal(y, labels[8 + i]);
        }
        assert_ok(clt_source_check_bound(source, 1, 10, false, 0));
        assert_ok(clt_source_check_bound(source, 1, 9, true, 9));
        assert_int_equal(clt_source_check_bound(source, 1, 9, false, 0), CLT_EDATA);
        expect_words("/y'|sample 2|byte 10|is 9|0 to 8|more classes");
        assert_int_equal(clt_source_check_bound(source, 1, 8, true, 200), CLT_EDATA);
        expect_words("or 200 to be ignored");
    }
    CLT_SCOPED(clt_source) *alone = must_open(ONE, CLT_SPLIT_TRAIN);
    assert_int_equal(alone->n_fields, 1);
}

static void put_be(uint8_t *at, uint64_t bits, int width)
{
    for (int i = 0; i < width; i++)
        at[i] = (uint8_t)(bits >> 8 * (width - 1 - i));
}

/* Two samples of two numbers each, of every type that becomes f32. */
TEST(test_idx_wide_types)
{
    static const struct {
        uint8_t type;
        int width;
        uint64_t bits[4];
        float want[4];
    } cases[] = {
        {0x09, 1, {0x80, 0xff, 0, 0x7f}, {-128, -1, 0, 127}},
        {0x0b, 2, {0x8000, 0xfffe, 1, 0x7fff}, {-32768, -2, 1, 32767}},
        {0x0c, 4, {0xfffffff6, 5, 0x10000, 0x01000000}, {-10, 5, 65536, 16777216}},
        {0x0d, 4, {0x3fc00000, 0xbf800000, 0, 0x00000001}, {1.5f, -1, 0, 1e-45f}},
        {0x0e, 8, {0x3ff8000000000000, 0xc000000000000000, 0x3fb999999999999a, 0}, {1.5f, -2, 0.1f, 0}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint8_t file[12 + 32] = {0, 0, cases[c].type, 2, 0, 0, 0, 2, 0, 0, 0, 2};
        for (int i = 0; i < 4; i++)
            put_be(file + 12 + i * cases[c].width, cases[c].bits[i], cases[c].width);
        put_file("x", file, 12 + 4 * (size_t)cases[c].width);
        clt_source *source = must_open(ONE, CLT_SPLIT_TRAIN);
        assert_int_equal(source->fields[0].dtype, CLT_F32);
        float x[4];
        must_read(source, 0, 0, x);
        must_read(source, 1, 0, x + 2);
        assert_memory_equal(x, cases[c].want, sizeof x);
        clt_source_close(source);
        /* floats are normalised while they are read, so the device must not do it again */
        source = must_open(ONE ",\"scale\":2,\"mean\":1,\"std\":4", CLT_SPLIT_TRAIN);
        assert_true(source->scale == 1.0f && source->mean == 0.0f && source->std == 1.0f);
        must_read(source, 0, 0, x);
        assert_true(x[1] == (cases[c].want[1] * 2 - 1) / 4);
        clt_source_close(source);
    }
}

TEST(test_idx_i32_labels)
{
    uint8_t y[20] = {0, 0, 0x0c, 1, 0, 0, 0, 3};
    put_be(y + 8, 1000, 4);
    put_be(y + 12, (uint32_t)-100, 4);
    put_be(y + 16, 2, 4);
    put_file("x", images, sizeof images);
    put_file("y", y, sizeof y);
    CLT_SCOPED(clt_source) *source = must_open(PAIR, CLT_SPLIT_TRAIN);
    assert_int_equal(source->fields[1].dtype, CLT_I32);
    assert_int_equal(source->fields[1].max_value, 1000);
    int32_t value = 0;
    must_read(source, 1, 1, &value);
    assert_int_equal(value, -100);
    assert_ok(clt_source_check_bound(source, 1, 1001, true, -100));
    assert_int_equal(clt_source_check_bound(source, 1, 1001, false, 0), CLT_EDATA);
    expect_words("sample 1|-100");
    assert_int_equal(clt_source_check_bound(source, 1, 1000, true, -100), CLT_EDATA);
    expect_words("sample 0|is 1000|0 to 999");
    int64_t count = 0;
    assert_ok(clt_source_count_valid(source, 1, (clt_draw){0}, 1, -100, &value, &count));
    assert_int_equal(count, 0);
    assert_ok(clt_source_count_valid(source, 2, (clt_draw){0}, 1, -100, &value, &count));
    assert_int_equal(count, 1);
}

TEST(test_not_finite)
{
    uint8_t file[12 + 32] = {0, 0, 0x0e, 2, 0, 0, 0, 2, 0, 0, 0, 2};
    put_be(file + 12 + 24, 0x7ff8000000000000, 8);
    put_be(file + 12 + 8, 0x7fe0000000000000, 8); /* finite, but not as a float */
    put_file("x", file, sizeof file);
    clt_source *source = must_open(ONE, CLT_SPLIT_TRAIN);
    float x[2];
    assert_int_equal(clt_source_read_field(source, 1, 0, x), CLT_EDATA);
    expect_words("/x'|sample 1|element 1|byte 36|nan|not a finite number");
    assert_int_equal(clt_source_read_field(source, 0, 0, x), CLT_EDATA);
    expect_words("/x'|sample 0|element 1|does not fit a 32-bit float");
    assert_int_equal(clt_source_read_field(source, 2, 0, x), CLT_EINTERNAL);
    clt_source_close(source);
    float y[3] = {1, INFINITY, 0};
    float xs[3] = {1, 2, 3};
    put_file("x", xs, sizeof xs);
    put_file("y", y, sizeof y);
    source =
        must_open("\"type\":\"raw\",\"path\":\"%D/x\",\"targets\":\"%D/y\",\"shape\":[1]", CLT_SPLIT_TRAIN);
    must_read(source, 0, 1, x);
    assert_int_equal(clt_source_read_field(source, 1, 1, x), CLT_EDATA);
    expect_words("/y'|sample 1|inf");
    clt_source_close(source);
}

typedef struct bad_file {
    const char *why;
    size_t size;
    uint8_t bytes[32];
    const char *words;
} bad_file;

TEST(test_idx_bad_files)
{
    static const bad_file cases[] = {
        {"empty", 0, {0}, "is empty"},
        {"three bytes", 3, {0, 0, 8}, "cut off|3 bytes"},
        {"png", 8, {0x89, 'P', 'N', 'G', 13, 10, 26, 10}, "wrong magic 89 50 4e 47|00 00 08 03"},
        {"text", 12, "hello world", "wrong magic"},
        {"little-endian", 16, {3, 8, 0, 0}, "wrong magic 03 08 00 00"},
        {"second byte", 16, {0, 1, 8, 3}, "wrong magic"},
        {"type 0", 16, {0, 0, 0, 2}, "0x00 at byte 2|not an idx number type"},
        {"type 0x0a", 16, {0, 0, 0x0a, 2}, "0x0a"},
        {"type 0x0f", 16, {0, 0, 0x0f, 2}, "0x0f"},
        {"no dimensions", 16, {0, 0, 8, 0}, "0 dimensions"},
        {"7 dimensions", 32, {0, 0, 8, 7}, "7 dimensions"},
        {"255 dimensions", 32, {0, 0, 8, 255}, "255 dimensions"},
        {"labels as inputs", 11, {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9}, "swapped"},
        {"header cut",
         11,
         {0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0},
         "cut off inside the idx header|12 bytes|it has 11"},
        {"no samples", 12, {0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 1}, "dimension 1 of 2 is 0"},
        {"no elements", 12, {0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 0}, "dimension 2 of 2 is 0"},
        {"data cut",
         15,
         {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3},
         "cut off|2 samples|16 bytes|after 15 bytes"},
        {"bytes left",
         17,
         {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4, 5},
         "1 bytes follow|from byte 16"},
        {"huge product",
         28,
         {0, 0, 14, 4, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
         "more numbers than a file can hold"},
        {"product wraps to 0",
         28,
         {0, 0, 8, 3, 128, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 4},
         "more numbers than a file can hold"},
        {"exabytes", 16, {0, 0, 8, 2, 255, 255, 255, 255, 64, 0, 0, 0}, "cut off|4294967295 samples"},
        {"git-lfs", 32, "version https://git-lfs.github.c", "git-lfs pointer|git lfs pull"},
    };
    put_file("y", labels, sizeof labels);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_file("x", cases[i].bytes, cases[i].size);
        expect_refused(PAIR, CLT_SPLIT_TRAIN, CLT_EDATA, cases[i].words);
        expect_words("/x'|data.path");
    }
    /* the same for targets */
    put_file("x", images, sizeof images);
    put_file("y", "\0\0\x08\x01\0\0\0\x02\x01", 9);
    expect_refused(PAIR, CLT_SPLIT_TRAIN, CLT_EDATA, "/y'|data.targets|cut off|2 samples");
    put_file("y", "\0\0\x08\x01\0\0\0\x02\x01\x02", 10);
    expect_refused(PAIR, CLT_SPLIT_TRAIN, CLT_EDATA, "/x'|/y'|3 samples|2 targets|belong together");
}

TEST(test_every_truncation)
{
    put_file("y", labels, sizeof labels);
    for (size_t size = 0; size < sizeof images; size++) {
        put_file("x", images, size);
        expect_refused(PAIR, CLT_SPLIT_TRAIN, CLT_EDATA, size ? "/x'|cut off" : "/x'|empty");
    }
    put_file("x", images, sizeof images);
    for (size_t size = 0; size < sizeof labels; size++) {
        put_file("y", labels, size);
        expect_refused(PAIR, CLT_SPLIT_TRAIN, CLT_EDATA, size ? "/y'|cut off" : "/y'|empty");
    }
    put_file("y", labels, sizeof labels);
    const char *packed = put_gzip("x.gz", images, sizeof images);
    CLT_FREED char *bytes = NULL;
    size_t length = 0;
    assert_ok(clt_file_read(packed, false, 0, CLT_EDATA, &bytes, &length));
    assert_true(length > 20);
    for (size_t size = 0; size < length; size++) {
        put_file("x", bytes, size);
        expect_refused(PAIR, CLT_SPLIT_TRAIN, CLT_EDATA, "/x'");
        if (size >= 2)
            expect_words("gzip|ends early");
    }
    bytes[length - 6] ^= 1; /* the checksum */
    put_file("x", bytes, length);
    expect_refused(PAIR, CLT_SPLIT_TRAIN, CLT_EDATA, "/x'|gzip|damaged");
}

/* A small gzip file can unpack to a thousand times its size: reading stops at what the header declares. */
TEST(test_gzip_bomb)
{
    enum { SIZE = 48 << 20 };
    CLT_FREED char *bytes = calloc(1, SIZE);
    assert_non_null(bytes);
    memcpy(bytes, "\0\0\x08\x01\0\0\0\x08", 8); /* 8 labels */
    const char *path = put_gzip("bomb.gz", bytes, SIZE);
    clt_str text = {0};
    assert_int_equal(clt_source_check_file(path, "", &text), CLT_EDATA);
    expect_words("/bomb.gz'|more follows the 16 bytes that its header declares");
    clt_str_free(&text);
    /* a larger file is read completely if it is as large as declared */
    memcpy(bytes, "\0\0\x08\x01\x02\xff\xff\xf8", 8);
    path = put_gzip("large.gz", bytes, SIZE);
    assert_ok(clt_source_check_file(path, "", &text));
    assert_non_null(strstr(text.text, "50331640 samples"));
    clt_str_free(&text);
}

/* Whatever a header says, the answer is data that can be read or a refusal. */
TEST(test_every_header_byte)
{
    int opened = 0, refused = 0;
    for (size_t at = 0; at < 16; at++)
        for (int value = 0; value < 256; value++) {
            uint8_t file[sizeof images], sample[64];
            memcpy(file, images, sizeof file);
            file[at] = (uint8_t)value;
            put_file("x", file, sizeof file);
            clt_source *source = NULL;
            clt_status status = try_open(ONE, CLT_SPLIT_TRAIN, &source);
            if (status == CLT_OK) {
                assert_true(clt_source_field_bytes(&source->fields[0]) <= sizeof sample);
                for (int64_t i = 0; i < source->samples; i++)
                    (void)clt_source_read_field(source, i, 0, sample);
                opened++;
            } else {
                assert_int_equal(status, CLT_EDATA);
                refused++;
            }
            clt_source_close(source);
        }
    assert_true(opened >= 16); /* the unchanged byte, at least */
    assert_int_equal(opened + refused, 16 * 256);
}

/* A fault in a file of data.eval_path is reported for that key, not for data.path, which is correct. */
TEST(test_paths_of_evaluation)
{
    static const char *const members[] = {
        PAIR ",\"eval_targets\":\"%D/y\"",
        "\"type\":\"raw\",\"shape\":[2],\"path\":\"%D/x\",\"targets\":\"%D/y\",\"eval_targets\":\"%D/y\"",
        "\"type\":\"npy\",\"path\":\"%D/x.npy\"",
        "\"type\":\"csv\",\"path\":\"%D/t.csv\",\"target\":\"b\"",
        "\"type\":\"text\",\"path\":\"%D/t.csv\",\"window\":2",
        "\"type\":\"images\",\"path\":\"%D/set\",\"size\":8",
        "\"type\":\"cifar\",\"path\":\"%D/x\"",
        "\"type\":\"nifti\",\"path\":\"%D/set\"",
    };
    put_file("x", images, sizeof images);
    put_file("y", labels, sizeof labels);
    put_text("t.csv", "a,b\n1,2\n3,4\n5,6\n");
    put_text("set/a/1.png", "");
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        char with[512];
        (void)snprintf(with, sizeof with, "%s,\"eval_path\":\"%%D/gone\"", members[i]);
        expect_refused(with, CLT_SPLIT_EVAL, CLT_EDATA, "data.eval_path|/gone'");
        if (strstr(clt_error_text(), "data.path"))
            fail_msg("data.path is blamed: %s", clt_error_text());
    }
}

TEST(test_paths)
{
    put_file("x", images, sizeof images);
    put_file("y", labels, sizeof labels);
    expect_refused("\"type\":\"idx\",\"path\":\"%D/none\"", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "data.path|/none'|No such file");
    expect_refused("\"type\":\"idx\",\"path\":\"%D\"", CLT_SPLIT_TRAIN, CLT_EDATA, "data.path|folder");
    expect_refused("\"type\":\"idx\",\"path\":\"%D/x\",\"targets\":\"%D/none\"", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "data.targets|/none'");
    expect_refused("\"type\":\"idx\"", CLT_SPLIT_TRAIN, CLT_ECONFIG,
                   "data.path: required|file of the training inputs");
    expect_refused("\"type\":\"idx\",\"path\":[\"a\",\"b\"]", CLT_SPLIT_TRAIN, CLT_ECONFIG,
                   "one file|2 were given");
    expect_refused(PAIR, CLT_SPLIT_EVAL, CLT_ECONFIG, "data.eval_path");
    expect_refused(PAIR ",\"eval_path\":\"%D/x\"", CLT_SPLIT_EVAL, CLT_ECONFIG, "data.eval_targets");
    expect_refused(ONE ",\"eval_path\":\"%D/x\",\"eval_targets\":\"%D/y\"", CLT_SPLIT_EVAL, CLT_ECONFIG,
                   "no data.targets");
    clt_source *source = must_open(PAIR ",\"eval_path\":\"%D/x\",\"eval_targets\":\"%D/y\"", CLT_SPLIT_EVAL);
    assert_int_equal(source->samples, 3);
    clt_source_close(source);

    clt_config *config = data_config(PAIR);
    assert_false(clt_source_has_eval(config));
    clt_config_destroy(config);
    config = data_config(PAIR ",\"eval_path\":\"e\",\"eval_targets\":\"f\"");
    assert_true(clt_source_has_eval(config));
    clt_config_destroy(config);
    clt_source_close(NULL);
    int count = 0;
    const clt_source_type *const *types = clt_source_types(&count);
    assert_int_equal(count, 13);
    for (int i = 0; i < count; i++)
        assert_true(types[i]->format->name[0] && types[i]->format->help[0] && types[i]->open &&
                    types[i]->close && types[i]->read);
}

TEST(test_raw)
{
    float x[12], y[6];
    for (int i = 0; i < 12; i++)
        x[i] = (float)i / 4;
    for (int i = 0; i < 6; i++)
        y[i] = (float)-i;
    put_file("x", x, sizeof x);
    put_file("y", y, sizeof y);
#define RAW "\"type\":\"raw\",\"path\":\"%D/x\",\"targets\":\"%D/y\""
    clt_source *source = must_open(RAW ",\"shape\":[2,2],\"target_shape\":[2]", CLT_SPLIT_TRAIN);
    assert_int_equal(source->samples, 3);
    assert_int_equal(source->fields[1].dtype, CLT_F32);
    assert_false(source->fields[1].is_index);
    float got[4];
    must_read(source, 2, 0, got);
    assert_memory_equal(got, x + 8, 16);
    must_read(source, 1, 1, got);
    assert_memory_equal(got, y + 2, 8);
    assert_int_equal(clt_source_check_bound(source, 1, 10, false, 0), CLT_ECONFIG);
    expect_words("f32|indices|integers");
    clt_source_close(source);
    source = must_open(RAW ",\"shape\":[2]", CLT_SPLIT_TRAIN); /* scalar targets */
    assert_int_equal(source->samples, 6);
    assert_int_equal(source->fields[1].shape.ndim, 0);
    clt_source_close(source);

    expect_refused(RAW, CLT_SPLIT_TRAIN, CLT_ECONFIG, "data.shape");
    expect_refused(RAW ",\"shape\":[5]", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "/x'|48 bytes|(5)|20 bytes each|8 bytes are left over");
    expect_refused(RAW ",\"shape\":[4],\"target_shape\":[4]", CLT_SPLIT_TRAIN, CLT_EDATA,
                   "/y'|data.target_shape");
    expect_refused(RAW ",\"shape\":[4]", CLT_SPLIT_TRAIN, CLT_EDATA, "3 samples|6 targets");
    expect_refused(RAW ",\"shape\":[1,1,1,1,1,1]", CLT_SPLIT_TRAIN, CLT_ECONFIG, "at most 5 dimensions");
    expect_refused(RAW ",\"shape\":[2147483647,2147483647]", CLT_SPLIT_TRAIN, CLT_ECONFIG, "too large");
    expect_refused(RAW ",\"shape\":[1000000]", CLT_SPLIT_TRAIN, CLT_EDATA, "not a whole number");
    put_file("x", x, 47);
    expect_refused(RAW ",\"shape\":[2,2]", CLT_SPLIT_TRAIN, CLT_EDATA, "47 bytes|cut off");
    put_file("x", x, 0);
    expect_refused(RAW ",\"shape\":[2,2]", CLT_SPLIT_TRAIN, CLT_EDATA, "empty");
}

/* --- MNIST --- */

static clt_source *open_mnist(const char *images_name, const char *labels_name)
{
    const char *root = getenv("CLTRAIN_SOURCE_DIR");
    char members[2048], first[1024];
    if (!root)
        root = CLT_TEST_SOURCE_DIR;
    (void)snprintf(first, sizeof first, "%s/../shared/data/mnist/%s", root, images_name);
    if (!clt_file_exists(first)) {
        print_message("skipped: the MNIST file %s is not on this machine\n", first);
        return NULL;
    }
    (void)snprintf(members, sizeof members,
                   "\"type\":\"idx\",\"path\":\"%s\",\"targets\":\"%s/../shared/data/mnist/"
                   "%s\",\"scale\":0.00392156862745098",
                   first, root, labels_name);
    return must_open(members, CLT_SPLIT_TRAIN);
}

static void check_mnist(const clt_source *source, const uint8_t first[10], const int64_t counts[10],
                        double *mean, double *std)
{
    static uint8_t image[784];
    int64_t seen[10] = {0};
    uint64_t histogram[256] = {0};
    assert_int_equal(clt_shape_elements(&source->fields[0].shape), 784);
    assert_int_equal(source->fields[0].shape.ndim, 2);
    assert_int_equal(source->fields[1].max_value, 9);
    for (int64_t i = 0; i < source->samples; i++) {
        uint8_t label = 0;
        must_read(source, i, 1, &label);
        assert_true(label < 10);
        seen[label]++;
        if (i < 10)
            assert_int_equal(label, first[i]);
        must_read(source, i, 0, image);
        for (int k = 0; k < 784; k++)
            histogram[image[k]]++;
    }
    for (int k = 0; k < 10; k++)
        assert_int_equal(seen[k], counts[k]);
    double n = 784.0 * (double)source->samples, sum = 0, square = 0;
    for (int k = 0; k < 256; k++) {
        double v = k * (double)source->scale;
        sum += (double)histogram[k] * v;
        square += (double)histogram[k] * v * v;
    }
    *mean = sum / n;
    *std = sqrt(square / n - *mean * *mean);
}

TEST(test_mnist)
{
    static const uint8_t train_first[10] = {5, 0, 4, 1, 9, 2, 1, 3, 1, 4},
                         test_first[10] = {7, 2, 1, 0, 4, 1, 4, 9, 5, 9};
    static const int64_t train_counts[10] = {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949};
    static const int64_t test_counts[10] = {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009};
    double mean, std;
    clt_source *source = open_mnist("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz");
    if (!source)
        skip();
    assert_int_equal(source->samples, 60000);
    check_mnist(source, train_first, train_counts, &mean, &std);
    assert_true(fabs(mean - 0.130660) < 1e-6 && fabs(std - 0.308108) < 1e-6);
    assert_ok(clt_source_check_bound(source, 1, 10, false, 0));
    clt_source_close(source);
    source = open_mnist("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz");
    assert_non_null(source);
    assert_int_equal(source->samples, 10000);
    check_mnist(source, test_first, test_counts, &mean, &std);
    clt_source_close(source);
}
