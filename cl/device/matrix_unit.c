/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of matrix units, made from matrix_units.def, and what follows from their types. Knows no unit. */
#include "cl/device/matrix_unit.h"

#include <stddef.h>

const ocl_matrix_unit *const ocl_matrix_units[] = {
#define OCL_UNIT(name, caps) &ocl_unit_##name,
#include "cl/device/matrix_units.def"
    NULL};

uint32_t ocl_unit_caps(const ocl_matrix_unit *unit, clt_dtype type)
{
    for (const ocl_unit_type *t = unit->types; t->name != NULL; t++)
        if (t->type == type)
            return t->caps;
    return 0;
}

bool ocl_has_unit(const ocl_device_desc *device, clt_dtype type)
{
    for (const ocl_matrix_unit *const *u = ocl_matrix_units; *u != NULL; u++)
        if ((*u)->any_layout && (ocl_unit_caps(*u, type) & device->caps) != 0)
            return true;
    return false;
}

uint32_t ocl_emulated_units(void)
{
    uint32_t caps = 0;
    for (const ocl_matrix_unit *const *u = ocl_matrix_units; *u != NULL; u++)
        for (const ocl_unit_type *t = (*u)->types; (*u)->emulated && t->name != NULL; t++)
            caps |= t->caps;
    return caps;
}
