/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON reader: every refusal with its line and column, exact integers, positions, lookups, limits. Knows
 * only engine/base. ctest-labels: quick */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/json/json.h"

/* A text that must be refused; size counts NUL bytes inside, place and reason must be in the message. */
typedef struct refusal {
    const char *text;
    size_t size;
    const char *place, *reason;
} refusal;

#define BAD(text, place, reason)                                                                             \
    {                                                                                                        \
        text, sizeof(text) - 1, place, reason                                                                \
    }

static const refusal refusals[] = {
    /* nothing, or not JSON at all */
    BAD("", "1:1", "empty"),
    BAD("   ", "1:4", "empty"),
    BAD("\n\n", "3:1", "empty"),
    BAD("hello", "1:1", "unknown word 'hello'"),
    BAD("\xef\xbb\xbf{}", "1:1", "byte order mark"),
    BAD("\xff\xfe{\0}\0", "1:1", "0xff"),
    BAD("\0", "1:1", "NUL"),
    BAD("@", "1:1", "'@'"),
    BAD("]", "1:1", "']'"),
    BAD("}", "1:1", "'}'"),
    BAD(",", "1:1", "','"),
    BAD(":", "1:1", "':'"),
    BAD("\x7f", "1:1", "0x7f"),
    BAD("\f{}", "1:1", "0x0c"),
    BAD("\v1", "1:1", "0x0b"),
    BAD("\xc2\xa0"
        "1",
        "1:1", "0xc2"),
    /* trailing text */
    BAD("{} {}", "1:4", "end of the text"),
    BAD("1 2", "1:3", "end of the text"),
    BAD("[]]", "1:3", "end of the text"),
    BAD("{}\n}", "2:1", "end of the text"),
    BAD("null,", "1:5", "end of the text"),
    BAD("\"a\" \"b\"", "1:5", "end of the text"),
    BAD("true\0", "1:5", "NUL"),
    BAD("{}\0{}", "1:3", "NUL"),
    /* comments */
    BAD("// x\n{}", "1:1", "comments"),
    BAD("/* x */ {}", "1:1", "comments"),
    BAD("{} // x", "1:4", "comments"),
    BAD("{\n  # x\n}", "2:3", "comments"),
    BAD("[1, /* two */ 2]", "1:5", "comments"),
    BAD("{\"a\": 1 // x\n}", "1:9", "comments"),
    BAD("{\"a\" /**/ : 1}", "1:6", "comments"),
    BAD("[1 #\n]", "1:4", "comments"),
    /* words */
    BAD("True", "1:1", "'True'"),
    BAD("FALSE", "1:1", "'FALSE'"),
    BAD("nul", "1:1", "'nul'"),
    BAD("nulll", "1:1", "'nulll'"),
    BAD("None", "1:1", "'None'"),
    BAD("undefined", "1:1", "'undefined'"),
    BAD("NaN", "1:1", "'NaN'"),
    BAD("Infinity", "1:1", "'Infinity'"),
    BAD("[true, fals]", "1:8", "'fals'"),
    BAD("true1", "1:1", "'true1'"),
    /* numbers */
    BAD("+1", "1:1", "digit or '-'"),
    BAD(".5", "1:1", "digit or '-'"),
    BAD("-", "1:2", "after '-'"),
    BAD("-a", "1:2", "after '-'"),
    BAD("--1", "1:2", "after '-'"),
    BAD("-.5", "1:2", "after '-'"),
    BAD("-Infinity", "1:2", "after '-'"),
    BAD("01", "1:1", "zeros"),
    BAD("-01", "1:1", "zeros"),
    BAD("00", "1:1", "zeros"),
    BAD("1.", "1:3", "decimal point"),
    BAD("1.e5", "1:3", "decimal point"),
    BAD("1.x", "1:3", "decimal point"),
    BAD("1e", "1:3", "exponent"),
    BAD("1e+", "1:4", "exponent"),
    BAD("1E-x", "1:4", "exponent"),
    BAD("1.5.2", "1:1", "'.'"),
    BAD("0x10", "1:1", "'x'"),
    BAD("1f", "1:1", "'f'"),
    BAD("1_000", "1:1", "'_'"),
    BAD("1-2", "1:1", "'-'"),
    BAD("1 000", "1:3", "end of the text"),
    BAD("1e999", "1:1", "too large"),
    BAD("[1,\n -1e400]", "2:2", "too large"),
    BAD("1,5", "1:2", "end of the text"),
    /* strings */
    BAD("\"", "1:1", "does not end"),
    BAD("\"abc", "1:1", "does not end"),
    BAD("[\"abc", "1:2", "does not end"),
    BAD("\"a\nb\"", "1:1", "on its line"),
    BAD("\"a\rb\"", "1:1", "on its line"),
    BAD("\"a\tb\"", "1:3", "control byte 0x09"),
    BAD("\"\x01\"", "1:2", "control byte 0x01"),
    BAD("\"\x1f\"", "1:2", "control byte 0x1f"),
    BAD("\"a\0b\"", "1:3", "NUL"),
    BAD("\"\\u0000\"", "1:2", "NUL"),
    BAD("{\"a\\u0000b\": 1}", "1:4", "NUL"),
    BAD("\"\\x41\"", "1:2", "escape"),
    BAD("\"\\'\"", "1:2", "escape"),
    BAD("\"\\U0041\"", "1:2", "escape"),
    BAD("\"C:\\data\"", "1:4", "escape"),
    BAD("\"\\\0\"", "1:2", "escape"),
    BAD("\"\\", "1:2", "escape"),
    BAD("\"\\\"", "1:1", "does not end"),
    BAD("\"\\u12\"", "1:2", "four hexadecimal"),
    BAD("\"\\u12g4\"", "1:2", "four hexadecimal"),
    BAD("\"\\u", "1:2", "four hexadecimal"),
    BAD("\"\\u 123\"", "1:2", "four hexadecimal"),
    BAD("\"\\ud800\"", "1:2", "second half of its"),
    BAD("\"\\ud800x\"", "1:2", "second half of its"),
    BAD("\"\\ud800\\n\"", "1:2", "second half of its"),
    BAD("\"\\ud800\\ud800\"", "1:2", "second half of its"),
    BAD("\"\\ud83d\\u0041\"", "1:2", "second half of its"),
    BAD("\"\\udc00\"", "1:2", "is the second half"),
    BAD("\"\\uDFFF\"", "1:2", "is the second half"),
    BAD("'a'", "1:1", "double quotes"),
    BAD("[\"a\", 'b']", "1:7", "double quotes"),
    /* UTF-8 */
    BAD("\"\x80\"", "1:2", "UTF-8"),
    BAD("\"ab\xff\"", "1:4", "UTF-8"),
    BAD("\"\xc3\"", "1:2", "UTF-8"),
    BAD("\"\xc3\xa9\xc3(\"", "1:4", "UTF-8"),
    BAD("\"\xc0\x80\"", "1:2", "UTF-8"),
    BAD("\"\xe0\x80\x80\"", "1:2", "UTF-8"),
    BAD("\"\xed\xa0\x80\"", "1:2", "UTF-8"),
    BAD("\"\xf4\x90\x80\x80\"", "1:2", "UTF-8"),
    BAD("\"\xf0\x9f\x98", "1:2", "UTF-8"),
    BAD("{\"\xe9\": 1}", "1:3", "UTF-8"),
    /* arrays */
    BAD("[", "1:2", "expected a value"),
    BAD("[1", "1:3", "ends inside the array that begins at 1:1"),
    BAD("[1,", "1:4", "expected a value"),
    BAD("[1,]", "1:3", "must not stand before ']'"),
    BAD("[,1]", "1:2", "expected a value"),
    BAD("[1,,2]", "1:4", "expected a value"),
    BAD("[1 2]", "1:4", "',' or ']'"),
    BAD("[1;2]", "1:3", "',' or ']'"),
    BAD("[1}", "1:3", "',' or ']'"),
    BAD("[\"a\": 1]", "1:5", "',' or ']'"),
    BAD("[1,\n2,\n3", "3:2", "ends inside"),
    BAD("[[1, 2], [3]", "1:13", "ends inside the array that begins at 1:1"),
    /* objects */
    BAD("{", "1:2", "key"),
    BAD("{\"a\"", "1:5", "':'"),
    BAD("{\"a\":", "1:6", "expected a value"),
    BAD("{\"a\": 1", "1:8", "ends inside the object that begins at 1:1"),
    BAD("{\"a\": 1,", "1:9", "key"),
    BAD("{\"a\": 1,}", "1:8", "must not stand before '}'"),
    BAD("{\"a\" 1}", "1:6", "':'"),
    BAD("{\"a\"= 1}", "1:5", "':'"),
    BAD("{\"a\":: 1}", "1:6", "expected a value"),
    BAD("{\"a\": }", "1:7", "expected a value"),
    BAD("{a: 1}", "1:2", "double quotes"),
    BAD("{'a': 1}", "1:2", "double quotes"),
    BAD("{1: 1}", "1:2", "key in double quotes"),
    BAD("{null: 1}", "1:2", "double quotes"),
    BAD("{,}", "1:2", "key in double quotes"),
    BAD("{\"a\": 1 \"b\": 2}", "1:9", "',' or '}'"),
    BAD("{\"a\": 1\n \"b\": 2}", "2:2", "',' or '}'"),
    BAD("{\"a\": 1]", "1:8", "',' or '}'"),
    BAD("{\"a\"}", "1:5", "':'"),
    BAD("{{}: 1}", "1:2", "key in double quotes"),
    BAD("{\"a\": {\"b\": [1, 2}}", "1:18", "',' or ']'"),
    BAD("{\n  \"a\": 1,\n  \"b\": tru\n}", "3:8", "'tru'"),
    BAD("{\r\n  \"a\": x\r\n}", "2:8", "'x'"),
    BAD("{\"a\":\t\t?}", "1:8", "'?'"),
    /* duplicates: both places */
    BAD("{\"a\": 1, \"a\": 2}", "1:10", "duplicate key \"a\" (first at 1:2)"),
    BAD("{\"a\": 1,\n \"b\": 2,\n \"a\": 3}", "3:2", "duplicate key \"a\" (first at 1:2)"),
    BAD("{\"a\": 1, \"\\u0061\": 2}", "1:10", "duplicate key \"a\" (first at 1:2)"),
    BAD("{\"\": 1, \"\": 2}", "1:9", "duplicate key \"\" (first at 1:2)"),
    BAD("[{\"x\": {\"k\": 1, \"k\": 1}}]", "1:17", "duplicate key \"k\" (first at 1:9)"),
    BAD("{\"a\": 1, \"b\": 1, \"b\": 2, \"a\": 2}", "1:18", "duplicate key \"b\" (first at 1:10)"),
    BAD("{\"a\":0,\"b\":0,\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0,\"h\":0,\"i\":0,\"j\":0,\n\"c\":0,\"a\":0}",
        "2:1", "duplicate key \"c\" (first at 1:14)"),
};

static void check_refused(const char *text, size_t size, const char *place, const char *reason)
{
    /* In a block of exactly its size, so that a sanitizer sees a read beyond the end. */
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    clt_json_doc *doc = (clt_json_doc *)(uintptr_t)1;
    clt_error_clear();
    clt_status status = clt_json_parse(copy, size, "file.json", CLT_ECONFIG, &doc);
    free(copy);
    char start[64];
    (void)snprintf(start, sizeof start, "file.json:%s: ", place);
    const char *message = clt_error_text();
    if (status != CLT_ECONFIG || strncmp(message, start, strlen(start)) != 0 || !strstr(message, reason))
        print_error("<%s>: status %s, message '%s', expected %s...%s\n", text, clt_status_name(status),
                    message, start, reason);
    assert_int_equal(status, CLT_ECONFIG);
    assert_null(doc);
    assert_int_equal(strncmp(message, start, strlen(start)), 0);
    assert_non_null(strstr(message, reason));
}

TEST(test_refusals)
{
    size_t count = sizeof refusals / sizeof refusals[0];
    assert_true(count > 100);
    for (size_t i = 0; i < count; i++)
        check_refused(refusals[i].text, refusals[i].size, refusals[i].place, refusals[i].reason);
}

static clt_json_doc *must_parse(const char *text)
{
    clt_json_doc *doc = NULL;
    size_t size = strlen(text);
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    clt_status status = clt_json_parse(copy, size, "good.json", CLT_EDATA, &doc);
    free(copy);
    if (status != CLT_OK)
        print_error("%s\n", clt_error_text());
    assert_ok(status);
    assert_non_null(doc);
    return doc;
}

static void check_position(const clt_json *value, int line, int column)
{
    int got_line, got_column;
    assert_non_null(value);
    clt_json_position(value, &got_line, &got_column);
    assert_int_equal(got_line, line);
    assert_int_equal(got_column, column);
}

TEST(test_tree)
{
    clt_json_doc *doc =
        must_parse("\r\n{\"model\": {\"kind\":\"mlp\",\r\n"
                   "  \"sizes\": [784, 1.5e2, -0, 10], \"bias\" : true},\n"
                   "\t\"none\": null, \"caf\\u00e9 \\ud83d\\ude00\": false, \"\": [], \"o\": {}}\n\n");
    const clt_json *root = clt_json_root(doc), *model = clt_json_get(root, "model");
    assert_string_equal(clt_json_source(doc), "good.json");
    assert_int_equal(clt_json_typeof(root), CLT_JSON_OBJECT);
    assert_int_equal(clt_json_count(root), 5);
    assert_null(clt_json_key(root));
    assert_null(clt_json_next(root));
    check_position(root, 2, 1);
    check_position(model, 2, 11);
    assert_string_equal(clt_json_key(model), "model");
    assert_string_equal(clt_json_string(clt_json_get(model, "kind")), "mlp");
    check_position(clt_json_get(model, "kind"), 2, 19);
    const clt_json *sizes = clt_json_get(model, "sizes");
    check_position(sizes, 3, 12);
    assert_int_equal(clt_json_count(sizes), 4);
    const clt_json *item = clt_json_first(sizes);
    int64_t integer = 0;
    assert_true(clt_json_int(item, &integer));
    assert_int_equal(integer, 784);
    item = clt_json_next(item);
    assert_false(clt_json_int(item, &integer));
    assert_true(clt_json_number(item) == 150.0);
    check_position(item, 3, 18);
    item = clt_json_next(item);
    assert_true(clt_json_int(item, &integer));
    assert_int_equal(integer, 0);
    assert_true(signbit(clt_json_number(item)));
    item = clt_json_next(item);
    assert_null(clt_json_key(item));
    assert_null(clt_json_next(item));
    assert_true(clt_json_bool(clt_json_get(model, "bias")));
    assert_int_equal(clt_json_typeof(clt_json_get(root, "none")), CLT_JSON_NULL);
    const clt_json *cafe = clt_json_get(root, "caf\xc3\xa9 \xf0\x9f\x98\x80");
    assert_non_null(cafe);
    assert_int_equal(clt_json_typeof(cafe), CLT_JSON_BOOL);
    assert_false(clt_json_bool(cafe));
    check_position(cafe, 4, 42);
    assert_int_equal(clt_json_typeof(clt_json_get(root, "")), CLT_JSON_ARRAY);
    assert_null(clt_json_first(clt_json_get(root, "")));
    assert_int_equal(clt_json_count(clt_json_get(root, "o")), 0);
    /* exact case, absent keys, wrong types */
    assert_null(clt_json_get(root, "Model"));
    assert_null(clt_json_get(root, "mode"));
    assert_null(clt_json_get(sizes, "0"));
    assert_null(clt_json_get(NULL, "x"));
    assert_string_equal(clt_json_string(root), "");
    assert_false(clt_json_int(root, &integer));
    assert_true(clt_json_number(model) == 0.0);
    clt_json_destroy(doc);
    clt_json_destroy(NULL);
}

/* A value that is not there reads as one of another type; the readers that take limits and substitutes. */
TEST(test_missing_and_limits)
{
    CLT_SCOPED(clt_json_doc) *doc =
        must_parse("{\"n\": 7, \"half\": 0.5, \"s\": \"word\", \"no\": null, \"list\": [1, 2]}");
    const clt_json *root = clt_json_root(doc), *n = clt_json_get(root, "n"), *s = clt_json_get(root, "s");
    const clt_json *others[] = {NULL, clt_json_get(root, "no"), clt_json_get(root, "list"), root};
    int64_t integer = 3;
    char text[5] = "old";
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(clt_json_int(others[i], &integer));
        assert_false(clt_json_int_within(others[i], INT64_MIN, INT64_MAX, &integer));
        assert_false(clt_json_bool(others[i]));
        assert_true(clt_json_number(others[i]) == 0 && clt_json_number_or(others[i], 2.5) == 2.5);
        assert_string_equal(clt_json_string(others[i]), "");
        assert_null(clt_json_string_or(others[i], NULL));
        assert_false(clt_json_is(others[i], ""));
        assert_false(clt_json_copy_string(others[i], text, sizeof text));
    }
    assert_int_equal(clt_json_typeof(NULL), CLT_JSON_MISSING);
    assert_string_equal(clt_json_type_name(CLT_JSON_MISSING), "missing");
    assert_null(clt_json_root(NULL));
    assert_null(clt_json_first(NULL));
    assert_int_equal(clt_json_count(NULL), 0);
    assert_null(clt_json_given(root, "no"));
    assert_ptr_equal(clt_json_given(root, "n"), n);
    assert_false(clt_json_int_within(n, 8, 9, &integer) || clt_json_int_within(n, 0, 6, &integer));
    assert_false(clt_json_int_within(clt_json_get(root, "half"), 0, 1, &integer));
    assert_int_equal(integer, 3);
    assert_string_equal(text, "old");
    assert_true(clt_json_int_within(n, 7, 7, &integer) && integer == 7);
    assert_true(clt_json_number_or(n, 2.5) == 7 && clt_json_is(s, "word") && !clt_json_is(s, "wor"));
    assert_false(clt_json_copy_string(s, text, 4));
    assert_true(clt_json_copy_string(s, text, 5));
    assert_string_equal(text, "word");
    /* one entry, a list of entries, none */
    assert_ptr_equal(clt_json_entry(n, NULL), n);
    assert_null(clt_json_entry(n, n));
    const clt_json *one = clt_json_entry(others[2], NULL), *two = clt_json_entry(others[2], one);
    assert_true(clt_json_number(one) == 1 && clt_json_number(two) == 2);
    assert_null(clt_json_entry(others[2], two));
    assert_null(clt_json_entry(NULL, NULL));
}

TEST(test_scalars)
{
    static const struct {
        const char *text;
        clt_json_type type;
        const char *name;
    } cases[] = {
        {"null", CLT_JSON_NULL, "null"},          {" true ", CLT_JSON_BOOL, "a boolean"},
        {"-1.5E-3", CLT_JSON_NUMBER, "a number"}, {"\"x\"", CLT_JSON_STRING, "a string"},
        {"[\t]", CLT_JSON_ARRAY, "an array"},     {"{\n}", CLT_JSON_OBJECT, "an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_SCOPED(clt_json_doc) *doc = must_parse(cases[i].text);
        assert_int_equal(clt_json_typeof(clt_json_root(doc)), cases[i].type);
        assert_string_equal(clt_json_type_name(cases[i].type), cases[i].name);
    }
    clt_json_doc *doc = must_parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\\u20AC/\x7f\"");
    assert_string_equal(clt_json_string(clt_json_root(doc)), "\"\\/\b\f\n\r\t\x01\xe2\x82\xac/\x7f");
    clt_json_destroy(doc);
}

TEST(test_integers)
{
    static const struct {
        const char *text;
        bool exact;
        int64_t value;
    } cases[] = {
        {"0", true, 0},
        {"-1", true, -1},
        {"9007199254740993", true, INT64_C(9007199254740993)}, /* 2^53 + 1: a double cannot hold it */
        {"-9007199254740993", true, INT64_C(-9007199254740993)},
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"-9223372036854775808", true, INT64_MIN},
        {"-9223372036854775809", false, 0},
        {"18446744073709551616", false, 0},
        {"92233720368547758070", false, 0},
        {"1.0", false, 0},
        {"1e2", false, 0},
        {"1E0", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_SCOPED(clt_json_doc) *doc = must_parse(cases[i].text);
        int64_t value = 77;
        assert_int_equal(clt_json_int(clt_json_root(doc), &value), cases[i].exact);
        assert_true(value == (cases[i].exact ? cases[i].value : 77));
        assert_true(clt_json_number(clt_json_root(doc)) == strtod(cases[i].text, NULL));
    }
}

TEST(test_long_numbers)
{
    /* Longer than cJSON's own limit of 63 characters, and than the reader's small buffer. */
    CLT_SCOPED(clt_str) text = {0};
    clt_str_append(&text, "[0.1");
    for (int i = 0; i < 500; i++)
        clt_str_append(&text, "0");
    clt_str_append(&text, "e1, 1");
    for (int i = 0; i < 300; i++)
        clt_str_append(&text, "0");
    clt_str_append(&text, ", 1e-400, 5]");
    assert_ok(clt_str_check(&text));
    CLT_SCOPED(clt_json_doc) *doc = must_parse(text.text);
    const clt_json *item = clt_json_first(clt_json_root(doc));
    assert_true(clt_json_number(item) == 1.0);
    item = clt_json_next(item);
    assert_true(clt_json_number(item) == 1e300);
    int64_t integer;
    assert_false(clt_json_int(item, &integer));
    item = clt_json_next(item);
    assert_true(clt_json_number(item) == 0.0);
    assert_true(clt_json_number(clt_json_next(item)) == 5.0);
}

static char *nested(int depth, char open, char close)
{
    char *text = calloc(1, 2 * (size_t)depth + 1);
    assert_non_null(text);
    memset(text, open, (size_t)depth);
    memset(text + depth, close, (size_t)depth);
    return text;
}

TEST(test_depth)
{
    char *text = nested(64, '[', ']');
    clt_json_destroy(must_parse(text));
    free(text);
    text = nested(65, '[', ']');
    check_refused(text, 130, "1:65", "deeper than 64");
    free(text);
    /* Far deeper than any call stack would allow. */
    text = nested(2000000, '[', ']');
    check_refused(text, 4000000, "1:65", "deeper than 64");
    free(text);
    CLT_SCOPED(clt_str) objects = {0};
    for (int i = 0; i < 65; i++)
        clt_str_append(&objects, "{\"a\":");
    check_refused(objects.text, objects.length, "1:321", "deeper than 64");
}

TEST(test_limits)
{
    char byte = ' ';
    clt_json_doc *doc = NULL;
    /* Too great a length is refused before a byte is read. */
    assert_int_equal(clt_json_parse(&byte, 100000001, "huge", CLT_EDATA, &doc), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "huge:1:1: 100000001 bytes"));
    size_t count = 4000001, size = 2 * count + 1;
    CLT_FREED char *text = malloc(size);
    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        memcpy(text + 2 * i, i ? ",1" : "[1", 2);
    text[2 * count] = ']';
    assert_int_equal(clt_json_parse(text, size, "many", CLT_EDATA, &doc), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "more than 4000000 values"));
}

TEST(test_large_object)
{
    enum { COUNT = 20000 };
    clt_str text = {0};
    clt_str_append(&text, "{");
    for (int i = 0; i < COUNT; i++)
        clt_str_printf(&text, "%s\n\"key%d\": %d", i ? "," : "", i * 7919 % COUNT, i);
    clt_json_doc *doc = NULL;
    CLT_SCOPED(clt_str) whole = {0};
    clt_str_printf(&whole, "%s}", text.text);
    doc = must_parse(whole.text);
    const clt_json *root = clt_json_root(doc);
    assert_int_equal(clt_json_count(root), COUNT);
    int order = 0;
    for (const clt_json *item = clt_json_first(root); item; item = clt_json_next(item))
        assert_true(clt_json_number(item) == order++);
    for (int i = 0; i < COUNT; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "key%d", i * 7919 % COUNT);
        const clt_json *item = clt_json_get(root, key);
        assert_non_null(item);
        assert_true(clt_json_number(item) == i);
        check_position(item, i + 2, (int)strlen(key) + 5);
    }
    assert_null(clt_json_get(root, "key"));
    assert_null(clt_json_get(root, "key20000"));
    clt_json_destroy(doc);
    clt_str_append(&text, ",\n\"key7919\": 0}");
    check_refused(text.text, text.length, "20002:1", "duplicate key \"key7919\" (first at 3:1)");
    clt_str_free(&text);
}

TEST(test_file)
{
    char path[] = "/tmp/test_base_json_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = "{\n \"a\": [1,\n 2 3]}";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    clt_json_doc *doc = NULL;
    assert_int_equal(clt_json_parse_file(path, CLT_ECHECKPOINT, &doc), CLT_ECHECKPOINT);
    assert_null(doc);
    char expected[80];
    (void)snprintf(expected, sizeof expected, "%s:3:4: expected ',' or ']' after an element", path);
    assert_non_null(strstr(clt_error_text(), expected));
    assert_int_equal(pwrite(fd, ",", 1, 14), 1);
    assert_ok(clt_json_parse_file(path, CLT_ECHECKPOINT, &doc));
    assert_string_equal(clt_json_source(doc), path);
    assert_int_equal(clt_json_count(clt_json_get(clt_json_root(doc), "a")), 3);
    clt_json_destroy(doc);
    close(fd);
    unlink(path);
    assert_int_equal(clt_json_parse_file(path, CLT_ECONFIG, &doc), CLT_ECONFIG);
    assert_non_null(strstr(clt_error_text(), path));
}

/* Every prefix of a document is refused, and every one-byte change gives a verdict without a crash. */
TEST(test_mutations)
{
    static const char text[] =
        "{\"a\": [1, -2.5e3, true], \"b\\n\": {\"c\": null, \"d\": \"\\u20ac\xc3\xa9\"}}";
    static const char bytes[] = "\"\\{}[],:0-.eEu tn\x80\xff/\n";
    size_t size = sizeof text - 1, refused = 0;
    clt_json_doc *doc;
    for (size_t i = 0; i < size; i++)
        assert_int_equal(clt_json_parse(text, i, "p", CLT_EDATA, &doc), CLT_EDATA);
    char copy[sizeof text];
    for (size_t i = 0; i < size; i++) {
        for (size_t j = 0; j < sizeof bytes; j++) {
            memcpy(copy, text, sizeof text);
            copy[i] = bytes[j];
            clt_status status = clt_json_parse(copy, size, "m", CLT_EDATA, &doc);
            assert_true(status == CLT_OK || status == CLT_EDATA);
            refused += status != CLT_OK;
            clt_json_destroy(doc);
        }
    }
    assert_true(refused > size * 10);
}

/* Puts values of two documents into one: their positions are kept or left out, and a later value replaces
 * an earlier one. */
TEST(test_put)
{
    clt_json_doc *from = NULL, *to = NULL;
    static const char text[] = "{\"a\":\n  {\"x\": [1, \"two\"]}, \"b\": 3}";
    assert_ok(clt_json_parse(text, strlen(text), "from.json", CLT_ECONFIG, &from));
    assert_ok(clt_json_create("to.json", &to));
    assert_int_equal(clt_json_count(clt_json_root(to)), 0);
    const clt_json *a = clt_json_get(clt_json_root(from), "a"), *kept = NULL;
    assert_ok(clt_json_put(to, "first", clt_json_get(clt_json_root(from), "b"), true));
    assert_ok(clt_json_put(to, "bare", a, false));
    assert_ok(clt_json_put(to, "first", a, true));
    assert_ok(clt_json_copy(to, a, &kept));
    clt_json_destroy(from);
    const clt_json *root = clt_json_root(to), *first = clt_json_get(root, "first");
    int line, column;
    assert_int_equal(clt_json_count(root), 2);
    assert_ptr_equal(clt_json_first(root), first);
    assert_string_equal(clt_json_key(first), "first");
    const clt_json *two = clt_json_next(clt_json_first(clt_json_get(first, "x")));
    assert_string_equal(clt_json_string(two), "two");
    clt_json_position(two, &line, &column);
    assert_int_equal(line, 2);
    assert_int_equal(column, 13);
    clt_json_position(clt_json_get(clt_json_get(root, "bare"), "x"), &line, &column);
    assert_int_equal(line, 0);
    clt_json_position(kept, &line, &column);
    assert_int_equal(line, 2);
    assert_int_equal(clt_json_count(clt_json_get(kept, "x")), 2);
    clt_json_destroy(to);
}
