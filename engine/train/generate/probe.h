/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures how much merging low-rank adapters into the weights changes the answers of a language model: a
 * fixed text goes through the base with its adapters and through the merged weights, rounded as the exported
 * file has them. Both are computed in f32. */
#ifndef ENGINE_TRAIN_GENERATE_PROBE_H
#define ENGINE_TRAIN_GENERATE_PROBE_H

#include "engine/checkpoint/saved_run.h"
#include "engine/pretrained/merge.h"
#include "engine/train/job/observer.h"

typedef struct clt_probe_options {
    clt_saved_run *saved;   /* open with its tensors; the probe sets keys of its config */
    const clt_merge *merge; /* holds the merged weights after the export */
    clt_values values;      /* kind of values that was exported */
    clt_dtype dtype;        /* type of the exported weights */
    bool gguf;              /* the file is GGUF, where some tensors stay f32 */
    const char *device_spec;
    uint32_t caps_mask;
    clt_observer observer; /* progress, message */
} clt_probe_options;

typedef struct clt_probe_result {
    int tokens;             /* number of tokens of the text */
    int same;               /* tokens after which both models have the same most likely next token */
    double change, largest; /* the largest absolute change of a logit, and the largest absolute logit */
    double expected;        /* largest change that rounding to the type explains */
    /* The reason why nothing was compared, such as a missing device; "": both were compared. */
    char why_not[600];
} clt_probe_result;

/* If this machine cannot compare the two models, why_not says so, and that is not an error. CLT_ECHECKPOINT,
 * CLT_EDEVLOST, CLT_ENOMEM. */
clt_status clt_probe_merge(const clt_probe_options *options, clt_probe_result *result);

#endif
