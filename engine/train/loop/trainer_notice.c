/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices of the cloud in a training: who watches for them, what the user reads, and the checkpoint that some
 * of them ask for. That the run ends is decided in trainer_decide.c. */
#include <stdio.h>

#include "comm/comm.h"
#include "engine/train/loop/trainer_loop.h"

clt_status clt_watch_notices(clt_loop *l)
{
    const clt_config *c = l->options->config;
    if (l->options->comm && comm_describe(l->options->comm)->local_rank != 0)
        return CLT_OK; /* another rank of this host watches */
    l->notice_options = (clt_notice_options){.provider = clt_config_string(c, "cloud.provider"),
                                             .file = clt_config_string(c, "cloud.notice_file"),
                                             .url = clt_config_string(c, "cloud.notice_url"),
                                             .endpoint = clt_config_string(c, "cloud.endpoint"),
                                             .seconds = clt_config_float(c, "cloud.poll_seconds")};
    return clt_notices_open(&l->notice_options, &l->notices);
}

static void note(const clt_loop *l, const char *provider, clt_notice_kind kind, const char *text)
{
    const clt_event_field fields[] = {CLT_FIELD_TEXT("provider", provider),
                                      CLT_FIELD_TEXT("kind", clt_notice_kind_name(kind)),
                                      CLT_FIELD_TEXT("text", text)};
    if (clt_rundir_event(l->dir, "notice", l->finished, fields, sizeof fields / sizeof *fields) != CLT_OK)
        clt_error_clear(); /* metrics that cannot be written end the run at the next step */
}

/* The line that the user reads, an event, and the hook. */
static void tell_notice(clt_loop *l, const clt_notice *notice)
{
    char text[400];
    const char *provider = clt_notices_provider(l->notices);
    snprintf(text, sizeof text, "notice of %s: %s; %s", provider, notice->text,
             notice->kind == CLT_NOTICE_STOP ? "the run finishes its step, saves and ends"
                                             : "the run saves and goes on");
    clt_tell(l, text);
    note(l, provider, notice->kind, notice->text);
    clt_hook_notice(l, provider, notice);
}

void clt_end_by_notice(clt_loop *l)
{
    clt_look_for_notices(l); /* it may have come just before the decision to end */
    if (!l->noticed && !l->quiet)
        note(l, "another host", CLT_NOTICE_STOP, "the machine of another rank will be taken away");
}

void clt_look_for_notices(clt_loop *l)
{
    clt_notice newest;
    char line[400];
    if (clt_notices_take_trouble(l->notices, line, sizeof line))
        clt_tell_warning(l, line);
    if (clt_notices_take_save(l->notices)) {
        clt_notices_newest(l->notices, &newest);
        l->save_asked = true;
        if (newest.kind == CLT_NOTICE_SAVE)
            tell_notice(l, &newest);
    }
    if (clt_notices_stop(l->notices) && !l->noticed) {
        clt_notices_newest(l->notices, &newest);
        l->noticed = true;
        tell_notice(l, &newest);
    }
}
