/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused plans against plans without fusion: which commands disappear, and that several training steps give
 * the same bits (losses, gradients, parameters), for GPTs, MLPs and graphs whose shapes invite fusing and
 * forbid it.
 * ctest-labels: quick ctest-full: all ctest-cost: 25 ctest-optimise: no */
#include "tests/unit/plan/fuse_test.h"

/* --- plans --- */

static clt_plan *plan_of(const char *model, const char *more, bool fuse)
{
    char text[4096];
    snprintf(text, sizeof text,
             "{\"model\":%s,\"data\":{\"type\":\"synthetic\",\"shape\":[24],\"classes\":7,\"samples\":64,"
             "\"micro_batch\":64},\"train\":{\"steps\":3,\"fuse\":\"%s\"%s}}",
             model, fuse ? "on" : "off", more);
    CLT_SCOPED(clt_config) *config = train_config(text);
    ocl_device_desc desc;
    CLT_SCOPED(clt_job) *job = NULL;
    ocl_desc_generic(&desc);
    must(clt_job_create(config, &desc, 1, CLT_JOB_TRAIN, &job), "job");
    clt_plan *plan = job->train;
    job->train = NULL;
    return plan;
}

static size_t count(const clt_plan *plan, clt_phase phase, const char *kernel)
{
    size_t n = 0;
    for (size_t c = 0; c < plan->phase[phase].count; c++)
        if (plan->phase[phase].commands[c].kind == OCL_CMD_KERNEL)
            n += strncmp(plan->phase[phase].commands[c].kernel, kernel, strlen(kernel)) == 0;
    return n;
}

/* In the forward pass a residual block is a norm and two GEMMs; in the backward pass no gradient is copied,
 * added or transformed separately. */
TEST(test_residual_plan)
{
    clt_plan *plan = plan_of(RESIDUAL, "", true), *plain = plan_of(RESIDUAL, "", false);
    static const char *const gone[] = {"unary", "binary", "elementwise", "bias_fwd"};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        for (int p = CLT_PHASE_FORWARD; p <= CLT_PHASE_BACKWARD; p++)
            assert_int_equal(count(plan, (clt_phase)p, gone[i]), 0);
    assert_int_equal(count(plain, CLT_PHASE_FORWARD, "unary_fwd"), 2);
    assert_int_equal(count(plain, CLT_PHASE_FORWARD, "binary_fwd"), 2);
    assert_int_equal(count(plain, CLT_PHASE_BACKWARD, "unary_bwd"), 2);
    assert_int_equal(count(plain, CLT_PHASE_BACKWARD, "elementwise_bwd_copy"), 4);
    assert_true(plan->activation_bytes < plain->activation_bytes);
    clt_plan_destroy(plan);
    clt_plan_destroy(plain);
}

/* x + f(x), where f's own GEMM would add to the gradient that it reads: one branch needs a copy. */
TEST(test_copy_that_must_stay)
{
    CLT_SCOPED(clt_plan) *plan = plan_of(GRAPH(STEM "," LAYER("linear", "mid", ",\"out\":16") "," LAYER(
                                             "add", "sum", ",\"inputs\":[\"stem\",\"mid\"]") "," HEAD),
                                         "", true);
    assert_int_equal(count(plan, CLT_PHASE_BACKWARD, "elementwise_bwd_copy"), 1);
}

/* a + b, both of which another layer reads, too. The gradient of a shares the memory of the sum's gradient,
 * and other work adds to it there. Only after that is something added to the gradient of b, which needs the
 * sum's gradient as it was before. */
#define TWO_GROW                                                                                             \
    GRAPH(STEM "," LAYER("linear", "b", ",\"out\":16") "," LAYER("linear", "v", ",\"out\":16") "," LAYER(    \
        "linear", "a",                                                                                       \
        ",\"inputs\":[\"stem\"],\"out\":16") "," LAYER("linear", "u",                                        \
                                                       ",\"out\":16") "," LAYER("add", "sum",                \
                                                                                ",\"inputs\":[\"a\","        \
                                                                                "\"b\"]") "," LAYER("co"     \
                                                                                                    "nc"     \
                                                                                                    "a"      \
                                                                                                    "t",     \
                                                                                                    "al"     \
                                                                                                    "l",     \
                                                                                                    ","      \
                                                                                                    "\""     \
                                                                                                    "in"     \
                                                                                                    "pu"     \
                                                                                                    "ts"     \
                                                                                                    "\""     \
                                                                                                    ":["     \
                                                                                                    "\""     \
                                                                                                    "su"     \
                                                                                                    "m"      \
                                                                                                    "\""     \
                                                                                                    ","      \
                                                                                                    "\""     \
                                                                                                    "u"      \
                                                                                                    "\""     \
                                                                                                    ","      \
                                                                                                    "\""     \
                                                                                                    "v"      \
                                                                                                    "\""     \
                                                                                                    "]") "," HEAD)

TEST(test_copy_for_a_later_sum)
{
    CLT_SCOPED(clt_plan) *plan = plan_of(TWO_GROW, "", true);
    assert_int_equal(count(plan, CLT_PHASE_BACKWARD, "elementwise_bwd_copy"), 1);
}

/* batch_norm absorbs the relu after it and a sum before it, and computes their gradients, too; the tensors
 * between them are not stored. A sum without relu, and a result with another reader, stay separate. */
#define NORM(name, from) LAYER("batch_norm", name, ",\"inputs\":[\"" from "\"]")
#define BEND(op, name, from) LAYER(op, name, ",\"inputs\":[\"" from "\"]")
#define WIDE(name, from) LAYER("linear", name, ",\"inputs\":[\"" from "\"],\"out\":16")
#define PAIR(op, name, a, b) LAYER(op, name, ",\"inputs\":[\"" a "\",\"" b "\"]")
#define NORMED                                                                                               \
    GRAPH(STEM "," NORM("n1", "stem") "," BEND("relu", "r1", "n1") "," WIDE("b", "r1") "," NORM(             \
        "n2", "b") "," NORM("n3", "stem") "," PAIR("add", "c", "n2", "n3") "," BEND("relu", "r2",            \
                                                                                    "c") "," HEAD)
#define NORMED_IMAGES                                                                                        \
    GRAPH(STEM "," LAYER("reshape", "i", ",\"shape\":[4,2,2]") "," NORM("n1", "i") "," BEND(                 \
        "relu", "r1",                                                                                        \
        "n1") "," NORM("n2",                                                                                 \
                       "r1") "," PAIR("add", "c", "r1",                                                      \
                                      "n2") "," BEND("relu", "r2",                                           \
                                                     "c") "," NORM("n3",                                     \
                                                                   "r2") "," PAIR("multiply", "d", "n3",     \
                                                                                  "r2") "," LAYER("flatten", \
                                                                                                  "f",       \
                                                                                                  "") "," HEAD)
#define NORMED_STAY                                                                                          \
    GRAPH(STEM                                                                                               \
          "," NORM("n1", "stem") "," BEND("relu", "r1", "n1") "," PAIR("add", "c", "r1", "n1") "," NORM(     \
              "n2", "c") "," PAIR("add", "d", "n2", "c") "," NORM("n3", "d") "," BEND("tanh", "t",           \
                                                                                      "n3") "," HEAD)

static const clt_work *work_of(const clt_plan *plan, clt_work_kind kind, const char *node)
{
    for (size_t w = 0; w < plan->n_work; w++)
        if (plan->work[w].kind == kind && strcmp(plan->work[w].node->name, node) == 0)
            return &plan->work[w];
    return NULL;
}

TEST(test_norms_take_in)
{
    clt_plan *plan = plan_of(NORMED, "", true), *plain = plan_of(NORMED, "", false);
    static const char *const gone[] = {"unary", "binary", "elementwise"};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        for (int p = CLT_PHASE_FORWARD; p <= CLT_PHASE_BACKWARD; p++)
            assert_int_equal(count(plan, (clt_phase)p, gone[i]), 0);
    assert_int_equal(count(plain, CLT_PHASE_FORWARD, "unary_fwd"), 2);
    assert_true(plan->activation_bytes < plain->activation_bytes);
    const clt_work *n2 = work_of(plan, CLT_WORK_FORWARD, "n2");
    assert_int_equal(n2->node->n_in, 2);
    assert_string_equal(n2->node->folded[0]->name, "c");
    assert_string_equal(n2->node->folded[1]->name, "r2");
    assert_null(work_of(plan, CLT_WORK_FORWARD, "r1"));
    assert_null(work_of(plan, CLT_WORK_BACKWARD, "r2"));
    assert_int_equal(work_of(plan, CLT_WORK_FORWARD, "n3")->node->n_in, 1);
    clt_plan_destroy(plan);
    clt_plan_destroy(plain);
    plan = plan_of(NORMED_STAY, "", true);
    assert_non_null(work_of(plan, CLT_WORK_FORWARD, "r1"));
    assert_non_null(work_of(plan, CLT_WORK_FORWARD, "t"));
    clt_plan_destroy(plan);
}

/* The input of relu need not be kept, because its output has the same sign. */
TEST(test_relu_keeps_one_tensor)
{
    CLT_SCOPED(clt_plan) *plan =
        plan_of("{\"type\":\"mlp\",\"hidden\":[64,64],\"activation\":\"relu\"}", "", true);
    for (size_t i = 0; i < plan->graph->n_tensors; i++) {
        const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)i);
        if (t->cls == CLT_TC_ACTIVATION && strcmp(t->name, "fc1") == 0)
            assert_int_equal(plan->place[i].kind, CLT_PLACE_NONE);
    }
    assert_int_equal(count(plan, CLT_PHASE_BACKWARD, "unary_bwd"), 0);
}

static const clt_tensor *named(const clt_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->graph->n_tensors; i++)
        if (strcmp(clt_graph_tensor(plan->graph, (int32_t)i)->name, name) == 0)
            return clt_graph_tensor(plan->graph, (int32_t)i);
    fail_msg("no tensor '%s'", name);
    return NULL;
}

/* Logits that are not the output of a linear layer: their gradient replaces them, unless backward reads them
 * again. */
#define LOGITS(op)                                                                                                     \
    GRAPH(                                                                                                             \
        STEM                                                                                                           \
        "," LAYER("linear", "a", ",\"out\":7") "," LAYER("linear", "b", ",\"out\":7,\"inputs\":[\"stem\"]") "," LAYER( \
            "multiply", "c",                                                                                           \
            ",\"inputs\":[\"a\",\"b\"]") "," LAYER(op, "d", "") "," LAYER("cross_entropy", "loss",                     \
                                                                          ",\"inputs\":[\"d\",\"y\"]"))
#define SCALED LOGITS("silu")
#define BENT LOGITS("tanh")

/* Two losses read the logits. In backward the second loss adds to a gradient, which therefore cannot
 * replace the logits. */
#define TWO_LOSSES                                                                                           \
    GRAPH(STEM "," LAYER("linear", "a", ",\"out\":7") "," LAYER("silu", "d", "") "," LAYER(                  \
        "cross_entropy", "loss", ",\"inputs\":[\"d\",\"y\"]") "," LAYER("cross_entropy", "again",            \
                                                                        ",\"inputs\":[\"d\",\"y\"]"))

TEST(test_gradient_in_place)
{
    static const char *const models[] = {SCALED, BENT, TWO_LOSSES};
    for (int m = 0; m < 3; m++) {
        CLT_SCOPED(clt_plan) *plan = plan_of(models[m], "", true);
        assert_int_equal(named(plan, "d d")->view_of, m == 0 ? named(plan, "d")->id : -1);
    }
}

/* --- on the device --- */

/* 1024 rows of 20000 classes: 78 MiB of logits, two chunks. */
#define WIDE_HEAD(more)                                                                                      \
    "{\"model\":{\"type\":\"gpt\",\"layers\":1,\"heads\":2,\"channels\":16,\"context\":32,\"vocab\":20000,"  \
    "\"vocab_pad\":64" more "},\"data\":{\"type\":\"text\",\"path\":\"%D/text.txt\",\"micro_batch\":32,"     \
    "\"split\":0.5},\"optimizer\":{\"type\":\"adamw\"},\"train\":{\"steps\":2,\"eval_batches\":1}}"

/* The derivative of the activation before the head is computed for the rows of the current chunk. */
#define WIDE_CLASSES                                                                                         \
    "{\"model\":" GRAPH(                                                                                     \
        STEM "," LAYER("gelu", "act", "") "," LAYER("linear", "head", ",\"out\":20032") "," LAYER(           \
            "cross_entropy", "loss",                                                                         \
            ",\"inputs\":[\"head\",\"y\"]")) ",\"data\":{\"type\":\"synthetic\",\"shape\":[24],\"classes\":" \
                                             "20032,\"samples\":2048,"                                       \
                                             "\"micro_batch\":1024},\"optimizer\":{\"type\":\"adamw\"},"     \
                                             "\"train\":{\"steps\":2}}"

static void fused_is_unfused(const char *text)
{
    if (left_out())
        return;
    trained plain = train(text, "train.fuse=off", 3), fused = train(text, "", 3);
    same_bits(text, &plain, &fused);
    trained_free(&plain);
    trained_free(&fused);
}

TEST(test_mlp)
{
    fused_is_unfused(OVER_NUMBERS("{\"type\":\"mlp\",\"hidden\":[40,33],\"activation\":\"gelu\"}", ""));
    fused_is_unfused(
        OVER_NUMBERS("{\"type\":\"mlp\",\"hidden\":[40,33],\"activation\":\"relu\",\"dropout\":0.3}", TWICE));
    fused_is_unfused(OVER_NUMBERS("{\"type\":\"mlp\",\"hidden\":[40],\"activation\":\"tanh\"}", ""));
}

TEST(test_gpt)
{
    fused_is_unfused(OVER_TEXT("\"activation\":\"gelu_tanh\"", ",\"global_batch\":4"));
    fused_is_unfused(OVER_TEXT("\"activation\":\"gelu\",\"bias\":false,\"tied\":false,\"dropout\":0.2", ""));
    fused_is_unfused(OVER_TEXT("\"activation\":\"relu\"", ""));
}

TEST(test_graphs)
{
    fused_is_unfused(OVER_NUMBERS(RESIDUAL, TWICE));
    /* the activation's input and output have more readers */
    fused_is_unfused(OVER_NUMBERS(
        GRAPH(STEM "," LAYER("relu", "a", "") "," LAYER("linear", "b", ",\"out\":16") "," LAYER(
            "add", "c", ",\"inputs\":[\"stem\",\"b\"]") "," LAYER("multiply", "d",
                                                                  ",\"inputs\":[\"c\",\"a\"]") "," HEAD),
        ""));
    /* relu directly before a sum; only the sum's output is stored */
    fused_is_unfused(
        OVER_NUMBERS(GRAPH(STEM "," LAYER("linear", "b", ",\"out\":16") "," LAYER("relu", "a", "") "," LAYER(
                         "add", "c", ",\"inputs\":[\"stem\",\"a\"]") "," HEAD),
                     ""));
    fused_is_unfused(OVER_NUMBERS(
        GRAPH(STEM "," LAYER("linear", "b", ",\"out\":16") "," LAYER("gelu", "a", "") "," LAYER(
            "add", "c",
            ",\"inputs\":[\"a\",\"stem\"]") "," LAYER("linear", "e",
                                                      ",\"out\":16") "," LAYER("add", "f",
                                                                               ",\"inputs\":[\"e\","
                                                                               "\"c\"]") "," LAYER("add", "g",
                                                                                                   ",\"in"
                                                                                                   "puts"
                                                                                                   "\":["
                                                                                                   "\"f\""
                                                                                                   ",\"c"
                                                                                                   "\"]") "," HEAD),
        TWICE));
    fused_is_unfused(OVER_NUMBERS(SCALED, ""));
    fused_is_unfused(OVER_NUMBERS(BENT, TWICE));
    /* the head's logits in another shape */
    fused_is_unfused(OVER_NUMBERS(
        GRAPH(STEM "," LAYER("linear", "head", ",\"out\":7") "," LAYER("flatten", "line", "") "," LAYER(
            "cross_entropy", "loss", ",\"inputs\":[\"line\",\"y\"]")),
        ""));
    /* a sum of three, and the same tensor twice */
    fused_is_unfused(OVER_NUMBERS(
        GRAPH(STEM "," LAYER("tanh", "a", "") "," LAYER("linear", "b", ",\"out\":16") "," LAYER(
            "add", "c",
            ",\"inputs\":[\"stem\",\"a\",\"b\"]") "," LAYER("add", "d",
                                                            ",\"inputs\":[\"c\",\"c\"]") "," HEAD),
        ""));
}

/* Derivatives that cannot be part of the GEMM before them, although it seems possible. */
TEST(test_derivatives)
{
    /* two activations in a row: a GEMM can include only one */
    fused_is_unfused(OVER_NUMBERS(
        GRAPH(STEM "," BEND("relu", "a", "stem") "," BEND("gelu", "b", "a") "," WIDE("c", "b") "," HEAD),
        TWICE));
    fused_is_unfused(OVER_NUMBERS(
        GRAPH(STEM "," BEND("gelu", "a", "stem") "," BEND("relu", "b", "a") "," WIDE("c", "b") "," HEAD),
        ""));
    /* stem's other reader writes its gradient after the GEMM and before the activation's backward, which
     * then adds */
    fused_is_unfused(
        OVER_NUMBERS(GRAPH(STEM "," BEND("gelu", "a", "stem") "," BEND("tanh", "t", "stem") "," WIDE(
                         "b", "a") "," PAIR("add", "c", "b", "t") "," HEAD),
                     TWICE));
    /* two GEMMs contribute to the gradient of gelu's output, and so does, twice, a product of it with
     * itself */
    fused_is_unfused(OVER_NUMBERS(GRAPH(STEM "," BEND("gelu", "a", "stem") "," WIDE("b", "a") "," WIDE(
                                      "c", "a") "," PAIR("multiply", "d", "b", "c") "," HEAD),
                                  ""));
    fused_is_unfused(OVER_NUMBERS(GRAPH(STEM "," BEND("gelu", "a", "stem") "," WIDE("b", "a") "," PAIR(
                                      "multiply", "c", "a", "a") "," PAIR("add", "d", "b", "c") "," HEAD),
                                  TWICE));
}

/* Sums that cannot be the residual of a GEMM. */
TEST(test_sums)
{
    static const char *const graphs[] = {
        /* the layer's result has another reader */
        OVER_NUMBERS(GRAPH(STEM "," WIDE("b", "stem") "," PAIR("add", "c", "stem", "b") "," PAIR(
                         "multiply", "d", "c", "b") "," HEAD),
                     ""),
        OVER_NUMBERS(GRAPH(STEM "," WIDE("b", "stem") "," BEND("tanh", "m", "b") "," PAIR(
                         "add", "c", "stem", "b") "," PAIR("add", "d", "c", "m") "," HEAD),
                     ""),
        /* this reader is a head, which reads in the backward phase only */
        OVER_NUMBERS(
            GRAPH(
                STEM
                "," WIDE("b", "stem") "," LAYER("linear", "aside", ",\"inputs\":[\"b\"],\"out\":7") "," LAYER(
                    "cross_entropy", "aux",
                    ",\"inputs\":[\"aside\",\"y\"],\"weight\":0.3") "," PAIR("add", "c", "stem",
                                                                             "b") "," HEAD),
            TWICE),
        /* three */
        OVER_NUMBERS(GRAPH(STEM "," BEND("tanh", "a", "stem") "," WIDE("b", "a") "," LAYER(
                         "add", "c", ",\"inputs\":[\"b\",\"a\",\"stem\"]") "," HEAD),
                     ""),
        /* both terms are the layer's result */
        OVER_NUMBERS(GRAPH(STEM "," WIDE("b", "stem") "," PAIR("add", "c", "b", "b") "," HEAD), TWICE),
        /* the other term is computed later than the layer */
        OVER_NUMBERS(GRAPH(STEM "," WIDE("b", "stem") "," BEND("tanh", "t", "stem") "," PAIR("add", "c", "b",
                                                                                             "t") "," HEAD),
                     ""),
    };
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++)
        fused_is_unfused(graphs[i]);
}

/* Gradients that seem to be copies of another gradient until something is added there, so that the shared
 * memory has changed when the next reader comes. */
TEST(test_gradients_that_move_on)
{
    /* the sum passes its gradient to stem and b; tanh adds to stem's gradient before b's gradient is read */
    fused_is_unfused(
        OVER_NUMBERS(GRAPH(STEM "," BEND("silu", "a", "stem") "," BEND("silu", "b", "a") "," BEND(
                         "tanh", "t", "stem") "," PAIR("add", "c", "stem", "b") "," PAIR("multiply", "d", "c",
                                                                                         "t") "," HEAD),
                     TWICE));
    /* one layer adds to b's gradient, then another one to stem's */
    fused_is_unfused(OVER_NUMBERS(
        GRAPH(STEM
              "," BEND("silu", "a", "stem") "," BEND("silu", "b", "a") "," BEND("tanh", "t", "stem") "," BEND(
                  "sigmoid", "s", "b") "," PAIR("add", "c", "stem",
                                                "b") "," PAIR("multiply", "m", "t",
                                                              "s") "," PAIR("multiply", "d", "c",
                                                                            "m") "," HEAD),
        ""));
    fused_is_unfused(OVER_NUMBERS(TWO_GROW, ""));
    fused_is_unfused(OVER_NUMBERS(TWO_LOSSES, ""));
}

TEST(test_norms)
{
    fused_is_unfused(OVER_NUMBERS(NORMED, TWICE));
    fused_is_unfused(OVER_NUMBERS(NORMED_IMAGES, ""));
    fused_is_unfused(OVER_NUMBERS(NORMED_STAY, TWICE));
}

static void close_to(const char *what, const float *a, const float *b, uint64_t n)
{
    double largest = 0, worst = 0;
    for (uint64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)a[i]));
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
    }
    if (!(largest > 1e-5 && worst <= 1e-6 * largest))
        fail_msg("%s: differs by %.3g of at most %.3g", what, worst, largest);
}

/* A head in chunks: the loss is bitwise equal, gradients differ only in the order of one sum, and neither
 * plan ever holds all logits. */
TEST(test_chunked_head)
{
    static const char *const models[] = {WIDE_HEAD(""), WIDE_HEAD(",\"tied\":false"), WIDE_CLASSES};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        if (left_out())
            continue;
        trained plain = train(models[m], "train.fuse=off", 1), fused = train(models[m], "", 1);
        assert_true(memcmp(plain.loss[0], fused.loss[0], sizeof plain.loss[0]) == 0);
        assert_int_equal(plain.elements, fused.elements);
        close_to(models[m], plain.grads, fused.grads, plain.elements);
        assert_true(plain.train_bytes > 2 * fused.train_bytes);
        assert_true(fused.train_bytes < 1024 * 20032 * 4);
        trained_free(&plain);
        trained_free(&fused);
    }
}

TEST(test_chunked_evaluation)
{
    clt_eval_metrics metrics[2];
    uint64_t bytes[2];
    for (int fuse = 0; fuse < 2; fuse++) {
        CLT_SCOPED(clt_config) *config = train_config(WIDE_HEAD(""));
        set(config, "train.fuse", fuse ? "on" : "off");
        clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
        CLT_SCOPED(clt_run) *run = NULL;
        must(clt_run_create(&options, CLT_JOB_TRAIN, &run), "run");
        must(clt_run_evaluate(run, 0, 1, &metrics[fuse]), "evaluation");
        bytes[fuse] = run->job->eval->activation_bytes;
    }
    assert_true(metrics[0].samples > 0 && metrics[0].samples <= 32);
    assert_int_equal(metrics[0].targets, metrics[1].targets);
    assert_true(metrics[0].loss == metrics[1].loss);
    assert_true(metrics[0].accuracy == metrics[1].accuracy);
    assert_true(bytes[1] < bytes[0] && bytes[1] < 1024 * 20032 * 4);
}

TEST_PROGRAM(.device = true, .set_up = fuse_setup);
