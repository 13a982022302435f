/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of a checkpoint's tensors for an export. If the run has low-rank adapters that are merged, a weight
 * W becomes W + s B A, computed in double precision and rounded once to f32. */
#ifndef ENGINE_PRETRAINED_MERGE_H
#define ENGINE_PRETRAINED_MERGE_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/saved_run.h"

typedef struct clt_merge clt_merge;

/* `saved`: opened with its tensors. `add`: merges adapters. `whole`: a whole model is exported. CLT_EUSAGE:
 * `add` is set and the run has no adapters; or `whole` is set without `add`, and the run has adapters, which
 * the export would lose. */
clt_status clt_merge_open(const clt_saved_run *saved, clt_values values, bool add, bool whole,
                          clt_merge **out);
void clt_merge_close(clt_merge *merge); /* NULL is fine */
CLT_SCOPED_POINTER(clt_merge, clt_merge_close)
/* The tensor with its values, which live as long as `merge`. *found: the checkpoint has it. */
clt_status clt_merge_values(clt_merge *merge, const char *name, clt_named_tensor *out, bool *found);
/* The weight with this name, if it has been merged; it lives as long as `merge`. */
bool clt_merge_find(const clt_merge *merge, const char *name, clt_named_tensor *out);
/* The number of weights merged so far; whether nothing was added to any of them. */
int64_t clt_merge_count(const clt_merge *merge);
bool clt_merge_idle(const clt_merge *merge);
/* The distance between the merged weights and their values after rounding to `dtype`, relative to the norm of
 * what was added to them; 0 for f32. */
double clt_merge_lost(const clt_merge *merge, clt_dtype dtype);
/* Writes all tensors as one safetensors file, merged ones without their adapters. Errors as for
 * clt_checkpoint_export. */
clt_status clt_merge_export(clt_merge *merge, clt_dtype dtype, const char *out, clt_export_result *result);

#endif
