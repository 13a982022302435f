/* SPDX-License-Identifier: Apache-2.0
 *
 * How a GEMM backend for GPUs divides a product into tiles of C and, with split-K, into parts of k. Such a
 * division is a form; the backend's cost model chooses the fastest form. Plain arithmetic, for the backends
 * `tile`, `mma` and `wgmma`, their tests and the checker. This file must not know how a kernel
 * multiplies. */
#ifndef CL_GEMM_GEMM_FORMS_H
#define CL_GEMM_GEMM_FORMS_H

#include "cl/device/matrix_unit.h"
#include "cl/gemm/gemm.h"

typedef struct ocl_gemm_form {
    int bm, bn, bk; /* tile of C that a work-group computes; steps of k of a tile in local memory */
    /* part of the tile that one item (tile), one warp (mma) or four warps (wgmma) compute */
    int pm, pn;
    int va, vb; /* tile: vector width of an item's loads of A and of B */
    int stages; /* mma, wgmma: pipeline stages, each a slot for a tile of A and one of B in local memory */
    int sm;     /* mma: MMA_SM of cl/kernels/mma.clh, the generation of its instructions */
    int splits; /* split-K: number of parts of k, whose sums are added afterwards */
    /* Not 0: stream-k, with this number of work-groups per compute unit and `groups` work-groups in all;
     * splits is then 1. */
    int stream, groups;
} ocl_gemm_form;

/* Values that the tuner tries for the tunable "split": numbers of parts of k or, negative, stream-k. */
#define OCL_SPLIT_COUNTS 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 24, 32, 48, 64
#define OCL_SPLIT_VALUES 17
#define OCL_STREAM_COUNTS -1, -2
#define OCL_STREAM_VALUES 2

/* How the choice of a form treats one of its values. */
typedef enum ocl_form_role {
    OCL_FORM_KEPT,    /* a wanted value replaces the standard forms' value */
    OCL_FORM_COMPUTED /* `complete` sets it, and may use the wanted value */
} ocl_form_role;

/* A value of the form that a tuning record may set. */
typedef struct ocl_form_key {
    const char *name;
    size_t offset; /* offset of the int in ocl_gemm_form */
    ocl_form_role role;
} ocl_form_key;

typedef struct ocl_form_family {
    const ocl_variant *variant;
    const ocl_gemm_form *forms; /* the standard forms, each with splits 0; a form with bm 0 ends the list */
    /* All values that records may set, except splits and stream: these are the value "split" (negative for
     * stream). Ends with a NULL name. */
    const ocl_form_key *keys;
    int64_t min_part; /* fewest steps of k in a part of split-K */
    /* Sets values that follow from the rest of the form; may be NULL. */
    void (*complete)(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_gemm_form *wanted,
                     ocl_gemm_form *form);
    bool (*fits)(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_gemm_form *form);
    double (*cost)(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_gemm_form *form);
    const char *program, *kernel; /* program and kernel of the product */
    bool retargeted;              /* whether the program is built a second time for another target */
    /* Bytes of the kernel's local memory; local_alignment is its alignment. If an array may not be that
     * large, local memory is an argument (cl/kernels/local_argument.clh). NULL: it is always an array. */
    uint64_t (*local_bytes)(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_gemm_form *form);
    uint32_t local_alignment;
    bool streams; /* whether the kernel supports stream-k */
    int (*items)(const ocl_gemm_form *form);
    /* Steps of k by which an item's window counter advances each time (cl/gemm/gemm_window_tiles.clh), a
     * power of two up to bk; NULL: bk. */
    int (*window_steps)(const ocl_gemm *gemm, const ocl_gemm_form *form);
    /* Capabilities that the kernel uses in addition to the variant's `needs`; NULL: none. */
    uint32_t (*uses)(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_gemm_form *form);
    /* Whether the kernel can compute sums of A's lines (ocl_line_sums) in this form; NULL: in none. */
    bool (*makes_line_sums)(const ocl_gemm *gemm, const ocl_device_desc *device, const ocl_gemm_form *form);
    /* Adds the defines that only this family's kernel needs. */
    void (*defines)(ocl_emitter *emitter, const ocl_gemm *gemm, const ocl_gemm_form *form);
} ocl_form_family;

/* Chooses the cheapest form that fits, by the cost model. Members of `wanted` (may be NULL) that are not 0
 * replace the form's values or are used by `complete`. If no form works for this problem on this device,
 * returns false, and `reason` says why. */
bool ocl_form_choose(const ocl_form_family *family, const ocl_gemm *gemm, const ocl_device_desc *device,
                     const ocl_gemm_form *wanted, ocl_gemm_form *out, char *reason, size_t size);
/* The form with the values of the tuning record, completed by ocl_form_choose. Calls ocl_tuned for every
 * key, so that the tuner learns the values too. CLT_EUNSUPPORTED with the reason. */
clt_status ocl_form_decide(const ocl_form_family *family, ocl_emitter *emitter, const ocl_gemm *gemm,
                           ocl_gemm_form *out);

/* Sets `wanted` from `value`, the "split" of a record: number of parts of k or, if negative, stream-k; 0: no
 * preference. */
void ocl_form_want_split(ocl_gemm_form *wanted, int value);

/* The record that leads to this form: its values, and `split` as in ocl_form_want_split, except those that
 * are 0. */
clt_status ocl_form_record(const ocl_form_family *family, const ocl_gemm_form *form, int split,
                           ocl_choice *out);
/* The reverse: a form with the values that a record has; the others are 0. */
ocl_gemm_form ocl_form_wanted(const ocl_form_family *family, const ocl_choice *record);

/* Emits a product in the form of ocl_form_decide and, with split-K or stream-k, the kernel that adds the
 * partial sums. The variants with forms call it from `emit`. CLT_EUNSUPPORTED with the reason. */
clt_status ocl_form_emit(const ocl_form_family *family, ocl_emitter *emitter, const ocl_gemm *gemm);

/* The matrix unit whose backend this variant is; NULL: none. */
const ocl_matrix_unit *ocl_form_unit(const ocl_variant *variant);

/* The time, by the cost model, of the form that ocl_form_choose chooses; INFINITY if none fits. Comparable
 * between families whose models use the same unit of time, as the models of all matrix units do. */
double ocl_form_time(const ocl_form_family *family, const ocl_gemm *gemm, const ocl_device_desc *device);

int64_t ocl_form_up(int64_t size, int64_t tile); /* number of tiles that cover `size` */
uint64_t ocl_form_groups(const ocl_gemm *gemm, const ocl_gemm_form *form);
/* Whether the kernel stores partial sums (split-K or stream-k). */
bool ocl_form_is_partial(const ocl_gemm_form *form);
/* Floats of workspace; 0 if the sums are not partial. */
uint64_t ocl_form_workspace(const ocl_gemm *gemm, const ocl_gemm_form *form);
/* Steps of k in one part of split-K: a multiple of bk. A part's sums are one chain of additions in
 * registers, of one product each (tile), of 8 (mma with tf32) or of 16 (mma, wgmma). With at most 64 parts,
 * a product over 2^24 steps has chains of 2^18, 2^15 and 2^14 additions. n additions of equal numbers have a
 * relative error of up to n / 3 * 2^-24. `lane` and `simple` keep it below 5e-5 (long_sum.clh); here it
 * stays below that up to 2500 additions. With k split into 64 parts that is 160,000 steps of `tile`, 1.3
 * million with tf32 and 2.5 million in 16 bits. */
int64_t ocl_form_part_steps(const ocl_gemm *gemm, const ocl_gemm_form *form);

/* How a form with stream-k divides the steps of all tiles (bk of k each) among its work-groups
 * (gemm_tiles.clh): which parts of a tile belong to groups that work on no other tile, and how many groups
 * share the remaining steps of all tiles. */
typedef struct ocl_form_shares {
    int64_t tiles, steps; /* tiles of C; steps of each tile */
    int64_t own_parts, part_steps;
    int64_t others;                /* groups that share the remaining steps */
    int64_t other_steps, of_tiles; /* largest number of steps, and of tiles, that one of these groups has */
    int64_t pairs;                 /* (group, tile) pairs, each of which has partial sums to store */
    int64_t slots;                 /* tile-sized slots of the workspace, some of which stay empty */
} ocl_form_shares;
void ocl_form_shares_of(const ocl_gemm *gemm, const ocl_gemm_form *form, ocl_form_shares *out);
int ocl_form_max_items(const ocl_device_desc *device); /* work-items of a work-group */
/* Whether this form was given up on the device because its driver refused it (cl/command/fallback.h). */
bool ocl_form_is_given_up(const ocl_form_family *family, const ocl_device_desc *device,
                          const ocl_gemm_form *form);
/* ocl_desc_max_local for kernels of this family, or more if they get local memory as an argument. */
uint64_t ocl_form_room(const ocl_form_family *family, const ocl_device_desc *device);
/* VC of cl/gemm/gemm_epilogue.clh, the number of neighbouring elements of C that are finished together: as
 * many as fill 16 bytes if C and all operands of the epilogue (or the partial sums) are aligned to 16 bytes,
 * else 1. */
int ocl_form_vector(const ocl_gemm *gemm, const ocl_gemm_form *form);

#endif
