/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * What ranks refuse and warn about after they have compared themselves, with made-up tables of ranks. */
#include "tests/unit/test.h"

#include "engine/train/ranks/preflight.h"

#define RANKS 4

/* Two hosts with two GPUs each, 32 cores a host. */
static void make(clt_preflight_message *messages)
{
    memset(messages, 0, RANKS * sizeof *messages);
    for (int r = 0; r < RANKS; r++) {
        clt_preflight_message *t = &messages[r];
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

static void refused(const clt_preflight_message *messages, bool share, const char *what)
{
    clt_status status = clt_preflight_refuse(messages, RANKS, share);
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
    clt_preflight_message messages[RANKS];
    make(messages);
    refused(messages, false, NULL);
    messages[2].program = 8;
    refused(messages, false, "rank 2 on node1 runs a different build of cltrain than rank 0 on node0");
    make(messages);
    (void)snprintf(messages[3].version, sizeof messages[3].version, "1.2.4");
    refused(
        messages, false,
        "rank 3 on node1 runs a different build of cltrain than rank 0 on node0: versions 1.2.4 and 1.2.3");
    make(messages);
    messages[1].samples = 499;
    refused(
        messages, false,
        "rank 1 on node0 reads other data than rank 0 on node0: 499 training samples, and rank 0 has 500");
    make(messages);
    messages[1].data[3] = 'x';
    refused(messages, false, "the content of the training data differs");
    make(messages);
    (void)snprintf(messages[3].eval_data, sizeof messages[3].eval_data, "0");
    refused(messages, true,
            "rank 3 on node1 reads other data than rank 0 on node0: the content of the evaluation data");
}

TEST(a_gpu_is_for_one_rank)
{
    clt_preflight_message messages[RANKS];
    make(messages);
    memcpy(messages[3].place, messages[2].place, sizeof messages[3].place);
    refused(messages, false, "ranks 2 and 3 on node1 would share the GPU 'GPU model' (0000:30:00.0)");
    refused(messages, true, NULL);
    assert_int_equal(clt_preflight_on_gpu(messages, RANKS, 1), 1);
    assert_int_equal(clt_preflight_on_gpu(messages, RANKS, 3), 2);
    /* Two drivers number their devices in the same way. */
    for (int r = 2; r < RANKS; r++)
        (void)snprintf(messages[r].place, sizeof messages[r].place, "device 0:0");
    refused(messages, false, "ranks 2 and 3 on node1 would share the GPU 'GPU model' (device 0:0)");
    (void)snprintf(messages[3].device, sizeof messages[3].device, "other model");
    refused(messages, false, NULL);
    assert_int_equal(clt_preflight_on_gpu(messages, RANKS, 3), 1);
    memcpy(messages[3].device, messages[2].device, sizeof messages[3].device);
    assert_int_equal(clt_preflight_on_gpu(messages, RANKS, 3), 2);
    (void)snprintf(messages[3].platform, sizeof messages[3].platform,
                   "Other"); /* with its own list of devices */
    refused(messages, false, NULL);
    assert_int_equal(clt_preflight_on_gpu(messages, RANKS, 3), 1);
    for (int r = 0; r < RANKS; r++) { /* CPUs are shared */
        messages[r].place[0] = '\0';
        messages[r].is_cpu = 1;
        assert_int_equal(clt_preflight_on_gpu(messages, RANKS, r), 1);
    }
    refused(messages, false, NULL);
}

static void warned(const clt_preflight_message *messages, const char *first, const char *second)
{
    CLT_SCOPED(clt_str) out = {0};
    clt_preflight_warnings(messages, RANKS, &out);
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
    clt_preflight_message messages[RANKS];
    make(messages);
    warned(messages, NULL, NULL);
    (void)snprintf(messages[2].driver, sizeof messages[2].driver, "551.0");
    (void)snprintf(messages[3].driver, sizeof messages[3].driver, "552.0");
    warned(messages,
           "rank 0 on node0 has 'GPU model' (Platform, driver 550.1), rank 2 on node1 'GPU model' (Platform, "
           "551.0)",
           NULL);
    warned(messages, "a step takes as long as on the slowest of them\n", NULL);
    messages[3].rounds_correctly = 0;
    warned(messages, "not all of them round divisions and square roots correctly", NULL);
    (void)snprintf(messages[2].driver, sizeof messages[2].driver, "550.1");
    (void)snprintf(messages[3].driver, sizeof messages[3].driver, "550.1");
    warned(messages, NULL, NULL);
    (void)snprintf(messages[3].platform, sizeof messages[3].platform, "Other"); /* another compiler */
    warned(messages, "'GPU model' (Platform, driver 550.1), rank 3 on node1 'GPU model' (Other, 550.1)",
           NULL);
    warned(messages, "not all of them round divisions and square roots correctly", NULL);
    messages[1].cores = messages[3].cores = 1;
    warned(messages, "different devices or drivers", "rank 1 on node0 may use only 1 of 32 cores");
    make(messages);
    messages[1].cores = 4; /* enough beside a GPU, */
    warned(messages, NULL, NULL);
    messages[1].is_cpu = 1; /* less than half of the host */
    warned(messages, "rank 1 on node0 may use only 4 of 32 cores", NULL);
    messages[1].cores = 0; /* not known */
    warned(messages, NULL, NULL);
    make(messages);
    messages[3].rounds_correctly = 0; /* does not matter for equal devices */
    memcpy(messages[3].place, messages[2].place, sizeof messages[3].place);
    warned(messages, "2 ranks on node1 share the GPU 'GPU model' (0000:30:00.0) and its memory\n", NULL);
    make(messages);
    messages[2].far = messages[3].far = 1;
    messages[2].node = 1;
    warned(messages,
           "rank 2 on node1 may use no core of NUMA node 1, which its GPU 0000:30:00.0 is attached to", NULL);
}

TEST(ranks_near_a_node_are_counted)
{
    clt_preflight_message messages[RANKS];
    make(messages);
    messages[1].node = 1;
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(clt_preflight_sharing(messages, RANKS, r), r < 2 ? 1 : 2);
    messages[2].node = messages[3].node = -1;
    assert_int_equal(clt_preflight_sharing(messages, RANKS, 2), 1);
}
