/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON writer: layout, escapes, and numbers that come back bit for bit with the fewest digits.
 * Knows only engine/base.
 * ctest-labels: quick */
#include "tests/unit/test.h"

#include <float.h>
#include <math.h>

#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/json/json.h"
#include "engine/json/json_seal.h"

static void write_sample(clt_json_writer *w)
{
    clt_jw_object(w);
    clt_jw_kstring(w, "name", "a\"b");
    clt_jw_kint(w, "n", INT64_MIN);
    clt_jw_kdouble(w, "x", 0.1);
    clt_jw_kbool(w, "yes", true);
    clt_jw_knull(w, "none");
    clt_jw_karray(w, "list");
    clt_jw_int(w, 1);
    clt_jw_float(w, 0.3f);
    clt_jw_array(w);
    clt_jw_end_array(w);
    clt_jw_object(w);
    clt_jw_end_object(w);
    clt_jw_string(w, NULL);
    clt_jw_end_array(w);
    clt_jw_kdouble(w, "nan", NAN);
    clt_jw_end_object(w);
}

TEST(test_layout)
{
    clt_str s = {0};
    clt_json_writer w = clt_json_writer_make(&s, 0);
    write_sample(&w);
    assert_string_equal(
        s.text, "{\"name\":\"a\\\"b\",\"n\":-9223372036854775808,\"x\":0.1,\"yes\":true,\"none\":null,"
                "\"list\":[1,0.3,[],{},null],\"nan\":null}");
    clt_str_free(&s);
    w = clt_json_writer_make(&s, 2);
    write_sample(&w);
    assert_string_equal(s.text,
                        "{\n  \"name\": \"a\\\"b\",\n  \"n\": -9223372036854775808,\n  \"x\": 0.1,\n"
                        "  \"yes\": true,\n  \"none\": null,\n  \"list\": [\n    1,\n    0.3,\n    [],\n"
                        "    {},\n    null\n  ],\n  \"nan\": null\n}");
    assert_int_equal(w.depth, 0);
    clt_str_free(&s);
}

static clt_json_doc *parse(const clt_str *s)
{
    clt_json_doc *doc = NULL;
    assert_ok(clt_str_check(s));
    clt_status status = clt_json_parse(s->text, s->length, "written", CLT_EDATA, &doc);
    if (status != CLT_OK)
        print_error("%s\n", clt_error_text());
    assert_ok(status);
    return doc;
}

TEST(test_strings)
{
    /* Every byte value by itself: valid ones come back, invalid UTF-8 becomes U+FFFD. */
    for (int c = 1; c < 256; c++) {
        char text[4] = {'x', (char)c, 'y', 0};
        CLT_SCOPED(clt_str) s = {0};
        clt_json_writer w = clt_json_writer_make(&s, 0);
        clt_jw_object(&w);
        clt_jw_kstring(&w, text, text);
        clt_jw_end_object(&w);
        CLT_SCOPED(clt_json_doc) *doc = parse(&s);
        const char *expected = c < 128 ? text : "x\xef\xbf\xbdy";
        const clt_json *value = clt_json_first(clt_json_root(doc));
        assert_string_equal(clt_json_string(value), expected);
        assert_string_equal(clt_json_key(value), expected);
    }
    clt_str s = {0};
    clt_json_writer w = clt_json_writer_make(&s, 0);
    clt_jw_string(&w, "\xf0\x9f\x98\x80 \xc3\xa9\n\x01");
    assert_string_equal(s.text, "\"\xf0\x9f\x98\x80 \xc3\xa9\\n\\u0001\"");
    clt_str_free(&s);
}

static double back_double(double value)
{
    CLT_SCOPED(clt_str) s = {0};
    clt_json_writer w = clt_json_writer_make(&s, 0);
    clt_jw_double(&w, value);
    CLT_SCOPED(clt_json_doc) *doc = parse(&s);
    double back = clt_json_number(clt_json_root(doc));
    return back;
}

static float back_float(float value)
{
    CLT_SCOPED(clt_str) s = {0};
    clt_json_writer w = clt_json_writer_make(&s, 0);
    clt_jw_float(&w, value);
    CLT_SCOPED(clt_json_doc) *doc = parse(&s);
    float back = (float)clt_json_number(clt_json_root(doc));
    return back;
}

static bool same_bits(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

TEST(test_double_round_trip)
{
    static const double special[] = {0.0,      -0.0,
                                     1.0,      -1.5,
                                     DBL_MIN,  DBL_MAX,
                                     5e-324,   1e22,
                                     1e23,     0.1 + 0.2,
                                     1.0 / 3,  DBL_EPSILON,
                                     1e-7,     123456789012345678.0,
                                     2.5e-308, -DBL_MAX,
                                     0x1p-44,  9007199254740993.0,
                                     4.35};
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        double back = back_double(special[i]);
        assert_true(same_bits(&back, &special[i], sizeof back));
    }
    for (int exponent = -1074; exponent < 1024; exponent++) {
        double value = ldexp(1.0, exponent), back = back_double(value);
        assert_true(same_bits(&back, &value, sizeof back));
    }
    for (uint64_t i = 0; i < 20000; i++) {
        uint32_t words[4];
        double value;
        clt_rng_block(3, CLT_RNG_VERIFY, 0, 0, i, words);
        memcpy(&value, words, sizeof value);
        if (!isfinite(value))
            continue;
        double back = back_double(value);
        assert_true(same_bits(&back, &value, sizeof back));
    }
}

TEST(test_float_round_trip)
{
    for (uint64_t i = 0; i < 40000; i++) {
        uint32_t word = clt_rng_u32(4, CLT_RNG_VERIFY, 0, 0, i);
        if (i < 2 * 254)
            word = (uint32_t)((i / 2 + 1) << 23 | (i % 2 << 31)); /* powers of two of both signs */
        float value;
        memcpy(&value, &word, sizeof value);
        if (!isfinite(value))
            continue;
        float back = back_float(value);
        assert_true(same_bits(&back, &value, sizeof back));
    }
}

static size_t digits_of(const char *text)
{
    size_t count = 0, zeros = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text < '0' || *text > '9' || (count == 0 && *text == '0'))
            continue;
        zeros = *text == '0' ? zeros + 1 : 0;
        count++;
    }
    return count - zeros;
}

/* No text with one digit less is read back as the value: neither the nearest one nor its neighbours. */
static void check_shortest(double value)
{
    clt_str s = {0};
    clt_json_writer w = clt_json_writer_make(&s, 0);
    clt_jw_double(&w, value);
    size_t digits = digits_of(s.text);
    clt_str_free(&s);
    if (digits <= 1)
        return;
    char text[40];
    (void)snprintf(text, sizeof text, "%.*e", (int)digits - 2, fabs(value));
    char *e = strchr(text, 'e');
    int exponent = atoi(e + 1);
    *e = '\0';
    char plain[40];
    size_t n = 0;
    for (const char *p = text; *p; p++)
        if (*p != '.')
            plain[n++] = *p;
    plain[n] = '\0';
    long long mantissa = strtoll(plain, NULL, 10);
    for (long long step = -1; step <= 1; step++) {
        (void)snprintf(text, sizeof text, "%llde%d", mantissa + step, exponent - (int)digits + 2);
        if (strtod(text, NULL) == fabs(value))
            print_error("%.17g can be written as %s\n", value, text);
        assert_true(strtod(text, NULL) != fabs(value));
    }
}

/* The shortcut for numbers with few decimals gives the same text as printf. */
TEST(test_few_decimals)
{
    char buffer[CLT_NUMBER_TEXT], plain[64];
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        int64_t places = (int64_t[]){1, 10, 1000, 1000000}[x & 3];
        double value = (double)((int64_t)(x >> 4) % 1000000000) / (double)places * (x & 8 ? -1 : 1);
        (void)snprintf(plain, sizeof plain, "%.15g", value);
        assert_string_equal(clt_double_text(value, buffer), plain);
    }
    assert_string_equal(clt_double_text(-0.0, buffer), "-0");
    assert_string_equal(clt_double_text(1e9, buffer), "1000000000");
    assert_string_equal(clt_double_text(999999999.999999, buffer), "999999999.999999");
    assert_string_equal(clt_double_text(0.0001, buffer), "0.0001");
    assert_string_equal(clt_double_text(0.00009, buffer), "9e-05");
}

TEST(test_shortest)
{
    for (int exponent = -1074; exponent < 1024; exponent++) {
        check_shortest(ldexp(1.0, exponent));
        check_shortest(ldexp(1.1, exponent));
    }
    for (uint64_t i = 0; i < 5000; i++)
        check_shortest(clt_rng_normal(5, CLT_RNG_VERIFY, 0, 0, i));
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.1, "0.1"},       {1e22, "1e+22"},
                 {100, "100"},       {1e-5, "1e-05"},
                 {0.3, "0.3"},       {-2.5, "-2.5"},
                 {1e15, "1e+15"},    {123456, "123456"},
                 {5e-324, "5e-324"}, {0.1 + 0.2, "0.30000000000000004"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_SCOPED(clt_str) s = {0};
        clt_json_writer w = clt_json_writer_make(&s, 0);
        clt_jw_double(&w, cases[i].value);
        assert_string_equal(s.text, cases[i].text);
    }
}

TEST(test_copy)
{
    static const char text[] =
        "{\"a\":[1,-0,9007199254740993,1.5,1e+300,\"\\u0007\xc3\xa9\"],\"b\":{\"c\":null,\"d\":"
        "[true,false,{}]},\"\":[]}";
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    assert_ok(clt_json_parse(text, sizeof text - 1, "copy", CLT_EDATA, &doc));
    CLT_SCOPED(clt_str) s = {0};
    clt_json_writer w = clt_json_writer_make(&s, 0);
    clt_jw_value(&w, clt_json_root(doc));
    assert_string_equal(s.text, text);
}

/* A sealed record: every changed, added or missing byte is noticed; the text is a JSON object as before. */
TEST(test_seal)
{
    CLT_SCOPED(clt_str) out = {0};
    clt_json_doc *doc;
    clt_str_append(&out, "before ");
    size_t from = out.length;
    clt_json_writer w = clt_json_writer_make(&out, 2);
    clt_jw_object(&w);
    clt_jw_kint(&w, "n", 7);
    assert_ok(clt_json_seal(&out, from, "own_xxh64"));
    char *text = out.text + from;
    size_t length = out.length - from;
    assert_true(clt_json_sealed(text, length, "own_xxh64"));
    assert_false(clt_json_sealed(text, length, "other_xxh64"));
    assert_ok(clt_json_parse(text, length, "sealed", CLT_EDATA, &doc));
    assert_int_equal(clt_json_count(clt_json_root(doc)), 2);
    clt_json_destroy(doc);
    for (size_t i = 0; i < length; i++) {
        text[i] ^= 1;
        assert_false(clt_json_sealed(text, length, "own_xxh64"));
        text[i] ^= 1;
        assert_false(clt_json_sealed(text, i, "own_xxh64"));
        assert_false(clt_json_sealed(text + i + 1, length - i - 1, "own_xxh64"));
    }
    assert_true(clt_json_sealed(text, length, "own_xxh64"));
    char name[200];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(clt_json_seal(&out, from, name), CLT_EINTERNAL);
    assert_false(clt_json_sealed(text, length, name));
}
