/* SPDX-License-Identifier: Apache-2.0
 *
 * Identifies devices to other ranks by platform, name and driver; lists the features that a device
 * description lacks because the driver refused them, and removes such features from a description. */
#include "engine/train/job/unsupported.h"

#include <stdio.h>
#include <string.h>

#include "cl/command/fallback.h"
#include "engine/plan/plan.h"

void clt_identify_device(const ocl_device_desc *desc, clt_device_identity *out)
{
    memcpy(out->platform, desc->platform, sizeof out->platform);
    memcpy(out->device, desc->name, sizeof out->device);
    memcpy(out->driver, desc->driver, sizeof out->driver);
}

bool clt_is_device(const clt_device_identity *identity, const ocl_device_desc *desc)
{
    return strcmp(identity->platform, desc->platform) == 0 && strcmp(identity->device, desc->name) == 0 &&
           strcmp(identity->driver, desc->driver) == 0;
}

void clt_apply_unsupported(const ocl_unsupported *unsupported, ocl_device_desc *desc)
{
    desc->caps &= ~unsupported->caps;
    for (int i = 0; i < unsupported->count && desc->n_given_up < OCL_GIVEN_UP_MAX; i++) {
        const ocl_unsupported_variant *d = &unsupported->list[i];
        const ocl_variant *variant = clt_variant_named(d->variant);
        if (!variant || ocl_is_given_up(desc, variant, d->form))
            continue;
        ocl_given_up *entry = &desc->given_up[desc->n_given_up++];
        entry->variant = variant;
        snprintf(entry->form, sizeof entry->form, "%s", d->form);
    }
}

void clt_unsupported_of(const ocl_device_desc *desc, uint32_t caps, int first, ocl_unsupported *out)
{
    *out = (ocl_unsupported){.caps = caps & ~desc->caps};
    for (int i = first; i < desc->n_given_up; i++) {
        ocl_unsupported_variant *d = &out->list[out->count];
        snprintf(d->form, sizeof d->form, "%s", desc->given_up[i].form);
        out->count += clt_variant_name(desc->given_up[i].variant, d->variant, sizeof d->variant);
    }
}
