/* SPDX-License-Identifier: Apache-2.0
 *
 * SGD as in torch.optim.SGD: g += decay*p; buf = momentum*buf + g (the first update: buf = g, as buf
 * starts at 0 with dampening 0); p -= lr * (nesterov ? g + momentum*buf : buf). */
#include "update.clh"

#pragma option MOMENTUM 1
#pragma option NESTEROV 0

KERNEL void update_sgd(UPDATE_PARAMS
#if MOMENTUM
                           STATE(m)
#endif
                               UPDATE_GROUPS
#if MOMENTUM
                       ,
                       float momentum
#endif
)
{
    UPDATE_CHUNK
    FOR_CHUNK(i)
    {
        REALS value = GET(p, po + base + i);
        REALS d = fma((REALS)(decay), value, GET(g, go + base + i) * clip);
#if MOMENTUM
        REALS buf = fma((REALS)(momentum), GET(m, mo + base + i), d);
        PUT(m, mo + base + i, buf);
#if NESTEROV
        d = fma((REALS)(momentum), buf, d);
#else
        d = buf;
#endif
#endif
        value = KEPT(fma((REALS)(-lr), d, value), value);
        PUT(p, po + base + i, value);
        PUT_WORKING(base + i, value);
    }
}
