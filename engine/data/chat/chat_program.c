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
    if (t->begin)
        clt_str_append(out, "{{ bos_token }}");
    if (*system || t->system)
        put_default_system(out, t, *system ? system : t->system, dated.text);
    clt_str_append(out, "{% for message in messages %}");
    for (int role = t->no_system ? CLT_CHAT_USER : CLT_CHAT_SYSTEM; role < CLT_CHAT_ROLES; role++) {
        clt_str_printf(out, "{%% %s message['role'] == '%s' %%}",
                       role == (t->no_system ? CLT_CHAT_USER : CLT_CHAT_SYSTEM) ? "if" : "elif", roles[role]);
        put_turn(out, t, (clt_chat_role)role, dated.text);
    }
    clt_str_append(out, "{% else %}{{ raise_exception('unknown role: ' + message['role']) }}"
                        "{% endif %}{% endfor %}");
    if (*t->open[CLT_CHAT_ASSISTANT]) {
        clt_str_append(out, "{% if add_generation_prompt %}{{ ");
        put_string(out, t->open[CLT_CHAT_ASSISTANT]);
        clt_str_append(out, " }}{% endif %}");
    }
    return clt_str_check(out);
}
