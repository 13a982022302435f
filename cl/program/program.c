/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs: one build per (family, options) and device, from our cache of binaries or from the source. The
 * compiler's log is always kept. A failed build writes its full source and log to files, and the message
 * names the source file. This file must not know what a kernel computes. */
#include "cl/device/internal.h"
#include "cl/kernels/program_source.h"
#include "cl/program/program_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cl/program/build_turn.h"
#include "cl/program/builders.h"
#include "cl/program/retarget.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/files/cache_folder.h"
#include "engine/files/fileio.h"
#include "engine/host/last_words.h"

#define STANDARD_OPTIONS "-cl-std=CL1.2"

/* Saving the source of a failed build */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3); /* FNV-1a */
    return hash;
}

/* Writes base.cl and base.log into the user's private folder; false when it cannot. */
static bool save_in(const char *folder, const char *base, const char *source, const char *log, char *path,
                    size_t size)
{
    int n = snprintf(path, size, "%s/%s.cl", folder, base);
    if (n < 0 || (size_t)n >= size || clt_private_folder_make(folder) != CLT_OK ||
        clt_own_file_write(path, source, strlen(source)) != CLT_OK)
        return false;
    char log_path[1024];
    n = snprintf(log_path, sizeof log_path, "%s/%s.log", folder, base);
    if (n > 0 && (size_t)n < sizeof log_path)
        (void)clt_own_file_write(log_path, log, strlen(log)); /* the source is useful without the log */
    return true;
}

static void save_failed_build(const char *family, const char *options, const char *source, const char *log,
                              char *path, size_t size)
{
    CLT_FREED char *folder = NULL;
    char base[128], fallback[800];
    const char *tmp = getenv("TMPDIR");
    uint64_t hash = hash_text(hash_text(UINT64_C(0xcbf29ce484222325), options), source);
    snprintf(base, sizeof base, "%.60s-%016llx", family, (unsigned long long)hash);
    if (clt_cache_folder("crash", &folder) == CLT_OK && save_in(folder, base, source, log, path, size))
        return;
    clt_error_clear();
    /* The fallback is in a folder that all users share: so its name contains the user's number, and it is
     * not used if it is a link or belongs to another user. */
    snprintf(fallback, sizeof fallback, "%s/cltrain-crash-%lu", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp",
             (unsigned long)geteuid());
    struct stat info;
    bool link = lstat(fallback, &info) == 0 && !S_ISDIR(info.st_mode);
    if (link || !save_in(fallback, base, source, log, path, size))
        snprintf(path, size, "(could not be saved: no writable cache folder)");
}

/* Building */

void ocl_program_destroy(ocl_program *program)
{
    if (program == NULL)
        return;
    if (program->program != NULL)
        clReleaseProgram(program->program);
    free(program->family);
    free(program->options);
    free(program->log);
    free(program);
}

void ocl_programs_forget(ocl_device *device)
{
    for (size_t i = 0; i < device->n_programs; i++)
        ocl_program_destroy(device->programs[i]);
    device->n_programs = 0;
}

const char *ocl_program_log(const ocl_program *program)
{
    return program->log;
}

static clt_status copy_text(const char *text, char **out)
{
    size_t length = strlen(text);
    CLT_TRY(clt_alloc(out, length + 1, 1, "a program record"));
    memcpy(*out, text, length);
    return CLT_OK;
}

/* The build log without trailing white space. */
clt_status ocl_program_fetch_log(cl_program program, cl_device_id id, char **out)
{
    size_t size = 0;
    if (clGetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) != CL_SUCCESS)
        size = 0;
    CLT_TRY(clt_alloc(out, size + 1, 1, "a build log"));
    if (size > 0 && clGetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, size, *out, NULL) != CL_SUCCESS)
        (*out)[0] = '\0';
    for (size_t n = strlen(*out); n > 0 && isspace((unsigned char)(*out)[n - 1]); n--)
        (*out)[n - 1] = '\0';
    return CLT_OK;
}

static clt_status build_failed(const ocl_device *device, const ocl_program *program, const char *full_options,
                               const char *source, cl_int code, bool quiet)
{
    const ocl_device_desc *desc = &device->desc;
    char path[1024];
    /* lack of memory is not an error in the source */
    if (quiet || code == CL_OUT_OF_HOST_MEMORY || code == CL_MEM_OBJECT_ALLOCATION_FAILURE ||
        code == CL_OUT_OF_RESOURCES)
        return ocl_fail(code, __FILE__, __LINE__, "building '%s' (%s)", program->family, full_options);
    save_failed_build(program->family, full_options, source, program->log, path, sizeof path);
    const char *log = program->log[0] != '\0' ? program->log
                      : desc->compute_capability != 0 /* NVIDIA */
                          ? "(the compiler returned no log; perhaps one of the driver's libraries is missing "
                            "or has another version; run 'cltrain doctor')"
                          : "(the compiler returned no log)";
    CLT_FAIL(CLT_EBUILD,
             "building kernel family '%s' for device %s '%s' (driver %s): %s (%d)\n  options: %s\n  source "
             "saved in %s (the full log beside it)\n  update the driver, or report the saved source; "
             "log:\n%.2400s",
             program->family, desc->spec, desc->name, desc->driver, ocl_error_name(code), code, full_options,
             path, log);
}

static clt_status build_source(ocl_device *device, ocl_program *program, const char *source,
                               const char *full_options, cl_int *built)
{
    cl_int code;
    program->program = clCreateProgramWithSource(device->context, 1, &source, NULL, &code);
    OCL_CHECK(code, "creating program '%s'", program->family);
    *built = clBuildProgram(program->program, 1, &device->id, full_options, NULL, NULL);
    return ocl_program_fetch_log(program->program, device->id, &program->log);
}

/* Whether a build failed without an error message, as PoCL's sometimes do when several processes build the
 * same program with an empty cache. */
static bool failed_without_reason(cl_int code, const char *log)
{
    return code == CL_BUILD_PROGRAM_FAILURE && strstr(log, "rror") == NULL && strstr(log, "fatal") == NULL;
}

static clt_status compile(ocl_device *device, ocl_program *program, const char *source,
                          const char *full_options, bool quiet)
{
    cl_int code = CL_SUCCESS;
    CLT_TRY(build_source(device, program, source, full_options, &code));
    if (failed_without_reason(code, program->log)) {
        clReleaseProgram(program->program);
        free(program->log);
        program->program = NULL;
        program->log = NULL;
        CLT_TRY(build_source(device, program, source, full_options, &code));
    }
    if (code != CL_SUCCESS)
        return build_failed(device, program, full_options, source, code, quiet);
    return strstr(full_options, OCL_RETARGET_OPTION) != NULL
               ? ocl_program_retarget(device, program, full_options)
               : CLT_OK;
}

static clt_status load(ocl_device *device, ocl_program *program, const char *source, const char *full_options)
{
    program->program = ocl_binary_load(device, source, full_options);
    program->from_cache = program->program != NULL;
    return program->from_cache ? ocl_program_fetch_log(program->program, device->id, &program->log) : CLT_OK;
}

static clt_status compile_and_keep(ocl_device *device, ocl_program *program, const char *source,
                                   const char *full_options, bool quiet)
{
    CLT_TRY(compile(device, program, source, full_options, quiet));
    ocl_binary_store(device, source, full_options, program->program);
    return CLT_OK;
}

/* Compiles the program when it is this process's turn, or loads it if another process has built it in the
 * meantime. */
static clt_status compile_in_turn(ocl_device *device, ocl_program *program, const char *source,
                                  const char *full_options, bool quiet)
{
    uint64_t hash;
    int turns = ocl_binary_turns(device);
    bool turn = !ocl_binary_known(device, source, full_options, &hash) && ocl_turn_take(turns, hash);
    clt_status status = turn ? load(device, program, source, full_options) : CLT_OK;
    if (status == CLT_OK && !program->from_cache)
        status = compile_and_keep(device, program, source, full_options, quiet);
    if (turn)
        ocl_turn_give(turns, hash);
    return status;
}

static clt_status load_or_compile(ocl_device *device, ocl_program *program, const char *source,
                                  const char *full_options, bool quiet)
{
    double start = clt_now();
    clt_status status = load(device, program, source, full_options);
    if (status == CLT_OK && !program->from_cache)
        status = compile_in_turn(device, program, source, full_options, quiet);
    program->build_seconds = clt_now() - start;
    clt_last_words_reinstall();
    CLT_TRY(status);
    CLT_DEBUG("program '%s' (%s): %.3f s, %s", program->family, full_options, program->build_seconds,
              program->from_cache ? "binary from the cache" : "built from its source");
    if (program->log[0] != '\0')
        CLT_DEBUG("building '%s' (%s): the compiler says:\n%s", program->family, full_options, program->log);
    return CLT_OK;
}

clt_status ocl_program_text(const char *family, const char *options, char **source, clt_str *full_options)
{
    char file_name[128], kernel[128];
    const char *only = strstr(options, "-D" OCL_ONLY_DEFINE "=");
    snprintf(file_name, sizeof file_name, "%s.cl", family);
    clt_str_printf(full_options, STANDARD_OPTIONS "%s%s", options[0] ? " " : "", options);
    CLT_TRY(clt_str_check(full_options));
    CLT_TRY(ocl_source_text(file_name, source));
    CLT_TRY(ocl_source_check_options(family, *source, options));
    if (only != NULL && sscanf(only, "-D" OCL_ONLY_DEFINE "=%127[a-z0-9_]", kernel) == 1)
        ocl_source_keep_kernel(*source, kernel);
    return CLT_OK;
}

bool ocl_program_known(const ocl_device *device, const char *family, const char *options, uint64_t *hash)
{
    CLT_FREED char *source = NULL;
    CLT_SCOPED(clt_str) full_options = {0};
    *hash = 0;
    bool known = ocl_program_text(family, options, &source, &full_options) == CLT_OK &&
                 ocl_binary_known(device, source, full_options.text, hash);
    clt_error_clear();
    return known;
}

static clt_status build(ocl_device *device, const char *family, const char *options, bool quiet,
                        ocl_program **out)
{
    CLT_SCOPED(ocl_program) *program = NULL;
    CLT_SCOPED(clt_str) full_options = {0};
    CLT_FREED char *source = NULL;
    CLT_TRY(ocl_program_text(family, options, &source, &full_options));
    CLT_TRY(clt_alloc(&program, 1, sizeof *program, "a program record"));
    CLT_TRY(copy_text(family, &program->family));
    CLT_TRY(copy_text(options, &program->options));
    CLT_TRY(load_or_compile(device, program, source, full_options.text, quiet));
    *out = CLT_TAKE(program);
    return CLT_OK;
}

/* Called with the device's lock held. */
static ocl_program *find(const ocl_device *device, const char *family, const char *options)
{
    for (size_t i = 0; i < device->n_programs; i++) {
        ocl_program *p = device->programs[i];
        if (strcmp(p->family, family) == 0 && strcmp(p->options, options) == 0)
            return p;
    }
    return NULL;
}

bool ocl_program_cached(ocl_device *device, const char *family, const char *options)
{
    CLT_LOCKED(&device->lock);
    return find(device, family, options) != NULL;
}

/* Adds a program to the device, unless another thread has already added the same one. *out: the program that
 * the device has. */
static clt_status add(ocl_device *device, ocl_program **fresh, ocl_program **out)
{
    CLT_LOCKED(&device->lock);
    device->counters.programs_built++;
    device->counters.programs_loaded += (*fresh)->from_cache;
    device->counters.build_seconds += (*fresh)->build_seconds;
    *out = find(device, (*fresh)->family, (*fresh)->options);
    if (*out != NULL)
        return CLT_OK;
    CLT_TRY(clt_grow(&device->programs, &device->programs_capacity, device->n_programs + 1,
                     sizeof *device->programs, "the program cache"));
    *out = device->programs[device->n_programs++] = CLT_TAKE(*fresh);
    return CLT_OK;
}

static clt_status get(ocl_device *device, const char *family, const char *options, bool quiet,
                      ocl_program **out)
{
    CLT_SCOPED(ocl_program) *fresh = NULL;
    options = options ? options : "";
    if (device->gathered != NULL)
        return ocl_programs_record(device, &(ocl_program_request){.family = family, .options = options}, 1);
    pthread_mutex_lock(&device->lock);
    *out = find(device, family, options);
    pthread_mutex_unlock(&device->lock);
    if (*out != NULL) {
        if (clt_log_max_level() >= CLT_LOG_TRACE)
            clt_log(CLT_LOG_TRACE, "program '%s' (" STANDARD_OPTIONS "%s%s): used again", family,
                    options[0] ? " " : "", options);
        return CLT_OK;
    }
    /* not under the lock, because building takes seconds with some drivers */
    CLT_TRY(build(device, family, options, quiet, &fresh));
    return add(device, &fresh, out);
}

clt_status ocl_program_get(ocl_device *device, const char *family, const char *options, ocl_program **out)
{
    return get(device, family, options, false, out);
}

clt_status ocl_program_try(ocl_device *device, const char *family, const char *options, ocl_program **out)
{
    return get(device, family, options, true, out);
}

clt_status ocl_device_programs(ocl_device *device, ocl_program_info **out, size_t *count)
{
    ocl_program_info *list = NULL;
    size_t texts = 0;
    pthread_mutex_lock(&device->lock);
    size_t n = device->n_programs;
    for (size_t i = 0; i < n; i++)
        texts += strlen(device->programs[i]->family) + strlen(device->programs[i]->options) + 2;
    clt_status status = clt_alloc(&list, 1, n * sizeof *list + texts + 1, "the list of programs");
    char *at = (char *)(list + (status == CLT_OK ? n : 0));
    for (size_t i = 0; i < n && status == CLT_OK; i++) {
        const ocl_program *p = device->programs[i];
        size_t family = strlen(p->family) + 1, options = strlen(p->options) + 1;
        memcpy(at, p->family, family);
        memcpy(at + family, p->options, options);
        list[i] = (ocl_program_info){at, at + family, p->build_seconds, p->from_cache};
        at += family + options;
    }
    pthread_mutex_unlock(&device->lock);
    *out = list;
    *count = status == CLT_OK ? n : 0;
    return status;
}
