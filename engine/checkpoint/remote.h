/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints in object storage. Their keys are the paths of a run folder after the prefix of an address:
 * s3://bucket/PREFIX/checkpoints/step_N/FILE, or without "checkpoints/". A checkpoint is complete once it has
 * its manifest, which is written last and deleted first. */
#ifndef ENGINE_CHECKPOINT_REMOTE_H
#define ENGINE_CHECKPOINT_REMOTE_H

#include "engine/base/mem.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/storage/s3.h"

typedef struct clt_remote_step {
    int64_t step;
    char *folder; /* the keys of its files without the files' names: ends with '/' */
    uint64_t bytes;
    int files;
    bool complete;
} clt_remote_step;

typedef struct clt_remote {
    clt_s3 *s3;
    clt_s3_address address; /* address of a run or of a folder of checkpoints */
    int64_t only;           /* the one step that was named; -1: all */
    clt_s3_list objects;    /* all objects below the opened address */
    clt_remote_step *steps; /* steps in ascending order */
    size_t count, capacity;
} clt_remote;

/* Lists what there is. address: s3://bucket/prefix of a run, of a folder of checkpoints, or of one step_N. */
clt_status clt_remote_open(const char *address, const clt_s3_options *options, clt_remote **out);
/* Opens an address without listing it, as if nothing were there; sends nothing. */
clt_status clt_remote_connect(const char *address, const clt_s3_options *options, clt_remote **out);
/* CLT_EUSAGE if the address names one step_N, to which no run can upload, or no address at all. */
clt_status clt_remote_check_run(const char *address);
void clt_remote_close(clt_remote *remote); /* NULL is fine */
CLT_SCOPED_POINTER(clt_remote, clt_remote_close)
/* The prefix with which the keys of all objects of `remote` begin. */
clt_status clt_remote_prefix(const clt_remote *remote, clt_str *out);
/* The checkpoint of a step, complete or not; NULL: there is none. step -1: the newest complete one. */
const clt_remote_step *clt_remote_find(const clt_remote *remote, int64_t step);
/* Finds the best evaluation as it was before `step`, by what the checkpoints in object storage say: the
 * newest that was chosen by `best_by` ("loss") and whose own checkpoint is complete there. *best -1: there
 * is none. */
clt_status clt_remote_best_before(clt_remote *remote, int64_t step, const char *best_by, int64_t *best,
                                  double *value);
/* Checks the manifest, and that each file that it lists is there with its size. content: reads every file,
 * too, and checks its sum. CLT_ECHECKPOINT: something is missing or damaged. */
clt_status clt_remote_verify(clt_remote *remote, const clt_remote_step *step, bool content);
/* True if the files at a path, which a fetch has begun to write, are abandoned: the process whose mark
 * (clt_process_mark) ends the path is gone, or nothing there has changed for a day. The day is for processes
 * of other machines that share the folder. */
bool clt_fetch_is_abandoned(const char *path, const char *mark);
/* Copies a checkpoint to folder/step_N once it is verified. replace: a local folder with this name is
 * replaced; otherwise it is CLT_EUSAGE. CLT_ECHECKPOINT: the uploaded checkpoint is damaged, and no local
 * file changes. */
clt_status clt_remote_fetch(clt_remote *remote, const clt_remote_step *step, const char *folder,
                            bool replace);
/* The texts of a run folder that are uploaded beside the checkpoints. metrics.jsonl is the first one, and the
 * config the last one: a folder that has it is a run's. */
#define CLT_REMOTE_TEXTS 3
extern const char *const clt_remote_texts[CLT_REMOTE_TEXTS];
/* The identity of a run, which is the same on every machine that continues it: a hash of the first line of
 * its metrics.jsonl, which tells when and where the run began. 0: the run has no such line yet. The first
 * function looks in a run folder, the second one below the address. */
clt_status clt_run_mark(const char *folder, uint64_t *out);
clt_status clt_remote_run_mark(clt_remote *remote, uint64_t *out);
/* check_mine, for the run with this mark: fails, and sets *taken_by_other, if another run has written to
 * the address since this run wrote there (`wrote_metrics`), because this run's files would replace the
 * other's. check_new: at the start of a run, refuses an address that holds another run, as a run folder is
 * refused. A run without a local checkpoint takes what is there as its own, as on a new machine. */
clt_status clt_remote_check_mine(clt_remote *remote, bool wrote_metrics, uint64_t mark, bool *taken_by_other);
clt_status clt_remote_check_new(clt_remote *remote, const char *folder, bool continues, const char *address);
/* remote_put.c. put_texts: uploads the texts that a run folder has; *wrote_metrics becomes true once
 * metrics.jsonl is uploaded. withdraw: deletes the uploaded manifest of a step before its files are
 * replaced, so that nobody takes a mixture of two uploads for a checkpoint; *refused: the keys do not allow
 * that, and the status is a failure. put_step: uploads the files `names` of a checkpoint's folder except its
 * manifest; *bytes: their sizes. put_manifest: uploads the manifest, which makes the checkpoint complete, and
 * adds its size to *bytes. */
clt_status clt_remote_put_texts(clt_remote *remote, const char *folder, bool *wrote_metrics);
clt_status clt_remote_withdraw(clt_remote *remote, int64_t step, bool *refused);
clt_status clt_remote_put_step(clt_remote *remote, int64_t step, const char *folder,
                               const clt_file_list *names, uint64_t *bytes);
clt_status clt_remote_put_manifest(clt_remote *remote, int64_t step, const char *folder, uint64_t *bytes);
/* Aborts uploads of files of checkpoints, and of the texts of a run, that were begun `age` seconds ago or
 * earlier and never finished. Uploads of other programs stay. *count: how many were aborted. */
clt_status clt_remote_abort_old(clt_remote *remote, int64_t age, int *count);
clt_status clt_remote_delete(clt_remote *remote, const clt_remote_step *step);
/* Deletes incomplete checkpoints before `step`, and the ones that retention does not keep. First lists the
 * objects again: if `step` is not complete in object storage, nothing is deleted, CLT_ESTORAGE. keep must be
 * 1 or more. */
clt_status clt_remote_retain(clt_remote *remote, int64_t step, const clt_retention *retention);

#endif
