/* SPDX-License-Identifier: Apache-2.0
 *
 * How a device's compiler builds programs: the time of each build, and the compiler's report of registers,
 * spills and memory. For reports from machines that nobody can access later, and for work on kernels. */
#ifndef CL_PROGRAM_EXAMINE_H
#define CL_PROGRAM_EXAMINE_H

#include "cl/program/binary.h"
#include "cl/program/programs.h"

/* Resources of a program's kernels, as the assembler reports them: the largest value of each; -1: not
 * reported. */
typedef struct ocl_resources {
    int registers;              /* per work-item */
    int64_t spilled_bytes;      /* per work-item: stores and loads of registers that spilled */
    int64_t stack_bytes;        /* per work-item */
    int64_t static_local_bytes; /* per work-group: arrays declared __local, without arguments */
} ocl_resources;
/* Reads a log in the form of NVIDIA's assembler (ptxas -v). Pure. */
ocl_resources ocl_resources_of(const char *log);

typedef struct ocl_examined {
    const char *family, *options; /* set by the caller, as for ocl_program_get */
    /* CLT_OK, or the reason why the program does not build or its report could not be stored */
    clt_error error;
    double seconds; /* duration of its build, which other builds at the same time make longer */
    ocl_resources resources;
    char binary[OCL_BINARY_TEXT];
} ocl_examined;

typedef struct ocl_examine_options {
    /* additional options for every build, "" for none */
    const char *extra;
    int threads;        /* number of builds at a time, at most 8; 0: as in a training */
    const char *folder; /* NULL, or a folder for NUMBER-FAMILY.log and .ptx or .bin of each program */
    /* Called when a program has been built, on any thread, but never on two at a time. */
    void (*each)(void *context, size_t index, const ocl_examined *program);
    void *context;
} ocl_examine_options;
/* Builds the programs from their sources, not from cltrain's cache, and asks NVIDIA's compiler for its
 * report. A program that does not build does not stop the others. The times say little where drivers take
 * programs from their own caches, or compile at a kernel's first launch, as PoCL does. The device keeps the
 * programs until it is closed. Later builds of this process do not use cltrain's cache. */
void ocl_examine(ocl_device *device, const ocl_examine_options *options, ocl_examined *programs,
                 size_t count);

#endif
