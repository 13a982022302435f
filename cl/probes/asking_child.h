/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking a device in child processes (asking_child.c), for the file that remembers its answers
 * (asking_answers.c). */
#ifndef CL_PROBES_ASKING_CHILD_H
#define CL_PROBES_ASKING_CHILD_H

#include "cl/device/internal.h"

#define OCL_PROBE_SECONDS 30.0 /* time limit of a probe */

/* The answers that the caller wants about a device. */
typedef struct ocl_asking_options {
    uint32_t mask;
    bool again, tests;
    ocl_style style;
} ocl_asking_options;

/* Runs children until all questions are answered. Each child answers at least one, even if only by crashing,
 * so this ends. Questions that already have answers are not asked again. If no child can be started, this
 * process asks. CLT_EDEVICE: the driver did not list its devices; CLT_ENOMEM: a child ran out of memory. */
clt_status ocl_ask_children(const ocl_found *found, const ocl_asking_options *w,
                            ocl_capabilities *capabilities);

#endif
