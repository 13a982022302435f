/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the weights that a config or the command line names while the config is read, because values of some
 * keys follow from them. The run reads the weights' own values later. */
#include "engine/pretrained/start.h"

#include <string.h>

#include "engine/pretrained/peft.h"
#include "engine/pretrained/pretrained.h"

/* The weights of one config, open while the config is read. */
typedef struct opening {
    const clt_start *start;
    bool without; /* take nothing from the weights */
    bool failed;  /* the weights could not be opened */
    clt_pretrained *pretrained;
    clt_peft *peft;
} opening;

static void free_opening(opening *o)
{
    clt_pretrained_close(o->pretrained);
    clt_peft_close(o->peft);
}
CLT_SCOPED_VALUE(opening, free_opening)

static clt_status check_needed(const clt_start *s)
{
    if (s->adapter)
        CLT_FAIL(CLT_EUSAGE,
                 "--adapter %.200s: it belongs to weights, and there is no --init PATH and no model.init",
                 s->adapter);
    if (s->init_skip)
        CLT_FAIL(
            CLT_EUSAGE,
            "--init-skip %.200s: it says which parameters the weights to start from leave out, and there "
            "is no --init PATH and no model.init",
            s->init_skip);
    return CLT_OK;
}

static clt_status open_presets(void *context, const char *init, const clt_config_presets **out)
{
    opening *o = context;
    const clt_start *s = o->start;
    *out = NULL;
    if (!*init)
        return check_needed(s);
    if (o->without)
        return CLT_OK;
    clt_status status = clt_pretrained_open(init, &o->pretrained);
    o->failed = status == CLT_ECHECKPOINT;
    CLT_TRY(s->init ? status : clt_fail_prefix(status, "model.init"));
    if (s->init_skip)
        clt_pretrained_drop_names(o->pretrained);
    if (s->adapter) {
        CLT_TRY(clt_peft_open(s->adapter, &o->peft));
        CLT_TRY(clt_pretrained_add_adapter(o->pretrained, clt_peft_presets(o->peft)));
    }
    *out = clt_pretrained_presets(o->pretrained, s->training);
    return CLT_OK;
}

/* text: NULL: `source` is a file to be read. */
static clt_status read_once(const char *text, const char *source, const char *const *overrides, int n,
                            opening *o, clt_config **out)
{
    const clt_config_start from = {.init = o->start->init, .open = open_presets, .context = o};
    return text ? clt_config_parse_from(text, source, overrides, n, &from, out)
                : clt_config_load_from(source, overrides, n, &from, out);
}

/* Reads a config. If the weights may be missing, a config that sets all keys is accepted without them. */
static clt_status read_config(const char *text, const char *source, const char *const *overrides, int n,
                              const clt_start *start, clt_config **out)
{
    CLT_SCOPED(opening) with = {.start = start};
    CLT_SCOPED(opening) without = {.start = start, .without = true};
    clt_status status = read_once(text, source, overrides, n, &with, out);
    if (!with.failed || !start->may_be_gone)
        return status;
    clt_error error = {0};
    clt_error_take(status, &error);
    if (read_once(text, source, overrides, n, &without, out) == CLT_OK)
        return CLT_OK;
    return clt_error_put(&error);
}

clt_status clt_start_load(const char *path, const char *const *overrides, int n_overrides,
                          const clt_start *start, clt_config **out)
{
    return read_config(NULL, path, overrides, n_overrides, start, out);
}

clt_status clt_start_parse(const char *text, const char *source, const char *const *overrides,
                           int n_overrides, const clt_start *start, clt_config **out)
{
    return read_config(text, source, overrides, n_overrides, start, out);
}

const char *clt_start_weights(const clt_config *config)
{
    const char *path = clt_config_string(config, "model.init");
    return *path ? path : NULL;
}

clt_status clt_start_published(const clt_pretrained *p, const char *folder, const char *const *overrides,
                               int n_overrides, const char *tokenizer, const char *adapter, clt_config **out)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_str) text = {0};
    const clt_start start = {.adapter = adapter};
    CLT_TRY(clt_pretrained_config(p, &text));
    CLT_TRY(clt_start_parse(text.text, folder, overrides, n_overrides, &start, &config));
    if (tokenizer)
        CLT_TRY(clt_config_set_text(config, "data.tokenizer", tokenizer));
    *out = CLT_TAKE(config);
    return CLT_OK;
}
