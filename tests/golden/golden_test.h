/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests against PyTorch's values share: golden files, their tensors, and the comparison, which
 * prints every difference if CLT_GOLDEN_SHOW is set. Included once by each of them. */
#ifndef TESTS_GOLDEN_GOLDEN_TEST_H
#define TESTS_GOLDEN_GOLDEN_TEST_H

#include "tests/unit/test.h"

#include <math.h>

#include "engine/checkpoint/checkpoint.h"

#define DATA CLT_TEST_SOURCE_DIR "/tests/golden/data/"

/* "data/NET_REST.safetensors" */
static inline clt_safetensors *open_file(const char *net, const char *rest)
{
    char path[512];
    clt_safetensors *file;
    snprintf(path, sizeof path, DATA "%s_%s.safetensors", net, rest);
    must(clt_safetensors_open(path, &file), "golden file");
    return file;
}

static const clt_named_tensor *tensor_of(const clt_safetensors *file, const char *prefix, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const clt_named_tensor *tensor = clt_safetensors_find(file, full);
    if (!tensor)
        fail_msg("the golden file has no tensor '%s'", full);
    return tensor;
}

/* A list of `n` f64. */
__attribute__((unused)) static void read_doubles(const clt_safetensors *file, const char *name, double *out,
                                                 int n)
{
    const clt_named_tensor *tensor = tensor_of(file, "", name);
    assert_int_equal(tensor->dtype, CLT_F64);
    assert_int_equal(clt_shape_elements(&tensor->shape), n);
    memcpy(out, tensor->data, (size_t)n * sizeof *out);
}

/* Must be freed. */
static inline float *values_of(const clt_named_tensor *tensor)
{
    float *values = malloc((size_t)clt_shape_elements(&tensor->shape) * sizeof *values);
    assert_non_null(values);
    must(clt_named_tensor_to_f32(tensor, values), tensor->name);
    return values;
}

/* max|got - want| <= relative * max|want| + absolute */
static void compare(const char *what, const float *got, const float *want, int64_t n, double relative,
                    double absolute)
{
    double worst = 0, largest = 0;
    int64_t where = 0;
    for (int64_t i = 0; i < n; i++) {
        double difference = fabs((double)got[i] - (double)want[i]);
        largest = fmax(largest, fabs((double)want[i]));
        if (!(difference <= worst)) { /* a NaN counts as the worst */
            worst = difference;
            where = i;
        }
    }
    if (getenv("CLT_GOLDEN_SHOW"))
        fprintf(stderr, "  %-40s off by %.2e, allowed %.2e\n", what, worst, relative * largest + absolute);
    if (!(worst <= relative * largest + absolute))
        fail_msg("%s, element %lld: got %.9g, PyTorch has %.9g; allowed difference %.3g", what,
                 (long long)where, (double)got[where], (double)want[where], relative * largest + absolute);
}

#endif
