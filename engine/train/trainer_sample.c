/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples: what a language model writes on the way (log.sample_prompt). The text comes from the newest
 * checkpoint, in the same way as 'cltrain generate' makes it, so training itself computes what it would
 * compute without. */
#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/span.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/train/generate.h"
#include "engine/train/trainer_loop.h"

#define TEMPERATURE 0.8

static const char *prompt_of(const clt_loop *l)
{
    return clt_config_string(l->options->config, "log.sample_prompt");
}

void clt_sample_later(clt_loop *l, const clt_save_result *result)
{
    if (!prompt_of(l)[0] || l->no_samples)
        return;
    snprintf(l->sample_from, sizeof l->sample_from, "%s", result->path);
    l->sample_step = result->step;
}

bool clt_sample_due(const clt_loop *l)
{
    return l->sample_from[0] != '\0';
}

static void take_text(void *context, const char *bytes, size_t count)
{
    clt_str_append_n(context, bytes, count);
}

static clt_status generate(const clt_loop *l, clt_str *text)
{
    const clt_config *c = l->options->config;
    clt_generate_result result;
    const clt_generate_options options = {
        .checkpoint = l->sample_from,
        .prompt = prompt_of(l),
        .max_new = (int)clt_config_int(c, "log.sample_tokens"),
        .sampling = {TEMPERATURE, 0, 1, (uint64_t)clt_config_int(c, "train.seed")},
        .device_spec = ocl_device_describe(l->run->device)->spec,
        .caps_mask = l->options->caps_mask,
        .text = take_text,
        .context = text};
    clt_str_append(text, "");
    CLT_TRY(clt_generate(&options, &result));
    return clt_str_check(text);
}

/* The beginning of the text as one line without anything that a terminal would obey. */
static void one_line(const char *text, char *line, size_t size)
{
    size_t left = strlen(text), n = 0;
    while (left > 0 && n + 5 < size) {
        size_t length = clt_utf8_size(text, left);
        unsigned char first = (unsigned char)text[0], second = length > 1 ? (unsigned char)text[1] : 0;
        bool control = first < ' ' || first == 0x7f || (first == 0xc2 && second < 0xa0);
        if (length == 0 || control)
            line[n++] = length ? ' ' : '?';
        else
            n += (size_t)snprintf(line + n, size - n, "%.*s", (int)length, text);
        text += length ? length : 1;
        left -= length ? length : 1;
    }
    line[n] = '\0';
}

static void tell(clt_loop *l, const clt_str *text)
{
    char line[240];
    const clt_event_field fields[] = {CLT_FIELD_TEXT("prompt", prompt_of(l)),
                                      CLT_FIELD_TEXT("text", text->text)};
    clt_str whole = {0};
    clt_str_printf(&whole, "sample of step %lld: %s%s", (long long)l->sample_step, prompt_of(l), text->text);
    one_line(whole.text ? whole.text : "", line, sizeof line);
    clt_str_free(&whole);
    clt_tell(l, line);
    if (clt_rundir_event(l->dir, "sample", l->sample_step, fields, sizeof fields / sizeof fields[0]) !=
        CLT_OK)
        clt_error_clear(); /* as every event: the next step tells it */
}

void clt_tell_sample(clt_loop *l)
{
    clt_str text = {0};
    char line[512];
    double begin = clt_now();
    clt_watch_break(l->watch, true);
    if (generate(l, &text) == CLT_OK) {
        tell(l, &text);
    } else {
        l->no_samples = true;
        snprintf(line, sizeof line, "log.sample_prompt: no samples are made: %.400s", clt_error_text());
        clt_error_clear();
        clt_tell_warning(l, line);
    }
    clt_str_free(&text);
    l->sample_from[0] = '\0';
    l->last_done = clt_now(); /* not part of the next step's time */
    clt_spans_add(l->run->train->spans, CLT_TRACK_HOST, "sample", l->sample_step, begin, l->last_done);
}
