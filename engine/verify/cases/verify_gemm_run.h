/* SPDX-License-Identifier: Apache-2.0
 *
 * One run of a product by a GEMM backend: verify_gemm.c makes and judges it, verify_gemm_additions.c judges
 * its additional results. */
#ifndef ENGINE_VERIFY_CASES_VERIFY_GEMM_RUN_H
#define ENGINE_VERIFY_CASES_VERIFY_GEMM_RUN_H

#include "cl/gemm/gemm_forms.h"
#include "cl/gemm_bench/gemm_bench.h"
#include "engine/verify/cases/verify_gemm_cases.h"
#include "engine/verify/verify_internal.h"

typedef struct clt_gemm_run {
    clt_verify_session *session;
    clt_verify_outcome *outcome;
    const clt_gemm_case *problem;
    const ocl_variant *backend;
    const ocl_choice *choice; /* the tunables that the backend must use; NULL: its standard choice */
    bool integers;
    ocl_gemm_bench *bench;
    ocl_gemm_ready *ready; /* NULL if the backend refused */
} clt_gemm_run;

/* The device for which the product is planned: the checked one, with the number of compute units that the
 * case asks for. */
static inline ocl_device_desc clt_gemm_run_desc(const clt_gemm_run *r)
{
    ocl_device_desc desc = clt_verify_desc(r->session);
    if (r->problem->units > 0)
        desc.compute_units = (uint32_t)r->problem->units;
    return desc;
}

static inline bool clt_gemm_has_windows(const clt_gemm_case *c)
{
    return c->windows.operand != OCL_WINDOWS_NONE;
}

/* Checks the case in every mode, by the backend's own choice or with the tunables of `choice`. */
clt_status clt_gemm_check_modes(clt_verify_session *session, const clt_gemm_case *c, const char *label,
                                const ocl_variant *backend, const ocl_choice *choice);
/* Checks the case with all forms that backends would not choose themselves (verify_gemm_forms.c). */
clt_status clt_gemm_check_forms(clt_verify_session *session, const clt_gemm_case *c);

/* Checks the results besides C and pre: moments of C's columns, and sums of A's lines. c: the stored values
 * of C, in its order. */
clt_status clt_gemm_judge_additions(clt_gemm_run *run, const double *c);
/* Reads the additional results bit by bit, for a comparison of two runs; the caller frees *out. Results that
 * the backend did not compute are zero bytes. */
clt_status clt_gemm_read_additions(clt_gemm_run *run, double **out, size_t *bytes);

#endif
