/* SPDX-License-Identifier: Apache-2.0
 *
 * The struct `cltrain`, the public API's handle, and functions that the files of the API share. */
#ifndef ENGINE_API_API_INTERNAL_H
#define ENGINE_API_API_INTERNAL_H

#include "engine/cltrain.h"
#include "engine/train/run/run.h"

struct cltrain {
    clt_str layers; /* JSON objects of the layers, separated by commas */
    char **overrides;
    size_t n_overrides, overrides_capacity;
    char *config_path;
    clt_source *source; /* the arrays in memory; NULL if the config names the data */
    clt_config *config;
    clt_run_options options;
    clt_run *run;
    int64_t next_step;
};

clt_status clt_api_build(cltrain *net);
clt_status clt_api_train(cltrain *net, cltrain_on_step on_step, void *context);
clt_status clt_api_predict(cltrain *net, int64_t samples, const float *x, float *out, int64_t out_count);

#endif
