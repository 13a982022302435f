/* SPDX-License-Identifier: Apache-2.0
 *
 * Registers the families that have tuning records, and finds them by name. */
#ifndef CL_TUNE_FAMILIES_H
#define CL_TUNE_FAMILIES_H

#include "cl/tune/family.h"

/* Registers the families: a list that ends with NULL and is kept by reference. It must be called once before
 * records are read; otherwise records of these families count as records of unknown kernels. */
void ocl_families_register(const ocl_family *const *families);
/* NULL: there is none. */
const ocl_family *ocl_family_find(const char *name);

#endif
