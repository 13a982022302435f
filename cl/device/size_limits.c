/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits that make a device act as a smaller one: parses them from text, writes them as text, and applies
 * them to a description, which planning and launching obey. Nothing here calls OpenCL. */
#include "cl/device/device.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Name, least and largest value, and whether the value must be a power of two. */
static const struct {
    const char *name;
    size_t offset;
    uint64_t least, most;
    bool power;
} known[] = {{"workgroup", offsetof(ocl_size_limits, workgroup), 1, UINT32_MAX, true},
             {"local", offsetof(ocl_size_limits, local), 1024, UINT64_MAX / 2, false},
             {"buffer", offsetof(ocl_size_limits, buffer), 65536, UINT64_MAX / 2, false},
             {"memory", offsetof(ocl_size_limits, memory), 65536, UINT64_MAX / 2, false},
             {"align", offsetof(ocl_size_limits, align), 64, 1 << 20, true}};
#define KNOWN (sizeof known / sizeof known[0])

static uint64_t *value_of(ocl_size_limits *limits, size_t i)
{
    return (uint64_t *)(void *)((char *)limits + known[i].offset);
}

/* Parses digits, possibly with K, M or G. False: the text is something else, or the number is too large. */
static bool read_size(const char *text, uint64_t *out)
{
    char *end;
    if (text[0] < '0' || text[0] > '9' || strlen(text) > 18)
        return false;
    uint64_t value = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    *out = value << shift;
    return end[shift != 0] == '\0' && *out >> shift == value;
}

clt_status ocl_size_limits_read(const char *word, ocl_size_limits *out)
{
    const char *names[KNOWN];
    char name[32];
    uint64_t value = 0;
    size_t length = strcspn(word, "=");
    snprintf(name, sizeof name, "%.*s", (int)(length > 31 ? 31 : length), word);
    for (size_t i = 0; i < KNOWN; i++) {
        names[i] = known[i].name;
        if (strcmp(name, known[i].name) != 0)
            continue;
        bool good = word[length] == '=' && read_size(word + length + 1, &value);
        if (!good || value < known[i].least || value > known[i].most ||
            (known[i].power && (value & (value - 1)) != 0))
            CLT_FAIL(CLT_EUSAGE,
                     "reading the limit '%s': it must be a number from %" PRIu64 " to %" PRIu64
                     "%s, such as %s",
                     word, known[i].least, known[i].most,
                     known[i].power ? " that is a power of two" : ", with K, M or G",
                     known[i].power ? "64" : "64K");
        *value_of(out, i) = value;
        return CLT_OK;
    }
    const char *nearest = clt_nearest_name(name, names, KNOWN);
    CLT_FAIL(CLT_EUSAGE,
             "reading the limit '%s': there is no limit of this name%s%s%s; known: workgroup, local, buffer, "
             "memory, align",
             word, nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "");
}

bool ocl_size_limits_any(const ocl_size_limits *limits)
{
    static const ocl_size_limits none;
    return memcmp(limits, &none, sizeof none) != 0;
}

const char *ocl_size_limits_text(const ocl_size_limits *limits, char *buffer, size_t size)
{
    ocl_size_limits copy = *limits;
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; i < KNOWN; i++) {
        uint64_t value = *value_of(&copy, i);
        unsigned shift = value % (1 << 30) == 0   ? 30
                         : value % (1 << 20) == 0 ? 20
                         : value % 1024 == 0      ? 10
                                                  : 0;
        if (value > 0 && used < size)
            used += (size_t)snprintf(buffer + used, size - used, "%s%s=%" PRIu64 "%.1s", used ? "," : "",
                                     known[i].name, value >> shift, &"\0KMG"[shift / 10]);
    }
    return buffer;
}

clt_status ocl_size_limits_use(const ocl_size_limits *limits)
{
    char text[OCL_SIZE_LIMITS_TEXT];
    if (!ocl_size_limits_any(limits))
        return CLT_OK;
    if (setenv(OCL_SIZE_LIMITS_VARIABLE, ocl_size_limits_text(limits, text, sizeof text), 1) != 0)
        CLT_FAIL(CLT_ENOMEM, "setting the environment variable " OCL_SIZE_LIMITS_VARIABLE);
    return CLT_OK;
}

clt_status ocl_size_limits_in_use(ocl_size_limits *out)
{
    const char *at = getenv(OCL_SIZE_LIMITS_VARIABLE);
    memset(out, 0, sizeof *out);
    while (at != NULL && *at != '\0') {
        char word[64];
        size_t length = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)(length > 63 ? 63 : length), at);
        CLT_TRY(clt_fail_prefix(ocl_size_limits_read(word, out),
                                "environment variable " OCL_SIZE_LIMITS_VARIABLE ": "));
        at += length + (at[length] == ',');
    }
    return CLT_OK;
}

/* Lowers a value to its limit. A value of 0 stays: it means unknown, or the same limit as other members. */
static void lower(uint64_t *value, uint64_t limit)
{
    if (limit > 0 && *value > limit)
        *value = limit;
}

void ocl_size_limits_apply(ocl_device_desc *desc)
{
    const ocl_size_limits *limits = &desc->limits;
    lower(&desc->max_work_group, limits->workgroup);
    for (int i = 0; i < 3; i++)
        lower(&desc->max_work_item[i], limits->workgroup);
    lower(&desc->kernel_group_limit, limits->workgroup);
    lower(&desc->larger_groups, limits->workgroup);
    lower(&desc->local_bytes, limits->local);
    lower(&desc->local_proven_bytes, limits->local);
    lower(&desc->local_retargeted_bytes, limits->local);
    lower(&desc->local_argument_bytes, limits->local);
    lower(&desc->max_alloc_bytes, limits->buffer);
    if (limits->buffer > 0)
        desc->quirks &= ~(uint32_t)OCL_QUIRK_MAX_ALLOC_SOFT;
    lower(&desc->usable_bytes, limits->memory);
    lower(&desc->max_alloc_bytes, limits->memory);
    if (limits->align > desc->align_bytes)
        desc->align_bytes = (uint32_t)limits->align;
}
