/* SPDX-License-Identifier: Apache-2.0
 *
 * config.resolved.json of a run folder: the config of the run's newest session. If a resumed run has another
 * length, learning rate or place of data, the earlier file is kept as config.resolved.N.json. */
#ifndef ENGINE_REPORT_WRITE_RUNDIR_CONFIG_H
#define ENGINE_REPORT_WRITE_RUNDIR_CONFIG_H

#include "engine/config/config.h"

#define CLT_RESOLVED_CONFIG_FILE "config.resolved.json"

/* CLT_ECONFIG, with the difference in the message, if `config` would compute something else than the
 * config in the file. Length, schedule and paths of data are not compared: continuation.h says when they
 * may change. */
clt_status clt_resolved_config_check(const char *folder, const clt_config *config);
/* Writes `config` into the folder if it differs from the file. If length, schedule, learning rate, weight
 * decay or paths of data differ, the earlier file is kept as config.resolved.1.json, then .2 and so on. After
 * a crash at any moment config.resolved.json is complete. */
clt_status clt_resolved_config_update(const char *folder, const clt_config *config);

#endif
