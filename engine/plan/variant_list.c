/* SPDX-License-Identifier: Apache-2.0
 *
 * Every variant that a plan can be made of, numbered, so that ranks, which run the same program at other
 * addresses, can tell each other of one. Knows lists, no variant in particular. */
#include "cl/gemm.h"
#include "engine/ops/op.h"
#include "engine/plan/plan.h"

/* The n-th list, NULL behind the last one. */
static const ocl_variant *const *list_at(int n)
{
    int ops;
    const clt_op *const *op = clt_op_list(&ops);
    static const ocl_variant *const none[] = {NULL};
    const ocl_variant *const *list = NULL;
    if (n == 2 * ops)
        return ocl_gemm_variants;
    if (n == 2 * ops + 1)
        return clt_update_variants;
    if (n > 2 * ops + 1)
        return NULL;
    list = n % 2 ? op[n / 2]->backward : op[n / 2]->forward;
    return list ? list : none;
}

int clt_variant_number(const ocl_variant *variant)
{
    int number = 0;
    for (int n = 0; list_at(n); n++)
        for (const ocl_variant *const *v = list_at(n); *v; v++, number++)
            if (*v == variant)
                return number;
    return -1;
}

const ocl_variant *clt_variant_at(int number)
{
    for (int n = 0; number >= 0 && list_at(n); n++)
        for (const ocl_variant *const *v = list_at(n); *v; v++)
            if (number-- == 0)
                return *v;
    return NULL;
}
