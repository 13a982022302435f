/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run has learned of its table (engine/data/facts/table_facts.h) is taken over by a run that goes on from its
 * checkpoint or begins with its weights, which were trained on these means, deviations and words. */
#ifndef ENGINE_TRAIN_KNOWN_TABLE_H
#define ENGINE_TRAIN_KNOWN_TABLE_H

#include "engine/data/facts/data_facts.h"
#include "engine/train/run/run.h"

/* Reads the facts of the checkpoint `resume` ("": the run does not go on), else of the run that options->init names; of a
 * file of weights they lie beside it, where another program's data.json counts as none. facts->table stays NULL where there
 * are none, and for data that is no table. Rank 0 reads, and the others get the same from it. The caller frees the facts,
 * also after a failure. */
clt_status clt_known_table(const clt_run_options *options, const char *resume, clt_data_facts *facts);
/* The same of the file of weights, run or checkpoint `path`, whatever the config says, for one rank. */
clt_status clt_known_beside(const char *path, clt_data_facts *facts);

#endif
