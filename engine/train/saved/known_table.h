/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about a table (engine/data/facts/table_facts.h) that a run saved: means, deviations and words. A run
 * that resumes from its checkpoint or starts from its weights uses the same facts, because the weights were
 * trained with them. */
#ifndef ENGINE_TRAIN_SAVED_KNOWN_TABLE_H
#define ENGINE_TRAIN_SAVED_KNOWN_TABLE_H

#include "engine/data/facts/data_facts.h"
#include "engine/train/run/run.h"

/* Opens the job of a training or an evaluation. Its data is read with the facts of the run that it resumes
 * or whose weights it starts with. Rank 0 reads these facts, from the checkpoint `from` or, if nothing is
 * resumed, beside the weights that options->init names, and tells the other ranks. CLT_EDATA: data of the
 * run that is resumed is missing. */
clt_status clt_known_job(const clt_run_options *options, const clt_resumed *from, clt_job_kind kind,
                         clt_job **job);
/* Reads the facts of the file of weights, run or checkpoint `path` on one rank, whatever the config says. */
clt_status clt_known_beside(const char *path, clt_data_facts *facts);

#endif
