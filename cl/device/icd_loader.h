/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL loader of this process: its file, and which variables it takes drivers from. */
#ifndef CL_ICD_LOADER_H
#define CL_ICD_LOADER_H

#include <stdbool.h>
#include <stddef.h>

/* Version of the OpenCL API that this program was compiled for: "1.2". */
const char *ocl_header_version(void);

#define OCL_LOADER_PATH 4096
/* The file of the OpenCL loader in this process; false if the linker cannot tell. */
bool ocl_loader_file(char *buffer, size_t size);

/* Which variables the loader reads. Loaders differ, and NVIDIA's and AMD's own carry the same file name as
 * the free ones, so the file itself is asked: a variable that it reads stands in it as a text. No OpenCL
 * function is called, because the first call already makes the loader read its variables. What each of them
 * means was found by trials with ocl-icd 2.3.1 and Khronos' loader 2023.04.17: OCL_ICD_VENDORS     both: a
 * folder of .icd files that takes the place of the system's. ocl-icd also takes one .icd file or one library
 * there, Khronos' loader finds no driver then. OCL_ICD_FILENAMES   Khronos' alone: libraries (no .icd files),
 * separated by colons, before the folder's. OPENCL_VENDOR_PATH  ocl-icd's alone: a folder, unless
 * OCL_ICD_VENDORS is set. */
typedef struct ocl_loader_reads {
    bool vendors;       /* OCL_ICD_VENDORS names a folder */
    bool vendors_files; /* and may name one .icd file or one library */
    bool filenames;     /* OCL_ICD_FILENAMES */
    bool vendor_path;   /* OPENCL_VENDOR_PATH */
} ocl_loader_reads;
ocl_loader_reads ocl_loader_variables(void);

#endif
