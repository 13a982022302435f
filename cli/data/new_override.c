/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain new: adds the command line's overrides, section.key=value, to the config that is written. */
#include <stdlib.h>
#include <string.h>

#include "cli/data/new_config.h"
#include "engine/config/config.h"
#include "engine/json/json.h"

const char *new_config_given(const new_config *n, const char *key)
{
    size_t length = strlen(key);
    for (int i = 0; i < n->n_overrides; i++)
        if (strncmp(n->overrides[i], key, length) == 0 && n->overrides[i][length] == '=')
            return n->overrides[i] + length + 1;
    return NULL;
}

int64_t new_config_given_int(const new_config *n, const char *key, int64_t preset)
{
    const char *text = new_config_given(n, key);
    long long value = text ? strtoll(text, NULL, 10) : 0;
    return value > 0 ? (int64_t)value : preset;
}

/* Sets a key of the draft to the value that the parsed config has. */
static clt_status take(new_config *n, const clt_json *config, const char *override)
{
    CLT_SCOPED(clt_str) text = {0};
    size_t length = strcspn(override, "="), section = strcspn(override, ".");
    const char *key = clt_arena_printf(n->draft.arena, "%.*s", (int)length, override);
    const char *name = clt_arena_printf(n->draft.arena, "%.*s", (int)section, override);
    if (!key || !name)
        return CLT_ENOMEM;
    const clt_json *object = clt_json_get(config, name);
    const clt_json *value = clt_json_get(object, key + section + 1);
    if (!value)
        CLT_FAIL(CLT_EINTERNAL, "writing a config: %s is not in the config", key);
    clt_json_writer w = clt_json_writer_make(&text, 0);
    clt_jw_value(&w, value);
    CLT_TRY(clt_str_check(&text));
    draft_json(&n->draft, key, clt_arena_strdup(n->draft.arena, text.text));
    return CLT_OK;
}

clt_status new_config_override(new_config *n, const char *out)
{
    CLT_SCOPED(clt_str) text = {0}, resolved = {0};
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    if (n->n_overrides == 0)
        return CLT_OK;
    if (new_config_given(n, "train.steps")) /* only one of these keys may set the training's length */
        draft_remove(&n->draft, "train.epochs");
    if (new_config_given(n, "train.epochs"))
        draft_remove(&n->draft, "train.steps");
    CLT_TRY(draft_write(&n->draft, false, &text));
    CLT_TRY(clt_config_parse(text.text, out, n->overrides, n->n_overrides, &config));
    CLT_TRY(clt_config_print(config, false, &resolved));
    CLT_TRY(clt_json_parse(resolved.text, resolved.length, out, CLT_EINTERNAL, &doc));
    for (int i = 0; i < n->n_overrides; i++)
        CLT_TRY(take(n, clt_json_root(doc), n->overrides[i]));
    return CLT_OK;
}
