/* SPDX-License-Identifier: Apache-2.0
 *
 * Two steps of LAMB against results that were computed by hand in double precision: NVIDIA's form, its
 * NVLAMB, and the paper's form without clipping, in which parameters without weight decay are exceptions.
 * The checker (cltrain verify) compares the kernels with this reference. Needs no device. Source: You et
 * al. 2020, arXiv:1904.00962.
 * ctest-labels: quick */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/optim/optimizer.h"

#define W 4
#define B 2
#define ALL (W + B)

typedef struct problem {
    double value[CLT_OPTIMIZER_VALUES]; /* beta1, beta2, eps, trust_all, trust_limit */
    double clip;
    double p[ALL], state[ALL][CLT_OPTIMIZER_STATES];
} problem;

static const double gradients[2][ALL] = {{3, -4, 0, 12, 1, -2}, {0.3, -0.4, 0.1, 0.2, 0.05, 0.02}};

/* Updates one parameter of `n` elements from index `at` on. */
static void update(problem *q, const double *g, int at, int n, clt_update_factors f)
{
    const clt_optimizer *o = clt_optimizer_find("lamb");
    double norm = 0, step = 0;
    for (int i = at; i < at + n; i++) {
        double second = o->second(q->value, &f, g[i], q->p[i], q->state[i]);
        norm += q->p[i] * q->p[i];
        step += second * second;
    }
    f.trust = o->adapts(q->value, f.decay > 0, false) ? o->trust(q->value, &f, sqrt(norm), sqrt(step)) : 1;
    for (int i = at; i < at + n; i++)
        o->reference(q->value, &f, g[i], &q->p[i], q->state[i]);
}

static void two_steps(problem *q, double first[ALL])
{
    static const double begin[ALL] = {0.5, -0.25, 0.125, 1, 0.1, -0.2};
    memcpy(q->p, begin, sizeof begin);
    for (int t = 1; t <= 2; t++) {
        const double *g = gradients[t - 1];
        double norm = 0;
        clt_update_factors f = {.lr = 0.1, .decay = 0.01, .trust = 1};
        for (int i = 0; i < ALL; i++)
            norm += g[i] * g[i];
        assert_true(fabs(sqrt(norm) - (t == 1 ? 13.190906 : 0.550364)) < 1e-6);
        f.gradient = clt_clip_reference(q->clip, sqrt(norm));
        clt_optimizer_find("lamb")->corrections(q->value, t, f.correction);
        update(q, g, 0, W, f);
        f.decay = 0; /* a bias does not decay */
        update(q, g, W, B, f);
        if (t == 1)
            memcpy(first, q->p, sizeof q->p);
    }
}

static void expect(const char *what, const double *got, const double *want, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-6))
            fail_msg("%s: element %d is %.9f and not %.9f", what, i, got[i], want[i]);
}

TEST(known_answers)
{
    static const double one[ALL] = {.43351923, -.18368453, .12491731, .93318826, 1.32e-6, -.10000066};
    static const double two[ALL] = {.37489011, -.12520152, .08130838, .88500256, -.09690887, -.04330770};
    static const double all_bias[B] = {.06670840, -.17396252};
    static const double unclipped[W] = {.37990904, -.13025415, .07129067, .88342319};
    double first[ALL];
    problem q = {.value = {0.9, 0.999, 1e-6, 0, 0}, .clip = 1};
    two_steps(&q, first);
    expect("NVIDIA's form, step 1", first, one, ALL);
    expect("NVIDIA's form, step 2", q.p, two, ALL);
    problem all = {.value = {0.9, 0.999, 1e-6, 1, 0}, .clip = 1};
    two_steps(&all, first);
    expect("trust_all, step 2", all.p + W, all_bias, B);
    expect("trust_all, step 2", all.p, two, W);
    problem paper = {.value = {0.9, 0.999, 1e-6, 0, 0}};
    two_steps(&paper, first);
    expect("without clipping, step 2", paper.p, unclipped, W);
}

TEST_PROGRAM();
