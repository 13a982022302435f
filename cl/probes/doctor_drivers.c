/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the doctor that imitates the OpenCL loader: it finds which variables the loader reads, the ICD
 * files that they lead to, whether the libraries named there load, and which entries cltrain made. This file
 * must not know platforms and devices. */
#include "cl/probes/doctor_internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cl/device/listing.h"
#include "cl/drivers/icd.h"
#include "cl/drivers/icd_entry.h"
#include "cl/drivers/icd_loader.h"
#include "cl/drivers/siblings.h"
#include "engine/base/text.h"

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Libraries and ICD files */

static void note_nvidia(ocl_doctor_state *d, const char *library)
{
    CLT_FREED char *path = ocl_icd_locate(library);
    const char *name = path != NULL ? path : library;
    if (d->nvidia == NULL && ocl_has_siblings(name))
        d->nvidia = strdup(name);
}

static void check_library(ocl_doctor_state *d, const char *library, const char *named_by)
{
    char advice[1024];
    note_nvidia(d, library);
    dlerror();
    /* not closed, because the loader would load it next anyway, and unloading a compiler is not safe */
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (handle != NULL) {
        d->drivers++;
        ocl_finding(d, OCL_FINDING_OK, NULL, "%s names the driver library %s, and it loads", named_by,
                    library);
        return;
    }
    const char *why = dlerror();
    snprintf(
        advice, sizeof advice,
        "install the package that contains %s (or what it needs: see 'ldd' on it), or remove or correct %s",
        library, named_by);
    ocl_finding(d, OCL_FINDING_ERROR, advice, "%s names the driver library %s, which does not load: %s",
                named_by, library, why ? why : "no reason given");
}

/* Whether the driver is one that must not be loaded, which the doctor has already reported. */
static bool is_left_out(const char *library)
{
    const ocl_dead_driver *dead;
    int count = ocl_listing_dead(&dead);
    for (int i = 0; i < count; i++)
        if (strcmp(dead[i].library, library) == 0)
            return true;
    return false;
}

static void check_entry(ocl_doctor_state *d, const ocl_icd_entry *entry)
{
    char advice[1200];
    if (entry->error != 0) {
        snprintf(advice, sizeof advice,
                 "make it a file that everybody may read, e.g. 'sudo chmod 644 %s', or remove it",
                 entry->path);
        ocl_finding(d, OCL_FINDING_ERROR, advice, "the ICD file %s cannot be read: %s", entry->path,
                    strerror(entry->error));
    } else if (entry->library[0] == '\0') {
        ocl_finding(d, OCL_FINDING_ERROR,
                    "its first line must name a driver library; reinstall the driver package that owns it",
                    "the ICD file %s is empty", entry->path);
    } else if (!is_left_out(entry->library)) {
        check_library(d, entry->library, entry->path);
    }
}

static void check_icd_file(ocl_doctor_state *d, const char *path)
{
    ocl_icd_entry entry;
    if (ocl_icd_entry_read(path, &entry) != CLT_OK)
        return;
    check_entry(d, &entry);
    ocl_icd_entry_free(&entry);
}

/* Whether cltrain made an entry that replaces this one. */
static bool is_replaced(const ocl_icd_report *r, const char *path)
{
    for (int i = 0; i < r->n_drivers; i++)
        if (r->state == OCL_ICD_REPAIRED && r->drivers[i].entry != NULL &&
            strcmp(r->drivers[i].entry, path) == 0)
            return true;
    return false;
}

const char *ocl_doctor_other_drivers(char buffer[OCL_ADVICE_SIZE])
{
    char entry[256];
    const char *variable = ocl_icd_hiding(entry, sizeof entry);
    if (variable == NULL)
        return OCL_INSTALL_ADVICE;
    snprintf(buffer, OCL_ADVICE_SIZE, "unset %s: %s names a driver that is installed", variable, entry);
    return buffer;
}

static void check_icd_folder(ocl_doctor_state *d, const char *folder, const char *named_by)
{
    char other[OCL_ADVICE_SIZE];
    const ocl_icd_report *r = ocl_icd_prepare();
    /* an empty folder is not an error if cltrain found drivers elsewhere */
    ocl_finding_level level = r->state == OCL_ICD_REPAIRED ? OCL_FINDING_NOTE : OCL_FINDING_ERROR;
    const char *advice = level == OCL_FINDING_ERROR ? ocl_doctor_other_drivers(other) : NULL;
    ocl_icd_entry *entries;
    size_t count;
    int error;
    if (ocl_icd_folder_read(folder, &entries, &count, &error) != CLT_OK)
        return;
    if (error != 0)
        ocl_finding(d, level, advice, "the folder of OpenCL drivers %s (%s) cannot be read: %s", folder,
                    named_by, strerror(error));
    else if (count == 0)
        ocl_finding(d, level, advice, "the folder of OpenCL drivers %s (%s) holds no .icd file%s", folder,
                    named_by, advice != NULL && advice != other ? ": no driver is installed" : "");
    for (size_t i = 0; i < count; i++)
        if (!is_replaced(r, entries[i].path))
            check_entry(d, &entries[i]);
    ocl_icd_entries_free(entries, count);
}

/* Environment variables set by the user */

/* OCL_ICD_VENDORS: a folder; with ocl-icd also an .icd file or a library. */
static void check_vendors_variable(ocl_doctor_state *d, const ocl_loader_reads *reads, const char *value)
{
    char advice[1200];
    if (is_folder(value)) {
        check_icd_folder(d, value, "from OCL_ICD_VENDORS");
    } else if (clt_ends_with(value, "/")) {
        ocl_finding(d, OCL_FINDING_ERROR, "correct or unset OCL_ICD_VENDORS",
                    "OCL_ICD_VENDORS names the folder %s, which does not exist", value);
    } else if (!reads->vendors_files) {
        snprintf(advice, sizeof advice,
                 "name a folder of .icd files there, or the library with OCL_ICD_FILENAMES=%s",
                 clt_ends_with(value, ".icd") ? "LIBRARY" : value);
        ocl_finding(d, OCL_FINDING_ERROR, advice,
                    "OCL_ICD_VENDORS=%s names no folder, and this OpenCL loader takes nothing else there: it "
                    "finds no driver",
                    value);
    } else if (clt_ends_with(value, ".icd")) {
        check_icd_file(d, value);
    } else {
        check_library(d, value, "OCL_ICD_VENDORS");
    }
}

/* OCL_ICD_FILENAMES: libraries, separated by colons. */
static void check_filenames_variable(ocl_doctor_state *d, const char *value)
{
    char item[1024];
    for (const char *at = value; *at != '\0';) {
        size_t length = strcspn(at, ":");
        snprintf(item, sizeof item, "%.*s", (int)(length < sizeof item ? length : sizeof item - 1), at);
        if (clt_ends_with(item, ".icd"))
            ocl_finding(d, OCL_FINDING_ERROR, "name the library there that the file names",
                        "OCL_ICD_FILENAMES names the ICD file %s, and the loader takes only libraries there",
                        item);
        else if (item[0] != '\0')
            check_library(d, item, "OCL_ICD_FILENAMES");
        at += length + (at[length] == ':');
    }
}

/* Reports a variable that has no effect with this loader. */
static void ignored_variable(ocl_doctor_state *d, const char *name, const char *value, const char *advice)
{
    ocl_finding(d, OCL_FINDING_WARN, advice, "%s=%s has no effect: this OpenCL loader does not read it", name,
                value);
}

static const char *value_of(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The value that the user gave. The process's current value may name cltrain's copies. */
static const char *user_value(const ocl_icd_report *r, const char *name)
{
    return r->folder != NULL && strcmp(r->variable, name) == 0 ? r->chosen : value_of(name);
}

static void tell_rewritten(ocl_doctor_state *d, const ocl_icd_report *r, const char *place)
{
    if (r->folder != NULL && r->n_rewritten > 0)
        ocl_finding(d, OCL_FINDING_NOTE, NULL,
                    "%d ICD file(s) of %s contain more than the library's name, and some loaders take the "
                    "rest for a part of the name; cltrain's copies in %s contain only the name",
                    r->n_rewritten, place, r->folder);
}

static void check_variables(ocl_doctor_state *d, const ocl_loader_reads *reads, const ocl_icd_report *r)
{
    const char *vendors = user_value(r, "OCL_ICD_VENDORS"), *names = value_of("OCL_ICD_FILENAMES"),
               *path = user_value(r, "OPENCL_VENDOR_PATH");
    if (names != NULL && !reads->filenames) {
        ignored_variable(d, "OCL_ICD_FILENAMES", names,
                         reads->vendors_files ? "name the library with OCL_ICD_VENDORS=LIBRARY instead"
                                              : "write the library's name into an .icd file");
    } else if (names != NULL) {
        ocl_finding(d, OCL_FINDING_NOTE, NULL, "OCL_ICD_FILENAMES=%s adds drivers", names);
        check_filenames_variable(d, names);
    }
    if (vendors != NULL && !reads->vendors)
        ignored_variable(d, "OCL_ICD_VENDORS", vendors, "put .icd files into the loader's own folder");
    if (path != NULL && !reads->vendor_path)
        ignored_variable(d, "OPENCL_VENDOR_PATH", path,
                         reads->vendors ? "name the folder with OCL_ICD_VENDORS instead"
                                        : "put .icd files into the loader's own folder");
    if (vendors != NULL && reads->vendors) {
        ocl_finding(d, OCL_FINDING_NOTE, NULL, "OCL_ICD_VENDORS=%s replaces %s", vendors, r->system);
        check_vendors_variable(d, reads, vendors);
    } else if (path != NULL && reads->vendor_path) {
        ocl_finding(d, OCL_FINDING_NOTE, NULL, "OPENCL_VENDOR_PATH=%s replaces %s", path, r->system);
        check_icd_folder(d, path, "from OPENCL_VENDOR_PATH");
    } else {
        check_icd_folder(d, r->system, "the default");
    }
    if (r->chosen != NULL)
        tell_rewritten(d, r, r->chosen);
}

/* What cltrain changed */

static void tell_driver(ocl_doctor_state *d, const ocl_icd_report *r, const ocl_icd_driver *driver)
{
    char advice[1200];
    bool made = r->state == OCL_ICD_REPAIRED;
    snprintf(advice, sizeof advice, "%smkdir -p %s && echo %s >%s/%s",
             made ? "nothing for cltrain; so that other programs find it, too: " : "as root: ", r->system,
             driver->library, r->system, driver->file + strlen(OCL_ICD_FILE_PREFIX));
    if (driver->entry != NULL)
        ocl_finding(
            d, made ? OCL_FINDING_NOTE : OCL_FINDING_ERROR, advice,
            "the ICD file %s names a library that is not where it says; the %s driver library is %s%s",
            driver->entry, driver->vendor, driver->library, made ? ", and cltrain made an entry for it" : "");
    else
        ocl_finding(d, made ? OCL_FINDING_NOTE : OCL_FINDING_ERROR, advice,
                    "the %s driver library %s is present, but no ICD file names it (usual in containers)%s",
                    driver->vendor, driver->library, made ? "; cltrain made an entry for it" : "");
    if (made)
        check_library(d, driver->library, "cltrain's own entry");
}

static void tell_repair(ocl_doctor_state *d, const ocl_icd_report *r)
{
    for (int i = 0; i < r->n_drivers; i++)
        tell_driver(d, r, &r->drivers[i]);
    if (r->state == OCL_ICD_FAILED)
        ocl_finding(d, OCL_FINDING_ERROR, r->n_drivers > 0 ? "make the entries by hand, as said above" : NULL,
                    "cltrain could not make its own ICD entries: %s", r->why);
    if (r->state == OCL_ICD_REPAIRED)
        tell_rewritten(d, r, r->system);
    if (r->state == OCL_ICD_REPAIRED)
        ocl_finding(
            d, OCL_FINDING_NOTE, NULL,
            "cltrain set %s=%s for this process; that folder has the entries of %s and the entries that "
            "cltrain made (CLTRAIN_ICD_REPAIR=off turns this off)",
            r->variable, r->folder, r->system);
    if (r->rusticl[0] != '\0')
        ocl_finding(
            d, OCL_FINDING_NOTE, NULL,
            "cltrain set RUSTICL_ENABLE=%s for this process: without it Mesa's rusticl offers no device",
            r->rusticl);
}

/* Reports the loader's file and the variables that it reads. */
static ocl_loader_reads tell_loader(ocl_doctor_state *d)
{
    char path[OCL_LOADER_PATH];
    ocl_loader_reads reads = ocl_loader_variables();
    if (ocl_loader_file(path, sizeof path))
        ocl_finding(
            d, OCL_FINDING_NOTE, NULL, "the OpenCL loader is %s; it takes drivers from %s%s%s%s", path,
            reads.vendors_files ? "OCL_ICD_VENDORS (a folder, an .icd file or a library), "
            : reads.vendors     ? "OCL_ICD_VENDORS (a folder), "
                                : "",
            reads.filenames ? "OCL_ICD_FILENAMES (libraries), " : "",
            reads.vendor_path ? "OPENCL_VENDOR_PATH (a folder), " : "",
            reads.vendors || reads.filenames || reads.vendor_path ? "or else " OCL_ICD_SYSTEM_FOLDER
                                                                  : OCL_ICD_SYSTEM_FOLDER " and no variable");
    return reads;
}

void ocl_doctor_drivers(ocl_doctor_state *d)
{
    const ocl_icd_report *r = ocl_icd_prepare();
    ocl_loader_reads reads = tell_loader(d);
    switch (r->state) {
    case OCL_ICD_USERS:
        check_variables(d, &reads, r);
        break;
    case OCL_ICD_INHERITED:
        check_icd_folder(d, r->folder, "made by the cltrain that started this process");
        break;
    case OCL_ICD_OFF:
        ocl_finding(d, OCL_FINDING_NOTE, NULL,
                    "CLTRAIN_ICD_REPAIR=off: drivers without an ICD file were not looked for");
        check_icd_folder(d, r->system, "the default");
        break;
    case OCL_ICD_COMPLETE:
    case OCL_ICD_REPAIRED:
    case OCL_ICD_FAILED:
        check_icd_folder(d, r->system, "the default");
        tell_repair(d, r);
        break;
    }
    ocl_doctor_nvidia(d);
}
