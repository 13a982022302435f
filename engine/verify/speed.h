/* SPDX-License-Identifier: Apache-2.0
 *
 * Speed of ops and optimizers at the sizes of real work, as a share of what the memory of the device does at
 * the same moment: streams are run before and after everything that is timed. What is right is the checker's
 * business. */
#ifndef ENGINE_VERIFY_SPEED_H
#define ENGINE_VERIFY_SPEED_H

#include "cl/command/exec.h"

/* One direction of a case, or one command of it. */
typedef struct clt_speed_result {
    const char *name;       /* "gelu.large" */
    const char *direction;  /* "forward", "backward", "update" */
    const char *kernel;     /* NULL: the direction as a whole */
    double ms, gbs, gflops; /* middle one of the rounds */
    double share;     /* of stream: bytes that must move / (time * what the triad with the same kind of stores
                         reached just before and after); NAN: nothing moves */
    bool streams;     /* its arrays are far larger than the caches and arithmetic is not what limits it */
    bool nontemporal; /* compared with the triad whose stores pass by the caches */
    const char *refusal; /* not NULL: could not be run here, and why; everything below name is void */
} clt_speed_result;

typedef struct clt_speed_options {
    const char *pattern; /* glob over names, NULL: all */
    const char *device_spec;
    uint32_t caps_mask;
    double seconds; /* about how long to measure one direction */
    void (*limits)(void *context, const ocl_device_desc *desc, const ocl_limits *limits);
    void (*result)(void *context, const clt_speed_result *result);
    void *context;
} clt_speed_options;

/* Does memory limit what was timed, and is it below that share of the stream? A share that is no number is.
 */
bool clt_speed_too_slow(const clt_speed_result *result, double percent);

/* CLT_EUSAGE when no name matches. */
clt_status clt_speed_run(const clt_speed_options *options);

#endif
