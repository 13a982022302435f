/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds driver libraries that no ICD entry names, and makes entries for them in a private folder. This file
 * must load no library, because a broken driver ends the process in its constructor. It must not call
 * OpenCL, because the loader reads its variables in the first call. */
#include "cl/drivers/icd.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cl/drivers/icd_entry.h"
#include "cl/drivers/icd_folder.h"
#include "cl/drivers/icd_loader.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/files/fileio.h"

/* Which drivers there are */

#define MAX_NAMES 4
#define MAX_FOLDERS 10

/* Entries are assigned to a vendor by the stem of their library's file name. So cltrain adds no second
 * version of a driver that the system already names: two in one process would list a device twice, or
 * conflict. */
typedef struct vendor {
    const char *name;
    /* file name of our entry for it; sorted after the system's, so that device indices do not change */
    const char *file;
    const char *stem;
    const char *libraries[MAX_NAMES]; /* names to search for, in this order */
    const char *folders[MAX_FOLDERS]; /* patterns of usual places outside the linker's search path */
} vendor;

static const vendor vendors[] = {
    {"NVIDIA",
     OCL_ICD_FILE_PREFIX "nvidia.icd",
     "libnvidia-opencl.so",
     {"libnvidia-opencl.so.1"},
     {"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib",
      "/usr/lib/*-linux-gnu/nvidia/current", "/usr/lib64/nvidia", "/usr/lib/wsl/lib", "/usr/lib/nvidia*",
      "/run/opengl-driver/lib"}},
    {"AMD",
     OCL_ICD_FILE_PREFIX "amd.icd",
     "libamdocl64.so",
     {"libamdocl64.so", "libamdocl64.so.2"},
     {"/opt/rocm/lib", "/opt/rocm/opencl/lib", "/opt/rocm-*/lib", "/opt/rocm-*/opencl/lib",
      "/opt/amdgpu-pro/lib/*-linux-gnu", "/opt/amdgpu-pro/lib64", "/opt/amdgpu/lib/*-linux-gnu",
      "/usr/lib/*-linux-gnu", "/usr/lib64"}},
    {"Intel GPU",
     OCL_ICD_FILE_PREFIX "intel-gpu.icd",
     "libigdrcl.so",
     {"libigdrcl.so"},
     {"/usr/lib/*-linux-gnu/intel-opencl", "/usr/lib64/intel-opencl", "/usr/lib/intel-opencl",
      "/usr/local/lib/intel-opencl", "/usr/local/lib64/intel-opencl", "/opt/intel/opencl*",
      "/opt/intel/opencl*/lib64"}},
    {"Intel CPU",
     OCL_ICD_FILE_PREFIX "intel-cpu.icd",
     "libintelocl.so",
     {"libintelocl.so"},
     {"/opt/intel/oneapi/compiler/latest/lib", "/opt/intel/oneapi/compiler/latest/linux/lib/x64",
      "/opt/intel/oneapi/compiler/*/lib", "/opt/intel/oneapi/compiler/*/linux/lib/x64",
      "/opt/intel/oclcpuexp*/x64", "/opt/intel/opencl*/lib64",
      "/opt/intel/opencl*/exp-runtimes*/linux/lib*"}},
    {"PoCL",
     OCL_ICD_FILE_PREFIX "pocl.icd",
     "libpocl.so",
     {"libpocl.so.2", "libpocl.so"},
     {"/usr/local/lib", "/usr/local/lib64", "/usr/lib/*-linux-gnu", "/usr/lib64", "/opt/pocl*/lib",
      "/opt/pocl*/lib64"}},
    {"Mesa Clover",
     OCL_ICD_FILE_PREFIX "clover.icd",
     "libMesaOpenCL.so",
     {"libMesaOpenCL.so.1"},
     {"/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/local/lib"}},
    {"Mesa rusticl",
     OCL_ICD_FILE_PREFIX "rusticl.icd",
     "libRusticlOpenCL.so",
     {"libRusticlOpenCL.so.1"},
     {"/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/local/lib"}},
};
enum { NVIDIA, AMD, INTEL_GPU, INTEL_CPU, POCL, CLOVER, RUSTICL, N_VENDORS };
_Static_assert(sizeof vendors / sizeof vendors[0] == N_VENDORS, "one name for each vendor");
_Static_assert(N_VENDORS <= OCL_ICD_MAX_DRIVERS, "the report has room for all");

/* State of the preparation, which happens once. */
typedef struct preparation {
    ocl_icd_report *report;
    ocl_icd_entry *entries; /* the system's entries */
    size_t n_entries;
    bool *dropped;           /* for each entry: one of our entries replaces it */
    bool present[N_VENDORS]; /* for each vendor: its library was found, with or without an ICD entry */
} preparation;

static const char *file_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Whether an entry belongs to a vendor: by the library's name or, if that is a link, by the name of its
 * target. */
static bool is_of(const vendor *v, const char *name, const char *path)
{
    char real[PATH_MAX];
    return starts_with(file_part(name), v->stem) ||
           (path != NULL && realpath(path, real) != NULL && starts_with(file_part(real), v->stem));
}

static char *locate_in_folders(const vendor *v, const char *name)
{
    char *path = NULL;
    for (int i = 0; i < MAX_FOLDERS && v->folders[i] != NULL && path == NULL; i++)
        path = ocl_icd_locate_in(v->folders[i], name);
    return path;
}

char *ocl_icd_locate_nvidia(const char *name)
{
    return locate_in_folders(&vendors[NVIDIA], name);
}

static char *locate_vendor(const vendor *v)
{
    static const char *const prefixes[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    char *path = NULL;
    for (int i = 0; i < MAX_NAMES && v->libraries[i] != NULL && path == NULL; i++) {
        const char *name = v->libraries[i];
        path = ocl_icd_locate(name);
        for (size_t j = 0; j < sizeof prefixes / sizeof prefixes[0] && path == NULL; j++) {
            char folder[PATH_MAX];
            const char *prefix = getenv(prefixes[j]);
            if (prefix == NULL || prefix[0] != '/' ||
                snprintf(folder, sizeof folder, "%s/lib", prefix) >= (int)sizeof folder)
                continue;
            path = ocl_icd_locate_in(folder, name);
        }
        if (path == NULL)
            path = locate_in_folders(v, name);
    }
    return path;
}

/* Searches the system's entries for one vendor's library. If none leads to it, searches the linker's path
 * and the usual folders, and adds a library found there to the report, with the entry (if any) that names it
 * wrongly. */
static void find_vendor(preparation *p, int index)
{
    const vendor *v = &vendors[index];
    ocl_icd_report *r = p->report;
    size_t dangling = p->n_entries;
    for (size_t i = 0; i < p->n_entries && !p->present[index]; i++) {
        CLT_FREED char *path = ocl_icd_locate(p->entries[i].library);
        bool named = is_of(v, p->entries[i].library, path);
        if (named && path == NULL && dangling == p->n_entries)
            dangling = i;
        p->present[index] = named && path != NULL;
    }
    if (p->present[index])
        return;
    char *library = locate_vendor(v);
    p->present[index] = library != NULL;
    if (library == NULL)
        return;
    ocl_icd_driver *driver = &r->drivers[r->n_drivers++];
    driver->vendor = v->name;
    driver->file = v->file;
    driver->library = library;
    if (dangling < p->n_entries) {
        driver->entry = strdup(p->entries[dangling].path);
        p->dropped[dangling] = true;
    }
}

/* RUSTICL_ENABLE of Mesa */

void ocl_icd_rusticl_drivers(const char *const *kernel_drivers, bool amd, bool intel, bool any_other,
                             char *out, int size)
{
    static const struct {
        const char *kernel, *mesa;
    } pairs[] = {{"amdgpu", "radeonsi"},  {"radeon", "radeonsi"}, {"i915", "iris"},
                 {"xe", "iris"},          {"nouveau", "nouveau"}, {"panfrost", "panfrost"},
                 {"panthor", "panfrost"}, {"msm", "freedreno"},   {"asahi", "asahi"}};
    int length = 0;
    out[0] = '\0';
    for (; *kernel_drivers != NULL; kernel_drivers++) {
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            const char *mesa = pairs[i].mesa;
            if (strcmp(*kernel_drivers, pairs[i].kernel) != 0 || strstr(out, mesa) != NULL ||
                (amd && strcmp(mesa, "radeonsi") == 0) || (intel && strcmp(mesa, "iris") == 0))
                continue;
            int n = snprintf(out + length, (size_t)(size - length), "%s%s", length > 0 ? "," : "", mesa);
            if (n < 0 || n >= size - length) {
                out[length] = '\0';
                return;
            }
            length += n;
        }
    }
    if (length == 0 && !any_other)
        snprintf(out, (size_t)size, "llvmpipe");
}

#define MAX_GPUS 16

/* Names of the GPUs' kernel drivers; returns their number. */
static int kernel_drivers(char names[MAX_GPUS][64])
{
    int count = 0;
    DIR *handle = opendir("/sys/class/drm");
    if (handle == NULL)
        return 0;
    for (const struct dirent *item; count < MAX_GPUS && (item = readdir(handle)) != NULL;) {
        char path[512], target[PATH_MAX];
        if (!starts_with(item->d_name, "renderD"))
            continue;
        snprintf(path, sizeof path, "/sys/class/drm/%s/device/driver", item->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        if (snprintf(names[count], sizeof names[count], "%s", file_part(target)) < (int)sizeof names[count])
            count++;
    }
    closedir(handle);
    return count;
}

/* Whether the system has a driver other than Mesa's. */
static bool has_other_driver(const preparation *p)
{
    for (size_t i = 0; i < p->n_entries; i++) {
        CLT_FREED char *path = ocl_icd_locate(p->entries[i].library);
        bool mesa = is_of(&vendors[CLOVER], p->entries[i].library, path) ||
                    is_of(&vendors[RUSTICL], p->entries[i].library, path);
        if (path != NULL && !mesa)
            return true;
    }
    for (int v = 0; v < N_VENDORS; v++)
        if (v != CLOVER && v != RUSTICL && p->present[v])
            return true;
    return false;
}

/* Sets RUSTICL_ENABLE, because rusticl lists only devices of Mesa drivers that it names. Enables the drivers
 * of GPUs whose vendor's own OpenCL driver is missing and, if there is no other driver at all, Mesa's driver
 * for CPUs. */
static void enable_rusticl(const preparation *p)
{
    char names[MAX_GPUS][64];
    const char *list[MAX_GPUS + 1] = {NULL};
    ocl_icd_report *r = p->report;
    if (!p->present[RUSTICL] || getenv("RUSTICL_ENABLE") != NULL)
        return;
    int count = kernel_drivers(names);
    for (int i = 0; i < count; i++)
        list[i] = names[i];
    ocl_icd_rusticl_drivers(list, p->present[AMD], p->present[INTEL_GPU], has_other_driver(p), r->rusticl,
                            (int)sizeof r->rusticl);
    if (r->rusticl[0] != '\0')
        setenv("RUSTICL_ENABLE", r->rusticl, 1);
}

/* The preparation */

static void not_possible(ocl_icd_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void not_possible(ocl_icd_report *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->why, sizeof r->why, format, args);
    va_end(args);
    r->state = OCL_ICD_FAILED;
}

/* The environment variable in which this loader accepts a folder, or NULL. */
static const char *folder_variable(void)
{
    ocl_loader_reads reads = ocl_loader_variables();
    return reads.vendors ? "OCL_ICD_VENDORS" : reads.vendor_path ? "OPENCL_VENDOR_PATH" : NULL;
}

/* Makes the new folder: the system's entries, each reduced to the library's name, and our entries. */
static clt_status make_folder(const preparation *p)
{
    CLT_FREED ocl_icd_file *files = NULL;
    size_t count = 0;
    ocl_icd_report *r = p->report;
    CLT_TRY(clt_alloc(&files, p->n_entries + N_VENDORS, sizeof *files, "ICD entries"));
    for (size_t i = 0; i < p->n_entries; i++)
        if (!p->dropped[i] && p->entries[i].library[0] != '\0')
            files[count++] = (ocl_icd_file){file_part(p->entries[i].path), p->entries[i].library};
    for (int i = 0; i < r->n_drivers; i++)
        files[count++] = (ocl_icd_file){r->drivers[i].file, r->drivers[i].library};
    return ocl_icd_folder_make(files, count, &r->folder);
}

/* Sets the loader's variable, and a second variable that tells child processes that cltrain set the
 * first. */
static void name_folder(ocl_icd_report *r, const char *folder)
{
    setenv(r->variable, folder, 1);
    setenv("CLTRAIN_ICD_MADE", folder, 1);
}

static void count_rewritten(const preparation *p)
{
    for (size_t i = 0; i < p->n_entries; i++)
        p->report->n_rewritten += p->entries[i].library[0] != '\0' && !p->entries[i].plain;
}

static void repair(preparation *p)
{
    ocl_icd_report *r = p->report;
    count_rewritten(p);
    bool incomplete = r->n_drivers > 0 || r->n_rewritten > 0;
    bool moved =
        /* the loader does not read CLTRAIN_ICD_SYSTEM, so it must be given this folder */
        strcmp(r->system, OCL_ICD_SYSTEM_FOLDER) != 0;
    if (!incomplete && !moved)
        return;
    r->variable = folder_variable();
    if (r->variable == NULL) {
        not_possible(r, "this OpenCL loader reads no variable that names a folder of ICD files");
    } else if (!incomplete) {
        name_folder(r, r->system);
    } else if (make_folder(p) != CLT_OK) {
        not_possible(r, "%s", clt_error_text());
        clt_error_clear();
    } else {
        r->state = OCL_ICD_REPAIRED;
        name_folder(r, r->folder);
    }
}

/* Whether nothing is to be done, because the parent cltrain or the user has chosen the drivers, or the
 * repair is switched off. */
static bool is_chosen(ocl_icd_report *r)
{
    static const char *const variables[] = {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH"};
    const char *made = getenv("CLTRAIN_ICD_MADE"), *wanted = getenv("CLTRAIN_ICD_REPAIR");
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        if (value == NULL)
            continue;
        if (value[0] == '\0') { /* an empty value hides all drivers from Khronos' loader */
            unsetenv(variables[i]);
            continue;
        }
        r->variable = variables[i];
        r->state = made != NULL && strcmp(made, value) == 0 ? OCL_ICD_INHERITED : OCL_ICD_USERS;
        *(r->state == OCL_ICD_INHERITED ? &r->folder : &r->chosen) = strdup(value);
        return true;
    }
    if (wanted == NULL || (strcmp(wanted, "off") != 0 && strcmp(wanted, "0") != 0))
        return false;
    r->state = OCL_ICD_OFF;
    return true;
}

/* Whether this process's loader reads the variable that the user set, and the variable names a folder or a
 * file of entries (OCL_ICD_FILENAMES names libraries). */
static bool leads_to_entries(const char *variable)
{
    ocl_loader_reads reads = ocl_loader_variables();
    return strcmp(variable, "OCL_ICD_VENDORS") == 0      ? reads.vendors
           : strcmp(variable, "OPENCL_VENDOR_PATH") == 0 ? reads.vendor_path
                                                         : false;
}

/* Reads the entries that the user chose: a folder of them, or one file. */
static clt_status read_chosen(preparation *p)
{
    const char *chosen = p->report->chosen, *end = strrchr(chosen, '.');
    int error;
    if (clt_is_directory(chosen))
        return ocl_icd_folder_read(chosen, &p->entries, &p->n_entries, &error);
    if (end == NULL || strcmp(end, ".icd") != 0)
        return CLT_OK;
    CLT_TRY(clt_alloc(&p->entries, 1, sizeof *p->entries, "ICD entries"));
    CLT_TRY(ocl_icd_entry_read(chosen, p->entries));
    p->n_entries = 1;
    return CLT_OK;
}

/* Gives the loader copies of entries that it cannot read, such as files with Windows line ends. */
static clt_status rewrite(preparation *p)
{
    ocl_icd_report *r = p->report;
    CLT_TRY(read_chosen(p));
    CLT_TRY(clt_alloc(&p->dropped, p->n_entries, sizeof *p->dropped, "ICD entries"));
    count_rewritten(p);
    if (r->n_rewritten > 0) {
        CLT_TRY(make_folder(p));
        name_folder(r, r->folder);
    }
    return CLT_OK;
}

static void rewrite_chosen(preparation *p)
{
    ocl_icd_report *r = p->report;
    if (r->chosen != NULL && leads_to_entries(r->variable) && rewrite(p) != CLT_OK)
        CLT_DEBUG("the ICD files of %s stay as they are: %s", r->chosen, clt_error_text());
    clt_error_clear();
}

static ocl_icd_report the_report = {.state = OCL_ICD_COMPLETE, .system = OCL_ICD_SYSTEM_FOLDER};

static void prepare_once(void)
{
    preparation p = {.report = &the_report};
    const char *system = getenv("CLTRAIN_ICD_SYSTEM");
    int error;
    if (system != NULL && system[0] != '\0')
        the_report.system = system;
    if (is_chosen(&the_report)) {
        if (the_report.state == OCL_ICD_USERS)
            rewrite_chosen(&p);
    } else if (ocl_icd_folder_read(the_report.system, &p.entries, &p.n_entries, &error) != CLT_OK ||
               clt_alloc(&p.dropped, p.n_entries, sizeof *p.dropped, "ICD entries") != CLT_OK) {
        not_possible(&the_report, "%s", clt_error_text());
        clt_error_clear();
    } else {
        for (int v = 0; v < N_VENDORS; v++)
            find_vendor(&p, v);
        repair(&p);
        enable_rusticl(&p);
    }
    for (int i = 0; i < the_report.n_drivers; i++)
        CLT_DEBUG("the %s OpenCL driver %s has no ICD entry%s", the_report.drivers[i].vendor,
                  the_report.drivers[i].library,
                  the_report.state == OCL_ICD_REPAIRED ? "; one was made for this process" : "");
    ocl_icd_entries_free(p.entries, p.n_entries);
    free(p.dropped);
}

const char *ocl_icd_hiding(char *entry, size_t size)
{
    ocl_icd_entry *entries = NULL;
    size_t count = 0;
    int error;
    bool there = false;
    if (the_report.state != OCL_ICD_USERS || !leads_to_entries(the_report.variable))
        return NULL;
    if (ocl_icd_folder_read(the_report.system, &entries, &count, &error) != CLT_OK)
        clt_error_clear();
    for (size_t i = 0; i < count && !there; i++) {
        CLT_FREED char *path = ocl_icd_locate(entries[i].library);
        there = path != NULL;
        if (there)
            snprintf(entry, size, "%s", entries[i].path);
    }
    ocl_icd_entries_free(entries, count);
    return there ? the_report.variable : NULL;
}

const ocl_icd_report *ocl_icd_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare_once);
    return &the_report;
}
