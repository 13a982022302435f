/* SPDX-License-Identifier: Apache-2.0
 *
 * config.resolved.json of a run folder: what the run computes, as it goes on. When a resumed run is longer,
 * or finds its data elsewhere, the file is brought up to date and the earlier one stays as
 * config.resolved.N.json. */
#ifndef ENGINE_REPORT_RUNDIR_CONFIG_H
#define ENGINE_REPORT_RUNDIR_CONFIG_H

#include "engine/config/config.h"

#define CLT_RESOLVED_CONFIG_FILE "config.resolved.json"

/* CLT_ECONFIG, with the difference, when the config of the file and `config` would compute something else.
 * Length, schedule and places of the data are not compared: they may change on conditions (continuation.h).
 */
clt_status clt_resolved_config_check(const char *folder, const clt_config *config);
/* Writes `config` into the folder when it differs from what is there in length, schedule or places of the
 * data; the earlier file is kept as config.resolved.1.json, .2 ... in the order of time. A crash at any
 * moment leaves a whole config.resolved.json. */
clt_status clt_resolved_config_update(const char *folder, const clt_config *config);

#endif
