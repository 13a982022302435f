/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes OpenCL's loader find drivers that no ICD entry names. Containers often have NVIDIA's library without
 * an entry, and a driver that was unpacked into a folder has none either; the loader then finds no platform.
 * So before the first OpenCL call of a process cltrain makes a private folder with the system's entries and
 * one for each further driver library that it finds. The loader gets this folder in the variable that it
 * reads. */
#ifndef CL_DRIVERS_ICD_H
#define CL_DRIVERS_ICD_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ocl_icd_state {
    OCL_ICD_COMPLETE,  /* the system's entries name all drivers that were found: nothing was changed */
    OCL_ICD_REPAIRED,  /* the loader reads our `folder` */
    OCL_ICD_USERS,     /* the user set `variable` to `chosen`: no drivers were searched for */
    OCL_ICD_INHERITED, /* the loader reads `folder`, made by the cltrain that started this process */
    OCL_ICD_OFF,       /* CLTRAIN_ICD_REPAIR=off */
    OCL_ICD_FAILED     /* drivers without an entry were found, but adding them failed; `why` says why */
} ocl_icd_state;

typedef struct ocl_icd_driver {
    const char *vendor; /* "NVIDIA" */
    const char *file;   /* name of the entry made for it */
    char *library;      /* path */
    char *entry;        /* the system's ICD file that names it by a wrong path or name, or NULL */
} ocl_icd_driver;

#define OCL_ICD_FILE_PREFIX "zz-cltrain-" /* sorts our entries after the system's */
#define OCL_ICD_MAX_DRIVERS 8

typedef struct ocl_icd_report {
    ocl_icd_state state;
    const char *variable; /* for USERS and INHERITED, and when the loader was given a folder */
    /* for REPAIRED and INHERITED; for USERS: copies of the entries that the user chose, or NULL */
    char *folder;
    char *chosen;       /* for USERS */
    const char *system; /* the folder of the system's entries */
    /* drivers that were found without a working entry of the system */
    ocl_icd_driver drivers[OCL_ICD_MAX_DRIVERS];
    int n_drivers;
    int n_rewritten;  /* entries whose file contained more than the library's name */
    char rusticl[64]; /* the value given to RUSTICL_ENABLE, "" if it was not changed */
    char why[512];
} ocl_icd_report;

/* Makes the entries. To be called before the first OpenCL call of a process; only the first call does
 * anything, and any thread may make it. Changes environment variables (OCL_ICD_VENDORS, RUSTICL_ENABLE),
 * loads no driver and never fails: the report, which belongs to the process, says what could not be done.
 * Environment variables of the user:
 *   OCL_ICD_VENDORS, OCL_ICD_FILENAMES, OPENCL_VENDOR_PATH
 *                            if set, the user chose the drivers: none is added; ICD files that some
 *                            loaders do not understand are copied in a form that all do
 *   RUSTICL_ENABLE           if set, it is not changed
 *   CLTRAIN_ICD_REPAIR=off   nothing is done
 *   CLTRAIN_ICD_SYSTEM       the folder of the system's entries instead of /etc/OpenCL/vendors, for tests */
const ocl_icd_report *ocl_icd_prepare(void);

/* The user's variable that keeps the loader from the system's drivers, or NULL. `entry` gets the path of an
 * ICD file of the system whose library is present, or NULL. To be called only when no driver was found. */
const char *ocl_icd_hiding(char *entry, size_t size);

/* Searches for a library of NVIDIA's driver by its name, in the usual folders outside the linker's search
 * path; NULL if it is in none. Free with free(). */
char *ocl_icd_locate_nvidia(const char *name);

/* Chooses the value of RUSTICL_ENABLE: the Mesa drivers that rusticl is to use, given the GPUs' kernel
 * drivers (the list ends with NULL) and the vendors whose own OpenCL driver is present; "": none. Pure. */
void ocl_icd_rusticl_drivers(const char *const *kernel_drivers, bool amd, bool intel, bool any_other,
                             char *out, int size);

#endif
