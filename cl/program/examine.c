/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds programs, and stores the compiler's report about each. This file must not know what the programs
 * do. */
#include "cl/program/examine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/program/builders.h"
#include "cl/program/program_internal.h"
#include "cl/program/retarget.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"

/* --- what a log says --- */

/* Raises *largest to the largest number that precedes `words` in the text. */
static void number_before(const char *log, const char *words, int64_t *largest)
{
    for (const char *at = log; (at = strstr(at, words)) != NULL; at += strlen(words)) {
        const char *digit = at;
        while (digit > log && digit[-1] >= '0' && digit[-1] <= '9')
            digit--;
        if (digit < at && strtoll(digit, NULL, 10) > *largest)
            *largest = strtoll(digit, NULL, 10);
    }
}

ocl_resources ocl_resources_of(const char *log)
{
    int64_t registers = -1, stores = -1, loads = -1;
    ocl_resources r = {-1, -1, -1, -1};
    number_before(log, " registers", &registers);
    number_before(log, " bytes spill stores", &stores);
    number_before(log, " bytes spill loads", &loads);
    number_before(log, " bytes stack frame", &r.stack_bytes);
    number_before(log, " bytes smem", &r.static_local_bytes);
    r.registers = (int)registers;
    r.spilled_bytes = stores > loads ? stores : loads;
    if (registers >= 0 && r.static_local_bytes < 0)
        r.static_local_bytes = 0; /* the log names only memory that is used */
    return r;
}

/* --- building --- */

typedef struct examination {
    ocl_device *device;
    const ocl_examine_options *options;
    ocl_examined *programs;
    size_t count, next;
    pthread_mutex_t lock;
} examination;

static clt_status write_file(const char *folder, const char *name, const char *ending, const char *data,
                             size_t size)
{
    char file[160];
    CLT_FREED char *path = NULL;
    snprintf(file, sizeof file, "%s.%s", name, ending);
    CLT_TRY(clt_path_join(folder, file, &path));
    return clt_file_write(path, data, size);
}

/* Stores the log, after a header with the options, and the binary. */
static clt_status keep(const examination *x, size_t index, const ocl_program *program)
{
    const ocl_examined *e = &x->programs[index];
    char name[128];
    CLT_FREED char *data = NULL;
    size_t size = 0;
    CLT_SCOPED(clt_str) log = {0};
    snprintf(name, sizeof name, "%03zu-%.100s", index, e->family);
    clt_str_printf(&log, "options: %s\nseconds: %.3f\nbinary: %s\n%s\n", program->options, e->seconds,
                   e->binary, program->log);
    CLT_TRY(clt_str_check(&log));
    CLT_TRY(write_file(x->options->folder, name, "log", log.text, log.length));
    if (ocl_program_binary(program->program, &data, &size) != CLT_OK) {
        clt_error_clear(); /* the driver gives no binary, so there is no file for it */
        return CLT_OK;
    }
    bool ptx = strncmp(e->binary, "PTX", 3) == 0;
    return write_file(x->options->folder, name, ptx ? "ptx" : "bin", data, ptx ? strlen(data) : size);
}

/* Appends the user's options. They go to the programs of all families, so a define is written "-D NAME",
 * which a kernel need not declare (ocl_source_check_options). */
static void add_extra(clt_str *out, const char *extra)
{
    for (const char *at = extra; *at != '\0'; at++) {
        bool define = strncmp(at, "-D", 2) == 0 && (at == extra || at[-1] == ' ');
        clt_str_append(out, define ? "-D " : (char[]){*at, '\0'});
        at += define;
    }
}

static clt_status build(const examination *x, size_t index)
{
    ocl_examined *e = &x->programs[index];
    ocl_program *program;
    CLT_SCOPED(clt_str) options = {0};
    bool nvidia = x->device->desc.compute_capability != 0;
    clt_str_printf(&options, "%s%s ", e->options, nvidia ? " " OCL_VERBOSE_OPTION : "");
    add_extra(&options, x->options->extra);
    CLT_TRY(clt_str_check(&options));
    CLT_TRY(ocl_program_get(x->device, e->family, options.text, &program));
    e->seconds = program->build_seconds;
    e->resources = ocl_resources_of(program->log);
    ocl_program_describe(program, e->binary);
    return x->options->folder != NULL ? keep(x, index, program) : CLT_OK;
}

/* Stores the compiler's message about a program that it refused. */
static void keep_error(const examination *x, size_t index)
{
    const ocl_examined *e = &x->programs[index];
    char name[128];
    snprintf(name, sizeof name, "%03zu-%.100s", index, e->family);
    if (x->options->folder != NULL &&
        write_file(x->options->folder, name, "log", e->error.text, strlen(e->error.text)) != CLT_OK)
        clt_error_clear(); /* the caller already has the error's text */
}

static void *examiner(void *context)
{
    examination *x = context;
    for (;;) {
        pthread_mutex_lock(&x->lock);
        size_t index = x->next < x->count ? x->next++ : x->count;
        pthread_mutex_unlock(&x->lock);
        if (index == x->count)
            return NULL;
        ocl_examined *e = &x->programs[index];
        e->resources = ocl_resources_of("");
        double start = clt_now();
        clt_error_take(build(x, index), &e->error);
        if (e->error.status != CLT_OK) {
            e->seconds = clt_now() - start;
            keep_error(x, index);
        }
        pthread_mutex_lock(&x->lock);
        if (x->options->each != NULL)
            x->options->each(x->options->context, index, e);
        pthread_mutex_unlock(&x->lock);
    }
}

void ocl_examine(ocl_device *device, const ocl_examine_options *options, ocl_examined *programs, size_t count)
{
    examination x = {.device = device, .options = options, .programs = programs, .count = count};
    clt_thread *threads[OCL_BUILDERS_MAX] = {0};
    int wanted = options->threads > 0 ? options->threads : ocl_build_threads(device, count), started = 0;
    ocl_binary_cache_close(device);
    pthread_mutex_init(&x.lock, NULL);
    while (started + 1 < wanted && started + 1 < OCL_BUILDERS_MAX &&
           clt_thread_start(&threads[started], "examiner", examiner, &x) == CLT_OK)
        started++;
    clt_error_clear(); /* the other threads do the work of one that could not be started */
    examiner(&x);
    for (int i = 0; i < started; i++)
        clt_thread_join(threads[i]);
    pthread_mutex_destroy(&x.lock);
}
