/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides what planning gives up because the driver refused a command, the smallest thing first:
 *   1. capabilities that are mere optimisations of kernels (non-temporal stores, prefetch): if the kernel is
 *      refused without them too, they were not the cause and are restored;
 *   2. for a matrix unit with one capability that all its kernels need, in this order:
 *      a. stream-k or line sums of a tile;
 *      b. the extras of its record, such as tiles that need more local memory than any driver reports: at
 *         most FORMS_MAX of these tiles one by one, then all of them;
 *      c. the unit, in favour of an older one for the same products, because a driver that refuses a small
 *         program with the unit's instructions refuses all of them;
 *   3. the tile of a matrix product, in favour of the next best one, at most FORMS_MAX times;
 *   4. capabilities that the variant used without needing them: matrix units, groups of 256 items, wide
 *      vectors;
 *   5. groups larger than the driver accepts for the kernel, if its limit is below PLAIN_GROUP;
 *   6. the variant; after VARIANTS_MAX variants that need local memory, that capability.
 * Knows descriptions and variants only. */
#include "cl/command/fallback.h"

#include <stdio.h>
#include <string.h>

#include "cl/device/matrix_unit.h"

#define FORMS_MAX 3
#define VARIANTS_MAX 3

static const uint32_t optimisations = OCL_CAP_NONTEMPORAL | OCL_CAP_PREFETCH;

void ocl_refusal_of(const ocl_command *command, ocl_refusal *out)
{
    *out = (ocl_refusal){.refused = true, .variant = command->made_by, .needs = command->needs};
    snprintf(out->form, sizeof out->form, "%s", command->form ? command->form : "");
    snprintf(out->kernel, sizeof out->kernel, "%s", command->kernel ? command->kernel : "");
    snprintf(out->label, sizeof out->label, "%s", command->label ? command->label : "");
}

static bool add(ocl_device_desc *desc, const ocl_variant *variant, const char *form)
{
    if (desc->n_given_up == OCL_GIVEN_UP_MAX || ocl_is_given_up(desc, variant, form))
        return false;
    ocl_given_up *entry = &desc->given_up[desc->n_given_up++];
    entry->variant = variant;
    snprintf(entry->form, sizeof entry->form, "%s", form);
    return true;
}

static int forms_of(const ocl_device_desc *desc, const ocl_variant *variant)
{
    int n = 0;
    for (int i = 0; i < desc->n_given_up; i++)
        n += desc->given_up[i].variant == variant && desc->given_up[i].form[0];
    return n;
}

static uint32_t lowest(uint32_t caps)
{
    return caps & (0u - caps);
}

static bool drop(ocl_device_desc *desc, uint32_t cap, char *what, size_t size)
{
    char names[200];
    desc->caps &= ~cap;
    snprintf(what, size, "capability %s", ocl_caps_text(cap, names, sizeof names));
    return true;
}

/* The kernel was refused without the suspected capabilities too, so they are restored. */
static void clear_suspicion(ocl_device_desc *desc)
{
    desc->caps |= desc->suspected_caps;
    desc->suspected_caps = 0;
    desc->suspected_in[0] = '\0';
}

static bool drop_decoration(ocl_device_desc *desc, const ocl_refusal *r, char *what, size_t size)
{
    uint32_t cap = lowest(r->needs & desc->caps & optimisations);
    bool again = r->kernel[0] && strcmp(desc->suspected_in, r->kernel) == 0;
    if (cap == 0) {
        if (again)
            clear_suspicion(desc);
        return false;
    }
    /* another kernel is refused now, so dropping the capability helped the previous one: it stays dropped */
    if (!again) {
        desc->suspected_caps = 0;
        snprintf(desc->suspected_in, sizeof desc->suspected_in, "%s", r->kernel);
    }
    desc->suspected_caps |= cap;
    return drop(desc, cap, what, size);
}

static bool give_up_variant(ocl_device_desc *desc, const ocl_refusal *r, char *what, size_t size)
{
    int need_local = 0;
    if (!add(desc, r->variant, ""))
        return false;
    for (int i = 0; i < desc->n_given_up; i++)
        need_local += !desc->given_up[i].form[0] && (desc->given_up[i].variant->needs & OCL_CAP_LOCAL);
    int n = snprintf(what, size, "variant '%s'", r->variant->name);
    if ((desc->caps & OCL_CAP_LOCAL) && need_local >= VARIANTS_MAX) {
        desc->caps &= ~(uint32_t)OCL_CAP_LOCAL;
        if (n > 0 && (size_t)n < size)
            snprintf(what + n, size - (size_t)n,
                     " and, since %d variants that need it were refused, capability local", need_local);
    }
    return true;
}

static bool give_up_form(ocl_device_desc *desc, const ocl_refusal *r, char *what, size_t size)
{
    if (r->variant == NULL || !r->form[0] || forms_of(desc, r->variant) >= FORMS_MAX ||
        !add(desc, r->variant, r->form))
        return false;
    snprintf(what, size, "tile %s of variant '%s'", r->form, r->variant->name);
    return true;
}

static bool give_up_unit(const ocl_matrix_unit *unit, ocl_device_desc *desc, const ocl_refusal *r, char *what,
                         size_t size)
{
    bool addition = strstr(r->form, " stream") != NULL || strstr(r->form, " line_sums") != NULL;
    if (addition && give_up_form(desc, r, what, size))
        return true;
    for (const ocl_unit_extra *extra = unit->extras; extra->cap != 0; extra++)
        if (r->needs & desc->caps & extra->cap)
            return (extra->tiles_first && give_up_form(desc, r, what, size)) ||
                   drop(desc, extra->cap, what, size);
    return drop(desc, unit->need, what, size);
}

/* Group size of kernels without optional capabilities. A kernel that needs many registers may have a lower
 * limit than others, but a limit below this size means that the driver's limit is low for every kernel. */
#define PLAIN_GROUP 64

static bool give_up_groups(ocl_device_desc *desc, const ocl_refusal *r, char *what, size_t size)
{
    if (r->group_limit == 0 || r->group_limit >= PLAIN_GROUP || r->group_limit >= ocl_group_limit(desc))
        return false;
    desc->kernel_group_limit = r->group_limit;
    snprintf(what, size, "work-groups of more than %u work-items", r->group_limit);
    return true;
}

bool ocl_give_up(ocl_device_desc *desc, const ocl_refusal *r, char *what, size_t size)
{
    bool again = r->kernel[0] && strcmp(desc->suspected_in, r->kernel) == 0;
    if (drop_decoration(desc, r, what, size))
        return true;
    for (const ocl_matrix_unit *const *u = ocl_matrix_units; *u != NULL; u++)
        if (r->needs & desc->caps & (*u)->need)
            return give_up_unit(*u, desc, r, what, size);
    if (r->variant == NULL)
        return false;
    if (give_up_form(desc, r, what, size))
        return true;
    uint32_t extra = r->needs & ~r->variant->needs & desc->caps & ~optimisations;
    if (extra & OCL_CAPS_UNITS)
        return drop(desc, extra & OCL_CAPS_UNITS, what, size);
    /* Only suspected, because all tiles of matrix units need this capability. It is restored if the kernel
     * is refused without it too. */
    if (extra == OCL_CAP_WG256 && !again) {
        desc->suspected_caps = extra;
        snprintf(desc->suspected_in, sizeof desc->suspected_in, "%s", r->kernel);
    }
    if (extra != 0 && !(extra == OCL_CAP_WG256 && again))
        return drop(desc, lowest(extra), what, size);
    return give_up_groups(desc, r, what, size) || give_up_variant(desc, r, what, size);
}
