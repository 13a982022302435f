/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the doctor for NVIDIA's driver: its OpenCL library opens libraries of the same driver by name
 * (cl/drivers/siblings.h), and all of them must have the version of the kernel module. This file reads only
 * the names of files, and must not call OpenCL. */
#include "cl/probes/doctor_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cl/drivers/siblings.h"

#define VERSION_FILE "/proc/driver/nvidia/version"

/* The kernel module's version; "" without a module. */
static void module_version(char out[OCL_DRIVER_VERSION])
{
    char text[1024] = "";
    FILE *file = fopen(VERSION_FILE, "re");
    out[0] = '\0';
    if (file == NULL)
        return;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    text[strcspn(text, "\n")] = '\0';
    ocl_driver_version(text, out);
}

/* Reports a kernel driver without its OpenCL library, which containers without the right capability have. */
static void tell_absent(ocl_doctor_state *d)
{
    if (access("/dev/nvidia0", F_OK) != 0 && access("/dev/nvidiactl", F_OK) != 0)
        return;
    ocl_finding(
        d, OCL_FINDING_WARN,
        "in a container start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility; on a host install "
        "the OpenCL package of the very same driver version (see " VERSION_FILE ")",
        "an NVIDIA device node exists, but its OpenCL library libnvidia-opencl.so.1 is not installed");
}

static void tell_module(ocl_doctor_state *d, const char *version)
{
    char module[OCL_DRIVER_VERSION];
    module_version(module);
    if (module[0] != '\0' && version[0] != '\0' && strcmp(module, version) != 0)
        ocl_finding(d, OCL_FINDING_ERROR,
                    "after an update of the driver restart the machine; in a container remove the driver's "
                    "libraries from the image, so that the host's are used",
                    "NVIDIA's OpenCL library %s has version %s, but the kernel module has version %s "
                    "(" VERSION_FILE "): the driver refuses to work",
                    d->nvidia, version, module);
}

static void tell_sibling(ocl_doctor_state *d, const ocl_siblings *all, const ocl_sibling *s)
{
    char advice[512];
    snprintf(advice, sizeof advice,
             "install the driver's libraries of version %s, or in a container start it with "
             "NVIDIA_DRIVER_CAPABILITIES=compute,utility; name their folder in LD_LIBRARY_PATH if they lie "
             "elsewhere",
             all->version[0] != '\0' ? all->version : "the kernel module");
    if (s->path == NULL && s->use != NULL)
        ocl_finding(d, OCL_FINDING_ERROR, advice,
                    "%s, which NVIDIA's OpenCL library opens by name, is not installed: without it %s",
                    s->name, s->use);
    else if (s->path != NULL && s->version[0] != '\0' && all->version[0] != '\0' &&
             strcmp(s->version, all->version) != 0)
        ocl_finding(d, s->use != NULL ? OCL_FINDING_ERROR : OCL_FINDING_WARN, advice,
                    "%s has version %s, but NVIDIA's OpenCL library, which opens it, has version %s%s%s",
                    s->path, s->version, all->version, s->use != NULL ? ": then " : "",
                    s->use != NULL ? s->use : "");
    else if (s->path != NULL && !s->linked)
        ocl_finding(
            d, OCL_FINDING_NOTE, NULL,
            "cltrain loads %s for NVIDIA's OpenCL library, because the dynamic linker does not find it "
            "by its name",
            s->path);
}

/* Whether the compiler is in the library of older drivers, which has another name. */
static bool has_older_compiler(const ocl_siblings *all)
{
    for (int i = 0; i < all->count; i++)
        if (all->list[i].path != NULL && strncmp(all->list[i].name, "libnvidia-compiler", 18) == 0)
            return true;
    return false;
}

void ocl_doctor_nvidia(ocl_doctor_state *d)
{
    CLT_SCOPED(ocl_siblings) all = {0};
    if (d->nvidia == NULL) {
        tell_absent(d);
        return;
    }
    ocl_siblings_find(d->nvidia, &all);
    tell_module(d, all.version);
    for (int i = 0; i < all.count; i++)
        if (strncmp(all.list[i].name, "libnvidia-nvvm.", 15) != 0 || !has_older_compiler(&all))
            tell_sibling(d, &all, &all.list[i]);
    free(d->nvidia);
    d->nvidia = NULL;
}
