/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises binaries of programs by their first bytes; in binaries that are texts, reads the lines that
 * name version, target and memory. This file runs and loads nothing. */
#include "cl/program/binary.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/device/internal.h"
#include "cl/program/program_internal.h"

/* Finds the first `pattern` in a text that is not NUL-terminated. */
static const char *find(const char *data, const char *end, const char *pattern)
{
    return data < end ? memmem(data, (size_t)(end - data), pattern, strlen(pattern)) : NULL;
}

/* Copies the word after a directive, such as "8.3" from ".version 8.3". */
static void word_after(const char *data, const char *end, const char *directive, char out[16])
{
    const char *at = find(data, end, directive);
    size_t n = 0;
    for (at = at != NULL ? at + strlen(directive) : end; at < end && (*at == ' ' || *at == '\t');)
        at++;
    for (; at < end && n < 15 && strchr(" \t\r\n,;", *at) == NULL && *at != '\0'; at++)
        out[n++] = *at;
    out[n] = '\0';
}

/* Bytes of the largest stack of a function, from lines such as ".local .align 8 .b8 __local_depot3[64];". */
static unsigned long largest_stack(const char *data, const char *end)
{
    unsigned long largest = 0;
    for (const char *at = data; (at = find(at, end, ".local")) != NULL;) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        const char *open = memchr(at, '[', (size_t)((line != NULL ? line : end) - at));
        unsigned long bytes = 0;
        for (const char *digit = open != NULL ? open + 1 : end; digit < end && *digit >= '0' && *digit <= '9';
             digit++)
            bytes = bytes * 10 + (unsigned long)(*digit - '0');
        largest = bytes > largest ? bytes : largest;
        at += strlen(".local");
    }
    return largest;
}

static void describe_ptx(const char *data, const char *end, char out[OCL_BINARY_TEXT])
{
    char version[16], target[16];
    int kernels = 0;
    word_after(data, end, ".version", version);
    word_after(data, end, ".target", target);
    for (const char *at = data; (at = find(at, end, ".entry")) != NULL; at += strlen(".entry"))
        kernels++;
    snprintf(out, OCL_BINARY_TEXT, "PTX %s, %s, %d kernels, local memory %lu B", version, target, kernels,
             largest_stack(data, end));
}

static const char *elf_machine(unsigned machine)
{
    static const struct {
        unsigned number;
        const char *name;
    } names[] = {{3, "x86"},      {40, "Arm"},    {62, "x86-64"},  {183, "AArch64"},
                 {190, "NVIDIA"}, {205, "Intel"}, {224, "AMDGPU"}, {243, "RISC-V"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].number == machine)
            return names[i].name;
    return NULL;
}

const char *ocl_binary_describe(const void *data, size_t size, char out[OCL_BINARY_TEXT])
{
    const unsigned char *byte = data;
    const char *text = data, *end = text + size;
    uint32_t word = 0;
    out[0] = '\0';
    if (size >= sizeof word)
        memcpy(&word, data, sizeof word);
    if (size == 0)
        return out;
    if (find(text, end, ".version") != NULL && find(text, end, ".target") != NULL) {
        describe_ptx(text, end, out);
    } else if (size >= 20 && memcmp(byte, "\177ELF", 4) == 0) {
        unsigned machine = byte[18] | (unsigned)byte[19] << 8;
        if (elf_machine(machine) != NULL)
            snprintf(out, OCL_BINARY_TEXT, "ELF for %s, %zu B", elf_machine(machine), size);
        else
            snprintf(out, OCL_BINARY_TEXT, "ELF for machine %u, %zu B", machine, size);
    } else if (word == 0x07230203u && size >= 8) {
        snprintf(out, OCL_BINARY_TEXT, "SPIR-V %u.%u, %zu B", byte[6], byte[5], size);
    } else if (size >= 4 && memcmp(byte, "BC\xC0\xDE", 4) == 0) {
        snprintf(out, OCL_BINARY_TEXT, "LLVM bitcode, %zu B", size);
    } else if (size >= 7 && memcmp(byte, "poclbin", 7) == 0) {
        snprintf(out, OCL_BINARY_TEXT, "PoCL binary, %zu B", size);
    } else {
        snprintf(out, OCL_BINARY_TEXT, "unknown format, %zu B", size);
    }
    return out;
}

clt_status ocl_program_binary(cl_program program, char **out, size_t *size)
{
    CLT_FREED char *data = NULL;
    OCL_CHECK(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *size, size, NULL),
              "asking for the size of a program's binary");
    if (*size == 0)
        CLT_FAIL(CLT_EUNSUPPORTED, "the driver returns no binary of a program");
    CLT_TRY(clt_alloc(&data, *size + 1, 1, "a program's binary")); /* adds a NUL, which some drivers omit */
    /* The parameter is an array of pointers, one for each device of the program; our programs have one
     * device. */
    OCL_CHECK(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, NULL),
              "asking for a program's binary");
    *out = CLT_TAKE(data);
    return CLT_OK;
}

const char *ocl_program_describe(const ocl_program *program, char out[OCL_BINARY_TEXT])
{
    size_t size = 0;
    CLT_FREED char *data = NULL;
    out[0] = '\0';
    if (ocl_program_binary(program->program, &data, &size) == CLT_OK)
        ocl_binary_describe(data, size, out);
    clt_error_clear();
    return out;
}
