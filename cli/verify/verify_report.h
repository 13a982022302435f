/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects the checker's results and writes them as JSON and JUnit XML. */
#ifndef CLI_VERIFY_VERIFY_REPORT_H
#define CLI_VERIFY_VERIFY_REPORT_H

#include "cli/verify/verify_speed.h"

typedef struct verify_item {
    char *device, *name, *reason, *repeat;
    int run; /* number of the device, from 1 */
    uint64_t index, bits;
    clt_verify_state state;
    double error, limit, ms;
    verify_speed *speeds; /* n_speeds, of a check of mode perf */
    int n_speeds;
    double (*curve)[2]; /* curve_steps: loss and gradient norm of each step of a training; NULL: none */
    int curve_steps;
    uint64_t runs, failures; /* numbers over all rounds */
    uint64_t round;          /* round of the first failure; 0: none */
    bool known;              /* the check fails both here and in the baseline */
} verify_item;

/* A device that was checked. */
typedef struct verify_device {
    char spec[16];
    char name[OCL_NAME_SIZE], driver[OCL_NAME_SIZE], platform[OCL_NAME_SIZE]; /* "": it was not opened */
} verify_device;

/* The command line's selection of checks. NULL: not given. */
typedef struct verify_selection {
    const char *pattern, *mode, *caps, *shard;
    bool quick, small;
    uint64_t seed;
} verify_selection;

typedef struct verify_report {
    verify_item *items;
    size_t count, capacity;
    verify_device *devices;
    size_t n_devices, devices_capacity;
    uint64_t rounds; /* number of rounds that were begun */
    size_t *places;  /* for each check of the last device: 1 + its index in `items`; 0: none */
    size_t places_capacity;
    bool failed; /* out of memory */
} verify_report;

/* Call it before adding the results of another device. */
void verify_report_device(verify_report *report, const char *spec);
/* Sets the description of the device that was added last. */
void verify_report_opened(verify_report *report, const ocl_device_desc *device);
/* Adds a result. Results of later rounds are added to the check's first result; the first failure, if any,
 * replaces its state, numbers and texts. True if this is the check's first result or first failure. */
bool verify_report_add(verify_report *report, const char *device, const clt_verify_result *result);
/* Adds times from another process that has repeated a check of the device that was added last. If the check
 * failed in that process, it counts as failed. */
void verify_report_repeat(verify_report *report, const clt_verify_result *result);
/* Keeps losses and gradient norms of the training whose result was added last, for the JSON. CLT_ENOMEM. */
clt_status verify_report_curve(verify_report *report, const double (*numbers)[2], int steps);
/* Adds to count[] the checks of the device that was added last, by their states. */
void verify_report_count(const verify_report *report, int count[5]);
/* Sorts the results by device and into the order of the list of checks. CLT_ENOMEM: some are missing. */
clt_status verify_report_sort(verify_report *report);
/* Writes the results as JSON, which verify_baseline_open reads, and as JUnit XML. A path may be NULL. */
clt_status verify_report_json(const verify_report *report, const verify_selection *selection,
                              const char *path);
clt_status verify_report_junit(const verify_report *report, const verify_selection *selection,
                               const char *path);
/* True for the states that count as a failure. */
bool verify_is_failure(clt_verify_state state);
/* The JSON format: its first members, and the last one, which holds a hash of the rest. */
#define VERIFY_FORMAT "cltrain-verify"
#define VERIFY_FORMAT_VERSION 1
#define VERIFY_SEAL "verify_xxh64"
/* Prints the most frequent reasons why checks were skipped. own_forms: variants that the device does not use
 * were skipped as well (--quick), which a line then says. */
void verify_report_skips(const verify_report *report, bool own_forms);
void verify_report_free(verify_report *report);

#endif
