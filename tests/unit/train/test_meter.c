/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * What the trainer's meter counts, against arithmetic by hand: time in which steps waited for checkpoints,
 * each second once, and start-ups that never reached a step. */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/train/loop/trainer_loop.h"

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-4))
        fail_msg("%.17g, expected %.17g", got, want);
}

/* A checkpoint holds up the steps while it is begun and while the device's queue reads its tensors; at the
 * end of a run, until it is complete. */
TEST(a_second_counts_once_as_saving)
{
    clt_loop l = {.reports = true};
    clt_meter_saving(&l, 100, 102); /* the save begins, and steps continue at 102 ... */
    clt_meter_saving(&l, 101, 105); /* ... but wait for reads until 105, which is known later */
    near(l.meter.saving_s, 5);
    clt_meter_saving(&l, 200, 200.5); /* begun and read at once */
    clt_meter_saving(&l, 200, 200.25);
    near(l.meter.saving_s, 5.5);
    clt_meter_saving(&l, 301, 304); /* reads within the final wait for a save, from 300 to 310 */
    clt_meter_saving(&l, 300, 310);
    near(l.meter.saving_s, 5.5 + 3 + 6);
}

static clt_config *config_of(const char *price)
{
    static const char *const text =
        "{\"model\":{\"type\":\"mlp\",\"hidden\":[2]},\"data\":{\"type\":\"synthetic\",\"samples\":8,"
        "\"shape\":[4],\"classes\":2},\"train\":{\"steps\":5}}";
    const char *overrides[] = {price};
    clt_config *config = NULL;
    char path[300];
    snprintf(path, sizeof path, "%s/c.json", test_folder());
    assert_ok(clt_file_write(path, text, strlen(text)));
    assert_ok(clt_config_load(path, overrides, 1, &config));
    return config;
}

/* A start-up that does not end, as if killed, leaves a file that the next start-up counts. */
TEST(start_ups_that_were_cut_short_add_up)
{
    char mark[300], lock[300];
    snprintf(mark, sizeof mark, "%s/startup.json", test_folder());
    snprintf(lock, sizeof lock, "%s/lock", test_folder());
    CLT_SCOPED(clt_config) *config = config_of("cost.per_hour=7200"); /* 2 a second */
    const clt_run_options options = {.config = config, .out_dir = test_folder()};
    const double begin = clt_now();
    clt_loop l = {.reports = true, .options = &options, .meter = {.began = begin - 100}};
    assert_ok(clt_lock_acquire(lock, &l.lock));
    assert_ok(clt_startup_begin(&l));
    assert_int_equal(l.meter.starts_cut, 0);
    clt_startup_leave(&l);
    assert_true(clt_file_exists(mark));
    const double first = clt_now() - begin; /* the start-up took no longer */
    clt_loop second = {
        .reports = true, .options = &options, .lock = l.lock, .meter = {.began = clt_now() - 10}};
    assert_ok(clt_startup_begin(&second));
    assert_int_equal(second.meter.starts_cut, 1);
    assert_true(second.meter.cut_seconds >= 100 && second.meter.cut_seconds <= 100 + first + 1e-5);
    near(second.meter.cut_total, 2 * second.meter.cut_seconds);
    clt_startup_leave(&second);
    clt_loop third = {.reports = true, .options = &options, .lock = l.lock, .meter = {.began = clt_now()}};
    assert_ok(clt_startup_begin(&third));
    assert_int_equal(third.meter.starts_cut, 2);
    assert_true(third.meter.cut_seconds >= 110);
    near(third.meter.cut_total, 2 * third.meter.cut_seconds);
    /* a start-up that reaches its first step takes over the sums */
    clt_startup_over(&third);
    assert_false(clt_file_exists(mark));
    clt_loop fourth = {.reports = true, .options = &options, .lock = l.lock, .meter = {.began = clt_now()}};
    assert_ok(clt_startup_begin(&fourth));
    assert_int_equal(fourth.meter.starts_cut, 0);
    clt_startup_over(&fourth);
    /* a damaged file says nothing */
    static const char *const texts[] = {"", "{", "7", "{\"count\":-1,\"seconds\":\"x\",\"cost\":1e300}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        clt_loop damaged = {
            .reports = true, .options = &options, .lock = l.lock, .meter = {.began = clt_now()}};
        assert_ok(clt_file_write(mark, texts[i], strlen(texts[i])));
        assert_ok(clt_startup_begin(&damaged));
        assert_true(damaged.meter.starts_cut == 0 && damaged.meter.cut_total == 0);
        clt_startup_over(&damaged);
    }
    clt_lock_release(l.lock);
}

/* Without a price no loss is counted, and nothing is written to a folder that is not the run's. */
TEST(nothing_is_noted_without_a_price_or_a_run)
{
    char mark[300], lock[300];
    snprintf(mark, sizeof mark, "%s/startup.json", test_folder());
    snprintf(lock, sizeof lock, "%s/lock", test_folder());
    CLT_SCOPED(clt_config) *free_of = config_of("cost.per_hour=0"), *priced = config_of("cost.per_hour=1");
    clt_run_options options = {.config = free_of, .out_dir = test_folder()};
    clt_loop l = {.reports = true, .options = &options};
    assert_ok(clt_lock_acquire(lock, &l.lock));
    assert_ok(clt_startup_begin(&l));
    assert_false(clt_file_exists(mark));
    clt_lock_release(CLT_TAKE(l.lock));
    options.config = priced;
    assert_ok(clt_startup_begin(&l));
    assert_false(clt_file_exists(mark));
}

TEST_PROGRAM(.fresh_folder = true);
