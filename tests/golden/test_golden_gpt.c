/* SPDX-License-Identifier: Apache-2.0
 *
 * Golden parity of model.type gpt: logits, gradients of step 1, ten losses, ten gradient norms and the
 * parameters after ten steps of SGD and AdamW, against values that PyTorch computed (make_golden_gpt.py; the
 * files in data/), with the global batch of 15 as one micro-batch and as three, one of whose target counts is
 * 0 in some step. Parameters are compared as files hold them, so names and layout are GPT-2's published ones.
 * A file written the published way (prefix, masks, f16, the head's copy) must give the same loss. Needs a
 * device, but no PyTorch.
 *
 * Tolerances as in test_golden.c. One exception: biases of keys shift all scores of a row by the same
 * amount, so their true gradient is zero, and Adam, which divides by its size, turns rounding errors into
 * steps of up to the learning rate. These biases may be off by that much in each step; they change nothing
 * else.
 * ctest-labels: quick ctest-programs: kept ctest-cost: 24 */
#include "tests/golden/golden_test.h"

#include "engine/train/run/run.h"

#define STEPS 10
#define BATCH 15
#define MICRO 5

typedef struct gpt_net {
    const char *name, *model;
    int params, vocab, channels;
    double clip; /* AdamW's */
} gpt_net;

static const gpt_net nets[] = {
    {"gpt",
     "{\"type\": \"gpt\", \"layers\": 2, \"heads\": 3, \"channels\": 15, \"context\": 7, \"vocab\": 29, "
     "\"vocab_pad\": 16}",
     2 + 2 * 12 + 2, 29, 15, 0.5},
    {"gpt_free",
     "{\"type\": \"gpt\", \"layers\": 2, \"heads\": 2, \"channels\": 16, \"context\": 9, \"vocab\": 21, "
     "\"vocab_pad\": 4, \"bias\": false, \"tied\": false, \"activation\": \"gelu\"}",
     2 + 2 * 6 + 2, 21, 16, 0.5},
};

typedef struct gpt_case {
    const gpt_net *net;
    bool adamw;
    int micro_batch;
    const char *init; /* rest of the file's name */
} gpt_case;

static clt_config *make_config(const gpt_case *c)
{
    char text[4096];
    clt_config *config;
    snprintf(text, sizeof text,
             "{\"model\": %s, \"data\": {\"type\": \"npy\", \"path\": \"" DATA
             "%s_x.npy\", \"targets\": \"" DATA
             "%s_y.npy\", \"micro_batch\": %d, \"global_batch\": %d, \"shuffle\": false, \"workers\": 1},"
             " \"optimizer\": %s, \"train\": {\"steps\": %d}}",
             c->net->model, c->net->name, c->net->name, c->micro_batch, BATCH,
             c->adamw ? "{\"type\": \"adamw\", \"learning_rate\": 0.01, \"beta1\": 0.9, \"beta2\": 0.99, "
                        "\"weight_decay\": 0.1}"
                      : "{\"type\": \"sgd\", \"learning_rate\": 0.05, \"momentum\": 0.9, \"nesterov\": true, "
                        "\"weight_decay\": 0.01, \"decay\": \"all\"}",
             STEPS);
    must(clt_config_parse(text, c->net->name, NULL, 0, &config), "config");
    if (c->adamw) {
        snprintf(text, sizeof text, "%.17g", c->net->clip);
        must(clt_config_set(config, "optimizer.clip", text), "config");
    }
    return config;
}

static void create_run(const gpt_case *c, const clt_run_options *options, clt_job_kind kind, clt_run **run)
{
    char path[512];
    must(clt_run_create(options, kind, run), "run");
    snprintf(path, sizeof path, DATA "%s_%s.safetensors", c->net->name, c->init);
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

/* A tensor of the store with a parameter's shape, in the layout of files; its padding must be zero. */
static float *stored(const clt_run *run, clt_arena_kind arena, const clt_param *param, int64_t *n)
{
    const clt_store_slot *slot = clt_store_layout_find(run->store->layout, param->name);
    clt_shape shape = clt_param_file_shape(param);
    float *values = malloc(slot->elements * sizeof *values), *turned;
    assert_non_null(values);
    must(clt_store_read(run->store, arena, slot, values), param->name);
    *n = clt_shape_elements(&shape);
    for (uint64_t i = (uint64_t)*n; i < slot->elements; i++)
        assert_true(values[i] == 0.0f);
    if (!param->file_transposed)
        return values;
    turned = malloc(slot->elements * sizeof *turned);
    assert_non_null(turned);
    clt_shape matrices = clt_param_matrices(param, false);
    clt_transpose_last(&matrices, values, turned);
    free(values);
    return turned;
}

static void compare_store(const gpt_case *c, const clt_run *run, clt_arena_kind arena,
                          const clt_safetensors *file, const char *prefix, double relative, double absolute)
{
    const clt_graph *graph = run->job->train->graph;
    assert_int_equal(graph->n_params, c->net->params);
    for (size_t i = 0; i < graph->n_params; i++) {
        const clt_param *param = &graph->params[i];
        const clt_named_tensor *golden = tensor_of(file, prefix, param->file_name);
        char what[256];
        int64_t n, channels = c->net->channels;
        float *got = stored(run, arena, param, &n), *want = values_of(golden);
        assert_int_equal(clt_shape_elements(&golden->shape), n);
        snprintf(what, sizeof what, "%s %s%s", c->net->name, prefix, param->name);
        if (c->adamw && arena == CLT_ARENA_PARAM && strstr(param->name, "c_attn.bias")) {
            compare(what, got + channels, want + channels, channels, 0, STEPS * 0.01);
            memcpy(got + channels, want + channels, (size_t)channels * sizeof *got);
        }
        compare(what, got, want, n, relative, absolute);
        free(got);
        free(want);
    }
}

static void compare_step(clt_run *run, int step, const double loss[STEPS], const double norm[STEPS])
{
    clt_step_result result;
    bool have;
    must(clt_reporter_take(run->reporter, true, &result, &have), "report");
    assert_true(have);
    assert_int_equal(result.step, step);
    float got[2] = {result.loss[0][0], result.state.grad_norm},
          want[2] = {(float)loss[step], (float)norm[step]};
    compare("loss", got, want, 1, 1e-5, 1e-5);
    compare("gradient norm", got + 1, want + 1, 1, 1e-5, 1e-7);
}

static void run_case(const gpt_case *c)
{
    CLT_SCOPED(clt_config) *config = make_config(c);
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
    clt_run *run;
    double loss[STEPS], norm[STEPS], lr = c->adamw ? 0.01 : 0.05;
    clt_safetensors *file = open_file(c->net->name, c->adamw ? "adamw" : "sgd"),
                    *first = open_file(c->net->name, "first");
    read_doubles(file, "loss", loss, STEPS);
    read_doubles(file, "grad_norm", norm, STEPS);
    create_run(c, &options, CLT_JOB_TRAIN, &run);
    assert_int_equal(run->job->accumulation, BATCH / c->micro_batch);
    create_feed(run, run->train, run->job->train_source, false);
    must(clt_reporter_create(run->train, 2, &run->reporter), "reporter");
    for (int step = 0; step < STEPS; step++) {
        must(clt_step(run, step), "step");
        compare_step(run, step, loss, norm);
        if (step == 0)
            compare_store(c, run, CLT_ARENA_GRAD, first, "grad.", 1e-5, 1e-7);
    }
    compare_store(c, run, CLT_ARENA_PARAM, file, "param.", 1e-5, 1e-3 * lr);
    clt_run_destroy(run);
    clt_safetensors_close(file);
    clt_safetensors_close(first);
}

static void run_net(const gpt_net *net)
{
    for (int adamw = 0; adamw < 2; adamw++)
        for (int micro = MICRO; micro <= BATCH; micro += BATCH - MICRO) {
            gpt_case c = {net, adamw != 0, micro, "init"};
            run_case(&c);
        }
}

TEST(test_gpt)
{
    run_net(&nets[0]);
}

TEST(test_gpt_free)
{
    run_net(&nets[1]);
}

/* The same run from the published form of the file. */
TEST(test_published)
{
    gpt_case c = {&nets[0], false, MICRO, "published"};
    run_case(&c);
}

/* Predictions of the evaluation plan over the first micro-batch; logits of the padding are left out. */
TEST(test_logits)
{
    for (size_t n = 0; n < sizeof nets / sizeof nets[0]; n++) {
        gpt_case c = {&nets[n], false, MICRO, "init"};
        clt_config *config = make_config(&c);
        clt_run_options options = {
            .config = config, .caps_mask = OCL_CAPS_ALL, .on_train = true, .predicts = true};
        clt_run *run;
        clt_fed fed;
        clt_safetensors *first = open_file(c.net->name, "first");
        create_run(&c, &options, CLT_JOB_EVAL, &run);
        create_feed(run, run->eval, run->job->eval_source, true);
        must(clt_feed_next(run->feed, &fed), "first batch");
        must(clt_realized_run(run->eval, CLT_PHASE_FORWARD), "forward");
        const clt_tensor *t = clt_graph_tensor(run->eval->plan->graph, run->job->prediction);
        int64_t rows = clt_shape_rows(&t->shape), columns = clt_shape_last(&t->shape), vocab = nets[n].vocab;
        const clt_named_tensor *golden = tensor_of(first, "", "logits");
        float *logits = malloc((size_t)(rows * columns) * sizeof *logits), *want = values_of(golden);
        assert_non_null(logits);
        assert_true(columns > vocab);
        assert_int_equal(clt_shape_elements(&golden->shape), rows * vocab);
        must(clt_realized_read(run->eval, run->job->prediction, logits), "logits");
        for (int64_t r = 0; r < rows; r++)
            memmove(logits + r * vocab, logits + r * columns, (size_t)vocab * sizeof *logits);
        compare(nets[n].name, logits, want, rows * vocab, 1e-5, 1e-7);
        free(logits);
        free(want);
        clt_run_destroy(run);
        clt_safetensors_close(first);
        clt_config_destroy(config);
    }
}

/* words: parts of the text, separated by | */
static void expect_words(const char *text, const char *words)
{
    char word[300];
    for (const char *at = words; *at;) {
        size_t n = strcspn(at, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        if (!strstr(text, word))
            fail_msg("'%s' is not in: %s", word, text);
        at += n + (at[n] == '|');
    }
}

static void expect_refusal(const char *model, const char *words)
{
    gpt_net net = {.name = "gpt", .model = model};
    gpt_case c = {&net, false, MICRO, "published"};
    CLT_SCOPED(clt_config) *config = make_config(&c);
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL, .on_train = true};
    clt_run *run;
    must(clt_run_create(&options, CLT_JOB_EVAL, &run), "run");
    assert_int_equal(clt_run_load_parameters(run, DATA "gpt_published.safetensors"), CLT_ECHECKPOINT);
    expect_words(clt_error_text(), words);
    clt_run_destroy(run);
    /* the same message comes before a device is opened */
    options.init = DATA "gpt_published.safetensors";
    options.device_spec = "no such device";
    assert_int_equal(clt_run_create(&options, CLT_JOB_EVAL, &run), CLT_ECHECKPOINT);
    expect_words(clt_error_text(), words);
}

/* Weights with a tensor too many or too few are refused by name. */
TEST(test_refusals)
{
    expect_refusal("{\"type\": \"gpt\", \"layers\": 1, \"heads\": 3, \"channels\": 15, \"vocab\": 29}",
                   "together (12 tensors)|transformer.h.1.attn.c_attn.weight [15,45]: the model has no such "
                   "parameter|would fit the file: model.layers=2");
    expect_refusal(
        "{\"type\": \"gpt\", \"layers\": 4, \"heads\": 3, \"channels\": 15, \"vocab\": 29}",
        "together (24 tensors)|h.{2..3}.ln_1.weight is missing; the model needs it as [15]|fit the "
        "file: model.layers=2");
    expect_refusal("{\"type\": \"gpt\", \"layers\": 2, \"heads\": 3, \"channels\": 15, \"vocab\": 29, "
                   "\"bias\": false}",
                   "together (13 tensors)|transformer.h.{0..1}.mlp.c_fc.bias [60]: the model has no such "
                   "parameter|model.bias=true");
    expect_refusal(
        "{\"type\": \"gpt\", \"layers\": 2, \"heads\": 3, \"channels\": 15, \"vocab\": 31}",
        "together (1 tensor)|transformer.wte.weight is [29,15], the model needs [31,15]|model.vocab=29");
    expect_refusal("{\"type\": \"gpt\", \"layers\": 2, \"heads\": 3, \"channels\": 15, \"vocab\": 29, "
                   "\"context\": 9}",
                   "transformer.wpe.weight is [7,15], the model needs [9,15]|model.context=7");
    /* all faults in one message */
    expect_refusal(
        "{\"type\": \"gpt\", \"layers\": 2, \"heads\": 2, \"channels\": 16, \"vocab\": 31, "
        "\"tied\": false}",
        "together (29 tensors)|transformer.h.{0..1}.attn.c_attn.weight is [15,45], the model needs "
        "[16,48]|lm_head.weight|model.channels=15 model.vocab=29");
}

TEST_PROGRAM(.device = true);
