/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of the device's built-in functions and operators on f32, each against its exact value within the
 * limits of the OpenCL specification. Knows no op. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/verify/device/device_checks.h"

typedef struct real_function {
    int number;
    const char *name;
    int arguments;
    double limit; /* as in BUILTIN_REALS */
    uint32_t widths;
} real_function;

#define ROW(id, name, arguments, limit, widths) {id, name, arguments, limit, widths},
static const real_function functions[] = {BUILTIN_REALS(ROW)};

/* How a function is checked: the numbers in a vector, the density of samples, and whether the program is
 * built with correctly rounded divisions and square roots. */
typedef struct real_form {
    const char *name;
    uint32_t width;
    bool dense, exact, small;
} real_form;
static const real_form forms[] = {{"scalar", 1, false, false, true},
                                  {"quads", 4, false, false, true},
                                  {"lanes", 16, false, false, true},
                                  {"exact", 1, false, true, true},
                                  {"dense", 1, true, false, false}};

static bool has_form(const real_function *f, const real_form *form)
{
    if (form->exact)
        return f->number == BUILTIN_SQRT || f->number == BUILTIN_DIVIDE;
    return (f->widths & form->width) != 0;
}

bool clt_device_has_width(const clt_verify_session *session, uint32_t width, clt_verify_outcome *outcome)
{
    if (width == 16 && session->options->own_forms && !ocl_prefers_lanes(&session->desc))
        clt_verify_set(outcome, CLT_VERIFY_SKIP, "no training on this device uses vectors of 16");
    else
        (void)clt_verify_offers(session, "vectors of 16", width == 16 ? OCL_CAP_WIDE_VECTORS : 0, outcome);
    return !clt_verify_bad(outcome);
}

static clt_status run(clt_verify_session *session, const real_function *f, const real_form *form,
                      const clt_real_samples *samples, float *y)
{
    const uint32_t n = samples->count, items = n / form->width;
    ocl_command_list list;
    ocl_emitter e;
    CLT_TRY(clt_verify_command_begin(session, f->name, &list, &e));
    ocl_kernel_begin(&e, "builtin_reals", "builtin_reals");
    ocl_define(&e, "WIDTH", form->width);
    if (form->exact)
        ocl_build_option(&e, "-cl-fp32-correctly-rounded-divide-sqrt");
    ocl_arg_out(&e, 0, CLT_F32, n);
    ocl_arg_in(&e, 1, CLT_F32, 3 * (uint64_t)n);
    ocl_arg_u32(&e, items);
    ocl_arg_u32(&e, (uint32_t)f->number);
    ocl_kernel_end_items(&e, items, 0, 0.0);
    return clt_verify_command_answer(session, &e, samples->x, 3 * (size_t)n * sizeof *samples->x, y,
                                     n * sizeof *y);
}

/* Writes into the outcome that the function is wrong for the arguments x. */
static void tell(const real_function *f, const real_form *form, const float x[3], float got,
                 long double exact, uint32_t wrong, uint32_t count, clt_verify_outcome *outcome)
{
    char arguments[160] = "", limit[48];
    for (int k = 0; k < f->arguments; k++) {
        size_t used = strlen(arguments);
        snprintf(arguments + used, sizeof arguments - used, "%s%a (%.9g)", k > 0 ? ", " : "", (double)x[k],
                 (double)x[k]);
    }
    if (outcome->limit > 0.0)
        snprintf(limit, sizeof limit, "the limit is %g", outcome->limit);
    else
        snprintf(limit, sizeof limit, "it must be %s",
                 f->limit > 0.0 || form->exact ? "correctly rounded" : "exact");
    clt_verify_set(outcome, CLT_VERIFY_FAIL,
                   "%s of %s is %a (%.9g), the exact value %.17g: an error of %.4g ulp, and %s; %u of %u "
                   "values are wrong",
                   f->name, arguments, (double)got, (double)got, (double)exact, outcome->error, limit, wrong,
                   count);
}

static void judge(clt_verify_session *session, const real_function *f, const real_form *form,
                  const clt_real_samples *samples, const float *y, clt_verify_outcome *outcome)
{
    const uint32_t n = samples->count;
    const double limit = f->limit <= 0.5 || form->exact ? 0.0 : f->limit;
    const bool plain_turns = (session->desc.quirks & OCL_QUIRK_PLAIN_TURNS) &&
                             (f->number == BUILTIN_SINPI || f->number == BUILTIN_COSPI);
    uint32_t worst = 0, wrong = 0;
    long double worst_exact = 0.0L;
    outcome->limit = limit;
    for (uint32_t i = 0; i < n; i++) {
        const float x[3] = {samples->x[i], samples->x[n + i], samples->x[2 * (size_t)n + i]};
        long double exact;
        double error = clt_real_function_error(f->number, x, y[i], !session->desc.keeps_subnormals, &exact);
        if (plain_turns)
            error = clt_real_turns_error(f->number, x[0], y[i]);
        if (form->exact && error <= 0.5)
            error = 0.0;
        wrong += error > limit;
        if (error > outcome->error) {
            outcome->error = error;
            worst = i;
            worst_exact = exact;
        }
    }
    clt_verify_add_bits(outcome, y, n * sizeof *y);
    if (wrong > 0) {
        const float x[3] = {samples->x[worst], samples->x[n + worst], samples->x[2 * (size_t)n + worst]};
        tell(f, form, x, y[worst], worst_exact, wrong, n, outcome);
    }
}

static clt_status check(clt_verify_session *session, const real_function *f, const real_form *form,
                        clt_verify_outcome *outcome)
{
    clt_real_samples samples = {NULL, 0};
    if (form->exact && !session->desc.rounds_correctly) {
        clt_verify_set(outcome, CLT_VERIFY_SKIP,
                       "the device has no option for correctly rounded division and square root");
        return CLT_OK;
    }
    if (!clt_device_has_width(session, form->width, outcome))
        return CLT_OK;
    CLT_TRY(clt_real_samples_make(session->seed, f->arguments, form->dense, &samples));
    CLT_FREED float *x = samples.x, *y = NULL;
    CLT_TRY(clt_alloc(&y, samples.count, sizeof *y, "results of a built-in function"));
    CLT_TRY(run(session, f, form, &samples, y));
    judge(session, f, form, &samples, y, outcome);
    (void)x;
    return CLT_OK;
}

clt_status clt_verify_reals(clt_verify_session *session)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        for (size_t k = 0; k < sizeof forms / sizeof forms[0]; k++) {
            clt_verify_item item = {"builtins",         functions[i].name, forms[k].name,
                                    CLT_VERIFY_CORRECT, forms[k].small,    false};
            clt_verify_outcome outcome;
            if (has_form(&functions[i], &forms[k]) && clt_verify_wants(session, &item, &outcome))
                CLT_TRY(
                    clt_verify_finish(session, &outcome, check(session, &functions[i], &forms[k], &outcome)));
        }
    return CLT_OK;
}
