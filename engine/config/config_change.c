/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes of a config that has been read: single values set by code, and copies with other values. */
#include "engine/config/config.h"

#include <string.h>

#include "engine/base/text.h"
#include "engine/config/config_internal.h"

clt_status clt_config_set(clt_config *config, const char *key, const char *json_value)
{
    clt_config_problems list = {0};
    clt_config_value value;
    int index = clt_config_key_index(key);
    char *source = clt_arena_printf(config->arena, "setting '%s'", key);
    if (!source)
        CLT_FAIL(CLT_ENOMEM, "setting %s: out of host memory", key);
    if (index < 0) {
        char *section = clt_arena_strdup(config->arena, key);
        char *dot = section ? strchr(section, '.') : NULL;
        if (dot)
            *dot = '\0';
        clt_config_report_unknown(&list, (clt_place){source, 0, 0}, dot ? section : NULL, dot ? dot + 1 : key,
                                  (clt_given_value){json_value, false});
        return clt_config_problems_finish(CLT_OK, &list);
    }
    clt_status status = clt_config_read_given(config, index, json_value, source, &value, &list);
    CLT_TRY(clt_config_problems_finish(status, &list));
    config->values[index] = value;
    return clt_config_build_model(config);
}

clt_status clt_config_set_text(clt_config *config, const char *key, const char *text)
{
    CLT_SCOPED(clt_str) quoted = {0};
    clt_json_writer w = clt_json_writer_make(&quoted, 0);
    clt_jw_string(&w, text);
    CLT_TRY(clt_str_check(&quoted));
    return clt_config_set(config, key, quoted.text);
}

clt_status clt_config_override_text(const char *key, const char *text, clt_str *out)
{
    clt_str_printf(out, "%s=", key);
    clt_json_writer w = clt_json_writer_make(out, 0);
    clt_jw_string(&w, text);
    return clt_str_check(out);
}

clt_status clt_config_with(const clt_config *config, const char *source, const char *const *overrides,
                           int n_overrides, clt_config **out)
{
    CLT_SCOPED(clt_str) text = {0};
    *out = NULL;
    CLT_TRY(clt_config_print(config, false, &text));
    return clt_config_parse(text.text, source, overrides, n_overrides, out);
}
