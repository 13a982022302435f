/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs: sources embedded in the binary (or read from CLTRAIN_KERNEL_DIR while developing), includes
 * resolved here, one build per (family, options) and device, the compiler's log always kept. A failed build
 * leaves its full source and log in a file and says where. It must not know what a kernel computes. */
#include "cl/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/kernel_source.h"
#include "engine/base/cache_folder.h"
#include "engine/base/fileio.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"

#define STANDARD_OPTIONS "-cl-std=CL1.2"
#define MAX_INCLUDE_DEPTH 8

/* Sources */

/* One file's text without its includes resolved; free() it. */
static clt_status raw_source(const char *file_name, char **out)
{
    const char *folder = getenv("CLTRAIN_KERNEL_DIR");
    if (folder != NULL && folder[0] != '\0') {
        char *path = NULL;
        clt_status status = CLT_OK;
        CLT_TRY(clt_path_join(folder, file_name, &path));
        bool exists = clt_file_exists(path);
        size_t size;
        if (exists)
            status = clt_file_read(path, false, 0, CLT_EBUILD, out, &size);
        free(path);
        if (exists)
            return status;
    }
    for (const ocl_embedded_source *s = ocl_embedded_sources; s->name != NULL; s++) {
        if (strcmp(s->name, file_name) == 0) {
            CLT_TRY(clt_alloc(out, s->length + 1, 1, "a kernel source"));
            memcpy(*out, s->text, s->length);
            return CLT_OK;
        }
    }
    CLT_FAIL(CLT_EBUILD, "looking for the kernel source '%s': it is not built in%s%s", file_name,
             folder ? " and not in CLTRAIN_KERNEL_DIR=" : "", folder ? folder : "");
}

/* Takes the name out of `#include "name"`; false when the line is something else. */
static bool parse_include(const char *line, size_t length, char *name, size_t size)
{
    const char *end = line + length, *at = line;
    while (at < end && isspace((unsigned char)*at))
        at++;
    if (at == end || *at++ != '#')
        return false;
    while (at < end && isspace((unsigned char)*at))
        at++;
    if (end - at < 7 || strncmp(at, "include", 7) != 0)
        return false;
    at += 7;
    while (at < end && isspace((unsigned char)*at))
        at++;
    if (at == end || *at++ != '"')
        return false;
    const char *close = memchr(at, '"', (size_t)(end - at));
    if (close == NULL || (size_t)(close - at) >= size)
        return false;
    memcpy(name, at, (size_t)(close - at));
    name[close - at] = '\0';
    return true;
}

static clt_status expand(clt_str *out, const char *file_name, int depth)
{
    char *text = NULL;
    clt_status status = CLT_OK;
    if (depth > MAX_INCLUDE_DEPTH)
        CLT_FAIL(CLT_EBUILD,
                 "reading the kernel source '%s': includes are nested more than %d deep (a cycle?)",
                 file_name, MAX_INCLUDE_DEPTH);
    CLT_TRY(raw_source(file_name, &text));
    int number = 1;
    clt_str_printf(out, "#line 1 \"%s\"\n", file_name);
    for (const char *line = text; *line != '\0'; number++) {
        size_t length = strcspn(line, "\n");
        char name[128];
        if (parse_include(line, length, name, sizeof name)) {
            status = expand(out, name, depth + 1);
            if (status != CLT_OK) {
                clt_fail_prefix(status, "%s:%d: ", file_name, number);
                break;
            }
            clt_str_printf(out, "#line %d \"%s\"\n", number + 1, file_name);
        } else {
            clt_str_append_n(out, line, length);
            clt_str_append(out, "\n");
        }
        line += length + (line[length] == '\n');
    }
    free(text);
    return status;
}

clt_status ocl_source_text(const char *file_name, char **out)
{
    clt_str text = {0};
    *out = NULL;
    clt_status status = expand(&text, file_name, 0);
    if (status == CLT_OK)
        status = clt_str_check(&text);
    if (status != CLT_OK) {
        clt_str_free(&text);
        return status;
    }
    *out = text.text;
    return CLT_OK;
}

clt_status ocl_kernels_hash(uint64_t *hash)
{
    clt_hash64_state state;
    clt_hash64_begin(&state);
    clt_hash64_add(&state, CLT_VERSION, strlen(CLT_VERSION) + 1);
    for (const ocl_embedded_source *s = ocl_embedded_sources; s->name != NULL; s++) {
        char *text = NULL;
        CLT_TRY(raw_source(s->name, &text));
        clt_hash64_add(&state, s->name, strlen(s->name) + 1);
        clt_hash64_add(&state, text, strlen(text) + 1);
        free(text);
    }
    *hash = clt_hash64_end(&state);
    return CLT_OK;
}

/* A failed build's source */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3); /* FNV-1a */
    return hash;
}

/* Writes base.cl and base.log into a folder; false when it cannot. */
static bool save_in(const char *folder, const char *base, const char *source, const char *log, char *path,
                    size_t size)
{
    int n = snprintf(path, size, "%s/%s.cl", folder, base);
    if (n < 0 || (size_t)n >= size || clt_mkdir_p(folder) != CLT_OK ||
        clt_file_write(path, source, strlen(source)) != CLT_OK)
        return false;
    char log_path[1024];
    n = snprintf(log_path, sizeof log_path, "%s/%s.log", folder, base);
    if (n > 0 && (size_t)n < sizeof log_path)
        (void)clt_file_write(log_path, log, strlen(log)); /* the source is what matters */
    return true;
}

static void save_failed_build(const char *family, const char *options, const char *source, const char *log,
                              char *path, size_t size)
{
    char *folder = NULL, base[128], fallback[800];
    const char *tmp = getenv("TMPDIR");
    uint64_t hash = hash_text(hash_text(UINT64_C(0xcbf29ce484222325), options), source);
    snprintf(base, sizeof base, "%.60s-%016llx", family, (unsigned long long)hash);
    bool saved =
        clt_cache_folder("crash", &folder) == CLT_OK && save_in(folder, base, source, log, path, size);
    free(folder);
    if (saved)
        return;
    clt_error_clear();
    snprintf(fallback, sizeof fallback, "%s/cltrain-crash", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    if (!save_in(fallback, base, source, log, path, size))
        snprintf(path, size, "(could not be saved: no writable cache folder)");
}

/* Building */

void ocl_program_destroy(struct ocl_program *program)
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

/* The log of the last build, "" if there is none, without trailing space. */
static clt_status fetch_log(cl_program program, cl_device_id id, char **out)
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
    if (quiet)
        return ocl_fail(code, __FILE__, __LINE__, "building '%s' (%s)", program->family, full_options);
    save_failed_build(program->family, full_options, source, program->log, path, sizeof path);
    const char *log = program->log[0] != '\0' ? program->log : "(the compiler gave no log)";
    CLT_FAIL(CLT_EBUILD,
             "building kernel family '%s' for device %s '%s' (driver %s): %s (%d)\n  options: %s\n  source "
             "saved in %s (the full "
             "log beside it)\n  update the driver, or report the saved source; log:\n%.2400s",
             program->family, desc->spec, desc->name, desc->driver, ocl_error_name(code), code, full_options,
             path, log);
}

static clt_status compile(ocl_device *device, ocl_program *program, const char *source, bool quiet)
{
    clt_str options = {0};
    cl_int code;
    clt_str_printf(&options, STANDARD_OPTIONS "%s%s", program->options[0] ? " " : "", program->options);
    clt_status status = clt_str_check(&options);
    if (status == CLT_OK) {
        program->program = clCreateProgramWithSource(device->context, 1, &source, NULL, &code);
        if (code != CL_SUCCESS)
            status = ocl_fail(code, __FILE__, __LINE__, "creating program '%s'", program->family);
    }
    if (status == CLT_OK) {
        double start = clt_now();
        code = clBuildProgram(program->program, 1, &device->id, options.text, NULL, NULL);
        program->build_seconds = clt_now() - start;
        status = fetch_log(program->program, device->id, &program->log);
        if (status == CLT_OK && code != CL_SUCCESS)
            status = build_failed(device, program, options.text, source, code, quiet);
    }
    clt_str_free(&options);
    return status;
}

static clt_status build(ocl_device *device, const char *family, const char *options, bool quiet,
                        ocl_program **out)
{
    ocl_program *program = NULL;
    char *source = NULL, file_name[128];
    clt_status status = CLT_OK;
    *out = NULL;
    snprintf(file_name, sizeof file_name, "%s.cl", family);
    CLT_TRY(ocl_source_text(file_name, &source));
    CLT_TRY_GOTO(clt_alloc(&program, 1, sizeof *program, "a program record"), fail);
    CLT_TRY_GOTO(copy_text(family, &program->family), fail);
    CLT_TRY_GOTO(copy_text(options, &program->options), fail);
    CLT_TRY_GOTO(compile(device, program, source, quiet), fail);
    if (program->log[0] != '\0')
        CLT_DEBUG("building '%s' (%s): the compiler says:\n%s", family, options, program->log);
    free(source);
    *out = program;
    return CLT_OK;
fail:
    free(source);
    ocl_program_destroy(program);
    return status;
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
    pthread_mutex_lock(&device->lock);
    bool found = find(device, family, options) != NULL;
    pthread_mutex_unlock(&device->lock);
    return found;
}

static clt_status get(ocl_device *device, const char *family, const char *options, bool quiet,
                      ocl_program **out)
{
    ocl_program *fresh;
    clt_status status = CLT_OK;
    options = options ? options : "";
    pthread_mutex_lock(&device->lock);
    *out = find(device, family, options);
    pthread_mutex_unlock(&device->lock);
    if (*out != NULL)
        return CLT_OK;
    CLT_TRY(build(device, family, options, quiet, &fresh)); /* seconds on some drivers: not under the lock */
    pthread_mutex_lock(&device->lock);
    device->counters.programs_built++;
    device->counters.build_seconds += fresh->build_seconds;
    *out = find(device, family, options); /* another thread may have been faster */
    if (*out == NULL) {
        status = clt_grow(&device->programs, &device->programs_capacity, device->n_programs + 1,
                          sizeof *device->programs, "the program cache");
        if (status == CLT_OK) {
            device->programs[device->n_programs++] = fresh;
            *out = fresh;
            fresh = NULL;
        }
    }
    pthread_mutex_unlock(&device->lock);
    ocl_program_destroy(fresh);
    return status;
}

clt_status ocl_program_get(ocl_device *device, const char *family, const char *options, ocl_program **out)
{
    return get(device, family, options, false, out);
}

clt_status ocl_program_try(ocl_device *device, const char *family, const char *options, ocl_program **out)
{
    return get(device, family, options, true, out);
}
