/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Lines about steps at every width from 60 to 250: they are never longer, always have loss and speed, and
 * drop the less important fields first. Also tables, and the width of text in columns. */
#include "tests/unit/test.h"

#include <math.h>

#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/report/write/lines.h"

/* Which values are known depends on the run: each is NAN or 0 in some sample. */
static const clt_step_metrics samples[] = {
    {.step = 7,
     .steps_total = 100,
     .loss = 2.5,
     .lr = 1e-3,
     .step_ms = 12.25,
     .samples_per_s = 1e4,
     .tokens_per_s = 1e4,
     .accuracy = 0.5,
     .grad_norm = 0.81,
     .loss_scale = 1,
     .eta_s = 75},
    {.step = 123456,
     .steps_total = 1000000,
     .loss = 10.98765,
     .lr = 6e-4,
     .step_ms = 61234.5,
     .samples_per_s = 480,
     .tokens_per_s = 491520,
     .accuracy = NAN,
     .grad_norm = 1.234e-5,
     .loss_scale = 65536,
     .comm_ms = 12.5,
     .skipped = 12,
     .eta_s = 400000},
    {.step = 999999999,
     .steps_total = 1000000000,
     .loss = 1.2345e30,
     .lr = 1e-300,
     .step_ms = 1e9,
     .samples_per_s = 9.9e12,
     .tokens_per_s = 9.9e12,
     .accuracy = 1,
     .grad_norm = 1e300,
     .loss_scale = 3e38,
     .comm_ms = 1e7,
     .skipped = 4000000000,
     .eta_s = 9e8},
    {.step = 1,
     .steps_total = 1,
     .loss = NAN,
     .lr = NAN,
     .step_ms = 0.001,
     .samples_per_s = 0.01,
     .tokens_per_s = NAN,
     .accuracy = NAN,
     .grad_norm = INFINITY,
     .loss_scale = NAN,
     .eta_s = NAN},
};
#define SAMPLES (sizeof samples / sizeof samples[0])

TEST(step_lines_fit)
{
    char line[CLT_LINE_SIZE], wider[CLT_LINE_SIZE];
    for (size_t i = 0; i < SAMPLES; i++)
        for (int bar = 0; bar < 2; bar++)
            for (int columns = 60; columns <= 250; columns++) {
                clt_step_line(&samples[i], columns, bar, line);
                clt_step_line(&samples[i], columns + 1, bar, wider);
                assert_in_range(strlen(line), 1, (unsigned)columns);
                assert_non_null(strstr(line, " | loss "));
                assert_non_null(strstr(line, "/s"));
                assert_true(strlen(wider) >= strlen(line));
            }
}

TEST(step_lines_drop_what_matters_least)
{
    char line[CLT_LINE_SIZE];
    static const char *const order[] = {"loss ", "/s", "eta ", "lr ", " ms", "acc ", "gnorm ", "["};
    int first[8] = {0};
    for (int columns = 30; columns <= 250; columns++) {
        clt_step_line(&samples[0], columns, true, line);
        for (int f = 0; f < 8; f++)
            if (!first[f] && strstr(line, order[f]))
                first[f] = columns;
    }
    for (int f = 0; f < 8; f++) {
        assert_in_range(first[f], 1, 250);
        assert_true(f == 0 || first[f] >= first[f - 1]);
    }
    assert_string_equal(clt_step_line(&samples[0], 60, true, line),
                        "step 7/100 | loss 2.5000 | 10.0k samples/s | eta 1m15s");
    assert_string_equal(clt_step_line(&samples[0], 80, false, line),
                        "step 7/100 | loss 2.5000 | 10.0k samples/s | eta 1m15s | lr 1.00e-03 | 12.2 ms");
    assert_string_equal(clt_step_line(&samples[1], 80, false, line),
                        "step 123456/1000000 | loss 10.9877 | 492k tok/s | eta 111h06m | skipped 12");
    clt_step_line(&samples[0], 0, true, line);
    assert_non_null(strstr(line, "step 7/100 [=>                  ] | loss"));
    assert_non_null(strstr(line, " | gnorm 0.81"));
    assert_null(strstr(line, "scale"));
}

TEST(step_lines_name_each_of_several_losses)
{
    char line[CLT_LINE_SIZE];
    clt_step_metrics m = samples[0];
    m.n_losses = 2;
    m.loss_name[0] = "masked_loss";
    m.loss_name[1] = "other";
    m.loss_value[0] = 1.75;
    m.loss_value[1] = 0.75;
    assert_non_null(
        strstr(clt_step_line(&m, 0, false, line), " | loss 2.5000 (masked 1.7500, other 0.7500) | "));
    assert_string_equal(clt_step_line(&m, 80, false, line),
                        "step 7/100 | loss 2.5000 | 10.0k samples/s | eta 1m15s | lr 1.00e-03 | 12.2 ms");
    m.n_losses = CLT_MAX_LOSSES; /* names for which there is no room */
    for (int i = 0; i < CLT_MAX_LOSSES; i++) {
        m.loss_name[i] = "a loss with a long name";
        m.loss_value[i] = 1;
    }
    assert_null(strchr(clt_step_line(&m, 0, false, line), '('));
    m.n_losses = 1;
    assert_null(strchr(clt_step_line(&m, 0, false, line), '('));
}

TEST(progress_lines)
{
    char line[CLT_LINE_SIZE];
    assert_string_equal(clt_progress_line("building kernels: gemm", 3, 12, 30, 0, 80, line),
                        "building kernels 3/12 | 30s | about 1m30s left | gemm");
    assert_string_equal(clt_progress_line("building kernels: gemm", 3, 12, 40, 10, 80, line),
                        "building kernels 3/12 | 40s | about 1m20s left | gemm");
    assert_string_equal(clt_progress_line("reading", 1 << 20, 4 << 20, 10, 0, 80, line),
                        "reading 25% | 10s | about 30s left");
    assert_string_equal(clt_progress_line("saving", 0, 0, 3, 3, 80, line), "saving | 3s");
    assert_string_equal(clt_progress_line("a: a very long detail", 1, 2, 0.5, 0, 20, line), "a 1/2 | 0s");
}

TEST(evaluations)
{
    char line[CLT_LINE_SIZE];
    clt_eval_metrics m = {.step = -1, .loss = 0.5, .accuracy = 0.975, .samples = 100, .seconds = 0.25};
    assert_non_null(strstr(clt_eval_line(&m, line), "eval | loss 0.5000 "));
    m.step = 12;
    m.accuracy = NAN;
    assert_non_null(strstr(clt_eval_line(&m, line), "eval at step 12 | loss 0.5000 | "));
    m.loss = 1.25e38; /* a diverged training: numbers stay short, and are not cut */
    m.perplexity = 1e300;
    m.bits_per_byte = 2;
    assert_non_null(
        strstr(clt_eval_line(&m, line), " | loss 1.25e+38 | perplexity 1e+300 | 2.000 bits/byte | "));
    m = (clt_eval_metrics){.step = 2,
                           .loss = 1,
                           .accuracy = 0.5,
                           .entities = 4,
                           .entity_precision = 0.25,
                           .entity_recall = 0.5,
                           .entity_f1 = 1.0 / 3};
    assert_non_null(strstr(clt_eval_line(&m, line),
                           "| accuracy 50.00% | entities: precision 25.00%, recall 50.00%, F1 33.33% | "));
    /* several losses are named by what they are, or by their names where two are the same */
    m = (clt_eval_metrics){.step = 3,
                           .loss = 0.3241,
                           .accuracy = NAN,
                           .n_losses = 2,
                           .loss_name = {"loss", "dice"},
                           .loss_op = {"cross_entropy", "dice_loss"},
                           .loss_value = {0.0669, 0.2572}};
    assert_non_null(
        strstr(clt_eval_line(&m, line), "| loss 0.3241 | cross entropy 0.0669 | dice loss 0.2572 |"));
    snprintf(m.loss_op[1], sizeof m.loss_op[1], "cross_entropy");
    assert_non_null(strstr(clt_eval_line(&m, line), "| loss 0.3241 | loss 0.0669 | dice 0.2572 |"));
    memset(m.loss_op, 0, sizeof m.loss_op);
    m.n_losses = CLT_MAX_LOSSES; /* more than fits into a line: the line is cut */
    for (int i = 0; i < CLT_MAX_LOSSES; i++)
        memset(m.loss_name[i], 'x', sizeof m.loss_name[i] - 1);
    assert_in_range(strlen(clt_eval_line(&m, line)), 1, CLT_LINE_SIZE - 1);
}

TEST(columns_of_text)
{
    char clean[64];
    assert_int_equal(text_columns("abc"), 3);
    assert_int_equal(text_columns("Prozeß™"), 7);
    assert_int_equal(text_columns("日本"), 4);
    assert_int_equal(text_columns("e\xcc\x81"), 1); /* a letter and its accent */
    assert_int_equal(text_columns("\xff\xfe"), 2);  /* no UTF-8 */
    assert_int_equal(text_fit("日本", 3), 3);
    assert_int_equal(text_fit("abc", 10), 3);
    assert_string_equal(text_clean("a\033[31mb\nc\td\xff\xc2\x9b", clean, sizeof clean), "a?[31mb c d??");
    assert_string_equal(text_clean("right\xe2\x80\xaeleft", clean, sizeof clean), "right?left");
    assert_in_range(strlen(text_clean("ééééééééééééééééééé", clean, 10)), 1, 9);
}

static const table_column columns[] = {{"name", 12, 6, 0, false},
                                       {"size", 8, 0, 0, true},
                                       {"what it is for", 40, 12, 0, false},
                                       {"extra", 20, 0, 2, false},
                                       {"more", 10, 0, 1, false}};
static const char *const cells[] = {
    "Prozessor", "128", "a long sentence that says what the thing is good for", "unimportant", "also"};

static int longest_line(const char *text)
{
    int longest = 0;
    for (const char *at = text; *at;) {
        char line[512];
        size_t n = strcspn(at, "\n");
        snprintf(line, sizeof line, "%.*s", (int)n, at);
        longest = text_columns(line) > longest ? text_columns(line) : longest;
        at += n + (at[n] == '\n');
    }
    return longest;
}

TEST(tables_fit)
{
    terminal_use_color(TERMINAL_NEVER);
    for (int screen = 60; screen <= 250; screen++) {
        table t;
        CLT_SCOPED(clt_str) text = {0};
        table_make(&t, columns, 5, screen);
        table_head(&t, &text);
        table_row(&t, cells, &text);
        assert_in_range(longest_line(text.text), 1, (unsigned)screen);
        assert_non_null(strstr(text.text, "128"));
        assert_non_null(strstr(text.text, "sentence"));
    }
}

TEST(narrow_tables_wrap_within_a_column)
{
    table t;
    clt_str text = {0};
    terminal_use_color(TERMINAL_NEVER);
    table_make(&t, columns, 5, 40);
    table_head(&t, &text);
    table_row(&t, cells, &text);
    assert_string_equal(text.text, "name              size  what it is for\n"
                                   "Prozessor          128  a long sentence\n"
                                   "                        that says what\n"
                                   "                        the thing is\n"
                                   "                        good for\n");
    clt_str_free(&text);
    text = (clt_str){0};
    table_make(&t, columns, 5, 0); /* output to a file: rows are not cut */
    table_row(&t, cells, &text);
    assert_string_equal(text.text,
                        "Prozessor          128  a long sentence that says what the thing is good for"
                        "  unimportant           also\n");
    clt_str_free(&text);
    text = (clt_str){0};
    text_wrap("one two three four", 8, 8, 20, &text);
    assert_string_equal(text.text, "one two\n        three four\n");
    clt_str_free(&text);
    text = (clt_str){0};
    text_wrap("1234567890123456789012345", 4, 4, 20, &text); /* a word wider than the screen */
    assert_string_equal(text.text,
                        "1234567890123456789012345\n"); /* is not broken, since a user may copy it */
    clt_str_free(&text);
    text = (clt_str){0};
    text_wrap("in /a/folder/of/some/length now", 4, 2, 20, &text);
    assert_string_equal(text.text, "in\n  /a/folder/of/some/length\n  now\n");
    clt_str_free(&text);
    text = (clt_str){0};
    text_wrap("abcdefghijkl mn", 12, 2, 20, &text); /* the first word goes to the next line */
    assert_string_equal(text.text, "\n  abcdefghijkl mn\n");
    clt_str_free(&text);
    text = (clt_str){0};
    text_wrap("2 units | 11.3 GiB | caps", 0, 2, 14, &text); /* a number stays with its unit */
    assert_string_equal(text.text, "2 units |\n  11.3 GiB |\n  caps\n");
    clt_str_free(&text);
    text = (clt_str){0};
    text_wrap("    -> and so on and on", 0, 6, 20, &text);
    assert_string_equal(text.text, "    -> and so on and\n      on\n");
    clt_str_free(&text);
}

/* A net with steps of a millisecond: every tenth step would be a hundred lines a second. */
TEST(test_line_pace)
{
    clt_line_pace paced = {.every = 10, .apart = 0.5}, given = {.every = 10};
    int lines = 0, all = 0;
    for (int64_t step = 1; step <= 3000; step++) {
        double now = 100 + 1e-3 * (double)step;
        bool last = step == 3000, stays = clt_line_stays(&paced, step, last, now);
        assert_true(!stays || step == 1 || last || step % 10 == 0);
        assert_true(stays || (step > 1 && !last));
        lines += stays;
        all += clt_line_stays(&given, step, last, now);
    }
    assert_int_equal(lines, 1 + 5 + 1); /* the first step, one every half second, the last */
    assert_int_equal(all, 1 + 300);
    clt_line_pace slow = {.every = 10, .apart = 0.5}; /* steps of a second: every tenth step */
    lines = 0;
    for (int64_t step = 6; step <= 35; step++)
        lines += clt_line_stays(&slow, step, step == 35, (double)step);
    assert_int_equal(lines, 5); /* steps 6, 10, 20, 30, 35 */
}
