/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses a variant: the first of an ordered list that the device's capabilities allow and that accepts the
 * problem. Every refusal has a reason, which goes to the debug log or, when no variant accepts, into the
 * error. This file must not know what a problem is. */
#include "cl/command/variant.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"

bool ocl_is_given_up(const ocl_device_desc *desc, const ocl_variant *variant, const char *form)
{
    for (int i = 0; i < desc->n_given_up; i++)
        if (desc->given_up[i].variant == variant && strcmp(desc->given_up[i].form, form) == 0)
            return true;
    return false;
}

/* The reason why kernels of this style are slow on the device, or NULL if they are not. */
static const char *why_slow(ocl_kernel_style style, const ocl_device_desc *device)
{
    if (style == OCL_KERNEL_LANES && !ocl_prefers_lanes(device))
        return "work-groups are faster here than vectors of sixteen in one work-item";
    if (style == OCL_KERNEL_GROUPS && ocl_prefers_lanes(device))
        return "vectors of sixteen in one work-item are faster here than work-groups (wide_vectors)";
    if (style == OCL_KERNEL_BLOCKS && (device->is_cpu || ocl_prefers_lanes(device)))
        return "blocks in local memory gain nothing on a CPU device";
    return NULL;
}

bool ocl_variant_is_foreign(const ocl_variant *variant, const ocl_device_desc *device)
{
    if (variant->style == OCL_KERNEL_UNITS)
        return (device->caps & OCL_CAPS_UNITS) == 0;
    if (variant->style == OCL_KERNEL_LANES &&
        device->is_cpu) /* slow only on CPUs that split or mask wide vectors */
        return false;
    return why_slow(variant->style, device) != NULL;
}

/* Whether kernels of this style are fast on the device. With OCL_QUIRK_ANY_STYLE (the checker) slow ones are
 * accepted too. */
static bool suits(ocl_kernel_style style, const ocl_device_desc *device, char *reason, size_t size)
{
    const char *why = why_slow(style, device);
    if (why == NULL || (device->quirks & OCL_QUIRK_ANY_STYLE))
        return true;
    snprintf(reason, size, "%s", why);
    return false;
}

bool ocl_variant_accepts(const ocl_variant *variant, const void *problem, const ocl_device_desc *device,
                         char *reason, size_t size)
{
    if (ocl_is_given_up(device, variant, "")) {
        snprintf(reason, size, "the driver refused it");
        return false;
    }
    uint32_t missing = variant->needs & ~device->caps;
    if (missing != 0) {
        char names[200];
        snprintf(reason, size, "the device lacks %s", ocl_caps_text(missing, names, sizeof names));
        return false;
    }
    if (!suits(variant->style, device, reason, size))
        return false;
    snprintf(reason, size, "it does not accept this problem");
    return variant->accepts == NULL || variant->accepts(problem, device, reason, size);
}

/* The first variant of the list that accepts the problem, or NULL; `reasons` collects the refusals. */
static const ocl_variant *first_that_accepts(const ocl_variant *const *list, const void *problem,
                                             const ocl_device_desc *device, const char *what,
                                             const char *force, clt_str *reasons)
{
    for (size_t i = 0; list[i] != NULL; i++) {
        char reason[256];
        if (force != NULL && strcmp(list[i]->name, force) != 0)
            continue;
        if (ocl_variant_accepts(list[i], problem, device, reason, sizeof reason))
            return list[i];
        CLT_DEBUG("%s: %s: %s", what, list[i]->name, reason);
        clt_str_printf(reasons, "%s%s: %s", reasons->length ? "; " : "", list[i]->name, reason);
    }
    return NULL;
}

/* Chooses a variant that is slow on this device, if the driver has refused the fast ones. */
static const ocl_variant *any_that_works(const ocl_variant *const *list, const void *problem,
                                         const ocl_device_desc *device, const char *what, clt_str *reasons)
{
    ocl_device_desc any = *device;
    any.quirks |= OCL_QUIRK_ANY_STYLE;
    clt_str again = {0};
    const ocl_variant *found = NULL;
    for (size_t i = 0; list[i] != NULL && found == NULL; i++)
        if (ocl_is_given_up(device, list[i], ""))
            found = first_that_accepts(list, problem, &any, what, NULL, &again);
    if (again.length > 0 && found == NULL) {
        clt_str_free(reasons);
        *reasons = again;
    } else {
        clt_str_free(&again);
    }
    return found;
}

static bool is_in(const ocl_variant *const *list, const char *name, clt_str *names)
{
    bool found = false;
    for (size_t i = 0; list[i] != NULL; i++) {
        clt_str_printf(names, "%s%s", i ? ", " : "", list[i]->name);
        found = found || strcmp(list[i]->name, name) == 0;
    }
    return found;
}

clt_status ocl_variant_select(const ocl_variant *const *list, const void *problem,
                              const ocl_device_desc *device, const char *what, const char *force,
                              const ocl_variant **out)
{
    clt_str reasons = {0}, names = {0};
    clt_status status = CLT_OK;
    *out = first_that_accepts(list, problem, device, what, force, &reasons);
    if (*out == NULL && force == NULL)
        *out = any_that_works(list, problem, device, what, &reasons);
    if (*out == NULL && force != NULL && !is_in(list, force, &names))
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
