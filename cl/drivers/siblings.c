/* SPDX-License-Identifier: Apache-2.0
 *
 * Knows which libraries NVIDIA's OpenCL library opens by name, finds them and loads them. The names come
 * from the libraries of drivers 470 to 580. This file must not know OpenCL. */
#include "cl/drivers/siblings.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/drivers/icd.h"
#include "cl/drivers/icd_entry.h"
#include "engine/base/log.h"

static const struct {
    const char *name; /* if it ends with a dot, the driver's version follows */
    const char *use;
} known[] = {
    {"libcuda.so.1", "the driver offers no platform"},
    {"libnvidia-ptxjitcompiler.so.1", "no kernel can be built, and the build log is empty"},
    {"libnvidia-nvvm.so.4", "no kernel can be built, and the build log is empty"},
    {"libnvidia-nvvm70.so.4", NULL},  /* newer drivers have it, for devices before Blackwell */
    {"libnvidia-gpucomp.so.", NULL},  /* newer drivers have it */
    {"libnvidia-compiler.so.", NULL}, /* older drivers have it in the place of libnvidia-nvvm */
};
_Static_assert(sizeof known / sizeof known[0] == OCL_MAX_SIBLINGS, "a place for each");

/* Names */

bool ocl_has_siblings(const char *library)
{
    char real[PATH_MAX];
    return strstr(library, "libnvidia-opencl.so") != NULL ||
           (realpath(library, real) != NULL && strstr(real, "libnvidia-opencl.so") != NULL);
}

void ocl_driver_version(const char *text, char out[OCL_DRIVER_VERSION])
{
    out[0] = '\0';
    for (const char *at = text; *at != '\0'; at++) {
        size_t length = strspn(at, "0123456789.");
        int points = 0;
        bool starts_word = at == text || !isalnum((unsigned char)at[-1]);
        while (length > 0 && at[length - 1] == '.')
            length--;
        for (size_t i = 0; i < length; i++)
            points += at[i] == '.';
        if (starts_word && isdigit((unsigned char)*at) && points >= 1 && points <= 2 &&
            length < OCL_DRIVER_VERSION) {
            memcpy(out, at, length);
            out[length] = '\0';
            return;
        }
    }
}

/* The version in the name of the file to which a path leads, such as libcuda.so.580.65.06. */
static void file_version(const char *path, char out[OCL_DRIVER_VERSION])
{
    char real[PATH_MAX];
    const char *ending = realpath(path, real) != NULL ? strstr(real, ".so.") : NULL;
    out[0] = '\0';
    if (ending != NULL)
        ocl_driver_version(ending + strlen(".so."), out);
}

static bool same_file(const char *a, const char *b)
{
    char real_a[PATH_MAX], real_b[PATH_MAX];
    return realpath(a, real_a) != NULL && realpath(b, real_b) != NULL && strcmp(real_a, real_b) == 0;
}

/* Finding */

static char *beside(const char *library, const char *name)
{
    const char *slash = strrchr(library, '/');
    char folder[PATH_MAX];
    if (slash == NULL || slash - library >= PATH_MAX)
        return NULL;
    memcpy(folder, library, (size_t)(slash - library));
    folder[slash - library] = '\0';
    return ocl_icd_locate_in(folder, name);
}

static char *beside_target(const char *library, const char *name)
{
    char real[PATH_MAX];
    return realpath(library, real) != NULL ? beside(real, name) : NULL;
}

/* Chooses the first place whose file has the driver's version or, if no file has it, the first place with a
 * file. */
static void find_one(const char *library, const char *version, ocl_sibling *out)
{
    char *linked = ocl_icd_locate(out->name);
    char *places[] = {beside(library, out->name), beside_target(library, out->name),
                      linked != NULL ? strdup(linked) : NULL, ocl_icd_locate_nvidia(out->name)};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char found[OCL_DRIVER_VERSION] = "";
        if (places[i] == NULL)
            continue;
        file_version(places[i], found);
        bool fits = strcmp(found, version) == 0 || found[0] == '\0' || version[0] == '\0';
        bool fitted = out->path != NULL && (strcmp(out->version, version) == 0 || out->version[0] == '\0');
        if (out->path == NULL || (fits && !fitted)) {
            free(out->path);
            out->path = places[i];
            snprintf(out->version, sizeof out->version, "%s", found);
        } else {
            free(places[i]);
        }
    }
    out->linked = out->path != NULL && linked != NULL && same_file(out->path, linked);
    free(linked);
}

void ocl_siblings_find(const char *library, ocl_siblings *out)
{
    *out = (ocl_siblings){0};
    file_version(library, out->version);
    for (int i = 0; i < OCL_MAX_SIBLINGS; i++) {
        ocl_sibling *s = &out->list[out->count];
        bool numbered = known[i].name[strlen(known[i].name) - 1] == '.';
        if (numbered && out->version[0] == '\0')
            continue;
        snprintf(s->name, sizeof s->name, "%s%s", known[i].name, numbered ? out->version : "");
        s->use = known[i].use;
        find_one(library, out->version, s);
        out->count++;
    }
}

void ocl_siblings_free(ocl_siblings *siblings)
{
    for (int i = 0; i < siblings->count; i++)
        free(siblings->list[i].path);
    *siblings = (ocl_siblings){0};
}

void ocl_siblings_load(const ocl_siblings *siblings)
{
    for (int i = 0; i < siblings->count; i++) {
        const ocl_sibling *s = &siblings->list[i];
        bool foreign = s->version[0] != '\0' && siblings->version[0] != '\0' &&
                       strcmp(s->version, siblings->version) != 0;
        if (s->path == NULL || s->linked || foreign)
            continue;
        void *there = dlopen(s->name, RTLD_LAZY | RTLD_NOLOAD);
        if (there != NULL) {
            dlclose(there);
            continue;
        }
        /* never closed, so that the driver finds it when it opens it by its name */
        if (dlopen(s->path, RTLD_LAZY | RTLD_LOCAL) == NULL)
            CLT_DEBUG("%s, which NVIDIA's OpenCL library needs, does not load: %s", s->path, dlerror());
        else
            CLT_DEBUG("loaded %s, because the dynamic linker does not find it by its name", s->path);
    }
}
