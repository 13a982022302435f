/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers and names for every variant that plans can use. Ranks name a variant to each other by its
 * number, because addresses differ between processes of the same program; files contain its name. Knows
 * lists of variants, no variant in particular. */
#include <stdio.h>
#include <string.h>

#include "cl/gemm/gemm.h"
#include "engine/ops/op.h"
#include "engine/plan/plan.h"

/* The n-th list of variants, NULL after the last one. */
static const ocl_variant *const *list_at(int n)
{
    int ops;
    const clt_op *const *op = clt_op_list(&ops);
    static const ocl_variant *const none[] = {NULL};
    const ocl_variant *const *list = NULL;
    if (n == 2 * ops)
        return ocl_gemm_variants;
    if (n == 2 * ops + 1)
        return clt_update_family.variants;
    if (n > 2 * ops + 1)
        return NULL;
    list = n % 2 ? op[n / 2]->backward.variants : op[n / 2]->forward.variants;
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

static void name_in_list(int n, const ocl_variant *variant, char *out, size_t size)
{
    int ops;
    const clt_op *const *op = clt_op_list(&ops);
    if (n < 2 * ops)
        snprintf(out, size, "%s/%s/%s", op[n / 2]->name, n % 2 ? "backward" : "forward", variant->name);
    else
        snprintf(out, size, "%s/%s", n == 2 * ops ? "gemm" : "update", variant->name);
}

bool clt_variant_name(const ocl_variant *variant, char *out, size_t size)
{
    for (int n = 0; list_at(n); n++) {
        for (const ocl_variant *const *v = list_at(n); *v; v++) {
            if (*v == variant) {
                name_in_list(n, variant, out, size);
                return true;
            }
        }
    }
    return false;
}

const ocl_variant *clt_variant_named(const char *name)
{
    char text[128];
    for (int n = 0; list_at(n); n++) {
        for (const ocl_variant *const *v = list_at(n); *v; v++) {
            name_in_list(n, *v, text, sizeof text);
            if (strcmp(text, name) == 0)
                return *v;
        }
    }
    return NULL;
}
