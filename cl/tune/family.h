/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel family: the implementations of one computation (matrix products, an op's forward or backward
 * direction), how one of them is chosen for a problem, and how they are measured. The choice is the same for
 * every family: a variant that is asked for by name, one that the environment prefers, the one of a tuning
 * record, the family's own standard. It must not know what a family computes. */
#ifndef CL_FAMILY_H
#define CL_FAMILY_H

#include "cl/tune/tuning.h"

/* How the tuner measures the problems of a family, cut down to a size that can be measured where they are too
 * large. */
typedef struct ocl_family_bench {
    /* Operands and a reference result; data: what `describe` gave. */
    clt_status (*create)(ocl_device *device, const ocl_device_desc *desc, const void *data, void **bench);
    void (*destroy)(void *bench); /* NULL is fine */
    /* What the variants' accepts functions get: the problem as it is measured, or as it was at first. */
    const void *(*problem)(const void *bench, bool measured);
    /* The commands of a candidate, taken as it is; desc: which records hold for what is inside. `asked`
     * receives the values it runs with, as far as they are known. */
    clt_status (*ready)(void *bench, const ocl_device_desc *desc, const ocl_choice *candidate,
                        ocl_choice *asked, void **ready);
    void (*release)(void *bench, void *ready);
    /* Nanoseconds of one execution of the full problem; the first call of a candidate warms up. */
    clt_status (*time)(void *bench, void *ready, double *ns);
    /* Runs it and compares with the reference; *right false: `why` says what is wrong. */
    clt_status (*check)(void *bench, void *ready, bool *right, char *why, size_t size);
} ocl_family_bench;

typedef struct ocl_family {
    const ocl_variant *const *variants; /* ordered, NULL-terminated, the last accepts everything */
    /* Of its records: "gemm", "attention.forward". NULL: it has none, and nothing else below counts. */
    const char *name;
    const char *sources;  /* the files of its kernels begin with it, or include one that does */
    const char *variable; /* environment variable that names a preferred variant; NULL: none */
    /* The words that a choice depends on (cl/tune/tuning.h compares them); returns buffer. */
    const char *(*problem)(const void *problem, char *buffer, size_t size);
    double (*flops)(const void *problem);
    /* The name of the variant to take where nothing else decides; NULL: the first that accepts. */
    const char *(*standard)(const void *problem, const ocl_device_desc *device);
    /* What the bench needs to know of the problem, without pointers into a plan; free(). */
    clt_status (*describe)(const void *problem, void **data, size_t *size);
    const ocl_family_bench *bench; /* NULL: cannot be measured */
} ocl_family;

/* Emits the problem's commands by the variant that is chosen. force: the name of a variant, which then must
 * accept, or NULL. A record of this family in emitter->record is taken as it is, or refused (the tuner). The
 * problem goes to emitter->log. `what` stands in messages. */
clt_status ocl_family_emit(ocl_emitter *emitter, const ocl_family *family, const void *problem,
                           const char *what, const char *force);
/* What is taken without a record: what `force` names, what the environment prefers, or the standard. */
clt_status ocl_family_choose(const ocl_family *family, const void *problem, const ocl_device_desc *device,
                             const char *what, const char *force, const ocl_variant **out);
/* What is taken without force, environment and records. */
clt_status ocl_family_standard(const ocl_family *family, const void *problem, const ocl_device_desc *device,
                               const char *what, const ocl_variant **out);
/* The variant that the environment prefers, or NULL. */
const char *ocl_family_preferred(const ocl_family *family);
/* The variant of that name, or NULL. */
const ocl_variant *ocl_family_variant(const ocl_family *family, const char *name);
/* Adds the problem to the log (NULL: does nothing); record: what was in force, or NULL. */
clt_status ocl_family_log(ocl_tuning_log *log, const ocl_family *family, const void *problem,
                          const ocl_choice *record);

#endif
