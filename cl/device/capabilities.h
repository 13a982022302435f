/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of a device's answers to probes and self-tests of its capabilities, with the reason of every
 * answer that is not yes. It is kept in the user's cache, in one file for each device, driver and version of
 * the kernels, so that a device is tested only once. A file that is damaged, belongs to another device or is
 * older than the kernels is ignored. This file must not know how a question is asked. */
#ifndef CL_DEVICE_CAPABILITIES_H
#define CL_DEVICE_CAPABILITIES_H

#include "cl/device/device.h"
#include "engine/json/json.h"

#define OCL_ITEM_NAME 40 /* size of a question's name, in bytes */
/* Names of questions. All other probes are named after their capability; names of self-tests begin with
 * OCL_TEST_PREFIX. */
#define OCL_ITEM_BASIC "basic"
#define OCL_ITEM_GROUP_LIMIT "group_limit"
#define OCL_ITEM_LARGER_GROUPS "larger_groups"
#define OCL_ITEM_LOCAL_REPORT "local_report"
#define OCL_ITEM_LOCAL_MEMORY "local_memory_"      /* KiB */
#define OCL_ITEM_LOCAL_ARGUMENT "local_argument_"  /* KiB */
#define OCL_ITEM_RETARGETED_MEMORY "wgmma_memory_" /* KiB */
#define OCL_TEST_PREFIX "test:"
#define OCL_ITEMS_MAX 80
#define OCL_TESTED_MAX 16

/* One question: a probe has the name of its capability; "basic" is the kernel that every device must run;
 * "test: NAME" are self-tests of kernels that use capabilities. */
typedef struct ocl_item {
    char name[OCL_ITEM_NAME];
    ocl_answer answer;
    uint32_t drops; /* capabilities that are lost unless the answer is yes; 0: the whole device is refused */
    uint64_t value; /* the number, for questions that have one as their answer */
    char reason[OCL_REASON_SIZE];
} ocl_item;

/* A device that cannot be used, with the question that it failed. Others of the same model may work. */
#define OCL_REFUSED_SPEC 32
typedef struct ocl_refused_device {
    char spec[OCL_REFUSED_SPEC]; /* its index, and a hash of the variables that renumber devices */
    ocl_item item;
} ocl_refused_device;
#define OCL_REFUSED_MAX 16

/* Something that the driver refused when a plan's executors were created (cl/command/fallback.h); later
 * plans avoid it from the start. */
typedef struct ocl_unsupported_variant {
    char variant[64]; /* name of the variant */
    char form[OCL_FORM_TEXT];
} ocl_unsupported_variant;
typedef struct ocl_unsupported {
    uint32_t caps;
    int count;
    ocl_unsupported_variant list[OCL_GIVEN_UP_MAX];
} ocl_unsupported;

typedef struct ocl_capabilities {
    uint64_t key;    /* ocl_capabilities_key */
    uint32_t probed; /* capabilities that were not masked; all their probes are answered */
    /* Sets of capabilities. For each set, all self-tests that are needed with it have been answered. */
    int n_tested;
    uint32_t tested[OCL_TESTED_MAX];
    int count;
    ocl_item items[OCL_ITEMS_MAX];
    bool remembered; /* read from a file */
    int n_refused;
    ocl_refused_device refused[OCL_REFUSED_MAX]; /* refused devices of this model, as the file lists them */
    ocl_unsupported unsupported;
} ocl_capabilities;

/* Hash of everything that the answers depend on: device, driver, kernels, version of cltrain, the requested
 * style, and environment variables. */
clt_status ocl_capabilities_key(const ocl_device_desc *device, ocl_style style, uint64_t *key);

const ocl_item *ocl_capabilities_find(const ocl_capabilities *capabilities, const char *name);
/* Whether the item is a self-test (else it is a probe). */
bool ocl_item_is_test(const ocl_item *item);
/* Whether a self-test ended with a loss. */
bool ocl_capabilities_lost_test(const ocl_capabilities *capabilities);
/* Adds an item or replaces the one of its name. CLT_EINTERNAL when there is no room. */
clt_status ocl_capabilities_set(ocl_capabilities *capabilities, const ocl_item *item);
/* The usable capabilities: those whose probe and (with `tests`) all self-tests were answered with yes. */
uint32_t ocl_capabilities_caps(const ocl_capabilities *capabilities, uint32_t emulated, bool tests);
/* note_asked records that with this mask all probes and (with `tests`) all self-tests have been answered;
 * were_asked returns whether that was recorded. */
void ocl_capabilities_note_asked(ocl_capabilities *capabilities, uint32_t mask, uint32_t emulated,
                                 bool tests);
bool ocl_capabilities_were_asked(const ocl_capabilities *capabilities, uint32_t mask, uint32_t emulated,
                                 bool tests);
/* Copies the sizes that questions found into the description: local_proven_bytes, local_retargeted_bytes,
 * local_argument_bytes, local_report_factor, kernel_group_limit, larger_groups. */
void ocl_capabilities_sizes(const ocl_capabilities *capabilities, ocl_device_desc *device);
/* The failed question that makes the device unusable; NULL: it can be used. */
const ocl_item *ocl_capabilities_refusal(const ocl_capabilities *capabilities, bool tests);
/* The state of a capability and, if it was lost, the first reason. */
ocl_cap_report ocl_capabilities_report(const ocl_capabilities *capabilities, int cap);

bool ocl_answer_from_name(const char *name, ocl_answer *out);

/* --- the file --- */

/* Text of the file: JSON whose last member is a hash of the rest. Answers that may differ the next time (an
 * OpenCL call failed) are not written. */
clt_status ocl_capabilities_print(const ocl_capabilities *capabilities, const ocl_device_desc *device,
                                  clt_str *out);
/* Parses the text of such a file; CLT_EDATA says what is wrong with it. Refused devices and variants from
 * before the last restart of the machine are ignored. */
clt_status ocl_capabilities_parse(const char *text, size_t length, const char *source, ocl_capabilities *out);

/* Devices of one model share a file, and one of them may be broken. ocl_capabilities_apply_refusal turns the
 * stored refusal of device `spec` into an item of its answers. ocl_capabilities_note merges the answers of
 * device `spec` into *file, the model's answers as they were last read. The caller then writes *file. */
clt_status ocl_capabilities_apply_refusal(ocl_capabilities *capabilities, const char *spec);
void ocl_capabilities_note(const ocl_capabilities *capabilities, const char *spec, ocl_capabilities *file);

/* Adds the entries of `more`, as long as there is room. */
void ocl_unsupported_add(ocl_unsupported *unsupported, const ocl_unsupported *more);
bool ocl_unsupported_any(const ocl_unsupported *unsupported);
bool ocl_unsupported_has(const ocl_unsupported *unsupported, const ocl_unsupported_variant *variant);
bool ocl_unsupported_equal(const ocl_unsupported *a, const ocl_unsupported *b); /* order does not matter */
/* Writes and reads what was given up, as a JSON object. Reading ignores capabilities that this program does
 * not know; CLT_EDATA says what is wrong. */
void ocl_unsupported_write(const ocl_unsupported *unsupported, clt_json_writer *w);
clt_status ocl_unsupported_read(const clt_json *object, const char *source, ocl_unsupported *out);

/* The path of a device's file and of its lock file; the caller frees both. CLT_ESTORAGE: there is no private
 * cache folder. */
clt_status ocl_capabilities_path(const ocl_device_desc *device, uint64_t key, char **path, char **lock);
/* Reads the answers for this device: no items if there is no file; an invalid file is reported and ignored.
 * Fails only for lack of memory. */
clt_status ocl_capabilities_load(const char *path, const ocl_device_desc *device, uint64_t key,
                                 ocl_capabilities *out);
/* Writes the file; its entries for other devices of this model are kept. */
clt_status ocl_capabilities_save(const char *path, const ocl_device_desc *device,
                                 const ocl_capabilities *capabilities);

#endif
