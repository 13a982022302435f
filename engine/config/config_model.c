/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a document of the model section for the model builder. Values from the file keep their positions, so
 * that the builder's messages point into the user's file. Does not know what the values mean. */
#include <string.h>

#include "engine/config/config_internal.h"

/* model.init is not part of the model: it only says where values come from. */
static bool in_model(const clt_config_key *key)
{
    return strncmp(key->path, "model.", 6) == 0 && strcmp(key->path, "model.init") != 0;
}

/* Messages of the model builder give positions in one text. When an override sets model.layers, that text is
 * the override: its layers keep their positions, and the other values of the section have none. */
clt_status clt_config_build_model(clt_config *config)
{
    const clt_config_value *layers = clt_config_at(config, "model.layers");
    bool override = layers->from == CLT_FROM_OVERRIDE;
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_TRY(clt_json_create(override ? layers->source : config->source, &doc));
    for (int i = 0; clt_config_schema()[i].path; i++) {
        const clt_config_value *value = &config->values[i];
        bool placed = override ? value == layers : value->from == CLT_FROM_FILE;
        if (in_model(&clt_config_schema()[i]) && value->json)
            CLT_TRY(clt_json_put(doc, clt_config_schema()[i].path + strlen("model."), value->json, placed));
    }
    clt_json_destroy(config->model);
    config->model = CLT_TAKE(doc);
    return CLT_OK;
}

const clt_json *clt_config_model(const clt_config *config, const clt_json_doc **doc)
{
    if (doc)
        *doc = config->model;
    return clt_json_root(config->model);
}
