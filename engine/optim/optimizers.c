/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of optimizers, made from optimizers.def. Knows names only. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "engine/optim/optimizer.h"

const clt_optimizer *const clt_optimizers[] = {
#define CLT_OPTIMIZER(name) &clt_optimizer_##name,
#include "engine/optim/optimizers.def"
#undef CLT_OPTIMIZER
    NULL};

const clt_optimizer *clt_optimizer_find(const char *name)
{
    for (const clt_optimizer *const *o = clt_optimizers; *o; o++)
        if (strcmp((*o)->name, name) == 0)
            return *o;
    return NULL;
}

double clt_clip_reference(double limit, double norm)
{
    return limit > 0.0 ? fmin(1.0, limit / (norm + 1e-6)) : 1.0;
}
