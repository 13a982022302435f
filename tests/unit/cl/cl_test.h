/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of cl/ share: opening a device or skipping the test, a temporary folder with kernel sources,
 * a table that maps tensors to buffers. */
#ifndef TESTS_UNIT_CL_TEST_H
#define TESTS_UNIT_CL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cl/exec/exec.h"
#include "engine/files/fileio.h"

#define TEST_SKIP 77

/* Ends the program with "skipped" when the machine has no OpenCL device at all. */
static inline void test_need_device(void)
{
    ocl_device_desc *list;
    int count;
    clt_status status = ocl_list_devices(&list, &count);
    if (status == CLT_EDEVICE) {
        fprintf(stderr, "skipped: %s\n", clt_error_text());
        exit(TEST_SKIP);
    }
    if (status != CLT_OK) {
        fprintf(stderr, "%s\n", clt_error_text());
        exit(1);
    }
    free(list);
}

#define assert_ok(expr)                                                                                      \
    do {                                                                                                     \
        clt_status assert_ok_status_ = (expr);                                                               \
        if (assert_ok_status_ != CLT_OK)                                                                     \
            fail_msg("%s: %s: %s", #expr, clt_status_name(assert_ok_status_), clt_error_text());             \
    } while (0)

#define assert_contains(text, part)                                                                          \
    do {                                                                                                     \
        if (strstr((text), (part)) == NULL)                                                                  \
            fail_msg("'%s' is not in: %s", (part), (text));                                                  \
    } while (0)

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
