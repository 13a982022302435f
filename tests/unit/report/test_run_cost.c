/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * What runs cost: sums over sessions with simulated times against arithmetic by hand, sessions that were
 * killed, repeated steps, facts for reports, and lines that no run would write. */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/files/fileio.h"
#include "engine/report/read/run_facts.h"

static const char *file_of(const char *lines)
{
    static char path[300];
    (void)snprintf(path, sizeof path, "%s/metrics.jsonl", test_folder());
    assert_ok(clt_file_write(path, lines, strlen(lines)));
    return path;
}

/* The events and lines that a trainer would write: times are seconds of a session. */
static void start(clt_str *out, const clt_cost *c, int step)
{
    clt_str_printf(out,
                   "{\"event\":\"start\",\"step\":%d,\"time\":5,\"steps_total\":30,\"cost\":{\"total\":%.17g,"
                   "\"lost\":%.17g,\"seconds\":%.17g,\"startup_s\":%.17g,\"repeated_s\":%.17g,"
                   "\"saving_s\":%.17g,\"per_hour\":%.17g,\"on_demand_per_hour\":10,\"machines\":%lld,"
                   "\"currency\":\"EUR\",\"step_tokens\":1000,\"step_samples\":10,\"epoch_steps\":7.5}}\n",
                   step, c->sums.total, c->sums.lost, c->sums.seconds, c->sums.startup_s, c->sums.repeated_s,
                   c->sums.saving_s, c->terms.per_hour, (long long)c->terms.machines);
}

static void finish(clt_str *out, const clt_cost *c, const char *event, int step)
{
    clt_str_printf(out,
                   "{\"event\":\"%s\",\"step\":%d,\"time\":9,\"cost\":{\"total\":%.17g,\"lost\":%.17g,"
                   "\"seconds\":%.17g,\"startup_s\":%.17g,\"repeated_s\":%.17g,\"saving_s\":%.17g}}\n",
                   event, step, c->sums.total, c->sums.lost, c->sums.seconds, c->sums.startup_s,
                   c->sums.repeated_s, c->sums.saving_s);
}

static clt_cost after(const clt_cost *c, double seconds, double startup, double saving)
{
    clt_cost now = *c;
    clt_cost_add(&now, seconds, startup, saving);
    return now;
}

/* Steps of 20 s each, the first of which ends 20 s after the start-up. */
static void steps(clt_str *out, const clt_cost *c, double startup, int first, int last)
{
    for (int i = first; i <= last; i++)
        clt_str_printf(out, "{\"step\":%d,\"update\":%d,\"loss\":1,\"step_ms\":20000,\"cost\":%.17g}\n", i, i,
                       after(c, startup + 20 * (i - first + 1), startup, 0).sums.total);
}

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * fabs(want) + 1e-12))
        fail_msg("%.17g, expected %.17g", got, want);
}

TEST(three_sessions_cost_what_the_hand_computes)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_cost c = {.terms = {.per_hour = 3.6, .machines = 2}}, read; /* 0.002 a second */
    clt_run_record *record;
    /* the first session starts up in 100 s, makes 10 steps and is killed; step 6 was saved */
    clt_cost now = after(&c, 100, 100, 0);
    start(&text, &now, 0);
    steps(&text, &c, 100, 1, 10);
    assert_ok(clt_cost_read(file_of(text.text), 6, &read));
    near(read.sums.seconds, 300);
    near(read.sums.total, 0.6);
    near(read.sums.startup_s, 100);
    near(read.sums.repeated_s, 80);
    near(read.sums.lost, 0.36);
    /* the second costs 0.001 a second, starts up in 40 s, reaches step 20 and stops for 5 s to save */
    c = read;
    c.terms.per_hour = 3.6;
    c.terms.machines = 1;
    now = after(&c, 40, 40, 0);
    start(&text, &now, 6);
    steps(&text, &c, 40, 7, 20);
    now = after(&c, 40 + 280 + 5, 40, 5);
    finish(&text, &now, "stopped", 20);
    assert_ok(clt_cost_read(file_of(text.text), 20, &read));
    near(read.sums.seconds, 625);
    near(read.sums.total, 0.925);
    near(read.sums.lost, 0.405);
    /* the third costs 0.003 a second and makes the other steps */
    c = read;
    c.terms.per_hour = 5.4;
    c.terms.machines = 2;
    now = after(&c, 60, 60, 0);
    start(&text, &now, 20);
    steps(&text, &c, 60, 21, 30);
    now = after(&c, 60 + 200 + 10, 60, 10);
    finish(&text, &now, "end", 30);
    assert_ok(clt_run_record_load(file_of(text.text), &record));
    const clt_run_facts f = clt_run_facts_of(record);
    near(record->cost.sums.seconds, 895);
    near(f.value[CLT_FACT_COST], 1.735);
    near(f.value[CLT_FACT_COST_LOST], 0.615);
    near(f.value[CLT_FACT_GOODPUT], 600.0 / 895);              /* 30 steps of 20 s count */
    near(f.value[CLT_FACT_COST_MILLION], 1.735 / 30000 * 1e6); /* 30 steps of 1000 tokens */
    near(f.value[CLT_FACT_COST_EPOCH], 1.735 / 30 * 7.5);
    near(f.value[CLT_FACT_SPOT_SAVING], 0.46);
    assert_true(isnan(f.value[CLT_FACT_COST_THOUSAND])); /* text is counted in tokens */
    assert_true(isnan(f.value[CLT_FACT_COST_TO_FINISH]));
    assert_string_equal(record->cost.terms.currency, "EUR");
    assert_true(clt_fact_is_told(CLT_FACT_COST, &f, 1));
    clt_run_record_free(record);
}

/* A session without a price: a step's cost follows from the steps that have a price. */
TEST(a_price_that_comes_late_pays_for_its_own_steps)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_cost c = {.terms = {.per_hour = 3.6, .machines = 2}}, read; /* 0.002 a second */
    clt_run_record *record;
    clt_str_append(&text, "{\"event\":\"start\",\"step\":0,\"time\":5,\"steps_total\":30}\n");
    for (int i = 1; i <= 20; i++)
        clt_str_printf(&text, "{\"step\":%d,\"update\":%d,\"loss\":1,\"step_ms\":20000}\n", i, i);
    assert_ok(clt_cost_read(file_of(text.text), 18, &read));
    assert_int_equal(read.paid_steps, 0);
    clt_cost now = after(&c, 10, 10, 0);
    start(&text, &now, 18);
    steps(&text, &c, 10, 19, 23);
    assert_ok(clt_cost_read(file_of(text.text), 21, &read));
    assert_int_equal(read.paid_steps, 3);
    assert_ok(clt_run_record_load(file_of(text.text), &record));
    assert_int_equal(record->cost.paid_steps, 5);
    near(clt_run_facts_of(record).value[CLT_FACT_COST], 0.22);
    near(clt_run_facts_of(record).value[CLT_FACT_COST_MILLION], 0.22 / 5000 * 1e6);
    near(clt_run_facts_of(record).value[CLT_FACT_COST_EPOCH], 0.22 / 5 * 7.5);
    clt_run_record_free(record);
}

TEST(a_run_on_its_way_knows_what_the_rest_costs)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_cost c = {.terms = {.per_hour = 3.6, .machines = 2}}, now = after(&c, 100, 100, 0);
    clt_run_record *record;
    start(&text, &now, 0);
    steps(&text, &c, 100, 1, 10);
    assert_ok(clt_run_record_load(file_of(text.text), &record));
    near(clt_run_facts_of(record).value[CLT_FACT_COST_TO_FINISH], 20 * 20 * 0.002);
    clt_run_record_free(record);
}

/* Without a checkpoint a run begins again, and its file keeps the lines of the earlier steps, which were
 * paid for. */
TEST(steps_are_counted_as_repeated_once)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_cost c = {.terms = {.per_hour = 3.6, .machines = 2}}, read, now = after(&c, 10, 10, 0);
    start(&text, &now, 0);
    steps(&text, &c, 10, 1, 5);
    assert_ok(clt_cost_read(file_of(text.text), 0, &read));
    near(read.sums.repeated_s, 100);
    now = after(&read, 10, 10, 0);
    start(&text, &now, 0);
    steps(&text, &read, 10, 1, 3);
    assert_ok(clt_cost_read(file_of(text.text), 0, &read));
    near(read.sums.repeated_s, 160);
    near(read.sums.seconds, 110 + 70);
}

/* Seven sessions of 100 s with a checkpoint that takes 2 s in each. Some of their ends count as
 * interruptions. */
TEST(the_interval_counts_what_the_user_did_not_end)
{
    static const struct {
        const char *event, *reason;
        int unwanted_ends; /* interruptions so far, including this end */
    } ends[] = {{"stopped", "SIGINT", 0},
                {"end", NULL, 0},
                {"stopped", "a file STOP in the run folder", 0},
                {"stopped", "SIGTERM", 1},
                {"stopped", "cost.budget is reached", 1},
                {"stopped", "a notice that a machine will be taken away", 2},
                {NULL, NULL, 3}};
    CLT_SCOPED(clt_str) text = {0};
    clt_cost c = {.terms = {.per_hour = 3.6, .machines = 1}};
    for (int i = 0; i < 7; i++) {
        clt_run_record *record;
        start(&text, &c, i);
        c = after(&c, 100, 10, 2);
        finish(&text, &c, "saved", i + 1);
        if (ends[i].event)
            clt_str_printf(&text, "{\"event\":\"%s\",\"step\":%d,\"time\":9,\"reason\":\"%s\"}\n",
                           ends[i].event, i + 1, ends[i].reason ? ends[i].reason : "");
        assert_ok(clt_run_record_load(file_of(text.text), &record));
        if (ends[i].unwanted_ends > 0)
            near(clt_run_save_interval(record), sqrt(2 * 2 * 100.0 * (i + 1) / ends[i].unwanted_ends));
        else
            assert_true(isnan(clt_run_save_interval(record)));
        clt_run_record_free(record);
    }
}

TEST(start_ups_that_were_cut_short_are_paid)
{
    clt_cost c = {.terms = {.per_hour = 3600, .machines = 1}};
    clt_cost_add(&c, 100, 20, 5);
    clt_cost_cut(&c, 30, 60); /* at twice today's price */
    near(c.sums.seconds, 130);
    near(c.sums.startup_s, 50);
    near(c.sums.total, 160);
    near(c.sums.lost, 85);
    near(clt_cost_goodput(&c.sums), 75.0 / 130);
}

TEST(without_a_price_nothing_is_told)
{
    clt_cost read;
    clt_run_record *record;
    const char *lines =
        "{\"event\":\"start\",\"step\":0,\"time\":1}\n"
        "{\"step\":1,\"loss\":2,\"step_ms\":5000,\"cost\":7}\n{\"event\":\"end\",\"step\":1}\n";
    assert_ok(clt_cost_read(file_of(lines), 0, &read));
    assert_true(read.sums.total == 0 && read.sums.seconds == 0 && read.sums.repeated_s == 0);
    assert_ok(clt_run_record_load(file_of(lines), &record));
    const clt_run_facts f = clt_run_facts_of(record);
    for (clt_fact k = CLT_FACT_COST; k < CLT_FACT_COUNT; k++) {
        assert_true(isnan(f.value[k]));
        assert_false(clt_fact_is_told(k, &f, 1));
    }
    assert_true(clt_fact_is_told(CLT_FACT_PERPLEXITY, &f, 1)); /* its null is part of the format */
    clt_run_record_free(record);
}

TEST(numbers_that_no_run_writes_are_ignored)
{
    static const char *const costs[] = {
        "7",
        "[]",
        "null",
        "\"x\"",
        "{\"total\":-1,\"seconds\":\"5\",\"per_hour\":null}",
        "{\"total\":1e300,\"per_hour\":-2,\"machines\":-5,\"currency\":7}",
        "{\"currency\":\"0123456789012345678901234567890123456789\",\"machines\":1e300}"};
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        CLT_SCOPED(clt_str) text = {0};
        clt_cost read;
        clt_str_printf(
            &text,
            "{\"event\":\"start\",\"step\":0,\"cost\":{\"per_hour\":3600,\"total\":2,\"machines\":1}}\n"
            "{\"event\":\"saved\",\"step\":1,\"cost\":%s}\n"
            "{\"event\":5,\"step\":1}\n"
            "{\"step\":2,\"loss\":1,\"cost\":1e300}\n{\"step\":3,\"loss\":1,\"cost\":-4}\n"
            "{\"step\":4,\"loss\":1,\"cost\":null}\n{\"step\":5,\"loss\":1,\"cost\":3}\n",
            costs[i]);
        assert_ok(clt_cost_read(file_of(text.text), 9, &read));
        near(read.sums.total, 3);
        near(read.sums.seconds, 1);
        near(clt_cost_rate(&read.terms), 1);
    }
}

TEST(money_and_intervals)
{
    char text[CLT_MONEY_TEXT];
    assert_string_equal(clt_money_text(1234.567, "USD", text), "1234.57 USD");
    assert_string_equal(clt_money_text(0.0123456, "", text), "0.01235");
    assert_string_equal(clt_money_text(0, "EUR", text), "0 EUR");
    near(clt_cost_interval(2, 7200), 169.70562748477141);
    assert_true(isnan(clt_cost_interval(0, 5)) && isnan(clt_cost_interval(5, INFINITY)) &&
                isnan(clt_cost_interval(NAN, 1)));
    assert_true(isnan(clt_cost_goodput(&(clt_cost_sums){0})));
    const clt_cost none = {.sums = {.total = 0}, .paid_steps = 5}, idle = {.sums = {.total = 5}};
    assert_true(isnan(clt_cost_of(&none, 5, 1)) && isnan(clt_cost_of(&idle, 1, 1)));
}

TEST_PROGRAM(.fresh_folder = true);
