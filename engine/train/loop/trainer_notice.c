/* SPDX-License-Identifier: Apache-2.0
 *
 * Notices of the cloud in a training: decides which ranks watch for them, tells the user of them, and asks
 * for the checkpoint that some of them need. trainer_decide.c decides that the run ends. */
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

/* Reports a notice by a line for the user, an event, and the hook. Rank 0 repeats the notices of other
 * hosts. */
static void tell_notice(clt_loop *l, const clt_notice *notice)
{
    char text[400];
    snprintf(text, sizeof text, "notice of %s: %s; %s", notice->provider, notice->text,
             notice->kind == CLT_NOTICE_STOP ? "the run finishes its step, saves and ends"
                                             : "the run saves and continues");
    clt_tell(l, text);
    note(l, notice->provider, notice->kind, notice->text);
    clt_hook_notice(l, notice->provider, notice);
    if (l->run && l->run->ranks.rank != 0 && l->unshared_notice.kind != CLT_NOTICE_STOP)
        l->unshared_notice = *notice;
}

clt_status clt_share_notice(clt_loop *l)
{
    const comm_info *ranks = &l->run->ranks;
    struct {
        clt_notice notice;
        char host[sizeof ranks->host];
    } told = {.notice = l->unshared_notice};
    int64_t first = l->unshared_notice.kind != CLT_NOTICE_NONE ? ranks->rank : ranks->ranks;
    CLT_TRY(comm_all_reduce(l->options->comm, &first, 1, COMM_I64, COMM_MIN));
    if (first == ranks->ranks)
        return CLT_OK;
    snprintf(told.host, sizeof told.host, "%s", ranks->host);
    CLT_TRY(comm_broadcast(l->options->comm, &told, sizeof told, (int)first));
    if (ranks->rank == first)
        l->unshared_notice.kind = CLT_NOTICE_NONE;
    if (ranks->rank != 0)
        return CLT_OK;
    char text[sizeof told.host + sizeof told.notice.text + 8];
    snprintf(text, sizeof text, "%s: %s", told.host, told.notice.text);
    note(l, told.notice.provider, told.notice.kind, text);
    l->noticed = l->noticed || told.notice.kind == CLT_NOTICE_STOP;
    return CLT_OK;
}

void clt_end_by_notice(clt_loop *l)
{
    clt_look_for_notices(l); /* a notice may have come just before the decision to end */
    if (!l->noticed && l->reports)
        note(l, "another host", CLT_NOTICE_STOP, "the cloud will take away the machine of another rank");
}

void clt_look_for_notices(clt_loop *l)
{
    clt_notice newest;
    char line[400];
    while (clt_notices_take_trouble(l->notices, line, sizeof line))
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
