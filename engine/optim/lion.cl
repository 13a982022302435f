/* SPDX-License-Identifier: Apache-2.0
 *
 * Lion: p *= 1 - lr*decay; p -= lr * sign(m + (1-b1)(g-m)); m = m + (1-b2)(g-m). In the code rest = 1 -
 * beta. */
#include "update.clh"

/* Used instead of OpenCL C's sign(), which some drivers compile to a function call. */
#define SIGN(x) select(select((REALS)(-1.0f), (REALS)(1.0f), (x) > 0.0f), (REALS)(0.0f), (x) == 0.0f)

KERNEL void update_lion(UPDATE_PARAMS STATE(m) UPDATE_GROUPS, float rest1, float rest2)
{
    UPDATE_CHUNK
    FOR_CHUNK(i)
    {
        REALS value = GET(p, po + base + i);
        REALS m1 = GET(m, mo + base + i);
        REALS change = GET(g, go + base + i) * clip - m1;
        value *= 1.0f - lr * decay;
        REALS mixed = fma((REALS)(rest1), change, m1);
        value -= lr * SIGN(mixed);
        m1 = fma((REALS)(rest2), change, m1);
        PUT(m, mo + base + i, m1);
        PUT(p, po + base + i, value);
        PUT_WORKING(base + i, value);
    }
}
