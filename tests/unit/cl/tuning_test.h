/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of tuning records share: the problem of a family in a plan's log, and a record for it. */
#ifndef TESTS_UNIT_CL_TUNING_TEST_H
#define TESTS_UNIT_CL_TUNING_TEST_H

#include "cl/tune/tuning.h"
#include "tests/unit/cl/cl_test.h"

static inline const ocl_tuning_use *logged(const ocl_tuning_log *log, const char *family)
{
    for (size_t i = 0; i < log->count; i++)
        if (strcmp(log->at[i].family, family) == 0)
            return &log->at[i];
    fail_msg("the plan's log has no problem of %s", family);
    return NULL;
}

static inline ocl_choice choice_of(const char *family, const char *problem, const char *variant)
{
    ocl_choice c = {0};
    snprintf(c.family, sizeof c.family, "%s", family);
    snprintf(c.problem, sizeof c.problem, "%s", problem);
    snprintf(c.variant, sizeof c.variant, "%s", variant);
    return c;
}

#endif
