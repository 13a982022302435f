/* SPDX-License-Identifier: Apache-2.0
 *
 * A run's config as TensorBoard's hyper-parameters: contents of its plugin "hparams". Pure. */
#ifndef ENGINE_REPORT_BOARD_CONFIG_H
#define ENGINE_REPORT_BOARD_CONFIG_H

#include "engine/config/config.h"

/* Serialised HParamsPluginData: which hyper-parameters and metrics there are, and this run's values. Keys of
 * the sections model, data, optimizer, schedule, precision, parallel and train, without paths. Errors:
 * clt_str_check. */
void clt_board_hyper_parameters(const clt_config *config, clt_str *experiment, clt_str *session);
/* The run has ended well, at `time` in seconds since 1970. */
void clt_board_session_end(double time, clt_str *out);

#endif
