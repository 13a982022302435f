/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about a table (engine/data/facts/table_facts.h) that a run saved: means, deviations and words. A run
 * that resumes from its checkpoint or starts from its weights uses the same facts, because the weights were
 * trained with them. */
#ifndef ENGINE_TRAIN_SAVED_KNOWN_TABLE_H
#define ENGINE_TRAIN_SAVED_KNOWN_TABLE_H

#include "engine/data/facts/data_facts.h"
#include "engine/train/run/run.h"

/* Reads the facts of the checkpoint `resume`, or if that is "" of the run or file of weights that
 * options->init names. The facts of a file of weights are in the data.json beside it, unless another program
 * wrote that. facts->table stays NULL if there are none, or the data is no table. Rank 0 reads and
 * broadcasts them. The caller frees the facts, also after a failure. */
clt_status clt_known_table(const clt_run_options *options, const char *resume, clt_data_facts *facts);
/* Reads the facts of the file of weights, run or checkpoint `path` on one rank, whatever the config says. */
clt_status clt_known_beside(const char *path, clt_data_facts *facts);

#endif
