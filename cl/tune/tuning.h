/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning records: for a problem of a kernel family ("gemm", "NN m=512 n=512 k=512 batch=1 f32*f32->f32")
 * the variant, and the values of its tunables, that are fastest on one device with one driver. They exist
 * because the fastest choice can be measured but not computed. A record can only choose among values that a
 * variant declares, so a bad record costs time but never correctness. Everything here is pure:
 * cl/tune/tuning_store.c reads and writes files, cl/tune/tuner.h measures. This file must not know what a
 * family computes. */
#ifndef CL_TUNE_TUNING_H
#define CL_TUNE_TUNING_H

#include "engine/base/scope.h"
#include "cl/command/variant.h"
#include "cl/device/capabilities.h"
#include "engine/json/json.h"

#define OCL_TUNE_NAME 32     /* size of the name of a family, variant or tunable, in bytes */
#define OCL_TUNE_PROBLEM 160 /* size of a problem's text, in bytes */
#define OCL_TUNE_MAX 16      /* largest number of tunables of a variant */

typedef struct ocl_tuned_value {
    char name[OCL_TUNE_NAME];
    int value;
} ocl_tuned_value;

/* A tuning record: one choice, with its times. */
typedef struct ocl_choice {
    char family[OCL_TUNE_NAME];
    char problem[OCL_TUNE_PROBLEM];
    char variant[OCL_TUNE_NAME];
    int n_values; /* the variant chooses the values of other tunables */
    ocl_tuned_value values[OCL_TUNE_MAX];
    double ns, default_ns; /* nanoseconds of one execution; 0: unknown (shipped, or from a checkpoint) */
    int tried;             /* number of candidates measured, including the default */
    bool complete;         /* false: the time ran out before all candidates were measured */
} ocl_choice;

/* Records are valid for one device with one driver. */
typedef struct ocl_tuning_key {
    char platform[OCL_NAME_SIZE], device[OCL_NAME_SIZE], driver[OCL_NAME_SIZE];
    uint32_t compute_units;
} ocl_tuning_key;

/* The state of a family's kernels when its records were measured. */
typedef struct ocl_tuning_family {
    char name[OCL_TUNE_NAME];
    uint64_t hash;
} ocl_tuning_family;

/* Records of one device with one driver, ordered by family and problem, one for each problem. */
typedef struct ocl_tuning {
    ocl_tuning_key key;
    /* records are only for exactly their problems, not for similar ones (from a checkpoint) */
    bool exact;
    ocl_style style;             /* style of the checkpoint's run; ASKED: unknown */
    bool has_unsupported;        /* the checkpoint records what was given up in its run (`unsupported`) */
    ocl_unsupported unsupported; /* what the driver had refused (cl/command/fallback.h) */
    ocl_choice *records;
    size_t count, capacity;
} ocl_tuning;

clt_status ocl_tuning_create(const ocl_device_desc *device, ocl_tuning **out);
void ocl_tuning_destroy(ocl_tuning *tuning); /* tuning may be NULL */
CLT_SCOPED_POINTER(ocl_tuning, ocl_tuning_destroy)
clt_status ocl_tuning_copy(const ocl_tuning *tuning, ocl_tuning **out);
/* Adds a record, or replaces the record of the same family and problem. */
clt_status ocl_tuning_set(ocl_tuning *tuning, const ocl_choice *record);
void ocl_tuning_remove(ocl_tuning *tuning, const char *family, const char *problem);
/* Adds the records of `from`. If both sets have a record of a problem, the one of `from` replaces the other
 * if `replace` is set, and is ignored if not. */
clt_status ocl_tuning_merge(ocl_tuning *tuning, const ocl_tuning *from, bool replace);
/* The record of exactly this problem, or NULL. */
const ocl_choice *ocl_tuning_exact(const ocl_tuning *tuning, const char *family, const char *problem);
/* The record of this problem or, unless the set is exact, of the most similar one, which has the same words
 * and each "name=size" within a factor of two (1 is similar only to 1). NULL if there is none. */
const ocl_choice *ocl_tuning_find(const ocl_tuning *tuning, const char *family, const char *problem);
/* Whether the set belongs to this device and driver; if not, `why` says what differs. */
bool ocl_tuning_fits(const ocl_tuning *tuning, const ocl_device_desc *device, char *why, size_t size);
/* Hash of the choices, without times: equal choices have equal hashes. */
uint64_t ocl_tuning_hash(const ocl_tuning *tuning);

/* Sets a value of a record by name; CLT_EINTERNAL when the record is full. */
clt_status ocl_choice_set(ocl_choice *record, const char *name, int value);
/* Value of a tunable in the record, or `fallback`. */
int ocl_choice_value(const ocl_choice *record, const char *name, int fallback);
bool ocl_choice_equal(const ocl_choice *a, const ocl_choice *b); /* variant and values */
/* Writes "lane mr=6 nv=2"; returns buffer. */
const char *ocl_choice_text(const ocl_choice *record, char *buffer, size_t size);
#define OCL_CHOICE_TEXT 320
/* The variant of that name, or NULL. list: NULL-terminated, or NULL. */
const ocl_variant *ocl_variant_named(const ocl_variant *const *list, const char *name);
/* The variant that a record names. It must be in the list, the device must have the capabilities that it
 * needs, and it must accept the problem and declare every value; otherwise NULL, with the reason. */
const ocl_variant *ocl_choice_variant(const ocl_choice *record, const ocl_variant *const *list,
                                      const void *problem, const ocl_device_desc *device, char *reason,
                                      size_t size);

/* --- text: JSON, strict --- */

/* Writes the set as a JSON object. measured: with times; without them, equal choices give equal text. */
void ocl_tuning_write(const ocl_tuning *tuning, bool measured, clt_json_writer *w);
/* Reads such an object; CLT_EDATA says what is wrong with it. Records of families whose kernels have changed
 * since are skipped and counted in *outdated (may be NULL). */
clt_status ocl_tuning_read(const clt_json *object, const char *source, ocl_tuning **out, int *outdated);
/* Write and parse a file: the object, whose last member is a hash of every byte before it. */
clt_status ocl_tuning_print(const ocl_tuning *tuning, clt_str *out);
clt_status ocl_tuning_parse(const char *text, size_t length, const char *source, ocl_tuning **out,
                            int *outdated);
#define OCL_TUNING_MAX_BYTES 16000000u
#define OCL_TUNING_MAX_RECORDS 16384u

/* Hash of everything that a family's records depend on: its kernel sources (ocl_family.sources), and its
 * registered variants and tunables. */
clt_status ocl_family_hash(const char *family, uint64_t *hash);

/* --- the log of a plan's problems --- */

/* A problem that was emitted. */
typedef struct ocl_tuning_use {
    char family[OCL_TUNE_NAME], problem[OCL_TUNE_PROBLEM];
    void *data; /* describes the problem for the family's bench; owned; NULL: it cannot be measured */
    size_t size;
    int64_t calls;
    double flops; /* of one call */
    bool tuned;   /* a record was used, which is in `record` */
    ocl_choice record;
} ocl_tuning_use;

struct ocl_tuning_log {
    ocl_tuning_use *at; /* distinct problems in the order of their first use */
    size_t count, capacity;
};
typedef struct ocl_tuning_log ocl_tuning_log;
/* Adds a problem. log NULL: does nothing. record NULL: the default was chosen. */
clt_status ocl_tuning_log_add(ocl_tuning_log *log, const char *family, const char *problem, const void *data,
                              size_t size, double flops, const ocl_choice *record);
clt_status ocl_tuning_log_merge(ocl_tuning_log *log, const ocl_tuning_log *from);
void ocl_tuning_log_free(ocl_tuning_log *log);
CLT_SCOPED_VALUE(ocl_tuning_log, ocl_tuning_log_free)

#endif
