/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the OpenCL loader's file and searches it for the names of the variables that it reads. */
#include "cl/drivers/icd_loader.h"

#include <CL/cl.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/files/fileio.h"

const char *ocl_header_version(void)
{
    static char text[16];
    snprintf(text, sizeof text, "%d.%d", CL_TARGET_OPENCL_VERSION / 100, CL_TARGET_OPENCL_VERSION / 10 % 10);
    return text;
}

bool ocl_loader_file(char *buffer, size_t size)
{
    Dl_info info;
    if (dladdr((void *)(uintptr_t)clGetPlatformIDs, &info) == 0 || info.dli_fname == NULL)
        return false;
    int n = snprintf(buffer, size, "%s", info.dli_fname);
    return n > 0 && (size_t)n < size;
}

/* Whether the loader's file contains the variable's name followed by NUL. The NUL matters, because trace
 * messages also contain names of variables. */
static bool holds(const clt_mapping *file, const char *variable)
{
    return memmem(file->data, file->size, variable, strlen(variable) + 1) != NULL;
}

ocl_loader_reads ocl_loader_variables(void)
{
    char path[OCL_LOADER_PATH];
    CLT_SCOPED(clt_mapping) file = {0};
    ocl_loader_reads reads = {0};
    if (!ocl_loader_file(path, sizeof path))
        return reads;
    if (clt_map_open(path, CLT_ESTORAGE, &file) != CLT_OK) {
        clt_error_clear();
        return reads;
    }
    reads.vendors = holds(&file, "OCL_ICD_VENDORS");
    reads.filenames = holds(&file, "OCL_ICD_FILENAMES");
    reads.vendor_path = holds(&file, "OPENCL_VENDOR_PATH");
    reads.vendors_files = reads.vendors && reads.vendor_path; /* the loader is ocl-icd or behaves like it */
    return reads;
}
