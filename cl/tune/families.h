/* SPDX-License-Identifier: Apache-2.0
 *
 * The families that have records, by name: those of this layer, and those that the engine makes known. */
#ifndef CL_FAMILIES_H
#define CL_FAMILIES_H

#include "cl/tune/family.h"

/* Makes the engine's families known: a list that ends with NULL and stays. Whoever reads records calls it
 * once; before that, records of these families are as those of other kernels. */
void ocl_families_register(const ocl_family *const *families);
/* NULL: there is none. */
const ocl_family *ocl_family_find(const char *name);

#endif
