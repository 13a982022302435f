/* SPDX-License-Identifier: Apache-2.0
 *
 * Why is there no device? Looks at what the OpenCL loader looks at (ICD files, environment), at device nodes
 * and their permissions, and at what the platforms answer, and reports findings by the name of the file or
 * library at fault. It prints nothing and must not know who reads the findings. */
#include "cl/internal.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_VENDORS "/etc/OpenCL/vendors"
#define NVIDIA_LIBRARY "libnvidia-opencl.so.1"

typedef struct doctor {
    ocl_finding_fn report;
    void *context;
    int drivers;        /* libraries named by ICD files or the environment that load */
    bool nvidia_listed; /* one of them is NVIDIA's */
} doctor;

static void finding(doctor *d, ocl_finding_level level, const char *advice, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void finding(doctor *d, ocl_finding_level level, const char *advice, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    d->report(d->context, level, text, advice ? advice : "");
}

/* Drivers: libraries and the ICD files that name them */

static void check_library(doctor *d, const char *library, const char *named_by)
{
    char advice[1024];
    dlerror();
    /* The handle is kept: the loader would load it next anyway, and unloading a compiler is not safe. */
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    d->nvidia_listed = d->nvidia_listed || strstr(library, "nvidia-opencl") != NULL;
    if (handle != NULL) {
        d->drivers++;
        finding(d, OCL_FINDING_OK, NULL, "%s names the driver library %s, and it loads", named_by, library);
        return;
    }
    const char *why = dlerror();
    snprintf(
        advice, sizeof advice,
        "install the package that contains %s (or what it needs: see 'ldd' on it), or remove or correct %s",
        library, named_by);
    finding(d, OCL_FINDING_ERROR, advice, "%s names the driver library %s, which does not load: %s", named_by,
            library, why ? why : "no reason given");
}

static void trim_line(char *line)
{
    line[strcspn(line, "\r\n")] = '\0';
    size_t start = strspn(line, " \t"), length = strlen(line);
    while (length > start && (line[length - 1] == ' ' || line[length - 1] == '\t'))
        length--;
    memmove(line, line + start, length - start);
    line[length - start] = '\0';
}

static void check_icd_file(doctor *d, const char *path)
{
    char line[1024] = "", advice[1200];
    FILE *file = fopen(path, "r");
    bool got = file != NULL && fgets(line, sizeof line, file) != NULL;
    int error = file == NULL || (!got && ferror(file)) ? errno : 0;
    if (file != NULL)
        fclose(file);
    if (error != 0) {
        snprintf(advice, sizeof advice,
                 "make it a file that everybody may read, e.g. 'sudo chmod 644 %s', or remove it", path);
        finding(d, OCL_FINDING_ERROR, advice, "the ICD file %s cannot be read: %s", path, strerror(error));
        return;
    }
    trim_line(line);
    if (line[0] == '\0') {
        finding(d, OCL_FINDING_ERROR,
                "its first line must name a driver library; reinstall the driver package that owns it",
                "the ICD file %s is empty", path);
        return;
    }
    check_library(d, line, path);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Full paths of a folder's *.icd entries, sorted; false (with errno) when it cannot be read. */
static bool icd_files(const char *folder, char ***out, size_t *count)
{
    size_t capacity = 0;
    *out = NULL;
    *count = 0;
    DIR *handle = opendir(folder);
    if (handle == NULL)
        return false;
    for (struct dirent *entry; (entry = readdir(handle)) != NULL;) {
        size_t size = strlen(folder) + strlen(entry->d_name) + 2;
        char *path;
        if (!ends_with(entry->d_name, ".icd"))
            continue;
        if (clt_grow(out, &capacity, *count + 1, sizeof **out, "ICD files") != CLT_OK ||
            clt_alloc(&path, size, 1, "an ICD path") != CLT_OK)
            break;
        snprintf(path, size, "%s/%s", folder, entry->d_name);
        (*out)[(*count)++] = path;
    }
    closedir(handle);
    if (*count > 1)
        qsort(*out, *count, sizeof **out, compare_names);
    return true;
}

#define INSTALL_ADVICE                                                                                       \
    "install a driver: your GPU vendor's OpenCL package, or for the CPU 'apt-get install pocl-opencl-icd'"

static void check_icd_folder(doctor *d, const char *folder, const char *named_by)
{
    char **paths;
    size_t count;
    if (!icd_files(folder, &paths, &count)) {
        finding(d, OCL_FINDING_ERROR, INSTALL_ADVICE,
                "the folder of OpenCL drivers %s (%s) cannot be read: %s", folder, named_by, strerror(errno));
        return;
    }
    if (count == 0)
        finding(d, OCL_FINDING_ERROR, INSTALL_ADVICE,
                "the folder of OpenCL drivers %s (%s) holds no .icd file: no driver is installed", folder,
                named_by);
    for (size_t i = 0; i < count; i++) {
        check_icd_file(d, paths[i]);
        free(paths[i]);
    }
    free(paths);
}

/* OCL_ICD_VENDORS: a folder, an .icd file or a library. */
static void check_vendors_variable(doctor *d, const char *value)
{
    struct stat info;
    if (stat(value, &info) == 0 && S_ISDIR(info.st_mode))
        check_icd_folder(d, value, "from OCL_ICD_VENDORS");
    else if (ends_with(value, ".icd"))
        check_icd_file(d, value);
    else if (ends_with(value, "/"))
        finding(d, OCL_FINDING_ERROR, "correct or unset OCL_ICD_VENDORS",
                "OCL_ICD_VENDORS names the folder %s, which does not exist", value);
    else
        check_library(d, value, "OCL_ICD_VENDORS");
}

/* OCL_ICD_FILENAMES: libraries or .icd files, separated by colons. */
static void check_filenames_variable(doctor *d, const char *value)
{
    char item[1024];
    for (const char *at = value; *at != '\0';) {
        size_t length = strcspn(at, ":");
        snprintf(item, sizeof item, "%.*s", (int)(length < sizeof item ? length : sizeof item - 1), at);
        if (ends_with(item, ".icd"))
            check_icd_file(d, item);
        else if (item[0] != '\0')
            check_library(d, item, "OCL_ICD_FILENAMES");
        at += length + (at[length] == ':');
    }
}

static void check_drivers(doctor *d)
{
    const char *vendors = getenv("OCL_ICD_VENDORS"), *path = getenv("OPENCL_VENDOR_PATH"),
               *names = getenv("OCL_ICD_FILENAMES");
    Dl_info loader;
    if (dladdr((void *)(uintptr_t)clGetPlatformIDs, &loader) != 0 && loader.dli_fname != NULL)
        finding(d, OCL_FINDING_NOTE, NULL, "the OpenCL loader is %s", loader.dli_fname);
    if (names != NULL && names[0] != '\0') {
        finding(d, OCL_FINDING_NOTE, NULL, "OCL_ICD_FILENAMES=%s adds drivers", names);
        check_filenames_variable(d, names);
    }
    if (vendors != NULL && vendors[0] != '\0') {
        finding(d, OCL_FINDING_NOTE, NULL, "OCL_ICD_VENDORS=%s replaces %s", vendors, DEFAULT_VENDORS);
        check_vendors_variable(d, vendors);
    } else if (path != NULL && path[0] != '\0') {
        finding(d, OCL_FINDING_NOTE, NULL, "OPENCL_VENDOR_PATH=%s replaces %s", path, DEFAULT_VENDORS);
        check_icd_folder(d, path, "from OPENCL_VENDOR_PATH");
    } else {
        check_icd_folder(d, DEFAULT_VENDORS, "the default");
    }
}

/* Containers get NVIDIA's library mounted but often no ICD file. */
static void check_nvidia(doctor *d)
{
    bool node = access("/dev/nvidia0", F_OK) == 0 || access("/dev/nvidiactl", F_OK) == 0;
    if (d->nvidia_listed)
        return;
    if (dlopen(NVIDIA_LIBRARY, RTLD_LAZY | RTLD_LOCAL) != NULL)
        finding(d, OCL_FINDING_WARN,
                "create the file /etc/OpenCL/vendors/nvidia.icd with the one line '" NVIDIA_LIBRARY
                "': mkdir -p /etc/OpenCL/vendors && echo " NVIDIA_LIBRARY
                " > /etc/OpenCL/vendors/nvidia.icd; without root: export OCL_ICD_FILENAMES=" NVIDIA_LIBRARY,
                "NVIDIA's driver library %s is present, but no ICD file names it (usual in containers)",
                NVIDIA_LIBRARY);
    else if (node)
        finding(d, OCL_FINDING_WARN,
                "in a container start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility; on a host install "
                "the OpenCL package of the very "
                "same driver version (see /proc/driver/nvidia/version)",
                "an NVIDIA device node exists, but its OpenCL library %s is not installed", NVIDIA_LIBRARY);
}

/* Device nodes */

static bool check_node(doctor *d, const char *path)
{
    struct stat info;
    char advice[512];
    if (stat(path, &info) != 0 || !S_ISCHR(info.st_mode))
        return false;
    if (access(path, R_OK | W_OK) == 0) {
        finding(d, OCL_FINDING_OK, NULL, "device node %s may be used", path);
        return true;
    }
    int error = errno;
    struct group *group = getgrgid(info.st_gid);
    const char *name = group ? group->gr_name : "?";
    snprintf(advice, sizeof advice,
             "join the group: 'sudo usermod -aG %s $USER', then log in again; in a container pass "
             "'--group-add %u'",
             name, (unsigned)info.st_gid);
    finding(d, OCL_FINDING_ERROR, advice, "device node %s may not be used: %s (mode %03o, group '%s')", path,
            strerror(error), (unsigned)info.st_mode & 0777u, name);
    return true;
}

static int check_nodes_in(doctor *d, const char *folder, const char *prefix)
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

static void check_nodes(doctor *d)
{
    int seen = check_nodes_in(d, "/dev/dri", "render");
    seen += check_nodes_in(d, "/dev", "nvidia");
    seen += check_nodes_in(d, "/dev", "kfd");
    if (seen == 0)
        finding(d, OCL_FINDING_NOTE, NULL,
                "there is no GPU device node (/dev/dri/render*, /dev/nvidia*, /dev/kfd): only CPU drivers "
                "can work here");
}

/* Platforms and devices */

static void check_platform(doctor *d, cl_platform_id platform, int index)
{
    char name[OCL_NAME_SIZE] = "?";
    cl_uint n = 0;
    size_t size = 0;
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, NULL, &size) == CL_SUCCESS && size <= sizeof name)
        clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, NULL);
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &n);
    if (code == CL_SUCCESS && n > 0)
        finding(d, OCL_FINDING_OK, NULL, "platform %d '%s' has %u device(s)", index, name, n);
    else
        finding(d, OCL_FINDING_WARN,
                "check the device nodes and kernel modules of this vendor, and variables that hide devices "
                "(CUDA_VISIBLE_DEVICES, "
                "ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK, POCL_DEVICES, RUSTICL_ENABLE)",
                "platform %d '%s' has no device: %s (%d)", index, name, ocl_error_name(code), code);
}

static bool check_platforms(doctor *d)
{
    cl_platform_id platforms[64];
    cl_uint n = 0;
    cl_int code = clGetPlatformIDs(64, platforms, &n);
    if (code == CL_SUCCESS && n > 0) {
        for (cl_uint i = 0; i < n && i < 64; i++)
            check_platform(d, platforms[i], (int)i);
        return true;
    }
    const char *advice = d->drivers > 0 ? "a driver library loads but offers no platform: its device is "
                                          "missing, hidden or not permitted (see above)"
                                        : INSTALL_ADVICE;
    finding(d, OCL_FINDING_ERROR, advice,
            "the loader found no OpenCL platform: %s (%d), which means that no driver could be loaded",
            ocl_error_name(code), code);
    return false;
}

static bool try_device(doctor *d, const ocl_device_desc *desc)
{
    ocl_open_options options = {.spec = desc->spec, .caps_mask = OCL_CAPS_ALL};
    ocl_device *device = NULL;
    char caps[256];
    clt_status status = ocl_device_open(&options, &device);
    if (status == CLT_OK)
        status = ocl_probe_basic(device, NULL);
    if (status == CLT_OK)
        finding(d, OCL_FINDING_OK, NULL, "device %s '%s' (driver %s) runs kernels; capabilities: %s",
                desc->spec, desc->name, desc->driver, ocl_caps_text(device->desc.caps, caps, sizeof caps));
    else
        finding(d, OCL_FINDING_ERROR, "update or reinstall the driver of this device",
                "device %s '%s' does not work: %s", desc->spec, desc->name, clt_error_text());
    ocl_device_close(device);
    return status == CLT_OK;
}

clt_status ocl_doctor(ocl_finding_fn report, void *context, bool *healthy)
{
    doctor d = {.report = report, .context = context};
    ocl_device_desc *list = NULL;
    int count = 0;
    *healthy = false;
    check_drivers(&d);
    check_nvidia(&d);
    check_nodes(&d);
    if (!check_platforms(&d))
        return CLT_OK;
    if (ocl_list_devices(&list, &count) != CLT_OK) {
        finding(&d, OCL_FINDING_ERROR, INSTALL_ADVICE, "%s", clt_error_text());
        return CLT_OK;
    }
    for (int i = 0; i < count; i++)
        *healthy = try_device(&d, &list[i]) || *healthy;
    free(list);
    if (!*healthy)
        finding(&d, OCL_FINDING_ERROR, INSTALL_ADVICE, "no device works");
    return CLT_OK;
}
