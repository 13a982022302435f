/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel file that is built in compiles alone, with its own defaults, no option and no warning.
 * ctest-labels: quick */
#include "tests/unit/cl/cl_test.h"

#include "cl/kernels/kernel_source.h"

TEST(test_every_family)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    int families = 0;
    for (const ocl_embedded_source *s = ocl_embedded_sources; s->name != NULL; s++) {
        const char *dot = strrchr(s->name, '.');
        char family[64];
        ocl_program *program;
        assert_int_equal(strlen(s->text), s->length);
        if (dot == NULL || strcmp(dot, ".cl") != 0)
            continue;
        snprintf(family, sizeof family, "%.*s", (int)(dot - s->name), s->name);
        if (ocl_program_get(device, family, "", &program) != CLT_OK)
            fail_msg("%s does not compile alone: %s", s->name, clt_error_text());
        if (strstr(ocl_program_log(program), "warning")) /* PoCL writes their number on users' terminals */
            fail_msg("%s compiles with warnings: %s", s->name, ocl_program_log(program));
        families++;
    }
    assert_true(families >= 2); /* fill and probe at least */
}

/* A device need not have more than a few arguments in constant memory, of a few KiB, so kernels have none.
 * What the emitter can pass fits into the 1024 bytes of arguments that every full profile has: a buffer and
 * an offset of eight bytes each for every tensor. */
TEST(test_no_constant_memory)
{
    for (const ocl_embedded_source *s = ocl_embedded_sources; s->name != NULL; s++)
        if (strstr(s->text, "__constant") != NULL)
            fail_msg("%s uses constant memory, which docs/drivers.md says no kernel does", s->name);
    assert_true(OCL_MAX_ARGS * 2 * sizeof(uint64_t) <= 1024);
}

TEST_PROGRAM(.device = true);
