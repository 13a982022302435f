/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of matrix units, which are instructions that multiply small matrices: plain data, one record for
 * each line of matrix_units.def. Probes, self-tests, the choice of a product's backend, the fallbacks when a
 * driver refuses a kernel, and the checker's cases all use these records. */
#ifndef CL_DEVICE_MATRIX_UNIT_H
#define CL_DEVICE_MATRIX_UNIT_H

#include "cl/device/device.h"

struct ocl_form_family;
struct ocl_question;
struct ocl_self_test;

/* A type of operands that the unit multiplies. */
typedef struct ocl_unit_type {
    clt_dtype type;   /* f32: rounded to tf32 */
    const char *name; /* "tf32"; NULL ends the list */
    uint32_t caps;    /* any one of these capabilities suffices */
} ocl_unit_type;

/* A capability that only some kernels of the unit need. */
typedef struct ocl_unit_extra {
    uint32_t cap;
    bool tiles_first; /* a kernel that the driver refuses first loses its tile, then this capability */
} ocl_unit_extra;

typedef struct ocl_matrix_unit {
    const char *name;       /* also the name of its backend */
    ocl_unit_type types[4]; /* in the order in which the checker lists them */
    /* Whether the unit multiplies operands in any layout. If not, rows must start at multiples of 16 bytes.
     * Then other products need another unit, and this one does not determine a run's default precision. */
    bool any_layout;
    /* Whether its kernels can compute the same without the instructions, through local memory, with
     * compilers other than NVIDIA's. CLTRAIN_EMULATE may name its capabilities: any device then imitates a
     * GPU with this unit, with the same choices, storage and results, but slowly. */
    bool emulated;
    /* The capability that all kernels of the unit need. It is given up after all `extras`, which are given
     * up in their order (cl/command/fallback.h). 0: there is none; the capabilities of `types` do not depend
     * on each other. */
    uint32_t need;
    ocl_unit_extra extras[3];               /* ends with cap 0 */
    const struct ocl_question *questions;   /* its probes, in their order; ends with a NULL name */
    const struct ocl_self_test *tests;      /* ends with a NULL name */
    const struct ocl_form_family *products; /* its backend of matrix products */
} ocl_matrix_unit;

#define OCL_UNIT(name, caps) extern const ocl_matrix_unit ocl_unit_##name;
#include "cl/device/matrix_units.def"

/* All records in the order of matrix_units.def; ends with NULL. */
extern const ocl_matrix_unit *const ocl_matrix_units[];

/* Capabilities, each of which lets the unit multiply operands of this type; 0: it cannot multiply them. */
uint32_t ocl_unit_caps(const ocl_matrix_unit *unit, clt_dtype type);
/* All capabilities that CLTRAIN_EMULATE may name. */
uint32_t ocl_emulated_units(void);

#endif
