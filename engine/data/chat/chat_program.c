/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a template as a Jinja program. It is stored beside exported weights, for other programs. */
#include "engine/data/chat/chat_program.h"

#include <string.h>

void clt_program_string(clt_str *out, const char *text)
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
    clt_program_string(out, text);
}

/* Appends the end of a turn: the marker `end` (NULL: the end-of-text token) and the text `after`. */
static void put_end(clt_str *out, const char *end, const char *after)
{
    if (end)
        put_more(out, end);
    else
        clt_str_append(out, " + eos_token");
    put_more(out, after);
}

/* Appends an expression to a sum; NULL: nothing. */
static void put_expression(clt_str *out, const char *expression)
{
    if (expression)
        clt_str_printf(out, " + %s", expression);
}

/* Writes a turn without calls. */
static void put_turn(clt_str *out, const clt_chat_template *t, clt_chat_role role, const char *dated)
{
    const char *told = t->tools ? clt_program_told(t->tools, role) : NULL;
    bool answer = role == CLT_CHAT_ASSISTANT, trim = t->trim || (answer && t->trim_answers);
    bool after = t->tools == CLT_CHAT_TOOLS_QWEN, ahead = told && t->tools == CLT_CHAT_TOOLS_MISTRAL;
    clt_str_printf(out, "{{ %s%s", ahead ? told : "", ahead ? " + " : "");
    clt_program_string(out, t->open[role]);
    put_expression(out, t->tools ? clt_program_before(t->tools, role) : NULL);
    put_more(out, role == CLT_CHAT_SYSTEM ? dated : "");
    put_expression(out, after || ahead ? NULL : told);
    clt_str_printf(out, " + message['content']%s", trim ? "|trim" : "");
    put_expression(out, after ? told : NULL);
    if (answer)
        put_end(out, t->end, t->after);
    else
        put_end(out, t->close[role], t->close[role] ? "" : t->after);
    clt_str_append(out, " }}");
}

/* Writes an answer that may have calls. In the templates of Llama and Mistral the calls replace the text of
 * the answer. */
static void put_answer(clt_str *out, const clt_chat_template *t)
{
    if (t->tools != CLT_CHAT_TOOLS_QWEN) {
        clt_str_append(out, "{% if message['tool_calls'] %}");
        if (t->tools == CLT_CHAT_TOOLS_LLAMA) {
            clt_str_append(out, "{{ ");
            clt_program_string(out, t->open[CLT_CHAT_ASSISTANT]);
            clt_str_append(out, " }}");
        }
        clt_str_append(out, clt_program_calls(t->tools, false));
        clt_str_append(out, "{{ ''");
        put_end(out, t->end, t->after);
        clt_str_append(out, " }}{% else %}");
        put_turn(out, t, CLT_CHAT_ASSISTANT, "");
        clt_str_append(out, "{% endif %}");
        return;
    }
    clt_str_append(out, "{% set text = message['content'] if message['content'] is string else '' %}");
    clt_str_append(out, "{{ ");
    clt_program_string(out, t->open[CLT_CHAT_ASSISTANT]);
    clt_str_append(out, " + text }}");
    clt_str_append(out, clt_program_calls(t->tools, false));
    clt_str_append(out, "{{ ''");
    put_end(out, t->end, t->after);
    clt_str_append(out, " }}");
}

/* A part of the program before the turns: sets ns.last to the index of the user's last turn. */
static const char find_last[] =
    "{% set ns = namespace(last=messages|length) %}{% for message in messages "
    "%}{% if message['role'] == 'user' and not (message['content'].startswith('<tool_response>') and "
    "message['content'].endswith('</tool_response>')) %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}";

/* Writes an answer of a template with thoughts. Its block <think> is included if the answer comes after the
 * user's last turn and has a thought or is the last message; else it is omitted. */
static void put_thought(clt_str *out, const clt_chat_template *t)
{
    clt_str_append(
        out, "{% set text = message['content'] if message['content'] is string else '' %}{% set thought = '' "
             "%}{% if message['reasoning_content'] is "
             "string %}"
             "{% set thought = message['reasoning_content'] %}{% elif '</think>' in text %}"
             "{% set thought = text.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}"
             "{% set text = text.split('</think>')[-1].lstrip('\\n') %}{% endif %}{{ ");
    clt_program_string(out, t->open[CLT_CHAT_ASSISTANT]);
    clt_str_append(out, " }}{% if loop.index0 > ns.last and (loop.last or thought) %}"
                        "{{ '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + text.lstrip('\\n') }}"
                        "{% else %}{{ text }}{% endif %}");
    clt_str_append(out, clt_program_calls(t->tools, true));
    clt_str_append(out, "{{ ''");
    put_end(out, t->end, t->after);
    clt_str_append(out, " }}");
}

/* The text at the end of a question, for templates with thoughts: an empty block <think> if the model is not
 * to think. */
static const char *no_thought(const clt_chat_template *t)
{
    if (t->no_thought)
        return "{{ '<think>\\n\\n</think>\\n\\n' }}";
    return t->thinks ? "{% if enable_thinking is defined and not enable_thinking %}{{ "
                       "'<think>\\n\\n</think>\\n\\n' }}"
                       "{% endif %}"
                     : "";
}

/* Writes a system turn for a conversation without one. If `system` is NULL, the turn only describes the
 * tools. */
static void put_default_system(clt_str *out, const clt_chat_template *t, const char *system,
                               const char *dated)
{
    const char *told = t->tools == CLT_CHAT_TOOLS_QWEN ? "(told.text if tools else '')" : NULL;
    clt_str_printf(out, "{%% if messages[0]['role'] != 'system'%s %%}{{ ", system ? "" : " and tools");
    clt_program_string(out, t->open[CLT_CHAT_SYSTEM]);
    put_expression(out, t->tools ? clt_program_before(t->tools, CLT_CHAT_SYSTEM) : NULL);
    put_more(out, dated);
    put_more(out, system ? system : "");
    if (told && system)
        put_expression(out, "('\\n\\n' if tools else '')");
    put_expression(out, told);
    put_end(out, t->close[CLT_CHAT_SYSTEM], t->close[CLT_CHAT_SYSTEM] ? "" : t->after);
    clt_str_append(out, " }}{% endif %}");
}

clt_status clt_chat_template_print(const clt_chat_template *t, const char *system, const char *date,
                                   clt_str *out)
{
    static const char *const roles[CLT_CHAT_ROLES] = {"system", "user", "assistant"};
    CLT_SCOPED(clt_str) dated = {0};
    CLT_TRY(clt_chat_template_dated(t, date, &dated));
    if (t->tools)
        clt_program_tell(out, t->tools);
    if (t->thinks)
        clt_str_append(out, find_last);
    if (t->begin)
        clt_str_append(out, "{{ bos_token }}");
    if (*system || t->system || t->tools == CLT_CHAT_TOOLS_QWEN)
        put_default_system(out, t, *system ? system : t->system, dated.text);
    clt_str_append(out, "{% for message in messages %}");
    for (int role = t->no_system ? CLT_CHAT_USER : CLT_CHAT_SYSTEM; role < CLT_CHAT_ROLES; role++) {
        clt_str_printf(out, "{%% %s message['role'] == '%s' %%}",
                       role == (t->no_system ? CLT_CHAT_USER : CLT_CHAT_SYSTEM) ? "if" : "elif", roles[role]);
        if (t->thinks && role == CLT_CHAT_ASSISTANT)
            put_thought(out, t);
        else if (t->tools && role == CLT_CHAT_ASSISTANT)
            put_answer(out, t);
        else
            put_turn(out, t, (clt_chat_role)role, dated.text);
    }
    if (t->tools) {
        clt_str_append(out, "{% elif message['role'] == 'tool' %}");
        clt_str_append(out, clt_program_answers(t->tools));
    }
    clt_str_append(out, "{% else %}{{ raise_exception('unknown role: ' + message['role']) }}"
                        "{% endif %}{% endfor %}");
    if (*t->open[CLT_CHAT_ASSISTANT]) {
        clt_str_append(out, "{% if add_generation_prompt %}{{ ");
        clt_program_string(out, t->open[CLT_CHAT_ASSISTANT]);
        clt_str_append(out, " }}");
        clt_str_append(out, no_thought(t));
        clt_str_append(out, "{% endif %}");
    }
    return clt_str_check(out);
}
