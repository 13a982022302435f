/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes what a config would train and what the training would need, for `plan`, `estimate` and `train
 * --dry-run`. Nothing is allocated on a device, and no kernel of the model is built. */
#ifndef ENGINE_TRAIN_INSPECT_DESCRIBE_H
#define ENGINE_TRAIN_INSPECT_DESCRIBE_H

#include "engine/train/job/job.h"

/* The device that the description is made for. */
typedef struct clt_described_device {
    ocl_device_desc desc;
    bool generic; /* no real device: one like most GPUs, with 8 GiB, or clt_describe_planned's */
    /* with `generic`: why there is no real device, or "" if the user asked for the generic one */
    char why[512];
} clt_described_device;

typedef struct clt_description {
    clt_described_device device;
    clt_job *job;
    struct ocl_tuning *tuning; /* owned; the records that the job's plans borrow */
    clt_memory_report memory;
    int64_t largest;         /* largest data.micro_batch that fits, 0: none */
    uint64_t activations[3]; /* bytes for each value of clt_recompute */
} clt_description;

/* Describes the device that `train` would use: `spec` (NULL: device.spec of the config, else the default
 * device) with the capabilities of the mask. The spec "generic" means the generic device, which is also used
 * when no spec is given and there is no device. CLT_EDEVICE if there is no device `spec`. Config and data
 * are checked before any device is opened. ranks: describes one rank of a job with `ranks` ranks. */
clt_status clt_describe(const clt_config *config, const char *spec, uint32_t caps, int ranks,
                        clt_description **out);
/* Describes the job for a device that this machine need not have, described by `device`. */
clt_status clt_describe_planned(const clt_config *config, const ocl_device_desc *device, uint32_t caps,
                                int ranks, clt_description **out);
void clt_description_close(clt_description *d); /* NULL is fine */
CLT_SCOPED_POINTER(clt_description, clt_description_close)

/* A layer of the training plan, or all repetitions of a block together. */
typedef struct clt_layer_row {
    char name[96];        /* "fc1", "blocks 2 to 12, each" */
    const char *op;       /* "" for blocks */
    clt_shape shape;      /* shape of output 0; ndim 0: a loss, or blocks */
    int64_t parameters;   /* number of its own parameters, in all repetitions */
    uint64_t activations; /* bytes of its outputs and of the tensors it keeps for the backward pass */
} clt_layer_row;
/* Rows in order of execution; the caller frees them. Activations need less memory than their sum if they are
 * not live at the same time. */
clt_status clt_description_layers(const clt_description *d, clt_layer_row **rows, int *count);

/* The JSON records of `plan --json` and `estimate --json`, and the commands and memory map of `plan
 * --full`. */
clt_status clt_description_plan_json(const clt_description *d, clt_str *out);
clt_status clt_description_estimate_json(const clt_description *d, clt_str *out);
clt_status clt_description_full(const clt_description *d, clt_str *out);

#endif
