/* SPDX-License-Identifier: Apache-2.0
 *
 * The choices for the convolutions of ResNet-50 on described GPUs, without a device: the algorithm, with
 * precision.matmul ieee and tf32 and in 16 bits, and the backend and the tiles of its products. With the
 * argument `table` the test prints all choices.
 * ctest-labels: quick */
#include "engine/graph/graph.h"
#include "engine/ops/node.h"
#include "engine/ops/op.h"
#include "engine/ops/op_problem.h"
#include "engine/verify/verify_internal.h"
#include "tests/unit/cl/cl_test.h"

/* A layer of ResNet-50 for images of 224 x 224: `count` times in the network. */
typedef struct layer {
    int64_t in, out, kernel, stride, size; /* channels, window, image size */
    int count;
} layer;

#define BATCH 64
static const layer layers[] = {
    {3, 64, 7, 2, 224, 1},    {64, 64, 1, 1, 56, 1},     {64, 64, 3, 1, 56, 3},    {64, 256, 1, 1, 56, 4},
    {256, 64, 1, 1, 56, 2},   {256, 128, 1, 1, 56, 1},   {128, 128, 3, 2, 56, 1},  {128, 128, 3, 1, 28, 3},
    {128, 512, 1, 1, 28, 4},  {256, 512, 1, 2, 56, 1},   {512, 128, 1, 1, 28, 3},  {512, 256, 1, 1, 28, 1},
    {256, 256, 3, 2, 28, 1},  {256, 256, 3, 1, 14, 5},   {256, 1024, 1, 1, 14, 6}, {512, 1024, 1, 2, 28, 1},
    {1024, 256, 1, 1, 14, 5}, {1024, 512, 1, 1, 14, 1},  {512, 512, 3, 2, 14, 1},  {512, 512, 3, 1, 7, 2},
    {512, 2048, 1, 1, 7, 3},  {1024, 2048, 1, 2, 14, 1}, {2048, 512, 1, 1, 7, 2}};
#define LAYERS (int)(sizeof layers / sizeof layers[0])

enum { FORWARD, DATA, WEIGHT, WAYS };
static const char *const ways[WAYS] = {"forward", "data", "weight"};

/* What the probes of cl/probes/probes.c find on an H100, an A100 and a GPU without matrix units. */
static ocl_device_desc gpu(int generation)
{
    ocl_device_desc d;
    ocl_desc_generic(&d);
    d.is_gpu = true;
    d.is_cpu = false;
    d.compute_units = generation >= 90 ? 132 : 108;
    d.local_bytes = 48 << 10;
    d.local_proven_bytes = d.local_retargeted_bytes = generation >= 90 ? 227 << 10 : 48 << 10;
    d.max_work_group = 1024;
    d.caps = OCL_CAP_LOCAL | OCL_CAP_WG256;
    d.compute_capability = (uint32_t)generation;
    if (generation >= 80)
        d.caps |= OCL_CAP_MMA_F16 | OCL_CAP_MMA_BF16 | OCL_CAP_MMA_TF32;
    if (generation >= 90)
        d.caps |= OCL_CAP_WGMMA | OCL_CAP_WGMMA_LARGE;
    return d;
}

/* A layer as a graph of one node, and the call of one direction. */
typedef struct problem {
    clt_graph *graph;
    clt_call call;
    bool backward;
} problem;

static void problem_make(problem *p, const layer *l, int way, clt_dtype type, bool tf32,
                         const ocl_device_desc *d)
{
    clt_shape sample = {3, {l->in, l->size, l->size}};
    char attrs[160];
    int32_t x;
    clt_node *node;
    memset(p, 0, sizeof *p);
    snprintf(attrs, sizeof attrs,
             "{\"out\":%lld,\"kernel\":%lld,\"stride\":%lld,\"padding\":%lld,\"bias\":false}",
             (long long)l->out, (long long)l->kernel, (long long)l->stride, (long long)(l->kernel / 2));
    assert_ok(clt_graph_create(BATCH, &p->graph));
    assert_ok(clt_graph_field(p->graph, "x", type, &sample, &x));
    assert_ok(clt_graph_add_text(p->graph, "conv2d", "layer", attrs, &x, 1, &node));
    int32_t weight = p->graph->params[node->param[0]].tensor;
    clt_graph_tensor(p->graph, weight)->dtype = type;
    memset(&p->call, 0xff, sizeof p->call);
    p->call.graph = p->graph;
    p->call.node = node;
    p->call.device = d;
    p->call.training = true;
    p->call.tf32 = tf32;
    p->call.moments = NULL;
    p->call.moments_of_input = NULL;
    p->call.again = p->call.absent = p->call.record = p->call.update_buffers = false;
    p->call.ranks = p->call.present = 1;
    p->call.epilogue = CLT_NO_EPILOGUE;
    p->call.din_accumulate[0] = p->call.dparam_accumulate[0] = false;
    p->call.in[0] = x;
    p->call.out[0] = node->out[0];
    p->call.param[0] = weight;
    p->backward = way != FORWARD;
    p->call.dout[0] =
        p->backward ? node->out[0] : -1; /* gradients have the sizes and types of their tensors */
    p->call.din[0] = way == DATA ? x : -1;
    p->call.dparam[0] = way == WEIGHT ? weight : -1;
}

static const ocl_family *family_of(const problem *p)
{
    return p->backward ? &p->call.node->op->backward : &p->call.node->op->forward;
}

static const ocl_variant *standard_of(const problem *p, const ocl_device_desc *d)
{
    const ocl_variant *variant;
    assert_ok(ocl_family_standard(family_of(p), &p->call, d, "test", &variant));
    return variant;
}

static int32_t workspace(void *owner, clt_dtype dtype, uint64_t elements, const char *name)
{
    (void)dtype, (void)elements, (void)name;
    return 1000 + (*(int32_t *)owner)++;
}

/* The commands of the standard choice. */
static void emit(const problem *p, const ocl_device_desc *d, ocl_command_list *list)
{
    int32_t scratch = 0;
    *list = (ocl_command_list){0};
    assert_ok(clt_arena_create(&list->arena));
    CLT_SCOPED(ocl_emitter) e = {.list = list,
                                 .device = d,
                                 .label = "layer",
                                 .workspace = workspace,
                                 .owner = &scratch,
                                 .tf32 = p->call.tf32};
    assert_ok(ocl_family_emit(&e, family_of(p), &p->call, "layer", NULL));
    assert_ok(ocl_emit_status(&e));
}

static void discard(ocl_command_list *list)
{
    CLT_SCOPED(clt_arena) *arena = list->arena;
    ocl_command_list_free(list);
}

/* The value of a kernel's define, or 0. */
static int define_of(const ocl_command *c, const char *name)
{
    char word[32];
    snprintf(word, sizeof word, "-D%s=", name);
    const char *at = strstr(c->options, word);
    return at ? atoi(at + strlen(word)) : 0;
}

static bool is_product(const ocl_command *c)
{
    return c->kind == OCL_CMD_KERNEL && strncmp(c->kernel, "gemm_fwd", 8) == 0;
}

static void print_choice(const layer *l, int way, const ocl_variant *v, const ocl_command_list *list)
{
    printf("%2dx %4lld -> %4lld %lldx%lld/%lld %3lld %-7s %-8s", l->count, (long long)l->in,
           (long long)l->out, (long long)l->kernel, (long long)l->kernel, (long long)l->stride,
           (long long)l->size, ways[way], v->name);
    for (size_t i = 0; i < list->count; i++) {
        const ocl_command *c = &list->commands[i];
        if (is_product(c))
            printf(" %s %dx%d s%d groups %zu%s;", c->variant, define_of(c, "BM"), define_of(c, "BN"),
                   define_of(c, "STAGES"), c->global[0] / c->local[0],
                   define_of(c, "PARTIAL") ? " parts" : "");
    }
    printf("\n");
}

/* Calls test() for every layer and direction that training computes. */
static void each(const ocl_device_desc *d, clt_dtype type, bool tf32,
                 void (*test)(const layer *l, int way, const problem *p, const ocl_device_desc *d))
{
    for (int i = 0; i < LAYERS; i++)
        for (int way = 0; way < WAYS; way++) {
            problem p;
            if (i == 0 && way == DATA) /* nobody needs the gradient of the images */
                continue;
            problem_make(&p, &layers[i], way, type, tf32, d);
            test(&layers[i], way, &p, d);
            clt_graph_destroy(p.graph);
        }
}

static void table(const layer *l, int way, const problem *p, const ocl_device_desc *d)
{
    ocl_command_list list;
    emit(p, d, &list);
    print_choice(l, way, standard_of(p, d), &list);
    discard(&list);
}

static bool is_pointwise(const layer *l)
{
    return l->kernel == 1 && l->stride == 1;
}

static void expect_variant(const layer *l, int way, const problem *p, const ocl_device_desc *d,
                           const char *want)
{
    const ocl_variant *v = standard_of(p, d);
    if (strcmp(v->name, want) != 0)
        fail_msg("%lld to %lld channels, window %lld, stride %lld, %s: the choice is %s, not %s",
                 (long long)l->in, (long long)l->out, (long long)l->kernel, (long long)l->stride, ways[way],
                 v->name, want);
}

/* Windows are read where they lie, and every product is one of matrix units, with tiles that are not
 * small. */
static void on_units(const layer *l, int way, const problem *p, const ocl_device_desc *d)
{
    ocl_command_list list;
    int products = 0;
    expect_variant(l, way, p, d, is_pointwise(l) ? "matrix" : "implicit");
    emit(p, d, &list);
    for (size_t i = 0; i < list.count; i++) {
        const ocl_command *c = &list.commands[i];
        if (!is_product(c))
            continue;
        products++;
        assert_true(strcmp(c->variant, "mma") == 0 || strcmp(c->variant, "wgmma") == 0);
        assert_int_equal(define_of(c, "WINDOWS"), is_pointwise(l) ? 0 : way == WEIGHT ? 2 : 1);
        if (!is_pointwise(l) && way == WEIGHT)
            assert_int_equal(define_of(c, "WINDOWS_DIMS"), 2);
        assert_true(is_pointwise(l) || define_of(c, "BM") * define_of(c, "BN") >= 128 * 64);
        assert_true(c->n_args <= OCL_MAX_ARGS);
    }
    /* a phase without windows has no product; with a stride of 1 there is one phase */
    assert_int_equal(products, way == DATA && l->kernel > 1 ? l->stride * l->stride : 1);
    discard(&list);
}

TEST(test_half)
{
    ocl_device_desc hopper = gpu(90), ampere = gpu(80);
    each(&hopper, CLT_F16, false, on_units);
    each(&hopper, CLT_BF16, false, on_units);
    each(&ampere, CLT_F16, false, on_units);
}

/* On an H100, `wgmma` computes the gradients of weights and the other products of windows. */
static void takes_wgmma(const layer *l, int way, const problem *p, const ocl_device_desc *d)
{
    ocl_command_list list;
    if (is_pointwise(l) || l->in % 128 != 0)
        return;
    emit(p, d, &list);
    for (size_t i = 0; i < list.count; i++) {
        const ocl_command *c = &list.commands[i];
        if (is_product(c) && strcmp(c->variant, "wgmma") != 0)
            fail_msg("%lld to %lld channels, %s: the product is %s's", (long long)l->in, (long long)l->out,
                     ways[way], c->variant);
    }
    discard(&list);
}

TEST(test_wgmma)
{
    ocl_device_desc hopper = gpu(90);
    each(&hopper, CLT_F16, false, takes_wgmma);
    each(&hopper, CLT_BF16, false, takes_wgmma);
}

static bool has_winograd(const layer *l)
{
    return l->kernel == 3 && l->stride == 1;
}

static void stays_winograd(const layer *l, int way, const problem *p, const ocl_device_desc *d)
{
    if (has_winograd(l))
        expect_variant(l, way, p, d, "winograd");
}

/* precision.matmul tf32 makes f32 convolutions implicit products where the device has units for TF32, and
 * nowhere else. */
TEST(test_tf32)
{
    ocl_device_desc hopper = gpu(90), ampere = gpu(80), turing = gpu(75), cpu = gpu(75), emulated;
    each(&hopper, CLT_F32, true, on_units);
    each(&ampere, CLT_F32, true, on_units);
    each(&hopper, CLT_F32, false, stays_winograd);
    each(&ampere, CLT_F32, false, stays_winograd);
    each(&turing, CLT_F32, true, stays_winograd);
    ampere.caps &= ~(uint32_t)OCL_CAP_MMA_TF32; /* a probe has failed */
    each(&ampere, CLT_F32, true, stays_winograd);
    cpu.is_gpu = false;
    cpu.is_cpu = true;
    cpu.caps = OCL_CAP_WIDE_VECTORS;
    cpu.vector_floats = 16;
    assert_true(ocl_prefers_lanes(&cpu));
    each(&cpu, CLT_F32, true, stays_winograd);
    emulated = cpu; /* with units emulated for tests */
    emulated.caps |= OCL_CAP_LOCAL | OCL_CAP_WG256 | OCL_CAP_MMA_TF32;
    emulated.emulated_caps = OCL_CAP_MMA_TF32;
    each(&emulated, CLT_F32, true, stays_winograd);
}

/* Records of one precision do not apply to the other, and only f32 has two. */
TEST(test_problem_text)
{
    ocl_device_desc d = gpu(80);
    for (int way = 0; way < WAYS; way++)
        for (int tf32 = 0; tf32 < 2; tf32++) {
            char single[OCL_TUNE_PROBLEM], half[OCL_TUNE_PROBLEM];
            problem p;
            problem_make(&p, &layers[2], way, CLT_F32, tf32 != 0, &d);
            family_of(&p)->problem(&p.call, single, sizeof single);
            clt_graph_destroy(p.graph);
            problem_make(&p, &layers[2], way, CLT_F16, tf32 != 0, &d);
            family_of(&p)->problem(&p.call, half, sizeof half);
            clt_graph_destroy(p.graph);
            assert_int_equal(strstr(single, " +tf32") != NULL, tf32);
            assert_null(strstr(half, "tf32"));
        }
}

/* A plan's precision option reaches the choice, and the tuner measures a problem with the precision of its
 * plan. */
TEST(test_plan)
{
    ocl_device_desc d = gpu(80);
    const clt_op *op = clt_op_find("conv2d");
    clt_op_case layer_case = {.name = "layer",
                              .attrs = "{\"out\":64,\"kernel\":3,\"padding\":1}",
                              .n_inputs = 1,
                              .inputs = {{.dtype = CLT_F32, .ndim = 4, .dim = {2, 32, 14, 14}}}};
    for (int tf32 = 0; tf32 < 2; tf32++) {
        clt_verify_subject subject = {op, &layer_case, NULL};
        clt_verify_setup setup = {
            .mode = CLT_PLAN_CHECK, .copies = 1, .want_in = 1, .want_params = true, .tf32 = tf32 != 0};
        clt_verify_bench bench = {0};
        bool winograd = false, rounded = false;
        assert_ok(clt_verify_plan(&d, &subject, &setup, &bench));
        for (int phase = CLT_PHASE_FORWARD; phase <= CLT_PHASE_BACKWARD; phase++)
            for (size_t i = 0; i < bench.plan->phase[phase].count; i++) {
                const ocl_command *c = &bench.plan->phase[phase].commands[i];
                winograd = winograd || (c->family != NULL && strcmp(c->family, "conv_winograd") == 0);
                rounded = rounded || (is_product(c) && define_of(c, "MMA_TF32") == 1);
            }
        assert_int_equal(winograd, !tf32);
        assert_int_equal(rounded, tf32);
        clt_plan_destroy(bench.plan);
    }
    problem p;
    void *data;
    size_t size;
    problem_make(&p, &layers[2], FORWARD, CLT_F32, true, &d);
    assert_ok(family_of(&p)->describe(&p.call, &data, &size));
    assert_true(((const clt_op_problem *)data)->tf32);
    free(data);
    clt_graph_destroy(p.graph);
}

static int print_tables(void)
{
    ocl_device_desc hopper = gpu(90), ampere = gpu(80);
    printf("H100, f16\n");
    each(&hopper, CLT_F16, false, table);
    printf("H100, tf32\n");
    each(&hopper, CLT_F32, true, table);
    printf("A100, f16\n");
    each(&ampere, CLT_F16, false, table);
    return 0;
}

static void print_if_asked(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "table") == 0)
        exit(print_tables());
}

TEST_PROGRAM(.begin = print_if_asked);
