/* SPDX-License-Identifier: Apache-2.0
 *
 * Fallbacks for a command that a driver refuses: its program does not build, it cannot be launched, or it
 * fails in its first run. The planner gives up the smallest thing that the command needed (in the order of
 * cl/command/fallback.c) and plans again, if necessary until only variants are left that every device can
 * run. What was given up is stored in the device's description, so planning stays pure and equal refusals
 * lead to equal plans. This file knows nothing of the planner. */
#ifndef CL_COMMAND_FALLBACK_H
#define CL_COMMAND_FALLBACK_H

#include "cl/command/command.h"
#include "cl/command/variant.h"
#include "cl/device/capabilities.h"

/* A refused command and its origin. It has no pointers into the command list, because this list is freed
 * when the plan is made again. */
typedef struct ocl_refusal {
    bool refused;               /* false: the failure was not a refused command */
    bool lost;                  /* the device's context is unusable */
    bool lasting;               /* set by the planner: the next start would get the same refusal */
    const ocl_variant *variant; /* NULL: no variant made it */
    char form[OCL_FORM_TEXT];
    uint32_t needs;
    /* largest group that the driver accepts for this kernel; 0: the group size was not the reason */
    uint32_t group_limit;
    char kernel[64], label[96]; /* "" for a library's call */
} ocl_refusal;

void ocl_refusal_of(const ocl_command *command, ocl_refusal *out);

/* Gives up the next thing that the command can do without: a capability, a tile or a variant. Writes a
 * description of it to `what`: "capability nontemporal", "tile bm=64 bn=64 of variant 'tile'", "variant
 * 'group'". False: nothing is left to give up. */
bool ocl_give_up(ocl_device_desc *desc, const ocl_refusal *refusal, char *what, size_t size);

/* What was given up on a device because its driver refused it. It is remembered with the device's
 * capabilities (cl/device/capabilities.h), so that the next start plans without it from the beginning;
 * `cltrain devices --again` forgets it. Only refusals that would recur may be remembered, not ones caused by
 * a lack of memory or a lost context. Defined in cl/probes/asking_answers.c. */
const ocl_unsupported *ocl_device_unsupported(const ocl_device *device); /* borrowed */
void ocl_device_remember_unsupported(ocl_device *device, const ocl_unsupported *unsupported);

#endif
