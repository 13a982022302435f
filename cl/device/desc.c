/* SPDX-License-Identifier: Apache-2.0
 *
 * Device descriptions as plain data: the generic description, capability lists as text, and matching a SPEC
 * with descriptions. Nothing here calls OpenCL, so that planning and its tests need no driver. */
#include "cl/device/internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/hash.h"

static const char *const cap_names[] = {
#define OCL_UNIT(name, caps) caps
#define OCL_UNIT_CAP(id, name, text) name,
    OCL_CAP_MAP(OCL_UNIT_CAP)
#include "cl/device/matrix_units.def"
};

void ocl_desc_generic(ocl_device_desc *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->spec, sizeof out->spec, "-");
    snprintf(out->name, sizeof out->name, "generic GPU");
    snprintf(out->vendor, sizeof out->vendor, "none");
    snprintf(out->driver, sizeof out->driver, "none");
    snprintf(out->version, sizeof out->version, "OpenCL 1.2");
    snprintf(out->platform, sizeof out->platform, "none");
    out->is_gpu = true;
    out->caps = OCL_CAP_LOCAL | OCL_CAP_WG256;
    out->compute_units = 32;
    out->max_clock_mhz = 1500;
    out->vector_floats = 1;
    out->max_work_group = 256;
    out->max_work_item[0] = out->max_work_item[1] = out->max_work_item[2] = 256;
    out->local_bytes = out->local_proven_bytes = 32 << 10;
    out->constant_bytes = 64 << 10;
    out->global_bytes = out->usable_bytes = UINT64_C(8) << 30;
    out->max_alloc_bytes = UINT64_C(2) << 30;
    out->align_bytes = 512;
    out->profiling_resolution_ns = 1000.0;
}

const char *ocl_cap_name(int index)
{
    return index >= 0 && index < OCL_CAP_COUNT ? cap_names[index] : "?";
}

const char *ocl_caps_text(uint32_t caps, char *buffer, size_t size)
{
    size_t used = 0;
    if (size == 0)
        return buffer;
    buffer[0] = '\0';
    for (int i = 0; i < OCL_CAP_COUNT; i++) {
        if (!(caps & (1u << i)))
            continue;
        int n = snprintf(buffer + used, size - used, "%s%s", used ? "," : "", cap_names[i]);
        if (n < 0 || (size_t)n >= size - used)
            break;
        used += (size_t)n;
    }
    return buffer;
}

const char *ocl_masked_text(const ocl_device_desc *device, char *buffer, size_t size)
{
    char limits[OCL_SIZE_LIMITS_TEXT];
    ocl_size_limits_text(&device->limits, limits, sizeof limits);
    ocl_caps_text(device->masked_caps, buffer, size);
    size_t used = strlen(buffer);
    snprintf(buffer + used, size - used, "%s%s", used > 0 && limits[0] ? "," : "", limits);
    return buffer;
}

static clt_status parse_cap(const char *token, uint32_t *bits)
{
    if (strcmp(token, "all") == 0) {
        *bits = OCL_CAPS_ALL;
        return CLT_OK;
    }
    for (int i = 0; i < OCL_CAP_COUNT; i++) {
        if (strcmp(token, cap_names[i]) == 0) {
            *bits = 1u << i;
            return CLT_OK;
        }
    }
    const char *nearest = clt_nearest_name(token, cap_names, OCL_CAP_COUNT);
    char known[256];
    CLT_FAIL(CLT_EUSAGE, "reading a capability list: there is no capability '%s'%s%s%s; known: all,none,%s",
             token, nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "",
             ocl_caps_text(OCL_CAPS_ALL, known, sizeof known));
}

clt_status ocl_caps_parse(const char *text, uint32_t *mask)
{
    return ocl_caps_parse_limits(text, mask, NULL);
}

clt_status ocl_caps_parse_limits(const char *text, uint32_t *mask, ocl_size_limits *limits)
{
    uint32_t result = 0;
    bool first = true;
    const char *at = text;
    for (;;) {
        size_t length = strcspn(at, ",");
        const char *start = at;
        at += length;
        while (length > 0 && isspace((unsigned char)*start)) {
            start++;
            length--;
        }
        while (length > 0 && isspace((unsigned char)start[length - 1]))
            length--;
        bool minus = length > 0 && *start == '-';
        char token[64];
        snprintf(token, sizeof token, "%.*s", (int)(length > 63 ? 63 : length) - minus, start + minus);
        if (token[0] == '\0')
            CLT_FAIL(CLT_EUSAGE,
                     "reading the capability list '%s': a name is missing; write for example 'local,wg256', "
                     "'-fp64', 'all' or 'none'",
                     text);
        if (limits != NULL && strchr(token, '=') != NULL) {
            CLT_TRY(ocl_size_limits_read(token, limits));
        } else {
            uint32_t bits = 0;
            if (strcmp(token, "none") != 0)
                CLT_TRY(parse_cap(token, &bits));
            if (first && minus) /* a list that starts with "-" means all except what it removes */
                result = OCL_CAPS_ALL;
            result = minus ? result & ~bits : result | bits;
            first = false;
        }
        if (*at == '\0')
            break;
        at++;
    }
    *mask = first ? OCL_CAPS_ALL : result; /* a list of limits alone masks no capability */
    return CLT_OK;
}

const char *ocl_quirk_name(uint32_t bit)
{
    switch (bit) {
    case OCL_QUIRK_POLL_EVENTS:
        return "poll_events";
    case OCL_QUIRK_FILL_BY_KERNEL:
        return "fill_by_kernel";
    case OCL_QUIRK_NO_SUB_BUFFERS:
        return "no_sub_buffers";
    case OCL_QUIRK_MAX_ALLOC_SOFT:
        return "max_alloc_soft";
    case OCL_QUIRK_FLUSH_IS_FINISH:
        return "flush_is_finish";
    case OCL_QUIRK_NO_SHUFFLES:
        return "no_shuffles";
    case OCL_QUIRK_SERIAL_BUILDS:
        return "serial_builds";
    case OCL_QUIRK_OWN_CACHE:
        return "own_cache";
    case OCL_QUIRK_STALE_CACHE:
        return "stale_cache";
    case OCL_QUIRK_NO_EMULATED_ATTENTION:
        return "no_emulated_attention";
    case OCL_QUIRK_LASTING_FAILURES:
        return "lasting_failures";
    case OCL_QUIRK_PLAIN_TURNS:
        return "plain_turns";
    default:
        return "?";
    }
}

/* SPEC matching */

/* SPEC_NAME: a device's whole name. SPEC_PART: a part of it. */
typedef enum spec_kind { SPEC_DEFAULT, SPEC_CPU, SPEC_GPU, SPEC_INDEX, SPEC_NAME, SPEC_PART } spec_kind;

/* Whether the text is digits, a colon and digits, such as "3:1". */
static bool parse_index_spec(const char *spec, long *platform, long *device)
{
    char *end;
    if (!isdigit((unsigned char)spec[0]))
        return false;
    *platform = strtol(spec, &end, 10);
    if (*end != ':' || !isdigit((unsigned char)end[1]))
        return false;
    *device = strtol(end + 1, &end, 10);
    return *end == '\0';
}

static spec_kind classify_spec(const char *spec)
{
    long platform, device;
    if (spec == NULL || spec[0] == '\0')
        return SPEC_DEFAULT;
    if (strcasecmp(spec, "cpu") == 0)
        return SPEC_CPU;
    if (strcasecmp(spec, "gpu") == 0)
        return SPEC_GPU;
    return parse_index_spec(spec, &platform, &device) ? SPEC_INDEX : SPEC_PART;
}

bool ocl_spec_names_one(const char *spec)
{
    spec_kind kind = classify_spec(spec);
    return kind == SPEC_INDEX || kind == SPEC_PART;
}

static bool spec_accepts(spec_kind kind, const char *spec, const ocl_device_desc *desc)
{
    switch (kind) {
    case SPEC_CPU:
        return desc->is_cpu;
    case SPEC_GPU:
        return desc->is_gpu;
    case SPEC_INDEX: {
        char canonical[sizeof desc->spec];
        long platform, device;
        parse_index_spec(spec, &platform, &device);
        snprintf(canonical, sizeof canonical, "%ld:%ld", platform, device);
        return strcmp(desc->spec, canonical) == 0;
    }
    case SPEC_NAME:
        return strcasecmp(desc->name, spec) == 0;
    case SPEC_PART:
        return strcasestr(desc->name, spec) != NULL;
    default:
        return true;
    }
}

static clt_status fail_no_match(const ocl_device_desc *const *list, int count, const char *spec)
{
    clt_str text = {0};
    for (int i = 0; i < count; i++)
        clt_str_printf(&text, "%s%s '%s' (%s)", i ? ", " : "", list[i]->spec, list[i]->name,
                       list[i]->is_gpu   ? "gpu"
                       : list[i]->is_cpu ? "cpu"
                                         : "accelerator");
    clt_status status = clt_fail(
        CLT_EDEVICE, __FILE__, __LINE__,
        "choosing a device: none matches '%s'; there is %s; give PLATFORM:DEVICE, cpu, gpu or a part of "
        "one of these names",
        spec, count > 0 && text.text ? text.text : "none (run 'cltrain doctor')");
    clt_str_free(&text);
    return status;
}

static bool same_platform(const ocl_device_desc *a, const ocl_device_desc *b)
{
    size_t na = strcspn(a->spec, ":"), nb = strcspn(b->spec, ":");
    return na == nb && memcmp(a->spec, b->spec, na) == 0;
}

/* The kind of SPEC: the names of these devices decide whether it is a whole name or a part of one. A whole
 * name comes before a part, because one device's name may be a part of another's: "RTX 4060" and "RTX 4060
 * Ti". */
static spec_kind kind_of_spec(const ocl_device_desc *const *list, int count, const char *spec)
{
    spec_kind kind = classify_spec(spec);
    for (int i = 0; i < count && kind == SPEC_PART; i++)
        if (spec_accepts(SPEC_NAME, spec, list[i]))
            kind = SPEC_NAME;
    return kind;
}

clt_status ocl_spec_match(const ocl_device_desc *const *list, int count, const char *spec, int local_rank,
                          int *index, int *matches)
{
    spec_kind kind = kind_of_spec(list, count, spec);
    if (kind == SPEC_DEFAULT) { /* the first GPU, else the CPU, else the first device */
        bool any_gpu = false, any_cpu = false;
        for (int i = 0; i < count; i++) {
            any_gpu = any_gpu || list[i]->is_gpu;
            any_cpu = any_cpu || list[i]->is_cpu;
        }
        kind = any_gpu ? SPEC_GPU : any_cpu ? SPEC_CPU : SPEC_DEFAULT;
    }
    int first = -1, found = 0;
    for (int i = 0; i < count; i++) {
        if (!spec_accepts(kind, spec, list[i]))
            continue;
        if (first < 0)
            first = i;
        /* Ranks are assigned to devices of one platform only, because another platform may list the same
         * hardware again. */
        found += same_platform(list[i], list[first]);
    }
    if (first < 0)
        return fail_no_match(list, count, spec ? spec : "");
    int want = local_rank > 0 ? local_rank % found : 0;
    for (int i = first; i < count; i++) {
        if (spec_accepts(kind, spec, list[i]) && same_platform(list[i], list[first]) && want-- == 0) {
            *index = i;
            break;
        }
    }
    *matches = found;
    return CLT_OK;
}

/* Files of a device */

void ocl_device_file_name(const ocl_device_desc *d, char *out, size_t size)
{
    char base[48], units[16], text[CLT_HASH64_TEXT];
    size_t n = 0;
    clt_hash64_state state;
    for (const char *at = d->name; *at != '\0' && n + 1 < sizeof base; at++) {
        if (isalnum((unsigned char)*at))
            base[n++] = (char)tolower((unsigned char)*at);
        else if (n > 0 && base[n - 1] != '-')
            base[n++] = '-';
    }
    while (n > 0 && base[n - 1] == '-')
        n--;
    base[n] = '\0';
    snprintf(units, sizeof units, "%u", d->compute_units);
    clt_hash64_begin(&state);
    clt_hash64_add(&state, d->platform, strlen(d->platform) + 1);
    clt_hash64_add(&state, d->name, strlen(d->name) + 1);
    clt_hash64_add(&state, d->driver, strlen(d->driver) + 1);
    clt_hash64_add(&state, units, strlen(units) + 1);
    snprintf(out, size, "%s-%s.json", n > 0 ? base : "device", clt_hash64_text(clt_hash64_end(&state), text));
}
