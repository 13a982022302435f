/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning records of a run: which ones are in force, the same on all ranks, and which ones its plans use.
 * Records come from the checkpoint that the run resumes, from disk, or are measured at the start.
 * Checkpoints save the used ones; a resumed run keeps them (pinned). Measuring is not part of this file. */
#ifndef ENGINE_TRAIN_JOB_TUNED_H
#define ENGINE_TRAIN_JOB_TUNED_H

#include "cl/tune/tuner.h"
#include "comm/comm.h"
#include "engine/config/config.h"
#include "engine/train/job/continuation.h"
#include "engine/train/job/job.h"
#include "engine/train/job/observer.h"

typedef enum clt_tune_mode { CLT_TUNE_OFF, CLT_TUNE_CACHED, CLT_TUNE_ON } clt_tune_mode;
clt_tune_mode clt_tune_mode_of(const clt_config *config); /* device.tune */

#define CLT_MAX_PINNED 16 /* most devices whose choices a checkpoint holds */

typedef struct clt_tuned {
    clt_tune_mode mode;
    const clt_config *config; /* borrowed */
    ocl_device_desc desc;     /* the run's device, with the records in force: for planning */
    ocl_tuning *set;          /* records in force; NULL: device.tune is off */
    bool pinned;              /* the records come from a checkpoint, and no others are used */
    ocl_style style;          /* style of kernels of the checkpoint or of rank 0; ASKED: none is prescribed */
    bool keeps_unsupported;   /* the checkpoint lists the features that its run did without */
    ocl_unsupported unsupported;        /* what the driver refused to that run, else to earlier ones */
    uint32_t caps;                      /* capabilities of the device, before anything was denied */
    ocl_tuning *used;                   /* exactly the choices that the plans made */
    int problems;                       /* number of problems in the plans that can be tuned */
    double seconds;                     /* spent on measuring */
    ocl_tuning *others[CLT_MAX_PINNED]; /* choices of the checkpoint for other devices, to be saved again */
    int n_others;
} clt_tuned;

/* clt_tuned_open: decides which records, style of kernels and features are used on `device`. Rank 0 decides
 * for all ranks with the same device; collective when there are several ranks. from: the checkpoint whose
 * choices are kept, on rank 0; it may be none. say (may be NULL) receives a line when choices of a
 * checkpoint cannot be used, or when a rank does not follow rank 0. */
clt_status clt_tuned_open(const clt_config *config, const ocl_device *device, comm *ranks,
                          const clt_resumed *from, const clt_observer *say, clt_tuned **out);
void clt_tuned_close(clt_tuned *tuned);
CLT_SCOPED_POINTER(clt_tuned, clt_tuned_close)
/* The style of kernels that plans for a device use; ASKED if the user or an emulated device decides it. */
ocl_style clt_tuned_style(const ocl_device_desc *desc);
/* To be called when the device has been opened again in another style: from now on plans use that style. */
void clt_tuned_move(clt_tuned *tuned, const ocl_device_desc *device);
/* clt_tuned_measure: with device.tune on, rank 0 measures the problems of the job's plans that have no
 * record, for at most device.tune_seconds, and saves the records; then the job is planned again with them.
 * Collective. */
clt_status clt_tuned_measure(clt_tuned *tuned, ocl_device *device, const clt_config *config, comm *ranks,
                             const clt_observer *observer, const atomic_int *stop, clt_job *job);
/* Notes the choices that the job's plans made. */
clt_status clt_tuned_note(clt_tuned *tuned, const clt_job *job);
/* One line: "12 of 14 products tuned (cached), choices 0123456789abcdef". Returns buffer. */
const char *clt_tuned_text(const clt_tuned *tuned, char *buffer, size_t size);
/* Number of products in the job's plans that were never measured on this device; `cltrain tune` can measure
 * them. */
int clt_tuned_unmeasured(const clt_tuned *tuned);
/* Writes the member "tuning" of a checkpoint's state: the choices in use, then those for other devices. */
void clt_tuned_write(const clt_tuned *tuned, clt_json_writer *w);

/* `cltrain tune`: measures the problems of a config's training and evaluation, or, with config NULL, the
 * built-in list. */
typedef struct clt_tune_options {
    const clt_config *config;
    const char *device_spec; /* NULL: device.spec of the config, else the default device */
    uint32_t caps_mask;
    double seconds;
    const atomic_int *stop;
    clt_observer observer; /* progress and message are used */
    /* called before the first problem */
    void (*device)(void *context, const ocl_device_desc *desc, int problems);
    void (*row)(void *context, const ocl_tune_row *row);
    void *context;
} clt_tune_options;
/* records: the results, which have been saved when this returns. */
clt_status clt_tune(const clt_tune_options *options, ocl_tuning **records);
/* Adds the records in force to a description, for planning without a run: those on disk, unless device.tune
 * is off. *set owns them and may be NULL. */
clt_status clt_tuned_describe(const clt_config *config, ocl_device_desc *desc, ocl_tuning **set);

#endif
