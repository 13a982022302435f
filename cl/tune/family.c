/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the list of families, chooses a family's variant for a problem and emits it. This file must not know
 * what is computed. */
#include "cl/tune/family.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"

static const ocl_family *const *known;

void ocl_families_register(const ocl_family *const *families)
{
    known = families;
}

const ocl_family *ocl_family_find(const char *name)
{
    for (const ocl_family *const *f = known; f != NULL && *f != NULL; f++)
        if (strcmp((*f)->name, name) == 0)
            return *f;
    return NULL;
}

const char *ocl_family_preferred(const ocl_family *family)
{
    const char *name = family->variable != NULL ? getenv(family->variable) : NULL;
    if (name == NULL || name[0] == '\0')
        return NULL;
    return ocl_variant_named(family->variants, name) == NULL &&
                   ocl_variant_named(family->others, name) != NULL
               ? NULL
               : name;
}

clt_status ocl_family_log(ocl_tuning_log *log, const ocl_family *family, const void *problem,
                          const ocl_choice *record)
{
    char text[OCL_TUNE_PROBLEM];
    void *data = NULL;
    size_t size = 0;
    if (log == NULL || family->name == NULL)
        return CLT_OK;
    if (family->describe != NULL)
        CLT_TRY(family->describe(problem, &data, &size));
    clt_status status = ocl_tuning_log_add(log, family->name, family->problem(problem, text, sizeof text),
                                           data, size, family->flops(problem), record);
    free(data);
    return status;
}

/* --- choosing --- */

clt_status ocl_family_standard(const ocl_family *family, const void *problem, const ocl_device_desc *device,
                               const char *what, const ocl_variant **out)
{
    const char *name = family->standard != NULL ? family->standard(problem, device) : NULL;
    if (name != NULL) {
        if (ocl_variant_select(family->variants, problem, device, what, name, out) == CLT_OK)
            return CLT_OK;
        clt_error_clear();
    }
    return ocl_variant_select(family->variants, problem, device, what, NULL, out);
}

/* Chooses the variant that the environment prefers. This is only a preference: if this variant refuses the
 * problem, *out is NULL and the choice continues. */
static clt_status choose_preferred(const ocl_family *family, const void *problem,
                                   const ocl_device_desc *device, const char *what, const ocl_variant **out)
{
    const char *preferred = ocl_family_preferred(family);
    *out = NULL;
    if (preferred == NULL)
        return CLT_OK;
    clt_status status = ocl_variant_select(family->variants, problem, device, what, preferred, out);
    if (status == CLT_OK)
        return CLT_OK;
    if (ocl_variant_named(family->variants, preferred) == NULL)
        return clt_fail_prefix(status, "environment variable %s=%s: ", family->variable, preferred);
    clt_error_clear();
    return CLT_OK;
}

typedef struct choice {
    const ocl_variant *variant;
    const ocl_choice *record; /* the record whose values are used; NULL: the variant decides */
} choice;

/* Applies a record, if it can be used and no choice of higher priority named another variant; otherwise
 * ignores it. */
static void apply_record(const ocl_family *family, const void *problem, const ocl_device_desc *device,
                         const char *what, const ocl_choice *record, choice *c)
{
    char reason[256];
    if (record == NULL || (c->variant != NULL && strcmp(c->variant->name, record->variant) != 0))
        return;
    const ocl_variant *variant =
        ocl_choice_variant(record, family->variants, problem, device, reason, sizeof reason);
    if (variant == NULL) {
        CLT_DEBUG("%s: the tuning record of '%s' is ignored: %s", what, record->problem, reason);
        return;
    }
    c->variant = variant;
    c->record = record;
}

/* Priorities: force, then the environment, then a record, then the standard choice. */
static clt_status choose(const ocl_family *family, const void *problem, const ocl_device_desc *device,
                         const char *what, const char *force, const ocl_choice *record, choice *c)
{
    *c = (choice){0};
    if (force != NULL)
        CLT_TRY(ocl_variant_select(family->variants, problem, device, what, force, &c->variant));
    else
        CLT_TRY(choose_preferred(family, problem, device, what, &c->variant));
    apply_record(family, problem, device, what, record, c);
    return c->variant != NULL ? CLT_OK : ocl_family_standard(family, problem, device, what, &c->variant);
}

clt_status ocl_family_choose(const ocl_family *family, const void *problem, const ocl_device_desc *device,
                             const char *what, const char *force, const ocl_variant **out)
{
    choice c;
    CLT_TRY(choose(family, problem, device, what, force, NULL, &c));
    *out = c.variant;
    return CLT_OK;
}

/* --- emitting --- */

static clt_status emit_with(ocl_emitter *e, const void *problem, const choice *c)
{
    const char *outer = e->variant;
    const ocl_variant *outer_made_by = e->made_by;
    const char *outer_form = e->form;
    const ocl_choice *outer_record = e->record;
    ocl_choice *outer_asked = e->asked;
    if (e->record != c->record) /* the problem is a part of the tuner's candidate, with separate tunables */
        e->asked = NULL;
    e->variant = c->variant->name;
    e->made_by = c->variant;
    e->form = NULL;
    e->record = c->record;
    clt_status status = c->variant->emit(e, problem);
    e->variant = outer;
    e->made_by = outer_made_by;
    e->form = outer_form;
    e->record = outer_record;
    e->asked = outer_asked;
    return status;
}

/* Emits exactly the candidate that the tuner is measuring, or fails. */
static clt_status emit_trial(ocl_emitter *e, const ocl_family *family, const void *problem, const char *what)
{
    char reason[256];
    choice c = {.record = e->record};
    c.variant = ocl_choice_variant(c.record, family->variants, problem, e->device, reason, sizeof reason);
    if (c.variant == NULL)
        CLT_FAIL(CLT_EUNSUPPORTED, "trying a variant for %s: %s", what, reason);
    return emit_with(e, problem, &c);
}

static const ocl_choice *find_record(const ocl_family *family, const void *problem,
                                     const ocl_device_desc *device)
{
    char text[OCL_TUNE_PROBLEM];
    if (family->name == NULL || device->tuning == NULL)
        return NULL;
    return ocl_tuning_find(device->tuning, family->name, family->problem(problem, text, sizeof text));
}

clt_status ocl_family_emit(ocl_emitter *e, const ocl_family *family, const void *problem, const char *what,
                           const char *force)
{
    choice c;
    if (e->record != NULL && family->name != NULL && strcmp(e->record->family, family->name) == 0)
        return emit_trial(e, family, problem, what);
    const ocl_choice *record = find_record(family, problem, e->device);
    size_t before = e->list->count;
    CLT_TRY(choose(family, problem, e->device, what, force, record, &c));
    clt_status status = emit_with(e, problem, &c);
    if (status == CLT_EUNSUPPORTED && c.record != NULL && e->status == CLT_OK && e->list->count == before) {
        CLT_DEBUG("%s: the tuning record of '%s' is ignored: %s", what, record->problem, clt_error_text());
        clt_error_clear();
        CLT_TRY(choose(family, problem, e->device, what, force, NULL, &c));
        status = emit_with(e, problem, &c);
    }
    CLT_TRY(status);
    return ocl_family_log(e->log, family, problem, c.record);
}
