/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampling from a trained model that predicts the next byte of a window of bytes. It knows checkpoints and
 * plans; it never prints. */
#ifndef ENGINE_TRAIN_GENERATE_H
#define ENGINE_TRAIN_GENERATE_H

#include "engine/train/trainer.h"

/* clt_sample_window: appends n sampled bytes (not the prompt) to *out. checkpoint: step_N, checkpoints or run
 * folder. The last data.window bytes of the text so far are the context; a shorter prompt is padded in front
 * with spaces. temperature 0: always the likeliest byte. Equal seeds give equal text on the same device.
 * CLT_ECONFIG when the config's model is no such model. */
clt_status clt_sample_window(const clt_run_options *options, const char *checkpoint, const char *prompt,
                             int n, double temperature, uint64_t seed, clt_str *out);

#endif
