/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL loader of this process: its file, and which variables it takes drivers from. */
#ifndef CL_DRIVERS_ICD_LOADER_H
#define CL_DRIVERS_ICD_LOADER_H

#include <stdbool.h>
#include <stddef.h>

/* Version of the OpenCL API that this program was compiled for: "1.2". */
const char *ocl_header_version(void);

#define OCL_LOADER_PATH 4096
/* The file of the OpenCL loader in this process; false if the linker does not know it. */
bool ocl_loader_file(char *buffer, size_t size);

/* The variables that the loader reads. Loaders differ in them, and NVIDIA's and AMD's loaders have the same
 * file name as the free ones. So this function searches the loader's file for the variables' names. It calls
 * no OpenCL function, because the first call already makes the loader read its variables. The meaning of the
 * variables was found by experiments with ocl-icd 2.3.1 and Khronos' loader 2023.04.17:
 *   OCL_ICD_VENDORS      both: a folder of .icd files that replaces the system's. ocl-icd also accepts one
 *                        .icd file or one library; with that Khronos' loader finds no driver
 *   OCL_ICD_FILENAMES    Khronos' loader only: libraries (no .icd files), separated by colons, which come
 *                        before the libraries of the folder
 *   OPENCL_VENDOR_PATH   ocl-icd only: a folder, unless OCL_ICD_VENDORS is set */
typedef struct ocl_loader_reads {
    bool vendors;       /* OCL_ICD_VENDORS names a folder */
    bool vendors_files; /* OCL_ICD_VENDORS may also name one .icd file or one library */
    bool filenames;     /* OCL_ICD_FILENAMES */
    bool vendor_path;   /* OPENCL_VENDOR_PATH */
} ocl_loader_reads;
ocl_loader_reads ocl_loader_variables(void);

#endif
