/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking a device for its capabilities. A driver may crash, hang or corrupt the process in any of its calls,
 * and NVIDIA's context is dead after an illegal address; so the questions are put in a child process, and
 * each is announced before it is put. A child that crashes or falls silent has answered the question that it
 * was at; the next child goes on with the others. A question that the caller's mask makes needless is never
 * put. Answers are remembered (cl/device/answers.h). It must not know what the kernels of a self-test
 * compute: the room that knows registers them here. */
#ifndef CL_ASKING_H
#define CL_ASKING_H

#include "cl/device/answers.h"

/* --- self-tests --- */

/* One self-test: runs real kernels and compares with the host. */
typedef struct ocl_self_test {
    const char *name;
    uint32_t drops; /* capabilities that it is about; 0: the device is refused when it fails */
    const void *data;
    int share; /* 0 or 1: tests that two children ask at once; those of a share use the same programs */
} ocl_self_test;

typedef struct ocl_self_test_set {
    const ocl_self_test *tests;
    int count;
    /* Does the engine use this on such a device? Capabilities that count so far are in the description. */
    bool (*wanted)(const ocl_self_test *test, const ocl_device_desc *device);
    /* *right false: with what was wrong in reason. A status is a call that failed. */
    clt_status (*run)(const ocl_self_test *test, ocl_device *device, bool *right, char *reason, size_t size);
} ocl_self_test_set;

/* Kept by reference. Without a set there are no self-tests: the program's child has one always. */
void ocl_self_tests_register(const ocl_self_test_set *set);

/* --- the child's side, for the program's hidden command --- */

/* Answers for the device `spec` on the pipe of engine/base/child.h. style: of ocl_style_name. have:
 * "item=yes:drops:value,...", what is known. share: questions and self-tests of that share only,
 * OCL_ALL_SHARES all of them. stay: goes on with what standard input says (cl/command/builders.h). */
#define OCL_ALL_SHARES (-1)
clt_status ocl_asking_serve(const char *spec, const char *mask, const char *style, const char *have,
                            bool with_tests, int share, bool stay);

#endif
