/* SPDX-License-Identifier: Apache-2.0
 *
 * A run's config as hyper-parameters for TensorBoard: the content of its plugin "hparams". Pure functions. */
#ifndef ENGINE_REPORT_WRITE_BOARD_CONFIG_H
#define ENGINE_REPORT_WRITE_BOARD_CONFIG_H

#include "engine/config/config.h"

/* Serialised HParamsPluginData: which hyper-parameters and metrics exist, and the values of this run.
 * Contains keys of the sections model, data, optimizer, schedule, precision, parallel and train, except
 * paths. Lack of memory is remembered in the strings (clt_str_check). */
void clt_board_hyper_parameters(const clt_config *config, clt_str *experiment, clt_str *session);
/* Marks the run as successful, at `time` in seconds since 1970. */
void clt_board_session_end(double time, clt_str *out);

#endif
