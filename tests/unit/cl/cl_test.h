/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of cl/ share: opening a device or skipping the test, a temporary folder with kernel sources,
 * a table that maps tensors to buffers. */
#ifndef TESTS_UNIT_CL_TEST_H
#define TESTS_UNIT_CL_TEST_H

#include "tests/unit/test.h"

#include "cl/exec/exec.h"
#include "engine/files/fileio.h"

static inline ocl_device *test_open(bool profiling)
{
    ocl_open_options options = {.spec = NULL, .caps_mask = OCL_CAPS_ALL, .profiling = profiling};
    ocl_device *device = NULL;
    assert_ok(ocl_device_open(&options, &device));
    return device;
}

/* A fresh folder that CLTRAIN_KERNEL_DIR points to. */
static inline void test_kernel_folder(char folder[64])
{
    snprintf(folder, 64, "/tmp/cltrain-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("CLTRAIN_KERNEL_DIR", folder, 1), 0);
}

static inline void test_write_source(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(clt_file_write(path, text, strlen(text)));
}

/* Tensors of a test: id = index. */
typedef struct test_tensors {
    ocl_buffer *buffer[8];
    uint64_t offset[8];
} test_tensors;

static inline clt_status test_resolve(void *context, int32_t tensor, ocl_buffer **buffer, uint64_t *offset)
{
    test_tensors *tensors = context;
    *buffer = tensors->buffer[tensor];
    *offset = tensors->offset[tensor];
    return CLT_OK;
}

#endif
