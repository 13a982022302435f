/* SPDX-License-Identifier: Apache-2.0
 *
 * Golden parity: logits, gradients of step 1, ten losses, ten gradient norms and the parameters after ten
 * steps, against values that PyTorch computed (make_golden.py; the files in data/). Each net runs with SGD,
 * Adam and AdamW (the short list: SGD), one of them with all optimizers, with and without clipping, and with
 * the global batch of 15 as one micro-batch and as three, whose target counts differ. Needs a device, but no
 * PyTorch.
 *
 * Tolerances (the files hold float64 results, rounded to f32 where they are tensors; PyTorch's own float32
 * stays within a tenth of each): loss |d| <= 1e-5 max(1, |loss|); norm |d| <= 1e-5 norm; logits and gradients
 * max|d| <= 1e-5 max|ref| + 1e-7 per tensor; parameters max|d| <= 1e-5 max|ref| + 1e-3 lr per tensor, as Adam
 * divides by the root of a second moment that may be near zero.
 * ctest-labels: quick ctest-programs: kept ctest-full: all ctest-cost: 60 */
#include "tests/golden/golden_test.h"

#include "engine/train/run/run.h"

#define STEPS 10
#define BATCH 15
#define MICRO 5

typedef struct golden_net {
    const char *name, *model;
    int tensors; /* parameters */
    double clip; /* as in make_golden.py */
    bool micro;  /* its batch statistics need micro-batches of MICRO samples */
} golden_net;

static const golden_net nets[] = {
    {"mlp_tanh",
     "{\"type\": \"mlp\", \"hidden\": [29, 17], \"activation\": \"tanh\", \"outputs\": 7, \"ignore_index\": "
     "-1,"
     " \"label_smoothing\": 0.05}",
     6, 0.1, false},
    {"mlp_gelu",
     "{\"type\": \"mlp\", \"hidden\": [31, 19, 23], \"activation\": \"gelu\", \"outputs\": 3, \"loss\": "
     "\"mse\"}",
     8, 0.25, false},
    {"residual",
     "{\"type\": \"graph\", \"layers\": ["
     "{\"op\": \"embedding\", \"name\": \"tokens\", \"inputs\": [\"x\"], \"vocab\": 23, \"dim\": 19},"
     "{\"op\": \"linear\", \"name\": \"stem\", \"out\": 21},"
     "{\"op\": \"layernorm\", \"name\": \"norm1\"},"
     "{\"op\": \"linear\", \"name\": \"fc1\", \"out\": 37},"
     "{\"op\": \"gelu\", \"name\": \"act1\", \"approximate\": \"tanh\"},"
     "{\"op\": \"linear\", \"name\": \"fc2\", \"out\": 21},"
     "{\"op\": \"dropout\", \"name\": \"drop1\", \"p\": 0},"
     "{\"op\": \"add\", \"name\": \"sum1\", \"inputs\": [\"stem\", \"drop1\"]},"
     "{\"op\": \"layernorm\", \"name\": \"norm2\"},"
     "{\"op\": \"linear\", \"name\": \"fc3\", \"out\": 37, \"share\": \"fc1\"},"
     "{\"op\": \"gelu\", \"name\": \"act2\", \"approximate\": \"tanh\"},"
     "{\"op\": \"linear\", \"name\": \"fc4\", \"out\": 21},"
     "{\"op\": \"slice\", \"name\": \"left\", \"inputs\": [\"fc4\"], \"axis\": -1, \"start\": 0, \"stop\": "
     "8},"
     "{\"op\": \"silu\", \"name\": \"gate\"},"
     "{\"op\": \"slice\", \"name\": \"right\", \"inputs\": [\"fc4\"], \"axis\": -1, \"start\": 8},"
     "{\"op\": \"tanh\", \"name\": \"bend\"},"
     "{\"op\": \"concat\", \"name\": \"mixed\", \"inputs\": [\"bend\", \"gate\"]},"
     "{\"op\": \"add\", \"name\": \"sum2\", \"inputs\": [\"sum1\", \"mixed\"]},"
     "{\"op\": \"linear\", \"name\": \"head\", \"out\": 11},"
     "{\"op\": \"cross_entropy\", \"name\": \"next\", \"inputs\": [\"head\", \"y\"], \"ignore_index\": -100,"
     " \"label_smoothing\": 0.1},"
     "{\"op\": \"multiply\", \"name\": \"product\", \"inputs\": [\"sum2\", \"sum1\"]},"
     "{\"op\": \"linear\", \"name\": \"side\", \"out\": 1},"
     "{\"op\": \"reshape\", \"name\": \"flat\", \"shape\": [5]},"
     "{\"op\": \"scale\", \"name\": \"tens\", \"value\": 10},"
     "{\"op\": \"l1\", \"name\": \"copy\", \"inputs\": [\"tens\", \"x\"], \"weight\": 0.02}]}",
     17, 0.2, false},
    {"llama",
     "{\"type\": \"graph\", \"layers\": ["
     "{\"op\": \"embedding\", \"name\": \"tokens\", \"inputs\": [\"x\"], \"vocab\": 19, \"dim\": 20},"
     "{\"op\": \"rmsnorm\", \"name\": \"norm1\"},"
     "{\"op\": \"linear\", \"name\": \"qkv\", \"out\": 48},"
     "{\"op\": \"rotary\", \"name\": \"turned\", \"head\": 6, \"heads\": 6, \"base\": 500},"
     "{\"op\": \"attention\", \"name\": \"mixed\", \"heads\": 4, \"kv_heads\": 2},"
     "{\"op\": \"linear\", \"name\": \"proj\", \"out\": 20},"
     "{\"op\": \"add\", \"name\": \"sum1\", \"inputs\": [\"tokens\", \"proj\"]},"
     "{\"op\": \"rmsnorm\", \"name\": \"norm2\"},"
     "{\"op\": \"linear\", \"name\": \"gate\", \"inputs\": [\"norm2\"], \"out\": 26},"
     "{\"op\": \"silu\", \"name\": \"open\"},"
     "{\"op\": \"linear\", \"name\": \"up\", \"inputs\": [\"norm2\"], \"out\": 26},"
     "{\"op\": \"multiply\", \"name\": \"gated\", \"inputs\": [\"open\", \"up\"]},"
     "{\"op\": \"linear\", \"name\": \"down\", \"out\": 20},"
     "{\"op\": \"add\", \"name\": \"sum2\", \"inputs\": [\"sum1\", \"down\"]},"
     "{\"op\": \"rmsnorm\", \"name\": \"norm3\"},"
     "{\"op\": \"linear\", \"name\": \"head\", \"out\": 11},"
     "{\"op\": \"cross_entropy\", \"name\": \"next\", \"inputs\": [\"head\", \"y\"], \"ignore_index\": "
     "-100}]}",
     16, 0.2, false},
    {"batch_norm",
     "{\"type\": \"graph\", \"layers\": ["
     "{\"op\": \"linear\", \"name\": \"fc1\", \"out\": 29, \"bias\": false},"
     "{\"op\": \"batch_norm\", \"name\": \"norm1\"},"
     "{\"op\": \"tanh\", \"name\": \"act1\"},"
     "{\"op\": \"linear\", \"name\": \"fc2\", \"out\": 17, \"bias\": false},"
     "{\"op\": \"batch_norm\", \"name\": \"norm2\", \"affine\": false, \"momentum\": 0.4, \"eps\": 0.01},"
     "{\"op\": \"tanh\", \"name\": \"act2\"},"
     "{\"op\": \"linear\", \"name\": \"out\", \"out\": 7},"
     "{\"op\": \"cross_entropy\", \"name\": \"class\", \"inputs\": [\"out\", \"y\"], \"ignore_index\": -1,"
     " \"label_smoothing\": 0.05}]}",
     10, 0.1, true},
};

typedef struct golden_optimizer {
    const char *name, *config;
    double lr;
} golden_optimizer;

static const golden_optimizer optimizers[] = {
    {"sgd",
     "{\"type\": \"sgd\", \"learning_rate\": 0.05, \"momentum\": 0.9, \"nesterov\": true, \"weight_decay\": "
     "0.01,"
     " \"decay\": \"all\"}",
     0.05},
    {"adam",
     "{\"type\": \"adam\", \"learning_rate\": 0.01, \"beta1\": 0.9, \"beta2\": 0.99, \"weight_decay\": 0.05}",
     0.01},
    {"adamw",
     "{\"type\": \"adamw\", \"learning_rate\": 0.01, \"beta1\": 0.9, \"beta2\": 0.99, \"weight_decay\": 0.1}",
     0.01},
    /* with the net "residual" only */
    {"lars",
     "{\"type\": \"lars\", \"learning_rate\": 1, \"momentum\": 0.9, \"trust_coefficient\": 0.02, \"eps\": "
     "1e-6, \"weight_decay\": 0.05}",
     1},
    {"lamb",
     "{\"type\": \"lamb\", \"learning_rate\": 0.01, \"beta1\": 0.9, \"beta2\": 0.99, \"eps\": 1e-6, "
     "\"weight_decay\": 0.1}",
     0.01},
    {"nvlamb",
     "{\"type\": \"lamb\", \"learning_rate\": 0.01, \"beta1\": 0.9, \"beta2\": 0.99, \"eps\": 1e-6, "
     "\"weight_decay\": 0.1, \"trust_all\": true, \"trust_limit\": 3}",
     0.01},
    {"ema",
     "{\"type\": \"adamw\", \"learning_rate\": 0.01, \"beta1\": 0.7, \"beta2\": 0.9, \"weight_decay\": 0.1, "
     "\"ema\": 0.8}",
     0.01},
    {"lion",
     "{\"type\": \"lion\", \"learning_rate\": 0.003, \"beta1\": 0.9, \"beta2\": 0.98, \"weight_decay\": 0.1}",
     0.003},
    {"muon",
     "{\"type\": \"muon\", \"learning_rate\": 0.01, \"muon_momentum\": 0.9, \"beta1\": 0.9, \"beta2\": 0.99, "
     "\"adamw_rate\": 0.5, \"weight_decay\": 0.1}",
     0.01},
    {"muon_original",
     "{\"type\": \"muon\", \"learning_rate\": 0.02, \"muon_momentum\": 0.8, \"muon_nesterov\": false, "
     "\"muon_scale\": \"original\", \"adamw\": [\"fc1.*\"], \"beta1\": 0.9, \"beta2\": 0.99, \"adamw_rate\": "
     "0.2, "
     "\"weight_decay\": 0.1}",
     0.02},
};
#define N_OPTIMIZERS (sizeof optimizers / sizeof optimizers[0])
#define N_COMMON 3 /* with every net */

typedef struct golden_case {
    const golden_net *net;
    const golden_optimizer *optimizer;
    bool clip;
    int micro_batch;
    bool library; /* the plan must hold calls of the library's GEMM */
} golden_case;

static void compare_tensor(const char *what, const float *got, const clt_named_tensor *ref, int64_t elements,
                           double relative, double absolute)
{
    assert_int_equal(clt_shape_elements(&ref->shape), elements);
    CLT_FREED float *want = values_of(ref);
    compare(what, got, want, elements, relative, absolute);
}

static void compare_number(const char *what, int step, double got, double want, double allowed)
{
    if (getenv("CLT_GOLDEN_SHOW"))
        fprintf(stderr, "  %-40s off by %.2e, allowed %.2e\n", what, fabs(got - want), allowed);
    if (!(fabs(got - want) <= allowed))
        fail_msg("%s of step %d: got %.9g, PyTorch has %.9g; allowed difference %.3g", what, step + 1, got,
                 want, allowed);
}

static clt_config *make_config(const golden_case *c)
{
    char text[8192];
    clt_config *config;
    snprintf(text, sizeof text,
             "{\"model\": %s, \"data\": {\"type\": \"npy\", \"path\": \"" DATA
             "%s_x.npy\", \"targets\": \"" DATA
             "%s_y.npy\", \"micro_batch\": %d, \"global_batch\": %d, \"shuffle\": false, \"workers\": 1},"
             " \"optimizer\": %s, \"train\": {\"steps\": %d}}",
             c->net->model, c->net->name, c->net->name, c->micro_batch, BATCH, c->optimizer->config, STEPS);
    must(clt_config_parse(text, c->net->name, NULL, 0, &config), "config");
    if (c->clip) {
        char clip[32];
        snprintf(clip, sizeof clip, "%.17g", c->net->clip);
        must(clt_config_set(config, "optimizer.clip", clip), "config");
    }
    return config;
}

static void create_run(const golden_case *c, const clt_run_options *options, clt_job_kind kind, clt_run **run)
{
    char path[512];
    must(clt_run_create(options, kind, run), "run");
    snprintf(path, sizeof path, DATA "%s_init.safetensors", c->net->name);
    must(clt_run_load_parameters(*run, path), "initial parameters");
}

static void create_feed(clt_run *run, clt_realized *realized, clt_source *source, bool evaluation)
{
    clt_feed_options feed = {.realized = realized,
                             .source = source,
                             .global_batch = evaluation ? run->job->micro_batch : run->job->global_batch,
                             .accumulation = evaluation ? 1 : run->job->accumulation,
                             .ranks = 1,
                             .evaluation = evaluation,
                             .last_step = STEPS,
                             .workers = 1,
                             .prefetch = 4};
    must(clt_feed_create(&feed, &run->feed), "feed");
}

/* Compares one arena of the store: every tensor in it with the golden tensor of its name. */
static void compare_store(const golden_case *c, const clt_run *run, clt_arena_kind arena,
                          const clt_safetensors *file, const char *prefix, double relative, double absolute)
{
    const clt_store_layout *layout = run->store->layout;
    assert_int_equal(layout->n_slots, c->net->tensors);
    for (int32_t i = 0; i < layout->n_slots; i++) {
        const clt_store_slot *slot = &layout->slots[i];
        char what[256];
        if (!slot->trainable && arena != CLT_ARENA_PARAM)
            continue;
        CLT_FREED float *values = malloc(slot->elements * sizeof *values);
        assert_non_null(values);
        must(clt_store_read(run->store, arena, slot, values), slot->name);
        snprintf(what, sizeof what, "%s %s%s", c->net->name, prefix, slot->name);
        compare_tensor(what, values, tensor_of(file, prefix, slot->name), (int64_t)slot->elements, relative,
                       absolute);
    }
}

static void compare_step(clt_run *run, int step, const double loss[STEPS], const double norm[STEPS])
{
    clt_step_result result;
    bool have;
    double sum = 0;
    must(clt_reporter_take(run->reporter, true, &result, &have), "report");
    assert_true(have);
    assert_int_equal(result.step, step);
    assert_int_equal(result.state.update, step + 1);
    assert_int_equal(result.state.skipped, 0);
    for (int i = 0; i < run->job->train->graph->n_losses; i++)
        sum += (double)result.loss[i][0];
    compare_number("loss", step, sum, loss[step], 1e-5 * fmax(1, fabs(loss[step])));
    compare_number("gradient norm", step, (double)result.state.grad_norm, norm[step], 1e-5 * norm[step]);
}

static bool has_library_calls(const clt_plan *plan)
{
    for (size_t i = 0; i < plan->phase[CLT_PHASE_FORWARD].count; i++)
        if (plan->phase[CLT_PHASE_FORWARD].commands[i].kind == OCL_CMD_GEMM)
            return true;
    return false;
}

static void run_case(const golden_case *c)
{
    CLT_SCOPED(clt_config) *config = make_config(c);
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
    clt_run *run;
    char name[64];
    double loss[STEPS], norm[STEPS];
    if (getenv("CLT_GOLDEN_SHOW"))
        fprintf(stderr, "%s %s clip %d micro %d\n", c->net->name, c->optimizer->name, c->clip,
                c->micro_batch);
    snprintf(name, sizeof name, "%s%s", c->optimizer->name, c->clip ? "_clip" : "");
    clt_safetensors *file = open_file(c->net->name, name), *first = open_file(c->net->name, "first");
    read_doubles(file, "loss", loss, STEPS);
    read_doubles(file, "grad_norm", norm, STEPS);
    create_run(c, &options, CLT_JOB_TRAIN, &run);
    assert_int_equal(run->job->accumulation, BATCH / c->micro_batch);
    assert_true(!c->library || has_library_calls(run->job->train));
    create_feed(run, run->train, run->job->train_source, false);
    must(clt_reporter_create(run->train, 2, &run->reporter), "reporter");
    for (int step = 0; step < STEPS; step++) {
        must(clt_step(run, step), "step");
        compare_step(run, step, loss, norm);
        if (step == 0)
            compare_store(c, run, CLT_ARENA_GRAD, first, "grad.", 1e-5, 1e-7);
    }
    compare_store(c, run, CLT_ARENA_PARAM, file, "param.", 1e-5, 1e-3 * c->optimizer->lr);
    if (run->store->layout->ema)
        compare_store(c, run, CLT_ARENA_EMA, file, "param.average.", 1e-5, 1e-3 * c->optimizer->lr);
    clt_run_destroy(run);
    clt_safetensors_close(file);
    clt_safetensors_close(first);
}

/* Clipping comes with accumulation; every: SGD has all four combinations. A fault of an optimizer shows
 * with any net, and a fault in a net's gradients with any optimizer. */
static void run_net(const golden_net *net, bool every)
{
    size_t n = net == &nets[2] ? N_OPTIMIZERS : run_everything ? N_COMMON : 1;
    for (size_t o = 0; o < n; o++)
        for (int clip = 0; clip < 2; clip++)
            for (int micro = MICRO; micro <= BATCH; micro += BATCH - MICRO) {
                golden_case c = {net, &optimizers[o], clip != 0, micro, false};
                if (net->micro ? micro == MICRO : (every && o == 0) || (micro == MICRO) == c.clip)
                    run_case(&c);
            }
}

TEST(test_mlp_tanh)
{
    run_net(&nets[0], false);
}

TEST(test_mlp_gelu)
{
    run_net(&nets[1], false);
}

TEST(test_residual)
{
    run_net(&nets[2], true);
}

/* Also the running statistics, and predictions that are made with them (test_logits). */
TEST(test_batch_norm)
{
    run_net(&nets[4], false);
}

/* The same through the library's GEMM, if there is one: by default a CPU device takes our own. */
TEST(test_library_gemm)
{
    golden_case c = {&nets[2], &optimizers[0], true, MICRO, true};
    if (strcmp(ocl_gemm_variants[0]->name, "clblast") != 0)
        skip();
    setenv("CLTRAIN_GEMM", "clblast", 1);
    run_case(&c);
    unsetenv("CLTRAIN_GEMM");
}

/* Predictions of the evaluation plan over the first micro-batch. */
TEST(test_logits)
{
    for (size_t n = 0; n < sizeof nets / sizeof nets[0]; n++) {
        golden_case c = {&nets[n], &optimizers[0], false, MICRO, false};
        clt_config *config = make_config(&c);
        clt_run_options options = {
            .config = config, .caps_mask = OCL_CAPS_ALL, .on_train = true, .predicts = true};
        clt_run *run;
        clt_fed fed;
        clt_safetensors *first = open_file(c.net->name, "first");
        create_run(&c, &options, CLT_JOB_EVAL, &run);
        create_feed(run, run->eval, run->job->eval_source, true);
        must(clt_feed_next(run->feed, &fed), "first batch");
        assert_int_equal(fed.valid_samples, MICRO);
        must(clt_realized_run(run->eval, CLT_PHASE_FORWARD), "forward");
        const clt_tensor *t = clt_graph_tensor(run->eval->plan->graph, run->job->prediction);
        int64_t elements = clt_shape_elements(&t->shape);
        float *logits = malloc((size_t)elements * sizeof *logits);
        assert_non_null(logits);
        must(clt_realized_read(run->eval, run->job->prediction, logits), "logits");
        compare_tensor(c.net->name, logits, tensor_of(first, "", "logits"), elements, 1e-5, 1e-7);
        free(logits);
        clt_run_destroy(run);
        clt_safetensors_close(first);
        clt_config_destroy(config);
    }
}

/* Golden runs differ by far more than the tolerance, so that no optimizer can pass for another one. */
TEST(test_files_are_distinct)
{
    for (size_t n = 0; n < sizeof nets / sizeof nets[0]; n++) {
        double seen[2 * N_OPTIMIZERS][STEPS];
        int count = 0;
        for (size_t o = 0; o < (n == 2 ? N_OPTIMIZERS : N_COMMON); o++)
            for (int clip = 0; clip < 2; clip++, count++) {
                char name[64];
                snprintf(name, sizeof name, "%s%s", optimizers[o].name, clip ? "_clip" : "");
                clt_safetensors *file = open_file(nets[n].name, name);
                read_doubles(file, "loss", seen[count], STEPS);
                clt_safetensors_close(file);
                for (int other = 0; other < count; other++) {
                    double apart = 0;
                    for (int step = 0; step < STEPS; step++)
                        apart = fmax(apart, fabs(seen[other][step] - seen[count][step]));
                    assert_true(apart > 1e-3);
                }
            }
    }
}

TEST_PROGRAM(.device = true);
