/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule that compares the times of two runs, with random times: an unchanged device does not fail, a
 * command that takes 10 % longer is found, and a machine that became slower does not count as a slower
 * kernel. */
#include <math.h>
#include <string.h>

#include "cli/verify/verify_speed.h"
#include "engine/base/rng.h"
#include "tests/unit/test.h"

static double normal(uint32_t *draw)
{
    return clt_rng_normal(7, CLT_RNG_INIT, 0, 0, (*draw)++);
}

/* Times of n processes around `ns`, with a relative standard deviation. machine: the factor by which memory
 * and arithmetic are slower, too. */
static verify_speed make(uint32_t *draw, int n, double ns, double deviation, double machine)
{
    verify_speed s = {.what = "forward", .n = n};
    for (int i = 0; i < n; i++) {
        double own = exp(deviation * normal(draw));
        s.ns[i] = ns * machine * own;
        s.bytes[i] = 40.0 * ns * own * exp(0.5 * deviation * normal(draw));
        s.flops[i] = 200.0 * ns * own * exp(0.5 * deviation * normal(draw));
    }
    return s;
}

/* How many of 2000 pairs of runs, with as many processes as a run starts, get this verdict for the second
 * run. */
static int count(verify_pace_kind kind, double factor, double deviation, double machine)
{
    uint32_t draw = 0;
    int found = 0;
    for (int i = 0; i < 2000; i++) {
        verify_speed then = make(&draw, VERIFY_RECORDED, 1e6, deviation, 1.0);
        verify_speed now = make(&draw, VERIFY_MOST_PROCESSES, 1e6 * factor, deviation, machine);
        verify_pace pace = {0};
        for (now.n = VERIFY_PROCESSES; now.n < VERIFY_MOST_PROCESSES; now.n += VERIFY_PROCESSES)
            if (!verify_seems_slower(&then, 1, &now, 1))
                break;
        pace = verify_pace_of(&then, &now);
        found += pace.kind == kind;
    }
    return found;
}

TEST(test_unchanged_never_fails)
{
    for (double deviation = 0.005; deviation < 0.5; deviation *= 2)
        assert_int_equal(count(VERIFY_PACE_SLOWER, 1.0, deviation, 1.0), 0);
}

TEST(test_ten_percent_are_found)
{
    assert_true(count(VERIFY_PACE_SLOWER, 1.1, 0.005, 1.0) >= 1990);
    assert_true(count(VERIFY_PACE_SLOWER, 1.1, 0.01, 1.0) >= 1990);
    assert_true(count(VERIFY_PACE_SLOWER, 1.1, 0.02, 1.0) >= 1900);
    assert_true(count(VERIFY_PACE_FASTER, 1.0 / 1.1, 0.005, 1.0) >= 1990);
}

TEST(test_slower_machine_is_no_slower_kernel)
{
    assert_int_equal(count(VERIFY_PACE_SLOWER, 1.0, 0.01, 1.5), 0);
    assert_true(count(VERIFY_PACE_SLOWER, 1.2, 0.01, 1.5) >= 1990);
}

/* Times that vary too much are reported, and do not count as unchanged. */
TEST(test_noise_is_told)
{
    uint32_t draw = 1000;
    verify_speed then = make(&draw, 5, 1e6, 0.2, 1.0), now = make(&draw, 5, 1e6, 0.2, 1.0);
    assert_int_equal(verify_pace_of(&then, &now).kind, VERIFY_PACE_UNSURE);
    then.n = now.n = 1;
    assert_int_equal(verify_pace_of(&then, &now).kind, VERIFY_PACE_UNSURE);
}

TEST(test_slowest_is_named)
{
    uint32_t draw = 2000;
    verify_speed then[2] = {make(&draw, 5, 1e6, 0.005, 1.0), make(&draw, 5, 1e5, 0.005, 1.0)};
    verify_speed now[3] = {make(&draw, 5, 1.3e6, 0.005, 1.0), make(&draw, 5, 2e5, 0.005, 1.0),
                           make(&draw, 5, 9e6, 0.005, 1.0)};
    verify_pace pace;
    int unsure = 0;
    strcpy(then[1].what, "forward/a");
    strcpy(now[1].what, "forward/a");
    strcpy(now[2].what, "forward/new"); /* missing in the earlier run */
    assert_ptr_equal(verify_slowest(then, 2, now, 3, &pace, &unsure), &now[1]);
    assert_float_equal(pace.ratio, 2.0, 0.05);
    assert_int_equal(unsure, 0);
    assert_null(verify_slowest(now, 3, now, 3, &pace, &unsure));
    assert_false(verify_has_faster(then, 2, now, 3));
    assert_true(verify_has_faster(now, 3, then, 2));
}
