/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameter sets for CLBlast's GEMM kernels, worth trying on devices for which the library has none of its
 * own (it then falls back to sets that suit hardly anything). Each obeys the library's rules for its kernel;
 * which one is good is measured, never assumed. Only the numbers are here: cl/gemm/blas_clblast.c calls the
 * library. */
#include "cl/gemm/gemm.h"

#include <string.h>

/* Indirect kernel: packed operands, large products. Work-groups of MDIMC x NDIMC compute tiles of MWG x NWG.
 */
static const char *const xgemm_names[] = {"GEMMK", "KREG", "KWG", "KWI", "MDIMA", "MDIMC", "MWG", "NDIMB",
                                          "NDIMC", "NWG",  "SA",  "SB",  "STRM",  "STRN",  "VWM", "VWN"};
static const size_t xgemm_sets[][16] = {
    {0, 1, 32, 2, 8, 8, 32, 8, 8, 32, 0, 0, 0, 0, 4, 4},       /* small tiles, nothing in local memory */
    {0, 1, 32, 2, 8, 8, 64, 8, 8, 64, 0, 0, 0, 0, 4, 4},       /* 8 x 8 a work-item, from the caches */
    {0, 1, 32, 2, 16, 16, 64, 16, 16, 64, 1, 1, 0, 0, 2, 2},   /* 4 x 4 a work-item, local memory */
    {0, 1, 32, 2, 32, 16, 128, 8, 16, 64, 1, 1, 0, 1, 4, 2},   /* 8 x 4 */
    {0, 1, 16, 2, 16, 16, 128, 16, 16, 128, 1, 1, 0, 0, 4, 4}, /* 8 x 8 */
    {1, 4, 1, 1, 4, 4, 32, 8, 8, 32, 0, 0, 0, 0, 4, 4},        /* registers along k */
    {1, 8, 1, 1, 8, 8, 64, 8, 8, 64, 0, 0, 0, 0, 4, 4},
};

/* Direct kernel: operands where they lie, small products. */
static const char *const direct_names[] = {"KWID", "MDIMAD", "MDIMCD", "NDIMBD", "NDIMCD",
                                           "PADA", "PADB",   "VWMD",   "VWND",   "WGD"};
static const size_t direct_sets[][10] = {
    {2, 8, 8, 8, 8, 1, 1, 1, 1, 8},      {2, 8, 8, 8, 8, 1, 1, 2, 2, 16}, {2, 8, 8, 8, 8, 1, 1, 4, 4, 32},
    {8, 16, 16, 16, 16, 1, 1, 2, 2, 32}, {8, 8, 8, 8, 8, 1, 1, 4, 4, 64}, {8, 16, 16, 16, 16, 1, 1, 4, 4, 64},
};

/* From this size on (the cube root of m*n*k) the indirect kernel is used. */
static const char *const switch_names[] = {"XGEMM_MIN_INDIRECT_SIZE"};
static const size_t switch_sets[][1] = {{1}, {128}, {256}, {512}, {1024}, {2048}};

#define COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))

bool ocl_clblast_get_set(ocl_clblast_kernel kernel, int number, ocl_clblast_set *out)
{
    static const struct {
        const char *kernel;
        const char *const *names;
        const size_t *values;
        int count, sets;
    } tables[] = {
        {"Xgemm", xgemm_names, xgemm_sets[0], COUNT(xgemm_names), COUNT(xgemm_sets)},
        {"XgemmDirect", direct_names, direct_sets[0], COUNT(direct_names), COUNT(direct_sets)},
        {"GemmRoutine", switch_names, switch_sets[0], COUNT(switch_names), COUNT(switch_sets)},
    };
    if ((unsigned)kernel > OCL_CLBLAST_SWITCH || number < 1 || number > tables[kernel].sets)
        return false;
    memset(out, 0, sizeof *out);
    out->kernel = tables[kernel].kernel;
    out->names = tables[kernel].names;
    out->count = tables[kernel].count;
    memcpy(out->values, tables[kernel].values + (number - 1) * out->count,
           (size_t)out->count * sizeof(size_t));
    return true;
}

/* One more value than there are sets: 0 is the library's own. */
static const ocl_tunable tunables[] = {{"xgemm", COUNT(xgemm_sets) + 1, {0, 1, 2, 3, 4, 5, 6, 7}},
                                       {"direct", COUNT(direct_sets) + 1, {0, 1, 2, 3, 4, 5, 6}},
                                       {"switch", COUNT(switch_sets) + 1, {0, 1, 2, 3, 4, 5, 6}},
                                       {0}};
static const ocl_variant parameters = {.name = "parameters", .needs = OCL_CAP_LOCAL, .tunables = tunables};
const ocl_variant *const ocl_clblast_parameters[] = {&parameters, NULL};

#ifndef CLT_HAVE_CLBLAST
clt_status ocl_clblast_configure(ocl_device *device, const char *text)
{
    (void)device;
    if (text != NULL && text[0] != '\0')
        CLT_FAIL(CLT_EUNSUPPORTED, "giving CLBlast parameters: this build has no CLBlast");
    return CLT_OK;
}

void ocl_clblast_configured(const ocl_device *device, int set[3])
{
    (void)device;
    memset(set, 0, 3 * sizeof set[0]);
}
#endif
