/* SPDX-License-Identifier: Apache-2.0
 *
 * LAMB: m = m + (1-b1)(g-m); v = b2 v + (1-b2) g^2; u = m/c1 / (sqrt(v)/sqrt(c2) + eps) + decay*p; p -= lr *
 * trust * u. The trust ratio is |p| / |u|. The first kernel updates m and v and computes the norms; the last
 * one computes u again, with the same bits. */
#include "update.clh"

/* The factors of u that are the same for all elements; the rest of u follows from the element's own p, m and
 * v. */
#define STEP_FACTORS                                                                                         \
    float rescale1 = 1.0f / as_float(st[ST_CORRECTION1]);                                                    \
    float root2 = sqrt(as_float(st[ST_CORRECTION2]));
#define STEP(m1, v1, value) fma((REALS)(decay), value, rescale1 *(m1 / (sqrt(v1) / root2 + eps)))

KERNEL void lamb_norms(NORMS_PARAMS STATE(m) STATE(v) UPDATE_GROUPS NORMS, float rest1, float beta2,
                       float rest2, float eps, float limit)
{
    GROUP_MEMORY
    UPDATE_CHUNK
    STEP_FACTORS
    REALS values = (REALS)(0.0f), steps = (REALS)(0.0f);
    FOR_CHUNK(i)
    {
        REALS value = GET(p, po + base + i);
        REALS d = GET(g, go + base + i) * clip;
        REALS m1 = GET(m, mo + base + i);
        REALS v1 = GET(v, vo + base + i);
        m1 = fma((REALS)(rest1), d - m1, m1);
        v1 = fma((REALS)(rest2), d * d, beta2 * v1);
        PUT(m, mo + base + i, m1);
        PUT(v, vo + base + i, v1);
        REALS u = STEP(m1, v1, value);
        values = fma(value, value, values);
        steps = fma(u, u, steps);
    }
    PUT_NORMS(values, steps)
}

KERNEL void lamb_ratio(RATIO_PARAMS, float rest1, float beta2, float rest2, float eps, float limit)
{
    RATIO_NORMS
    float counted = limit > 0.0f ? fmin(first_norm, limit) : first_norm;
    PUT_RATIO(counted > 0.0f && second_norm > 0.0f ? counted / second_norm : 1.0f)
}

KERNEL void update_lamb(UPDATE_PARAMS STATE(m) STATE(v) UPDATE_GROUPS TRUST, float rest1, float beta2,
                        float rest2, float eps, float limit)
{
    UPDATE_CHUNK
    STEP_FACTORS
    float rate = lr * GET_TRUST;
    FOR_CHUNK(i)
    {
        REALS value = GET(p, po + base + i);
        REALS u = STEP(GET(m, mo + base + i), GET(v, vo + base + i), value);
        value -= rate * u;
        PUT(p, po + base + i, value);
        PUT_WORKING(base + i, value);
    }
}
