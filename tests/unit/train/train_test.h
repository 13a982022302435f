/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of engine/train share: a temporary folder, data files made by the test, runs of the public
 * trainer with all numbers that it reports, parameters from checkpoints. */
#ifndef TESTS_UNIT_TRAIN_TEST_H
#define TESTS_UNIT_TRAIN_TEST_H

#include "tests/unit/test.h"

#include <math.h>

#include "engine/base/rng.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/train/eval/evaluate.h"
#include "engine/train/loop/trainer.h"
#include "engine/train/run/run.h"

#define TEST_MAX_STEPS 64

/* A .npy file of 4-byte elements; descr: "<f4" or "<i4". */
static inline void put_npy(const char *name, const char *descr, const void *data, int rows, int columns)
{
    char header[128];
    int used =
        columns > 0
            ? snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }",
                       descr, rows, columns)
            : snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }",
                       descr, rows);
    memset(header + used, ' ', sizeof header - (size_t)used);
    header[117] = '\n';
    FILE *file = fopen(in_dir(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file), 10);
    assert_int_equal(fwrite(header, 1, 118, file), 118);
    size_t count = (size_t)rows * (size_t)(columns > 0 ? columns : 1);
    assert_int_equal(fwrite(data, 4, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* Normally distributed numbers, the same for each seed. */
static inline void fill_normal(float *out, int count, uint64_t seed)
{
    for (int i = 0; i < count; i++)
        out[i] = (float)clt_rng_normal(seed, CLT_RNG_VERIFY, 0, 0, (uint64_t)i);
}

/* A config from JSON text; %D stands for the test's folder. */
static inline clt_config *train_config(const char *text)
{
    CLT_FREED char *there = with_folder(text);
    clt_config *config;
    must(clt_config_parse(there, "test", NULL, 0, &config), "config");
    return config;
}

static inline void set(clt_config *config, const char *key, const char *value)
{
    must(clt_config_set(config, key, value), key);
}

/* The reports of a run. */
typedef struct record {
    int n, n_evals;
    clt_step_metrics step[TEST_MAX_STEPS];
    clt_eval_metrics eval[TEST_MAX_STEPS];
    char messages[4096];
    atomic_int *stop; /* set by the test after step stop_at */
    int64_t stop_at;
} record;

static inline void record_step(void *context, const clt_step_metrics *metrics)
{
    record *r = context;
    assert_true(r->n < TEST_MAX_STEPS);
    r->step[r->n++] = *metrics;
    if (r->stop && metrics->step >= r->stop_at)
        atomic_store(r->stop, 1);
}

static inline void record_eval(void *context, const clt_eval_metrics *metrics)
{
    record *r = context;
    assert_true(r->n_evals < TEST_MAX_STEPS);
    r->eval[r->n_evals++] = *metrics;
}

static inline void record_message(void *context, const char *line)
{
    record *r = context;
    size_t used = strlen(r->messages);
    snprintf(r->messages + used, sizeof r->messages - used, "%s\n", line);
}

/* Trains into the run folder `out` in the test's folder (NULL: no run folder), starting from the parameters
 * of the file `init` (NULL: initial values). */
static inline clt_status train_run(const clt_config *config, const char *out, const char *init, record *r,
                                   clt_run_result *result)
{
    char out_path[256], init_path[256];
    clt_run_options options = {
        .config = config,
        .caps_mask = OCL_CAPS_ALL,
        .stop = r->stop,
        .observer = {.context = r, .step = record_step, .eval = record_eval, .message = record_message}};
    if (out) {
        snprintf(out_path, sizeof out_path, "%s", in_dir(out));
        options.out_dir = out_path;
    }
    if (init) {
        snprintf(init_path, sizeof init_path, "%s", in_dir(init));
        options.init = init_path;
    }
    r->n = r->n_evals = 0;
    r->messages[0] = '\0';
    clt_error_clear();
    return clt_train(&options, result);
}

/* Values of a tensor in a safetensors file of the test's folder. */
static inline void file_values(const char *file, const char *tensor, float *out, int count)
{
    CLT_SCOPED(clt_safetensors) *open = NULL;
    must(clt_safetensors_open(in_dir(file), &open), file);
    const clt_named_tensor *t = clt_safetensors_find(open, tensor);
    if (!t)
        fail_msg("'%s' has no tensor '%s'", file, tensor);
    assert_int_equal(clt_shape_elements(&t->shape), count);
    must(clt_named_tensor_to_f32(t, out), tensor);
}

/* Parameters of a single linear layer called "out". */
static inline void put_linear_init(const char *file, const float *weight, const float *bias, int out, int in)
{
    clt_named_tensor tensors[2] = {{"out.weight", CLT_F32, clt_shape2(out, in), weight},
                                   {"out.bias", CLT_F32, clt_shape1(out), bias}};
    must(clt_safetensors_write(in_dir(file), tensors, 2, NULL, 0, NULL), file);
}

static inline char *read_bytes(const char *file, size_t *size)
{
    char *data;
    must(clt_file_read(in_dir(file), false, 0, CLT_ESTORAGE, &data, size), file);
    return data;
}

static inline bool files_equal(const char *a, const char *b)
{
    size_t na, nb;
    char *da = read_bytes(a, &na), *db = read_bytes(b, &nb);
    bool equal = na == nb && memcmp(da, db, na) == 0;
    free(da);
    free(db);
    return equal;
}

static inline void assert_close(const char *what, int step, double got, double want, double allowed)
{
    if (!(fabs(got - want) <= allowed))
        fail_msg("%s of step %d: got %.9g, expected %.9g; allowed difference %.3g", what, step, got, want,
                 allowed);
}

#endif
