/* SPDX-License-Identifier: Apache-2.0
 *
 * The record that describes an implementation: the group or lane style of a kernel family, a GEMM backend,
 * an op's forward or backward. A family has an ordered list of these records, whose last one accepts every
 * problem. Refusals are logged with their reason. */
#ifndef CL_COMMAND_VARIANT_H
#define CL_COMMAND_VARIANT_H

#include "cl/command/command.h"
#include "cl/device/device.h"

/* One tunable integer of a variant and the values worth trying. The variant reads it with ocl_tuned
 * (cl/command/command.h) and decides itself when no record gives a value. `emit` refuses impossible
 * combinations of values. In a variant's list, tunables that change the program come first, so that the
 * tuner varies them last. */
typedef struct ocl_tunable {
    const char *name;
    int count;
    int values[20];
} ocl_tunable;

/* The kind of device on which a variant's kernels are fast. On others they give the same results, but
 * slowly, so ocl_variant_accepts refuses them there. This is the only place where the choice of kernels
 * depends on the kind of device. */
typedef enum ocl_kernel_style {
    OCL_KERNEL_ANY,    /* good on any device, or the last resort */
    OCL_KERNEL_LANES,  /* vectors of sixteen in one work-item, with large private tiles */
    OCL_KERNEL_GROUPS, /* work-groups with coalesced accesses */
    /* work-groups that hold blocks in local memory with barriers: not for CPUs, whose compilers may even
     * hang (PoCL 3.0) */
    OCL_KERNEL_BLOCKS,
    OCL_KERNEL_UNITS, /* matrix units, emulated on other devices; `accepts` checks the types that they have */
} ocl_kernel_style;

typedef struct ocl_variant {
    const char *name; /* suffix of its kernels: "row", "group", "lane", "simple", "clblast" */
    uint32_t needs;   /* OCL_CAP_* bits */
    /* NULL: accepts everything. On refusal it writes the reason. The type of `problem` depends on the
     * family. */
    bool (*accepts)(const void *problem, const ocl_device_desc *device, char *reason, size_t size);
    const ocl_tunable *tunables; /* ends with a NULL name; or NULL */
    clt_status (*emit)(ocl_emitter *emitter, const void *problem);
    /* OCL_CAP_* bits that its kernels are written for but do not strictly need: other devices may run it as
     * the last resort. The checker skips the variant on devices whose driver lost one of these
     * capabilities. */
    uint32_t written_for;
    ocl_kernel_style style;
} ocl_variant;

/* Whether planning must not use the variant or, if `form` is not "", this tile of it, because the driver
 * refused it. */
bool ocl_is_given_up(const ocl_device_desc *desc, const ocl_variant *variant, const char *form);

/* False with the reason when the variant cannot be used for this problem on this device. */
bool ocl_variant_accepts(const ocl_variant *variant, const void *problem, const ocl_device_desc *device,
                         char *reason, size_t size);

/* True if the variant is written for another kind of device. It is accepted here only with
 * OCL_QUIRK_ANY_STYLE, or because the driver refused all suitable variants. */
bool ocl_variant_is_foreign(const ocl_variant *variant, const ocl_device_desc *device);

/* Finds the first variant of the NULL-terminated list that the device's capabilities allow and that accepts
 * the problem; `force` (may be NULL) allows only the variant of that name. Refusals go to the debug log as
 * "what: variant: reason". When the driver refused some variants of the list (cl/command/fallback.h) and no
 * other one accepts, chooses one that refuses only because it is slow here. CLT_EUNSUPPORTED when none
 * accepts (or the forced one refuses), with all reasons. */
clt_status ocl_variant_select(const ocl_variant *const *list, const void *problem,
                              const ocl_device_desc *device, const char *what, const char *force,
                              const ocl_variant **out);

#endif
