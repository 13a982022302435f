/* SPDX-License-Identifier: Apache-2.0
 *
 * Muon. A matrix: m = m + (1-momentum)(g-m); u = m, or with Nesterov g + momentum*(m-g); p *= 1 -
 * lr*decay; p -= lr * rate * X, X being u/|u| made orthogonal by products (optim_muon.c). The ratio of a
 * matrix is 1/|u|. Everything else is updated as by AdamW, at `others` times the learning rate. */
#include "adam.clh"

#pragma option NESTEROV 1
#if NESTEROV
#define DIRECTION(d, m1) fma((REALS)(momentum), (m1) - (d), (d))
#else
#define DIRECTION(d, m1) (m1)
#endif

#define SCALARS float momentum, float rest, float others, ADAM_PARAMS

KERNEL void muon_norms(NORMS_PARAMS STATE(m) STATE(v) UPDATE_GROUPS NORMS, SCALARS)
{
    GROUP_MEMORY
    UPDATE_CHUNK
    if (!ADAPTS)
        return;
    REALS sum = (REALS)(0.0f);
    FOR_CHUNK(i)
    {
        REALS d = GET(g, go + base + i) * clip;
        REALS m1 = GET(m, mo + base + i);
        m1 = fma((REALS)(rest), d - m1, m1);
        PUT(m, mo + base + i, m1);
        REALS u = DIRECTION(d, m1);
        sum = fma(u, u, sum);
    }
    PUT_NORMS(sum, (REALS)(0.0f))
}

KERNEL void muon_ratio(RATIO_PARAMS, SCALARS){RATIO_NORMS PUT_RATIO(1.0f / fmax(first_norm, 1e-7f))}

KERNEL void muon_gather(GATHER_PARAMS STATE(m) STATE(v) UPDATE_GROUPS TRUST MATRICES, SCALARS)
{
    MATRIX_CHUNK
    bool skip = st[ST_SKIP] != 0u || STATE_CHUNK == CLT_NO_CHUNK;
    ulong from = (ulong)STATE_CHUNK * CHUNK;
    float clip = as_float(st[ST_CLIP]);
    float trust = skip ? 0.0f : GET_TRUST;
    FOR_CHUNK(i)
    {
        REALS u = (REALS)(0.0f);
        if (!skip) {
            REALS d = GET(g, go + base + i) * clip;
            u = DIRECTION(d, GET(m, mo + from + i)) * trust;
        }
        PUT(x, xo + place + i, u);
        PUT(y, yo + place + i, (REALS)(0.0f));
    }
}

KERNEL void muon_apply(UPDATE_PARAMS UPDATE_GROUPS MATRICES, float factor)
{
    MATRIX_CHUNK
    if (st[ST_SKIP])
        return;
    float decay = table[to + 2 * (ulong)chunk];
    float lr = as_float(st[ST_LR]) * table[to + 2 * (ulong)chunk + 1];
    FOR_CHUNK(i)
    {
        REALS value = GET(p, po + base + i) * (1.0f - lr * decay);
        value -= lr * factor * GET(g, go + place + i);
        PUT(p, po + base + i, value);
        PUT_WORKING(base + i, value);
    }
}

KERNEL void update_muon(UPDATE_PARAMS STATE(m) STATE(v) UPDATE_GROUPS TRUST, SCALARS)
{
    UPDATE_CHUNK
    if (ADAPTS)
        return;
    lr *= others;
    ADAM_UPDATE
}
