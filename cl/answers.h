/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device answered when it was asked for each capability: the record of its probes and self-tests, with
 * the reason of every answer that is not yes. It is kept in a file of the user's cache, one for each device
 * with its driver and these kernels, so that a device is asked once. A file that is damaged, of another
 * device or older than the kernels is not believed. It must not know how a question is put. */
#ifndef CL_ANSWERS_H
#define CL_ANSWERS_H

#include "cl/device.h"

#define OCL_ITEM_NAME 40 /* bytes of a question's name */
#define OCL_ITEMS_MAX 64

/* One question: a probe has the name of its capability; "basic" is the kernel that every device must run;
 * "test: NAME" are self-tests of kernels that use capabilities. */
typedef struct ocl_item {
    char name[OCL_ITEM_NAME];
    ocl_answer answer;
    uint32_t drops; /* capabilities that count only if the answer is yes; 0: the device does */
    uint64_t value; /* where the question is "how many" */
    char reason[OCL_REASON_SIZE];
} ocl_item;

typedef struct ocl_answers {
    uint64_t key;    /* of device, driver and kernels */
    uint32_t probed; /* capabilities that were not masked: all probes of them are answered */
    uint32_t asked;  /* the self-tests as well */
    int count;
    ocl_item items[OCL_ITEMS_MAX];
    bool remembered; /* read from a file */
} ocl_answers;

/* Identity of the questions: device, driver, kernels, version of cltrain, and what else in the environment
 * changes the answers. */
clt_status ocl_answers_key(const ocl_device_desc *device, uint64_t *key);

const ocl_item *ocl_answers_find(const ocl_answers *answers, const char *name);
/* Adds an item or replaces the one of its name. CLT_EINTERNAL when there is no room. */
clt_status ocl_answers_set(ocl_answers *answers, const ocl_item *item);
/* The capabilities that count: their probe and (with tests) every self-test of theirs were answered with yes.
 */
uint32_t ocl_answers_caps(const ocl_answers *answers, uint32_t played, bool tests);
/* Fills in what the answers say of sizes: local_proven_bytes, kernel_group_limit. */
void ocl_answers_sizes(const ocl_answers *answers, ocl_device_desc *device);
/* Is the device of use at all? Else the question that it failed. */
const ocl_item *ocl_answers_refusal(const ocl_answers *answers, bool tests);
/* How the capability stands, with the first reason why not. */
ocl_cap_report ocl_answers_report(const ocl_answers *answers, int cap);

bool ocl_answer_from_name(const char *name, ocl_answer *out);

/* --- the file --- */

/* Text of the file: JSON with a hash of itself as its last member. Answers that may be others the next time
 * (an OpenCL call that failed) are left out; those that refuse the device hold for `spec` and until
 * the machine is started again. */
clt_status ocl_answers_print(const ocl_answers *answers, const ocl_device_desc *device, clt_str *out);
/* CLT_EDATA says what is wrong with it. */
clt_status ocl_answers_parse(const char *text, size_t length, const char *source,
                             const ocl_device_desc *device, ocl_answers *out);

/* The file of a device and the lock beside it; free both. CLT_ESTORAGE: there is no private cache folder. */
clt_status ocl_answers_path(const ocl_device_desc *device, uint64_t key, char **path, char **lock);
/* Answers without items when there is no file; one that is not believed is told. Fails only for lack of
 * memory. */
clt_status ocl_answers_load(const char *path, const ocl_device_desc *device, uint64_t key, ocl_answers *out);
clt_status ocl_answers_save(const char *path, const ocl_device_desc *device, const ocl_answers *answers);

#endif
