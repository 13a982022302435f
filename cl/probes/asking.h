/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking a device for its capabilities. A driver may crash, hang or corrupt the process in any of its
 * calls, and NVIDIA's context is unusable after an illegal address. So a child process asks the questions,
 * and announces each before asking it. If the child crashes or hangs, that is the answer to the announced
 * question, and another child continues with the others. Questions that the caller's mask makes unnecessary
 * are never asked. Answers are remembered (cl/device/capabilities.h). This file must not know what the
 * kernels of a self-test compute: the checker registers the tests here. */
#ifndef CL_PROBES_ASKING_H
#define CL_PROBES_ASKING_H

#include "cl/device/capabilities.h"

/* --- self-tests --- */

/* The devices that need a self-test, because the engine uses the tested kernels there. */
typedef enum ocl_test_devices {
    OCL_ANY_DEVICE,
    OCL_WITH_LANES,    /* style lanes (float16 vectors), mostly CPUs */
    OCL_WITHOUT_LOCAL, /* style lanes, and devices without local memory */
    OCL_ON_GPUS,       /* style groups (scalar work-items in work-groups), except CPUs */
    OCL_WITH_GROUPS,   /* style groups, mostly GPUs */
    OCL_WITHOUT_UNITS  /* style groups, unless matrix units compute the products */
} ocl_test_devices;

/* One self-test: runs real kernels and compares their results with the host's. */
typedef struct ocl_self_test {
    const char *name;
    uint32_t drops; /* capabilities that are lost when it fails; 0: the device is refused */
    /* 0 or 1: two children each run the tests of one share; tests of a share use the same programs */
    int share;
    ocl_test_devices devices;
    /* names of checks of the checker, "gemm.odd_nt[simple]/correct"; ends with NULL */
    const char *const *cases;
} ocl_self_test;
#define OCL_TEST_CASES(...)                                                                                  \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }
/* The checks of a product in every layout. */
#define OCL_TEST_PRODUCTS(variant)                                                                           \
    "gemm.odd_nn[" variant "]/correct", "gemm.odd_nt[" variant "]/correct",                                  \
        "gemm.odd_tn[" variant "]/correct", "gemm.odd_tt[" variant "]/correct"

/* The self-tests that do not belong to records of matrix units, and how to run a test. */
typedef struct ocl_self_test_set {
    const ocl_self_test *tests; /* ends with a NULL name */
    /* Whether the device needs the test; its description has the capabilities known so far. */
    bool (*wanted)(const ocl_self_test *test, const ocl_device_desc *device);
    /* Sets *right. If it is false, `reason` says what was wrong. Returns a failure only if a call failed. */
    clt_status (*run)(const ocl_self_test *test, ocl_device *device, bool *right, char *reason, size_t size);
    /* Begins every case of the test on a device that only records the programs requested
     * (cl/program/program_gather.c). */
    void (*note)(const ocl_self_test *test, ocl_device *device);
} ocl_self_test_set;

/* Registers the self-tests, which are kept by reference. Without it there are none. The program's children
 * always register them. */
void ocl_self_tests_register(const ocl_self_test_set *set);

/* --- the child's side, for the program's hidden command --- */

/* Answers for the device `spec` on the pipe of engine/host/child.h, as lines of standard input request:
 *     ask STYLE MASK SHARE TESTS ONE_BY_ONE HAVE
 *          asks the questions that are open. STYLE: a name of ocl_style_name. SHARE: only questions and
 *          self-tests of this share; OCL_ALL_SHARES: all. TESTS 1: self-tests, too. ONE_BY_ONE 1: never
 *          builds several programs at the same time. HAVE: the answers known so far (ocl_asking_have)
 *     open
 *          serves as a builder from now on (cl/program/builders.h)
 * Fields are separated by tabs. `error STATUS TEXT` is the last line of a child that cannot continue. */
#define OCL_ALL_SHARES (-1)
void ocl_asking_have(const ocl_capabilities *capabilities, clt_str *out);
clt_status ocl_asking_serve(const char *spec);

#endif
