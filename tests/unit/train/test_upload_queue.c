/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * The queue of uploads: in which order checkpoints are uploaded, which ones wait no longer, and that none
 * waits for one that never succeeds. */
#include "tests/unit/test.h"

#include "engine/train/saved/upload_queue.h"

static clt_upload_queue queue = CLT_UPLOAD_QUEUE_EMPTY;

static int tear_down(void **state)
{
    (void)state;
    clt_upload_queue_free(&queue);
    queue.major = 0;
    return 0;
}

TEST_PROGRAM(.after = tear_down);

static void add(int64_t step)
{
    assert_ok(clt_upload_queue_add(&queue, &(clt_due_upload){.step = step}));
}

/* Takes the next one; -1: there is none. */
static int64_t take(void)
{
    clt_due_upload due;
    return clt_upload_queue_take(&queue, &due) ? due.step : -1;
}

static void refuse(int64_t step)
{
    assert_int_equal(take(), step);
    assert_ok(clt_upload_queue_add(&queue, &(clt_due_upload){.step = step, .tried = true, .told = true}));
}

static void succeed(int64_t step)
{
    assert_int_equal(take(), step);
    clt_upload_queue_arrived(&queue, step);
}

TEST(only_the_newest_waits_beside_what_stays)
{
    queue.major = 20;
    for (int64_t step = 10; step <= 60; step += 10)
        add(step);
    queue.best = 50;
    add(60);
    assert_int_equal(queue.count, 3); /* 50 was replaced before it was the best one */
    add(50);
    assert_int_equal(queue.count, 4);
    succeed(60);
    succeed(50);
    succeed(20);
    succeed(40);
    assert_int_equal(take(), -1);
}

/* The steps 20 to 50 wait: 20 and 40 are multiples of major, 30 is the best one, 50 the newest. */
static void add_four(void)
{
    queue.major = 20;
    queue.best = 30;
    for (int64_t step = 20; step <= 50; step += 10)
        add(step);
}

TEST(none_waits_for_a_newest_one_that_always_fails)
{
    add_four();
    refuse(50);
    succeed(30);
    refuse(50); /* the newest again, since something has succeeded */
    succeed(20);
    refuse(50);
    succeed(40);
    refuse(50);
    assert_int_equal(take(), -1); /* the pause */
    assert_true(clt_upload_queue_told(&queue));
    clt_upload_queue_again(&queue);
    refuse(50);
    add(55);
    assert_false(clt_upload_queue_told(&queue)); /* the newer one has replaced it */
    succeed(55);
    assert_int_equal(take(), -1);
}

TEST(the_others_do_not_wait_for_a_best_one_that_always_fails)
{
    add_four();
    succeed(50);
    refuse(30);
    succeed(20);
    refuse(30);
    succeed(40);
    refuse(30);
    assert_null(clt_upload_queue_next(&queue));
    clt_upload_queue_again(&queue);
    assert_int_equal(clt_upload_queue_next(&queue)->step, 30);
}
