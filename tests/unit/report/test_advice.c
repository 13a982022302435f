/* SPDX-License-Identifier: Apache-2.0
 *
 * The advice line's rules, one case each. ctest-labels: quick */
#include "tests/unit/test.h"

#include "engine/report/times/advice.h"

/* A run without a problem: 100 ms per step, of which the device is idle for 2 ms. */
static const clt_advice_facts fine = {.steps = 200,
                                      .step_ms = 100,
                                      .idle_host_ms = 2,
                                      .load_ms = 30,
                                      .workers = 1,
                                      .prefetch = 4,
                                      .cpus = 8,
                                      .micro_batch = 16,
                                      .global_batch = 16,
                                      .accumulation = 1,
                                      .ranks = 1,
                                      .commands = 50};

static void expect(const clt_advice_facts *f, clt_advice_kind kind, const char *const *parts)
{
    char text[512] = "?";
    clt_advice_kind got = clt_advice(f, text, sizeof text);
    if (got != kind)
        fail_msg("kind %d instead of %d: %s", (int)got, (int)kind, text);
    if ((kind == CLT_ADVICE_NONE) != (text[0] == '\0'))
        fail_msg("kind %d says '%s'", (int)kind, text);
    if (strchr(text, '\n'))
        fail_msg("more than one line: %s", text);
    for (; parts && *parts; parts++)
        if (!strstr(text, *parts))
            fail_msg("'%s' is not in: %s", *parts, text);
}
#define EXPECT(f, kind, ...) expect(f, kind, (const char *const[]){__VA_ARGS__, NULL})

TEST(test_none)
{
    clt_advice_facts f = fine;
    expect(&f, CLT_ADVICE_NONE, NULL);
    f.idle_host_ms = 9.9;
    expect(&f, CLT_ADVICE_NONE, NULL);
    /* waiting for data costs nothing while the device is busy */
    f.data_ms = 90;
    expect(&f, CLT_ADVICE_NONE, NULL);
    f = fine;
    f.idle_host_ms = 60;
    f.steps = CLT_ADVICE_STEPS - 1;
    expect(&f, CLT_ADVICE_NONE, NULL);
    f.steps = 8000;
    f.step_ms = 0.1; /* 0.06 ms a step are half a second in 8000 steps, not enough */
    f.idle_host_ms = 0.06;
    expect(&f, CLT_ADVICE_NONE, NULL);
    f.steps = 9000;
    EXPECT(&f, CLT_ADVICE_MICRO_BATCH, "60 %");
    f.step_ms = 0;
    expect(&f, CLT_ADVICE_NONE, NULL);
}

/* A device without time stamps, whose driver reports its utilization. */
TEST(test_utilization)
{
    clt_advice_facts f = fine;
    f.idle_host_ms = 0;
    clt_advice_count(&f, 0.7, 0); /* busy */
    expect(&f, CLT_ADVICE_NONE, NULL);
    clt_advice_count(&f, 1, 50);
    expect(&f, CLT_ADVICE_NONE, NULL);
    clt_advice_count(&f, 0.69, 0);
    EXPECT(&f, CLT_ADVICE_MICRO_BATCH, "used 69 % of the time", "31 ms of 100 ms", "data.micro_batch=32");
    f.data_ms = 60;
    f.load_ms = 90; /* the device needs 40 ms: three threads */
    clt_advice_count(&f, 0.4, 0);
    EXPECT(&f, CLT_ADVICE_WORKERS, "used 40 % of the time", "data.workers=3");
    f.workers = 4;
    clt_advice_count(&f, 0.4, 0);
    EXPECT(&f, CLT_ADVICE_PREFETCH, "data.prefetch=8");
    f = fine;
    f.ranks = 4;
    f.global_batch = 64;
    clt_advice_count(&f, 0.3, 65);
    EXPECT(&f, CLT_ADVICE_ACCUMULATE, "waiting for the other ranks", "data.global_batch=128");
    f.double_misfits = true;
    clt_advice_count(&f, 0.3, 1);
    EXPECT(&f, CLT_ADVICE_ACCUMULATE, "twice data.micro_batch does not fit");
}

TEST(test_workers)
{
    clt_advice_facts f = fine;
    f.idle_host_ms = 0;
    f.idle_input_ms = 75;
    f.data_ms = 80;
    f.load_ms = 70; /* the device needs 25 ms: three threads */
    EXPECT(&f, CLT_ADVICE_WORKERS, "75 %", "75 ms of 100 ms", "a thread loads a micro-batch in 70 ms",
           "data.workers=3", "now 1");
    f.prefetch = 2; /* only two micro-batches are in work, however many threads there are */
    EXPECT(&f, CLT_ADVICE_WORKERS, "data.workers=3 (now 1)");
    f = fine;
    f.idle_input_ms = 60;
    f.data_ms = 60;
    f.accumulation = 4; /* four micro-batches have 40 ms, less the device's other idle time */
    f.load_ms = 19;
    EXPECT(&f, CLT_ADVICE_WORKERS, "data.workers=2");
    f.idle_input_ms = f.data_ms = 98; /* the device was never busy, so its need is not known */
    f.load_ms = 98;
    f.cpus = 2;
    EXPECT(&f, CLT_ADVICE_WORKERS, "data.workers=8"); /* at most four a core */
}

TEST(test_data_is_the_limit)
{
    clt_advice_facts f = fine;
    f.idle_input_ms = 80;
    f.data_ms = 80;
    f.load_ms = 5000;
    f.cpus = 2;
    f.workers = 8;
    f.prefetch = 16;
    EXPECT(&f, CLT_ADVICE_DATA, "8 threads run on 2 cores", "more data.workers will not help");
}

TEST(test_prefetch)
{
    clt_advice_facts f = fine;
    f.idle_input_ms = 30;
    f.data_ms = 30;
    f.workers = 4;
    f.load_ms = 60; /* one thread would do: the data comes unevenly */
    EXPECT(&f, CLT_ADVICE_PREFETCH, "data.prefetch=8", "now 4", "4 threads");
    f.prefetch = 40;
    EXPECT(&f, CLT_ADVICE_PREFETCH, "data.prefetch=64");
    f.prefetch = 64;
    f.load_ms = 60;
    expect(&f, CLT_ADVICE_DATA, NULL);
}

TEST(test_communication)
{
    clt_advice_facts f = fine;
    f.ranks = 4;
    f.idle_comm_ms = 40;
    f.idle_host_ms = 5;
    f.global_batch = 128;
    f.accumulation = 2;
    EXPECT(&f, CLT_ADVICE_ACCUMULATE, "data.global_batch=256", "now 128", "4 micro-batches", "gradients");
    f.ranks = 1; /* then the device cannot have waited for other ranks */
    EXPECT(&f, CLT_ADVICE_MICRO_BATCH, "data.micro_batch=32");
}

TEST(test_host)
{
    clt_advice_facts f = fine;
    f.idle_host_ms = 50;
    f.idle_input_ms = 10; /* before the input, too, though the data was ready */
    EXPECT(&f, CLT_ADVICE_MICRO_BATCH, "60 %", "50 commands of 800 us", "data.micro_batch=32",
           "data.global_batch=32", "changes the batch");
    f.step_ms = 4000; /* times are given in a unit without an exponent */
    f.idle_host_ms = 2730;
    f.commands = 1000;
    EXPECT(&f, CLT_ADVICE_MICRO_BATCH, "(2.7 s of 4.0 s a step)", "1000 commands of 1.3 ms on average");
    f = fine;
    f.idle_host_ms = 60;
    f.accumulation = 2;
    f.global_batch = 32;
    EXPECT(&f, CLT_ADVICE_MICRO_BATCH, "data.micro_batch=32 (now 16)", "the same data.global_batch");
    f.double_misfits = true;
    EXPECT(&f, CLT_ADVICE_ACCUMULATE, "does not fit", "data.global_batch=64 (now 32)");
    f.double_misfits = false;
    f.ranks = 2;
    f.global_batch =
        48; /* one rank has two micro-batches, the other one; half of that would be one and a half */
    EXPECT(&f, CLT_ADVICE_MICRO_BATCH, "data.micro_batch=32 data.global_batch=96");
}
