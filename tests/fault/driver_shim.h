/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of driver_shim.c: what goes wrong according to CLT_SHIM, and in which calls. Makes no OpenCL
 * call. Hidden from the program under test, whose functions may have the same names. */
#ifndef TESTS_FAULT_DRIVER_SHIM_H
#define TESTS_FAULT_DRIVER_SHIM_H

#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

typedef enum call { BUILD, KERNEL, GROUP, LOCAL, LAUNCH, READ, CALL_COUNT } call;

typedef enum action {
    NOTHING,
    ABORT,
    SEGFAULT,
    HANG,
    ERROR,
    LIMIT,
    UNDERSTATE,
    TIMES,
    DEAD,
    GARBAGE,
    EVENT,
    FLIP,
    NOT_A_NUMBER,
    ACTION_COUNT
} action;

/* What a call is about. */
typedef struct subject {
    const char *family, *kernel, *options, *source;
    size_t length, bytes;
} subject;

/* Ends the process: the variable says what nobody understands. */
void shim_stop(const char *what, const char *text);
/* Reads CLT_SHIM, once. Neither this nor the rest may be called by two threads at once. */
void shim_read_rules(void);
/* Counts the call; what becomes of it, and the action's number. */
action shim_judge(call c, const subject *s, double *value);
/* Smallest limit that rules report for this kernel; no call is counted. */
size_t shim_limit_of(const subject *s);
/* The name that platforms are to have; NULL: their own. */
const char *shim_platform(void);

#pragma GCC visibility pop
#endif
