/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * The deadline of ordinary steps: the config's, or 20 times the median of the newest steps, at least a
 * minute. */
#include "tests/unit/test.h"

#include "engine/train/ranks/deadline.h"

TEST(steps_decide_unless_it_is_set)
{
    clt_deadline d = {.start = 600};
    int64_t step = 0;
    assert_true(clt_deadline_plain(&d) == 600); /* no step yet */
    for (int i = 0; i < 40; i++)
        clt_deadline_step(&d, ++step, 0.5);
    assert_true(clt_deadline_plain(&d) == 60);
    clt_deadline_step(&d, ++step, 900); /* one slow step changes nothing */
    assert_true(clt_deadline_plain(&d) == 60);
    for (int i = 0; i < CLT_DEADLINE_STEPS; i++)
        clt_deadline_step(&d, ++step, i % 2 ? 9 : 11);
    assert_true(clt_deadline_plain(&d) == 220); /* 16 of 31 steps took 11 s */
    d.asked = 7;
    assert_true(clt_deadline_plain(&d) == 7);
}
