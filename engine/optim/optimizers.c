/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of optimizers, made from optimizers.def. Knows only names of optimizers. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "engine/optim/optimizer.h"

const clt_optimizer *const clt_optimizers[] = {
#define CLT_OPTIMIZER(name) &clt_optimizer_##name,
#include "engine/config/optimizers.def"
#undef CLT_OPTIMIZER
    NULL};

const clt_optimizer *clt_optimizer_find(const char *name)
{
    for (const clt_optimizer *const *o = clt_optimizers; *o; o++)
        if (strcmp((*o)->config->name, name) == 0)
            return *o;
    return NULL;
}

void clt_optimizer_read(const clt_optimizer *optimizer, const clt_config *config,
                        double value[CLT_OPTIMIZER_VALUES])
{
    for (int i = 0; i < CLT_OPTIMIZER_VALUES && optimizer->config->keys[i].path; i++) {
        const clt_config_key *key = &optimizer->config->keys[i];
        if (key->type == CLT_CFG_STRINGS) /* lists of parameters' names, which job.c reads */
            continue;
        value[i] = key->type == CLT_CFG_BOOL     ? clt_config_bool(config, key->path)
                   : key->type == CLT_CFG_CHOICE ? clt_config_choice(config, key->path)
                                                 : clt_config_float(config, key->path);
    }
}

double clt_clip_reference(double limit, double norm)
{
    return limit > 0.0 ? fmin(1.0, limit / (norm + 1e-6)) : 1.0;
}
