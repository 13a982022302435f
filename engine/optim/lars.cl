/* SPDX-License-Identifier: Apache-2.0
 *
 * LARS: d = trust * (g + decay*p); buf = momentum*buf + d; p -= lr * (nesterov ? d + momentum*buf : buf).
 * The trust ratio is coefficient * |p| / (|g| + decay*|p| + eps). */
#include "update.clh"

#pragma option NESTEROV 0

KERNEL void lars_norms(NORMS_PARAMS STATE(m) UPDATE_GROUPS NORMS, float momentum, float coefficient,
                       float eps)
{
    GROUP_MEMORY
    UPDATE_CHUNK
    REALS values = (REALS)(0.0f), gradients = (REALS)(0.0f);
    FOR_CHUNK(i)
    {
        REALS value = GET(p, po + base + i);
        REALS d = GET(g, go + base + i) * clip;
        values = fma(value, value, values);
        gradients = fma(d, d, gradients);
    }
    PUT_NORMS(values, gradients)
}

KERNEL void lars_ratio(RATIO_PARAMS, float momentum, float coefficient, float eps)
{
    RATIO_NORMS
    float share =
        second_norm > 0.0f ? coefficient * first_norm / (fma(decay, first_norm, second_norm) + eps) : 0.0f;
    PUT_RATIO(first_norm > 0.0f ? share : 1.0f)
}

KERNEL void update_lars(UPDATE_PARAMS STATE(m) UPDATE_GROUPS TRUST, float momentum, float coefficient,
                        float eps)
{
    UPDATE_CHUNK
    float trust = GET_TRUST;
    FOR_CHUNK(i)
    {
        REALS value = GET(p, po + base + i);
        REALS d = fma((REALS)(decay), value, GET(g, go + base + i) * clip) * trust;
        REALS buf = fma((REALS)(momentum), GET(m, mo + base + i), d);
        PUT(m, mo + base + i, buf);
#if NESTEROV
        d = fma((REALS)(momentum), buf, d);
#else
        d = buf;
#endif
        value = KEPT(fma((REALS)(-lr), d, value), value);
        PUT(p, po + base + i, value);
        PUT_WORKING(base + i, value);
    }
}
