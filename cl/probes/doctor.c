/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out why there is no device: checks the files that the OpenCL loader reads (doctor_drivers.c), device
 * nodes and their permissions, and the answers of the platforms. Findings name the file or library at fault.
 * This file prints nothing and must not know who reads the findings. */
#include "cl/device/internal.h"
#include "cl/device/listing.h"
#include "cl/device/pocl.h"
#include "cl/probes/doctor_internal.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void ocl_finding(ocl_doctor_state *d, ocl_finding_level level, const char *advice, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    d->report(d->context, level, text, advice ? advice : "");
}

/* Device nodes */

static bool check_node(ocl_doctor_state *d, const char *path)
{
    struct stat info;
    char advice[512];
    if (stat(path, &info) != 0 || !S_ISCHR(info.st_mode))
        return false;
    if (access(path, R_OK | W_OK) == 0) {
        ocl_finding(d, OCL_FINDING_OK, NULL, "device node %s may be used", path);
        return true;
    }
    int error = errno;
    struct group *group = getgrgid(info.st_gid);
    const char *name = group ? group->gr_name : "?";
    snprintf(advice, sizeof advice,
             "join the group: 'sudo usermod -aG %s $USER', then log in again; in a container pass "
             "'--group-add %u'",
             name, (unsigned)info.st_gid);
    ocl_finding(d, OCL_FINDING_ERROR, advice, "device node %s may not be used: %s (mode %03o, group '%s')",
                path, strerror(error), (unsigned)info.st_mode & 0777u, name);
    return true;
}

static int check_nodes_in(ocl_doctor_state *d, const char *folder, const char *prefix)
{
    int seen = 0;
    DIR *handle = opendir(folder);
    if (handle == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(handle)) != NULL;) {
        char path[512];
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        seen += check_node(d, path);
    }
    closedir(handle);
    return seen;
}

static void check_nodes(ocl_doctor_state *d)
{
    int seen = check_nodes_in(d, "/dev/dri", "render");
    seen += check_nodes_in(d, "/dev", "nvidia");
    seen += check_nodes_in(d, "/dev", "kfd");
    if (seen == 0)
        ocl_finding(
            d, OCL_FINDING_NOTE, NULL,
            "there is no GPU device node (/dev/dri/render*, /dev/nvidia*, /dev/kfd): only CPU drivers "
            "can work here");
}

/* Platforms and devices */

static void check_platform(ocl_doctor_state *d, cl_platform_id platform, int index)
{
    char name[OCL_NAME_SIZE] = "?";
    cl_uint n = 0;
    size_t size = 0;
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, NULL, &size) == CL_SUCCESS && size <= sizeof name)
        clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, NULL);
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &n);
    if (code == CL_SUCCESS && n > 0)
        ocl_finding(d, OCL_FINDING_OK, NULL, "platform %d '%s' has %u device(s)", index, name, n);
    else
        ocl_finding(
            d, OCL_FINDING_WARN,
            "check the device nodes and kernel modules of this vendor, and variables that hide devices "
            "(CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK, POCL_DEVICES, RUSTICL_ENABLE)",
            "platform %d '%s' has no device: %s (%d)", index, name, ocl_error_name(code), code);
}

static bool check_platforms(ocl_doctor_state *d)
{
    cl_platform_id platforms[64];
    cl_uint n = 0;
    cl_int code = clGetPlatformIDs(64, platforms, &n);
    if (code == CL_SUCCESS && n > 0) {
        for (cl_uint i = 0; i < n && i < 64; i++)
            check_platform(d, platforms[i], (int)i);
        return true;
    }
    char other[OCL_ADVICE_SIZE], limit[128];
    if (*ocl_memory_limit(limit, sizeof limit))
        ocl_finding(d, OCL_FINDING_ERROR, "raise the limit ('ulimit -v unlimited') and look again", "%s",
                    limit);
    const char *advice = d->drivers > 0 ? "a driver library loads but offers no platform: its device is "
                                          "missing, hidden or not permitted (see above)"
                                        : ocl_doctor_other_drivers(other);
    ocl_finding(d, OCL_FINDING_ERROR, advice,
                "the loader found no OpenCL platform: %s (%d), which means that no driver could be loaded",
                ocl_error_name(code), code);
    return false;
}

static bool try_device(ocl_doctor_state *d, const ocl_device_desc *desc)
{
    ocl_open_options options = {.spec = desc->spec, .caps_mask = OCL_CAPS_ALL};
    ocl_device *device = NULL;
    char caps[256];
    clt_status status = ocl_device_open(&options, &device);
    if (status == CLT_OK)
        ocl_finding(d, OCL_FINDING_OK, NULL, "device %s '%s' (driver %s) runs kernels; capabilities: %s",
                    desc->spec, desc->name, desc->driver,
                    ocl_caps_text(device->desc.caps, caps, sizeof caps));
    else
        ocl_finding(d, OCL_FINDING_ERROR, "update or reinstall the driver of this device",
                    "device %s '%s' does not work: %s", desc->spec, desc->name, clt_error_text());
    for (int cap = 0; device != NULL && cap < OCL_CAP_COUNT; cap++) {
        ocl_cap_report lost = ocl_device_cap_report(device, cap);
        if (ocl_answer_is_loss(lost.answer))
            ocl_finding(d, OCL_FINDING_WARN,
                        "training works without it, maybe slower; update the driver of this device",
                        "device %s goes without '%s' (%s): %s", desc->spec, ocl_cap_name(cap),
                        ocl_answer_name(lost.answer), lost.reason);
    }
    ocl_device_close(device);
    return status == CLT_OK;
}

/* Reports drivers that crash or hang when they are loaded, and which this process therefore does not
 * load. */
static bool check_listing(ocl_doctor_state *d)
{
    const ocl_dead_driver *dead;
    clt_status status = ocl_listing_prepare();
    int count = ocl_listing_dead(&dead);
    for (int i = 0; i < count; i++)
        ocl_finding(
            d, OCL_FINDING_ERROR, "update this driver, or remove its ICD file",
            "the driver library %s (%s) is not used, because listing its devices crashes or hangs: %s",
            dead[i].library, dead[i].entry, dead[i].reason);
    if (status != CLT_OK)
        ocl_finding(d, OCL_FINDING_ERROR, "update or remove the driver", "%s", clt_error_text());
    return status == CLT_OK;
}

/* Reports on PoCL's cache of kernels, which was checked before its library was loaded. */
static void tell_pocl(ocl_doctor_state *d)
{
    char advice[600] =
        "set HOME or XDG_CACHE_HOME to a folder in which you may write files and run them, or name such a "
        "folder with " CLT_POCL_FOLDER_VARIABLE;
    const ocl_pocl_report *pocl = ocl_pocl_done();
    const clt_pocl_folder *folder = &pocl->folder;
    if (folder->closed)
        snprintf(advice, sizeof advice,
                 "as root: chown -R %lu '%.300s', or remove it; or name another folder "
                 "with " CLT_POCL_FOLDER_VARIABLE,
                 (unsigned long)geteuid(), folder->refused);
    if (folder->refused != NULL && folder->path != NULL)
        ocl_finding(d, OCL_FINDING_WARN, advice,
                    "PoCL's folder for built kernels '%s' cannot be used: %s; cltrain lets it use '%s'",
                    folder->refused, folder->why, folder->path);
    else if (folder->refused != NULL)
        ocl_finding(d, OCL_FINDING_ERROR, advice,
                    "PoCL's folder for built kernels '%s' cannot be used: %s; nor can a temporary folder",
                    folder->refused, folder->why);
    if (pocl->removed > 0)
        ocl_finding(d, OCL_FINDING_WARN,
                    "nothing: PoCL builds them again; if it happens often, look at the disk, its free space "
                    "and quota",
                    "%llu built kernels of PoCL in '%s' were cut off, and cltrain has removed them",
                    (unsigned long long)pocl->removed, folder->path);
}

clt_status ocl_doctor(ocl_finding_fn report, void *context, bool *healthy)
{
    ocl_doctor_state d = {.report = report, .context = context};
    ocl_device_desc *list = NULL;
    int count = 0;
    *healthy = false;
    ocl_pocl_look_at_all();
    if (!check_listing(&d)) /* first, before this process loads a driver's library */
        return CLT_OK;
    ocl_doctor_drivers(&d);
    tell_pocl(&d);
    check_nodes(&d);
    if (!check_platforms(&d))
        return CLT_OK;
    if (ocl_list_devices(&list, &count) != CLT_OK) {
        ocl_finding(&d, OCL_FINDING_ERROR, OCL_INSTALL_ADVICE, "%s", clt_error_text());
        return CLT_OK;
    }
    for (int i = 0; i < count; i++)
        *healthy = try_device(&d, &list[i]) || *healthy;
    free(list);
    if (!*healthy)
        ocl_finding(&d, OCL_FINDING_ERROR, OCL_INSTALL_ADVICE, "no device works");
    return CLT_OK;
}
