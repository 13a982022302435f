/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples to predict as text: separators, headers, quotes, and hostile input. The sources for training read
 * array files; other programs test these. */
#include "tests/unit/test.h"

#include "engine/data/data.h"
#include "engine/data/open/rows.h"
#include "engine/files/fileio.h"

static char path[64];

static void put_rows(const char *text, size_t size)
{
    snprintf(path, sizeof path, "test_rows-%ld.csv", (long)getpid());
    assert_ok(clt_file_write(path, text, size));
}

/* All samples of three numbers in a text; the status of reading them. */
static clt_status read_text(const char *text, size_t size, double *out, int64_t *samples, char *header)
{
    clt_rows *rows;
    clt_shape shape = clt_shape1(3);
    int64_t got = 1;
    put_rows(text, size);
    assert_ok(clt_rows_open(path, clt_rows_type("csv"), &shape, NULL, NULL, &rows));
    *samples = 0;
    clt_status status = CLT_OK;
    while (status == CLT_OK && got > 0 && *samples < 60) {
        status = clt_rows_next(rows, 2, out + *samples * 3, &got);
        *samples += got;
    }
    snprintf(header, 128, "%s", clt_rows_describe(rows)->header);
    clt_rows_close(rows);
    remove(path);
    return status;
}

TEST(test_good)
{
    static const struct {
        const char *text, *header;
        int samples;
    } cases[] = {{"1,2,3\n", "", 1},
                 {"1,2,3", "", 1},
                 {"1 2 3\r\n4\t5\t6\r\n", "", 2},
                 {" 1 , 2;3 \n\n\n-4.5e0,+5,.6\n", "", 2},
                 {"\xef\xbb\xbf"
                  "1,2,3\n",
                  "", 1},
                 {"a,b,c\n1,2,3\n", "a,b,c", 1},
                 {"\"x\",\"y\",\"z\"\n\"1\",\"2\",\"3\"\n", "\"x\",\"y\",\"z\"", 1},
                 {"id 1,id 2,id 3\n1,2,3\n1,2,3\n1,2,3\n", "id 1,id 2,id 3", 3},
                 {"", "", 0},
                 {"\n\n", "", 0},
                 {"only names\n", "only names", 0}};
    double out[256];
    char header[128];
    int64_t samples;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (read_text(cases[i].text, strlen(cases[i].text), out, &samples, header) != CLT_OK)
            fail_msg("'%s': %s", cases[i].text, clt_error_text());
        assert_int_equal(samples, cases[i].samples);
        assert_string_equal(header, cases[i].header);
        if (samples)
            assert_true(out[0] > 0.99 && out[0] < 1.01 && out[2] > 2.99 && out[2] < 3.01);
    }
}

TEST(test_bad)
{
    static const char *const cases[][2] = {
        {"1,2\n", "line 1 has 2 numbers, a sample of this model has 3"},
        {"1,2,3\n1,2,3,4\n", "line 2 has 4 numbers, a sample of this model has 3; is one column the target?"},
        {"1,2,3\n1,b,3\n", "line 2, column 3: 'b' is not a number"},
        {"a,b,c\nd,e,f\n", "line 2, column 1: 'd' is not a number"},
        {"1,,3\n", "line 1, column 3: a number is missing"},
        {"1,2,\n", "line 1, column 5: a number is missing"},
        {",1,2\n", "a number is missing"},
        {"1,2,nan\n", "line 1: number 3 is not finite"},
        {"1,2,inf\n", "number 3 is not finite"},
        {"1,2,1e39\n", "too large for f32"},
        {"1,2,3\n0x10,2,3\n", "is not a number"},
        {"1,2,3\n\"1,2,3\n", "is not a number"},
    };
    double out[256];
    char header[128];
    int64_t samples;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(read_text(cases[i][0], strlen(cases[i][0]), out, &samples, header), CLT_EDATA);
        if (!strstr(clt_error_text(), cases[i][1]))
            fail_msg("'%s'\nexpected: %s\ngot:      %s", cases[i][0], cases[i][1], clt_error_text());
    }
    assert_int_equal(read_text("1,2\0,3\n", 7, out, &samples, header), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "zero byte"));
}

/* Damaged text never crashes: it is read or refused as data, and no message contains control characters of
 * a terminal. */
TEST(test_hostile)
{
    static const char letters[] = "0123456789,,,;; \t\n\n\r\"'-+.eExna\x1b\x7f\xef\xbb\xbf\x80";
    uint32_t seed = 12345;
    double out[256];
    char header[128], text[200];
    for (int round = 0; round < 300; round++) {
        int64_t samples;
        size_t n = 0;
        for (; n < 4 + (size_t)round % 150; n++) {
            seed = seed * 1664525u + 1013904223u;
            text[n] = letters[(seed >> 16) % (sizeof letters - 1)];
        }
        clt_status status = read_text(text, n, out, &samples, header);
        assert_true(status == CLT_OK || status == CLT_EDATA);
        assert_null(strchr(header, '\x1b'));
        if (status != CLT_OK)
            assert_null(strchr(clt_error_text(), '\x1b'));
    }
}

TEST(test_types)
{
    clt_rows *rows;
    char names[64];
    clt_shape shape = clt_shape1(3);
    assert_string_equal(clt_rows_type("npy")->format->name, "npy");
    assert_null(clt_rows_type("xlsx"));
    assert_null(clt_rows_type("tokens")); /* a format only for training data */
    assert_string_equal(clt_rows_types(", ", " or ", names, sizeof names),
                        "idx, npy, raw, csv, cifar, images or nifti");
    assert_int_equal(clt_rows_open("absent.csv", NULL, &shape, NULL, NULL, &rows), CLT_EDATA);
    assert_int_equal(clt_rows_open("-", clt_rows_type("npy"), &shape, NULL, NULL, &rows), CLT_EUSAGE);
    assert_int_equal(clt_rows_open(".", clt_rows_type("csv"), &shape, NULL, NULL, &rows), CLT_EDATA);
    put_rows("\x93NUMPYgarbage", 13);
    assert_int_equal(clt_rows_open(path, NULL, &shape, NULL, NULL, &rows), CLT_EDATA);
    assert_null(strstr(clt_error_text(), "data.path"));
    remove(path);
}
