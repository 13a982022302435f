/* SPDX-License-Identifier: Apache-2.0
 *
 * A way on when a driver refuses a command: it does not build, may not be launched, or faults when it is run
 * for the first time. Whoever plans gives up the smallest thing that the command needed
 * (cl/command/fallback.c has the order), plans again, and comes down to the variants that every device runs.
 * All of it lives in the device's description, so planning stays pure and equal refusals lead to equal plans.
 * It must not know who plans. */
#ifndef CL_FALLBACK_H
#define CL_FALLBACK_H

#include "cl/device/answers.h"
#include "cl/command/command.h"
#include "cl/command/variant.h"

/* A refused command: what made it. No pointer into the command list, which goes when the plan is made again.
 */
typedef struct ocl_refusal {
    bool refused;               /* else the failure is not the driver's answer to a command */
    bool lost;                  /* the device's context is of no use any more */
    bool lasting;               /* another start would be refused the same; said by whoever plans */
    const ocl_variant *variant; /* NULL: no variant made it */
    char form[OCL_FORM_TEXT];
    uint32_t needs;
    uint32_t group_limit; /* work-items that the driver runs this kernel with at most; 0: not the matter */
    char kernel[64], label[96]; /* a library's call: the kernel is "" */
} ocl_refusal;

void ocl_refusal_of(const ocl_command *command, ocl_refusal *out);

/* Gives up what comes next; `what` receives a text of it: "capability nontemporal", "tile bm=64 bn=64 of
 * variant 'tile'", "variant 'group'". False: nothing is left that this command could do without. */
bool ocl_give_up(ocl_device_desc *desc, const ocl_refusal *refusal, char *what, size_t size);

/* What was given up is remembered with the device's answers (cl/device/answers.h), so that the next start
 * plans without it at once; `cltrain devices --again` forgets it. Only what the driver would refuse the next
 * time, too, may be remembered: not what came of a lack of memory or of a lost context. In file
 * asking_child.c. */
const ocl_denials *ocl_device_denials(const ocl_device *device); /* borrowed */
void ocl_device_remember_denials(ocl_device *device, const ocl_denials *denials);

#endif
