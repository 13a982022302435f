/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares parameters, their states and averages after an update with double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/verify/cases/verify_update_run.h"

/* Reference values and error bounds of a parameter's elements. A bound is relative to the size of the added
 * terms, not to their sum. */
typedef struct expected {
    double *got[3], *want[3], *bound[3]; /* p, m, v */
} expected;

static void expect_element(const clt_update_run *r, const clt_store_slot *slot, const clt_update_factors *f,
                           uint64_t i, expected *e)
{
    const clt_update_spec *spec = &r->c->spec;
    const double eps = CLT_VERIFY_EPS;
    uint64_t at = slot->offset + i;
    double p0 = (double)r->before[CLT_IMAGE_PARAM][slot->slab][at],
           m0 = (double)r->before[CLT_IMAGE_MOMENT1][slot->slab][at];
    double v0 = (double)r->before[CLT_IMAGE_MOMENT2][slot->slab][at],
           g = (double)r->before[CLT_IMAGE_GRAD][slot->slab][at];
    const double before[CLT_OPTIMIZER_STATES] = {m0, v0};
    double p = p0, state[CLT_OPTIMIZER_STATES] = {m0, v0}, d = fabs(g * f->gradient) + fabs(f->decay * p0);
    spec->optimizer->reference(spec->value, f, g, &p, state);
    double bound_m = eps * (8.0 * d + 4.0 * fabs(m0));
    e->want[0][i] = p;
    e->want[1][i] = state[0];
    e->want[2][i] = state[1];
    e->bound[0][i] =
        eps * (4.0 * fabs(p0) + (spec->optimizer->trust ? 80.0 : 16.0) * fabs(p - p0)) +
        f->lr * f->trust * spec->optimizer->spread(spec->value, f, bound_m, g * f->gradient, before, state);
    e->bound[1][i] = bound_m;
    e->bound[2][i] = eps * 8.0 * (v0 + d * d);
}

/* The trust ratio of a parameter, from its values before the step. */
static double trust_of(const clt_update_run *r, const clt_store_slot *slot, const clt_update_factors *f)
{
    const clt_update_spec *spec = &r->c->spec;
    double norm = 0.0, second_norm = 0.0;
    for (uint64_t at = slot->offset; at < slot->offset + slot->elements; at++) {
        const double state[CLT_OPTIMIZER_STATES] = {(double)r->before[CLT_IMAGE_MOMENT1][slot->slab][at],
                                                    (double)r->before[CLT_IMAGE_MOMENT2][slot->slab][at]};
        double p = (double)r->before[CLT_IMAGE_PARAM][slot->slab][at];
        double second = spec->optimizer->second(spec->value, f,
                                                (double)r->before[CLT_IMAGE_GRAD][slot->slab][at], p, state);
        norm += p * p;
        second_norm += second * second;
    }
    return spec->optimizer->trust(spec->value, f, sqrt(norm), sqrt(second_norm));
}

/* Computes the reference of a matrix that is updated as a whole (Muon). The error of its momentum is bounded
 * as for other optimizers; the error of the products has one bound for all elements. */
static clt_status expect_matrix(const clt_update_run *r, const clt_store_slot *slot,
                                const clt_update_factors *f, expected *e)
{
    const clt_update_spec *spec = &r->c->spec;
    const clt_optimizer *optimizer = spec->optimizer;
    int64_t rows = slot->shape.dim[0], cols = slot->shape.dim[1];
    double rate = f->lr * optimizer->matrix_rate(spec->value, rows, cols);
    CLT_FREED double *gradient = NULL;
    CLT_TRY(clt_alloc(&gradient, slot->elements, sizeof *gradient, "gradients of a matrix"));
    for (uint64_t i = 0; i < slot->elements; i++) {
        uint64_t at = slot->offset + i;
        gradient[i] = (double)r->before[CLT_IMAGE_GRAD][slot->slab][at];
        e->want[0][i] = (double)r->before[CLT_IMAGE_PARAM][slot->slab][at];
        e->want[1][i] = (double)r->before[CLT_IMAGE_MOMENT1][slot->slab][at];
        e->want[2][i] = (double)r->before[CLT_IMAGE_MOMENT2][slot->slab][at];
        e->bound[0][i] = CLT_VERIFY_EPS * (4.0 * fabs(e->want[0][i]) + rate * optimizer->matrix_error);
        e->bound[1][i] = CLT_VERIFY_EPS * (8.0 * fabs(gradient[i] * f->gradient) + 4.0 * fabs(e->want[1][i]));
        e->bound[2][i] = 0.0;
    }
    return optimizer->matrix_reference(spec->value, f, rows, cols, gradient, e->want[0], e->want[1]);
}

static clt_status check_slot(clt_update_run *r, const clt_store_slot *slot, const clt_update_factors *f)
{
    static const clt_arena_kind arenas[3] = {CLT_ARENA_PARAM, CLT_ARENA_OPT1, CLT_ARENA_OPT2};
    static const int images[3] = {CLT_IMAGE_PARAM, CLT_IMAGE_MOMENT1, CLT_IMAGE_MOMENT2};
    expected e;
    size_t n = slot->elements;
    CLT_FREED double *memory = NULL;
    CLT_TRY(clt_alloc(&memory, 9 * n, sizeof *memory, "expected parameters"));
    for (int k = 0; k < 3; k++) {
        e.got[k] = memory + (size_t)(3 * k) * n;
        e.want[k] = e.got[k] + n;
        e.bound[k] = e.want[k] + n;
    }
    bool whole = slot->adapts && r->c->spec.optimizer->orthogonalise;
    if (whole)
        CLT_TRY(expect_matrix(r, slot, f, &e));
    for (uint64_t i = 0; i < n; i++) {
        if (!whole)
            expect_element(r, slot, f, i, &e);
        for (int k = 0; k < 3; k++)
            e.got[k][i] = (double)r->after[images[k]][slot->slab][slot->offset + i];
    }
    for (int k = 0; k <= r->layout->opt_states; k++) {
        char what[192];
        snprintf(what, sizeof what, "%s, %s of '%s'", r->what, clt_arenas[arenas[k]].name, slot->name);
        clt_verify_from(r->outcome,
                        (clt_verify_source){.buffer = r->bench->store->slab[arenas[k]][slot->slab],
                                            .dtype = CLT_F32,
                                            .offset = slot->offset * sizeof(float)});
        clt_verify_compare_bounds(r->outcome, what, e.got[k], e.want[k], e.bound[k], n, CLT_F32, 0.0);
    }
    return CLT_OK;
}

/* Checks that the average follows the device's parameters; after the first update it equals them. */
static clt_status check_average(clt_update_run *r, const clt_store_slot *slot)
{
    clt_dtype type = r->layout->working;
    const float *p = r->after[CLT_IMAGE_PARAM][slot->slab] + slot->offset,
                *got = r->after[CLT_IMAGE_AVERAGE][slot->slab] + slot->offset;
    const float *old = r->before[CLT_IMAGE_AVERAGE][slot->slab] + slot->offset;
    double rest = r->state.update == 1 ? 1.0 : 1.0 - r->c->spec.ema;
    CLT_FREED uint16_t *narrow = NULL;
    CLT_TRY(clt_alloc(&narrow, slot->elements, sizeof *narrow, "16-bit averages"));
    if (type != CLT_F32)
        CLT_TRY(ocl_read(r->bench->store->slab[CLT_ARENA_EMA_WORK][slot->slab], slot->offset * sizeof *narrow,
                         narrow, slot->elements * sizeof *narrow));
    for (uint64_t i = 0; i < slot->elements; i++) {
        double want = (double)old[i] + rest * ((double)p[i] - (double)old[i]);
        uint16_t bits = type == CLT_F16 ? clt_f32_to_f16(got[i]) : clt_f32_to_bf16(got[i]);
        if (!(fabs((double)got[i] - want) <=
              2.0 * CLT_VERIFY_EPS * (fabs((double)old[i]) + fabs((double)p[i]))))
            clt_verify_set(r->outcome, CLT_VERIFY_FAIL,
                           "%s: average %llu of '%s' is %.9g, the reference %.9g", r->what,
                           (unsigned long long)i, slot->name, (double)got[i], want);
        if (type != CLT_F32 && narrow[i] != bits)
            clt_verify_set(r->outcome, CLT_VERIFY_FAIL,
                           "%s: the 16-bit copy of average %llu of '%s' is %04x and must be %04x", r->what,
                           (unsigned long long)i, slot->name, narrow[i], bits);
    }
    return CLT_OK;
}

clt_status clt_verify_slot(clt_update_run *r, const clt_store_slot *slot, clt_update_factors f)
{
    f.trust = slot->adapts && r->c->spec.optimizer->trust ? trust_of(r, slot, &f) : 1.0;
    CLT_TRY(check_slot(r, slot, &f));
    return r->layout->ema ? check_average(r, slot) : CLT_OK;
}
