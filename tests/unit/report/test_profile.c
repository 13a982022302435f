/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of profiles, with made-up numbers: a step's busy time and gaps, the roofline, grouping, the
 * tables, memory at the peak, traces. Needs no device. ctest-labels: quick */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/ops/node.h"
#include "engine/report/times/memory_peak.h"
#include "engine/report/times/profile.h"
#include "engine/report/times/trace.h"

static void near(const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * fmax(1, fabs(want))))
        fail_msg("%s: got %.12g, expected %.12g", what, got, want);
}

static const ocl_command work = {.kind = OCL_CMD_KERNEL, .label = "w", .kernel = "k", .variant = "v"};

static ocl_span command_span(uint64_t start, uint64_t end, uint32_t flags, bool all)
{
    return (ocl_span){.kind = OCL_SPAN_COMMAND,
                      .queue = OCL_QUEUE_COMPUTE,
                      .flags = flags,
                      .all = all,
                      .command = &work,
                      .start_ns = start,
                      .end_ns = end};
}

static ocl_span transfer_span(ocl_span_kind kind, ocl_queue queue, uint64_t bytes, uint64_t start,
                              uint64_t end)
{
    return (ocl_span){.kind = kind, .queue = queue, .bytes = bytes, .start_ns = start, .end_ns = end};
}

/* A step from 1000 to 2000: it waits 100 for data, copies for 50, computes for 700 with a gap of 140
 * inside, and ends with 50 before a read of 100. */
static void put_step(clt_step_times *t, clt_phase_fill *fill, bool all, uint64_t at)
{
    ocl_span up = transfer_span(OCL_SPAN_H2D, OCL_QUEUE_COPY, 4000, at + 60, at + 100);
    ocl_span copy = transfer_span(OCL_SPAN_COPY, OCL_QUEUE_COMPUTE, 4000, at + 100, at + 150);
    ocl_span one = command_span(at + 150, at + 350, OCL_SPAN_OPENS, all);
    ocl_span two = command_span(at + 490, at + 600, 0, all);
    ocl_span three = command_span(at + 600, at + 850, OCL_SPAN_CLOSES, all);
    ocl_span read = transfer_span(OCL_SPAN_D2H, OCL_QUEUE_COMPUTE, 200, at + 900, at + 1000);
    clt_step_times_add(t, fill, &up, CLT_PHASE_FORWARD);
    near("before the copy", clt_step_times_add(t, fill, &copy, CLT_PHASE_FORWARD), 100);
    near("before the first", clt_step_times_add(t, fill, &one, CLT_PHASE_FORWARD), 0);
    if (all)
        near("inside", clt_step_times_add(t, fill, &two, CLT_PHASE_FORWARD), 140);
    near("before the last", clt_step_times_add(t, fill, &three, CLT_PHASE_FORWARD), 0);
    near("before the read", clt_step_times_add(t, fill, &read, CLT_PHASE_FORWARD), 50);
}

TEST(test_step_times)
{
    clt_step_times t;
    clt_phase_fill fill;
    clt_phase_fill_init(&fill);
    clt_step_times_begin(&t, 1000);
    put_step(&t, &fill, true, 1000);
    near("length", clt_step_times_ns(&t), 1000);
    near("busy", clt_step_times_busy(&t), 0.71);
    near("input", t.idle_ns[CLT_IDLE_INPUT], 100);
    near("host", t.idle_ns[CLT_IDLE_HOST], 190);
    near("h2d", clt_step_times_h2d(&t), 100);
    near("d2h", clt_step_times_d2h(&t), 2);
    near("forward is filled", fill.share[CLT_PHASE_FORWARD], 0.8);
    near("backward is not known", fill.share[CLT_PHASE_BACKWARD], 1);
    /* The same step, measured only at its ends: the time between them is assumed to be busy by the same
     * share. */
    uint64_t end = t.end_ns;
    assert_int_equal(end, 2000);
    clt_step_times_begin(&t, end);
    put_step(&t, &fill, false, end);
    near("length", clt_step_times_ns(&t), 1000);
    /* 50 + 200 + 0.8 * 250 + 250 + 100 */
    near("busy", clt_step_times_busy(&t), 0.80);
    near("input", t.idle_ns[CLT_IDLE_INPUT], 100);
    near("forward stays", fill.share[CLT_PHASE_FORWARD], 0.8);
}

TEST(test_step_times_unknown)
{
    clt_step_times t;
    clt_phase_fill fill;
    clt_phase_fill_init(&fill);
    clt_step_times_begin(&t, 0);
    assert_true(isnan(clt_step_times_busy(&t)) && isnan(clt_step_times_h2d(&t)));
    ocl_span s = command_span(500, 600, OCL_SPAN_OPENS | OCL_SPAN_CLOSES, true);
    near("no gap before the first command", clt_step_times_add(&t, &fill, &s, CLT_PHASE_UPDATE), 0);
    near("a window of one command", clt_step_times_busy(&t), 1);
    assert_int_equal(t.begin_ns, 500);
    s.start_ns = s.end_ns = 0; /* the device gave no times */
    clt_step_times_add(&t, &fill, &s, CLT_PHASE_UPDATE);
    assert_true(isnan(clt_step_times_busy(&t)) && isnan(clt_step_times_d2h(&t)));
    /* Sums over ranks: the time until they arrive is communication. */
    clt_step_times_begin(&t, 100);
    s = transfer_span(OCL_SPAN_H2D, OCL_QUEUE_IN, 64, 300, 390);
    clt_step_times_add(&t, &fill, &s, CLT_PHASE_SYNC);
    s = command_span(400, 500, OCL_SPAN_OPENS | OCL_SPAN_CLOSES | OCL_SPAN_AFTER_WAIT, true);
    clt_step_times_add(&t, &fill, &s, CLT_PHASE_UPDATE);
    near("communication", t.idle_ns[CLT_IDLE_COMM], 300);
    near("busy", clt_step_times_busy(&t), 0.25);
    s = command_span(520, 600, OCL_SPAN_OPENS | OCL_SPAN_CLOSES, true); /* posting waits for nothing */
    clt_step_times_add(&t, &fill, &s, CLT_PHASE_BACKWARD);
    near("communication", t.idle_ns[CLT_IDLE_COMM], 300);
    near("host", t.idle_ns[CLT_IDLE_HOST], 20);
    /* the time until a rank's exchange is written on the compute queue is communication, too */
    s = transfer_span(OCL_SPAN_H2D, OCL_QUEUE_COMPUTE, 64, 650, 660);
    clt_step_times_add(&t, &fill, &s, CLT_PHASE_BACKWARD);
    near("communication", t.idle_ns[CLT_IDLE_COMM], 350);
}

/* Two exchanges in a phase, measured completely, and only at the ends of intervals. A device with work
 * until the records arrive does not wait; time for which it waits is counted once. */
TEST(test_step_times_exchanges)
{
    for (int all = 0; all < 2; all++) {
        clt_step_times t;
        clt_phase_fill fill;
        clt_phase_fill_init(&fill);
        clt_step_times_begin(&t, 1000);
        ocl_span s = command_span(1000, 1100, OCL_SPAN_OPENS | OCL_SPAN_CLOSES, all);
        clt_step_times_add(&t, &fill, &s, CLT_PHASE_BACKWARD);
        s = command_span(1110, 1300, OCL_SPAN_OPENS | OCL_SPAN_CLOSES, all); /* beside the exchange */
        clt_step_times_add(&t, &fill, &s, CLT_PHASE_BACKWARD);
        s = transfer_span(OCL_SPAN_H2D, OCL_QUEUE_COMPUTE, 64, 1300, 1305); /* was already there */
        clt_step_times_add(&t, &fill, &s, CLT_PHASE_BACKWARD);
        near("nothing is exposed", t.idle_ns[CLT_IDLE_COMM], 0);
        s = command_span(1305, 1400, OCL_SPAN_OPENS | OCL_SPAN_CLOSES | OCL_SPAN_AFTER_WAIT, all);
        clt_step_times_add(&t, &fill, &s, CLT_PHASE_BACKWARD);
        s = transfer_span(OCL_SPAN_H2D, OCL_QUEUE_COMPUTE, 64, 1480, 1490); /* 80 ns late */
        clt_step_times_add(&t, &fill, &s, CLT_PHASE_BACKWARD);
        s = command_span(1490, 1600, OCL_SPAN_OPENS | OCL_SPAN_CLOSES | OCL_SPAN_AFTER_WAIT, all);
        clt_step_times_add(&t, &fill, &s, CLT_PHASE_BACKWARD);
        /* a bucket that is summed meanwhile, on its own queue, adds nothing */
        s = transfer_span(OCL_SPAN_H2D, OCL_QUEUE_IN, 64, 1100, 1590);
        clt_step_times_add(&t, &fill, &s, CLT_PHASE_BACKWARD);
        near("exposed", t.idle_ns[CLT_IDLE_COMM], 80);
        near("host", t.idle_ns[CLT_IDLE_HOST], 10);
        near("all of the step", t.busy_ns + t.idle_ns[CLT_IDLE_COMM] + t.idle_ns[CLT_IDLE_HOST], 600);
    }
}

static const ocl_limits limits = {.fma_peak_gflops = 100, .stream_gbs = 10};

TEST(test_roofline)
{
    bool memory;
    /* 1000 flops in 20 ns on 100 flops per ns: half of what is possible */
    near("arithmetic", clt_roofline_percent(&limits, 1000, 10, 20, &memory), 50);
    assert_false(memory);
    near("memory", clt_roofline_percent(&limits, 1000, 400, 80, &memory), 50);
    assert_true(memory);
    /* the same as achieved / min(peak, intensity * stream) */
    double flops = 700, bytes = 350, ns = 90, least = fmin(100, flops / bytes * 10);
    near("by the formula", clt_roofline_percent(&limits, flops, bytes, ns, &memory),
         100 * flops / ns / least);
    near("no arithmetic at all", clt_roofline_percent(&limits, 0, 100, 10, &memory), 100);
    assert_true(isnan(clt_roofline_percent(NULL, 1, 1, 1, &memory)));
    assert_true(isnan(clt_roofline_percent(&limits, 0, 0, 1, &memory)));
    assert_true(isnan(clt_roofline_percent(&limits, 1, 1, 0, &memory)));
}

/* Two layers of one shape, one of another, a variant of the same kernel, and a command that never ran. */
static clt_profile_entry entries[] = {
    {"forward", "a.forward", "gemm", "lane", "8x8<8x8", true, 10, 1000, 10 * 500, 10 * 40, 5, "a+act"},
    {"forward", "b.forward", "gemm", "lane", "8x8<8x8", true, 10, 3000, 10 * 500, 10 * 40, 7, "b+act"},
    {"forward", "c.forward", "gemm", "lane", "9x8<9x8", true, 10, 2500, 10 * 560, 10 * 45, 0, "c"},
    {"backward", "a.backward", "gemm", "simple", "8x8<8x8", true, 10, 2000, 10 * 500, 10 * 40, 0, "a"},
    {"backward", "b.backward", "gemm", "lane", "8x8<8x8", true, 10, 500, 10 * 100, 10 * 40, 0, "b"},
    {"update", "never", "gemm", "lane", "8x8<8x8", true, 0, 0, 0, 0, 0, ""},
    {"transfers", "reads by the host", "read", "", "", false, 10, 1000, 0, 640, 100, NULL},
};

static clt_profile made_up(const clt_plan *plan)
{
    return (clt_profile){.plan = plan,
                         .entries = entries,
                         .n_entries = sizeof entries / sizeof entries[0],
                         .steps = 10,
                         .step_ns = 12500,
                         .busy_ns = 10000,
                         .idle_ns = {500, 0, 2000},
                         .host_known = true,
                         .host_inside_ms = 0.5,
                         .host_outside_ms = 0.25,
                         .host_calls = 12,
                         .have_limits = true,
                         .limits = limits};
}

TEST(test_group)
{
    clt_profile p = made_up(NULL);
    CLT_FREED clt_profile_row *rows = NULL;
    size_t n;
    must(clt_profile_group(&p, &rows, &n), "group");
    assert_int_equal(n, 5);
    /* the two layers share a row, longest first; other work per call, other variants and other shapes have
     * their own */
    assert_ptr_equal(rows[0].first, &entries[0]);
    assert_int_equal(rows[0].commands, 2);
    assert_int_equal(rows[0].calls, 20);
    near("ns", rows[0].ns, 4000);
    near("flops", rows[0].flops, 10000);
    near("bytes", rows[0].bytes, 800);
    near("idle", rows[0].idle_ns, 12);
    assert_ptr_equal(rows[1].first, &entries[2]);
    assert_ptr_equal(rows[2].first, &entries[3]);
    assert_ptr_equal(rows[3].first, &entries[6]);
    assert_ptr_equal(rows[4].first, &entries[4]);
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += rows[i].ns;
    near("nothing is lost", total, 10000);
}

TEST(test_summary)
{
    clt_profile p = made_up(NULL);
    char lines[CLT_SUMMARY_LINES][CLT_SUMMARY_SIZE];
    must(clt_profile_summary(&p, "", lines), "summary");
    assert_string_equal(lines[0], "busiest: gemm 40 % (a+act and 1 more), gemm 25 % (c), gemm 20 % (a)");
    assert_non_null(
        strstr(lines[1], "busy 80 % of a step of 0.00125 ms; idle 4 % waiting for data, 0 % for"));
    assert_non_null(strstr(lines[2], "change: the device waits for the host"));
    /* the advice of the run comes first */
    must(clt_profile_summary(&p, "advice: the device idled 20 %; try data.workers=8 (now 1)", lines),
         "summary");
    assert_string_equal(lines[2], "change: the device idled 20 %; try data.workers=8 (now 1)");
    /* a busy device: advice for its slowest product, then none */
    p.idle_ns[CLT_IDLE_INPUT] = p.idle_ns[CLT_IDLE_HOST] = 0;
    must(clt_profile_summary(&p, "", lines), "summary");
    assert_non_null(strstr(lines[2], "cltrain tune"));
    p.have_limits = false;
    must(clt_profile_summary(&p, "", lines), "summary");
    assert_non_null(strstr(lines[2], "nothing stands out"));
    /* nothing was measured */
    p.n_entries = 0;
    p.steps = 0;
    p.step_ns = 0;
    must(clt_profile_summary(&p, "", lines), "summary");
    assert_non_null(strstr(lines[0], "nothing was measured"));
    assert_null(strstr(lines[1], "nan"));
}

TEST(test_added_spans)
{
    clt_profile_entry e = {.kernel = "x"};
    ocl_command c = {.kind = OCL_CMD_KERNEL, .flops = 30, .n_args = 1};
    c.args[0] = (ocl_arg){.kind = OCL_ARG_TENSOR, .access = OCL_READ_WRITE, .bytes = 100};
    ocl_span s = command_span(10, 40, 0, true);
    s.command = &c;
    for (int i = 0; i < 3; i++)
        clt_profile_add_span(&e, &s, 2);
    assert_int_equal(e.calls, 3);
    near("ns", e.ns, 90);
    near("flops", e.flops, 90);
    near("bytes", e.bytes, 600); /* read and written */
    near("idle", e.idle_ns, 6);
    clt_profile_entry copy = {.kernel = "copy"};
    s = transfer_span(OCL_SPAN_COPY, OCL_QUEUE_COMPUTE, 50, 0, 10);
    clt_profile_add_span(&copy, &s, 0);
    near("a copy moves its bytes twice", copy.bytes, 100);
}

/* --- with a plan --- */

static clt_plan *make_plan(int accumulation)
{
    clt_graph *graph;
    clt_plan *plan;
    clt_node *node;
    int32_t x, y, in[2];
    clt_shape xs = clt_shape1(40), ys = {.ndim = 0};
    ocl_device_desc device;
    ocl_desc_generic(&device);
    must(clt_graph_create(64, &graph), "graph");
    must(clt_graph_field(graph, "x", CLT_F32, &xs, &x), "x");
    must(clt_graph_field(graph, "y", CLT_I32, &ys, &y), "y");
    in[0] = x;
    must(clt_graph_add_text(graph, "linear", "fc1", "{\"out\":96}", in, 1, &node), "fc1");
    in[0] = node->out[0];
    must(clt_graph_add_text(graph, "tanh", "act", NULL, in, 1, &node), "act");
    in[0] = node->out[0];
    must(clt_graph_add_text(graph, "linear", "fc2", "{\"out\":10}", in, 1, &node), "fc2");
    in[0] = node->out[0];
    in[1] = y;
    must(clt_graph_add_text(graph, "cross_entropy", "loss", NULL, in, 2, &node), "loss");
    clt_plan_options options = {
        .mode = CLT_PLAN_TRAIN,
        .accumulation = accumulation,
        .ranks = 1,
        .update = {.optimizer = &clt_optimizer_adamw, .value = {0.9, 0.99, 1e-8}, .schedule_entries = 8}};
    must(clt_plan_compute(graph, &device, &options, &plan), "plan");
    return plan;
}

TEST(test_memory_peak)
{
    CLT_SCOPED(clt_plan) *plan = make_plan(1);
    clt_memory_report r = clt_plan_memory(plan, NULL);
    clt_memory_peak peak;
    must(clt_memory_peak_find(plan, &peak), "peak");
    /* the planner found the same largest sum independently */
    uint64_t own = peak.bytes[CLT_PEAK_SAVED] + peak.bytes[CLT_PEAK_ACTIVATIONS] +
                   peak.bytes[CLT_PEAK_ACTIVATION_GRADIENTS] + peak.bytes[CLT_PEAK_WORKSPACE];
    assert_int_equal(own, plan->activation_bound);
    assert_int_equal(peak.bytes[CLT_PEAK_PARAMETERS], r.params);
    assert_int_equal(peak.bytes[CLT_PEAK_GRADIENTS], r.gradients);
    assert_int_equal(peak.bytes[CLT_PEAK_OPTIMIZER], r.optimizer);
    assert_int_equal(peak.bytes[CLT_PEAK_OPTIMIZER], 2 * peak.bytes[CLT_PEAK_PARAMETERS]);
    assert_int_equal(peak.bytes[CLT_PEAK_INPUTS], plan->input_bytes);
    assert_int_equal(peak.allocated, r.total);
    assert_int_equal(peak.live, r.total - plan->activation_bytes + plan->activation_bound);
    assert_true(peak.bytes[CLT_PEAK_SAVED] >= 64 * 96 * 4); /* backward needs tanh's output */
    assert_true(peak.n_tensors > 0 && peak.n_tensors <= CLT_PEAK_TENSORS);
    for (int i = 1; i < peak.n_tensors; i++)
        assert_true(peak.tensor[i - 1].bytes >= peak.tensor[i].bytes);
    assert_int_equal(peak.tensor[0].bytes, 64 * 96 * 4);
}

static double member(const clt_json *object, const char *key)
{
    const clt_json *v = clt_json_get(object, key);
    if (!v || clt_json_typeof(v) != CLT_JSON_NUMBER)
        fail_msg("no number '%s'", key);
    return clt_json_number(v);
}

TEST(test_tables)
{
    CLT_SCOPED(clt_plan) *plan = make_plan(1);
    clt_profile p = made_up(plan);
    clt_str text = {0}, json = {0};
    clt_json_doc *doc;
    must(clt_profile_text(&p, &text), "text");
    assert_non_null(strstr(text.text, "busy 80.0 %"));
    assert_non_null(strstr(text.text, "saved activations"));
    assert_non_null(strstr(text.text, "8x8<8x8"));
    clt_json_writer w = clt_json_writer_make(&json, 2);
    must(clt_profile_json(&p, &w), "json");
    must(clt_json_parse(json.text, json.length, "profile", CLT_EINTERNAL, &doc), "parse");
    const clt_json *root = clt_json_root(doc), *kernels = clt_json_get(root, "kernels");
    near("busy", member(root, "device_busy"), 0.8);
    near("step", member(root, "step_ms"), 1250e-6);
    near("host idle", member(clt_json_get(root, "idle_ms"), "host"), 200e-6);
    near("outside", member(clt_json_get(root, "host"), "outside_opencl_ms"), 0.25);
    assert_int_equal(clt_json_count(kernels), 5);
    assert_int_equal(clt_json_count(clt_json_get(root, "commands")), 6); /* the commands that ran */
    const clt_json *first = clt_json_first(kernels);
    near("share", member(first, "share"), 0.4);
    near("calls per step", member(first, "calls"), 2);
    near("ms per step", member(first, "ms"), 400e-6);
    near("GFLOP/s", member(first, "gflops"), 2.5);
    near("GB/s", member(first, "gb_per_s"), 0.2);
    near("percent", member(first, "roofline_percent"), 2.5);
    assert_string_equal(clt_json_string(clt_json_get(first, "limited_by")), "arithmetic");
    const clt_json *phases = clt_json_get(root, "phases");
    near("forward", member(clt_json_get(phases, "forward"), "share"), 0.65);
    near("backward", member(clt_json_get(phases, "backward"), "share"), 0.25);
    for (const clt_json *k = clt_json_first(kernels); k; k = clt_json_next(k))
        if (strcmp(clt_json_string(clt_json_get(k, "kernel")), "read") == 0) /* the link is not the device */
            assert_int_equal(clt_json_typeof(clt_json_get(k, "roofline_percent")), CLT_JSON_NULL);
    assert_true(member(clt_json_get(clt_json_get(root, "memory"), "classes"), "parameters") > 0);
    clt_json_destroy(doc);
    clt_str_free(&text);
    clt_str_free(&json);
}

/* Every command of a plan has an entry with a shape that names what it writes. */
TEST(test_entries)
{
    clt_plan *plan = make_plan(2);
    clt_profile *p;
    bool found = false;
    must(clt_profile_create(plan, &p), "profile");
    size_t n = 0;
    for (int phase = 0; phase < CLT_PHASE_COUNT; phase++)
        for (size_t i = 0; i < plan->phase[phase].count; i++, n++) {
            const clt_profile_entry *e = clt_profile_command(p, n);
            assert_string_equal(e->phase, clt_phase_name((clt_phase)phase));
            assert_string_equal(e->label, plan->phase[phase].commands[i].label);
            assert_true(e->shape[0] != '\0');
            found |= strncmp(e->label, "fc1", 3) == 0 && strstr(e->shape, "64x96") == e->shape;
        }
    assert_int_equal(n, p->n_commands);
    assert_true(found);
    for (size_t i = 0; i < p->n_commands; i++) { /* a command's layer is in its label; an update has none */
        const clt_profile_entry *e = clt_profile_command(p, i);
        assert_true(strncmp(e->label, e->layer, strcspn(e->layer, "+")) == 0);
        assert_true((e->layer[0] == '\0') == (strcmp(e->phase, "update") == 0));
    }
    assert_string_equal(clt_profile_transfer(p, OCL_SPAN_COPY)->kernel, "copy");
    assert_string_equal(clt_profile_transfer(p, OCL_SPAN_D2H)->kernel, "read");
    assert_string_equal(clt_profile_transfer(p, OCL_SPAN_H2D)->kernel, "write");
    clt_profile_destroy(p);
    clt_plan_destroy(plan);
}

/* --- traces --- */

/* Slices of a track, and whether the track has a name. */
static int count_slices(const clt_json *events, int tid, bool *named)
{
    int n = 0;
    *named = false;
    for (const clt_json *e = clt_json_first(events); e; e = clt_json_next(e)) {
        const clt_json *id = clt_json_get(e, "tid");
        if (!id || (int)clt_json_number(id) != tid)
            continue;
        n += strcmp(clt_json_string(clt_json_get(e, "ph")), "X") == 0;
        *named |= strcmp(clt_json_string(clt_json_get(e, "name")), "thread_name") == 0;
    }
    return n;
}

/* sums: with sums over ranks, which get two more tracks. */
static void check_trace(bool sums)
{
    clt_trace *trace;
    clt_spans *spans;
    clt_str out = {0};
    clt_json_doc *doc;
    bool named;
    must(clt_trace_create(sums ? 5 : 3, &trace), "trace");
    must(clt_spans_create(5, &spans), "spans");
    clt_spans_add(spans, CLT_TRACK_HOST, "too early", 1, 9.0, 9.1);
    clt_spans_open(spans, true);
    clt_spans_add(spans, CLT_TRACK_HOST, "forward", 1, 10.0, 10.5);
    clt_spans_add(spans, CLT_TRACK_SAVER, "write \"x\"", 1, 10.5, 11.0);
    clt_spans_add(spans, CLT_TRACK_LOADER + 2, "load", 1, 10.25, 10.5);
    if (sums)
        clt_spans_add(spans, CLT_TRACK_SUMS, "gradients", 1, 10.6, 10.7);
    clt_spans_open(spans, false);
    clt_spans_add(spans, CLT_TRACK_HOST, "too late", 1, 12.0, 12.1);
    ocl_span s = command_span(2000000000, 2500000000, 0, true);
    s.queued_ns = 1000000000;
    s.host_at = 11.0; /* the device's zero is at 10 s of the host's */
    clt_trace_span(trace, &s, "fc1.forward", "forward");
    s = transfer_span(OCL_SPAN_H2D, OCL_QUEUE_COPY, 64, 1500000000, 1600000000);
    s.queued_ns = 1000000000;
    s.host_at = 11.5;
    clt_trace_span(trace, &s, "upload", "transfer");
    s.queue = OCL_QUEUE_OUT;
    if (sums)
        clt_trace_span(trace, &s, "read", "transfer");
    s.queue = OCL_QUEUE_IN;
    if (sums)
        clt_trace_span(trace, &s, "write", "transfer");
    clt_trace_step(trace, 7, 1500000000, 2500000000);
    clt_trace_step(trace, 8, 2500000000, 2600000000); /* no room */
    must(clt_trace_json(trace, spans, 2, "a \"device\"", &out), "json");
    must(clt_json_parse(out.text, out.length, "trace", CLT_EINTERNAL, &doc), "parse");
    const clt_json *root = clt_json_root(doc), *events = clt_json_get(root, "traceEvents");
    near("left out", member(clt_json_get(root, "otherData"), "slices_left_out"), 1);
    /* step, host, compute and copy; out, sums, in; saver; loaders 0, 1, 2 */
    static const int wanted[] = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1};
    for (int track = 0; track < 11; track++) {
        bool absent = !sums && track >= CLT_TRACE_OUT && track <= CLT_TRACE_IN;
        assert_int_equal(count_slices(events, track + 1, &named), absent ? 0 : wanted[track]);
        assert_int_equal(named, !absent);
    }
    for (const clt_json *e = clt_json_first(events); e; e = clt_json_next(e))
        if (strcmp(clt_json_string(clt_json_get(e, "name")), "fc1.forward") == 0) {
            near("2 s of the device are 12 s of the host, 2 s after the first event", member(e, "ts"), 2e6);
            near("duration", member(e, "dur"), 5e5);
        }
    clt_json_destroy(doc);
    clt_str_free(&out);
    clt_spans_destroy(spans);
    clt_trace_destroy(trace);
}

TEST(test_trace)
{
    check_trace(false);
    check_trace(true);
}
