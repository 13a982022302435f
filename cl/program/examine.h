/* SPDX-License-Identifier: Apache-2.0
 *
 * How a device's compiler builds programs: the time of each build, and the compiler's report of registers,
 * spills and memory. For reports from machines to which there is no access later, and for work on
 * kernels. */
#ifndef CL_PROGRAM_EXAMINE_H
#define CL_PROGRAM_EXAMINE_H

#include "cl/program/binary.h"
#include "cl/program/programs.h"

/* Resources of a program's kernels, as the assembler reports them: the largest value of each; -1: not
 * reported. */
typedef struct ocl_resources {
    int registers;              /* of a work-item */
    int64_t spilled_bytes;      /* of a work-item: stores and loads of registers that did not fit */
    int64_t stack_bytes;        /* of a work-item */
    int64_t static_local_bytes; /* of a work-group: arrays declared __local, without arguments */
} ocl_resources;
/* Reads a log in the form of NVIDIA's assembler (ptxas -v). Pure. */
ocl_resources ocl_resources_of(const char *log);

typedef struct ocl_examined {
    const char *family, *options; /* given: as for ocl_program_get */
    /* CLT_OK, or why the program does not build or its report could not be kept */
    clt_error error;
    double seconds; /* of its build; other builds at the same time make it longer */
    ocl_resources resources;
    char binary[OCL_BINARY_TEXT];
} ocl_examined;

typedef struct ocl_examine_options {
    /* further options for every build, "" for none */
    const char *extra;
    int threads;        /* builds at a time, at most 8; 0: the same number as for a training */
    const char *folder; /* NULL, or a folder for NUMBER-FAMILY.log and .ptx or .bin of each program */
    /* Called as soon as a program was built, on any thread, but never by two at a time. */
    void (*each)(void *context, size_t index, const ocl_examined *program);
    void *context;
} ocl_examine_options;
/* Builds the programs from their sources, not from cltrain's cache, and asks NVIDIA's compiler for its
 * report. A program that does not build does not stop the others. Drivers may take programs from their own
 * caches, and PoCL does most of its compiling at a kernel's first launch. The device keeps the programs
 * until it is closed, but no later build of this process is taken from cltrain's cache. */
void ocl_examine(ocl_device *device, const ocl_examine_options *options, ocl_examined *programs,
                 size_t count);

#endif
