/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of a reduction, and the page about them in the vendor's folder. */
#ifndef ENGINE_VERIFY_REDUCE_REDUCE_REPORT_H
#define ENGINE_VERIFY_REDUCE_REDUCE_REPORT_H

#include "engine/verify/reduce/reduce_options.h"
#include "engine/verify/reduce/slots.h"

/* The result of a trial. */
typedef enum clt_verdict {
    VERDICT_PASS,
    VERDICT_SKIP,  /* the variant refuses the case */
    VERDICT_WRONG, /* wrong values, whose place in memory is known */
    VERDICT_OTHER, /* a failure without a place in memory */
    VERDICT_ERROR, /* a call failed */
    VERDICT_CRASH,
    VERDICT_HANG,
    VERDICT_UNWRITTEN /* the folder could not be written, `status` and `reason` say why */
} clt_verdict;

typedef struct clt_trial {
    clt_verdict verdict;
    clt_status status;
    double error, limit;
    char reason[1024];
} clt_trial;

#define CLT_PASSED_KEPT 64

/* The results of a reduction. */
typedef struct clt_reduction {
    clt_slots first, now;              /* the original case, and the smallest one that fails */
    clt_slots passed[CLT_PASSED_KEPT]; /* cases that pass */
    int n_passed, trials;
    clt_trial failure; /* of `now` */
    ocl_device_desc device;
} clt_reduction;

/* Appends a case's numbers: "x0.dim0=1 x0.dim1=3". */
void clt_slots_text(const clt_slots *slots, clt_str *out);
/* Writes report.md into the folder. CLT_ESTORAGE. */
clt_status clt_reduce_report(const clt_reduce_options *options, const clt_reduction *reduction);

#endif
