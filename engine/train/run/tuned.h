/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run knows of tuning: which records hold (from the checkpoint it resumes, from the disk, or measured
 * at the start), the same on all ranks, and which of them its plans use; those are pinned in its checkpoints.
 * It knows nothing of how kernels are measured. */
#ifndef ENGINE_TRAIN_TUNED_H
#define ENGINE_TRAIN_TUNED_H

#include "cl/tune/tuner.h"
#include "comm/comm.h"
#include "engine/config/config.h"
#include "engine/train/run/job.h"
#include "engine/train/run/observer.h"

typedef enum clt_tune_mode { CLT_TUNE_OFF, CLT_TUNE_CACHED, CLT_TUNE_ON } clt_tune_mode;
clt_tune_mode clt_tune_mode_of(const clt_config *config); /* device.tune */

#define CLT_MAX_PINNED 16 /* devices whose choices a checkpoint carries */

typedef struct clt_tuned {
    clt_tune_mode mode;
    ocl_device_desc desc; /* of the run's device, with the records in force: plan with this one */
    ocl_tuning *set;      /* in force; NULL: device.tune is off */
    bool pinned;          /* they come from a checkpoint and are all there is */
    ocl_style style;      /* that a checkpoint or rank 0 pins; ASKED: none */
    bool keeps_denials;   /* a checkpoint says what its run went without: */
    ocl_denials denials;  /* what the driver had refused to it */
    uint32_t caps;        /* of the device, before anything was denied */
    ocl_tuning *used;     /* the plans' choices, exact */
    int problems;         /* tunable problems of the plans */
    double seconds;       /* spent measuring */
    ocl_tuning *others[CLT_MAX_PINNED]; /* choices for other devices, from the checkpoint: carried along */
    int n_others;
} clt_tuned;

/* clt_tuned_open: decides which records hold on `device`. Rank 0 decides for all ranks whose device is the
 * same; collective when there are several ranks. pins: a run or checkpoint folder whose choices are to be
 * kept, NULL or
 * "": none. say (may be NULL) gets a line when choices of a checkpoint cannot be used, or a rank goes its own
 * way. */
clt_status clt_tuned_open(const clt_config *config, const ocl_device_desc *device, comm *ranks,
                          const char *pins, const clt_observer *say, clt_tuned **out);
void clt_tuned_close(clt_tuned *tuned);
/* The style in which plans for a device compute; ASKED where the user or an emulated device decides it. */
ocl_style clt_tuned_style(const ocl_device_desc *desc);
/* Plans are made for this device from here on: it was opened again, in another style. */
void clt_tuned_move(clt_tuned *tuned, const ocl_device_desc *device);
/* clt_tuned_measure: device.tune on: measures the problems of the job's plans that have no record, on rank 0,
 * within device.tune_seconds, keeps the records on disk and plans the job again with them. Collective. */
clt_status clt_tuned_measure(clt_tuned *tuned, ocl_device *device, const clt_config *config, comm *ranks,
                             const clt_observer *observer, const atomic_int *stop, clt_job *job);
/* Notes what the job's plans use. */
clt_status clt_tuned_note(clt_tuned *tuned, const clt_job *job);
/* One line: "12 of 14 products tuned (cached), choices 0123456789abcdef". Returns buffer. */
const char *clt_tuned_text(const clt_tuned *tuned, char *buffer, size_t size);
/* Products of the job's plans that nobody has measured here, and may be measured with `cltrain tune`. */
int clt_tuned_unmeasured(const clt_tuned *tuned);
/* Member "tuning" of a checkpoint's state: the choices in use, then those for other devices. */
void clt_tuned_write(const clt_tuned *tuned, clt_json_writer *w);
/* Whether the state of a checkpoint pins other choices for this device than those that hold. */
bool clt_tuned_differs(const clt_tuned *tuned, const clt_json *state, const char *path);

/* `cltrain tune`: measures the problems of a config's training and evaluation, or (config NULL) the built-in
 * list. */
typedef struct clt_tune_options {
    const clt_config *config;
    const char *device_spec; /* NULL: device.spec of the config, else the default device */
    uint32_t caps_mask;
    double seconds;
    const atomic_int *stop;
    clt_observer observer; /* progress and message are used */
    void (*device)(void *context, const ocl_device_desc *desc, int problems); /* before the first one */
    void (*row)(void *context, const ocl_tune_row *row);
    void *context;
} clt_tune_options;
/* records: what was found, also on disk when this returns. */
clt_status clt_tune(const clt_tune_options *options, ocl_tuning **records);
/* A description with the records in force for planning without a run: those on disk unless device.tune is
 * off. *set owns them and may be NULL. */
clt_status clt_tuned_describe(const clt_config *config, ocl_device_desc *desc, ocl_tuning **set);

#endif
