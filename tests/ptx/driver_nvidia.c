/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA's own OpenCL compiler and assembler instead of clang: the libraries of its driver, which need no
 * device (libnvidia-nvvm.so.4: OpenCL C to PTX; libnvidia-ptxjitcompiler.so.1: PTX to machine code, which is
 * thrown away here). They are called in this process, as the driver calls them. The compiler's functions are
 * not documented; their names are the exported symbols. The assembler's functions are documented as "PTX
 * Compiler APIs". This file does not know what is compiled. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/driver.h"

typedef struct functions {
    int (*compile)(const char **sources, unsigned count, const size_t *lengths, const char *options,
                   char **log, char **ptx);
    int (*free_ptx)(char *ptx);
    int (*free_log)(char *log);
    int (*create)(void **assembler, size_t length, const char *ptx);
    int (*assemble)(void *assembler, int count, const char *const *options);
    int (*error_size)(void *assembler, size_t *size);
    int (*error_log)(void *assembler, char *log);
    int (*info_size)(void *assembler, size_t *size);
    int (*info_log)(void *assembler, char *log);
    int (*destroy)(void **assembler);
} functions;

static functions nvidia;
/* Serialises calls of the compiler, because two concurrent calls have crashed the process. */
static pthread_mutex_t compiling = PTHREAD_MUTEX_INITIALIZER;
static char missing[800]; /* why the libraries are missing; "" if they are there */

typedef struct wanted_function {
    const char *name;
    void **place;
} wanted_function;

static void load(const char *library, const wanted_function *list, size_t count)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", getenv("CLTRAIN_PTX_NVIDIA"), library);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        snprintf(missing, sizeof missing, "%s", dlerror());
    for (size_t i = 0; handle && i < count; i++)
        if (!(*list[i].place = dlsym(handle, list[i].name)))
            snprintf(missing, sizeof missing, "%s has no function %s", path, list[i].name);
}

static void load_all(void)
{
    const wanted_function compiler[] = {{"NvCliCompileProgram", (void **)&nvidia.compile},
                                        {"NvCliCompiledProgramFree", (void **)&nvidia.free_ptx},
                                        {"NvCliCompileLogFree", (void **)&nvidia.free_log}};
    const wanted_function assembler[] = {{"nvPTXCompilerCreate", (void **)&nvidia.create},
                                         {"nvPTXCompilerCompile", (void **)&nvidia.assemble},
                                         {"nvPTXCompilerGetErrorLogSize", (void **)&nvidia.error_size},
                                         {"nvPTXCompilerGetErrorLog", (void **)&nvidia.error_log},
                                         {"nvPTXCompilerGetInfoLogSize", (void **)&nvidia.info_size},
                                         {"nvPTXCompilerGetInfoLog", (void **)&nvidia.info_log},
                                         {"nvPTXCompilerDestroy", (void **)&nvidia.destroy}};
    load("libnvidia-nvvm.so.4", compiler, sizeof compiler / sizeof compiler[0]);
    if (!missing[0])
        load("libnvidia-ptxjitcompiler.so.1", assembler, sizeof assembler / sizeof assembler[0]);
}

bool ptx_nvidia(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (ptx_setting("CLTRAIN_PTX_NVIDIA", "")[0] == '\0')
        return false;
    pthread_once(&once, load_all);
    return true;
}

/* Makes the options for the compiler: those of the program without the assembler's, and those that the
 * driver adds. */
static char *options_for_compiler(const char *options)
{
    static const char verbose[] = "-cl-nv-verbose";
    char *text = malloc(strlen(options) + 100), *at;
    if (!text)
        return NULL;
    int used = snprintf(text, 100, "-cl-nv-cstd=CL1.2 -nv-m64 ");
    if (strstr(options, "-cl-nv-arch") == NULL)
        used += snprintf(text + used, 40, "-cl-nv-arch sm_%u ", ptx_generation());
    strcpy(text + used, options);
    while ((at = strstr(text, verbose)) != NULL)
        memset(at, ' ', sizeof verbose - 1);
    return text;
}

bool ptx_nvidia_compile(const char *source, const char *options, char **ptx, char **log)
{
    size_t length = strlen(source);
    char *text = options_for_compiler(options), *made = NULL, *said = NULL;
    *ptx = *log = NULL;
    if (missing[0] || !text) {
        *log = strdup(missing);
        free(text);
        return false;
    }
    pthread_mutex_lock(&compiling);
    int code = nvidia.compile(&source, 1, &length, text, &said, &made);
    pthread_mutex_unlock(&compiling);
    *log = strdup(said ? said : "");
    *ptx = code == 0 && made ? strdup(made) : NULL;
    if (said)
        nvidia.free_log(said);
    if (made)
        nvidia.free_ptx(made);
    free(text);
    return *ptx != NULL;
}

/* Old assemblers refuse arrays of more than 48 KiB in local memory. Turns such arrays into arrays whose size
 * is given at the launch. These are declared before the kernels; the code does not change. */
static char *without_large_arrays(const char *ptx)
{
    size_t room = 2 * strlen(ptx) + 1, used = 0, moved = 0;
    const char *head = strstr(ptx, ".address_size");
    char *text = malloc(2 * room), *outside = text ? text + room : NULL;
    head = head ? strchr(head, '\n') : NULL;
    if (!text || !head)
        return text ? strcpy(text, ptx) : NULL;
    for (const char *at = head + 1; *at;) {
        size_t length = strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n');
        char line[400] = "", align[20] = "", name[200] = "";
        unsigned long bytes = 0;
        memcpy(line, at, length < sizeof line - 1 ? length : sizeof line - 1);
        if (sscanf(line, " .shared .align %19s .b8 %199[^[][%lu]", align, name, &bytes) == 3 &&
            bytes > 48 << 10)
            moved += (size_t)sprintf(outside + moved, ".extern .shared .align %s .b8 %s[];\n", align, name);
        else
            memcpy(text + used, at, length), used += length;
        at += length;
    }
    /* the head, the declarations, the rest */
    memmove(text + (head + 1 - ptx) + moved, text, used);
    memcpy(text + (head + 1 - ptx), outside, moved);
    memcpy(text, ptx, (size_t)(head + 1 - ptx));
    text[(size_t)(head + 1 - ptx) + moved + used] = '\0';
    return text;
}

static char *said_by(void *assembler, int (*size_of)(void *, size_t *), int (*log_of)(void *, char *))
{
    size_t size = 0;
    char *log = size_of(assembler, &size) == 0 && size > 0 ? calloc(1, size + 1) : NULL;
    if (log)
        log_of(assembler, log);
    return log;
}

bool ptx_nvidia_assemble(const char *ptx, bool verbose, char **log)
{
    char target[40];
    const char *options[] = {target, "--verbose"};
    void *assembler = NULL;
    char *text = without_large_arrays(ptx);
    bool accelerated = strstr(ptx, ".target sm_90a") != NULL;
    snprintf(target, sizeof target, "--gpu-name=sm_%u%s", ptx_generation(), accelerated ? "a" : "");
    *log = NULL;
    bool ok = !missing[0] && text && nvidia.create(&assembler, strlen(text), text) == 0 &&
              nvidia.assemble(assembler, verbose ? 2 : 1, options) == 0;
    if (assembler) {
        *log = ok ? said_by(assembler, nvidia.info_size, nvidia.info_log)
                  : said_by(assembler, nvidia.error_size, nvidia.error_log);
        nvidia.destroy(&assembler);
    }
    free(text);
    return ok;
}
