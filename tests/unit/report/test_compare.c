/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Comparing runs: the first step with different losses, the step from which runs differ by more than their
 * noise, keys that differ; and plots made of characters. */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/report/read/compare.h"
#include "engine/report/read/run_facts.h"
#include "engine/report/read/text_plot.h"

static double noise(unsigned *seed)
{
    double sum = 0;
    for (int i = 0; i < 12; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        sum += (double)(*seed >> 8) / 16777216.0;
    }
    return sum - 6;
}

/* A run with this metrics.jsonl. */
static clt_run_record *run_of(const char *name, const char *lines)
{
    char path[256];
    clt_run_record *record;
    (void)snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    assert_ok(clt_mkdir_p(path));
    (void)snprintf(path, sizeof path, "%s/%s/metrics.jsonl", test_folder(), name);
    assert_ok(clt_file_write(path, lines, strlen(lines)));
    assert_ok(clt_run_record_load(path, &record));
    return record;
}

/* Losses that fall from 5 to about 2, with noise of size `scatter`, multiplied by `factor` from step `from`
 * to step `to`. */
static clt_run_record *run(const char *name, int steps, unsigned seed, double scatter, double factor,
                           int from, int to)
{
    CLT_SCOPED(clt_str) text = {0};
    for (int i = 1; i <= steps; i++) {
        double loss = 2 + 3 * exp(-i / 100.0) + scatter * noise(&seed);
        clt_str_printf(&text, "{\"step\":%d,\"loss\":%.17g}\n", i,
                       i >= from && i < to ? loss * factor : loss);
    }
    assert_ok(clt_str_check(&text));
    clt_run_record *record = run_of(name, text.text ? text.text : "");
    return record;
}

static clt_divergence part(clt_run_record *a, clt_run_record *b)
{
    clt_divergence p;
    assert_ok(clt_compare_losses(a, b, CLT_COMPARE_TOLERANCE, &p));
    clt_run_record_free(a);
    clt_run_record_free(b);
    return p;
}

TEST(equal_runs_are_equal)
{
    clt_divergence p = part(run("a", 500, 1, 0.1, 1, 0, 0), run("b", 300, 1, 0.1, 1, 0, 0));
    assert_int_equal(p.common, 300);
    assert_int_equal(p.last_common, 300);
    assert_int_equal(p.first_different, -1);
    assert_int_equal(p.largest_step, -1);
    assert_true(p.largest == 0);
    assert_int_equal(p.apart_from, -1);
    assert_int_equal(p.apart_once, -1);
}

TEST(the_last_bit_counts)
{
    clt_divergence p = part(run("a", 500, 1, 0.1, 1, 0, 0), run("b", 500, 1, 0.1, 1 + 3e-16, 123, 500));
    assert_in_range(p.first_different, 123, 130); /* a product may round to the same number */
    assert_int_equal(p.apart_once, -1);
}

TEST(noise_is_not_a_difference)
{
    clt_divergence p = part(run("a", 2000, 1, 0.1, 1, 0, 0), run("b", 2000, 2, 0.1, 1, 0, 0));
    assert_int_equal(p.first_different, 1);
    assert_int_equal(p.apart_from, -1);
}

TEST(runs_that_part_are_found)
{
    clt_divergence p = part(run("a", 2000, 1, 0.05, 1, 0, 0), run("b", 2000, 2, 0.05, 1.2, 700, 9999));
    assert_in_range(p.apart_from, 680, 721);
    assert_true(p.end_b / p.end_a > 1.15 && p.end_b / p.end_a < 1.25);
    p = part(run("a", 2000, 1, 0.05, 1, 0, 0), run("b", 2000, 1, 0.05, 1.2, 700, 1200));
    assert_int_equal(p.apart_from, -1);
    assert_in_range(p.apart_once, 700, 721); /* where the interval begins */
    assert_int_equal(p.first_different, 700);
}

TEST(few_steps_and_none)
{
    clt_divergence p = part(run("a", 3, 1, 0, 1, 0, 0), run("b", 3, 1, 0, 2, 2, 9));
    assert_int_equal(p.common, 3);
    assert_int_equal(p.first_different, 2);
    assert_int_equal(p.largest_step, 2);
    assert_true(fabs(p.largest - (2 + 3 * exp(-0.02))) < 1e-12);
    assert_int_equal(p.apart_from, 2);
    p = part(run("a", 3, 1, 0, 1, 0, 0), run("b", 0, 1, 0, 2, 2, 9));
    assert_int_equal(p.common, 0);
    assert_int_equal(p.last_common, -1);
    p = part(run("a", 100, 1, 0, 1, 0, 0),
             run("b", 100, 1, 0, NAN, 50, 999)); /* "nan" is not a number of JSON */
    assert_int_equal(p.common, 49);
}

TEST(plots_fit_and_hold_their_line)
{
    clt_point line[200], marks[2] = {{0, 1}, {199, 0}};
    for (int i = 0; i < 200; i++)
        line[i] = (clt_point){i, i == 100 ? NAN : 1 - i / 199.0};
    for (int unicode = 0; unicode < 2; unicode++)
        for (int columns = 30; columns <= 250; columns += 55)
            for (int rows = 5; rows <= 40; rows += 7) {
                clt_text_plot plot = {columns, rows, unicode, false, 0, 199, line, marks, 200, 2};
                CLT_SCOPED(clt_str) out = {0};
                int lines = 0, widest = 0, width = 0;
                assert_ok(clt_text_plot_draw(&plot, &out));
                for (size_t at = 0; at < out.length;) {
                    size_t size = clt_utf8_size(out.text + at, out.length - at);
                    assert_true(size > 0);
                    width = out.text[at] == '\n' ? 0 : width + 1;
                    widest = width > widest ? width : widest;
                    lines += out.text[at] == '\n';
                    at += size;
                }
                assert_int_equal(lines, rows);
                assert_int_equal(widest, columns);
                assert_non_null(strchr(out.text, 'o'));
                assert_true(unicode || strchr(out.text, '*'));
            }
    clt_text_plot none = {80, 20, true, false, 0, 1, line + 100, NULL, 1, 0};
    clt_str out = {0};
    assert_ok(clt_text_plot_draw(&none, &out));
    assert_int_equal(out.length, 0);
    clt_text_plot one = {80, 20, true, true, 5, 5, marks, NULL, 1, 0};
    assert_ok(clt_text_plot_draw(&one, &out));
    assert_true(out.length > 0);
    clt_str_free(&out);
}

/* A label that is cut off would show another number. */
TEST(labels_of_plots_are_whole)
{
    static const double values[][2] = {{-1.2345e8, 1.2345e8}, {-1e308, 1e308}, {1e30, 2e30}, {-2e-7, -1e-7}};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        double high = values[i][1];
        clt_point line[2] = {{0, values[i][0]}, {1, high}};
        clt_text_plot plot = {80, 20, false, false, 0, 1, line, NULL, 2, 0};
        CLT_SCOPED(clt_str) out = {0};
        assert_ok(clt_text_plot_draw(&plot, &out));
        double first = strtod(out.text, NULL), last = 0;
        for (const char *at = out.text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
            char *end;
            double label = strtod(at, &end);
            assert_true(isfinite(label));
            if (*end != ' ' || end[1] != '|')
                continue;
            assert_true(label <= last || last == 0);
            last = label;
        }
        assert_true(fabs(first - high) <= 0.1 * fabs(high));
        assert_true(fabs(last - values[i][0]) <= 0.1 * fabs(values[i][0]));
    }
}

/* A fact that no line has is unknown; of several evaluations the best one counts. */
TEST(facts_of_runs)
{
    static const struct {
        const char *lines;
        clt_fact fact;
        double value;
    } cases[] = {
        {"", CLT_FACT_STEPS, NAN},
        {"{\"step\":7,\"loss\":2}\n", CLT_FACT_STEPS, 7},
        {"{\"step\":7,\"loss\":2}\n", CLT_FACT_LOSS, 2},
        {"{\"step\":7,\"loss\":2}\n", CLT_FACT_EVAL_LOSS, NAN},
        {"{\"step\":7,\"loss\":2}\n", CLT_FACT_ACCURACY, NAN},
        {"{\"step\":7,\"loss\":2,\"accuracy\":0.25}\n", CLT_FACT_ACCURACY, 0.25},
        {"{\"step\":7,\"loss\":2,\"accuracy\":0.75}\n{\"step\":7,\"eval_loss\":2,\"eval_accuracy\":0.5}\n",
         CLT_FACT_ACCURACY, 0.5},
        {"{\"step\":1,\"eval_loss\":2}\n{\"step\":2,\"eval_loss\":3}\n", CLT_FACT_EVAL_LOSS, 3},
        {"{\"step\":1,\"eval_loss\":2}\n{\"step\":2,\"eval_loss\":3}\n", CLT_FACT_BEST_EVAL_LOSS, 2},
        {"{\"step\":1,\"eval_loss\":2}\n{\"step\":2,\"eval_loss\":3}\n", CLT_FACT_BEST_EVAL_STEP, 1},
        {"{\"step\":1,\"eval_loss\":2,\"eval_r2\":-0.5}\n{\"step\":2,\"eval_loss\":1,\"eval_r2\":0.25}\n",
         CLT_FACT_R2, 0.25},
        {"{\"step\":1,\"eval_loss\":2,\"eval_rmse\":4}\n{\"step\":2,\"eval_loss\":1,\"eval_rmse\":5}\n",
         CLT_FACT_RMSE, 4},
        {"{\"step\":1,\"eval_loss\":2,\"eval_mae\":4}\n{\"step\":2,\"eval_loss\":1,\"eval_mae\":3}\n",
         CLT_FACT_MAE, 3},
        {"{\"step\":1,\"eval_loss\":2,\"eval_mae\":null}\n", CLT_FACT_MAE, NAN},
        {"{\"step\":1,\"loss\":2,\"device_bytes\":4096}\n", CLT_FACT_DEVICE_BYTES, 4096},
        {"{\"step\":1,\"loss\":2,\"samples_per_s\":8}\n", CLT_FACT_SAMPLES_PER_S, 8},
        {"{\"step\":1,\"loss\":2,\"samples_per_s\":8}\n", CLT_FACT_TOKENS_PER_S, NAN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        clt_run_record *record = run_of("facts", cases[i].lines);
        clt_run_facts f = clt_run_facts_of(record);
        double got = f.value[cases[i].fact];
        if (isnan(cases[i].value) ? !isnan(got) : got != cases[i].value)
            fail_msg("%s of %s is %g", clt_fact_columns[cases[i].fact].key, cases[i].lines, got);
        clt_run_record_free(record);
    }
    for (int i = 0; i < CLT_FACT_COUNT; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(clt_fact_columns[i].key, clt_fact_columns[k].key);
}

TEST(facts_of_several_losses)
{
    clt_run_record *record = run_of(
        "losses",
        "{\"step\":1,\"loss\":3,\"losses\":{\"a\":2,\"b\":1}}\n"
        "{\"step\":2,\"loss\":2.5,\"losses\":{\"a\":1.5,\"b\":null}}\n"
        "{\"step\":1,\"eval_loss\":2,\"eval_losses\":{\"a\":1.25,\"c\":0.5}}\n"
        "{\"step\":2,\"eval_loss\":3,\"eval_perplexity\":9.5,\"eval_losses\":{\"a\":2.25,\"c\":0.75}}\n");
    assert_int_equal(record->loss_count, 3);
    assert_true(clt_run_facts_of(record).value[CLT_FACT_PERPLEXITY] == 9.5); /* not exp of the sum, 7.39 */
    assert_null(clt_run_loss_named(record, "d"));
    clt_run_facts a = clt_run_facts_of_loss(clt_run_loss_named(record, "a"));
    assert_true(a.value[CLT_FACT_LOSS] == 1.5 && a.value[CLT_FACT_EVAL_LOSS] == 2.25);
    assert_true(a.value[CLT_FACT_BEST_EVAL_LOSS] == 1.25 && a.value[CLT_FACT_BEST_EVAL_STEP] == 1);
    assert_true(isnan(a.value[CLT_FACT_STEPS]));
    clt_run_facts b = clt_run_facts_of_loss(clt_run_loss_named(record, "b"));
    assert_true(b.value[CLT_FACT_LOSS] == 1 && isnan(b.value[CLT_FACT_EVAL_LOSS]));
    clt_run_facts c = clt_run_facts_of_loss(clt_run_loss_named(record, "c"));
    assert_true(isnan(c.value[CLT_FACT_LOSS]) && c.value[CLT_FACT_EVAL_LOSS] == 0.75);
    clt_run_record_free(record);
}

TEST_PROGRAM(.fresh_folder = true);
