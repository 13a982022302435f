/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of drivers' quirks: {match, effect, why, link}. A defect that a probe kernel can find belongs in
 * cl/probes/probes.c instead. No other file may decide anything by the name of a device or driver. */
#include "cl/device/internal.h"

#include <string.h>

#include "engine/base/log.h"

typedef struct quirk {
    const char *platform; /* substring of the platform's name, "=" and the whole name, or NULL: any */
    const char *vendor;   /* substring of the device's vendor, or NULL: any */
    const char *driver;   /* substring of the driver version, or NULL: any */
    uint32_t effect;      /* OCL_QUIRK_* */
    const char *why;
    const char *link;
} quirk;

static const quirk quirks[] = {
    {"NVIDIA CUDA", NULL, NULL, OCL_QUIRK_FILL_BY_KERNEL,
     "clEnqueueFillBuffer writes wrong data for sizes of 2^31 bytes and more",
     "https://github.com/inducer/pyopencl/issues/395"},
    {"NVIDIA CUDA", NULL, NULL, OCL_QUIRK_MAX_ALLOC_SOFT,
     "CL_DEVICE_MAX_MEM_ALLOC_SIZE is a quarter of the memory but is not enforced",
     "https://github.com/ProjectPhysX/FluidX3D/issues/132"},
    {"NVIDIA CUDA", NULL, NULL, OCL_QUIRK_NO_SUB_BUFFERS,
     "releasing a sub-buffer that a kernel argument held was seen to fault",
     "https://github.com/hfp/libxstream"},
    {"NVIDIA CUDA", NULL, NULL, OCL_QUIRK_LASTING_FAILURES,
     "a kernel's fault ends its context: every command that was enqueued after it fails, too",
     "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html"},
    {"Portable Computing Language", NULL, NULL, OCL_QUIRK_SERIAL_BUILDS,
     "its compiler holds one lock for the whole process: threads would only wait for each other",
     "https://github.com/pocl/pocl"},
    {"Portable Computing Language", NULL, NULL, OCL_QUIRK_OWN_CACHE,
     "it keeps programs and kernels on disk; a program's binary holds neither in the form that is run",
     "https://github.com/pocl/pocl"},
    {"=Intel(R) OpenCL", NULL, NULL, OCL_QUIRK_SERIAL_BUILDS,
     "its compiler holds one lock for the whole process: threads would only wait for each other",
     "https://software.intel.com/opencl"},
    {"Portable Computing Language", NULL, "3.0-rc", OCL_QUIRK_STALE_CACHE,
     "a program taken from its cache on disk has no kernels, and releasing it ends the process",
     "https://github.com/pocl/pocl"},
    {"Portable Computing Language", NULL, "3.0-rc", OCL_QUIRK_NO_EMULATED_ATTENTION,
     "compiling attention with emulated matrix units overwrites its own memory: it ends the process, or the "
     "results are wrong",
     "https://github.com/pocl/pocl"},
    {"Oclgrind", NULL, NULL, OCL_QUIRK_SERIAL_BUILDS,
     "nothing is known of its compiler being called by several threads",
     "https://github.com/jrprice/Oclgrind"},
    {"Oclgrind", NULL, NULL, OCL_QUIRK_FLUSH_IS_FINISH,
     "clFlush starts nothing: commands run only inside blocking calls",
     "https://github.com/jrprice/Oclgrind"},
    {"Oclgrind", NULL, NULL, OCL_QUIRK_FILL_BY_KERNEL,
     "a store by the host renews the record of initialised bytes of the whole buffer",
     "https://github.com/jrprice/Oclgrind"},
    {"Oclgrind", NULL, NULL, OCL_QUIRK_POLL_EVENTS,
     "a callback set on an event that has ended is never called", "https://github.com/jrprice/Oclgrind"},
    {"Oclgrind", NULL, NULL, OCL_QUIRK_NO_SHUFFLES,
     "the check for uninitialised values crashes on vector shuffles", "https://github.com/jrprice/Oclgrind"},
    {"Oclgrind", NULL, NULL, OCL_QUIRK_PLAIN_TURNS,
     "sinpi and cospi multiply by pi in f64 before they reduce: sinpi(1) is 1.2e-16, and large arguments "
     "give "
     "anything from -1 to 1",
     "https://github.com/jrprice/Oclgrind"},
};

static bool contains(const char *text, const char *part)
{
    if (part != NULL && part[0] == '=')
        return strcmp(text, part + 1) == 0;
    return part == NULL || strstr(text, part) != NULL;
}

void ocl_apply_quirks(ocl_device_desc *desc)
{
    desc->quirks = 0;
    for (size_t i = 0; i < sizeof quirks / sizeof quirks[0]; i++) {
        const quirk *q = &quirks[i];
        if (contains(desc->platform, q->platform) && contains(desc->vendor, q->vendor) &&
            contains(desc->driver, q->driver)) {
            desc->quirks |= q->effect;
            CLT_DEBUG("%s %s: quirk %s: %s (%s)", desc->spec, desc->name, ocl_quirk_name(q->effect), q->why,
                      q->link);
        }
    }
}
