/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures as data, for `verify --reduce`: cases that are altered before they run, and wrong values with
 * their place in the device's memory. Without a reducer nothing here does anything. */
#include "engine/verify/verify_internal.h"

clt_status clt_verify_alter(const clt_verify_session *session, clt_verify_case_kind kind, void *copy)
{
    const clt_verify_reducer *reducer = session->options->reducer;
    return reducer ? reducer->alter(reducer->context, kind, copy) : CLT_OK;
}

void clt_verify_from(clt_verify_outcome *outcome, clt_verify_source source)
{
    outcome->source = source;
    outcome->located = true;
}

void clt_verify_report_wrong(clt_verify_outcome *outcome, clt_verify_wrong *wrong)
{
    if (!outcome->reducer || !outcome->located || outcome->reported)
        return;
    wrong->source = outcome->source;
    outcome->reported = true;
    outcome->reducer->wrong(outcome->reducer->context, wrong);
}

void clt_verify_report_wrong_value(clt_verify_outcome *outcome, size_t at, double got, double want,
                                   double bound)
{
    const double none = 0.0;
    clt_verify_source source = outcome->source;
    source.offset += at * clt_dtype_bytes(source.dtype);
    source.index = NULL;
    if (!outcome->located)
        return;
    outcome->source = source;
    clt_verify_report_wrong(
        outcome,
        &(clt_verify_wrong){
            .what = "the value", .n = 1, .got = &got, .want = &want, .bound = &bound, .storage = &none});
}
