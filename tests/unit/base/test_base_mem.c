/* SPDX-License-Identifier: Apache-2.0
 *
 * Checked arithmetic, allocation limits, arenas, growing strings, tables of pointers, edit distance
 * (against a plain recursion), number text. Knows only engine/base. ctest-labels: quick */
#include "tests/unit/test.h"

#include "engine/base/index_map.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"

TEST(test_arithmetic)
{
    uint64_t out = 7;
    assert_true(clt_mul_u64(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &out));
    assert_true(out == UINT64_MAX - UINT32_MAX);
    out = 7;
    assert_false(clt_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_int_equal(out, 7);
    assert_true(clt_add_u64(UINT64_MAX - 1, 1, &out));
    assert_true(out == UINT64_MAX);
    assert_false(clt_add_u64(UINT64_MAX, 1, &out));
    assert_true(out == UINT64_MAX);
    assert_int_equal(clt_align_up(0, 64), 0);
    assert_int_equal(clt_align_up(65, 64), 128);
    assert_int_equal(clt_div_up(65, 64), 2);
    assert_int_equal(clt_div_up(64, 64), 1);
}

TEST(test_alloc)
{
    int *block = NULL;
    assert_ok(clt_alloc(&block, 1000, sizeof *block, "test numbers"));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(block[i], 0);
    free(block);
    assert_ok(clt_alloc(&block, 0, sizeof *block, "nothing"));
    assert_non_null(block);
    free(block);
    block = (int *)(uintptr_t)1;
    assert_int_equal(clt_alloc(&block, SIZE_MAX / 2, 4, "the impossible"), CLT_ENOMEM);
    assert_null(block);
    assert_non_null(strstr(clt_error_text(), "the impossible"));
    assert_int_equal(clt_alloc(&block, (size_t)PTRDIFF_MAX + 1, 1, "too much"), CLT_ENOMEM);
}

TEST(test_grow)
{
    CLT_FREED uint64_t *array = NULL;
    size_t capacity = 0, moves = 0, before = 0;
    for (size_t i = 0; i < 10000; i++) {
        assert_ok(clt_grow(&array, &capacity, i + 1, sizeof *array, "test array"));
        assert_true(capacity > i);
        assert_true(array[i] == 0);
        array[i] = i + 1;
        moves += capacity != before;
        before = capacity;
    }
    for (size_t i = 0; i < 10000; i++)
        assert_true(array[i] == i + 1);
    for (size_t i = 10000; i < capacity; i++)
        assert_true(array[i] == 0);
    assert_true(moves < 20);
    assert_int_equal(clt_grow(&array, &capacity, SIZE_MAX / 4, sizeof *array, "far too much"), CLT_ENOMEM);
    assert_int_equal(capacity, before);
    assert_true(array[9999] == 10000);
}

TEST(test_arena)
{
    enum { COUNT = 3000 };
    static unsigned char *blocks[COUNT];
    CLT_SCOPED(clt_arena) *arena = NULL;
    clt_arena_destroy(NULL);
    assert_ok(clt_arena_create(&arena));
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = i % 100 == 99 ? 40000 + i * 13 : i % 200;
        blocks[i] = clt_arena_alloc(arena, size);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        for (size_t j = 0; j < size; j++)
            assert_int_equal(blocks[i][j], 0);
        memset(blocks[i], (int)(i % 251), size);
    }
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = i % 100 == 99 ? 40000 + i * 13 : i % 200;
        for (size_t j = 0; j < size; j++)
            assert_int_equal(blocks[i][j], i % 251);
    }
    char *text = clt_arena_strdup(arena, "hello");
    assert_string_equal(text, "hello");
    assert_string_equal(clt_arena_printf(arena, "%s-%05d", text, 42), "hello-00042");
    assert_null(clt_arena_alloc(arena, SIZE_MAX - 3));
    assert_non_null(strstr(clt_error_text(), "arena"));
}

TEST(test_str)
{
    clt_str s = {0};
    clt_str_append(&s, "");
    assert_non_null(s.text);
    assert_string_equal(s.text, "");
    clt_str_append(&s, "ab");
    clt_str_append_n(&s, "cdef", 2);
    clt_str_printf(&s, "[%d]", 12);
    assert_string_equal(s.text, "abcd[12]");
    CLT_FREED char *large = calloc(1, 5001);
    assert_non_null(large);
    memset(large, 'z', 5000);
    clt_str_printf(&s, "%s!", large);
    assert_int_equal(s.length, 8 + 5001);
    assert_int_equal(strlen(s.text), s.length);
    assert_int_equal(s.text[s.length - 1], '!');
    assert_ok(clt_str_check(&s));
    /* Every length around the buffer's end. */
    for (int i = 0; i < 300; i++) {
        CLT_SCOPED(clt_str) t = {0};
        clt_str_printf(&t, "%.*s", i, large);
        clt_str_printf(&t, "%.*s", i, large);
        assert_int_equal(t.length, 2 * i);
        assert_int_equal(strlen(t.text), 2 * i);
    }
    size_t length = s.length;
    clt_str_append_n(&s, large, SIZE_MAX - 100);
    assert_true(s.failed);
    clt_str_append(&s, "more");
    assert_int_equal(s.length, length);
    assert_int_equal(clt_str_check(&s), CLT_ENOMEM);
    clt_str_free(&s);
    assert_null(s.text);
}

/* The definition, by recursion from the ends. */
static int slow_distance(const char *a, size_t m, const char *b, size_t n)
{
    if (m == 0 || n == 0)
        return (int)(m + n);
    int best = slow_distance(a, m - 1, b, n - 1) + (a[m - 1] != b[n - 1]);
    int removed = slow_distance(a, m - 1, b, n) + 1;
    int added = slow_distance(a, m, b, n - 1) + 1;
    if (removed < best)
        best = removed;
    if (added < best)
        best = added;
    if (m > 1 && n > 1 && a[m - 1] == b[n - 2] && a[m - 2] == b[n - 1]) {
        int swapped = slow_distance(a, m - 2, b, n - 2) + 1;
        if (swapped < best)
            best = swapped;
    }
    return best;
}

TEST(test_edit_distance)
{
    uint32_t seed = 1;
    for (int trial = 0; trial < 1500; trial++) {
        char a[6] = {0}, b[6] = {0};
        for (int i = 0; i < 5; i++) {
            seed = seed * 1664525u + 1013904223u;
            a[i] = "abc\0"[seed >> 30];
            seed = seed * 1664525u + 1013904223u;
            b[i] = "abc\0"[seed >> 30];
        }
        int expected = slow_distance(a, strlen(a), b, strlen(b));
        for (int limit = 0; limit <= 6; limit++) {
            int capped = expected > limit ? limit + 1 : expected;
            assert_int_equal(clt_edit_distance(a, b, limit), capped);
        }
    }
    assert_int_equal(clt_edit_distance("momentum", "momentmu", 5), 1);
    char far[400];
    memset(far, 'q', sizeof far - 1);
    far[sizeof far - 1] = '\0';
    assert_int_equal(clt_edit_distance(far, far, 3), 0);
    assert_int_equal(clt_edit_distance(far, far + 1, 3), 4);
    assert_int_equal(clt_edit_distance(far + 144, far + 145, 3), 1); /* 255 and 254 */
}

TEST(test_nearest_name)
{
    static const char *const names[] = {"optimizer", "schedule", "learning_rate", "lr", "batch"};
    assert_string_equal(clt_nearest_name("optimiser", names, 5), "optimizer");
    assert_string_equal(clt_nearest_name("lerning_rat", names, 5), "learning_rate");
    assert_string_equal(clt_nearest_name("bacth", names, 5), "batch");
    assert_string_equal(clt_nearest_name("lr", names, 5), "lr");
    assert_null(clt_nearest_name("checkpoint", names, 5));
    assert_null(clt_nearest_name("x", names, 0));
    static const char *const sets[] = {"adam", "adamw", "fashion-mnist", "tinyshakespeare-gpt2",
                                       "tinyshakespeare"};
    assert_string_equal(clt_nearest_name("adamW", sets, 5), "adamw");
    assert_string_equal(clt_nearest_name("ADAM", sets, 5), "adam");
    assert_string_equal(clt_nearest_name("Fashion_MNIST", sets, 5), "fashion-mnist");
    assert_string_equal(clt_nearest_name("shakespeare", sets, 5), "tinyshakespeare");
    assert_null(clt_nearest_name("gpt2", sets, 5)); /* too short to be searched for inside a name */
}

TEST(test_number_text)
{
    char text[CLT_NUMBER_TEXT], *end = NULL;
    assert_true(clt_strtod("1.5,2", &end) == 1.5);
    assert_string_equal(end, ",2");
    assert_string_equal(clt_double_text(0.1, text), "0.1");
    assert_string_equal(clt_double_text(1.0 / 3, text), "0.3333333333333333");
    assert_string_equal(clt_double_text(-0.0, text), "-0");
    assert_string_equal(clt_double_text(5e-324, text), "5e-324");
    assert_string_equal(clt_double_text(1.7976931348623157e308, text), "1.7976931348623157e+308");
    assert_string_equal(clt_double_text(-1.0 / 0.0, text), "-inf");
    assert_string_equal(clt_float_text(0.1f, text), "0.1");
    assert_string_equal(clt_float_text(16777216.0f, text), "16777216");
    assert_string_equal(clt_float_text(1e-45f, text), "1e-45");
    assert_string_equal(clt_float_text(3.4028235e38f, text), "3.4028235e+38");
}

TEST(test_utf8)
{
    static const struct {
        const char *bytes;
        size_t left, size;
    } cases[] = {
        {"", 0, 0},
        {"a", 1, 1},
        {"\x7f", 1, 1},
        {"\x80", 1, 0},
        {"\xc2\x80", 2, 2},
        {"\xc2\x80", 1, 0},
        {"\xc1\xbf", 2, 0},
        {"\xc2\x41", 2, 0},
        {"\xe0\xa0\x80", 3, 3},
        {"\xe0\x9f\xbf", 3, 0},
        {"\xed\x9f\xbf", 3, 3},
        {"\xed\xa0\x80", 3, 0},
        {"\xee\x80\x80", 3, 3},
        {"\xef\xbf\xbf", 3, 3},
        {"\xf0\x90\x80\x80", 4, 4},
        {"\xf0\x8f\xbf\xbf", 4, 0},
        {"\xf4\x8f\xbf\xbf", 4, 4},
        {"\xf4\x90\x80\x80", 4, 0},
        {"\xf5\x80\x80\x80", 4, 0},
        {"\xff", 1, 0},
        {"\xf0\x90\x80", 3, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(clt_utf8_size(cases[i].bytes, cases[i].left), cases[i].size);
}

TEST(messages_cannot_steer_a_terminal)
{
    char text[] = "a\x1b[2J\x07 b\n\tc\x7f\xc2\x9b \xc3\xa9";
    clt_text_sanitise(text);
    assert_string_equal(text, "a?[2J? b\n\tc??? \xc3\xa9");
    char bytes[] =
        "\x9b"
        "1m\xfc\x80\xe2\x82"; /* not UTF-8: CSI of a terminal of 8 bits; Latin-1; a character cut off */
    clt_text_sanitise(bytes);
    assert_string_equal(bytes, "?1m\xfc?\xe2?");
    char whole[] = "\xe2\x82\x9b \xf0\x9f\x98\x80"; /* bytes 0x80 to 0x9f inside characters */
    clt_text_sanitise(whole);
    assert_string_equal(whole, "\xe2\x82\x9b \xf0\x9f\x98\x80");
}

TEST(test_endings)
{
    assert_true(clt_ends_with("a.csv.gz", ".gz"));
    assert_true(clt_ends_with(".gz", ".gz"));
    assert_false(clt_ends_with("gz", ".gz"));
    assert_false(clt_ends_with("a.GZ", ".gz"));
    assert_int_equal(clt_stem("a.csv.gz", ".gz"), 5);
    assert_int_equal(clt_stem(".gz", ".gz"), 0);
    assert_int_equal(clt_stem("a.csv", ".gz"), 0);
}

TEST(test_index_map)
{
    CLT_SCOPED(clt_index_map) map = {0};
    static int value[1000];
    assert_null(clt_index_map_get(&map, 0));
    for (int round = 0; round < 2; round++) { /* the second round replaces the entries */
        for (uint32_t i = 0; i < 1000; i++)
            assert_ok(clt_index_map_put(&map, i * 4194304u + i, &value[round ? 999 - i : i], "test"));
        assert_int_equal(map.used, 1000);
        for (uint32_t i = 0; i < 1000; i++)
            assert_ptr_equal(clt_index_map_get(&map, i * 4194304u + i), &value[round ? 999 - i : i]);
    }
    assert_null(clt_index_map_get(&map, 4194304u));
    assert_null(clt_index_map_get(&map, UINT32_MAX));
}
