/* SPDX-License-Identifier: Apache-2.0
 *
 * The update of one parameter in double precision, as torch.optim documents it: what the checker and the
 * tests of training compare with. Knows no device and no kernel. */
#ifndef ENGINE_VERIFY_UPDATE_REF_H
#define ENGINE_VERIFY_UPDATE_REF_H

#include "engine/plan/plan.h"

/* What every element of a parameter shares in one update. */
typedef struct clt_update_factors {
    double gradient; /* factor on gradients: the inverse loss scale times clipping */
    double lr, decay;
    double correction1, correction2; /* 1 - beta^t */
} clt_update_factors;

/* The factor that clips gradients of that norm; 1 where clipping is off. */
double clt_update_ref_clip(const clt_update_spec *spec, double norm);
/* p, m and v of one element, updated in place; m and v are left alone by optimizers that have none. */
void clt_update_ref(const clt_update_spec *spec, const clt_update_factors *factors, double gradient,
                    double *p, double *m, double *v);

#endif
