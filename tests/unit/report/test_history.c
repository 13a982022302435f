/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Reading metrics.jsonl: numbers as strtod reads them, lines that are skipped and counted because they are
 * not metrics, steps that a resumed run repeated, files that grow and shrink; and curves that keep every
 * spike. */
#include "tests/unit/test.h"

#include <math.h>
#include <sys/stat.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/report/read/curve.h"
#include "engine/report/read/history.h"

static char metrics[128];

FIXTURE(set_up)
{
    (void)snprintf(metrics, sizeof metrics, "%s", in_dir("metrics.jsonl"));
    return 0;
}

static void put(const char *text)
{
    assert_ok(clt_file_write(metrics, text, strlen(text)));
}

static void append(const char *text)
{
    FILE *file = fopen(metrics, "a");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The steps that the reader has not given yet, as "1 2 e2 3": e for evaluations, ! for events. */
static const char *rest(clt_history *history)
{
    static char text[4096];
    size_t n = 0;
    clt_metrics_line line;
    bool more = true;
    text[0] = '\0';
    for (;;) {
        assert_ok(clt_history_next(history, &line, NULL, NULL, &more));
        if (!more || n + 32 > sizeof text)
            return text;
        static const char *const marks[] = {"", "e", "!", "?"};
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%lld", n ? " " : "", marks[line.kind],
                              (long long)line.step);
    }
}

/* --- lines --- */

TEST(numbers_are_what_strtod_reads)
{
    unsigned long long seed = 88172645463325252ull;
    for (int i = 0; i < 300000; i++) {
        char text[CLT_NUMBER_TEXT], line[128];
        union {
            uint64_t bits;
            double value;
        } any;
        union {
            uint32_t bits;
            float value;
        } narrow;
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        any.bits = seed;
        narrow.bits = (uint32_t)(seed >> 20);
        double value = i % 3 == 0   ? any.value
                       : i % 3 == 1 ? (double)narrow.value
                                    : (double)(int64_t)(seed % 2000000) / 1000.0;
        if (!isfinite(value))
            continue;
        clt_double_text(value, text);
        (void)snprintf(line, sizeof line, "{\"step\":7,\"loss\":%s}", text);
        clt_metrics_line read;
        assert_ok(clt_metrics_line_read(line, strlen(line), &read));
        if (memcmp(&read.value[CLT_METRIC_LOSS], &value, sizeof value) != 0)
            fail_msg("%s was read as %.17g", text, read.value[CLT_METRIC_LOSS]);
    }
}

TEST(both_readers_agree)
{
    static const char *const lines[] = {
        "{\"step\":1,\"loss\":2.5}",
        " {  \"step\" : 1 , \"loss\" : 2.5e0 } ",
        "{\"step\":1,\"loss\":null,\"nonfinite\":true}",
        "{\"step\":1,\"loss\":-0}",
        "{\"step\":1,\"loss\":\"text\",\"lr\":1e-3}",
        "{\"step\":1,\"loss\":[1,2],\"accuracy\":0.5}",
        "{\"step\":1,\"eval_loss\":1.5,\"eval_losses\":{\"a\":1,\"b\":2}}",
        "{\"step\":1,\"loss\":3,\"losses\":{\"masked_loss\":2.5,\"follows_loss\":null},\"lr\":0.5}",
        "{\"step\":1,\"loss\":3,\"losses\":{\"Masked loss\":2.5, \"b\" : 1}}",
        "{\"step\":1,\"loss\":3,\"losses\":{\"a\":\"x\",\"b\":[1],\"c\":{\"d\":1}}}",
        "{\"step\":1,\"loss\":3,\"losses\":{\"a\":1,\"a\":2}}",
        "{\"step\":1,\"loss\":3,\"losses\":{\"a\":1},\"losses\":{\"b\":2}}",
        "{\"step\":1,\"loss\":3,\"losses\":{\"a\":1}",
        "{\"step\":1,\"loss\":3,\"losses\":{\"a\":1,}}",
        "{\"step\":1,\"loss\":3,\"losses\":{}}",
        "{\"step\":1,\"loss\":3,\"losses\":1}",
        "{\"step\":1,\"loss\":3,\"losses\":{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,"
        "\"i\":9,"
        "\"j\":10,\"k\":11,\"l\":12,\"m\":13,\"n\":14,\"o\":15,\"p\":16,\"q\":17}}",
        "{\"step\":1,\"loss\":3,\"losses\":{\"a_name_that_is_much_longer_than_the_sixty_three_bytes_that_are_"
        "kept_of_it\":1}}",
        "{\"step\":1,\"event\":\"saved\",\"time\":3}",
        "{\"step\":1,\"unknown\":123456789012345678901234567890,\"loss\":1}",
        "{\"step\":1,\"loss\":1,\"other\":-1.5}",
        "{\"step\":1,\"loss\":1,\"other\":-0}",
        "{\"step\":1,\"loss\":1,\"other\":1e5}",
        "{\"step\":1,\"loss\":1,\"other\":01}",
        "{\"step\":1,\"loss\":1,\"other\":00.5}",
        "{\"step\":1,\"loss\":1,\"other\":1..2}",
        "{\"step\":1,\"loss\":1,\"other\":1.2.3}",
        "{\"step\":1,\"loss\":1,\"other\":1-2}",
        "{\"step\":1,\"loss\":1,\"other\":--2}",
        "{\"step\":1,\"loss\":1,\"other\":-}",
        "{\"step\":1,\"loss\":1,\"other\":-.5}",
        "{\"step\":1,\"loss\":1,\"other\":5.}",
        "{\"step\":1,\"loss\":1,\"other\":5 }",
        "{\"step\":1,\"loss\":1,\"other\":5x}",
        "{\"step\":4503599627370496,\"loss\":1}",
        "{\"step\":4503599627370497,\"loss\":1}",
        "{\"step\":9223372036854775808,\"loss\":1}",
        "{\"step\":-1,\"loss\":1}",
        "{\"step\":1.0,\"loss\":1}",
        "{\"step\":1e0,\"loss\":1}",
        "{\"step\":1}",
        "{\"loss\":1}",
        "{\"step\":1,\"step\":2,\"loss\":1}",
        "{\"step\":1,\"loss\":1,\"loss\":2}",
        "{\"step\":1,\"loss\":01}",
        "{\"step\":1,\"loss\":1.}",
        "{\"step\":1,\"loss\":.5}",
        "{\"step\":1,\"loss\":+5}",
        "{\"step\":1,\"loss\":1e}",
        "{\"step\":1,\"loss\":1e999}",
        "{\"step\":1,\"loss\":1e-999}",
        "{\"step\":1,\"loss\":1e00000000000000000001}",
        "{\"step\":1,\"loss\":0.00000000000000000000000000000000000000000000000000000000001}",
        "{\"step\":1,\"loss\":nan}",
        "{\"step\":1,\"loss\":nul}",
        "{\"step\":1,\"loss\":nullx}",
        "{\"step\":1,\"loss\":1,}",
        "{\"step\":1,\"loss\":1}}",
        "{\"step\":1,\"loss\":1} x",
        "{\"step\":1 \"loss\":1}",
        "{\"ste\\u0070\":1,\"loss\":1}",
        "{\"step\":1,\"loss\":1",
        "{\"step\":1,\"lo",
        "{}",
        "{",
        "",
        "null",
        "[{\"step\":1,\"loss\":1}]",
        "\xff\xfe",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        clt_metrics_line fast, strict;
        bool a = clt_metrics_line_read(lines[i], strlen(lines[i]), &fast) == CLT_OK;
        bool b = clt_metrics_line_read_strict(lines[i], strlen(lines[i]), &strict) == CLT_OK;
        if (a != b)
            fail_msg("%s: %d and %d", lines[i], a, b);
        if (!a)
            continue;
        assert_int_equal(fast.step, strict.step);
        assert_int_equal(fast.kind, strict.kind);
        assert_int_equal(fast.present, strict.present);
        assert_int_equal(fast.nonfinite, strict.nonfinite);
        assert_memory_equal(fast.value, strict.value, sizeof fast.value);
        assert_int_equal(fast.n_losses, strict.n_losses);
        for (int k = 0; k < fast.n_losses; k++) {
            assert_string_equal(fast.losses[k].name, strict.losses[k].name);
            assert_memory_equal(&fast.losses[k].value, &strict.losses[k].value, sizeof(double));
        }
    }
}

/* --- files --- */

TEST_BETWEEN(garbage_is_counted, set_up, NULL)
{
    clt_history *history;
    put("{\"step\":1,\"loss\":3}\nnonsense\n\n\xff\xfe\x01\n{\"step\":2,\"loss\":null,\"nonfinite\":true}\n"
        "{\"step\":2,\"eval_loss\":2}\n{\"step\":2,\"event\":\"saved\",\"path\":\"x\"}\n{\"step\":3,\"lo");
    assert_ok(clt_history_open(metrics, &history));
    assert_string_equal(rest(history), "1 2 e2 !2");
    const clt_history_counts *counts = clt_history_counted(history);
    assert_int_equal(counts->garbage, 2);
    assert_int_equal(counts->replaced, 0);
    assert_int_equal(counts->first, 1);
    assert_int_equal(counts->last, 2);
    assert_int_equal(counts->steps, 2);
    assert_true(counts->torn);
    /* the rest of the line arrives, and more */
    append("ss\":1}\n{\"step\":4,\"loss\":1}\n");
    assert_string_equal(rest(history), "3 4");
    assert_false(counts->torn);
    assert_false(clt_history_is_stale(history));
    clt_history_close(history);
}

TEST_BETWEEN(steps_computed_again_replace, set_up, NULL)
{
    clt_history *history;
    put("{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":1}\n{\"step\":3,\"loss\":1}\n{\"step\":3,\"eval_"
        "loss\":1}\n"
        "{\"step\":4,\"loss\":1}\n{\"step\":3,\"loss\":9}\n{\"step\":4,\"loss\":9}\n{\"step\":5,\"loss\":9}\n"
        "{\"step\":5,\"eval_loss\":9}\n{\"step\":5,\"loss\":8}\n");
    assert_ok(clt_history_open(metrics, &history));
    assert_string_equal(rest(history), "1 2 3 4 5");
    assert_int_equal(clt_history_counted(history)->replaced, 5);
    assert_false(clt_history_is_stale(history));
    append("{\"step\":2,\"loss\":1}\n"); /* from this line on the file must be read again */
    assert_string_equal(rest(history), "2");
    assert_true(clt_history_is_stale(history));
    clt_history_close(history);
    assert_ok(clt_history_open(metrics, &history));
    assert_string_equal(rest(history), "1 2");
    put("{\"step\":1,\"loss\":1}\n");
    assert_true(clt_history_is_stale(history));
    clt_history_close(history);
}

TEST_BETWEEN(long_lines_are_passed_over, set_up, NULL)
{
    clt_history *history;
    clt_str text = {0};
    clt_str_append(&text, "{\"step\":1,\"loss\":1}\n{\"step\":2,\"event\":\"sample\",\"text\":\"");
    for (int i = 0; i < 1000000; i++)
        clt_str_append_n(&text, "aaaaaaaaaa", 10);
    clt_str_append(&text, "\"}\n{\"step\":3,\"loss\":1}\n");
    assert_ok(clt_str_check(&text));
    put(text.text);
    clt_str_free(&text);
    assert_ok(clt_history_open(metrics, &history));
    assert_string_equal(rest(history), "1 3");
    assert_int_equal(clt_history_counted(history)->garbage, 1);
    clt_history_close(history);
}

TEST_BETWEEN(odd_files_are_refused, set_up, NULL)
{
    clt_history *history;
    char fifo[128];
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", test_folder());
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(clt_history_open(fifo, &history), CLT_EDATA);
    assert_int_equal(clt_history_open(test_folder(), &history), CLT_EDATA);
    assert_int_equal(clt_history_open(metrics, &history), CLT_EDATA);
    put("");
    assert_ok(clt_history_open(metrics, &history));
    assert_string_equal(rest(history), "");
    assert_int_equal(clt_history_counted(history)->last, -1);
    clt_history_close(history);
}

TEST_BETWEEN(runs_are_found_by_any_of_their_names, set_up, NULL)
{
    char path[256], *found, *folder;
    static const char *const names[] = {
        "", "/", "/metrics.jsonl", "/checkpoints", "/checkpoints/", "/checkpoints/step_5"};
    put("");
    (void)snprintf(path, sizeof path, "%s/checkpoints/step_5", test_folder());
    assert_ok(clt_mkdir_p(path));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", test_folder(), names[i]);
        assert_ok(clt_history_find(path, &found, &folder));
        assert_true(clt_file_exists(found));
        assert_true(clt_same_folder(folder, test_folder()));
        assert_null(strstr(folder, ".."));
        free(found);
        free(folder);
    }
    assert_int_equal(clt_history_find("/tmp/is not there", &found, &folder), CLT_EUSAGE);
    assert_int_equal(clt_history_find("/", &found, &folder), CLT_EUSAGE);
}

/* --- curves --- */

TEST(few_values_are_all_kept)
{
    clt_curve curve = {0};
    clt_point points[CLT_CURVE_POINTS];
    for (int i = 1; i <= CLT_CURVE_POINTS; i++)
        assert_ok(clt_curve_add(&curve, i, i * 0.5));
    assert_int_equal(clt_curve_points(&curve, CLT_CURVE_POINTS, points), CLT_CURVE_POINTS);
    for (int i = 1; i <= CLT_CURVE_POINTS; i++)
        assert_true(points[i - 1].step == i && points[i - 1].value == i * 0.5);
    clt_curve_free(&curve);
    assert_int_equal(clt_curve_points(&curve, CLT_CURVE_POINTS, points), 0);
    assert_int_equal(clt_curve_smooth(&curve, 0.02, CLT_CURVE_POINTS, points), 0);
}

TEST(no_spike_is_lost)
{
    clt_curve curve = {0};
    clt_point points[CLT_CURVE_POINTS];
    for (int i = 1; i <= 1000000; i++)
        assert_ok(clt_curve_add(&curve, i,
                                i == 123457   ? 50
                                : i == 765432 ? -40
                                : i == 500001 ? NAN
                                              : sin(i * 0.01)));
    size_t count = clt_curve_points(&curve, CLT_CURVE_POINTS, points), broken = 0;
    bool up = false, down = false;
    assert_in_range(count, 700, CLT_CURVE_POINTS);
    for (size_t i = 0; i < count; i++) {
        up |= points[i].value == 50 && points[i].step == 123457;
        down |= points[i].value == -40 && points[i].step == 765432;
        broken += isnan(points[i].value) && points[i].step == 500001;
        assert_true(i == 0 || isnan(points[i].value) || isnan(points[i - 1].value) ||
                    points[i].step > points[i - 1].step);
    }
    assert_true(up && down && broken == 1);
    assert_true(curve.low == -40 && curve.low_step == 765432 && curve.high == 50 &&
                curve.high_step == 123457);
    assert_true(curve.values == 999999 && curve.bad == 1 && curve.last_step == 1000000);
    assert_in_range(clt_curve_smooth(&curve, 0.02, CLT_CURVE_POINTS, points), 500, CLT_CURVE_POINTS);
    clt_curve_free(&curve);
}

TEST(smoothing_follows_the_middle)
{
    clt_curve curve = {0};
    clt_point points[CLT_CURVE_POINTS];
    for (int i = 0; i < 20000; i++)
        assert_ok(clt_curve_add(&curve, i, 3 + (i % 2 ? 1 : -1)));
    size_t count = clt_curve_smooth(&curve, 0.02, CLT_CURVE_POINTS, points);
    for (size_t i = 0; i < count; i++)
        assert_true(fabs(points[i].value - 3) < 1e-6);
    assert_true(fabs(clt_curve_tail(&curve, 0.1) - 3) < 1e-6);
    clt_curve_free(&curve);
}

TEST(steps_may_be_anything)
{
    clt_curve curve = {0};
    clt_point points[16];
    assert_ok(clt_curve_add(&curve, 0, 1));
    assert_ok(clt_curve_add(&curve, CLT_METRICS_MAX_STEP, 2));
    assert_ok(clt_curve_add(&curve, 5, 3)); /* a step back */
    assert_ok(clt_curve_add(&curve, CLT_METRICS_MAX_STEP, NAN));
    assert_in_range(clt_curve_points(&curve, 8, points), 2, 8);
    clt_curve_free(&curve);
    for (int i = 0; i < 5000; i++)
        assert_ok(clt_curve_add(&curve, i, NAN));
    assert_in_range(clt_curve_points(&curve, 8, points), 1, 8);
    assert_true(isnan(clt_curve_tail(&curve, 0.1)));
    clt_curve_free(&curve);
}

TEST_PROGRAM(.fresh_folder = true);
