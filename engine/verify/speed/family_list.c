/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of all families of kernels, each with the bench that measures it. Knows no op. */
#include "engine/verify/speed/family_list.h"

#include "cl/gemm/gemm.h"
#include "cl/tune/family.h"
#include "engine/ops/op.h"
#include "engine/verify/speed/op_bench.h"
#include "engine/verify/speed/update_bench.h"

#define MAX_FAMILIES 64

void clt_families_register(void)
{
    static ocl_family families[MAX_FAMILIES];
    static const ocl_family *list[MAX_FAMILIES + 1];
    int n_ops, n = 2;
    const clt_op *const *ops = clt_op_list(&n_ops);
    families[0] = clt_update_family;
    families[0].bench = &clt_update_family_bench;
    list[0] = &families[0];
    list[1] = &ocl_gemm_family;
    for (int i = 0; i < 2 * n_ops && n < MAX_FAMILIES; i++) {
        const ocl_family *family = i % 2 ? &ops[i / 2]->backward : &ops[i / 2]->forward;
        if (family->name == NULL)
            continue;
        families[n] = *family;
        families[n].bench = &clt_op_family_bench;
        list[n] = &families[n];
        n++;
    }
    list[n] = NULL;
    ocl_families_register(list);
}
