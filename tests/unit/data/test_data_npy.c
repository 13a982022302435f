/* SPDX-License-Identifier: Apache-2.0
 *
 * .npy sources: every supported number type in both byte orders and all three header versions; headers that
 * are damaged, malicious or not supported are refused. ctest-labels: quick */
#include "tests/unit/data/data_test.h"

#include <math.h>

#define ONE "\"type\":\"npy\",\"path\":\"%D/x\""
#define PAIR "\"type\":\"npy\",\"path\":\"%D/x\",\"targets\":\"%D/y\""

/* Writes a .npy file with the given header text; pads it as numpy does. */
static size_t make_npy(uint8_t *out, int version, const char *header, const void *data, size_t bytes)
{
    size_t fixed = version >= 2 ? 12 : 10, length = strlen(header),
           total = (fixed + length + 1 + 63) / 64 * 64;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (uint8_t)version;
    out[7] = 0;
    size_t field = total - fixed;
    for (size_t i = 0; i < fixed - 8; i++)
        out[8 + i] = (uint8_t)(field >> 8 * i);
    memset(out + fixed, ' ', field);
    memcpy(out + fixed, header, length);
    out[total - 1] = '\n';
    if (bytes)
        memcpy(out + total, data, bytes);
    return total + bytes;
}

static const char *put_npy(const char *name, const char *header, const void *data, size_t bytes)
{
    uint8_t file[2048];
    assert_true(bytes < 1024);
    return put_file(name, file, make_npy(file, 1, header, data, bytes));
}

TEST(test_versions)
{
    float x[6] = {1, 2, 3, 4, 5, -0.5f}, got[2];
    for (int version = 1; version <= 3; version++) {
        uint8_t file[512];
        size_t size = make_npy(file, version, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }",
                               x, sizeof x);
        put_file("x", file, size);
        clt_source *source = must_open(ONE, CLT_SPLIT_TRAIN);
        assert_int_equal(source->samples, 3);
        assert_int_equal(source->fields[0].dtype, CLT_F32);
        assert_int_equal(source->fields[0].shape.ndim, 1);
        must_read(source, 2, 0, got);
        assert_memory_equal(got, x + 4, 8);
        clt_source_close(source);
        put_gzip("x", file, size);
        source = must_open(ONE, CLT_SPLIT_TRAIN);
        must_read(source, 1, 0, got);
        assert_memory_equal(got, x + 2, 8);
        clt_source_close(source);
    }
    /* other ways to write the same dictionary */
    static const char *const headers[] = {
        "{\"shape\":(3,2),\"fortran_order\":False,\"descr\":\"<f4\"}",
        "{ 'descr' : '=f4' , 'shape' : ( 3L , 2L ) , 'fortran_order' : False }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2,)}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        put_npy("x", headers[i], x, sizeof x);
        CLT_SCOPED(clt_source) *source = must_open(ONE, CLT_SPLIT_TRAIN);
        assert_int_equal(source->samples, 3);
    }
    /* one dimension: both orders are the same */
    put_npy("x", "{'descr': '<f4', 'fortran_order': True, 'shape': (6,), }", x, sizeof x);
    clt_source *source = must_open(ONE, CLT_SPLIT_TRAIN);
    assert_int_equal(source->fields[0].shape.ndim, 0);
    clt_source_close(source);
}

typedef struct type_case {
    const char *letters;
    int width;
    clt_dtype dtype;
    uint64_t bits[2];
    double want[2];
} type_case;

static const type_case type_cases[] = {
    {"b1", 1, CLT_U8, {0, 1}, {0, 1}},
    {"u1", 1, CLT_U8, {3, 255}, {3, 255}},
    {"i1", 1, CLT_I32, {0xff, 127}, {-1, 127}},
    {"u2", 2, CLT_U16, {1, 0xfffe}, {1, 65534}},
    {"i2", 2, CLT_I32, {0x8000, 0x0102}, {-32768, 258}},
    {"u4", 4, CLT_I32, {0x7fffffff, 2}, {2147483647, 2}},
    {"i4", 4, CLT_I32, {0x80000000, 0x01020304}, {-2147483648.0, 16909060}},
    {"u8", 8, CLT_I32, {50256, 0x7fffffff}, {50256, 2147483647}},
    {"i8", 8, CLT_I32, {0xffffffffffffff9c, 9}, {-100, 9}},
    {"f2", 2, CLT_F32, {0x3e00, 0xc000}, {1.5, -2}},
    {"f4", 4, CLT_F32, {0x3fc00000, 0xc0000000}, {1.5, -2}},
    {"f8", 8, CLT_F32, {0x3ff8000000000000, 0xc000000000000000}, {1.5, -2}},
};

static double delivered(const void *data, clt_dtype dtype, int i)
{
    if (dtype == CLT_U8)
        return ((const uint8_t *)data)[i];
    if (dtype == CLT_U16)
        return ((const uint16_t *)data)[i];
    if (dtype == CLT_I32)
        return ((const int32_t *)data)[i];
    return (double)((const float *)data)[i];
}

TEST(test_types)
{
    for (size_t c = 0; c < sizeof type_cases / sizeof type_cases[0]; c++)
        for (int big = 0; big < 2; big++) {
            const type_case *t = &type_cases[c];
            uint8_t data[16];
            char header[128];
            for (int i = 0; i < 2; i++)
                for (int b = 0; b < t->width; b++)
                    data[i * t->width + b] = (uint8_t)(t->bits[i] >> 8 * (big ? t->width - 1 - b : b));
            char order = t->width == 1 ? '|' : big ? '>' : '<';
            (void)snprintf(header, sizeof header,
                           "{'descr': '%c%s', 'fortran_order': False, 'shape': (1, 2), }", order, t->letters);
            put_npy("x", header, data, 2 * (size_t)t->width);
            put_npy("y", header, data, 2 * (size_t)t->width);
            CLT_SCOPED(clt_source) *source = must_open(PAIR, CLT_SPLIT_TRAIN);
            for (int field = 0; field < 2; field++) {
                union {
                    float align;
                    uint8_t bytes[8];
                } got;
                assert_int_equal(source->fields[field].dtype, t->dtype);
                bool index = t->dtype != CLT_F32 && (field == 1 || t->dtype != CLT_U8);
                assert_int_equal(source->fields[field].is_index, index);
                if (index)
                    assert_int_equal(source->fields[field].max_value, (int64_t)fmax(t->want[0], t->want[1]));
                must_read(source, 0, field, &got);
                for (int i = 0; i < 2; i++)
                    assert_true(delivered(&got, t->dtype, i) == t->want[i]);
            }
        }
}

TEST(test_integers_that_do_not_fit)
{
    static const struct {
        const char *header;
        int64_t value;
        const char *words;
    } cases[] = {
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", 2147483648, "2147483648|range of i32"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", -2147483649,
         "-2147483649|range of i32"},
        {"{'descr': '<u8', 'fortran_order': False, 'shape': (2,), }", -1, "9223372036854775807|range of i32"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2, 1), }", 1LL << 40, "1099511627776"},
    };
    float x[2] = {0, 1};
    put_npy("x", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }", x, sizeof x);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t y[2] = {5, cases[i].value};
        put_npy("y", cases[i].header, y, sizeof y);
        expect_refused(PAIR, CLT_SPLIT_TRAIN, CLT_EDATA, cases[i].words);
        expect_words("/y'|sample 1");
    }
}

TEST(test_scale_and_finite)
{
    uint16_t half[4] = {0x3c00, 0x7c00, 0x4000, 0x7e00}; /* 1, inf, 2, nan */
    float got[2];
    put_npy("x", "{'descr': '<f2', 'fortran_order': False, 'shape': (4, 1), }", half, sizeof half);
    clt_source *source = must_open(ONE ",\"scale\":3,\"mean\":1,\"std\":2", CLT_SPLIT_TRAIN);
    must_read(source, 0, 0, got);
    assert_true(got[0] == 1.0f);
    must_read(source, 2, 0, got);
    assert_true(got[0] == 2.5f);
    assert_int_equal(clt_source_read_field(source, 1, 0, got), CLT_EDATA);
    expect_words("/x'|sample 1|inf");
    assert_int_equal(clt_source_read_field(source, 3, 0, got), CLT_EDATA);
    expect_words("/x'|sample 3|nan");
    clt_source_close(source);
    float x[2] = {1, 3e38f};
    put_npy("x", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }", x, sizeof x);
    source = must_open(ONE ",\"scale\":10", CLT_SPLIT_TRAIN);
    assert_int_equal(clt_source_read_field(source, 1, 0, got), CLT_EDATA);
    expect_words("sample 1|does not fit a 32-bit float after");
    clt_source_close(source);
    put_npy("x", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }", x, sizeof x);
    put_npy("y", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", x, 4);
    source = must_open(PAIR, CLT_SPLIT_TRAIN);
    int64_t count = 0;
    float scratch[2];
    assert_ok(clt_source_count_valid(source, 0, (clt_draw){0}, 1, -1, scratch, &count));
    assert_int_equal(count, 1);
    assert_ok(clt_source_count_valid(source, 0, (clt_draw){0}, 1, 1, scratch, &count));
    assert_int_equal(count, 0);
    clt_source_close(source);
}

/* A header's text and the words of the refusal; 24 bytes of data follow the header. */
TEST(test_bad_headers)
{
    static const struct {
        const char *header, *words;
    } cases[] = {
        {"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
         "Python objects|unpickling|numpy.asarray"},
        {"{'descr': 'O', 'fortran_order': False, 'shape': (3,), }", "Python objects"},
        {"{'descr': '|O8', 'fortran_order': False, 'shape': (3,), }", "Python objects"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }", "dtype '<c8'|not supported|astype"},
        {"{'descr': '<U6', 'fortran_order': False, 'shape': (1,), }", "dtype '<U6'"},
        {"{'descr': '|S8', 'fortran_order': False, 'shape': (3,), }", "dtype '|not supported"},
        {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (3,), }", "dtype '<M8[ns]'"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }", "dtype '<f16'"},
        {"{'descr': '', 'fortran_order': False, 'shape': (3,), }", "dtype ''"},
        {"{'descr': 'f8', 'fortran_order': False, 'shape': (3,), }", "byte order"},
        {"{'descr': '|f8', 'fortran_order': False, 'shape': (3,), }", "byte order"},
        {"{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (3,), }",
         "structured dtype|in a separate file"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", "Fortran order|ascontiguousarray"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (), }", "single number"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 3), }", "dimension 1 of 2 is 0"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 0), }", "dimension 2 of 2 is 0"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }", "cut off|4 samples"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", "8 bytes follow"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3), }", "tuple of one size"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': [3], }", "must be a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3 1), }", "separated by commas"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (-3,), }", "digits only"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3.0,), }", "separated by commas"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,", "digits only"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }", "64 bits"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551615, 2), }",
         "more numbers than a file can hold"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
         "more numbers than a file can hold"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,1,1,1,1,1,3), }", "7 dimensions|reshape"},
        {"{'descr': '<f8', 'fortran_order': 0, 'shape': (3,), }", "True or False"},
        {"{'descr': '<f8', 'shape': (3,), }", "'fortran_order' is missing"},
        {"{'fortran_order': False, 'shape': (3,), }", "'descr' is missing"},
        {"{'descr': '<f8', 'fortran_order': False, }", "'shape' is missing"},
        {"{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", "twice"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'x': 1}", "another one"},
        {"{'descr' '<f8', 'fortran_order': False, 'shape': (3,), }", "':' is expected"},
        {"{'descr': '<f8' 'fortran_order': False, 'shape': (3,), }", "',' or '}'"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), } x", "follows the dictionary"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), ", "quoted word is expected"},
        {"{'descr': '<f8, 'fortran_order': False, 'shape': (3,), }", "',' or '}'|byte"},
        {"{'descr': '<f8", "longer than any known one"},
        {"{'d\\x63r': '<f8', 'fortran_order': False, 'shape': (3,), }", "character that no"},
        {"{'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa': 1}", "longer than any known"},
        {"", "'{' is expected"},
        {"__import__('os').system('true')", "'{' is expected"},
    };
    const uint8_t data[24] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_npy("x", cases[i].header, data, sizeof data);
        expect_refused(ONE, CLT_SPLIT_TRAIN, CLT_EDATA, cases[i].words);
        expect_words("/x'|data.path");
    }
}

TEST(test_bad_files)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *words;
    } cases[] = {
        {"", 0, "empty"},
        {"PK\3\4 this is an archive", 20, "wrong magic|zip archive|.npz"},
        {"\x93NUMPX\1\0\0\0", 10, "wrong magic"},
        {"NUMPY", 5, "wrong magic"},
        {"\x93NUMPY\0\0\4\0{}  ", 14, "version 0.0"},
        {"\x93NUMPY\4\0\4\0\0\0{}  ", 16, "version 4.0"},
        {"\x93NUMPY\1\1\4\0{}  ", 14, "version 1.1"},
        {"\x93NUMPY\1\0\xff\xff{}  ", 14, "cut off|65545 bytes are declared|after 14"},
        {"\x93NUMPY\2\0\xff\xff\xff\xff{}  ", 16, "longer than any real one"},
        {"\x93NUMPY\1\0\0\0", 10, "'{' is expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_file("x", cases[i].bytes, cases[i].size);
        expect_refused(ONE, CLT_SPLIT_TRAIN, CLT_EDATA, cases[i].words);
        expect_words("/x'");
    }
    /* wrong pairs */
    float x[4] = {0};
    put_npy("x", "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 1), }", x, 16);
    put_npy("y", "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", x, 12);
    expect_refused(PAIR, CLT_SPLIT_TRAIN, CLT_EDATA, "4 samples|3 targets|belong together");
}

TEST(test_every_truncation_and_byte)
{
    uint8_t file[512], changed[512], sample[512];
    float x[4] = {1, 2, 3, 4};
    size_t size =
        make_npy(file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", x, sizeof x);
    for (size_t length = 0; length < size; length++) {
        put_file("x", file, length);
        expect_refused(ONE, CLT_SPLIT_TRAIN, CLT_EDATA, length ? "/x'|cut off" : "/x'|empty");
    }
    int opened = 0;
    static const uint8_t flips[] = {1, 2, 4, 8, 16, 32, 64, 128, 255};
    for (size_t at = 0; at < size - sizeof x; at++)
        for (size_t f = 0; f < sizeof flips; f++) {
            memcpy(changed, file, size);
            changed[at] ^= flips[f];
            put_file("x", changed, size);
            CLT_SCOPED(clt_source) *source = NULL;
            clt_status status = try_open(ONE, CLT_SPLIT_TRAIN, &source);
            assert_true(status == CLT_OK || status == CLT_EDATA);
            if (status == CLT_OK) {
                assert_true(clt_source_field_bytes(&source->fields[0]) <= sizeof sample);
                for (int64_t i = 0; i < source->samples; i++)
                    (void)clt_source_read_field(source, i, 0, sample);
                opened++;
            }
        }
    assert_true(opened > 0 && opened < 100); /* '<' to '>', '4' to '2' and the like, and spaces to tabs */
}
