/* SPDX-License-Identifier: Apache-2.0
 *
 * A private folder of ICD entries, for the OpenCL loader to read in the place of the system's. */
#ifndef CL_DRIVERS_ICD_FOLDER_H
#define CL_DRIVERS_ICD_FOLDER_H

#include <stddef.h>

#include "engine/base/status.h"

typedef struct ocl_icd_file {
    const char *name;    /* name of the .icd file */
    const char *library; /* the library that it names */
} ocl_icd_file;

/* Makes the folder, or finds the one that an earlier process made. The folder is in the user's cache, named
 * after a hash of its entries. A rename creates it, so that other processes never see it incomplete. Without
 * a usable cache it is a temporary folder, which is removed when the process ends. Only this user can write
 * to the folder. CLT_ESTORAGE. Free with free(). */
clt_status ocl_icd_folder_make(const ocl_icd_file *files, size_t count, char **out);

#endif
