/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds the programs of later work together. The work begins on a device that records every requested
 * program and returns none, so the work fails; then the recorded programs are built. So the list of programs
 * exists only in the code that uses them. */
#include "cl/program/builders.h"
#include "cl/program/program_internal.h"

#include <stdlib.h>
#include <string.h>

struct ocl_gathered {
    ocl_program_request *requests; /* this struct owns their texts */
    size_t count, capacity;
    clt_status status; /* CLT_OK, or the reason why a program could not be recorded */
};

void ocl_gathered_free(struct ocl_gathered *gathered)
{
    if (gathered == NULL)
        return;
    for (size_t i = 0; i < gathered->count; i++) {
        free((void *)(uintptr_t)gathered->requests[i].family);
        free((void *)(uintptr_t)gathered->requests[i].options);
    }
    free(gathered->requests);
    free(gathered);
}

clt_status ocl_programs_gather(ocl_device *device)
{
    return clt_alloc(&device->gathered, 1, sizeof *device->gathered, "a list of programs");
}

static bool is_recorded(const struct ocl_gathered *gathered, const ocl_program_request *request)
{
    for (size_t i = 0; i < gathered->count; i++)
        if (strcmp(gathered->requests[i].family, request->family) == 0 &&
            strcmp(gathered->requests[i].options, request->options) == 0)
            return true;
    return false;
}

static clt_status record(struct ocl_gathered *gathered, const ocl_program_request *request)
{
    if (is_recorded(gathered, request))
        return CLT_OK;
    CLT_TRY(clt_grow(&gathered->requests, &gathered->capacity, gathered->count + 1,
                     sizeof *gathered->requests, "a list of programs"));
    ocl_program_request own = {
        .family = strdup(request->family), .options = strdup(request->options), .ahead = true};
    gathered->requests[gathered->count++] = own;
    if (own.family == NULL || own.options == NULL) {
        gathered->count--;
        free((void *)(uintptr_t)own.family);
        free((void *)(uintptr_t)own.options);
        CLT_FAIL(CLT_ENOMEM, "out of memory for a list of programs");
    }
    return CLT_OK;
}

clt_status ocl_programs_record(ocl_device *device, const ocl_program_request *requests, size_t count)
{
    struct ocl_gathered *gathered = device->gathered;
    for (size_t i = 0; i < count && gathered->status == CLT_OK; i++)
        gathered->status = record(gathered, &requests[i]);
    CLT_FAIL(CLT_EUNSUPPORTED, "programs are only recorded now and built later");
}

/* Whether the program causes the failure, which will then recur when the program is used. */
static bool is_refusal(clt_status status)
{
    return status == CLT_OK || status == CLT_EBUILD || status == CLT_EUNSUPPORTED;
}

/* Builds the recorded programs; the caller frees the list, even after a failure. */
static clt_status build_recorded(ocl_device *device, struct ocl_gathered *gathered, ocl_progress_fn progress,
                                 void *context)
{
    CLT_FREED clt_status *outcomes = NULL;
    size_t failed;
    CLT_TRY(gathered->status);
    CLT_TRY(clt_alloc(&outcomes, gathered->count, sizeof *outcomes, "a list of programs"));
    for (size_t i = 0; i < gathered->count; i++)
        gathered->requests[i].outcome = &outcomes[i];
    CLT_TRY(ocl_programs_build(device, gathered->requests, gathered->count, progress, context, &failed));
    for (size_t i = 0; i < gathered->count; i++)
        if (!is_refusal(outcomes[i]))
            CLT_FAIL(outcomes[i], "building '%s' (%s) failed", gathered->requests[i].family,
                     gathered->requests[i].options);
    return CLT_OK;
}

clt_status ocl_programs_build_gathered(ocl_device *device, ocl_progress_fn progress, void *context)
{
    struct ocl_gathered *gathered = device->gathered;
    device->gathered = NULL;
    clt_status status = build_recorded(device, gathered, progress, context);
    ocl_gathered_free(gathered);
    return status;
}
