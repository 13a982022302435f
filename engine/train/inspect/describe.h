/* SPDX-License-Identifier: Apache-2.0
 *
 * What a config would train, and what that would need: for `plan` and `estimate`, and for `train --dry-run`.
 * Nothing is allocated on a device and no kernel of the model is built. */
#ifndef ENGINE_TRAIN_DESCRIBE_H
#define ENGINE_TRAIN_DESCRIBE_H

#include "engine/train/run/job.h"

/* The device that a description is for. */
typedef struct clt_described_device {
    ocl_device_desc desc;
    bool generic;  /* no real one: a device like most GPUs, with 8 GiB */
    char why[512]; /* then: why there is no other, or "" when it was asked for */
} clt_described_device;

typedef struct clt_description {
    clt_described_device device;
    clt_job *job;
    struct ocl_tuning *tuning; /* the records that the job's plans borrow */
    clt_memory_report memory;
    int64_t largest;         /* largest data.micro_batch that fits, 0: none */
    uint64_t activations[3]; /* bytes by clt_recompute */
} clt_description;

/* For the device that `train` would take: `spec` (NULL: device.spec of the config, else the default one),
 * with the capabilities of the mask. "generic" asks for the generic one, which is also taken when no spec is
 * given and there is no device. CLT_EDEVICE when `spec` names none. Config and data are looked at before any
 * device is. */
clt_status clt_describe(const clt_config *config, const char *spec, uint32_t caps, clt_description **out);
void clt_description_close(clt_description *d); /* NULL is fine */

/* A layer of the training plan, or the repeated blocks of a model as one. */
typedef struct clt_layer_row {
    char name[96];        /* "fc1", "blocks 2 to 12, each" */
    const char *op;       /* "" for blocks */
    clt_shape shape;      /* of output 0; ndim 0: a loss, or blocks */
    int64_t parameters;   /* elements of its own, in all repetitions */
    uint64_t activations; /* bytes of its outputs and of what it keeps for the backward pass */
} clt_layer_row;
/* In the order of execution; free() the rows. Activations take less memory than their sum where they do not
 * live at the same time. */
clt_status clt_description_layers(const clt_description *d, clt_layer_row **rows, int *count);

/* The records of `plan --json` and `estimate --json`, and the commands and memory map of `plan --full`. */
clt_status clt_description_plan_json(const clt_description *d, clt_str *out);
clt_status clt_description_estimate_json(const clt_description *d, clt_str *out);
clt_status clt_description_full(const clt_description *d, clt_str *out);

#endif
