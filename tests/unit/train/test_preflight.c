/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * What ranks refuse and warn about after they have compared themselves, with made-up tables of ranks. */
#include "tests/unit/test.h"

#include "engine/train/ranks/preflight.h"

#define RANKS 4

/* Two hosts with two GPUs each, 32 cores a host. */
static void make(clt_told_preflight *told)
{
    memset(told, 0, RANKS * sizeof *told);
    for (int r = 0; r < RANKS; r++) {
        clt_told_preflight *t = &told[r];
        (void)snprintf(t->host, sizeof t->host, "node%d", r / 2);
        (void)snprintf(t->version, sizeof t->version, "1.2.3");
        (void)snprintf(t->platform, sizeof t->platform, "Platform");
        (void)snprintf(t->device, sizeof t->device, "GPU model");
        (void)snprintf(t->driver, sizeof t->driver, "550.1");
        (void)snprintf(t->place, sizeof t->place, "0000:3%d:00.0", r % 2);
        (void)snprintf(t->data, sizeof t->data, "0123456789abcdef");
        t->program = 7;
        t->samples = 500;
        t->local_ranks = 2;
        t->rounds_correctly = 1;
        t->cores = t->launcher_cores = 32;
    }
}

static void refused(const clt_told_preflight *told, bool share, const char *what)
{
    clt_status status = clt_preflight_refuse(told, RANKS, share);
    if (!what) {
        assert_ok(status);
        return;
    }
    assert_int_equal(status, CLT_ERANKS);
    if (!strstr(clt_error_text(), what))
        fail_msg("'%s' does not say '%s'", clt_error_text(), what);
}

TEST(ranks_that_differ_are_named)
{
    clt_told_preflight told[RANKS];
    make(told);
    refused(told, false, NULL);
    told[2].program = 8;
    refused(told, false, "rank 2 on node1 runs a different build of cltrain than rank 0 on node0");
    make(told);
    (void)snprintf(told[3].version, sizeof told[3].version, "1.2.4");
    refused(
        told, false,
        "rank 3 on node1 runs a different build of cltrain than rank 0 on node0: versions 1.2.4 and 1.2.3");
    make(told);
    told[1].samples = 499;
    refused(
        told, false,
        "rank 1 on node0 reads other data than rank 0 on node0: 499 training samples, and rank 0 has 500");
    make(told);
    told[1].data[3] = 'x';
    refused(told, false, "the content of the training data differs");
    make(told);
    (void)snprintf(told[3].eval_data, sizeof told[3].eval_data, "0");
    refused(told, true,
            "rank 3 on node1 reads other data than rank 0 on node0: the content of the evaluation data");
}

TEST(a_gpu_is_for_one_rank)
{
    clt_told_preflight told[RANKS];
    make(told);
    memcpy(told[3].place, told[2].place, sizeof told[3].place);
    refused(told, false, "ranks 2 and 3 on node1 would share the GPU 'GPU model' (0000:30:00.0)");
    refused(told, true, NULL);
    assert_int_equal(clt_preflight_on_gpu(told, RANKS, 1), 1);
    assert_int_equal(clt_preflight_on_gpu(told, RANKS, 3), 2);
    /* Two drivers number their devices in the same way. */
    for (int r = 2; r < RANKS; r++)
        (void)snprintf(told[r].place, sizeof told[r].place, "device 0:0");
    refused(told, false, "ranks 2 and 3 on node1 would share the GPU 'GPU model' (device 0:0)");
    (void)snprintf(told[3].device, sizeof told[3].device, "other model");
    refused(told, false, NULL);
    assert_int_equal(clt_preflight_on_gpu(told, RANKS, 3), 1);
    memcpy(told[3].device, told[2].device, sizeof told[3].device);
    assert_int_equal(clt_preflight_on_gpu(told, RANKS, 3), 2);
    (void)snprintf(told[3].platform, sizeof told[3].platform, "Other"); /* with its own list of devices */
    refused(told, false, NULL);
    assert_int_equal(clt_preflight_on_gpu(told, RANKS, 3), 1);
    for (int r = 0; r < RANKS; r++) { /* CPUs are shared */
        told[r].place[0] = '\0';
        told[r].is_cpu = 1;
        assert_int_equal(clt_preflight_on_gpu(told, RANKS, r), 1);
    }
    refused(told, false, NULL);
}

static void warned(const clt_told_preflight *told, const char *first, const char *second)
{
    CLT_SCOPED(clt_str) out = {0};
    clt_preflight_warnings(told, RANKS, &out);
    int lines = 0;
    for (const char *at = out.text; at && (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, (first != NULL) + (second != NULL));
    if (first)
        assert_non_null(strstr(out.text, first));
    if (second)
        assert_non_null(strstr(out.text, second));
}

TEST(what_makes_ranks_slow_is_said_once)
{
    clt_told_preflight told[RANKS];
    make(told);
    warned(told, NULL, NULL);
    (void)snprintf(told[2].driver, sizeof told[2].driver, "551.0");
    (void)snprintf(told[3].driver, sizeof told[3].driver, "552.0");
    warned(told,
           "rank 0 on node0 has 'GPU model' (Platform, driver 550.1), rank 2 on node1 'GPU model' (Platform, "
           "551.0)",
           NULL);
    warned(told, "a step takes as long as on the slowest of them\n", NULL);
    told[3].rounds_correctly = 0;
    warned(told, "not all of them round divisions and square roots correctly", NULL);
    (void)snprintf(told[2].driver, sizeof told[2].driver, "550.1");
    (void)snprintf(told[3].driver, sizeof told[3].driver, "550.1");
    warned(told, NULL, NULL);
    (void)snprintf(told[3].platform, sizeof told[3].platform, "Other"); /* another compiler */
    warned(told, "'GPU model' (Platform, driver 550.1), rank 3 on node1 'GPU model' (Other, 550.1)", NULL);
    warned(told, "not all of them round divisions and square roots correctly", NULL);
    told[1].cores = told[3].cores = 1;
    warned(told, "different devices or drivers", "rank 1 on node0 may use only 1 of 32 cores");
    make(told);
    told[1].cores = 4; /* enough beside a GPU, */
    warned(told, NULL, NULL);
    told[1].is_cpu = 1; /* less than half of the host */
    warned(told, "rank 1 on node0 may use only 4 of 32 cores", NULL);
    told[1].cores = 0; /* not known */
    warned(told, NULL, NULL);
    make(told);
    told[3].rounds_correctly = 0; /* does not matter for equal devices */
    memcpy(told[3].place, told[2].place, sizeof told[3].place);
    warned(told, "2 ranks on node1 share the GPU 'GPU model' (0000:30:00.0) and its memory\n", NULL);
    make(told);
    told[2].far = told[3].far = 1;
    told[2].node = 1;
    warned(told, "rank 2 on node1 may use no core of NUMA node 1, which its GPU 0000:30:00.0 is attached to",
           NULL);
}

TEST(ranks_near_a_node_are_counted)
{
    clt_told_preflight told[RANKS];
    make(told);
    told[1].node = 1;
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(clt_preflight_sharing(told, RANKS, r), r < 2 ? 1 : 2);
    told[2].node = told[3].node = -1;
    assert_int_equal(clt_preflight_sharing(told, RANKS, 2), 1);
}
