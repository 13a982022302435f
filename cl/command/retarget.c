/* SPDX-License-Identifier: Apache-2.0
 *
 * From a built program's PTX for sm_90 to the same program for sm_90a (cl/command/retarget.h says why). Any
 * failure counts as a failed build of the program, and is handled by the caller's fallback. */
#include "cl/command/retarget.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/program_internal.h"
#include "cl/device/internal.h"

#define MARK "//sm_90a: " /* SM90A of cl/kernels/wgmma.clh */
#define OLDEST_VERSION 8  /* .version 8.0 has wgmma */

/* --- the text --- */

/* Every WGMMA product needs all of these; without one of them it is wrong, or right only by chance. */
static const char *const kinds[] = {"fence.proxy.async", "wgmma.fence.", "wgmma.mma_async.",
                                    "wgmma.commit_group.", "wgmma.wait_group."};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* What was found in the text so far. */
typedef struct seen {
    bool target;
    bool kind[KINDS];
} seen;

static bool begins(const char *line, size_t length, const char *word)
{
    size_t n = strlen(word);
    return length >= n && memcmp(line, word, n) == 0;
}

static clt_status put_target(const char *line, size_t length, clt_str *out)
{
    static const char plain[] = ".target sm_90";
    size_t n = sizeof plain - 1;
    if (!begins(line, length, plain) || (length > n && line[n] != 'a' && strchr(" ,\t\r", line[n]) == NULL))
        CLT_FAIL(CLT_EUNSUPPORTED, "its PTX has '%.*s', not '%s'", (int)(length < 40 ? length : 40), line,
                 plain);
    clt_str_append(out, ".target sm_90a");
    n += n < length && line[n] == 'a';
    clt_str_append_n(out, line + n, length - n);
    return CLT_OK;
}

static clt_status put_line(const char *line, size_t length, seen *s, clt_str *out)
{
    size_t indent = 0;
    int version = OLDEST_VERSION;
    while (indent < length && (line[indent] == ' ' || line[indent] == '\t'))
        indent++;
    const char *at = line + indent;
    size_t left = length - indent;
    if (begins(at, left, MARK)) {
        at += strlen(MARK);
        left -= strlen(MARK);
        for (size_t i = 0; i < KINDS; i++)
            s->kind[i] = s->kind[i] || begins(at, left, kinds[i]);
        clt_str_append_n(out, line, indent);
        clt_str_append_n(out, at, left);
    } else if (begins(at, left, ".target ")) {
        s->target = true;
        return put_target(at, left, out);
    } else if (begins(at, left, ".version ") && sscanf(at, ".version %d", &version) == 1 &&
               version < OLDEST_VERSION) {
        clt_str_printf(out, ".version %d.0", OLDEST_VERSION);
    } else {
        clt_str_append_n(out, line, length);
    }
    return CLT_OK;
}

clt_status ocl_retarget_text(const char *ptx, size_t size, clt_str *out)
{
    seen s = {0};
    bool ended = size > 0 && ptx[size - 1] == '\0';
    while (size > 0 && ptx[size - 1] == '\0')
        size--;
    if (memchr(ptx, '\0', size) != NULL)
        CLT_FAIL(CLT_EUNSUPPORTED, "the driver's binary is no text, so it is no PTX");
    for (size_t at = 0; at < size;) {
        const char *end = memchr(ptx + at, '\n', size - at);
        size_t length = end != NULL ? (size_t)(end - ptx) - at : size - at;
        CLT_TRY(put_line(ptx + at, length, &s, out));
        clt_str_append(out, "\n");
        at += length + 1;
    }
    if (!s.target)
        CLT_FAIL(CLT_EUNSUPPORTED, "the driver's binary has no .target, so it is no PTX");
    for (size_t i = 0; i < KINDS; i++)
        if (!s.kind[i])
            CLT_FAIL(CLT_EUNSUPPORTED, "the compiler kept no instruction '%s' for sm_90a", kinds[i]);
    if (ended)
        clt_str_append_n(out, "", 1);
    return clt_str_check(out);
}

/* --- the program --- */

static clt_status load_text(ocl_device *device, ocl_program *program, const clt_str *text,
                            const char *options)
{
    cl_program loaded = NULL;
    char *log = NULL;
    cl_int code =
        ocl_build_binary(device, (const unsigned char *)text->text, text->length,
                         strstr(options, OCL_VERBOSE_OPTION) != NULL ? OCL_VERBOSE_OPTION : "", &loaded);
    clt_status status = loaded != NULL ? ocl_program_fetch_log(loaded, device->id, &log) : CLT_OK;
    bool passing = code == CL_OUT_OF_HOST_MEMORY || code == CL_OUT_OF_RESOURCES ||
                   /* these failures say nothing about the program */
                   code == CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (status == CLT_OK && passing)
        status = ocl_fail(code, __FILE__, __LINE__, "loading a program for another target");
    else if (status == CLT_OK && code != CL_SUCCESS)
        status = clt_fail(CLT_EBUILD, __FILE__, __LINE__, "the driver does not take it: %s (%d)%s%.1600s",
                          ocl_error_name(code), code, log != NULL && log[0] ? "; log:\n" : "",
                          log != NULL ? log : "");
    if (status == CLT_OK) {
        clReleaseProgram(program->program);
        program->program = loaded;
        free(program->log);
        program->log = log;
        return CLT_OK;
    }
    if (loaded != NULL)
        clReleaseProgram(loaded);
    free(log);
    return status;
}

clt_status ocl_program_retarget(ocl_device *device, ocl_program *program, const char *options)
{
    clt_str text = {0};
    char *ptx = NULL;
    size_t size = 0;
    clt_status status = ocl_program_binary(program->program, &ptx, &size);
    if (status == CLT_OK)
        status = ocl_retarget_text(ptx, size, &text);
    if (status == CLT_OK)
        status = load_text(device, program, &text, options);
    free(ptx);
    clt_str_free(&text);
    if (status == CLT_OK || status == CLT_ENOMEM)
        return status;
    return clt_fail_prefix(status, "loading kernel family '%s' as a program for sm_90a on device %s '%s'",
                           program->family, device->desc.spec, device->desc.name);
}
