/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of families with records. It must not know what any of them computes. */
#include "cl/tune/families.h"

#include <string.h>

#include "cl/gemm/gemm.h"

static const ocl_family *const own[] = {&ocl_gemm_family, NULL};
static const ocl_family *const *of_engine;

void ocl_families_register(const ocl_family *const *families)
{
    of_engine = families;
}

const ocl_family *ocl_family_find(const char *name)
{
    const ocl_family *const *lists[] = {own, of_engine};
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++)
        for (const ocl_family *const *f = lists[l]; f != NULL && *f != NULL; f++)
            if (strcmp((*f)->name, name) == 0)
                return *f;
    return NULL;
}
