/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads ICD entries, the files by which OpenCL's loader finds drivers (each names one driver library in its
 * first line), and finds their libraries. Loads nothing, because a driver's constructors may end the
 * process. */
#ifndef CL_DRIVERS_ICD_ENTRY_H
#define CL_DRIVERS_ICD_ENTRY_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/scope.h"
#include "engine/base/status.h"

#define OCL_ICD_SYSTEM_FOLDER "/etc/OpenCL/vendors"

typedef struct ocl_icd_entry {
    char *path;    /* path of the .icd file */
    char *library; /* its first line without blanks at both ends; "" when there is none */
    bool plain;    /* the file contains nothing but that line; some loaders use the whole file as a name */
    int error;     /* errno from reading the file; 0: no error */
} ocl_icd_entry;

/* Reads one file. Fails only for lack of memory. */
clt_status ocl_icd_entry_read(const char *path, ocl_icd_entry *out);
void ocl_icd_entry_free(ocl_icd_entry *entry);
CLT_SCOPED_VALUE(ocl_icd_entry, ocl_icd_entry_free)
/* Reads the folder's *.icd files, sorted by name. If the folder cannot be read, *error gets errno and there
 * are no entries. Fails only for lack of memory. */
clt_status ocl_icd_folder_read(const char *folder, ocl_icd_entry **out, size_t *count, int *error);
void ocl_icd_entries_free(ocl_icd_entry *entries, size_t count);

/* The path at which the dynamic linker would find a library that the OpenCL loader opens by this name. The
 * name is a path, which must be a shared library for this processor, or a bare name, which the linker
 * searches in its search path and cache. NULL when the linker would find none, or on lack of memory. Free
 * with free(). */
char *ocl_icd_locate(const char *library);
/* The first library of this bare name in the folders that a glob pattern matches, or NULL. Free with
 * free(). */
char *ocl_icd_locate_in(const char *pattern, const char *name);

#endif
