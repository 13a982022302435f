/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device answered when it was asked for each capability: the record of its probes and self-tests, with
 * the reason of every answer that is not yes. It is kept in a file of the user's cache, one for each device
 * with its driver and these kernels, so that a device is asked once. A file that is damaged, of another
 * device or older than the kernels is not believed. It must not know how a question is put. */
#ifndef CL_ANSWERS_H
#define CL_ANSWERS_H

#include "cl/device/device.h"
#include "engine/base/json.h"

#define OCL_ITEM_NAME 40 /* bytes of a question's name */
/* Names of questions; other ones are named after their capability, tests after OCL_TEST_PREFIX. */
#define OCL_ITEM_BASIC "basic"
#define OCL_ITEM_GROUP_LIMIT "group_limit"
#define OCL_ITEM_LARGER_GROUPS "larger_groups"
#define OCL_ITEM_LOCAL_REPORT "local_report"
#define OCL_ITEM_LOCAL_MEMORY "local_memory_" /* KiB */
#define OCL_TEST_PREFIX "test:"
#define OCL_ITEMS_MAX 64
#define OCL_TESTED_MAX 16

/* One question: a probe has the name of its capability; "basic" is the kernel that every device must run;
 * "test: NAME" are self-tests of kernels that use capabilities. */
typedef struct ocl_item {
    char name[OCL_ITEM_NAME];
    ocl_answer answer;
    uint32_t drops; /* capabilities that count only if the answer is yes; 0: the device does */
    uint64_t value; /* where the question is "how many" */
    char reason[OCL_REASON_SIZE];
} ocl_item;

/* A device that cannot be used, though others of its model may: the question that it failed. */
#define OCL_REFUSED_SPEC 32
typedef struct ocl_refused_device {
    char spec[OCL_REFUSED_SPEC]; /* its number, and a hash of what numbers devices anew */
    ocl_item item;
} ocl_refused_device;
#define OCL_REFUSED_MAX 16

/* What the driver refused when plans were put on such a device (cl/command/fallback.h): plans do without it
 * from the start. */
typedef struct ocl_denial {
    char variant[64]; /* the name by which whoever plans knows it */
    char form[OCL_FORM_TEXT];
} ocl_denial;
typedef struct ocl_denials {
    uint32_t caps;
    int count;
    ocl_denial list[OCL_GIVEN_UP_MAX];
} ocl_denials;

typedef struct ocl_answers {
    uint64_t key;    /* of device, driver and kernels */
    uint32_t probed; /* capabilities that were not masked: all probes of them are answered */
    /* Sets of capabilities that counted when all self-tests of such a device were answered: one without lanes
     * has other tests than one with them. */
    int n_tested;
    uint32_t tested[OCL_TESTED_MAX];
    int count;
    ocl_item items[OCL_ITEMS_MAX];
    bool remembered; /* read from a file */
    int n_refused;
    ocl_refused_device refused[OCL_REFUSED_MAX]; /* devices of this model; the file's, for ocl_answers_save */
    ocl_denials denials;
} ocl_answers;

/* Identity of the questions: device, driver, kernels, version of cltrain, the style that is asked for, and
 * what else in the environment changes the answers. */
clt_status ocl_answers_key(const ocl_device_desc *device, ocl_style style, uint64_t *key);

const ocl_item *ocl_answers_find(const ocl_answers *answers, const char *name);
/* Is the item a self-test (else a probe)? */
bool ocl_item_is_test(const ocl_item *item);
/* Was a self-test answered with a loss? */
bool ocl_answers_lost_test(const ocl_answers *answers);
/* Adds an item or replaces the one of its name. CLT_EINTERNAL when there is no room. */
clt_status ocl_answers_set(ocl_answers *answers, const ocl_item *item);
/* The capabilities that count: their probe and (with tests) every self-test of theirs were answered with yes.
 */
uint32_t ocl_answers_caps(const ocl_answers *answers, uint32_t emulated, bool tests);
/* All questions for a device with this mask have been answered: of the probes, and of the self-tests. */
void ocl_answers_note_asked(ocl_answers *answers, uint32_t mask, uint32_t emulated, bool tests);
bool ocl_answers_were_asked(const ocl_answers *answers, uint32_t mask, uint32_t emulated, bool tests);
/* Fills in what the answers say of sizes: local_proven_bytes, local_report_factor,
 * kernel_group_limit, larger_groups. */
void ocl_answers_sizes(const ocl_answers *answers, ocl_device_desc *device);
/* Is the device of use at all? Else the question that it failed. */
const ocl_item *ocl_answers_refusal(const ocl_answers *answers, bool tests);
/* How the capability stands, with the first reason why not. */
ocl_cap_report ocl_answers_report(const ocl_answers *answers, int cap);

bool ocl_answer_from_name(const char *name, ocl_answer *out);

/* --- the file --- */

/* Text of the file: JSON with a hash of itself as its last member. Answers that may be others the next time
 * (an OpenCL call that failed) are left out. */
clt_status ocl_answers_print(const ocl_answers *answers, const ocl_device_desc *device, clt_str *out);
/* CLT_EDATA says what is wrong with it. Refused devices and denials of before the machine was started again
 * are left out. */
clt_status ocl_answers_parse(const char *text, size_t length, const char *source, ocl_answers *out);

/* Devices of one model share a file, and one of them may be broken. ocl_answers_apply_refusal makes what is
 * noted of `spec` an item of the answers. ocl_answers_note gives the answers of the device `spec` back to
 * those of the model: *file, as it was read last, becomes what is to be written. */
clt_status ocl_answers_apply_refusal(ocl_answers *answers, const char *spec);
void ocl_answers_note(const ocl_answers *answers, const char *spec, ocl_answers *file);

/* Adds what `more` has; what finds no room is left out. */
void ocl_denials_add(ocl_denials *denials, const ocl_denials *more);
bool ocl_denials_any(const ocl_denials *denials);
bool ocl_denials_has(const ocl_denials *denials, const ocl_denial *denial);
bool ocl_denials_equal(const ocl_denials *a, const ocl_denials *b); /* in any order */
/* As a JSON object. Reading passes over capabilities that this program does not know; CLT_EDATA says what is
 * wrong. */
void ocl_denials_write(const ocl_denials *denials, clt_json_writer *w);
clt_status ocl_denials_read(const clt_json *object, const char *source, ocl_denials *out);

/* The file of a device and the lock beside it; free both. CLT_ESTORAGE: there is no private cache folder. */
clt_status ocl_answers_path(const ocl_device_desc *device, uint64_t key, char **path, char **lock);
/* The answers for this device. Without items when there is no file; one that is not believed is told. Fails
 * only for lack of memory. */
clt_status ocl_answers_load(const char *path, const ocl_device_desc *device, uint64_t key, ocl_answers *out);
/* Beside what the file has of other devices of this model. */
clt_status ocl_answers_save(const char *path, const ocl_device_desc *device, const ocl_answers *answers);

#endif
