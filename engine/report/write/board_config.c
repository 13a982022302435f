/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the hyper-parameters for TensorBoard; the config's schema says which keys there are. */
#include "engine/report/write/board_config.h"

#include <string.h>

#include "engine/base/thread.h"
#include "engine/report/write/protobuf.h"

enum { DATA_EXPERIMENT = 2, DATA_START = 3, DATA_END = 4 }; /* HParamsPluginData */
enum { EXPERIMENT_CREATED = 3, EXPERIMENT_HPARAM = 4, EXPERIMENT_METRIC = 5 };
enum { HPARAM_NAME = 1, HPARAM_TYPE = 4, TYPE_STRING = 1, TYPE_BOOL = 2, TYPE_FLOAT = 3 };
enum { METRIC_NAME = 1, METRIC_TAG = 2 };
enum { START_HPARAMS = 1, START_TIME = 5, MAP_KEY = 1, MAP_VALUE = 2 };
enum { VALUE_NUMBER = 2, VALUE_STRING = 3, VALUE_BOOL = 4 }; /* google.protobuf.Value */
enum { END_STATUS = 1, END_TIME = 2, SUCCESS = 1 };

static bool is_hyper_parameter(const clt_config_key *key)
{
    static const char *const sections[] = {"model.",     "data.",     "optimizer.", "schedule.",
                                           "precision.", "parallel.", "train."};
    static const char *const others[] = {"data.workers", "data.prefetch", "train.log_every",
                                         "train.eval_every", "train.eval_batches"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(key->path, others[i]) == 0)
            return false;
    if (key->type == CLT_CFG_STRING || key->type == CLT_CFG_STRINGS)
        return false; /* paths */
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (strncmp(key->path, sections[i], strlen(sections[i])) == 0)
            return true;
    return false;
}

/* Writes the value of a key as a google.protobuf.Value and returns its type. */
static int put_value(const clt_config *config, const clt_config_key *key, clt_str *out)
{
    CLT_SCOPED(clt_str) list = {0};
    switch (key->type) {
    case CLT_CFG_INT:
        clt_pb_double(out, VALUE_NUMBER, (double)clt_config_int(config, key->path));
        return TYPE_FLOAT;
    case CLT_CFG_FLOAT:
        clt_pb_double(out, VALUE_NUMBER, clt_config_float(config, key->path));
        return TYPE_FLOAT;
    case CLT_CFG_BOOL:
        clt_pb_int(out, VALUE_BOOL, clt_config_bool(config, key->path));
        return TYPE_BOOL;
    case CLT_CFG_CHOICE:
        clt_pb_string(out, VALUE_STRING, clt_config_string(config, key->path));
        return TYPE_STRING;
    case CLT_CFG_INTS:
        for (int i = 0; i < clt_config_list_count(config, key->path) && i < 64; i++)
            clt_str_printf(&list, "%s%lld", i ? ", " : "",
                           (long long)clt_config_list_int(config, key->path, i));
        break;
    case CLT_CFG_FLOATS:
        if (clt_config_list_count(config, key->path) == 1) {
            clt_pb_double(out, VALUE_NUMBER, clt_config_float(config, key->path));
            return TYPE_FLOAT;
        }
        for (int i = 0; i < clt_config_list_count(config, key->path) && i < 64; i++)
            clt_str_printf(&list, "%s%g", i ? ", " : "", clt_config_list_float(config, key->path, i));
        break;
    default:
        return 0;
    }
    out->failed |= list.failed;
    clt_pb_string(out, VALUE_STRING, list.text ? list.text : "");
    return TYPE_STRING;
}

static void put_metrics(clt_str *experiment)
{
    static const char *const tags[] = {"eval/loss", "eval/accuracy", "train/loss", "train/accuracy",
                                       "speed/tokens_per_s"};
    CLT_SCOPED(clt_str) name = {0}, info = {0};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        clt_pb_string(&name, METRIC_TAG, tags[i]);
        clt_pb_message(&info, METRIC_NAME, &name);
        clt_pb_message(experiment, EXPERIMENT_METRIC, &info);
    }
}

/* Writes model.layers if the key is a number: in configs of the family `graph` it is a list. */
static void put_layers(const clt_config *config, clt_str *value, int *type)
{
    const clt_json *layers = clt_json_get(clt_config_model(config, NULL), "layers");
    if (clt_json_typeof(layers) != CLT_JSON_NUMBER)
        return;
    clt_pb_double(value, VALUE_NUMBER, clt_json_number(layers));
    *type = TYPE_FLOAT;
}

void clt_board_hyper_parameters(const clt_config *config, clt_str *experiment, clt_str *session)
{
    CLT_SCOPED(clt_str) all = {0}, values = {0}, info = {0}, value = {0}, entry = {0};
    clt_pb_double(&all, EXPERIMENT_CREATED, clt_wall_time());
    for (const clt_config_key *key = clt_config_schema(); key->path; key++) {
        int type = 0;
        if (!is_hyper_parameter(key))
            continue;
        if (key->type == CLT_CFG_LAYERS)
            put_layers(config, &value, &type);
        else
            type = put_value(config, key, &value);
        if (!type)
            continue;
        clt_pb_string(&info, HPARAM_NAME, key->path);
        clt_pb_int(&info, HPARAM_TYPE, type);
        clt_pb_message(&all, EXPERIMENT_HPARAM, &info);
        clt_pb_string(&entry, MAP_KEY, key->path);
        clt_pb_message(&entry, MAP_VALUE, &value);
        clt_pb_message(&values, START_HPARAMS, &entry);
    }
    put_metrics(&all);
    clt_pb_double(&values, START_TIME, clt_wall_time());
    clt_pb_message(experiment, DATA_EXPERIMENT, &all);
    clt_pb_message(session, DATA_START, &values);
}

void clt_board_session_end(double time, clt_str *out)
{
    CLT_SCOPED(clt_str) end = {0};
    clt_pb_int(&end, END_STATUS, SUCCESS);
    clt_pb_double(&end, END_TIME, time);
    clt_pb_message(out, DATA_END, &end);
}
