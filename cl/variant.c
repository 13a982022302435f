/* SPDX-License-Identifier: Apache-2.0
 *
 * Choosing a variant: the first of an ordered list that the device's capabilities allow and that accepts the
 * problem. Every refusal has a reason, which goes to the debug log or, when nothing accepts, into the error.
 * It must not know what a problem is. */
#include "cl/variant.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"

bool ocl_variant_accepts(const ocl_variant *variant, const void *problem, const ocl_device_desc *device,
                         char *reason, size_t size)
{
    uint32_t missing = variant->needs & ~device->caps;
    if (missing != 0) {
        char names[200];
        snprintf(reason, size, "the device lacks %s", ocl_caps_text(missing, names, sizeof names));
        return false;
    }
    snprintf(reason, size, "it does not accept this problem");
    return variant->accepts == NULL || variant->accepts(problem, device, reason, size);
}

clt_status ocl_variant_select(const ocl_variant *const *list, const void *problem,
                              const ocl_device_desc *device, const char *what, const char *force,
                              const ocl_variant **out)
{
    clt_str reasons = {0}, names = {0};
    bool known = false;
    *out = NULL;
    for (size_t i = 0; list[i] != NULL && *out == NULL; i++) {
        char reason[256];
        clt_str_printf(&names, "%s%s", i ? ", " : "", list[i]->name);
        if (force != NULL && strcmp(list[i]->name, force) != 0)
            continue;
        known = true;
        if (ocl_variant_accepts(list[i], problem, device, reason, sizeof reason)) {
            *out = list[i];
        } else {
            CLT_DEBUG("%s: %s: %s", what, list[i]->name, reason);
            clt_str_printf(&reasons, "%s%s: %s", reasons.length ? "; " : "", list[i]->name, reason);
        }
    }
    clt_status status = CLT_OK;
    if (*out == NULL && force != NULL && !known)
        status = clt_fail(CLT_EUNSUPPORTED, __FILE__, __LINE__,
                          "choosing a variant for %s: there is no '%s'; there is %s", what, force,
                          names.text ? names.text : "none");
    else if (*out == NULL)
        status = clt_fail(CLT_EUNSUPPORTED, __FILE__, __LINE__,
                          "choosing a variant for %s on device '%s': none accepts (%s)", what, device->name,
                          reasons.text ? reasons.text : "the list is empty");
    clt_str_free(&reasons);
    clt_str_free(&names);
    return status;
}
