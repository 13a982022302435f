/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of cards, and step times estimated from it. */
#include "engine/train/inspect/cards.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cl/device/matrix_unit.h"

/* From data sheets of NVIDIA and AMD; cards that exist as SXM and PCIe are SXM unless the name says PCIe.
 * Memory: as a driver reports it where that is known, else the data sheet's size. */
const clt_card clt_cards[] = {
    {"H200", 90, 132, 140.4, 4800, 67, 494.5, 989},    {"H100", 90, 132, 79.6, 3350, 67, 494.5, 989},
    {"H100-PCIe", 90, 114, 79.6, 2000, 51, 378, 756},  {"A100", 80, 108, 80, 2039, 19.5, 156, 312},
    {"A100-40GB", 80, 108, 40, 1555, 19.5, 156, 312},  {"A10", 86, 72, 22.5, 600, 31.2, 62.5, 125},
    {"A10G", 86, 80, 22.5, 600, 35, 35, 70},           {"L40S", 89, 142, 45, 864, 91.6, 183, 362},
    {"L4", 89, 58, 22.5, 300, 30.3, 60, 121},          {"V100", 70, 80, 16, 900, 15.7, 0, 125},
    {"V100-32GB", 70, 80, 32, 900, 15.7, 0, 125},      {"T4", 75, 40, 15, 320, 8.1, 0, 65},
    {"RTX4090", 89, 128, 24, 1008, 82.6, 82.6, 165.2}, {"RTX3090", 86, 82, 24, 936, 35.6, 35.6, 71},
    {"MI300X", 0, 304, 192, 5300, 163.4, 0, 0},        {0}};

#define DRIVER_SHARE 0.05   /* share of the memory that the driver keeps */
#define LAUNCH_SECONDS 3e-6 /* time between the starts of two consecutive kernels */
#define LARGEST_SHARE 4     /* NVIDIA's driver limits one buffer to a quarter of the memory */
#define GIB 1073741824.0

/* Returns NULL if no card has this name. */
static const clt_card *look_up(const char *name, size_t length)
{
    for (const clt_card *c = clt_cards; c->name; c++)
        if (strlen(c->name) == length && strncasecmp(c->name, name, length) == 0)
            return c;
    return NULL;
}

bool clt_card_is_known(const char *name)
{
    return look_up(name, strlen(name)) != NULL;
}

clt_status clt_card_find(const char *name, size_t length, const clt_card **out)
{
    CLT_SCOPED(clt_str) known = {0};
    *out = look_up(name, length);
    if (*out)
        return CLT_OK;
    for (const clt_card *c = clt_cards; c->name; c++)
        clt_str_printf(&known, "%s%s", c == clt_cards ? "" : ", ", c->name);
    CLT_TRY(clt_str_check(&known));
    CLT_FAIL(CLT_EUSAGE, "there is no card '%.*s' in the table; it has %s", (int)(length < 40 ? length : 40),
             name, known.text);
}

static uint32_t units_of(int generation)
{
    return generation >= 90 ? OCL_CAP_MMA_F16 | OCL_CAP_MMA_BF16 | OCL_CAP_MMA_TF32 | OCL_CAP_WGMMA |
                                  OCL_CAP_WGMMA_LARGE | OCL_CAP_WGMMA_WIDE
           : generation >= 80 ? OCL_CAP_MMA_F16 | OCL_CAP_MMA_BF16 | OCL_CAP_MMA_TF32
           : generation >= 75 ? OCL_CAP_MMA_F16_K8
           : generation >= 70 ? OCL_CAP_WMMA_F16
                              : 0;
}

/* Local memory of a work-group in KiB (CUDA's programming guide, table of compute capabilities). */
static uint64_t local_kib(int generation)
{
    return generation == 90                       ? 227
           : generation == 80                     ? 163
           : generation == 86 || generation == 89 ? 99
           : generation == 75                     ? 64
           : generation == 70                     ? 96
                                                  : 48;
}

ocl_device_desc clt_card_device(const clt_card *c)
{
    ocl_device_desc d;
    ocl_desc_generic(&d);
    snprintf(d.name, sizeof d.name, "%s", c->name);
    d.compute_units = (uint32_t)c->compute_units;
    d.compute_capability = (uint32_t)c->generation;
    d.caps |= units_of(c->generation);
    if (c->generation > 0) {
        d.max_work_group = 1024;
        d.caps |= OCL_CAP_PTX;
        d.local_bytes = 48 << 10;
        d.local_proven_bytes = local_kib(c->generation) << 10;
        d.local_retargeted_bytes = c->generation == 90 ? d.local_proven_bytes : 0;
    }
    d.global_bytes = (uint64_t)(c->memory_gib * GIB);
    d.usable_bytes = (uint64_t)(c->memory_gib * GIB * (1 - DRIVER_SHARE));
    d.max_alloc_bytes = d.global_bytes / LARGEST_SHARE;
    return d;
}

typedef struct rates {
    double f32, units, bytes; /* limits: flops, flops of matrix units, bytes; each per second */
} rates;

static bool uses_units(const ocl_command *command)
{
    for (const ocl_matrix_unit *const *u = ocl_matrix_units; *u; u++)
        if (strncmp(command->variant, (*u)->name, strlen((*u)->name)) == 0)
            return true;
    return false;
}

static double seconds_of(const void *context, const ocl_command *command)
{
    const rates *r = context;
    double rate = r->units > 0 && uses_units(command) ? r->units : r->f32;
    double work = fmax(command->flops / rate, (double)ocl_command_bytes(command) / r->bytes);
    return fmax(work, LAUNCH_SECONDS);
}

double clt_card_step(const clt_card *c, const clt_description *d, double reach)
{
    double units = d->job->storage == CLT_F32 ? c->tf32_tflops : c->half_tflops;
    const rates r = {1e12 * reach * c->f32_tflops, 1e12 * reach * units, 1e9 * reach * c->gbs};
    return clt_plan_sum(d->job->train, seconds_of, &r);
}
