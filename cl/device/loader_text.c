/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks the OpenCL loader for its name and version, through an extension function that not all loaders
 * have. */
/* a loader's extension belongs to no platform, so clGetExtensionFunctionAddress is needed */
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include "cl/device/loader_text.h"

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <stdio.h>
#include <string.h>

#include "cl/device/listing.h"

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
    if (ocl_listing_prepare() != CLT_OK) { /* drivers could crash this process */
        clt_error_clear();
        snprintf(buffer, size, "OpenCL loader (its drivers cannot be listed: run 'cltrain doctor')");
        return buffer;
    }
    void *found = clGetExtensionFunctionAddress("clGetICDLoaderInfoOCLICD");
    loader_info_fn info;
    /* C11 has no conversion from object to function pointers; POSIX does */
    memcpy(&info, &found, sizeof info);
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
