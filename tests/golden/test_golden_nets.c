/* SPDX-License-Identifier: Apache-2.0
 *
 * Golden parity of the model types resnet, cnn3d and unet3d: predictions with running statistics, losses and
 * gradient norms of five steps of SGD, gradients of the first step, and the parameters and running statistics
 * after the last, against values that PyTorch and torchvision computed (make_golden_nets.py; the files in
 * data/ hold norms and samples). Weights and data follow from a formula and are written to files as torchvision's
 * state_dict holds them, so that names and the order of elements are tested, too. The same steps with
 * activations recomputed by block must give the same. Needs a device, but no PyTorch.
 *
 * Tolerances: MARGIN times the differences that rounding errors make in PyTorch, which the files contain.
 * After the first step the tolerance is at least KINK (for gradients ten times that), since a ReLU whose
 * input is nearly zero may go either way, which switches its whole gradient on or off; the data of the
 * first step avoids that.
 * ctest-labels: quick ctest-optimise: no ctest-programs: kept ctest-full: all ctest-cost: 40 */
#include "tests/golden/golden_test.h"

#include "engine/files/fileio.h"
#include "engine/train/run/run.h"

#define STEPS 5
#define SAMPLES 7
#define LOGITS 200
#define ROW (1 + SAMPLES) /* norm and sampled elements of a tensor */
#define MARGIN 5.0
#define KINK 2e-4

typedef struct net {
    const char *name, *model;
    int ndim; /* number of x's dimensions: 3 or 4 */
    int64_t shape[4], classes, batch;
    bool dense; /* a class for each place */
    double lr;
    bool full; /* runs only with the argument all */
} net;

#define IMAGE 3, {3, 64, 48}, 7, 4, false, 1e-4
static const net nets[] = {
    {"resnet18_cifar",
     "\"resnet\", \"depth\": 18, \"stem\": \"cifar\", \"width\": 8",
     3,
     {3, 32, 32},
     10,
     4,
     false,
     1e-4,
     false},
    {"resnet50_narrow", "\"resnet\", \"depth\": 50, \"width\": 16", IMAGE, false},
    {"resnext50_narrow", "\"resnet\", \"depth\": 50, \"width\": 16, \"groups\": 4, \"width_per_group\": 8",
     IMAGE, true},
    {"resnet50", "\"resnet\", \"depth\": 50", 3, {3, 64, 64}, 10, 2, false, 1e-4, true},
    {"cnn3d",
     "\"cnn3d\", \"depth\": 10, \"stem\": \"small\", \"width\": 6",
     4,
     {2, 10, 14, 12},
     3,
     4,
     false,
     1e-2,
     false},
    {"cnn3d_large",
     "\"cnn3d\", \"depth\": 18, \"width\": 6, \"norm\": \"group_norm\", \"norm_groups\": 3",
     4,
     {1, 34, 40, 31},
     3,
     3,
     false,
     1e-3,
     true},
    {"unet3d",
     "\"unet3d\", \"levels\": 3, \"width\": 6, \"dice_weight\": 0.5",
     4,
     {1, 8, 16, 12},
     3,
     2,
     true,
     1e-2,
     false},
    {"unet3d_pool",
     "\"unet3d\", \"levels\": 3, \"width\": 5, \"width_limit\": 10, \"down\": \"max_pool\", \"norm\": "
     "\"batch_norm\", \"dice_weight\": 0",
     4,
     {2, 12, 8, 8},
     4,
     2,
     true,
     1e-2,
     false},
};

static bool run_all;
static char folder[256];

/* --- the formula of weights and data; make_golden_nets.py has the same --- */

static uint32_t word_of(const char *name, uint64_t index)
{
    uint32_t seed = 2166136261u;
    for (const char *c = name; *c; c++)
        seed = (seed ^ (uint8_t)*c) * 16777619u;
    uint32_t x = ((uint32_t)index * 0x9E3779B9u) ^ seed;
    x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    return x ^ (x >> 16);
}

static float noise(const char *name, uint64_t index)
{
    return (float)(word_of(name, index) >> 8) * 0x1p-23f - 1.0f;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Fills a tensor of a state_dict. */
static void fill(const char *name, const clt_shape *shape, float *out)
{
    int64_t n = clt_shape_elements(shape);
    float scale = (float)sqrt(6.0 / (double)(n / shape->dim[0]));
    float end = ends_with(name, "bn3.weight") ? 0.25f : 1.0f;
    for (int64_t i = 0; i < n; i++) {
        float u = noise(name, (uint64_t)i);
        if (shape->ndim > 1)
            out[i] = u * scale;
        else if (ends_with(name, "running_var"))
            out[i] = 1.0f + 0.5f * u;
        else if (ends_with(name, "weight"))
            out[i] = (0.75f + 0.25f * u) * end;
        else
            out[i] = 0.125f * u;
    }
}

static void file_path(char *buffer, size_t size, const char *rest)
{
    snprintf(buffer, size, "%s/%s", folder, rest);
}

/* Writes an array of elements of four bytes, of type "<f4" or "<i4". */
static void write_npy(const char *rest, const char *type, const clt_shape *shape, const void *data)
{
    char path[512], dims[128] = "", head[256];
    for (int i = 0; i < shape->ndim; i++)
        snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%d, ", (int)shape->dim[i]);
    int n =
        snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, dims);
    file_path(path, sizeof path, rest);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fprintf(file, "\x93NUMPY%c%c%c%c%s%*s\n", 1, 0, 246, 0, head, 245 - n, "");
    size_t count = (size_t)clt_shape_elements(shape);
    assert_int_equal(fwrite(data, 4, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static int64_t places_of(const net *n)
{
    int64_t places = 1;
    for (int i = 1; i < n->ndim && n->dense; i++)
        places *= n->shape[i];
    return places;
}

static void write_data(const net *n, const char *name)
{
    clt_shape xs = {.ndim = 1 + n->ndim, .dim = {STEPS * n->batch}}, ys = xs;
    ys.ndim = n->dense ? n->ndim : 1;
    for (int i = 0; i < n->ndim; i++)
        xs.dim[1 + i] = n->shape[i];
    for (int i = 1; i < n->ndim; i++)
        ys.dim[i] = n->shape[i];
    int64_t elements = clt_shape_elements(&xs), targets = clt_shape_elements(&ys);
    float *x = malloc((size_t)elements * sizeof *x);
    CLT_FREED int32_t *y = malloc((size_t)targets * sizeof *y);
    assert_true(x && y);
    for (int64_t i = 0; i < elements; i++)
        x[i] = 1.75f * noise(name, (uint64_t)i);
    for (int64_t i = 0; i < targets; i++)
        y[i] = (int32_t)(word_of("y", (uint64_t)i) % (uint32_t)n->classes);
    write_npy("x.npy", "<f4", &xs, x);
    write_npy("y.npy", "<i4", &ys, y);
    free(x);
}

/* Writes the state_dict, with torchvision's counters of batches, which no test needs. */
static void write_weights(const clt_graph *graph)
{
    clt_named_tensor *tensors = calloc(2 * graph->n_params, sizeof *tensors);
    static const int64_t batches = 1;
    char path[512], (*names)[160] = calloc(graph->n_params, sizeof *names);
    int count = 0;
    assert_true(tensors && names);
    for (size_t i = 0; i < graph->n_params; i++) {
        const clt_param *param = &graph->params[i];
        clt_named_tensor *t = &tensors[count++];
        *t = (clt_named_tensor){param->file_name, CLT_F32, clt_param_file_shape(param), NULL};
        float *values = malloc((size_t)clt_shape_elements(&t->shape) * sizeof *values);
        assert_non_null(values);
        fill(t->name, &t->shape, values);
        t->data = values;
        if (!ends_with(t->name, "running_var"))
            continue;
        snprintf(names[i], sizeof names[i], "%.*snum_batches_tracked",
                 (int)(strlen(t->name) - strlen("running_var")), t->name);
        tensors[count++] = (clt_named_tensor){names[i], CLT_I64, clt_shape_make(0, NULL), &batches};
    }
    file_path(path, sizeof path, "weights.safetensors");
    must(clt_safetensors_write(path, tensors, count, NULL, 0, NULL), "weights");
    for (int i = 0; i < count; i++)
        if (tensors[i].data != &batches)
            free((void *)(uintptr_t)tensors[i].data);
    free(tensors);
    free(names);
}

/* --- runs --- */

static clt_config *make_config(const net *n, const char *recompute)
{
    char text[2048];
    clt_config *config;
    snprintf(
        text, sizeof text,
        "{\"model\": {\"type\": %s, \"classes\": %d}, \"data\": {\"type\": \"npy\", \"path\": \"%s/x.npy\", "
        "\"targets\": \"%s/y.npy\", \"micro_batch\": %d, \"shuffle\": false, \"workers\": 1}, \"optimizer\": "
        "{\"type\": \"sgd\", \"learning_rate\": %g, \"momentum\": 0.9, \"weight_decay\": 0.01, \"decay\": "
        "\"all\"}, \"train\": {\"steps\": %d, \"recompute\": \"%s\"}}",
        n->model, (int)n->classes, folder, folder, (int)n->batch, n->lr, STEPS, recompute);
    must(clt_config_parse(text, n->name, NULL, 0, &config), "config");
    return config;
}

static void create_run(const clt_run_options *options, clt_job_kind kind, clt_run **run)
{
    char path[512];
    bool evaluation = kind == CLT_JOB_EVAL;
    must(clt_run_create(options, kind, run), "run");
    write_weights((evaluation ? (*run)->eval : (*run)->train)->plan->graph);
    file_path(path, sizeof path, "weights.safetensors");
    must(clt_run_load_parameters(*run, path), "weights");
    clt_run *r = *run;
    clt_feed_options feed = {.realized = evaluation ? r->eval : r->train,
                             .source = evaluation ? r->job->eval_source : r->job->train_source,
                             .global_batch = evaluation ? r->job->micro_batch : r->job->global_batch,
                             .accumulation = 1,
                             .ranks = 1,
                             .evaluation = evaluation,
                             .last_step = STEPS,
                             .workers = 1,
                             .prefetch = 4};
    must(clt_feed_create(&feed, &r->feed), "feed");
}

/* --- comparing --- */

/* Golden values of a net, and the allowed difference for each kind, relative to the largest value or to the
 * norm. */
typedef struct golden {
    clt_safetensors *file;
    double logits, loss, norm, grad, after;
    char x[16]; /* the name that determines the data */
} golden;

static void open_golden(const net *n, golden *g)
{
    char path[512];
    double error[5];
    snprintf(path, sizeof path, DATA "%s.safetensors", n->name);
    must(clt_safetensors_open(path, &g->file), "golden file");
    read_doubles(g->file, "error", error, 5);
    double *const allowed[] = {&g->logits, &g->loss, &g->norm, &g->grad, &g->after};
    for (int i = 0; i < 5; i++)
        *allowed[i] = MARGIN * error[i] + 5e-6;
    assert_true(g->logits < 1e-4 && g->loss < 1e-3 && g->grad < 1.1e-2 && g->after < 1e-3);
    g->loss = fmax(g->loss, KINK);
    g->norm = fmax(g->norm, 10 * KINK);
    g->after = fmax(g->after, KINK);
    double salt;
    read_doubles(g->file, "salt", &salt, 1);
    snprintf(g->x, sizeof g->x, "x%d", (int)salt);
}

static void compare_lists(const char *what, const float *got, const double *want, int64_t n, double relative,
                          double absolute)
{
    CLT_FREED float *rounded = malloc((size_t)n * sizeof *rounded);
    assert_non_null(rounded);
    for (int64_t i = 0; i < n; i++)
        rounded[i] = (float)want[i];
    compare(what, got, rounded, n, relative, absolute);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const clt_param *const *)a)->file_name, (*(const clt_param *const *)b)->file_name);
}

/* A tensor of the store in the layout of files. */
static float *stored(const clt_run *run, clt_arena_kind arena, const clt_param *param)
{
    const clt_store_slot *slot = clt_store_layout_find(run->store->layout, param->name);
    float *values = malloc(slot->elements * sizeof *values), *turned;
    assert_non_null(values);
    must(clt_store_read(run->store, arena, slot, values), param->name);
    if (!param->file_transposed)
        return values;
    turned = malloc(slot->elements * sizeof *turned);
    assert_non_null(turned);
    clt_shape matrices = clt_param_matrices(param, false);
    clt_transpose_last(&matrices, values, turned);
    free(values);
    return turned;
}

/* Compares the norm and the samples of one tensor with a golden row. */
static void compare_row(const net *n, const char *what, const char *name, const float *values, int64_t count,
                        const double row[ROW], double relative)
{
    char text[256], sample[200];
    float got[ROW];
    double squares = 0;
    for (int64_t i = 0; i < count; i++)
        squares += (double)values[i] * (double)values[i];
    snprintf(sample, sizeof sample, "sample.%s", name);
    got[0] = (float)sqrt(squares);
    for (int i = 1; i < ROW; i++)
        got[i] = values[word_of(sample, (uint64_t)(i - 1)) % (uint32_t)count];
    snprintf(text, sizeof text, "%s, norm of %s of %s", n->name, what, name);
    compare_lists(text, got, row, 1, relative, 0);
    snprintf(text, sizeof text, "%s, %s of %s", n->name, what, name);
    compare_lists(text, got + 1, row + 1, SAMPLES, relative, relative * row[0] / sqrt((double)count));
    assert_true(row[0] > 0);
}

static void compare_store(const net *n, const clt_run *run, clt_arena_kind arena, const golden *g)
{
    const clt_graph *graph = run->job->train->graph;
    const clt_param **sorted = calloc(graph->n_params, sizeof *sorted);
    const char *what = arena == CLT_ARENA_GRAD ? "grad" : "after";
    int count = 0;
    assert_non_null(sorted);
    for (size_t i = 0; i < graph->n_params; i++)
        if (arena != CLT_ARENA_GRAD || !graph->params[i].buffer)
            sorted[count++] = &graph->params[i];
    qsort(sorted, (size_t)count, sizeof *sorted, by_name);
    CLT_FREED double *rows = malloc((size_t)count * ROW * sizeof *rows);
    assert_non_null(rows);
    read_doubles(g->file, what, rows, count * ROW);
    for (int i = 0; i < count; i++) {
        CLT_FREED float *values = stored(run, arena, sorted[i]);
        compare_row(n, what, sorted[i]->file_name, values, clt_shape_elements(&sorted[i]->shape),
                    rows + i * ROW, arena == CLT_ARENA_GRAD ? g->grad : g->after);
    }
    free(sorted);
}

/* Five steps of training. */
static void check_training(const net *n, const golden *g, const char *recompute)
{
    CLT_SCOPED(clt_config) *config = make_config(n, recompute);
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
    CLT_SCOPED(clt_run) *run = NULL;
    double loss[STEPS], norm[STEPS];
    read_doubles(g->file, "loss", loss, STEPS);
    read_doubles(g->file, "norm", norm, STEPS);
    create_run(&options, CLT_JOB_TRAIN, &run);
    must(clt_reporter_create(run->train, 2, &run->reporter), "reporter");
    for (int step = 0; step < STEPS; step++) {
        clt_step_result result;
        bool have;
        must(clt_step(run, step), "step");
        must(clt_reporter_take(run->reporter, true, &result, &have), "report");
        assert_true(have);
        compare_lists("loss", &result.loss[0][0], &loss[step], 1, g->loss, 0);
        compare_lists("gradient norm", &result.state.grad_norm, &norm[step], 1, g->norm, 0);
        if (step == 0)
            compare_store(n, run, CLT_ARENA_GRAD, g);
    }
    compare_store(n, run, CLT_ARENA_PARAM, g);
}

/* Where an element of (batch, places, classes) is in (batch, classes, places). */
static int64_t classes_first(const net *n, int64_t i)
{
    int64_t places = places_of(n), row = i / n->classes;
    return (row / places * n->classes + i % n->classes) * places + row % places;
}

/* Predictions of the first batch. */
static void check_logits(const net *n, const golden *g)
{
    clt_config *config = make_config(n, "none");
    clt_run_options options = {
        .config = config, .caps_mask = OCL_CAPS_ALL, .on_train = true, .predicts = true};
    clt_run *run;
    clt_fed fed;
    create_run(&options, CLT_JOB_EVAL, &run);
    must(clt_feed_next(run->feed, &fed), "first batch");
    must(clt_realized_run(run->eval, CLT_PHASE_FORWARD), "forward");
    int64_t count = n->batch * places_of(n) * n->classes, some = count < LOGITS ? count : LOGITS;
    const clt_tensor *t = clt_graph_tensor(run->eval->plan->graph, run->job->prediction);
    assert_int_equal(clt_shape_elements(&t->shape), count);
    float *logits = malloc((size_t)count * sizeof *logits);
    double *want = malloc((size_t)count * sizeof *want);
    assert_true(logits && want);
    must(clt_realized_read(run->eval, run->job->prediction, logits), "logits");
    float picked[LOGITS];
    for (int64_t i = 0; i < some; i++)
        picked[i] = logits[classes_first(
            n, count > LOGITS ? word_of("sample.logits", (uint64_t)i) % (uint32_t)count : i)];
    read_doubles(g->file, "logits", want, (int)some);
    compare_lists("logits", picked, want, some, g->logits, 0);
    free(logits);
    free(want);
    clt_run_destroy(run);
    clt_config_destroy(config);
}

static void test_net(void **state)
{
    const net *n = *state;
    golden g;
    if (n->full && !run_all)
        skip();
    open_golden(n, &g);
    write_data(n, g.x);
    check_logits(n, &g);
    check_training(n, &g, "none");
    check_training(n, &g, "block");
    clt_safetensors_close(g.file);
}

static int setup(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)state;
    snprintf(folder, sizeof folder, "%.200s/golden_nets_XXXXXX", base && base[0] ? base : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

FIXTURE(teardown)
{
    return clt_remove_tree(folder) == CLT_OK ? 0 : -1;
}

int main(int argc, char **argv)
{
    enum { COUNT = sizeof nets / sizeof nets[0] };
    struct CMUnitTest tests[COUNT];
    run_all = argc > 1 && strcmp(argv[1], "all") == 0;
    for (int i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){nets[i].name, test_net, NULL, NULL, (void *)(uintptr_t)&nets[i]};
    return test_has_device() ? cmocka_run_group_tests(tests, setup, teardown) : TEST_SKIPPED;
}
