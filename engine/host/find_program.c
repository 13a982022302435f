/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the cltrain program that child processes run, and other programs by their names. */
#include "engine/host/find_program.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/files/fileio.h"

static atomic_bool program_is_this;

void clt_program_is_this(void)
{
    atomic_store(&program_is_this, true);
}

static bool runnable(const char *path)
{
    return !clt_is_directory(path) && access(path, X_OK) == 0;
}

static bool copy_path(const char *path, char **out)
{
    *out = strdup(path);
    return *out != NULL;
}

/* Looks for the program beside the file that holds this function: the library, or a program that contains
 * the library. */
static bool beside_library(char **out)
{
    static const char *const places[] = {"cltrain", "../cltrain", CLT_PROGRAM_FROM_LIBRARY};
    Dl_info info;
    if (dladdr((void *)(uintptr_t)clt_program_find, &info) == 0 || info.dli_fname == NULL)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    int length = slash ? (int)(slash - info.dli_fname) : 0;
    for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%.*s/%s", length, info.dli_fname, places[i]);
        if (runnable(path))
            return copy_path(path, out);
    }
    return false;
}

clt_status clt_program_find(char **out)
{
    const char *named = getenv("CLTRAIN_PROGRAM");
    *out = NULL;
    if (named != NULL && named[0] != '\0') {
        if (!runnable(named))
            CLT_FAIL(CLT_EUNSUPPORTED, "CLTRAIN_PROGRAM=%s: there is no program that may be run", named);
        return copy_path(named, out) ? CLT_OK : CLT_ENOMEM;
    }
    if (atomic_load(&program_is_this) && copy_path("/proc/self/exe", out))
        return CLT_OK;
    if (beside_library(out) || (runnable(CLT_PROGRAM_PATH) && copy_path(CLT_PROGRAM_PATH, out)))
        return CLT_OK;
    CLT_FAIL(CLT_EUNSUPPORTED, "the program cltrain is neither beside this library nor at " CLT_PROGRAM_PATH
                               "; name it in the environment variable CLTRAIN_PROGRAM");
}

clt_status clt_program_named(const char *name, char **out)
{
    const char *folders = getenv("PATH");
    char path[4096];
    *out = NULL;
    if (strchr(name, '/')) {
        if (!runnable(name))
            CLT_FAIL(CLT_EUNSUPPORTED, "'%s' is not a program that may be run", name);
        return copy_path(name, out) ? CLT_OK : CLT_ENOMEM;
    }
    for (const char *at = folders ? folders : "/usr/local/bin:/usr/bin:/bin"; *at;) {
        size_t n = strcspn(at, ":");
        if (at[0] == '/' && (size_t)snprintf(path, sizeof path, "%.*s/%s", (int)n, at, name) < sizeof path &&
            runnable(path))
            return copy_path(path, out) ? CLT_OK : CLT_ENOMEM;
        at += n + (at[n] == ':');
    }
    CLT_FAIL(CLT_EUNSUPPORTED, "no folder of PATH has a program '%s'", name);
}
