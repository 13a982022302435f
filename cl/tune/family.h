/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel family: the implementations of one computation (matrix products, an op's forward or backward
 * direction), how one of them is chosen for a problem, and how they are measured. Every family chooses in
 * the same order: a variant that the caller names, one that the environment prefers, the variant of a tuning
 * record, the family's standard choice. This file must not know what a family computes. */
#ifndef CL_TUNE_FAMILY_H
#define CL_TUNE_FAMILY_H

#include "cl/tune/tuning.h"

/* How the tuner measures problems of a family; problems that are too large are measured at a smaller
 * size. */
typedef struct ocl_family_bench {
    /* Creates operands and a reference result. data: the description from `describe`. */
    clt_status (*create)(ocl_device *device, const ocl_device_desc *desc, const void *data, void **bench);
    void (*destroy)(void *bench); /* bench may be NULL */
    /* The problem that is passed to the variants' accepts functions: the one that is measured, or the
     * original one. */
    const void *(*problem)(const void *bench, bool measured);
    /* Builds the commands of exactly this candidate. desc: with records for problems that are parts of this
     * one. `asked` gets the values with which the candidate runs, as far as they are known. */
    clt_status (*ready)(void *bench, const ocl_device_desc *desc, const ocl_choice *candidate,
                        ocl_choice *asked, void **ready);
    void (*release)(void *bench, void *ready);
    /* Nanoseconds of one execution of the full problem. The first call for a candidate also warms up. */
    clt_status (*time)(void *bench, void *ready, double *ns);
    /* Runs the candidate and compares its result with the reference. If *right is false, `why` says what is
     * wrong. */
    clt_status (*check)(void *bench, void *ready, bool *right, char *why, size_t size);
} ocl_family_bench;

typedef struct ocl_family {
    const ocl_variant *const *variants; /* ordered, NULL-terminated; the last one accepts everything */
    /* Name of the family in records: "gemm", "attention.forward". NULL: it has no records, and the members
     * below are unused. */
    const char *name;
    const char *sources;  /* prefix of the names of its kernel files (or of files that they include) */
    const char *variable; /* environment variable that names a preferred variant; NULL: none */
    const ocl_variant *const *others; /* variants of another family with the same environment variable: their
                                       * names are valid, but name no preference for this family */
    /* The problem as words, which contain everything that the choice depends on (cl/tune/tuning.h compares
     * them); returns buffer. */
    const char *(*problem)(const void *problem, char *buffer, size_t size);
    double (*flops)(const void *problem);
    /* The name of the standard choice. NULL: the first variant that accepts the problem. */
    const char *(*standard)(const void *problem, const ocl_device_desc *device);
    /* A description of the problem for the bench, without pointers into a plan; the caller frees it with
     * free(). */
    clt_status (*describe)(const void *problem, void **data, size_t *size);
    const ocl_family_bench *bench; /* NULL: the family's problems cannot be measured */
} ocl_family;

/* Chooses a variant and emits the problem's commands. force: the name of a variant, which then must accept
 * the problem, or NULL. If emitter->record, which the tuner sets, is a record of this family, it is used
 * exactly, or emission fails. The problem is added to emitter->log. `what` names the problem in messages. */
clt_status ocl_family_emit(ocl_emitter *emitter, const ocl_family *family, const void *problem,
                           const char *what, const char *force);
/* The choice without a record: the variant that `force` names, else the one that the environment prefers,
 * else the standard choice. */
clt_status ocl_family_choose(const ocl_family *family, const void *problem, const ocl_device_desc *device,
                             const char *what, const char *force, const ocl_variant **out);
/* The standard choice, which ignores force, environment and records. */
clt_status ocl_family_standard(const ocl_family *family, const void *problem, const ocl_device_desc *device,
                               const char *what, const ocl_variant **out);
/* The variant that the environment prefers, or NULL. */
const char *ocl_family_preferred(const ocl_family *family);
/* Registers the families that have tuning records: a list that ends with NULL and is kept by reference. To
 * be called once before records are read, because records of unregistered families count as records of
 * unknown kernels. */
void ocl_families_register(const ocl_family *const *families);
/* The registered family of that name, or NULL. */
const ocl_family *ocl_family_find(const char *name);
/* Adds the problem to the log (NULL: does nothing). record: the record that was used, or NULL. */
clt_status ocl_family_log(ocl_tuning_log *log, const ocl_family *family, const void *problem,
                          const ocl_choice *record);

#endif
