/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a template as a Jinja program, which other programs read beside exported weights. */
#include <string.h>

#include "engine/data/chat/chat_template.h"

/* Appends a text as a Jinja string. */
static void put_string(clt_str *out, const char *text)
{
    clt_str_append(out, "'");
    for (; *text; text++) {
        if (*text == '\n')
            clt_str_append(out, "\\n");
        else if (*text == '\'' || *text == '\\')
            clt_str_printf(out, "\\%c", *text);
        else
            clt_str_append_n(out, text, 1);
    }
    clt_str_append(out, "'");
}

/* Appends " + 'text'", or nothing for an empty text. */
static void put_more(clt_str *out, const char *text)
{
    if (!*text)
        return;
    clt_str_append(out, " + ");
    put_string(out, text);
}

/* Appends what stands after a turn; NULL: the end-of-text token. */
static void put_end(clt_str *out, const char *end, const char *after)
{
    if (end)
        put_more(out, end);
    else
        clt_str_append(out, " + eos_token");
    put_more(out, after);
}

static void put_turn(clt_str *out, const clt_chat_template *t, clt_chat_role role, const char *dated)
{
    bool answer = role == CLT_CHAT_ASSISTANT, trim = t->trim || (answer && t->trim_answers);
    clt_str_append(out, "{{ ");
    put_string(out, t->open[role]);
    put_more(out, role == CLT_CHAT_SYSTEM ? dated : "");
    clt_str_printf(out, " + message['content']%s", trim ? "|trim" : "");
    if (answer)
        put_end(out, t->end, t->after);
    else
        put_end(out, t->close[role], t->close[role] ? "" : t->after);
    clt_str_append(out, " }}");
}

/* Before the turns: ns.last becomes the place of the user's last turn. */
static const char find_last[] = "{% set ns = namespace(last=messages|length) %}{% for message in messages "
                                "%}{% if message['role'] == 'user' %}"
                                "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}";

/* An answer of a template with thoughts: the block is written after the user's last turn, and left out before
 * it. */
static void put_thought(clt_str *out, const clt_chat_template *t)
{
    clt_str_append(
        out, "{% set text = message['content'] %}{% set thought = '' %}{% if message['reasoning_content'] is "
             "string %}"
             "{% set thought = message['reasoning_content'] %}{% elif '</think>' in text %}"
             "{% set thought = text.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}"
             "{% set text = text.split('</think>')[-1].lstrip('\\n') %}{% endif %}{{ ");
    put_string(out, t->open[CLT_CHAT_ASSISTANT]);
    clt_str_append(out, " }}{% if loop.index0 > ns.last and (loop.last or thought) %}"
                        "{{ '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + text.lstrip('\\n') }}"
                        "{% else %}{{ text }}{% endif %}{{ ''");
    put_end(out, t->end, t->after);
    clt_str_append(out, " }}");
}

/* Where a question ends, for templates with thoughts: after an empty block if the model is not to think. */
static const char *no_thought(const clt_chat_template *t)
{
    if (t->no_thought)
        return "{{ '<think>\\n\\n</think>\\n\\n' }}";
    return t->thinks ? "{% if enable_thinking is defined and not enable_thinking %}{{ "
                       "'<think>\\n\\n</think>\\n\\n' }}"
                       "{% endif %}"
                     : "";
}

/* The system turn of a conversation that has none. */
static void put_default_system(clt_str *out, const clt_chat_template *t, const char *system,
                               const char *dated)
{
    clt_str_append(out, "{% if messages[0]['role'] != 'system' %}{{ ");
    put_string(out, t->open[CLT_CHAT_SYSTEM]);
    put_more(out, dated);
    put_more(out, system);
    put_end(out, t->close[CLT_CHAT_SYSTEM], t->close[CLT_CHAT_SYSTEM] ? "" : t->after);
    clt_str_append(out, " }}{% endif %}");
}

clt_status clt_chat_template_print(const clt_chat_template *t, const char *system, const char *date,
                                   clt_str *out)
{
    static const char *const roles[CLT_CHAT_ROLES] = {"system", "user", "assistant"};
    CLT_SCOPED(clt_str) dated = {0};
    CLT_TRY(clt_chat_template_dated(t, date, &dated));
    if (t->tools) /* the forms of tools are in the model's own program only */
        clt_str_append(out, "{% if tools %}{{ raise_exception('this template was exported without tools') }}"
                            "{% endif %}");
    if (t->thinks)
        clt_str_append(out, find_last);
    if (t->begin)
        clt_str_append(out, "{{ bos_token }}");
    if (*system || t->system)
        put_default_system(out, t, *system ? system : t->system, dated.text);
    clt_str_append(out, "{% for message in messages %}");
    if (t->tools)
        clt_str_append(out,
                       "{% if message['tool_calls'] %}{{ raise_exception('this template was exported without "
                       "tools') }}{% endif %}");
    for (int role = t->no_system ? CLT_CHAT_USER : CLT_CHAT_SYSTEM; role < CLT_CHAT_ROLES; role++) {
        clt_str_printf(out, "{%% %s message['role'] == '%s' %%}",
                       role == (t->no_system ? CLT_CHAT_USER : CLT_CHAT_SYSTEM) ? "if" : "elif", roles[role]);
        if (t->thinks && role == CLT_CHAT_ASSISTANT)
            put_thought(out, t);
        else
            put_turn(out, t, (clt_chat_role)role, dated.text);
    }
    clt_str_append(out, "{% else %}{{ raise_exception('unknown role: ' + message['role']) }}"
                        "{% endif %}{% endfor %}");
    if (*t->open[CLT_CHAT_ASSISTANT]) {
        clt_str_append(out, "{% if add_generation_prompt %}{{ ");
        put_string(out, t->open[CLT_CHAT_ASSISTANT]);
        clt_str_append(out, " }}");
        clt_str_append(out, no_thought(t));
        clt_str_append(out, "{% endif %}");
    }
    return clt_str_check(out);
}
