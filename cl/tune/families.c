/* SPDX-License-Identifier: Apache-2.0
 *
 * Registers the families that have tuning records, and finds them by name. It must not know what they
 * compute. */
#include "cl/tune/families.h"

#include <stddef.h>
#include <string.h>

static const ocl_family *const *known;

void ocl_families_register(const ocl_family *const *families)
{
    known = families;
}

const ocl_family *ocl_family_find(const char *name)
{
    for (const ocl_family *const *f = known; f != NULL && *f != NULL; f++)
        if (strcmp((*f)->name, name) == 0)
            return *f;
    return NULL;
}
