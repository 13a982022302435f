/* SPDX-License-Identifier: Apache-2.0
 *
 * The siblings of NVIDIA's OpenCL library: libraries of the same driver that it opens by name while it
 * works (to reach the device, to compile, to assemble). It names no folder, so the dynamic linker must find
 * them. Where the driver lies outside the linker's search path, as in many containers, the linker finds
 * none, or a stale one of another version; then there is no platform, or every build fails with an empty
 * log. The linker finds a library that is already loaded by its name, wherever its file is, so cltrain
 * loads the right siblings before the first OpenCL call. */
#ifndef CL_DRIVERS_SIBLINGS_H
#define CL_DRIVERS_SIBLINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/scope.h"

#define OCL_MAX_SIBLINGS 6
#define OCL_DRIVER_VERSION 32

typedef struct ocl_sibling {
    char name[64];   /* name by which the driver opens it */
    const char *use; /* what fails without it; NULL: not every version of the driver has it */
    char *path;      /* where it is; NULL: it was not found */
    /* the dynamic linker finds this very file by the name alone */
    bool linked;
    char version[OCL_DRIVER_VERSION]; /* "580.65.06"; "" if the name of its file has no version */
} ocl_sibling;

typedef struct ocl_siblings {
    /* version of the driver's library; "" if the name of its file has none */
    char version[OCL_DRIVER_VERSION];
    ocl_sibling list[OCL_MAX_SIBLINGS];
    int count;
} ocl_siblings;

/* Whether this is NVIDIA's OpenCL library, by its file's name or, if that is a link, its target's. */
bool ocl_has_siblings(const char *library);
/* Looks for the siblings of the driver's library at this path, without loading anything: beside it, where
 * the dynamic linker looks, and in the usual folders. A file of the driver's own version comes before all
 * others. Free with ocl_siblings_free. */
void ocl_siblings_find(const char *library, ocl_siblings *out);
void ocl_siblings_free(ocl_siblings *siblings);
CLT_SCOPED_VALUE(ocl_siblings, ocl_siblings_free)
/* Loads each sibling of the driver's own version that the dynamic linker would not find. Constructors of
 * the libraries run, so a child process must have loaded them before. A sibling that the process has
 * already loaded stays. */
void ocl_siblings_load(const ocl_siblings *siblings);

/* The first version number in a text ("580.65.06"): numbers with one or two points between them; "" without
 * any. */
void ocl_driver_version(const char *text, char out[OCL_DRIVER_VERSION]);

#endif
