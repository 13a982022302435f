/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Groups of ranks, requests and their order, deadlines. */
#include <sched.h>
#include <sys/resource.h>

#include "tests/unit/comm/thread_ranks.h"

/* --- groups --- */

static void groups_of_ranks(comm *c, void *context)
{
    const comm_info *info = comm_describe(c);
    comm *half = NULL, *back = NULL, *none = NULL;
    (void)context;
    /* one group of odd and one of even ranks, in reverse order; the last rank is in neither */
    int last = info->ranks - 1, colour = info->rank == last ? -1 : info->rank % 2;
    EXPECT(comm_split(c, colour, -info->rank, &half) == CLT_OK && (half != NULL) == (colour >= 0));
    if (half) {
        int members = (last - info->rank % 2 + 1) / 2;
        EXPECT(comm_describe(half)->ranks == members);
        EXPECT(comm_describe(half)->rank == members - 1 - info->rank / 2);
        int64_t sum = info->rank;
        EXPECT(comm_all_reduce(half, &sum, 1, COMM_I64, COMM_SUM) == CLT_OK);
        EXPECT(sum == (int64_t)members * (members - 1) + members * (info->rank % 2));
    }
    /* requests of several groups in flight together, in one order */
    float x[8], y[8];
    comm_request *r[2] = {NULL, NULL};
    for (int i = 0; i < 8; i++) {
        x[i] = (float)info->rank;
        y[i] = 1;
    }
    EXPECT(comm_all_reduce_post(c, x, 8, COMM_F32, COMM_SUM, &r[0]) == CLT_OK);
    if (half)
        EXPECT(comm_all_reduce_post(half, y, 8, COMM_F32, COMM_SUM, &r[1]) == CLT_OK);
    if (half)
        comm_request_ready(r[1], true);
    comm_request_ready(r[0], true);
    EXPECT(comm_request_wait(r[0]) == CLT_OK && x[7] == (float)(info->ranks * (info->ranks - 1) / 2));
    if (half)
        EXPECT(comm_request_wait(r[1]) == CLT_OK && y[0] == (float)comm_describe(half)->ranks);
    EXPECT(comm_split(c, 3, 0, &back) == CLT_OK && comm_describe(back)->rank == info->rank);
    EXPECT(comm_split(c, -1, 0, &none) == CLT_OK && !none);
    comm_destroy(back);
    comm_destroy(half);
}

TEST(groups_work_beside_each_other)
{
    for (int ranks = 3; ranks <= MOST_RANKS; ranks += 2)
        (void)run_ranks(ranks, groups_of_ranks, NULL);
}

/* --- requests --- */

typedef struct trace {
    int order[8], count;
    int number[8];
} trace;
static trace traced;

static clt_status note(void *context)
{
    traced.order[traced.count++ % 8] = *(int *)context;
    return CLT_OK;
}

static clt_status cut(void *context)
{
    (void)context;
    CLT_FAIL(CLT_ECOMM, "the cable was cut");
}

static comm_engine *new_engine(void)
{
    comm_engine *e = NULL;
    clear_wire(1);
    memset(&traced, 0, sizeof traced);
    assert_ok(comm_engine_create(&threads, &e));
    return e;
}

static void assert_text_has(const char *part)
{
    if (!strstr(clt_error_text(), part))
        fail_msg("\"%s\" is not in the message \"%s\"", part, clt_error_text());
}

TEST(requests_run_in_the_order_of_posting)
{
    comm_engine *e = new_engine();
    comm_request r[4];
    memset(r, 0, sizeof r);
    for (int i = 0; i < 4; i++) {
        traced.number[i] = i;
        r[i] = (comm_request){.body = note, .context = &traced.number[i]};
        comm_engine_post(e, &r[i]);
    }
    comm_request_ready(&r[3], true);
    comm_request_ready(&r[1], true);
    usleep(20000);                     /* time in which they could wrongly start */
    assert_int_equal(traced.count, 0); /* the first is not ready, so nothing may start */
    comm_request_ready(&r[0], true);
    assert_ok(comm_engine_finish(&r[1])); /* waits may come in any order */
    assert_int_equal(traced.count, 2);
    comm_request_ready(&r[2], true);
    traced.number[4] = 4;
    assert_ok(comm_engine_run(e, NULL, note, &traced.number[4])); /* behind them */
    assert_int_equal(traced.count, 5);
    assert_ok(comm_engine_finish(&r[3]));
    assert_ok(comm_engine_finish(&r[0]));
    assert_ok(comm_engine_finish(&r[2]));
    for (int i = 0; i < 5; i++)
        assert_int_equal(traced.order[i], i);
    comm_engine_destroy(e);
    assert_int_equal(atomic_load(&wire.finalized), 1);
}

/* Waits, as collectives do, until the flag is set. */
static atomic_bool released, running;
static clt_status wait_for_release(void *context)
{
    comm_engine *e = *(comm_engine **)context;
    int turns = 0;
    atomic_store(&running, true);
    while (!atomic_load(&released))
        CLT_TRY(comm_engine_wait_turn(e, &turns));
    return CLT_OK;
}

/* Starts the slow request, and returns once it runs. */
static void run_slow(comm_request *slow)
{
    atomic_store(&released, false);
    atomic_store(&running, false);
    comm_request_ready(slow, true);
    while (!atomic_load(&running))
        usleep(1000);
}

static clt_status release(void *context)
{
    atomic_store(&released, true);
    return note(context);
}

/* Takes 50 ms, or more. */
static clt_status take_long(void *context)
{
    usleep(50000);
    return release(context);
}

/* The time of an urgent request is not counted again in the request that it interrupts: neither in that
 * one's time in sums nor in its deadline. */
TEST(urgent_time_counts_once)
{
    comm_engine *e = new_engine();
    comm_request slow = {.body = wait_for_release, .context = &e},
                 nested = {.body = take_long, .context = &traced.number[0], .urgent = true};
    comm_engine_post(e, &slow);
    comm_engine_post(e, &nested);
    double begin = clt_now();
    run_slow(&slow);
    comm_request_ready(&nested, true);
    assert_ok(comm_engine_finish(&nested));
    assert_ok(comm_engine_finish(&slow));
    double all = clt_now() - begin;
    assert_true(nested.times.inside >= 0.05);
    assert_true(slow.times.inside > 0 && slow.times.inside + nested.times.inside <= all);
    assert_true(slow.times.since_ready >= nested.times.inside);
    comm_engine_destroy(e);
}

/* How often the communication thread gave up its core voluntarily in 40 turns after the spinning ones.
 * Yields do not count, since they do not sleep. */
static clt_status count_sleeps(void *context)
{
    enum { SPINS = 200, TURNS = 40 };
    struct rusage before, after;
    comm *c = ((void **)context)[0];
    int *sleeps = ((void **)context)[1], turns = SPINS;
    (void)getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < TURNS; i++)
        CLT_TRY(comm_engine_wait_turn(c->engine, &turns));
    (void)getrusage(RUSAGE_THREAD, &after);
    *sleeps = (int)(after.ru_nvcsw - before.ru_nvcsw);
    return CLT_OK;
}

static int sleeps_of_a_rank(void)
{
    comm *c = NULL;
    int sleeps = -1;
    void *context[2] = {NULL, &sleeps};
    assert_ok(comm_create_with(&comm_transport_self, &c));
    context[0] = c;
    assert_ok(comm_engine_run(c->engine, "counting", count_sleeps, context));
    comm_destroy(c);
    return sleeps;
}

/* A communication thread sleeps if it shares its core with threads that compute; it yields if it has a core
 * to itself. */
TEST(crowded_threads_sleep)
{
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int cores = CPU_COUNT(&all), first = 0;
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int crowded = sleeps_of_a_rank();
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_in_range(crowded, 40, 60);
    if (cores > 1)
        assert_in_range(sleeps_of_a_rank(), 0, 10);
}

TEST(urgent_requests_do_not_queue)
{
    comm_engine *e = new_engine();
    for (int i = 0; i < 4; i++)
        traced.number[i] = i;
    comm_request slow = {.body = wait_for_release, .context = &e},
                 behind = {.body = note, .context = &traced.number[2]},
                 first = {.body = note, .context = &traced.number[0], .urgent = true},
                 second = {.body = release, .context = &traced.number[1], .urgent = true};
    comm_engine_post(e, &slow);
    comm_engine_post(e, &behind);
    comm_request_ready(&behind, true);
    run_slow(&slow);
    comm_engine_post(e, &first);
    comm_engine_post(e, &second);
    comm_request_ready(&second, true); /* the order of posting holds */
    usleep(20000);                     /* time in which the second could wrongly start */
    assert_int_equal(traced.count, 0);
    comm_request_ready(&first, true);
    assert_ok(comm_engine_finish(&second));
    assert_ok(comm_engine_finish(&first));
    assert_ok(comm_engine_finish(&slow));
    assert_ok(comm_engine_finish(&behind));
    assert_int_equal(traced.count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(traced.order[i], i);
    assert_true(slow.times.inside < slow.times.since_ready + 1e-3);
    /* an urgent request that fails ends the request that it interrupts */
    comm_request failing = {.body = cut, .urgent = true};
    slow = (comm_request){.body = wait_for_release, .context = &e};
    comm_engine_post(e, &slow);
    comm_engine_post(e, &failing);
    run_slow(&slow);
    comm_request_ready(&failing, true);
    assert_int_equal(comm_engine_finish(&failing), CLT_ECOMM);
    assert_int_equal(comm_engine_finish(&slow), CLT_ECOMM);
    assert_text_has("the cable was cut");
    comm_engine_destroy(e);
}

/* Rank 0 joins the sums only after all urgent requests have ended; the other ranks run these urgent
 * requests inside the sums. */
static void urgent_beside_sums(comm *c, void *context)
{
    enum { COUNT = 300000, ROUNDS = 5 };
    const comm_info *info = comm_describe(c);
    comm *own = NULL;
    comm_request *sum = NULL;
    CLT_FREED float *x = malloc(COUNT * sizeof *x);
    EXPECT(x != NULL && comm_set_algorithm(c, context, COMM_ANY_ORDER) == CLT_OK);
    EXPECT(comm_split_small(c, 0, info->rank, &own) == CLT_OK);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(info->rank + i % 5);
    EXPECT(comm_all_reduce_post(c, x, COUNT, COMM_F32, COMM_SUM, &sum) == CLT_OK);
    if (info->rank > 0)
        comm_request_ready(sum, true);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t told[MOST_RANKS] = {0};
        comm_request *urgent = NULL;
        told[info->rank] = 100 * round + info->rank;
        comm_call call = {.kind = COMM_ALL_GATHER,
                          .data = told,
                          .count = info->ranks,
                          .grain = 1,
                          .type = COMM_I64,
                          .urgent = true};
        EXPECT(comm_post(own, &call, &urgent) == CLT_OK);
        usleep(info->rank == round % info->ranks ? 3000 : 0);
        comm_request_ready(urgent, true);
        EXPECT(comm_request_wait(urgent) == CLT_OK);
        for (int r = 0; r < info->ranks; r++)
            EXPECT(told[r] == 100 * round + r);
    }
    if (info->rank == 0)
        comm_request_ready(sum, true);
    EXPECT(comm_request_wait(sum) == CLT_OK);
    for (int i = 0; i < COUNT; i++)
        EXPECT(x[i] == (float)(info->ranks * (info->ranks - 1) / 2 + info->ranks * (i % 5)));
    /* the group for little data carries long data as well, in more pieces */
    EXPECT(comm_all_reduce(own, x, COUNT, COMM_F32, COMM_MAX) == CLT_OK);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(info->rank + i % 5);
    EXPECT(comm_all_reduce(own, x, COUNT, COMM_F32, COMM_SUM) == CLT_OK);
    for (int i = 0; i < COUNT; i++)
        EXPECT(x[i] == (float)(info->ranks * (info->ranks - 1) / 2 + info->ranks * (i % 5)));
    int64_t first, length;
    comm_share(COUNT, 7, info->ranks, info->rank, &first, &length);
    for (int64_t i = 0; i < COUNT; i++)
        x[i] = i >= first && i < first + length ? (float)(i % 1009) : -1;
    EXPECT(comm_all_gather(own, x, COUNT, 7, COMM_F32) == CLT_OK);
    for (int i = 0; i < COUNT; i++)
        EXPECT(x[i] == (float)(i % 1009));
    comm_call call = {.kind = COMM_BARRIER, .urgent = true};
    EXPECT(comm_post(c, &call, &sum) == CLT_EINTERNAL); /* an urgent call needs a group of its own */
    comm_destroy(own);
}

TEST(urgent_requests_run_inside_sums)
{
    static char ring[] = "ring", slices[] = "slices", nodes[] = "nodes";
    assert_int_equal(run_ranks(3, urgent_beside_sums, ring), 3);
    assert_int_equal(run_ranks(4, urgent_beside_sums, slices), 4);
    assert_int_equal(run_ranks(4, urgent_beside_sums, nodes), 4);
}

TEST(failures_end_all_that_follows)
{
    for (int device = 0; device < 2; device++) {
        comm_engine *e = new_engine();
        comm_request r[2] = {{.body = device ? note : cut, .context = &traced.number[0]},
                             {.body = note, .context = &traced.number[1]}};
        comm_engine_post(e, &r[0]);
        comm_engine_post(e, &r[1]);
        comm_request_ready(&r[1], true);
        comm_request_ready(&r[0], !device);
        assert_int_equal(comm_engine_finish(&r[0]), CLT_ECOMM);
        assert_text_has(device ? "device work" : "the cable was cut");
        assert_int_equal(comm_engine_finish(&r[1]), CLT_ECOMM);
        assert_text_has("earlier");
        assert_int_equal(comm_engine_run(e, NULL, note, &traced.number[1]), CLT_ECOMM);
        assert_int_equal(traced.count, 0); /* ranks out of step must not exchange anything */
        comm_engine_destroy(e);
    }
}

TEST(failed_init_is_reported)
{
    comm *c = (comm *)&wire;
    clear_wire(0);
    assert_int_equal(comm_create_with(&threads, &c), CLT_ECOMM);
    assert_null(c);
    assert_text_has("starting the threads transport: no network");
    assert_int_equal(atomic_load(&wire.finalized), 0);
}

TEST(destroy_drops_requests_that_never_ran)
{
    comm *c = NULL;
    comm_request *r[3];
    float x = 0;
    clear_wire(1);
    assert_ok(comm_create_with(&threads, &c));
    for (int i = 0; i < 3; i++)
        assert_ok(comm_all_reduce_post(c, &x, 1, COMM_F32, COMM_SUM, &r[i]));
    comm_request_ready(r[1], true);
    comm_destroy(c); /* must return, and leave nothing for the leak checker */
}

/* --- deadlines --- */

/* Waits until `ranks` ranks have called it. */
static void meet(atomic_int *come, int ranks)
{
    for (atomic_fetch_add(come, 1); atomic_load(come) < ranks;)
        usleep(1000);
}

typedef struct lateness {
    int late;
    atomic_int inside, ended, unheard;
} lateness;

/* The deadline begins when all ranks but one are known to wait inside the collective: none of these is
 * late. */
static void one_rank_is_late(comm *c, void *context)
{
    const comm_info *info = comm_describe(c);
    lateness *l = context;
    float x = 1;
    char phase[32];
    (void)snprintf(phase, sizeof phase, "step %d", 17 + info->rank);
    comm_set_phase(c, phase);
    EXPECT(comm_set_algorithm(c, "tree", COMM_ANY_ORDER) == CLT_OK);
    EXPECT(comm_barrier(c) == CLT_OK);
    if (info->rank != l->late) {
        comm_request *sum = NULL;
        int before = atomic_load(&wire.looks[info->rank]);
        EXPECT(comm_all_reduce_post(c, &x, 1, COMM_F32, COMM_SUM, &sum) == CLT_OK);
        comm_request_ready(sum, true);
        while (atomic_load(&wire.looks[info->rank]) == before)
            usleep(1000);
        meet(&l->inside, info->ranks - 1);
        comm_set_deadline(c, 0.3);
        EXPECT(comm_request_wait(sum) == CLT_ECOMM);
        char name[80];
        (void)snprintf(name, sizeof name, "during step %d; the limit is 0.3 s", 17 + info->rank);
        EXPECT(strstr(clt_error_text(), name) && strstr(clt_error_text(), "all-reduce"));
        (void)snprintf(name, sizeof name, "rank %d was late: it has been in step %d for", l->late,
                       17 + l->late);
        if (strstr(clt_error_text(), "no answer"))
            atomic_fetch_add(&l->unheard, 1);
        else
            EXPECT(strstr(clt_error_text(), name) && !strstr(clt_error_text(), "; rank"));
        EXPECT(comm_barrier(c) == CLT_ECOMM);
    }
    /* no rank leaves before all have seen the error, since a rank that has left does not answer the roll
     * call */
    meet(&l->ended, info->ranks);
}

/* A rank that this machine keeps from answering within 0.6 s misses the roll call: then the round proves
 * nothing, and another one follows. */
TEST(a_late_rank_is_named)
{
    enum { MOST_ROUNDS = 20 };
    for (int late = 0; late < 4; late++) {
        int rounds = 0, unheard;
        do {
            lateness l = {.late = late};
            /* Ranks out of step must not wait for each other at the end; the late one knows that it was
             * late. */
            assert_int_equal(run_ranks(4, one_rank_is_late, &l), 0);
            unheard = atomic_load(&l.unheard);
        } while (unheard > 0 && ++rounds < MOST_ROUNDS);
        assert_int_equal(unheard, 0);
    }
}

typedef struct cutting {
    comm *ranks[3];
    atomic_int begun, ended, noticed;
} cutting;

/* The deadline begins when a rank has noticed that the cable is cut: the other ranks wait for this rank's
 * messages. */
static void cut_cable(comm *c, void *context)
{
    float x[5000];
    cutting *t = context;
    const comm_info *info = comm_describe(c);
    memset(x, 0, sizeof x);
    t->ranks[info->rank] = c;
    EXPECT(comm_set_algorithm(c, "ring", COMM_ANY_ORDER) == CLT_OK);
    meet(&t->begun, info->ranks);
    if (info->rank == 0)
        atomic_store(&wire.fail_after, 20);
    clt_status status = CLT_OK;
    while (status == CLT_OK)
        status = comm_all_reduce(c, x, 5000, COMM_F32, COMM_SUM);
    EXPECT(status == CLT_ECOMM);
    if (strstr(clt_error_text(), "the cable was cut")) {
        atomic_fetch_add(&t->noticed, 1);
        for (int r = 0; r < info->ranks; r++)
            comm_set_deadline(t->ranks[r], 0.3);
    }
    EXPECT(comm_barrier(c) == CLT_ECOMM);
    meet(&t->ended, info->ranks);
}

TEST(failed_messages_end_the_collective)
{
    cutting t = {.noticed = 0};
    (void)run_ranks(3, cut_cable, &t);
    assert_true(atomic_load(&t.noticed) > 0);
}
