/* SPDX-License-Identifier: Apache-2.0
 *
 * The siblings of NVIDIA's OpenCL library: libraries of the same driver that it opens by name while it
 * works (to reach the device, to compile, to assemble). It opens them without a folder, so the dynamic
 * linker must find them. If the driver is outside the linker's search path, as in many containers, the
 * linker finds none, or a library of another version. Then the driver offers no platform, or every build
 * fails with an empty log. A library that is already loaded is found by its name, wherever its file is. So
 * cltrain loads the right siblings before the first OpenCL call. */
#ifndef CL_DRIVERS_SIBLINGS_H
#define CL_DRIVERS_SIBLINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/scope.h"

#define OCL_MAX_SIBLINGS 6
#define OCL_DRIVER_VERSION 32

typedef struct ocl_sibling {
    char name[64];   /* name by which the driver opens it */
    const char *use; /* what fails without it; NULL: some versions of the driver lack it */
    char *path;      /* where it is; NULL: it was not found */
    /* the dynamic linker finds this very file by its name alone */
    bool linked;
    char version[OCL_DRIVER_VERSION]; /* "580.65.06"; "" if the name of its file has no version */
} ocl_sibling;

typedef struct ocl_siblings {
    /* version of the driver's library; "" if the name of its file has none */
    char version[OCL_DRIVER_VERSION];
    ocl_sibling list[OCL_MAX_SIBLINGS];
    int count;
} ocl_siblings;

/* Whether this is NVIDIA's OpenCL library, judged by the name of its file or, for a link, of its target. */
bool ocl_has_siblings(const char *library);
/* Searches for the siblings of the driver's library at this path, without loading anything: in the library's
 * folder, where the dynamic linker searches, and in the usual folders. A file of the driver's own version is
 * preferred. Free with ocl_siblings_free. */
void ocl_siblings_find(const char *library, ocl_siblings *out);
void ocl_siblings_free(ocl_siblings *siblings);
CLT_SCOPED_VALUE(ocl_siblings, ocl_siblings_free)
/* Loads each sibling of the driver's own version that the dynamic linker would not find. This runs the
 * libraries' constructors, so a child process must have tried them first. A sibling that the process has
 * already loaded is skipped. */
void ocl_siblings_load(const ocl_siblings *siblings);

/* The first version number in a text, such as "580.65.06": two or three numbers with points between them; ""
 * if there is none. */
void ocl_driver_version(const char *text, char out[OCL_DRIVER_VERSION]);

#endif
