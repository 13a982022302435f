/* SPDX-License-Identifier: Apache-2.0
 *
 * The public API on top of jobs and runs: collects layers, keys and arrays, turns them into a config, and
 * drives the run. */
#include "engine/cltrain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/api/api_internal.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/data/arrays/source_memory.h"
#include "engine/pretrained/start.h"
#include "engine/train/saved/known_table.h"
#include "engine/verify/self_test.h"
#include "engine/verify/speed/family_list.h"

const char *cltrain_version(void)
{
    return CLT_VERSION;
}

const char *cltrain_error(void)
{
    return clt_error_text();
}

static struct {
    cltrain_message call;
    void *context;
} receiver; /* changes only while no log sink is set */

static void pass_on(void *context, clt_log_level level, const char *line)
{
    (void)context;
    (void)level;
    cltrain_message call = receiver.call;
    if (call) /* NULL: the receiver has removed itself while it was called */
        call(receiver.context, line);
}

void cltrain_on_message(cltrain_message call, void *context)
{
    clt_log_set_sink(NULL, NULL, CLT_LOG_WARN);
    receiver.call = call;
    receiver.context = context;
    if (call)
        clt_log_set_sink(pass_on, NULL, CLT_LOG_WARN);
}

static int code(clt_status status)
{
    return clt_status_exit_code(status);
}

int cltrain_create(cltrain **out)
{
    clt_families_register();
    clt_self_test_register(); /* the self-test runs in this process if no child process can be started */
    return code(clt_alloc(out, 1, sizeof **out, "net"));
}

void cltrain_destroy(cltrain *net)
{
    if (!net)
        return;
    clt_run_destroy(net->run);
    clt_config_destroy(net->config);
    clt_source_close(net->source);
    for (size_t i = 0; i < net->n_overrides; i++)
        free(net->overrides[i]);
    free(net->overrides);
    free(net->config_path);
    clt_str_free(&net->layers);
    free(net);
}

static clt_status not_built(const cltrain *net, const char *what)
{
    if (net->run)
        CLT_FAIL(CLT_EUSAGE,
                 "%s: the net is built already; do this before cltrain_build, cltrain_train, cltrain_load",
                 what);
    return CLT_OK;
}

static clt_status add_layer(cltrain *net, const char *json)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_TRY(not_built(net, "adding a layer"));
    CLT_TRY(clt_json_parse(json, strlen(json), "layer", CLT_ECONFIG, &doc));
    clt_str_printf(&net->layers, "%s%s", net->layers.length ? ",\n" : "", json);
    return clt_str_check(&net->layers);
}

int cltrain_layer(cltrain *net, const char *json)
{
    return code(add_layer(net, json));
}

/* Index of the override of `key`; n_overrides: there is none. */
static size_t find_override(const cltrain *net, const char *key)
{
    size_t i = 0, length = strlen(key);
    while (i < net->n_overrides &&
           (strncmp(net->overrides[i], key, length) != 0 || net->overrides[i][length] != '='))
        i++;
    return i;
}

static clt_status add_override(cltrain *net, const char *key, const char *value)
{
    char *text;
    size_t size = strlen(key) + strlen(value) + 2, at = find_override(net, key);
    CLT_TRY(not_built(net, "setting a key"));
    CLT_TRY(clt_grow(&net->overrides, &net->overrides_capacity, net->n_overrides + 1, sizeof *net->overrides,
                     "keys"));
    CLT_TRY(clt_alloc(&text, size, 1, "keys"));
    memcpy(text, key, strlen(key));
    text[strlen(key)] = '=';
    memcpy(text + strlen(key) + 1, value, strlen(value) + 1);
    if (at < net->n_overrides)
        free(net->overrides[at]);
    else
        net->n_overrides++;
    net->overrides[at] = text;
    return CLT_OK;
}

int cltrain_set(cltrain *net, const char *key, const char *value)
{
    return code(add_override(net, key, value));
}

static clt_status set_config(cltrain *net, const char *path)
{
    CLT_TRY(not_built(net, "taking a config"));
    free(net->config_path);
    net->config_path = NULL;
    CLT_TRY(clt_alloc(&net->config_path, strlen(path) + 1, 1, "config path"));
    memcpy(net->config_path, path, strlen(path) + 1);
    return CLT_OK;
}

int cltrain_config(cltrain *net, const char *path)
{
    return code(set_config(net, path));
}

static clt_status read_shape(const char *what, int ndim, const int64_t *dims, clt_shape *shape)
{
    if (ndim < 0 || ndim > CLT_MAX_DIMS - 1 || (ndim > 0 && !dims))
        CLT_FAIL(CLT_ESHAPE, "%s has %d dimension%s; 0 to %d fit", what, ndim, CLT_PLURAL(ndim),
                 CLT_MAX_DIMS - 1);
    *shape = clt_shape_make(ndim, dims);
    for (int i = 0; i < ndim; i++)
        if (dims[i] < 1)
            CLT_FAIL(CLT_ESHAPE, "%s: dimension %d is %lld", what, i, (long long)dims[i]);
    return CLT_OK;
}

static clt_status set_data(cltrain *net, int64_t samples, const float *x, int x_ndim, const int64_t *x_shape,
                           const void *y, clt_dtype y_dtype, int y_ndim, const int64_t *y_shape)
{
    clt_shape xs, ys;
    CLT_TRY(not_built(net, "giving data"));
    CLT_TRY(read_shape("x", x_ndim, x_shape, &xs));
    CLT_TRY(read_shape("y", y_ndim, y_shape, &ys));
    clt_source_close(net->source);
    net->source = NULL;
    return clt_source_open_memory(samples, x, &xs, y, y_dtype, &ys, &net->source);
}

int cltrain_data_classes(cltrain *net, int64_t samples, const float *x, int x_ndim, const int64_t *x_shape,
                         const int32_t *labels)
{
    return code(set_data(net, samples, x, x_ndim, x_shape, labels, CLT_I32, 0, NULL));
}

int cltrain_data_values(cltrain *net, int64_t samples, const float *x, int x_ndim, const int64_t *x_shape,
                        const float *y, int y_ndim, const int64_t *y_shape)
{
    return code(set_data(net, samples, x, x_ndim, x_shape, y, CLT_F32, y_ndim, y_shape));
}

static clt_status make_config(cltrain *net)
{
    const char *const *overrides = (const char *const *)net->overrides;
    const clt_start start = {.training = true};
    if (net->config_path)
        return clt_start_load(net->config_path, overrides, (int)net->n_overrides, &start, &net->config);
    if (!net->layers.length || !net->source)
        CLT_FAIL(CLT_EUSAGE, "building the net: add layers and data, or give a config");
    CLT_SCOPED(clt_str) text = {0};
    clt_str_printf(&text,
                   "{\"model\": {\"type\": \"graph\", \"layers\": [\n%s\n]},\n"
                   " \"data\": {\"type\": \"synthetic\", \"shape\": [1]}}",
                   net->layers.text);
    CLT_TRY(clt_str_check(&text));
    return clt_start_parse(text.text, "net", overrides, (int)net->n_overrides, &start, &net->config);
}

clt_status clt_api_build(cltrain *net)
{
    if (net->run)
        return CLT_OK;
    if (!net->config)
        CLT_TRY(make_config(net));
    net->options = (clt_run_options){.config = net->config,
                                     .init = clt_start_weights(net->config),
                                     .caps_mask = OCL_CAPS_ALL,
                                     .source = net->source,
                                     .predicts = true};
    clt_status status = clt_run_create(&net->options, CLT_JOB_TRAIN, &net->run);
    if (status == CLT_OK)
        status = clt_run_take_init(net->run);
    if (status != CLT_OK) {
        clt_run_destroy(net->run);
        net->run = NULL;
    }
    if (status != CLT_OK) { /* the caller may correct keys and files and build again */
        clt_config_destroy(net->config);
        net->config = NULL;
    }
    return status;
}

int cltrain_build(cltrain *net)
{
    return code(clt_api_build(net));
}

int cltrain_train(cltrain *net, cltrain_on_step on_step, void *context)
{
    clt_status status = clt_api_build(net);
    return code(status == CLT_OK ? clt_api_train(net, on_step, context) : status);
}

static clt_status evaluate(cltrain *net, clt_eval_metrics *m)
{
    CLT_TRY(clt_api_build(net));
    if (!net->run->eval)
        CLT_FAIL(CLT_EUSAGE, "evaluating: the config names no evaluation data");
    return clt_run_evaluate(net->run, -1, 0, m);
}

int cltrain_evaluate_values(cltrain *net, double *mae, double *rmse, double *r2)
{
    clt_eval_metrics m;
    clt_status status = evaluate(net, &m);
    bool any = status == CLT_OK && m.values > 0;
    if (status == CLT_OK && mae)
        *mae = any ? m.mae : NAN;
    if (status == CLT_OK && rmse)
        *rmse = any ? m.rmse : NAN;
    if (status == CLT_OK && r2)
        *r2 = any ? m.r2 : NAN;
    return code(status);
}

int cltrain_evaluate(cltrain *net, double *loss, double *accuracy)
{
    clt_eval_metrics m;
    clt_status status = evaluate(net, &m);
    if (status == CLT_OK && loss)
        *loss = m.loss;
    if (status == CLT_OK && accuracy)
        *accuracy = m.accuracy;
    return code(status);
}

int cltrain_predict(cltrain *net, int64_t samples, const float *x, float *out, int64_t out_count)
{
    clt_status status = clt_api_build(net);
    return code(status == CLT_OK ? clt_api_predict(net, samples, x, out, out_count) : status);
}

int cltrain_save(cltrain *net, const char *path)
{
    clt_status status = clt_api_build(net);
    return code(status == CLT_OK ? clt_run_save_parameters(net->run, path) : status);
}

/* Weights fit only inputs that are standardised as they were in training. So if the data.json beside the
 * weights describes another table than the net's own, this is CLT_ECHECKPOINT. */
static clt_status check_table(const cltrain *net, const char *path)
{
    const clt_table *own = net->run->job->train_source->table;
    CLT_SCOPED(clt_data_facts) facts = {0};
    if (!own)
        return CLT_OK;
    CLT_TRY(clt_known_beside(path, &facts));
    if (facts.table && !clt_table_same(own, facts.table))
        CLT_FAIL(CLT_ECHECKPOINT,
                 "loading '%s': the " CLT_DATA_FACTS_FILE
                 " beside it says that these weights were trained on a table with other columns, means or "
                 "deviations than the net's own table has, so that it would predict "
                 "something else; build the net with the table that they were trained on",
                 path);
    return CLT_OK;
}

int cltrain_load(cltrain *net, const char *path)
{
    clt_status status = clt_api_build(net);
    if (status == CLT_OK)
        status = check_table(net, path);
    return code(status == CLT_OK ? clt_run_load_parameters(net->run, path) : status);
}
