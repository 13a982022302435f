/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts OpenCL calls: interpose.c defines the functions, counts, and calls the real ones. The program's
 * definitions take precedence, so the engine's calls and those inside of CLBlast's functions are both seen,
 * and counted separately. */
#ifndef TESTS_FAULT_INTERPOSE_H
#define TESTS_FAULT_INTERPOSE_H

#include <stdint.h>

typedef enum call_kind {
    /* must not be called within a step */
    CALL_BUILD,         /* clBuildProgram, clCompileProgram, clLinkProgram, clCreateProgramWith... */
    CALL_CREATE_KERNEL, /* clCreateKernel, clCreateKernelsInProgram */
    CALL_CREATE_MEMORY, /* clCreateBuffer, clCreateSubBuffer, clCreateImage */
    CALL_CREATE_OTHER,  /* contexts, queues, user events */
    CALL_RELEASE,       /* memory objects, kernels, programs, queues, contexts */
    CALL_SET_ARG,       /* clSetKernelArg */
    CALL_WAIT,          /* clWaitForEvents, clFinish */
    CALL_BLOCKING,      /* reads, writes and maps with the blocking flag */
    CALL_MAP,           /* maps and unmaps of any kind */
    CALL_FORBIDDEN_COUNT,
    /* the calls that a step consists of */
    CALL_KERNEL = CALL_FORBIDDEN_COUNT, /* clEnqueueNDRangeKernel */
    CALL_COPY,                          /* clEnqueueCopyBuffer */
    CALL_FILL,                          /* clEnqueueFillBuffer */
    CALL_READ,                          /* clEnqueueReadBuffer, not blocking */
    CALL_WRITE,                         /* clEnqueueWriteBuffer, not blocking */
    CALL_MARKER,                        /* clEnqueueMarkerWithWaitList */
    CALL_EVENT,                         /* an event that any of these enqueueing calls was asked for */
    CALL_FLUSH,
    CALL_LIBRARY, /* calls of CLBlast itself */
    CALL_KIND_COUNT
} call_kind;

typedef struct call_counts {
    uint64_t own[CALL_KIND_COUNT], library[CALL_KIND_COUNT]; /* library: called inside of CLBlast */
} call_counts;

call_counts calls_now(void);
call_counts calls_since(const call_counts *start);
const char *call_name(call_kind kind);

#endif
