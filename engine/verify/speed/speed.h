/* SPDX-License-Identifier: Apache-2.0
 *
 * Speed of ops and optimizers at realistic sizes, as a fraction of the memory bandwidth that the device
 * reaches at the same time: a stream is run before and after everything that is timed. Results are not
 * checked here. */
#ifndef ENGINE_VERIFY_SPEED_SPEED_H
#define ENGINE_VERIFY_SPEED_SPEED_H

#include "cl/measure/limits.h"

/* The result for one direction of a case, or for one of its commands. */
typedef struct clt_speed_result {
    const char *name;       /* "gelu.large" */
    const char *direction;  /* "forward", "backward", "update" */
    const char *kernel;     /* NULL: the direction as a whole */
    double ms, gbs, gflops; /* medians of the rounds */
    /* Bytes that must move / (time * GB/s of the stream with the same kind of stores just before and after);
     * NAN: nothing moves. */
    double share;
    bool streams;        /* its arrays are far larger than the caches, and arithmetic does not limit it */
    bool nontemporal;    /* compared with the stream that uses nontemporal stores */
    const char *refusal; /* not NULL: why it could not run; members after `name` are then undefined */
} clt_speed_result;

typedef struct clt_speed_options {
    const char *pattern; /* glob over names, NULL: all */
    const char *device_spec;
    uint32_t caps_mask;
    double seconds; /* approximate time for measuring one direction */
    void (*limits)(void *context, const ocl_device_desc *desc, const ocl_limits *limits);
    void (*result)(void *context, const clt_speed_result *result);
    void *context;
} clt_speed_options;

/* True if memory limits what was timed and it reaches less than `percent` of the stream, or its share is
 * NAN. */
bool clt_speed_too_slow(const clt_speed_result *result, double percent);

/* CLT_EUSAGE if the pattern matches no name. */
clt_status clt_speed_run(const clt_speed_options *options);

#endif
