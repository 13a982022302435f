/* SPDX-License-Identifier: Apache-2.0
 *
 * How a GEMM backend for GPUs cuts a product into tiles of C and, by split-K, parts of k: the form, and the choice of the
 * one that a backend's model of the time takes to be fastest. Plain arithmetic, for the backends `tile`,
 * `mma` and `wgmma`, their tests and the checker. It must not know how a kernel multiplies. */
#ifndef CL_GEMM_FORMS_H
#define CL_GEMM_FORMS_H

#include "cl/gemm/gemm.h"

typedef struct ocl_gemm_form {
    int bm, bn, bk; /* tile of C of a work-group, steps of k in local memory */
    int pm, pn;     /* part of the tile: the sums of an item (tile), of a warp of 32 items (mma), of
                   four warps (wgmma) */
    int va, vb;     /* tile: elements of A, of B, that an item loads at once */
    int stages;     /* mma, wgmma: tiles of A and B in local memory at once */
    int sm;         /* mma: MMA_SM of cl/kernels/mma.clh, the generation of its instructions */
    int splits;     /* split-K: parts of k whose sums are added afterwards */
} ocl_gemm_form;

/* What a value of a form is to the choice. */
typedef enum ocl_form_role {
    OCL_FORM_KEPT,   /* a wish replaces that of the standard forms */
    OCL_FORM_FOLLOWS /* `complete` sets it, with the wish at hand */
} ocl_form_role;

/* A value of the form that a tuning record may give. */
typedef struct ocl_form_key {
    const char *name;
    size_t offset; /* of the int in ocl_gemm_form */
    ocl_form_role role;
} ocl_form_key;

typedef struct ocl_form_family {
    const ocl_variant *variant;
    const ocl_gemm_form *forms; /* the standard forms, each with splits 0; a form with bm 0 ends the list */
    const ocl_form_key *keys;   /* all but splits, which records call "split"; name NULL ends */
    int64_t min_part;           /* steps of k: shorter parts are not worth their sums */
    /* Sets what follows from the rest of the form; may be NULL. */
    void (*complete)(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_gemm_form *wanted,
                     ocl_gemm_form *form);
    bool (*fits)(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_gemm_form *form);
    double (*cost)(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_gemm_form *form);
    const char *program, *kernel; /* of the product */
    int (*items)(const ocl_gemm_form *form);
    /* Capabilities that the kernel uses beside those that the variant needs; NULL: none. */
    uint32_t (*uses)(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_gemm_form *form);
    /* Adds the defines of this family's kernel alone. */
    void (*defines)(ocl_emitter *emitter, const ocl_gemm *gemm, const ocl_gemm_form *form);
} ocl_form_family;

/* The cheapest form that fits; what is not 0 in `wanted` (may be NULL) is kept, or minded by `complete`.
 * False with the reason when nothing like that works for this problem on this device. */
bool ocl_form_choose(const ocl_form_family *family, const ocl_gemm *gemm, const ocl_device_desc *device,
                     const ocl_gemm_form *wanted, ocl_gemm_form *out, char *reason, size_t size);
/* The form of the record in force or, where it says nothing, of ocl_form_choose; asks ocl_tuned for every
 * key, which also tells the tuner what was taken. CLT_EUNSUPPORTED with the reason. */
clt_status ocl_form_decide(const ocl_form_family *family, ocl_emitter *emitter, const ocl_gemm *gemm,
                           ocl_gemm_form *out);

/* The commands of a product in the form of ocl_form_decide: the product itself, and with splits the sum of
 * its parts. The `emit` of every family's variant. CLT_EUNSUPPORTED with the reason. */
clt_status ocl_form_emit(const ocl_form_family *family, ocl_emitter *emitter, const ocl_gemm *gemm);

/* The model's time of the form that ocl_form_choose takes; INFINITY when none fits. Comparable between
 * families whose models have the same unit (mma, wgmma). */
double ocl_form_time(const ocl_form_family *family, const ocl_gemm *gemm, const ocl_device_desc *device);

int64_t ocl_form_up(int64_t size, int64_t tile); /* tiles that cover `size` */
uint64_t ocl_form_groups(const ocl_gemm *gemm, const ocl_gemm_form *form);
/* Floats of workspace; 0 without splits. */
uint64_t ocl_form_workspace(const ocl_gemm *gemm, const ocl_gemm_form *form);
/* Steps of k of one part: whole steps of bk. */
int64_t ocl_form_part_steps(const ocl_gemm *gemm, const ocl_gemm_form *form);
int ocl_form_max_items(const ocl_device_desc *device); /* of a work-group */
/* Has this form's program been given up on the device (cl/command/fallback.h)? */
bool ocl_form_is_given_up(const ocl_form_family *family, const ocl_device_desc *device,
                          const ocl_gemm_form *form);
/* Bytes of local memory of a work-group: what the device reports, or more where more was shown to work. */
uint64_t ocl_form_max_local(const ocl_device_desc *device);
/* Neighbours in a row of C that kernels may finish together: as many as fill 16 bytes when all that an
 * element of C meets (C, residual, pre, dact, bias, or the sums of a part of k) lies at multiples of 16 bytes
 * wherever such a run starts, else 1. VC of cl/gemm/gemm_epilogue.clh. */
int ocl_form_vector(const ocl_gemm *gemm, const ocl_gemm_form *form);

#endif
