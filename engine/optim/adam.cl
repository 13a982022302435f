/* SPDX-License-Identifier: Apache-2.0
 *
 * Adam and AdamW (DECOUPLED) as in torch.optim: p *= 1 - lr*decay; m = m + (1-b1)(g-m); v = b2 v + (1-b2)
 * g^2; p -= lr/c1 * m / (sqrt(v)/sqrt(c2) + eps). Plain Adam instead adds decay*p to g. In the code rest = 1
 * - beta. */
#include "update.clh"

#ifndef DECOUPLED
#define DECOUPLED 1
#endif

KERNEL void update_adam(UPDATE_PARAMS STATE(m) STATE(v) UPDATE_GROUPS, float rest1, float beta2, float rest2,
                        float eps)
{
    UPDATE_CHUNK
    float step = lr / as_float(st[ST_CORRECTION1]);
    float root2 = sqrt(as_float(st[ST_CORRECTION2]));
    FOR_CHUNK(i)
    {
        REALS value = GET(p, po + base + i);
        REALS d = GET(g, go + base + i) * clip;
#if DECOUPLED
        value *= 1.0f - lr * decay;
#else
        d = fma((REALS)(decay), value, d);
#endif
        REALS m1 = GET(m, mo + base + i);
        REALS v1 = GET(v, vo + base + i);
        m1 = fma((REALS)(rest1), d - m1, m1);
        v1 = fma((REALS)(rest2), d * d, beta2 * v1);
        PUT(m, mo + base + i, m1);
        PUT(v, vo + base + i, v1);
        value -= step * (m1 / (sqrt(v1) / root2 + eps));
        PUT(p, po + base + i, value);
        PUT_WORKING(base + i, value);
    }
}
