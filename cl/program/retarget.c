/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a built program's PTX for sm_90 into the same program for sm_90a (the reason is in
 * cl/program/retarget.h). Any failure counts as a failed build of the program, which the caller's fallback
 * handles. */
#include "cl/program/retarget.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/device/internal.h"
#include "cl/program/program_internal.h"

#define MARK "//sm_90a: "               /* SM90A of cl/kernels/wgmma.clh */
#define MARK_MEMORY "//sm_90a-shared: " /* SM90A_MEMORY */
#define OLDEST_VERSION 8                /* .version 8.0 is the first with wgmma */

/* --- lines --- */

/* A line of the text, without its line end. */
typedef struct line {
    const char *text;
    size_t length;
} line;

static bool begins(line l, const char *word)
{
    size_t n = strlen(word);
    return l.length >= n && memcmp(l.text, word, n) == 0;
}

static line after(line l, size_t n)
{
    return (line){l.text + n, l.length - n};
}

static line without_blanks(line l)
{
    while (l.length > 0 && (*l.text == ' ' || *l.text == '\t' || *l.text == '\r'))
        l = after(l, 1);
    return l;
}

/* Gets the line at *at, and advances *at to the next one. False at the end of the text. */
static bool next_line(const char *text, size_t size, size_t *at, line *out)
{
    if (*at >= size)
        return false;
    const char *end = memchr(text + *at, '\n', size - *at);
    *out = (line){text + *at, end != NULL ? (size_t)(end - text) - *at : size - *at};
    *at += out->length + 1;
    return true;
}

/* Reads a number from the start of the line. False if there is none, or if it is too large for a memory
 * size. */
static bool take_number(line *l, uint64_t *number)
{
    size_t n = 0;
    *number = 0;
    for (; n < l->length && n < 10 && l->text[n] >= '0' && l->text[n] <= '9'; n++)
        *number = 10 * *number + (uint64_t)(l->text[n] - '0');
    *l = after(*l, n);
    return n > 0 && (l->length == 0 || l->text[0] < '0' || l->text[0] > '9');
}

static int shown(line l)
{
    return (int)(l.length < 60 ? l.length : 60);
}

/* --- the array in local memory --- */

/* The text's lines about local memory. The compiler declares the array with at most 48 KiB; a comment has
 * the real size (cl/kernels/wgmma.clh). */
typedef struct memory {
    uint64_t wanted;   /* bytes that the program needs; 0: no line with this number yet */
    uint64_t declared; /* bytes of the array */
    int arrays;        /* number of declarations: must be 1, or 0 if there are arguments */
    int arguments;     /* parameters that point to local memory */
} memory;

/* Whether the line declares a variable in local memory: "[.visible] .shared .align 16 .b8 name[4096];". */
static bool is_declaration(line l)
{
    static const char *const linkage[] = {".visible ", ".weak ", ".extern ", ".common "};
    for (size_t i = 0; i < sizeof linkage / sizeof linkage[0]; i++)
        if (begins(l, linkage[i]))
            l = without_blanks(after(l, strlen(linkage[i])));
    return begins(l, ".shared ");
}

/* Splits a declaration: `head` ends with the opening bracket, `tail` begins with the closing one. */
static bool part_declaration(line l, line *head, uint64_t *bytes, line *tail)
{
    const char *bracket = memchr(l.text, '[', l.length);
    if (bracket == NULL)
        return false;
    *head = (line){l.text, (size_t)(bracket - l.text) + 1};
    *tail = after(l, head->length);
    bool in_bytes = false;
    for (size_t i = 0; i < head->length; i++)
        in_bytes = in_bytes || begins(after(*head, i), " .b8 ");
    return in_bytes && take_number(tail, bytes) && begins(*tail, "];");
}

/* Whether the line declares a parameter that points to local memory: ".param .u64 .ptr .shared .align 16
 * name,". */
static bool is_argument(line l)
{
    bool shared = false;
    for (size_t i = 0; i < l.length && begins(l, ".param "); i++)
        shared = shared || begins(after(l, i), " .ptr .shared ");
    return shared;
}

static clt_status see_declaration(line l, memory *m)
{
    line head, tail;
    m->arrays++;
    if (!part_declaration(l, &head, &m->declared, &tail))
        CLT_FAIL(CLT_EUNSUPPORTED, "'%.*s' in its PTX is not an array of bytes", shown(l), l.text);
    return CLT_OK;
}

static clt_status see_size(line l, memory *m)
{
    uint64_t wanted;
    line rest = after(l, strlen(MARK_MEMORY));
    if (!take_number(&rest, &wanted) || wanted == 0 || without_blanks(rest).length > 0)
        CLT_FAIL(CLT_EUNSUPPORTED, "'%.*s' in its PTX gives no size", shown(l), l.text);
    if (wanted > OCL_RETARGET_MOST_LOCAL)
        CLT_FAIL(CLT_EUNSUPPORTED, "it needs %llu bytes of local memory, and a work-group has at most %u",
                 (unsigned long long)wanted, OCL_RETARGET_MOST_LOCAL);
    if (m->wanted != 0 && m->wanted != wanted)
        CLT_FAIL(CLT_EUNSUPPORTED, "its PTX asks for %llu and for %llu bytes of local memory",
                 (unsigned long long)m->wanted, (unsigned long long)wanted);
    m->wanted = wanted;
    return CLT_OK;
}

static clt_status check_memory(const memory *m)
{
    if (m->arguments > 0 && m->arrays == 0 && m->wanted == 0)
        return CLT_OK;
    if (m->wanted == 0)
        CLT_FAIL(CLT_EUNSUPPORTED, "the compiler kept no line '%s', so its local memory is unknown",
                 MARK_MEMORY);
    if (m->arrays != 1)
        CLT_FAIL(CLT_EUNSUPPORTED, "its PTX declares %d arrays in local memory, and must declare one",
                 m->arrays);
    if (m->wanted < m->declared)
        CLT_FAIL(CLT_EUNSUPPORTED, "its PTX asks for %llu bytes of local memory and declares %llu",
                 (unsigned long long)m->wanted, (unsigned long long)m->declared);
    return CLT_OK;
}

/* --- what the text must have --- */

/* Every WGMMA product needs all of these instructions; without one of them its result is wrong, or right
 * only by chance. */
static const char *const kinds[] = {"fence.proxy.async", "wgmma.fence.", "wgmma.mma_async.",
                                    "wgmma.commit_group.", "wgmma.wait_group."};
#define KINDS (sizeof kinds / sizeof kinds[0])

typedef struct seen {
    bool target;
    bool kind[KINDS];
    memory memory;
} seen;

/* The length of ".target sm_90" or ".target sm_90a" at the start of the line; 0: another target. */
static size_t target_length(line l)
{
    static const char plain[] = ".target sm_90";
    size_t n = sizeof plain - 1;
    if (!begins(l, plain))
        return 0;
    n += n < l.length && l.text[n] == 'a';
    return n == l.length || strchr(" ,\t\r", l.text[n]) != NULL ? n : 0;
}

static clt_status see(line l, seen *s)
{
    l = without_blanks(l);
    if (is_declaration(l))
        return see_declaration(l, &s->memory);
    s->memory.arguments += is_argument(l);
    if (begins(l, MARK_MEMORY))
        return see_size(l, &s->memory);
    if (begins(l, MARK))
        for (size_t i = 0; i < KINDS; i++)
            s->kind[i] = s->kind[i] || begins(after(l, strlen(MARK)), kinds[i]);
    if (!begins(l, ".target "))
        return CLT_OK;
    s->target = true;
    if (target_length(l) == 0)
        CLT_FAIL(CLT_EUNSUPPORTED, "its PTX has '%.*s', not '.target sm_90'", shown(l), l.text);
    return CLT_OK;
}

static clt_status check(const char *ptx, size_t size, seen *s)
{
    line l;
    for (size_t at = 0; next_line(ptx, size, &at, &l);)
        CLT_TRY(see(l, s));
    if (!s->target)
        CLT_FAIL(CLT_EUNSUPPORTED, "the driver's binary has no .target, so it is not PTX");
    for (size_t i = 0; i < KINDS; i++)
        if (!s->kind[i])
            CLT_FAIL(CLT_EUNSUPPORTED, "the compiler kept no instruction '%s' for sm_90a", kinds[i]);
    return check_memory(&s->memory);
}

/* --- the new text --- */

static void put(line l, clt_str *out)
{
    clt_str_append_n(out, l.text, l.length);
}

static bool is_too_old(line l)
{
    uint64_t version;
    static const char word[] = ".version ";
    if (!begins(l, word))
        return false;
    l = after(l, sizeof word - 1);
    return take_number(&l, &version) && version < OLDEST_VERSION;
}

static void put_line(line l, const seen *s, clt_str *out)
{
    line rest = without_blanks(l), head, tail;
    uint64_t declared;
    if (begins(rest, MARK_MEMORY))
        return;
    if (begins(rest, MARK)) {
        put((line){l.text, l.length - rest.length}, out);
        put(after(rest, strlen(MARK)), out);
    } else if (begins(rest, ".target ")) {
        clt_str_append(out, ".target sm_90a");
        put(after(rest, target_length(rest)), out);
    } else if (is_too_old(rest)) {
        clt_str_printf(out, ".version %d.0", OLDEST_VERSION);
    } else if (is_declaration(rest) && part_declaration(l, &head, &declared, &tail)) {
        put(head, out);
        clt_str_printf(out, "%llu", (unsigned long long)s->memory.wanted);
        put(tail, out);
    } else {
        put(l, out);
    }
    clt_str_append(out, "\n");
}

clt_status ocl_retarget_text(const char *ptx, size_t size, clt_str *out)
{
    seen s = {0};
    line l;
    bool ended = size > 0 && ptx[size - 1] == '\0';
    while (size > 0 && ptx[size - 1] == '\0')
        size--;
    if (memchr(ptx, '\0', size) != NULL)
        CLT_FAIL(CLT_EUNSUPPORTED, "the driver's binary is not text, so it is not PTX");
    CLT_TRY(check(ptx, size, &s));
    for (size_t at = 0; next_line(ptx, size, &at, &l);)
        put_line(l, &s, out);
    if (ended)
        clt_str_append_n(out, "", 1);
    return clt_str_check(out);
}

/* --- the program --- */

static clt_status load_text(ocl_device *device, ocl_program *program, const clt_str *text,
                            const char *options)
{
    CLT_SCOPED(cl_program) loaded = NULL;
    CLT_FREED char *log = NULL;
    cl_int code =
        ocl_build_binary(device, (const unsigned char *)text->text, text->length,
                         strstr(options, OCL_VERBOSE_OPTION) != NULL ? OCL_VERBOSE_OPTION : "", &loaded);
    if (loaded != NULL)
        CLT_TRY(ocl_program_fetch_log(loaded, device->id, &log));
    if (code == CL_OUT_OF_HOST_MEMORY || code == CL_OUT_OF_RESOURCES ||
        code == CL_MEM_OBJECT_ALLOCATION_FAILURE) /* these failures do not concern the program */
        return ocl_fail(code, __FILE__, __LINE__, "loading a program for another target");
    if (code != CL_SUCCESS)
        CLT_FAIL(CLT_EBUILD, "the driver does not take it: %s (%d)%s%.1600s", ocl_error_name(code), code,
                 log != NULL && log[0] ? "; log:\n" : "", log != NULL ? log : "");
    clReleaseProgram(program->program);
    program->program = CLT_TAKE(loaded);
    free(program->log);
    program->log = CLT_TAKE(log);
    return CLT_OK;
}

static clt_status retarget(ocl_device *device, ocl_program *program, const char *options)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_FREED char *ptx = NULL;
    size_t size = 0;
    CLT_TRY(ocl_program_binary(program->program, &ptx, &size));
    CLT_TRY(ocl_retarget_text(ptx, size, &text));
    return load_text(device, program, &text, options);
}

clt_status ocl_program_retarget(ocl_device *device, ocl_program *program, const char *options)
{
    clt_status status = retarget(device, program, options);
    if (status == CLT_OK || status == CLT_ENOMEM)
        return status;
    return clt_fail_prefix(status, "loading kernel family '%s' as a program for sm_90a on device %s '%s'",
                           program->family, device->desc.spec, device->desc.name);
}
