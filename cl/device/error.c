/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenCL codes as names, and the only function that turns a code into a status with a message, so that no
 * caller maps codes itself. This file must not know what the caller was computing. */
#include "cl/device/device.h"

#include <CL/cl.h>
#include <stdio.h>

#define ERROR_NAMES(X)                                                                                       \
    X(CL_SUCCESS)                                                                                            \
    X(CL_DEVICE_NOT_FOUND)                                                                                   \
    X(CL_DEVICE_NOT_AVAILABLE)                                                                               \
    X(CL_COMPILER_NOT_AVAILABLE)                                                                             \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE)                                                                      \
    X(CL_OUT_OF_RESOURCES)                                                                                   \
    X(CL_OUT_OF_HOST_MEMORY)                                                                                 \
    X(CL_PROFILING_INFO_NOT_AVAILABLE)                                                                       \
    X(CL_MEM_COPY_OVERLAP)                                                                                   \
    X(CL_IMAGE_FORMAT_MISMATCH)                                                                              \
    X(CL_IMAGE_FORMAT_NOT_SUPPORTED)                                                                         \
    X(CL_BUILD_PROGRAM_FAILURE)                                                                              \
    X(CL_MAP_FAILURE)                                                                                        \
    X(CL_MISALIGNED_SUB_BUFFER_OFFSET)                                                                       \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)                                                          \
    X(CL_COMPILE_PROGRAM_FAILURE)                                                                            \
    X(CL_LINKER_NOT_AVAILABLE)                                                                               \
    X(CL_LINK_PROGRAM_FAILURE)                                                                               \
    X(CL_DEVICE_PARTITION_FAILED)                                                                            \
    X(CL_KERNEL_ARG_INFO_NOT_AVAILABLE)                                                                      \
    X(CL_INVALID_VALUE)                                                                                      \
    X(CL_INVALID_DEVICE_TYPE)                                                                                \
    X(CL_INVALID_PLATFORM)                                                                                   \
    X(CL_INVALID_DEVICE)                                                                                     \
    X(CL_INVALID_CONTEXT)                                                                                    \
    X(CL_INVALID_QUEUE_PROPERTIES)                                                                           \
    X(CL_INVALID_COMMAND_QUEUE)                                                                              \
    X(CL_INVALID_HOST_PTR)                                                                                   \
    X(CL_INVALID_MEM_OBJECT)                                                                                 \
    X(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)                                                                    \
    X(CL_INVALID_IMAGE_SIZE)                                                                                 \
    X(CL_INVALID_SAMPLER)                                                                                    \
    X(CL_INVALID_BINARY)                                                                                     \
    X(CL_INVALID_BUILD_OPTIONS)                                                                              \
    X(CL_INVALID_PROGRAM)                                                                                    \
    X(CL_INVALID_PROGRAM_EXECUTABLE)                                                                         \
    X(CL_INVALID_KERNEL_NAME)                                                                                \
    X(CL_INVALID_KERNEL_DEFINITION)                                                                          \
    X(CL_INVALID_KERNEL)                                                                                     \
    X(CL_INVALID_ARG_INDEX)                                                                                  \
    X(CL_INVALID_ARG_VALUE)                                                                                  \
    X(CL_INVALID_ARG_SIZE)                                                                                   \
    X(CL_INVALID_KERNEL_ARGS)                                                                                \
    X(CL_INVALID_WORK_DIMENSION)                                                                             \
    X(CL_INVALID_WORK_GROUP_SIZE)                                                                            \
    X(CL_INVALID_WORK_ITEM_SIZE)                                                                             \
    X(CL_INVALID_GLOBAL_OFFSET)                                                                              \
    X(CL_INVALID_EVENT_WAIT_LIST)                                                                            \
    X(CL_INVALID_EVENT)                                                                                      \
    X(CL_INVALID_OPERATION)                                                                                  \
    X(CL_INVALID_GL_OBJECT)                                                                                  \
    X(CL_INVALID_BUFFER_SIZE)                                                                                \
    X(CL_INVALID_MIP_LEVEL)                                                                                  \
    X(CL_INVALID_GLOBAL_WORK_SIZE)                                                                           \
    X(CL_INVALID_PROPERTY)                                                                                   \
    X(CL_INVALID_IMAGE_DESCRIPTOR)                                                                           \
    X(CL_INVALID_COMPILER_OPTIONS)                                                                           \
    X(CL_INVALID_LINKER_OPTIONS)                                                                             \
    X(CL_INVALID_DEVICE_PARTITION_COUNT)

/* CL_PLATFORM_NOT_FOUND_KHR of the ICD loader; it is defined in an extension header. */
#define PLATFORM_NOT_FOUND (-1001)
/* Code of NVIDIA's driver for a kernel that touched memory outside its buffers; no header names it. */
#define NVIDIA_ILLEGAL_ACCESS (-9999)

const char *ocl_error_name(int cl_code)
{
    switch (cl_code) {
#define ERROR_CASE(name)                                                                                     \
    case name:                                                                                               \
        return #name;
        ERROR_NAMES(ERROR_CASE)
#undef ERROR_CASE
    case PLATFORM_NOT_FOUND:
        return "CL_PLATFORM_NOT_FOUND_KHR";
    case NVIDIA_ILLEGAL_ACCESS:
        return "NVIDIA's illegal access by a kernel";
    default:
        return "unknown OpenCL code";
    }
}

static clt_status status_of(int cl_code)
{
    switch (cl_code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_INVALID_BUFFER_SIZE:
        return CLT_EDEVMEM;
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_COMMAND_QUEUE:
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST: /* a blocking call waited for a command that failed */
        return CLT_EDEVLOST;
    case PLATFORM_NOT_FOUND:
    case CL_DEVICE_NOT_FOUND:
    case CL_COMPILER_NOT_AVAILABLE:
        return CLT_EDEVICE;
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_COMPILE_PROGRAM_FAILURE:
    case CL_LINK_PROGRAM_FAILURE:
    case CL_INVALID_BUILD_OPTIONS:
    case CL_INVALID_COMPILER_OPTIONS:
    case CL_INVALID_PROGRAM_EXECUTABLE:
        return CLT_EBUILD;
    case CL_INVALID_WORK_GROUP_SIZE: /* depends on the kernel, so another try would fail too */
    case CL_INVALID_WORK_ITEM_SIZE:
    case CL_INVALID_KERNEL_NAME:
        return CLT_EUNSUPPORTED;
    case CL_OUT_OF_HOST_MEMORY:
        return CLT_ENOMEM;
    default:
        return CLT_EINTERNAL;
    }
}

static const char *advice_of(int cl_code)
{
    switch (cl_code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_INVALID_BUFFER_SIZE:
        return "; the device has no room for it: ask for less memory or choose another device";
    case CL_OUT_OF_RESOURCES:
        return "; the device ran out of memory or a kernel faulted: ask for less memory, or run 'cltrain "
               "verify'";
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_COMMAND_QUEUE:
        return "; the driver lost the device: see the system log (dmesg), then resume";
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
        return "; the driver gave up a command that it had accepted: see the system log (dmesg), then resume";
    case PLATFORM_NOT_FOUND:
        return "; no OpenCL driver is installed or none could be loaded: run 'cltrain doctor'";
    case CL_DEVICE_NOT_FOUND:
    case CL_COMPILER_NOT_AVAILABLE:
        return "; run 'cltrain doctor'";
    case CL_OUT_OF_HOST_MEMORY:
        return "; the driver needs more host memory";
    case NVIDIA_ILLEGAL_ACCESS:
        return "; a kernel read or wrote outside its buffers: please report it with the output of 'cltrain "
               "verify'";
    default:
        return "";
    }
}

clt_status ocl_fail(int cl_code, const char *file, int line, const char *format, ...)
{
    char what[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return clt_fail(status_of(cl_code), file, line, "%s: %s (%d)%s", what, ocl_error_name(cl_code), cl_code,
                    advice_of(cl_code));
}
