/* SPDX-License-Identifier: Apache-2.0
 *
 * SGD, Adam and AdamW in double precision. */
#include "engine/verify/update_ref.h"

#include <math.h>

double clt_update_ref_clip(const clt_update_spec *spec, double norm)
{
    double limit = (double)spec->clip;
    return limit > 0.0 ? fmin(1.0, limit / (norm + 1e-6)) : 1.0;
}

static void sgd(const clt_update_spec *spec, const clt_update_factors *f, double g, double *p, double *m)
{
    g += f->decay * *p;
    if (spec->momentum > 0.0) {
        *m = spec->momentum * *m + g;
        g = spec->nesterov ? g + spec->momentum * *m : *m;
    }
    *p -= f->lr * g;
}

void clt_update_ref(const clt_update_spec *spec, const clt_update_factors *f, double gradient, double *p,
                    double *m, double *v)
{
    double g = gradient * f->gradient;
    if (spec->type == CLT_OPT_SGD) {
        sgd(spec, f, g, p, m);
        return;
    }
    if (spec->type == CLT_OPT_ADAMW)
        *p *= 1.0 - f->lr * f->decay;
    else
        g += f->decay * *p;
    *m = spec->beta1 * *m + (1.0 - spec->beta1) * g;
    *v = spec->beta2 * *v + (1.0 - spec->beta2) * g * g;
    *p -= f->lr * (*m / f->correction1) / (sqrt(*v / f->correction2) + spec->eps);
}
