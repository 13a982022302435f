/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks the OpenCL loader who it is, and its file which variables it reads. Loaders tell their name through an
 * extension function that not all of them have. */
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS /* the loader has no platform to ask instead */
#include "cl/device/icd_loader.h"

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cl/device/listing.h"
#include "engine/base/fileio.h"

/* Queries of the extension cl_loader_info: 1 OpenCL version, 2 its own version, 3 name, 4 vendor. */
typedef cl_int (*loader_info_fn)(cl_uint what, size_t size, void *value, size_t *needed);

static void ask(loader_info_fn info, cl_uint what, char text[128])
{
    if (info(what, 127, text, NULL) != CL_SUCCESS)
        snprintf(text, 128, "?");
    text[127] = '\0';
}

const char *ocl_loader_text(char *buffer, size_t size)
{
    char version[128] = "", name[128] = "", vendor[128] = "";
    if (ocl_listing_prepare() != CLT_OK) { /* loading the drivers would do harm */
        clt_error_clear();
        snprintf(buffer, size, "OpenCL loader (its drivers cannot be listed: run 'cltrain doctor')");
        return buffer;
    }
    void *found = clGetExtensionFunctionAddress("clGetICDLoaderInfoOCLICD");
    loader_info_fn info;
    memcpy(&info, &found, sizeof info); /* an object pointer is no function pointer in C11; in POSIX it is */
    if (!found) {
        snprintf(buffer, size, "OpenCL loader without version information");
        return buffer;
    }
    ask(info, 2, version);
    ask(info, 3, name);
    ask(info, 4, vendor);
    snprintf(buffer, size, "%s %s (%s)", name, version, vendor);
    return buffer;
}

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

/* The name of a variable with the zero byte that ends it: trace messages of loaders name variables, too. */
static bool holds(const clt_mapping *file, const char *variable)
{
    return memmem(file->data, file->size, variable, strlen(variable) + 1) != NULL;
}

ocl_loader_reads ocl_loader_variables(void)
{
    char path[OCL_LOADER_PATH];
    clt_mapping file;
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
    reads.vendors_files = reads.vendors && reads.vendor_path; /* that is ocl-icd, or follows it */
    clt_map_close(&file);
    return reads;
}
